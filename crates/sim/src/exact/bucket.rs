//! One central bucket, exact.

use limiter::{Numbers, Rate};

/// A bucket in ticks, in true time. It can be asked (then it never goes below empty), or charged with
/// what a cluster admitted (then its debt is the cluster's excess over the worst window so far).
#[derive(Clone, Debug)]
pub struct ExactBucket {
    numbers: Numbers,
    /// Ticks left; negative in debt.
    level: i128,
    at_ns: u64,
    /// Deepest debt so far, in ticks, and when.
    debt_max: i128,
    debt_max_at_ns: u64,
    /// Fewest ticks left so far.
    least: i128,
    /// When it was last full.
    full_at_ns: u64,
}

impl ExactBucket {
    /// A full bucket of `burst` units, refilled at `rate`.
    pub fn new(burst: u64, rate: Rate) -> Self {
        let divisor = gcd(rate.count, rate.period_ns).max(1);
        let numbers =
            Numbers { burst, per_ns: rate.count / divisor, per_unit: rate.period_ns / divisor };
        let level = i128::from(burst) * i128::from(numbers.per_unit);
        Self {
            numbers,
            level,
            at_ns: 0,
            debt_max: 0,
            debt_max_at_ns: 0,
            least: level,
            full_at_ns: 0,
        }
    }

    /// Its numbers, as a limiter has them.
    pub fn numbers(&self) -> Numbers {
        self.numbers
    }

    /// Ticks of a full bucket.
    pub fn full(&self) -> i128 {
        i128::from(self.numbers.burst) * i128::from(self.numbers.per_unit)
    }

    /// Ticks of `units`.
    pub fn ticks(&self, units: u64) -> i128 {
        i128::from(units) * i128::from(self.numbers.per_unit)
    }

    /// Ticks that refill brings in `elapsed_ns`.
    pub fn refill(&self, elapsed_ns: u64) -> i128 {
        i128::from(elapsed_ns) * i128::from(self.numbers.per_ns)
    }

    /// Ticks left at `now_ns`, which never goes back.
    pub fn level_at(&mut self, now_ns: u64) -> i128 {
        self.level += self.refill(now_ns.saturating_sub(self.at_ns));
        self.at_ns = self.at_ns.max(now_ns);
        if self.level >= self.full() {
            self.level = self.full();
            self.full_at_ns = self.at_ns;
        }
        self.level
    }

    /// When the bucket was last full, as far as it was asked.
    pub fn full_at_ns(&self) -> u64 {
        self.full_at_ns
    }

    /// Takes `cost` units if they are there.
    pub fn try_spend(&mut self, now_ns: u64, cost: u64) -> bool {
        let fits = self.level_at(now_ns) >= self.ticks(cost);
        if fits {
            self.level -= self.ticks(cost);
        }
        fits
    }

    /// Takes `cost` units whether or not they are there.
    pub fn charge(&mut self, now_ns: u64, cost: u64) {
        let left = self.level_at(now_ns) - self.ticks(cost);
        self.level = left;
        self.least = self.least.min(left);
        if -left > self.debt_max {
            self.debt_max = -left;
            self.debt_max_at_ns = now_ns;
        }
    }

    /// Gives `units` back.
    pub fn give_back(&mut self, now_ns: u64, units: u64) {
        self.level = self.level_at(now_ns) + self.ticks(units);
        self.level_at(now_ns);
    }

    /// Fewest ticks left so far after what was charged; full if nothing was.
    pub fn least(&self) -> i128 {
        self.least
    }

    /// Deepest debt so far, in ticks, and when: what was admitted above capacity and refill, over the
    /// worst of all windows.
    pub fn debt_max(&self) -> (i128, u64) {
        (self.debt_max, self.debt_max_at_ns)
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SECOND;

    fn bucket() -> ExactBucket {
        ExactBucket::new(5, Rate { count: 2, period_ns: SECOND })
    }

    #[test]
    fn admits_the_capacity_and_what_is_refilled() {
        let mut bucket = bucket();
        assert_eq!((0..9).filter(|_| bucket.try_spend(0, 1)).count(), 5);
        assert!(!bucket.try_spend(SECOND / 2 - 1, 1));
        assert!(bucket.try_spend(SECOND / 2, 1));
        assert!(!bucket.try_spend(3 * SECOND, 6));
        assert!(bucket.try_spend(3 * SECOND, 5));
    }

    #[test]
    fn counts_the_excess_of_the_worst_window() {
        let mut bucket = bucket();
        bucket.charge(SECOND, 7);
        bucket.charge(2 * SECOND, 3);
        bucket.charge(60 * SECOND, 4);
        assert_eq!(bucket.debt_max(), (bucket.ticks(3), 2 * SECOND));
        assert_eq!(bucket.least(), -bucket.ticks(3));
    }

    #[test]
    fn never_holds_more_than_its_capacity_and_remembers_when_it_was_full() {
        let mut bucket = bucket();
        assert_eq!(bucket.level_at(100 * SECOND), bucket.full());
        assert!(bucket.try_spend(100 * SECOND, 2));
        assert_eq!(bucket.level_at(100 * SECOND + 1), bucket.full() - bucket.ticks(2) + 1);
        assert_eq!(bucket.full_at_ns(), 100 * SECOND);
    }
}
