//! The corners of HTTP/1.1: what a client may say in more than one way, and what no two programs may read
//! differently.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::config::PLENTY;
use crate::support::http::request_bytes;
use crate::support::time::PATIENCE;
use crate::support::{Config, Node, wait_until};

const BODY: &str = r#"{"key":"alice"}"#;

/// Sends `bytes` over a connection of their own and reads what comes until the node closes it.
#[track_caller]
fn said_until_closed(node: &Node, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(node.http()).expect("the node listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream.write_all(bytes).expect("it is sent");
    let mut said = Vec::new();
    stream.read_to_end(&mut said).expect("the node closes");
    String::from_utf8(said).expect("text")
}

/// The statuses in what a node said.
fn statuses(said: &str) -> Vec<&str> {
    let lines = said.lines().filter(|line| line.starts_with("HTTP/1."));
    lines.filter_map(|line| line.split(' ').nth(1)).collect()
}

/// A question in a body, with the `headers` that say how long it is.
fn post(headers: &str, body: &str) -> String {
    format!("POST /v1/check HTTP/1.1\r\nHost: x\r\n{headers}\r\n{body}")
}

/// What is left of the key of [`BODY`], by a peek that spends nothing.
#[track_caller]
fn left(node: &Node) -> u64 {
    let peek = br#"{"key":"alice","op":"peek"}"#;
    let response = node.connection().request("POST", "/v1/check", &[], peek);
    response.json()["remaining"].as_u64().expect("a number")
}

/// Waits until `count` errors of `kind` are counted: the node ends a connection before it counts why.
#[track_caller]
fn wait_until_counted(node: &Node, kind: &str, count: u64) {
    wait_until("every refusal is counted", PATIENCE, || {
        node.metrics().errors("http", kind) == count
    });
}

/// A request behind another that ends the connection once it is answered.
const LAST: &str = "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

#[test]
fn a_client_that_waits_for_leave_to_send_its_body_gets_it() {
    let node = Node::start(&Config::with_plenty());
    let mut connection = node.connection();
    let length = BODY.len();
    let head = post(&format!("Expect: 100-continue\r\nContent-Length: {length}\r\n"), "");
    for spent in 1..=2 {
        connection.send(head.as_bytes()).expect("it is sent");
        assert_eq!(connection.receive().expect("leave").status, 100);
        connection.send(BODY.as_bytes()).expect("it is sent");
        let response = connection.receive().expect("an answer");
        assert_eq!(
            (response.status, &response.json()["remaining"]),
            (200, &(PLENTY - spent).into())
        );
    }
    // Where no body comes there is nothing to wait for.
    let response = connection.request("GET", "/livez", &[("Expect", "100-continue")], b"");
    assert_eq!((response.status, &*response.text()), (200, "alive\n"));
}

#[test]
fn a_body_in_chunks_is_one_body_and_ends_where_it_says() {
    let node = Node::start(&Config::with_plenty());
    let (first, second) = BODY.split_at(6);
    let chunks = format!(
        "{:x}\r\n{first}\r\n{:X};note=1\r\n{second}\r\n0\r\nTrailer: x\r\n\r\n",
        first.len(),
        second.len()
    );
    let question = post("Transfer-Encoding: chunked\r\n", &chunks);
    let mut connection = node.connection();
    connection.send(question.repeat(3).as_bytes()).expect("it is sent");
    for spent in 1..=3 {
        let response = connection.receive().expect("an answer");
        assert_eq!(
            (response.status, &response.json()["remaining"]),
            (200, &(PLENTY - spent).into())
        );
    }
}

/// A gateway in front may take another of two lengths for the true one: what follows could then be a
/// request that nobody let through. So it is not read.
#[test]
fn nothing_is_read_behind_a_body_whose_length_is_in_doubt() {
    let node = Node::start(&Config::with_plenty());
    let length = BODY.len();
    let refused = [
        format!("Content-Length: {length}\r\nContent-Length: {}\r\n", length + 1),
        format!("Content-Length: +{length}\r\n"),
        format!("Content-Length: -{length}\r\n"),
        format!("Content-Length: {length}, {}\r\n", length + 1),
        "Content-Length: 99999999999999999999\r\n".to_owned(),
        "Transfer-Encoding: gzip\r\n".to_owned(),
        format!("Transfer-Encoding: xchunked\r\nContent-Length: {length}\r\n"),
    ];
    for headers in &refused {
        let said = said_until_closed(&node, (post(headers, BODY) + LAST).as_bytes());
        assert_eq!(statuses(&said), ["400"], "{headers}");
    }
    let counted = u64::try_from(refused.len()).expect("a few");
    wait_until_counted(&node, "malformed", counted);
    for size in ["zz", "ffffffffffffffffff", "-1"] {
        let bytes = post("Transfer-Encoding: chunked\r\n", &format!("{size}\r\n"));
        let said = said_until_closed(&node, (bytes + LAST).as_bytes());
        assert_eq!(statuses(&said), ["400"], "{size}");
        assert!(said.contains("application/problem+json"), "{said}");
    }
    assert_eq!(left(&node), PLENTY, "nothing was charged");

    // Chunks go before a length, and the connection ends with the answer.
    let chunks = format!("{length:x}\r\n{BODY}\r\n0\r\n\r\n");
    for headers in [
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
    ] {
        let said = said_until_closed(&node, (post(headers, &chunks) + LAST).as_bytes());
        assert_eq!(statuses(&said), ["200"], "{headers}");
        assert!(said.contains("connection: close"), "{said}");
    }
    assert_eq!(left(&node), PLENTY - 2);
}

#[test]
fn a_body_that_is_not_asked_for_is_passed_over() {
    let node = Node::start(&Config::with_plenty());
    let question = "GET /v1/auth?key=alice HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello";
    let said = said_until_closed(&node, [question, LAST].concat().as_bytes());
    assert_eq!(statuses(&said), ["200", "200"]);
    assert!(said.ends_with("alive\n"), "{said}");
}

#[test]
fn nothing_is_read_behind_a_request_that_ends_the_connection() {
    let node = Node::start(&Config::with_plenty());
    let question = "GET /v1/auth?key=alice HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let said = said_until_closed(&node, question.repeat(3).as_bytes());
    assert_eq!(statuses(&said), ["200"]);
    assert_eq!(left(&node), PLENTY - 1);
}

#[test]
fn head_is_answered_without_a_body_and_asks_nothing() {
    let node = Node::start(&Config::with_plenty());
    let head = |target: &str| {
        let head = format!("HEAD {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        said_until_closed(&node, head.as_bytes())
    };
    let said = head("/livez");
    assert_eq!(statuses(&said), ["200"]);
    assert!(said.contains("\r\ncontent-length: 6\r\n") && said.ends_with("\r\n\r\n"), "{said}");
    for (target, allowed) in [("/v1/auth?key=alice", "GET"), ("/v1/check", "POST")] {
        let said = head(target);
        assert_eq!(statuses(&said), ["405"], "{target}");
        assert!(said.contains(&format!("\r\nallow: {allowed}\r\n")), "{said}");
        assert!(said.ends_with("\r\n\r\n"), "{said}");
    }
    assert_eq!(left(&node), PLENTY);
}

#[test]
fn methods_that_ask_about_the_door_are_refused_with_those_that_it_takes() {
    let node = Node::start(&Config::with_plenty());
    let mut connection = node.connection();
    for method in ["OPTIONS", "TRACE", "PUT", "NEW-ONE"] {
        for (target, allowed) in [("/v1/check", "POST"), ("/v1/auth?key=alice", "GET")] {
            let response = connection.request(method, target, &[], b"");
            assert_eq!(response.status, 405, "{method} {target}");
            assert_eq!(response.header("Allow"), Some(allowed), "{method} {target}");
            assert_eq!(response.header("Content-Type"), Some("application/problem+json"));
        }
    }
    assert_eq!(left(&node), PLENTY);
}

#[test]
fn a_url_with_a_host_in_it_is_the_same_as_one_without() {
    let node = Node::start(&Config::with_plenty());
    let mut connection = node.connection();
    for (spent, target) in [(1, "http://elsewhere:1/v1/auth?key=alice"), (2, "/v1/auth?key=alice")]
    {
        let response = connection.get(target);
        assert_eq!(response.status, 200, "{target}");
        assert_eq!(response.number("X-RateLimit-Remaining"), PLENTY - spent);
    }
}

#[test]
fn http_1_0_ends_the_connection_unless_it_asks_to_keep_it() {
    let node = Node::start(&Config::with_plenty());
    let once = "GET /livez HTTP/1.0\r\n\r\n";
    let said = said_until_closed(&node, once.as_bytes());
    assert!(said.starts_with("HTTP/1.0 200 ") && said.ends_with("alive\n"), "{said}");
    let kept = "GET /livez HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    let said = said_until_closed(&node, [kept, kept, once].concat().as_bytes());
    assert_eq!(statuses(&said), ["200", "200", "200"]);
}

/// At each bound the last that is taken and the first that is not.
#[test]
fn a_url_and_the_number_of_headers_are_taken_up_to_their_bounds() {
    let node = Node::start(&Config::with_plenty());
    let with_headers = |count: usize| {
        // `Host` and `Connection` are two of them.
        let more: String = (2..count).map(|number| format!("X{number}: y\r\n")).collect();
        format!("GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{more}\r\n")
    };
    let of_length = |bytes: usize| {
        let rest = "a".repeat(bytes - 1);
        format!("GET /{rest} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    };
    for (request, status) in [
        (with_headers(100), "200"),
        (with_headers(101), "431"),
        (of_length(65_534), "404"),
        (of_length(65_535), "414"),
    ] {
        let said = said_until_closed(&node, request.as_bytes());
        assert_eq!(statuses(&said), [status]);
    }
    wait_until_counted(&node, "too_large", 2);
}

/// Each ends its own connection, spends nothing, and is counted.
#[test]
fn what_is_not_http_is_refused_before_it_is_a_question() {
    let node = Node::start(&Config::with_plenty());
    let asks = "GET /v1/auth?key=alice HTTP/1.1\r\nHost: x\r\n";
    let refused: [Vec<u8>; 6] = [
        format!("{asks}X: a\r\n b\r\n\r\n").into(),
        format!("{asks}X : a\r\n\r\n").into(),
        format!("{asks}X: \0\r\n\r\n").into(),
        b"GET /v1/auth?key=alice HTTP/2.0\r\nHost: x\r\n\r\n".into(),
        b"GET /v1/auth?key=alice bob HTTP/1.1\r\nHost: x\r\n\r\n".into(),
        b"GET /v1/auth?key=alice\xff HTTP/1.1\r\nHost: x\r\n\r\n".into(),
    ];
    for bytes in &refused {
        let shown = String::from_utf8_lossy(bytes);
        assert_eq!(statuses(&said_until_closed(&node, bytes)), ["400"], "{shown}");
    }
    // Another protocol is told nothing that it could not read.
    assert_eq!(said_until_closed(&node, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "");
    wait_until_counted(&node, "malformed", 7);
    assert_eq!(left(&node), PLENTY);
    let good = [request_bytes("GET", "/livez", &[], b""), LAST.into()].concat();
    assert_eq!(statuses(&said_until_closed(&node, &good)), ["200", "200"]);
}

/// Which host is meant may decide in front of the node: two programs must not read it differently.
#[test]
fn a_request_names_one_host() {
    let node = Node::start(&Config::with_plenty());
    let body = format!("Content-Length: {}\r\n", BODY.len());
    for hosts in ["", "Host: a\r\nHost: a\r\n", "Host: a\r\nhost: b\r\n"] {
        let question = format!("POST /v1/check HTTP/1.1\r\n{hosts}{body}\r\n{BODY}");
        let said = said_until_closed(&node, question.as_bytes());
        assert_eq!(statuses(&said), ["400"], "{hosts}");
        assert!(said.contains("the header `Host` once"), "{said}");
    }
    wait_until_counted(&node, "malformed", 3);
    assert_eq!(left(&node), PLENTY, "nothing was charged");
    let old = format!("POST /v1/check HTTP/1.0\r\n{body}\r\n{BODY}");
    assert_eq!(statuses(&said_until_closed(&node, old.as_bytes())), ["200"]);
}
