//! Token bucket: a bucket of `burst` units that refills continuously at `rate`.
//!
//! The state of a bucket is one number: what is missing until it is full. Counted in *ticks* of the
//! limit it is exact at every whole rate: with the rate reduced to `count` units per `period`
//! nanoseconds, a tick is 1/count ns, so a nanosecond is `count` ticks and a unit is `period` ticks,
//! both whole. (This is GCRA: the theoretical arrival time is now + what is missing.)

use crate::{Rate, Wait};

/// Ticks that an empty bucket may take to fill, so that a bucket at its greatest debt (one more
/// burst) still lies less than 2^63 ticks ahead, where wrapping differences are unambiguous.
const FULL_TICKS_MAX: u128 = (1 << 62) - 1;

/// Most ticks of a nanosecond in a bucket whose numbers come from outside: ticks wrap after 2^64 of them,
/// and long before that every entry must have been looked at.
const PER_NS_MAX: u64 = 1_000_000_000;

/// A token bucket's numbers, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TokenBucket {
    /// Capacity, in units.
    burst: u64,
    /// Ticks in a nanosecond: the count of the reduced rate.
    per_ns: u64,
    /// Ticks in a unit: the period of the reduced rate, in ns.
    per_unit: u64,
    /// Ticks in which an empty bucket fills.
    full: u64,
    /// The same in nanoseconds, rounded up.
    window: Wait,
}

/// Whether a cost fits into what a bucket holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// It fits.
    Fits,
    /// It fits after a wait; never, if it is above the capacity.
    After(Wait),
}

impl TokenBucket {
    /// A bucket of `burst` units refilled at `rate`, or what is wrong with the numbers.
    pub(crate) fn new(rate: Rate, burst: u64) -> Result<Self, String> {
        if rate.count == 0 || rate.period_ns == 0 {
            return Err("a rate of 0 lets nothing through for ever; write `deny = true`, or \
                        `unlimited = true` for no limit"
                .into());
        }
        if burst == 0 {
            return Err(
                "a burst of 0 lets nothing through; write `deny = true`, or leave `burst` \
                        out for the rate's own count"
                    .into(),
            );
        }
        if rate.count > rate.period_ns {
            return Err("the rate is above one unit per nanosecond (1000000000/s); lower it, or \
                        write `unlimited = true`"
                .into());
        }
        let divisor = gcd(rate.count, rate.period_ns);
        let (per_ns, per_unit) = (rate.count / divisor, rate.period_ns / divisor);
        let full = u128::from(burst) * u128::from(per_unit);
        if full > FULL_TICKS_MAX {
            return Err(format!(
                "a burst of `{burst}` at this rate cannot be counted exactly in 64 bits; lower the \
                 burst to {} or less, or round the rate",
                FULL_TICKS_MAX / u128::from(per_unit)
            ));
        }
        let full = u64::try_from(full).unwrap_or(u64::MAX);
        let window = Wait::from_ns(full.div_ceil(per_ns));
        Ok(Self { burst, per_ns, per_unit, full, window })
    }

    /// Whether [`TokenBucket::nearest`] makes a bucket of these numbers: nothing is 0, at most one unit comes
    /// back per nanosecond, and the burst within 2^62 of them. Costs a division.
    pub(crate) fn can_be(rate: Rate, burst: u64) -> bool {
        let Rate { count, period_ns } = rate;
        let is_rate = (1..=period_ns).contains(&count);
        is_rate
            && burst > 0
            && u128::from(burst) * u128::from(period_ns.div_ceil(count)) <= FULL_TICKS_MAX
    }

    /// A bucket of `burst` units refilled at `rate`, or at the nearest lower rate that can be counted in ticks
    /// of a length that goes on for some seconds before they wrap. None where there is none.
    pub(crate) fn nearest(rate: Rate, burst: u64) -> Option<Self> {
        if !Self::can_be(rate, burst) {
            return None;
        }
        let exact = Self::new(rate, burst).ok().filter(|exact| exact.per_ns <= PER_NS_MAX);
        exact.or_else(|| {
            let (count, period) = (u128::from(rate.count), u128::from(rate.period_ns));
            let per_unit_max = FULL_TICKS_MAX / u128::from(burst);
            // The more ticks a nanosecond has, the nearer is the rate.
            let per_ns = (per_unit_max * count / period).min(PER_NS_MAX.into()).max(1);
            let per_unit = u64::try_from((per_ns * period).div_ceil(count)).ok()?;
            Self::new(Rate { count: u64::try_from(per_ns).ok()?, period_ns: per_unit }, burst).ok()
        })
    }

    /// Capacity, in units.
    pub(crate) fn burst(&self) -> u64 {
        self.burst
    }

    /// Ticks in a nanosecond.
    pub(crate) fn per_ns(&self) -> u64 {
        self.per_ns
    }

    /// Ticks in a unit.
    pub(crate) fn per_unit(&self) -> u64 {
        self.per_unit
    }

    /// The tick at `now_ns`, modulo 2^64.
    pub(crate) fn tick(&self, now_ns: u64) -> u64 {
        now_ns.wrapping_mul(self.per_ns)
    }

    /// Longest time, in ns, for which a bucket may go unread before [`TokenBucket::missing`] could
    /// take a full one for an empty one: a quarter of the range of the wrapping tick.
    pub(crate) fn horizon_ns(&self) -> u64 {
        (1 << 62) / self.per_ns
    }

    /// Ticks missing at tick `now` from a bucket that is full at tick `full_at`.
    pub(crate) fn missing(full_at: u64, now: u64) -> u64 {
        u64::try_from(full_at.wrapping_sub(now).cast_signed()).unwrap_or(0)
    }

    /// Ticks that pass in `elapsed_ns`, exact for any span.
    pub(crate) fn elapsed(&self, elapsed_ns: u64) -> u128 {
        u128::from(elapsed_ns) * u128::from(self.per_ns)
    }

    /// Whether `cost` units fit when `missing` ticks are missing.
    pub(crate) fn room(&self, missing: u64, cost: u64) -> Room {
        if cost > self.burst {
            return Room::After(Wait::NEVER);
        }
        // At most 2^63 + 2^62: a debt is at most one burst, and the cost at most another.
        let wanted = missing + cost * self.per_unit;
        if wanted <= self.full { Room::Fits } else { Room::After(self.wait(wanted - self.full)) }
    }

    /// What is missing after `cost` units were taken, which must fit.
    pub(crate) fn spend(&self, missing: u64, cost: u64) -> u64 {
        debug_assert_eq!(self.room(missing, cost), Room::Fits, "a spend is tested first");
        missing + cost * self.per_unit
    }

    /// What is missing after `cost` units were taken whether or not they fit, and whether the debt
    /// was cut at its bound of one burst.
    pub(crate) fn debit(&self, missing: u64, cost: u64) -> (u64, bool) {
        let bound = self.full * 2;
        let wanted = u128::from(missing) + u128::from(cost) * u128::from(self.per_unit);
        match u64::try_from(wanted) {
            Ok(wanted) if wanted <= bound => (wanted, false),
            _ => (bound, true),
        }
    }

    /// What is missing after `cost` units were given back; never less than nothing.
    pub(crate) fn refund(&self, missing: u64, cost: u64) -> u64 {
        missing.saturating_sub(cost.saturating_mul(self.per_unit))
    }

    /// Whole units left when `missing` ticks are missing; 0 in debt.
    pub(crate) fn remaining(&self, missing: u64) -> u64 {
        self.full.saturating_sub(missing) / self.per_unit
    }

    /// Time in which `ticks` pass, rounded up to the nanosecond.
    pub(crate) fn wait(&self, ticks: u64) -> Wait {
        // A tick of most limits is a nanosecond, and a division costs as much as a look-up.
        Wait::from_ns(if self.per_ns == 1 { ticks } else { ticks.div_ceil(self.per_ns) })
    }

    /// Time in which an empty bucket fills.
    pub(crate) fn window(&self) -> Wait {
        self.window
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

    const SECOND: u64 = 1_000_000_000;

    fn bucket(count: u64, period_ns: u64, burst: u64) -> TokenBucket {
        TokenBucket::new(Rate { count, period_ns }, burst).unwrap()
    }

    #[test]
    fn reduces_the_rate_to_lowest_terms() {
        let b = bucket(100, 3_600 * SECOND, 100);
        assert_eq!((b.per_ns, b.per_unit), (1, 36 * SECOND));
        let b = bucket(999_999_937, SECOND, 1);
        assert_eq!((b.per_ns, b.per_unit), (999_999_937, SECOND));
    }

    #[test]
    fn refuses_numbers_that_mean_nothing() {
        let new = |count, period_ns, burst| TokenBucket::new(Rate { count, period_ns }, burst);
        assert!(new(0, SECOND, 1).unwrap_err().contains("deny = true"));
        assert!(new(5, 0, 1).unwrap_err().contains("unlimited = true"));
        assert!(new(1, SECOND, 0).unwrap_err().contains("burst of 0"));
        assert!(new(3 * SECOND, SECOND, 1).unwrap_err().contains("per nanosecond"));
    }

    #[test]
    fn accepts_the_largest_capacity_that_fits_and_refuses_one_more() {
        // 2^62 - 1 = 3 * 715827883 * 2147483647: with 715827883 ns a unit the division is exact.
        let per_unit = 715_827_883;
        let most = u64::try_from(FULL_TICKS_MAX).unwrap() / per_unit;
        let rate = Rate { count: 1, period_ns: per_unit };
        let b = TokenBucket::new(rate, most).unwrap();
        assert_eq!(u128::from(b.full), FULL_TICKS_MAX);
        assert_eq!(b.debit(b.full, u64::MAX), (b.full * 2, true));
        assert_eq!(b.room(b.full * 2, most), Room::After(b.wait(b.full * 2)));
        let refusal = TokenBucket::new(rate, most + 1).unwrap_err();
        assert!(refusal.contains(&format!("lower the burst to {most}")), "{refusal}");
    }

    #[test]
    fn never_has_room_for_more_than_the_capacity() {
        let b = bucket(1, 86_400 * SECOND, 1);
        for cost in [2, 1 << 31, 1 << 32, u64::MAX >> 1, u64::MAX] {
            assert_eq!(b.room(0, cost), Room::After(Wait::NEVER));
        }
        assert_eq!(b.room(0, 1), Room::Fits);
    }

    #[test]
    fn waits_are_rounded_up_to_the_nanosecond() {
        let b = bucket(3, 2 * SECOND, 3);
        assert_eq!((b.per_ns, b.per_unit), (3, 2 * SECOND));
        let missing = b.spend(0, 3);
        assert_eq!(b.room(missing, 1), Room::After(Wait::from_ns(666_666_667)));
    }

    #[test]
    fn a_refund_never_fills_above_full() {
        let b = bucket(1, SECOND, 5);
        assert_eq!(b.refund(b.spend(0, 2), 1), b.spend(0, 1));
        assert_eq!(b.refund(b.spend(0, 2), u64::MAX), 0);
    }

    #[test]
    fn a_debt_is_bounded_by_one_burst_and_leaves_nothing() {
        let b = bucket(1, SECOND, 5);
        let (missing, clipped) = b.debit(0, 8);
        assert_eq!((b.remaining(missing), clipped), (0, false));
        assert_eq!(b.room(missing, 0), Room::After(Wait::from_ns(3 * SECOND)));
        assert_eq!(b.debit(missing, 2), (b.full * 2, false));
        assert_eq!(b.debit(missing, 3), (b.full * 2, true));
    }

    #[test]
    fn missing_is_right_when_the_tick_wraps() {
        assert_eq!(TokenBucket::missing(5, u64::MAX - 4), 10);
        assert_eq!(TokenBucket::missing(u64::MAX - 4, 5), 0);
        assert_eq!(TokenBucket::missing(7, 7), 0);
    }
}
