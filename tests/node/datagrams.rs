//! UDP: datagrams that are no frames, and senders that are not there any more.

use std::net::{Ipv4Addr, UdpSocket};

use limiter::Op;

use crate::support::config::PLENTY;
use crate::support::process::leave_out;
use crate::support::{Caller, Config, Metrics, Node, Noise, Surface, check, frame_of};

/// Datagrams sent before the node is waited for, few enough to wait in its socket.
const BURST: usize = 64;

/// A sender that knows how many of its datagrams the node has seen.
struct Sender<'n> {
    node: &'n Node,
    caller: Caller,
    sent_since: usize,
    sent: u64,
    id: u64,
}

impl<'n> Sender<'n> {
    fn new(node: &'n Node) -> Self {
        Self { node, caller: node.caller(Surface::Udp), sent_since: 0, sent: 0, id: 1 << 62 }
    }

    fn send(&mut self, datagram: &[u8]) {
        self.caller.send(datagram).expect("it is sent");
        self.sent += 1;
        self.sent_since += 1;
        if self.sent_since == BURST {
            self.ask();
        }
    }

    /// Sends a sound frame and waits for its answer. All that was sent before is seen by then,
    /// since one socket of the node receives all of it in order.
    fn ask(&mut self) {
        self.id += 1;
        self.sent += 1;
        self.sent_since = 0;
        let frame = frame_of(self.id, &[check("GET /", "sound")]);
        self.caller.send(&frame).expect("it is sent");
        loop {
            let bytes = self.caller.receive().expect("the sound frame is answered");
            match wire::decode_reply(&bytes).expect("a node answers with frames alone") {
                wire::ServerFrame::Reply(reply) if reply.id == self.id => return,
                _ => {}
            }
        }
    }

    fn finish(mut self) -> Metrics {
        self.ask();
        let metrics = self.node.metrics();
        assert_eq!(metrics.sum("rlnode_frames_total", &[("door", "udp")]), self.sent);
        metrics
    }
}

fn faults(metrics: &Metrics) -> u64 {
    metrics.sum("rlnode_errors_total", &[("door", "udp")])
}

/// PR-01: every beginning of a frame is counted as malformed, and charges nothing.
#[test]
fn the_beginnings_of_a_frame_are_malformed() {
    let node = Node::start(&Config::with_plenty());
    let frame = frame_of(1, &[check("GET /", "alice-and-a-longer-name-than-hers")]);
    assert!(frame.len() > 64);
    let mut sender = Sender::new(&node);
    for cut in 0..frame.len() {
        sender.send(&frame[..cut]);
    }
    let metrics = sender.finish();
    assert_eq!(metrics.errors("udp", "malformed"), u64::try_from(frame.len()).expect("small"));
    assert_eq!(faults(&metrics), u64::try_from(frame.len()).expect("small"));
    let alice = check("GET /", "alice-and-a-longer-name-than-hers");
    assert_eq!(node.caller(Surface::Udp).decide(&alice).remaining, Some(PLENTY - 1));
}

/// PR-01: no flip of any byte stops the door, whatever it makes of the frame.
#[test]
fn frames_with_any_byte_flipped_do_no_harm() {
    let node = Node::start(&Config::with_plenty());
    let request = check("GET /", "alice").with_attribute(b"plan", b"pro").with_cost(1);
    let frame = frame_of(1, &[request]);
    let mut sender = Sender::new(&node);
    for at in 0..frame.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut flipped = frame.clone();
            flipped[at] ^= flip;
            sender.send(&flipped);
        }
    }
    let metrics = sender.finish();
    assert!(metrics.errors("udp", "version") > 0);
    assert!(metrics.errors("udp", "unknown_flags") > 0);
    assert!(metrics.errors("udp", "malformed") > 0);
}

/// PR-01: lengths that say more or less than there is.
#[test]
fn lengths_that_lie_are_malformed() {
    let node = Node::start(&Config::with_plenty());
    let frame = frame_of(1, &[check("GET /", "alice")]);
    let with = |at: usize, value: u16| {
        let mut lying = frame.clone();
        lying[at..at + 2].copy_from_slice(&value.to_le_bytes());
        lying
    };
    // The frame's length, the record's length, the key's length, the endpoint's length.
    let lies = [
        with(4, 0),
        with(4, 43),
        with(4, 45),
        with(4, u16::MAX),
        with(20, 0),
        with(20, 1),
        with(20, 23),
        with(20, 25),
        with(20, u16::MAX),
        with(30, 6),
        with(30, u16::MAX),
        with(32, 6),
        with(32, u16::MAX),
    ];
    let mut sender = Sender::new(&node);
    for lie in &lies {
        sender.send(lie);
    }
    // A key that is shorter than said leaves bytes behind, which a later version may use.
    sender.send(&with(30, 4));
    let metrics = sender.finish();
    assert_eq!(faults(&metrics), u64::try_from(lies.len()).expect("small"));
}

/// PR-01: the longest datagram, as a frame and as none.
#[test]
fn the_longest_datagrams_are_read_whole() {
    let node = Node::start(&Config::with_plenty());
    let mut sender = Sender::new(&node);
    let mut padded = frame_of(7, &[check("GET /", "long")]);
    padded.resize(wire::FRAME_BYTES_MAX, 0xaa);
    let length = u32::try_from(padded.len()).expect("a length");
    padded[4..8].copy_from_slice(&length.to_le_bytes());
    sender.send(&padded);
    sender.send(&vec![b'R'; wire::FRAME_BYTES_MAX]);
    sender.send(&Noise::seeded(1).bytes(wire::FRAME_BYTES_MAX));
    let metrics = sender.finish();
    assert_eq!(metrics.errors("udp", "malformed"), 2);
    let long = node.caller(Surface::Udp).decide(&check("GET /", "long"));
    assert_eq!(long.remaining, Some(PLENTY - 2), "the padded frame was decided");
}

/// PR-01: a hundred thousand random datagrams, half of them behind a true header.
#[test]
fn random_datagrams_do_no_harm() {
    const DATAGRAMS: usize = 100_000;
    let node = Node::start(&Config::with_plenty());
    let mut noise = Noise::seeded(2);
    let mut sender = Sender::new(&node);
    for number in 0..DATAGRAMS {
        let length = noise.below(200);
        let mut datagram = noise.bytes(length);
        if number % 2 == 0 && length >= 24 {
            let length = u32::try_from(length).expect("small");
            datagram[..4].copy_from_slice(b"RL\x01\x01");
            datagram[4..8].copy_from_slice(&length.to_le_bytes());
            datagram[16..20].copy_from_slice(&[0, 0, 1, 0]);
        }
        sender.send(&datagram);
    }
    let metrics = sender.finish();
    assert!(metrics.errors("udp", "malformed") > 90_000, "{:?}", faults(&metrics));
}

/// PR-03: clients that have closed their port when the answer comes. Answers to port 0 cannot be
/// asked for without the right to forge packets.
#[test]
fn senders_that_are_gone_stop_nothing() {
    let node = Node::start(&Config::with_plenty());
    let frame = frame_of(1, &[check("GET /", "gone")]);
    let mut sender = Sender::new(&node);
    for number in 0..10_000 {
        let gone = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        gone.send_to(&frame, node.udp()).expect("it is sent");
        drop(gone);
        if number % BURST == 0 {
            sender.ask();
        }
    }
    sender.ask();
    // One that stays and never reads: the kernel drops what finds no room.
    let mut deaf = node.caller(Surface::Udp);
    let many = frame_of(1, &vec![check("GET /", "deaf"); 200]);
    for _ in 0..1_000 {
        deaf.send(&many).expect("it is sent");
    }
    sender.ask();
}

/// A port that others than this host can reach sends nobody more than was sent to it, gives nothing
/// back, and is warned of at the start.
#[test]
fn beyond_loopback_no_answer_is_longer_than_its_question() {
    let Some(address) = address_beyond_loopback() else {
        let what = "UDP beyond loopback: this host has no IPv4 address but those of loopback";
        return leave_out(what);
    };
    let node = Node::start(&Config::with_plenty().listen(&format!("udp = \"{address}:0\"")));
    assert_eq!(node.log().count(" WARN "), 1, "{}", node.log().text());
    let mut caller = node.caller(Surface::Udp);
    let short = frame_of(1, &[check("GET /", "alice")]);
    caller.send(&short).expect("it is sent");
    let refused = caller.receive().expect("an answer");
    assert!(refused.len() <= short.len());
    let refused = wire::decode_reply(&refused).expect("a frame");
    assert!(
        matches!(refused, wire::ServerFrame::Error { code: wire::ErrorCode::ReplyTooLong, .. }),
        "{refused:?}"
    );
    let padded = |request: limiter::Request<'_>| {
        let mut frame = Vec::new();
        let mut writer = wire::RequestWriter::new(&mut frame, 2);
        writer.check(&request, None).expect("it fits");
        writer.pad_for_reply().finish();
        frame
    };
    let question = padded(check("GET /", "alice"));
    caller.send(&question).expect("it is sent");
    let answer = caller.receive().expect("an answer");
    assert!(answer.len() <= question.len());
    match wire::decode_reply(&answer).expect("a frame") {
        wire::ServerFrame::Reply(reply) => {
            let answer = reply.answers().next().expect("an answer").expect("a decision");
            assert_eq!(answer.remaining, Some(PLENTY - 1), "the short one charged nothing");
        }
        other => panic!("{other:?}"),
    }
    caller.send(&padded(check("GET /", "alice").with_op(Op::Refund))).expect("it is sent");
    match wire::decode_reply(&caller.receive().expect("an answer")).expect("a frame") {
        wire::ServerFrame::Reply(reply) => {
            let refused = reply.answers().next().expect("an answer");
            assert_eq!(refused.expect_err("a status"), wire::Status::Forbidden);
        }
        other => panic!("{other:?}"),
    }
}

/// An IPv4 address of this host that is not of loopback, as the kernel's routes have it: a line with
/// the address, and below it one that says that it is the host's own.
fn address_beyond_loopback() -> Option<Ipv4Addr> {
    let routes = std::fs::read_to_string("/proc/net/fib_trie").ok()?;
    let mut address = None;
    for line in routes.lines().map(str::trim) {
        if let Some(leaf) = line.strip_prefix("|-- ") {
            address = leaf.parse().ok().filter(|address: &Ipv4Addr| !address.is_loopback());
        } else if line == "/32 host LOCAL" && address.is_some() {
            return address;
        }
    }
    None
}
