//! Where a request's bucket is found, and how it changes: the places of the store, and the arithmetic of a node
//! that shares the bucket with nobody.

use std::sync::Arc;

use crate::counters::Event;
use crate::hit::{Hit, State, weigh};
use crate::question::Question;
use crate::share::look_as;
use crate::store::{Held, Locked, More, Numbered, Own, Place};
use crate::{Limiter, Op, Terms, WhenFull};

impl Limiter {
    /// Looks the bucket of `hit` up, or finds that there is no room for it.
    pub(crate) fn seat(&self, question: &Question, hit: &mut Hit<'_>, locked: &mut Locked<'_>) {
        let has_numbers = match hit.state {
            State::Bucket { hash, .. } => {
                if let Some(own) = locked.own(hash) {
                    hold(hit, own);
                }
                true
            }
            State::Carried { hash } => {
                let Some(terms) = hit.terms else { return };
                match self.hold_terms(question, hit, (hash, terms), locked) {
                    Terming::Held => true,
                    Terming::Seen => return,
                    Terming::NoRoom => false,
                }
            }
            _ => return,
        };
        let (mut place, mut missing) = (Place::None, 0);
        if has_numbers {
            // Where an operator said that nothing is counted there is nothing to find.
            let State::Bucket { shared, hash, .. } = &hit.state else { return };
            let adds = !question.is_peek && matches!(question.op, Op::Check | Op::Debit);
            let more =
                More { units: if adds { hit.cost } else { 0 }, must_fit: question.op != Op::Debit };
            (place, missing) = locked.find(*hash, shared, more);
        }
        if place != Place::None && self.fleet().is_some() {
            place = self.seat_member(question, hit, place, locked);
        }
        let mut weight = 1;
        if place == Place::None {
            let spread = hit.hash().unwrap_or(0);
            self.counters().event(spread, Event::Full, 1);
            let overflow = match self.when_full() {
                WhenFull::Overflow => find_overflow(hit, locked),
                WhenFull::Allow => return hit.state = State::Uncounted,
                WhenFull::Deny => None,
            };
            let Some(found) = overflow else { return hit.state = State::Full };
            (place, missing) = found;
            weight = locked.members() as u64;
        }
        hit.sit(place, missing);
        if let State::Bucket { seat, .. } = &mut hit.state {
            seat.weight = weight;
        }
    }

    /// Finds the numbers of the carried bucket `hash` that a call with `terms` asks for.
    fn hold_terms(
        &self,
        question: &Question,
        hit: &mut Hit<'_>,
        (hash, terms): (u64, Terms),
        locked: &mut Locked<'_>,
    ) -> Terming {
        let changes = match question.op {
            Op::Peek => false,
            // What can never pass leaves a bucket as it is.
            Op::Check => hit.cost > 0 && hit.cost <= terms.burst,
            Op::Debit => hit.cost > 0,
            Op::Refund | Op::Reset => locked.own(hash).is_some(),
        };
        let shard = locked.shard_of(hash);
        let has =
            shard.and_then(|shard| shard.numbered(hash)).filter(|has| has.is_by(terms)).cloned();
        if has.is_none() && !changes {
            return self.look_by(hit, (hash, terms), locked);
        }
        let taken = has.or_else(|| locked.take_terms((hit.slot, hash), terms));
        let Some(numbered) = taken else { return Terming::NoRoom };
        hit.state = State::numbered(Held::Own(numbered), hash);
        Terming::Held
    }

    /// Sees how the carried bucket `hash` would stand by `terms` that it does not have, and changes nothing.
    pub(crate) fn look_by(
        &self,
        hit: &mut Hit<'_>,
        (hash, terms): (u64, Terms),
        locked: &mut Locked<'_>,
    ) -> Terming {
        let now_ns = locked.now_ns();
        let Some(numbered) = Numbered::by(terms).map(Arc::new) else { return Terming::NoRoom };
        let Some(shard) = locked.shard_of(hash) else { return Terming::NoRoom };
        let from = shard.numbered(hash).unwrap_or(&numbered);
        let (stand, missing) = look_as(shard, from, &numbered, hash, now_ns, self.fleet());
        hit.state = State::numbered(Held::Own(numbered), hash);
        hit.sit(Place::None, missing);
        if let State::Bucket { seat, .. } = &mut hit.state {
            seat.stand = stand;
        }
        Terming::Seen
    }

    /// Changes the bucket of `hit` as `op` says.
    pub(crate) fn apply(&self, op: Op, hit: &mut Hit<'_>, locked: &mut Locked<'_>) {
        if hit.denial.is_some() {
            return;
        }
        if hit.stand().is_some() {
            return self.apply_shared(op, hit, locked);
        }
        let State::Bucket { shared, hash, seat } = &mut hit.state else { return };
        let Some(level) = shared.level() else { return self.apply_count(op, hit, locked) };
        let cost = weigh(hit.cost, seat.weight);
        let after = match op {
            Op::Peek => return,
            Op::Check => level.spend(seat.missing, cost),
            Op::Debit => {
                let (after, clipped) = level.debit(seat.missing, cost);
                self.counters().event(*hash, Event::DebitClipped, u64::from(clipped));
                seat.moved_to(after, shared);
                after
            }
            Op::Refund => {
                let after = level.refund(seat.missing, cost);
                seat.moved_to(after, shared);
                after
            }
            Op::Reset => {
                locked.remove(seat.place, *hash, hit.slot);
                seat.moved_to(0, shared);
                seat.missing = 0;
                return;
            }
        };
        if after != seat.missing {
            let full_at = level.tick(locked.now_ns()).wrapping_add(after);
            locked.write(seat.place, *hash, hit.slot, full_at);
            seat.missing = after;
        }
    }

    /// Changes the bucket of `hit`, which counts and is not shared, as `op` says.
    fn apply_count(&self, op: Op, hit: &mut Hit<'_>, locked: &mut Locked<'_>) {
        let State::Bucket { shared, hash, seat } = &mut hit.state else { return };
        let Some(counter) = shared.counter() else { return };
        let cost = weigh(hit.cost, seat.weight);
        if cost == 0 && op != Op::Reset {
            return;
        }
        let (place, bucket, now) = (seat.place, (hit.slot, *hash), locked.now());
        let when = counter.when(locked.count(place, *hash, hit.slot), now);
        let moved = match op {
            Op::Peek => return,
            Op::Check | Op::Debit => {
                // A debt is at most one limit more.
                let most = counter.limit().saturating_mul(2);
                let used = seat.missing.div_ceil(counter.per_unit());
                let units = cost.min(most.saturating_sub(used));
                self.counters().event(*hash, Event::DebitClipped, u64::from(units < cost));
                let added = i64::try_from(units).unwrap_or(i64::MAX);
                locked.change_count(place, bucket, counter, |it| counter.add(it, when, added, now));
                units
            }
            Op::Refund | Op::Reset if locked.count(place, *hash, hit.slot).is_none() => 0,
            Op::Refund | Op::Reset => {
                let wanted = if op == Op::Reset { u64::MAX } else { cost };
                let back = locked
                    .change_count(place, bucket, counter, |it| counter.give_back(it, wanted, now));
                if op == Op::Reset {
                    locked.remove(place, *hash, hit.slot);
                }
                back.into_iter().flatten().map(|(_, units)| units).sum()
            }
        };
        if op != Op::Check {
            seat.moved = moved / seat.weight;
        }
        seat.missing = counter.missing(locked.count(place, *hash, hit.slot), now);
    }
}

/// What became of the terms of a call.
pub(crate) enum Terming {
    /// The bucket has them.
    Held,
    /// The bucket has others or none, and the call changes nothing: it was answered as if it had them.
    Seen,
    /// There is no room for them.
    NoRoom,
}

/// Takes over what an operator gave the bucket of `hit`.
pub(crate) fn hold(hit: &mut Hit<'_>, own: &Own) {
    match own {
        Own::Deny => hit.state = State::Deny { capacity: 0 },
        Own::Unlimited => hit.state = State::Unlimited,
        Own::Counted(numbered) => {
            if let State::Bucket { shared, .. } = &mut hit.state {
                *shared = Held::Own(Arc::clone(numbered));
            }
        }
    }
}

/// The overflow bucket for `hit`, and the ticks missing in it; none where there is none.
pub(crate) fn find_overflow(hit: &mut Hit<'_>, locked: &mut Locked<'_>) -> Option<(Place, u64)> {
    let hash = hit.hash()?;
    if let Some(terms) = hit.terms {
        let (numbered, place, missing) = locked.find_overflow_of(terms)?;
        hit.state = State::numbered(Held::Own(numbered), hash);
        return Some((place, missing));
    }
    // Shared by many keys, it has the numbers of the rule whatever those of this one are.
    let rule = hit.rule.shared()?;
    if let State::Bucket { shared, .. } = &mut hit.state {
        *shared = Held::OfRule(rule);
    }
    Some(locked.find_overflow(hit.slot, rule))
}
