//! What a node that joins takes over from one that knows the counts.

use super::delta::{Bucket, Standing, StorePart, When};
use super::ledger::Ledger;
use super::stand::saturated;
use crate::Limiter;

impl Limiter {
    /// Appends how every bucket stands that is not as if untouched, from the part `from` on, until
    /// `out` holds at least `max` or the end is reached. Returns where to go on; none at the end.
    /// Buckets of one part are of one moment.
    pub fn snapshot(
        &self,
        now_ns: u64,
        from: StorePart,
        max: usize,
        out: &mut Vec<Standing>,
    ) -> Option<StorePart> {
        let shards = self.store().shards();
        for index in from.0 as usize..shards {
            if out.len() >= max {
                return u32::try_from(index).ok().map(StorePart);
            }
            self.store().with_shard(index, now_ns, self.plan(), |shard, now_ns| {
                let mut buckets: Vec<Bucket> =
                    shard.entries().map(|entry| entry.bucket()).collect();
                if let Some(ledger) = shard.ledger_mut() {
                    buckets.extend(ledger.motions_mut().map(|motion| motion.bucket));
                    buckets.extend(Ledger::charged(ledger));
                }
                buckets.sort_unstable();
                buckets.dedup();
                for bucket in buckets {
                    let Some(mut account) = self.account(shard, bucket, now_ns) else { continue };
                    let shared = *account.shared();
                    let missing = i64::try_from(account.missing()).unwrap_or(i64::MAX);
                    let (unpublished, demand) = account.motion().map_or((0, 0), |motion| {
                        let demand = motion.own.saturating_add(motion.told);
                        (motion.unpublished, demand.saturating_add(motion.others))
                    });
                    // What is not published yet will come in a batch.
                    let unpublished = shared.signed_ticks(unpublished);
                    let charge = i128::from(account.charged()) - unpublished;
                    let charge = saturated(charge);
                    if missing > 0 || charge != 0 || demand > 0 {
                        let shift = shared.scale.shift;
                        let (others, when) = (demand, When::Untimed);
                        out.push(Standing { bucket, missing, charge, others, shift, when });
                    }
                }
            });
        }
        None
    }

    /// The first and the last hash, rotated by half its bits, of the buckets from the part `from` to
    /// before `to`, or to the end.
    pub fn snapshot_range(&self, from: StorePart, to: Option<StorePart>) -> (u64, u64) {
        let end = to.map_or(self.store().shards(), |part| part.0 as usize);
        self.store().range(from.0 as usize, end)
    }

    /// Takes over how buckets stand on another node: their levels, charges and demand become those. What
    /// this node spent and has told nobody yet stays charged.
    pub fn restore(&self, now_ns: u64, standings: &[Standing]) {
        for standing in standings {
            self.store().with(standing.bucket.hash, now_ns, self.plan(), |shard, now| {
                shard.make_room(1, now, self.plan());
                let Some(mut account) = self.account(shard, standing.bucket, now) else { return };
                let shared = *account.shared();
                let size = account.members();
                let missing = u64::try_from(standing.missing).unwrap_or(0);
                account.write_missing(missing.min(shared.missing_max(size)));
                let unpublished = account.unpublished_ticks();
                account.set_charge(i128::from(standing.charge) + unpublished);
                let others = shared.scale.convert(standing.others, standing.shift);
                if others > 0
                    && let Some(motion) = account.motion_or_new()
                {
                    motion.others = others;
                }
            });
        }
    }
}
