//! The async client and a node that answers.

use std::time::{Duration, SystemTime};

use crate::fake_node::{
    Door, FakeNode, KINDS, Kind, PATIENCE, allow, answer, decision, keys, ops, refuse, reject,
};
use client::{
    Address, Answer, Backoff, Client, Error, ErrorCode, FRAMES_IN_FLIGHT_MAX, Freshness, OnSilence,
    Options, Reason, Request, Silence, Source, Status, WriteError,
};
use limiter::{Op, RequestError, Wait};
use tokio::task::JoinSet;

/// A client that waits as long as a test may, so that no answer of a node comes too late.
pub(crate) fn patient(address: Address, on_silence: OnSilence) -> Client {
    let options = Options {
        timeout: PATIENCE,
        on_silence,
        reconnect: Backoff::with_seed(Duration::ZERO, Duration::ZERO, 1),
        ..Options::default()
    };
    Client::new(address, options).expect("sound options")
}

pub(crate) fn request(key: &str) -> Request<'_> {
    Request::check(b"GET /", key.as_bytes())
}

pub(crate) fn fallback(answer: Result<Answer, Error>) -> Silence {
    match answer.expect("an answer").source {
        Source::Fallback(silence) => silence,
        Source::Node => panic!("the node answered"),
    }
}

#[tokio::test]
async fn answers_with_the_nodes_numbers_on_every_door() {
    for kind in KINDS {
        let node = FakeNode::run(kind, Door::serve_one);
        let client = patient(node.address(), OnSilence::Closed);
        let answer = client.check(&request("41")).await.expect("an answer");
        let expected = Answer {
            source: Source::Node,
            allowed: true,
            limit_name: "per-key/pro".into(),
            limit: Some(100),
            remaining: Some(41),
            reset_after: Some(Duration::from_micros(1_500)),
            reset_at: Some(SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123)),
            retry_after: Some(Duration::ZERO),
            delay: Some(Duration::ZERO),
            reason: Some(Reason::Ok),
            freshness: Some(Freshness::Alone),
            stale: Duration::from_millis(7),
            details: Vec::new(),
            details_cut: false,
        };
        assert_eq!(answer, expected, "{kind:?}");
        node.finish();
    }
}

#[tokio::test]
async fn details_are_asked_for_and_answered() {
    let node = FakeNode::run(Kind::Seqpacket, |door| {
        let frame = door.receive();
        door.send(&answer(&frame, |_| {
            let mut decision = decision(false, Some(3), Wait::NEVER);
            decision.details = vec![decision.verdict; 2];
            decision
        }));
    });
    let client = patient(node.address(), OnSilence::Open);
    let mut request = request("k");
    request.details = true;
    let answer = client.check(&request).await.expect("an answer");
    assert_eq!((answer.allowed, answer.retry_after), (false, None));
    assert_eq!(answer.details.len(), 2);
    assert_eq!(answer.details[1].limit_name, "per-key/pro");
    assert_eq!(answer.details[1].remaining, Some(3));
    node.finish();
}

#[tokio::test]
async fn each_call_asks_for_its_own_operation() {
    let node = FakeNode::run(Kind::Stream, |door| {
        for op in [Op::Check, Op::Peek, Op::Debit, Op::Refund] {
            let frame = door.receive();
            assert_eq!(ops(&frame), [op]);
            door.send(&allow(&frame));
        }
    });
    let client = patient(node.address(), OnSilence::Closed);
    let request = request("k").with_op(Op::Debit);
    client.check(&request).await.expect("an answer");
    client.peek(&request).await.expect("an answer");
    client.debit(&request).await.expect("an answer");
    client.refund(&request).await.expect("an answer");
    node.finish();
}

#[tokio::test]
async fn answers_in_any_order_reach_whoever_asked() {
    const CALLS: u64 = 100;
    for kind in KINDS {
        let node = FakeNode::run(kind, |door| {
            let frames: Vec<_> = (0..CALLS).map(|_| door.receive()).collect();
            for frame in frames.iter().rev() {
                door.send(&allow(frame));
            }
        });
        let client = patient(node.address(), OnSilence::Closed);
        let mut calls = JoinSet::new();
        for number in 0..CALLS {
            let client = client.clone();
            calls.spawn(async move {
                let answer = client.check(&request(&number.to_string())).await;
                assert_eq!(answer.expect("an answer").remaining, Some(number));
            });
        }
        calls.join_all().await;
        node.finish();
    }
}

#[tokio::test]
async fn batch_is_cut_into_frames_and_keeps_its_order() {
    for kind in KINDS {
        let node = FakeNode::run(kind, |door| {
            for checks in [256, 256, 88] {
                let frame = door.receive();
                assert_eq!(keys(&frame).len(), checks);
                door.send(&allow(&frame));
            }
        });
        let client = patient(node.address(), OnSilence::Closed);
        let keys: Vec<_> = (0..600).map(|number| number.to_string()).collect();
        let requests: Vec<_> = keys.iter().map(|key| request(key)).collect();
        let answers = client.check_batch(&requests).await;
        let remaining: Vec<_> =
            answers.into_iter().filter_map(|answer| answer.expect("an answer").remaining).collect();
        assert_eq!(remaining, (0..600).collect::<Vec<_>>());
        node.finish();
    }
}

#[tokio::test]
async fn batch_of_long_checks_is_cut_where_a_frame_is_full() {
    let node = FakeNode::run(Kind::Udp, |door| {
        for checks in [31, 31, 2] {
            let frame = door.receive();
            assert_eq!(keys(&frame).len(), checks);
            door.send(&allow(&frame));
        }
    });
    let client = patient(node.address(), OnSilence::Closed);
    let key = "9".repeat(limiter::KEY_BYTES_MAX);
    let endpoint = [b'e'; limiter::ENDPOINT_BYTES_MAX];
    let requests = vec![Request::check(&endpoint, key.as_bytes()); 64];
    let answers = client.check_batch(&requests).await;
    assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|a| a.source == Source::Node)));
    node.finish();
}

#[tokio::test]
async fn faulty_requests_fail_in_their_place_and_are_not_sent() {
    let node = FakeNode::run(Kind::Seqpacket, |door| {
        let frame = door.receive();
        assert_eq!(keys(&frame), ["1", "2"]);
        door.send(&allow(&frame));
    });
    let client = patient(node.address(), OnSilence::Closed);
    let long = "k".repeat(limiter::KEY_BYTES_MAX + 1);
    let requests =
        [request(""), request("1"), request(&long), request("2").with_op(Op::Reset), request("2")];
    let answers = client.check_batch(&requests).await;
    assert_eq!(answers[0], Err(Error::Request(RequestError::KeyEmpty)));
    assert_eq!(answers[1].as_ref().map(|answer| answer.remaining), Ok(Some(1)));
    assert_eq!(answers[2], Err(Error::Request(RequestError::KeyTooLong)));
    assert_eq!(answers[3], Err(Error::Unwritable(WriteError::Op)));
    assert_eq!(answers[4].as_ref().map(|answer| answer.remaining), Ok(Some(2)));
    node.finish();
}

#[tokio::test]
async fn what_the_node_does_not_take_is_an_error_and_no_fallback() {
    let node = FakeNode::run(Kind::Stream, |door| {
        let frame = door.receive();
        door.send(&refuse(&frame, Status::Forbidden));
        let frame = door.receive();
        door.send(&reject(&frame, ErrorCode::Version));
    });
    let client = patient(node.address(), OnSilence::Open);
    assert_eq!(client.check(&request("k")).await, Err(Error::Refused(Status::Forbidden)));
    let rejected = Error::Rejected { code: ErrorCode::Version, versions: (1, 1) };
    assert_eq!(client.check(&request("k")).await, Err(rejected));
    assert_eq!(client.counts().fallback_answers, 0);
    node.finish();
}

#[tokio::test]
async fn frame_is_padded_when_the_node_asks_for_it_and_from_then_on() {
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
    let client = patient(node.address(), OnSilence::Closed);
    for key in ["1", "2"] {
        assert_eq!(
            client.check(&request(key)).await.expect("an answer").remaining,
            key.parse().ok()
        );
    }
    node.finish();
}

#[tokio::test]
async fn more_frames_than_the_bound_are_refused() {
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let node = FakeNode::run(Kind::Stream, move |_| {
        let _ = held.recv();
    });
    let client = patient(node.address(), OnSilence::Open);
    let mut calls = JoinSet::new();
    for _ in 0..FRAMES_IN_FLIGHT_MAX {
        let client = client.clone();
        calls.spawn(async move { client.check(&request("k")).await });
    }
    for _ in 0..FRAMES_IN_FLIGHT_MAX {
        tokio::task::yield_now().await;
    }
    assert_eq!(client.check(&request("k")).await, Err(Error::Busy));
    calls.shutdown().await;
    let admitted = request("k");
    tokio::select! {
        biased;
        answer = client.check(&admitted) => panic!("there is room again, but: {answer:?}"),
        () = std::future::ready(()) => {}
    }
    drop(hold);
    node.finish();
}

#[tokio::test]
async fn call_that_is_dropped_before_it_was_sent_is_not_sent() {
    let node = FakeNode::run(Kind::Seqpacket, |door| {
        let frame = door.receive();
        assert_eq!(keys(&frame), ["2"]);
        door.send(&allow(&frame));
    });
    let client = patient(node.address(), OnSilence::Closed);
    let dropped = request("1");
    tokio::select! {
        biased;
        answer = client.check(&dropped) => panic!("nobody answered: {answer:?}"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(client.check(&request("2")).await.expect("an answer").remaining, Some(2));
    node.finish();
}

#[tokio::test]
async fn slow_node_gets_every_frame_whole() {
    const CALLS: usize = 60;
    for kind in [Kind::Stream, Kind::Seqpacket] {
        let (release, released) = std::sync::mpsc::channel::<()>();
        let node = FakeNode::run(kind, move |door| {
            released.recv().expect("the test says when");
            for _ in 0..CALLS {
                door.serve_one();
            }
        });
        let client = patient(node.address(), OnSilence::Closed);
        let mut calls = JoinSet::new();
        for _ in 0..CALLS {
            let client = client.clone();
            calls.spawn(async move {
                let endpoint = [b'e'; 1_000];
                let requests = vec![Request::check(&endpoint, b"5"); 60];
                let answers = client.check_batch(&requests).await;
                assert!(answers.iter().flatten().all(|answer| answer.remaining == Some(5)));
                assert_eq!(answers.iter().flatten().count(), 60);
            });
        }
        // Far more than a socket takes is on its way before the node reads the first byte.
        tokio::task::yield_now().await;
        release.send(()).expect("the node waits");
        calls.join_all().await;
        node.finish();
    }
}

#[tokio::test]
async fn closing_the_last_client_closes_the_socket() {
    let node = FakeNode::run(Kind::Stream, |door| {
        door.serve_one();
        assert_eq!(door.try_receive(), None);
    });
    let client = patient(node.address(), OnSilence::Closed);
    let clone = client.clone();
    clone.check(&request("1")).await.expect("an answer");
    clone.close().await;
    client.close().await;
    node.finish();
}
