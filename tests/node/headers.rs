//! The headers of the gateway's door: whole, in their units, and true.

use std::time::Duration;

use crate::support::time::unix_ms;
use crate::support::{Config, Node, Stopwatch, Surface, check, pause};

/// HD-01: the reset is told on every answer, allowed or not, and grows as units are spent.
#[test]
fn every_answer_tells_when_the_limit_is_full_again() {
    let node =
        Node::start(&Config::new("[[limit]]\nname = \"slow\"\nrate = \"1/10s\"\nburst = 5\n"));
    let mut connection = node.connection();
    let stopwatch = Stopwatch::start();
    for (call, spent) in [1, 2, 3, 4, 5, 5].into_iter().enumerate() {
        let asked_at_ms = unix_ms();
        let response = connection.get("/v1/auth?key=alice");
        let elapsed_ms = stopwatch.elapsed_ms();
        let is_allowed = call < 5;
        assert_eq!(response.status, if is_allowed { 200 } else { 429 });
        assert_eq!(response.number("X-RateLimit-Limit"), 5);
        assert_eq!(response.number("X-RateLimit-Remaining"), 5 - spent);
        assert_eq!(response.header("Retry-After").is_some(), !is_allowed);
        assert_eq!(response.header("RateLimit-Policy"), Some("\"slow\";q=5;w=50"));

        // To whoever may not go on it says when to come back, to all others when it is full again.
        let reset_s = spent * 10;
        let in_ms = if is_allowed { reset_s * 1_000 } else { 10_000 };
        let least_s = in_ms.saturating_sub(elapsed_ms).div_ceil(1_000);
        let left = response.header("RateLimit").expect("the header");
        let start = format!("\"slow\";r={};t=", 5 - spent);
        let t: u64 = left.strip_prefix(&start).expect(left).parse().expect("whole seconds");
        assert!((least_s..=in_ms / 1_000).contains(&t), "{left}");
        if !is_allowed {
            assert_eq!(response.number("Retry-After"), t);
        }

        // HD-02: this one is a date in Unix seconds. A second for the clocks to differ.
        let reset_at_s = response.number("X-RateLimit-Reset");
        let expected_s = (asked_at_ms + reset_s * 1_000 - elapsed_ms) / 1_000;
        assert!(reset_at_s.abs_diff(expected_s) <= 2, "{reset_at_s}, expected {expected_s}");
    }
}

/// HD-02: every door tells the same reset, each in its unit, and it comes true.
#[test]
fn the_reset_is_in_its_unit_and_comes_true() {
    let node = Node::start(&Config::new(
        "[[limit]]\nname = \"second\"\nattributes = { per = \"s\" }\nrate = \"1/s\"\n\
         [[limit]]\nname = \"minute\"\nattributes = { per = \"m\" }\nrate = \"1/60s\"\n\
         [[limit]]\nname = \"month\"\nattributes = { per = \"d\" }\nrate = \"1/30d\"\n",
    ));
    for (per, window_ms) in [("s", 1_000), ("m", 60_000), ("d", 2_592_000_000)] {
        for surface in Surface::ALL {
            let key = format!("{surface:?}");
            let asked_at_ms = unix_ms();
            let request = check("", &key).with_attribute(b"per", per.as_bytes());
            let answer = node.caller(surface).decide(&request);
            assert_eq!(answer.reset_after_ms, Some(window_ms), "{surface:?}");
            let reset_at_ms = answer.reset_at_ms.expect("a date");
            let expected = asked_at_ms + window_ms;
            // A second for a clock that is taken over once a second.
            assert!((expected - 1_000..expected + 2_000).contains(&reset_at_ms), "{surface:?}");
        }
    }
    let mut connection = node.connection();
    let first = connection.get("/v1/auth?key=auth&attr.per=s");
    let at_ms = first.number("X-RateLimit-Reset") * 1_000;
    assert_eq!(connection.get("/v1/auth?key=auth&attr.per=s").status, 429);
    pause(Duration::from_millis(at_ms.saturating_sub(unix_ms())));
    assert_eq!(connection.get("/v1/auth?key=auth&attr.per=s").status, 200);
}

/// HD-03: `Retry-After` is a whole number above 0 on each denial, and never on a success.
#[test]
fn retry_after_is_whole_and_above_0_on_each_denial() {
    let node = Node::start(&Config::of_rate("1/s"));
    let (allowed, denied) = allowed_and_denied(&node, Duration::from_millis(3_500));
    assert_eq!(allowed, 4, "at 0, 1, 2 and 3 seconds");
    assert!(denied > 100, "{denied}");
}

/// Asks `node` for one key as long as `time`, and says how often it was allowed and denied. `Retry-After`
/// is 1 on each denial and stands on no other answer.
pub(crate) fn allowed_and_denied(node: &Node, time: Duration) -> (u64, u64) {
    let mut connection = node.connection();
    let stopwatch = Stopwatch::start();
    let (mut allowed, mut denied) = (0, 0);
    while stopwatch.elapsed() < time {
        let response = connection.get("/v1/auth?key=alice");
        match response.status {
            200 => {
                assert_eq!(response.header("Retry-After"), None);
                allowed += 1;
            }
            429 => {
                assert_eq!(response.header("Retry-After"), Some("1"));
                denied += 1;
            }
            other => panic!("{other}: {response:?}"),
        }
    }
    (allowed, denied)
}

/// HD-06: the wait is exact, the same for all who were denied together: no jitter unless asked for.
#[test]
fn waits_are_exact_for_everybody() {
    let node = Node::start(&Config::of_rate("1/60s"));
    let mut caller = node.caller(Surface::Stream);
    for chunk in 0..80 {
        let keys: Vec<String> = (0..125).map(|number| format!("{chunk}-{number}")).collect();
        let twice: Vec<_> = keys.iter().chain(&keys).map(|key| check("", key)).collect();
        let answers = caller.ask_all(&twice);
        for answer in &answers[125..] {
            let answer = answer.as_ref().expect("a decision");
            assert_eq!((answer.allowed, answer.retry_after_ms), (false, Some(60_000)));
        }
    }
}

/// Several limits: each is listed, the deciding one first, and the numbers are its own.
#[test]
fn every_limit_that_applied_is_listed() {
    let node = Node::start(&Config::new(
        "[[limit]]\nname = \"wide\"\nkey = \"*\"\nrate = \"1000/h\"\n\
         [[limit]]\nname = \"narrow\"\nrate = \"2/h\"\n\
         [[limit]]\nname = \"watched\"\nrate = \"1/h\"\nshadow = true\n",
    ));
    let mut connection = node.connection();
    for (status, left) in [(200, 1), (200, 0), (429, 0)] {
        let response = connection.get("/v1/auth?key=alice");
        assert_eq!(response.status, status);
        assert_eq!(response.number("X-RateLimit-Limit"), 2);
        assert_eq!(response.number("X-RateLimit-Remaining"), left);
        let policy = "\"narrow\";q=2;w=3600, \"wide\";q=1000;w=3600";
        assert_eq!(response.header("RateLimit-Policy"), Some(policy));
        if status == 429 {
            assert_eq!(response.json()["violated-policies"], serde_json::json!(["narrow"]));
        }
    }
}

/// Headers tell the length of the window that is now: months differ.
#[test]
fn the_policy_of_a_calendar_window_is_the_length_of_this_one() {
    let node = Node::start(&Config::new(
        "[[limit]]\nname = \"month\"\nattributes = { per = \"month\" }\n\
         algorithm = \"fixed-window\"\nlimit = \"1000 per calendar-month\"\n\
         [[limit]]\nname = \"log\"\nattributes = { per = \"log\" }\n\
         algorithm = \"sliding-log\"\nlimit = \"5 per 15m\"\n\
         [[limit]]\nname = \"sliding\"\nattributes = { per = \"sliding\" }\n\
         algorithm = \"sliding-window\"\nlimit = \"100 per min\"\n",
    ));
    let mut connection = node.connection();
    let mut policy = |per: &str| {
        let response = connection.get(&format!("/v1/auth?key=k&attr.per={per}"));
        assert_eq!(response.status, 200);
        assert_eq!(
            response.number("X-RateLimit-Remaining") + 1,
            response.number("X-RateLimit-Limit")
        );
        response.header("RateLimit-Policy").expect("the header").to_owned()
    };
    assert_eq!(policy("log"), "\"log\";q=5;w=900");
    assert_eq!(policy("sliding"), "\"sliding\";q=100;w=60");
    let months = [28, 29, 30, 31].map(|days| format!("\"month\";q=1000;w={}", days * 86_400));
    let month = policy("month");
    assert!(months.contains(&month), "{month}");
}
