//! The numbers of a token bucket, exact, on virtual time: worked examples and the faults of others
//! (the ids are those of the fault list in the manual).

use crate::support::{DAY, HOUR, MS, SECOND, START, ask, bucket, check, passes, per_key};
use limiter::{Op, Request, Wait};

#[test]
fn the_worked_bucket_of_five_refilled_one_a_second() {
    let limiter = per_key(bucket(5, 1, SECOND));
    assert_eq!(passes(&limiter, START, "k", 5), 5);
    let denied = check(&limiter, START + 200 * MS, "k");
    assert!(!denied.allowed);
    assert_eq!(denied.retry_after, Wait::from_ns(800 * MS));
    assert_eq!((denied.retry_after.to_ms(), denied.retry_after.to_secs()), (Some(800), Some(1)));
    let third = check(&limiter, START + 3 * SECOND, "k");
    assert_eq!((third.allowed, third.remaining), (true, Some(2)));
    let tenth = check(&limiter, START + 10 * SECOND, "k");
    assert_eq!((tenth.allowed, tenth.remaining), (true, Some(4)));
    let counts = limiter.counts().rules[0];
    assert_eq!((counts.allowed, counts.denied), (7, 1));
}

#[test]
fn the_worked_bucket_of_ten_refilled_two_a_second() {
    let limiter = per_key(bucket(10, 2, SECOND));
    assert_eq!(passes(&limiter, START, "k", 11), 10);
    assert_eq!(check(&limiter, START + 3 * SECOND, "k").remaining, Some(5));
}

/// AR-01
#[test]
fn polling_faster_than_the_refill_loses_nothing_of_it() {
    let limiter = per_key(bucket(10, 1, SECOND));
    assert_eq!(passes(&limiter, START, "k", 10), 10);
    let passed: Vec<u64> =
        (1..=100).filter(|tenth| check(&limiter, START + tenth * 100 * MS, "k").allowed).collect();
    assert_eq!(passed, (1..=10).map(|second| second * 10).collect::<Vec<_>>());
}

/// AR-03
#[test]
fn a_rate_above_one_unit_per_millisecond_is_exact() {
    let limiter = per_key(bucket(6_000, 6_000, SECOND));
    assert_eq!(passes(&limiter, START, "k", 6_000), 6_000);
    let denied = check(&limiter, START, "k");
    assert_eq!(denied.retry_after, Wait::from_ns(166_667));
    assert_eq!((denied.retry_after.to_ms(), denied.retry_after.to_secs()), (Some(1), Some(1)));
    assert_eq!(passes(&limiter, START + MS, "k", 10), 6);
    // A flood of ten seconds from a full bucket, one call every 50 us.
    let flood = START + HOUR;
    let passed =
        (0..=200_000).filter(|step| check(&limiter, flood + step * 50_000, "f").allowed).count();
    assert_eq!(passed, 66_000);
}

/// AR-03
#[test]
fn a_unit_per_nanosecond_is_exact() {
    let limiter = per_key(bucket(5, SECOND, SECOND));
    assert_eq!(passes(&limiter, START, "k", 6), 5);
    assert_eq!(check(&limiter, START, "k").retry_after, Wait::from_ns(1));
    assert_eq!(passes(&limiter, START + 3, "k", 4), 3);
}

/// AR-04
#[test]
fn a_unit_a_month_is_exact_to_the_second_however_often_it_is_peeked_at() {
    for peeks in [false, true] {
        let limiter = per_key(bucket(1, 1, 30 * DAY));
        let secs = |n: u64| START + n * SECOND;
        assert!(check(&limiter, secs(0), "k").allowed);
        assert_eq!(check(&limiter, secs(1), "k").retry_after.to_secs(), Some(2_591_999));
        for second in (1..2_591_999).step_by(if peeks { 1 } else { usize::MAX }) {
            let peek = Request::check(b"", b"k").with_op(Op::Peek);
            assert!(!ask(&limiter, secs(second), &peek).allowed);
        }
        assert_eq!(check(&limiter, secs(2_591_999), "k").retry_after.to_secs(), Some(1));
        assert!(check(&limiter, secs(2_592_000), "k").allowed);
    }
}

/// AR-04
#[test]
fn five_a_day_pass_at_once_and_the_sixth_waits_its_part_of_the_day() {
    let limiter = per_key(bucket(5, 5, DAY));
    assert_eq!(passes(&limiter, START, "k", 5), 5);
    assert_eq!(check(&limiter, START, "k").retry_after.to_secs(), Some(17_280));
}

/// AR-05
#[test]
fn a_long_idle_time_overflows_nothing() {
    for rate in [1_000_000, 999_983] {
        let limiter = per_key(bucket(1_000_000, rate, SECOND));
        for (key, idle) in [("a", DAY / 2), ("b", 30 * DAY), ("c", 3_650 * DAY)] {
            let all = Request::check(b"", key.as_bytes()).with_cost(1_000_000);
            assert!(ask(&limiter, START, &all).allowed);
            let after = check(&limiter, START + idle, key);
            assert_eq!(
                (after.allowed, after.remaining),
                (true, Some(999_999)),
                "{key} at {rate}/s"
            );
        }
    }
}

/// AR-05: at this rate ticks wrap every 18 s.
#[test]
fn ten_idle_years_at_a_prime_rate_near_the_fastest_are_exact() {
    let years = 3_650 * DAY;
    for idle in [years, years + 4 * SECOND, years + 9 * SECOND, years + 14 * SECOND] {
        let limiter = per_key(bucket(1_000_000_000, 999_999_937, SECOND));
        let all = Request::check(b"", b"k").with_cost(1_000_000_000);
        assert!(ask(&limiter, START, &all).allowed);
        assert!(!ask(&limiter, START + SECOND, &all).allowed);
        assert_eq!(check(&limiter, START + idle, "k").remaining, Some(999_999_999));
    }
}

/// AR-06
#[test]
fn a_huge_cost_is_denied_for_ever_and_charges_nothing() {
    let limiter = per_key(bucket(1, 1, DAY));
    for cost in [1 << 31, 1 << 32, u64::MAX >> 1, u64::MAX] {
        let verdict = ask(&limiter, START, &Request::check(b"", b"k").with_cost(cost));
        assert_eq!((verdict.allowed, verdict.retry_after), (false, Wait::NEVER));
        assert_eq!((verdict.retry_after.to_ms(), verdict.retry_after.to_secs()), (None, None));
    }
    assert!(check(&limiter, START, "k").allowed);
}

/// AR-09
#[test]
fn a_wait_is_rounded_up_to_the_unit_of_the_surface() {
    let limiter = per_key(bucket(1, 2, 3 * SECOND));
    assert!(check(&limiter, START, "k").allowed);
    let at_fifth = check(&limiter, START + 200 * MS, "k").retry_after;
    assert_eq!((at_fifth.to_ms(), at_fifth.to_secs()), (Some(1_300), Some(2)));
    let nearly = check(&limiter, START + 1_499_900_000, "k").retry_after;
    assert_eq!((nearly.to_ns(), nearly.to_ms(), nearly.to_secs()), (100_000, Some(1), Some(1)));
}

/// TM-01
#[test]
fn an_older_reading_of_the_clock_counts_as_no_time_passed() {
    let limiter = per_key(bucket(100, 100, SECOND));
    let secs = |n: u64| START + n * SECOND;
    assert!(ask(&limiter, secs(10), &Request::check(b"", b"k").with_cost(100)).allowed);
    for now in [9, 10] {
        let denied = check(&limiter, secs(now), "k");
        assert_eq!((denied.allowed, denied.retry_after.to_ms()), (false, Some(10)));
    }
}

/// TM-07
#[test]
fn a_bucket_lets_a_burst_through_and_then_its_refill() {
    let limiter = per_key(bucket(100, 100, SECOND));
    let at = |tenths: u64| passes(&limiter, START + tenths * 100 * MS, "k", 100);
    assert_eq!([at(9), at(11), at(19)], [100, 20, 80]);
}

/// CO-01
#[test]
fn a_cost_above_the_capacity_can_never_pass_and_spends_nothing() {
    let limiter = per_key(bucket(3, 3, 2 * SECOND));
    let denied = ask(&limiter, START, &Request::check(b"", b"k").with_cost(4));
    assert_eq!((denied.allowed, denied.retry_after), (false, Wait::NEVER));
    assert!(ask(&limiter, START, &Request::check(b"", b"k").with_cost(3)).allowed);
}

/// CO-03
#[test]
fn a_refused_large_call_leaves_what_was_there() {
    let limiter = per_key(bucket(10, 10, DAY));
    let ask = |cost| {
        let verdict = ask(&limiter, START, &Request::check(b"", b"k").with_cost(cost));
        (verdict.allowed, verdict.remaining, verdict.retry_after == Wait::NEVER)
    };
    assert_eq!(ask(8), (true, Some(2), false));
    assert_eq!(ask(5), (false, Some(2), false));
    assert_eq!(ask(1_000_000), (false, Some(2), true));
    assert_eq!(ask(1), (true, Some(1), false));
}

/// CO-04
#[test]
fn a_cost_of_nothing_is_a_peek_and_makes_no_entry() {
    let limiter = per_key(bucket(5, 5, DAY));
    let peek = Request::check(b"", b"k").with_cost(0);
    let first = ask(&limiter, START, &peek);
    assert_eq!((first.allowed, first.remaining, first.reset_after), (true, Some(5), Wait::ZERO));
    assert_eq!(passes(&limiter, START, "k", 5), 5);
    let last = ask(&limiter, START, &peek);
    assert_eq!(
        (last.allowed, last.remaining, last.reset_after.to_secs()),
        (true, Some(0), Some(86_400))
    );
    for n in 0..10_000 {
        ask(&limiter, START, &Request::check(b"", format!("unseen-{n}").as_bytes()).with_cost(0));
    }
    assert_eq!(limiter.usage().entries, 1);
    assert_eq!(limiter.counts().rules[0].peeks, 10_002);
}

/// HD-01
#[test]
fn the_reset_is_the_time_until_full_on_every_answer() {
    let limiter = per_key(bucket(5, 1, SECOND));
    let resets: Vec<_> =
        (0..6).map(|_| check(&limiter, START, "k").reset_after.to_secs().unwrap()).collect();
    assert_eq!(resets, [1, 2, 3, 4, 5, 5]);
}

/// AR-07
#[test]
fn remaining_is_never_above_the_limit_nor_below_nothing() {
    let limiter = per_key(bucket(3, 3, DAY));
    let left: Vec<_> = (0..6).map(|_| check(&limiter, START, "k").remaining.unwrap()).collect();
    assert_eq!(left, [2, 1, 0, 0, 0, 0]);
    assert_eq!(check(&limiter, START + 60 * DAY, "k").remaining, Some(2));
}

/// CF-04
#[test]
fn twenty_a_second_means_twenty_a_second() {
    let limiter = per_key(bucket(60, 20, SECOND));
    assert_eq!(passes(&limiter, START, "k", 100), 60);
    let passed = (1..=10_000).filter(|ms| check(&limiter, START + ms * MS, "k").allowed).count();
    assert_eq!(passed, 200);
}

#[test]
fn a_debit_always_charges_into_bounded_debt_that_is_paid_back_first() {
    let limiter = per_key(bucket(5, 1, SECOND));
    let debit =
        |cost| ask(&limiter, START, &Request::check(b"", b"k").with_op(Op::Debit).with_cost(cost));
    let first = debit(7);
    assert_eq!((first.allowed, first.remaining), (true, Some(0)));
    assert_eq!(first.reset_after.to_secs(), Some(7));
    let denied = check(&limiter, START, "k");
    assert_eq!((denied.allowed, denied.retry_after.to_secs()), (false, Some(3)));
    // Even nothing does not fit into a bucket in debt.
    let nothing = ask(&limiter, START, &Request::check(b"", b"k").with_cost(0));
    assert_eq!((nothing.allowed, nothing.retry_after.to_secs()), (false, Some(2)));
    assert_eq!(debit(1_000_000).reset_after.to_secs(), Some(10));
    assert_eq!(limiter.counts().debits_clipped, 1);
    assert!(check(&limiter, START + 6 * SECOND, "k").allowed);
}

#[test]
fn a_refund_gives_back_and_a_reset_forgets() {
    let limiter = per_key(bucket(5, 5, DAY));
    let op = |op, cost| {
        let request = Request::check(b"", b"k").with_op(op).with_cost(cost);
        ask(&limiter, START, &request).remaining
    };
    assert_eq!(passes(&limiter, START, "k", 5), 5);
    assert_eq!(op(Op::Refund, 2), Some(2));
    assert_eq!(op(Op::Refund, u64::MAX), Some(5));
    assert_eq!(op(Op::Check, 4), Some(1));
    assert_eq!(op(Op::Reset, 1), Some(5));
    assert_eq!(limiter.usage().entries, 0);
}
