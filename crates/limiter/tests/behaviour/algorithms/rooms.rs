//! The memory cap for every algorithm: who is forgotten, what a new key gets, what is given back.

use limiter::{LOG_MAX, Limit, Limiter, Op, Plan, Request, StoreConfig, Unmatched, WhenFull};

use super::{each, log, sliding};
use crate::support::{HOUR, SECOND, START, ask, bounded, check, limiter, passes, per_key};

const MINUTE: u64 = 60 * SECOND;

/// ME-02
#[test]
fn a_flood_of_new_keys_frees_no_drained_key() {
    for (name, quota) in each(10, 600 * SECOND) {
        let limiter = bounded(vec![Limit::new("l", quota)], 1_000, WhenFull::Overflow);
        assert_eq!(passes(&limiter, START, "victim", 11), 10, "{name}");
        let before = check(&limiter, START, "victim").retry_after.to_ns();
        for n in 0..100_000_u64 {
            check(&limiter, START + n * 4 * SECOND / 100_000, &format!("flood-{n}"));
        }
        let after = check(&limiter, START + 5 * SECOND, "victim");
        assert!(!after.allowed, "{name}");
        assert_eq!(after.retry_after.to_ns(), before - 5 * SECOND, "{name}");
        assert!(limiter.usage().entries <= 1_000, "{name}");
    }
}

/// ME-02: a log that would have to grow for the next unit is no new key, though nothing may grow.
#[test]
fn a_flood_of_new_keys_frees_no_log_that_is_full_to_its_capacity() {
    for limit in 1..=24 {
        let limiter =
            bounded(vec![Limit::new("l", log(limit, 600 * SECOND))], 100, WhenFull::Overflow);
        let all = usize::try_from(limit).unwrap();
        assert_eq!(passes(&limiter, START, "victim", all + 1), all, "{limit}");
        for n in 0..1_000 {
            check(&limiter, START + SECOND, &format!("flood-{n}"));
        }
        let after = check(&limiter, START + 5 * SECOND, "victim");
        assert_eq!((after.allowed, after.retry_after.to_secs()), (false, Some(595)), "{limit}");
    }
}

/// ME-02: in a store that is full, units come back to the log that they were spent in.
#[test]
fn what_is_given_back_in_a_full_store_goes_where_it_was_spent() {
    let limiter = bounded(vec![Limit::new("l", log(9, 600 * SECOND))], 100, WhenFull::Overflow);
    assert_eq!(passes(&limiter, START, "giver", 10), 9);
    for n in 0..1_000 {
        check(&limiter, START, &format!("flood-{n}"));
    }
    let giver = |op, cost| {
        let request = Request::check(b"", b"giver").with_op(op).with_cost(cost);
        ask(&limiter, START, &request).remaining
    };
    assert_eq!(giver(Op::Refund, 9), Some(9));
    // Those that have no log of their own still have none left.
    assert_eq!(passes(&limiter, START, "new", 1), 0);
    assert_eq!(passes(&limiter, START, "giver", 10), 9);
    assert_eq!(giver(Op::Reset, 1), Some(9));
}

/// ME-02: entries may be as many as they can be, and a log among them goes on growing.
#[test]
fn a_log_grows_while_the_entries_are_at_their_most() {
    let limiter = bounded(vec![Limit::new("l", log(100, 600 * SECOND))], 100, WhenFull::Deny);
    for n in 0..100 {
        assert_eq!(passes(&limiter, START, &format!("k{n}"), 1), 1);
    }
    assert_eq!(limiter.usage().entries, 100);
    assert_eq!(passes(&limiter, START, "k7", 100), 99);
    assert_eq!(limiter.counts().full, 0);
}

/// ME-03
#[test]
fn new_keys_share_an_overflow_bucket_when_nothing_is_at_rest() {
    for (name, quota) in each(2, HOUR) {
        let limiter = bounded(vec![Limit::new("l", quota)], 1_000, WhenFull::Overflow);
        for n in 0..1_000 {
            assert_eq!(passes(&limiter, START, &format!("old-{n}"), 2), 2, "{name}");
        }
        let new_keys = |now| -> usize {
            (0..500).map(|n| passes(&limiter, now, &format!("new-{n}"), 3)).sum()
        };
        assert_eq!(new_keys(START), 2, "{name}");
        let full = (limiter.usage().entries, limiter.counts().full);
        assert_eq!(full, (1_000, 1_500), "{name}");
        // It recovers as entries come to rest; what passed in a window weighs on in the next.
        assert_eq!(new_keys(START + 2 * HOUR), 1_000, "{name}");
        assert!(limiter.usage().entries <= 1_000, "{name}");
        assert!(limiter.counts().evicted >= 500, "{name}");
    }
}

/// ME-04, ME-01
#[test]
fn entries_at_rest_are_swept_whatever_is_called_and_their_memory_is_given_back() {
    for (name, quota) in each(1, SECOND) {
        let limiter = limiter(vec![Limit::new("l", quota)]);
        for n in 0..100_000 {
            check(&limiter, START, &format!("k{n}"));
        }
        let grown = limiter.usage();
        assert_eq!(grown.entries, 100_000, "{name}");
        let now = START + 10 * SECOND;
        assert!(check(&limiter, now, "busy").allowed, "{name}");
        let mut left = limiter.sweep_round();
        while left > 0 {
            assert!(!check(&limiter, now, "busy").allowed, "{name}");
            limiter.sweep(now, left.min(1_000));
            left = left.saturating_sub(1_000);
        }
        let swept = limiter.usage();
        assert_eq!(swept.entries, 1, "{name}");
        assert!(swept.table_bytes * 2 < grown.table_bytes, "{name}: {swept:?}");
        assert_eq!(limiter.counts().expired, 100_000, "{name}");
    }
}

/// ME-08
#[test]
fn a_log_takes_memory_for_what_was_used_and_not_for_its_limit() {
    let limiter = per_key(log(LOG_MAX, HOUR));
    for n in 0..10_000 {
        assert!(check(&limiter, START, &format!("k{n}")).allowed);
    }
    assert!(limiter.usage().table_bytes < 2_000_000, "{:?}", limiter.usage());

    let limiter = per_key(log(LOG_MAX, HOUR));
    assert_eq!(passes(&limiter, START, "k", 20_000), 10_000);
    let full = limiter.usage().table_bytes;
    assert!((80_000..=80_000 * 5 / 4 + 1_000).contains(&full), "{full}");
    limiter.sweep(START + HOUR, limiter.sweep_round());
    assert_eq!((limiter.usage().entries, limiter.usage().table_bytes), (0, 0));
}

/// ME-08: a key that goes on being used gives back what it no longer needs.
#[test]
fn a_log_shrinks_while_it_is_in_use() {
    let limiter = per_key(log(LOG_MAX, HOUR));
    assert_eq!(passes(&limiter, START, "k", 10_000), 10_000);
    assert!(check(&limiter, START + HOUR, "k").allowed);
    assert!(limiter.usage().table_bytes < 1_000, "{:?}", limiter.usage());
}

/// ME-08
#[test]
fn logs_stay_within_the_memory_whatever_one_key_asks_for() {
    let plan = Plan::compile(vec![Limit::new("l", log(LOG_MAX, HOUR))], Unmatched::Allow).unwrap();
    let memory_bytes = 1 << 20;
    let config = StoreConfig {
        memory_bytes,
        entries_max: None,
        when_full: WhenFull::Overflow,
        secret: [3; 16],
    };
    let limiter = Limiter::new(plan, config);
    for n in 0..1_000 {
        let key = format!("k{n}");
        let all = Request::check(b"", key.as_bytes()).with_cost(LOG_MAX / 10);
        for _ in 0..10 {
            ask(&limiter, START, &all);
        }
        let usage = limiter.usage();
        assert!(usage.table_bytes <= memory_bytes, "{usage:?}");
    }
    assert!(limiter.usage().entries > 5, "{:?}", limiter.usage());
    assert!(limiter.counts().full > 0);
}

/// A key that found room keeps it, and one that finds none for more shares the overflow bucket.
#[test]
fn many_keys_of_two_algorithms_share_the_memory() {
    let limits =
        vec![Limit::new("log", log(100, MINUTE)), Limit::new("window", sliding(100, MINUTE))];
    let limiter = bounded(limits, 500, WhenFull::Deny);
    let passed: usize = (0..1_000).map(|n| passes(&limiter, START, &format!("k{n}"), 1)).sum();
    assert_eq!(limiter.usage().entries, 500);
    assert_eq!(passed, 250);
    // They come to rest, those of the windows a minute after those of the logs.
    let later: usize =
        (0..1_000).map(|n| passes(&limiter, START + 2 * MINUTE, &format!("n{n}"), 1)).sum();
    assert_eq!((later, limiter.usage().entries), (250, 500));
}
