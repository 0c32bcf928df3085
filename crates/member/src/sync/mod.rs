//! The sync thread: it owns the cluster's state machine and the connections, and keeps time.
//!
//! It is one thread with a runtime of its own, so that nothing that the doors do delays a ping or an
//! acknowledgement. Whoever asks reaches it through two bounded queues and one wake-up.

mod alarm;
mod asking;
mod dialer;
mod giving;
mod gossip;
mod journal;
mod links;
mod resolve;
mod run;
mod upkeep;

use std::io;
use std::sync::Arc;
use std::sync::mpsc as blocking;
use std::thread::{self, JoinHandle};

use cluster::Cluster;
use limiter::{Limiter, Plan, ShareConfig, StoreConfig, Witness};
use tokio::sync::{mpsc, oneshot};

use self::alarm::Alarm;
pub(crate) use self::asking::{HOLDS_MAX, Hold, ORDERS_MAX, Order, Shared};
pub(crate) use self::giving::Giving;
use self::resolve::{Resolved, resolve};
use self::run::SyncLoop;
use crate::settings::{Clock, Settings, StartError};
use crate::tls::Credentials;
use crate::transport::{CONNECTIONS_MAX, EVENTS_MAX, Endpoint, EndpointConfig};

/// Name of the thread, for whoever looks at the process.
const THREAD_NAME: &str = "rlnode-sync";

/// The receiving ends of what others ask.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) orders: mpsc::Receiver<Order>,
    pub(crate) holds: mpsc::Receiver<Hold>,
}

/// The state machine; a held check is woken through a channel of its own.
type Machine = Cluster<oneshot::Sender<()>>;

/// Everything that the thread is started with.
struct Start {
    settings: Settings,
    plan: Plan,
    store: StoreConfig,
    witness: Option<Arc<dyn Witness>>,
    clock: Clock,
    credentials: Credentials,
    life: u64,
}

/// Starts the thread, and waits until the port is bound and the names are looked up.
pub(crate) fn start(
    settings: Settings,
    plan: Plan,
    mut store: StoreConfig,
    witness: Option<Arc<dyn Witness>>,
    clock: Clock,
    asked: Asked,
) -> Result<(Arc<Shared>, JoinHandle<()>), StartError> {
    let credentials = Credentials::load(&settings.tls)?;
    if !credentials.identity().permits(&settings.node) {
        let certificate = credentials.identity().clone();
        return Err(StartError::Name { node: settings.node, certificate });
    }
    for warning in credentials.warnings() {
        tracing::warn!("{warning}");
    }
    store.secret = credentials.secret().bytes();
    let life = random_life()?;
    let start = Start { settings, plan, store, witness, clock, credentials, life };
    let (report, reported) = blocking::sync_channel(1);
    let thread = thread::Builder::new()
        .name(THREAD_NAME.to_owned())
        .spawn(move || run_thread(start, asked, &report))?;
    match reported.recv() {
        Ok(Ok(shared)) => Ok((shared, thread)),
        Ok(Err(error)) => {
            // It has said why it ends, and has nothing to say beyond that.
            let _ = thread.join();
            Err(error)
        }
        Err(_) => Err(io::Error::other("the thread ended at once").into()),
    }
}

type Report = blocking::SyncSender<Result<Arc<Shared>, StartError>>;

fn run_thread(start: Start, asked: Asked, report: &Report) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            // Nobody but the caller of `start`, who waits, can be told.
            let _ = report.send(Err(error.into()));
            return;
        }
    };
    let leavers = runtime.block_on(async {
        match begin(start, asked).await {
            Ok((shared, sync)) => {
                // Whoever started it waits for this.
                let _ = report.send(Ok(shared));
                sync.run().await
            }
            Err(error) => {
                let _ = report.send(Err(error));
                Vec::new()
            }
        }
    });
    // Drops what is left of the connections, and with it the port. A look-up in DNS that hangs is
    // left behind.
    runtime.shutdown_background();
    for leaver in leavers {
        // Whoever asked and has gone needs no answer.
        let _ = leaver.send(());
    }
}

/// Binds the port, looks up the names, and makes limiter and state machine.
async fn begin(start: Start, asked: Asked) -> Result<(Arc<Shared>, SyncLoop), StartError> {
    let Start { settings, plan, store, witness, clock, credentials, life } = start;
    let (events_sender, events) = mpsc::channel(EVENTS_MAX);
    let config = EndpointConfig {
        listen: settings.listen,
        credentials: &credentials,
        connections_max: CONNECTIONS_MAX,
        now: clock.now_ns,
    };
    let endpoint = Endpoint::bind(&config, events_sender)?;
    let resolved = resolve(settings.peers.clone()).await;
    let config = cluster_config(&settings, &store, &resolved, &endpoint);
    let share = ShareConfig {
        sync_interval_ns: config.sync_interval_ns,
        view: Machine::initial_view(&config),
    };
    let mut limiter = Limiter::new_member(plan, store, share);
    if let Some(witness) = witness {
        limiter = limiter.with_witness(witness);
    }
    let limiter = Arc::new(limiter);
    // Before anybody asks: a window must not begin at another time than the next reading says.
    limiter.set_wall((clock.now_ns)(), (clock.unix_ns)());
    let machine = Machine::new(config, Arc::clone(&limiter), life, (clock.now_ns)());
    let sync = SyncLoop::new(run::Parts {
        settings,
        clock,
        certificate_expiry: credentials.expiry(),
        limiter,
        machine,
        life,
        endpoint,
        events,
        asked,
        resolved,
        alarm: Alarm::new()?,
    });
    Ok((sync.shared(), sync))
}

fn cluster_config(
    settings: &Settings,
    store: &StoreConfig,
    resolved: &Resolved,
    endpoint: &Endpoint,
) -> cluster::Config {
    let ns = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    cluster::Config {
        node: settings.node.clone(),
        cluster: settings.cluster.clone(),
        region: settings.region.clone(),
        secret: store.secret,
        sync_interval_ns: ns(settings.sync_interval),
        expect: settings.expect.unwrap_or_else(|| {
            resolved.members(settings.advertise.unwrap_or_else(|| endpoint.local()))
        }),
        ready_early: settings.ready_early,
        forget_after_ns: ns(settings.forget_after),
    }
}

/// A random number that names this start of the process, never 0.
fn random_life() -> Result<u64, StartError> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(io::Error::from)?;
    Ok(u64::from_le_bytes(bytes).max(1))
}
