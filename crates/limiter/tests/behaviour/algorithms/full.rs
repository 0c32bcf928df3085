//! Logs and windows in a store that has no room left.

use limiter::{Limit, Limiter, Op, Plan, Request, StoreConfig, Unmatched, WhenFull};

use super::log;
use crate::support::{HOUR, START, ask, passes};

const MEMORY: u64 = 1 << 20;

fn store(limits: Vec<Limit>) -> Limiter {
    let config = StoreConfig {
        memory_bytes: MEMORY,
        entries_max: None,
        when_full: WhenFull::Overflow,
        secret: [3; 16],
    };
    Limiter::new(Plan::compile(limits, Unmatched::Allow).unwrap(), config)
}

/// One key with all of its units spent, whose log has no place left, in a store where no other log can grow.
fn full() -> Limiter {
    // After 96 times a log takes more memory for the next.
    let limiter = store(vec![Limit::new("l", log(96, HOUR))]);
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
