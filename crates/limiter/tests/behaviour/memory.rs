//! The memory cap: who is forgotten, what a new key gets, what is given back.

use limiter::{Limit, Limiter, Plan, Reason, StoreConfig, Unmatched, WhenFull};

use crate::support::{HOUR, MS, SECOND, START, bounded, bucket, check, limiter, passes};

/// A limiter of one unit per key and `period_ns` within `memory_bytes`.
fn within(memory_bytes: u64, period_ns: u64) -> Limiter {
    let plan =
        Plan::compile(vec![Limit::new("l", bucket(1, 1, period_ns))], Unmatched::Allow).unwrap();
    let when_full = WhenFull::Overflow;
    Limiter::new(plan, StoreConfig { memory_bytes, entries_max: None, when_full, secret: [2; 16] })
}

#[test]
fn tables_stay_within_their_memory_while_keys_come_and_go() {
    for memory_bytes in [10_000, 1 << 20] {
        let limiter = within(memory_bytes, 100 * MS);
        let most = limiter.usage().entries_max;
        assert!(most * 27 <= memory_bytes && most * 60 >= memory_bytes, "{most} in {memory_bytes}");
        // Four times as many keys as fit, each at rest when a quarter of them have come after it:
        // every entry is dropped and made again a dozen times over.
        for n in 0..most * 60 {
            let now = START + n * 400 * MS / most;
            check(&limiter, now, &format!("k{}", n % (4 * most)));
            if n % 1_000 == 0 {
                let usage = limiter.usage();
                assert!(usage.table_bytes <= memory_bytes && usage.entries <= most, "{usage:?}");
            }
        }
        assert!(limiter.counts().evicted > most * 12);
    }
}

#[test]
fn the_smallest_memory_still_holds_a_table() {
    for memory_bytes in [0, 1, 500] {
        let limiter = within(memory_bytes, HOUR);
        assert!(limiter.usage().entries_max >= 1);
        assert_eq!(passes(&limiter, START, "k", 5), 1);
    }
}

/// ME-02
#[test]
fn a_flood_of_new_keys_frees_no_drained_key() {
    for used_last in [0, 2, 5] {
        let limiter =
            bounded(vec![Limit::new("l", bucket(10, 1, 60 * SECOND))], 1_000, WhenFull::Overflow);
        assert_eq!(passes(&limiter, START, "victim", 11), 10);
        for n in 0..100_000_u64 {
            let now = START + n * 4 * SECOND / 100_000;
            check(&limiter, now, &format!("flood-{n}"));
            if used_last == 2 && n == 50_000 {
                assert!(!check(&limiter, now, "victim").allowed);
            }
        }
        let after = check(&limiter, START + 5 * SECOND, "victim");
        assert_eq!((after.allowed, after.retry_after.to_secs()), (false, Some(55)));
        assert!(limiter.usage().entries <= 1_000);
    }
}

/// ME-03
#[test]
fn new_keys_share_an_overflow_bucket_when_nothing_is_at_rest() {
    let full = |when_full| {
        let limiter = bounded(vec![Limit::new("l", bucket(2, 2, HOUR))], 1_000, when_full);
        for n in 0..1_000 {
            assert_eq!(passes(&limiter, START, &format!("old-{n}"), 2), 2);
        }
        limiter
    };
    let new_keys = |limiter: &Limiter, now| -> usize {
        (0..500).map(|n| passes(limiter, now, &format!("new-{n}"), 3)).sum()
    };
    let limiter = full(WhenFull::Overflow);
    assert_eq!(new_keys(&limiter, START), 2);
    assert_eq!((limiter.usage().entries, limiter.counts().full), (1_000, 1_500));
    // It recovers as entries come to rest.
    assert_eq!(new_keys(&limiter, START + HOUR), 1_000);
    assert!(limiter.usage().entries <= 1_000 && limiter.counts().evicted >= 500);

    assert_eq!(new_keys(&full(WhenFull::Allow), START), 1_500);
    let denying = full(WhenFull::Deny);
    assert_eq!(new_keys(&denying, START), 0);
    let verdict = check(&denying, START, "new");
    assert_eq!((verdict.reason, verdict.retry_after.to_secs()), (Reason::Full, Some(1)));
    assert_eq!((verdict.limit, verdict.remaining), (Some(2), Some(0)));
}

/// ME-04, ME-01
#[test]
fn entries_at_rest_are_swept_whatever_is_called_and_their_memory_is_given_back() {
    let limiter = limiter(vec![Limit::new("l", bucket(1, 1, SECOND))]);
    for n in 0..100_000 {
        check(&limiter, START, &format!("k{n}"));
    }
    let grown = limiter.usage();
    assert_eq!(grown.entries, 100_000);
    let now = START + 10 * SECOND;
    assert!(check(&limiter, now, "busy").allowed);
    let mut left = limiter.sweep_round();
    while left > 0 {
        assert!(!check(&limiter, now, "busy").allowed);
        limiter.sweep(now, left.min(1_000));
        left = left.saturating_sub(1_000);
    }
    let swept = limiter.usage();
    assert_eq!(swept.entries, 1);
    assert!(swept.table_bytes * 2 < grown.table_bytes, "{swept:?}");
    assert_eq!(limiter.counts().expired, 100_000);
}
