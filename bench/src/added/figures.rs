//! The arithmetic of a measurement: what phases come to, and what the check adds to them.

use serde::Serialize;

use super::stage::Stage;
use super::{ASKED, FrontKind, Site};
use crate::clock;
use crate::driver::{Tally, Times};
use crate::failure::Failure;
use crate::procfs::MachineTime;
use crate::report::median;
use crate::server::{ClusterStatus, FleetNode};

const NS_PER_US: f64 = 1e3;
/// Of the bursts' answers that were held: the part that took no longer.
const HALF: f64 = 0.5;
const NINETY_NINE: f64 = 0.99;

/// CPU time used up to a moment, or between two.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    at_ns: u64,
    node_ns: u64,
    peers_ns: u64,
    front_ns: u64,
    bench_ns: u64,
    pub(super) machine: MachineTime,
}

impl Usage {
    /// Up to now.
    ///
    /// # Errors
    /// If a process has ended.
    pub(super) fn now(site: &Site<'_>) -> Result<Self, Failure> {
        let mut usage = Self {
            at_ns: clock::now_ns(),
            front_ns: site.front.cpu_ns()?,
            bench_ns: clock::process_cpu_ns(),
            machine: MachineTime::now()?,
            ..Self::default()
        };
        for (index, node) in site.fleet.nodes().iter().enumerate() {
            let of = if index == ASKED { &mut usage.node_ns } else { &mut usage.peers_ns };
            *of += node.cpu_ns()?;
        }
        Ok(usage)
    }

    /// What was used since `before`.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            at_ns: self.at_ns.saturating_sub(before.at_ns),
            node_ns: self.node_ns.saturating_sub(before.node_ns),
            peers_ns: self.peers_ns.saturating_sub(before.peers_ns),
            front_ns: self.front_ns.saturating_sub(before.front_ns),
            bench_ns: self.bench_ns.saturating_sub(before.bench_ns),
            machine: self.machine.since(before.machine),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            at_ns: self.at_ns.saturating_add(other.at_ns),
            node_ns: self.node_ns.saturating_add(other.node_ns),
            peers_ns: self.peers_ns.saturating_add(other.peers_ns),
            front_ns: self.front_ns.saturating_add(other.front_ns),
            bench_ns: self.bench_ns.saturating_add(other.bench_ns),
            machine: self.machine.plus(other.machine),
        }
    }
}

/// One phase: what came of its requests, and what they used.
#[derive(Clone, Debug)]
pub(super) struct Phase {
    pub(super) tally: Tally,
    pub(super) used: Usage,
}

/// Two phases, one just after the other.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) without: Phase,
    pub(super) with: Phase,
}

/// A stage.
#[derive(Clone, Debug, Serialize)]
pub(super) struct StageFigures {
    pub(super) stage: Stage,
    /// Each pair, in the order in which they were measured.
    pub(super) pairs: Vec<[Quantiles; 2]>,
    /// All phases without the check.
    pub(super) without: Side,
    /// All phases with it.
    pub(super) with: Side,
    /// What the check adds.
    pub(super) added: AddedTime,
    /// What the node counted.
    #[serde(flatten)]
    pub(super) counts: Counts,
    /// What came of bursts, if there were any.
    pub(super) bursts: Option<Bursts>,
}

impl StageFigures {
    /// The figures of these pairs.
    pub(super) fn new(stage: Stage, pairs: &[Pair]) -> Self {
        let sum = |phases: &mut dyn Iterator<Item = &Phase>| {
            let mut all = Phase { tally: Tally::new(), used: Usage::default() };
            for phase in phases {
                all.tally.add(&phase.tally);
                all.used = all.used.plus(phase.used);
            }
            all
        };
        let without = sum(&mut pairs.iter().map(|pair| &pair.without));
        let with = sum(&mut pairs.iter().map(|pair| &pair.with));
        let added = |quantile| Spread::new(pairs, &without.tally, &with.tally, quantile);
        Self {
            stage,
            pairs: pairs
                .iter()
                .map(|pair| [&pair.without, &pair.with].map(|phase| Quantiles::of(&phase.tally)))
                .collect(),
            added: AddedTime { p50: added(0.5), p99: added(0.99), p999: added(0.999) },
            without: Side::new(&without),
            with: Side::new(&with),
            counts: Counts::default(),
            bursts: None,
        }
    }
}

/// What the node that the gateway asks counted up to a moment, or between two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    /// Times that it held a check for its peers, those of bursts among them.
    pub(super) held: u64,
    /// Nodes that it reached at that moment, or at the later, itself included.
    pub(super) reached: usize,
    /// Times that it lost nodes.
    pub(super) splits: u64,
    /// Connections that it accepted at the gateway's door; over HTTP a few are of this program.
    pub(super) accepted: u64,
}

impl Counts {
    /// Up to now, with the connections of the door that `front` asks at.
    ///
    /// # Errors
    /// If `node` does not answer.
    pub(super) fn of(node: &FleetNode, front: FrontKind) -> Result<Self, Failure> {
        let cluster = node.cluster()?;
        let accepted = node.accepted(front.counted_door())?;
        let ClusterStatus { held_total: held, reached, splits } = cluster;
        Ok(Self { held, reached, splits, accepted })
    }

    /// What was counted since `before`.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            held: self.held.saturating_sub(before.held),
            reached: self.reached,
            splits: self.splits.saturating_sub(before.splits),
            accepted: self.accepted.saturating_sub(before.accepted),
        }
    }
}

/// All phases of a stage with the check, or all without.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Side {
    /// Requests that passed.
    pub(super) passed: u64,
    /// Requests that were answered with 429.
    pub(super) denied: u64,
    /// Requests that were answered otherwise. With the check also those that passed because rlnode did
    /// not answer within the recipe's time.
    pub(super) errors: u64,
    /// Requests that were due and not sent by the end of a phase.
    pub(super) unsent: u64,
    /// From when a request was due to its answer.
    #[serde(flatten)]
    pub(super) times: Quantiles,
    /// How late 99 in 100 requests were sent; it is part of their time.
    pub(super) late_p99_us: f64,
    /// Part of the machine that was idle.
    pub(super) idle_percent: f64,
    /// CPU time of the node that the gateway asks, in hundredths of one CPU.
    pub(super) node_cpu_percent: f64,
    /// CPU time of the other nodes together.
    pub(super) peers_cpu_percent: f64,
    /// CPU time of the gateway.
    pub(super) front_cpu_percent: f64,
    /// CPU time of this program.
    pub(super) bench_cpu_percent: f64,
}

impl Side {
    fn new(all: &Phase) -> Self {
        let Phase { tally, used } = all;
        let percent = |ns: u64| ns as f64 * 100.0 / used.at_ns.max(1) as f64;
        Self {
            passed: tally.allowed,
            denied: tally.denied,
            errors: tally.failed + tally.lost,
            unsent: tally.unsent,
            times: Quantiles::of(tally),
            late_p99_us: us(&tally.lateness, 0.99),
            idle_percent: used.machine.idle_permille() as f64 / 10.0,
            node_cpu_percent: percent(used.node_ns),
            peers_cpu_percent: percent(used.peers_ns),
            front_cpu_percent: percent(used.front_ns),
            bench_cpu_percent: percent(used.bench_ns),
        }
    }
}

/// Times from when requests were due to their answers, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Quantiles {
    /// Half took no longer.
    pub(super) p50_us: f64,
    /// 99 in 100 took no longer.
    pub(super) p99_us: f64,
    /// 999 in 1,000.
    pub(super) p999_us: f64,
    /// The longest.
    pub(super) max_us: f64,
}

impl Quantiles {
    fn of(tally: &Tally) -> Self {
        let at = |quantile| us(&tally.latency, quantile);
        Self { p50_us: at(0.5), p99_us: at(0.99), p999_us: at(0.999), max_us: at(1.0) }
    }
}

/// The time that `quantile` of all do not exceed, in microseconds.
fn us(times: &Times, quantile: f64) -> f64 {
    times.at(quantile) as f64 / NS_PER_US
}

/// What the check adds: a quantile with it less the same quantile without.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct AddedTime {
    pub(super) p50: Spread,
    pub(super) p99: Spread,
    pub(super) p999: Spread,
}

/// One difference, in microseconds, by pair and in all.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    /// Of the differences of the pairs.
    pub(super) median_us: f64,
    /// Their least.
    pub(super) least_us: f64,
    /// Their greatest.
    pub(super) most_us: f64,
    /// The difference between all phases with and all without.
    pub(super) in_all_us: f64,
}

impl Spread {
    fn new(pairs: &[Pair], without: &Tally, with: &Tally, quantile: f64) -> Self {
        let difference = |with: &Tally, without: &Tally| {
            us(&with.latency, quantile) - us(&without.latency, quantile)
        };
        let of_pairs =
            || pairs.iter().map(|pair| difference(&pair.with.tally, &pair.without.tally));
        Self {
            median_us: median(of_pairs()).unwrap_or(0.0),
            least_us: of_pairs().reduce(f64::min).unwrap_or(0.0),
            most_us: of_pairs().reduce(f64::max).unwrap_or(0.0),
            in_all_us: difference(with, without),
        }
    }
}

/// What came of bursts.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Bursts {
    /// Requests that were answered.
    pub(super) asked: u64,
    /// Of them, those that passed.
    pub(super) passed: u64,
    /// Of them, those that were answered with 429.
    pub(super) denied: u64,
    /// Of them, those that were answered otherwise, or passed without an answer of rlnode.
    pub(super) errors: u64,
    /// Checks that the node held.
    pub(super) held: u64,
    /// From when a burst was due to an answer, in microseconds: half of all took no longer.
    pub(super) p50_us: f64,
    /// 99 in 100 of all.
    pub(super) p99_us: f64,
    /// Half of those that were held, if they were the slowest; none without any.
    pub(super) held_p50_us: Option<f64>,
    /// 99 in 100 of them.
    pub(super) held_p99_us: Option<f64>,
}

impl Bursts {
    /// The figures of `tally`, of which so many were `held`.
    pub(super) fn new(tally: &Tally, held: u64) -> Self {
        let at = |quantile| us(&tally.latency, quantile);
        let of_held = |part| slowest(part, held, tally.answered).map(at);
        Self {
            asked: tally.answered,
            passed: tally.allowed,
            denied: tally.denied,
            errors: tally.failed + tally.lost,
            held,
            p50_us: at(HALF),
            p99_us: at(NINETY_NINE),
            held_p50_us: of_held(HALF),
            held_p99_us: of_held(NINETY_NINE),
        }
    }
}

/// The quantile of `all` that is the quantile `part` of the `held` slowest; none if none was held.
fn slowest(part: f64, held: u64, all: u64) -> Option<f64> {
    let held = held.min(all);
    (held > 0).then(|| 1.0 - (1.0 - part) * held as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() <= right.abs() / 500.0 + 1e-9
    }

    /// A hundred answers: 98 after `us`, the others after `slow_us`.
    fn phase(us: u64, slow_us: u64) -> Phase {
        let mut tally = Tally { answered: 100, allowed: 100, ..Tally::new() };
        (0..100).for_each(|n| tally.latency.record(if n < 98 { us } else { slow_us } * 1000));
        let machine = MachineTime { idle: 80, total: 200 };
        let used = Usage { at_ns: 1000, node_ns: 100, front_ns: 300, machine, ..Usage::default() };
        Phase { tally, used }
    }

    fn pair(without: (u64, u64), with: (u64, u64)) -> Pair {
        Pair { without: phase(without.0, without.1), with: phase(with.0, with.1) }
    }

    #[test]
    fn what_the_check_adds_is_taken_pair_by_pair() {
        // The machine was slow in the second pair, for both.
        let pairs = [
            pair((100, 200), (150, 400)),
            pair((500, 9000), (560, 9100)),
            pair((100, 300), (150, 600)),
        ];
        let figures = StageFigures::new(Stage::Whole, &pairs);
        let p99 = figures.added.p99;
        assert!(close(p99.median_us, 200.0), "{p99:?}");
        assert!(close(p99.least_us, 100.0) || (p99.least_us - 100.0).abs() < 20.0, "{p99:?}");
        assert!(close(p99.most_us, 300.0), "{p99:?}");
        assert!(close(figures.added.p50.median_us, 50.0), "{:?}", figures.added.p50);
        // Six of 300 were slow on each side, and a hundredth of 300 is three: the slowest pair's.
        assert!((p99.in_all_us - 100.0).abs() < 20.0, "{p99:?}");
    }

    #[test]
    fn a_check_may_add_less_than_nothing() {
        let figures = StageFigures::new(Stage::Whole, &[pair((200, 300), (100, 100))]);
        assert!(close(figures.added.p99.median_us, -200.0));
        assert!(close(figures.added.p99.in_all_us, -200.0));
    }

    #[test]
    fn a_side_is_the_sum_of_its_phases() {
        let pairs = [pair((1, 2), (3, 4)), pair((1, 2), (3, 4))];
        let figures = StageFigures::new(Stage::Denied, &pairs);
        assert_eq!((figures.with.passed, figures.without.passed), (200, 200));
        let side = figures.with;
        assert!(close(side.idle_percent, 40.0));
        assert!(close(side.node_cpu_percent, 10.0) && close(side.front_cpu_percent, 30.0));
        assert!(close(side.times.p50_us, 3.0) && close(side.times.p99_us, 4.0));
        assert_eq!(figures.pairs.len(), 2);
        assert!(close(figures.pairs[1][0].p50_us, 1.0) && close(figures.pairs[1][1].max_us, 4.0));
    }

    #[test]
    fn counts_are_taken_from_where_they_stood() {
        let before = Counts { held: 5, reached: 3, splits: 1, accepted: 40 };
        let after = Counts { held: 7, reached: 2, splits: 2, accepted: 44 };
        assert_eq!(after.since(before), Counts { held: 2, reached: 2, splits: 1, accepted: 4 });
    }

    #[test]
    fn no_pairs_have_figures_too() {
        let figures = StageFigures::new(Stage::Whole, &[]);
        assert!(close(figures.added.p99.median_us, 0.0) && close(figures.with.idle_percent, 0.0));
    }

    #[test]
    fn those_that_were_held_are_the_slowest() {
        assert_eq!(slowest(0.99, 0, 800), None);
        assert!(close(slowest(0.99, 300, 800).unwrap(), 1.0 - 0.01 * 300.0 / 800.0));
        assert!(close(slowest(0.5, 800, 800).unwrap(), 0.5));
        // Of one request of the load that was held too.
        assert!(close(slowest(0.5, 900, 800).unwrap(), 0.5));

        let mut tally = Tally { answered: 1000, allowed: 990, denied: 10, ..Tally::new() };
        (0..1000).for_each(|n| tally.latency.record(if n < 600 { 1_000_000 } else { 3_000_000 }));
        let bursts = Bursts::new(&tally, 400);
        assert!(close(bursts.p50_us, 1000.0) && close(bursts.held_p50_us.unwrap(), 3000.0));
        assert_eq!((bursts.asked, bursts.passed, bursts.denied), (1000, 990, 10));
        assert_eq!(Bursts::new(&tally, 0).held_p99_us, None);
    }
}
