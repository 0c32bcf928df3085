//! What came of asking: every run of every contender, and whether a run counts.

use serde::Serialize;

use super::asker::Seen;
use super::fleet::Exchange;
use super::measure::Figures;
use super::options::OvershootOptions;
use super::schedule::Brief;
use super::trouble::Trouble;
use super::workload::Workload;
use crate::failure::Failure;
use crate::procfs::Machine;
use crate::report;
use crate::window::Bucket;

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Overshoot {
    /// Version of the bench.
    pub(super) version: &'static str,
    /// Where it was measured.
    pub(super) machine: Machine,
    /// How.
    pub(super) method: Method,
    /// The cluster, and what it is compared with.
    pub(super) contenders: Vec<Side>,
    /// What it could not be compared with.
    pub(super) skipped: Vec<Skipped>,
}

/// How it was asked.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Method {
    pub(super) workload: Workload,
    pub(super) members: usize,
    pub(super) algorithm: &'static str,
    pub(super) limit: Bucket,
    /// Checks in a second in multiples of the rate; none where bursts are asked for.
    pub(super) load: Option<f64>,
    pub(super) seconds: u64,
    pub(super) seed: u64,
    pub(super) runs: u64,
    /// Time between two exchanges; none: the nodes ran already.
    pub(super) interval_ms: Option<u64>,
    /// In words; empty if none was made.
    pub(super) trouble: String,
}

/// A contender.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Side {
    pub(super) name: &'static str,
    pub(super) version: String,
    pub(super) runs: Vec<Run>,
}

/// A contender that was not measured.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Skipped {
    pub(super) name: &'static str,
    pub(super) why: String,
}

/// One run of a contender.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Run {
    pub(super) seed: u64,
    /// False if the nodes lost each other and nobody had planned for it: the machine was too slow for
    /// them, and the figures are of that.
    pub(super) counts: bool,
    /// What there is to say about it.
    pub(super) remarks: Vec<String>,
    #[serde(flatten)]
    pub(super) figures: Figures,
    /// What the nodes said to each other; none: they do not tell.
    pub(super) exchange: Option<Exchange>,
    /// Unix time at which it began.
    #[serde(skip)]
    pub(super) unix_ns: u64,
    #[serde(skip)]
    pub(super) seen: Vec<Seen>,
}

/// What a run is made of.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) seed: u64,
    /// Unix time at which it began.
    pub(super) unix_ns: u64,
    pub(super) figures: Figures,
    pub(super) exchange: Option<Exchange>,
    /// The contender's nodes say when they do not reach each other.
    pub(super) tells_splits: bool,
    /// The planned trouble may be why.
    pub(super) may_split: bool,
    pub(super) seen: Vec<Seen>,
}

impl Run {
    pub(super) fn new(taken: Taken) -> Self {
        let Taken { seed, unix_ns, figures, exchange, tells_splits, may_split, seen } = taken;
        let steps = exchange.map_or(0, |exchange| exchange.splits);
        let apart = if tells_splits { figures.apart } else { 0 };
        let is_split = steps > 0 || apart > 0;
        let mut remarks = Vec::new();
        if is_split {
            let how = format!(
                "nodes lost or regained each other in {steps} steps; {apart} checks were decided by \
                 nodes that did not reach all"
            );
            remarks.push(match may_split {
                true => format!("as the trouble lets expect, {how}"),
                false => format!("does not count: {how}, and no such trouble was planned"),
            });
        }
        let sending = &figures.sending;
        let missing = sending.unsent + sending.unanswered + sending.failed;
        let is_silent = missing > 0 && !may_split;
        if missing > 0 {
            let how = format!("{missing} of {} checks have no answer", sending.asked);
            remarks.push(match may_split {
                true => format!(
                    "as the trouble lets expect, {how}; the central limiter was not asked those"
                ),
                false => format!("does not count: {how}"),
            });
        }
        if sending.in_time * 100 < sending.asked * 95 {
            let percent = sending.in_time as f64 * 100.0 / sending.asked.max(1) as f64;
            remarks.push(format!(
                "the machine was too slow for this load: {percent:.0} % were sent within 5 ms of when \
                 they were due"
            ));
        }
        Self {
            seed,
            counts: (!is_split || may_split) && !is_silent,
            remarks,
            figures,
            exchange,
            unix_ns,
            seen,
        }
    }
}

impl Method {
    pub(super) fn new(options: &OvershootOptions, brief: &Brief, trouble: &Trouble) -> Self {
        let has_load = !brief.workload.has_own_load();
        let interval_ms = u64::try_from(options.interval.as_millis()).unwrap_or(u64::MAX);
        Self {
            workload: brief.workload,
            members: brief.members,
            algorithm: brief.algorithm.as_str(),
            limit: brief.limit,
            load: has_load.then(|| brief.load_permille as f64 / 1000.0),
            seconds: brief.seconds,
            seed: options.seed,
            runs: options.runs,
            interval_ms: options.nodes.is_empty().then_some(interval_ms),
            trouble: trouble.to_string(),
        }
    }
}

impl Overshoot {
    pub(super) fn new(method: Method, contenders: Vec<Side>, skipped: Vec<Skipped>) -> Self {
        let (version, machine) = (env!("CARGO_PKG_VERSION"), Machine::this());
        Self { version, machine, method, contenders, skipped }
    }

    /// Every run of the cluster counts.
    pub(crate) fn counts(&self) -> bool {
        self.contenders.first().is_some_and(|side| side.runs.iter().all(|run| run.counts))
    }

    /// What came of it as JSON.
    pub(crate) fn to_json(&self) -> Result<String, Failure> {
        report::to_json(self)
    }
}
