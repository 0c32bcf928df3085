//! The metrics: every check counted once, nothing that grows with the keys, everything there from 0.

use std::time::Duration;

use limiter::{Op, Request};

use crate::support::time::PATIENCE;
use crate::support::{Config, Metrics, Node, Stopwatch, Surface, check, wait_until};

const TWO_LIMITS: &str = "[[limit]]\nname = \"api\"\nendpoint = \"/api/*\"\nrate = \"100/h\"\n\
                          [[limit]]\nname = \"login\"\nendpoint = \"/login\"\nrate = \"5/h\"\n";

/// MT-01: no number of keys, endpoints or clients adds a series, and a scrape stays quick.
#[test]
fn no_key_endpoint_or_client_adds_a_series() {
    let node = Node::start(&Config::new(TWO_LIMITS));
    node.caller(Surface::Udp).decide(&check("/api/x", "first"));
    let before = node.metrics();
    let mut caller = node.caller(Surface::Stream);
    let names: Vec<String> = (0..20_480).map(|number| format!("{number}")).collect();
    for names in names.chunks(256) {
        let requests: Vec<_> = names
            .iter()
            .enumerate()
            .map(|(at, name)| match at % 4 {
                0 => check(name, "alice"),
                _ => Request::check(b"/api/x", name.as_bytes()),
            })
            .collect();
        assert!(caller.ask_all(&requests).iter().all(Result::is_ok));
    }
    for _ in 0..200 {
        node.caller(Surface::Udp).decide(&check("/login", "ports"));
    }
    let mut fastest = Duration::MAX;
    for _ in 0..3 {
        let stopwatch = Stopwatch::start();
        let after = node.metrics();
        fastest = fastest.min(stopwatch.elapsed());
        assert_eq!(series_of(&after), series_of(&before));
        assert_eq!(after.sum("rlnode_unmatched_total", &[]), 20_480 / 4);
    }
    assert!(fastest < Duration::from_millis(100), "a scrape took {fastest:?}");
}

/// The names without the buckets of histograms, which appear as they fill.
fn series_of(metrics: &Metrics) -> Vec<String> {
    let is_steady = |name: &&str| !name.contains("_bucket");
    metrics.names().into_iter().filter(is_steady).map(str::to_owned).collect()
}

/// MT-03: allowed, denied and errors add up to the calls at each door; units are counted apart from
/// calls, peeks as peeks.
#[test]
fn every_check_is_counted_once() {
    let node = Node::start(&Config::of_rate("10/h"));
    for surface in Surface::ALL {
        let mut caller = node.caller(surface);
        for _ in 0..100 {
            caller.decide(&check("", "shared"));
        }
        for _ in 0..10 {
            caller.decide(&check("", "shared").with_op(Op::Peek));
            assert!(caller.ask(&check("", "")).is_err());
        }
        let own = format!("{surface:?}");
        for _ in 0..4 {
            caller.decide(&check("", &own).with_cost(3));
        }
        caller.decide(&check("", &own).with_op(Op::Debit).with_cost(2));
        caller.decide(&check("", &own).with_op(Op::Refund).with_cost(2));
    }
    // The door's own faults are not checks.
    for _ in 0..10 {
        node.caller(Surface::Stream).send(b"GET / HTTP/1.1\r\n\r\n").expect("it is sent");
        let refused = node.connection().request("POST", "/v1/check", &[], b"{");
        assert_eq!(refused.status, 400);
    }
    // Nobody waits for what a door says to garbage, so that the last of it may be counted later.
    wait_until("every fault is counted", PATIENCE, || {
        node.metrics().errors("stream", "malformed") == 10
    });
    let metrics = node.metrics();
    let mut passed = 0;
    for (door, surfaces) in [("udp", 1), ("stream", 1), ("seqpacket", 1), ("http", 2)] {
        let (allowed, denied) = (metrics.checks(door, "allowed"), metrics.checks(door, "denied"));
        assert_eq!(allowed + denied, 104 * surfaces, "{door}");
        assert_eq!(metrics.checks(door, "error"), 10 * surfaces, "{door}");
        assert_eq!(metrics.checks(door, "peek"), 10 * surfaces, "{door}");
        assert_eq!(metrics.checks(door, "debit"), surfaces, "{door}");
        assert_eq!(metrics.checks(door, "refund"), surfaces, "{door}");
        assert_eq!(metrics.errors(door, "bad_check"), 10 * surfaces, "{door}");
        passed += allowed;
    }
    assert_eq!(passed, 10 + 3 * 5);
    assert_eq!(metrics.errors("stream", "malformed"), 10);
    assert_eq!(metrics.errors("http", "malformed"), 10);
    let of_limit = |outcome| {
        let labels = [("limit", "per-key"), ("outcome", outcome)];
        metrics.sum("rlnode_decisions_total", &labels)
    };
    assert_eq!(of_limit("allowed"), passed);
    assert_eq!(of_limit("denied"), 104 * 5 - passed);
    assert_eq!(of_limit("peek"), 10 * 5);
}

/// MT-03: what the gateway's door lets through and refuses is counted like everything else.
#[test]
fn the_gateways_questions_are_counted() {
    let node = Node::start(&Config::of_rate("10/h"));
    let mut connection = node.connection();
    for _ in 0..30 {
        connection.get("/v1/auth?key=alice");
    }
    connection.get("/v1/auth?kye=alice");
    let metrics = node.metrics();
    assert_eq!(metrics.checks("http", "allowed"), 10);
    assert_eq!(metrics.checks("http", "denied"), 20);
    assert_eq!(metrics.errors("http", "malformed"), 1);
    assert_eq!(metrics.sum("rlnode_units_total", &[("limit", "per-key")]), 10);
}

/// MT-04: a limit that nobody has met yet is there at 0, and so is every kind of error.
#[test]
fn everything_is_there_at_0_from_the_start() {
    let node = Node::start(&Config::new(TWO_LIMITS));
    let start = node.metrics();
    for limit in ["api", "login"] {
        for outcome in ["allowed", "denied"] {
            let labels = [("limit", limit), ("outcome", outcome)];
            assert_eq!(start.sum("rlnode_decisions_total", &labels), 0);
        }
    }
    for surface in Surface::ALL {
        assert_eq!(start.checks(surface.door(), "allowed"), 0);
        assert_eq!(start.errors(surface.door(), "malformed"), 0);
    }
    assert_eq!(start.sum("rlnode_build_info", &[("version", env!("CARGO_PKG_VERSION"))]), 1);
    assert_eq!(start.sum("rlnode_build_info", &[("node", "n1")]), 1);

    node.caller(Surface::Udp).decide(&check("/login", "alice"));
    let after = node.metrics();
    assert_eq!(after.sum("rlnode_decisions_total", &[("limit", "login")]), 1);
    assert_eq!(after.sum("rlnode_decisions_total", &[("limit", "api")]), 0);
    assert_eq!(series_of(&after), series_of(&start));
}

/// `GET /v1/status` says the same as the metrics, in JSON.
#[test]
fn status_says_what_the_node_did() {
    let node = Node::start(&Config::of_rate("10/h"));
    for _ in 0..12 {
        node.caller(Surface::Stream).decide(&check("", "alice"));
    }
    let status = node.status();
    assert_eq!(status["node"], "n1");
    assert_eq!(status["readiness"], "ready");
    assert_eq!(status["freshness"], "alone");
    assert_eq!(status["entries"], 1);
    assert_eq!(status["limits"][0]["name"], "per-key");
    assert_eq!(status["limits"][0]["allowed"], 10);
    assert_eq!(status["limits"][0]["denied"], 2);
    assert_eq!(status["limits"][0]["units"], 10);
    let doors = status["doors"].as_array().expect("a list of doors");
    let stream = doors.iter().find(|door| door["door"] == "stream").expect("the stream door");
    assert_eq!(stream["checks"]["allowed"], 10);
    assert_eq!(stream["addresses"][0], node.stream_path().display().to_string());
}
