//! Real nodes on this machine: a cluster from one file with certificates, or nodes that know nothing
//! of each other. What is done to them while they are asked is done here.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use relay::Relay;
use serde::{Deserialize, Serialize};
use sim::Algorithm;

use super::trouble::{Deed, Step, Trouble, name};
use crate::certificates;
use crate::clock::{self, NS_PER_S};
use crate::driver::codec::Codec;
use crate::driver::{Address, Endpoint};
use crate::failure::Failure;
use crate::http::http_get;
use crate::process::{Folder, Process, free_tcp_port, free_udp_port, ports};
use crate::server;
use crate::window::Bucket;

/// Memory of each node for its tables, in MiB: far more than the keys of a run take.
const MEMORY_MIB: u64 = 64;
/// How long all nodes may take until each reaches all others.
const WHOLE_WITHIN_NS: u64 = 20 * NS_PER_S;
/// Pause between two looks whether they do.
const LOOK_EVERY_NS: u64 = NS_PER_S / 50;
/// Milliseconds in a second.
const MS_PER_S: u64 = 1000;
/// Name of the cluster's file.
const FILE: &str = "cluster.toml";

/// What a fleet is started from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Orders<'o> {
    /// The program; none: the one beside this.
    pub(super) program: Option<&'o Path>,
    /// Nodes.
    pub(super) members: usize,
    /// How the limit counts.
    pub(super) algorithm: Algorithm,
    /// The limit of all together. Windows allow the burst, and are as long as that takes at the rate.
    pub(super) limit: Bucket,
    /// Time between two exchanges.
    pub(super) interval: Duration,
    /// What the relay has to do.
    pub(super) trouble: &'o Trouble,
    /// Of the relay.
    pub(super) seed: u64,
}

/// Nodes that were started here. Dropping it kills them.
#[derive(Debug)]
pub(super) struct Fleet {
    /// Version of the program.
    pub(super) version: String,
    program: PathBuf,
    nodes: Vec<Node>,
    is_cluster: bool,
    relay: Option<Relay>,
    folder: Folder,
}

#[derive(Debug)]
struct Node {
    name: String,
    udp: SocketAddr,
    http: SocketAddr,
    /// Its file.
    file: PathBuf,
    /// None while it is dead.
    process: Option<Process>,
}

/// What `/v1/status` tells of the cluster, as far as it is read here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct ClusterStatus {
    life: String,
    members: usize,
    reached: usize,
    splits: u64,
    heals: u64,
    joins: u64,
    batches_sent: u64,
    bytes_sent: u64,
    held_total: u64,
    holds_refused: u64,
}

/// What the nodes and the relay counted between two moments, over all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Exchange {
    /// Batches of spends sent to peers.
    pub(super) batches: u64,
    /// Bytes of frames sent to peers, without what QUIC and UDP add.
    pub(super) bytes: u64,
    /// Checks held for an acknowledgement.
    pub(super) held: u64,
    /// Checks not held because too many were.
    pub(super) holds_refused: u64,
    /// Steps in which a node lost peers, gave its counts up, or counted peers again.
    pub(super) splits: u64,
    /// Datagrams that the relay passed on; none: there is no relay.
    pub(super) datagrams: Option<u64>,
    /// Their bytes, with what QUIC adds.
    pub(super) datagram_bytes: Option<u64>,
}

/// What was counted up to a moment.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    nodes: Vec<ClusterStatus>,
    relayed: Option<(u64, u64)>,
}

impl Fleet {
    /// Starts a cluster, and waits until every node reaches every other.
    ///
    /// # Errors
    /// If it does not come to that.
    pub(super) fn cluster(orders: &Orders<'_>) -> Result<Self, Failure> {
        let folder = Folder::new()?;
        let peers = loopback(&ports(orders.members, free_udp_port)?);
        let relay = if orders.trouble.needs_relay() { Some(relay(orders, &peers)?) } else { None };
        let fronts: Vec<_> = (0..orders.members)
            .map(|node| relay.as_ref().map_or(peers[node], |relay| relay.front(node)))
            .collect();
        let names: Vec<_> = (0..orders.members).map(name).collect();
        certificates::issue(&folder, &names)?;
        let doors = doors(orders.members)?;
        let file = folder.write(FILE, &cluster_text(orders, &fronts, &peers, &doors))?;
        let nodes = nodes(doors, |_| Ok(file.clone()))?;
        Self::start(orders.program, nodes, true, relay, folder)
    }

    /// Starts nodes that know nothing of each other, each with its part of the limit.
    ///
    /// # Errors
    /// If one does not start.
    pub(super) fn split(orders: &Orders<'_>) -> Result<Self, Failure> {
        let folder = Folder::new()?;
        let doors = doors(orders.members)?;
        let nodes = nodes(doors.clone(), |node| {
            let text = lone_text(orders, node, doors[node]);
            folder.write(&format!("{}.toml", name(node)), &text)
        })?;
        Self::start(orders.program, nodes, false, None, folder)
    }

    fn start(
        program: Option<&Path>,
        nodes: Vec<Node>,
        is_cluster: bool,
        relay: Option<Relay>,
        folder: Folder,
    ) -> Result<Self, Failure> {
        let program = server::program(program)?;
        let version = String::new();
        let mut fleet = Self { version, program, nodes, is_cluster, relay, folder };
        for node in 0..fleet.nodes.len() {
            fleet.start_node(node)?;
        }
        fleet.wait_until_whole()?;
        fleet.version = version_of(fleet.nodes[0].http)?;
        Ok(fleet)
    }

    fn start_node(&mut self, node: usize) -> Result<(), Failure> {
        let Self { program, nodes, folder, is_cluster, .. } = self;
        let node = &mut nodes[node];
        let mut command = Command::new(program);
        command.arg("--config").arg(&node.file);
        if *is_cluster {
            command.args(["--node", &node.name]);
        }
        let log = format!("rlnode-{}", node.name);
        node.process = Some(Process::start(&log, &mut command, folder, None)?);
        Ok(())
    }

    /// Waits until every node is ready and reaches every other.
    ///
    /// # Errors
    /// If they do not in time, or one ends.
    pub(super) fn wait_until_whole(&self) -> Result<(), Failure> {
        let deadline_ns = clock::now_ns() + WHOLE_WITHIN_NS;
        while !self.nodes.iter().all(|node| self.is_whole(node)) {
            for process in self.nodes.iter().filter_map(|node| node.process.as_ref()) {
                if process.has_ended_within(Duration::ZERO) {
                    return Err(process.failed("ended before it was ready"));
                }
            }
            if clock::now_ns() > deadline_ns {
                let seconds = WHOLE_WITHIN_NS / NS_PER_S;
                return Err(Failure::new(format!("the nodes do not link within {seconds} s")));
            }
            clock::wait_until(clock::now_ns() + LOOK_EVERY_NS);
        }
        Ok(())
    }

    fn is_whole(&self, node: &Node) -> bool {
        let is_ready = http_get(node.http, "/readyz").is_ok_and(|(code, _)| code == 200);
        is_ready
            && (!self.is_cluster
                || cluster_status(node.http).is_ok_and(|status| {
                    (status.members, status.reached) == (self.nodes.len(), self.nodes.len())
                }))
    }

    /// Where each node is asked.
    pub(super) fn endpoints(&self) -> Vec<Endpoint> {
        let endpoint = |node: &Node| Endpoint {
            address: Address::Udp(node.udp),
            codec: Codec::Frame { is_padded: false },
        };
        self.nodes.iter().map(endpoint).collect()
    }

    /// Does each step at its time after `started_ns`.
    ///
    /// # Errors
    /// If one cannot be done.
    pub(super) fn perform(&mut self, steps: &[Step], started_ns: u64) -> Result<(), Failure> {
        for step in steps {
            clock::wait_until(started_ns + step.at_ns);
            self.perform_one(step)?;
        }
        Ok(())
    }

    fn perform_one(&mut self, step: &Step) -> Result<(), Failure> {
        let process = &mut self.nodes[step.node].process;
        match (step.deed, process.as_ref(), &self.relay) {
            (Deed::Kill, Some(_), _) => {
                if let Some(process) = process.take() {
                    process.kill();
                }
                Ok(())
            }
            (Deed::Start, None, _) => self.start_node(step.node),
            (Deed::Halt, Some(process), _) => process.pause(),
            (Deed::Resume, Some(process), _) => process.resume(),
            (Deed::Cut, _, Some(relay)) => {
                relay.isolate(step.node);
                Ok(())
            }
            (Deed::Mend, _, Some(relay)) => {
                relay.rejoin(step.node);
                Ok(())
            }
            // It is dead and cannot be halted, or lives and is not started again.
            _ => Ok(()),
        }
    }

    /// What was counted until now.
    ///
    /// # Errors
    /// If a node does not tell.
    pub(super) fn snapshot(&self) -> Result<Snapshot, Failure> {
        let nodes = match self.is_cluster {
            true => self.nodes.iter().map(|node| cluster_status(node.http)).collect(),
            false => Ok(Vec::new()),
        };
        let count = self.nodes.len();
        let pairs = || (0..count).flat_map(move |a| (0..count).map(move |b| (a, b)));
        let relayed = self.relay.as_ref().map(|relay| {
            pairs().filter(|(from, to)| from != to).fold(
                (0, 0),
                |(datagrams, bytes), (from, to)| {
                    let counts = relay.counts(from, to);
                    (datagrams + counts.forwarded, bytes + counts.bytes)
                },
            )
        });
        Ok(Snapshot { nodes: nodes?, relayed })
    }

    /// Stops every node.
    ///
    /// # Errors
    /// If one does not stop when told, or says that something went wrong.
    pub(super) fn stop(self) -> Result<(), Failure> {
        self.nodes.into_iter().filter_map(|node| node.process).try_for_each(Process::stop)
    }
}

impl Snapshot {
    /// What was counted from here until `later`. A node that was started in between has counted from 0.
    pub(super) fn until(&self, later: &Self) -> Exchange {
        let mut sum = Exchange::default();
        for (before, after) in self.nodes.iter().zip(&later.nodes) {
            let none = ClusterStatus::default();
            let before = if before.life == after.life { before } else { &none };
            sum.batches += after.batches_sent.saturating_sub(before.batches_sent);
            sum.bytes += after.bytes_sent.saturating_sub(before.bytes_sent);
            sum.held += after.held_total.saturating_sub(before.held_total);
            sum.holds_refused += after.holds_refused.saturating_sub(before.holds_refused);
            let steps = |status: &ClusterStatus| status.splits + status.heals + status.joins;
            sum.splits += steps(after).saturating_sub(steps(before));
        }
        if let (Some(before), Some(after)) = (self.relayed, later.relayed) {
            sum.datagrams = Some(after.0.saturating_sub(before.0));
            sum.datagram_bytes = Some(after.1.saturating_sub(before.1));
        }
        sum
    }
}

/// A relay before nodes that listen at `peers`, with the weather of the orders.
fn relay(orders: &Orders<'_>, peers: &[SocketAddr]) -> Result<Relay, Failure> {
    let relay = Relay::start(orders.seed, peers)
        .map_err(|error| Failure::because("cannot start the relay", error))?;
    for from in 0..peers.len() {
        for to in (0..peers.len()).filter(|&to| to != from) {
            relay.set_weather(from, to, orders.trouble.weather);
        }
    }
    Ok(relay)
}

/// Addresses on loopback with these ports.
pub(super) fn loopback(ports: &[u16]) -> Vec<SocketAddr> {
    ports.iter().map(|&port| SocketAddr::from(([127, 0, 0, 1], port))).collect()
}

/// The UDP door and the HTTP door of each node.
fn doors(members: usize) -> Result<Vec<(SocketAddr, SocketAddr)>, Failure> {
    let udp = loopback(&ports(members, free_udp_port)?);
    let http = loopback(&ports(members, free_tcp_port)?);
    Ok(udp.into_iter().zip(http).collect())
}

fn nodes(
    doors: Vec<(SocketAddr, SocketAddr)>,
    file: impl Fn(usize) -> Result<PathBuf, Failure>,
) -> Result<Vec<Node>, Failure> {
    let node = |(node, (udp, http))| {
        Ok(Node { name: name(node), udp, http, file: file(node)?, process: None })
    };
    doors.into_iter().enumerate().map(node).collect()
}

/// The one file of a cluster. Others reach the node i at `fronts[i]`, which it tells them too, so that
/// none finds a way around; it listens at `peers[i]`.
fn cluster_text(
    orders: &Orders<'_>,
    fronts: &[SocketAddr],
    peers: &[SocketAddr],
    doors: &[(SocketAddr, SocketAddr)],
) -> String {
    let list: Vec<_> = fronts.iter().map(|front| format!("'{front}'")).collect();
    let mut text = format!(
        "[listen]\nunix = '{{node}}.sock'\n\n[memory]\nmax = '{MEMORY_MIB}MiB'\n\n\
         [cluster]\nname = 'overshoot'\npeers = [{}]\nsync_interval = '{}ms'\n\
         tls = {{ ca = 'ca.pem', cert = '{{node}}.pem', key = '{{node}}.key' }}\n",
        list.join(", "),
        orders.interval.as_millis()
    );
    for (node, ((udp, http), (peer, front))) in
        doors.iter().zip(peers.iter().zip(fronts)).enumerate()
    {
        let name = name(node);
        text += &format!(
            "\n[node.{name}.listen]\nudp = '{udp}'\nhttp = '{http}'\n\
             [node.{name}.cluster]\nlisten = '{peer}'\nadvertise = '{front}'\n"
        );
    }
    text + &format!(
        "\n[[limit]]\nname = 'overshoot'\n{}",
        quota_text(orders.algorithm, orders.limit)
    )
}

/// What the file says of a limit that counts so.
fn quota_text(algorithm: Algorithm, Bucket { per_s, burst }: Bucket) -> String {
    let bucket = format!("rate = '{per_s}/s'\nburst = {burst}\n");
    let period_ms = burst.saturating_mul(MS_PER_S) / per_s.max(1);
    let windows = format!("limit = '{burst} per {period_ms}ms'\n");
    match algorithm {
        Algorithm::TokenBucket => bucket,
        Algorithm::LeakyBucket => format!("algorithm = 'leaky-bucket'\n{bucket}"),
        Algorithm::LeakyQueue => format!("algorithm = 'leaky-bucket'\nqueue = true\n{bucket}"),
        Algorithm::FixedWindow | Algorithm::SlidingWindow | Algorithm::SlidingLog => {
            format!("algorithm = '{}'\n{windows}", algorithm.as_str())
        }
    }
}

/// The file of a node with its part of the limit: an N-th of the rate, and of the burst in whole
/// units, of which the first nodes have those that are over.
fn lone_text(orders: &Orders<'_>, node: usize, (udp, http): (SocketAddr, SocketAddr)) -> String {
    let (place, members) = (node as u64, orders.members as u64);
    let Bucket { per_s, burst } = orders.limit;
    let part = burst / members + u64::from(place < burst % members);
    let quota = match part {
        0 => "deny = true".to_owned(),
        _ => format!("rate = '{per_s}/{members}s'\nburst = {part}"),
    };
    format!(
        "[listen]\nunix = '{name}.sock'\nudp = '{udp}'\nhttp = '{http}'\n\n\
         [memory]\nmax = '{MEMORY_MIB}MiB'\n\n[[limit]]\nname = 'overshoot'\n{quota}\n",
        name = name(node)
    )
}

#[derive(Deserialize)]
struct Status {
    version: String,
    cluster: Option<ClusterStatus>,
}

fn status(http: SocketAddr) -> Result<Status, Failure> {
    let fail = |cause: String| Failure::because("cannot read a node's status", cause);
    let (code, body) = http_get(http, "/v1/status").map_err(|error| fail(error.to_string()))?;
    if code != 200 {
        return Err(fail(format!("it answers {code}")));
    }
    serde_json::from_str(&body).map_err(|error| fail(error.to_string()))
}

fn version_of(http: SocketAddr) -> Result<String, Failure> {
    status(http).map(|status| status.version)
}

fn cluster_status(http: SocketAddr) -> Result<ClusterStatus, Failure> {
    status(http)?.cluster.ok_or_else(|| Failure::new("a node has no cluster"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(trouble: &Trouble) -> Orders<'_> {
        Orders {
            program: None,
            members: 3,
            algorithm: Algorithm::TokenBucket,
            limit: Bucket { per_s: 1000, burst: 5 },
            interval: Duration::from_millis(200),
            trouble,
            seed: 1,
        }
    }

    #[test]
    fn parts_of_a_split_limit_sum_to_it() {
        let trouble = Trouble::default();
        let door = (loopback(&[1])[0], loopback(&[2])[0]);
        let text = |members, node| lone_text(&Orders { members, ..orders(&trouble) }, node, door);
        for (node, burst) in [(0, 2), (1, 2), (2, 1)] {
            assert!(text(3, node).ends_with(&format!("rate = '1000/3s'\nburst = {burst}\n")));
        }
        assert!(text(10, 4).ends_with("burst = 1\n"));
        assert!(text(10, 5).ends_with("name = 'overshoot'\ndeny = true\n"));
    }

    #[test]
    fn others_dial_the_front_of_a_node_that_listens_elsewhere() {
        let trouble = Trouble::default();
        let (fronts, peers) = (loopback(&[1, 2, 3]), loopback(&[11, 12, 13]));
        let doors: Vec<_> =
            loopback(&[21, 22, 23]).into_iter().zip(loopback(&[31, 32, 33])).collect();
        let text = cluster_text(&orders(&trouble), &fronts, &peers, &doors);
        assert!(text.contains("peers = ['127.0.0.1:1', '127.0.0.1:2', '127.0.0.1:3']\n"));
        assert!(text.contains(
            "[node.b.listen]\nudp = '127.0.0.1:22'\nhttp = '127.0.0.1:32'\n\
             [node.b.cluster]\nlisten = '127.0.0.1:12'\nadvertise = '127.0.0.1:2'\n"
        ));
        assert!(text.ends_with("rate = '1000/s'\nburst = 5\n"));
    }

    #[test]
    fn a_limit_is_written_as_its_algorithm_takes_it() {
        let limit = Bucket { per_s: 1000, burst: 500 };
        let text = |algorithm| quota_text(algorithm, limit);
        assert_eq!(text(Algorithm::TokenBucket), "rate = '1000/s'\nburst = 500\n");
        assert_eq!(
            text(Algorithm::LeakyQueue),
            "algorithm = 'leaky-bucket'\nqueue = true\nrate = '1000/s'\nburst = 500\n"
        );
        assert_eq!(
            text(Algorithm::SlidingLog),
            "algorithm = 'sliding-log'\nlimit = '500 per 500ms'\n"
        );
    }

    #[test]
    fn what_a_node_counted_before_it_died_is_not_taken_off_what_it_counted_after() {
        let status = |life: &str, batches_sent, splits| ClusterStatus {
            life: life.to_owned(),
            batches_sent,
            splits,
            ..ClusterStatus::default()
        };
        let before =
            Snapshot { nodes: vec![status("1", 100, 1), status("2", 50, 0)], relayed: None };
        let after = Snapshot { nodes: vec![status("1", 130, 2), status("3", 7, 0)], relayed: None };
        let exchange = before.until(&after);
        assert_eq!((exchange.batches, exchange.splits), (37, 1));
        assert_eq!(exchange.datagrams, None);
        let relayed = |n| Snapshot { nodes: Vec::new(), relayed: Some((n, 10 * n)) };
        assert_eq!(relayed(3).until(&relayed(5)).datagram_bytes, Some(20));
    }
}
