//! Who is there, what to tell them, and how much is ours: the state machine of one node of a cluster.
//!
//! [`Cluster`] is told what happens on connections and what time it is, and gives back frames to
//! send. It owns no socket, no clock, no thread and no runtime; times are nanoseconds of one
//! monotonic clock. What a bucket's share is, the limiter knows; this crate decides when nodes tell
//! each other what, so that every spend reaches every node exactly once.
//!
//! The rooms, in the order of a node's life:
//!
//! | file | what happens there |
//! |---|---|
//! | `cluster.rs`, `hold.rs` | the public face, and the checks that wait for an acknowledgement |
//! | `node.rs` | the state of a node, and which frame goes to which room |
//! | `link.rs`, `greeting.rs`, `slots.rs` | the handshake: who the other is, which of two connections stays, whose limit is whose |
//! | `start.rs`, `join.rs`, `coverage.rs`, `serve.rs` | first start, and a snapshot of the others' counts |
//! | `member.rs`, `forget.rs` | who counts as a member; leaving and forgetting |
//! | `found.rs` | the worst that the search for attacks found: committed figures |
//! | `flush.rs`, `batch.rs`, `receive.rs` | batches out, batches in, acknowledgements |
//! | `detect.rs`, `split.rs`, `heal.rs` | a peer falls silent, is lost, and is counted again |
//! | `parts.rs` | heals and snapshots of windows and logs, which take several frames |
//! | `acts.rs` | bans and numbers of single keys |
//! | `renew.rs` | other limits, and numbers that calls bring |
//! | `operation.rs`, `credit.rs` | what operators do to keys; what they gave back and waits for late spends |
//! | `clock.rs` | how far the wall clocks of peers are off |
//! | `status.rs`, `notes.rs` | what people see |

mod acts;
mod batch;
mod clock;
mod cluster;
mod config;
mod coverage;
mod credit;
mod detect;
mod flush;
mod forget;
pub mod found;
mod greeting;
mod heal;
mod hold;
mod join;
mod link;
mod member;
mod node;
mod notes;
mod operation;
mod output;
mod parts;
mod receive;
mod renew;
mod serve;
mod slots;
mod split;
mod start;
mod status;
#[cfg(test)]
mod tests;

pub use clock::SKEW_MAX_MS;
pub use cluster::Cluster;
pub use config::{Config, Identity, LinkId};
pub use forget::ForgetError;
pub use greeting::is_of_name;
pub use hold::HELD_MAX;
pub use notes::{Cause, Note};
pub use output::{Channel, Output};
pub use status::{Counts, PeerState, PeerStatus, Readiness, Refusals, Status};
