//! A member of an rlnode cluster, in the process that embeds it.
//!
//! [`Member`] runs the limiter and the cluster's state machine over real sockets: QUIC between peers,
//! mutual TLS, names that are resolved, timers. What is decided is decided elsewhere, in `limiter` and
//! `cluster`; what is here opens, waits and sends.
//!
//! Whoever embeds it sweeps the tables now and then: see [`limiter::Limiter::sweep`].
//!
//! | file | what happens there |
//! |---|---|
//! | `member.rs`, `settle.rs` | the public face, and checks that wait for an acknowledgement |
//! | `settings.rs`, `status.rs` | what a member is told, and what it shows |
//! | `tls/` | who a node is: certificates, keys, the cluster's secret |
//! | `transport/` | connections between peers; it knows nothing of the cluster |
//! | `sync/` | the thread that owns the state machine, dials, gossips, and keeps time |

mod member;
mod settings;
mod settle;
mod status;
mod sync;
pub mod tls;
pub mod transport;

pub use member::{CheckError, ForgetFailure, Member};
pub use settings::{Clock, Settings, StartError};
pub use status::{AddressState, AddressStatus, GossipStatus, Status};
