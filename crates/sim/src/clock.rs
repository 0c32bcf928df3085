//! Virtual time, and the clocks of nodes, which start anywhere and run a little too fast or too slow.

/// A millisecond, in nanoseconds.
pub const MS: u64 = 1_000_000;
/// A second, in nanoseconds.
pub const SECOND: u64 = 1_000 * MS;

/// One node's monotonic clock, as a function of the true time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// What it shows at the true time 0, in ns.
    pub offset_ns: u64,
    /// How much faster than the true time it runs, in millionths; negative: slower.
    pub rate_ppm: i32,
}

impl Clock {
    /// What it shows at the true time `now_ns`.
    pub fn local(&self, now_ns: u64) -> u64 {
        let drift = i128::from(now_ns) * i128::from(self.rate_ppm) / 1_000_000;
        let drift = i64::try_from(drift).unwrap_or(i64::MAX);
        (self.offset_ns + now_ns).saturating_add_signed(drift)
    }

    /// The first true time at which it shows `local_ns` or later.
    pub fn true_at(&self, local_ns: u64) -> u64 {
        let Some(shown) = local_ns.checked_sub(self.offset_ns) else { return 0 };
        let rate = 1_000_000 + i128::from(self.rate_ppm);
        let guess = i128::from(shown) * 1_000_000 / rate;
        let mut at = u64::try_from(guess).unwrap_or(u64::MAX).saturating_sub(2);
        while self.local(at) < local_ns && at < u64::MAX {
            at += 1;
        }
        at
    }
}

/// One node's wall clock, as a function of the true time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wall {
    /// How far it is ahead of the true Unix time at the true time 0, in ms; negative: behind.
    pub ahead_ms: i64,
    /// How much faster it runs, in millionths; negative: slower.
    pub rate_ppm: i32,
}

impl Wall {
    /// How far it is ahead at the true time `now_ns`, in ns.
    pub fn ahead_ns(&self, now_ns: u64) -> i64 {
        let drift = i128::from(now_ns) * i128::from(self.rate_ppm) / 1_000_000;
        let ahead = i128::from(self.ahead_ms) * i128::from(MS) + drift;
        i64::try_from(ahead).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_clock_gains_and_a_slow_one_loses() {
        let fast = Clock { offset_ns: 5, rate_ppm: 50 };
        let slow = Clock { offset_ns: 5, rate_ppm: -50 };
        assert_eq!(fast.local(1_000 * SECOND), 5 + 1_000 * SECOND + 50 * MS);
        assert_eq!(slow.local(1_000 * SECOND), 5 + 1_000 * SECOND - 50 * MS);
    }

    #[test]
    fn finds_the_first_time_at_which_a_clock_shows_a_time() {
        for rate_ppm in [-500, -1, 0, 1, 77, 500] {
            let clock = Clock { offset_ns: 1 << 40, rate_ppm };
            for at in [0, 1, 999, SECOND, 7_777_777_777_777] {
                let local = clock.local(at);
                let found = clock.true_at(local);
                assert!(found <= at && clock.local(found) >= local);
                assert!(found == 0 || clock.local(found - 1) < local);
            }
        }
    }

    #[test]
    fn a_wall_clock_is_ahead_by_its_offset_and_its_drift() {
        assert_eq!(Wall { ahead_ms: -250, rate_ppm: 0 }.ahead_ns(SECOND), -250_000_000);
        assert_eq!(Wall { ahead_ms: 1, rate_ppm: 100 }.ahead_ns(10 * SECOND), 2_000_000);
    }

    #[test]
    fn a_time_before_the_clock_began_is_the_beginning() {
        assert_eq!(Clock { offset_ns: 9, rate_ppm: 0 }.true_at(3), 0);
    }
}
