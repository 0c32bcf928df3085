//! `rlbench abuse`: what ten thousand idle connections and a hundred that send garbage at one door of a
//! node cost a client of the same door that behaves well.
//!
//! Phases without abuse, with the same abuse at another node of the same machine, and with it, in turn, every
//! second round the other way round, so that a machine that is slow for a while is slow for all. The abuse is on
//! the same machine: what it costs there is what it costs at another node, and the rest is the door's.

mod crowd;
mod door;
mod garbage;
mod options;
mod report;
mod site;

use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::clock;
use crate::driver::{Driver, Shape, Tally, Until};
use crate::failure::Failure;
use crate::keys::Keys;
use crate::procfs::MachineTime;
use crowd::{Idle, Sent};
use door::AbusedDoor;
pub(crate) use options::AbuseOptions;
pub(crate) use report::Abuse;
use report::DoorFigures;
use site::{Counts, Site};

/// Connections of the well-behaved client.
const CONNECTIONS: usize = 4;
/// Questions in flight on each of them; gRPC is asked one call at a time.
const WINDOW: usize = 16;
/// Keys that it asks about.
const KEYS: u64 = 10_000;
/// Load before anything is measured, and abuse before its phase is.
const WARM_UP: Duration = Duration::from_millis(500);
/// How long a node may take to see that connections are gone.
const GONE_WITHIN_NS: u64 = 20 * clock::NS_PER_S;
/// Pause between two looks whether they are.
const LOOK_EVERY_NS: u64 = 20 * clock::NS_PER_MS;

/// Measures as `options` say.
///
/// # Errors
/// If the node does not start, ends, or does not answer the client that behaves well.
pub(crate) fn run(options: &AbuseOptions) -> Result<Abuse, Failure> {
    options.raise_open_files()?;
    if let Some(pins) = &options.pin {
        pins.client.pin_this_thread()?;
    }
    let mut abuse = Abuse::new(options);
    for (number, &door) in (0..).zip(options.doors()) {
        let cpus = options.pin.as_ref().map(|pins| &pins.server);
        // A node of its own: what the last door cost is in none of its figures.
        let site = Site::start(options.rlnode.as_deref(), cpus)?;
        let other = Site::start(options.rlnode.as_deref(), cpus)?;
        abuse.push(Abused { site: &site, other: &other, options, door }.measure(number)?);
        other.stop()?;
        site.stop()?;
    }
    Ok(abuse)
}

/// One phase: what came of the client's checks, and what they and the abuse used.
#[derive(Clone, Debug)]
struct Phase {
    tally: Tally,
    elapsed_ns: u64,
    node_ns: u64,
    bench_ns: u64,
    machine: MachineTime,
}

/// Three phases, one after the other.
#[derive(Clone, Debug)]
struct Round {
    without: Phase,
    /// With the abuse at another node.
    aside: Phase,
    with: Phase,
}

/// What was seen of the abuse in one phase.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    sent: Sent,
    /// Connections that the node had open after the phase.
    open: u64,
    /// Errors that it counted at the door from the first message on.
    errors: u64,
    /// Idle connections that it closed.
    idle_closed: u64,
    /// Memory that it held more with the idle connections than before them, in bytes.
    idle_bytes: u64,
}

/// A door under abuse.
#[derive(Clone, Copy, Debug)]
struct Abused<'s> {
    /// The node that the client asks.
    site: &'s Site,
    /// One that nobody asks.
    other: &'s Site,
    options: &'s AbuseOptions,
    door: AbusedDoor,
}

impl Abused<'_> {
    fn measure(&self, seed: u64) -> Result<DoorFigures, Failure> {
        let shape = Shape {
            connections: CONNECTIONS,
            window: if self.door == AbusedDoor::Envoy { 1 } else { WINDOW },
            checks: 1,
            checks_per_s: Some(self.options.rate),
        };
        let keys = Keys::uniform(KEYS, seed);
        let mut client = Driver::open(&self.site.endpoint(self.door), shape, keys)?;
        run_for(&mut client, WARM_UP)?;
        let messages = garbage::messages(self.door, seed);
        let (mut rounds, mut seen) = (Vec::new(), Vec::new());
        for number in 0..self.options.rounds {
            let abused = |client: &mut Driver, node| self.abused_phase(client, node, &messages);
            let ((without, (aside, _)), (with, of_this)) = if number.is_multiple_of(2) {
                let without = self.phase(&mut client)?;
                let aside = abused(&mut client, self.other)?;
                ((without, aside), abused(&mut client, self.site)?)
            } else {
                let with = abused(&mut client, self.site)?;
                let aside = abused(&mut client, self.other)?;
                ((self.phase(&mut client)?, aside), with)
            };
            rounds.push(Round { without, aside, with });
            seen.push(of_this);
        }
        Ok(DoorFigures::new(self.door, &rounds, &seen))
    }

    /// A phase in which the client is alone.
    fn phase(&self, client: &mut Driver) -> Result<Phase, Failure> {
        let started_ns = clock::now_ns();
        let (node_ns, bench_ns) = (self.site.cpu_ns()?, clock::process_cpu_ns());
        let machine = MachineTime::now()?;
        let tally = run_for(client, self.options.phase)?;
        Ok(Phase {
            tally,
            elapsed_ns: clock::now_ns().saturating_sub(started_ns),
            node_ns: self.site.cpu_ns()?.saturating_sub(node_ns),
            bench_ns: clock::process_cpu_ns().saturating_sub(bench_ns),
            machine: MachineTime::now()?.since(machine),
        })
    }

    /// A phase under abuse of `node`, from the first idle connection to the last one gone.
    fn abused_phase(
        &self,
        client: &mut Driver,
        node: &Site,
        messages: &[Vec<u8>],
    ) -> Result<(Phase, Seen), Failure> {
        let address = node.endpoint(self.door).address;
        let before = node.counts(self.door)?;
        let held_before = node.rss_bytes()?;
        let count = if self.door.has_connections() { self.options.idle } else { 0 };
        let idle = Idle::open(&address, count)?;
        self.wait_for(node, |counts| counts.open >= before.open + count)?;
        let idle_bytes = node.rss_bytes()?.saturating_sub(held_before);
        let stop = AtomicBool::new(false);
        let (phase, sent, after) = thread::scope(|scope| {
            let sending =
                scope.spawn(|| crowd::send_garbage(&address, self.options, messages, &stop));
            let phase = run_for(client, WARM_UP).and_then(|_| self.phase(client));
            let after = node.counts(self.door);
            stop.store(true, Ordering::Relaxed);
            let sent = sending.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
            Ok::<_, Failure>((phase?, sent?, after?))
        })?;
        let idle_closed = idle.closed();
        drop(idle);
        self.wait_for(node, |counts| counts.open <= before.open)?;
        let errors = after.errors.saturating_sub(before.errors);
        Ok((phase, Seen { sent, open: after.open, errors, idle_closed, idle_bytes }))
    }

    /// Waits until `node` counts what is expected.
    fn wait_for(
        &self,
        node: &Site,
        is_as_expected: impl Fn(&Counts) -> bool,
    ) -> Result<(), Failure> {
        let deadline_ns = clock::now_ns() + GONE_WITHIN_NS;
        loop {
            let counts = node.counts(self.door)?;
            // The question itself is a connection over HTTP.
            let own = u64::from(self.door == AbusedDoor::Http);
            let open = counts.open.saturating_sub(own);
            if is_as_expected(&Counts { open, ..counts }) || is_as_expected(&counts) {
                return Ok(());
            }
            if clock::now_ns() > deadline_ns {
                return Err(Failure::new(format!(
                    "the node has {} connections at {}, not as many as were opened and not closed",
                    counts.open, self.door
                )));
            }
            clock::wait_until(clock::now_ns() + LOOK_EVERY_NS);
        }
    }
}

/// Runs `client` for `time`.
fn run_for(client: &mut Driver, time: Duration) -> Result<Tally, Failure> {
    let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    client.run(Until::Time(clock::now_ns().saturating_add(time_ns)))
}
