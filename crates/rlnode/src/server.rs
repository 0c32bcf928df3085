//! The running node: every door served, the tables swept, the clock kept, and an orderly stop.

use std::fmt;
use std::io;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use limiter::{Limiter, StoreConfig};
use member::tls::TlsFiles;
use member::{Member, Settings, StartError};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{JoinError, JoinSet};

use crate::admin::{Admin, AdminError};
use crate::audit::{Audit, AuditError, session};
use crate::bind::{BindError, Bound};
use crate::clock;
use crate::config::{self, Cluster, Config, Tls};
use crate::door::DoorAddress;
use crate::endpoint::{CONNECTIONS_MAX, Endpoint};
use crate::engine::Engine;
use crate::log::Throttle;
use crate::node::{Node, Readiness};
use crate::reload::Reloader;
use crate::reload::watch::{LOOK_EVERY, Watcher};
use crate::shutdown::{DRAIN, FINISH, Phase, Shutdown, Stop};

/// How often a part of the tables is swept.
const SWEEP_EVERY: Duration = Duration::from_millis(20);
/// Buckets swept before the doors of the same thread get their turn: some ten microseconds.
const SWEEP_STEP: usize = 8 * 1024;
/// How often the node looks whether its tables are full.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// How often the node looks how far away its peers are.
const MEASURE_EVERY: Duration = Duration::from_secs(10);
/// Sweeps that visit the whole of the tables: entries at rest are gone ten seconds later, and each
/// sweep is short enough not to hold up a check.
const SWEEPS_PER_ROUND: usize = 500;
/// What a member gets to leave its cluster, beyond the second that it takes at most. All in all a stop
/// stays below five seconds.
const LEAVE: Duration = Duration::from_millis(1_300);
/// What the audit gets to write what is left, which is a second's at most.
const RECORD: Duration = Duration::from_millis(300);
/// What the doors get beyond the time of their connections, to end themselves.
const MARGIN: Duration = Duration::from_millis(300);
/// Open files beside the connections of the doors: sockets, those of peers, the audit, and some to spare.
const OPEN_FILES_BESIDE: u64 = 1_024;

/// Runs the node of `config` until it is told to stop by SIGTERM or SIGINT.
///
/// # Errors
/// If it cannot start, in which case nothing is left bound, or if a door fails while it runs.
pub async fn run(config: Config, source: Source) -> Result<(), ServerError> {
    let signals = Signals::new().map_err(ServerError::System)?;
    let hang_up = signal(SignalKind::hangup()).map_err(ServerError::System)?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let workers = available_parallelism().map_or(1, NonZero::get);
    let bound = Bound::bind(&config.listen, workers).map_err(ServerError::Bind)?;
    raise_open_files(&bound.endpoints);
    let Source { file, host, watcher } = source;
    let reloader = Reloader::new(file, host, &config, watcher.last());
    let node = node_of(config, bound.addresses.clone())?.with_reloader(Some(reloader));
    serve(Arc::new(node), bound, (watcher, hang_up), signals).await
}

/// Where the configuration of a node came from.
#[derive(Debug)]
pub struct Source {
    /// The file.
    pub file: PathBuf,
    /// Who reads it.
    pub host: config::Node,
    /// Sees that it has changed. It was made before the file was read, so that no change is missed.
    pub watcher: Watcher,
}

/// Why the node does not run.
#[derive(Debug)]
pub enum ServerError {
    /// It cannot listen.
    Bind(BindError),
    /// It cannot be a member of its cluster.
    Member(StartError),
    /// It cannot record what it lets through.
    Audit(AuditError),
    /// There is no token to operate it by.
    Admin(AdminError),
    /// The system refuses something that every process needs.
    System(io::Error),
    /// A door failed; the node stopped.
    Door,
    /// What speaks with the peers failed; the node stopped, rather than go on as if it were alone.
    Peers,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind(error) => error.fmt(f),
            Self::Member(error) => error.fmt(f),
            Self::Audit(error) => error.fmt(f),
            Self::Admin(error) => error.fmt(f),
            Self::System(error) => write!(f, "the system refused to start the node: {error}"),
            Self::Door => write!(f, "a door failed; the log says why"),
            Self::Peers => write!(f, "what speaks with the peers failed; the log says why"),
        }
    }
}

impl std::error::Error for ServerError {}

/// The node of `config`. A member looks its peers up first, which takes some seconds at most.
fn node_of(config: Config, addresses: Vec<DoorAddress>) -> Result<Node, ServerError> {
    let Config {
        node,
        cluster,
        memory,
        audit: settings,
        admin,
        envoy,
        plan,
        show_keys,
        headers,
        ..
    } = config;
    let admin = admin.map(|file| Admin::load(&file)).transpose().map_err(ServerError::Admin)?;
    let mut secret = [0; 16];
    rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| ServerError::System(error.into()))?;
    let store = StoreConfig {
        memory_bytes: memory.max_bytes,
        entries_max: memory.max_entries,
        when_full: memory.when_full,
        secret,
    };
    let (audit, tail) = settings.as_ref().map(|settings| Audit::new(settings.sample)).unzip();
    let witness = audit.as_ref().map(Audit::witness);
    let sync_interval_ns = cluster.as_ref().map_or(0, |cluster| cluster.sync_interval_ns);
    let engine = match cluster {
        None => {
            let limiter = Limiter::new(plan, store);
            Engine::Alone(Box::new(match witness {
                Some(witness) => limiter.with_witness(witness),
                None => limiter,
            }))
        }
        Some(cluster) => {
            let forget_after_ns = cluster.forget_after_ns;
            let clock = member::Clock { now_ns: clock::boot_ns, unix_ns: clock::unix_ns };
            let settings = settings_of(node.clone(), cluster);
            let member = Member::start_with(settings, plan, store, clock, witness);
            let member = member.map_err(ServerError::Member)?;
            Engine::Member { member, forget_after_ns, sync_interval_ns }
        }
    };
    if let (Some(settings), Some(tail)) = (settings, tail) {
        session::start(&settings, &node, &engine, sync_interval_ns, tail)
            .map_err(ServerError::Audit)?;
    }
    let node = Node::new(node, addresses, engine, show_keys).with_audit(audit).with_admin(admin);
    node.set_mappings(envoy);
    node.headers().set(headers);
    Ok(node)
}

fn settings_of(node: String, cluster: Cluster) -> Settings {
    let Tls { ca, cert, key } = cluster.tls;
    Settings {
        node,
        cluster: cluster.name,
        region: cluster.region,
        listen: cluster.listen,
        advertise: cluster.advertise,
        peers: cluster.peers,
        sync_interval: Duration::from_nanos(cluster.sync_interval_ns),
        expect: cluster.expect,
        ready_early: cluster.ready_early,
        tls: TlsFiles { ca, cert, key, secret: cluster.secret },
        forget_after: Duration::from_nanos(cluster.forget_after_ns),
    }
}

async fn serve(
    node: Arc<Node>,
    bound: Bound,
    (watcher, hang_up): (Watcher, Signal),
    mut signals: Signals,
) -> Result<(), ServerError> {
    let Bound { endpoints, socket_files, .. } = bound;
    let (stop, shutdown) = Stop::new();
    let mut keepers = JoinSet::new();
    keepers.spawn(keep_clock(Arc::clone(&node), shutdown.clone()));
    keepers.spawn(sweep(Arc::clone(&node), shutdown.clone()));
    keepers.spawn(warn_when_full(Arc::clone(&node), shutdown.clone()));
    keepers.spawn(warn_when_far(Arc::clone(&node), shutdown.clone()));
    keepers.spawn(keep_file(Arc::clone(&node), watcher, hang_up, shutdown.clone()));
    if node.audit().is_some() {
        keepers.spawn(session::watch(Arc::clone(&node), shutdown.clone()));
    }
    let mut doors = JoinSet::new();
    for endpoint in endpoints {
        doors.spawn(endpoint.serve(Arc::clone(&node), shutdown.clone()));
    }
    for at in node.addresses() {
        tracing::info!(door = at.door.as_str(), address = at.address, "listening");
    }
    if let Some(address) = node.engine().peer_address() {
        tracing::info!(%address, "listening for peers");
    }
    node.set_readiness(Readiness::Ready);
    keepers.spawn(tell_ready(Arc::clone(&node), shutdown.clone()));

    let mut result = Ok(());
    tokio::select! {
        name = signals.next() => tracing::info!(signal = name, "stopping"),
        Some(ended) = doors.join_next() => {
            log_failure(ended);
            result = Err(ServerError::Door);
        }
        () = node.engine().failed() => {
            tracing::error!("the thread that speaks with the peers ended by itself");
            result = Err(ServerError::Peers);
        }
    }
    node.set_readiness(Readiness::Stopping);
    tokio::select! {
        () = wind_down(&stop, &node, &mut doors, &mut keepers) => tracing::info!("stopped"),
        name = signals.next() => tracing::warn!(signal = name, "stopped at once"),
    }
    drop(socket_files);
    doors.shutdown().await;
    keepers.shutdown().await;
    result
}

/// Drains, closes, and waits for every task, each for a bounded time. The cluster is left when nobody
/// asks any more, so that what was let through last is told too.
async fn wind_down(stop: &Stop, node: &Node, doors: &mut JoinSet<()>, keepers: &mut JoinSet<()>) {
    stop.advance(Phase::Draining);
    tokio::time::sleep(DRAIN).await;
    stop.advance(Phase::Closing);
    let finish = async {
        while let Some(ended) = doors.join_next().await {
            if ended.is_err() {
                log_failure(ended);
            }
        }
        while keepers.join_next().await.is_some() {}
    };
    if tokio::time::timeout(FINISH + MARGIN, finish).await.is_err() {
        tracing::warn!("doors cut at stop");
    }
    if tokio::time::timeout(LEAVE, node.engine().leave()).await.is_err() {
        tracing::warn!("the cluster was not left in time; the peers find out by themselves");
    }
    if let Some(audit) = node.audit()
        && tokio::time::timeout(RECORD, audit.finish()).await.is_err()
    {
        tracing::warn!("the last spends were not recorded in time");
    }
}

/// Says once that the node answers, which a member does when it knows the counts.
async fn tell_ready(node: Arc<Node>, mut shutdown: Shutdown) {
    tokio::select! {
        () = node.engine().started() => {}
        () = shutdown.reached(Phase::Draining) => return,
    }
    tracing::info!(
        node = node.name(),
        limits = node.limiter().plan().rules().len(),
        version = env!("CARGO_PKG_VERSION"),
        "ready"
    );
}

fn log_failure(ended: Result<(), JoinError>) {
    match ended {
        Ok(()) => tracing::error!("a door closed by itself"),
        Err(error) => tracing::error!(%error, "a door failed"),
    }
}

/// Takes over steps of the wall clock.
async fn keep_clock(node: Arc<Node>, mut shutdown: Shutdown) {
    let mut ticks = tokio::time::interval(clock::REFRESH);
    loop {
        tokio::select! {
            _ = ticks.tick() => node.refresh_clock(),
            () = shutdown.reached(Phase::Closing) => return,
        }
    }
}

/// Says once a minute that new keys find no room in the tables, if they do.
async fn warn_when_full(node: Arc<Node>, mut shutdown: Shutdown) {
    let throttle = Throttle::default();
    let mut told = 0;
    let mut ticks = tokio::time::interval(WATCH_EVERY);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = shutdown.reached(Phase::Closing) => return,
        }
        let full = node.limiter().counts().full;
        if full > told && throttle.pass(node.clock().now_ns()).is_some() {
            tracing::warn!(
                checks = full - told,
                entries_max = node.limiter().usage().entries_max,
                "the memory is full of keys in use: new keys are answered by `when_full`; raise \
                 `max` in [memory]"
            );
            told = full;
        }
    }
}

/// Says when a member turns out to be too far away for checks to wait for it, once each time that it
/// does and once a minute at most.
async fn warn_when_far(node: Arc<Node>, mut shutdown: Shutdown) {
    let throttle = Throttle::default();
    let mut is_told = false;
    let mut ticks = tokio::time::interval(MEASURE_EVERY);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = shutdown.reached(Phase::Closing) => return,
        }
        let Some(status) = node.engine().member_status().await else { return };
        match status.warning_of_distance() {
            None => is_told = false,
            Some(_) if is_told => {}
            Some(warning) => {
                is_told = throttle.pass(node.clock().now_ns()).is_some();
                if is_told {
                    tracing::warn!("{warning}");
                }
            }
        }
    }
}

/// Puts the file in force when it has changed, and on SIGHUP.
async fn keep_file(
    node: Arc<Node>,
    mut watcher: Watcher,
    mut hang_up: Signal,
    mut shutdown: Shutdown,
) {
    loop {
        // From the end of one look to the next, however long a look took: what both see has stood so long.
        let is_asked = tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => false,
            asked = hang_up.recv() => asked.is_some(),
            () = shutdown.reached(Phase::Closing) => return,
        };
        let Some(reloader) = node.reloader() else { return };
        if is_asked {
            // What came of it is logged, counted and shown by whoever asks.
            let _ = node.reload().await;
            continue;
        }
        let file = reloader.file().to_owned();
        // It reads a file, and whoever answers checks should not wait for a disk.
        let look = tokio::task::spawn_blocking(move || {
            let settled = watcher.look(&file);
            (watcher, settled)
        });
        let Ok((back, settled)) = look.await else { return };
        watcher = back;
        if let Some(settled) = settled {
            reloader.reload_settled(&node, settled).await;
        }
    }
}

/// Drops entries at rest, a part of the tables at a time.
async fn sweep(node: Arc<Node>, mut shutdown: Shutdown) {
    let mut ticks = tokio::time::interval(SWEEP_EVERY);
    // After a stall the sweep is late; catching up would only hold up checks.
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                let limiter = node.limiter();
                let mut left = limiter.sweep_round().div_ceil(SWEEPS_PER_ROUND);
                while left > 0 {
                    let buckets = left.min(SWEEP_STEP);
                    limiter.sweep(node.clock().now_ns(), buckets);
                    left -= buckets;
                    tokio::task::yield_now().await;
                }
            }
            () = shutdown.reached(Phase::Closing) => return,
        }
    }
}

/// Raises the soft limit of open files to the hard one, and says where that is too few for all connections
/// that the doors take: the node serves those that it has files for, and the others wait.
fn raise_open_files(endpoints: &[Endpoint]) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let open_files_max = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            let wanted = limit.maximum;
            tracing::warn!(%error, ?wanted, "the limit of open files could not be raised");
            limit.current
        }
    };
    let needed = open_files_needed(endpoints);
    if let Some(open_files_max) = open_files_max.filter(|&max| max < needed) {
        // No fault: few hosts have as many clients, and what is beyond waits and is counted.
        tracing::info!(
            open_files_max,
            needed,
            "the limit of open files is below what the doors may take: connections beyond it wait"
        );
    }
}

/// Open files of a node all of whose listening sockets have as many connections as they take.
fn open_files_needed(endpoints: &[Endpoint]) -> u64 {
    let listeners = endpoints.iter().filter(|it| !matches!(it, Endpoint::Udp { .. })).count();
    let connections = listeners.saturating_mul(CONNECTIONS_MAX);
    u64::try_from(connections).unwrap_or(u64::MAX).saturating_add(OPEN_FILES_BESIDE)
}

/// The signals that the node takes.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next one that stops the node and names it.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
