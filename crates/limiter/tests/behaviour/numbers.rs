//! Numbers that an operator gives a single bucket.

use limiter::{
    Bucket, Counted, Limit, Limiter, Quota, Rate, Reason, Request, Unmatched, Wait, WhenFull,
    Window,
};

use crate::support::{HOUR, SECOND, START, bounded, bucket, check, limiter, passes};

/// The bucket of `key` in the first limit.
fn bucket_of(limiter: &Limiter, key: &str) -> Bucket {
    let why = limiter.why(START, &Request::check(b"", key.as_bytes())).unwrap();
    match why.limits[0].applied.as_ref().unwrap().counted {
        Counted::Bucket(bucket, _) | Counted::Overflow(bucket) => bucket,
        other => panic!("{other:?}"),
    }
}

fn set(limiter: &Limiter, now_ns: u64, key: &str, quota: Option<&Quota>) {
    limiter.set_numbers(now_ns, bucket_of(limiter, key), quota).unwrap();
}

#[test]
fn one_key_has_other_numbers_and_keeps_what_it_used() {
    let limiter = limiter(vec![Limit::new("l", bucket(10, 10, HOUR))]);
    for key in ["k", "other"] {
        assert_eq!(passes(&limiter, START, key, 20), 10);
    }
    set(&limiter, START, "k", Some(&bucket(100, 100, HOUR)));
    let verdict = check(&limiter, START, "k");
    assert_eq!((verdict.remaining, verdict.limit, verdict.limit_name), (Some(89), Some(100), "l"));
    assert_eq!(check(&limiter, START, "other").retry_after.to_secs(), Some(360));
    // Other numbers in place of other numbers, and the limit's own again.
    set(&limiter, START, "k", Some(&bucket(20, 1, HOUR)));
    assert_eq!(check(&limiter, START, "k").remaining, Some(8));
    set(&limiter, START, "k", None);
    let verdict = check(&limiter, START, "k");
    assert_eq!((verdict.allowed, verdict.limit), (false, Some(10)));
    assert_eq!(verdict.retry_after.to_secs(), Some(3 * 360));
    set(&limiter, START, "k", None);
}

#[test]
fn every_algorithm_keeps_its_units() {
    let rate = |count| Rate { count, period_ns: HOUR };
    let pairs = [
        (bucket(10, 10, HOUR), bucket(30, 30, HOUR)),
        (
            Quota::LeakyBucket { rate: rate(10), burst: 10, queue: true },
            Quota::LeakyBucket { rate: rate(30), burst: 30, queue: true },
        ),
        (
            Quota::FixedWindow { limit: 10, window: Window::Period(HOUR) },
            Quota::FixedWindow { limit: 30, window: Window::Period(HOUR) },
        ),
        (
            Quota::SlidingWindow { limit: 10, period_ns: HOUR },
            Quota::SlidingWindow { limit: 30, period_ns: HOUR },
        ),
        (
            Quota::SlidingLog { limit: 10, period_ns: HOUR },
            Quota::SlidingLog { limit: 30, period_ns: HOUR },
        ),
    ];
    for (quota, other) in pairs {
        let limiter = limiter(vec![Limit::new("l", quota)]);
        assert_eq!(passes(&limiter, START, "k", 20), 10, "{other:?}");
        set(&limiter, START, "k", Some(&other));
        assert_eq!(passes(&limiter, START, "k", 40), 20, "{other:?}");
        assert_eq!(passes(&limiter, START, "other", 40), 10, "{other:?}");
        set(&limiter, START, "k", None);
        let verdict = check(&limiter, START, "k");
        assert_eq!((verdict.allowed, verdict.remaining, verdict.limit), (false, Some(0), Some(10)));
    }
}

#[test]
fn nothing_or_everything_passes_for_one_key() {
    let limiter = limiter(vec![Limit::new("l", bucket(10, 10, HOUR))]);
    let of_k = bucket_of(&limiter, "k");
    assert_eq!(passes(&limiter, START, "k", 4), 4);
    limiter.set_numbers(START, of_k, Some(&Quota::Deny)).unwrap();
    let verdict = check(&limiter, START, "k");
    assert_eq!((verdict.reason, verdict.retry_after), (Reason::Deny, Wait::NEVER));
    assert_eq!((verdict.limit, verdict.remaining), (Some(0), Some(0)));
    let why = limiter.why(START, &Request::check(b"", b"k")).unwrap();
    assert_eq!(why.next.verdict.reason, Reason::Deny);
    limiter.set_numbers(START, of_k, Some(&Quota::Unlimited)).unwrap();
    assert_eq!(passes(&limiter, START, "k", 1_000), 1_000);
    assert_eq!(check(&limiter, START, "k").limit, None);
    // The bucket was left as it was: four were used, and 360 s give one back.
    limiter.set_numbers(START + 360 * SECOND, of_k, None).unwrap();
    assert_eq!(check(&limiter, START + 360 * SECOND, "k").remaining, Some(6));
}

#[test]
fn what_an_operator_gave_stays_while_the_bucket_is_at_rest_and_when_limits_change() {
    let limiter = limiter(vec![Limit::new("l", bucket(10, 10, SECOND))]);
    set(&limiter, START, "k", Some(&bucket(3, 3, SECOND)));
    for second in 1..100 {
        limiter.sweep(START + second * SECOND, limiter.sweep_round());
    }
    let now_ns = START + 100 * SECOND;
    assert_eq!(passes(&limiter, now_ns, "k", 20), 3);
    let plan = |limits| limiter::Plan::compile(limits, Unmatched::Allow).unwrap();
    limiter.replace(now_ns, plan(vec![Limit::new("l", bucket(50, 1, SECOND))])).unwrap();
    assert_eq!(passes(&limiter, now_ns + SECOND, "k", 20), 3);
    assert_eq!(passes(&limiter, now_ns, "other", 60), 50);
    // With the limit it goes.
    limiter.replace(now_ns, plan(vec![Limit::new("m", bucket(1, 1, HOUR))])).unwrap();
    limiter.replace(now_ns, plan(vec![Limit::new("l", bucket(5, 1, SECOND))])).unwrap();
    assert_eq!(passes(&limiter, now_ns + SECOND, "k", 20), 5);
    assert_eq!(limiter.usage().entries, 1);
}

#[test]
fn numbers_of_another_algorithm_are_refused_and_change_nothing() {
    let limiter =
        limiter(vec![Limit::new("l", bucket(2, 1, HOUR)), Limit::new("free", Quota::Unlimited)]);
    let of_l = bucket_of(&limiter, "k");
    let log = Quota::SlidingLog { limit: 3, period_ns: HOUR };
    let refusal = limiter.set_numbers(START, of_l, Some(&log)).unwrap_err();
    assert!(refusal.contains("`l` is a token-bucket"), "{refusal}");
    let zero = bucket(0, 1, HOUR);
    assert!(limiter.set_numbers(START, of_l, Some(&zero)).unwrap_err().contains("burst of 0"));
    for slot in [1, 2] {
        let bucket = Bucket { slot, ..of_l };
        assert!(limiter.set_numbers(START, bucket, Some(&Quota::Deny)).is_err(), "{slot}");
    }
    assert_eq!(passes(&limiter, START, "k", 9), 2);
}

#[test]
fn a_key_with_other_numbers_that_finds_no_room_meets_the_bucket_of_all_such_keys() {
    let limiter = bounded(vec![Limit::new("l", bucket(2, 2, HOUR))], 64, WhenFull::Overflow);
    for n in 0..64 {
        passes(&limiter, START, &format!("old-{n}"), 2);
    }
    set(&limiter, START, "k", Some(&bucket(50, 50, HOUR)));
    assert_eq!(passes(&limiter, START, "k", 60), 2);
    assert_eq!(passes(&limiter, START, "new", 60), 0);
    assert_eq!(passes(&limiter, START + HOUR, "k", 60), 50);
}
