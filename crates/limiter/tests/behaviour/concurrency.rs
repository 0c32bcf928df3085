//! Many threads at once: nothing is spent twice, nothing is lost, nothing waits for ever.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::support::{HOUR, SECOND, START, ask, bucket, check, limiter, per_key};
use limiter::{Limit, Limiter, Request};

/// CC-01
#[test]
fn exactly_the_limit_passes_and_each_remaining_is_given_once() {
    let limiter = per_key(bucket(100, 100, HOUR));
    let mut left: Vec<u64> = thread::scope(|scope| {
        let ask = || {
            let verdicts = (0..100).map(|_| check(&limiter, START, "k"));
            verdicts.filter(|v| v.allowed).filter_map(|v| v.remaining).collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    left.sort_unstable();
    assert_eq!(left, (0..100).collect::<Vec<_>>());
}

/// CC-05: several limits in every order, on shards in every order.
#[test]
fn several_limits_are_spent_together_without_deadlock() {
    let limits = |names: [&str; 3]| {
        names.map(|name| {
            let mut limit = Limit::new(name, bucket(1_000, 1, HOUR));
            limit.key = match name {
                "whole" => "*".into(),
                "endpoint" => "{endpoint}".into(),
                _ => "{key}".into(),
            };
            limit
        })
    };
    let limiter = limiter(limits(["whole", "endpoint", "key"]).to_vec());
    let passed = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..8_u8 {
            let (limiter, passed) = (&limiter, &passed);
            scope.spawn(move || {
                for n in 0..2_000_u32 {
                    let (endpoint, key) = ([thread % 3], [u8::try_from(n % 7).unwrap()]);
                    let request = Request::check(&endpoint, &key);
                    passed.fetch_add(
                        u64::from(ask(limiter, START, &request).allowed),
                        Ordering::Relaxed,
                    );
                }
            });
        }
    });
    assert_eq!(passed.into_inner(), 1_000);
    let counts = limiter.counts();
    assert_eq!(counts.rules.iter().map(|rule| rule.units).collect::<Vec<_>>(), [1_000; 3]);
}

/// TM-01: threads that read the clock and are overtaken before they ask.
#[test]
fn readings_of_the_clock_that_arrive_late_create_nothing() {
    let limiter: Limiter = per_key(bucket(100, 1_000, SECOND));
    let clock = AtomicU64::new(START);
    let passed = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..16_u64 {
            let (limiter, clock, passed) = (&limiter, &clock, &passed);
            scope.spawn(move || {
                for n in 0..10_000_u64 {
                    // 160,000 readings, 31.25 us apart: five seconds in all. Every third arrives a
                    // second late.
                    let read = clock.fetch_add(31_250, Ordering::Relaxed);
                    let late = if (n + thread).is_multiple_of(3) { SECOND } else { 0 };
                    let verdict = check(limiter, (read - late).max(START), "k");
                    passed.fetch_add(u64::from(verdict.allowed), Ordering::Relaxed);
                }
            });
        }
    });
    // Never above capacity and refill; below only by readings that threads held back at the end.
    let passed = passed.into_inner();
    assert!((5_000..=5_100).contains(&passed), "{passed}");
}
