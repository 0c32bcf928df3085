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
use super::report::{Cell, Delivery, Faults};
use crate::clock;
use crate::failure::Failure;
use crate::keys::key_text;
use crate::process::Process;
use crate::procfs;

/// Name of the thread that exchanges with peers.
const SYNC_THREAD: &str = "rlnode-sync";
/// Load before anything is measured. Levels are exchanged from the third second on.
pub(super) const WARM_UP: Duration = Duration::from_secs(3);
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

/// What was used and counted at one moment.
struct Sample {
    at_ns: u64,
    sync_cpu_ns: u64,
    spends: u64,
    batches: u64,
    deltas: u64,
    bytes: u64,
    faults: Faults,
    peers: Usage,
}

impl Sender<'_> {
    /// Spends a unit of each of `keys` keys in every interval, and measures for `duration` what that
    /// costs, then as long how soon it is known.
    ///
    /// # Errors
    /// If a member or a process fails.
    pub(super) fn measure(&mut self, keys: u64, duration: Duration) -> Result<Cell, Failure> {
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
        let (before, after, delivery) = measured?;
        let faults = Faults { denied, ..self.sample()?.faults };
        Ok(self.cell(&before, &after, &delivery, faults))
    }

    fn measure_under_load(
        &mut self,
        duration: Duration,
    ) -> Result<(Sample, Sample, Delivery), Failure> {
        self.pause(WARM_UP)?;
        let before = self.sample()?;
        self.pause(duration)?;
        let after = self.sample()?;
        let delivery = self.deliver(duration)?;
        Ok((before, after, delivery))
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
            peers,
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

    fn cell(&self, before: &Sample, after: &Sample, delivery: &Delivery, faults: Faults) -> Cell {
        let peers = (self.fleet.size() - 1) as f64;
        let elapsed_ns = after.at_ns.saturating_sub(before.at_ns).max(1) as f64;
        let in_a_second = |count: u64| count as f64 * clock::NS_PER_S as f64 / elapsed_ns;
        let batches = after.batches - before.batches;
        let deltas = after.deltas - before.deltas;
        let bytes = after.bytes - before.bytes;
        let sender_ns = after.sync_cpu_ns.saturating_sub(before.sync_cpu_ns) as f64;
        let peers_ns = after.peers.cpu_ns.saturating_sub(before.peers.cpu_ns) as f64;
        let received = (after.peers.deltas - before.peers.deltas).max(1) as f64;
        let told = deltas.max(1) as f64 * peers;
        Cell {
            peers: self.fleet.size() - 1,
            spends_per_s: in_a_second(after.spends - before.spends),
            batches_per_s: in_a_second(batches),
            deltas_per_s: in_a_second(deltas),
            bytes_per_s_and_peer: in_a_second(bytes) / peers,
            bytes_per_delta: bytes as f64 / told,
            sender_cpu_percent: 100.0 * sender_ns / elapsed_ns,
            sender_ns_per_delta_and_peer: sender_ns / told,
            peer_cpu_percent: 100.0 * peers_ns / elapsed_ns / peers,
            peer_ns_per_delta: peers_ns / received,
            delivery: delivery.ways(),
            faults,
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
