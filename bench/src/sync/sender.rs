//! The process of the sender: it spends, and measures what it costs to tell and how soon it is known.

use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use limiter::{Answer, Request};
use member::Member;
use rustix::process::getpid;
use tokio::runtime::Runtime;

use super::control::{Ask, Control, Seen, Usage};
use super::fleet::{Fleet, LOAD_ENDPOINT};
use super::marker::{Marker, Told};
use super::report::{Cell, Cost, Delivery, Faults};
use crate::clock;
use crate::failure::Failure;
use crate::keys::key_text;
use crate::process::Process;
use crate::procfs;

/// Name of the thread that exchanges with peers.
const SYNC_THREAD: &str = "rlnode-sync";
/// Load before anything is measured. Levels are exchanged from the third second on.
pub(super) const WARM_UP: Duration = Duration::from_secs(3);
/// How long the members are measured while nothing is spent, and left alone before that.
pub(super) const IDLE: Duration = Duration::from_secs(3);
const SETTLE: Duration = Duration::from_secs(1);
/// How often the load is spent: what is due of it, evenly.
const SPEND_EVERY: Duration = Duration::from_millis(1);
/// Between two early markers: more than the budget of early flushes asks for.
const EARLY_EVERY: Duration = Duration::from_millis(40);
/// The golden section, in thousandths: multiples of it are spread evenly over the interval.
const GOLDEN_PERMILLE: u64 = 618;

/// A sender and its peers, linked.
pub(super) struct Sender<'a> {
    pub(super) fleet: &'a Fleet,
    pub(super) member: &'a Member,
    pub(super) process: &'a Process,
    pub(super) control: Control,
    pub(super) runtime: Runtime,
}

/// What was used and counted up to one moment, or between two.
struct Sample {
    at_ns: u64,
    sync_cpu_ns: u64,
    spends: u64,
    batches: u64,
    deltas: u64,
    bytes: u64,
    faults: Faults,
    peers_cpu_ns: u64,
}

impl Sample {
    /// What came since `before`.
    fn since(&self, before: &Self) -> Self {
        Self {
            at_ns: self.at_ns.saturating_sub(before.at_ns),
            sync_cpu_ns: self.sync_cpu_ns.saturating_sub(before.sync_cpu_ns),
            spends: self.spends - before.spends,
            batches: self.batches - before.batches,
            deltas: self.deltas - before.deltas,
            bytes: self.bytes - before.bytes,
            faults: self.faults,
            peers_cpu_ns: self.peers_cpu_ns.saturating_sub(before.peers_cpu_ns),
        }
    }
}

impl Sender<'_> {
    /// Measures what the links alone cost; then spends a unit of each of `keys` keys in every interval,
    /// and measures for `duration` what that costs, then as long how soon it is known.
    ///
    /// # Errors
    /// If a member or a process fails.
    pub(super) fn measure(&mut self, keys: u64, duration: Duration) -> Result<Cell, Failure> {
        self.pause(SETTLE)?;
        let before = self.sample()?;
        self.pause(IDLE)?;
        let idle = self.sample()?.since(&before);
        let stop = AtomicBool::new(false);
        let load = Load { member: self.member, process: self.process, keys, fleet: self.fleet };
        let (measured, denied) = thread::scope(|scope| {
            let spending = scope.spawn(|| load.spend(&stop));
            let measured = self.measure_under_load(duration);
            stop.store(true, Ordering::Relaxed);
            let denied = spending.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
            (measured, denied)
        });
        let denied = denied?;
        let (loaded, delivery) = measured?;
        let faults = Faults { denied, ..self.sample()?.faults };
        let (idle, loaded) = (self.cost(&idle), self.cost(&loaded));
        let peers = self.fleet.size() - 1;
        Ok(Cell { peers, cost: loaded, idle, delivery: delivery.ways(), faults })
    }

    fn measure_under_load(&mut self, duration: Duration) -> Result<(Sample, Delivery), Failure> {
        self.pause(WARM_UP)?;
        let before = self.sample()?;
        self.pause(duration)?;
        let loaded = self.sample()?.since(&before);
        Ok((loaded, self.deliver(duration)?))
    }

    fn pause(&self, time: Duration) -> Result<(), Failure> {
        super::pause(self.process, time)
    }

    fn sample(&mut self) -> Result<Sample, Failure> {
        let status = self.runtime.block_on(self.member.status_now());
        let (counts, shares) = (&status.cluster.counts, &status.cluster.shares);
        let at_ns = clock::now_ns();
        let sync_cpu_ns = procfs::thread_cpu_ns(getpid(), SYNC_THREAD)?;
        let peers: Usage = self.ask(Ask::Usage)?;
        Ok(Sample {
            at_ns,
            sync_cpu_ns,
            spends: self.member.limiter().counts().rules.iter().map(|rule| rule.allowed).sum(),
            batches: counts.batches_sent,
            deltas: counts.deltas_sent,
            bytes: counts.bytes_sent,
            faults: Faults {
                denied: 0,
                rows_full: shares.rows_full + peers.rows_full,
                dropped: shares.dropped + peers.dropped,
                splits: counts.splits + peers.splits,
            },
            peers_cpu_ns: peers.cpu_ns,
        })
    }

    fn ask<T: serde::de::DeserializeOwned>(&mut self, ask: Ask) -> Result<T, Failure> {
        self.control.say(&ask)?;
        self.hear()
    }

    fn hear<T: serde::de::DeserializeOwned>(&mut self) -> Result<T, Failure> {
        let heard = self.control.hear()?;
        heard.ok_or_else(|| self.process.failed("ended while it was measured"))
    }

    /// Markers of both kinds for `duration`, at least one of each: in every interval one for the
    /// tick, each at another part of it, and early ones in the time up to that.
    fn deliver(&mut self, duration: Duration) -> Result<Delivery, Failure> {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let until_ns = clock::now_ns().saturating_add(ns);
        let mut delivery = Delivery::new();
        let mut number = 0;
        for tick in 1_u64.. {
            let phase_ns = self.fleet.interval_ns() / 1000 * (tick * GOLDEN_PERMILLE % 1000);
            let tick_marker_ns = clock::now_ns() + phase_ns;
            let early_every_ns = u64::try_from(EARLY_EVERY.as_nanos()).unwrap_or(u64::MAX);
            loop {
                number += 1;
                self.mark(Marker::new(Told::Early, number), &mut delivery)?;
                let left_ns = tick_marker_ns.saturating_sub(clock::now_ns());
                self.pause(Duration::from_nanos(left_ns.min(early_every_ns)))?;
                if left_ns < early_every_ns {
                    break;
                }
            }
            number += 1;
            self.mark(Marker::new(Told::AtTick, number), &mut delivery)?;
            if clock::now_ns() >= until_ns {
                break;
            }
        }
        Ok(delivery)
    }

    /// Spends `marker`, and notes when each peer knew of it. They are watched from before on.
    fn mark(&mut self, marker: Marker, delivery: &mut Delivery) -> Result<(), Failure> {
        self.control.say(&Ask::Watch(marker))?;
        let spent = marker.spend(self.member, self.fleet.size(), clock::now_ns())?;
        let Seen(seen_ns) = self.hear()?;
        let seen_ns = seen_ns.ok_or_else(|| Failure::new("a peer never heard of a marker"))?;
        for seen_ns in seen_ns {
            delivery.note(marker.told, spent, seen_ns);
        }
        Ok(())
    }

    fn cost(&self, sample: &Sample) -> Cost {
        let peers = (self.fleet.size() - 1) as f64;
        let elapsed_ns = sample.at_ns.max(1) as f64;
        let in_a_second = |count: u64| count as f64 * clock::NS_PER_S as f64 / elapsed_ns;
        let percent = |cpu_ns: u64| 100.0 * cpu_ns as f64 / elapsed_ns;
        Cost {
            spends_per_s: in_a_second(sample.spends),
            batches_per_s: in_a_second(sample.batches),
            deltas_per_s: in_a_second(sample.deltas),
            bytes_per_s_and_peer: in_a_second(sample.bytes) / peers,
            sender_cpu_percent: percent(sample.sync_cpu_ns),
            peer_cpu_percent: percent(sample.peers_cpu_ns) / peers,
        }
    }
}

/// What is spent meanwhile.
struct Load<'a> {
    member: &'a Member,
    process: &'a Process,
    fleet: &'a Fleet,
    keys: u64,
}

impl Load<'_> {
    /// Spends at an even rate until `stop`; how many checks were denied.
    fn spend(&self, stop: &AtomicBool) -> Result<u64, Failure> {
        let (mut spent, mut denied) = (0, 0);
        let began_ns = clock::now_ns();
        while !stop.load(Ordering::Relaxed) {
            let passed_ns = clock::now_ns().saturating_sub(began_ns);
            let due = u128::from(self.keys) * u128::from(passed_ns)
                / u128::from(self.fleet.interval_ns());
            // No more at once than each key once, so that a thread that lags still sees the end.
            let due = u64::try_from(due).unwrap_or(u64::MAX).min(spent + self.keys);
            for number in spent..due {
                denied += u64::from(!self.spend_one(number % self.keys)?);
            }
            spent = due;
            super::pause(self.process, SPEND_EVERY)?;
        }
        Ok(denied)
    }

    fn spend_one(&self, number: u64) -> Result<bool, Failure> {
        let key = key_text(number);
        let request = Request::check(LOAD_ENDPOINT.as_bytes(), &key);
        let answer = self.member.check(clock::now_ns(), &request, false);
        let answer = answer.map_err(|error| Failure::because("a check", error))?;
        Ok(matches!(answer, Answer::Decided(decision) if decision.verdict.allowed))
    }
}
