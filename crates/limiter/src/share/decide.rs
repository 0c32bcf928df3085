//! Deciding on a member of a cluster: where a bucket stands, demand, holds and reservations.

use smallvec::SmallVec;

use super::account::Account;
use super::delta::{Bucket, When};
use super::fleet::FleetEvent;
use super::stand::Stand;
use super::view::View;
use crate::algorithm::Counter;
use crate::force::InForce;
use crate::hit::{Hit, State};
use crate::question::Question;
use crate::rule::Allowance;
use crate::store::{Locked, Place};
use crate::ticket::TicketHit;
use crate::{Answer, Decision, Limiter, Op, Plan, Reason, Ticket, Wait, WhenIsolated};

/// Wait that a caller is told by a limit that denies what an isolated node is asked: nobody can
/// foretell how long that lasts.
const ISOLATED_RETRY: Wait = Wait::from_ns(1_000_000_000);

impl Limiter {
    /// Asks again for a held check: when its bucket was acknowledged, or at the deadline, when it is
    /// decided for good (`is_last`).
    pub fn retry(&self, now_ns: u64, ticket: Ticket, is_last: bool) -> Answer<'_> {
        let mut held = None;
        let decision = self.ask_again(now_ns, ticket, !is_last, false, &mut held);
        held.map_or(Answer::Decided(decision), Answer::Held)
    }

    /// Decides a held check for good, as [`Limiter::retry`] does at the deadline.
    pub fn give_up(&self, now_ns: u64, ticket: Ticket) -> Decision<'_> {
        self.ask_again(now_ns, ticket, false, false, &mut None)
    }

    /// The caller of a held check has gone: nothing is spent for it.
    pub fn abandon(&self, now_ns: u64, ticket: Ticket) {
        if ticket.is_reserved {
            drop(self.ask_again(now_ns, ticket, false, true, &mut None));
        }
    }

    fn ask_again(
        &self,
        now_ns: u64,
        ticket: Ticket,
        may_hold: bool,
        is_gone: bool,
        held: &mut Option<Ticket>,
    ) -> Decision<'_> {
        let details = ticket.details;
        let question =
            Question { op: Op::Check, details, is_peek: false, may_hold, is_again: true };
        // Held by what exchanges with peers: nobody replaces the limits meanwhile.
        let force = self.steady();
        // A limit that was taken away since the check was held no longer applies.
        let hits = ticket.hits.iter().filter_map(|hit| hit_again(&force, hit));
        let mut hits: SmallVec<[Hit<'_>; 4]> = hits.collect();
        let decided = if ticket.is_reserved {
            self.settle(now_ns, &question, &force, ticket, &mut hits, is_gone, held)
        } else {
            let is_decided = self.decide_hits(now_ns, &question, &force, &mut hits, held);
            is_decided.then(|| self.decision(&question, &force, hits.iter()))
        };
        decided.unwrap_or_else(|| self.decision(&question, &force, [].iter()))
    }

    /// Finds where the bucket of `hit`, which is at `place`, stands among the members; the place is
    /// none if there is no room for what this question may change.
    pub(crate) fn seat_member(
        &self,
        question: &Question,
        hit: &mut Hit<'_>,
        place: Place,
        locked: &mut Locked<'_>,
    ) -> Place {
        let (Some(fleet), now_ns, slot) = (self.fleet(), locked.now_ns(), hit.slot) else {
            return place;
        };
        let changes = !question.is_peek && question.op != Op::Peek && hit.cost > 0;
        let State::Bucket { shared, hash, seat } = &mut hit.state else { return place };
        let (shared, bucket) = (shared.clone(), Bucket { slot, hash: *hash });
        let shard = locked.shard_of(bucket.hash);
        let Some(mut account) =
            shard.and_then(|shard| Account::open(shard, shared.clone(), bucket, now_ns))
        else {
            return place;
        };
        if account.members() == 1 {
            // Nobody to share with: the bucket is this node's own.
            return place;
        }
        if changes && !account.has_room_to_change() {
            fleet.event(FleetEvent::RowsFull);
            return Place::None;
        }
        let is_alive = fleet.is_alive(now_ns);
        let stand = account.stand(is_alive, fleet.sync_interval_ns);
        if !locked.view().is_none_or(View::is_whole) {
            let is_denied = question.op == Op::Check && !stand.covers(shared.ticks(hit.cost));
            let adds = changes && matches!(question.op, Op::Check | Op::Debit) && !is_denied;
            if adds && !locked.promise_charge(bucket.hash, &shared, hit.cost) {
                return Place::None;
            }
        }
        seat.stand = Some(stand);
        place
    }

    /// Finds whether the request may pass at `hit`.
    pub(crate) fn test(&self, op: Op, hit: &mut Hit<'_>, locked: &Locked<'_>) {
        let Some(fleet) = self.fleet() else { return hit.test(op, locked, Wait::ZERO) };
        let view = locked.view();
        hit.test(op, locked, fleet.until_exchange(locked.now_ns()));
        if hit.stand().is_some() && view.is_some_and(|view| view.isolated) {
            match hit.rule.when_isolated {
                WhenIsolated::Split => {}
                WhenIsolated::Allow => hit.denial = None,
                WhenIsolated::Deny if matches!(op, Op::Check | Op::Peek) => {
                    hit.denial = Some((Reason::Isolated, ISOLATED_RETRY));
                }
                WhenIsolated::Deny => {}
            }
        }
    }

    /// Notes what `hits` were asked for, allowed or not, so that peers hear of the demand; asks for an
    /// early flush where a share was too small.
    pub(crate) fn claim(&self, question: &Question, hits: &[Hit<'_>], locked: &mut Locked<'_>) {
        for hit in hits.iter().filter(|hit| hit.cost > 0 && hit.cost <= hit.capacity()) {
            let Some((mut account, stand)) = self.shared_at(hit, locked) else { continue };
            if let Some(mut motion) = account.motion()
                && !question.is_again
            {
                motion.attempted = motion.attempted.saturating_add(hit.cost);
            }
            account.mark_dirty();
            if stand.wants_flush(account.unpublished_ticks(), hit.is_short()) {
                self.ask_early(&mut account);
            }
        }
    }

    /// Holds a refused check, if waiting for an acknowledgement may let it pass: every limit that
    /// refuses it has the units, and only its share is too small. A cost that may be above any share
    /// is reserved meanwhile.
    pub(crate) fn hold(
        &self,
        question: &Question,
        hits: &[Hit<'_>],
        locked: &mut Locked<'_>,
    ) -> Option<Ticket> {
        if !question.may_hold {
            return None;
        }
        let refusals = || hits.iter().filter(|hit| hit.denial.is_some() && !hit.rule.shadow);
        let first = refusals().next().filter(|_| refusals().all(Hit::is_short))?;
        let waits_for = Bucket { slot: first.slot, hash: first.hash()? };
        // Only at the first asking: a reservation for each that waits would be too many at once.
        let may_reserve = !question.is_again && refusals().count() == 1;
        let is_reserved = may_reserve && self.reserve(first, locked);
        if !is_reserved && !refusals().all(|hit| hit.stand().is_some_and(Stand::may_hold)) {
            return None;
        }
        let fleet = self.fleet()?;
        if is_reserved {
            fleet.event(FleetEvent::Reserved);
        } else if !question.is_again {
            fleet.event(FleetEvent::Held);
        }
        let ticket_hit = |hit: &Hit<'_>| TicketHit {
            slot: hit.slot,
            id: hit.rule.id(),
            hash: hit.hash(),
            cost: hit.cost,
            terms: hit.terms,
        };
        let hits = hits.iter().map(ticket_hit).collect();
        Some(Ticket { hits, details: question.details, waits_for, is_reserved })
    }

    /// Charges the cost of `hit` although it is above the allowance, to be given back if others needed
    /// the units first; false if that is not for it.
    fn reserve(&self, hit: &Hit<'_>, locked: &mut Locked<'_>) -> bool {
        let Some((mut account, stand)) = self.shared_at(hit, locked) else { return false };
        let may_reserve = hit.cost > 1 && stand.has_peers() && account.shared().may_wait();
        let Ok(units) = i64::try_from(hit.cost) else { return false };
        let (shared, when) = (account.shared(), account.when());
        match account.motion() {
            Some(mut motion) if may_reserve && motion.reserved == 0 => {
                motion.reserved = hit.cost;
                motion.reserved_when = when;
                motion.settles_after = None;
                motion.spend(shared.counter(), when, units);
            }
            _ => return false,
        }
        account.charge(shared.ticks(hit.cost), when);
        account.mark_dirty();
        self.ask_early(&mut account);
        true
    }

    /// Asks again for a check whose cost is reserved: kept when every peer knows of it and nobody
    /// needed the units first, and given back otherwise, and when its caller has gone.
    #[expect(clippy::too_many_arguments, reason = "all that there is to know of one check")]
    fn settle(
        &self,
        now_ns: u64,
        question: &Question,
        force: &InForce,
        ticket: Ticket,
        hits: &mut [Hit<'_>],
        is_gone: bool,
        held: &mut Option<Ticket>,
    ) -> Option<Decision<'_>> {
        let is_reserved = |hit: &Hit<'_>| {
            hit.slot == ticket.waits_for.slot && hit.hash() == Some(ticket.waits_for.hash)
        };
        let hashes = hits.iter().filter_map(Hit::hash);
        let mut locked = self.store().lock(hashes, now_ns, force)?;
        let (mut is_kept, mut is_settled) = (!is_gone, false);
        for hit in hits.iter_mut() {
            self.seat(question, hit, &mut locked);
            if is_reserved(hit) {
                is_settled = account_at(force, &mut locked, ticket.waits_for)
                    .is_none_or(|mut account| account.motion().is_none_or(|m| m.is_settled()));
                is_kept &= is_settled && hit.stand().is_none_or(|stand| !stand.is_overdrawn());
            } else {
                self.test(Op::Check, hit, &locked);
                is_kept &= hit.denial.is_none() || hit.rule.shadow;
            }
        }
        if !is_settled && question.may_hold {
            hits.iter_mut().for_each(|hit| hit.note_times(&locked));
            drop(locked);
            *held = Some(ticket);
            return Some(self.decision(question, force, hits.iter()));
        }
        let exchange = self.fleet().map_or(Wait::ZERO, |fleet| fleet.until_exchange(now_ns));
        for hit in hits.iter_mut() {
            hit.note_queue(is_reserved(hit));
            if is_reserved(hit) {
                self.release(force, hit, !is_kept, &mut locked);
                if !is_kept {
                    // Others may have left too little; or there is enough, and no time.
                    self.test(Op::Check, hit, &locked);
                    hit.denial = hit.denial.or(Some((Reason::Share, exchange)));
                }
            } else if is_kept {
                self.apply(Op::Check, hit, &mut locked);
            }
            hit.note_times(&locked);
        }
        let at_ns = locked.now_ns();
        drop(locked);
        self.testify(Op::Check, !is_kept, at_ns, hits);
        if !is_gone {
            self.count_share_denied(hits);
            hits.iter().for_each(|hit| self.tally(question, hit, !is_kept));
        }
        Some(self.decision(question, force, hits.iter()))
    }

    /// The cost of `hit` is no longer only reserved: it is spent, or given back.
    fn release(
        &self,
        plan: &Plan,
        hit: &mut Hit<'_>,
        is_given_back: bool,
        locked: &mut Locked<'_>,
    ) {
        let Some(hash) = hit.hash() else { return };
        let bucket = Bucket { slot: hit.slot, hash };
        let Some(mut account) = account_at(plan, locked, bucket) else { return };
        let shared = account.shared();
        let (ticks, mut when) = (shared.ticks(hit.cost), When::Untimed);
        if let Some(mut motion) = account.motion() {
            when = motion.reserved_when;
            motion.reserved = motion.reserved.saturating_sub(hit.cost);
            motion.settles_after = None;
            if is_given_back {
                let units = i64::try_from(hit.cost).unwrap_or(i64::MAX);
                motion.spend(shared.counter(), when, -units);
            }
        }
        if !is_given_back {
            return;
        }
        account.charge(-ticks, when);
        account.mark_dirty();
        self.ask_early(&mut account);
        if let Some(fleet) = self.fleet() {
            fleet.event(FleetEvent::Released);
        }
        hit.moved(-ticks);
    }

    /// Changes the bucket of `hit`, which is shared, as `op` says.
    pub(crate) fn apply_shared(&self, op: Op, hit: &mut Hit<'_>, locked: &mut Locked<'_>) {
        let Some((mut account, stand)) = self.shared_at(hit, locked) else { return };
        let cost = i64::try_from(hit.cost).unwrap_or(i64::MAX);
        let shared = account.shared();
        if let Some(counter) = shared.counter()
            && matches!(op, Op::Refund | Op::Reset)
        {
            let wanted = if op == Op::Reset { u64::MAX } else { hit.cost };
            let moved = give_back(&mut account, counter, wanted);
            if moved > 0 && stand.wants_flush(account.unpublished_ticks(), false) {
                self.ask_early(&mut account);
            }
            hit.moved(-shared.ticks(moved));
            if let State::Bucket { seat, .. } = &mut hit.state {
                seat.moved = moved;
            }
            return;
        }
        let units = match op {
            Op::Peek => return,
            // What fits is charged whole, however deep the level lies that it is a part of.
            Op::Check if stand.covers(account.shared().ticks(hit.cost)) => cost,
            // An isolated node whose limit lets everything pass counts it as a debit.
            Op::Check | Op::Debit => cost.min(account.units_to_deepest_debt()),
            Op::Refund => -cost.min(account.units_below_full()),
            // A part of a unit goes with it: nothing of what was used stays.
            Op::Reset => -account.units_used(),
        };
        let is_clipped = op == Op::Debit && units < cost;
        if units != 0 {
            let (ticks, when) = (shared.signed_ticks(units), account.when());
            account.charge(ticks, when);
            if let Some(mut motion) = account.motion() {
                motion.spend(shared.counter(), when, units);
            }
            account.mark_dirty();
            if stand.wants_flush(account.unpublished_ticks(), false) {
                self.ask_early(&mut account);
            }
            hit.moved(ticks);
            if let State::Bucket { seat, .. } = &mut hit.state {
                seat.moved = units.unsigned_abs();
            }
        }
        if is_clipped {
            self.note_clipped(hit);
        }
    }

    /// Counts a check that was denied if it was for want of a share: as one, and for each of `hits` that
    /// had units left.
    pub(crate) fn count_share_denied(&self, hits: &[Hit<'_>]) {
        let Some(fleet) = self.fleet() else { return };
        let mut is_counted = false;
        for hit in hits.iter().filter(|hit| hit.is_short() && !hit.rule.shadow) {
            self.note_share_denied(hit);
            is_counted = true;
        }
        if is_counted {
            fleet.event(FleetEvent::ShareDenied);
        }
    }

    pub(super) fn ask_early(&self, account: &mut Account<'_>) {
        if let Some(fleet) = self.fleet()
            && account.ask_early()
        {
            fleet.ask_early(account.bucket());
        }
    }

    /// The account of `hit`, if it is shared, and where it stands.
    fn shared_at<'l, 'h, 'p: 'l>(
        &self,
        hit: &'h Hit<'p>,
        locked: &'l mut Locked<'_>,
    ) -> Option<(Account<'l>, &'h Stand)> {
        let (stand, now_ns) = (hit.stand()?, locked.now_ns());
        let bucket = Bucket { slot: hit.slot, hash: hit.hash()? };
        let State::Bucket { shared, .. } = &hit.state else { return None };
        let shard = locked.shard_of(bucket.hash)?;
        Some((Account::reopen(shard, shared.clone(), bucket, now_ns)?, stand))
    }
}

/// One limit of a held check, asked again; none: it is no longer in force.
fn hit_again<'p>(plan: &'p Plan, held: &TicketHit) -> Option<Hit<'p>> {
    let rule = plan.rule(held.slot).filter(|rule| rule.id() == held.id)?;
    let state = match (&rule.allowance, held.hash) {
        (Allowance::Counted(shared), Some(hash)) => State::unseated(shared, hash),
        (Allowance::Unlimited, _) => State::Unlimited,
        (Allowance::Carried, Some(hash)) => State::Carried { hash },
        _ => State::Deny { capacity: rule.allowance.capacity() },
    };
    Some(Hit { slot: held.slot, rule, cost: held.cost, terms: held.terms, state, denial: None })
}

fn account_at<'l>(
    plan: &'l Plan,
    locked: &'l mut Locked<'_>,
    bucket: Bucket,
) -> Option<Account<'l>> {
    let now_ns = locked.now_ns();
    let shard = locked.shard_of(bucket.hash)?;
    let shared = shard.held(plan, bucket)?;
    Account::open(shard, shared, bucket, now_ns)
}

/// Takes up to `units` off what counts in `account`, and publishes that; gives how many.
pub(super) fn give_back(account: &mut Account<'_>, counter: &Counter, units: u64) -> u64 {
    let taken = account.give_back(counter, units);
    if let Some(mut motion) = account.motion() {
        for (when, units) in &taken {
            motion.spend(Some(counter), *when, -i64::try_from(*units).unwrap_or(i64::MAX));
        }
    }
    account.mark_dirty();
    taken.iter().map(|(_, units)| *units).sum()
}
