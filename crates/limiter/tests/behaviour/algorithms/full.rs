//! Logs and windows in a store that has no room left.

use limiter::{Limit, Limiter, Op, Plan, Request, StoreConfig, Unmatched, WhenFull};

use super::{fixed, log, meter};
use crate::support::{HOUR, START, ask, at, passes};

const MEMORY: u64 = 1 << 20;

fn store(limits: Vec<Limit>, memory_bytes: u64) -> Limiter {
    let config = StoreConfig {
        memory_bytes,
        entries_max: None,
        when_full: WhenFull::Overflow,
        secret: [3; 16],
    };
    Limiter::new(Plan::compile(limits, Unmatched::Allow).unwrap(), config)
}

/// One key with all of its units spent, whose log has no place left, in a store where no other log can grow.
fn full() -> Limiter {
    // After 96 times a log takes more memory for the next.
    let limiter = store(vec![Limit::new("l", log(96, HOUR))], MEMORY);
    assert_eq!(passes(&limiter, START, "victim", 97), 96);
    let mut n = 0;
    while limiter.counts().full == 0 {
        passes(&limiter, START, &format!("flood-{n}"), 1);
        n += 1;
    }
    limiter
}

#[test]
fn a_drained_log_is_denied_by_itself_when_no_log_can_grow() {
    let limiter = full();
    let full_before = limiter.counts().full;
    // More than one: the flood may have left something in the overflow bucket.
    assert_eq!(passes(&limiter, START, "victim", 100), 0);
    assert_eq!(limiter.counts().full, full_before);
}

#[test]
fn what_is_given_back_to_a_log_finds_it_when_no_log_can_grow() {
    for op in [Op::Refund, Op::Reset] {
        let limiter = full();
        let request = Request { op, ..Request::check(b"", b"victim") };
        let verdict = ask(&limiter, START, &request.with_cost(30));
        let left = if op == Op::Reset { 96 } else { 30 };
        assert_eq!(verdict.remaining, Some(left), "{op:?}");
    }
}

/// Two kinds of tables share a shard: however full each is, and was before, both are within the memory.
#[test]
fn tables_of_levels_and_of_counts_are_within_the_memory() {
    for memory_bytes in [100_000, 1_080_000] {
        for part in [30, 60, 100] {
            let of = |name: &str, endpoint: &str, quota| Limit {
                selector: at(endpoint),
                ..Limit::new(name, quota)
            };
            let limits = vec![
                of("level", "/level", meter(10, 10, HOUR)),
                of("window", "/window", fixed(10, 3 * HOUR)),
                of("log", "/log", log(1_000, 3 * HOUR)),
            ];
            let limiter = store(limits, memory_bytes);
            let most = limiter.usage().entries_max;
            let fill = |now, endpoint: &str, keys: std::ops::Range<u64>, cost| {
                for n in keys {
                    let key = format!("k{n}");
                    let request = Request::check(endpoint.as_bytes(), key.as_bytes());
                    ask(&limiter, now, &request.with_cost(cost));
                }
                let usage = limiter.usage();
                assert!(usage.table_bytes <= memory_bytes, "{part} % of levels: {usage:?}");
            };
            fill(START, "/level", 0..most * part / 100, 1);
            fill(START, "/window", 0..most / 4, 1);
            // Levels come to rest and make room a little at a time.
            fill(START + HOUR, "/window", most..most * 2, 1);
            fill(START + 2 * HOUR, "/log", 0..most / 10, 100);
            fill(START + 6 * HOUR, "/log", most..most * 2, 50);
            fill(START + 12 * HOUR, "/level", 0..most, 1);
        }
    }
}
