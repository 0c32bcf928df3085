//! The numbers of every algorithm, exact, on virtual time: worked examples, and the faults of others by the
//! ids of the fault list.

use limiter::{
    CalendarSpan, Limit, Limiter, Op, Plan, Quota, Rate, Request, Unmatched, Wait, Window,
};

use super::{NOON, calendar, each, fixed, log, meter, queue, set_wall, sliding};
use crate::support::{DAY, HOUR, MS, SECOND, START, ask, bucket, check, passes, per_key};

const MINUTE: u64 = 60 * SECOND;

fn with_cost(limiter: &Limiter, now_ns: u64, cost: u64) -> (bool, Option<u64>, Wait) {
    let verdict = ask(limiter, now_ns, &Request::check(b"", b"k").with_cost(cost));
    (verdict.allowed, verdict.remaining, verdict.retry_after)
}

fn op(limiter: &Limiter, now_ns: u64, op: Op, cost: u64) -> Option<u64> {
    ask(limiter, now_ns, &Request::check(b"", b"k").with_op(op).with_cost(cost)).remaining
}

fn secs(n: u64) -> Wait {
    Wait::from_ns(n * SECOND)
}

/// The same traffic on both sides of an edge: what is called sliding is.
#[test]
fn two_hundred_pass_around_the_edge_of_a_fixed_window_and_a_hundred_of_a_log() {
    let around = |quota| {
        let limiter = per_key(quota);
        [59, 60].map(|second| passes(&limiter, START + second * SECOND, "k", 150))
    };
    assert_eq!(around(fixed(100, MINUTE)), [100, 100]);
    assert_eq!(around(log(100, MINUTE)), [100, 0]);
    assert_eq!(around(sliding(100, MINUTE)), [100, 0]);
}

#[test]
fn eighty_before_and_thirty_now_are_ninety_a_quarter_into_the_minute() {
    let limiter = per_key(sliding(100, MINUTE));
    assert_eq!(passes(&limiter, START + 30 * SECOND, "k", 80), 80);
    let now = START + 75 * SECOND;
    assert_eq!(passes(&limiter, now, "k", 30), 30);
    // 80 * 0.75 + 30 = 90: ten are left.
    assert_eq!(op(&limiter, now, Op::Peek, 0), Some(10));
    assert_eq!(passes(&limiter, now, "k", 11), 10);
}

#[test]
fn five_per_quarter_of_an_hour_at_the_exact_edges() {
    let limiter = per_key(log(5, 15 * MINUTE));
    let minute = |n: u64| START + n * MINUTE;
    for n in 0..5 {
        assert!(check(&limiter, minute(n), "k").allowed);
    }
    let denied = check(&limiter, minute(5), "k");
    assert_eq!((denied.allowed, denied.retry_after), (false, secs(600)));
    assert_eq!(denied.reset_after, secs(14 * 60));
    assert_eq!(check(&limiter, minute(15) - 1, "k").retry_after, Wait::from_ns(1));
    assert!(check(&limiter, minute(15), "k").allowed);
    assert_eq!(check(&limiter, minute(15), "k").retry_after, secs(60));
    assert!(check(&limiter, minute(16), "k").allowed);
}

#[test]
fn a_burst_leaves_a_queue_at_its_rate() {
    let limiter = per_key(queue(100, 50, SECOND));
    for n in 0..100 {
        let verdict = check(&limiter, START, "k");
        assert_eq!((verdict.allowed, verdict.delay), (true, Wait::from_ns(n * 20 * MS)), "{n}");
    }
    let full = check(&limiter, START, "k");
    assert_eq!((full.allowed, full.retry_after), (false, Wait::from_ns(20 * MS)));
    assert_eq!((full.delay, full.remaining), (Wait::ZERO, Some(0)));
    assert_eq!(check(&limiter, START + 20 * MS - 1, "k").retry_after, Wait::from_ns(1));
    let next = check(&limiter, START + 20 * MS, "k");
    assert_eq!((next.allowed, next.delay), (true, Wait::from_ns(99 * 20 * MS)));
}

#[test]
fn a_call_of_many_units_makes_those_behind_it_wait_for_all_of_them() {
    let limiter = per_key(queue(10, 1, SECOND));
    let delay = |now, cost| ask(&limiter, now, &Request::check(b"", b"k").with_cost(cost)).delay;
    assert_eq!([delay(START, 4), delay(START, 1)], [Wait::ZERO, secs(4)]);
    assert_eq!(delay(START + SECOND / 2, 1), Wait::from_ns(4_500 * MS));
    // A peek says how long the call would have to wait.
    assert_eq!(delay(START + SECOND / 2, 0), Wait::from_ns(5_500 * MS));
}

#[test]
fn who_waits_in_several_queues_waits_as_long_as_in_the_longest() {
    let limits = vec![
        Limit::new("meter", meter(10, 1, MINUTE)),
        Limit::new("fast", queue(10, 10, SECOND)),
        Limit::new("slow", queue(10, 2, SECOND)),
    ];
    let limiter = crate::support::limiter(limits);
    let delays: Vec<_> = (0..3).map(|_| check(&limiter, START, "k").delay.to_ms()).collect();
    assert_eq!(delays, [Some(0), Some(500), Some(1_000)]);
}

#[test]
fn what_is_given_back_or_charged_later_waits_in_no_queue() {
    let limiter = per_key(queue(10, 1, SECOND));
    assert_eq!(passes(&limiter, START, "k", 5), 5);
    for op in [Op::Debit, Op::Refund, Op::Reset] {
        let request = Request::check(b"", b"k").with_op(op);
        assert_eq!(ask(&limiter, START, &request).delay, Wait::ZERO, "{op:?}");
    }
}

#[test]
fn a_meter_answers_as_a_token_bucket_does() {
    let (tokens, water) = (per_key(bucket(5, 2, 3 * SECOND)), per_key(meter(5, 2, 3 * SECOND)));
    for n in 0..40 {
        let (now, cost) = (START + n * 777 * MS, n % 4);
        let request = Request::check(b"", b"k").with_cost(cost);
        assert_eq!(ask(&tokens, now, &request), ask(&water, now, &request), "{n}");
    }
}

/// TM-11
#[test]
fn a_day_of_a_zone_ends_at_its_midnight() {
    // Half past midnight in Berlin, before the clocks are changed; an hour more or less to wait.
    for (unix_secs, wait_secs, reset_secs) in
        [(1_792_881_000, 88_200, 1_792_969_200), (1_806_190_200, 81_000, 1_806_271_200)]
    {
        let limiter = per_key(calendar(3, CalendarSpan::Day, "Europe/Berlin"));
        limiter.set_wall(START, unix_secs * SECOND);
        assert_eq!(passes(&limiter, START, "k", 4), 3);
        let denied = check(&limiter, START, "k");
        assert_eq!((denied.retry_after, denied.reset_after), (secs(wait_secs), secs(wait_secs)));
        assert_eq!(unix_secs + wait_secs, reset_secs);
        assert_eq!(
            check(&limiter, START + wait_secs * SECOND - 1, "k").retry_after,
            Wait::from_ns(1)
        );
        assert_eq!(passes(&limiter, START + wait_secs * SECOND, "k", 4), 3);
    }
}

/// TM-11
#[test]
fn a_month_ends_with_its_last_day() {
    // 2027-03-31T12:00Z to 2027-04-01, 2028-02-29T12:00Z to 2028-03-01, 2027-02-28T12:00Z to 2027-03-01.
    for (unix_secs, days) in [(1_806_494_400, 31), (1_835_438_400, 29), (1_803_816_000, 28)] {
        let limiter = per_key(calendar(3, CalendarSpan::Month, "UTC"));
        limiter.set_wall(START, unix_secs * SECOND);
        assert_eq!(passes(&limiter, START, "k", 4), 3);
        let denied = check(&limiter, START, "k");
        assert_eq!((denied.retry_after, denied.window), (secs(43_200), Wait::from_ns(days * DAY)));
        assert_eq!(passes(&limiter, START + 12 * HOUR, "k", 4), 3);
    }
}

/// AR-01
#[test]
fn polling_faster_than_it_drains_loses_nothing() {
    let limiter = per_key(meter(10, 1, SECOND));
    assert_eq!(passes(&limiter, START, "k", 10), 10);
    let tenth = |n: &u64| check(&limiter, START + n * 100 * MS, "k").allowed;
    let passed: Vec<u64> = (1..=100).filter(tenth).collect();
    assert_eq!(passed, (1..=10).map(|second| second * 10).collect::<Vec<_>>());
}

/// AR-03
#[test]
fn many_units_in_a_short_window_are_exact() {
    // Six a millisecond; a window of one.
    for quota in [fixed(6, MS), sliding(6, MS), log(6, MS)] {
        let limiter = per_key(quota);
        assert_eq!(passes(&limiter, START, "k", 10), 6);
        assert_eq!(check(&limiter, START + MS - 1, "k").retry_after.to_ns() % MS, 1);
    }
    assert_eq!(per_ms(fixed(6, MS)), 66);
    assert_eq!(per_ms(log(6, MS)), 66);
    // What passed in the millisecond before weighs its whole until that ends: every other one.
    assert_eq!(per_ms(sliding(6, MS)), 36);
}

/// What passes of ten calls each in eleven milliseconds.
fn per_ms(quota: Quota) -> usize {
    let limiter = per_key(quota);
    (0..=10).map(|ms| passes(&limiter, START + ms * MS, "k", 10)).sum()
}

/// AR-04
#[test]
fn a_unit_a_month_is_exact_however_often_it_is_peeked_at() {
    let secs_on = |n: u64| START + n * SECOND;
    for quota in [meter(1, 1, 30 * DAY), log(1, 30 * DAY)] {
        let limiter = per_key(quota);
        assert!(check(&limiter, secs_on(0), "k").allowed);
        assert_eq!(check(&limiter, secs_on(1), "k").retry_after, secs(2_591_999));
        for second in (1..2_591_999).step_by(1_000) {
            op(&limiter, secs_on(second), Op::Peek, 1);
        }
        assert_eq!(check(&limiter, secs_on(2_591_999), "k").retry_after, secs(1));
        assert!(check(&limiter, secs_on(2_592_000), "k").allowed);
    }
}

/// AR-05
#[test]
fn a_long_idle_time_overflows_nothing() {
    for (name, quota) in each(10_000, SECOND) {
        for idle in [DAY / 2, 30 * DAY, 3_650 * DAY] {
            let limiter = per_key(quota.clone());
            set_wall(&limiter, START, 0);
            assert!(with_cost(&limiter, START, 10_000).0, "{name}");
            let after = with_cost(&limiter, START + idle, 1);
            assert_eq!(after, (true, Some(9_999), Wait::ZERO), "{name} after {idle}");
        }
    }
}

/// AR-06
#[test]
fn a_huge_cost_is_denied_for_ever_and_charges_nothing() {
    for (name, quota) in each(1, DAY) {
        let limiter = per_key(quota);
        for cost in [2, 1 << 31, 1 << 32, u64::MAX >> 1, u64::MAX] {
            assert_eq!(with_cost(&limiter, START, cost), (false, Some(1), Wait::NEVER), "{name}");
        }
        assert!(check(&limiter, START, "k").allowed, "{name}");
    }
}

/// AR-07
#[test]
fn remaining_is_never_above_the_limit_nor_below_nothing() {
    let limiter = per_key(meter(10, 10, 30 * SECOND));
    assert_eq!(passes(&limiter, START, "k", 5), 5);
    assert_eq!(op(&limiter, START + MINUTE, Op::Peek, 1), Some(10));
    for (name, quota) in each(3, MINUTE) {
        let limiter = per_key(quota);
        let left: Vec<_> = (0..6).map(|_| check(&limiter, START, "k").remaining.unwrap()).collect();
        assert_eq!(left, [2, 1, 0, 0, 0, 0], "{name}");
    }
}

/// AR-08
#[test]
fn a_leaky_bucket_may_hold_more_units_than_its_period_has_milliseconds() {
    let limiter = per_key(meter(2_000, 2_000, SECOND));
    assert_eq!(passes(&limiter, START, "k", 2_001), 2_000);
    assert_eq!(passes(&limiter, START + MS, "k", 5), 2);
}

/// AR-09
#[test]
fn a_wait_is_never_rounded_down() {
    for quota in [meter(1, 2, 3 * SECOND), log(1, 1_500 * MS), fixed(1, 1_500 * MS)] {
        let limiter = per_key(quota);
        assert!(check(&limiter, START, "k").allowed);
        let fifth = check(&limiter, START + 200 * MS, "k").retry_after;
        assert_eq!((fifth.to_ms(), fifth.to_secs()), (Some(1_300), Some(2)));
        let nearly = check(&limiter, START + 1_499_900_000, "k").retry_after;
        assert_eq!((nearly.to_ns(), nearly.to_ms()), (100_000, Some(1)));
        assert!(check(&limiter, START + 1_500 * MS, "k").allowed);
    }
}

/// AR-12
#[test]
fn the_wait_of_a_sliding_window_follows_from_its_decay() {
    let limiter = per_key(sliding(10, MINUTE));
    assert_eq!(passes(&limiter, START + 59 * SECOND, "k", 10), 10);
    assert_eq!(check(&limiter, START + 60 * SECOND, "k").retry_after, secs(6));
    let nearly = check(&limiter, START + 65_999 * MS, "k").retry_after;
    assert_eq!(nearly, Wait::from_ns(MS));
    assert!(check(&limiter, START + 66 * SECOND, "k").allowed);
}

/// AR-13, LM-01
#[test]
fn nothing_that_means_nothing_compiles() {
    let refusal = |quota| {
        Plan::compile(vec![Limit::new("l", quota)], Unmatched::Allow).unwrap_err().to_string()
    };
    for (name, quota) in each(0, SECOND) {
        assert!(refusal(quota).contains("`deny = true`"), "{name}");
    }
    assert!(refusal(meter(0, 1, SECOND)).contains("`deny = true`"));
    assert!(refusal(queue(5, 0, SECOND)).contains("`deny = true`"));
    for quota in [meter(5, 5, 0), queue(5, 5, 0), log(5, 0)] {
        let said = refusal(quota);
        assert!(said.contains("`unlimited = true`"), "{said}");
    }
    for quota in [fixed(5, 0), sliding(5, 0), fixed(5, MS / 2), sliding(5, 3 * MS / 2)] {
        let said = refusal(quota);
        assert!(said.contains("whole number of milliseconds"), "{said}");
    }
    let said = refusal(log(10_001, SECOND));
    assert!(said.contains("`log_max` = 10000") && said.contains("sliding-window"), "{said}");
    let said = refusal(sliding(u64::MAX, MINUTE));
    assert!(said.contains("lower it to 76861433640456 or less"), "{said}");
    let said = refusal(Quota::FixedWindow { limit: 1 << 62, window: Window::Period(SECOND) });
    assert!(said.contains("lower it to 4611686018427387903 or less"), "{said}");
}

/// TM-01
#[test]
fn an_older_reading_of_the_clock_counts_as_no_time_passed() {
    for (name, quota) in each(100, SECOND) {
        let limiter = per_key(quota);
        let at = |second: u64| START + second * SECOND;
        assert!(with_cost(&limiter, at(10), 100).0, "{name}");
        let denied = with_cost(&limiter, at(10), 1);
        assert!(!denied.0, "{name}");
        assert_eq!(with_cost(&limiter, at(9), 1), denied, "{name}");
        assert_eq!(with_cost(&limiter, at(10), 1), denied, "{name}");
    }
}

/// TM-07
#[test]
fn a_full_quota_on_both_sides_of_an_edge() {
    let around = |quota: &Quota| {
        let limiter = per_key(quota.clone());
        [9, 11, 19].map(|tenths| passes(&limiter, START + tenths * 100 * MS, "k", 100))
    };
    let passed: Vec<_> =
        each(100, SECOND).iter().map(|(name, quota)| (*name, around(quota))).collect();
    assert_eq!(
        passed,
        [
            ("token-bucket", [100, 20, 80]),
            ("leaky-bucket", [100, 20, 80]),
            ("queue", [100, 20, 80]),
            ("fixed-window", [100, 100, 0]),
            ("sliding-window", [100, 10, 80]),
            ("sliding-log", [100, 0, 100]),
        ]
    );
}

/// TM-08
#[test]
fn denied_calls_are_not_counted() {
    let eager = |quota| {
        let limiter = per_key(quota);
        let mut most_bytes = 0;
        let passed = (0..120).filter(|n| {
            let allowed = check(&limiter, START + n * 30 * SECOND, "k").allowed;
            most_bytes = most_bytes.max(limiter.usage().table_bytes);
            allowed
        });
        (passed.count(), most_bytes)
    };
    let ten_units = {
        let limiter = per_key(log(10, 600 * SECOND));
        assert_eq!(passes(&limiter, START, "k", 10), 10);
        limiter.usage().table_bytes
    };
    assert_eq!(eager(log(10, 600 * SECOND)), (60, ten_units));
    assert_eq!(eager(fixed(10, 600 * SECOND)).0, 60);
    assert_eq!(eager(sliding(10, 600 * SECOND)).0, 55);
}

/// TM-09
#[test]
fn a_leaky_bucket_only_leaks() {
    let limiter = per_key(meter(3, 3, SECOND));
    let tenth = |n: &u64| check(&limiter, START + n * 100 * MS, "k").allowed;
    let passed: Vec<u64> = (0..30).filter(tenth).collect();
    assert_eq!(passed, [0, 1, 2, 4, 7, 10, 14, 17, 20, 24, 27]);
}

/// CO-01
#[test]
fn a_cost_above_the_limit_can_never_pass_and_spends_nothing() {
    for (name, quota) in each(3, 2 * SECOND) {
        let limiter = per_key(quota);
        assert_eq!(with_cost(&limiter, START, 4), (false, Some(3), Wait::NEVER), "{name}");
        assert_eq!(with_cost(&limiter, START, 3), (true, Some(0), Wait::ZERO), "{name}");
    }
}

/// CO-03
#[test]
fn a_refused_large_call_leaves_what_was_there() {
    for (name, quota) in each(10, DAY) {
        let limiter = per_key(quota);
        let ask = |cost| {
            let (allowed, remaining, wait) = with_cost(&limiter, START, cost);
            (allowed, remaining, wait == Wait::NEVER)
        };
        assert_eq!(ask(8), (true, Some(2), false), "{name}");
        assert_eq!(ask(5), (false, Some(2), false), "{name}");
        assert_eq!(ask(1_000_000), (false, Some(2), true), "{name}");
        assert_eq!(ask(1), (true, Some(1), false), "{name}");
    }
}

/// CO-04
#[test]
fn a_cost_of_nothing_is_a_peek_and_makes_no_entry() {
    for (name, quota) in each(5, DAY) {
        let limiter = per_key(quota);
        assert_eq!(with_cost(&limiter, START, 0), (true, Some(5), Wait::ZERO), "{name}");
        assert_eq!(passes(&limiter, START, "k", 5), 5, "{name}");
        let last = ask(&limiter, START, &Request::check(b"", b"k").with_cost(0));
        assert_eq!((last.allowed, last.remaining), (true, Some(0)), "{name}");
        assert!(last.reset_after >= secs(86_400), "{name}");
        for n in 0..10_000 {
            let unseen = format!("unseen-{n}");
            ask(&limiter, START, &Request::check(b"", unseen.as_bytes()).with_cost(0));
        }
        assert_eq!(limiter.usage().entries, 1, "{name}");
    }
}

/// HD-01
#[test]
fn the_reset_is_on_every_answer() {
    let resets = |quota, now: u64| {
        let limiter = per_key(quota);
        let reset = |_| check(&limiter, now, "k").reset_after.to_secs().unwrap();
        (0..6).map(reset).collect::<Vec<_>>()
    };
    assert_eq!(resets(fixed(5, MINUTE), START + 10 * SECOND), [50; 6]);
    assert_eq!(resets(bucket(5, 1, SECOND), START), [1, 2, 3, 4, 5, 5]);
    assert_eq!(resets(meter(5, 1, SECOND), START), [1, 2, 3, 4, 5, 5]);
    assert_eq!(resets(log(5, MINUTE), START + 10 * SECOND), [60; 6]);
    // To the end of the next window, over which it decays.
    assert_eq!(resets(sliding(5, MINUTE), START + 10 * SECOND), [110; 6]);
}

/// HD-06
#[test]
fn everybody_is_told_the_exact_wait() {
    let limiter = per_key(fixed(1, MINUTE));
    let now = START + 30 * SECOND;
    for n in 0..10_000 {
        let key = format!("k{n}");
        assert_eq!(passes(&limiter, now, &key, 1), 1);
        assert_eq!(check(&limiter, now, &key).retry_after, secs(30));
    }
}

#[test]
fn a_debit_charges_into_a_debt_of_at_most_the_limit_once_more() {
    for (name, quota) in each(5, MINUTE) {
        let limiter = per_key(quota);
        assert_eq!(op(&limiter, START, Op::Debit, 7), Some(0), "{name}");
        // Not even nothing fits.
        assert!(!with_cost(&limiter, START, 0).0, "{name}");
        assert_eq!(limiter.counts().debits_clipped, 0, "{name}");
        assert_eq!(op(&limiter, START, Op::Debit, 1_000_000), Some(0), "{name}");
        assert_eq!(limiter.counts().debits_clipped, 1, "{name}");
        // The debt is ten units and no more: six given back leave one.
        assert_eq!(op(&limiter, START, Op::Refund, 6), Some(1), "{name}");
    }
}

#[test]
fn what_is_given_back_comes_off_the_newest() {
    let limiter = per_key(log(3, MINUTE));
    for second in [0, 10, 20] {
        assert!(check(&limiter, START + second * SECOND, "k").allowed);
    }
    assert_eq!(op(&limiter, START + 20 * SECOND, Op::Refund, 1), Some(1));
    assert!(check(&limiter, START + 30 * SECOND, "k").allowed);
    let denied = check(&limiter, START + 30 * SECOND, "k");
    assert_eq!((denied.retry_after, denied.reset_after), (secs(30), secs(60)));

    let limiter = per_key(sliding(100, MINUTE));
    assert_eq!(passes(&limiter, START + 30 * SECOND, "k", 60), 60);
    let now = START + 75 * SECOND;
    assert_eq!(passes(&limiter, now, "k", 20), 20);
    // 60 * 0.75 + 20 = 65. Of thirty, twenty come off this window and ten off the one before.
    assert_eq!(op(&limiter, now, Op::Refund, 30), Some(62));

    // What a fixed window no longer counts cannot be given back.
    let limiter = per_key(fixed(10, MINUTE));
    assert_eq!(passes(&limiter, START, "k", 10), 10);
    assert_eq!(passes(&limiter, START + MINUTE, "k", 4), 4);
    assert_eq!(op(&limiter, START + MINUTE, Op::Refund, 5), Some(10));
}

#[test]
fn a_reset_forgets() {
    for (name, quota) in each(5, MINUTE) {
        let limiter = per_key(quota);
        assert_eq!(op(&limiter, START, Op::Debit, 9), Some(0), "{name}");
        assert_eq!(op(&limiter, START, Op::Reset, 1), Some(5), "{name}");
        assert_eq!(limiter.usage().entries, 0, "{name}");
    }
}

#[test]
fn a_request_that_one_algorithm_refuses_is_charged_by_none() {
    let limits = each(2, MINUTE).into_iter().map(|(name, quota)| Limit::new(name, quota));
    let tight = Limit::new("tight", fixed(1, MINUTE));
    let limiter = crate::support::limiter(limits.chain([tight]).collect());
    assert_eq!(passes(&limiter, START, "k", 5), 1);
    let request = Request { details: true, ..Request::check(b"", b"k").with_op(Op::Peek) };
    let decision = limiter.decide(START, &request).unwrap();
    let left: Vec<_> = decision.details.iter().map(|verdict| verdict.remaining).collect();
    assert_eq!(left, [Some(1), Some(1), Some(1), Some(1), Some(1), Some(1), Some(0)]);
    assert_eq!(decision.verdict.limit_name, "tight");
}

#[test]
fn the_window_that_a_limit_is_counted_over() {
    let window = |quota| {
        let limiter = per_key(quota);
        set_wall(&limiter, START, 0);
        check(&limiter, START, "k").window
    };
    assert_eq!(NOON % DAY, 12 * HOUR);
    for (name, quota) in each(5, MINUTE) {
        assert_eq!(window(quota), secs(60), "{name}");
    }
    assert_eq!(window(bucket(10, 5, SECOND)), secs(2));
    assert_eq!(window(calendar(5, CalendarSpan::Day, "UTC")), secs(86_400));
    assert_eq!(window(calendar(5, CalendarSpan::Month, "UTC")), Wait::from_ns(31 * DAY));
    assert_eq!(window(calendar(5, CalendarSpan::Year, "UTC")), Wait::from_ns(365 * DAY));
    let week = CalendarSpan::Week(limiter::Weekday::Monday);
    assert_eq!(window(calendar(5, week, "UTC")), Wait::from_ns(7 * DAY));
    let rate = Rate { count: 3, period_ns: SECOND };
    let odd = Quota::LeakyBucket { rate, burst: 1, queue: true };
    assert_eq!(window(odd), Wait::from_ns(333_333_334));
}
