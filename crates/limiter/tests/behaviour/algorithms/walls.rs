//! A wall clock that is set: windows that have begun end when they would have, and nothing else follows it.

use limiter::{Limiter, Request};

use super::{each, fixed, set_wall, sliding};
use crate::support::{DAY, HOUR, MS, SECOND, START, check, passes, per_key};

const MINUTE: u64 = 60 * SECOND;

/// A check at so long after noon by the monotonic clock, when the wall clock says `wall`.
fn at(limiter: &Limiter, after_noon: u64, wall: u64) -> bool {
    set_wall(limiter, START + after_noon, wall);
    check(limiter, START + after_noon, "k").allowed
}

/// TM-02
#[test]
fn a_wall_clock_set_back_an_hour_blocks_for_a_window_and_frees_none() {
    let limiter = per_key(fixed(5, MINUTE));
    set_wall(&limiter, START, 0);
    assert_eq!(passes(&limiter, START + 30 * SECOND, "k", 6), 5);
    let mut passed = Vec::new();
    for second in 31..=120 {
        let now = START + second * SECOND;
        limiter.set_wall(now, super::NOON + second * SECOND - HOUR);
        let allowed = passes(&limiter, now, "k", 6);
        if allowed > 0 {
            passed.push((second, allowed));
        }
        assert!(check(&limiter, now, "k").retry_after.to_ns() <= MINUTE, "{second}");
    }
    assert_eq!(passed, [(60, 5), (120, 5)]);
}

/// TM-02
#[test]
fn buckets_and_logs_do_not_know_the_wall_clock() {
    for (name, quota) in each(10, HOUR).into_iter().filter(|(name, _)| !name.contains("window")) {
        let limiter = per_key(quota);
        set_wall(&limiter, START, HOUR);
        assert_eq!(passes(&limiter, START, "k", 11), 10, "{name}");
        let before = check(&limiter, START + SECOND, "k");
        set_wall(&limiter, START + SECOND, 0);
        assert_eq!(check(&limiter, START + SECOND, "k"), before, "{name}");
        set_wall(&limiter, START + SECOND, DAY);
        assert_eq!(check(&limiter, START + SECOND, "k"), before, "{name}");
    }
}

/// A reading that is a moment too old makes no window of that moment.
#[test]
fn a_moment_between_the_clocks_is_no_window() {
    for quota in [fixed(5, MINUTE), sliding(5, MINUTE)] {
        let limiter = per_key(quota);
        set_wall(&limiter, START, 0);
        assert_eq!(passes(&limiter, START + 59 * SECOND, "k", 6), 5);
        // By the wall clock some of that window is left.
        let passed: usize = [0, 1_000, 2_000, 3 * MS]
            .map(|late| {
                set_wall(&limiter, START + MINUTE + late, MINUTE + late - 3 * MS);
                passes(&limiter, START + MINUTE + late, "k", 6)
            })
            .iter()
            .sum();
        assert!(passed <= 5, "{passed}");
    }
}

#[test]
fn a_wall_clock_set_forward_opens_no_window_early() {
    for quota in [fixed(5, MINUTE), sliding(5, MINUTE)] {
        let limiter = per_key(quota);
        assert!(at(&limiter, 0, 0));
        assert_eq!(passes(&limiter, START, "k", 5), 4);
        for second in 1..60 {
            assert!(!at(&limiter, second * SECOND, second * SECOND + second * HOUR));
        }
    }
    let limiter = per_key(fixed(5, MINUTE));
    assert_eq!(passes(&limiter, START, "k", 6), 5);
    set_wall(&limiter, START + MINUTE, HOUR);
    assert_eq!(passes(&limiter, START + MINUTE, "k", 6), 5);
}

#[test]
fn windows_are_those_of_the_wall_clock() {
    let limiter = per_key(fixed(1, MINUTE));
    // Ten seconds of this minute are left.
    set_wall(&limiter, START, 50 * SECOND);
    assert!(check(&limiter, START, "k").allowed);
    let denied = check(&limiter, START, "k");
    assert_eq!(denied.retry_after.to_secs(), Some(10));
    let request = Request::check(b"", b"other");
    assert!(limiter.decide(START + 9 * SECOND, &request).unwrap().verdict.allowed);
    assert!(limiter.decide(START + 10 * SECOND, &request).unwrap().verdict.allowed);
    assert!(check(&limiter, START + 10 * SECOND, "k").allowed);
}
