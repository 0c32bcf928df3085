//! Keys are opaque bytes: never empty, never cut, and the same bucket whichever door they come by.

use std::time::Duration;

use limiter::Request;

use crate::support::http::percent_encoded;
use crate::support::process::memory_kib;
use crate::support::{Config, Node, Refusal, Surface, check, pause};

/// KY-02: an empty key is refused at every door, and is nobody's bucket.
#[test]
fn an_empty_key_is_refused_at_every_door() {
    let node = Node::start(&Config::of_rate("1/h"));
    for surface in Surface::ALL {
        let mut caller = node.caller(surface);
        for _ in 0..2 {
            match caller.ask(&check("GET /", "")) {
                Err(Refusal::Status(wire::Status::KeyEmpty)) => {}
                Err(Refusal::Http(400, message)) => assert!(message.contains("key"), "{message}"),
                other => panic!("{surface:?}: {other:?}"),
            }
        }
        assert_eq!(caller.decide(&check("GET /", "somebody")).limit, Some(1));
    }
    for target in ["/v1/auth?key=", "/v1/auth?key_b64=", "/v1/auth"] {
        assert_eq!(node.connection().get(target).status, 400, "{target}");
    }
}

/// KY-02: the table never holds more keys than it may, whichever keys come.
#[test]
fn the_table_never_holds_more_than_its_cap() {
    let tables = "[memory]\nmax_entries = 2\n\
                  [[limit]]\nname = \"per-key\"\nrate = \"1000/s\"\nburst = 1\n";
    let node = Node::start(&Config::new(tables));
    let mut caller = node.caller(Surface::Stream);
    for key in ["", "a", "b", "c", "d", "a"] {
        let answer = caller.ask(&check("GET /", key));
        assert_eq!(answer.is_ok_and(|it| it.allowed), !key.is_empty(), "{key}");
        let entries = node.metrics().sum("rlnode_entries", &[]);
        assert!(entries <= 2, "{entries} after `{key}`");
        // A thousandth of a second brings a bucket of this limit to rest.
        pause(Duration::from_millis(5));
    }
}

/// KY-03: keys that differ in the last byte alone are two keys, up to the longest.
#[test]
fn long_keys_that_differ_in_their_last_byte_are_two() {
    let node = Node::start(&Config::of_rate("1/h"));
    for surface in Surface::ALL {
        let mut caller = node.caller(surface);
        for length in [255, 256, 257, limiter::KEY_BYTES_MAX] {
            let start = format!("{surface:?}");
            let pair = ["a", "b"].map(|last| format!("{start:-<0$}{last}", length - 1));
            for is_first in [true, false] {
                for key in &pair {
                    assert_eq!(key.len(), length);
                    let answer = caller.decide(&check("", key));
                    assert_eq!(answer.allowed, is_first, "{surface:?}, {length} bytes");
                }
            }
        }
    }
}

/// KY-03: longer keys are refused, not cut, and cost no memory.
#[test]
fn keys_that_are_too_long_are_refused_and_cost_no_memory() {
    let node = Node::start(&Config::of_rate("1/h"));
    let too_long = "k".repeat(limiter::KEY_BYTES_MAX + 1);
    for surface in Surface::ALL {
        match node.caller(surface).ask(&check("", &too_long)) {
            Err(Refusal::Status(wire::Status::KeyTooLong) | Refusal::Http(400, _)) => {}
            other => panic!("{surface:?}: {other:?}"),
        }
    }
    assert_eq!(node.connection().get(&format!("/v1/auth?key={too_long}")).status, 400);
    for length in [1 << 16, 1 << 20] {
        let refused = node.caller(Surface::Http).ask(&check("", &"k".repeat(length)));
        assert!(matches!(refused, Err(Refusal::Http(413, _))), "{refused:?}");
    }

    let memory_before_kib = memory_kib(node.id());
    let mut caller = node.caller(Surface::Stream);
    for number in 0..2_000 {
        let key = format!("{number:>65000}");
        let refused = caller.ask(&check("", &key));
        assert_eq!(refused, Err(Refusal::Status(wire::Status::KeyTooLong)));
    }
    let grown_kib = memory_kib(node.id()).saturating_sub(memory_before_kib);
    assert!(grown_kib < 50 * 1024, "{grown_kib} KiB");
    assert_eq!(node.metrics().sum("rlnode_entries", &[]), 0);
}

/// KY-07: one key is one bucket at every door, and HTTP decodes it once.
#[test]
fn a_key_is_the_same_bucket_at_every_door() {
    const KEY: &str = "a:b c+d%2F";
    let node = Node::start(&Config::of_rate("7/h"));
    let in_query = format!("/v1/auth?key={}", percent_encoded(KEY.as_bytes()));
    let ask_everywhere = || {
        let mut answers: Vec<(bool, u64)> = Surface::ALL
            .into_iter()
            .map(|surface| {
                let answer = node.caller(surface).decide(&check("GET /", KEY));
                (answer.allowed, answer.remaining.expect("a count"))
            })
            .collect();
        let from_query = node.connection().get(&in_query);
        let header = [("X-RateLimit-Key", KEY)];
        let from_header = node.connection().request("GET", "/v1/auth", &header, b"");
        for response in [from_query, from_header] {
            answers.push((response.status == 200, response.number("X-RateLimit-Remaining")));
        }
        answers
    };
    assert_eq!(ask_everywhere(), (0..7).rev().map(|left| (true, left)).collect::<Vec<_>>());
    assert_eq!(ask_everywhere(), vec![(false, 0); 7]);
    for other in ["a:b c d%2F", "a:b c+d/", "a:b+c+d%2F", "a:b c d/"] {
        let answer = node.caller(Surface::Udp).decide(&check("GET /", other));
        assert_eq!(answer.remaining, Some(6), "{other}");
    }
}

/// Keys, endpoints and attributes that are no text at all are as good as others.
#[test]
fn keys_are_bytes() {
    let node = Node::start(&Config::of_rate("1/h"));
    for key in [&b"\0"[..], b"\xff\xfe", b"\r\n", b"a\0b", b"a\0c"] {
        let request = Request::check(b"\xff\0", key).with_attribute(b"\0", b"\xff");
        assert!(node.caller(Surface::Stream).decide(&request).allowed, "{key:?}");
        assert!(!node.caller(Surface::Udp).decide(&request).allowed, "{key:?}");
        let in_query = format!("/v1/auth?key={}", percent_encoded(key));
        assert_eq!(node.connection().get(&in_query).status, 429, "{key:?}");
    }
}
