//! One limit, every door: the same numbers whoever asks and however, and however badly others behave.

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::support::caller::{json_of, read_frame};
use crate::support::config::PLENTY;
use crate::support::http::request_bytes;
use crate::support::process::memory_kib;
use crate::support::time::PATIENCE;
use crate::support::{Answer, Config, HttpConnection, Node, Stopwatch, Surface, check, frame_of};

const LIMIT: u64 = 100;
/// What one unit takes to come back at 100 an hour.
const UNIT_MS: u64 = 36_000;

/// Asks `LIMIT` + 1 times for a key of its own, one at a time.
fn ask_until_denied(node: &Node, surface: Surface) -> (Vec<Answer>, Stopwatch) {
    let mut caller = node.caller(surface);
    let stopwatch = Stopwatch::start();
    let key = format!("{surface:?}");
    let answers = (0..=LIMIT).map(|_| caller.decide(&check("GET /", &key))).collect();
    (answers, stopwatch)
}

/// The 101st of 100 is denied with the right wait, at each door with the same numbers.
#[test]
fn the_101st_of_100_is_denied_with_the_same_numbers_at_every_door() {
    let node = Node::start(&Config::of_rate("100/h"));
    for surface in Surface::ALL {
        let (answers, stopwatch) = ask_until_denied(&node, surface);
        let (denied, allowed) = answers.split_last().expect("answers");
        for (left, answer) in (0..LIMIT).rev().zip(allowed) {
            let expected = (true, "per-key", "ok", "alone", Some(LIMIT), Some(left));
            assert_eq!(answer.timeless(), expected, "{surface:?}");
            assert_eq!((answer.retry_after_ms, answer.delay_ms), (Some(0), Some(0)));
        }
        let expected = (false, "per-key", "limit", "alone", Some(LIMIT), Some(0));
        assert_eq!(denied.timeless(), expected, "{surface:?}");
        let wait_ms = denied.retry_after_ms.expect("a wait helps");
        let least_ms = UNIT_MS.saturating_sub(stopwatch.elapsed_ms());
        assert!((least_ms..=UNIT_MS).contains(&wait_ms), "{surface:?}: {wait_ms} ms");
    }
}

/// All checks of one frame, or of one body, are decided at one time, so the numbers are
/// exact to the millisecond.
#[test]
fn the_101st_of_100_in_one_question_waits_36_seconds_to_the_millisecond() {
    let node = Node::start(&Config::of_rate("100/h"));
    for surface in Surface::ALL {
        let key = format!("{surface:?}");
        let checks: Vec<_> = (0..=LIMIT).map(|_| check("GET /", &key)).collect();
        let answers = node.caller(surface).ask_all(&checks);
        let answers: Vec<_> = answers.into_iter().map(|it| it.expect("a decision")).collect();
        let remaining: Vec<_> = answers.iter().map(|answer| answer.remaining).collect();
        let expected: Vec<_> = (0..LIMIT).rev().chain([0]).map(Some).collect();
        assert_eq!(remaining, expected, "{surface:?}");
        let denied = answers.last().expect("answers");
        assert!(!denied.allowed);
        assert_eq!(denied.retry_after_ms, Some(UNIT_MS), "{surface:?}");
        assert_eq!(denied.reset_after_ms, Some(3_600_000), "{surface:?}");
    }
}

/// The gateway's door says it with a status and headers.
#[test]
fn the_gateways_door_answers_200_and_then_429() {
    let node = Node::start(&Config::of_rate("100/h"));
    let mut connection = HttpConnection::tcp(node.http()).expect("the node listens");
    let stopwatch = Stopwatch::start();
    for left in (0..LIMIT).rev() {
        let response = connection.get("/v1/auth?key=alice&endpoint=GET%20/");
        assert_eq!(response.status, 200, "{response:?}");
        assert_eq!(response.number("X-RateLimit-Limit"), LIMIT);
        assert_eq!(response.number("X-RateLimit-Remaining"), left);
        assert_eq!(response.header("Retry-After"), None);
    }
    let denied = connection.get("/v1/auth?key=alice&endpoint=GET%20/");
    assert_eq!(denied.status, 429, "{denied:?}");
    assert_eq!(denied.number("X-RateLimit-Remaining"), 0);
    let wait_s = denied.number("Retry-After");
    let least_s = UNIT_MS.saturating_sub(stopwatch.elapsed_ms()).div_ceil(1_000);
    assert!((least_s..=36).contains(&wait_s), "{wait_s} s");
    assert_eq!(denied.header("Content-Type"), Some("application/problem+json"));
    assert_eq!(denied.json()["limit_name"], "per-key");
    assert_eq!(connection.get("/v1/auth?key=alice&deny=403").status, 403);
}

/// The answers survive clients that die in the middle of a question or of its answer.
#[test]
fn clients_that_die_in_the_middle_charge_nothing_and_stop_nobody() {
    let node = Node::start(&Config::of_rate("100/h"));
    let request = check("GET /", "alice");
    let frame = frame_of(1, std::slice::from_ref(&request));
    let body = json_of(&request).to_string();
    let question = request_bytes("POST", "/v1/check", &[], body.as_bytes());
    for cut in [1, 19, 20, 30, frame.len() - 1] {
        for surface in Surface::FRAMES {
            node.caller(surface).send(&frame[..cut]).expect("it is sent");
        }
    }
    for cut in [1, 20, question.len() - body.len(), question.len() - 1] {
        // Closed in two ways: with an end, and with a reset as of a process that was killed.
        let mut stream = TcpStream::connect(node.http()).expect("the node listens");
        stream.write_all(&question[..cut]).expect("it is sent");
        drop(stream);
        let mut stream = TcpStream::connect(node.http()).expect("the node listens");
        stream.write_all(&question[..cut]).expect("it is sent");
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("a TCP option");
        drop(stream);
        let mut stream = UnixStream::connect(node.http_path()).expect("the node listens");
        stream.write_all(&question[..cut]).expect("it is sent");
    }
    for (left, surface) in (0..LIMIT).rev().zip(Surface::ALL) {
        assert_eq!(node.caller(surface).decide(&request).remaining, Some(left), "{surface:?}");
    }
}

/// A client that asks and does not read is not read from either, costs no memory, holds up
/// nobody, and gets every answer in the end.
#[test]
fn a_slow_reader_holds_up_nobody_and_loses_nothing() {
    /// Their answers are several times what the sockets and the node hold.
    const FRAMES: u64 = 20_000;
    let node = Node::start(&Config::with_plenty());
    let mut stream = UnixStream::connect(node.stream_path()).expect("the node listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream.set_write_timeout(Some(PATIENCE)).expect("a time-out");
    let mut writer = stream.try_clone().expect("a second handle");
    let memory_before_kib = memory_kib(node.id());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for id in 0..FRAMES {
                writer.write_all(&frame_of(id, &[check("GET /", "slow")])).expect("it is sent");
            }
        });
        for surface in Surface::ALL {
            let mut caller = node.caller(surface);
            for _ in 0..20 {
                assert!(caller.decide(&check("GET /", "other")).allowed);
            }
        }
        let grown_kib = memory_kib(node.id()).saturating_sub(memory_before_kib);
        assert!(grown_kib < 16 * 1024, "{grown_kib} KiB for one slow reader");
        for id in 0..FRAMES {
            let frame = read_frame(&mut stream).expect("a frame");
            match wire::decode_reply(&frame).expect("a reply") {
                wire::ServerFrame::Reply(reply) => {
                    assert_eq!(reply.id, id);
                    let answer = reply.answers().next().expect("an answer").expect("a decision");
                    assert_eq!(answer.remaining, Some(PLENTY - 1 - id));
                }
                other => panic!("{other:?}"),
            }
        }
    });
}
