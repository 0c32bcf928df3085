//! A cluster of real processes from one file: certificates of its own, addresses that no other test
//! has, and nodes that are started together or one by one.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use limiter::Request;
use relay::Relay;
use tempfile::TempDir;
use wire::RequestWriter;

use super::time::PATIENCE;
use super::{Caller, Network, Node, Place, Surface, check, pause, run_in, wait_until};

/// One limit: 100 an hour for each key.
pub(crate) const HUNDRED_PER_HOUR: &str = "[[limit]]\nname = \"per-key\"\nrate = \"100/h\"\n";

/// How soon every node knows what another let through: twice what is promised, since all tests share
/// the machine.
pub(crate) const SOON: Duration = Duration::from_secs(2);

/// Where peers listen: the port of each, at addresses that tell them apart.
const PORT: u16 = 7401;

/// A folder with a file and certificates for several nodes.
#[derive(Debug)]
pub(crate) struct Fleet {
    folder: Arc<TempDir>,
    names: Vec<String>,
    /// Where each node listens for peers, and sends from.
    listen: Vec<SocketAddr>,
    /// Where each is dialled: there, or at its front of a relay.
    fronts: Vec<SocketAddr>,
    /// The process in whose network namespace each runs; none: in the test's own.
    hosts: Vec<u32>,
}

impl Fleet {
    /// Nodes of these names under `limits`.
    #[track_caller]
    pub(crate) fn new(names: &[&str], limits: &str) -> Self {
        Self::with(names, "name = \"test\"", limits)
    }

    /// The same with lines of their own in `[cluster]`, its name among them.
    #[track_caller]
    pub(crate) fn with(names: &[&str], lines: &str, limits: &str) -> Self {
        let listen = on_loopback(names.len());
        Self::placed(names, lines, limits, &listen, &listen, Vec::new())
    }

    /// The same, and all that the nodes say to each other goes through a relay, where the nodes have
    /// the places of their names.
    #[track_caller]
    pub(crate) fn behind_relay(
        names: &[&str],
        lines: &str,
        limits: &str,
        seed: u64,
    ) -> (Self, Relay) {
        let listen = on_loopback(names.len());
        let relay = Relay::start(seed, &listen).expect("a relay");
        let fronts: Vec<_> = (0..names.len()).map(|node| relay.front(node)).collect();
        (Self::placed(names, lines, limits, &listen, &fronts, Vec::new()), relay)
    }

    /// Nodes each on a host of its own.
    #[track_caller]
    pub(crate) fn on_hosts(names: &[&str], limits: &str, network: &Network) -> Self {
        let listen: Vec<_> =
            (0..names.len()).map(|host| (network.address(host), PORT).into()).collect();
        let hosts = (0..names.len()).map(|host| network.host_process(host)).collect();
        Self::placed(names, "name = \"test\"", limits, &listen, &listen, hosts)
    }

    #[track_caller]
    fn placed(
        names: &[&str],
        lines: &str,
        limits: &str,
        listen: &[SocketAddr],
        fronts: &[SocketAddr],
        hosts: Vec<u32>,
    ) -> Self {
        let folder = Arc::new(tempfile::tempdir().expect("a folder for temporary files"));
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let (listen, fronts) = (listen.to_vec(), fronts.to_vec());
        let fleet = Self { folder, names, listen, fronts, hosts };
        fleet.write(lines, limits);
        fleet.certify(&["cert", "init"]);
        let named = fleet.names.iter().flat_map(|name| ["--node", name.as_str()]);
        fleet.certify(&["cert", "issue"].into_iter().chain(named).collect::<Vec<_>>());
        fleet
    }

    /// Writes the file anew. Nodes that run do not read it.
    pub(crate) fn write(&self, lines: &str, limits: &str) {
        let peers: Vec<_> = self.fronts.iter().map(|front| format!("\"{front}\"")).collect();
        let mut text = format!(
            "[listen]\nudp = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\nunix = \"{{node}}.sock\"\n\n\
             [cluster]\npeers = [{}]\n\
             tls = {{ ca = \"ca.pem\", cert = \"{{node}}.pem\", key = \"{{node}}.key\" }}\n{lines}\n",
            peers.join(", ")
        );
        for ((name, at), front) in self.names.iter().zip(&self.listen).zip(&self.fronts) {
            text.push_str(&format!("\n[node.{name}.cluster]\nlisten = \"{at}\"\n"));
            if front != at {
                text.push_str(&format!("advertise = \"{front}\"\n"));
            }
        }
        text.push_str(&format!("\n{limits}"));
        fs::write(self.folder.path().join("cluster.toml"), text).expect("a file in our own folder");
    }

    /// Runs `rlnode cert …` in the folder.
    #[track_caller]
    pub(crate) fn certify(&self, arguments: &[&str]) {
        let ended = run_in(self.folder.path(), arguments);
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }

    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Where the node of this index listens for peers.
    pub(crate) fn at(&self, index: usize) -> SocketAddr {
        self.listen[index]
    }

    pub(crate) fn place(&self, name: &str) -> Arc<Place> {
        Place::shared(&self.folder, name)
    }

    /// Starts every node at once, and waits until all are ready and reach each other.
    #[track_caller]
    pub(crate) fn start(&self) -> Vec<Node> {
        let starting: Vec<_> = self.names.iter().map(|name| self.spawn(name)).collect();
        let nodes: Vec<_> = starting.into_iter().map(Node::await_ready).collect();
        for node in &nodes {
            await_reached(node, nodes.len());
        }
        nodes
    }

    /// Starts the node `name`, which is not ready yet.
    #[track_caller]
    pub(crate) fn spawn(&self, name: &str) -> Node {
        let place = self.place(name);
        let index = self.names.iter().position(|it| it == name).expect("a name of the fleet");
        let command = match self.hosts.get(index) {
            Some(host) => place.command_on(*host),
            None => place.command(),
        };
        Node::spawn_unready(place, command)
    }

    /// Ends a node in this way and starts one of its name.
    #[track_caller]
    pub(crate) fn spawn_after(&self, node: Node, end: impl FnOnce(Node)) -> Node {
        let name = node.place().node().to_owned();
        end(node);
        self.spawn(&name)
    }
}

/// Addresses of loopback for one test: the processes of two runs of the tests are not the same, nor
/// are two tests of one run.
fn on_loopback(nodes: usize) -> Vec<SocketAddr> {
    static NEXT: AtomicU8 = AtomicU8::new(0);
    let process = u8::try_from(std::process::id() % 250).expect("below 250") + 1;
    let test = NEXT.fetch_add(1, Ordering::Relaxed);
    let hosts = (1..=u8::MAX).take(nodes);
    hosts.map(|host| (Ipv4Addr::new(127, process, test, host), PORT).into()).collect()
}

/// Waits until each of `nodes`, which are all members, reaches all.
#[track_caller]
pub(crate) fn await_whole(nodes: &[Node]) {
    for node in nodes {
        await_reached(node, nodes.len());
    }
}

/// Waits until the one of `nodes` at `apart` is apart from all others, for itself and for them.
#[track_caller]
pub(crate) fn await_apart(nodes: &[Node], apart: usize) {
    for (index, node) in nodes.iter().enumerate() {
        await_reach(node, if index == apart { 1 } else { nodes.len() - 1 });
    }
}

/// Waits until `node` reaches as many members as there are, itself included.
#[track_caller]
pub(crate) fn await_reached(node: &Node, members: usize) {
    await_cluster(node, &format!("reaches {members} of {members}"), |cluster| {
        cluster["members"] == members && cluster["reached"] == members
    });
}

/// Waits until `node` reaches so many members, itself included, whatever their number.
#[track_caller]
pub(crate) fn await_reach(node: &Node, members: usize) {
    await_cluster(node, &format!("reaches {members}"), |cluster| cluster["reached"] == members);
}

/// Waits until what `node` tells of its cluster is as it should be.
#[track_caller]
pub(crate) fn await_cluster(node: &Node, what: &str, is: impl Fn(&serde_json::Value) -> bool) {
    let name = node.place().node().to_owned();
    wait_until(&format!("`{name}` {what}"), PATIENCE, || is(&node.cluster()));
}

/// Units left of `per-key` to `key` as `node` tells a peek.
#[track_caller]
pub(crate) fn left(node: &Node, key: &str) -> u64 {
    let peek: Request<'_> = check("GET /", key).with_op(limiter::Op::Peek);
    node.caller(Surface::Stream).decide(&peek).remaining.expect("a number")
}

/// Milliseconds until the bucket of `key` is full again, as `node` tells a peek. Unlike what is left,
/// it tells how deep in debt the bucket is.
#[track_caller]
pub(crate) fn full_after_ms(node: &Node, key: &str) -> u64 {
    let peek: Request<'_> = check("GET /", key).with_op(limiter::Op::Peek);
    node.caller(Surface::Stream).decide(&peek).reset_after_ms.expect("a time")
}

/// How long a check may be held that should pass: all tests share the machine, and peers may be slow.
const PATIENTLY: Duration = Duration::from_secs(1);
/// How long one may be held that may well be denied.
const BRIEFLY: Duration = Duration::from_millis(100);

/// Spends units of `per-key` one by one, and gives how many passed.
#[track_caller]
pub(crate) fn spend(node: &Node, key: &str, units: usize) -> usize {
    let mut caller = node.caller(Surface::Stream);
    (0..units).map(|_| ask_at_once(&mut caller, key, 1)).sum()
}

/// Asks `count` checks of one key in one frame that should all pass, and gives how many did.
#[track_caller]
pub(crate) fn ask_at_once(caller: &mut Caller, key: &str, count: usize) -> usize {
    ask(caller, key, count, PATIENTLY)
}

#[track_caller]
fn ask(caller: &mut Caller, key: &str, count: usize, max_wait: Duration) -> usize {
    let max_wait_us = u32::try_from(max_wait.as_micros()).expect("a second at most");
    let mut frame = Vec::new();
    let mut writer = RequestWriter::new(&mut frame, 7);
    for _ in 0..count {
        writer.check(&check("GET /", key), Some(max_wait_us)).expect("room in the frame");
    }
    writer.finish();
    caller.send(&frame).expect("the frame is sent");
    let reply = caller.receive().expect("the frame is answered");
    let Ok(wire::ServerFrame::Reply(reply)) = wire::decode_reply(&reply) else { panic!("a reply") };
    reply.answers().filter(|answer| answer.as_ref().is_ok_and(|answer| answer.allowed)).count()
}

/// Asks `count` checks of one key in one frame that nobody waits for, and gives how many passed.
#[track_caller]
pub(crate) fn grab(node: &Node, key: &str, count: usize) -> usize {
    ask(&mut node.caller(Surface::Stream), key, count, Duration::ZERO)
}

/// Spends everything that is left of `per-key` to `key`, and gives how much that was. The last units
/// of a bucket, fewer than there are members, pass only at the members whose turn it is.
#[track_caller]
pub(crate) fn drain(nodes: &[&Node], key: &str) -> usize {
    let mut passed = 0;
    loop {
        let before = passed;
        for node in nodes {
            let mut caller = node.caller(Surface::Stream);
            while ask(&mut caller, key, 1, BRIEFLY) == 1 {
                passed += 1;
            }
        }
        if passed == before {
            return passed;
        }
        // What one of them spent last is known to the others before they are asked again.
        pause(SOON / 5);
    }
}

/// Waits until `node` tells that so much is left.
#[track_caller]
pub(crate) fn await_left(node: &Node, key: &str, units: u64) {
    let name = node.place().node().to_owned();
    wait_until(&format!("{units} left of `{key}` on `{name}`"), SOON, || left(node, key) == units);
}
