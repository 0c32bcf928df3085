//! The exchange of one node with its peers, bucket by bucket: what to publish, what was received, what
//! was acknowledged.

use super::account::{Account, Charged};
use super::delta::{Bucket, Delta, ShareCounts, StorePart, When};
use super::fleet::FleetEvent;
use super::members::Members;
use super::stand::saturated;
use crate::algorithm::{Algorithm, Counter};
use crate::store::Shard;
use crate::{Freshness, Limiter, Plan};

/// Which flush carries a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flush {
    /// The tick: with the level if levels compare.
    Tick { is_calm: bool },
    /// Asked for by checks.
    Early,
    /// Published before an acknowledgement, even while a batch of the bucket is open.
    Forced,
}

/// Deltas of one bucket that may be open: no more are published before some are acknowledged.
const OPENS_MAX: u16 = 32_768;
/// Levels within this part of the capacity, and two units, count as equal.
const ECHO_BAND: i128 = 100;
/// Part of the difference beyond that by which a level is lowered.
const ECHO_PART: i128 = 20;
/// The most by which one message lowers a level, as a part of the capacity.
const ECHO_MAX: i128 = 200;

impl Limiter {
    /// What the tick publishes: every bucket with something to tell, from the part `from` of the store
    /// on, until `out` holds at least `max`. Returns where to go on; none when the tick is done.
    /// `unlinked` are the members that no batch reaches: they are owed what was spent. `is_calm`: the
    /// reachable set did not change lately, so that levels compare.
    pub fn collect_due(
        &self,
        now_ns: u64,
        unlinked: Members,
        is_calm: bool,
        (from, max): (StorePart, usize),
        out: &mut Vec<Delta>,
    ) -> Option<StorePart> {
        let force = self.steady();
        for index in from.0 as usize..self.store().shards() {
            if out.len() >= max {
                return u32::try_from(index).ok().map(StorePart);
            }
            self.store().with_shard(index, now_ns, &force, |shard, now_ns| {
                let Some(ledger) = shard.ledger_mut() else { return };
                for bucket in std::mem::take(&mut ledger.dirty) {
                    let Some(mut account) = account(&force, shard, bucket, now_ns) else {
                        continue;
                    };
                    let motion = account.motion();
                    if motion.map(|mut motion| motion.is_dirty = false).is_some() {
                        self.flush(&mut account, bucket, Flush::Tick { is_calm }, unlinked, out);
                    }
                }
            });
        }
        self.collect_early(now_ns, unlinked, out);
        None
    }

    /// What an early flush publishes: the buckets that asked for it.
    pub fn collect_early(&self, now_ns: u64, unlinked: Members, out: &mut Vec<Delta>) {
        if let Some(fleet) = self.fleet() {
            let early = fleet.take_early();
            self.collect(now_ns, &early, Flush::Early, unlinked, out);
        }
    }

    /// What must be published before something is acknowledged.
    pub fn collect_forced(
        &self,
        now_ns: u64,
        unlinked: Members,
        buckets: &[Bucket],
        out: &mut Vec<Delta>,
    ) {
        self.collect(now_ns, buckets, Flush::Forced, unlinked, out);
    }

    /// Whether a bucket asks for an early flush.
    pub fn has_early(&self) -> bool {
        self.fleet().is_some_and(super::Fleet::has_early)
    }

    /// Whether an early flush became wanted since the last call: whoever decides asks, and wakes the
    /// one who exchanges.
    pub fn flush_wanted(&self) -> bool {
        self.fleet().is_some_and(super::Fleet::take_flush_wanted)
    }

    /// `delta` of a peer, cut to what one node can have let through since it last told: more is a fault
    /// or malice.
    pub fn bounded(&self, delta: Delta) -> Delta {
        let force = self.steady();
        let Some(shared) = force.shared(delta.bucket.slot) else { return delta };
        let most = i64::try_from(shared.spent_max()).unwrap_or(i64::MAX);
        Delta { spent: delta.spent.clamp(-most, most), ..delta }
    }

    /// Takes over what a peer has let through. Appends to `publish` the buckets whose own spends must
    /// be in a batch before this one is acknowledged: else both nodes could use one share.
    pub fn receive(&self, now_ns: u64, deltas: &[Delta], is_calm: bool, publish: &mut Vec<Bucket>) {
        let force = self.steady();
        for delta in deltas {
            let is_urgent = self.store().with(delta.bucket.hash, now_ns, &force, |shard, now| {
                make_room(&force, shard, delta.bucket, delta.spent, now);
                account(&force, shard, delta.bucket, now)
                    .is_some_and(|mut account| self.receive_one(&mut account, delta, is_calm))
            });
            if is_urgent {
                publish.push(delta.bucket);
            }
        }
    }

    /// Every reachable peer has acknowledged an own batch, which carried `deltas`. Each batch comes
    /// here once, in the order of their numbers. Appends to `woken` the buckets whose share may have
    /// grown.
    pub fn acknowledged(&self, now_ns: u64, deltas: &[Delta], woken: &mut Vec<Bucket>) {
        let force = self.steady();
        for delta in deltas {
            self.store().with(delta.bucket.hash, now_ns, &force, |shard, now| {
                let Some(mut account) = account(&force, shard, delta.bucket, now) else { return };
                let Some(mut motion) = account.motion() else { return };
                motion.close(delta.spent);
                let known =
                    if motion.opens == 0 { motion.told } else { delta.demand.min(motion.told) };
                motion.told -= known;
                motion.own = motion.own.saturating_add(known);
                if let Some(left) = &mut motion.settles_after {
                    *left = left.saturating_sub(1);
                }
                let asks = motion.opens == 0 && std::mem::take(&mut motion.is_again);
                drop(motion);
                if asks {
                    self.ask_early(&mut account);
                }
            });
            woken.push(delta.bucket);
        }
    }

    /// Time of the next exchange: what a check denied for want of a share is told to wait for.
    pub fn set_exchange(&self, at_ns: u64) {
        if let Some(fleet) = self.fleet() {
            fleet.set_exchange(at_ns);
        }
    }

    /// The sync side runs, and will be heard of before `until_ns`. After that, until it says so again,
    /// checks are answered as if no peer were reachable.
    pub fn set_alive_until(&self, until_ns: u64) {
        if let Some(fleet) = self.fleet() {
            fleet.set_alive_until(until_ns);
        }
    }

    /// How well this node knows what the others have let through: what decisions say.
    pub fn set_freshness(&self, freshness: Freshness, stale_ms: u64) {
        if let Some(fleet) = self.fleet() {
            fleet.set_freshness(freshness, stale_ms);
        }
    }

    /// Freshness as decisions say it, and the age of the oldest news in milliseconds.
    pub fn freshness(&self) -> (Freshness, u32) {
        self.fleet().map_or((Freshness::Alone, 0), super::Fleet::freshness)
    }

    /// What the shares did since the start. Visits every shard.
    pub fn share_counts(&self) -> ShareCounts {
        let force = self.steady();
        let mut counts = self.fleet().map(super::Fleet::counts).unwrap_or_default();
        self.store().for_each(0, &force, |shard, _| {
            if let Some(ledger) = shard.ledger() {
                let (motions, charges) = ledger.lens();
                counts.motions += motions as u64;
                counts.charges += charges as u64;
                counts.rows_max += ledger.rows_max() as u64;
            }
        });
        counts
    }

    /// Deepest debt seen in any bucket of each rule of `plan` since the start, in units rounded up, in the
    /// order of its rules: what was let through beyond the limit, and what debits charged. Zero on a node
    /// alone.
    pub fn deepest_debts(&self, plan: &Plan) -> Vec<u64> {
        let rules = plan.rules();
        self.fleet().map_or_else(|| vec![0; rules.len()], |fleet| fleet.deepest_debts(rules))
    }

    fn collect(
        &self,
        now_ns: u64,
        buckets: &[Bucket],
        flush: Flush,
        unlinked: Members,
        out: &mut Vec<Delta>,
    ) {
        let force = self.steady();
        for bucket in buckets {
            self.store().with(bucket.hash, now_ns, &force, |shard, now| {
                if let Some(mut account) = account(&force, shard, *bucket, now) {
                    self.flush(&mut account, *bucket, flush, unlinked, out);
                }
            });
        }
    }

    /// Appends the delta of a bucket, if it has something to tell and no batch of it is open.
    fn flush(
        &self,
        account: &mut Account<'_>,
        bucket: Bucket,
        flush: Flush,
        unlinked: Members,
        out: &mut Vec<Delta>,
    ) {
        let is_calm = flush == Flush::Tick { is_calm: true };
        let shared = account.shared();
        // Nodes hear of a log's spends a little later than they happened: their levels do not compare.
        let compares = is_calm && !matches!(&shared.algorithm, Algorithm::Count(Counter::Log(_)));
        let level = compares.then(|| i64::try_from(account.level()).ok()).flatten();
        let (dead, now_when) = (account.dead_times(), account.when());
        let Some(ledger) = account.ledger() else { return };
        let n = ledger.view.reach();
        let Some(mut motion) = account.motion() else { return };
        let is_forced = flush == Flush::Forced;
        let was_early = std::mem::take(&mut motion.is_early);
        if flush == Flush::Early && !was_early {
            // Another flush has carried it since it asked.
            return;
        }
        if motion.opens >= OPENS_MAX || (motion.opens > 0 && !is_forced) {
            motion.is_again |= was_early;
            drop(motion);
            account.mark_dirty();
            return;
        }
        let fair = shared.scale.fair(n);
        let claimed = motion.own.saturating_add(motion.told);
        let demand = shared.scale.demand(motion.attempted).min(fair.saturating_sub(claimed));
        let older = motion.publish_older(dead);
        if motion.unpublished == 0 && demand == 0 && motion.reserved == 0 && older.is_empty() {
            motion.attempted = 0;
            return;
        }
        let when = motion.last_time().unwrap_or(now_when);
        let spent = motion.publish(demand);
        motion.is_again &= !is_forced;
        let reserved = motion.reserved > 0;
        if reserved && motion.settles_after.is_none() {
            motion.settles_after = Some(motion.opens);
        }
        drop(motion);
        let shift = shared.scale.shift;
        let level = level.filter(|_| when == now_when);
        let last = Delta { bucket, spent, demand, shift, reserved, level, when };
        for (when, spent) in older {
            self.owe_unlinked(account, unlinked, when, spent);
            out.push(Delta { spent, demand: 0, reserved: false, level: None, when, ..last });
        }
        self.owe_unlinked(account, unlinked, when, spent);
        out.push(last);
    }

    /// Notes that the members that no batch reaches do not know `units`.
    fn owe_unlinked(&self, account: &mut Account<'_>, unlinked: Members, when: When, units: i64) {
        let ticks = saturated(account.shared().signed_ticks(units));
        if !unlinked.is_empty() && ticks != 0 {
            let is_noted = account.owe((unlinked, super::charge::UNSENT), when, ticks);
            if let Some(fleet) = self.fleet().filter(|_| !is_noted) {
                fleet.event(FleetEvent::RowsFull);
            }
        }
    }

    /// Takes over one delta; whether own spends must be published before it is acknowledged.
    pub(super) fn receive_one(
        &self,
        account: &mut Account<'_>,
        delta: &Delta,
        is_calm: bool,
    ) -> bool {
        let shared = account.shared();
        let Some(fleet) = self.fleet() else { return false };
        self.charge(account, shared.signed_ticks(delta.spent), delta.when);
        fleet.note_level(delta.bucket.slot, account.common_level(), &shared);
        if is_calm
            && let Some(level) = delta.level
            && (shared.counter().is_none() || delta.when == account.when())
        {
            self.echo(account, i128::from(level));
        }
        let Some(ledger) = account.ledger() else { return false };
        let n = ledger.view.reach();
        let claim = shared.scale.convert(delta.demand, delta.shift).min(shared.scale.fair(1));
        let motion = if claim > 0 { account.motion_or_new() } else { account.motion() };
        let Some(mut motion) = motion else {
            if claim > 0 {
                fleet.event(FleetEvent::RowsFull);
            }
            return false;
        };
        let peers = u64::try_from(n.saturating_sub(1).max(1)).unwrap_or(u64::MAX);
        let most = u64::from(shared.scale.fair(n)).saturating_mul(peers);
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        let is_claim = motion.hear(claim, most);
        is_claim || (delta.reserved && motion.unpublished > 0)
    }

    /// Counts what peers spent of a bucket, and what became of it.
    pub(super) fn charge(&self, account: &mut Account<'_>, ticks: i128, when: When) {
        let charged = account.charge(ticks, when);
        let Some(fleet) = self.fleet() else { return };
        match charged {
            Charged::Whole => {}
            Charged::Clipped => fleet.event(FleetEvent::Clipped),
            Charged::Dropped => fleet.event(FleetEvent::Dropped),
        }
    }

    /// Lowers the level a little towards `theirs`, where both are known to be of one moment: the peer
    /// may know of a spend that was lost here, or its clock may be slower. A level is never raised: the
    /// peer's would have to be believed although this node knows of more spends.
    fn echo(&self, account: &mut Account<'_>, theirs: i128) {
        let shared = account.shared();
        let when = account.when();
        let Some(flying) = account.motion().map_or(Some(0), |it| it.unknown_of(when)) else {
            return;
        };
        let mine = account.level() + shared.signed_ticks(flying);
        let full = shared.full();
        let beyond = mine - theirs - shared.ticks(2) - full / ECHO_BAND;
        let lowered = (beyond / ECHO_PART).min(full / ECHO_MAX);
        if lowered > 0 {
            account.lower(lowered, When::Untimed);
            if let Some(fleet) = self.fleet() {
                fleet.event(FleetEvent::Echo);
            }
        }
    }
}

/// Makes room in `shard` for `units` more of `bucket`, if there is none and something is at rest.
pub(super) fn make_room(plan: &Plan, shard: &mut Shard, bucket: Bucket, units: i64, now_ns: u64) {
    if let Some(shared) = shard.held(plan, bucket) {
        let units = u64::try_from(units).unwrap_or(0);
        shard.make_room_for((bucket.hash, units), &shared.algorithm, now_ns, plan);
    }
}

/// The account of `bucket` in `shard`; none where its rule counts nothing.
pub(super) fn account<'s>(
    plan: &'s Plan,
    shard: &'s mut Shard,
    bucket: Bucket,
    now_ns: u64,
) -> Option<Account<'s>> {
    let shared = shard.held(plan, bucket)?;
    Account::open(shard, shared, bucket, now_ns)
}
