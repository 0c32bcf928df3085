//! Nodes that reach each other: what one spends the others hear once, and a share at a time is spent.

use limiter::{Accuracy, Limit, Members, Op, Quota, Reason, Request};

use super::Group;
use crate::support::{HOUR, MS, SECOND, START, bucket, check};

#[test]
fn what_one_node_lets_through_every_node_knows_after_an_exchange() {
    let group = Group::sharing(3, bucket(100, 100, HOUR));
    let mut passed = 0;
    for _ in 0..40 {
        passed += group.passes(0, START, "alice", 1);
        group.exchange(START);
    }
    assert_eq!((passed, group.left(START, "alice")), (40, vec![60, 60, 60]));
}

#[test]
fn all_nodes_together_let_through_the_limit_and_no_more() {
    let group = Group::sharing(5, bucket(100, 100, HOUR));
    let mut passed = 0;
    for round in 0..40 {
        let now = START + round * MS;
        passed += (0..5).map(|at| group.passes(at, now, "alice", 20)).sum::<usize>();
        group.exchange(now);
    }
    assert_eq!((passed, group.left(START, "alice")), (100, vec![0; 5]));
}

#[test]
fn between_two_exchanges_all_nodes_together_stay_within_the_limit() {
    let group = Group::sharing(3, bucket(10, 10, HOUR));
    let before: usize = (0..3).map(|at| group.passes(at, START, "alice", 30)).sum();
    assert!((1..=10).contains(&before), "{before} passed before any exchange");
    assert_eq!(check(&group.nodes[0], START, "alice").reason, Reason::Share);
}

#[test]
fn a_node_alone_with_the_load_gets_the_whole_rate() {
    let group = Group::sharing(3, bucket(1_000, 1_000, SECOND));
    let mut passed = 0;
    for ms in 0..2_000 {
        let now = START + ms * MS;
        passed += group.passes(1, now, "alice", 2);
        if ms % 10 == 0 {
            group.exchange(now);
        }
    }
    assert!((2_950..=3_000).contains(&passed), "{passed} of 3000");
}

#[test]
fn a_batch_that_is_lost_in_the_numbers_counts_nowhere_twice() {
    // Delivering is once by contract; what is collected once is not collected again.
    let group = Group::sharing(2, bucket(100, 100, HOUR));
    group.passes(0, START, "alice", 5);
    let deltas = group.due(0, START);
    assert_eq!(deltas.iter().map(|delta| delta.spent).sum::<i64>(), 5);
    assert!(group.due(0, START).is_empty(), "an open batch is not sent again");
    group.deliver(0, START, &deltas);
    assert_eq!(group.left(START, "alice"), [95, 95]);
}

#[test]
fn a_debit_and_a_refund_reach_the_others() {
    let group = Group::sharing(2, bucket(100, 100, HOUR));
    let ask = |op, cost| {
        let request = Request::check(b"", b"alice").with_op(op).with_cost(cost);
        group.nodes[0].decide(START, &request).unwrap();
        group.exchange(START);
    };
    ask(Op::Debit, 70);
    assert_eq!(group.left(START, "alice"), [30, 30]);
    ask(Op::Refund, 20);
    assert_eq!(group.left(START, "alice"), [50, 50]);
    ask(Op::Debit, 10_000);
    let wait = check(&group.nodes[1], START, "alice").retry_after;
    assert_eq!(wait.to_secs(), Some(101 * 36), "in debt by one burst");
    ask(Op::Reset, 0);
    assert_eq!(group.left(START, "alice"), [100, 100]);
}

#[test]
fn the_deepest_debt_of_each_limit_is_known_to_who_heard_of_it() {
    let group = Group::sharing(2, bucket(100, 100, HOUR));
    let debit = Request::check(b"", b"alice").with_op(Op::Debit).with_cost(70);
    for node in &group.nodes {
        node.decide(START, &debit).unwrap();
    }
    assert_eq!(group.nodes[0].deepest_debts(&group.nodes[0].plan()), [0]);
    group.exchange(START);
    assert_eq!(group.nodes[0].deepest_debts(&group.nodes[0].plan()), [40]);
    // It is the deepest, not the last; and a part of a unit counts as one.
    group.nodes[1].decide(START + HOUR, &debit.clone().with_op(Op::Refund)).unwrap();
    group.nodes[1].decide(START + HOUR, &debit).unwrap();
    group.exchange(START + HOUR);
    assert_eq!(group.nodes[0].deepest_debts(&group.nodes[0].plan()), [40]);
    assert_eq!(group.nodes[0].share_counts().debt_permille, 400);
}

#[test]
fn peeks_and_denied_calls_spend_nothing_anywhere() {
    let group = Group::sharing(2, bucket(2, 2, HOUR));
    for _ in 0..50 {
        group.left(START, "alice");
        let too_much = Request::check(b"", b"alice").with_cost(3);
        assert_eq!(group.nodes[0].decide(START, &too_much).unwrap().verdict.reason, Reason::Limit);
    }
    group.exchange(START);
    assert_eq!(group.left(START, "alice"), [2, 2]);
    assert_eq!(group.nodes[1].usage().entries, 0);
}

#[test]
fn fast_lets_every_node_have_eight_units_in_flight() {
    let limit = Limit { accuracy: Accuracy::Fast, ..Limit::new("l", bucket(100, 100, HOUR)) };
    let group = Group::of(5, &limit);
    for at in 0..5 {
        assert!(group.passes(at, START, "alice", 8) == 8);
    }
}

#[test]
fn a_member_that_is_the_only_one_is_as_if_there_were_no_cluster() {
    let group = Group::sharing(1, bucket(10, 10, HOUR));
    assert_eq!(group.passes(0, START, "alice", 30), 10);
    assert_eq!(group.nodes[0].share_counts().motions, 0);
}

#[test]
fn without_the_sync_side_a_node_keeps_to_its_part() {
    let group = Group::sharing(2, bucket(100, 100, HOUR));
    group.nodes[0].set_alive_until(START);
    assert_eq!(group.passes(0, START + 1, "alice", 200), 50);
    group.nodes[0].set_alive_until(START + SECOND);
    group.exchange(START + 1);
    assert_eq!(group.left(START + 1, "alice"), [50, 50]);
}

#[test]
fn motion_is_forgotten_when_it_has_come_to_rest() {
    let group = Group::sharing(2, bucket(100, 100, HOUR));
    for key in 0..50 {
        group.passes(0, START, &format!("key-{key}"), 1);
    }
    group.exchange(START);
    assert!(group.nodes[1].share_counts().motions > 0);
    let later = START + 30 * SECOND;
    let mut nothing = Vec::new();
    for node in &group.nodes {
        node.collect_due(later, Members::EMPTY, false, super::ALL, &mut nothing);
        for _ in 0..3 {
            node.sweep(later, node.sweep_round());
        }
        assert_eq!(node.share_counts().motions, 0);
    }
}

#[test]
fn an_echo_lowers_a_level_a_little_and_never_raises_one() {
    let group = Group::sharing(2, bucket(100, 100, HOUR));
    let debit = Request::check(b"", b"alice").with_op(Op::Debit).with_cost(170);
    group.nodes[0].decide(START, &debit).unwrap();
    group.exchange(START);
    let one = 36 * SECOND;
    // What node 1 lacks after it hears of one more unit, from a peer whose level is `apart` units off.
    let hear = |apart: i64| {
        let before = check(&group.nodes[1], START, "alice").retry_after.to_ns();
        let unit = Request::check(b"", b"alice").with_op(Op::Debit);
        group.nodes[0].decide(START, &unit).unwrap();
        let mut deltas = Vec::new();
        group.nodes[0].collect_due(START, Members::EMPTY, true, super::ALL, &mut deltas);
        let level = deltas[0].level.unwrap();
        deltas[0].level = Some(level + apart * 36 * i64::try_from(SECOND).unwrap());
        group.nodes[1].receive(START, &deltas, true, &mut Vec::new());
        group.nodes[0].acknowledged(START, &deltas, &mut Vec::new());
        check(&group.nodes[1], START, "alice").retry_after.to_ns() - before
    };
    assert_eq!(hear(50), one, "a debt is not paid back");
    assert_eq!(hear(-3), one, "within what counts as equal");
    // A twentieth of the seven units beyond the band of three.
    assert_eq!(hear(-10), one + one * 7 / 20);
    assert_eq!(hear(-60), one + one / 2, "half of one hundredth of the capacity at most");
    assert_eq!(group.nodes[1].share_counts().echoes, 2);
}

/// What is on its way of a window that is over is no difference in the next.
#[test]
fn no_window_is_lowered_for_what_was_spent_in_the_one_before() {
    let window = limiter::Window::Period(SECOND);
    let group = Group::sharing(2, Quota::FixedWindow { limit: 1_000, window });
    let late = START + SECOND - MS;
    assert_eq!(group.passes(0, late, "alice", 400), 400);
    // Told, and not acknowledged before the window ends.
    let on_its_way = group.due(0, late);
    group.nodes[1].receive(late, &on_its_way, true, &mut Vec::new());
    let next = START + SECOND;
    assert_eq!(group.passes(1, next, "alice", 10), 10);
    assert_eq!(group.passes(0, next, "alice", 10), 10);
    let mut deltas = Vec::new();
    group.nodes[1].collect_due(next, Members::EMPTY, true, super::ALL, &mut deltas);
    assert!(deltas[0].level.is_some());
    group.nodes[0].receive(next, &deltas, true, &mut Vec::new());
    assert_eq!(group.left(next, "alice")[0], 980);
    assert_eq!(group.nodes[0].share_counts().echoes, 0);
}
