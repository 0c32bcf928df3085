//! The limit in one exact place that knows of every request at once: what a limiter could do at best. It
//! decides nothing for anybody; what was asked is held against it afterwards.

use sim::exact::Exact;

/// The limit of one key, of which nothing is used at first.
#[derive(Clone, Debug)]
pub(crate) struct Central {
    exact: Exact,
    at_ns: u64,
}

impl Central {
    /// Nothing of `exact` is used.
    pub(crate) fn new(exact: Exact) -> Self {
        Self { exact, at_ns: 0 }
    }

    /// How many of `units` single requests pass at `at_ns`. A time before the last counts as that.
    pub(crate) fn pass(&mut self, at_ns: u64, units: u64) -> u64 {
        self.at_ns = self.at_ns.max(at_ns);
        let passed = (0..units).take_while(|_| self.exact.try_spend(self.at_ns, 1)).count();
        passed as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{NS_PER_MS, NS_PER_S};
    use limiter::Rate;

    #[test]
    fn passes_the_burst_and_then_the_rate_to_the_nanosecond() {
        let rate = Rate { count: 100, period_ns: NS_PER_S };
        let mut central = Central::new(Exact::bucket(5, rate));
        assert_eq!(central.pass(0, 3), 3);
        assert_eq!(central.pass(0, 9), 2);
        assert_eq!(central.pass(10 * NS_PER_MS - 1, 1), 0);
        assert_eq!(central.pass(10 * NS_PER_MS, 2), 1);
        // A clock that goes back gains nothing.
        assert_eq!(central.pass(5 * NS_PER_MS, 1), 0);
        assert_eq!(central.pass(20 * NS_PER_MS, 1), 1);
    }

    #[test]
    fn passes_a_whole_window_anew_at_its_edge() {
        let mut central = Central::new(Exact::fixed_window(5, NS_PER_S, NS_PER_S / 2));
        assert_eq!((central.pass(0, 9), central.pass(NS_PER_S / 2 - 1, 9)), (5, 0));
        assert_eq!(central.pass(NS_PER_S / 2, 9), 5);
    }
}
