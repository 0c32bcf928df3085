//! What the callers of all nodes saw: calls and answers in slots of 100 ms, the worst window, and what
//! a central limiter would have said to the same calls.
//!
//! Everything is counted where the calls are made, in the order in which the answers came. Nothing is
//! taken from what the nodes say of themselves.

use std::collections::VecDeque;

use limiter::{Limiter, PlanError, Reason, Request, StoreConfig, WhenFull};

use super::{ENDPOINT, KEY, MEMBERS_MAX, Offer, plan};

/// Length of a slot in nanoseconds.
pub(super) const SLOT_NS: u64 = 100_000_000;
/// Slots in a second.
pub(super) const SLOTS_PER_S: u64 = NS_PER_S / SLOT_NS;
/// Slots that are kept: half a minute, more than the widest terminal shows.
pub(super) const SLOTS_MAX: usize = 300;
const NS_PER_S: u64 = 1_000_000_000;
const NS_PER_MS: u64 = 1_000_000;
/// For the one bucket of the central limiter.
const CENTRAL_BYTES: u64 = 1 << 20;

/// What happened in one slot, by node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slot {
    /// Calls that were made.
    pub(super) asked: [u64; MEMBERS_MAX],
    /// Calls that were let through.
    pub(super) admitted: [u64; MEMBERS_MAX],
}

/// What happened since the calls began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Calls that were made.
    pub(super) asked: u64,
    /// Calls that were let through.
    pub(super) admitted: u64,
    /// Calls that were denied because the limit had too few units left.
    pub(super) denied_limit: u64,
    /// Calls that were denied because what was left was not yet the node's to spend.
    pub(super) denied_share: u64,
    /// Calls that were held for an acknowledgement of the peers before they were decided.
    pub(super) held: u64,
}

/// Calls that were all made at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Burst {
    /// Calls that are to come.
    pub(super) calls: u64,
    /// Calls that were answered.
    pub(super) answered: u64,
    /// Of them, those that were let through.
    pub(super) admitted: u64,
    /// Those that the central limiter would have let through.
    pub(super) central: u64,
}

/// How a call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One of many, at its time.
    Steady,
    /// Of a burst.
    Burst,
}

/// Everything that was counted, to be looked at while it is counted on.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    offer: Offer,
    began_ns: u64,
    slots: VecDeque<Slot>,
    /// Number of the first slot that is kept.
    first: u64,
    totals: Totals,
    worst_excess_milli: u64,
    central_admitted: u64,
    burst: Burst,
}

/// The count of everything.
#[derive(Debug)]
pub(super) struct Tally {
    figures: Figures,
    excess: Excess,
    central: Limiter,
}

impl Tally {
    /// A count of calls that begin at `began_ns`, against `offer`.
    ///
    /// # Errors
    /// The offer makes no limit.
    pub(super) fn new(offer: Offer, began_ns: u64) -> Result<Self, PlanError> {
        let store = StoreConfig {
            memory_bytes: CENTRAL_BYTES,
            entries_max: None,
            when_full: WhenFull::Overflow,
            secret: [0; 16],
        };
        let figures = Figures {
            offer,
            began_ns,
            slots: VecDeque::with_capacity(SLOTS_MAX),
            first: 0,
            totals: Totals::default(),
            worst_excess_milli: 0,
            central_admitted: 0,
            burst: Burst::default(),
        };
        let central = Limiter::new(plan(offer)?, store);
        Ok(Self { figures, excess: Excess::new(offer.per_s), central })
    }

    /// What was counted so far.
    pub(super) fn figures(&self) -> &Figures {
        &self.figures
    }

    /// The calls begin only now.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.figures.began_ns = now_ns;
    }

    /// A call is made to `node`.
    pub(super) fn asked(&mut self, now_ns: u64, node: usize, kind: Kind) {
        self.figures.totals.asked += 1;
        count(&mut self.figures.slot(now_ns).asked, node);
        // An error is a request outside the bounds, which this one is not.
        let decision = self.central.decide(now_ns, &Request::check(ENDPOINT, KEY));
        if decision.is_ok_and(|decision| decision.verdict.allowed) {
            self.figures.central_admitted += 1;
            self.figures.burst.central += u64::from(kind == Kind::Burst);
        }
    }

    /// A call to `node` is answered, for this reason, after it was `held` or at once.
    pub(super) fn answered(
        &mut self,
        now_ns: u64,
        node: usize,
        kind: Kind,
        reason: Reason,
        held: bool,
    ) {
        let is_admitted = reason == Reason::Ok;
        self.figures.totals.held += u64::from(held);
        match reason {
            Reason::Ok => {
                self.figures.totals.admitted += 1;
                count(&mut self.figures.slot(now_ns).admitted, node);
                self.excess.admit(now_ns);
                self.figures.worst_excess_milli = self.excess.worst_milli(self.figures.offer.burst);
            }
            Reason::Share => self.figures.totals.denied_share += 1,
            _ => self.figures.totals.denied_limit += 1,
        }
        if kind == Kind::Burst {
            self.figures.burst.answered += 1;
            self.figures.burst.admitted += u64::from(is_admitted);
        }
    }

    /// Calls are about to come at one moment. Those of an earlier burst that are not answered yet
    /// count with them.
    pub(super) fn begin_burst(&mut self) {
        self.figures.burst = Burst { calls: u64::MAX, ..Burst::default() };
    }

    /// They are so many.
    pub(super) fn expect_of_burst(&mut self, calls: u64) {
        self.figures.burst.calls = calls;
    }
}

impl Figures {
    /// The last burst.
    pub(super) fn burst(&self) -> Burst {
        self.burst
    }

    /// What the calls are counted against.
    pub(super) fn offer(&self) -> Offer {
        self.offer
    }

    /// Milliseconds since the calls began.
    pub(super) fn elapsed_ms(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.began_ns) / NS_PER_MS
    }

    /// Everything since the calls began.
    pub(super) fn totals(&self) -> Totals {
        self.totals
    }

    /// What a central limiter would have let through of the same calls.
    pub(super) fn central_admitted(&self) -> u64 {
        self.central_admitted
    }

    /// `burst + rate * t` for the time since the calls began, in whole units.
    pub(super) fn allowance(&self, now_ns: u64) -> u64 {
        let elapsed_ns = u128::from(now_ns.saturating_sub(self.began_ns));
        let refilled = elapsed_ns * u128::from(self.offer.per_s) / u128::from(NS_PER_S);
        self.offer.burst.saturating_add(u64::try_from(refilled).unwrap_or(u64::MAX))
    }

    /// By how much the worst of all windows lies above `burst + rate * its length`, in thousandths of
    /// a unit, rounded up; 0: none does.
    pub(super) fn worst_excess_milli(&self) -> u64 {
        self.worst_excess_milli
    }

    /// The slots that are over at `now_ns`, the latest last, `count` at most.
    pub(super) fn latest(&self, now_ns: u64, count: usize) -> impl Iterator<Item = (u64, Slot)> {
        let current = self.number(now_ns);
        let from = current.saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
        (from..current).map(|number| (number, self.slot_at(number)))
    }

    /// What happened in the slot `number`; nothing where it is not kept, or not come.
    pub(super) fn slot_at(&self, number: u64) -> Slot {
        let place = number.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        place.and_then(|place| self.slots.get(place)).copied().unwrap_or_default()
    }

    /// Number of the slot that `now_ns` lies in.
    pub(super) fn number(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.began_ns) / SLOT_NS
    }

    /// What each node was asked and let through in the last second that is over.
    pub(super) fn last_second(&self, now_ns: u64) -> Slot {
        let slots = usize::try_from(SLOTS_PER_S).unwrap_or(usize::MAX);
        let mut sum = Slot::default();
        for (_, slot) in self.latest(now_ns, slots) {
            for node in 0..MEMBERS_MAX {
                sum.asked[node] += slot.asked[node];
                sum.admitted[node] += slot.admitted[node];
            }
        }
        sum
    }

    /// The slot of `now_ns`, with room made for it. An answer that is told late, after its slot was
    /// dropped, counts in the first that is kept.
    fn slot(&mut self, now_ns: u64) -> &mut Slot {
        let number = self.number(now_ns).max(self.first);
        let mut place = usize::try_from(number - self.first).unwrap_or(usize::MAX);
        if place >= 2 * SLOTS_MAX {
            // Nothing that is kept would stay.
            self.slots.clear();
            self.first = number;
            place = 0;
        }
        while self.slots.len() <= place {
            self.slots.push_back(Slot::default());
        }
        while self.slots.len() > SLOTS_MAX {
            self.slots.pop_front();
            self.first += 1;
            place -= 1;
        }
        &mut self.slots[place]
    }
}

fn count(counts: &mut [u64; MEMBERS_MAX], node: usize) {
    if let Some(count) = counts.get_mut(node) {
        *count += 1;
    }
}

/// The most that any window held above what the rate gives in its length. It is the highest level of
/// a queue that every admission fills by a unit and that the rate drains: the window that begins when
/// the queue was last empty is the worst that ends now.
#[derive(Debug)]
struct Excess {
    per_s: u64,
    /// In billionths of a unit, as the worst.
    level: u64,
    worst: u64,
    at_ns: u64,
}

impl Excess {
    fn new(per_s: u64) -> Self {
        Self { per_s, level: 0, worst: 0, at_ns: 0 }
    }

    fn admit(&mut self, now_ns: u64) {
        let drained = now_ns.saturating_sub(self.at_ns).saturating_mul(self.per_s);
        self.at_ns = self.at_ns.max(now_ns);
        self.level = self.level.saturating_sub(drained).saturating_add(NS_PER_S);
        self.worst = self.worst.max(self.level);
    }

    /// The worst less `burst`, in thousandths of a unit.
    fn worst_milli(&self, burst: u64) -> u64 {
        self.worst.saturating_sub(burst.saturating_mul(NS_PER_S)).div_ceil(NS_PER_S / 1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFER: Offer = Offer { per_s: 10, burst: 5 };
    const BEGAN_NS: u64 = 7_000_000_000;

    fn tally() -> Tally {
        Tally::new(OFFER, BEGAN_NS).expect("a limit")
    }

    fn at(ms: u64) -> u64 {
        BEGAN_NS + ms * NS_PER_MS
    }

    fn admit(tally: &mut Tally, ms: u64, node: usize) {
        tally.asked(at(ms), node, Kind::Steady);
        tally.answered(at(ms), node, Kind::Steady, Reason::Ok, false);
    }

    /// The worst window of `times`, by looking at every one.
    fn worst_milli_of(times: &[u64], per_s: u64, burst: u64) -> u64 {
        let mut worst = 0;
        for (first, from) in times.iter().enumerate() {
            for (last, to) in times.iter().enumerate().skip(first) {
                let count = u64::try_from(last - first + 1).expect("few") * NS_PER_S;
                let allowed = burst * NS_PER_S + (to - from) * per_s;
                worst = worst.max(count.saturating_sub(allowed).div_ceil(NS_PER_S / 1_000));
            }
        }
        worst
    }

    #[test]
    fn the_worst_window_is_the_worst_of_all_windows() {
        let mut noise = 1_u64;
        for round in 0..50 {
            let mut times = Vec::new();
            let mut now_ns = BEGAN_NS;
            for _ in 0..60 {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1 + round);
                now_ns += (noise >> 33) % 150_000_000;
                times.push(now_ns);
            }
            let mut excess = Excess::new(OFFER.per_s);
            times.iter().for_each(|time| excess.admit(*time));
            let worst = worst_milli_of(&times, OFFER.per_s, OFFER.burst);
            assert_eq!(excess.worst_milli(OFFER.burst), worst, "round {round}");
        }
    }

    #[test]
    fn a_full_bucket_at_once_is_no_excess_and_one_more_is_one() {
        let mut tally = tally();
        for _ in 0..5 {
            admit(&mut tally, 0, 0);
        }
        assert_eq!(tally.figures.worst_excess_milli(), 0);
        admit(&mut tally, 0, 1);
        assert_eq!(tally.figures.worst_excess_milli(), 1_000);
        // Long after, nothing of it is left, but the worst stays.
        admit(&mut tally, 60_000, 1);
        assert_eq!(tally.figures.worst_excess_milli(), 1_000);
    }

    #[test]
    fn a_central_limiter_is_asked_the_same() {
        let mut tally = tally();
        for node in [0, 1, 2, 0, 1, 2, 0] {
            tally.asked(at(0), node, Kind::Steady);
            tally.answered(at(0), node, Kind::Steady, Reason::Share, true);
        }
        tally.asked(at(100), 0, Kind::Steady);
        assert_eq!(tally.figures.central_admitted(), 6, "the bucket, and one unit that came back");
        let totals = tally.figures.totals();
        assert_eq!((totals.asked, totals.admitted), (8, 0));
        assert_eq!((totals.denied_share, totals.denied_limit, totals.held), (7, 0, 7));
    }

    #[test]
    fn the_allowance_grows_with_the_time() {
        let tally = tally();
        assert_eq!([0, 99, 100, 2_000].map(|ms| tally.figures.allowance(at(ms))), [5, 5, 6, 25]);
        assert_eq!(tally.figures.allowance(0), 5, "the calls have not begun");
    }

    #[test]
    fn slots_are_counted_by_node_and_a_second_is_ten_that_are_over() {
        let mut tally = tally();
        admit(&mut tally, 0, 0);
        admit(&mut tally, 99, 1);
        admit(&mut tally, 950, 1);
        tally.asked(at(1_000), 2, Kind::Steady);
        assert_eq!(tally.figures.slot_at(0).admitted, [1, 1, 0, 0, 0]);
        assert_eq!(tally.figures.last_second(at(1_000)).admitted, [1, 2, 0, 0, 0]);
        assert_eq!(tally.figures.last_second(at(1_000)).asked[2], 0, "its slot is not over");
        assert_eq!(tally.figures.last_second(at(1_100)).admitted, [0, 1, 0, 0, 0]);
        assert_eq!(tally.figures.last_second(at(1_100)).asked[2], 1);
        assert_eq!(
            tally.figures.latest(at(250), 9).map(|(number, _)| number).collect::<Vec<_>>(),
            [0, 1]
        );
    }

    #[test]
    fn old_slots_are_dropped_one_by_one_or_all_at_once() {
        let mut tally = tally();
        let max = u64::try_from(SLOTS_MAX).expect("few");
        admit(&mut tally, 0, 0);
        admit(&mut tally, max * 100, 0);
        assert_eq!((tally.figures.slots.len(), tally.figures.first), (SLOTS_MAX, 1));
        assert_eq!(tally.figures.slot_at(max).admitted[0], 1);
        admit(&mut tally, max * 500, 1);
        assert_eq!((tally.figures.slots.len(), tally.figures.first), (1, max * 5));
        admit(&mut tally, 0, 2);
        assert_eq!(tally.figures.slot_at(max * 5).admitted, [0, 1, 1, 0, 0], "told late");
        assert_eq!(tally.figures.slot_at(3), Slot::default());
    }

    #[test]
    fn a_burst_is_counted_by_itself() {
        let mut tally = tally();
        tally.begin_burst();
        for reason in [Reason::Ok, Reason::Limit, Reason::Ok] {
            tally.asked(at(0), 0, Kind::Burst);
            admit(&mut tally, 0, 1);
            tally.answered(at(1), 0, Kind::Burst, reason, false);
        }
        tally.expect_of_burst(3);
        assert_eq!(tally.figures.burst(), Burst { calls: 3, answered: 3, admitted: 2, central: 3 });
        tally.begin_burst();
        assert_eq!(tally.figures.burst().answered, 0);
    }
}
