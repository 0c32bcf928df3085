//! What a node that joins takes over from one that knows the counts.

use super::account::Account;
use super::delta::{Bucket, Standing, StorePart, When};
use super::ledger::Ledger;
use super::stand::saturated;
use super::sync::{account, make_room};
use crate::Limiter;
use crate::algorithm::Counter;

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
        let force = self.steady();
        let shards = self.store().shards();
        for index in from.0 as usize..shards {
            if out.len() >= max {
                return u32::try_from(index).ok().map(StorePart);
            }
            self.store().with_shard(index, now_ns, &force, |shard, now_ns| {
                let mut buckets: Vec<Bucket> = shard.buckets().collect();
                if let Some(ledger) = shard.ledger_mut() {
                    buckets.extend(ledger.motions_mut().map(|motion| motion.bucket));
                    buckets.extend(Ledger::charged(ledger));
                }
                buckets.sort_unstable();
                buckets.dedup();
                for bucket in buckets {
                    let Some(mut account) = account(&force, shard, bucket, now_ns) else {
                        continue;
                    };
                    let shared = account.shared();
                    if let Some(counter) = shared.counter() {
                        stand_of_count(&mut account, counter, out);
                        continue;
                    }
                    let missing = i64::try_from(account.missing()).unwrap_or(i64::MAX);
                    let unpublished = account.motion().map_or(0, |motion| motion.unpublished);
                    let demand = demand_of(&mut account);
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
    ///
    /// A bucket that counts has several standings, which stand next to each other and come in one call.
    pub fn restore(&self, now_ns: u64, standings: &[Standing]) {
        let force = self.steady();
        for same in standings.chunk_by(|a, b| a.bucket == b.bucket) {
            let Some(standing) = same.first() else { continue };
            self.store().with(standing.bucket.hash, now_ns, &force, |shard, now| {
                let all = same.iter().flat_map(|it| [it.missing, it.charge]);
                let units = all.fold(0i64, i64::saturating_add);
                make_room(&force, shard, standing.bucket, units, now);
                let Some(mut account) = account(&force, shard, standing.bucket, now) else {
                    return;
                };
                let shared = account.shared();
                match shared.counter() {
                    Some(counter) => restore_count(&mut account, counter, same),
                    None => {
                        let size = account.members();
                        let missing = u64::try_from(standing.missing).unwrap_or(0);
                        account.write_missing(missing.min(shared.missing_max(size)));
                        let unpublished = account.unpublished_ticks();
                        account.set_charge(i128::from(standing.charge) + unpublished);
                    }
                }
                let others = shared.scale.convert(standing.others, standing.shift);
                if others > 0
                    && let Some(mut motion) = account.motion_or_new()
                {
                    motion.others = others;
                }
            });
        }
    }
}

/// Demand of all nodes for a bucket, as far as it is known.
fn demand_of(account: &mut Account<'_>) -> u32 {
    account
        .motion()
        .map_or(0, |motion| motion.own.saturating_add(motion.told).saturating_add(motion.others))
}

/// Appends how a bucket stands that counts: what its sender has not published yet will come in a batch.
fn stand_of_count(account: &mut Account<'_>, counter: &Counter, out: &mut Vec<Standing>) {
    let (bucket, shared, demand) = (account.bucket(), account.shared(), demand_of(account));
    let shift = shared.scale.shift;
    let ticks = |units: u64| saturated(shared.ticks(units));
    let (common, charged) = account.told_parts(counter);
    let empty = Standing { bucket, missing: 0, charge: 0, others: 0, shift, when: account.when() };
    let first = out.len();
    out.extend(common.into_iter().map(|(when, units)| Standing {
        missing: ticks(units),
        when,
        ..empty
    }));
    out.extend(charged.into_iter().map(|(when, units)| Standing {
        charge: ticks(units),
        when,
        ..empty
    }));
    if demand > 0 && out.len() == first {
        out.push(empty);
    }
    if let Some(standing) = out.get_mut(first) {
        standing.others = demand;
    }
}

/// Makes a bucket that counts stand as `standings` say. What this node spent and has told nobody yet
/// stays charged.
fn restore_count(account: &mut Account<'_>, counter: &Counter, standings: &[Standing]) {
    let per_unit = account.shared().per_unit();
    let units = |ticks: i64| u64::try_from(ticks).unwrap_or(0) / per_unit;
    let common: Vec<_> = standings.iter().map(|it| (it.when, units(it.missing))).collect();
    let own: Vec<_> =
        account.motion().map_or_else(Vec::new, |motion| motion.unpublished_times().to_vec());
    account.set_count(&common);
    account.clear_charge_count(counter);
    for standing in standings {
        add_or_lower(account, standing.charge.into(), standing.when);
    }
    for (when, units) in own {
        let ticks = account.shared().signed_ticks(units);
        if units > 0 {
            add_or_lower(account, ticks, when);
        } else {
            account.charge(ticks, when);
        }
    }
}

/// Charges `ticks` or, where there is no room to count them apart, takes them from the common level.
fn add_or_lower(account: &mut Account<'_>, ticks: i128, when: When) {
    if !account.add_charge(ticks, when) {
        account.lower(ticks, when);
    }
}
