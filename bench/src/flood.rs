//! `rlbench flood`: more new keys than a node has memory for, and what it promised for that case:
//! memory stays bounded, a drained key stays drained, every question is answered, and afterwards the
//! memory comes back.

use std::fmt;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use serde::Serialize;

use crate::cli::FloodOptions;
use crate::clock::{self, NS_PER_S};
use crate::driver::{Driver, Shape, Tally, Until};
use crate::failure::Failure;
use crate::keys::{Keys, key_text};
use crate::procfs::Machine;
use crate::report::{self, Table, decimals};
use crate::server::{Door, Limit, NodeConfig, Server, Status};

/// Checks in each frame of the flood.
const BATCH: u64 = 64;
/// Frames of the flood in flight.
const WINDOW: usize = 8;
/// Units of a bucket of the flood.
const BURST: u64 = 10;
/// Number of the key that is drained; no flood comes that far.
const DRAINED: u64 = u64::MAX;
/// Units of the drained key's bucket, which gains one in a day.
const DRAINED_BURST: u64 = 5;
/// Questions about the drained key in a second, asked whatever the answers do.
const PROBES_PER_S: u64 = 1000;
/// Pause between two looks at the node.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// What a node may hold beside its tables and what it began with: buffers of its connections, and
/// what the allocator keeps of them.
const BUFFERS_BYTES: u64 = 8 << 20;
/// Entries may remain: one in so many of the most there were, and the drained key.
const REMAINING_OF: u64 = 1000;
const BYTES_PER_MIB: u64 = 1 << 20;
const NS_PER_US: f64 = 1e3;

/// What a flood came to.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Flood {
    machine: Machine,
    version: String,
    keys: u64,
    memory_mib: u64,
    rest_s: u64,
    /// Checks of the flood in a second.
    checks_per_s: f64,
    allowed: u64,
    denied: u64,
    /// Most entries that the tables can have.
    entries_max: u64,
    /// Checks that found the tables full, and entries that made room for others.
    full: u64,
    evicted: u64,
    claims: Vec<Claim>,
}

/// Something that the node promised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Claim {
    what: &'static str,
    measured: String,
    holds: bool,
}

/// What was seen of the node from outside.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    rss_bytes: u64,
    rss_peak_bytes: u64,
    entries: u64,
    entries_peak: u64,
}

/// Everything that the claims are judged by.
struct Evidence {
    memory_bytes: u64,
    rest_s: u64,
    rss_start_bytes: u64,
    seen: Seen,
    /// From the end of the flood until the entries were gone; none if they were not in time.
    entries_back_after_ns: Option<u64>,
    flood: Tally,
    probes: Tally,
}

/// Floods a node as `options` say.
///
/// # Errors
/// If the node does not start, ends, or its status cannot be read.
pub(crate) fn run(options: &FloodOptions) -> Result<Flood, Failure> {
    let server = start(options)?;
    if let Some(pins) = &options.pin {
        pins.client.pin_this_thread()?;
    }
    drain(&server)?;
    let rss_start_bytes = rss_bytes(&server)?;
    let stop = AtomicBool::new(false);
    let (probes, flooded) = thread::scope(|scope| {
        let probing = scope.spawn(|| probe(&server, &stop));
        let flooded = flood_and_settle(&server, options);
        stop.store(true, Ordering::Relaxed);
        (join(probing), flooded)
    });
    let Flooded { tally, seen, entries_back_after_ns, status } = flooded?;
    server.stop()?;
    let checks_per_s = tally.decided() as f64 * NS_PER_S as f64 / tally.elapsed_ns.max(1) as f64;
    let (allowed, denied) = (tally.allowed, tally.denied);
    let evidence = Evidence {
        memory_bytes: options.memory_mib * BYTES_PER_MIB,
        rest_s: options.rest_s,
        rss_start_bytes,
        seen,
        entries_back_after_ns,
        flood: tally,
        probes: probes?,
    };
    Ok(Flood {
        machine: Machine::this(),
        version: status.version,
        keys: options.keys,
        memory_mib: options.memory_mib,
        rest_s: options.rest_s,
        checks_per_s,
        allowed,
        denied,
        entries_max: status.entries_max,
        full: status.full,
        evicted: status.evicted,
        claims: evidence.claims(),
    })
}

fn start(options: &FloodOptions) -> Result<Server, Failure> {
    let drained = key_text(DRAINED);
    let drained = String::from_utf8_lossy(&drained);
    let overrides = format!(
        "\n[[limit.override]]\nname = 'drained'\nkeys = ['{drained}']\nrate = '1/1d'\n\
         burst = {DRAINED_BURST}\n"
    );
    Server::start_node(&NodeConfig {
        program: options.rlnode.as_deref(),
        cpus: options.pin.as_ref().map(|pins| &pins.server),
        limit: Limit { period_ms: options.rest_s * 1000, burst: BURST },
        memory_mib: options.memory_mib,
        overrides: &overrides,
    })
}

/// A driver of one connection through `door`.
fn driver(server: &Server, door: Door, shape: Shape, keys: Keys) -> Result<Driver, Failure> {
    let endpoint =
        server.endpoint(door).ok_or_else(|| Failure::new("the node has no such door"))?;
    Driver::open(&endpoint, shape, keys)
}

/// Spends everything that the drained key has.
fn drain(server: &Server) -> Result<(), Failure> {
    let shape = Shape { connections: 1, window: 1, checks: 1, checks_per_s: None };
    let mut driver = driver(server, Door::Unix, shape, Keys::sequence(DRAINED, 1))?;
    let tally = driver.run(Until::Asked(DRAINED_BURST + 1))?;
    if (tally.allowed, tally.denied) == (DRAINED_BURST, 1) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "a key with {DRAINED_BURST} units was allowed {} and denied {} of {} checks",
        tally.allowed,
        tally.denied,
        DRAINED_BURST + 1
    )))
}

/// Asks about the drained key until `stop`, at an even rate.
fn probe(server: &Server, stop: &AtomicBool) -> Result<Tally, Failure> {
    let shape =
        Shape { connections: 1, window: WINDOW, checks: 1, checks_per_s: Some(PROBES_PER_S) };
    driver(server, Door::Udp, shape, Keys::sequence(DRAINED, 1))?.run(Until::Stopped(stop))
}

/// What the flood and the time after it came to.
struct Flooded {
    tally: Tally,
    seen: Seen,
    entries_back_after_ns: Option<u64>,
    /// At the end of the flood.
    status: Status,
}

/// Floods, and looks on until the node is back to rest, or should be.
fn flood_and_settle(server: &Server, options: &FloodOptions) -> Result<Flooded, Failure> {
    let checks = BATCH.min(options.keys);
    let shape = Shape {
        connections: 1,
        window: WINDOW,
        checks: usize::try_from(checks).unwrap_or(1),
        checks_per_s: None,
    };
    let mut flooder = driver(server, Door::Unix, shape, Keys::sequence(0, options.keys))?;
    let mut seen = Seen::default();
    let tally = thread::scope(|scope| {
        let flooding = scope.spawn(|| flooder.run(Until::Asked(options.keys.div_ceil(checks))));
        let mut watched = Ok(());
        while watched.is_ok() && !flooding.is_finished() {
            watched = seen.look(server).and_then(|()| server.stays_for(LOOK_EVERY));
        }
        watched.and_then(|()| join(flooding))
    })?;
    let ended_ns = clock::now_ns();
    let status = server.status()?;
    seen.look(server)?;
    let time_ns = 2 * options.rest_s * NS_PER_S;
    let mut entries_back_after_ns = None;
    loop {
        let after_ns = clock::now_ns() - ended_ns;
        if after_ns > time_ns {
            break;
        }
        if seen.entries_are_back() {
            entries_back_after_ns.get_or_insert(after_ns);
            if seen.memory_is_back() {
                break;
            }
        }
        server.stays_for(LOOK_EVERY)?;
        seen.look(server)?;
    }
    Ok(Flooded { tally, seen, entries_back_after_ns, status })
}

fn join<T>(running: ScopedJoinHandle<'_, T>) -> T {
    running.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
}

fn rss_bytes(server: &Server) -> Result<u64, Failure> {
    server.rss_bytes()?.ok_or_else(|| Failure::new("the node's process is not known"))
}

impl Seen {
    fn look(&mut self, server: &Server) -> Result<(), Failure> {
        self.note(rss_bytes(server)?, server.status()?.entries);
        Ok(())
    }

    fn note(&mut self, rss_bytes: u64, entries: u64) {
        self.rss_bytes = rss_bytes;
        self.rss_peak_bytes = self.rss_peak_bytes.max(rss_bytes);
        self.entries = entries;
        self.entries_peak = self.entries_peak.max(entries);
    }

    fn entries_are_back(&self) -> bool {
        self.entries <= 1 + self.entries_peak / REMAINING_OF
    }

    fn memory_is_back(&self) -> bool {
        self.rss_bytes <= self.rss_peak_bytes / 2
    }
}

impl Evidence {
    fn claims(&self) -> Vec<Claim> {
        let Self { seen, flood, probes, .. } = self;
        let mib = |bytes: u64| decimals(bytes as f64 / BYTES_PER_MIB as f64);
        let seconds = |ns: u64| decimals(ns as f64 / NS_PER_S as f64);
        let us = |quantile| decimals(probes.latency.at(quantile) as f64 / NS_PER_US);
        let rss_bound = self.memory_bytes + self.rss_start_bytes + BUFFERS_BYTES;
        let unanswered = flood.lost + flood.failed + probes.lost + probes.failed;
        vec![
            Claim {
                what: "memory stays within the cap and the node's fixed part",
                measured: format!(
                    "at most {} of {} MiB: cap {}, at the start {}, buffers {}",
                    mib(seen.rss_peak_bytes),
                    mib(rss_bound),
                    mib(self.memory_bytes),
                    mib(self.rss_start_bytes),
                    mib(BUFFERS_BYTES)
                ),
                holds: seen.rss_peak_bytes <= rss_bound,
            },
            Claim {
                what: "a drained key stays denied, during the flood and after",
                measured: format!("{} allowed of {} asked", probes.allowed, probes.answered),
                holds: probes.allowed == 0 && probes.denied > 0,
            },
            Claim {
                what: "every question is answered throughout",
                measured: format!(
                    "{unanswered} were not; beside the flood p50 {} us, p99 {} us, longest {} us",
                    us(0.5),
                    us(0.99),
                    us(1.0)
                ),
                holds: unanswered == 0 && probes.answered > 0,
            },
            Claim {
                what: "entries go within twice the time that they take to come to rest",
                measured: format!(
                    "from {} to {}, after {} of {} s",
                    seen.entries_peak,
                    seen.entries,
                    self.entries_back_after_ns.map_or_else(|| "more".into(), seconds),
                    2 * self.rest_s
                ),
                holds: self.entries_back_after_ns.is_some(),
            },
            Claim {
                what: "memory falls by at least half",
                measured: format!(
                    "from {} to {} MiB",
                    mib(seen.rss_peak_bytes),
                    mib(seen.rss_bytes)
                ),
                holds: seen.memory_is_back(),
            },
        ]
    }
}

impl Flood {
    /// Every claim holds.
    pub(crate) fn holds(&self) -> bool {
        self.claims.iter().all(|claim| claim.holds)
    }

    /// The flood as JSON.
    pub(crate) fn to_json(&self) -> Result<String, Failure> {
        report::to_json(self)
    }
}

impl fmt::Display for Flood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "rlnode {} on {}", self.version, self.machine)?;
        writeln!(
            f,
            "{} new keys, each at rest after {} s, into {} MiB ({} entries): {:.0} checks/s, \
             {} allowed, {} denied; {} found it full, {} made room\n",
            self.keys,
            self.rest_s,
            self.memory_mib,
            self.entries_max,
            self.checks_per_s,
            self.allowed,
            self.denied,
            self.full,
            self.evicted
        )?;
        let mut table = Table::new(3, &["claim", "holds", "measured"]);
        for claim in &self.claims {
            let holds = if claim.holds { "yes" } else { "NO" };
            table.row(vec![claim.what.into(), holds.into(), claim.measured.clone()]);
        }
        write!(f, "{table}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = BYTES_PER_MIB;

    /// A flood in which everything went as promised.
    fn evidence() -> Evidence {
        let mut seen = Seen::default();
        seen.note(200 * MIB, 1_000_000);
        seen.note(20 * MIB, 1);
        Evidence {
            memory_bytes: 256 * MIB,
            rest_s: 15,
            rss_start_bytes: 10 * MIB,
            seen,
            entries_back_after_ns: Some(20 * NS_PER_S),
            flood: Tally { allowed: 10, ..Tally::new() },
            probes: Tally { answered: 5, denied: 5, ..Tally::new() },
        }
    }

    fn broken(evidence: &Evidence) -> Vec<&'static str> {
        evidence.claims().iter().filter(|claim| !claim.holds).map(|claim| claim.what).collect()
    }

    #[test]
    fn every_claim_holds_when_all_went_as_promised() {
        assert_eq!(broken(&evidence()), Vec::<&str>::new());
    }

    #[test]
    fn each_claim_can_fail() {
        let mut over = evidence();
        over.seen.note(300 * MIB, 1);
        over.seen.note(20 * MIB, 1);
        assert_eq!(broken(&over), ["memory stays within the cap and the node's fixed part"]);

        let mut forgotten = evidence();
        forgotten.probes.allowed = 1;
        assert_eq!(broken(&forgotten).len(), 1);

        let mut silent = evidence();
        silent.probes.lost = 1;
        assert_eq!(broken(&silent), ["every question is answered throughout"]);

        let mut kept = evidence();
        kept.entries_back_after_ns = None;
        assert!(broken(&kept)[0].starts_with("entries go"));

        let mut held = evidence();
        held.seen.note(101 * MIB, 1);
        assert_eq!(broken(&held), ["memory falls by at least half"]);
    }

    #[test]
    fn a_flood_that_was_never_asked_about_shows_nothing() {
        let mut unasked = evidence();
        unasked.probes = Tally::new();
        assert_eq!(broken(&unasked).len(), 2);
    }
}
