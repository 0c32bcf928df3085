//! The nodes of the demo, and the network between them, which can be cut.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use limiter::{StoreConfig, WhenFull};
use member::{Clock, Member, Settings, StartError};
use relay::Relay;

use super::node::{Board, Running};
use super::papers::Papers;
use super::traffic::{Caller, Traffic};
use super::view::NodeView;
use super::words::node_name;
use super::{BURST_CALLS, DemoError, OFFER, plan};
use crate::clock;

/// For the one bucket of a node.
const MEMORY_BYTES: u64 = 4 << 20;
/// As nodes have them unless their file says otherwise.
const SYNC_INTERVAL: Duration = Duration::from_millis(200);
const FORGET_AFTER: Duration = Duration::from_secs(60);
/// How often ports that somebody else took meanwhile are chosen anew.
const ATTEMPTS_MAX: usize = 5;
const CLOCK: Clock = Clock { now_ns: clock::boot_ns, unix_ns: clock::unix_ns };

/// All nodes.
#[derive(Debug)]
pub(super) struct Fleet {
    board: Arc<Board>,
    relay: Relay,
    papers: Papers,
    traffic: Traffic,
    /// Where each node listens; what the others dial is the relay.
    real: Vec<SocketAddr>,
    nodes: Vec<Place>,
    cut: Vec<bool>,
}

/// What stands where a node may run.
#[derive(Debug)]
enum Place {
    Running(Running),
    /// The thread that may not have ended yet.
    Killed(Option<JoinHandle<()>>),
}

impl Fleet {
    /// Starts `members` nodes with what `seed` makes of their callers.
    ///
    /// # Errors
    /// The system gives no ports, files or threads.
    pub(super) fn start(
        members: usize,
        seed: u64,
        per_s: u64,
        board: &Arc<Board>,
    ) -> Result<Self, DemoError> {
        let papers = Papers::new(members)?;
        let mut fleet = Self {
            board: Arc::clone(board),
            relay: network(seed, &[])?,
            papers,
            traffic: Traffic::new(seed, members, per_s),
            real: Vec::new(),
            nodes: Vec::new(),
            cut: vec![false; members],
        };
        let mut attempt = 1;
        loop {
            fleet.nodes.clear();
            fleet.real = free_addresses(members)?;
            fleet.relay = network(seed, &fleet.real)?;
            fleet.nodes.resize_with(members, || Place::Killed(None));
            match (0..members).try_for_each(|index| fleet.start_node(index)) {
                Err(DemoError::Start(_, StartError::Bind(_))) if attempt < ATTEMPTS_MAX => {
                    fleet.end();
                }
                result => return result.map(|()| fleet),
            }
            attempt += 1;
        }
    }

    /// Where the nodes are counted.
    pub(super) fn board(&self) -> &Board {
        &self.board
    }

    /// Each node as it sees itself.
    pub(super) fn views(&self) -> Vec<NodeView> {
        let view = |(index, place): (usize, &Place)| match place {
            Place::Running(_) => self.board.view(index),
            Place::Killed(_) => NodeView::dead(),
        };
        self.nodes.iter().enumerate().map(view).collect()
    }

    /// Which nodes are cut off.
    pub(super) fn cut_off(&self) -> &[bool] {
        &self.cut
    }

    /// Whether the node `index` runs.
    pub(super) fn is_running(&self, index: usize) -> bool {
        matches!(self.nodes[index], Place::Running(_))
    }

    /// A node that ended although nobody killed it.
    pub(super) fn failed(&self) -> Option<usize> {
        let has_failed =
            |place: &Place| matches!(place, Place::Running(running) if running.has_failed());
        self.nodes.iter().position(has_failed)
    }

    /// Asks every node that has started for the whole bucket at once; gives back how many calls that
    /// makes.
    pub(super) fn burst(&self) -> u64 {
        let running = self.nodes.iter().filter_map(|place| match place {
            Place::Running(running) => Some(running),
            Place::Killed(_) => None,
        });
        running.map(|node| if node.burst(BURST_CALLS) { BURST_CALLS } else { 0 }).sum()
    }

    /// From now on nothing reaches the node `index`, and nothing of it reaches others.
    pub(super) fn cut(&mut self, index: usize) {
        self.relay.isolate(index);
        self.cut[index] = true;
    }

    /// The network carries again what goes to the node `index` and comes from it, but for whom it
    /// carries nothing still.
    pub(super) fn heal(&mut self, index: usize) {
        self.cut[index] = false;
        self.relay.rejoin(index);
        let is_apart = |it: usize| it != index && (self.cut[it] || !self.is_running(it));
        (0..self.cut.len()).filter(|it| is_apart(*it)).for_each(|it| self.relay.isolate(it));
    }

    /// Ends the node `index` as `kill -9` does: what it might say when it ends goes nowhere.
    pub(super) fn kill(&mut self, index: usize) {
        self.relay.isolate(index);
        self.board.set_alive(index, false);
        let place = std::mem::replace(&mut self.nodes[index], Place::Killed(None));
        self.nodes[index] = match place {
            Place::Running(running) => Place::Killed(Some(running.kill())),
            killed @ Place::Killed(_) => killed,
        };
    }

    /// Starts the node `index` again, with a network that carries. It knows nothing of before.
    ///
    /// # Errors
    /// The system gives no files or threads, or somebody took the port.
    pub(super) fn join(&mut self, index: usize) -> Result<(), DemoError> {
        if let Place::Killed(thread) = &mut self.nodes[index]
            && let Some(thread) = thread.take()
        {
            // A panic in it was shown when it happened.
            let _ = thread.join();
        }
        self.heal(index);
        self.start_node(index)
    }

    fn start_node(&mut self, index: usize) -> Result<(), DemoError> {
        let papers = self.papers.lay_out(index)?;
        let fronts = (0..self.real.len()).map(|node| self.relay.front(node));
        let settings = Settings {
            node: node_name(index),
            cluster: "demo".to_owned(),
            region: String::new(),
            listen: self.real[index],
            // A node that others dialled behind the relay's back could not be cut off.
            advertise: Some(self.relay.front(index)),
            peers: fronts.map(|front| front.to_string()).collect(),
            sync_interval: SYNC_INTERVAL,
            // Who listens behind a front does not find itself in the list of peers.
            expect: Some(self.real.len()),
            ready_early: false,
            tls: papers.files.clone(),
            forget_after: FORGET_AFTER,
        };
        let store = StoreConfig {
            memory_bytes: MEMORY_BYTES,
            entries_max: None,
            when_full: WhenFull::Overflow,
            // Replaced by the cluster's.
            secret: [0; 16],
        };
        let plan = plan(OFFER).map_err(DemoError::Plan)?;
        let member = Member::start(settings, plan, store, CLOCK)
            .map_err(|error| DemoError::Start(index, error))?;
        self.board.forget(index);
        self.board.set_alive(index, true);
        let caller = Caller::new(self.traffic, index);
        let running = Running::start(index, member, caller, Arc::clone(&self.board))
            .map_err(|error| DemoError::System("a thread", error))?;
        self.nodes[index] = Place::Running(running);
        Ok(())
    }

    /// Ends all nodes, and waits until they have.
    fn end(&mut self) {
        // All are told before the first is waited for.
        let threads: Vec<_> = self
            .nodes
            .drain(..)
            .filter_map(|place| match place {
                Place::Running(running) => Some(running.kill()),
                Place::Killed(thread) => thread,
            })
            .collect();
        for thread in threads {
            let _ = thread.join();
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.end();
    }
}

fn network(seed: u64, real: &[SocketAddr]) -> Result<Relay, DemoError> {
    Relay::start(seed, real).map_err(|error| DemoError::System("a network of its own", error))
}

/// Addresses on loopback that were free a moment ago, all different.
fn free_addresses(count: usize) -> Result<Vec<SocketAddr>, DemoError> {
    let sockets: Result<Vec<_>, _> =
        (0..count).map(|_| UdpSocket::bind(("127.0.0.1", 0))).collect();
    sockets
        .and_then(|sockets| sockets.iter().map(UdpSocket::local_addr).collect())
        .map_err(|error| DemoError::System("ports", error))
}
