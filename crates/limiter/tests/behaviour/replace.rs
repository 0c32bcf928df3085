//! Other limits for a limiter that runs: what was used is kept, and no request meets two plans.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use limiter::{
    Limit, Limiter, Members, Plan, Quota, Rate, Replaced, Request, ShareConfig, StoreConfig,
    Unmatched, View, ViewMember, WhenFull, Window, member_id,
};

use crate::support::{
    HOUR, MS, SECOND, START, at, bounded, bucket, check, limiter, over, passes, per_key,
};

fn plan(limits: Vec<Limit>) -> Plan {
    Plan::compile(limits, Unmatched::Allow).unwrap()
}

fn one(quota: Quota) -> Plan {
    plan(vec![Limit::new("l", quota)])
}

fn fixed(limit: u64, period_ns: u64) -> Quota {
    Quota::FixedWindow { limit, window: Window::Period(period_ns) }
}

fn replace(limiter: &Limiter, now_ns: u64, plan: Plan) -> Replaced {
    limiter.replace(now_ns, plan).unwrap()
}

/// LM-02: the same limits again change nothing, however often they come.
#[test]
fn the_same_limits_again_change_nothing() {
    let quota = bucket(10, 1, 60 * SECOND);
    let limiter = per_key(quota.clone());
    assert_eq!(passes(&limiter, START, "k", 10), 10);
    for step in 0..100 {
        let now = START + step * 300 * MS;
        let replaced = replace(&limiter, now, one(quota.clone()));
        assert_eq!(replaced, Replaced { kept: 1, ..Replaced::default() });
        let verdict = check(&limiter, now, "k");
        assert!(!verdict.allowed);
        assert_eq!(verdict.retry_after.to_ms(), Some(60_000 - step * 300));
    }
}

/// Whatever the file says otherwise of a limit, it is told that it changed, and what was used is kept.
#[test]
fn a_limit_that_matches_otherwise_is_changed_and_keeps_what_was_used() {
    let limit = || Limit::new("l", bucket(10, 1, HOUR));
    let limiter = limiter(vec![limit()]);
    assert_eq!(passes(&limiter, START, "k", 4), 4);
    let changed = Replaced { changed: 1, ..Replaced::default() };
    let shadow = Limit { shadow: true, ..limit() };
    assert_eq!(replace(&limiter, START, plan(vec![shadow])), changed);
    let mut matching = limit();
    matching.selector.endpoint = Some("/*".to_owned());
    assert_eq!(replace(&limiter, START, plan(vec![matching])), changed);
    assert_eq!(replace(&limiter, START, plan(vec![limit()])), changed);
    let kept = Replaced { kept: 1, ..Replaced::default() };
    assert_eq!(replace(&limiter, START, plan(vec![limit()])), kept);
    assert_eq!(passes(&limiter, START, "k", 10), 6);
}

/// LM-03: a raised limit reaches keys in use at once, less what they used.
#[test]
fn a_raised_limit_reaches_keys_in_use() {
    let window = per_key(fixed(5, HOUR));
    assert_eq!(passes(&window, START, "k", 5), 5);
    let replaced = replace(&window, START, one(fixed(12, HOUR)));
    assert_eq!(replaced, Replaced { changed: 1, ..Replaced::default() });
    let verdict = check(&window, START, "k");
    assert_eq!((verdict.allowed, verdict.limit, verdict.remaining), (true, Some(12), Some(6)));

    let drained = per_key(bucket(10, 10, HOUR));
    assert_eq!(passes(&drained, START, "k", 10), 10);
    replace(&drained, START + SECOND, one(bucket(100, 100, HOUR)));
    let verdict = check(&drained, START + SECOND, "k");
    assert_eq!((verdict.allowed, verdict.limit, verdict.remaining), (true, Some(100), Some(89)));
}

/// A lowered limit counts what was used against the new one: it is debt, bounded as any.
#[test]
fn a_lowered_limit_leaves_what_is_too_much_as_debt() {
    let limiter = per_key(bucket(100, 1, SECOND));
    assert_eq!(passes(&limiter, START, "a", 15), 15);
    assert_eq!(passes(&limiter, START, "b", 90), 90);
    replace(&limiter, START, one(bucket(10, 1, SECOND)));
    // Five above the capacity, and one for the call; and a debt of one capacity at most.
    assert_eq!(check(&limiter, START, "a").retry_after.to_ms(), Some(6_000));
    assert_eq!(check(&limiter, START, "b").retry_after.to_ms(), Some(11_000));
    let log = per_key(Quota::SlidingLog { limit: 9, period_ns: 60 * SECOND });
    (0..9).for_each(|n| assert!(check(&log, START + n * SECOND, "k").allowed));
    replace(&log, START + 9 * SECOND, one(Quota::SlidingLog { limit: 3, period_ns: 60 * SECOND }));
    // Seven of the nine must go first.
    assert_eq!(check(&log, START + 9 * SECOND, "k").retry_after.to_ms(), Some(57_000));
}

/// LM-06: another window begins with what counts, and a limit that comes back begins with nothing.
#[test]
fn another_window_carries_over_what_counts() {
    let t = |seconds: u64| 24 * HOUR + seconds * SECOND;
    let limiter = per_key(fixed(5, HOUR));
    assert_eq!(passes(&limiter, t(100), "k", 5), 5);
    replace(&limiter, t(110), one(fixed(5, 60 * SECOND)));
    let denied = check(&limiter, t(119), "k");
    assert_eq!((denied.allowed, denied.retry_after.to_ms()), (false, Some(1_000)));
    assert_eq!(check(&limiter, t(120), "k").remaining, Some(4));

    let others = || vec![Limit::new("other", bucket(1, 1, SECOND))];
    let replaced = replace(&limiter, t(121), plan(others()));
    assert_eq!(replaced, Replaced { added: 1, removed: 1, ..Replaced::default() });
    assert_eq!(limiter.usage().entries, 0, "its memory was given back");
    replace(&limiter, t(122), one(fixed(5, 60 * SECOND)));
    assert_eq!(check(&limiter, t(122), "k").remaining, Some(4));
}

/// What was used is as many units by every algorithm, whatever the rate.
#[test]
fn used_units_are_kept_by_every_algorithm() {
    let rate = |count, period_ns| Rate { count, period_ns };
    let leaky = |count, burst| Quota::LeakyBucket { rate: rate(count, HOUR), burst, queue: false };
    let sliding = |limit, period_ns| Quota::SlidingWindow { limit, period_ns };
    let log = |limit, period_ns| Quota::SlidingLog { limit, period_ns };
    for (before, after) in [
        (bucket(10, 7, HOUR), bucket(20, 13, HOUR)),
        (leaky(7, 10), leaky(13, 20)),
        (fixed(10, HOUR), fixed(20, HOUR)),
        (fixed(10, HOUR), fixed(20, 2 * HOUR)),
        (sliding(10, HOUR), sliding(20, HOUR)),
        (sliding(10, HOUR), sliding(20, 3 * HOUR)),
        (log(10, HOUR), log(20, 2 * HOUR)),
    ] {
        let limiter = per_key(before.clone());
        assert_eq!(passes(&limiter, START, "k", 6), 6, "{before:?}");
        replace(&limiter, START, one(after.clone()));
        assert_eq!(passes(&limiter, START, "k", 20), 14, "{before:?} to {after:?}");
        replace(&limiter, START, one(before.clone()));
        assert_eq!(passes(&limiter, START, "k", 1), 0, "{after:?} to {before:?}");
        assert_eq!(passes(&limiter, START, "fresh", 20), 10);
    }
}

/// There and back a thousand times, at rates that do not divide each other, hands out nothing: what is
/// rounded is rounded up, by less than a unit.
#[test]
fn rounding_hands_nothing_out() {
    let limiter = per_key(bucket(100, 7, HOUR));
    assert_eq!(passes(&limiter, START, "k", 50), 50);
    for _ in 0..500 {
        replace(&limiter, START, one(bucket(90, 11, HOUR)));
        replace(&limiter, START, one(bucket(100, 7, HOUR)));
    }
    let left = passes(&limiter, START, "k", 100);
    assert!((49..=50).contains(&left), "{left}");
}

/// The place of a limit in the file is nothing to its buckets and counts.
#[test]
fn limits_that_move_in_the_file_keep_everything() {
    let (a, b) = (bucket(10, 1, HOUR), bucket(20, 1, HOUR));
    let limits = |names: &[(&str, &Quota)]| {
        let limit = |(name, quota): &(&str, &Quota)| Limit::new(*name, (*quota).clone());
        names.iter().map(limit).collect::<Vec<_>>()
    };
    let limiter = limiter(limits(&[("a", &a), ("b", &b)]));
    assert_eq!(passes(&limiter, START, "k", 4), 4);
    let c = bucket(3, 1, HOUR);
    replace(&limiter, START, plan(limits(&[("c", &c), ("b", &b), ("a", &a)])));
    let counts = || {
        let (plan, counts) = (limiter.plan(), limiter.counts());
        let rules = plan.rules().iter().map(|rule| rule.name().to_owned());
        rules.zip(counts.rules.iter().map(|it| (it.allowed, it.units))).collect::<Vec<_>>()
    };
    let named = |name: &str, count| (name.to_owned(), count);
    assert_eq!(counts(), [named("c", (0, 0)), named("b", (4, 4)), named("a", (4, 4))]);
    let mut request = Request::check(b"", b"k");
    request.details = true;
    let left = limiter.decide(START, &request).unwrap().details;
    let left: Vec<_> = left.iter().map(|it| (it.limit_name, it.remaining)).collect();
    assert_eq!(left, [("c", Some(2)), ("b", Some(15)), ("a", Some(5))]);
    // A slot that was given up is given to another, which begins with nothing.
    replace(&limiter, START, plan(limits(&[("b", &b)])));
    replace(&limiter, START, plan(limits(&[("d", &a), ("b", &b), ("e", &a)])));
    assert_eq!(counts(), [named("d", (0, 0)), named("b", (5, 5)), named("e", (0, 0))]);
    assert_eq!(passes(&limiter, START, "k", 20), 10);
}

/// A limit that denies, or counts by another algorithm, takes nothing over and leaves nothing.
#[test]
fn what_counts_no_longer_leaves_nothing() {
    let counted = bucket(5, 1, HOUR);
    let limiter = per_key(counted.clone());
    assert_eq!(passes(&limiter, START, "k", 5), 5);
    replace(&limiter, START, one(Quota::Deny));
    assert_eq!((passes(&limiter, START, "k", 1), limiter.usage().entries), (0, 0));
    replace(&limiter, START, one(Quota::Unlimited));
    assert_eq!(passes(&limiter, START, "k", 9), 9);
    replace(&limiter, START, one(counted));
    assert_eq!(passes(&limiter, START, "k", 9), 5);
    let replaced = replace(&limiter, START, one(fixed(5, HOUR)));
    assert_eq!(replaced, Replaced { added: 1, removed: 1, ..Replaced::default() });
    assert_eq!(passes(&limiter, START, "k", 9), 5);
}

/// Overrides come, go and change as limits do.
#[test]
fn overrides_keep_their_own_counts() {
    let limit = |burst| Limit {
        overrides: vec![over(at("/x"), bucket(burst, 1, HOUR))],
        ..Limit::new("l", bucket(9, 1, HOUR))
    };
    let limiter = limiter(vec![limit(4)]);
    let ask = |endpoint: &'static [u8]| {
        limiter.decide(START, &Request::check(endpoint, b"k")).unwrap().verdict.remaining
    };
    assert_eq!((ask(b"/x"), ask(b"/x"), ask(b"/y")), (Some(3), Some(2), Some(8)));
    replace(&limiter, START, plan(vec![limit(6)]));
    assert_eq!((ask(b"/x"), ask(b"/y")), (Some(3), Some(7)));
    replace(&limiter, START, one(bucket(9, 1, HOUR)));
    assert_eq!((ask(b"/x"), ask(b"/y")), (Some(6), Some(5)));
    replace(&limiter, START, plan(vec![limit(6)]));
    assert_eq!((ask(b"/x"), ask(b"/y")), (Some(5), Some(4)));
}

/// A store of levels makes room for counts, and stays within its memory.
#[test]
fn limits_of_another_kind_stay_within_the_memory() {
    let limiter = bounded(vec![Limit::new("l", bucket(9, 1, HOUR))], u64::MAX, WhenFull::Deny);
    let most = limiter.usage().entries_max;
    let log = Quota::SlidingLog { limit: 100, period_ns: HOUR };
    let both = vec![Limit::new("l", bucket(9, 1, HOUR)), Limit::new("log", log)];
    replace(&limiter, START, plan(both));
    assert!(limiter.usage().entries_max < most, "two tables take more than one");
    assert_eq!(passes(&limiter, START, "k", 20), 9);
    replace(&limiter, START, one(bucket(9, 1, HOUR)));
    assert_eq!(limiter.usage().entries_max, most);
}

/// Every level that a shard has not met for longer than its ticks are unambiguous comes to the new plan by the
/// exact time.
#[test]
fn a_long_idle_time_before_the_change_is_exact() {
    let limiter = per_key(bucket(1_000, 1_000_000_000, SECOND));
    assert_eq!(passes(&limiter, START, "k", 1_000), 1_000);
    let later = START + 400 * 24 * HOUR;
    replace(&limiter, later, one(bucket(2_000, 1, SECOND)));
    assert_eq!(limiter.usage().entries, 0, "it had filled long ago");
    assert_eq!(passes(&limiter, later, "k", 3_000), 2_000);
}

/// The keys that found no room share a bucket that keeps what it used.
#[test]
fn the_overflow_bucket_is_kept_too() {
    let limiter = bounded(vec![Limit::new("l", bucket(10, 1, HOUR))], 64, WhenFull::Overflow);
    for n in 0..400 {
        check(&limiter, START, &format!("filler-{n}"));
    }
    assert!(limiter.counts().full > 0);
    assert_eq!(passes(&limiter, START, "late", 20), 0, "the fillers used the shared bucket up");
    replace(&limiter, START, one(bucket(15, 1, HOUR)));
    let late = passes(&limiter, START, "late", 20);
    assert!(late <= 5, "{late}");
    replace(&limiter, START, plan(vec![Limit::new("m", bucket(10, 1, HOUR))]));
    assert_eq!(passes(&limiter, START, "late", 20), 10);
}

/// On a member what is charged while others are missing, and what is in motion, keeps its units.
#[test]
fn a_member_in_a_split_keeps_what_was_spent() {
    let member = |index, name| ViewMember { index, id: Some(member_id(name)) };
    let view = View {
        members: vec![member(0, "a"), member(1, "b")],
        me: 0,
        reachable: Members::only(0),
        isolated: false,
    };
    let store = StoreConfig {
        memory_bytes: 1 << 20,
        entries_max: None,
        when_full: WhenFull::Overflow,
        secret: [5; 16],
    };
    let share = ShareConfig { sync_interval_ns: 200 * MS, view };
    let limiter = Limiter::new_member(one(bucket(100, 1, HOUR)), store, share);
    assert_eq!(passes(&limiter, START, "k", 100), 50, "its part");
    replace(&limiter, START, one(bucket(200, 7, HOUR)));
    // 50 of its 100 are used.
    assert_eq!(passes(&limiter, START, "k", 100), 50);
    replace(&limiter, START, one(bucket(100, 1, HOUR)));
    assert_eq!(passes(&limiter, START, "k", 100), 0);
}

/// While plans take each other's place, each check is decided by one of them as a whole, none fails, and
/// exactly what was let through is counted.
#[test]
fn no_check_meets_two_plans() {
    const CALLS: usize = 20_000;
    let limits = |prefix: &str| {
        let named = |name: &str| Limit::new(format!("{prefix}{name}"), bucket(1_000, 1, HOUR));
        let shared = Limit::new("total", bucket(30_000, 1, HOUR));
        plan(vec![named("1"), shared, named("2")])
    };
    let limiter = Limiter::new(
        limits("a"),
        StoreConfig {
            memory_bytes: 1 << 30,
            entries_max: None,
            when_full: WhenFull::Overflow,
            secret: [5; 16],
        },
    );
    let (allowed, is_over, start) = (AtomicUsize::new(0), AtomicBool::new(false), Barrier::new(5));
    let ask = |thread: usize| {
        let (limiter, allowed, start) = (&limiter, &allowed, &start);
        start.wait();
        for n in 0..CALLS {
            let key = format!("{}", (n * 7 + thread) % 50);
            let mut request = Request::check(b"", key.as_bytes());
            request.details = true;
            let decision = limiter.decide(START, &request).unwrap();
            let names: Vec<_> = decision.details.iter().map(|it| it.limit_name).collect();
            let is_a = names == ["a1", "total", "a2"];
            assert!(is_a || names == ["b1", "total", "b2"], "{names:?}");
            allowed.fetch_add(usize::from(decision.verdict.allowed), Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        let ask = &ask;
        let askers: Vec<_> = (0..4).map(|thread| scope.spawn(move || ask(thread))).collect();
        let replacer = scope.spawn(|| {
            start.wait();
            let mut replaced = 0;
            while !is_over.load(Ordering::Relaxed) || replaced < 100 {
                let prefix = if replaced % 2 == 0 { "b" } else { "a" };
                replace(&limiter, START, limits(prefix));
                replaced += 1;
            }
        });
        askers.into_iter().for_each(|asker| asker.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
        replacer.join().unwrap();
    });
    let plan = limiter.plan();
    let names: BTreeSet<_> = plan.rules().iter().map(limiter::Rule::name).collect();
    assert!(names.contains("total"));
    let total = plan.rules().iter().position(|rule| rule.name() == "total").unwrap();
    let allowed = allowed.into_inner();
    assert_eq!(limiter.counts().rules[total].allowed, allowed as u64);
    let left: usize = (0..50)
        .map(|key| {
            let mut peek = Request::check(b"", key.to_string().into_bytes().leak());
            (peek.op, peek.details) = (limiter::Op::Peek, true);
            let details = limiter.decide(START, &peek).unwrap().details;
            30_000 - usize::try_from(details[1].remaining.unwrap()).unwrap()
        })
        .sum();
    assert_eq!(left, allowed, "the buckets of the limit that stayed know every call");
}
