//! Leaving, forgetting, and coming back after having been forgotten.

use wire::peer::Refusal;

use super::network::{Network, config, hourly};
use crate::config::{MS, SECOND};
use crate::{ForgetError, Note, PeerState, Readiness};

#[test]
fn leaving_makes_the_cluster_smaller_at_once() {
    let mut net = Network::formed(&["a", "b", "c"]);
    let spent = net.spend("c", 10);
    let now_ns = net.now_ns;
    net.node("c").cluster.leave(now_ns);
    assert_eq!(net.status("c").readiness, Readiness::Leaving);
    net.run(30 * MS);
    assert_eq!((net.node("c").left, net.status("c").readiness), (1, Readiness::Left));
    assert_eq!((net.members("a"), net.members("b")), ((2, 2), (2, 2)));
    assert_eq!(net.remaining("a"), 100 - spent as u64);
    let left = Note::Forgotten { peer: Some("c".into()), left: true, members: 2 };
    assert!(net.node("a").notes.contains(&left));
    // A node that left takes no further link, and everybody is whole without it.
    net.run(SECOND);
    assert_eq!((net.members("a"), net.members("b")), ((2, 2), (2, 2)));
    assert_eq!(net.node("c").left, 1);
}

#[test]
fn leaving_takes_a_second_at_most() {
    let mut net = Network::formed(&["a", "b"]);
    net.spend("b", 5);
    net.lost.push(("b", 0x85));
    let now_ns = net.now_ns;
    net.node("b").cluster.leave(now_ns);
    net.run(400 * MS);
    assert_eq!(net.node("b").left, 0);
    net.run(700 * MS);
    assert_eq!(net.node("b").left, 1);
}

#[test]
fn a_node_that_leaves_takes_no_further_link() {
    let mut net = Network::formed(&["a", "b"]);
    net.spend("b", 5);
    net.lost.push(("b", 0x85));
    let now_ns = net.now_ns;
    net.node("b").cluster.leave(now_ns);
    net.dials = false;
    net.start("c", config("c", 2), vec![hourly("l")]);
    net.dial("c", "b");
    net.run(5 * MS);
    assert_eq!(net.node("c").refusals, [Refusal::Leaving]);
}

#[test]
fn a_rolling_restart_forgets_nothing() {
    let mut net = Network::formed(&["a", "b", "c"]);
    net.spend_all("a", 4);
    net.run(300 * MS);
    for name in ["a", "b", "c"] {
        let now_ns = net.now_ns;
        net.node(name).cluster.leave(now_ns);
        net.run(100 * MS);
        assert_eq!(net.node(name).left, 1);
        net.crash(name);
        net.start(name, config(name, 3), vec![hourly("l")]);
        net.run(SECOND);
        assert_eq!(net.status(name).readiness, Readiness::Ready);
    }
    assert_eq!(["a", "b", "c"].map(|name| net.members(name)), [(3, 3); 3]);
    assert_eq!(["a", "b", "c"].map(|name| net.remaining(name)), [96; 3]);
}

#[test]
fn a_missing_member_is_forgotten_by_whoever_is_not_isolated() {
    let mut net = Network::formed(&["a", "b", "c"]);
    net.cut("a", "c");
    net.cut("b", "c");
    net.run(61 * SECOND);
    assert_eq!(["a", "b", "c"].map(|name| net.members(name)), [(2, 2), (2, 2), (1, 3)]);
    assert_eq!(net.counts("a").forgotten, 1);
}

#[test]
fn of_a_pair_the_first_by_name_forgets_by_itself() {
    for (stays, goes, is_whole) in [("a", "b", true), ("b", "a", false)] {
        let mut net = Network::formed(&["a", "b"]);
        net.crash(goes);
        net.run(62 * SECOND);
        assert_eq!(net.members(stays) == (1, 1), is_whole, "{stays}");
        assert_eq!(net.status(stays).isolated, !is_whole);
        if !is_whole {
            let now_ns = net.now_ns;
            assert_eq!(net.node(stays).cluster.forget(now_ns, goes), Ok(()));
            assert_eq!(net.members(stays), (1, 1));
        }
        assert_eq!(net.spend(stays, 120), 100);
    }
}

#[test]
fn forgetting_by_hand_is_told_to_the_others() {
    let mut net = Network::formed(&["a", "b", "c"]);
    let now_ns = net.now_ns;
    let forget = |net: &mut Network, name| net.node("a").cluster.forget(now_ns, name);
    assert_eq!(forget(&mut net, "a"), Err(ForgetError::Itself));
    assert_eq!(forget(&mut net, "b"), Err(ForgetError::Linked));
    assert_eq!(forget(&mut net, "x"), Err(ForgetError::Unknown));
    net.crash("c");
    net.run(SECOND);
    assert_eq!(net.node("a").cluster.forget(now_ns + SECOND, "c"), Ok(()));
    net.run(10 * MS);
    assert_eq!((net.members("a"), net.members("b")), ((2, 2), (2, 2)));
}

#[test]
fn a_member_that_others_have_is_not_forgotten_on_hearsay() {
    let mut net = Network::formed(&["a", "b", "c"]);
    net.cut("a", "c");
    net.run(SECOND);
    let now_ns = net.now_ns;
    assert_eq!(net.node("a").cluster.forget(now_ns, "c"), Ok(()));
    net.run(100 * MS);
    assert_eq!((net.members("a"), net.members("b")), ((2, 2), (3, 3)));
}

#[test]
fn whoever_was_forgotten_comes_back_and_delivers_what_it_owes() {
    let mut net = Network::formed(&["a", "b", "c"]);
    net.spend_all("a", 40);
    net.run(300 * MS);
    net.cut("a", "c");
    net.cut("b", "c");
    net.run(61 * SECOND);
    net.spend_all("b", 6);
    assert_eq!(net.spend("c", 5), 5);
    net.run(300 * MS);
    net.mend();
    net.run(2 * SECOND);
    assert!(net.node("c").notes.iter().any(|note| matches!(note, Note::Rejoins { .. })));
    assert_eq!(["a", "b", "c"].map(|name| net.members(name)), [(3, 3); 3]);
    // 51 were spent, and two came back in 64 seconds.
    let left = ["a", "b", "c"].map(|name| net.remaining(name));
    assert!((49..=51).contains(&left[0]), "{left:?}");
    assert_eq!(left, [left[0]; 3]);
}

#[test]
fn a_restarted_node_that_began_alone_takes_the_counts_when_it_meets_them() {
    let mut net = Network::formed(&["a", "b", "c"]);
    net.spend_all("a", 40);
    net.run(300 * MS);
    net.crash("c");
    net.cut("a", "c");
    net.cut("b", "c");
    net.start("c", config("c", 3), vec![hourly("l")]);
    net.run(4 * SECOND);
    assert_eq!(net.status("c").readiness, Readiness::Ready);
    assert_eq!(net.spend("c", 5), 5);
    net.run(300 * MS);
    net.mend();
    net.run(2 * SECOND);
    assert_eq!(["a", "b", "c"].map(|name| net.remaining(name)), [55; 3]);
    assert_eq!(["a", "b", "c"].map(|name| net.members(name)), [(3, 3); 3]);
}

#[test]
fn a_place_that_nobody_took_is_forgotten_by_any_name() {
    let mut net = Network::new();
    for name in ["a", "b"] {
        net.start(name, config(name, 3), vec![hourly("l")]);
    }
    net.run(2 * SECOND);
    assert_eq!(net.status("a").peers[1].state, PeerState::Unmet);
    let now_ns = net.now_ns;
    assert_eq!(net.node("a").cluster.forget(now_ns, "c"), Ok(()));
    net.run(10 * MS);
    assert_eq!((net.members("a"), net.members("b")), ((2, 2), (2, 2)));
}
