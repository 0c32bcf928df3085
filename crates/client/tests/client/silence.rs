//! The async client and a node that does not answer, or only later.

use std::io::ErrorKind;
use std::time::{Duration, SystemTime};

use crate::asynchronous::{fallback, patient, request};
use crate::fake_node::{
    Door, FakeNode, Folder, KINDS, Kind, PATIENCE, allow, decision, deny, keys, local_limit,
    refuse, reject, with_id,
};
use client::{
    Address, Backoff, Client, Error, ErrorCode, FRAMES_IN_FLIGHT_MAX, OnSilence, Options, Request,
    Silence, Source, Status,
};
use limiter::{RequestError, Wait};
use tokio::task::JoinSet;

/// A client that gives up soon.
fn hasty(address: Address, on_silence: OnSilence) -> Client {
    let options = Options { timeout: Duration::from_millis(20), on_silence, ..Options::default() };
    Client::new(address, options).expect("sound options")
}

#[tokio::test]
async fn faults_of_the_caller_are_errors_also_where_no_node_is() {
    let folder = Folder::new();
    let client = patient(Address::Stream(folder.0.join("none.sock")), OnSilence::Open);
    let cases = [
        (request(""), RequestError::KeyEmpty),
        (request("k").with_attribute(b"", b"v"), RequestError::Attribute),
        (request("k").with_attribute(b"a", b"").with_attribute(b"a", b""), RequestError::Attribute),
        (request("k").with_cost(1).with_unit_cost(b"", 1), RequestError::Cost),
    ];
    for (request, error) in cases {
        assert_eq!(client.check(&request).await, Err(Error::Request(error)));
    }
    let answers = client.check_batch(&[request("k"), request("")]).await;
    assert!(answers[0].is_ok());
    assert_eq!(answers[1], Err(Error::Request(RequestError::KeyEmpty)));
}

#[tokio::test]
async fn silent_node_is_answered_for_by_the_fallback() {
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let node = FakeNode::run(Kind::Udp, move |_| {
        // It ends when the test drops its end.
        let _ = held.recv();
    });
    let open = hasty(node.address(), OnSilence::Open).check(&request("k")).await;
    let open = open.expect("an answer");
    assert_eq!((open.allowed, open.source), (true, Source::Fallback(Silence::TimedOut)));
    assert_eq!((open.retry_after, open.reason), (Some(Duration::ZERO), None));

    let closed = hasty(node.address(), OnSilence::Closed).check(&request("k")).await;
    let closed = closed.expect("an answer");
    assert_eq!((closed.allowed, closed.source), (false, Source::Fallback(Silence::TimedOut)));
    assert_eq!(closed.retry_after, Some(Duration::from_secs(1)));

    let local = hasty(node.address(), OnSilence::Local(local_limit(2)));
    for remaining in [1, 0] {
        let answer = local.check(&request("k")).await.expect("an answer");
        assert_eq!((answer.allowed, answer.remaining), (true, Some(remaining)));
        assert_eq!(answer.source, Source::Fallback(Silence::TimedOut));
    }
    let denied = local.check(&request("k")).await.expect("an answer");
    assert_eq!((denied.allowed, denied.limit_name.as_str()), (false, "local"));
    assert!(denied.reset_at > Some(SystemTime::UNIX_EPOCH));
    assert_eq!(local.counts().fallback_answers, 3);
    drop(hold);
    node.finish();
}

#[tokio::test]
async fn batch_ends_at_the_first_frame_without_an_answer() {
    let node = FakeNode::run(Kind::Seqpacket, |door| {
        door.serve_one();
        door.receive();
        door.hang_up();
        let frame = door.receive();
        assert_eq!(keys(&frame), ["2"], "the third frame was not sent");
        door.send(&allow(&frame));
    });
    let client = patient(node.address(), OnSilence::Closed);
    let requests = vec![request("1"); 600];
    let answers = client.check_batch(&requests).await;
    let sources: Vec<_> =
        answers.into_iter().map(|answer| answer.expect("an answer").source).collect();
    assert!(sources[..256].iter().all(|source| *source == Source::Node));
    assert!(sources[256..512].iter().all(|s| matches!(s, Source::Fallback(Silence::Lost(_)))));
    assert!(sources[512..].iter().all(|s| *s == Source::Fallback(Silence::NotAsked)));
    assert_eq!(client.check(&request("2")).await.expect("an answer").source, Source::Node);
    node.finish();
}

#[tokio::test]
async fn late_repeated_and_foreign_replies_are_dropped_and_counted() {
    for kind in KINDS {
        let (received, abandon) = tokio::sync::oneshot::channel();
        let node = FakeNode::run(kind, move |door| {
            let abandoned = door.receive();
            received.send(()).expect("the test waits");
            let frame = door.receive();
            door.send(&allow(&abandoned));
            door.send(&with_id(allow(&abandoned), wire::frame_id(&frame).wrapping_add(9)));
            door.send(&allow(&frame));
            door.send(&allow(&frame));
            door.serve_one();
        });
        let client = patient(node.address(), OnSilence::Closed);
        let asked = request("1");
        tokio::select! {
            answer = client.check(&asked) => panic!("nobody answered: {answer:?}"),
            abandoned = abandon => abandoned.expect("the node received it"),
        }
        for key in ["2", "3"] {
            let answer = client.check(&request(key)).await.expect("an answer");
            assert_eq!(answer.remaining, key.parse().ok(), "{kind:?}");
        }
        let counts = client.counts();
        assert_eq!((counts.late_replies, counts.unknown_replies), (2, 1), "{kind:?}");
        assert_eq!((counts.fallback_answers, counts.malformed_replies), (0, 0));
        node.finish();
    }
}

#[tokio::test]
async fn node_that_is_not_there_is_known_at_once() {
    let folder = Folder::new();
    let (door, udp) = Door::bind(Kind::Udp, &folder);
    drop(door);
    // The client's patience is longer than the test's, so only an answer at once passes.
    let answer = patient(udp, OnSilence::Open).check(&request("k")).await;
    assert_eq!(fallback(answer), Silence::Lost(ErrorKind::ConnectionRefused));
    let path = folder.0.join("none.sock");
    for address in [Address::Stream(path.clone()), Address::Seqpacket(path)] {
        let answer = patient(address, OnSilence::Open).check(&request("k")).await;
        assert_eq!(fallback(answer), Silence::Unreachable(ErrorKind::NotFound));
    }
}

#[tokio::test]
async fn node_is_found_when_it_comes_but_not_before_the_backoff_is_over() {
    let folder = Folder::new();
    let address = Address::Stream(folder.0.join("node.sock"));
    let hour = Duration::from_secs(3_600);
    let options = Options { reconnect: Backoff::with_seed(hour, hour, 1), ..Options::default() };
    let backing_off = Client::new(address.clone(), options).expect("sound options");
    let trying = patient(address, OnSilence::Open);
    for client in [&backing_off, &trying] {
        let answer = client.check(&request("1")).await;
        assert_eq!(fallback(answer), Silence::Unreachable(ErrorKind::NotFound));
    }
    let (mut door, _) = Door::bind(Kind::Stream, &folder);
    let node = std::thread::spawn(move || door.serve_one());
    let answer = backing_off.check(&request("1")).await;
    assert_eq!(fallback(answer), Silence::Unreachable(ErrorKind::NotFound));
    assert_eq!(backing_off.counts().failed_connections, 1);
    assert_eq!(trying.check(&request("1")).await.expect("an answer").source, Source::Node);
    node.join().expect("a script that passes");
}

#[tokio::test]
async fn lost_connection_is_opened_again_and_no_frame_is_sent_twice() {
    for kind in [Kind::Stream, Kind::Seqpacket] {
        let node = FakeNode::run(kind, |door| {
            door.serve_one();
            assert_eq!(keys(&door.receive()), ["2"]);
            door.hang_up();
            let frame = door.receive();
            assert_eq!(keys(&frame), ["3"]);
            door.send(&allow(&frame));
        });
        let client = patient(node.address(), OnSilence::Open);
        assert_eq!(client.check(&request("1")).await.expect("an answer").source, Source::Node);
        let lost = fallback(client.check(&request("2")).await);
        assert!(matches!(lost, Silence::Lost(_)) && lost.may_have_been_spent(), "{kind:?} {lost}");
        assert_eq!(client.counts().failed_connections, 1);
        assert_eq!(client.check(&request("3")).await.expect("an answer").source, Source::Node);
        node.finish();
    }
}

#[tokio::test]
async fn half_a_frame_is_waited_for_and_lost_with_its_connection() {
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
    let client = patient(node.address(), OnSilence::Open);
    for key in ["1", "2", "3", "4", "5"] {
        assert_eq!(
            client.check(&request(key)).await.expect("an answer").remaining,
            key.parse().ok()
        );
    }
    assert_eq!(
        fallback(client.check(&request("6")).await),
        Silence::Lost(ErrorKind::UnexpectedEof)
    );
    assert_eq!(client.check(&request("7")).await.expect("an answer").remaining, Some(7));
    node.finish();
}

#[tokio::test]
async fn garbage_breaks_a_stream_and_is_dropped_elsewhere() {
    for kind in KINDS {
        let node = FakeNode::run(kind, move |door| {
            let frame = door.receive();
            door.send(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            if kind != Kind::Stream {
                door.send(&allow(&frame));
            }
            door.hang_up();
            door.serve_one();
        });
        let client = patient(node.address(), OnSilence::Open);
        let first = client.check(&request("1")).await;
        if kind == Kind::Stream {
            assert_eq!(fallback(first), Silence::Lost(ErrorKind::InvalidData));
        } else {
            assert_eq!(first.expect("an answer").remaining, Some(1));
            assert_eq!(client.counts().malformed_replies, 1);
        }
        let second = client.check(&request("2")).await.expect("an answer");
        assert!(second.remaining == Some(2), "{kind:?}");
        node.finish();
    }
}

#[tokio::test]
async fn reply_that_cannot_be_read_or_answers_too_little_is_no_answer() {
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
        let client = patient(node.address(), OnSilence::Closed);
        assert_eq!(fallback(client.check(&request("1")).await), Silence::Garbled, "{kind:?}");
        assert_eq!(client.counts().malformed_replies, 1);
        for answer in client.check_batch(&[request("2"), request("3")]).await {
            assert_eq!(fallback(answer), Silence::Garbled, "{kind:?}");
        }
        assert_eq!(client.check(&request("4")).await.expect("an answer").remaining, Some(4));
        node.finish();
    }
}

#[tokio::test]
async fn node_that_is_starting_or_overloaded_is_silent_but_has_spent_nothing() {
    let node = FakeNode::run(Kind::Udp, |door| {
        let frame = door.receive();
        door.send(&refuse(&frame, Status::Starting));
        let frame = door.receive();
        door.send(&reject(&frame, ErrorCode::Busy));
    });
    let client = patient(node.address(), OnSilence::Closed);
    for silence in [Silence::Starting, Silence::Overloaded] {
        assert_eq!(fallback(client.check(&request("k")).await), silence);
        assert!(!silence.may_have_been_spent());
    }
    assert_eq!(client.counts().fallback_answers, 2);
    node.finish();
}

#[tokio::test]
async fn node_that_takes_no_more_is_as_good_as_unreachable() {
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let node = FakeNode::run(Kind::Stream, move |_| {
        let _ = held.recv();
    });
    let client = patient(node.address(), OnSilence::Open);
    let mut calls = JoinSet::new();
    for _ in 0..20 {
        let client = client.clone();
        calls.spawn(async move {
            let endpoint = [b'e'; 1_000];
            client.check_batch(&vec![Request::check(&endpoint, b"k"); 60]).await
        });
        // The frame goes into the socket until that is full, then into the connection's buffer.
        tokio::task::yield_now().await;
    }
    let abandoned = request("k");
    for _ in 0..FRAMES_IN_FLIGHT_MAX {
        tokio::select! {
            biased;
            _ = client.check(&abandoned) => break,
            () = std::future::ready(()) => {}
        }
    }
    let silence = fallback(client.check(&request("k")).await);
    assert_eq!(silence, Silence::Unreachable(ErrorKind::WouldBlock));
    drop(hold);
    node.finish();
}

#[tokio::test]
async fn asks_again_after_each_denial_until_allowed() {
    let node = FakeNode::run(Kind::Udp, |door| {
        for _ in 0..2 {
            let frame = door.receive();
            door.send(&deny(&frame, Wait::from_ns(2_000_000)));
        }
        door.serve_one();
    });
    let client = patient(node.address(), OnSilence::Closed);
    let answer = client.check_until_allowed(&request("3"), PATIENCE).await.expect("an answer");
    assert_eq!((answer.allowed, answer.remaining), (true, Some(3)));
    node.finish();
}

#[tokio::test]
async fn gives_up_at_once_when_no_wait_helps_or_the_wait_is_too_long() {
    let node = FakeNode::run(Kind::Udp, |door| {
        for wait in [Wait::NEVER, Wait::from_ns(60_000_000_000)] {
            let frame = door.receive();
            door.send(&deny(&frame, wait));
        }
    });
    let client = patient(node.address(), OnSilence::Closed);
    let within = Duration::from_secs(60);
    for retry_after in [None, Some(within)] {
        let answer = client.check_until_allowed(&request("k"), within).await.expect("an answer");
        assert_eq!((answer.allowed, answer.retry_after), (false, retry_after));
    }
    node.finish();
}

#[tokio::test]
async fn check_that_may_have_been_spent_is_not_asked_again() {
    let node = FakeNode::run(Kind::Seqpacket, |door| {
        door.receive();
        door.hang_up();
        let frame = door.receive();
        assert_eq!(keys(&frame), ["2"], "the first was sent once");
        door.send(&allow(&frame));
    });
    let client = patient(node.address(), OnSilence::Closed);
    let answer = client.check_until_allowed(&request("1"), PATIENCE).await;
    assert!(matches!(fallback(answer), Silence::Lost(_)));
    assert_eq!(client.check(&request("2")).await.expect("an answer").source, Source::Node);
    node.finish();
}

#[tokio::test(start_paused = true)]
async fn node_that_is_not_there_is_tried_until_the_deadline() {
    let folder = Folder::new();
    let second = Duration::from_secs(1);
    let options = Options {
        on_silence: OnSilence::Closed,
        reconnect: Backoff::with_seed(second, second, 1),
        retry: Backoff::with_seed(Duration::ZERO, Duration::ZERO, 1),
        ..Options::default()
    };
    let address = Address::Stream(folder.0.join("none.sock"));
    let client = Client::new(address, options).expect("sound options");
    let started = now();
    let answer = client.check_until_allowed(&request("k"), second * 5).await;
    assert_eq!(fallback(answer), Silence::Unreachable(ErrorKind::NotFound));
    assert_eq!(now() - started, second * 4);
    assert_eq!(client.counts().fallback_answers, 5);
}

#[expect(clippy::disallowed_methods, reason = "the test compares with the clock of the timers")]
fn now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}
