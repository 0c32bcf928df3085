//! A bucket in motion: what this node has spent and peers have not acknowledged, and who asks for it.

use super::delta::Bucket;
use super::demand::{Fading, IDLE, step_at};

/// What is known of a bucket while it moves. Demand is in the fixed point of [`super::demand`].
#[derive(Clone, Debug)]
pub(crate) struct Motion {
    pub(crate) bucket: Bucket,
    /// Units spent here and in no batch yet; negative only after a refund.
    pub(crate) unpublished: i64,
    /// Units in batches that some reachable peer has not acknowledged.
    pub(crate) in_flight: i64,
    /// The part of both that is only reserved.
    pub(crate) reserved: u64,
    /// Units asked for, allowed or not, since the last flush.
    pub(crate) attempted: u64,
    /// Demand in open batches.
    pub(crate) told: u32,
    /// Own demand that every reachable peer knows.
    pub(crate) own: u32,
    /// Demand that peers reported.
    pub(crate) others: u32,
    /// Step of the last fading.
    step: u32,
    /// Batches that carry the bucket and are not acknowledged by all.
    pub(crate) opens: u8,
    /// Acknowledgements of this bucket until the reservation is settled; none while it is in no batch.
    pub(crate) settles_after: Option<u8>,
    /// In the list of buckets that the next tick carries.
    pub(crate) is_dirty: bool,
    /// In the list of buckets that ask for an early flush.
    pub(crate) is_early: bool,
    /// Asked for an early flush while a batch was open.
    pub(crate) is_again: bool,
}

impl Motion {
    pub(crate) fn new(bucket: Bucket, now_ns: u64) -> Self {
        Self {
            bucket,
            unpublished: 0,
            in_flight: 0,
            reserved: 0,
            attempted: 0,
            told: 0,
            own: 0,
            others: 0,
            step: step_at(now_ns),
            opens: 0,
            settles_after: None,
            is_dirty: false,
            is_early: false,
            is_again: false,
        }
    }

    /// Lets demand fade up to `now_ns`. Comes before everything that reads it.
    pub(crate) fn fade(&mut self, now_ns: u64) {
        let step = step_at(now_ns);
        let passed = step.wrapping_sub(self.step);
        // A reading older than the last counts as no time passed.
        if passed == 0 || passed > u32::MAX / 2 {
            return;
        }
        self.step = step;
        let fading = Fading::of(passed);
        self.told = fading.apply(self.told);
        self.own = fading.apply(self.own);
        self.others = fading.apply(self.others);
    }

    /// Units spent here that peers may not know, and that are not only reserved. A reservation that
    /// every peer has acknowledged is no longer among the units that they may not know.
    pub(crate) fn flying(&self) -> i64 {
        let reserved = if self.is_settled() { 0 } else { self.reserved };
        let reserved = i64::try_from(reserved).unwrap_or(i64::MAX);
        self.unpublished.saturating_add(self.in_flight).saturating_sub(reserved)
    }

    /// Whether every peer has acknowledged what is reserved.
    pub(crate) fn is_settled(&self) -> bool {
        self.settles_after == Some(0)
    }

    /// Whether nothing would be lost with it.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.unpublished == 0
            && self.in_flight == 0
            && self.reserved == 0
            && self.attempted == 0
            && self.told == 0
            && self.opens == 0
            && !self.is_dirty
            && !self.is_early
            && self.own.saturating_add(self.others) < IDLE
    }
}
