//! The built program: two nodes on loopback find each other, share one limit, answer what they are
//! asked over UDP, and end when told.

use std::io::{BufRead, BufReader, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use limiter::{Freshness, Request};
use rustix::process::{Pid, Signal, kill_process};
use wire::{Answer, RequestWriter, ServerFrame, decode_reply};

/// Ends a test that would hang; far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Requests that one node lets through back to back.
const BURST: usize = 20;

/// A running node, killed when dropped.
struct Node {
    child: Child,
    lines: mpsc::Receiver<String>,
    udp: SocketAddr,
}

impl Node {
    fn start(gossip: SocketAddr, peers: &[SocketAddr]) -> Self {
        let udp = free_address();
        let peers: Vec<_> = peers.iter().map(ToString::to_string).collect();
        let mut child = Command::new(env!("CARGO_BIN_EXE_rateguard-node"))
            .args(["--udp", &udp.to_string(), "--gossip", &gossip.to_string()])
            .args(["--peers", &peers.join(","), "--name", "per-key"])
            .args(["--rate", "1", "--burst", &BURST.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stdout = child.stdout.take().expect("it is piped");
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
            lines.try_for_each(|line| sender.send(line))
        });
        Self { child, lines, udp }
    }

    fn wait_until_ready(&self) {
        assert_eq!(self.lines.recv_timeout(PATIENCE).as_deref(), Ok("ready"));
    }

    /// Asks `checks` times for one key, in one frame, and gives what `read` makes of each answer. Asks
    /// again where nobody listens yet: nothing was spent then.
    fn ask<T>(&self, checks: usize, read: impl Fn(Answer<'_>) -> T) -> Vec<T> {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        socket.set_read_timeout(Some(PATIENCE)).expect("it is not zero");
        socket.connect(self.udp).expect("loopback is there");
        let mut frame = Vec::new();
        let mut writer = RequestWriter::new(&mut frame, 7);
        for _ in 0..checks {
            writer.check(&Request::check(b"GET /", b"alice"), None).expect("room in the frame");
        }
        writer.finish();
        let mut bytes = vec![0; wire::FRAME_BYTES_MAX];
        let length = loop {
            match socket.send(&frame).and_then(|_| socket.recv(&mut bytes)) {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => thread::yield_now(),
                received => break received.expect("an answer"),
            }
        };
        let Ok(ServerFrame::Reply(reply)) = decode_reply(&bytes[..length]) else {
            panic!("no reply");
        };
        assert_eq!((reply.id, reply.len()), (7, checks));
        reply.answers().map(|answer| read(answer.expect("a decision"))).collect()
    }

    /// Tells it to end, and gives its exit code.
    fn terminate(&mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it runs");
        self.child.wait().expect("it is a child").code()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address that was free a moment ago.
fn free_address() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.local_addr().expect("it is bound")
}

#[test]
fn two_nodes_form_a_cluster_answer_and_end_when_told() {
    let gossip = [free_address(), free_address()];
    let mut nodes = gossip.map(|own| Node::start(own, &gossip));
    for node in &nodes {
        node.wait_until_ready();
    }
    for node in &nodes {
        let allowed = node.ask(64, |answer| answer.allowed);
        // The burst is each node's own, and a second or so gives one more at most.
        assert!(allowed[..BURST].iter().all(|allowed| *allowed), "{allowed:?}");
        assert!(!allowed[63], "{allowed:?}");
        let told = node.ask(1, |answer| (answer.freshness, answer.limit_name.to_owned()));
        assert_eq!(told, [(Some(Freshness::Synced), "per-key".to_owned())]);
    }
    for node in &mut nodes {
        assert_eq!(node.terminate(), Some(0));
        assert!(node.lines.recv_timeout(PATIENCE).is_err(), "a line after `ready`");
    }
}

#[test]
fn a_node_whose_peer_is_not_there_answers_from_the_floor_and_is_not_ready() {
    let gossip = [free_address(), free_address()];
    let mut node = Node::start(gossip[0], &gossip);
    let told = node.ask(1, |answer| (answer.allowed, answer.freshness));
    assert_eq!(told, [(true, Some(Freshness::Split))]);
    assert_eq!(node.lines.try_recv(), Err(mpsc::TryRecvError::Empty));
    assert_eq!(node.terminate(), Some(0));
}

#[test]
fn a_taken_address_ends_it_with_a_word_about_the_option() {
    let holder = UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_rateguard-node"))
        .args(["--udp", &taken.to_string()])
        .args(["--gossip", "127.0.0.1:0", "--rate", "1"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("--udp") && told.contains(&taken.to_string()), "{told}");
}
