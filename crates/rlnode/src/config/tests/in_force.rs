//! What a file lets through once it is in force.

use limiter::{Limiter, Request, StoreConfig, WhenFull};

use super::{SHIPPED, accepted, explain};

fn limiter(text: &str) -> Limiter {
    let store = StoreConfig {
        memory_bytes: 1 << 20,
        entries_max: None,
        when_full: WhenFull::Overflow,
        secret: [7; 16],
    };
    Limiter::new(accepted(text).plan, store)
}

fn passes(limiter: &Limiter, now_ns: u64, endpoint: &str, key: &str) -> bool {
    let request = Request::check(endpoint.as_bytes(), key.as_bytes());
    limiter.decide(now_ns, &request).expect("a valid request").verdict.allowed
}

#[test]
fn the_shipped_file_starts_as_a_cluster_of_one_and_counts_a_hundred_down() {
    let config = accepted(SHIPPED);
    assert_eq!(config.warnings, Vec::<String>::new());
    assert_eq!(config.listen.udp, ["127.0.0.1:7400".parse().expect("an address")]);
    assert_eq!(config.listen.http, ["127.0.0.1:7480".parse().expect("an address")]);
    let limiter = limiter(SHIPPED);
    for left in (0..100).rev() {
        let request = Request::check(b"GET /", b"alice");
        let verdict = limiter.decide(0, &request).expect("a valid request").verdict;
        assert_eq!((verdict.limit_name, verdict.limit), ("per-key", Some(100)));
        assert_eq!((verdict.allowed, verdict.remaining), (true, Some(left)));
    }
    assert!(!passes(&limiter, 0, "GET /", "alice"));
}

#[test]
fn the_order_of_the_file_does_not_decide_which_override_wins() {
    let overrides = [
        "[[limit.override]]\nendpoint = \"/e\"\nrate = \"5/60s\"\n",
        "[[limit.override]]\nkeys = [\"vip\"]\nrate = \"50/60s\"\n",
        "[[limit.override]]\nkeys = [\"bad\"]\nrate = \"1/60s\"\n",
    ];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let body: String = order.iter().map(|i| overrides[*i]).collect();
        let limiter = limiter(&format!("[[limit]]\nname = \"a\"\nrate = \"2/60s\"\n{body}"));
        let passed = |key| (0..60).filter(|_| passes(&limiter, 0, "/e", key)).count();
        assert_eq!([passed("vip"), passed("bad"), passed("other")], [50, 1, 5], "{order:?}");
    }
}

#[test]
fn twenty_per_second_is_twenty_per_second_and_is_told_so() {
    let text = "[[limit]]\nname = \"a\"\nrate = \"20/s\"\nburst = 60\n";
    let limiter = limiter(text);
    assert_eq!((0..100).filter(|_| passes(&limiter, 0, "/", "k")).count(), 60);
    let later = (1..=10_000_u64).filter(|ms| passes(&limiter, ms * 1_000_000, "/", "k")).count();
    assert_eq!(later, 200);
    let words = explain(&accepted(text), None).expect("words");
    assert!(words.contains("20/s sustained, burst 60, one per 50 ms"), "{words}");
}

/// The and the cases' values, from the file to the answers.
#[test]
fn every_algorithm_lets_through_what_its_line_in_the_file_says() {
    let (second, minute) = (1_000_000_000, 60_000_000_000);
    let limiter = |lines: &str| limiter(&format!("[[limit]]\nname = \"a\"\n{lines}\n"));
    let passed = |limiter: &Limiter, now_ns, calls: usize| {
        (0..calls).filter(|_| passes(limiter, now_ns, "/", "k")).count()
    };
    let fixed = limiter("algorithm = \"fixed-window\"\nlimit = \"100 per min\"");
    assert_eq!(passed(&fixed, 59 * second, 150), 100);
    assert_eq!(passed(&fixed, minute, 150), 100);
    let log = limiter("algorithm = \"sliding-log\"\nlimit = \"100 per min\"");
    assert_eq!(passed(&log, 59 * second, 150), 100);
    assert_eq!(passed(&log, minute, 150), 0);
    assert_eq!(passed(&log, 119 * second - 1, 150), 0);
    assert_eq!(passed(&log, 119 * second, 150), 100);
    // 80 in the minute before weigh 60 a quarter of a minute later.
    let sliding = limiter("algorithm = \"sliding-window\"\nlimit = \"100 per min\"");
    assert_eq!(passed(&sliding, 30 * second, 80), 80);
    assert_eq!(passed(&sliding, 75 * second, 150), 40);
    let meter = limiter("algorithm = \"leaky-bucket\"\nrate = \"50/s\"\nburst = 100");
    assert_eq!((passed(&meter, 0, 150), passed(&meter, second, 150)), (100, 50));
    let lines = "algorithm = \"leaky-bucket\"\nrate = \"50/s\"\nburst = 100\nqueue = true";
    let queue = limiter(lines);
    for turn in 0..100 {
        let request = Request::check(b"/", b"k");
        let verdict = queue.decide(0, &request).expect("a valid request").verdict;
        assert_eq!((verdict.allowed, verdict.delay.to_ms()), (true, Some(20 * turn)));
    }
    assert!(!passes(&queue, 0, "/", "k"));
}

/// Drained at half past midnight on the day that has 25 hours, and on the one that has 23.
#[test]
fn a_day_of_a_time_zone_ends_at_its_midnight() {
    let limiter = limiter(
        "[[limit]]\nname = \"a\"\nalgorithm = \"fixed-window\"\n\
         limit = \"3 per calendar-day\"\ntime_zone = \"Europe/Berlin\"\n",
    );
    // 2026-10-24 22:30 UTC and 2027-03-27 23:30 UTC.
    for (unix_s, wait_s) in [(1_792_881_000, 88_200), (1_806_190_200, 81_000)] {
        let now_ns = unix_s * 1_000_000_000;
        assert_eq!((0..5).filter(|_| passes(&limiter, now_ns, "/", "k")).count(), 3);
        let request = Request::check(b"/", b"k");
        let denied = limiter.decide(now_ns, &request).expect("a valid request").verdict;
        assert_eq!(denied.retry_after.to_secs(), Some(wait_s));
    }
}
