//! One bucket for all: whatever the number of connections, ports and threads, a limit is one number.

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use crate::support::caller::json_of;
use crate::support::http::request_bytes;
use crate::support::process::open_files;
use crate::support::{
    Config, Node, Noise, Refusal, Stopwatch, Surface, check, frame_of, wait_until,
};

/// CC-01: a check and its count are one step, across 64 connections over every door.
#[test]
fn of_64_connections_over_every_door_exactly_100_checks_pass() {
    of_64_connections_exactly_100_pass(&Node::start(&Config::of_rate("100/h")));
}

/// Asks `node`, which lets each key through 100 times, 100 times from each of 64 connections over all
/// doors: exactly 100 checks pass, and each remaining is told once.
pub(crate) fn of_64_connections_exactly_100_pass(node: &Node) {
    const CONNECTIONS: usize = 64;
    const CHECKS_EACH: usize = 100;
    let barrier = Barrier::new(CONNECTIONS);
    let passed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for surface in Surface::ALL.into_iter().cycle().take(CONNECTIONS) {
            let (barrier, passed) = (&barrier, &passed);
            scope.spawn(move || {
                let mut caller = node.caller(surface);
                barrier.wait();
                for _ in 0..CHECKS_EACH {
                    let answer = caller.decide(&check("GET /", "alice"));
                    if answer.allowed {
                        passed.lock().expect("no panic").push(answer.remaining.expect("a count"));
                    } else {
                        assert_eq!(answer.remaining, Some(0));
                    }
                }
            });
        }
    });
    let mut passed = passed.into_inner().expect("no panic");
    passed.sort_unstable();
    assert_eq!(passed, (0..100).collect::<Vec<_>>());
}

/// CC-06: no worker, port or connection has a bucket of its own.
#[test]
fn two_hundred_ports_and_fifty_connections_share_ten_units() {
    let node = Node::start(&Config::of_rate("10/h"));
    let request = check("GET /", "alice");
    let frame = frame_of(1, std::slice::from_ref(&request));
    let mut ports: Vec<_> = (0..200).map(|_| node.caller(Surface::Udp)).collect();
    let mut connections: Vec<_> = (0..50).map(|_| node.caller(Surface::Http)).collect();
    let question =
        request_bytes("POST", "/v1/check", &[], json_of(&request).to_string().as_bytes());
    for port in &mut ports {
        port.send(&frame).expect("it is sent");
    }
    for connection in &mut connections {
        connection.send(&question).expect("it is sent");
    }
    let mut passed = 0;
    for port in &mut ports {
        let bytes = port.receive().expect("an answer");
        match wire::decode_reply(&bytes).expect("a reply") {
            wire::ServerFrame::Reply(reply) => {
                let answer = reply.answers().next().expect("an answer").expect("a decision");
                passed += usize::from(answer.allowed);
            }
            other => panic!("{other:?}"),
        }
    }
    for connection in &mut connections {
        let response = connection.http().receive().expect("an answer");
        passed += usize::from(response.json()["allowed"] == true);
    }
    assert_eq!(passed, 10);
}

/// CC-05: checks of one frame that a second limit denies charge the first nothing, also when many
/// connections ask at once.
#[test]
fn a_denial_by_one_limit_charges_no_other() {
    let node = Node::start(&Config::new(
        "[[limit]]\nname = \"own\"\nrate = \"1/h\"\n\
         [[limit]]\nname = \"shared\"\nkey = \"*\"\nrate = \"10/h\"\n",
    ));
    let passed: usize = std::thread::scope(|scope| {
        let askers = Surface::ALL.map(|surface| {
            let node = &node;
            scope.spawn(move || {
                let mut caller = node.caller(surface);
                (0..20).filter(|_| caller.decide(&check("GET /", "x")).allowed).count()
            })
        });
        askers.map(|asker| asker.join().expect("no panic")).into_iter().sum()
    });
    assert_eq!(passed, 1);
    let answer = node.caller(Surface::Udp).decide(&check("GET /", "y"));
    assert!(answer.allowed);
    assert_eq!((answer.limit_name.as_str(), answer.remaining), ("own", Some(0)));
    let shared = node.metrics().sum("rlnode_units_total", &[("limit", "shared")]);
    assert_eq!(shared, 2, "one for x, one for y");
}

/// CC-07: a thousand requests that are half, malformed or dropped leave no lock held and nothing
/// open; afterwards each of a thousand keys is answered, and at once.
#[test]
fn failed_requests_leave_nothing_held() {
    let node = Node::start(&Config::of_rate("100/h"));
    let mut noise = Noise::seeded(7);
    node.caller(Surface::Stream).decide(&check("GET /", "first"));
    let files_before = open_files(node.id());
    let frame = frame_of(1, &[check("GET /", "cut")]);
    let mut spoiled = frame.clone();
    spoiled[20..22].copy_from_slice(&u16::MAX.to_le_bytes());
    for round in 0..1_000 {
        let cut = 1 + noise.below(frame.len() - 1);
        match round % 6 {
            0 => {
                let mut stream = UnixStream::connect(node.stream_path()).expect("it listens");
                stream.write_all(&frame[..cut]).expect("it is sent");
            }
            1 => node.caller(Surface::Seqpacket).send(&frame[..cut]).expect("it is sent"),
            2 => node.caller(Surface::Udp).send(&frame[..cut]).expect("it is sent"),
            3 => node.caller(Surface::Stream).send(&spoiled).expect("it is sent"),
            4 => {
                let mut stream = TcpStream::connect(node.http()).expect("it listens");
                let head =
                    "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"key\"";
                stream.write_all(head.as_bytes()).expect("it is sent");
            }
            _ => {
                let refused = node.connection().request("POST", "/v1/check", &[], b"{\"key\":[]}");
                assert_eq!(refused.status, 400);
            }
        }
    }
    let mut caller = node.caller(Surface::Stream);
    let mut times: Vec<Duration> = (0..1_000)
        .map(|number| {
            let stopwatch = Stopwatch::start();
            let answer = caller.decide(&check("GET /", &format!("key-{number}")));
            assert_eq!(answer.remaining, Some(99));
            stopwatch.elapsed()
        })
        .collect();
    times.sort_unstable();
    // All were answered. The slowest few may have waited for a processor that other tests keep busy.
    assert!(times[989] < Duration::from_millis(50), "{:?}", times[989]);
    drop(caller);
    wait_until("as few open files as before", Duration::from_secs(5), || {
        open_files(node.id()) <= files_before
    });
}

/// A frame that is refused as a whole decides none of its checks.
#[test]
fn a_refused_frame_charges_none_of_its_checks() {
    let node = Node::start(&Config::of_rate("100/h"));
    for surface in Surface::FRAMES {
        let mut caller = node.caller(surface);
        let mut frame = frame_of(9, &[check("GET /", "alice"), check("GET /", "alice")]);
        let last_record = frame.len() - 24;
        frame[last_record..last_record + 2].copy_from_slice(&u16::MAX.to_le_bytes());
        caller.send(&frame).expect("it is sent");
        let bytes = caller.receive().expect("an answer");
        let refusal = wire::decode_reply(&bytes).expect("a frame");
        assert!(
            matches!(
                refusal,
                wire::ServerFrame::Error { id: 9, code: wire::ErrorCode::Malformed, .. }
            ),
            "{refusal:?}"
        );
        assert_eq!(caller.decide(&check("GET /", surface.door())).remaining, Some(99));
    }
    assert_eq!(node.caller(Surface::Udp).decide(&check("GET /", "alice")).remaining, Some(99));
    let empty = node.caller(Surface::Udp).ask(&check("GET /", ""));
    assert_eq!(empty, Err(Refusal::Status(wire::Status::KeyEmpty)));
}
