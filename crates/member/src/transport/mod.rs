//! Connections between peers: QUIC, mutual TLS, frames in and out. It knows nothing of the cluster.
//!
//! One connection is one [`Link`]. It carries one ordered stream in both directions, opened by the
//! side that dialled; from each side a stream of pings, written by a task of its own so that work
//! does not look like silence, and a stream for bulk; and datagrams. What happens is told as
//! [`Event`]s through one bounded queue. All of it runs on the runtime that [`Endpoint::bind`] is
//! called in, which has one thread and nothing else to do.

mod config;
mod counts;
mod endpoint;
mod event;
mod failure;
mod frames;
mod link;
mod socket;

pub use counts::{Counts, Snapshot};
pub use endpoint::{BindError, CONNECTIONS_MAX, Endpoint, EndpointConfig};
pub use event::{EVENT_BYTES_MAX, EVENTS_MAX, Event, Permit};
pub use failure::Failure;
pub use link::{
    Channel, CloseCode, Link, LinkId, OUTGOING_BYTES_MAX, OUTGOING_FRAMES_MAX, SendError,
};
