//! Who is linked, who is refused, and which of two connections stays.

use wire::peer::{Hello, PeerDecoded, PeerFrame, Refusal, decode_peer, write_hello};

use super::network::{Network, START_NS, TestNode, config, hourly};
use crate::config::{MS, SECOND};
use crate::greeting::digest;
use crate::link::ATTEMPTS_MAX;
use crate::{Config, Identity, LinkId, Note, Output, PeerState};

const HELLO: u8 = 0x80;
const ANSWER: u8 = 0x81;
const DONE: u8 = 0x82;
const HEAL: u8 = 0x86;
const HEAL_ACK: u8 = 0x87;

/// `a` and `b`, who do not dial by themselves.
fn pair(b: Config) -> Network {
    let mut net = Network::new();
    net.dials = false;
    net.start("a", config("a", 2), vec![hourly("l")]);
    net.start("b", b, vec![hourly("l")]);
    net
}

/// What `a`, which `b` dials, refuses it for; `b` is told.
fn refusal(b: Config, identity: Identity) -> (Refusal, String) {
    let mut net = pair(b);
    net.identities.insert("b", identity);
    net.dial("b", "a");
    net.run(5 * MS);
    let [Note::Refused { refusal, text, by_peer: false, .. }] = net.node("a").notes.as_slice()
    else {
        panic!("{:?}", net.node("a").notes)
    };
    let found = (*refusal, text.clone());
    assert_eq!(net.node("b").refusals, [found.0]);
    assert_eq!(net.node("a").refusals, [found.0]);
    assert_eq!(net.counts("a").refused.of(found.0), 1);
    assert_eq!(net.counts("b").refused_by_peers.of(found.0), 1);
    assert_eq!(net.members("a"), (1, 2));
    assert_eq!((net.status("a").handshakes, net.status("b").handshakes), (0, 0));
    found
}

fn named(name: &str) -> Identity {
    Identity::Named(name.into())
}

#[test]
fn the_handshake_is_hello_answer_done_and_then_heals() {
    let mut net = pair(config("b", 2));
    net.dial("b", "a");
    net.run(10 * MS);
    let of_handshake = |(_, frame): &&(_, u8)| *frame <= HEAL_ACK;
    let order: Vec<_> = net.arrived.iter().filter(of_handshake).copied().collect();
    // Both begin with nothing when they are linked: `b` at the answer, `a` at done.
    assert_eq!(order[..3], [("a", HELLO), ("b", ANSWER), ("a", DONE)]);
    let mut heals = order[3..].to_vec();
    heals.sort_unstable();
    assert_eq!(heals, [("a", HEAL), ("a", HEAL_ACK), ("b", HEAL), ("b", HEAL_ACK)]);
    assert_eq!(net.state("a", "b"), PeerState::Counted);
    assert_eq!(net.state("b", "a"), PeerState::Counted);
    assert_eq!(net.node("a").notes[0], Note::Linked { peer: "b".into() });
    assert_eq!((net.node("a").ready, net.node("b").ready), (1, 1));
}

#[test]
fn strangers_are_refused_by_name() {
    let other = Config { cluster: "core".into(), ..config("b", 2) };
    let cluster = refusal(other, named("b"));
    assert_eq!(cluster, (Refusal::Cluster, "cluster `core` is not `edge`".into()));
    let secret = refusal(Config { secret: [8; 16], ..config("b", 2) }, named("b"));
    assert_eq!(secret.0, Refusal::Secret);
    let identity = refusal(config("b", 2), named("c"));
    assert_eq!(identity, (Refusal::Identity, "node `b` has the certificate of `c`".into()));
    let duplicate = refusal(config("a", 2), Identity::Fleet);
    assert_eq!(duplicate.0, Refusal::DuplicateName);
}

#[test]
fn a_fleet_certificate_names_itself() {
    let mut net = pair(config("b", 2));
    net.identities.extend([("a", Identity::Fleet), ("b", Identity::Fleet)]);
    net.dial("b", "a");
    net.run(10 * MS);
    assert_eq!(net.members("a"), (2, 2));
}

/// A node, and what it does with a hello of `b` that `change` was done to.
fn judged(change: impl Fn(&mut Hello)) -> Option<Refusal> {
    let mut node = TestNode::new(config("a", 2), vec![hourly("l")], 5, START_NS);
    let mut hello = Hello {
        protocol_min: 1,
        protocol_max: 1,
        capabilities: 0,
        cluster: "edge".into(),
        region: String::new(),
        node: "b".into(),
        life: 6,
        synced: false,
        members: vec!["b".into()],
        members_version: 1,
        limits: Vec::new(),
        digest: [0; 16],
        unix_ms: 0,
        size: 2,
    };
    change(&mut hello);
    hello.digest = digest(&config("a", 2), &hello.node, hello.life);
    let mut bytes = Vec::new();
    write_hello(&mut bytes, &hello).unwrap();
    node.cluster.connected(START_NS, LinkId(1), false, Identity::Fleet);
    node.cluster.received(START_NS, LinkId(1), &bytes);
    std::iter::from_fn(|| node.cluster.output()).find_map(|output| match output {
        Output::Close { refusal, .. } => refusal,
        _ => None,
    })
}

#[test]
fn itself_and_other_protocols_are_refused() {
    assert_eq!(judged(|_| ()), None);
    assert_eq!(judged(|hello| hello.life = 5), Some(Refusal::Itself));
    let later = |hello: &mut Hello| (hello.protocol_min, hello.protocol_max) = (2, 9);
    assert_eq!(judged(later), Some(Refusal::Protocol));
    assert_eq!(judged(|hello| hello.protocol_max = 9), None);
}

#[test]
fn garbage_and_frames_out_of_turn_are_refused() {
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x84; 3], &ack(1)] {
        let mut node = TestNode::new(config("a", 2), vec![hourly("l")], 5, START_NS);
        node.cluster.connected(START_NS, LinkId(1), false, Identity::Fleet);
        node.cluster.received(START_NS, LinkId(1), bytes);
        let outputs: Vec<_> = std::iter::from_fn(|| node.cluster.output()).collect();
        let [Output::Send { frame, .. }, Output::Close { refusal, .. }, Output::Note(_)] =
            outputs.as_slice()
        else {
            panic!("{outputs:?}")
        };
        assert_eq!(*refusal, Some(Refusal::Malformed));
        let decoded = decode_peer(frame).unwrap();
        assert!(matches!(decoded, PeerDecoded::Frame(PeerFrame::Refused(_))), "{decoded:?}");
    }
}

fn ack(next: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::peer::write_ack(&mut bytes, next);
    bytes
}

#[test]
fn a_linked_peer_that_sends_garbage_is_lost() {
    let mut net = Network::formed(&["a", "b"]);
    let link = net.link_of("a", "b");
    net.inject("a", link, &[0xff; 8]);
    assert_eq!(net.members("a"), (1, 2));
    assert_eq!(net.node("a").refusals, [Refusal::Malformed]);
    net.run(SECOND);
    assert_eq!(net.members("a"), (2, 2));
}

#[test]
fn of_two_dials_that_of_the_smaller_name_wins() {
    for names in [["a", "b"], ["b", "a"]] {
        let mut net = pair(config("b", 2));
        let links = [net.dial(names[0], names[1]), net.dial(names[1], names[0])];
        net.run(20 * MS);
        let of_a = links[usize::from(names[0] == "b")];
        assert_eq!((net.link_of("a", "b"), net.link_of("b", "a")), (of_a, of_a));
        assert_eq!(net.node("b").refusals, [Refusal::Busy]);
        assert_eq!(net.counts("a").peers_lost + net.counts("b").peers_lost, 0);
    }
}

#[test]
fn two_dials_of_fleet_certificates_end_in_the_same_link() {
    let mut net = pair(config("b", 2));
    net.identities.extend([("a", Identity::Fleet), ("b", Identity::Fleet)]);
    net.dials = true;
    net.run(SECOND);
    assert_eq!((net.members("a"), net.members("b")), ((2, 2), (2, 2)));
    // Neither knows whom it dials before the answer.
    net.dials = false;
    net.sever("a", "b");
    net.dial("b", "a");
    let of_a = net.dial("a", "b");
    net.run(20 * MS);
    assert_eq!((net.link_of("a", "b"), net.link_of("b", "a")), (of_a, of_a));
    net.run(SECOND);
    assert_eq!((net.members("a"), net.members("b")), ((2, 2), (2, 2)));
}

#[test]
fn a_second_link_of_the_larger_name_is_refused_while_the_first_is_heard() {
    let mut net = Network::formed(&["a", "b"]);
    let first = net.link_of("a", "b");
    net.dial("b", "a");
    net.run(20 * MS);
    assert_eq!(net.node("b").refusals, [Refusal::Busy]);
    assert_eq!(net.link_of("a", "b"), first);
    // Once the peer is not heard any more, its new connection is taken.
    net.dials = false;
    net.node("b").paused = true;
    net.run(300 * MS);
    net.node("b").paused = false;
    let now_ns = net.now_ns;
    net.node("b").cluster.closed(now_ns, first);
    let second = net.dial("b", "a");
    net.run(20 * MS);
    assert_eq!(net.link_of("a", "b"), second);
}

#[test]
fn a_new_link_of_the_smaller_name_replaces_the_old() {
    let mut net = Network::formed(&["a", "b"]);
    net.dials = false;
    // The first has lost the connection, and the second has not noticed.
    let (first, now_ns) = (net.link_of("a", "b"), net.now_ns);
    net.node("a").cluster.closed(now_ns, first);
    let second = net.dial("a", "b");
    net.run(SECOND);
    assert_eq!((net.link_of("a", "b"), net.link_of("b", "a")), (second, second));
    assert_eq!((net.members("a"), net.members("b")), ((2, 2), (2, 2)));
    assert_eq!((net.counts("a").peers_lost, net.counts("b").peers_lost), (1, 1));
}

#[test]
fn a_second_process_of_a_name_is_refused_until_the_first_is_silent() {
    let mut net = Network::formed(&["a", "b"]);
    net.start("c", Config { node: "b".into(), ..config("c", 2) }, vec![hourly("l")]);
    net.identities.insert("c", named("b"));
    net.run(SECOND);
    assert!(net.counts("a").refused.of(Refusal::DuplicateName) > 0);
    assert_eq!(net.members("a"), (2, 2));
    net.crash("b");
    net.run(2 * SECOND);
    assert_eq!(net.members("a"), (2, 2));
    assert_eq!(net.peer("a", "b").life, net.status("c").life);
}

#[test]
fn handshakes_are_bounded_in_time_and_number() {
    let mut node = TestNode::new(config("a", 2), vec![hourly("l")], 5, START_NS);
    for link in 0..=ATTEMPTS_MAX as u64 {
        node.cluster.connected(START_NS, LinkId(link), false, Identity::Fleet);
    }
    let outputs: Vec<_> = std::iter::from_fn(|| node.cluster.output()).collect();
    let last = LinkId(ATTEMPTS_MAX as u64);
    assert!(matches!(
        outputs.as_slice(),
        [Output::Close { link, refusal: Some(Refusal::Busy) }] if *link == last
    ));
    assert_eq!(node.cluster.status(START_NS).handshakes, ATTEMPTS_MAX);
    node.cluster.poll(START_NS + 2 * SECOND);
    assert_eq!(node.cluster.status(START_NS).handshakes, 0);
}

#[test]
fn clocks_on_the_wall_are_compared_and_decide_nothing() {
    let mut net = pair(config("b", 2));
    net.node("a").cluster.set_wall_clock(START_NS, 5_000);
    net.node("b").cluster.set_wall_clock(START_NS, 65_000);
    net.dial("b", "a");
    net.run(10 * MS);
    // Each is off by the time that the hello was under way.
    assert!(net.peer("b", "a").skew_ms.is_some_and(|skew| (-60_010..=-60_000).contains(&skew)));
    assert!(net.peer("a", "b").skew_ms.is_some_and(|skew| (59_990..=60_000).contains(&skew)));
    assert_eq!(net.members("a"), (2, 2));
}
