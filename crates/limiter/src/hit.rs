//! One limit that applies to one request: its bucket's state, whether the cost fits, what it says.

use crate::algorithm::{Room, TokenBucket};
use crate::matching::Slot;
use crate::plan::Rule;
use crate::store::Place;
use crate::{Op, Reason, Verdict, Wait};

/// Wait that a caller is told when there is no room to count its key. Room appears when an entry
/// comes to rest, which nobody can foretell; a second is short for a person and long for a node.
const FULL_RETRY: Wait = Wait::from_ns(1_000_000_000);

/// One limit that applies to a request.
pub(crate) struct Hit<'p> {
    pub(crate) slot: Slot,
    pub(crate) rule: &'p Rule,
    /// Cost of the request in the limit's unit.
    pub(crate) cost: u64,
    pub(crate) state: State<'p>,
    /// Why the request may not pass here, and for how long; found before anything is spent.
    pub(crate) denial: Option<(Reason, Wait)>,
}

/// Where a limit's answer comes from.
pub(crate) enum State<'p> {
    /// A bucket, found or not yet looked for.
    Bucket { bucket: &'p TokenBucket, hash: u64, seat: Seat },
    /// Everything passes.
    Unlimited,
    /// Nothing passes.
    Deny,
    /// There is no room to count the key, and it passes.
    Uncounted,
    /// There is no room to count the key, and it is denied.
    Full,
}

/// A bucket's place in the store, and what it lacks.
#[derive(Clone, Copy)]
pub(crate) struct Seat {
    pub(crate) place: Place,
    /// The time, in ticks of the limit.
    pub(crate) tick: u64,
    /// Ticks missing until full.
    pub(crate) missing: u64,
}

impl<'p> State<'p> {
    /// The bucket `hash`, not yet looked for.
    pub(crate) fn unseated(bucket: &'p TokenBucket, hash: u64) -> Self {
        let seat = Seat { place: Place::None, tick: 0, missing: 0 };
        Self::Bucket { bucket, hash, seat }
    }
}

impl<'p> Hit<'p> {
    /// Identity of the bucket, where there is one.
    pub(crate) fn hash(&self) -> Option<u64> {
        match &self.state {
            State::Bucket { hash, .. } => Some(*hash),
            State::Unlimited | State::Deny | State::Uncounted | State::Full => None,
        }
    }

    /// Whether a cost that is charged here goes anywhere.
    pub(crate) fn takes_units(&self) -> bool {
        !matches!(self.state, State::Deny | State::Full)
    }

    /// Notes where the bucket was found, and what it lacks at `now_ns` when it is full at tick
    /// `full_at`, or full already.
    pub(crate) fn sit(&mut self, place: Place, full_at: Option<u64>, now_ns: u64) {
        if let State::Bucket { bucket, seat, .. } = &mut self.state {
            let tick = bucket.tick(now_ns);
            let missing = full_at.map_or(0, |full_at| TokenBucket::missing(full_at, tick));
            *seat = Seat { place, tick, missing };
        }
    }

    /// Finds whether the request may pass here. Only a check and a peek can be denied.
    pub(crate) fn test(&mut self, op: Op) {
        if matches!(op, Op::Check | Op::Peek) {
            self.denial = match &self.state {
                State::Bucket { bucket, seat, .. } => match bucket.room(seat.missing, self.cost) {
                    Room::Fits => None,
                    Room::After(wait) => Some((Reason::Limit, wait)),
                },
                State::Unlimited | State::Uncounted => None,
                State::Deny => Some((Reason::Deny, Wait::NEVER)),
                State::Full => Some((Reason::Full, FULL_RETRY)),
            };
        }
    }

    /// What the limit says, with the numbers after the request.
    pub(crate) fn verdict(&self) -> Verdict<'p> {
        let (reason, retry_after) = self.denial.unwrap_or((Reason::Ok, Wait::ZERO));
        let mut verdict = Verdict::without_numbers(self.rule.name(), reason);
        verdict.retry_after = retry_after;
        verdict.shadow = self.rule.shadow;
        match &self.state {
            State::Bucket { bucket, seat, .. } => {
                verdict.limit = Some(bucket.burst());
                verdict.remaining = Some(bucket.remaining(seat.missing));
                verdict.reset_after = bucket.wait(seat.missing);
                verdict.window = bucket.window();
            }
            State::Unlimited => {}
            State::Deny | State::Full => {
                verdict.limit = Some(self.rule.allowance.burst());
                verdict.remaining = Some(0);
                verdict.reset_after = Wait::NEVER;
            }
            State::Uncounted => {
                verdict.limit = Some(self.rule.allowance.burst());
                verdict.remaining = verdict.limit;
            }
        }
        verdict
    }
}
