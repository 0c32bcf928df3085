//! What operators do to keys: on every node the same, in whatever order nodes hear of it.

use limiter::{
    About, Act, Banned, Holds, OPERATIONS_MAX, Operation, OperationError, Quota, Rate, Reason,
    Request, Subject,
};

use super::network::{Network, config, hourly};
use crate::config::{MS, SECOND};

fn key(name: &str) -> Subject {
    Subject::Key(name.into())
}

fn three() -> Network {
    let mut net = Network::new();
    for name in ["a", "b", "c"] {
        net.start(name, config(name, 3), vec![hourly("l")]);
    }
    net.run(1_500 * MS);
    net
}

#[track_caller]
fn act(net: &mut Network, name: &str, operation: &Operation<'_>) {
    let now_ns = net.now_ns;
    let done = net.node(name).limiter.operate(now_ns, operation).expect("there is room");
    assert_eq!(done.changed, 1);
}

fn bans(net: &mut Network, name: &str) -> Vec<Banned> {
    let now_ns = net.now_ns;
    net.node(name).limiter.bans(now_ns)
}

fn reason(net: &mut Network, name: &str, key: &[u8]) -> Reason {
    let now_ns = net.now_ns;
    let limiter = &net.node(name).limiter;
    limiter.decide(now_ns, &Request::check(b"", key)).expect("sound").verdict.reason
}

#[test]
fn a_ban_holds_on_all_and_ends_on_all() {
    let mut net = three();
    act(&mut net, "a", &Operation::Ban { subject: key("m"), for_ns: Some(5 * SECOND) });
    net.run(SECOND);
    for name in ["a", "b", "c"] {
        assert_eq!(reason(&mut net, name, b"m"), Reason::Banned, "{name}");
        assert_eq!(reason(&mut net, name, b"n"), Reason::Ok, "{name}");
        let left = bans(&mut net, name)[0].for_ns.expect("it ends");
        assert!((3_500 * MS..=4_100 * MS).contains(&left), "{name}: {left}");
    }
    net.run(4_200 * MS);
    for name in ["a", "b", "c"] {
        assert_eq!(reason(&mut net, name, b"m"), Reason::Ok, "{name}");
    }
}

#[test]
fn who_acts_last_decides_on_both_sides_of_a_cut() {
    let mut net = three();
    act(&mut net, "a", &Operation::Ban { subject: key("m"), for_ns: None });
    net.run(SECOND);
    net.cut("a", "c");
    net.cut("b", "c");
    net.run(2 * SECOND);
    // `c` lifts the ban that it knows; on the other side it is made anew, later.
    act(&mut net, "c", &Operation::Unban { subject: key("m") });
    net.run(100 * MS);
    act(&mut net, "b", &Operation::Ban { subject: key("m"), for_ns: None });
    act(&mut net, "c", &Operation::Ban { subject: key("n"), for_ns: None });
    net.run(SECOND);
    assert_eq!(bans(&mut net, "c").len(), 1);
    net.mend();
    net.run(5 * SECOND);
    for name in ["a", "b", "c"] {
        let banned: Vec<_> = bans(&mut net, name).into_iter().map(|ban| ban.subject).collect();
        assert_eq!(banned, [key("m"), key("n")], "{name}");
    }
}

#[test]
fn whoever_comes_later_takes_bans_and_numbers_from_the_others() {
    let mut net = Network::new();
    for name in ["a", "b"] {
        net.start(name, config(name, 3), vec![hourly("l")]);
    }
    net.run(1_500 * MS);
    act(&mut net, "a", &Operation::Ban { subject: key("m"), for_ns: None });
    let rate = Rate { count: 5, period_ns: 3_600 * SECOND };
    let quota = Quota::TokenBucket { rate, burst: 5 };
    let request = || Request::check(b"", b"k");
    let over = Operation::Override { request: request(), limit: "l", quota, for_ns: None };
    act(&mut net, "b", &over);
    net.run(SECOND);
    net.start("c", config("c", 3), vec![hourly("l")]);
    net.run(2 * SECOND);
    assert_eq!(reason(&mut net, "c", b"m"), Reason::Banned);
    assert_eq!(net.remaining_key("c", b"k"), 5);
    assert_eq!(net.remaining_key("c", b"other"), net.remaining_key("a", b"other"));
    act(&mut net, "c", &Operation::EndOverride { request: request(), limit: "l" });
    net.run(SECOND);
    for name in ["a", "b", "c"] {
        let now_ns = net.now_ns;
        assert!(net.node(name).limiter.overridden(now_ns).is_empty(), "{name}");
        assert!(net.remaining_key(name, b"k") > 5, "{name}");
    }
}

#[test]
fn beyond_the_bound_an_act_is_refused_and_that_of_a_peer_counted() {
    let mut net = three();
    net.cut("a", "c");
    net.cut("b", "c");
    act(&mut net, "c", &Operation::Ban { subject: key("other"), for_ns: None });
    let now_ns = net.now_ns;
    // As a peer would tell them.
    let many = (1..=OPERATIONS_MAX).map(|at| Act {
        about: About::Ban(Subject::Key(format!("{at:05}").into_bytes())),
        version: at as u64,
        holds: Some(Holds { for_ns: None, given: None }),
    });
    assert_eq!(net.node("a").limiter.take_acts(now_ns, many.collect()), 0);
    let more = Operation::Ban { subject: key("more"), for_ns: None };
    assert_eq!(net.node("a").limiter.operate(now_ns, &more), Err(OperationError::Full));
    net.run(SECOND);
    assert_eq!(bans(&mut net, "b").len(), OPERATIONS_MAX);
    net.mend();
    net.run(5 * SECOND);
    for name in ["a", "b", "c"] {
        assert_eq!(bans(&mut net, name).len(), OPERATIONS_MAX, "{name}");
        assert!(net.counts(name).acts_dropped >= 1, "{name}");
    }
}
