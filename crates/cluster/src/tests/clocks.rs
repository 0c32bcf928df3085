//! Wall clocks that differ: shown, warned of, and nothing else.

use super::network::{Network, config, hourly};
use crate::config::{MS, SECOND};
use crate::{Counts, Note};

/// The type of a frame that says what the wall clock reads.
const CLOCK: u8 = 0x04;

/// `a`, `b` and `c`, of which `b` is `off_ms` ahead.
fn three(off_ms: i64) -> Network {
    let mut net = Network::new();
    net.walls.extend([("a", 0), ("b", off_ms), ("c", 0)]);
    for name in ["a", "b", "c"] {
        net.start(name, config(name, 3), vec![hourly("l")]);
    }
    net.run(1_500 * MS);
    // How long a round trip takes is known from the first batch on.
    for name in ["a", "b", "c"] {
        net.spend_all(name, 1);
        net.run(300 * MS);
    }
    net
}

/// What was said of clocks at `name`: of whom, and whether it is off from then on.
fn said(net: &mut Network, name: &str) -> Vec<(String, i64, bool)> {
    let notes = net.node(name).notes.iter().filter_map(|note| match note {
        Note::Clock { peer, skew_ms, is_off } => Some((peer.clone(), *skew_ms, *is_off)),
        _ => None,
    });
    notes.collect()
}

#[test]
fn a_clock_that_is_right_is_shown_as_that() {
    let mut net = three(0);
    net.run(3 * SECOND);
    for (name, peer) in [("a", "b"), ("b", "c"), ("c", "a")] {
        let status = net.peer(name, peer);
        assert_eq!((status.skew_ms, status.clock_off), (Some(0), false), "{name}: {peer}");
        assert!(said(&mut net, name).is_empty());
    }
    // Each tells each of the two others every second.
    let told = net.arrived.iter().filter(|(to, frame)| (*to, *frame) == ("a", CLOCK)).count();
    assert!((9..=12).contains(&told), "{told} in five and a half seconds");
}

#[test]
fn a_clock_within_the_bound_is_shown_and_not_warned_of() {
    for off_ms in [250, -250] {
        let mut net = three(off_ms);
        net.run(3 * SECOND);
        let status = net.peer("a", "b");
        assert_eq!((status.skew_ms, status.clock_off), (Some(off_ms), false));
        assert_eq!(net.peer("b", "a").skew_ms, Some(-off_ms));
        assert_eq!(net.counts("a").clock_alarms, 0);
    }
}

#[test]
fn a_clock_that_steps_is_warned_of_while_it_is_off() {
    let mut net = three(0);
    net.walls.insert("b", 5_000);
    net.run(3 * SECOND);
    // Whoever is ahead is the one or the other: each warns of each.
    for (name, peer, skew_ms) in [("a", "b", 5_000), ("c", "b", 5_000)] {
        let status = net.peer(name, peer);
        assert_eq!((status.skew_ms, status.clock_off), (Some(skew_ms), true), "{name}");
        assert_eq!(said(&mut net, name), [("b".to_owned(), skew_ms, true)]);
        assert_eq!(net.counts(name).clock_alarms, 1);
    }
    assert!(!net.peer("a", "c").clock_off);
    // Behind could be late: that takes a few readings.
    net.run(4 * SECOND);
    let mut of_b = said(&mut net, "b");
    of_b.sort();
    assert_eq!(of_b, [("a".to_owned(), -5_000, true), ("c".to_owned(), -5_000, true)]);

    net.walls.insert("b", 100);
    net.run(6 * SECOND);
    assert_eq!(net.peer("a", "b").skew_ms, Some(100));
    assert_eq!(said(&mut net, "a").last(), Some(&("b".to_owned(), 100, false)));
    assert_eq!((said(&mut net, "a").len(), said(&mut net, "b").len()), (2, 4));
    assert!(!net.peer("b", "a").clock_off);
    assert_eq!(net.counts("a").clock_alarms, 1);
}

#[test]
fn a_peer_that_says_it_only_in_the_handshake_is_judged_by_that() {
    let mut net = Network::new();
    net.lost.extend([("a", CLOCK), ("b", CLOCK)]);
    net.walls.extend([("a", 0), ("b", 400)]);
    for name in ["a", "b"] {
        net.start(name, config(name, 2), vec![hourly("l")]);
    }
    net.run(3 * SECOND);
    assert!(net.peer("a", "b").clock_off);
    assert_eq!(net.peer("a", "b").linked_skew_ms, Some(399), "late by a millisecond");
    net.walls.insert("b", 0);
    net.run(3 * SECOND);
    assert!(net.peer("a", "b").clock_off, "nobody knows better");
}

#[test]
fn clocks_that_differ_by_a_day_change_no_decision() {
    let decided = |off_ms: i64| {
        let mut net = three(off_ms);
        let mut spent = Vec::new();
        for _ in 0..100 {
            spent.push(["a", "b", "c"].map(|name| net.spend(name, 2)));
            net.run(20 * MS);
        }
        net.cut("a", "b");
        net.run(2 * SECOND);
        spent.push(["a", "b", "c"].map(|name| net.spend(name, 2)));
        net.mend();
        net.run(2 * SECOND);
        let left = ["a", "b", "c"].map(|name| net.remaining(name));
        let Counts { batches_sent, heals_sent, .. } = net.counts("a");
        (spent, left, batches_sent, heals_sent)
    };
    assert_eq!(decided(0), decided(86_400_000));
}
