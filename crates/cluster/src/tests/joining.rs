//! First starts, restarts, and snapshots with batches in between.

use limiter::Freshness;

use super::network::{Network, config, hourly};
use crate::config::{MS, SECOND};
use crate::{Config, Note, PeerState, Readiness};

#[test]
fn nodes_that_start_together_begin_at_once() {
    let mut net = Network::of(&["a", "b", "c"]);
    net.run(100 * MS);
    for name in ["a", "b", "c"] {
        assert_eq!(net.members(name), (3, 3));
        assert_eq!(net.status(name).readiness, Readiness::Ready);
        assert_eq!(net.status(name).freshness, Freshness::Synced);
        assert_eq!(net.node(name).ready, 1);
    }
}

#[test]
fn some_of_those_expected_begin_after_a_second() {
    let mut net = Network::new();
    for name in ["a", "b"] {
        net.start(name, config(name, 3), vec![hourly("l")]);
    }
    net.run(900 * MS);
    assert_eq!(net.status("a").readiness, Readiness::Starting);
    net.run(800 * MS);
    for name in ["a", "b"] {
        assert_eq!((net.members(name), net.status(name).readiness), ((2, 3), Readiness::Ready));
        assert_eq!(net.status(name).freshness, Freshness::Split);
        assert!(!net.status(name).isolated);
    }
}

#[test]
fn a_node_that_meets_nobody_begins_after_three_seconds_on_its_part() {
    let mut net = Network::new();
    net.start("a", config("a", 3), vec![hourly("l")]);
    net.run(2_900 * MS);
    assert_eq!(net.status("a").readiness, Readiness::Starting);
    net.run(200 * MS);
    let status = net.status("a");
    assert_eq!((status.readiness, status.reached, status.members), (Readiness::Ready, 1, 3));
    assert!(status.isolated);
    let spent = net.spend("a", 100);
    assert!((33..=34).contains(&spent), "{spent}");
    // Whoever comes later learns what was spent.
    net.start("b", config("b", 3), vec![hourly("l")]);
    net.run(2 * SECOND);
    assert_eq!(net.status("b").readiness, Readiness::Ready);
    assert_eq!((net.members("a"), net.members("b")), ((2, 3), (2, 3)));
    let left = 100 - spent as u64;
    assert!(net.remaining("b") <= left && net.remaining("b") == net.remaining("a"));
}

#[test]
fn ready_early_answers_on_its_part_before_it_knows_the_counts() {
    let mut net = Network::new();
    net.start("a", Config { ready_early: true, ..config("a", 2) }, vec![hourly("l")]);
    assert_eq!(net.status("a").readiness, Readiness::Ready);
    assert_eq!(net.status("a").freshness, Freshness::Starting);
    assert_eq!(net.spend("a", 100), 50);
    net.start("b", config("b", 2), vec![hourly("l")]);
    net.run(SECOND);
    assert_eq!((net.members("a"), net.node("a").ready), ((2, 2), 1));
    assert_eq!([net.remaining("a"), net.remaining("b")], [50, 50]);
}

#[test]
fn a_node_that_restarts_takes_the_counts_of_the_others() {
    let mut net = Network::formed(&["a", "b", "c"]);
    net.spend_all("a", 40);
    net.run(500 * MS);
    net.crash("c");
    net.run(SECOND);
    assert_eq!(net.members("a"), (2, 3));
    let served = |net: &Network| ["a", "b"].map(|name| net.counts(name).snapshots_served);
    let before: u64 = served(&net).iter().sum();
    net.start("c", config("c", 3), vec![hourly("l")]);
    net.run(500 * MS);
    assert_eq!(net.status("c").readiness, Readiness::Ready);
    assert_eq!(["a", "b", "c"].map(|name| net.remaining(name)), [60; 3]);
    assert_eq!(["a", "b", "c"].map(|name| net.members(name)), [(3, 3); 3]);
    assert!(net.node("c").notes.iter().any(|note| matches!(note, Note::Joined { .. })));
    assert_eq!(net.counts("c").buckets_taken, 1);
    assert_eq!(served(&net).iter().sum::<u64>(), before + 1);
}

#[test]
fn a_joiner_counts_what_is_spent_meanwhile_once() {
    let mut net = Network::formed(&["a", "b"]);
    net.start("c", config("c", 2), vec![hourly("l")]);
    let mut spent = 0;
    for key in 0..40u8 {
        for _ in 0..20 {
            for name in ["a", "b"] {
                spent += net.spend_key(name, &[key], 1);
            }
        }
        net.run(10 * MS);
    }
    net.run(SECOND);
    assert!(spent > 1_000, "{spent}");
    assert_eq!(net.members("c"), (3, 3));
    for key in 0..40u8 {
        let left = ["a", "b", "c"].map(|name| net.remaining_key(name, &[key]));
        assert_eq!(left, [left[0]; 3], "key {key}");
    }
}

#[test]
fn a_joiner_makes_the_cluster_larger_and_is_counted_by_all() {
    let mut net = Network::formed(&["a", "b"]);
    net.start("c", config("c", 1), vec![hourly("l")]);
    net.dials = false;
    // A node that expects nobody else begins alone, before it meets the others.
    net.run(50 * MS);
    assert_eq!(net.spend("c", 10), 10);
    net.run(500 * MS);
    net.dials = true;
    net.run(2 * SECOND);
    assert_eq!(["a", "b", "c"].map(|name| net.members(name)), [(3, 3); 3]);
    assert_eq!(net.state("a", "c"), PeerState::Counted);
    assert_eq!(["a", "b"].map(|name| net.remaining(name)), [100; 2]);
}

#[test]
fn a_snapshot_of_many_buckets_comes_in_chunks() {
    let mut net = Network::formed(&["a", "b"]);
    for key in 0..20_000u32 {
        assert_eq!(net.spend_key("a", &key.to_le_bytes(), 1), 1);
    }
    net.run(SECOND);
    net.start("c", config("c", 2), vec![hourly("l")]);
    net.run(SECOND);
    assert_eq!(net.counts("c").buckets_taken, 20_000);
    assert_eq!(net.members("c"), (3, 3));
    for key in (0..20_000u32).step_by(97) {
        assert_eq!(net.remaining_key("c", &key.to_le_bytes()), 99);
    }
}

#[test]
fn two_joiners_at_once_are_both_served() {
    let mut net = Network::formed(&["a", "b"]);
    net.spend_all("a", 30);
    net.run(300 * MS);
    for name in ["c", "d", "e"] {
        net.start(name, config(name, 4), vec![hourly("l")]);
    }
    net.run(3 * SECOND);
    for name in ["a", "b", "c", "d", "e"] {
        assert_eq!((net.members(name), net.remaining(name)), ((5, 5), 70), "{name}");
    }
}

/// PE-16: fifteen nodes join one at once that has the counts of many keys. It serves each once, and
/// all have all counts.
#[test]
fn fifteen_joiners_at_once_are_served_once_each() {
    const JOINERS: [&str; 15] =
        ["b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"];
    const KEYS: u32 = 5_000;
    let key = |at: u32| at.to_le_bytes();
    let mut net = Network::formed(&["a"]);
    for at in 0..KEYS {
        assert_eq!(net.spend_key("a", &key(at), 1), 1);
    }
    net.run(300 * MS);
    for name in JOINERS {
        net.start(name, config(name, 16), vec![hourly("l")]);
    }
    net.run(10 * SECOND);
    let mut served = net.counts("a").snapshots_served;
    for name in JOINERS {
        assert_eq!(net.status(name).readiness, Readiness::Ready, "{name}");
        assert_eq!(net.members(name), (16, 16), "{name}");
        for at in (0..KEYS).step_by(97) {
            assert_eq!(net.remaining_key(name, &key(at)), 99, "key {at} on {name}");
        }
        served += net.counts(name).snapshots_served;
    }
    assert_eq!(served, 15, "one each");
}

#[test]
fn a_joiner_whose_server_dies_asks_another() {
    let mut net = Network::formed(&["a", "b"]);
    net.spend_all("a", 30);
    net.run(300 * MS);
    net.start("c", config("c", 2), vec![hourly("l")]);
    net.run(4 * MS);
    net.crash("a");
    net.run(2 * SECOND);
    assert_eq!((net.status("c").readiness, net.remaining("b")), (Readiness::Ready, 46));
    assert_eq!(net.remaining("b"), net.remaining("c"));
    assert_eq!(net.members("c"), (2, 3));
}

#[test]
fn a_joiner_of_many_chunks_counts_what_is_spent_meanwhile_once() {
    let mut net = Network::formed(&["a", "b"]);
    let key = |at: u32| at.to_le_bytes();
    for at in 0..20_000 {
        assert_eq!(net.spend_key("a", &key(at), 1), 1);
    }
    net.run(SECOND);
    net.start("c", config("c", 2), vec![hourly("l")]);
    let mut at = 0;
    while net.counts("c").buckets_taken == 0 || at < 2_000 {
        for name in ["a", "b"] {
            net.spend_key(name, &key(at * 7 % 20_000), 30);
            at += 1;
        }
        net.run(MS / 4);
        assert!(at < 20_000, "it never joins");
    }
    net.run(SECOND);
    assert_eq!(net.members("c"), (3, 3));
    for at in 0..20_000 {
        let left = ["a", "b", "c"].map(|name| net.remaining_key(name, &key(at)));
        assert_eq!(left, [left[0]; 3], "key {at}");
    }
}

#[test]
fn what_was_spent_before_the_counts_were_known_is_told() {
    let mut net = Network::formed(&["a", "b"]);
    net.spend_all("a", 30);
    net.run(300 * MS);
    net.dials = false;
    net.start("c", Config { ready_early: true, ..config("c", 3) }, vec![hourly("l")]);
    assert_eq!(net.spend("c", 5), 5);
    net.run(100 * MS);
    net.dials = true;
    net.run(2 * SECOND);
    assert_eq!(["a", "b", "c"].map(|name| net.remaining(name)), [65; 3]);
}

#[test]
fn a_node_that_waits_sleeps() {
    let mut net = Network::formed(&["a", "b"]);
    net.lost.push(("c", 0x86));
    net.start("c", config("c", 2), vec![hourly("l")]);
    net.run(SECOND);
    assert_eq!(net.status("c").readiness, Readiness::Starting);
    // About as often as it hears something, and fifty times more: not at every look.
    let polls = net.node("c").polls;
    assert!(polls < 300, "{polls}");
    net.lost.clear();
    let before = net.node("a").polls;
    net.run(20 * SECOND);
    assert_eq!(net.status("c").readiness, Readiness::Ready);
    let polls = net.node("a").polls - before;
    assert!(polls < 6_000, "{polls}");
}
