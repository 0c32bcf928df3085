//! One limit that applies to one request: its bucket's state, whether the cost fits, what it says.

use crate::algorithm::{Room, TokenBucket};
use crate::matching::Slot;
use crate::rule::Rule;
use crate::share::{Judgement, SharedBucket, Stand, View};
use crate::store::Place;
use crate::{Op, Reason, Spend, SpendKind, Verdict, Wait};

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
#[expect(clippy::large_enum_variant, reason = "nearly every hit is a bucket, and a box is slower")]
pub(crate) enum State<'p> {
    /// A bucket, found or not yet looked for.
    Bucket { shared: &'p SharedBucket, hash: u64, seat: Seat },
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
pub(crate) struct Seat {
    pub(crate) place: Place,
    /// The time, in ticks of the limit.
    pub(crate) tick: u64,
    /// Ticks missing until full.
    pub(crate) missing: u64,
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
    pub(crate) fn moved_to(&mut self, after: u64, bucket: &TokenBucket) {
        let units = self.missing.abs_diff(after).div_ceil(bucket.per_unit());
        self.moved = units / self.weight;
    }
}

impl<'p> State<'p> {
    /// The bucket `hash`, not yet looked for.
    pub(crate) fn unseated(shared: &'p SharedBucket, hash: u64) -> Self {
        let seat =
            Seat { place: Place::None, tick: 0, missing: 0, stand: None, moved: 0, weight: 1 };
        Self::Bucket { shared, hash, seat }
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
        !matches!(self.state, State::Deny | State::Full)
    }

    /// Notes where the bucket was found, and what it lacks at `now_ns` when it is full at tick
    /// `full_at`, or full already.
    pub(crate) fn sit(&mut self, place: Place, full_at: Option<u64>, now_ns: u64) {
        if let State::Bucket { shared, seat, .. } = &mut self.state {
            seat.place = place;
            seat.tick = shared.bucket.tick(now_ns);
            seat.missing = full_at.map_or(0, |full_at| TokenBucket::missing(full_at, seat.tick));
        }
    }

    /// Where the bucket stands among the members of a cluster.
    pub(crate) fn stand(&self) -> Option<&Stand> {
        match &self.state {
            State::Bucket { seat, .. } => seat.stand.as_ref(),
            State::Unlimited | State::Deny | State::Uncounted | State::Full => None,
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

    /// Capacity of the rule, in units.
    pub(crate) fn capacity(&self) -> u64 {
        self.rule.allowance.burst()
    }

    /// Whether units are left, but not this node's to spend yet.
    pub(crate) fn is_short(&self) -> bool {
        matches!(self.denial, Some((Reason::Share, _))) && self.stand().is_some()
    }

    /// Finds whether the request may pass here, in the group of `view` whose next exchange is
    /// `exchange` away. Only a check and a peek can be denied.
    pub(crate) fn test(&mut self, op: Op, view: Option<&View>, exchange: Wait) {
        if !matches!(op, Op::Check | Op::Peek) {
            return;
        }
        self.denial = match &self.state {
            State::Bucket { shared, hash, seat } => match &seat.stand {
                Some(stand) => self.denial_of(shared, *hash, stand, view, exchange),
                None => match shared.bucket.room(seat.missing, weigh(self.cost, seat.weight)) {
                    Room::Fits => None,
                    Room::After(wait) => Some((Reason::Limit, wait)),
                },
            },
            State::Unlimited | State::Uncounted => None,
            State::Deny => Some((Reason::Deny, Wait::NEVER)),
            State::Full => Some((Reason::Full, FULL_RETRY)),
        };
    }

    fn denial_of(
        &self,
        shared: &SharedBucket,
        hash: u64,
        stand: &Stand,
        view: Option<&View>,
        exchange: Wait,
    ) -> Option<(Reason, Wait)> {
        if self.cost > shared.bucket.burst() {
            return Some((Reason::Limit, Wait::NEVER));
        }
        match stand.judge(shared.ticks(self.cost)) {
            Judgement::Fits => None,
            Judgement::Share => Some((Reason::Share, exchange)),
            Judgement::Limit => {
                // No wait helps where only the members that are missing could make room for it.
                let wait = view.and_then(|view| stand.fits_after(shared, self.cost, view, hash));
                Some((Reason::Limit, wait.unwrap_or(Wait::NEVER)))
            }
        }
    }

    /// What the limit says, with the numbers after the request.
    pub(crate) fn verdict(&self) -> Verdict<'p> {
        let (reason, retry_after) = self.denial.unwrap_or((Reason::Ok, Wait::ZERO));
        let mut verdict = Verdict::without_numbers(self.rule.name(), reason);
        verdict.retry_after = retry_after;
        verdict.shadow = self.rule.shadow;
        match &self.state {
            State::Bucket { shared, seat, .. } => {
                let bucket = &shared.bucket;
                verdict.limit = Some(bucket.burst());
                verdict.window = bucket.window();
                (verdict.remaining, verdict.reset_after) = match &seat.stand {
                    Some(stand) => (Some(stand.remaining(shared)), stand.reset_after(shared)),
                    None => {
                        let left = bucket.remaining(seat.missing) / seat.weight;
                        (Some(left), bucket.wait(seat.missing))
                    }
                };
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

/// `cost`, weighed. A cost above every capacity stays above it.
pub(crate) fn weigh(cost: u64, weight: u64) -> u64 {
    cost.saturating_mul(weight)
}
