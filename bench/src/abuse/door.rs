//! The doors that are abused, one at a time.

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;

/// A door of a node, and what its garbage and its well-behaved client speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AbusedDoor {
    /// The frame, one in a datagram: it has no connections, so that there is garbage only
    Udp,
    /// The frame on a unix stream socket
    Stream,
    /// The frame, one in a message of a unix seqpacket socket
    Seqpacket,
    /// HTTP over TCP
    Http,
    /// The Redis protocol over TCP
    Redis,
    /// Envoy's rate limit service over TCP
    Envoy,
}

impl AbusedDoor {
    /// All of them.
    pub(super) const ALL: [Self; 6] =
        [Self::Udp, Self::Stream, Self::Seqpacket, Self::Http, Self::Redis, Self::Envoy];

    /// The word for it, which is also that of the node's metrics.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Stream => "stream",
            Self::Seqpacket => "seqpacket",
            Self::Http => "http",
            Self::Redis => "redis",
            Self::Envoy => "envoy",
        }
    }

    /// Whether a client opens a connection there.
    pub(super) fn has_connections(self) -> bool {
        self != Self::Udp
    }
}

impl fmt::Display for AbusedDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
