//! The record of a node that runs: whose it is, and what it tells of the cluster from time to time.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::AuditSettings;
use super::record::{Begin, PeerRecord, State};
use super::recorder::Tail;
use super::writer::{self, AuditError, Clocks};
use crate::clock;
use crate::engine::Engine;
use crate::environment;
use crate::node::Node;
use crate::shutdown::{Phase, Shutdown};

/// How often the node looks how its cluster is. A change shows in its status within a fifth of a second.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Starts the writer for the node `node`, whose checks `engine` answers.
///
/// # Errors
/// See [`AuditError`].
pub fn start(
    settings: &AuditSettings,
    node: &str,
    engine: &Engine,
    sync_interval_ns: u64,
    tail: Tail,
) -> Result<(), AuditError> {
    let cluster = engine.cluster_status();
    let life = match &cluster {
        Some(cluster) => cluster.life,
        None => random().map_err(|error| AuditError::new(settings, error))?,
    };
    let begin = Begin {
        life,
        file: 0,
        fingerprint: engine.limiter().fingerprint(),
        sample: settings.sample.to_one_in(),
        boot: environment::boot_id().unwrap_or_default(),
        sync_interval_ns,
        node: node.to_owned(),
        cluster: cluster.map(|cluster| cluster.cluster).unwrap_or_default(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let clocks = Clocks { now_ns: clock::boot_ns, wall_ns: clock::unix_ns };
    writer::start(settings, begin, &engine.limiter().plan(), tail, clocks)
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_le_bytes(bytes).max(1))
}

/// Tells `audit` of the cluster until the node stops.
pub async fn watch(node: Arc<Node>, mut shutdown: Shutdown) {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = shutdown.reached(Phase::Closing) => return,
        }
        let (Some(audit), Some(status)) = (node.audit(), node.engine().cluster_status()) else {
            return;
        };
        audit.handle_state(state_of(&status, node.clock().now_ns()));
    }
}

/// What a record keeps of a status.
fn state_of(status: &cluster::Status, at_ns: u64) -> State {
    let count = |members: usize| u16::try_from(members).unwrap_or(u16::MAX);
    let peers = status.peers.iter().filter_map(|peer| {
        Some(PeerRecord {
            life: peer.life,
            counted: peer.state == cluster::PeerState::Counted,
            skew_ms: peer.linked_skew_ms,
            rtt_us: peer.rtt_us,
            name: peer.name.clone()?,
        })
    });
    State {
        at_ns,
        // The writer knows when it was told last.
        since_ns: at_ns,
        members: count(status.members),
        reached: count(status.reached),
        splits: status.counts.splits,
        joins: status.counts.joins,
        peers: peers.collect(),
    }
}
