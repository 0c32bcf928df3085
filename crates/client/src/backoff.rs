//! How long to wait before the next attempt: exponential, with jitter, from a seed.
//!
//! Seed and attempt go in, a duration comes out; it waits for nothing and reads no clock.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Waits that double from attempt to attempt and are spread at random ("full jitter"), so that
/// callers that failed together do not come back together.
///
/// The same seed gives the same waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    seed: u64,
}

impl Backoff {
    /// Waits between `min` and `max` (`min`, if that is longer), spread by a seed of the process's
    /// randomness.
    pub fn new(min: Duration, max: Duration) -> Self {
        Self::with_seed(min, max, RandomState::new().hash_one(0_u64))
    }

    /// Waits between `min` and `max` (`min`, if that is longer), spread by `seed`.
    pub fn with_seed(min: Duration, max: Duration, seed: u64) -> Self {
        Self { min, max: max.max(min), seed }
    }

    /// The longest wait that [`Backoff::delay`] gives.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// Wait before attempt `attempt`, counted from 0: between the lower bound and
    /// min(upper bound, lower bound * 2^(attempt + 1)).
    pub fn delay(&self, attempt: u32) -> Duration {
        let spread = self.ceiling(attempt) - self.min;
        self.min + self.random_up_to(spread, attempt)
    }

    /// Wait after a denial that said `retry_after`: as long as that, and up to the upper end of
    /// [`Backoff::delay`]'s range longer. Never shorter: the call could not pass.
    pub fn delay_after(&self, attempt: u32, retry_after: Duration) -> Duration {
        let jitter = self.random_up_to(self.ceiling(attempt), attempt);
        retry_after.saturating_add(jitter)
    }

    fn ceiling(&self, attempt: u32) -> Duration {
        let doubled = attempt.checked_add(1).and_then(|exponent| 2_u32.checked_pow(exponent));
        doubled.and_then(|factor| self.min.checked_mul(factor)).unwrap_or(self.max).min(self.max)
    }

    /// A duration from zero to `bound`, both included, the same for the same attempt.
    fn random_up_to(&self, bound: Duration, attempt: u32) -> Duration {
        let bound_ns = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
        let random = split_mix(self.seed.wrapping_add(u64::from(attempt)));
        // The high half of the product scales the random number to the range without a division.
        let scaled = (u128::from(random) * (u128::from(bound_ns) + 1)) >> 64;
        Duration::from_nanos(u64::try_from(scaled).unwrap_or(bound_ns))
    }
}

/// The output function of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): neighbouring seeds give
/// unrelated numbers.
fn split_mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: Duration = Duration::from_millis(10);
    const MAX: Duration = Duration::from_secs(1);

    #[test]
    fn delay_stays_between_the_bounds_and_its_range_doubles() {
        for seed in 0..500 {
            let backoff = Backoff::with_seed(MIN, MAX, seed);
            for attempt in 0..40 {
                let ceiling = MAX.min(MIN * 2_u32.saturating_pow(attempt + 1).min(1_000));
                let delay = backoff.delay(attempt);
                assert!((MIN..=ceiling).contains(&delay), "{seed} {attempt} {delay:?}");
            }
        }
    }

    #[test]
    fn delay_is_spread_over_the_whole_range() {
        let delays = (0..1_000).map(|seed| Backoff::with_seed(MIN, MAX, seed).delay(20));
        let in_each_quarter = delays.fold([0; 4], |mut count, delay| {
            let quarter = (delay - MIN).as_nanos() * 4 / ((MAX - MIN).as_nanos() + 1);
            count[usize::try_from(quarter).expect("below 4")] += 1;
            count
        });
        assert!(in_each_quarter.iter().all(|n| (200..300).contains(n)), "{in_each_quarter:?}");
    }

    #[test]
    fn delay_after_a_denial_only_lengthens_retry_after() {
        let retry_after = Duration::from_millis(800);
        let delays: Vec<_> = (0..500)
            .map(|seed| Backoff::with_seed(MIN, MAX, seed).delay_after(0, retry_after))
            .collect();
        assert!(delays.iter().all(|d| (retry_after..=retry_after + MIN * 2).contains(d)));
        assert!(delays.iter().any(|d| *d != delays[0]));
    }

    #[test]
    fn same_seed_gives_the_same_delays_and_another_seed_others() {
        let delays = |seed| (0..8).map(|n| Backoff::with_seed(MIN, MAX, seed).delay(n)).collect();
        let first: Vec<_> = delays(1);
        assert_eq!(first, delays(1));
        assert_ne!(first, delays(2));
    }

    #[test]
    fn extreme_bounds_neither_overflow_nor_panic() {
        let backoff = Backoff::with_seed(Duration::MAX, Duration::ZERO, 7);
        assert_eq!(backoff.delay(u32::MAX), Duration::MAX);
        assert_eq!(backoff.delay_after(u32::MAX, Duration::MAX), Duration::MAX);
        assert_eq!(Backoff::with_seed(Duration::ZERO, Duration::ZERO, 7).delay(9), Duration::ZERO);
    }
}
