//! What is bounded, met.

use limiter::MEMBERS_MAX;
use wire::peer::Refusal;

use super::network::{Network, config, hourly};
use crate::config::{MS, SECOND};
use crate::{Cause, HELD_MAX, Note};

#[test]
fn checks_held_above_the_bound_are_given_back() {
    let mut net = Network::formed(&["a", "b", "c"]);
    let now_ns = net.now_ns;
    let node = net.node("a");
    let mut held = 0;
    let mut given_back = 0;
    while given_back == 0 {
        let request = limiter::Request::check(b"", b"alice");
        match node.limiter.check(now_ns, &request, true).unwrap() {
            limiter::Answer::Decided(_) => {}
            limiter::Answer::Held(ticket) => match node.cluster.hold(ticket.bucket(), ticket) {
                Ok(()) => held += 1,
                Err(ticket) => {
                    given_back += 1;
                    node.limiter.abandon(now_ns, ticket);
                }
            },
        }
    }
    assert_eq!(held, HELD_MAX);
    assert_eq!(net.counts("a").holds_refused, 1);
    net.run(50 * MS);
    assert!(net.status("a").held < HELD_MAX);
}

#[test]
fn the_slowest_peer_is_lost_when_the_log_is_full() {
    let mut net = Network::formed(&["a", "b", "c"]);
    net.node("a").cluster.bound_log(1_000);
    net.cut("a", "c");
    let mut lost = None;
    for key in 0..40u8 {
        // Enough for an early flush each.
        net.spend_key("a", &[key], 40);
        net.run(10 * MS);
        lost = net.node("a").notes.iter().find_map(|note| match note {
            Note::Lost { peers, cause, .. } => Some((peers.clone(), *cause)),
            _ => None,
        });
        if lost.is_some() {
            break;
        }
    }
    assert_eq!(lost, Some((vec!["c".to_owned()], Cause::Slow)));
    assert_eq!(net.counts("a").log_overflows, 1);
    assert_eq!(net.members("a"), (2, 3));
}

#[test]
fn a_cluster_that_is_full_takes_nobody() {
    let mut net = Network::new();
    net.dials = false;
    net.start("a", config("a", MEMBERS_MAX), vec![hourly("l")]);
    net.node("a").cluster.fill_table();
    net.start("b", config("b", 2), vec![hourly("l")]);
    net.dial("b", "a");
    net.run(5 * MS);
    assert_eq!(net.node("b").refusals, [Refusal::TooManyMembers]);
}

#[test]
fn many_deltas_go_in_several_batches() {
    let mut net = Network::formed(&["a", "b"]);
    for key in 0..150_000u32 {
        assert_eq!(net.spend_key("a", &key.to_le_bytes(), 1), 1);
    }
    let before = net.counts("a").batches_sent;
    net.run(SECOND);
    assert!(net.counts("a").batches_sent - before >= 2);
    for key in (0..150_000u32).step_by(101) {
        assert_eq!(net.remaining_key("b", &key.to_le_bytes()), 99);
    }
    assert_eq!((net.status("a").log_batches, net.members("a")), (0, (2, 2)));
}

#[test]
fn many_sums_go_in_several_heals() {
    let mut net = Network::formed(&["a", "b"]);
    net.cut("a", "b");
    net.run(SECOND);
    for key in 0..150_000u32 {
        assert_eq!(net.spend_key("a", &key.to_le_bytes(), 1), 1);
    }
    net.run(300 * MS);
    let before = net.counts("a").heals_sent;
    net.mend();
    net.run(SECOND);
    assert!(net.counts("a").heals_sent - before >= 2);
    assert_eq!((net.members("a"), net.members("b")), ((2, 2), (2, 2)));
    for key in (0..150_000u32).step_by(101) {
        assert_eq!(net.remaining_key("b", &key.to_le_bytes()), 99);
    }
}
