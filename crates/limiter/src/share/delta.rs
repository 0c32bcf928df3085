//! What nodes tell each other about buckets.

use super::members::Members;
use super::view::View;
use crate::matching::Slot;

/// One rule's bucket of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bucket {
    /// The rule's place in the plan of whoever names the bucket.
    pub slot: Slot,
    /// Its identity.
    pub hash: u64,
}

/// Where in time a spend belongs, as far as its algorithm has to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum When {
    /// Nowhere: the bucket is a level.
    #[default]
    Untimed,
    /// In a window, by the wall clock of whoever spent.
    Window {
        /// Start, in milliseconds of Unix time: the window's identity.
        start_ms: u64,
        /// Length, in milliseconds.
        length_ms: u64,
    },
    /// At a time in nanoseconds of this node's own monotonic clock. It crosses the wire as an age.
    At {
        /// That time.
        ns: u64,
    },
}

/// What one node has let through in one bucket since it last told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delta {
    /// The bucket.
    pub bucket: Bucket,
    /// Units spent; negative when more was given back.
    pub spent: i64,
    /// What was asked for, allowed or not, up to the sender's fair part: in 1/256 of 2^`shift` units.
    pub demand: u32,
    /// See `demand`.
    pub shift: u8,
    /// A part of `spent` is only reserved: it may be given back.
    pub reserved: bool,
    /// The sender's level in ticks, where levels of two nodes compare.
    pub level: Option<i64>,
    /// Where in time `spent` belongs. What was spent in two windows is told in two deltas.
    pub when: When,
}

/// What one node owes another for one bucket: spends that the other has not heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    /// The bucket.
    pub bucket: Bucket,
    /// Ticks.
    pub ticks: i64,
    /// Where in time they belong.
    pub when: When,
}

/// One bucket as a node knows it, for a node that joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The bucket.
    pub bucket: Bucket,
    /// Ticks by which the common level is below full.
    pub missing: i64,
    /// Ticks spent that are not in the common level, less what the sender has not published yet.
    pub charge: i64,
    /// Demand of all nodes that the sender knows of, in 1/256 of 2^`shift` units.
    pub others: u32,
    /// See `others`.
    pub shift: u8,
    /// Where in time `missing` and `charge` belong: a bucket that counts in windows or logs its spends
    /// stands in as many entries, next to each other, as there are such times.
    pub when: When,
}

/// The numbers of a bucket: what another node needs to convert its ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Capacity, in units.
    pub burst: u64,
    /// Ticks in a nanosecond; for windows and logs their length in milliseconds, 0 for a calendar's.
    pub per_ns: u64,
    /// Ticks in a unit.
    pub per_unit: u64,
}

/// Peers that were lost in one step, and what the logs say they may not know.
#[derive(Clone, Copy, Debug)]
pub struct Loss<'a> {
    /// The members after the loss.
    pub view: &'a View,
    /// Own spends in batches that lost peers have not acknowledged.
    pub tail: &'a [Tail],
    /// Units, by bucket, that the lost may not know and that are in the common level: own batches not
    /// acknowledged by one of them, and batches received since they were last heard. What is not
    /// published yet must not be in it.
    pub fold: &'a [(Bucket, When, i64)],
    /// The same for what they more likely know: as long as that is not certain it is charged, but what is
    /// owed to them does not shrink for it.
    pub doubtful: &'a [(Bucket, When, i64)],
    /// Only when members were missing before: the same, whether or not it is in the common level.
    pub unknown: &'a [(Bucket, i64)],
}

/// An own spend in a batch that some lost peer has not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The bucket.
    pub bucket: Bucket,
    /// Those to whom it is owed until they say, when they are back, what they have received.
    pub peers: Members,
    /// Number of the batch: a peer may have received it, and says so when it is back.
    pub seq: u64,
    /// Units.
    pub units: i64,
    /// Where in time they belong.
    pub when: When,
}

/// A part of the store, for what is taken from it a part at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StorePart(pub(crate) u32);

impl StorePart {
    /// Where the store begins.
    pub const START: Self = Self(0);
}

/// What the shares did since the start, and what is in motion now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareCounts {
    /// Buckets in motion.
    pub motions: u64,
    /// Buckets with spends that missing members do not know.
    pub charges: u64,
    /// Most buckets in motion, and most with charges, that may be held.
    pub rows_max: u64,
    /// Buckets that found no room to be in motion.
    pub rows_full: u64,
    /// Spends received for which there was no room: this node has forgotten them.
    pub dropped: u64,
    /// Spends received that were cut at the bound of a bucket's debt.
    pub clipped: u64,
    /// Checks denied for want of a share while units were left.
    pub share_denied: u64,
    /// Checks held for an acknowledgement.
    pub held: u64,
    /// Reservations made, and those given back.
    pub reserved: u64,
    /// See `reserved`.
    pub released: u64,
    /// Levels moved towards a peer's.
    pub echoes: u64,
    /// Deepest debt seen in any bucket, in thousandths of its capacity.
    pub debt_permille: u64,
}
