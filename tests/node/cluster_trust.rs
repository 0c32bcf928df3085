//! Who may join a cluster: everybody else is refused by name, counted, and does no harm.

use std::net::UdpSocket;

use rlnode::certificate::Authority;

use crate::support::fleet::{HUNDRED_PER_HOUR, await_left, left, spend};
use crate::support::time::{PATIENCE, unix_ms};
use crate::support::{Fleet, Node, Noise, run, wait_until};

/// A pair, and a process that is not of it but knows where it is.
struct Intruded {
    fleet: Fleet,
    nodes: Vec<Node>,
}

impl Intruded {
    fn new() -> Self {
        let fleet = Fleet::new(&["a", "b", "x"], HUNDRED_PER_HOUR);
        let nodes = ["a", "b"].map(|name| fleet.spawn(name)).map(Node::await_ready);
        let nodes = Vec::from(nodes);
        assert_eq!(spend(&nodes[0], "alice", 10), 10);
        Self { fleet, nodes }
    }

    /// Waits until one of the pair refused somebody for `reason`, and expects that nothing else
    /// changed.
    #[track_caller]
    fn assert_refuses(&self, reason: &str) {
        let refused =
            |node: &Node| node.metrics().sum("rlnode_cluster_refused_total", &[("reason", reason)]);
        wait_until(&format!("a refusal for `{reason}`"), PATIENCE, || {
            self.nodes.iter().any(|node| refused(node) > 0)
        });
        for node in &self.nodes {
            let peers = node.cluster()["peers"].clone();
            assert!(
                peers.as_array().expect("a list").iter().all(|peer| peer["name"] != "x"),
                "{peers}"
            );
        }
    }
}

/// PE-19: a certificate of another authority does not even begin.
#[test]
fn another_authority_is_refused() {
    let intruded = Intruded::new();
    // The nodes that run have read theirs.
    intruded.fleet.certify(&["cert", "init", "--force"]);
    intruded.fleet.certify(&["cert", "issue", "--node", "x", "--force"]);
    let _x = intruded.fleet.spawn("x");
    intruded.assert_refuses("authority");
}

/// PE-19: a certificate of the right authority and name, but of the past, is as good as none.
#[test]
fn an_expired_certificate_is_refused() {
    const DAY_S: i64 = 86_400;
    let intruded = Intruded::new();
    let folder = intruded.fleet.folder();
    let read = |file: &str| std::fs::read_to_string(folder.join(file)).expect("a file of ours");
    let authority = Authority::read(&read("ca.pem"), &read("ca.key")).expect("our authority");
    let now_s = i64::try_from(unix_ms() / 1_000).expect("a date");
    let files = authority.issue("x", now_s - 40 * DAY_S, 30).expect("a certificate of last month");
    std::fs::write(folder.join("x.pem"), files.certificate).expect("a file in our own folder");
    std::fs::write(folder.join("x.key"), files.key).expect("a file in our own folder");
    let _x = intruded.fleet.spawn("x");
    intruded.assert_refuses("authority");
}

/// A node of another cluster is told so, although its certificate is good.
#[test]
fn another_cluster_is_refused() {
    let intruded = Intruded::new();
    intruded.fleet.write("name = \"other\"", HUNDRED_PER_HOUR);
    let x = intruded.fleet.spawn("x");
    intruded.assert_refuses("cluster");
    assert!(x.log().wait_for("cluster `", PATIENCE), "{}", x.log().text());
}

/// A node with another secret would hash keys to other buckets.
#[test]
fn another_secret_is_refused() {
    let intruded = Intruded::new();
    let (folder, other) = (intruded.fleet.folder(), Fleet::new(&["x"], HUNDRED_PER_HOUR));
    // The key of `x` as it is, with the secret of another cluster behind it.
    let own = std::fs::read_to_string(folder.join("x.key")).expect("a key");
    let key = own.split("-----BEGIN RLNODE").next().expect("a key alone");
    let others = std::fs::read_to_string(other.folder().join("x.key")).expect("a key");
    let secret = others.split_once("-----BEGIN RLNODE").expect("a secret").1;
    std::fs::write(folder.join("x.key"), format!("{key}-----BEGIN RLNODE{secret}")).expect("ours");
    let _x = intruded.fleet.spawn("x");
    intruded.assert_refuses("secret");
}

/// PE-22: a second process of a name that lives is refused, and the first is not disturbed.
#[test]
fn a_second_node_of_a_name_is_refused() {
    let intruded = Intruded::new();
    let fleet = &intruded.fleet;
    // A certificate that is good for any name, at the address of `x`, in a folder of its own.
    fleet.certify(&["cert", "issue", "--node", "*"]);
    let text = std::fs::read_to_string(fleet.folder().join("cluster.toml")).expect("the file");
    let text = text
        .replace(&format!("[node.b.cluster]\nlisten = \"{}\"", fleet.at(1)), "")
        .replace("[node.x.cluster]", "[node.b.cluster]")
        .replace("{node}.pem", "fleet.pem")
        .replace("{node}.key", "fleet.key");
    let place = crate::support::Place::with_text(&text);
    for file in ["ca.pem", "fleet.pem", "fleet.key"] {
        std::fs::copy(fleet.folder().join(file), place.folder().join(file)).expect("a copy");
    }
    let mut command = crate::support::process::rlnode(&["--node", "b", "--config"]);
    command.arg(place.config_path()).current_dir(place.folder()).env("TMPDIR", place.folder());
    let second = Node::spawn_unready(place, command);
    intruded.assert_refuses("duplicate_name");
    await_left(&intruded.nodes[1], "alice", left(&intruded.nodes[0], "alice"));
    assert!(second.log().wait_for("refused by", PATIENCE), "{}", second.log().text());
}

/// A node cannot start under a name that its certificate does not prove, nor without its files.
#[test]
fn a_node_whose_files_do_not_fit_does_not_start() {
    let fleet = Fleet::new(&["a", "b"], HUNDRED_PER_HOUR);
    let folder = fleet.folder();
    std::fs::copy(folder.join("a.pem"), folder.join("b.pem")).expect("a copy");
    std::fs::copy(folder.join("a.key"), folder.join("b.key")).expect("a copy");
    let ended = fleet.place("b").start_in_vain();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("the certificate is of `a`, and this node is `b`"), "{ended:?}");
    assert!(!fleet.place("b").socket_path().exists());

    std::fs::remove_file(folder.join("a.key")).expect("our own file");
    let ended = fleet.place("a").start_in_vain();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("a.key`: cannot be read"), "{}", ended.stderr);
    assert!(ended.stderr.contains("rlnode cert"), "{}", ended.stderr);
}

/// PE-19: whatever arrives at the peer port, the nodes go on.
#[test]
fn garbage_at_the_peer_port_is_harmless() {
    let fleet = Fleet::new(&["a", "b"], HUNDRED_PER_HOUR);
    let nodes = fleet.start();
    let mut noise = Noise::seeded(7);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    for round in 0..2_000 {
        let length = noise.below(1_400);
        let mut bytes = noise.bytes(length);
        // Half of them begin as QUIC's long header does.
        if let Some(first) = bytes.first_mut().filter(|_| round % 2 == 0) {
            *first |= 0xc0;
        }
        // A socket whose queue is full drops it, as a network would.
        let _ = socket.send_to(&bytes, fleet.at(0));
    }
    assert_eq!(spend(&nodes[0], "alice", 40), 40);
    await_left(&nodes[1], "alice", 60);
    let status = run(&["status", "--addr", &nodes[0].stream_path().display().to_string()]);
    assert!(status.stdout.contains("reaches 2 of 2 members"), "{status:?}");
    assert_eq!(nodes[0].cluster()["splits"], 0);
}
