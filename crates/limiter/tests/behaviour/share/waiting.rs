//! Checks that are held for an acknowledgement, and costs that are reserved meanwhile.

use std::sync::Arc;

use limiter::{Answer, Reason, Request, SpendKind, Witness};

use super::{Group, decided, held};
use crate::support::{HOUR, SECOND, START, bucket};
use crate::witness::Told;

fn alice<'a>() -> Request<'a> {
    Request::check(b"", b"alice")
}

/// Spends at node 0 until a check is held; how many passed before.
fn until_held(group: &Group) -> (u64, limiter::Ticket) {
    for passed in 0.. {
        match group.nodes[0].check(START, &alice(), true).unwrap() {
            Answer::Decided(decision) => assert!(decision.verdict.allowed, "{decision:?}"),
            Answer::Held(ticket) => return (passed, ticket),
        }
    }
    unreachable!("a share is finite")
}

#[test]
fn the_first_burst_of_an_idle_key_waits_for_its_peers_and_passes() {
    let group = Group::sharing(3, bucket(20, 1, SECOND));
    let (passed, ticket) = until_held(&group);
    assert!(passed < 8);
    assert!(group.nodes[0].flush_wanted() && !group.nodes[0].flush_wanted());
    let bucket = ticket.bucket();
    let ticket = held(group.nodes[0].retry(START, ticket, false));
    let mut deltas = Vec::new();
    group.nodes[0].collect_early(START, limiter::Members::EMPTY, &mut deltas);
    let woken = group.deliver(0, START, &deltas);
    assert_eq!(woken, [bucket]);
    assert!(decided(group.nodes[0].retry(START, ticket, false)).verdict.allowed);
}

#[test]
fn at_the_deadline_it_is_denied_for_want_of_a_share_and_spends_nothing() {
    let group = Group::sharing(3, bucket(20, 1, SECOND));
    let (passed, ticket) = until_held(&group);
    let decision = decided(group.nodes[0].retry(START, ticket, true));
    assert_eq!((decision.verdict.allowed, decision.verdict.reason), (false, Reason::Share));
    assert!(decision.verdict.retry_after.to_ns() <= super::INTERVAL);
    group.exchange(START);
    assert_eq!(group.left(START, "alice"), vec![20 - passed; 3]);
    assert_eq!(group.nodes[0].share_counts().share_denied, 1);
}

#[test]
fn who_may_not_wait_is_denied_at_once() {
    let group = Group::sharing(3, bucket(20, 1, SECOND));
    let (_, ticket) = until_held(&group);
    group.nodes[0].abandon(START, ticket);
    let decision = group.nodes[0].decide(START, &alice()).unwrap();
    assert_eq!(decision.verdict.reason, Reason::Share);
}

#[test]
fn a_cost_above_the_share_is_reserved_and_kept_when_every_peer_knows() {
    let group = Group::sharing(3, bucket(100, 100, HOUR));
    let large = alice().with_cost(80);
    let ticket = held(group.nodes[0].check(START, &large, true).unwrap());
    assert_eq!(group.left(START, "alice"), [20, 100, 100]);
    let ticket = held(group.nodes[0].retry(START, ticket, false));
    group.exchange(START);
    assert!(decided(group.nodes[0].retry(START, ticket, false)).verdict.allowed);
    assert_eq!(group.left(START, "alice"), [20, 20, 20]);
}

#[test]
fn a_witness_hears_of_a_check_that_waited_when_it_passes_and_only_then() {
    for is_gone in [false, true] {
        let told = Arc::new(Told::default());
        let mut group = Group::sharing(2, bucket(20, 1, HOUR));
        let first = group.nodes.remove(0).with_witness(Arc::clone(&told) as Arc<dyn Witness>);
        group.nodes.insert(0, first);
        // Above any share, so that it is reserved.
        let ticket = held(group.nodes[0].check(START, &alice().with_cost(19), true).unwrap());
        assert_eq!(told.take(), []);
        group.exchange(START);
        if is_gone {
            group.nodes[0].abandon(START, ticket);
            assert_eq!(told.take(), []);
        } else {
            assert!(decided(group.nodes[0].retry(START, ticket, false)).verdict.allowed);
            assert_eq!(told.take(), [(SpendKind::Check, 0, 19)]);
        }
    }
}

#[test]
fn a_reservation_is_given_back_at_the_deadline_and_when_its_caller_has_gone() {
    let group = Group::sharing(3, bucket(100, 100, HOUR));
    for is_gone in [false, true] {
        let large = alice().with_cost(80);
        let ticket = held(group.nodes[0].check(START, &large, true).unwrap());
        if is_gone {
            group.nodes[0].abandon(START, ticket);
        } else {
            let decision = decided(group.nodes[0].retry(START, ticket, true));
            assert_eq!(decision.verdict.reason, Reason::Share);
        }
        group.exchange(START);
        group.exchange(START);
        assert_eq!(group.left(START, "alice"), [100, 100, 100]);
    }
    assert_eq!(group.nodes[0].share_counts().released, 2);
}

#[test]
fn two_reservations_of_more_than_there_is_do_not_both_pass() {
    let group = Group::sharing(2, bucket(100, 100, HOUR));
    let large = alice().with_cost(80);
    let tickets: Vec<_> =
        (0..2).map(|at| held(group.nodes[at].check(START, &large, true).unwrap())).collect();
    group.exchange(START);
    let allowed = tickets
        .into_iter()
        .enumerate()
        .map(|(at, ticket)| decided(group.nodes[at].retry(START, ticket, true)))
        .filter(|decision| decision.verdict.allowed)
        .count();
    assert!(allowed <= 1);
    group.exchange(START);
    group.exchange(START);
    assert_eq!(group.left(START, "alice"), vec![100 - 80 * allowed as u64; 2]);
}

#[test]
fn a_reservation_that_every_peer_knows_is_given_back_too_when_its_caller_has_gone() {
    let group = Group::sharing(3, bucket(100, 100, HOUR));
    let large = alice().with_cost(80);
    let ticket = held(group.nodes[0].check(START, &large, true).unwrap());
    group.exchange(START);
    group.nodes[0].abandon(START, ticket);
    group.exchange(START);
    group.exchange(START);
    assert_eq!(group.left(START, "alice"), [100, 100, 100]);
    let counts = group.nodes[0].counts().rules[0];
    assert_eq!((counts.units, counts.allowed, counts.denied), (0, 0, 0));
}

#[test]
fn a_reservation_that_others_were_quicker_than_says_how_long_to_wait() {
    let group = Group::sharing(2, bucket(100, 100, HOUR));
    let large = alice().with_cost(80);
    let ticket = held(group.nodes[0].check(START, &large, true).unwrap());
    let debit = alice().with_op(limiter::Op::Debit).with_cost(60);
    group.nodes[1].decide(START, &debit).unwrap();
    group.exchange(START);
    let verdict = decided(group.nodes[0].retry(START, ticket, true)).verdict;
    assert_eq!((verdict.reason, verdict.retry_after.to_secs()), (Reason::Limit, Some(40 * 36)));
}

#[test]
fn a_check_that_waits_reserves_nothing_later() {
    let group = Group::sharing(3, bucket(100, 100, HOUR));
    let large = alice().with_cost(40);
    let first = held(group.nodes[0].check(START, &large, true).unwrap());
    // The second finds a reservation there already, and only waits.
    let second = held(group.nodes[0].check(START, &large, true).unwrap());
    group.nodes[0].abandon(START, first);
    let second = held(group.nodes[0].retry(START, second, false));
    assert_eq!(group.nodes[0].share_counts().reserved, 1);
    group.nodes[0].abandon(START, second);
    group.exchange(START);
    assert_eq!(group.left(START, "alice"), [100, 100, 100]);
}
