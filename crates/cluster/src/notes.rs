//! What happened, for people: one line of a log each.

use std::fmt;

use wire::peer::Refusal;

/// Why a peer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It sent nothing for half a second.
    Silent,
    /// It left a batch unacknowledged for half a second.
    Unacknowledged,
    /// It was nearly silent when another was lost, and is lost in the same step.
    WithAnother,
    /// Its connection closed.
    Closed,
    /// It, or this node, connected anew.
    Replaced,
    /// It was linked for too long without being counted.
    Uncounted,
    /// This node itself did not run for half a second.
    Stalled,
    /// The log of batches was full, and it was the slowest to acknowledge them.
    Slow,
    /// What it sent could not be read, or came at the wrong time.
    Malformed,
    /// This node began to join anew.
    Rejoined,
}

impl Cause {
    /// The words used in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::Unacknowledged => "does not acknowledge",
            Self::WithAnother => "nearly silent when another was lost",
            Self::Closed => "connection closed",
            Self::Replaced => "connected anew",
            Self::Uncounted => "linked for too long without being counted",
            Self::Stalled => "this node did not run",
            Self::Slow => "too slow for the log of batches",
            Self::Malformed => "sent what cannot be read",
            Self::Rejoined => "this node joins anew",
        }
    }
}

/// Something that a person may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The handshake with a peer is done.
    Linked {
        /// Its name.
        peer: String,
    },
    /// Peers were lost in one step.
    Lost {
        /// Their names.
        peers: Vec<String>,
        /// Why the first of them was.
        cause: Cause,
        /// Members reached, this node included.
        reached: usize,
        /// Members.
        members: usize,
    },
    /// Peers are counted from now on.
    Counted {
        /// Their names.
        peers: Vec<String>,
        /// Members reached, this node included.
        reached: usize,
        /// Members.
        members: usize,
    },
    /// A member is a member no more.
    Forgotten {
        /// Its name; none for one that was expected and never met.
        peer: Option<String>,
        /// It said itself that it leaves.
        left: bool,
        /// Members that remain.
        members: usize,
    },
    /// A connection was refused.
    Refused {
        /// The name that the other gave, or that its certificate proves; empty when there is none.
        peer: String,
        /// Why.
        refusal: Refusal,
        /// The same for a person.
        text: String,
        /// The other refused this node.
        by_peer: bool,
    },
    /// This node begins with nothing, as the peers that it meets, if any, do.
    Formed {
        /// Peers that it is linked to.
        linked: usize,
    },
    /// This node took the counts of the others from a peer.
    Joined {
        /// The peer's name.
        from: String,
        /// Buckets taken.
        buckets: u64,
    },
    /// This node was gone for so long that its peers know more: it takes their counts, and keeps
    /// what it owes them.
    Rejoins {
        /// The peer that said so.
        peer: String,
    },
    /// A peer's wall clock is far from this node's from now on, or no longer.
    Clock {
        /// The peer's name.
        peer: String,
        /// Its clock less this node's, in milliseconds.
        skew_ms: i64,
        /// It is far from it from now on.
        is_off: bool,
    },
    /// A peer has other numbers for a limit.
    Drift {
        /// The peer's name.
        peer: String,
        /// The limits' names.
        limits: Vec<String>,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linked { peer } => write!(f, "linked to `{peer}`"),
            Self::Lost { peers, cause, reached, members } => write!(
                f,
                "lost {} ({}): reaches {reached} of {members} members",
                quoted(peers),
                cause.as_str()
            ),
            Self::Counted { peers, reached, members } => {
                write!(f, "counts {}: reaches {reached} of {members} members", quoted(peers))
            }
            Self::Forgotten { peer: None, members, .. } => {
                write!(f, "forgot a member that was never met: {members} members")
            }
            Self::Forgotten { peer: Some(peer), left: true, members } => {
                write!(f, "`{peer}` left: {members} members")
            }
            Self::Forgotten { peer: Some(peer), left: false, members } => {
                write!(f, "forgot `{peer}`: {members} members")
            }
            Self::Refused { peer, text, by_peer: false, .. } => {
                write!(f, "refused `{peer}`: {text}")
            }
            Self::Refused { peer, text, by_peer: true, .. } => {
                write!(f, "refused by `{peer}`: {text}")
            }
            Self::Formed { linked } => {
                write!(f, "begins without counts, linked to {linked} starting peers")
            }
            Self::Joined { from, buckets } => {
                write!(f, "took the counts of {buckets} buckets from `{from}`")
            }
            Self::Rejoins { peer } => {
                write!(f, "`{peer}` had given this node up: takes the counts anew")
            }
            Self::Clock { peer, skew_ms, is_off: true } => write!(
                f,
                "the wall clock of `{peer}` is {} ms {} this node's: until both are set right, \
                 windows begin and end that far apart",
                skew_ms.unsigned_abs(),
                if *skew_ms < 0 { "behind" } else { "ahead of" }
            ),
            Self::Clock { peer, skew_ms, is_off: false } => {
                write!(f, "the wall clock of `{peer}` is near this node's again: {skew_ms} ms off")
            }
            Self::Drift { peer, limits } => {
                write!(f, "`{peer}` has other numbers for {}", quoted(limits))
            }
        }
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
