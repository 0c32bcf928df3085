//! Nodes that start again while others are cut off: what the earlier life spent is not lost with it.

use super::network::{Network, config, hourly};
use crate::config::{MS, SECOND};
use crate::{Config, Readiness};
use wire::peer::Refusal;

const FIVE: [&str; 5] = ["a", "b", "c", "d", "e"];
const THREE: [&str; 3] = ["a", "b", "c"];
/// The type of an acknowledgement.
const ACK: u8 = 0x85;

fn cut_between(net: &mut Network, some: &[&'static str], others: &[&'static str]) {
    for one in some {
        for other in others {
            net.cut(one, other);
        }
    }
}

fn restart(net: &mut Network, name: &'static str, members: usize, leaves: bool) {
    if leaves {
        let now_ns = net.now_ns;
        net.node(name).cluster.leave(now_ns);
        net.run(100 * MS);
    }
    net.crash(name);
    net.start(name, config(name, members), vec![hourly("l")]);
}

#[test]
fn nodes_that_start_again_together_in_a_cut_take_the_counts_when_it_ends() {
    let mut net = Network::formed(&FIVE);
    net.spend_all("a", 40);
    net.run(300 * MS);
    cut_between(&mut net, &["a", "b", "c"], &["d", "e"]);
    restart(&mut net, "d", 5, false);
    restart(&mut net, "e", 5, false);
    net.run(5 * SECOND);
    net.mend();
    net.run(4 * SECOND);
    assert_eq!(FIVE.map(|name| net.members(name)), [(5, 5); 5]);
    assert_eq!(FIVE.map(|name| net.remaining(name)), [60; 5]);
}

#[test]
fn the_majority_that_starts_again_in_a_cut_takes_the_counts_of_the_one_that_did_not() {
    let mut net = Network::formed(&THREE);
    net.spend_all("a", 40);
    net.run(300 * MS);
    cut_between(&mut net, &["a"], &["b", "c"]);
    restart(&mut net, "b", 3, false);
    restart(&mut net, "c", 3, false);
    net.run(5 * SECOND);
    net.mend();
    net.run(4 * SECOND);
    assert_eq!(THREE.map(|name| net.remaining(name)), [60; 3]);
}

#[test]
fn what_a_node_spent_in_a_cut_before_it_started_again_reaches_those_who_come_back() {
    for leaves in [true, false] {
        let mut net = Network::formed(&THREE);
        cut_between(&mut net, &["a", "b"], &["c"]);
        net.run(2 * SECOND);
        net.spend_all("a", 30);
        net.run(300 * MS);
        restart(&mut net, "a", 3, leaves);
        net.run(2 * SECOND);
        net.mend();
        net.run(3 * SECOND);
        assert_eq!(THREE.map(|name| net.remaining(name)), [70; 3], "leaves: {leaves}");
    }
}

#[test]
fn a_rolling_restart_of_the_others_in_a_cut_forgets_nothing() {
    for cut_s in [5, 61] {
        let mut net = Network::formed(&THREE);
        cut_between(&mut net, &["a", "b"], &["c"]);
        net.run(cut_s * SECOND);
        net.spend_all("a", 30);
        net.run(300 * MS);
        for name in ["a", "b"] {
            restart(&mut net, name, 3, true);
            net.run(2 * SECOND);
        }
        net.mend();
        net.run(3 * SECOND);
        assert_eq!(THREE.map(|name| net.remaining(name)), [70; 3], "cut of {cut_s} s");
    }
}

#[test]
fn who_starts_again_beside_a_cut_is_told_nothing_that_its_snapshot_contains() {
    let mut net = Network::formed(&THREE);
    // The others have heard of it, and cannot say so before the cut: it is owed to both.
    net.lost.push(("a", ACK));
    net.spend_all("a", 20);
    net.run(300 * MS);
    assert_eq!(THREE.map(|name| net.remaining(name)), [80; 3]);
    cut_between(&mut net, &["a"], &["b", "c"]);
    restart(&mut net, "c", 3, false);
    net.run(3 * SECOND);
    net.lost.clear();
    net.mend();
    net.run(3 * SECOND);
    assert_eq!(THREE.map(|name| net.members(name)), [(3, 3); 3]);
    assert_eq!(THREE.map(|name| net.remaining(name)), [80; 3]);
}

#[test]
fn who_starts_again_beside_a_cut_hears_of_what_only_its_earlier_life_had() {
    let mut net = Network::formed(&THREE);
    net.cut("a", "b");
    net.spend_all("a", 20);
    net.run(300 * MS);
    assert_eq!(THREE.map(|name| net.remaining(name)), [80, 100, 80]);
    cut_between(&mut net, &["a"], &["b", "c"]);
    restart(&mut net, "c", 3, false);
    net.run(3 * SECOND);
    assert_eq!(net.remaining("c"), net.remaining("b"));
    net.mend();
    net.run(3 * SECOND);
    assert_eq!(THREE.map(|name| net.members(name)), [(3, 3); 3]);
    assert_eq!(THREE.map(|name| net.remaining(name)), [80; 3]);
}

#[test]
fn two_that_were_forgotten_together_know_of_each_other_when_they_are_back() {
    for apart_ms in [0, 250, 700] {
        let mut net = Network::formed(&FIVE);
        cut_between(&mut net, &["a", "b", "c"], &["d", "e"]);
        net.run(61 * SECOND);
        net.spend_all("a", 20);
        net.run(300 * MS);
        let mut spent = 20;
        for name in ["d", "e"] {
            spent += net.spend(name, 9);
            net.run(SECOND);
        }
        net.mend();
        if apart_ms > 0 {
            cut_between(&mut net, &["a", "b", "c"], &["e"]);
            net.run(apart_ms * MS);
            net.mend();
        }
        net.run(3 * SECOND);
        let left = FIVE.map(|name| net.remaining(name));
        let right = 100 - u64::try_from(spent).unwrap();
        assert_eq!(left[..3], [right; 3], "{apart_ms} ms apart: {left:?}");
        // Whoever is back may have been charged twice for the other, and never too little.
        assert!(left[3..].iter().all(|left| (right - 9..=right).contains(left)), "{left:?}");
    }
}

#[test]
fn a_name_forgotten_on_two_nodes_at_once_takes_no_second_place() {
    let mut net = Network::new();
    for name in THREE {
        net.start(name, config(name, 4), vec![hourly("l")]);
    }
    net.run(2 * SECOND);
    net.crash("c");
    net.run(SECOND);
    let now_ns = net.now_ns;
    for name in ["a", "b"] {
        net.node(name).cluster.forget(now_ns, "c").unwrap();
    }
    net.run(100 * MS);
    assert_eq!([net.members("a"), net.members("b")], [(2, 3); 2]);
}

/// The bucket of the key that the network's nodes are asked for.
fn bucket_of_alice(net: &mut Network) -> limiter::Bucket {
    let (now_ns, mut standings) = (net.now_ns, Vec::new());
    let from = limiter::StorePart::default();
    net.node("a").limiter.snapshot(now_ns, from, usize::MAX, &mut standings);
    standings[0].bucket
}

#[test]
fn a_delta_that_nobody_can_have_spent_keeps_no_key_for_long() {
    use limiter::{Op, Request};
    for spent in [i64::MAX / 2, i64::MIN / 2] {
        let mut net = Network::formed(&THREE);
        net.spend_all("a", 1);
        net.run(2 * SECOND);
        let bucket = bucket_of_alice(&mut net);
        let delta = limiter::Delta {
            bucket,
            spent,
            demand: 0,
            shift: 0,
            reserved: false,
            level: None,
            when: limiter::When::Untimed,
        };
        let mut bytes = Vec::new();
        let mut writer = wire::peer::BatchWriter::new(&mut bytes, 1 << 40, net.now_ns);
        writer.spends(&[delta]);
        writer.finish();
        let link = net.link_of("a", "c");
        net.inject("a", link, &bytes);
        cut_between(&mut net, &["a", "b"], &["c"]);
        net.run(SECOND);
        let peek = Request::check(b"", b"alice").with_op(Op::Peek);
        let now_ns = net.now_ns;
        let verdict = net.node("a").limiter.decide(now_ns, &peek).unwrap().verdict;
        let wait_s = verdict.retry_after.to_secs().unwrap();
        // Two bursts at two thirds of the rate, at most.
        assert!(wait_s <= 2 * 100 * 36 * 3 / 2 + 36, "{wait_s}");
        assert!(verdict.remaining.unwrap() <= 67, "{verdict:?}");
    }
}

#[test]
fn a_node_that_is_turned_away_holds_no_part_beside_the_cluster() {
    let mut net = Network::formed(&["a", "b"]);
    net.start("0", Config { secret: [8; 16], ..config("0", 3) }, vec![hourly("l")]);
    net.run(20 * SECOND);
    assert!(net.counts("a").refused.of(Refusal::Secret) > 0);
    assert_eq!(net.status("0").readiness, Readiness::Starting);
}
