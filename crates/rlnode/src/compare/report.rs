//! What `rlnode compare` found of the algorithms, as its JSON has it.

use serde::Serialize;
use sim::compare::{Algorithm, Comparison, FleetJudgement, Judgement, Numbers, Series, Worst};

use super::trace::Counts;

const NS_PER_MS: u64 = 1_000_000;

/// The whole answer.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The name of the traffic, or the file of the trace.
    pub traffic: String,
    /// Units in a period.
    pub limit: u64,
    /// Length of the period, in nanoseconds.
    pub period_ns: u64,
    /// Capacity of the buckets.
    pub burst: u64,
    /// Where chance in the traffic came from; none of a trace.
    pub seed: Option<u64>,
    /// Calls that were made.
    pub calls: u64,
    /// Unix time at which the traffic begins, in milliseconds.
    pub from_unix_ms: u64,
    /// Time from there to its end.
    pub duration_ms: u64,
    /// Nodes of the cluster beside the exact node; none: there is no cluster.
    pub nodes: Option<usize>,
    /// The algorithms.
    pub algorithms: Vec<AlgorithmReport>,
    /// What was read of the trace.
    pub trace: Option<TraceReport>,
}

/// What one algorithm did.
#[derive(Debug, Serialize)]
pub struct AlgorithmReport {
    /// Its name.
    pub algorithm: &'static str,
    /// Why it cannot have these numbers.
    pub refused: Option<String>,
    /// On one exact node.
    pub alone: Option<Figures>,
    /// On the cluster.
    pub cluster: Option<ClusterFigures>,
}

/// What it let through, and what that took.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// Calls that passed.
    pub allowed: u64,
    /// Calls that were denied.
    pub denied: u64,
    /// Units that passed.
    pub units: u64,
    /// Units in the fullest second, two seconds and period of any key.
    pub worst_second: u64,
    /// See `worst_second`.
    pub worst_two_seconds: u64,
    /// See `worst_second`.
    pub worst_period: u64,
    /// Unix time at which the fullest two seconds begin, in milliseconds.
    pub worst_two_seconds_from_unix_ms: u64,
    /// Longest time for which a key was denied, up to its next call that passed or its last.
    pub longest_denial_ms: u64,
    /// Longest wait that a denied call was told.
    pub longest_wait_ms: u64,
    /// Denied calls that no wait would have helped.
    pub never: u64,
    /// Calls that passed and had to wait their turn, their mean wait, and the longest.
    pub delayed: u64,
    /// See `delayed`.
    pub mean_delay_ms: u64,
    /// See `delayed`.
    pub longest_delay_ms: u64,
    /// Memory of the tables for a key, and what it is computed from.
    pub bytes_per_key: u64,
    /// See `bytes_per_key`.
    pub table_bytes: u64,
    /// See `bytes_per_key`.
    pub keys: u64,
    /// Calls that found no room in a million entries and shared one bucket.
    pub overflowed: u64,
    /// Calls of keys that were too many to measure windows and denials.
    pub unmeasured: u64,
    /// Width of a slot of the two series.
    pub slot_ns: u64,
    /// Units asked for, by slot.
    pub asked: Vec<u64>,
    /// Units that passed, by slot; of a queue when they left it.
    pub passed: Vec<u64>,
}

/// What the same algorithm let through on a cluster that was asked the same.
#[derive(Debug, Serialize)]
pub struct ClusterFigures {
    /// Why it was not run there.
    pub refused: Option<String>,
    /// Calls that passed.
    pub allowed: u64,
    /// Units that passed.
    pub units: u64,
    /// By how many units that is more than on the exact node; negative: fewer.
    pub more_units: i64,
    /// Units in the fullest two seconds and period.
    pub worst_two_seconds: u64,
    /// See `worst_two_seconds`.
    pub worst_period: u64,
}

/// What was read of a trace.
#[derive(Debug, Serialize)]
pub struct TraceReport {
    /// Lines, empty ones and a header among them.
    pub lines: u64,
    /// Lines that could not be read.
    pub unreadable: u64,
    /// The first of them.
    pub told: Vec<UnreadableReport>,
    /// Calls that were put in the order of their time.
    pub reordered: u64,
    /// Calls that came too late for that and count at the time of the one before.
    pub late: u64,
}

/// A line that could not be read.
#[derive(Debug, Serialize)]
pub struct UnreadableReport {
    /// Its number, from 1.
    pub line: u64,
    /// Why.
    pub why: String,
}

impl Report {
    /// The report of `found`, which is what `traffic` came to with `numbers`.
    pub fn new(traffic: String, numbers: &Numbers, found: &Comparison) -> Self {
        // Series that end later may have become wider: all have the width of the widest.
        let judged = || found.lanes.iter().filter_map(|(_, lane)| lane.as_ref().ok());
        let slot_ns = judged().map(|it| it.series.slot_ns()).max().unwrap_or(1);
        let algorithm =
            |(algorithm, lane): &(Algorithm, Result<Judgement, String>)| AlgorithmReport {
                algorithm: algorithm.as_str(),
                refused: lane.as_ref().err().cloned(),
                alone: lane.as_ref().ok().map(|judgement| Figures::new(judgement, slot_ns)),
                cluster: None,
            };
        Self {
            traffic,
            limit: numbers.rate.count,
            period_ns: numbers.rate.period_ns,
            burst: numbers.burst,
            seed: None,
            calls: found.calls,
            from_unix_ms: found.start_unix_ns / NS_PER_MS,
            duration_ms: found.duration_ns / NS_PER_MS,
            nodes: None,
            algorithms: found.lanes.iter().map(algorithm).collect(),
            trace: None,
        }
    }

    /// Adds what `nodes` nodes let through, in the order of the algorithms.
    pub fn add_cluster(&mut self, nodes: usize, judged: Vec<Result<FleetJudgement, String>>) {
        self.nodes = Some(nodes);
        for (algorithm, judged) in self.algorithms.iter_mut().zip(judged) {
            let alone = algorithm.alone.as_ref().map_or(0, |figures| figures.units);
            algorithm.cluster = Some(ClusterFigures::new(judged, alone));
        }
    }
}

impl Figures {
    fn new(judgement: &Judgement, slot_ns: u64) -> Self {
        let delays = &judgement.delays;
        let mean_delay_ns = delays.total_ns / u128::from(delays.delayed.max(1));
        let series = judgement.series.clone().widened(slot_ns);
        Self {
            allowed: judgement.allowed,
            denied: judgement.denied,
            units: judgement.units,
            worst_second: judgement.worst_second.units,
            worst_two_seconds: judgement.worst_two_seconds.units,
            worst_period: judgement.worst_period.units,
            worst_two_seconds_from_unix_ms: from_unix_ms(&judgement.worst_two_seconds),
            longest_denial_ms: judgement.longest_denial_ns.div_ceil(NS_PER_MS),
            longest_wait_ms: judgement.longest_wait.to_ms().unwrap_or(0),
            never: judgement.never,
            delayed: delays.delayed,
            mean_delay_ms: u64::try_from(mean_delay_ns).unwrap_or(u64::MAX).div_ceil(NS_PER_MS),
            longest_delay_ms: delays.longest_ns.div_ceil(NS_PER_MS),
            bytes_per_key: judgement.memory.bytes_per_key(),
            table_bytes: judgement.memory.bytes,
            keys: judgement.memory.keys,
            overflowed: judgement.memory.overflowed,
            unmeasured: judgement.unmeasured,
            slot_ns: series.slot_ns(),
            asked: of(&series, |slot| slot.asked),
            passed: of(&series, |slot| slot.passed),
        }
    }
}

impl ClusterFigures {
    fn new(judged: Result<FleetJudgement, String>, alone: u64) -> Self {
        let (judged, refused) = match judged {
            Ok(judged) => (judged, None),
            Err(why) => (FleetJudgement::default(), Some(why)),
        };
        let more = i128::from(judged.units) - i128::from(alone);
        Self {
            allowed: judged.allowed,
            units: judged.units,
            more_units: if refused.is_some() { 0 } else { i64::try_from(more).unwrap_or(i64::MAX) },
            worst_two_seconds: judged.worst_two_seconds.units,
            worst_period: judged.worst_period.units,
            refused,
        }
    }
}

impl From<&Counts> for TraceReport {
    fn from(counts: &Counts) -> Self {
        let told = counts.told.iter();
        Self {
            lines: counts.lines,
            unreadable: counts.unreadable,
            told: told
                .map(|(line, why)| UnreadableReport { line: *line, why: why.clone() })
                .collect(),
            reordered: counts.reordered,
            late: counts.late,
        }
    }
}

fn from_unix_ms(worst: &Worst) -> u64 {
    worst.from_unix_ns / NS_PER_MS
}

fn of(series: &Series, which: fn(&sim::compare::Slot) -> u64) -> Vec<u64> {
    series.slots().iter().map(which).collect()
}
