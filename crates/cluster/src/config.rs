//! What a node is told about itself and its cluster.

use std::fmt;

/// What the operator says about this node and its cluster.
#[derive(Clone)]
pub struct Config {
    /// This node's name, 1 to [`wire::peer::PEER_NAME_BYTES_MAX`] bytes, the one that its certificate
    /// proves.
    pub node: String,
    /// The cluster's name. Nodes of another cluster are refused.
    pub cluster: String,
    /// Where the node stands; shown, decides nothing. May be empty.
    pub region: String,
    /// The cluster's secret. It never leaves the node: peers see a digest.
    pub secret: [u8; 16],
    /// Time between two exchanges of everything that has something to tell, in nanoseconds.
    pub sync_interval_ns: u64,
    /// Members at a first start, this node included: 1 to [`limiter::MEMBERS_MAX`]; anything else
    /// counts as the nearest of these.
    pub expect: usize,
    /// Ready from the start, on this node's part alone, before the counts of the others are known.
    pub ready_early: bool,
    /// Time after which a missing member is forgotten by a group that is not isolated, in
    /// nanoseconds. Shorter gives the survivors the full limit sooner; longer keeps the parts exact
    /// through longer cuts.
    pub forget_after_ns: u64,
}

/// Without the secret.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("node", &self.node)
            .field("cluster", &self.cluster)
            .field("region", &self.region)
            .field("sync_interval_ns", &self.sync_interval_ns)
            .field("expect", &self.expect)
            .field("ready_early", &self.ready_early)
            .field("forget_after_ns", &self.forget_after_ns)
            .finish_non_exhaustive()
    }
}

/// One connection of the transport. A number is never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// Whom the certificate of a connection proves the other to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The node of this name.
    Named(String),
    /// Any node of the fleet, which names itself.
    Fleet,
}

/// A millisecond.
pub(crate) const MS: u64 = 1_000_000;
/// A second.
pub(crate) const SECOND: u64 = 1_000 * MS;
/// A peer that sent nothing for so long, or left a batch unacknowledged for so long, is lost. Long
/// enough that a busy machine is not taken for a dead one, short enough that what a cut costs is a
/// fraction of a second's spends.
pub(crate) const DETECT_NS: u64 = 500 * MS;
