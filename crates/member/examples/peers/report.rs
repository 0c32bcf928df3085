//! What was measured, and how it is shown.

use std::error::Error;
use std::fmt::Write as _;

use hdrhistogram::Histogram;

use crate::{Plan, WARM_UP};

/// Acknowledgement round trip that an idle machine must show at the 99th percentile.
const GOAL_P99_NS: u64 = 3_000_000;

/// What one process measured, or all of them together.
pub(crate) struct Report {
    /// Round trips from frame to answer, in ns.
    pub(crate) round_trips: Histogram<u64>,
    /// Longest time for which a link brought nothing, in ns.
    pub(crate) silence_max_ns: u64,
    /// Times that a link brought nothing for 500 ms.
    pub(crate) silences: u64,
    /// Times that a frame had no answer for 500 ms.
    pub(crate) unanswered: u64,
    /// Links that ended.
    pub(crate) closed: u64,
    /// Processor time of the thread that does the network's work, in ns.
    pub(crate) sync_cpu_ns: u64,
    /// UDP bytes sent.
    pub(crate) sent_bytes: u64,
}

impl Default for Report {
    fn default() -> Self {
        let bounds = Histogram::new_with_bounds(1_000, 60_000_000_000, 3);
        Self {
            round_trips: bounds.expect("the bounds are in order"),
            silence_max_ns: 0,
            silences: 0,
            unanswered: 0,
            closed: 0,
            sync_cpu_ns: 0,
            sent_bytes: 0,
        }
    }
}

impl Report {
    pub(crate) fn add(&mut self, other: &Self) {
        // Both have the same bounds.
        let _ = self.round_trips.add(&other.round_trips);
        self.silence_max_ns = self.silence_max_ns.max(other.silence_max_ns);
        self.silences += other.silences;
        self.unanswered += other.unanswered;
        self.closed += other.closed;
        self.sync_cpu_ns += other.sync_cpu_ns;
        self.sent_bytes += other.sent_bytes;
    }

    /// The report as one line of numbers, from a process to the one that started it.
    pub(crate) fn written(&self) -> String {
        let mut line = format!(
            "{} {} {} {} {} {}",
            self.silence_max_ns,
            self.silences,
            self.unanswered,
            self.closed,
            self.sync_cpu_ns,
            self.sent_bytes
        );
        for step in self.round_trips.iter_recorded() {
            let _ = write!(line, " {} {}", step.value_iterated_to(), step.count_at_value());
        }
        line
    }

    /// Reads what [`Report::written`] wrote.
    pub(crate) fn read(line: &str) -> Result<Self, Box<dyn Error>> {
        let numbers: Result<Vec<u64>, _> = line.split_ascii_whitespace().map(str::parse).collect();
        let numbers = numbers?;
        let [silence_max_ns, silences, unanswered, closed, sync_cpu_ns, sent_bytes, rest @ ..] =
            numbers.as_slice()
        else {
            return Err("a peer wrote no report".into());
        };
        let mut report = Self {
            silence_max_ns: *silence_max_ns,
            silences: *silences,
            unanswered: *unanswered,
            closed: *closed,
            sync_cpu_ns: *sync_cpu_ns,
            sent_bytes: *sent_bytes,
            ..Self::default()
        };
        for pair in rest.chunks_exact(2) {
            report.round_trips.record_n(pair[0], pair[1])?;
        }
        Ok(report)
    }

    /// The report for a person.
    pub(crate) fn text(&self, plan: &Plan, machine: &str) -> String {
        let quantile = |q| ms(self.round_trips.value_at_quantile(q));
        let holds = self.silences == 0 && self.unanswered == 0 && self.closed == 0;
        let is_quick = self.round_trips.value_at_quantile(0.99) < GOAL_P99_NS;
        let measured_ns = (plan.seconds * 1_000_000_000 * plan.peers as u64).max(1);
        let sync_per_mille = self.sync_cpu_ns * 1_000 / measured_ns;
        format!(
            "peers {}, {} s after {} s of warm-up, load {} %, frame {} bytes; {machine}\n\
             round trips {}: p50 {} p90 {} p99 {} p99.9 {} max {} ms{}\n\
             longest silence {} ms; silent for 500 ms: {}; unanswered for 500 ms: {}; links that \
             ended: {}{}\n\
             sync thread: {}.{} % of a processor in each process; {} bytes of UDP sent per second \
             and process",
            plan.peers,
            plan.seconds,
            WARM_UP.as_secs(),
            plan.load,
            plan.frame,
            self.round_trips.len(),
            quantile(0.5),
            quantile(0.9),
            quantile(0.99),
            quantile(0.999),
            ms(self.round_trips.max()),
            if is_quick { " (p99 below 3 ms)" } else { " (p99 NOT below 3 ms)" },
            ms(self.silence_max_ns),
            self.silences,
            self.unanswered,
            self.closed,
            if holds { " (no split)" } else { " (SPLIT)" },
            sync_per_mille / 10,
            sync_per_mille % 10,
            self.sent_bytes / (plan.seconds * plan.peers as u64).max(1),
        )
    }
}

/// Nanoseconds as milliseconds with three digits.
fn ms(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000, ns / 1_000 % 1_000)
}

/// How busy the machine was meanwhile, whoever kept it so.
pub(crate) struct Machine(Option<(u64, u64)>);

impl Machine {
    pub(crate) fn watch() -> Self {
        Self(read_stat())
    }

    pub(crate) fn finish(&self) -> String {
        let (Some((busy, all)), Some((busy_after, all_after))) = (self.0, read_stat()) else {
            return "machine: unknown".to_owned();
        };
        let percent = (busy_after - busy) * 100 / (all_after - all).max(1);
        format!("machine {percent} % busy")
    }
}

/// Time that all processors were busy, and all time, in ticks of the kernel.
fn read_stat() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let ticks: Vec<u64> =
        text.lines().next()?.split_ascii_whitespace().skip(1).flat_map(str::parse).collect();
    let all: u64 = ticks.iter().take(8).sum();
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some((all - idle, all))
}
