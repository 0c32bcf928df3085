//! Peers that fall silent, and come back.

use limiter::Freshness;

use super::network::{Network, config, hourly};
use crate::config::{MS, SECOND};
use crate::{Cause, Note, PeerState};

const HEAL_ACK: u8 = 0x87;

fn last_loss(net: &mut Network, name: &str) -> (Vec<String>, Cause) {
    let losses = net.node(name).notes.iter().rev().find_map(|note| match note {
        Note::Lost { peers, cause, .. } => Some((peers.clone(), *cause)),
        _ => None,
    });
    losses.unwrap()
}

#[test]
fn a_silent_peer_is_lost_after_half_a_second() {
    let mut net = Network::formed(&["a", "b", "c"]);
    net.cut("a", "c");
    net.cut("b", "c");
    net.run(400 * MS);
    assert_eq!(net.members("a"), (3, 3));
    net.run(250 * MS);
    assert_eq!(["a", "b", "c"].map(|name| net.members(name)), [(2, 3), (2, 3), (1, 3)]);
    assert_eq!(net.state("a", "c"), PeerState::Missing);
    assert_eq!(last_loss(&mut net, "a"), (vec!["c".to_owned()], Cause::Silent));
    // Two fell silent at once, and were lost in one step.
    let (both, _) = last_loss(&mut net, "c");
    assert_eq!(both, ["a", "b"]);
    assert_eq!(net.counts("c").splits, 1);
    assert_eq!((net.status("a").isolated, net.status("c").isolated), (false, true));
    assert_eq!(net.status("a").freshness, Freshness::Split);
}

#[test]
fn an_unacknowledged_batch_is_a_loss_although_pings_come() {
    let mut net = Network::formed(&["a", "b"]);
    // `a` hears pings of `b`, but no acknowledgement.
    net.lost.push(("a", 0x85));
    net.spend("a", 1);
    net.run(900 * MS);
    assert!(net.counts("a").peers_lost >= 1);
    assert_eq!(last_loss(&mut net, "a").1, Cause::Unacknowledged);
}

#[test]
fn a_closed_connection_is_a_loss_at_once() {
    let mut net = Network::formed(&["a", "b"]);
    net.sever("a", "b");
    assert_eq!(net.members("a"), (1, 2));
    net.run(SECOND);
    assert_eq!((net.members("a"), net.members("b")), ((2, 2), (2, 2)));
}

#[test]
fn what_was_spent_in_a_cut_is_known_to_all_within_a_second_of_its_end() {
    let mut net = Network::formed(&["a", "b", "c"]);
    net.spend_all("a", 40);
    net.run(300 * MS);
    for _ in 0..3 {
        net.cut("a", "c");
        net.cut("b", "c");
        net.run(1_500 * MS);
        let spent = [net.spend("a", 1), net.spend("b", 1), net.spend("c", 1)];
        assert_eq!(spent, [1; 3]);
        net.run(500 * MS);
        net.mend();
        net.run(SECOND);
    }
    assert_eq!(["a", "b", "c"].map(|name| net.members(name)), [(3, 3); 3]);
    assert_eq!(["a", "b", "c"].map(|name| net.remaining(name)), [51; 3]);
    assert!(net.counts("c").sums_received >= 3);
    assert!(!net.peer("a", "c").owed);
}

#[test]
fn parts_of_a_split_sum_to_the_limit() {
    let mut net = Network::formed(&["a", "b", "c"]);
    net.cut("a", "c");
    net.cut("b", "c");
    net.run(SECOND);
    let mut spent = 0;
    for _ in 0..100 {
        spent += ["a", "b", "c"].map(|name| net.spend(name, 5)).iter().sum::<usize>();
        net.run(10 * MS);
    }
    assert!((99..=100).contains(&spent), "{spent}");
    net.mend();
    net.run(SECOND);
    assert_eq!(["a", "b", "c"].map(|name| net.remaining(name)), [0; 3]);
}

#[test]
fn a_sum_whose_acknowledgement_was_lost_is_charged_once() {
    let mut net = Network::formed(&["a", "b"]);
    net.cut("a", "b");
    net.run(SECOND);
    assert_eq!(net.spend("a", 7), 7);
    net.run(300 * MS);
    assert!(net.peer("a", "b").owed);
    net.mend();
    net.lost.push(("a", HEAL_ACK));
    // Linked, never counted, lost, and linked again.
    net.run(14 * SECOND);
    assert_eq!(net.members("a"), (1, 2));
    assert_eq!(last_loss(&mut net, "a").1, Cause::Uncounted);
    net.lost.clear();
    net.run(14 * SECOND);
    assert_eq!((net.members("a"), net.members("b")), ((2, 2), (2, 2)));
    assert_eq!([net.remaining("a"), net.remaining("b")], [93; 2]);
    assert!(!net.peer("a", "b").owed);
}

#[test]
fn a_batch_whose_acknowledgement_was_lost_is_charged_once() {
    let mut net = Network::formed(&["a", "b"]);
    net.lost.push(("a", 0x85));
    assert_eq!(net.spend("a", 9), 9);
    net.run(250 * MS);
    assert_eq!(net.remaining("b"), 91);
    net.lost.clear();
    net.cut("a", "b");
    net.run(SECOND);
    net.mend();
    net.run(SECOND);
    assert_eq!((net.members("a"), net.members("b")), ((2, 2), (2, 2)));
    assert_eq!([net.remaining("a"), net.remaining("b")], [91; 2]);
}

#[test]
fn a_node_that_did_not_run_loses_whom_it_did_not_hear_first() {
    let mut net = Network::formed(&["a", "b", "c"]);
    net.node("c").paused = true;
    net.run(2 * SECOND);
    assert_eq!((net.members("a"), net.members("b")), ((2, 3), (2, 3)));
    assert_eq!(net.members("c"), (3, 3), "it knows nothing yet");
    net.touch("c");
    assert_eq!(net.members("c"), (1, 3));
    assert_eq!(last_loss(&mut net, "c").1, Cause::Stalled);
    net.node("c").paused = false;
    net.run(SECOND);
    assert_eq!(["a", "b", "c"].map(|name| net.members(name)), [(3, 3); 3]);
}

#[test]
fn a_peer_that_comes_and_goes_is_not_counted_before_it_stays() {
    let mut net = Network::formed(&["a", "b"]);
    net.dials = false;
    for _ in 0..4 {
        net.sever("a", "b");
        net.dial("a", "b");
        net.run(300 * MS);
    }
    net.run(2 * SECOND);
    assert_eq!(net.state("a", "b"), PeerState::Linked);
    assert!(net.peer("a", "b").flapping);
    net.run(8 * SECOND);
    assert_eq!((net.members("a"), net.members("b")), ((2, 2), (2, 2)));
    assert!(!net.peer("a", "b").flapping);
}

#[test]
fn those_who_come_back_are_counted_together() {
    let mut net = Network::formed(&["a", "b", "c", "d"]);
    for name in ["b", "c", "d"] {
        net.cut("a", name);
    }
    net.run(SECOND);
    assert_eq!(net.members("a"), (1, 4));
    net.mend();
    net.run(SECOND);
    assert_eq!(net.members("a"), (4, 4));
    let counted = net.node("a").notes.iter().rev().find_map(|note| match note {
        Note::Counted { peers, .. } => Some(peers.clone()),
        _ => None,
    });
    assert_eq!(counted.unwrap(), ["b", "c", "d"]);
}

#[test]
fn a_partial_cut_splits_only_the_two() {
    let mut net = Network::formed(&["a", "b", "c"]);
    net.cut("b", "c");
    net.run(SECOND);
    assert_eq!(["a", "b", "c"].map(|name| net.members(name)), [(3, 3), (2, 3), (2, 3)]);
    net.spend_all("b", 5);
    net.run(SECOND);
    net.mend();
    net.run(SECOND);
    assert_eq!(["a", "b", "c"].map(|name| net.remaining(name)), [95; 3]);
}

#[test]
fn two_nodes_that_began_apart_tell_each_other_everything() {
    let mut net = Network::new();
    net.cut("a", "b");
    for name in ["a", "b"] {
        net.start(name, config(name, 2), vec![hourly("l")]);
    }
    net.run(4 * SECOND);
    assert_eq!([net.spend("a", 10), net.spend("b", 15)], [10, 15]);
    net.run(300 * MS);
    net.mend();
    net.run(SECOND);
    assert_eq!([net.members("a"), net.members("b")], [(2, 2); 2]);
    assert_eq!([net.remaining("a"), net.remaining("b")], [75; 2]);
}
