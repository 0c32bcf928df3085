//! What an operator gives back of a bucket, and what of it finds nothing to fill on a node that has not heard
//! yet of the spends that it is for.
//!
//! A reset is a spend of less than nothing: the node where the operator acts gives back what it knows as used, and
//! tells that as it tells its spends. On a node that lacks some of those spends a part of it finds nothing to fill.
//! How much that is, is said here; who keeps it for the late spends decides when they are all there.

use super::account::Account;
use super::delta::{Bucket, Delta, Sum, When};
use super::stand::saturated;
use super::sync::{account, make_room};
use crate::Limiter;
use crate::algorithm::{Counter, TokenBucket};
use crate::force::InForce;
use crate::store::{Held, Shard};

impl Limiter {
    /// As [`Limiter::receive`] of one delta by which an operator on a peer gave something back: gives the units
    /// of it that found nothing to fill here. It is not for the `new` units in batches, of whomever, that the
    /// peer had not received; none: it is for all that was spent here.
    pub fn receive_given(
        &self,
        now_ns: u64,
        delta: &Delta,
        new: Option<i64>,
        is_calm: bool,
        publish: &mut Vec<Bucket>,
    ) -> u64 {
        let force = self.steady();
        let bucket = delta.bucket;
        self.store().with(bucket.hash, now_ns, &force, |shard, now_ns| {
            let Some(mut account) = account(&force, shard, bucket, now_ns) else { return 0 };
            let given = account.shared().ticks(delta.spent.min(0).unsigned_abs());
            let unfilled = self.fill(&mut account, given, delta.when, new);
            let rest = Delta { spent: delta.spent.max(0), level: None, ..*delta };
            if self.receive_one(&mut account, &rest, is_calm) {
                publish.push(bucket);
            }
            unfilled
        })
    }

    /// As [`Limiter::charge_sums`] of one sum by which an operator on a peer gave something back: see
    /// [`Limiter::receive_given`].
    pub fn charge_given(&self, now_ns: u64, sum: &Sum, new: Option<i64>) -> u64 {
        let force = self.steady();
        let bucket = sum.bucket;
        self.store().with(bucket.hash, now_ns, &force, |shard, now_ns| {
            make_room(&force, shard, bucket, sum.ticks, now_ns);
            let Some(mut account) = account(&force, shard, bucket, now_ns) else { return 0 };
            if sum.ticks >= 0 {
                self.charge(&mut account, sum.ticks.into(), sum.when);
                return 0;
            }
            self.fill(&mut account, sum.ticks.unsigned_abs().into(), sum.when, new)
        })
    }

    /// `sum` less up to `credit` units, of which what was taken is taken off.
    pub fn absorbed(&self, sum: Sum, credit: &mut u64) -> Sum {
        let Ok(spent) = u64::try_from(sum.ticks) else { return sum };
        let force = self.steady();
        let per_unit = self.store().with(sum.bucket.hash, 0, &force, |shard, _| {
            shard.held(&force, sum.bucket).map_or(1, |shared| shared.per_unit())
        });
        let units = nearest(spent.into(), per_unit).min(*credit);
        *credit -= units;
        let left = spent.saturating_sub(units.saturating_mul(per_unit));
        Sum { ticks: saturated(left.into()), ..sum }
    }

    /// Fills what was spent at `when` with `ticks`, and leaves the `new` units; gives the units that found nothing to
    /// fill.
    fn fill(&self, account: &mut Account<'_>, ticks: i128, when: When, new: Option<i64>) -> u64 {
        let shared = account.shared();
        let used = shared.full() - account.level();
        let most = new.map_or(ticks, |new| {
            let untold = account.motion().map_or(0, |motion| motion.unpublished);
            let new = shared.signed_ticks(new.saturating_add(untold));
            (used - new.max(0)).clamp(0, ticks)
        });
        if let Some(counter) = shared.counter() {
            let (units, most) =
                (nearest(ticks, shared.per_unit()), nearest(most, shared.per_unit()));
            return units - account.take_given(counter, when, most.min(units));
        }
        let before = account.level();
        self.charge(account, -most, when);
        let filled = (account.level() - before).clamp(0, ticks);
        nearest(ticks - filled, shared.per_unit())
    }

    /// Gives up to `units` of `bucket`, which is in `shard`, back; `u64::MAX`: all that this node knows as used.
    /// Gives how many that were, and peers hear of them. None: there is no room for that.
    pub(crate) fn give_in(
        &self,
        force: &InForce,
        shard: &mut Shard,
        bucket: Bucket,
        units: u64,
        now_ns: u64,
    ) -> Option<u64> {
        let Some(shared) = shard.held(force, bucket) else { return Some(0) };
        let is_lone = shard.ledger().is_none_or(|ledger| ledger.view.size() == 1);
        if is_lone {
            return Some(give_alone(shard, &shared, bucket, units, now_ns));
        }
        let mut account = Account::open(shard, shared, bucket, now_ns)?;
        let shared = account.shared();
        let given = match shared.counter() {
            Some(counter) => {
                account.motion_or_new()?;
                super::decide::give_back(&mut account, counter, units)
            }
            None => {
                let used = account.units_used().min(i64::try_from(units).unwrap_or(i64::MAX));
                if used == 0 {
                    return Some(0);
                }
                account.motion_or_new()?.spend(None, When::Untimed, -used);
                account.charge(-shared.signed_ticks(used), When::Untimed);
                account.mark_dirty();
                used.unsigned_abs()
            }
        };
        if given > 0 {
            self.ask_early(&mut account);
        }
        Some(given)
    }
}

/// The whole units nearest to `ticks`. Nodes refill a little apart, and what is owed shrinks by what a full level
/// refilled: what was spent is a whole number.
fn nearest(ticks: i128, per_unit: u64) -> u64 {
    let unit = i128::from(per_unit);
    u64::try_from((ticks + unit / 2) / unit).unwrap_or(u64::MAX)
}

/// The same where the bucket is this node's own.
fn give_alone(
    shard: &mut Shard,
    shared: &Held<'_>,
    bucket: Bucket,
    units: u64,
    now_ns: u64,
) -> u64 {
    let Bucket { slot, hash } = bucket;
    match (shared.level(), shared.counter()) {
        (Some(level), _) => {
            let Some((at, entry)) = shard.find(hash) else { return 0 };
            let tick = level.tick(now_ns);
            let missing = TokenBucket::missing(entry.full_at(), tick);
            let after = level.refund(missing, units);
            match after {
                0 => shard.remove(hash),
                after => shard.write(hash, slot, tick.wrapping_add(after), Some(at)),
            }
            (missing - after).div_ceil(shared.per_unit())
        }
        (None, Some(counter)) => give_count(shard, counter, bucket, units, now_ns),
        (None, None) => 0,
    }
}

fn give_count(
    shard: &mut Shard,
    counter: &Counter,
    bucket: Bucket,
    units: u64,
    now_ns: u64,
) -> u64 {
    if shard.count(bucket.hash).is_none() {
        return 0;
    }
    let now = shard.now(now_ns);
    let given = shard.change_count(bucket, counter, now_ns, |it| counter.give_back(it, units, now));
    given.iter().map(|(_, units)| *units).sum()
}
