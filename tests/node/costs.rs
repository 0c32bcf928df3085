//! Costs: nothing, more than is left, more than there ever is, and what is no cost at all.

use std::time::Duration;

use limiter::Op;

use crate::support::http::percent_encoded;
use crate::support::{Answer, Config, Node, Stopwatch, Surface, check, pause};

/// A question as the gateway's door takes it.
fn auth_target(key: &str, cost: u64) -> String {
    format!("/v1/auth?key={}&cost={cost}", percent_encoded(key.as_bytes()))
}

fn numbers(answer: &Answer) -> (bool, Option<u64>, Option<u64>) {
    (answer.allowed, answer.remaining, answer.retry_after_ms)
}

/// CO-01: a cost above the capacity is denied for ever, says so, and charges nothing.
#[test]
fn a_cost_above_the_capacity_never_passes_and_charges_nothing() {
    let node = Node::start(&Config::of_rate("3/2s"));
    for surface in Surface::ALL {
        let mut caller = node.caller(surface);
        let key = format!("{surface:?}");
        let request = check("GET /", &key);
        let denied = caller.decide(&request.clone().with_cost(4));
        assert_eq!(numbers(&denied), (false, Some(3), None), "{surface:?}");
        assert_eq!(denied.reason, "limit");
        let allowed = caller.decide(&request.with_cost(3));
        assert_eq!(numbers(&allowed), (true, Some(0), Some(0)), "{surface:?}");
    }
    let denied = node.connection().get(&auth_target("auth", 4));
    assert_eq!((denied.status, denied.header("Retry-After")), (429, None));
    assert_eq!(node.connection().get(&auth_target("auth", 3)).status, 200);
}

/// CO-03: a denied call takes nothing of what was left.
#[test]
fn a_denied_cost_takes_nothing() {
    let node = Node::start(&Config::of_rate("10/h"));
    for surface in Surface::ALL {
        let key = format!("{surface:?}");
        let request = check("GET /", &key);
        let asked = [8, 5, 1_000_000, 1].map(|cost| request.clone().with_cost(cost));
        let answers = node.caller(surface).ask_all(&asked);
        let answers: Vec<_> = answers.into_iter().map(|it| it.expect("a decision")).collect();
        let told: Vec<_> = answers.iter().map(numbers).collect();
        let expected = [
            (true, Some(2), Some(0)),
            (false, Some(2), Some(3 * 360_000)),
            (false, Some(2), None),
            (true, Some(1), Some(0)),
        ];
        assert_eq!(told, expected, "{surface:?}");
    }
}

/// CO-04: cost 0 asks and spends nothing: no entry is made, and it fits an empty bucket too.
#[test]
fn cost_0_spends_nothing_and_makes_no_entry() {
    let node = Node::start(&Config::of_rate("5/h"));
    for surface in Surface::ALL {
        let key = format!("{surface:?}");
        let mut caller = node.caller(surface);
        let nothing = check("GET /", &key).with_cost(0);
        let fresh = caller.decide(&nothing);
        assert_eq!(numbers(&fresh), (true, Some(5), Some(0)), "{surface:?}");
        assert_eq!(fresh.reset_after_ms, Some(0));
    }
    assert_eq!(node.metrics().sum("rlnode_entries", &[]), 0);

    let mut caller = node.caller(Surface::Stream);
    let keys: Vec<String> = (0..10_000).map(|number| format!("unseen-{number}")).collect();
    for keys in keys.chunks(256) {
        let peeks: Vec<_> = keys.iter().map(|key| check("", key).with_op(Op::Peek)).collect();
        assert!(caller.ask_all(&peeks).iter().all(|it| it.as_ref().is_ok_and(|it| it.allowed)));
    }
    assert_eq!(node.metrics().sum("rlnode_entries", &[]), 0);

    for surface in Surface::ALL {
        let key = format!("{surface:?}");
        let mut caller = node.caller(surface);
        for _ in 0..5 {
            assert!(caller.decide(&check("GET /", &key)).allowed);
        }
        let empty = caller.decide(&check("GET /", &key).with_cost(0));
        assert_eq!(numbers(&empty), (true, Some(0), Some(0)), "{surface:?}");
        assert!(empty.reset_after_ms.is_some_and(|wait_ms| wait_ms > 3_590_000), "{empty:?}");
        let peeked = caller.decide(&check("GET /", &key).with_op(Op::Peek));
        assert_eq!((peeked.allowed, peeked.remaining), (false, Some(0)), "{surface:?}");
    }
    assert_eq!(node.connection().get(&auth_target("Udp", 0)).status, 200);
}

/// CO-05: a negative cost is no cost. It is refused, gives nothing back, and the connection goes on.
#[test]
fn a_negative_cost_is_refused_and_gives_nothing_back() {
    let node = Node::start(&Config::of_rate("1/h"));
    let mut connection = node.connection();
    assert_eq!(connection.get(&auth_target("drained", 1)).status, 200);
    for cost in ["-1", "-9223372036854775808", "1.5", "1e3", "18446744073709551616"] {
        let body = format!("{{\"key\":\"drained\",\"cost\":{cost}}}");
        let refused = connection.request("POST", "/v1/check", &[], body.as_bytes());
        assert_eq!(refused.status, 400, "{cost}: {refused:?}");
        assert!(refused.text().contains("whole number"), "{refused:?}");
        let refused = connection.get(&format!("/v1/auth?key=drained&cost={cost}"));
        assert_eq!(refused.status, 400, "{cost}: {refused:?}");
        assert_eq!(connection.get(&auth_target("drained", 1)).status, 429, "{cost}");
    }
    // A frame has no sign: these are costs beyond any capacity.
    for surface in Surface::FRAMES {
        let mut caller = node.caller(surface);
        for cost in [u64::MAX, i64::MIN.unsigned_abs()] {
            let denied = caller.decide(&check("", "drained").with_cost(cost));
            assert_eq!(numbers(&denied), (false, Some(0), None), "{surface:?}");
        }
        assert!(!caller.decide(&check("", "drained")).allowed, "{surface:?}");
    }
}

/// AR-06: no cost is so large that it wraps and passes.
#[test]
fn huge_costs_are_denied_and_wrap_nothing() {
    let node = Node::start(&Config::of_rate("1/86400s"));
    for surface in Surface::ALL {
        let key = format!("{surface:?}");
        let mut caller = node.caller(surface);
        for cost in [1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, u64::MAX] {
            let denied = caller.decide(&check("", &key).with_cost(cost));
            assert_eq!(numbers(&denied), (false, Some(1), None), "{surface:?} {cost}");
        }
        assert!(caller.decide(&check("", &key)).allowed, "{surface:?}");
        assert!(!caller.decide(&check("", &key)).allowed, "{surface:?}");
    }
    for cost in [1 << 31, u64::MAX] {
        assert_eq!(node.connection().get(&auth_target("auth", cost)).status, 429);
    }
    assert_eq!(node.connection().get(&auth_target("auth", 1)).status, 200);
}

/// AR-07: what remains counts down to 0 and stays there.
#[test]
fn remaining_counts_down_to_0_and_stays_there() {
    let node = Node::start(&Config::of_rate("3/h"));
    let expected = [2, 1, 0, 0, 0, 0];
    for surface in Surface::ALL {
        let key = format!("{surface:?}");
        let mut caller = node.caller(surface);
        let told = expected.map(|_| caller.decide(&check("", &key)).remaining);
        assert_eq!(told, expected.map(Some), "{surface:?}");
    }
    let mut connection = node.connection();
    let told =
        expected.map(|_| connection.get(&auth_target("auth", 1)).number("X-RateLimit-Remaining"));
    assert_eq!(told, expected);
}

/// AR-09: a wait is rounded up, to the millisecond in JSON and frames, to the second in headers.
#[test]
fn waits_are_rounded_up() {
    let node =
        Node::start(&Config::new("[[limit]]\nname = \"slow\"\nrate = \"2/3s\"\nburst = 1\n"));
    for surface in Surface::ALL {
        let key = format!("{surface:?}");
        let mut caller = node.caller(surface);
        let stopwatch = Stopwatch::start();
        assert!(caller.decide(&check("", &key)).allowed);
        let wait_ms = caller.decide(&check("", &key)).retry_after_ms.expect("a wait helps");
        let least_ms = 1_500_u64.saturating_sub(stopwatch.elapsed_ms());
        assert!((least_ms..=1_500).contains(&wait_ms), "{surface:?}: {wait_ms}");
        // Both in one question: nothing has elapsed between them.
        let both = format!("{key}, both");
        let answers = caller.ask_all(&[check("", &both), check("", &both)]);
        let denied = answers[1].as_ref().expect("a decision");
        assert_eq!(numbers(denied), (false, Some(0), Some(1_500)), "{surface:?}");
    }
    let mut connection = node.connection();
    let stopwatch = Stopwatch::start();
    connection.get(&auth_target("auth", 1));
    let denied = connection.get(&auth_target("auth", 1));
    let wait_s = denied.number("Retry-After");
    let least_s = 1_500_u64.saturating_sub(stopwatch.elapsed_ms()).div_ceil(1_000).max(1);
    assert!((least_s..=2).contains(&wait_s), "{wait_s}");
}

/// AR-09: whoever waits as told passes.
#[test]
fn waiting_as_told_passes() {
    let node =
        Node::start(&Config::new("[[limit]]\nname = \"quick\"\nrate = \"30/s\"\nburst = 1\n"));
    for surface in Surface::ALL {
        let key = format!("{surface:?}");
        let mut caller = node.caller(surface);
        let mut waits = 0;
        while waits < 10 {
            let answer = caller.decide(&check("", &key));
            if !answer.allowed {
                pause(Duration::from_millis(answer.retry_after_ms.expect("a wait helps")));
                assert!(caller.decide(&check("", &key)).allowed, "{surface:?} after {answer:?}");
                waits += 1;
            }
        }
    }
    let mut connection = node.connection();
    while connection.get(&auth_target("auth", 1)).status == 200 {}
    pause(Duration::from_secs(1));
    assert_eq!(connection.get(&auth_target("auth", 1)).status, 200);
}

/// PR-16: what is denied at one door is denied at all, and looks denied.
#[test]
fn a_denial_looks_like_one_at_every_door() {
    let node = Node::start(&Config::of_rate("5/h"));
    for (cost, expected) in [(1, 5), (2, 2), (6, 0)] {
        let pattern: Vec<bool> = (0..10).map(|call| call < expected).collect();
        for surface in Surface::ALL {
            let key = format!("{surface:?} {cost}");
            let mut caller = node.caller(surface);
            let request = check("", &key).with_cost(cost);
            let told: Vec<bool> = pattern.iter().map(|_| caller.decide(&request).allowed).collect();
            assert_eq!(told, pattern, "{surface:?}, cost {cost}");
        }
        for (denied, key) in [(429, "auth"), (403, "auth-403")] {
            let target = format!("{}&deny={denied}", auth_target(&format!("{key} {cost}"), cost));
            let mut connection = node.connection();
            let told: Vec<u16> = pattern.iter().map(|_| connection.get(&target).status).collect();
            let statuses: Vec<u16> =
                pattern.iter().map(|allowed| if *allowed { 200 } else { denied }).collect();
            assert_eq!(told, statuses, "cost {cost}");
        }
    }
}

/// Debits are never denied and are paid back; refunds give back, and never above the capacity.
#[test]
fn debits_and_refunds_are_the_same_at_every_door() {
    let node = Node::start(&Config::of_rate("10/h"));
    for surface in Surface::ALL {
        let key = format!("{surface:?}");
        let request = |op, cost| check("", &key).with_op(op).with_cost(cost);
        let asked = [
            request(Op::Check, 8),
            request(Op::Debit, 4),
            request(Op::Check, 1),
            request(Op::Refund, 3),
            request(Op::Check, 1),
            request(Op::Refund, 1_000),
        ];
        let told: Vec<_> = node
            .caller(surface)
            .ask_all(&asked)
            .into_iter()
            .map(|it| it.map(|answer| (answer.allowed, answer.remaining)))
            .collect();
        let expected = [
            Ok((true, Some(2))),
            Ok((true, Some(0))),
            Ok((false, Some(0))),
            Ok((true, Some(1))),
            Ok((true, Some(0))),
            Ok((true, Some(10))),
        ];
        assert_eq!(told, expected, "{surface:?}");
    }
}
