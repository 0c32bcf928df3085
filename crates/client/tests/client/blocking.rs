//! The blocking client.

use std::io::ErrorKind;
use std::time::Duration;

use crate::fake_node::{
    Door, FakeNode, Folder, KINDS, Kind, PATIENCE, allow, decision, keys, local_limit, ops, refuse,
    reject, with_id,
};
use client::blocking::Client;
use client::{
    Address, Answer, Backoff, Error, ErrorCode, OnSilence, Options, Request, Silence, Source,
    Status,
};
use limiter::{Op, RequestError, Wait};

/// A client that waits as long as a test may, so that no answer of a node comes too late.
fn patient(address: Address, on_silence: OnSilence) -> Client {
    client(address, on_silence, PATIENCE)
}

fn client(address: Address, on_silence: OnSilence, timeout: Duration) -> Client {
    let reconnect = Backoff::with_seed(Duration::ZERO, Duration::ZERO, 1);
    let options = Options { timeout, on_silence, reconnect, ..Options::default() };
    Client::new(address, options).expect("sound options")
}

fn request(key: &str) -> Request<'_> {
    Request::check(b"GET /", key.as_bytes())
}

fn fallback(answer: Result<Answer, Error>) -> Silence {
    match answer.expect("an answer").source {
        Source::Fallback(silence) => silence,
        Source::Node => panic!("the node answered"),
    }
}

fn remaining(answer: Result<Answer, Error>) -> Option<u64> {
    let answer = answer.expect("an answer");
    assert_eq!(answer.source, Source::Node);
    answer.remaining
}

#[test]
fn each_operation_is_answered_on_every_door() {
    for kind in KINDS {
        let node = FakeNode::run(kind, |door| {
            for op in [Op::Check, Op::Peek, Op::Debit, Op::Refund] {
                let frame = door.receive();
                assert_eq!(ops(&frame), [op]);
                door.send(&allow(&frame));
            }
        });
        let mut client = patient(node.address(), OnSilence::Closed);
        assert_eq!(remaining(client.check(&request("1"))), Some(1), "{kind:?}");
        assert_eq!(remaining(client.peek(&request("2"))), Some(2));
        assert_eq!(remaining(client.debit(&request("3"))), Some(3));
        assert_eq!(remaining(client.refund(&request("4"))), Some(4));
        node.finish();
    }
}

#[test]
fn batch_is_cut_into_frames_keeps_its_order_and_fails_only_where_it_is_faulty() {
    for kind in KINDS {
        let node = FakeNode::run(kind, |door| {
            for checks in [256, 256, 87] {
                let frame = door.receive();
                assert_eq!(keys(&frame).len(), checks);
                door.send(&allow(&frame));
            }
        });
        let mut client = patient(node.address(), OnSilence::Closed);
        let keys: Vec<_> = (0..600).map(|number| number.to_string()).collect();
        let mut requests: Vec<_> = keys.iter().map(|key| request(key)).collect();
        requests[7].key = b"";
        for (number, answer) in (0..).zip(client.check_batch(&requests)) {
            match number {
                7 => assert_eq!(answer, Err(Error::Request(RequestError::KeyEmpty))),
                _ => assert_eq!(remaining(answer), Some(number)),
            }
        }
        node.finish();
    }
}

#[test]
fn silent_node_is_answered_for_by_the_fallback() {
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let node = FakeNode::run(Kind::Seqpacket, move |_| {
        // It ends when the test drops its end.
        let _ = held.recv();
    });
    let timeout = Duration::from_millis(5);
    for (on_silence, allowed) in [(OnSilence::Open, true), (OnSilence::Closed, false)] {
        let mut client = client(node.address(), on_silence, timeout);
        let answer = client.check(&request("k")).expect("an answer");
        assert_eq!(answer.source, Source::Fallback(Silence::TimedOut));
        assert_eq!(answer.allowed, allowed);
    }
    let mut client = client(node.address(), OnSilence::Local(local_limit(1)), timeout);
    for allowed in [true, false] {
        let answer = client.check(&request("k")).expect("an answer");
        assert_eq!((answer.allowed, answer.limit_name.as_str()), (allowed, "local"));
    }
    assert_eq!(client.counts().fallback_answers, 2);
    drop(hold);
    node.finish();
}

#[test]
fn late_repeated_and_foreign_replies_are_dropped_and_counted() {
    for kind in KINDS {
        let node = FakeNode::run(kind, |door| {
            let abandoned = door.receive();
            let frame = door.receive();
            door.send(&allow(&abandoned));
            door.send(&allow(&abandoned));
            door.send(&with_id(allow(&abandoned), wire::frame_id(&frame).wrapping_add(9)));
            door.send(&allow(&frame));
        });
        // Long enough for the second answer, which the node gives at once.
        let mut client = client(node.address(), OnSilence::Closed, Duration::from_millis(500));
        assert_eq!(fallback(client.check(&request("1"))), Silence::TimedOut);
        assert_eq!(remaining(client.check(&request("2"))), Some(2), "{kind:?}");
        let counts = client.counts();
        assert_eq!((counts.late_replies, counts.unknown_replies), (2, 1), "{kind:?}");
        node.finish();
    }
}

#[test]
fn node_that_is_not_there_is_known_at_once() {
    let folder = Folder::new();
    let (door, udp) = Door::bind(Kind::Udp, &folder);
    drop(door);
    // The client's patience is longer than the test's, so only an answer at once passes.
    let mut client = patient(udp, OnSilence::Open);
    for _ in 0..2 {
        let silence = fallback(client.check(&request("k")));
        assert_eq!(silence, Silence::Lost(ErrorKind::ConnectionRefused));
    }
    let path = folder.0.join("none.sock");
    for address in [Address::Stream(path.clone()), Address::Seqpacket(path)] {
        let silence = fallback(patient(address, OnSilence::Open).check(&request("k")));
        assert_eq!(silence, Silence::Unreachable(ErrorKind::NotFound));
    }
}

#[test]
fn node_is_not_tried_again_before_the_backoff_is_over() {
    let folder = Folder::new();
    let address = Address::Seqpacket(folder.0.join("node.sock"));
    let hour = Duration::from_secs(3_600);
    let options = Options { reconnect: Backoff::with_seed(hour, hour, 1), ..Options::default() };
    let mut client = Client::new(address, options).expect("sound options");
    let silence = Silence::Unreachable(ErrorKind::NotFound);
    assert_eq!(fallback(client.check(&request("1"))), silence);
    let _door = Door::bind(Kind::Seqpacket, &folder);
    assert_eq!(fallback(client.check(&request("1"))), silence);
    assert_eq!(client.counts().failed_connections, 1);
}

#[test]
fn connection_closed_between_calls_is_replaced_without_a_fallback() {
    for kind in [Kind::Stream, Kind::Seqpacket] {
        let (closed, is_closed) = std::sync::mpsc::channel();
        let node = FakeNode::run(kind, move |door| {
            door.serve_one();
            door.hang_up();
            closed.send(()).expect("the test waits");
            door.serve_one();
        });
        let mut client = patient(node.address(), OnSilence::Closed);
        assert_eq!(remaining(client.check(&request("1"))), Some(1));
        is_closed.recv().expect("the node closes");
        assert_eq!(remaining(client.check(&request("2"))), Some(2), "{kind:?}");
        assert_eq!(client.counts().failed_connections, 1);
        node.finish();
    }
}

#[test]
fn frame_is_not_sent_twice_when_the_connection_breaks_after_it() {
    for kind in [Kind::Stream, Kind::Seqpacket] {
        let node = FakeNode::run(kind, |door| {
            assert_eq!(keys(&door.receive()), ["1"]);
            door.hang_up();
            let frame = door.receive();
            assert_eq!(keys(&frame), ["2"]);
            door.send(&allow(&frame));
        });
        let mut client = patient(node.address(), OnSilence::Closed);
        let silence = fallback(client.check(&request("1")));
        assert!(matches!(silence, Silence::Lost(_)), "{kind:?} {silence}");
        assert_eq!(remaining(client.check(&request("2"))), Some(2));
        node.finish();
    }
}

#[test]
fn half_a_frame_is_waited_for_and_lost_with_its_connection() {
    let node = FakeNode::run(Kind::Stream, |door| {
        for cut in [1, 19, 20, 21, 60] {
            let reply = allow(&door.receive());
            let (start, rest) = reply.split_at(cut);
            door.send(start);
            door.send(rest);
        }
        let reply = allow(&door.receive());
        door.send(&reply[..reply.len() - 1]);
        door.hang_up();
        door.serve_one();
    });
    let mut client = patient(node.address(), OnSilence::Open);
    for key in ["1", "2", "3", "4", "5"] {
        assert_eq!(remaining(client.check(&request(key))), key.parse().ok());
    }
    let silence = fallback(client.check(&request("6")));
    assert_eq!(silence, Silence::Lost(ErrorKind::UnexpectedEof));
    assert_eq!(remaining(client.check(&request("7"))), Some(7));
    node.finish();
}

#[test]
fn garbage_breaks_a_stream_and_is_dropped_elsewhere() {
    for kind in KINDS {
        let node = FakeNode::run(kind, move |door| {
            let frame = door.receive();
            door.send(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            if kind != Kind::Stream {
                door.send(&allow(&frame));
            } else {
                door.hang_up();
            }
            door.serve_one();
        });
        let mut client = patient(node.address(), OnSilence::Open);
        let first = client.check(&request("1"));
        if kind == Kind::Stream {
            assert_eq!(fallback(first), Silence::Lost(ErrorKind::InvalidData));
        } else {
            assert_eq!(remaining(first), Some(1));
            assert_eq!(client.counts().malformed_replies, 1);
        }
        assert_eq!(remaining(client.check(&request("2"))), Some(2), "{kind:?}");
        node.finish();
    }
}

#[test]
fn reply_that_cannot_be_read_or_answers_too_little_is_no_answer() {
    for kind in KINDS {
        let node = FakeNode::run(kind, |door| {
            let mut broken = allow(&door.receive());
            broken[20] = 0xff;
            door.send(&broken);
            let frame = door.receive();
            let mut short = Vec::new();
            let mut reply = wire::ReplyWriter::new(&mut short, wire::frame_id(&frame));
            reply.decision(&decision(true, None, Wait::ZERO), None);
            reply.finish();
            door.send(&short);
            door.serve_one();
        });
        let mut client = patient(node.address(), OnSilence::Closed);
        assert_eq!(fallback(client.check(&request("1"))), Silence::Garbled, "{kind:?}");
        for answer in client.check_batch(&[request("2"), request("3")]) {
            assert_eq!(fallback(answer), Silence::Garbled, "{kind:?}");
        }
        assert_eq!(remaining(client.check(&request("4"))), Some(4));
        node.finish();
    }
}

#[test]
fn starting_is_a_silence_and_what_the_node_does_not_take_is_an_error() {
    let node = FakeNode::run(Kind::Udp, |door| {
        let frame = door.receive();
        door.send(&refuse(&frame, Status::Starting));
        let frame = door.receive();
        door.send(&reject(&frame, ErrorCode::Busy));
        let frame = door.receive();
        door.send(&refuse(&frame, Status::Unknown(99)));
        let frame = door.receive();
        door.send(&reject(&frame, ErrorCode::Unknown(99)));
    });
    let mut client = patient(node.address(), OnSilence::Closed);
    assert_eq!(fallback(client.check(&request("k"))), Silence::Starting);
    assert_eq!(fallback(client.check(&request("k"))), Silence::Overloaded);
    assert_eq!(client.check(&request("k")), Err(Error::Refused(Status::Unknown(99))));
    let rejected = Error::Rejected { code: ErrorCode::Unknown(99), versions: (1, 1) };
    assert_eq!(client.check(&request("k")), Err(rejected));
    node.finish();
}

#[test]
fn frame_is_padded_when_the_node_asks_for_it_and_from_then_on() {
    let node = FakeNode::run(Kind::Udp, |door| {
        let frame = door.receive();
        assert!(frame.len() < wire::reply_bytes_max(1));
        door.send(&reject(&frame, ErrorCode::ReplyTooLong));
        for _ in 0..2 {
            let frame = door.receive();
            assert_eq!(frame.len(), wire::reply_bytes_max(1));
            door.send(&allow(&frame));
        }
    });
    let mut client = patient(node.address(), OnSilence::Closed);
    for key in ["1", "2"] {
        assert_eq!(remaining(client.check(&request(key))), key.parse().ok());
    }
    node.finish();
}

#[test]
fn node_that_reads_nothing_ends_in_the_time_out_and_no_frame_is_cut_by_it() {
    const CALLS: usize = 40;
    let (release, released) = std::sync::mpsc::channel::<()>();
    let node = FakeNode::run(Kind::Stream, move |door| {
        released.recv().expect("the test says when");
        while door.try_receive().is_some() {}
    });
    let mut client = client(node.address(), OnSilence::Closed, Duration::from_millis(5));
    let endpoint = [b'e'; 1_000];
    let requests = vec![Request::check(&endpoint, b"k"); 60];
    for _ in 0..CALLS {
        for answer in client.check_batch(&requests) {
            assert_eq!(fallback(answer), Silence::TimedOut);
        }
    }
    // A full socket took a part of a frame. The next frame on that connection would be read as the
    // rest of it, which the node would notice below.
    assert!(client.counts().failed_connections > 0, "more was sent than a socket takes");
    release.send(()).expect("the node waits");
    drop(client);
    node.finish();
}
