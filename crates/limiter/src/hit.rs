//! One limit that applies to one request: its bucket's state, whether the cost fits, what it says.

use crate::algorithm::{Algorithm, Counter, Room};
use crate::matching::Slot;
use crate::names::Names;
use crate::rule::Rule;
use crate::share::{Judgement, SharedBucket, Stand, fits_after};
use crate::store::{Held, Locked, Place};
use crate::{Op, Reason, Spend, SpendKind, Terms, Verdict, Wait};

/// Wait that a caller is told when there is no room to count its key. Room appears when an entry
/// comes to rest, which nobody can foretell; a second is short for a person and long for a node.
const FULL_RETRY: Wait = Wait::from_ns(1_000_000_000);

/// One limit that applies to a request.
pub(crate) struct Hit<'p> {
    pub(crate) slot: Slot,
    pub(crate) rule: &'p Rule,
    /// Cost of the request in the limit's unit.
    pub(crate) cost: u64,
    /// What the request carries, where that is the limit.
    pub(crate) terms: Option<Terms>,
    pub(crate) state: State<'p>,
    /// Why the request may not pass here, and for how long; found before anything is spent.
    pub(crate) denial: Option<(Reason, Wait)>,
}

/// Where a limit's answer comes from.
#[expect(clippy::large_enum_variant, reason = "nearly every hit is a bucket, and a box is slower")]
pub(crate) enum State<'p> {
    /// A bucket, found or not yet looked for, and the numbers by which it counts.
    Bucket { shared: Held<'p>, hash: u64, seat: Seat },
    /// A bucket of the carried limit, not yet looked for.
    Carried { hash: u64 },
    /// Everything passes.
    Unlimited,
    /// Nothing passes.
    Deny {
        /// What is said to be the capacity.
        capacity: u64,
    },
    /// There is no room to count the key, and it passes.
    Uncounted,
    /// There is no room to count the key, and it is denied.
    Full,
}

/// A bucket's place in the store, and what it lacks.
pub(crate) struct Seat {
    pub(crate) place: Place,
    /// Ticks missing until full.
    pub(crate) missing: u64,
    /// What [`Hit::note_queue`] and [`Hit::note_times`] found.
    pub(crate) times: Times,
    /// Where it stands among the members of a cluster, if it is shared with any.
    pub(crate) stand: Option<Stand>,
    /// Units that a debit took, or a refund or a reset gave back. A check takes its cost or nothing.
    pub(crate) moved: u64,
    /// By how much a cost weighs more than itself: the members, in the overflow bucket of a cluster,
    /// which every node has for itself.
    pub(crate) weight: u64,
}

impl Seat {
    /// Notes that what is missing becomes `after`.
    pub(crate) fn moved_to(&mut self, after: u64, shared: &SharedBucket) {
        let units = self.missing.abs_diff(after).div_ceil(shared.per_unit());
        self.moved = units / self.weight;
    }
}

/// What only some buckets have: those that count, and queues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// Until a bucket that counts is as if untouched.
    reset_after: Wait,
    /// Length of the window that it counts over.
    window: Wait,
    /// Until what is ahead of a call that passes has drained from a queue.
    queued: Wait,
}

impl Times {
    const NONE: Self = Self { reset_after: Wait::ZERO, window: Wait::ZERO, queued: Wait::ZERO };
}

impl<'p> State<'p> {
    /// The bucket `hash`, not yet looked for, of a rule with these numbers.
    pub(crate) fn unseated(shared: &'p SharedBucket, hash: u64) -> Self {
        Self::numbered(Held::OfRule(shared), hash)
    }

    /// The bucket `hash`, not yet looked for.
    pub(crate) fn numbered(shared: Held<'p>, hash: u64) -> Self {
        let seat = Seat {
            place: Place::None,
            missing: 0,
            times: Times::NONE,
            stand: None,
            moved: 0,
            weight: 1,
        };
        Self::Bucket { shared, hash, seat }
    }
}

impl<'p> Hit<'p> {
    /// Identity of the bucket, where there is one.
    pub(crate) fn hash(&self) -> Option<u64> {
        match &self.state {
            State::Bucket { hash, .. } | State::Carried { hash } => Some(*hash),
            State::Unlimited | State::Deny { .. } | State::Uncounted | State::Full => None,
        }
    }

    /// What `op` did to the bucket at `at_ns`, once it was applied; none if it did nothing.
    pub(crate) fn spend(&self, op: Op, at_ns: u64) -> Option<Spend> {
        let State::Bucket { hash, seat, .. } = &self.state else { return None };
        let (kind, units) = match op {
            Op::Peek => return None,
            Op::Check if self.denial.is_some() => return None,
            Op::Check => (SpendKind::Check, self.cost),
            Op::Debit => (SpendKind::Debit, seat.moved),
            Op::Refund | Op::Reset => (SpendKind::Refund, seat.moved),
        };
        (units > 0).then_some(Spend { at_ns, slot: self.slot, hash: *hash, kind, units })
    }

    /// Whether a cost that is charged here goes anywhere.
    pub(crate) fn takes_units(&self) -> bool {
        !matches!(self.state, State::Deny { .. } | State::Full)
    }

    /// Notes where the bucket was found, and the ticks missing in it.
    pub(crate) fn sit(&mut self, place: Place, missing: u64) {
        if let State::Bucket { seat, .. } = &mut self.state {
            seat.place = place;
            seat.missing = missing;
        }
    }

    /// Where the bucket stands among the members of a cluster.
    pub(crate) fn stand(&self) -> Option<&Stand> {
        match &self.state {
            State::Bucket { seat, .. } => seat.stand.as_ref(),
            _ => None,
        }
    }

    /// `ticks` were charged to the bucket.
    pub(crate) fn moved(&mut self, ticks: i128) {
        if let State::Bucket { seat, .. } = &mut self.state
            && let Some(stand) = &mut seat.stand
        {
            stand.moved(ticks);
        }
    }

    /// Capacity, in units: of the bucket, or of the rule where none is counted.
    pub(crate) fn capacity(&self) -> u64 {
        match (&self.state, self.terms) {
            (State::Bucket { shared, .. }, _) => shared.capacity(),
            (State::Deny { capacity }, _) => *capacity,
            (_, Some(terms)) => terms.burst,
            (_, None) => self.rule.allowance.capacity(),
        }
    }

    /// Whether units are left, but not this node's to spend yet.
    pub(crate) fn is_short(&self) -> bool {
        matches!(self.denial, Some((Reason::Share, _))) && self.stand().is_some()
    }

    /// Finds whether the request may pass here; the next exchange with peers is `exchange` away. Only a
    /// check and a peek can be denied.
    pub(crate) fn test(&mut self, op: Op, locked: &Locked<'_>, exchange: Wait) {
        if !matches!(op, Op::Check | Op::Peek) {
            return;
        }
        self.denial = match &self.state {
            State::Bucket { shared, hash, seat } => match &seat.stand {
                Some(stand) => self.denial_of(shared, *hash, seat, stand, locked, exchange),
                None => self.denial_alone(shared, *hash, seat, locked),
            },
            State::Unlimited | State::Uncounted => None,
            State::Deny { .. } => Some((Reason::Deny, Wait::NEVER)),
            // A carried bucket that nobody looked for has no place.
            State::Full | State::Carried { .. } => Some((Reason::Full, FULL_RETRY)),
        };
    }

    #[inline]
    fn denial_alone(
        &self,
        shared: &SharedBucket,
        hash: u64,
        seat: &Seat,
        locked: &Locked<'_>,
    ) -> Option<(Reason, Wait)> {
        let cost = weigh(self.cost, seat.weight);
        let wait = match &shared.algorithm {
            Algorithm::Level(level) => match level.room(seat.missing, cost) {
                Room::Fits => return None,
                Room::After(wait) => wait,
            },
            Algorithm::Count(counter) => match counter.most_missing(cost) {
                Some(most) if seat.missing <= most => return None,
                Some(most) => {
                    let count = locked.count(seat.place, hash, self.slot);
                    counter.until(count, locked.now(), most)
                }
                None => Wait::NEVER,
            },
        };
        Some((Reason::Limit, wait))
    }

    fn denial_of(
        &self,
        shared: &SharedBucket,
        hash: u64,
        seat: &Seat,
        stand: &Stand,
        locked: &Locked<'_>,
        exchange: Wait,
    ) -> Option<(Reason, Wait)> {
        if self.cost > shared.capacity() {
            return Some((Reason::Limit, Wait::NEVER));
        }
        match stand.judge(shared.ticks(self.cost)) {
            Judgement::Fits => None,
            Judgement::Share => Some((Reason::Share, exchange)),
            Judgement::Limit => {
                // No wait helps where only the members that are missing could make room for it.
                let wait = match shared.counter() {
                    None => {
                        let view = locked.view();
                        view.and_then(|view| stand.fits_after(shared, self.cost, view, hash))
                    }
                    Some(counter) => {
                        let count = locked.count(seat.place, hash, self.slot);
                        locked.ledger_of(hash).and_then(|ledger| {
                            let around = (counter, count, locked.now());
                            fits_after(shared, hash, self.cost, around, ledger)
                        })
                    }
                };
                Some((Reason::Limit, wait.unwrap_or(Wait::NEVER)))
            }
        }
    }

    /// How long the caller must wait its turn.
    pub(crate) fn delay(&self) -> Wait {
        match &self.state {
            State::Bucket { seat, .. } if self.denial.is_none() => seat.times.queued,
            _ => Wait::ZERO,
        }
    }

    /// Finds how long a call that passes waits its turn: as long as what is ahead of it takes to drain.
    /// Its own cost may be spent already.
    pub(crate) fn note_queue(&mut self, is_spent: bool) {
        let (is_queue, own) = (self.rule.is_queue(), if is_spent { self.cost } else { 0 });
        if let State::Bucket { shared, seat, .. } = &mut self.state
            && is_queue
        {
            seat.times.queued = match (&seat.stand, shared.level()) {
                (Some(stand), _) => stand.drained_after(shared, own),
                (None, Some(level)) => level.wait(seat.missing),
                (None, None) => Wait::ZERO,
            };
        }
    }

    /// Finds the times of the bucket after the request, if it counts.
    pub(crate) fn note_times(&mut self, locked: &Locked<'_>) {
        let slot = self.slot;
        let State::Bucket { shared, hash, seat } = &mut self.state else { return };
        if let Some(counter) = shared.counter() {
            (seat.times.reset_after, seat.times.window) =
                times(counter, seat.place, (slot, *hash), locked);
        }
    }

    /// What the limit says, with the numbers after the request.
    pub(crate) fn verdict<'n>(&self, names: &'n Names) -> Verdict<'n> {
        let (reason, retry_after) = self.denial.unwrap_or((Reason::Ok, Wait::ZERO));
        let mut verdict = Verdict::without_numbers(names.get(self.rule.name_at), reason);
        verdict.retry_after = retry_after;
        verdict.shadow = self.rule.shadow;
        match &self.state {
            State::Bucket { shared, seat, .. } => {
                verdict.limit = Some(shared.capacity());
                let reset_after;
                (verdict.remaining, reset_after) = match &seat.stand {
                    Some(stand) => (Some(stand.remaining(shared)), stand.reset_after(shared)),
                    None => {
                        let left = shared.algorithm.remaining(seat.missing) / seat.weight;
                        let wait = shared.level().map_or(Wait::ZERO, |it| it.wait(seat.missing));
                        (Some(left), wait)
                    }
                };
                (verdict.reset_after, verdict.window) = match &shared.algorithm {
                    Algorithm::Level(level) => (reset_after, level.window()),
                    Algorithm::Count(_) => (seat.times.reset_after, seat.times.window),
                };
                verdict.delay = self.delay();
            }
            State::Unlimited => {}
            State::Deny { .. } | State::Full | State::Carried { .. } => {
                verdict.limit = Some(self.capacity());
                verdict.remaining = Some(0);
                verdict.reset_after = Wait::NEVER;
            }
            State::Uncounted => {
                verdict.limit = Some(self.capacity());
                verdict.remaining = verdict.limit;
            }
        }
        verdict
    }
}

/// Until what `place` counts is as if untouched, and the length of the window that it counts over.
fn times(
    counter: &Counter,
    place: Place,
    (slot, hash): (Slot, u64),
    locked: &Locked<'_>,
) -> (Wait, Wait) {
    let (count, now) = (locked.count(place, hash, slot), locked.now());
    let window = counter.period_at(count, now);
    let charged = locked.ledger_of(hash).and_then(|ledger| ledger.charge_ref(hash));
    let charged = charged.map_or(Wait::ZERO, |charge| counter.until(charge.count(), now, 0));
    (counter.until(count, now, 0).max(charged), window)
}

/// `cost`, weighed. A cost above every capacity stays above it.
pub(crate) fn weigh(cost: u64, weight: u64) -> u64 {
    cost.saturating_mul(weight)
}
