//! One bucket as this node knows it, for whoever shows it or checks the arithmetic.

use super::delta::Bucket;
use crate::Limiter;

/// A bucket at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketState {
    /// The level that all nodes should agree on, in ticks; negative in debt.
    pub level: i128,
    /// Ticks of it that were spent and that not all members know.
    pub charge: i64,
    /// Units spent here and in no batch yet; negative after a refund.
    pub unpublished: i64,
    /// Units in batches that some reachable peer has not acknowledged.
    pub in_flight: i64,
    /// Units given back in such batches: part of `in_flight`, where they count below 0.
    pub returned: i64,
    /// The part of both that is only reserved.
    pub reserved: u64,
    /// Batches that carry the bucket and are not acknowledged by all.
    pub open_batches: u8,
    /// Units that this node may have in flight, reservations aside; rounded down.
    pub allowance: i64,
}

impl Limiter {
    /// How `bucket` stands at `now_ns`; none where there is no such rule, or no cluster.
    pub fn bucket_state(&self, now_ns: u64, bucket: Bucket) -> Option<BucketState> {
        let fleet = self.fleet()?;
        self.store().with(bucket.hash, now_ns, self.plan(), |shard, now| {
            let mut account = self.account(shard, bucket, now)?;
            let stand = account.stand(fleet.is_alive(now), fleet.sync_interval_ns);
            let allowance = stand.allowance_units(account.shared());
            let (level, charge) = (account.level(), account.charged());
            let motion = account.motion();
            Some(motion.map_or(
                BucketState { level, charge, allowance, ..Default::default() },
                |m| BucketState {
                    level,
                    charge,
                    unpublished: m.unpublished,
                    in_flight: m.in_flight,
                    returned: m.returned,
                    reserved: m.reserved,
                    open_batches: m.opens,
                    allowance,
                },
            ))
        })
    }
}
