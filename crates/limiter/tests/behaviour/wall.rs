//! Steps of the wall clock. It is told as a daemon tells it, once a second, so that a step is known up to
//! a second after it happened; the time of each call comes from the other clock, which has no steps.

use limiter::{Limiter, Quota, Window};

use crate::support::{HOUR, SECOND, START, bucket, check, passes, per_key};

/// 2026-12-01 12:00:30 UTC: half of a minute is over.
const NOON_AND_A_HALF: u64 = (20_788 * 86_400 + 12 * 3_600 + 30) * SECOND;
const MINUTE: u64 = 60 * SECOND;

/// Unix time `elapsed_ns` after the start, of a clock that was set by `step_s` half a second after it.
fn unix_ns(elapsed_ns: u64, step_s: i64) -> u64 {
    let step_s = if elapsed_ns > SECOND / 2 { step_s } else { 0 };
    (NOON_AND_A_HALF + elapsed_ns).saturating_add_signed(step_s * 1_000_000_000)
}

/// Asks once a second, and gives the seconds in which that passed, and the longest wait that was told.
fn passed(limiter: &Limiter, step_s: i64, seconds: u64) -> (Vec<u64>, u64) {
    let mut longest_ns = 0;
    let is_passed = |second: &u64| {
        let elapsed_ns = second * SECOND;
        limiter.set_wall(START + elapsed_ns, unix_ns(elapsed_ns, step_s));
        let verdict = check(limiter, START + elapsed_ns, "k");
        longest_ns = longest_ns.max(verdict.retry_after.to_ns());
        verdict.allowed
    };
    ((1..=seconds).filter(is_passed).collect(), longest_ns)
}

/// TM-02: a window that has begun ends when it would have ended, and the next begins by the new time:
/// whoever asks meanwhile has no window more. A step of whole windows makes no wait longer than one;
/// else the next window is between a half and one and a half long, and so are its waits.
#[test]
fn a_step_of_the_wall_clock_hands_out_no_window_and_blocks_for_no_longer_than_one() {
    for (step_s, next_ends, longest_s) in [
        (0, 90, 55),
        (-3_600, 90, 55),
        (3_600, 90, 55),
        (-86_400 * 365, 90, 55),
        (-10, 100, 65),
        (-40, 70, 35),
        (10, 80, 45),
        (50, 100, 65),
    ] {
        let quota = Quota::FixedWindow { limit: 5, window: Window::Period(MINUTE) };
        let limiter = per_key(quota);
        limiter.set_wall(START, NOON_AND_A_HALF);
        assert_eq!(passes(&limiter, START, "k", 6), 5);
        let expected: Vec<u64> = (30..35).chain(next_ends..next_ends + 5).collect();
        let told = passed(&limiter, step_s, next_ends + 4);
        assert_eq!(told, (expected, longest_s * SECOND), "a step of {step_s} s");
    }
}

/// TM-02: nothing of a bucket is tied to the wall clock.
#[test]
fn a_step_of_the_wall_clock_is_nothing_to_a_bucket() {
    for step_s in [-3_600, 3_600, -86_400 * 365] {
        let limiter = per_key(bucket(10, 10, HOUR));
        limiter.set_wall(START, NOON_AND_A_HALF);
        assert_eq!(passes(&limiter, START, "k", 11), 10);
        let (passed, longest_ns) = passed(&limiter, step_s, 400);
        assert_eq!((passed, longest_ns), (vec![360], 359 * SECOND), "a step of {step_s} s");
    }
}
