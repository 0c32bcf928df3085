//! One exact token bucket that knows of every request at once: what a limiter could do at best. It
//! decides nothing for anybody; what was asked is held against it afterwards.

use crate::clock::NS_PER_S;
use crate::window::Bucket;

/// The bucket of one key, full at first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Central {
    limit: Bucket,
    /// In billionths of a unit, so that a nanosecond refills a whole number of them.
    level: u128,
    at_ns: u64,
}

impl Central {
    /// A full bucket.
    pub(crate) fn new(limit: Bucket) -> Self {
        Self { limit, level: full(limit), at_ns: 0 }
    }

    /// How many of `units` single requests pass at `at_ns`. A time before the last counts as that.
    pub(crate) fn pass(&mut self, at_ns: u64, units: u64) -> u64 {
        let passed_ns = at_ns.saturating_sub(self.at_ns);
        self.at_ns = self.at_ns.max(at_ns);
        let gained = u128::from(passed_ns) * u128::from(self.limit.per_s);
        self.level = self.level.saturating_add(gained).min(full(self.limit));
        let whole = u64::try_from(self.level / u128::from(NS_PER_S)).unwrap_or(u64::MAX);
        let passed = units.min(whole);
        self.level -= u128::from(passed) * u128::from(NS_PER_S);
        passed
    }
}

fn full(limit: Bucket) -> u128 {
    u128::from(limit.burst) * u128::from(NS_PER_S)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::NS_PER_MS;

    #[test]
    fn passes_the_burst_and_then_the_rate_to_the_nanosecond() {
        let mut central = Central::new(Bucket { per_s: 100, burst: 5 });
        assert_eq!(central.pass(0, 3), 3);
        assert_eq!(central.pass(0, 9), 2);
        assert_eq!(central.pass(10 * NS_PER_MS - 1, 1), 0);
        assert_eq!(central.pass(10 * NS_PER_MS, 2), 1);
        // A clock that goes back gains nothing.
        assert_eq!(central.pass(5 * NS_PER_MS, 1), 0);
        assert_eq!(central.pass(20 * NS_PER_MS, 1), 1);
    }

    #[test]
    fn never_holds_more_than_its_burst() {
        let mut central = Central::new(Bucket { per_s: 1_000_000, burst: 7 });
        assert_eq!(central.pass(u64::MAX, u64::MAX), 7);
        assert_eq!(central.pass(u64::MAX, 1), 0);
    }
}
