//! The one clock of the daemon: nanoseconds since the machine started, and what to add for Unix time.
//!
//! It decides nothing. Everything that needs the time is handed a number that was read here.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use limiter::Wait;
use rustix::time::ClockId;

/// How often [`Clock::refresh`] must run, so that a step of the wall clock shows within a second.
pub const REFRESH: Duration = Duration::from_secs(1);

const NS_PER_S: u64 = 1_000_000_000;
const NS_PER_MS: u64 = 1_000_000;

/// Reads `CLOCK_BOOTTIME`, which goes on while the machine is suspended and never goes back.
#[derive(Debug)]
pub struct Clock {
    /// Unix time minus the time since start, in nanoseconds. It may be negative: nothing stops the
    /// wall clock of a machine from standing at 1970.
    wall_offset_ns: AtomicI64,
}

impl Clock {
    /// A clock whose wall offset is current.
    pub fn new() -> Self {
        let clock = Self { wall_offset_ns: AtomicI64::new(0) };
        clock.refresh();
        clock
    }

    /// Nanoseconds since the machine started.
    pub fn now_ns(&self) -> u64 {
        boot_ns()
    }

    /// Takes over what the wall clock says now, and gives one moment on both clocks: nanoseconds since
    /// the machine started, and of Unix time. Times shown to people and callers depend on it, and the
    /// windows of the limiter that is told of it; no other decision does.
    pub fn refresh(&self) -> (u64, u64) {
        let (now_ns, unix_ns) = (self.now_ns(), read_ns(ClockId::Realtime));
        let offset_ns = i128::from(unix_ns) - i128::from(now_ns);
        let offset_ns = i64::try_from(offset_ns).unwrap_or(i64::MAX);
        self.wall_offset_ns.store(offset_ns, Ordering::Relaxed);
        (now_ns, unix_ns)
    }

    /// Unix time in milliseconds, rounded up, at `wait` after `now_ns`; none for never.
    pub fn unix_ms(&self, now_ns: u64, wait: Wait) -> Option<u64> {
        if wait == Wait::NEVER {
            return None;
        }
        let offset_ns = i128::from(self.wall_offset_ns.load(Ordering::Relaxed));
        let at_ns = i128::from(now_ns) + i128::from(wait.to_ns()) + offset_ns;
        let at_ms = u128::try_from(at_ns).unwrap_or(0).div_ceil(u128::from(NS_PER_MS));
        Some(u64::try_from(at_ms).unwrap_or(u64::MAX))
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

/// Nanoseconds since the machine started: the clock of [`Clock::now_ns`], for who has no clock at hand.
pub fn boot_ns() -> u64 {
    read_ns(ClockId::Boottime)
}

/// Unix time in milliseconds.
pub fn unix_ms() -> u64 {
    read_ns(ClockId::Realtime) / NS_PER_MS
}

/// Unix time in nanoseconds, for records that are put beside those of other machines.
pub fn unix_ns() -> u64 {
    read_ns(ClockId::Realtime)
}

/// Unix time in seconds, for what is dated, such as a certificate.
pub fn unix_s() -> i64 {
    i64::try_from(read_ns(ClockId::Realtime) / NS_PER_S).unwrap_or(i64::MAX)
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads a clock")]
fn read_ns(id: ClockId) -> u64 {
    let time = rustix::time::clock_gettime(id);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let ns = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(NS_PER_S).saturating_add(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock_with_offset(wall_offset_ns: i64) -> Clock {
        Clock { wall_offset_ns: AtomicI64::new(wall_offset_ns) }
    }

    #[test]
    fn never_goes_back() {
        let clock = Clock::new();
        let earlier_ns = clock.now_ns();
        assert!(clock.now_ns() >= earlier_ns);
    }

    #[test]
    fn unix_time_is_rounded_up_to_the_millisecond() {
        let clock = clock_with_offset(5_000_000_000);
        assert_eq!(clock.unix_ms(1_000_000_000, Wait::ZERO), Some(6_000));
        assert_eq!(clock.unix_ms(1_000_000_000, Wait::from_ns(1)), Some(6_001));
        assert_eq!(clock.unix_ms(1_000_000_000, Wait::from_ns(1_000_000)), Some(6_001));
    }

    #[test]
    fn a_refresh_gives_the_moment_that_it_took_over() {
        let clock = clock_with_offset(0);
        let (now_ns, unix_ns) = clock.refresh();
        let want_ms = unix_ns.div_ceil(NS_PER_MS);
        assert_eq!(clock.unix_ms(now_ns, Wait::ZERO), Some(want_ms));
    }

    #[test]
    fn never_has_no_unix_time() {
        assert_eq!(clock_with_offset(0).unix_ms(1, Wait::NEVER), None);
    }

    #[test]
    fn a_wall_clock_before_1970_reads_as_1970() {
        assert_eq!(clock_with_offset(-2_000_000_000).unix_ms(1, Wait::ZERO), Some(0));
    }
}
