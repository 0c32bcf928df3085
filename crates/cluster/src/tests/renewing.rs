//! Limits that change while nodes are linked, and numbers that calls bring.

use limiter::{Limit, Op, Plan, Rate, Request, Terms, Unmatched};

use super::network::{Network, bucket, config, hourly};
use crate::config::{MS, SECOND};

fn plan(limits: Vec<Limit>) -> Plan {
    Plan::compile(limits, Unmatched::Allow).expect("sound").with_carried()
}

/// `a`, `b` and `c`, whose only limit is 100 an hour.
fn three() -> Network {
    let mut net = Network::new();
    for name in ["a", "b", "c"] {
        net.start(name, config(name, 3), vec![hourly("l")]);
    }
    net.run(1_500 * MS);
    net
}

#[track_caller]
fn replace(net: &mut Network, name: &str, limits: Vec<Limit>) {
    let now_ns = net.now_ns;
    net.node(name).limiter.replace(now_ns, plan(limits)).expect("there are slots");
}

/// Units left of the limit `limit` to `k` at `name`.
fn left(net: &mut Network, name: &str, limit: &str) -> Option<u64> {
    let now_ns = net.now_ns;
    let request = Request::check(b"", b"k").with_op(Op::Peek);
    let request = Request { details: true, ..request };
    let decision = net.node(name).limiter.decide(now_ns, &request).expect("sound");
    let verdict = decision.details.iter().find(|verdict| verdict.limit_name == limit);
    verdict.and_then(|verdict| verdict.remaining)
}

fn spend(net: &mut Network, name: &str, calls: usize) {
    let now_ns = net.now_ns;
    for _ in 0..calls {
        let decision = net.node(name).limiter.decide(now_ns, &Request::check(b"", b"k"));
        assert!(decision.expect("sound").verdict.allowed);
    }
}

#[test]
fn a_limit_that_a_reload_brings_is_one_limit() {
    let mut net = three();
    spend(&mut net, "a", 4);
    // In another order of the file on each, and not at the same time.
    replace(&mut net, "a", vec![bucket("new", 50, 50), hourly("l")]);
    net.run(300 * MS);
    spend(&mut net, "a", 3);
    net.run(300 * MS);
    replace(&mut net, "b", vec![hourly("l"), bucket("new", 50, 50)]);
    replace(&mut net, "c", vec![bucket("new", 50, 50), hourly("l")]);
    net.run(500 * MS);
    spend(&mut net, "b", 5);
    spend(&mut net, "c", 2);
    net.run(SECOND);
    for name in ["a", "b", "c"] {
        assert_eq!(left(&mut net, name, "l"), left(&mut net, "a", "l"), "{name}");
        assert!(net.status(name).peers.iter().all(|peer| peer.drift.is_empty()), "{name}");
    }
    // What `a` spent of the new limit before the others had it is not known to them.
    assert!((40..=43).contains(&left(&mut net, "a", "new").expect("it applies")));
    for name in ["b", "c"] {
        let left = left(&mut net, name, "new").expect("it applies");
        assert!((43..=44).contains(&left), "{name}: {left}");
    }
}

#[test]
fn a_limit_that_went_and_came_again_starts_with_nothing_everywhere() {
    let mut net = three();
    spend(&mut net, "a", 30);
    net.run(SECOND);
    for name in ["a", "b", "c"] {
        replace(&mut net, name, vec![hourly("other")]);
        net.run(100 * MS);
    }
    spend(&mut net, "b", 10);
    net.run(SECOND);
    for name in ["c", "b", "a"] {
        replace(&mut net, name, vec![hourly("l")]);
        net.run(100 * MS);
    }
    spend(&mut net, "c", 7);
    net.run(SECOND);
    for name in ["a", "b", "c"] {
        let left = left(&mut net, name, "l").expect("it applies");
        assert!((93..=94).contains(&left), "{name}: {left}");
    }
}

#[test]
fn whoever_links_later_is_told_the_new_limits() {
    let mut net = three();
    net.cut("a", "b");
    net.cut("a", "c");
    net.run(2 * SECOND);
    replace(&mut net, "a", vec![bucket("new", 50, 50)]);
    net.run(100 * MS);
    for name in ["b", "c"] {
        replace(&mut net, name, vec![hourly("l"), bucket("new", 50, 50)]);
    }
    spend(&mut net, "a", 6);
    net.mend();
    net.run(5 * SECOND);
    for name in ["a", "b", "c"] {
        let left = left(&mut net, name, "new").expect("it applies");
        assert!((44..=45).contains(&left), "{name}: {left}");
    }
}

/// Calls that carry their numbers share one bucket for a key, wherever they arrive.
#[test]
fn carried_numbers_are_one_limit() {
    let mut net = three();
    for name in ["a", "b", "c"] {
        replace(&mut net, name, vec![hourly("l")]);
    }
    net.run(500 * MS);
    let terms = |burst| Terms { rate: Rate { count: burst, period_ns: 3_600 * SECOND }, burst };
    let call = |net: &mut Network, name: &str, burst: u64, op: Op| {
        let request = Request::check(b"", b"k").with_terms(terms(burst)).with_op(op);
        let now_ns = net.now_ns;
        let decision = net.node(name).limiter.decide(now_ns, &request).expect("sound");
        (decision.verdict.allowed, decision.verdict.remaining.unwrap_or(0))
    };
    for (name, calls) in [("a", 4), ("b", 5), ("c", 6)] {
        for _ in 0..calls {
            assert!(call(&mut net, name, 60, Op::Check).0, "{name}");
        }
        net.run(500 * MS);
    }
    for name in ["a", "b", "c"] {
        assert_eq!(call(&mut net, name, 60, Op::Peek).1, 45, "{name}");
    }
    // Other numbers travel with what is counted by them, and what was used is kept.
    assert!(call(&mut net, "b", 100, Op::Check).0);
    net.run(SECOND);
    for name in ["a", "b", "c"] {
        assert_eq!(call(&mut net, name, 100, Op::Peek).1, 84, "{name}");
    }
    // Across a cut, and to whoever starts anew.
    net.cut("a", "c");
    net.cut("b", "c");
    net.run(2 * SECOND);
    assert!(call(&mut net, "c", 100, Op::Check).0);
    assert!(call(&mut net, "a", 100, Op::Check).0);
    net.mend();
    net.run(5 * SECOND);
    for name in ["a", "b", "c"] {
        let left = call(&mut net, name, 100, Op::Peek).1;
        assert!((82..=83).contains(&left), "{name}: {left}");
    }
    net.crash("c");
    net.run(3 * SECOND);
    net.start("c", config("c", 3), vec![hourly("l")]);
    replace(&mut net, "c", vec![hourly("l")]);
    net.run(5 * SECOND);
    let left = call(&mut net, "c", 100, Op::Peek).1;
    assert!((82..=83).contains(&left), "{left}");
}
