//! Members that go missing and come back.

use limiter::{Loss, Members, Op, Quota, Request, Sum, When};
use proptest::prelude::*;

use super::{Group, view};
use crate::support::{HOUR, MS, SECOND, START, bucket, check};

/// Cuts the group into `first` and the rest, at `now_ns`.
fn cut(group: &Group, now_ns: u64, first: Members) {
    let n = u8::try_from(group.nodes.len()).unwrap();
    let everyone: Members = (0..n).collect();
    group.regroup(now_ns, &[first, everyone.minus(first)]);
}

/// Exchange within the groups; what is spent is owed to the others.
fn exchange_within(group: &Group, now_ns: u64, groups: &[Members]) {
    let n = u8::try_from(group.nodes.len()).unwrap();
    let everyone: Members = (0..n).collect();
    for from in everyone.iter() {
        let mine = *groups.iter().find(|members| members.contains(from)).unwrap();
        let mut deltas = Vec::new();
        let from = usize::from(from);
        group.nodes[from].collect_due(now_ns, everyone.minus(mine), false, super::ALL, &mut deltas);
        for to in mine.iter().map(usize::from).filter(|to| *to != from) {
            group.nodes[to].receive(now_ns, &deltas, false, &mut Vec::new());
        }
        group.nodes[from].acknowledged(now_ns, &deltas, &mut Vec::new());
    }
}

/// Everybody tells everybody what is owed, then all are counted.
fn heal(group: &Group, now_ns: u64) {
    let n = u8::try_from(group.nodes.len()).unwrap();
    let everyone: Members = (0..n).collect();
    for from in everyone.iter() {
        for to in everyone.without(from).iter() {
            let mut sums: Vec<Sum> = Vec::new();
            group.nodes[usize::from(from)].heal_sums(now_ns, to, 7, 100, &mut sums);
            group.nodes[usize::from(to)].charge_sums(now_ns, &sums);
            group.nodes[usize::from(from)].owed_cleared(to);
        }
    }
    for me in everyone.iter() {
        group.nodes[usize::from(me)].count(now_ns, &view(n, me, everyone));
    }
}

#[test]
fn each_side_of_a_cut_spends_its_part_and_a_heal_adds_up_what_both_spent() {
    let group = Group::sharing(3, bucket(100, 100, HOUR));
    let sides = [Members::only(0), Members::EMPTY.with(1).with(2)];
    cut(&group, START, sides[0]);
    let alone = group.passes(0, START, "alice", 200);
    let mut pair = 0;
    for _ in 0..200 {
        pair += group.passes(1, START, "alice", 1) + group.passes(2, START, "alice", 1);
        exchange_within(&group, START, &sides);
    }
    assert_eq!(alone + pair, 100);
    assert!((33..=34).contains(&alone), "{alone}");
    exchange_within(&group, START, &sides);
    heal(&group, START);
    assert_eq!(group.left(START, "alice"), [0, 0, 0]);
    assert_eq!(group.nodes[0].share_counts().charges, 0);
}

#[test]
fn twenty_short_cuts_forget_nothing_and_refill_nothing() {
    let group = Group::sharing(3, bucket(100, 100, HOUR));
    for _ in 0..40 {
        group.passes(0, START, "alice", 1);
        group.exchange(START);
    }
    let sides = [Members::only(2), Members::EMPTY.with(0).with(1)];
    for blip in 0..20 {
        let now = START + blip * MS;
        cut(&group, now, sides[0]);
        exchange_within(&group, now, &sides);
        heal(&group, now);
    }
    assert_eq!(group.left(START + 20 * MS, "alice"), [60, 60, 60]);
}

#[test]
fn a_full_bucket_pays_the_charge_back_at_the_rate_of_the_group() {
    let group = Group::sharing(2, bucket(100, 1, SECOND));
    cut(&group, START, Members::only(0));
    assert_eq!(group.passes(0, START, "alice", 200), 50);
    // The level is full, as far as the common level goes: half the rate is this node's.
    assert_eq!(check(&group.nodes[0], START, "alice").retry_after.to_secs(), Some(2));
    assert_eq!(group.passes(0, START + 20 * SECOND, "alice", 200), 10);
    assert_eq!(group.passes(0, START + 1_000 * SECOND, "alice", 200), 50);
}

#[test]
fn what_a_lost_peer_may_have_received_is_owed_until_it_says_so() {
    let group = Group::sharing(2, bucket(100, 100, HOUR));
    assert!(group.passes(0, START, "alice", 10) == 10);
    let deltas = group.due(0, START);
    let carried = deltas[0];
    let lost = view(2, 0, Members::only(0));
    let tail = limiter::Tail {
        bucket: carried.bucket,
        peers: Members::only(1),
        seq: 3,
        units: carried.spent,
        when: When::Untimed,
    };
    let fold = vec![(carried.bucket, When::Untimed, carried.spent)];
    group.nodes[0].lose(
        START,
        &Loss { view: &lost, tail: &[tail], fold: &fold, doubtful: &[], unknown: &[] },
    );
    let owed = |next: u64| {
        group.nodes[0].owed_received(START, 1, next);
        let mut sums = Vec::new();
        group.nodes[0].heal_sums(START, 1, 9, 100, &mut sums);
        sums.iter().map(|sum| sum.ticks).sum::<i64>() / 36_000_000_000
    };
    assert_eq!(owed(3), 10, "it has only what came before");
    assert_eq!(owed(9), 10, "tagged with the sum that carries it");
    assert_eq!(owed(10), 0, "it has the sum");
}

#[test]
fn what_is_owed_does_not_shrink_for_what_the_lost_may_know() {
    let group = Group::sharing(2, bucket(100, 100, HOUR));
    assert!(group.passes(0, START, "alice", 10) == 10);
    let carried = group.due(0, START)[0];
    let lost = view(2, 0, Members::only(0));
    let units = carried.spent;
    let bucket = carried.bucket;
    let tail =
        [limiter::Tail { bucket, peers: Members::only(1), seq: 3, units, when: When::Untimed }];
    // As much again may be known to the peer: with it the level would have been full for long.
    let (fold, doubtful) = ([(bucket, When::Untimed, units)], [(bucket, When::Untimed, 50)]);
    group.nodes[0].lose(
        START,
        &Loss { view: &lost, tail: &tail, fold: &fold, doubtful: &doubtful, unknown: &[] },
    );
    let mut sums = Vec::new();
    group.nodes[0].heal_sums(START, 1, 9, 100, &mut sums);
    assert_eq!(sums.iter().map(|sum| sum.ticks).sum::<i64>(), units * 36 * 1_000_000_000);
}

#[test]
fn refunds_in_a_cut_fill_no_part_beyond_its_own() {
    let group = Group::sharing(4, bucket(100, 100, HOUR));
    let request = Request::check(b"", b"alice").with_cost(80);
    group.nodes[0].decide(START, &request.clone().with_op(Op::Debit)).unwrap();
    group.exchange(START);
    let sides = [Members::EMPTY.with(0).with(1), Members::EMPTY.with(2).with(3)];
    cut(&group, START, sides[0]);
    for node in &group.nodes {
        node.decide(START, &request.clone().with_op(Op::Refund)).unwrap();
        exchange_within(&group, START, &sides);
    }
    let left = group.left(START, "alice");
    assert!(left[0] + left[2] <= 100, "{left:?}");
}

#[test]
fn a_delta_beyond_what_a_node_can_have_spent_is_cut() {
    let group = Group::sharing(2, bucket(100, 100, HOUR));
    group.passes(0, START, "alice", 1);
    let delta = group.due(0, START)[0];
    for spent in [i64::MAX, i64::MIN] {
        let bounded = group.nodes[1].bounded(limiter::Delta { spent, ..delta });
        assert_eq!(bounded.spent.unsigned_abs(), 200);
    }
}

#[test]
fn what_every_member_had_in_flight_is_counted_to_the_unit() {
    let group = Group::sharing(5, bucket(100, 100, HOUR));
    group.passes(0, START, "alice", 1);
    let delta = group.due(0, START)[0];
    for _ in 0..4 {
        let all = limiter::Delta { spent: 100, ..delta };
        group.nodes[4].receive(START, &[all], false, &mut Vec::new());
    }
    let state = group.nodes[4].bucket_state(START, delta.bucket).unwrap();
    assert_eq!(state.level, -300 * 36 * 1_000_000_000);
    assert_eq!(group.nodes[4].share_counts().clipped, 0);
}

#[test]
fn charges_have_a_bound_and_keys_beyond_it_share_the_overflow_bucket() {
    let group = Group::sharing(2, bucket(100, 100, HOUR));
    cut(&group, START, Members::only(0));
    let rows_max = group.nodes[0].share_counts().rows_max;
    for key in 0..rows_max * 2 {
        group.passes(0, START, &format!("key-{key}"), 1);
    }
    let counts = group.nodes[0].share_counts();
    assert!(counts.charges <= rows_max && counts.motions <= rows_max, "{counts:?}");
    assert!(counts.rows_full > 0);
    assert!(group.nodes[0].counts().full > 0);
}

proptest! {
    #[test]
    fn waiting_as_told_passes_and_a_nanosecond_less_fails_on_every_side_of_a_cut(
        burst in 1..40u64,
        count in 1..1_000u64,
        spends in prop::collection::vec((0..3usize, 0..30_000u64), 1..60),
        side in 1..7u64,
    ) {
        let group = Group::sharing(3, bucket(burst, count, 60 * SECOND));
        let first: Members = (0..3u8).filter(|i| side >> i & 1 == 1).collect();
        let sides = [first, Members::EMPTY.with(0).with(1).with(2).minus(first)];
        let mut now = START;
        for (at, passed_ms) in spends {
            now += passed_ms * MS;
            group.passes(at, now, "alice", 1);
            exchange_within(&group, now, &sides);
            if now > START + 5 * SECOND && group.nodes[0].share_counts().charges == 0 {
                cut(&group, now, first);
            }
            let verdict = check(&group.nodes[at], now, "alice");
            exchange_within(&group, now, &sides);
            if verdict.reason == limiter::Reason::Limit && verdict.retry_after != limiter::Wait::NEVER {
                let wait = verdict.retry_after.to_ns();
                let early = check(&group.nodes[at], now + wait - 1, "alice");
                prop_assert!(!early.allowed, "passed a nanosecond early");
                now += wait;
                let late = check(&group.nodes[at], now, "alice");
                prop_assert!(late.reason != limiter::Reason::Limit, "{:?}", late);
                exchange_within(&group, now, &sides);
            }
        }
    }
}

/// What is counted apart while members are missing takes of the same memory, as does what peers owe.
#[test]
fn logs_stay_within_the_memory_while_members_are_missing() {
    let limit = 10_000;
    let group = Group::sharing(2, Quota::SlidingLog { limit, period_ns: HOUR });
    group.regroup(START, &[Members::only(0), Members::only(1)]);
    let mut units = 0;
    let node = &group.nodes[0];
    let is_within = || {
        let usage = node.usage();
        assert!(usage.table_bytes <= 1 << 20, "{usage:?}");
    };
    let all = |n: u64| format!("k{n}");
    for n in 0..400 {
        let key = all(n);
        let request = Request::check(b"", key.as_bytes()).with_cost(limit / 4);
        for _ in 0..2 {
            units +=
                if node.decide(START, &request).unwrap().verdict.allowed { limit / 4 } else { 0 };
        }
        is_within();
    }
    assert!(units * 8 <= 1 << 20, "{units} units of 8 bytes");
    assert!(units > limit, "{units} units");
    let bucket = |hash| limiter::Bucket { slot: 0, hash };
    for hash in 1..400_u64 {
        let bucket = bucket(hash.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let sum = Sum { bucket, ticks: i64::MAX, when: When::At { ns: START } };
        node.charge_sums(START, &[sum]);
        is_within();
    }
    assert!(node.share_counts().dropped > 0);
}

/// A key that spent its group's part is asked itself, although what is counted apart cannot grow.
#[test]
fn a_drained_log_has_no_more_while_members_are_missing_and_memory_is_full() {
    let group = Group::sharing(2, Quota::SlidingLog { limit: 1_000, period_ns: HOUR });
    group.regroup(START, &[Members::only(0), Members::only(1)]);
    let node = &group.nodes[0];
    let spend = |key: &str, cost| {
        let request = Request::check(b"", key.as_bytes()).with_cost(cost);
        node.decide(START, &request).unwrap().verdict.allowed
    };
    assert!(spend("victim", 500));
    let mut n = 0;
    while node.counts().full == 0 {
        spend(&format!("k{n}"), 100);
        n += 1;
    }
    let full = node.counts().full;
    assert!(!spend("victim", 1));
    assert_eq!(node.counts().full, full, "the overflow bucket was not asked");
}

/// The wait that was told stays true, however often somebody looks or is denied meanwhile.
#[test]
fn the_wait_of_a_log_is_exact_after_two_cuts_whoever_asks_before() {
    let group = Group::sharing(5, Quota::SlidingLog { limit: 100, period_ns: HOUR });
    let three: Members = (0..3).collect();
    group.regroup(START, &[three, (3..5).collect()]);
    for n in 0..20 {
        assert_eq!(group.passes(0, START + n * SECOND, "k", 1), 1);
        exchange_within(&group, START + n * SECOND, &[three, (3..5).collect()]);
    }
    let now = START + 20 * SECOND;
    group.regroup(now, &[(0..2).collect(), Members::only(2), (3..5).collect()]);
    let pair: Members = (0..2).collect();
    let mut spent = 0;
    for n in 0..100 {
        let now = now + n * SECOND;
        spent += group.passes(0, now, "k", 1);
        exchange_within(&group, now, &[pair, Members::only(2), (3..5).collect()]);
    }
    let now = now + 100 * SECOND;
    let denied = check(&group.nodes[0], now, "k");
    assert_eq!((denied.allowed, denied.reason), (false, limiter::Reason::Limit), "{spent}");
    let free_at = now + denied.retry_after.to_ns();
    let mut at = now;
    while at < free_at {
        assert!(!check(&group.nodes[0], at, "k").allowed);
        at += SECOND / 2;
    }
    assert!(!check(&group.nodes[0], free_at - 1, "k").allowed);
    assert!(check(&group.nodes[0], free_at, "k").allowed);
}
