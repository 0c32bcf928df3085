//! A few nodes on a network without loss, in virtual time: every frame arrives a millisecond after it
//! was sent, in order on its channel, unless the two are cut off from each other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use limiter::{
    Answer, Counted, Limit, Limiter, Op, Operated, Operation, OperationError, Plan, Quota, Rate,
    Request, ShareConfig, StoreConfig, Ticket, Unmatched, WhenFull,
};
use wire::peer::Refusal;

use crate::config::{MS, SECOND};
use crate::{
    Channel, Cluster, Config, Counts, Identity, LinkId, Note, Output, PeerState, PeerStatus,
    Readiness, Status,
};

/// Time that a frame takes.
pub(super) const DELAY_NS: u64 = MS;
/// Time between two looks at the network.
const STEP_NS: u64 = MS / 4;
const PING_NS: u64 = 100 * MS;
/// How often a node that has a wall clock reads it.
const WALL_NS: u64 = SECOND;
/// Unix time, in milliseconds, when the tests begin on a wall clock that is right: a full minute.
pub(super) const START_UNIX_MS: u64 = 1_700_000_040_000;
const DIAL_NS: u64 = 200 * MS;
/// When the tests begin: some time after the clock did.
pub(super) const START_NS: u64 = 1_000 * SECOND;

pub(super) fn config(name: &str, expect: usize) -> Config {
    Config {
        node: name.into(),
        cluster: "edge".into(),
        region: "here".into(),
        secret: [7; 16],
        sync_interval_ns: 200 * MS,
        expect,
        ready_early: false,
        forget_after_ns: 60 * SECOND,
    }
}

/// 100 units that refill in an hour.
pub(super) fn hourly(name: &str) -> Limit {
    bucket(name, 100, 100)
}

/// `burst` units of which `count` refill in an hour.
pub(super) fn bucket(name: &str, burst: u64, count: u64) -> Limit {
    Limit::new(name, Quota::TokenBucket { rate: Rate { count, period_ns: 3_600 * SECOND }, burst })
}

pub(super) struct TestNode {
    pub(super) cluster: Cluster<Ticket>,
    pub(super) limiter: Arc<Limiter>,
    pub(super) notes: Vec<Note>,
    /// What held checks were decided.
    pub(super) decided: Vec<bool>,
    pub(super) refusals: Vec<Refusal>,
    pub(super) ready: usize,
    pub(super) left: usize,
    poll_ns: u64,
    /// Polls at the time that the last one gave.
    pub(super) polls: usize,
    /// The process is stopped: nothing of it runs.
    pub(super) paused: bool,
    ping_ns: u64,
    wall_ns: u64,
}

impl TestNode {
    pub(super) fn new(config: Config, limits: Vec<Limit>, life: u64, now_ns: u64) -> Self {
        let plan = Plan::compile(limits, Unmatched::Allow).unwrap();
        let store = StoreConfig {
            memory_bytes: 1 << 28,
            entries_max: None,
            when_full: WhenFull::Overflow,
            secret: config.secret,
        };
        let share = ShareConfig {
            sync_interval_ns: config.sync_interval_ns,
            view: Cluster::<Ticket>::initial_view(&config),
        };
        let limiter = Arc::new(Limiter::new_member(plan, store, share));
        let cluster = Cluster::new(config, Arc::clone(&limiter), life, now_ns);
        Self {
            cluster,
            limiter,
            notes: Vec::new(),
            decided: Vec::new(),
            refusals: Vec::new(),
            ready: 0,
            left: 0,
            poll_ns: now_ns,
            polls: 0,
            paused: false,
            ping_ns: now_ns,
            wall_ns: now_ns,
        }
    }

    /// Reads a wall clock that is `off_ms` ahead of one that is right.
    fn read_wall(&mut self, now_ns: u64, off_ms: i64) {
        self.wall_ns = now_ns + WALL_NS;
        let right_ns = START_UNIX_MS * MS + (now_ns - START_NS);
        let off_ns = off_ms * i64::try_from(MS).unwrap();
        let unix_ns = right_ns.checked_add_signed(off_ns).unwrap();
        self.limiter.set_wall(now_ns, unix_ns);
        self.cluster.set_wall_clock(now_ns, unix_ns / MS);
    }
}

#[derive(Debug)]
enum Item {
    Frame(Arc<[u8]>),
    Ping,
    Close,
}

/// What one side of a connection sent, by the time at which it arrives.
type Queue = VecDeque<(u64, Item)>;

struct Connection {
    /// Who dialled, and who was dialled.
    ends: [&'static str; 2],
    /// Towards each end: ordered, bulk.
    queues: [[Queue; 2]; 2],
    /// An end closed it and takes nothing more.
    closed: [bool; 2],
}

pub(super) struct Network {
    pub(super) now_ns: u64,
    pub(super) nodes: BTreeMap<&'static str, TestNode>,
    connections: BTreeMap<u64, Connection>,
    next_link: u64,
    lives: u64,
    /// Pairs between which nothing arrives.
    cuts: BTreeSet<(&'static str, &'static str)>,
    pub(super) dials: bool,
    dial_ns: u64,
    /// Wall clocks of nodes, by how many milliseconds each is ahead. Who is not in it has none.
    pub(super) walls: BTreeMap<&'static str, i64>,
    /// What a certificate proves of a node; its name when nothing is said.
    pub(super) identities: BTreeMap<&'static str, Identity>,
    /// Frames that never arrive: the receiver and the frame's type.
    pub(super) lost: Vec<(&'static str, u8)>,
    /// Frames that arrived: the receiver and the frame's type.
    pub(super) arrived: Vec<(&'static str, u8)>,
}

impl Network {
    pub(super) fn new() -> Self {
        Self {
            now_ns: START_NS,
            nodes: BTreeMap::new(),
            connections: BTreeMap::new(),
            next_link: 1,
            lives: 100,
            cuts: BTreeSet::new(),
            dials: true,
            dial_ns: START_NS,
            walls: BTreeMap::new(),
            identities: BTreeMap::new(),
            lost: Vec::new(),
            arrived: Vec::new(),
        }
    }

    /// Nodes of these names that start together with one limit and 100 units an hour.
    pub(super) fn of(names: &[&'static str]) -> Self {
        let mut net = Self::new();
        for name in names {
            net.start(name, config(name, names.len()), vec![hourly("l")]);
        }
        net
    }

    /// The same, a second and a half later: all are counted.
    pub(super) fn formed(names: &[&'static str]) -> Self {
        let mut net = Self::of(names);
        net.run(1_500 * MS);
        for name in names {
            let status = net.status(name);
            assert_eq!(status.readiness, Readiness::Ready, "{name}");
            assert_eq!(status.reached, names.len(), "{name}: {:#?}", status.peers);
        }
        net
    }

    pub(super) fn start(&mut self, name: &'static str, config: Config, limits: Vec<Limit>) {
        self.lives += 1;
        let mut node = TestNode::new(config, limits, self.lives, self.now_ns);
        if let Some(off_ms) = self.walls.get(name) {
            node.read_wall(self.now_ns, *off_ms);
        }
        self.nodes.insert(name, node);
    }

    /// The process is gone, and says nothing more.
    pub(super) fn crash(&mut self, name: &'static str) {
        self.nodes.remove(name);
        for connection in self.connections.values_mut() {
            for (at, end) in connection.ends.iter().enumerate() {
                if *end == name {
                    connection.closed[at] = true;
                }
            }
        }
    }

    pub(super) fn cut(&mut self, a: &'static str, b: &'static str) {
        self.cuts.extend([(a, b), (b, a)]);
    }

    pub(super) fn mend(&mut self) {
        self.cuts.clear();
    }

    pub(super) fn node(&mut self, name: &str) -> &mut TestNode {
        self.nodes.get_mut(name).unwrap()
    }

    pub(super) fn status(&self, name: &str) -> Status {
        self.nodes[name].cluster.status(self.now_ns)
    }

    pub(super) fn counts(&self, name: &str) -> Counts {
        self.status(name).counts
    }

    pub(super) fn peer(&self, name: &str, peer: &str) -> PeerStatus {
        let peers = self.status(name).peers;
        peers.into_iter().find(|p| p.name.as_deref() == Some(peer)).unwrap()
    }

    pub(super) fn state(&self, name: &str, peer: &str) -> PeerState {
        self.peer(name, peer).state
    }

    pub(super) fn members(&self, name: &str) -> (usize, usize) {
        let status = self.status(name);
        (status.reached, status.members)
    }

    /// How many of `calls` checks of one key pass at once, without waiting.
    pub(super) fn spend(&mut self, name: &str, calls: usize) -> usize {
        self.spend_key(name, b"alice", calls)
    }

    pub(super) fn spend_key(&mut self, name: &str, key: &[u8], calls: usize) -> usize {
        let now_ns = self.now_ns;
        let limiter = Arc::clone(&self.node(name).limiter);
        let request = Request::check(b"", key);
        (0..calls).filter(|_| limiter.decide(now_ns, &request).unwrap().verdict.allowed).count()
    }

    /// Gives back a unit that was spent at `name`.
    pub(super) fn give_back(&mut self, name: &str, key: &[u8]) {
        let now_ns = self.now_ns;
        let request = Request::check(b"", key).with_op(Op::Refund);
        self.node(name).limiter.decide(now_ns, &request).unwrap();
    }

    /// An operator at `name` resets the key, and is told how many units that gave back.
    pub(super) fn reset(&mut self, name: &'static str, key: &[u8]) -> u64 {
        let request = Request::check(b"", key);
        self.operate(name, &Operation::Reset { request, limit: None }).unwrap().units
    }

    /// An operator at `name` acts.
    pub(super) fn operate(
        &mut self,
        name: &'static str,
        operation: &Operation<'_>,
    ) -> Result<Operated, OperationError> {
        let now_ns = self.now_ns;
        let operated = self.node(name).cluster.operate(now_ns, operation);
        self.node(name).poll_ns = now_ns;
        self.drain(name);
        operated
    }

    /// Asks as a door does: a check that is held waits for the cluster.
    pub(super) fn ask(&mut self, name: &str, calls: usize) {
        let now_ns = self.now_ns;
        let node = self.node(name);
        for _ in 0..calls {
            let request = Request::check(b"", b"alice");
            match node.limiter.check(now_ns, &request, true).unwrap() {
                Answer::Decided(decision) => node.decided.push(decision.verdict.allowed),
                Answer::Held(ticket) => node.cluster.hold(ticket.bucket(), ticket).unwrap(),
            }
        }
        node.poll_ns = now_ns;
    }

    /// Spends `units` of the key at `name`, a few at a time as its share grows, within two seconds.
    pub(super) fn spend_all(&mut self, name: &str, units: usize) {
        let mut left = units;
        for _ in 0..200 {
            left -= self.spend(name, left);
            if left == 0 {
                return;
            }
            self.run(10 * MS);
        }
        panic!("{left} of {units} were refused");
    }

    /// What the wall clock of `name` reads, in milliseconds of Unix time.
    pub(super) fn unix_ms(&self, name: &str) -> u64 {
        let off_ms = self.walls.get(name).copied().unwrap_or(0);
        let right_ms = START_UNIX_MS + (self.now_ns - START_NS) / MS;
        right_ms.checked_add_signed(off_ms).unwrap()
    }

    pub(super) fn remaining(&self, name: &str) -> u64 {
        self.remaining_key(name, b"alice")
    }

    pub(super) fn remaining_key(&self, name: &str, key: &[u8]) -> u64 {
        let request = Request::check(b"", key).with_op(Op::Peek);
        let decision = self.nodes[name].limiter.decide(self.now_ns, &request).unwrap();
        decision.verdict.remaining.unwrap()
    }

    /// The level of the key's bucket at `name`, in the whole units nearest to it.
    pub(super) fn level_key(&self, name: &str, key: &[u8]) -> u64 {
        let why = self.nodes[name].limiter.why(self.now_ns, &Request::check(b"", key)).unwrap();
        match why.limits[0].applied.as_ref().unwrap().counted {
            Counted::Bucket(_, state) => {
                let per_unit = i128::from(state.per_unit);
                u64::try_from((state.level + per_unit / 2) / per_unit).unwrap()
            }
            other => panic!("{other:?}"),
        }
    }

    /// `from` dials `to`. The connection is there at once.
    pub(super) fn dial(&mut self, from: &'static str, to: &'static str) -> LinkId {
        let id = LinkId(self.next_link);
        self.next_link += 1;
        let queues = Default::default();
        self.connections.insert(id.0, Connection { ends: [from, to], queues, closed: [false; 2] });
        for (name, dialed, other) in [(from, true, to), (to, false, from)] {
            let named = || Identity::Named(other.into());
            let identity = self.identities.get(other).cloned().unwrap_or_else(named);
            let now_ns = self.now_ns;
            self.node(name).cluster.connected(now_ns, id, dialed, identity);
            self.drain(name);
        }
        id
    }

    /// Has `link` carry these bytes to `to`.
    pub(super) fn inject(&mut self, to: &'static str, link: LinkId, bytes: &[u8]) {
        let now_ns = self.now_ns;
        self.node(to).cluster.received(now_ns, link, bytes);
        self.drain(to);
    }

    /// The connection between two nodes breaks, and both notice.
    pub(super) fn sever(&mut self, a: &'static str, b: &'static str) {
        let link = self.link_of(a, b);
        self.connections.remove(&link.0);
        for name in [a, b] {
            let now_ns = self.now_ns;
            self.node(name).cluster.closed(now_ns, link);
            self.drain(name);
        }
    }

    /// Something happens on the node, whatever it is.
    pub(super) fn touch(&mut self, name: &'static str) {
        let now_ns = self.now_ns;
        self.node(name).cluster.heard(now_ns, LinkId(u64::MAX));
        self.drain(name);
    }

    /// Whether both say that they are linked, by the same connection.
    pub(super) fn is_linked(&self, a: &str, b: &str) -> bool {
        let to = |from: &str, to: &str| self.nodes[from].cluster.link_to(to);
        to(a, b).is_some() && to(a, b) == to(b, a)
    }

    /// The connection between two nodes whose handshake is done.
    pub(super) fn link_of(&self, name: &str, peer: &str) -> LinkId {
        let node = &self.nodes[name].cluster;
        node.link_to(peer).unwrap()
    }

    pub(super) fn run(&mut self, ns: u64) {
        let end_ns = self.now_ns + ns;
        while self.now_ns < end_ns {
            self.now_ns += STEP_NS;
            self.step();
        }
    }

    fn step(&mut self) {
        if self.dials && self.now_ns >= self.dial_ns {
            self.dial_ns = self.now_ns + DIAL_NS;
            self.dial_all();
        }
        for id in self.connections.keys().copied().collect::<Vec<_>>() {
            for (end, channel) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                self.deliver(id, end, channel);
            }
        }
        self.connections.retain(|_, connection| connection.closed != [true; 2]);
        let names: Vec<_> = self.nodes.keys().copied().collect();
        for name in names {
            let now_ns = self.now_ns;
            let node = self.node(name);
            if node.paused {
                continue;
            }
            if now_ns >= node.ping_ns {
                node.ping_ns = now_ns + PING_NS;
                self.ping(name);
            }
            if let Some(off_ms) = self.walls.get(name).copied() {
                let node = self.node(name);
                if now_ns >= node.wall_ns {
                    node.read_wall(now_ns, off_ms);
                }
            }
            // As a door does after a decision.
            let node = self.node(name);
            if node.limiter.flush_wanted() || now_ns >= node.poll_ns {
                node.polls += 1;
                node.poll_ns = node.cluster.poll(now_ns);
                assert!(node.poll_ns > now_ns);
                self.drain(name);
            }
        }
    }

    fn dial_all(&mut self) {
        let names: Vec<_> = self.nodes.keys().copied().collect();
        for from in &names {
            for to in &names {
                let is_open = self.connections.values().any(|connection| {
                    connection.ends.contains(from)
                        && connection.ends.contains(to)
                        && connection.closed == [false; 2]
                });
                let can = from != to && !self.cuts.contains(&(from, to));
                let asleep = self.nodes[from].paused || self.nodes[to].paused;
                if can && !is_open && !asleep {
                    self.dial(from, to);
                }
            }
        }
    }

    fn ping(&mut self, name: &'static str) {
        let at_ns = self.now_ns + DELAY_NS;
        for connection in self.connections.values_mut() {
            for end in [0, 1] {
                if connection.ends[1 - end] == name && !connection.closed[1 - end] {
                    connection.queues[end][0].push_back((at_ns, Item::Ping));
                }
            }
        }
    }

    /// Delivers what is due on one channel towards one end of a connection.
    fn deliver(&mut self, id: u64, end: usize, channel: usize) {
        loop {
            let now_ns = self.now_ns;
            let Some(connection) = self.connections.get_mut(&id) else { return };
            let (to, from) = (connection.ends[end], connection.ends[1 - end]);
            let is_asleep = self.nodes.get(to).is_some_and(|node| node.paused);
            if is_asleep || self.cuts.contains(&(from, to)) {
                return;
            }
            let queue = &mut connection.queues[end][channel];
            let Some((_, item)) = queue.pop_front_if(|(at_ns, _)| *at_ns <= now_ns) else { return };
            if connection.closed[end] {
                continue;
            }
            if matches!(item, Item::Close) {
                connection.closed[end] = true;
            }
            let node = self.nodes.get_mut(to).unwrap();
            match item {
                Item::Frame(bytes) if self.lost.contains(&(to, bytes[0])) => {}
                Item::Frame(bytes) => {
                    self.arrived.push((to, bytes[0]));
                    node.cluster.received(now_ns, LinkId(id), &bytes);
                }
                Item::Ping => node.cluster.heard(now_ns, LinkId(id)),
                Item::Close => node.cluster.closed(now_ns, LinkId(id)),
            }
            node.poll_ns = now_ns;
            self.drain(to);
        }
    }

    fn drain(&mut self, name: &'static str) {
        let at_ns = self.now_ns + DELAY_NS;
        while let Some(output) = self.nodes.get_mut(name).unwrap().cluster.output() {
            let node = self.nodes.get_mut(name).unwrap();
            match output {
                Output::Send { link, channel, frame } => {
                    let Some(connection) = self.connections.get_mut(&link.0) else { continue };
                    let end = usize::from(connection.ends[0] == name);
                    let channel = usize::from(channel == Channel::Bulk);
                    connection.queues[end][channel].push_back((at_ns, Item::Frame(frame)));
                }
                Output::Close { link, refusal } => {
                    node.refusals.extend(refusal);
                    let Some(connection) = self.connections.get_mut(&link.0) else { continue };
                    let end = usize::from(connection.ends[0] == name);
                    connection.closed[1 - end] = true;
                    connection.queues[end][0].push_back((at_ns, Item::Close));
                }
                Output::Wake(ticket) => match node.limiter.retry(self.now_ns, ticket, false) {
                    Answer::Decided(decision) => node.decided.push(decision.verdict.allowed),
                    Answer::Held(ticket) => node.cluster.hold(ticket.bucket(), ticket).unwrap(),
                },
                Output::Ready => node.ready += 1,
                Output::Left => node.left += 1,
                Output::Note(note) => node.notes.push(note),
            }
        }
    }
}
