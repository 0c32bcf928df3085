//! One limit on many nodes: what a node may spend of a bucket that all of them share.
//!
//! Every node keeps the *common level* of a bucket: its own spends at once, its peers' as they
//! arrive. Between two exchanges it may have only its share of that level in flight, and the share
//! follows the demand that every reachable peer has acknowledged.

mod account;
pub mod bound;
mod charge;
mod convert;
mod credit;
mod decide;
mod delta;
mod demand;
mod fleet;
mod ledger;
mod members;
mod motion;
mod snapshot;
mod split;
mod stand;
mod state;
mod sync;
mod view;
mod wait;

pub(crate) use charge::Charge;
pub(crate) use fleet::{Fleet, FleetEvent};
pub(crate) use ledger::drain;
pub(crate) use ledger::{Ledger, MEMBER_ROW_BYTES};
pub(crate) use stand::{Judgement, SharedBucket, Stand};

pub use delta::{Bucket, Delta, Loss, Numbers, ShareCounts, Standing, StorePart, Sum, Tail, When};
pub use members::{MEMBERS_MAX, Members, member_id, rendezvous};
pub use state::BucketState;
pub(crate) use state::{look, look_as};
pub use view::{View, ViewMember};
pub(crate) use wait::fits_after;
