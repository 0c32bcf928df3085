//! Fixed windows at the doors of a real node: they begin and end by the wall clock, every answer says
//! when, and nobody gets more than one window for the pushing.

use std::time::Duration;

use crate::counting::of_64_connections_exactly_100_pass;
use crate::headers::allowed_and_denied;
use crate::support::time::unix_ms;
use crate::support::{Config, Node, Surface, check, pause};

/// A limit of windows.
fn windows(limit: &str) -> Config {
    Config::new(&format!(
        "[[limit]]\nname = \"windows\"\nalgorithm = \"fixed-window\"\nlimit = \"{limit}\"\n"
    ))
}

const DAY_MS: u64 = 86_400_000;
/// Windows that end while no test runs, but for one run in a million.
const LONG_MS: u64 = 30 * DAY_MS;
/// What the wall clock may be off in a second, and the milliseconds that are rounded up.
const ROUNDING_MS: u64 = 5;

/// The end of the window of this length that a time lies in: windows are counted from the Unix epoch.
fn end_of_window(unix_ms: u64, length_ms: u64) -> u64 {
    (unix_ms / length_ms + 1) * length_ms
}

/// HD-01: the end of the window is told on every answer, allowed or not, from the first to those after
/// the last; all headers are on all of them.
#[test]
fn every_answer_tells_when_the_window_ends() {
    let node = Node::start(&windows("5 per 30d"));
    let mut connection = node.connection();
    let end_s = end_of_window(unix_ms(), LONG_MS) / 1_000;
    for call in 0..6_u64 {
        let response = connection.get("/v1/auth?key=alice");
        let asked_at_s = unix_ms() / 1_000;
        assert_eq!(response.status, if call < 5 { 200 } else { 429 });
        assert_eq!(response.number("X-RateLimit-Limit"), 5);
        assert_eq!(response.number("X-RateLimit-Remaining"), 4_u64.saturating_sub(call));
        let reset_s = response.number("X-RateLimit-Reset");
        assert!((end_s..=end_s + 1).contains(&reset_s), "{reset_s}, and the end is {end_s}");
        assert_eq!(response.header("RateLimit-Policy"), Some("\"windows\";q=5;w=2592000"));
        let left = response.header("RateLimit").expect("the header");
        let start = format!("\"windows\";r={};t=", 4_u64.saturating_sub(call));
        let t: u64 = left.strip_prefix(&start).expect(left).parse().expect("whole seconds");
        assert!(t.abs_diff(end_s - asked_at_s) <= 1, "{left}, asked at {asked_at_s}");
        let retry_after = response.header("Retry-After");
        assert_eq!(retry_after, (call == 5).then(|| t.to_string()).as_deref());
    }
}

/// HD-02: for windows of a second, a minute and thirty days every door tells the end of the window that
/// the epoch gives, as a date and as a time to go, each in its unit; and it comes true.
#[test]
fn the_end_of_a_window_is_that_of_the_epoch_at_every_door() {
    let limit = |name: &str, limit: &str| {
        format!(
            "[[limit]]\nname = \"{name}\"\nendpoint = \"{name}\"\nalgorithm = \"fixed-window\"\n\
             limit = \"{limit}\"\n"
        )
    };
    let limits = [("second", "1 per 1s"), ("minute", "1 per min"), ("month", "1 per 30d")];
    let limits: String = limits.iter().map(|(name, it)| limit(name, it)).collect();
    let node = Node::start(&Config::new(&limits));
    for (name, length_ms) in [("second", 1_000), ("minute", 60_000), ("month", LONG_MS)] {
        for surface in Surface::ALL {
            let key = format!("{surface:?}");
            let mut caller = node.caller(surface);
            let before_ms = unix_ms();
            let answer = caller.decide(&check(name, &key));
            let after_ms = unix_ms();
            assert!(answer.allowed, "{surface:?}: {answer:?}");
            let reset_at_ms = answer.reset_at_ms.expect("a date");
            let ends = [before_ms, after_ms].map(|at| end_of_window(at, length_ms));
            let ends = ends[0] - ROUNDING_MS..=ends[1] + ROUNDING_MS;
            assert!(ends.contains(&reset_at_ms), "{surface:?}, {name}: {reset_at_ms}, {ends:?}");
            let reset_after_ms = answer.reset_after_ms.expect("a time");
            let expected = reset_at_ms - after_ms.min(reset_at_ms)..=reset_at_ms - before_ms;
            let slack = expected.start().saturating_sub(ROUNDING_MS)..=expected.end() + ROUNDING_MS;
            assert!(slack.contains(&reset_after_ms), "{surface:?}, {name}: {reset_after_ms}");
        }
    }
    // Within one window a second is denied, and at its end it passes.
    let mut caller = node.caller(Surface::Udp);
    loop {
        let first = caller.decide(&check("second", "true"));
        let second = caller.decide(&check("second", "true"));
        if first.allowed && !second.allowed {
            assert!(second.retry_after_ms.is_some_and(|it| (1..=1_000).contains(&it)));
            assert_eq!(second.reset_at_ms, first.reset_at_ms);
            pause(Duration::from_millis(second.retry_after_ms.expect("a wait helps")));
            assert!(caller.decide(&check("second", "true")).allowed);
            return;
        }
        // A window ended between the two.
        assert!(first.allowed || second.allowed || first.retry_after_ms.is_some());
        pause(Duration::from_millis(first.retry_after_ms.unwrap_or(0)));
    }
}

/// HD-03: over the ends of some three hundred windows `Retry-After` is 1 on each denial, never 0, less,
/// or a fraction; and no window lets more than one through.
#[test]
fn retry_after_is_1_over_the_ends_of_hundreds_of_windows() {
    const WINDOW_MS: u64 = 10;
    let node = Node::start(&windows("1 per 10ms"));
    let started_ms = unix_ms();
    let (allowed, denied) = allowed_and_denied(&node, Duration::from_secs(3));
    let windows = unix_ms() / WINDOW_MS - started_ms / WINDOW_MS + 1;
    // The wall clock of the node may have been told one millisecond later than ours.
    assert!(allowed <= windows + 1, "{allowed} in {windows} windows");
    assert!(allowed > 30 && denied > 100, "{allowed} and {denied}: the node was hardly asked");
}

/// HD-06: ten thousand that were denied in one window are all told its end: no jitter unless asked for.
#[test]
fn everybody_is_told_the_end_of_the_window() {
    let node = Node::start(&windows("1 per 30d"));
    let mut caller = node.caller(Surface::Stream);
    let end_ms = end_of_window(unix_ms(), LONG_MS);
    for chunk in 0..80 {
        let keys: Vec<String> = (0..125).map(|number| format!("{chunk}-{number}")).collect();
        let twice: Vec<_> = keys.iter().chain(&keys).map(|key| check("", key)).collect();
        let answers = caller.ask_all(&twice);
        let told: Vec<_> =
            answers[125..].iter().map(|it| it.clone().expect("a decision")).collect();
        for answer in &told {
            assert_eq!((answer.allowed, answer.retry_after_ms), (false, told[0].retry_after_ms));
            let reset_at_ms = answer.reset_at_ms.expect("a date");
            assert!(reset_at_ms.abs_diff(end_ms) <= ROUNDING_MS, "{reset_at_ms}, {end_ms}");
        }
    }
}

/// CC-01: a check and its count are one step, across 64 connections over every door: of one window
/// exactly 100 pass, and each remaining is told once.
#[test]
fn of_64_connections_exactly_100_checks_pass_in_a_window() {
    of_64_connections_exactly_100_pass(&Node::start(&windows("100 per 30d")));
}

/// CC-05: what one window denies is charged to no other, in whichever order the limits stand, and also
/// when many ask at once.
#[test]
fn a_denial_by_one_window_charges_no_other() {
    let limit = |name: &str, key: &str, limit: u64| {
        format!(
            "[[limit]]\nname = \"{name}\"\nkey = \"{key}\"\nalgorithm = \"fixed-window\"\n\
             limit = \"{limit} per 30d\"\n"
        )
    };
    let (own, shared) = (limit("own", "{key}", 1), limit("shared", "*", 10));
    for limits in [format!("{own}{shared}"), format!("{shared}{own}")] {
        let node = Node::start(&Config::new(&limits));
        let passed: usize = std::thread::scope(|scope| {
            let askers: Vec<_> = Surface::ALL
                .into_iter()
                .cycle()
                .take(32)
                .map(|surface| {
                    let node = &node;
                    scope.spawn(move || {
                        let mut caller = node.caller(surface);
                        (0..20).filter(|_| caller.decide(&check("GET /", "x")).allowed).count()
                    })
                })
                .collect();
            askers.into_iter().map(|asker| asker.join().expect("no panic")).sum()
        });
        assert_eq!(passed, 1);
        assert!(node.caller(Surface::Udp).decide(&check("GET /", "y")).allowed);
        let units = node.metrics().sum("rlnode_units_total", &[("limit", "shared")]);
        assert_eq!(units, 2, "one for x, one for y");
    }
}
