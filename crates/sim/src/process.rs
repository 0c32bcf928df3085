//! One life of one node: the real limiter and the real cluster, from start to stop or crash.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::{Cluster, Config, LinkId};
use limiter::{Bucket, Limiter, Plan, Request, ShareConfig, StoreConfig, Ticket, WhenFull};

use crate::acknowledged::OpenBatches;
use crate::network::End;
use crate::scenario::{Scenario, endpoint};

/// Checks that a node may hold at a time.
pub(crate) const HELD_MAX: usize = 1_024;

/// The secret that all nodes share.
const SECRET: [u8; 16] = *b"sim, all of them";

/// A check that waits for an acknowledgement.
#[derive(Debug)]
pub(crate) struct Held {
    /// The request, by its place in the scenario.
    pub(crate) arrival: usize,
    pub(crate) ticket: Ticket,
}

/// A running node.
pub(crate) struct Process {
    pub(crate) limiter: Arc<Limiter>,
    pub(crate) cluster: Cluster<usize>,
    /// Random, different for each start.
    pub(crate) life: u64,
    /// Open connections that both sides have.
    pub(crate) ends: BTreeMap<u64, End>,
    /// By peer: a connection that is being dialled.
    pub(crate) dialing: Vec<Option<End>>,
    /// It takes questions.
    pub(crate) accepting: bool,
    /// True time at which the cluster asked to be polled.
    pub(crate) poll_at_ns: u64,
    /// Times in a row at which a poll asked for another at once.
    pub(crate) restless: u32,
    /// The last of them, or of those that did not, in true ns.
    pub(crate) polled_ns: u64,
    /// Waiting checks by waiter.
    pub(crate) held: BTreeMap<usize, Held>,
    pub(crate) waiters: usize,
    /// The last batch that was counted: it is sent to every peer, and counts once.
    pub(crate) last_batch: Option<Arc<[u8]>>,
    /// Its batches that some other node has not acknowledged.
    pub(crate) open: OpenBatches,
}

impl Process {
    /// Starts `node` at its own time `local_ns`.
    pub(crate) fn start(
        scenario: &Scenario,
        node: usize,
        version: usize,
        life: u64,
        local_ns: u64,
    ) -> Result<Self, String> {
        let plan = scenario.plan(version).map_err(|error| format!("{error:?}"))?;
        let config = config(scenario, node);
        let share = ShareConfig {
            sync_interval_ns: scenario.sync_interval_ns,
            view: Cluster::<usize>::initial_view(&config),
        };
        let limiter = Arc::new(Limiter::new_member(plan, store(), share));
        let cluster = Cluster::new(config, Arc::clone(&limiter), life, local_ns);
        Ok(Self {
            limiter,
            cluster,
            life,
            ends: BTreeMap::new(),
            dialing: vec![None; scenario.nodes],
            accepting: false,
            poll_at_ns: u64::MAX,
            restless: 0,
            polled_ns: 0,
            held: BTreeMap::new(),
            waiters: 0,
            last_batch: None,
            open: OpenBatches::new(node, scenario.nodes),
        })
    }

    /// How many members there are as this node counts, and how many of them it counts on.
    pub(crate) fn company(&self) -> (usize, usize) {
        let status = self.cluster.status(0);
        (status.members, status.reached)
    }

    /// The open end that its cluster calls `link`.
    pub(crate) fn end(&self, link: LinkId) -> Option<End> {
        self.ends.get(&link.0).copied()
    }
}

/// What a node is called.
pub(crate) fn name(node: usize) -> String {
    format!("node-{node:02}")
}

fn config(scenario: &Scenario, node: usize) -> Config {
    Config {
        node: name(node),
        cluster: "sim".into(),
        region: "here".into(),
        secret: SECRET,
        sync_interval_ns: scenario.sync_interval_ns,
        expect: scenario.nodes,
        ready_early: false,
        forget_after_ns: scenario.forget_after_ns,
    }
}

/// A store of several shards, so that snapshots come in parts.
fn store() -> StoreConfig {
    StoreConfig {
        memory_bytes: 64 << 20,
        entries_max: Some(40_000),
        when_full: WhenFull::Overflow,
        secret: SECRET,
    }
}

/// A request of a workload, as a door would hand it on.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    endpoint: String,
    key: String,
}

impl Question {
    pub(crate) fn new(limit: usize, key: usize) -> Self {
        Self { endpoint: endpoint(limit), key: format!("key-{key}") }
    }

    pub(crate) fn costing(&self, cost: u64) -> Request<'_> {
        Request::check(self.endpoint.as_bytes(), self.key.as_bytes()).with_cost(cost)
    }

    /// The bucket that it is counted in, found by asking a limiter that does nothing else.
    pub(crate) fn bucket(&self, plan: Plan) -> Option<Bucket> {
        let scenario = Scenario::new(2, crate::scenario::Allowed::balanced(1, 1, 1), 0);
        let view = Cluster::<usize>::initial_view(&config(&scenario, 0));
        let share = ShareConfig { sync_interval_ns: scenario.sync_interval_ns, view };
        let limiter = Limiter::new_member(plan, store(), share);
        let mut deltas = Vec::new();
        limiter.check(1, &self.costing(1), false).ok()?;
        let all = (limiter::StorePart::START, usize::MAX);
        limiter.collect_due(2, limiter::Members::EMPTY, false, all, &mut deltas);
        deltas.first().map(|delta| delta.bucket)
    }
}
