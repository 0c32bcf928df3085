//! The worst window of one bucket, found in one pass over its spends in the order of time.
//!
//! A window admits at most `burst + rate * t` in a perfect limiter. What it admits more is largest for
//! a window that begins and ends with a spend; the largest that ends now is the largest that ended
//! before, less what refilled since, and the spend: or the spend alone. All in ticks of the limit, whole
//! numbers: a nanosecond is `count` ticks and a unit `period` ticks of the rate `count` per `period`.

use super::record::LimitRecord;

/// What a limit's buckets are measured by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measurer {
    per_ns: i128,
    per_unit: i128,
    burst: i128,
}

impl Measurer {
    /// What `limit` allows.
    pub fn new(limit: &LimitRecord) -> Self {
        let divisor = greatest_common_divisor(limit.count, limit.period_ns);
        Self {
            per_ns: i128::from(limit.count / divisor),
            per_unit: i128::from(limit.period_ns / divisor),
            burst: i128::from(limit.burst),
        }
    }

    /// Ticks of `units`.
    pub fn ticks(&self, units: u64) -> i128 {
        i128::from(units).saturating_mul(self.per_unit)
    }

    /// Ticks that come back in `ns`.
    pub fn refill(&self, ns: u64) -> i128 {
        i128::from(ns).saturating_mul(self.per_ns)
    }

    /// Ticks by which `window` is above what a perfect limiter admits in its time; at or below 0: not.
    pub fn excess(&self, window: &Window) -> i128 {
        window.ticks.saturating_sub(self.burst.saturating_mul(self.per_unit))
    }

    /// Whole units in `ticks`, rounded up where `up`, else down.
    pub fn units(&self, ticks: i128, up: bool) -> i128 {
        let down = ticks.div_euclid(self.per_unit);
        down + i128::from(up && ticks.rem_euclid(self.per_unit) != 0)
    }

    /// Thousandths of a unit in `ticks`, rounded down: for people.
    pub fn milliunits(&self, ticks: i128) -> i128 {
        ticks.saturating_mul(1_000).div_euclid(self.per_unit)
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a.max(1) } else { greatest_common_divisor(b, a % b) }
}

/// Spends from one to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// When the first was, in nanoseconds of the common clock.
    pub from_ns: i64,
    /// When the last was.
    pub until_ns: i64,
    /// Units in all, less what was given back.
    pub units: i64,
    /// Of them, units of debits.
    pub debited: i64,
    /// Which nodes: bit by bit, by their index.
    pub nodes: u64,
    /// Units in ticks, less what came back in the time between.
    ticks: i128,
}

impl Window {
    /// Its length in nanoseconds.
    pub fn length_ns(&self) -> u64 {
        self.until_ns.abs_diff(self.from_ns)
    }
}

/// The windows of one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    /// The worst that ends with the last spend.
    open: Window,
    /// The worst of all that end with an allowed check; none before the first.
    worst: Option<Window>,
}

impl Windows {
    /// Takes a spend that is not before the last, of the node with this index. A window ends with an
    /// allowed check: a debit is charged whatever is left, and is nobody's decision.
    pub fn take(&mut self, by: &Measurer, at_ns: i64, units: i64, is_check: bool, node: usize) {
        let refill = by.refill(at_ns.abs_diff(self.open.until_ns));
        let left = self.open.ticks.saturating_sub(refill);
        if left <= 0 || self.open.nodes == 0 {
            self.open = Window { from_ns: at_ns, ..Window::default() };
        } else {
            self.open.ticks = left;
        }
        let open = &mut self.open;
        open.until_ns = at_ns;
        open.units = open.units.saturating_add(units);
        open.ticks = open.ticks.saturating_add(i128::from(units).saturating_mul(by.per_unit));
        open.nodes |= 1 << node.min(63);
        if !is_check && units > 0 {
            open.debited = open.debited.saturating_add(units);
        }
        if is_check && self.worst.is_none_or(|worst| open.ticks > worst.ticks) {
            self.worst = Some(*open);
        }
    }

    /// The next spend begins a window: what was before does not count with it.
    pub fn cut(&mut self) {
        self.open = Window::default();
    }

    /// The worst window; none if no check was allowed.
    pub fn worst(&self) -> Option<&Window> {
        self.worst.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limit(count: u64, period_ns: u64, burst: u64) -> LimitRecord {
        LimitRecord { count, period_ns, burst, ..LimitRecord::default() }
    }

    fn worst(by: &Measurer, spends: &[(i64, i64, bool)]) -> Option<Window> {
        let mut windows = Windows::default();
        for (index, (at_ns, units, is_check)) in spends.iter().enumerate() {
            windows.take(by, *at_ns, *units, *is_check, index % 3);
        }
        windows.worst().copied()
    }

    #[test]
    fn a_burst_and_what_refills_is_no_excess_and_one_more_is() {
        let by = Measurer::new(&limit(10, 1_000_000_000, 5));
        let spends: Vec<_> = (0..5).map(|_| (0, 1, true)).chain([(100_000_000, 1, true)]).collect();
        let window = worst(&by, &spends).unwrap();
        assert_eq!(by.excess(&window), 0);
        assert_eq!((window.from_ns, window.until_ns, window.units), (0, 0, 5));
        let more = [&spends[..], &[(100_000_000, 1, true)]].concat();
        assert_eq!(by.units(by.excess(&worst(&by, &more).unwrap()), false), 1);
    }

    #[test]
    fn a_window_does_not_end_with_a_debit_and_holds_those_before() {
        let by = Measurer::new(&limit(1, 3_600_000_000_000, 5));
        let spends = [(0, 5, false), (1, 1, true), (2, 9, false)];
        let window = worst(&by, &spends).unwrap();
        assert_eq!((window.units, window.debited, window.until_ns), (6, 5, 1));
        assert_eq!(worst(&by, &spends[..1]), None);
    }

    #[test]
    fn what_was_given_back_may_be_spent_again() {
        let by = Measurer::new(&limit(1, 3_600_000_000_000, 5));
        let spends = [(0, 5, true), (1, -3, false), (2, 3, true)];
        assert_eq!(by.excess(&worst(&by, &spends).unwrap()), 0);
    }

    proptest! {
        #[test]
        fn it_is_the_largest_of_all_windows(
            count in 1_u64..50, period_ns in 1_u64..50, burst in 1_u64..20,
            steps in prop::collection::vec((0_i64..30, -3_i64..6, any::<bool>()), 1..40),
        ) {
            let by = Measurer::new(&limit(count, period_ns, burst));
            let mut at_ns = -100;
            let spends: Vec<_> = steps.iter().map(|(step, units, is_check)| {
                at_ns += step;
                let units = if *units == 0 { 1 } else { *units };
                (at_ns, units, *is_check && units > 0)
            }).collect();
            let mut largest: Option<i128> = None;
            for first in 0..spends.len() {
                for last in first..spends.len() {
                    if spends[last].2 {
                        let units: i64 = spends[first..=last].iter().map(|spend| spend.1).sum();
                        let time = spends[last].0 - spends[first].0;
                        let ticks = i128::from(units) * by.per_unit - i128::from(time) * by.per_ns;
                        largest = largest.max(Some(ticks - i128::from(burst) * by.per_unit));
                    }
                }
            }
            let found = worst(&by, &spends).map(|window| by.excess(&window));
            prop_assert_eq!(found, largest);
        }
    }
}
