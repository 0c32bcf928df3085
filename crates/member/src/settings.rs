//! What a member is told when it starts, and why it may not start.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::tls::{CredentialsError, Identity, TlsFiles};
use crate::transport::BindError;

/// The two clocks of a member. Buckets go by the first alone.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Nanoseconds of one monotonic clock, the one whose readings the limiter is given. It must go on
    /// while the machine is suspended: `CLOCK_BOOTTIME`.
    pub now_ns: fn() -> u64,
    /// Nanoseconds of Unix time. Windows begin and end by it, and peers show the difference.
    pub unix_ns: fn() -> u64,
}

/// What a member is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This node's name, the one that its certificate proves.
    pub node: String,
    /// The cluster's name. Nodes of another cluster are refused.
    pub cluster: String,
    /// Where the node stands; shown, decides nothing. May be empty.
    pub region: String,
    /// Address to listen on for peers, and to dial them from. Port 0 takes any.
    pub listen: SocketAddr,
    /// Address at which peers dial this node where that is another than `listen`: behind a relay or
    /// an address translation, or at the published port of a container. Peers tell it to each other.
    pub advertise: Option<SocketAddr>,
    /// Where peers are: `host:port`, each of one host or a name of DNS that gives many addresses.
    /// This node may be among them. Resolved again while the member runs.
    pub peers: Vec<String>,
    /// Time between two exchanges of everything that has something to tell.
    pub sync_interval: Duration,
    /// Members at a first start, this node included; none: as many as `peers` gives.
    pub expect: Option<usize>,
    /// Ready from the start, on this node's part alone, before the others' counts are known.
    pub ready_early: bool,
    /// Certificates, key and secret.
    pub tls: TlsFiles,
    /// Time after which a missing member is forgotten by a group that is not isolated.
    pub forget_after: Duration,
}

/// Why a member did not start. Nothing is left running.
#[derive(Debug)]
pub enum StartError {
    /// A file of the credentials cannot be used.
    Credentials(CredentialsError),
    /// The certificate is another node's.
    Name {
        /// The name in the settings.
        node: String,
        /// What the certificate proves.
        certificate: Identity,
    },
    /// The peer port cannot be had.
    Bind(BindError),
    /// The system gave no thread, no timer, or no random numbers.
    System(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Credentials(error) => error.fmt(f),
            Self::Name { node, certificate: Identity::Named(name) } => write!(
                f,
                "the certificate is of `{name}`, and this node is `{node}`; name the files of \
                 `{node}`, or start it as `{name}`"
            ),
            Self::Name { node, certificate: Identity::Fleet } => {
                write!(f, "`{node}` is no name that a node can have; choose another")
            }
            Self::Bind(error) => error.fmt(f),
            Self::System(error) => write!(f, "the system gives no thread for peers: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<CredentialsError> for StartError {
    fn from(error: CredentialsError) -> Self {
        Self::Credentials(error)
    }
}

impl From<BindError> for StartError {
    fn from(error: BindError) -> Self {
        Self::Bind(error)
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}
