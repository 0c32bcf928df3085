//! A run, written down: how many nodes, which limits, what is asked, and what goes wrong.

use limiter::{Accuracy, Limit, Plan, PlanError, Quota, Rate, Selector, Unmatched};

use crate::clock::{Clock, MS, SECOND};
use crate::network::Lines;
use crate::workload::Arrival;

/// The numbers of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// Capacity, in units.
    pub burst: u64,
    /// Refill.
    pub rate: Rate,
    /// How the nodes hold it together.
    pub accuracy: Accuracy,
    /// Longest time for which a request may be held, in ns.
    pub max_wait_ns: u64,
}

impl Allowed {
    /// `burst` units and `count` units per `period_ns`, balanced, held at most 5 ms.
    pub fn balanced(burst: u64, count: u64, period_ns: u64) -> Self {
        let rate = Rate { count, period_ns };
        Self { burst, rate, accuracy: Accuracy::Balanced, max_wait_ns: 5 * MS }
    }

    /// The same, fast: never held.
    pub fn fast(burst: u64, count: u64, period_ns: u64) -> Self {
        let balanced = Self::balanced(burst, count, period_ns);
        Self { accuracy: Accuracy::Fast, max_wait_ns: 0, ..balanced }
    }

    /// The same, held for another time.
    #[must_use]
    pub fn held(self, max_wait_ns: u64) -> Self {
        Self { max_wait_ns, ..self }
    }

    /// Time in which an empty bucket fills, in ns.
    pub fn window_ns(&self) -> u64 {
        let ns = u128::from(self.burst) * u128::from(self.rate.period_ns);
        u64::try_from(ns / u128::from(self.rate.count.max(1))).unwrap_or(u64::MAX)
    }
}

/// What is done to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Killed: it says nothing and remembers nothing.
    Crash(usize),
    /// Started, with the numbers at this place of [`Scenario::versions`].
    Boot(usize, usize),
    /// Told to stop: it hands over and leaves.
    Leave(usize),
    /// Stopped as by SIGSTOP until the time, in ns: its clock goes on.
    Pause(usize, u64),
    /// An operator tells the first node that the second is gone for good.
    Forget(usize, usize),
    /// The first node dials the second, whether or not they have a connection.
    Dial(usize, usize),
}

/// A run. Times are counted from the moment when the cluster has formed and is calm.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Where all chance comes from.
    pub seed: u64,
    /// Nodes, all started at once.
    pub nodes: usize,
    /// What the files of the nodes say; all start with the first.
    pub versions: Vec<Vec<Allowed>>,
    /// The numbers to which admissions are compared.
    pub truth: Vec<Allowed>,
    /// For each key, the limit that it is counted in.
    pub keys: Vec<usize>,
    /// Time between two ticks of a node, in ns.
    pub sync_interval_ns: u64,
    /// After which time a silent member is forgotten, in ns.
    pub forget_after_ns: u64,
    /// The lines between nodes.
    pub lines: Lines,
    /// Clocks of the nodes.
    pub clocks: Vec<Clock>,
    /// What is done to nodes, and when, in ns.
    pub script: Vec<(u64, Act)>,
    /// What is asked, in the order of time.
    pub arrivals: Vec<Arrival>,
    /// When all levels of the first key are read, in ns.
    pub probes: Vec<u64>,
    /// Millionths of dials that are made although there is a connection.
    pub extra_dials_ppm: u64,
    /// Earliest end of what happens, in ns.
    pub end_ns: u64,
    /// Quiet time after everything, in ns.
    pub settle_ns: u64,
    /// Time between two inspections of all nodes, in ns.
    pub inspect_every_ns: u64,
    /// Time that the cluster has for forming before the run begins, in ns.
    pub warm_up_ns: u64,
    /// The record keeps what clusters note.
    pub keep_notes: bool,
}

impl Scenario {
    /// `nodes` nodes with one limit and one key, lines of 1 ms, and no trouble.
    pub fn new(nodes: usize, allowed: Allowed, seed: u64) -> Self {
        Self {
            seed,
            nodes,
            versions: vec![vec![allowed]],
            truth: vec![allowed],
            keys: vec![0],
            sync_interval_ns: 200 * MS,
            forget_after_ns: 60 * SECOND,
            lines: Lines::even(nodes, MS),
            clocks: (0..nodes).map(|node| clock_of(node, 0)).collect(),
            script: Vec::new(),
            arrivals: Vec::new(),
            probes: Vec::new(),
            extra_dials_ppm: 0,
            end_ns: 0,
            settle_ns: 3 * SECOND,
            inspect_every_ns: 20 * MS,
            warm_up_ns: 6 * SECOND,
            keep_notes: false,
        }
    }

    /// The same with another limit, and one key that is counted in it.
    pub fn add_limit(&mut self, allowed: Allowed) {
        for version in &mut self.versions {
            version.push(allowed);
        }
        self.truth.push(allowed);
        self.keys.push(self.truth.len() - 1);
    }

    /// Sets how far the clock of `node` is off, in millionths.
    pub fn drift(&mut self, node: usize, rate_ppm: i32) {
        self.clocks[node] = clock_of(node, rate_ppm);
    }

    /// When the last thing happens, without the quiet after it.
    pub fn last_ns(&self) -> u64 {
        let asked = self.arrivals.last().map_or(0, |arrival| arrival.at_ns);
        let done = self.script.iter().map(|(at_ns, act)| match act {
            Act::Pause(_, to_ns) => *to_ns,
            Act::Crash(_) | Act::Boot(..) | Act::Leave(_) => *at_ns,
            Act::Forget(..) | Act::Dial(..) => *at_ns,
        });
        let probed = self.probes.last().copied().unwrap_or(0);
        let done = done.max().unwrap_or(0);
        self.end_ns.max(asked).max(done).max(probed).max(self.lines.cuts_end_ns())
    }

    /// The limits of one version, compiled.
    ///
    /// # Errors
    /// Numbers that the limiter refuses.
    pub fn plan(&self, version: usize) -> Result<Plan, PlanError> {
        let limit = |(place, allowed): (usize, &Allowed)| {
            let quota = Quota::TokenBucket { rate: allowed.rate, burst: allowed.burst };
            let endpoint = Some(endpoint(place));
            Limit {
                selector: Selector { endpoint, ..Selector::default() },
                accuracy: allowed.accuracy,
                ..Limit::new(format!("limit-{place}"), quota)
            }
        };
        let limits = self.versions[version].iter().enumerate().map(limit).collect();
        Plan::compile(limits, Unmatched::Deny)
    }
}

/// The endpoint whose requests the limit at `place` counts.
pub(crate) fn endpoint(place: usize) -> String {
    format!("/limit/{place}")
}

/// Nodes read clocks that have nothing in common: each is some days further than the one before.
fn clock_of(node: usize, rate_ppm: i32) -> Clock {
    Clock { offset_ns: (node as u64 * 977_777 + 3) * SECOND, rate_ppm }
}

/// All of `nodes` nodes, by bits.
pub fn everyone(nodes: usize) -> u64 {
    (1 << nodes) - 1
}

/// The first half of the nodes, rounded down, and the others.
pub fn halves(nodes: usize) -> (u64, u64) {
    let first = everyone(nodes / 2);
    (first, everyone(nodes) & !first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_disjoint_and_are_all() {
        for nodes in [2, 3, 5, 10, 50] {
            let (a, b) = halves(nodes);
            assert_eq!((a & b, a | b), (0, everyone(nodes)));
        }
    }

    #[test]
    fn every_key_is_counted_in_its_limit() {
        let mut scenario = Scenario::new(2, Allowed::balanced(9, 1, SECOND), 1);
        scenario.add_limit(Allowed::fast(5, 1, SECOND));
        assert_eq!(scenario.keys, [0, 1]);
        assert_eq!(scenario.plan(0).unwrap().rules().len(), 2);
    }
}
