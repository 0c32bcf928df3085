//! The carried limit: calls that bring their numbers.

use limiter::{
    Attributes, CARRIED, Limit, Limiter, Op, Plan, Quota, Rate, Reason, Request, RequestError,
    StoreConfig, Terms, Unmatched, Verdict, Wait, WhenFull,
};

use crate::support::{DAY, HOUR, MS, SECOND, START, ask, bucket};

/// What `CL.THROTTLE key max_burst count seconds` says.
fn throttle(max_burst: u64, count: u64, seconds: u64) -> Terms {
    let rate = Rate { count, period_ns: seconds.saturating_mul(SECOND) };
    Terms { rate, burst: max_burst + 1 }
}

fn plan(limits: Vec<Limit>) -> Plan {
    Plan::compile(limits, Unmatched::Allow).unwrap().with_carried()
}

fn within(memory_bytes: u64, entries_max: Option<u64>, when_full: WhenFull) -> Limiter {
    let config = StoreConfig { memory_bytes, entries_max, when_full, secret: [5; 16] };
    Limiter::new(plan(Vec::new()), config)
}

fn carried() -> Limiter {
    within(1 << 26, None, WhenFull::Overflow)
}

fn call<'l>(limiter: &'l Limiter, now_ns: u64, key: &str, terms: Terms) -> Verdict<'l> {
    ask(limiter, now_ns, &Request::check(b"", key.as_bytes()).with_terms(terms))
}

/// Limited, limit, remaining, retry and reset in seconds rounded up: as a door tells them.
fn told(verdict: &Verdict<'_>) -> (bool, u64, u64, Option<u64>, Option<u64>) {
    assert_eq!(verdict.limit_name, CARRIED);
    let retry = (!verdict.allowed).then(|| verdict.retry_after.to_secs()).flatten();
    let (limit, remaining) = (verdict.limit.unwrap(), verdict.remaining.unwrap());
    (!verdict.allowed, limit, remaining, retry, verdict.reset_after.to_secs())
}

fn passes(limiter: &Limiter, now_ns: u64, key: &str, terms: Terms, calls: usize) -> usize {
    (0..calls).filter(|_| call(limiter, now_ns, key, terms).allowed).count()
}

/// PR-08: the numbers behind the replies.
#[test]
fn a_call_is_decided_by_the_numbers_that_it_carries() {
    let (limiter, terms) = (carried(), throttle(15, 30, 60));
    assert_eq!(told(&call(&limiter, START, "k", terms)), (false, 16, 15, None, Some(2)));
    assert_eq!(passes(&limiter, START, "k", terms, 14), 14);
    assert_eq!(told(&call(&limiter, START, "k", terms)), (false, 16, 0, None, Some(32)));
    assert_eq!(told(&call(&limiter, START, "k", terms)), (true, 16, 0, Some(2), Some(32)));
    let one = throttle(0, 1, 10);
    assert_eq!(told(&call(&limiter, START, "one", one)), (false, 1, 0, None, Some(10)));
    assert_eq!(told(&call(&limiter, START, "one", one)), (true, 1, 0, Some(10), Some(10)));
    // To the nanosecond.
    let denied = call(&limiter, START + MS, "one", one);
    let wait_ns = denied.retry_after.to_ns();
    assert!(!call(&limiter, START + MS + wait_ns - 1, "one", one).allowed);
    assert!(call(&limiter, START + MS + wait_ns, "one", one).allowed);
}

/// AR-03: a rate of several units in a millisecond.
#[test]
fn thousands_a_second_are_neither_free_nor_an_error() {
    let (limiter, terms) = (carried(), throttle(5_999, 6_000, 1));
    assert_eq!(passes(&limiter, START, "k", terms, 6_000), 6_000);
    let denied = call(&limiter, START, "k", terms);
    assert_eq!((denied.allowed, denied.retry_after.to_ns()), (false, 166_667));
    assert_eq!(denied.retry_after.to_secs(), Some(1));
    assert_eq!(passes(&limiter, START + MS, "k", terms, 10), 6);
    let mut passed = passes(&limiter, START, "flood", terms, 6_001);
    for ms in 1..=10_000 {
        passed += passes(&limiter, START + ms * MS, "flood", terms, 8);
    }
    assert_eq!(passed, 66_000);
    let most = Terms { burst: 5, rate: Rate { count: SECOND, period_ns: SECOND } };
    assert_eq!(passes(&limiter, START, "most", most, 10), 5);
    assert_eq!(passes(&limiter, START + 3, "most", most, 10), 3);
}

/// AR-06: no cost wraps.
#[test]
fn a_huge_cost_is_denied_for_ever_and_charges_nothing() {
    let (limiter, terms) = (carried(), throttle(0, 1, 86_400));
    for cost in [2, 200_000_000, 1 << 31, 1 << 32, u64::MAX >> 1, u64::MAX] {
        let request = Request::check(b"", b"k").with_cost(cost).with_terms(terms);
        let verdict = ask(&limiter, START, &request);
        assert_eq!(
            (verdict.reason, verdict.retry_after, verdict.remaining),
            (Reason::Limit, Wait::NEVER, Some(1))
        );
    }
    assert_eq!(limiter.usage().entries, 0);
    assert!(call(&limiter, START, "k", terms).allowed);
    assert!(!call(&limiter, START, "k", terms).allowed);
}

/// LM-01: numbers of 0 are an error, and mean neither everything nor nothing.
#[test]
fn numbers_that_make_no_bucket_are_refused() {
    let limiter = carried();
    let minute = 60 * SECOND;
    let terms = |burst, count, period_ns| Terms { burst, rate: Rate { count, period_ns } };
    let wrong = [
        terms(1, 0, minute),
        terms(5, 10, 0),
        terms(0, 10, minute),
        terms(1, SECOND + 1, SECOND),
        terms(1 << 62, 1, 1),
        terms((1 << 62) / DAY + 1, 1, DAY),
        terms(u64::MAX, u64::MAX, u64::MAX),
    ];
    for terms in wrong {
        assert!(!terms.make_a_bucket(), "{terms:?}");
        let request = Request::check(b"", b"k").with_terms(terms);
        assert_eq!(limiter.decide(START, &request).unwrap_err(), RequestError::Terms);
        assert!(limiter.why(START, &request).is_err());
    }
    assert_eq!((limiter.usage().entries, limiter.counts().rules[0].denied), (0, 0));
    for terms in [terms((1 << 62) / DAY, 1, DAY), terms((1 << 62) - 1, 1, 1), terms(1, 1, 1)] {
        assert!(call(&limiter, START, &format!("{terms:?}"), terms).allowed);
    }
    let plain = crate::support::limiter(Vec::new());
    let request = Request::check(b"", b"k").with_terms(throttle(1, 1, 1));
    assert_eq!(plain.decide(START, &request).unwrap_err(), RequestError::Terms);
}

#[test]
fn the_key_alone_is_the_bucket_and_no_other_limit_is_asked() {
    let config = StoreConfig {
        memory_bytes: 1 << 26,
        entries_max: None,
        when_full: WhenFull::Overflow,
        secret: [5; 16],
    };
    let limiter = Limiter::new(plan(vec![Limit::new("file", bucket(1, 1, HOUR))]), config);
    let terms = throttle(2, 1, 60);
    let mut request = Request::check(b"POST /a", b"k").with_terms(terms);
    assert_eq!(ask(&limiter, START, &request).remaining, Some(2));
    request.endpoint = b"GET /b";
    request.attributes = Attributes::from_iter([(&b"ip"[..], &b"10.0.0.1"[..])]);
    assert_eq!(ask(&limiter, START, &request).remaining, Some(1));
    let request = request.with_unit_cost(b"tokens", 500);
    let verdict = limiter.decide(START, &Request { details: true, ..request }).unwrap();
    assert_eq!((verdict.verdict.remaining, verdict.details.len()), (Some(0), 1));
    // The limit of the file was not asked, and a call without terms does not meet the carried one.
    let plain = Request::check(b"", b"k");
    assert_eq!(ask(&limiter, START, &plain).limit_name, "file");
    assert!(!ask(&limiter, START, &plain).allowed);
    let counts = limiter.counts();
    let of =
        |at: usize| (counts.rules[at].allowed, counts.rules[at].denied, counts.rules[at].units);
    assert_eq!((of(0), of(1)), ((1, 1, 1), (3, 0, 3)));
    let rules = limiter.plan();
    let rule = &rules.rules()[1];
    assert!(rule.is_carried());
    assert_eq!((rule.name(), rule.quota(), rule.numbers()), (CARRIED, &Quota::Carried, None));
}

#[test]
fn a_bucket_has_the_numbers_of_the_last_call_and_keeps_what_was_used() {
    let limiter = carried();
    let (small, large) = (throttle(9, 10, 3_600), throttle(99, 100, 3_600));
    assert_eq!(passes(&limiter, START, "k", small, 11), 10);
    assert_eq!(call(&limiter, START + SECOND, "k", large).remaining, Some(89));
    // Eleven are used of ten.
    let verdict = call(&limiter, START + SECOND, "k", small);
    assert_eq!((verdict.allowed, verdict.remaining, verdict.limit), (false, Some(0), Some(10)));
    // The rate is that of the last call: 360 s for a unit, two units until one is left, less a second.
    assert_eq!(verdict.retry_after.to_secs(), Some(719));
    // What a denied call said holds too.
    let verdict = call(&limiter, START + 361 * SECOND, "k", large);
    assert_eq!(verdict.remaining, Some(89));
    // Down to a burst far below what is used, and up again: a debt is one burst at most.
    assert_eq!(
        call(&limiter, START + 361 * SECOND, "k", throttle(0, 1, 1)).retry_after.to_secs(),
        Some(2)
    );
    assert_eq!(call(&limiter, START + 361 * SECOND, "k", large).remaining, Some(97));
}

#[test]
fn a_peek_answers_by_its_own_numbers_and_changes_none() {
    let limiter = carried();
    let (small, large) = (throttle(9, 10, 3_600), throttle(99, 100, 3_600));
    let peek = |key: &str, terms, op| {
        let request = Request::check(b"", key.as_bytes()).with_terms(terms).with_op(op);
        let cost = if op == Op::Peek { 3 } else { 0 };
        let verdict = ask(&limiter, START, &request.with_cost(cost));
        (verdict.allowed, verdict.limit.unwrap(), verdict.remaining.unwrap())
    };
    assert_eq!(peek("k", small, Op::Peek), (true, 10, 10));
    assert_eq!(limiter.usage().table_bytes, 0);
    assert_eq!(passes(&limiter, START, "k", small, 8), 8);
    for op in [Op::Peek, Op::Check] {
        assert_eq!(peek("k", large, op), (true, 100, 92));
        assert_eq!(peek("k", small, op), (op == Op::Check, 10, 2));
    }
    assert_eq!(passes(&limiter, START, "k", small, 8), 2);
    // Nor does a call that can never pass, of whatever numbers.
    let never = Request::check(b"", b"k").with_cost(101).with_terms(large);
    assert_eq!(ask(&limiter, START, &never).retry_after, Wait::NEVER);
    assert_eq!(call(&limiter, START, "k", small).retry_after.to_secs(), Some(360));
}

#[test]
fn debits_refunds_and_resets_carry_their_numbers_too() {
    let (limiter, terms) = (carried(), throttle(9, 10, 3_600));
    let act = |op, cost| {
        let request = Request::check(b"", b"k").with_terms(terms).with_op(op).with_cost(cost);
        ask(&limiter, START, &request).remaining
    };
    assert_eq!((act(Op::Refund, 5), act(Op::Reset, 1)), (Some(10), Some(10)));
    assert_eq!(limiter.usage().table_bytes, 0);
    assert_eq!((act(Op::Debit, 4), act(Op::Debit, 50)), (Some(6), Some(0)));
    assert_eq!(act(Op::Refund, 11), Some(1));
    assert_eq!((act(Op::Reset, 1), act(Op::Check, 10)), (Some(10), Some(0)));
}

#[test]
fn a_rate_that_is_too_odd_to_be_counted_is_a_little_lower() {
    let limiter = carried();
    // Nearly a million a day, all at once: exact in ticks of 1/999983 ns it would need 67 bits.
    let odd = throttle(999_982, 999_983, 86_400);
    let drain = Request::check(b"", b"k").with_cost(999_983).with_terms(odd);
    assert!(ask(&limiter, START, &drain).allowed);
    let wait_ns = call(&limiter, START, "k", odd).retry_after.to_ns();
    // A unit takes 86401.4688 us.
    assert_eq!(wait_ns, 86_401_469);
    assert!(!call(&limiter, START + wait_ns - 1, "k", odd).allowed);
    assert!(call(&limiter, START + wait_ns, "k", odd).allowed);
    let after_a_day = call(&limiter, START + DAY + SECOND, "k", odd);
    assert_eq!((after_a_day.remaining, after_a_day.limit), (Some(999_982), Some(999_983)));
}

/// The ticks of such a rate wrap within seconds.
#[test]
fn a_fine_rate_is_right_however_long_a_key_was_idle() {
    let limiter = carried();
    let rate = Rate { count: 999_999_937, period_ns: SECOND };
    let fine = Terms { burst: 10, rate };
    let slow = throttle(4, 1, 1_000_000);
    for idle_s in [1, 3, 5, 9, 10, 14, 1_000, 1_000_000] {
        let key = format!("{idle_s}");
        assert_eq!(passes(&limiter, START, &key, fine, 20), 10);
        assert_eq!(passes(&limiter, START, &format!("slow {key}"), slow, 20), 5);
    }
    for idle_s in [1, 3, 5, 9, 10, 14, 1_000, 1_000_000] {
        let now_ns = START + idle_s * SECOND;
        assert_eq!(passes(&limiter, now_ns, &format!("{idle_s}"), fine, 20), 10, "{idle_s}");
        let slow_passes = passes(&limiter, now_ns, &format!("slow {idle_s}"), slow, 20);
        assert_eq!(slow_passes, usize::from(idle_s == 1_000_000), "{idle_s}");
    }
}

#[test]
fn a_flood_of_carried_keys_stays_within_the_memory_and_leaves_nothing_behind() {
    for (memory_bytes, kinds) in [(10_000, 1), (1 << 20, 1), (1 << 20, 3), (1 << 20, u64::MAX)] {
        let limiter = within(memory_bytes, None, WhenFull::Deny);
        let mut most = 0;
        for n in 0..60_000u64 {
            let terms = throttle(n % kinds, 1, 60);
            let now_ns = START + n * 10 * MS;
            call(&limiter, now_ns, &format!("{n}"), terms);
            if n % 1_000 == 0 {
                let usage = limiter.usage();
                assert!(usage.table_bytes <= memory_bytes, "{usage:?} for {kinds}");
                most = most.max(usage.entries);
            }
        }
        assert!(most > 4 && limiter.counts().full > 0, "{most}");
        assert!(kinds != 1 || most * 430 > memory_bytes, "{most} keys in {memory_bytes}");
        let now_ns = START + HOUR;
        for _ in 0..3 {
            limiter.sweep(now_ns, limiter.sweep_round());
        }
        let left = limiter.usage();
        assert_eq!(left.entries, 0);
        // No table is smaller than it has to be for the next keys.
        assert!(left.table_bytes < memory_bytes / 4 + 5_000, "{left:?}");
        assert!(call(&limiter, now_ns, "new", throttle(0, 1, 60)).allowed);
    }
}

#[test]
fn carried_keys_without_room_share_a_bucket_with_those_of_the_same_numbers() {
    let limiter = within(1 << 30, Some(64), WhenFull::Overflow);
    let terms = throttle(1, 1, 3_600);
    for n in 0..1_000 {
        passes(&limiter, START, &format!("old-{n}"), terms, 2);
    }
    assert!(limiter.counts().full > 0);
    let others = throttle(4, 1, 3_600);
    let new_keys = |terms| -> usize {
        (0..100).map(|n| passes(&limiter, START, &format!("new-{n}"), terms, 10)).sum()
    };
    assert_eq!((new_keys(terms), new_keys(others), new_keys(others)), (0, 5, 0));
    let verdict = call(&limiter, START, "new", others);
    assert_eq!((verdict.limit, verdict.retry_after.to_secs()), (Some(5), Some(3_600)));
    // A thousand sets of numbers have such a bucket, and no more.
    let passed =
        (0..2_000).filter(|n| call(&limiter, START, "new", throttle(10 + n, 1, 3_600)).allowed);
    assert_eq!(passed.count(), 1_022);
    let verdict = call(&limiter, START, "new", throttle(5_000, 1, 3_600));
    assert_eq!((verdict.reason, verdict.limit), (Reason::Full, Some(5_001)));
    // They go when they are full again.
    let later = START + 6 * HOUR;
    assert!(call(&limiter, later, "new", throttle(6_000, 1, 3_600)).allowed);
}

#[test]
fn carried_buckets_outlive_a_change_of_the_limits() {
    let limiter = carried();
    let terms = throttle(4, 1, 60);
    assert_eq!(passes(&limiter, START, "k", terms, 9), 5);
    let limits = vec![Limit::new("a", bucket(1, 1, HOUR)), Limit::new("b", bucket(1, 1, HOUR))];
    let replaced = limiter.replace(START, plan(limits)).unwrap();
    assert_eq!((replaced.kept, replaced.added), (1, 2));
    let verdict = call(&limiter, START + SECOND, "k", terms);
    assert_eq!((verdict.allowed, verdict.retry_after.to_secs()), (false, Some(59)));
    let counts = limiter.counts();
    assert_eq!((counts.rules[2].allowed, counts.rules[2].denied), (5, 5));
    // Gone with the door, and new when the door is there again.
    limiter.replace(START, Plan::compile(Vec::new(), Unmatched::Allow).unwrap()).unwrap();
    let request = Request::check(b"", b"k").with_terms(terms);
    assert_eq!(limiter.decide(START, &request).unwrap_err(), RequestError::Terms);
    assert_eq!(limiter.usage().entries, 0);
    limiter.replace(START, plan(Vec::new())).unwrap();
    assert_eq!(call(&limiter, START, "k", terms).remaining, Some(4));
}

#[test]
fn why_tells_how_the_bucket_of_a_carried_key_stands() {
    let limiter = carried();
    let (terms, others) = (throttle(9, 10, 3_600), throttle(99, 100, 3_600));
    assert_eq!(passes(&limiter, START, "k", terms, 4), 4);
    for (terms, remaining) in [(terms, 6), (others, 96)] {
        let request = Request::check(b"", b"k").with_terms(terms);
        let why = limiter.why(START, &request).unwrap();
        assert_eq!((why.next.verdict.allowed, why.next.verdict.remaining), (true, Some(remaining)));
        let applied = why.limits[0].applied.as_ref().unwrap();
        assert_eq!((why.limits.len(), why.others, applied.cost), (1, 0, 1));
        let verdict = applied.verdict.as_ref().unwrap();
        assert_eq!((verdict.limit_name, verdict.remaining), (CARRIED, Some(remaining)));
    }
    assert_eq!(passes(&limiter, START, "k", terms, 9), 6);
}
