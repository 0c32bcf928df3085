//! One key on one node, as it is read between two events.

use limiter::{Bucket, BucketState};

use crate::process::Process;

/// What a node knows of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Ticks left of the level that all nodes should agree on; negative in debt.
    pub(crate) level: i128,
    /// Ticks of it that were spent and that missing members may not know.
    pub(crate) charge: i128,
    /// Units that some peer may not know; negative when more was given back.
    pub(crate) unknown: i64,
    /// The same without what was given back.
    pub(crate) untold: i64,
    /// Units that are in flight: what was given back is this node's own until it is in a batch.
    pub(crate) flying: i64,
    /// The part of them that is only reserved.
    pub(crate) reserved: i64,
    /// Batches that are not acknowledged by all.
    pub(crate) open_batches: u16,
    /// Units that may be in flight, reservations aside.
    pub(crate) allowance: i64,
}

impl Reading {
    /// Reads `bucket` on `process` at its own time `local_ns`.
    pub(crate) fn of(process: &Process, bucket: Bucket, local_ns: u64) -> Self {
        let state: BucketState = process.limiter.bucket_state(local_ns, bucket).unwrap_or_default();
        let in_flight = state.in_flight.saturating_add(state.returned);
        Self {
            level: state.level,
            charge: i128::from(state.charge),
            unknown: state.unpublished.saturating_add(state.in_flight),
            untold: state.unpublished.max(0).saturating_add(in_flight),
            flying: state.unpublished.saturating_add(in_flight),
            reserved: i64::try_from(state.reserved).unwrap_or(i64::MAX),
            open_batches: state.open_batches,
            allowance: state.allowance,
        }
    }

    /// What is in flight above what may be.
    pub(crate) fn beyond_allowance(&self) -> Option<String> {
        let flying = self.flying - self.reserved;
        (flying > self.allowance)
            .then(|| format!("has {flying} units in flight, {} may be", self.allowance))
    }
}
