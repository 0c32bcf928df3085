//! What operators do to keys, and spends that arrive late.

use limiter::{Limit, Operation, OperationError, Quota, Rate, Request, Window};

use super::network::{Network, config};
use crate::config::{MS, SECOND};
use crate::{PeerState, Readiness};

const HOUR: u64 = 3_600 * SECOND;
const ALL: [&str; 3] = ["a", "b", "c"];

/// A hundred an hour, by everything that counts.
fn quotas() -> [Quota; 5] {
    let (limit, burst, period_ns) = (100, 100, HOUR);
    let rate = Rate { count: 1, period_ns };
    [
        Quota::TokenBucket { rate, burst },
        Quota::LeakyBucket { rate, burst, queue: true },
        Quota::FixedWindow { limit, window: Window::Period(HOUR) },
        Quota::SlidingWindow { limit, period_ns },
        Quota::SlidingLog { limit, period_ns },
    ]
}

fn formed(quota: &Quota) -> Network {
    let mut net = Network::new();
    for name in ALL {
        net.start(name, config(name, 3), vec![Limit::new("l", quota.clone())]);
    }
    net.run(1_500 * MS);
    assert_eq!(ALL.map(|name| net.members(name)), [(3, 3); 3]);
    net
}

fn left(net: &Network) -> [u64; 3] {
    ALL.map(|name| net.remaining(name))
}

/// Told to one node, it holds on all as soon as the message is there.
#[test]
fn a_reset_holds_on_every_node_at_once() {
    for quota in quotas() {
        let mut net = formed(&quota);
        net.spend_all("b", 60);
        net.run(SECOND);
        assert_eq!((left(&net), net.reset("a", b"alice")), ([40; 3], 60), "{quota:?}");
        net.run(10 * MS);
        assert_eq!(left(&net), [100; 3], "{quota:?}");
        net.spend_all("c", 10);
        net.run(SECOND);
        assert_eq!(left(&net), [90; 3], "{quota:?}");
        net.run(60 * SECOND);
        assert_eq!(left(&net), [90; 3], "{quota:?}");
    }
}

/// What `b` spent reaches `c` after the reset that was for it.
#[test]
fn a_late_spend_does_not_undo_a_reset() {
    for quota in quotas() {
        let mut net = formed(&quota);
        net.cut("b", "c");
        net.spend_all("b", 30);
        net.run(20 * MS);
        assert_eq!(left(&net), [70, 70, 100], "{quota:?}");
        assert_eq!(net.reset("a", b"alice"), 30);
        net.run(20 * MS);
        assert_eq!(left(&net), [100; 3], "{quota:?}");
        net.mend();
        net.run(SECOND);
        assert_eq!(left(&net), [100; 3], "{quota:?}");
        assert_eq!(net.counts("c").splits, 0, "{quota:?}: it was late, and not cut off");
    }
}

/// What `b` spent when `a` had not heard of it counts on all three.
#[test]
fn spends_that_the_node_did_not_know_of_count() {
    for quota in quotas() {
        let mut net = formed(&quota);
        net.spend_all("b", 20);
        net.run(SECOND);
        net.cut("a", "b");
        net.spend_all("b", 7);
        net.run(210 * MS);
        assert_eq!(left(&net), [80, 73, 73], "{quota:?}");
        assert_eq!(net.reset("a", b"alice"), 20);
        net.run(20 * MS);
        assert_eq!(left(&net), [100, 73, 93], "{quota:?}");
        net.mend();
        net.run(SECOND);
        assert_eq!(left(&net), [93; 3], "{quota:?}");
    }
}

/// `c` spent meanwhile, and what the reset could not fill there covers the late spends and no more.
#[test]
fn a_credit_covers_late_spends_and_nothing_else() {
    for quota in quotas() {
        let mut net = formed(&quota);
        net.cut("b", "c");
        net.spend_all("b", 30);
        net.run(20 * MS);
        net.reset("a", b"alice");
        net.run(20 * MS);
        // After the reset: at `c`, and at `b` in a later batch.
        net.spend_all("c", 5);
        net.spend_all("b", 4);
        net.run(20 * MS);
        net.mend();
        net.run(SECOND);
        assert_eq!(left(&net), [91; 3], "{quota:?}");
    }
}

/// Cut off from both, `c` hears of the reset, and of what it was for, when it is back.
#[test]
fn a_node_that_was_cut_off_has_the_reset_when_it_is_back() {
    for quota in quotas() {
        for is_whole in [true, false] {
            let mut net = formed(&quota);
            net.spend_all("a", 10);
            net.run(SECOND);
            net.cut("a", "c");
            net.cut("b", "c");
            if is_whole {
                net.run(100 * MS);
            } else {
                net.run(2 * SECOND);
                assert_eq!(net.state("a", "c"), PeerState::Missing);
            }
            net.spend_all("b", 20);
            let by_c = net.spend("c", 3) as u64;
            net.run(SECOND);
            assert_eq!(net.reset("a", b"alice"), 30, "{quota:?}");
            net.run(SECOND);
            net.mend();
            net.run(5 * SECOND);
            assert_eq!(ALL.map(|name| net.members(name)), [(3, 3); 3]);
            assert_eq!(left(&net), [100 - by_c; 3], "{quota:?}, whole: {is_whole}");
            net.run(30 * SECOND);
            assert_eq!(left(&net), [100 - by_c; 3], "{quota:?}, whole: {is_whole}");
        }
    }
}

/// Only `a` and `c` are cut off from each other: `b` knows of the reset and `c` does not, for half a minute.
#[test]
fn a_node_that_lacks_the_reset_does_not_undo_it_on_another() {
    for quota in quotas() {
        let mut net = formed(&quota);
        net.spend_all("b", 40);
        net.run(SECOND);
        net.cut("a", "c");
        net.run(2 * SECOND);
        assert_eq!(net.reset("a", b"alice"), 40, "{quota:?}");
        net.run(30 * SECOND);
        assert_eq!(net.remaining("b"), 100, "{quota:?}");
        net.mend();
        net.run(5 * SECOND);
        assert_eq!(left(&net), [100; 3], "{quota:?}");
    }
}

/// A node starts anew and takes the counts of one that has the reset and lacks what it is for; then it hears of that.
#[test]
fn a_joiner_takes_what_waits_for_late_spends() {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    for quota in quotas() {
        let mut net = Network::new();
        let start = |net: &mut Network, name| {
            net.start(name, config(name, 4), vec![Limit::new("l", quota.clone())]);
        };
        NAMES.into_iter().for_each(|name| start(&mut net, name));
        net.run(1_500 * MS);
        net.crash("d");
        net.cut("b", "c");
        net.run(SECOND);
        net.spend_all("b", 10);
        net.run(SECOND);
        assert_eq!((net.remaining("a"), net.reset("a", b"alice")), (65, 10), "{quota:?}");
        net.run(SECOND);
        assert_eq!(net.status("c").credits, 1, "{quota:?}");
        net.cut("a", "d");
        net.cut("b", "d");
        start(&mut net, "d");
        net.run(3 * SECOND);
        assert_eq!((net.status("d").readiness, net.status("d").credits), (Readiness::Ready, 1));
        net.mend();
        net.run(10 * SECOND);
        assert_eq!(NAMES.map(|name| net.members(name)), [(4, 4); 4], "{quota:?}");
        assert_eq!(NAMES.map(|name| net.remaining(name)), [100; 4], "{quota:?}");
        net.run(2 * SECOND);
        assert_eq!(NAMES.map(|name| net.status(name).credits), [0; 4], "{quota:?}");
        assert_eq!(NAMES.map(|name| net.remaining(name)), [100; 4], "{quota:?}");
    }
}

#[test]
fn a_node_that_does_not_know_the_counts_resets_nothing() {
    let mut net = Network::of(&ALL);
    let request = Request::check(b"", b"alice");
    let reset = Operation::Reset { request, limit: None };
    assert_eq!(net.operate("a", &reset), Err(OperationError::Starting));
    net.run(1_500 * MS);
    assert_eq!(net.operate("a", &reset).map(|operated| operated.units), Ok(0));
    let request = Request::check(b"", b"alice");
    let other = Operation::Reset { request, limit: Some("other") };
    assert_eq!(net.operate("a", &other), Err(OperationError::NoLimit));
}
