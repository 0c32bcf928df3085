//! What a run leaves behind: every decision, every probe, every count. Reports are made from it.

use std::collections::BTreeMap;

use cluster::Note;

use crate::clock::SECOND;
use crate::invariants::Inspector;
use crate::scenario::Scenario;
use crate::trace::Trace;

/// What became of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// It was let through.
    pub allowed: bool,
    /// When that was decided, in true ns of the run.
    pub at_ns: u64,
    /// It was held before.
    pub held: bool,
    /// It was denied although units were left in the cluster.
    pub share: bool,
    /// How long after that whoever asked has to wait its turn, in ns.
    pub delay_ns: u64,
}

impl Outcome {
    /// Nobody took the question.
    pub(crate) fn unasked(at_ns: u64) -> Self {
        Self { at_ns, ..Self::default() }
    }
}

/// The levels of the first key at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// When, in ns of the scenario.
    pub at_ns: u64,
    /// Ticks left after everything that was admitted.
    pub truth: i128,
    /// What each node that takes questions believes, in ticks.
    pub levels: Vec<i128>,
}

/// The deepest debt of the truth of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Excess {
    /// Ticks.
    pub ticks: i128,
    /// Ticks that were left of the truth at least: the debt's, or how far it was from one.
    pub least: i128,
    /// Ticks in a unit.
    pub per_unit: u64,
    /// Capacity, in units.
    pub burst: u64,
    /// When, in ns of the scenario.
    pub at_ns: u64,
}

impl Excess {
    /// In units, rounded up: a request of one unit that passed too early is one.
    pub fn units(&self) -> u64 {
        rounded_up(self.ticks, i128::from(self.per_unit))
    }

    /// In thousandths of the capacity, rounded up.
    pub fn permille(&self) -> u64 {
        rounded_up(self.ticks * 1_000, i128::from(self.per_unit) * i128::from(self.burst))
    }
}

fn rounded_up(part: i128, of: i128) -> u64 {
    let of = of.max(1);
    u64::try_from((part + of - 1) / of).unwrap_or(0)
}

/// What a run leaves behind.
#[derive(Clone, Debug)]
pub struct Record {
    /// What became of each request, in the order of the scenario's arrivals.
    pub outcomes: Vec<Outcome>,
    /// The node that decided it.
    pub deciders: Vec<usize>,
    /// How long each held request waited, in ns.
    pub waits_ns: Vec<u64>,
    /// Batches of a node in a second of the run.
    pub batches: BTreeMap<(usize, u64), u64>,
    /// Bytes of all batches, each counted once.
    pub batch_bytes: u64,
    /// Levels that were asked for.
    pub probes: Vec<Probe>,
    /// Connections that a cluster refused by name.
    pub refusals: u64,
    /// Connections that were closed because their queue was full.
    pub queues_full: u64,
    /// When each node became ready, in true ns of the run: node, time.
    pub ready_ns: Vec<(usize, u64)>,
    /// What clusters noted, if the run keeps notes: true ns, node, text.
    pub notes: Vec<(u64, usize, String)>,
    /// Excess of each key.
    pub excess: Vec<Excess>,
    /// Times that a node lost peers, or counted some again, after the warm-up.
    pub changes: u64,
    /// Longest time that a batch took to be acknowledged by every other node, in ns; of batches that
    /// were not, up to the end of the run. Counts from the end of the warm-up on.
    pub acknowledged_ns: u64,
    /// What was not at rest at the end.
    pub stuck: Vec<String>,
    /// Invariants that did not hold: ns of the scenario, what.
    pub broken: Vec<(i64, String)>,
    /// The fingerprint of the run.
    pub trace: Trace,
    keep_notes: bool,
    warm_up_ns: u64,
}

/// Notes that are kept of a run.
const NOTES_MAX: usize = 10_000;

impl Record {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let requests = scenario.arrivals.len();
        Self {
            outcomes: vec![Outcome::default(); requests],
            deciders: vec![0; requests],
            waits_ns: Vec::new(),
            batches: BTreeMap::new(),
            batch_bytes: 0,
            probes: Vec::new(),
            refusals: 0,
            queues_full: 0,
            ready_ns: Vec::new(),
            notes: Vec::new(),
            excess: Vec::new(),
            changes: 0,
            acknowledged_ns: 0,
            stuck: Vec::new(),
            broken: Vec::new(),
            trace: Trace::default(),
            keep_notes: scenario.keep_notes,
            warm_up_ns: scenario.warm_up_ns,
        }
    }

    /// The time of the scenario at the true time `at_ns`; negative while the cluster forms.
    pub fn scenario_ns(&self, at_ns: u64) -> i64 {
        at_ns.cast_signed() - self.warm_up_ns.cast_signed()
    }

    pub(crate) fn decided(&mut self, node: usize, place: usize, asked_ns: u64, outcome: Outcome) {
        self.outcomes[place] = outcome;
        self.deciders[place] = node;
        if outcome.held {
            self.waits_ns.push(outcome.at_ns - asked_ns);
        }
    }

    pub(crate) fn batch(&mut self, node: usize, now_ns: u64, bytes: usize) {
        // Of the forming nothing is counted.
        if now_ns >= self.warm_up_ns {
            *self.batches.entry((node, now_ns / SECOND)).or_default() += 1;
            self.batch_bytes += bytes as u64;
        }
    }

    pub(crate) fn ready(&mut self, node: usize, now_ns: u64) {
        self.ready_ns.push((node, now_ns));
    }

    /// A batch was acknowledged by every other node, or never was, `within_ns` after it was sent.
    pub(crate) fn acknowledged(&mut self, within_ns: u64) {
        self.acknowledged_ns = self.acknowledged_ns.max(within_ns);
    }

    pub(crate) fn note(&mut self, now_ns: u64, node: usize, note: &Note) {
        let is_change = matches!(note, Note::Lost { .. } | Note::Counted { .. });
        self.changes += u64::from(now_ns >= self.warm_up_ns && is_change);
        if self.keep_notes && self.notes.len() < NOTES_MAX {
            self.notes.push((now_ns, node, format!("{note:?}")));
        }
    }

    pub(crate) fn close(
        &mut self,
        scenario: &Scenario,
        trace: Trace,
        stuck: Vec<String>,
        inspector: &Inspector,
    ) {
        (self.trace, self.stuck) = (trace, stuck);
        self.excess = (0..scenario.keys.len()).map(|key| inspector.excess(key)).collect();
        for excess in &mut self.excess {
            excess.at_ns = excess.at_ns.saturating_sub(self.warm_up_ns);
        }
        let broken = inspector.found().iter();
        self.broken =
            broken.map(|(at_ns, what)| (self.scenario_ns(*at_ns), what.clone())).collect();
    }
}
