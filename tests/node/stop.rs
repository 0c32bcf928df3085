//! Stopping under load: not ready first, then silent, and nothing that was asked is left unanswered.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Signal;

use crate::support::http::request_bytes;
use crate::support::{
    Config, HttpConnection, Node, Stopwatch, Surface, check, frame_of, wait_until,
};

/// How long a stop may take.
const GRACE: Duration = Duration::from_secs(5);

/// SD-01: under load on every door, readiness goes first while everything is still answered, old
/// connections and new; then the process ends with 0 in time, and its socket files are gone.
#[test]
fn readiness_goes_first_and_everything_asked_is_answered() {
    let mut node = Node::start(&Config::with_plenty());
    let (is_over, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    let stopwatch = std::thread::scope(|scope| {
        for surface in Surface::ALL {
            let (node, is_over, asked) = (&node, &is_over, &asked);
            scope.spawn(move || {
                let mut caller = node.caller(surface);
                while !is_over.load(Ordering::Relaxed) {
                    // HTTP is told to close; a frame's connection lasts as long as the door.
                    if surface.door() == "http" {
                        caller = node.caller(surface);
                    }
                    assert!(caller.decide(&check("", "load")).allowed, "{surface:?}");
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        wait_until("some load", GRACE, || asked.load(Ordering::Relaxed) > 500);
        let stopwatch = Stopwatch::start();
        node.signal(Signal::TERM);
        wait_until("readiness to go", Duration::from_millis(500), || {
            node.connection().get("/readyz").status == 503
        });
        assert_eq!(node.connection().get("/livez").status, 200);
        for surface in Surface::ALL {
            assert!(node.caller(surface).decide(&check("", "late")).allowed, "{surface:?}");
        }
        is_over.store(true, Ordering::Relaxed);
        stopwatch
    });
    assert_eq!(node.wait(GRACE).code(), Some(0));
    assert!(stopwatch.elapsed() < GRACE, "{:?}", stopwatch.elapsed());
    for path in [node.stream_path(), node.seqpacket_path(), node.http_path()] {
        assert!(!path.exists(), "{}", path.display());
    }
}

/// SD-01: what was received before the end is answered, also if it was not read yet, and then the
/// connections end without a reset.
#[test]
fn questions_under_way_are_answered_before_the_end() {
    const FRAMES: u64 = 500;
    let mut node = Node::start(&Config::with_plenty());
    let mut stream = node.caller(Surface::Stream);
    let mut seqpacket = node.caller(Surface::Seqpacket);
    let mut http = HttpConnection::tcp(node.http()).expect("the node listens");
    let frames: Vec<u8> = (0..FRAMES).flat_map(|id| frame_of(id, &[check("", "way")])).collect();
    stream.send(&frames).expect("it is sent");
    for id in 0..20 {
        seqpacket.send(&frame_of(id, &[check("", "way")])).expect("it is sent");
    }
    let question = request_bytes("POST", "/v1/check", &[], b"{\"key\":\"way\"}");
    http.send(&question).expect("it is sent");
    node.signal(Signal::TERM);
    assert_eq!(http.receive().expect("an answer").status, 200);
    assert_eq!(node.wait(GRACE).code(), Some(0));
    for _ in 0..FRAMES {
        stream.receive().expect("an answer");
    }
    for _ in 0..20 {
        seqpacket.receive().expect("an answer");
    }
    for (door, rest) in [("stream", stream.receive()), ("seqpacket", seqpacket.receive())] {
        let error = rest.expect_err("an end");
        assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof, "{door}");
    }
}

/// SD-01: UDP, which has no connection to close, is answered until the end.
#[test]
fn udp_is_answered_until_the_end() {
    let mut node = Node::start(&Config::with_plenty());
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.connect(node.udp()).expect("an address of loopback");
    // Short: a datagram that arrives in the moment of the end is lost without a word.
    socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a time-out");
    let frame = frame_of(1, &[check("", "alice")]);
    let stopwatch = Stopwatch::start();
    node.signal(Signal::TERM);
    let mut last_answer = Duration::ZERO;
    while !node.has_ended() {
        if socket.send(&frame).is_ok() && socket.recv(&mut [0; 256]).is_ok() {
            last_answer = stopwatch.elapsed();
        }
    }
    let silent = stopwatch.elapsed() - last_answer;
    assert_eq!(node.wait(GRACE).code(), Some(0));
    assert!(last_answer > Duration::from_millis(900), "answered for {last_answer:?} only");
    assert!(silent < Duration::from_secs(1), "silent for {silent:?} before the end");
}

/// A second signal ends it at once, even while connections are open.
#[test]
fn a_second_signal_stops_at_once() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut node = Node::start(&Config::with_plenty());
        let _held = node.caller(Surface::Stream);
        node.signal(signal);
        assert!(node.log().wait_for("stopping", GRACE), "{}", node.log().text());
        let stopwatch = Stopwatch::start();
        node.signal(signal);
        node.wait(GRACE);
        assert!(stopwatch.elapsed() < Duration::from_millis(800), "{:?}", stopwatch.elapsed());
        assert!(!node.stream_path().exists());
    }
}
