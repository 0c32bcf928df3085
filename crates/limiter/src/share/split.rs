//! Members that go missing and come back. The common level is never rescaled: what the missing do not
//! know is kept apart, as charges, and told once when they are back.

use std::sync::Arc;

use hashbrown::HashMap;

use super::account::Account;
use super::delta::{Bucket, Loss, Sum, When};
use super::fleet::FleetEvent;
use super::ledger::Ledger;
use super::members::Members;
use super::stand::saturated;
use super::sync::{account, make_room};
use super::view::View;
use crate::Limiter;
use crate::algorithm::Counter;
use crate::store::{LockedAll, Shard};

impl Limiter {
    /// Peers were lost in one step. For all buckets at one moment: charges are drained as the old group
    /// would, what the lost may not know leaves the common level and becomes a charge that is owed to
    /// them, and the group's part becomes smaller.
    pub fn lose(&self, now_ns: u64, loss: &Loss<'_>) {
        let force = self.steady();
        let mut all = self.store().lock_all(now_ns, &force);
        self.drain_all(&mut all);
        let (was_whole, old_n) = all
            .shards()
            .find_map(|shard| shard.ledger())
            .map_or((true, 1), |ledger| (ledger.view.is_whole(), ledger.view.reach()));
        let (n, size) = (loss.view.reach() as i128, loss.view.size() as i128);
        if !was_whole {
            self.relieve(&mut all, loss.unknown, n, old_n as i128);
        }
        let mut lost: HashMap<Bucket, Members> = HashMap::new();
        for tail in loss.tail {
            let peers = lost.entry(tail.bucket).or_default();
            *peers = peers.union(tail.peers);
            let is_noted = self.with_account(&mut all, tail.bucket, |account| {
                let ticks = account.shared().signed_ticks(tail.units);
                account.owe((tail.peers, tail.seq), tail.when, saturated(ticks))
            });
            if is_noted == Some(false) {
                self.fleet().into_iter().for_each(|fleet| fleet.event(FleetEvent::RowsFull));
            }
        }
        let mut folds = sums_of(loss.fold);
        if was_whole {
            for shard in all.shards() {
                for motion in shard.ledger_mut().into_iter().flat_map(Ledger::motions_mut) {
                    let times = motion.unpublished_times();
                    for (when, units) in times {
                        *folds.entry((motion.bucket, *when)).or_default() += i128::from(*units);
                    }
                    if times.is_empty() && motion.unpublished != 0 {
                        let place = (motion.bucket, When::Untimed);
                        *folds.entry(place).or_default() += i128::from(motion.unpublished);
                    }
                }
            }
        }
        let doubtful = sums_of(loss.doubtful);
        for place in doubtful.keys() {
            folds.entry(*place).or_default();
        }
        for ((bucket, when), certain) in folds {
            let peers = lost.get(&bucket).copied().unwrap_or_default();
            let units = certain + doubtful.get(&(bucket, when)).copied().unwrap_or(0);
            self.with_account(&mut all, bucket, |account| match account.shared().counter() {
                None => fold(account, (certain, units), n, size, peers),
                Some(counter) => fold_count(account, counter, units.max(certain), when),
            });
        }
        set_view(&mut all, loss.view);
    }

    /// Peers that are back are counted, in one step. Own demand is claimed again, since they do not
    /// know it; when nobody is missing any more, the charges go back into the common level.
    pub fn count(&self, now_ns: u64, view: &View) {
        let force = self.steady();
        let mut all = self.store().lock_all(now_ns, &force);
        self.drain_all(&mut all);
        set_view(&mut all, view);
        let now_ns = all.now_ns();
        for shard in all.shards() {
            let (Some(ledger), shared_of) = shard.ledger_and_numbers(&force) else { continue };
            ledger.charges_mut().for_each(|charge| charge.set_relief(0));
            let mut dirty = Vec::new();
            for motion in ledger.motions_mut() {
                motion.fade(now_ns);
                let Some(shared) = shared_of(motion.bucket) else { continue };
                let own = shared.scale.units(std::mem::take(&mut motion.own));
                motion.attempted = motion.attempted.saturating_add(own);
                if own > 0 && !std::mem::replace(&mut motion.is_dirty, true) {
                    dirty.push(motion.bucket);
                }
            }
            ledger.dirty.append(&mut dirty);
        }
        self.close(&mut all, view);
    }

    /// A member was added, which is not counted yet.
    pub fn grow(&self, now_ns: u64, view: &View) {
        let force = self.steady();
        let mut all = self.store().lock_all(now_ns, &force);
        self.drain_all(&mut all);
        set_view(&mut all, view);
    }

    /// The members `gone` are members no longer; nothing is owed to them.
    pub fn forget(&self, now_ns: u64, view: &View, gone: Members) {
        let force = self.steady();
        let mut all = self.store().lock_all(now_ns, &force);
        self.drain_all(&mut all);
        set_view(&mut all, view);
        for ledger in all.shards().filter_map(Shard::ledger_mut) {
            ledger.charges_mut().for_each(|charge| charge.forget(gone));
            ledger.drop_settled_charges();
        }
        self.close(&mut all, view);
    }

    /// `peer` has received every own batch, and every own sum, below `next`.
    pub fn owed_received(&self, now_ns: u64, peer: u8, next: u64) {
        self.for_each_ledger(now_ns, |ledger| {
            ledger.charges_mut().for_each(|charge| charge.received(peer, next));
        });
    }

    /// Nothing is owed to `peer` any more.
    pub fn owed_cleared(&self, peer: u8) {
        self.for_each_ledger(0, |ledger| {
            ledger.charges_mut().for_each(|charge| charge.forget(Members::only(peer)));
        });
    }

    /// Appends what is owed to `peer`, bucket by bucket: first that which belongs nowhere in time, then that
    /// which does. From now on heals carry it, of `per_heal` sums each and of one of both kinds: the first
    /// of them has the number `seq`.
    pub fn heal_sums(&self, now_ns: u64, peer: u8, seq: u64, per_heal: usize, out: &mut Vec<Sum>) {
        let force = self.steady();
        let per_heal = per_heal.max(1);
        let mut tagged: HashMap<Bucket, Vec<(u64, When, i64)>> = HashMap::new();
        let mut next_seq = seq;
        for is_timed in [false, true] {
            let mut count = 0;
            self.store().for_each(now_ns, &force, |shard, now_ns| {
                shard.drain_charges(now_ns, &force);
                for charge in shard.ledger().into_iter().flat_map(Ledger::charges) {
                    let bucket = charge.bucket;
                    let Some(shared) = shard.held(&force, bucket) else { continue };
                    if shared.counter().is_some() != is_timed {
                        continue;
                    }
                    for (when, ticks) in charge.owed_to(shared.counter(), peer) {
                        let seq = next_seq.saturating_add((count / per_heal) as u64);
                        count += 1;
                        out.push(Sum { bucket, ticks, when });
                        tagged.entry(bucket).or_default().push((seq, when, ticks));
                    }
                }
            });
            next_seq = next_seq.saturating_add(count.div_ceil(per_heal) as u64);
        }
        self.store().for_each(now_ns, &force, |shard, _| {
            for charge in shard.ledger_mut().into_iter().flat_map(Ledger::charges_mut) {
                charge.tag(peer, tagged.get(&charge.bucket).map_or(&[][..], Vec::as_slice));
            }
            shard.ledger_mut().into_iter().for_each(Ledger::recount);
        });
    }

    /// Appends what is charged and published, bucket by bucket: what a node that takes the levels of
    /// another keeps, since the other may not know it.
    pub fn charged(&self, now_ns: u64, out: &mut Vec<Sum>) {
        let force = self.steady();
        self.store().for_each(now_ns, &force, |shard, now_ns| {
            for bucket in shard.ledger().map_or_else(Vec::new, Ledger::charged) {
                let Some(mut account) = account(&force, shard, bucket, now_ns) else { continue };
                if let Some(counter) = account.shared().counter() {
                    let per_unit = account.shared().per_unit();
                    let sums = account.told_parts(counter).1.into_iter().map(|(when, units)| {
                        let ticks = i128::from(units) * i128::from(per_unit);
                        Sum { bucket, ticks: saturated(ticks), when }
                    });
                    out.extend(sums);
                    continue;
                }
                let ticks = i128::from(account.charged()) - account.unpublished_ticks();
                if ticks != 0 {
                    out.push(Sum { bucket, ticks: saturated(ticks), when: When::Untimed });
                }
            }
        });
    }

    /// Takes over what a peer owed.
    pub fn charge_sums(&self, now_ns: u64, sums: &[Sum]) {
        let force = self.steady();
        for sum in sums {
            self.store().with(sum.bucket.hash, now_ns, &force, |shard, now| {
                make_room(&force, shard, sum.bucket, sum.ticks, now);
                if let Some(mut account) = account(&force, shard, sum.bucket, now) {
                    self.charge(&mut account, i128::from(sum.ticks), sum.when);
                }
            });
        }
    }

    /// A part of the members that know of a charge were lost in their turn: they pay for their part of
    /// what they know of it.
    fn relieve(&self, all: &mut LockedAll<'_>, unknown: &[(Bucket, i64)], n: i128, old_n: i128) {
        let mut sums = HashMap::new();
        for (bucket, units) in unknown {
            *sums.entry(*bucket).or_insert(0) += i128::from(*units);
        }
        let unknown = sums;
        let charged: Vec<Bucket> =
            all.shards().filter_map(|shard| shard.ledger()).flat_map(Ledger::charged).collect();
        for bucket in charged {
            self.with_account(all, bucket, |account| {
                let unpublished = account.motion().map_or(0, |motion| motion.unpublished);
                let units = unknown.get(&bucket).copied().unwrap_or(0) + i128::from(unpublished);
                let ticks = units * i128::from(account.shared().per_unit());
                let Some(mut charge) = account.ledger().and_then(|l| l.charge(bucket.hash)) else {
                    return;
                };
                let before = charge.relief();
                let known = i128::from(charge.ticks) - i128::from(before) - ticks;
                let relief = known.max(0) * (old_n - n) / old_n;
                charge.set_relief(before.saturating_add(saturated(relief)));
            });
        }
    }

    /// When nobody is missing, puts the charges back into the common level.
    fn close(&self, all: &mut LockedAll<'_>, view: &View) {
        let force = self.steady();
        if !view.is_whole() {
            return;
        }
        let now_ns = all.now_ns();
        for shard in all.shards() {
            let charges: Vec<_> =
                shard.ledger_mut().into_iter().flat_map(Ledger::take_charges).collect();
            for charge in charges {
                make_room(&force, shard, charge.bucket, charge.ticks, now_ns);
                if let Some(mut account) = account(&force, shard, charge.bucket, now_ns) {
                    match (account.shared().counter(), charge.count()) {
                        (Some(counter), Some(count)) => account.absorb(counter, count),
                        (Some(_), None) => {}
                        (None, _) => drop(account.charge(charge.ticks.into(), When::Untimed)),
                    }
                }
            }
        }
    }

    fn drain_all(&self, all: &mut LockedAll<'_>) {
        let force = self.steady();
        let now_ns = all.now_ns();
        all.shards().for_each(|shard| shard.drain_charges(now_ns, &force));
    }

    fn with_account<R>(
        &self,
        all: &mut LockedAll<'_>,
        bucket: Bucket,
        act: impl FnOnce(&mut Account<'_>) -> R,
    ) -> Option<R> {
        let force = self.steady();
        let now_ns = all.now_ns();
        let shard = all.shard_of(bucket.hash);
        account(&force, shard, bucket, now_ns).map(|mut account| act(&mut account))
    }

    fn for_each_ledger(&self, now_ns: u64, act: impl Fn(&mut Ledger)) {
        let force = self.steady();
        self.store().for_each(now_ns, &force, |shard, _| {
            if let Some(ledger) = shard.ledger_mut() {
                act(ledger);
                ledger.drop_settled_charges();
            }
        });
    }
}

/// Moves `units` that the lost members `peers` may not know, `certain` of them for sure, from the common
/// level to the charge. What a full level has refilled of them meanwhile was this group's only in part.
fn fold(
    account: &mut Account<'_>,
    (certain, units): (i128, i128),
    n: i128,
    size: i128,
    peers: Members,
) {
    // Where more was given back than spent nothing is moved: the others may know of it too, and would
    // have their part of it beside the whole of it here.
    let units = units.max(certain);
    if units <= 0 {
        return;
    }
    let shared = account.shared();
    let full = shared.full();
    let level = account.common_level();
    // What is left of `ticks` when the refill that is not this group's is taken off, and that refill.
    let split = |units: i128| {
        let ticks = units * i128::from(shared.per_unit());
        let over = (level + ticks - full).max(0);
        (ticks, if ticks > 0 { ticks - n * over / size } else { ticks }, over)
    };
    let (moved, added, over) = split(units);
    if !account.add_charge(added, When::Untimed) {
        return;
    }
    account.lower(over - moved, When::Untimed);
    // What is owed shrinks as if only that were folded which the peers do not know: else they would hear
    // of less than was spent.
    let (moved, added, _) = split(certain);
    if moved > 0 && added < moved {
        account.shrink_owed_to(peers, added, moved);
    }
}

/// The same for a bucket that counts: what was spent at `when` and still counts moves from the common
/// count to the charge.
fn fold_count(account: &mut Account<'_>, counter: &Counter, units: i128, when: When) {
    let Ok(units) = u64::try_from(units) else { return };
    let moved = account.shared().ticks(account.take(counter, when, units));
    if !account.add_charge(moved, when) {
        // No room to count it apart: it stays where it was.
        account.lower(moved, when);
    }
}

fn sums_of(list: &[(Bucket, When, i64)]) -> HashMap<(Bucket, When), i128> {
    let mut sums = HashMap::new();
    for (bucket, when, units) in list {
        *sums.entry((*bucket, *when)).or_insert(0) += i128::from(*units);
    }
    sums
}

fn set_view(all: &mut LockedAll<'_>, view: &View) {
    let view = Arc::new(view.clone());
    for ledger in all.shards().filter_map(Shard::ledger_mut) {
        ledger.view = Arc::clone(&view);
    }
}
