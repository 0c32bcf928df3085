//! Batches, acknowledgements, holds, and nodes with different files.

use super::network::{Network, bucket, config, hourly};
use crate::config::{MS, SECOND};

#[test]
fn what_one_lets_through_all_know_an_interval_later() {
    let mut net = Network::formed(&["a", "b", "c"]);
    net.spend_all("a", 40);
    net.run(250 * MS);
    assert_eq!(["a", "b", "c"].map(|name| net.remaining(name)), [60; 3]);
    net.run(SECOND);
    assert_eq!(net.status("a").log_batches, 0);
    assert_eq!(net.peer("a", "b").lag_ms, 0);
    let rtt_us = net.peer("a", "b").rtt_us.unwrap();
    assert!((2_000..4_000).contains(&rtt_us), "{rtt_us}");
    assert_eq!(net.counts("b").duplicates, 0);
}

#[test]
fn a_share_is_published_long_before_the_tick() {
    let mut net = Network::formed(&["a", "b"]);
    let spent = net.spend("a", 30);
    assert!(spent >= 10, "{spent}");
    // Half a millisecond to coalesce, and one on the way.
    net.run(3 * MS);
    assert_eq!(net.remaining("b"), 100 - spent as u64);
}

#[test]
fn a_held_check_is_tried_again_when_the_peers_have_acknowledged() {
    let mut net = Network::formed(&["a", "b", "c"]);
    net.ask("a", 60);
    let at_once = net.node("a").decided.len();
    assert!(at_once < 60, "some are held");
    net.run(5 * MS);
    let decided = net.node("a").decided.clone();
    assert!(decided.len() > at_once && decided.iter().all(|allowed| *allowed), "{decided:?}");
    assert_eq!(net.status("a").held, 60 - decided.len());
}

#[test]
fn one_key_on_all_nodes_at_once_stays_within_its_limit() {
    let mut net = Network::formed(&["a", "b", "c"]);
    let mut spent = 0;
    for _ in 0..400 {
        for name in ["a", "b", "c"] {
            spent += net.spend(name, 3);
        }
        net.run(5 * MS);
    }
    assert!((99..=100).contains(&spent), "{spent}");
    net.run(SECOND);
    assert_eq!(["a", "b", "c"].map(|name| net.remaining(name)), [0; 3]);
}

#[test]
fn a_lone_member_acknowledges_itself() {
    let mut net = Network::formed(&["a"]);
    assert_eq!(net.spend("a", 120), 100);
    net.run(SECOND);
    let status = net.status("a");
    assert_eq!((status.log_batches, status.members, status.isolated), (0, 1, false));
}

#[test]
fn nodes_with_different_files_count_together() {
    let mut net = Network::new();
    // Another order, another limit on each side, and other numbers for the one that both have.
    net.start("a", config("a", 2), vec![hourly("only-a"), bucket("l", 100, 100)]);
    net.start("b", config("b", 2), vec![bucket("l", 200, 50), hourly("only-b")]);
    net.run(SECOND);
    assert_eq!(net.members("a"), (2, 2));
    let (a, b) = (net.peer("a", "b"), net.peer("b", "a"));
    assert_eq!((a.drift, b.drift), (vec!["l".to_owned()], vec!["l".to_owned()]));
    assert_eq!((a.unknown_there, a.unknown_here), (vec!["only-a".to_owned()], 1));
    assert_eq!((b.unknown_there, b.unknown_here), (vec!["only-b".to_owned()], 1));
    net.spend_all("a", 20);
    net.run(SECOND);
    // 200 is the burst there; on `a`, where it is 100, both limits have 80 left.
    assert_eq!([net.remaining("a"), net.remaining("b")], [80, 180]);
    assert!(net.counts("b").unknown_limits > 0);
}

#[test]
fn early_flushes_and_forced_ones_keep_within_their_budget() {
    let mut net = Network::formed(&["a", "b", "c"]);
    for name in ["a", "b", "c"] {
        assert!(net.counts(name).batches_sent < 10);
    }
    let before = net.counts("a").batches_sent;
    for _ in 0..200 {
        for name in ["a", "b", "c"] {
            let key = [u8::try_from(net.now_ns / MS % 50).unwrap()];
            net.spend_key(name, &key, 2);
        }
        net.run(5 * MS);
    }
    let sent = net.counts("a").batches_sent - before;
    assert!((5..=230).contains(&sent), "{sent} in a second");
    let forced = net.counts("a").forced;
    assert!(forced < sent, "{forced} of {sent}");
}
