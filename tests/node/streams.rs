//! Streams: frames and requests cut and joined in any way, and connections that do nothing.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::support::caller::{json_of, read_frame};
use crate::support::config::PLENTY;
use crate::support::http::request_bytes;
use crate::support::process::open_files;
use crate::support::time::PATIENCE;
use crate::support::{
    Config, HttpConnection, Node, Noise, Response, Stopwatch, Surface, check, frame_of, wait_until,
};

/// `count` frames that count one key down, with ids from 0.
fn frames(count: u64, key: &str) -> Vec<u8> {
    (0..count).flat_map(|id| frame_of(id, &[check("GET /", key)])).collect()
}

/// Sends `bytes` cut at every end in `cuts`, while the answers are read.
fn answers_to(node: &Node, bytes: &[u8], cuts: &[usize], answers: usize) -> Vec<Vec<u8>> {
    let mut stream = UnixStream::connect(node.stream_path()).expect("the node listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream.set_write_timeout(Some(PATIENCE)).expect("a time-out");
    let mut writer = stream.try_clone().expect("a second handle");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut begin = 0;
            for end in cuts.iter().copied().chain([bytes.len()]) {
                writer.write_all(&bytes[begin..end]).expect("it is sent");
                begin = end;
            }
        });
        (0..answers).map(|_| read_frame(&mut stream).expect("a frame")).collect()
    })
}

/// Expects one decision after the other, in the order of the questions, each one unit further.
#[track_caller]
fn assert_counts_down(answers: &[Vec<u8>]) {
    for (id, bytes) in (0..).zip(answers) {
        match wire::decode_reply(bytes).expect("a reply") {
            wire::ServerFrame::Reply(reply) => {
                let answer = reply.answers().next().expect("an answer").expect("a decision");
                assert_eq!((reply.id, answer.remaining), (id, Some(PLENTY - 1 - id)));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// PR-05: a thousand frames in one write.
#[test]
fn frames_joined_into_one_write_are_answered_in_order() {
    let node = Node::start(&Config::with_plenty());
    let answers = answers_to(&node, &frames(1_000, "joined"), &[], 1_000);
    assert_counts_down(&answers);
}

/// PR-05: one byte per write.
#[test]
fn frames_sent_byte_by_byte_are_answered() {
    let node = Node::start(&Config::with_plenty());
    let bytes = frames(200, "bytewise");
    let cuts: Vec<_> = (1..bytes.len()).collect();
    assert_counts_down(&answers_to(&node, &bytes, &cuts, 200));
}

/// PR-05: two and a half frames per write, and cuts anywhere.
#[test]
fn frames_cut_anywhere_are_answered() {
    let node = Node::start(&Config::with_plenty());
    let bytes = frames(1_000, "halves");
    let frame = bytes.len() / 1_000;
    let cuts: Vec<_> =
        (1..).map(|n| n * frame * 5 / 2).take_while(|at| *at < bytes.len()).collect();
    assert_counts_down(&answers_to(&node, &bytes, &cuts, 1_000));
    for seed in 0..5 {
        let key = format!("seed {seed}");
        let bytes = frames(1_000, &key);
        let mut noise = Noise::seeded(seed);
        let mut cuts: Vec<_> = (0..500).map(|_| noise.below(bytes.len())).collect();
        cuts.sort_unstable();
        assert_counts_down(&answers_to(&node, &bytes, &cuts, 1_000));
    }
}

/// PR-05: an error is answered in its place, and the frames behind it are answered too.
#[test]
fn a_frame_that_is_refused_is_answered_in_its_place() {
    let node = Node::start(&Config::with_plenty());
    let mut bytes = frames(3, "error");
    let frame = bytes.len() / 3;
    bytes[frame + 16] = 1;
    let answers = answers_to(&node, &bytes, &[], 3);
    let middle = wire::decode_reply(&answers[1]).expect("a frame");
    assert!(
        matches!(
            middle,
            wire::ServerFrame::Error { id: 1, code: wire::ErrorCode::UnknownFlags, .. }
        ),
        "{middle:?}"
    );
    for (answer, left) in [(&answers[0], PLENTY - 1), (&answers[2], PLENTY - 2)] {
        match wire::decode_reply(answer).expect("a reply") {
            wire::ServerFrame::Reply(reply) => {
                let answer = reply.answers().next().expect("an answer").expect("a decision");
                assert_eq!(answer.remaining, Some(left));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// PR-05: messages of a seqpacket socket, a thousand under way at once.
#[test]
fn messages_are_answered_in_order_however_many_are_under_way() {
    let node = Node::start(&Config::with_plenty());
    let mut caller = node.caller(Surface::Seqpacket);
    let mut answers = Vec::new();
    for batch in 0..20 {
        for id in batch * 50..(batch + 1) * 50 {
            caller.send(&frame_of(id, &[check("GET /", "messages")])).expect("it is sent");
        }
        answers.extend((0..50).map(|_| caller.receive().expect("an answer")));
    }
    assert_counts_down(&answers);
}

/// Sends requests over a kept connection in the given cuts and reads their answers.
fn responses_to(node: &Node, bytes: &[u8], cuts: &[usize], answers: usize) -> Vec<Response> {
    let mut connection = HttpConnection::tcp(node.http()).expect("the node listens");
    let mut begin = 0;
    for end in cuts.iter().copied().chain([bytes.len()]) {
        connection.send(&bytes[begin..end]).expect("it is sent");
        begin = end;
    }
    (0..answers).map(|_| connection.receive().expect("an answer")).collect()
}

/// PR-05: the same over HTTP with a kept connection: pipelined, byte by byte, cut anywhere.
#[test]
fn http_requests_cut_anywhere_are_answered_in_order() {
    let node = Node::start(&Config::with_plenty());
    let request = |key: &str| {
        let body = json_of(&check("GET /", key)).to_string();
        request_bytes("POST", "/v1/check", &[], body.as_bytes())
    };
    let mut noise = Noise::seeded(5);
    for (key, count) in [("joined", 300), ("bytewise", 20), ("random", 300)] {
        let bytes = request(key).repeat(count);
        let mut cuts: Vec<_> = match key {
            "joined" => Vec::new(),
            "bytewise" => (1..bytes.len()).collect(),
            _ => (0..200).map(|_| noise.below(bytes.len())).collect(),
        };
        cuts.sort_unstable();
        let responses = responses_to(&node, &bytes, &cuts, count);
        for (left, response) in (0..PLENTY).rev().zip(responses) {
            assert_eq!(response.status, 200, "{key}");
            assert_eq!(response.json()["remaining"], left, "{key}");
        }
    }
}

/// PR-05: a malformed question among others is refused in its place, on a connection that goes on.
#[test]
fn an_http_question_that_is_refused_is_answered_in_its_place() {
    let node = Node::start(&Config::with_plenty());
    let good = request_bytes("POST", "/v1/check", &[], b"{\"key\":\"alice\"}");
    let bad = request_bytes("POST", "/v1/check", &[], b"{\"key\":\"alice\",\"cost\":-1}");
    let unknown = request_bytes("GET", "/v1/nothing", &[], b"");
    let wrong_method = request_bytes("GET", "/v1/check", &[], b"");
    let all = [&good, &bad, &unknown, &wrong_method, &good].map(Vec::as_slice).concat();
    let responses = responses_to(&node, &all, &[], 5);
    let statuses: Vec<_> = responses.iter().map(|response| response.status).collect();
    assert_eq!(statuses, [200, 400, 404, 405, 200]);
    assert_eq!(responses[4].json()["remaining"], PLENTY - 2);
    for refused in &responses[1..4] {
        assert_eq!(refused.header("Content-Type"), Some("application/problem+json"));
    }
}

/// PR-11, as far as it shows within seconds: connections that send half a question, or nothing, or
/// have closed their half, hold up nobody, and what they held is free once they go. That the node
/// closes them by itself (20 and 30 seconds, and ten minutes) is tested where its patience is made.
#[test]
fn connections_that_do_nothing_hold_up_nobody() {
    const EACH: usize = 100;
    let node = Node::start(&Config::with_plenty());
    let mut silent = UnixStream::connect(node.stream_path()).expect("the node listens");
    silent.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    node.caller(Surface::Stream).decide(&check("GET /", "first"));
    let files_before = open_files(node.id());
    let mut held: Vec<Box<dyn Write>> = Vec::new();
    for number in 0..EACH {
        let mut stream = UnixStream::connect(node.stream_path()).expect("the node listens");
        let mut http = TcpStream::connect(node.http()).expect("the node listens");
        match number % 3 {
            0 => {
                stream.write_all(b"R").expect("it is sent");
                http.write_all(b"POST /v1/ch").expect("it is sent");
            }
            1 => {
                stream.shutdown(Shutdown::Write).expect("a half is closed");
                http.shutdown(Shutdown::Write).expect("a half is closed");
            }
            _ => {}
        }
        held.push(Box::new(stream));
        held.push(Box::new(http));
    }
    for surface in Surface::ALL {
        let stopwatch = Stopwatch::start();
        assert!(node.caller(surface).decide(&check("GET /", "busy")).allowed);
        assert!(stopwatch.elapsed() < Duration::from_secs(1), "{surface:?}");
    }
    silent.write_all(&frame_of(1, &[check("GET /", "silent")])).expect("it is sent");
    let frame = read_frame(&mut silent).expect("a frame");
    assert!(matches!(wire::decode_reply(&frame), Ok(wire::ServerFrame::Reply(_))));
    drop(held);
    wait_until("as few open files as before", Duration::from_secs(5), || {
        open_files(node.id()) <= files_before
    });
}

/// A client that closes its half after its questions still gets every answer.
#[test]
fn a_half_closed_connection_is_answered_to_its_end() {
    let node = Node::start(&Config::with_plenty());
    let mut stream = UnixStream::connect(node.stream_path()).expect("the node listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream.write_all(&frames(100, "half")).expect("it is sent");
    stream.shutdown(Shutdown::Write).expect("a half is closed");
    let answers: Vec<_> = (0..100).map(|_| read_frame(&mut stream).expect("a frame")).collect();
    assert_counts_down(&answers);
    assert_eq!(stream.read(&mut [0; 1]).expect("an end"), 0);
}
