//! Random trouble: segments of load and bursts on random sets of nodes, on random lines, with random
//! faults. Every run is named by the cluster's size, its class and its seed.
#![expect(clippy::float_arithmetic, reason = "what a run is made of is drawn before it begins")]

use crate::clock::{MS, SECOND};
use crate::dice::Dice;
use crate::network::Cut;
use crate::report::{Report, simulate};
use crate::scenario::{Act, Algorithm, Allowed, Scenario, everyone, halves};
use crate::workload::{Load, Spread, Workload, seconds, to_u64};

/// An hour, in nanoseconds.
const HOUR: u64 = 3_600 * SECOND;

/// What may go wrong in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Nothing.
    FaultFree,
    /// Delays up to 20 ms, jitter, loss, clocks that run apart.
    Delays,
    /// Nothing, but requests that cost much.
    LargeCosts,
    /// Delays, and cuts, crashes, restarts, pauses, slow lines or full queues.
    Faults,
}

impl Class {
    /// Every class.
    pub const ALL: [Self; 4] = [Self::FaultFree, Self::Delays, Self::LargeCosts, Self::Faults];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FaultFree => "fault-free",
            Self::Delays => "delays",
            Self::LargeCosts => "large-costs",
            Self::Faults => "faults",
        }
    }

    /// The class of that word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == word)
    }
}

/// What a run of a search showed.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The figures.
    pub report: Report,
    /// Capacity, in units.
    pub burst: u64,
    /// What broke or got stuck.
    pub faults: Vec<String>,
    /// The fingerprint of the run.
    pub trace: u64,
}

/// What runs of a search have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Common {
    /// How the limit counts.
    pub algorithm: Algorithm,
    /// Wall clocks are up to so far ahead, in ms, and not more than half a window: what is spent in a
    /// window that others are not near counts in the one that they are in.
    pub skew_ms: u64,
}

impl Common {
    /// The same with wall clocks that agree.
    pub fn of(algorithm: Algorithm) -> Self {
        Self { algorithm, skew_ms: 0 }
    }

    /// The scenario of a size, a class and a seed: what is asked and what goes wrong is the same for
    /// every algorithm. Where there are windows, the run begins anywhere in one.
    pub fn scenario(&self, nodes: usize, class: Class, seed: u64) -> Scenario {
        let mut scenario = scenario(nodes, class, seed).by(self.algorithm);
        if self.algorithm.has_windows() {
            let mut dice = Dice::new(seed).part(0x5ee);
            let window_ns = scenario.truth[0].window_ns();
            scenario.unix_ns += dice.below(window_ns);
            let skew_ms = self.skew_ms.min(window_ns / MS / 2);
            for node in 0..nodes {
                scenario.skew(node, dice.below(skew_ms + 1).cast_signed());
            }
        }
        scenario
    }

    /// Makes and runs the scenario of a size, a class and a seed.
    ///
    /// # Errors
    /// Numbers that the limiter refuses.
    pub fn run(&self, nodes: usize, class: Class, seed: u64) -> Result<Finding, String> {
        finding(&self.scenario(nodes, class, seed))
    }
}

/// Makes and runs the scenario of a size, a class and a seed, of a token bucket.
///
/// # Errors
/// Numbers that the limiter refuses.
pub fn run(nodes: usize, class: Class, seed: u64) -> Result<Finding, String> {
    finding(&scenario(nodes, class, seed))
}

fn finding(scenario: &Scenario) -> Result<Finding, String> {
    let (record, report) = simulate(scenario)?;
    let at = |at_ns: i64| at_ns as f64 / SECOND as f64;
    let broken = record.broken.iter().map(|(at_ns, what)| format!("{:.4} s: {what}", at(*at_ns)));
    let stuck = record.stuck.iter().map(|what| format!("at the end: {what}"));
    Ok(Finding {
        burst: scenario.truth[0].burst,
        faults: broken.chain(stuck).collect(),
        trace: record.trace.hash(),
        report,
    })
}

/// The scenario of a size, a class and a seed, of a token bucket.
pub fn scenario(nodes: usize, class: Class, seed: u64) -> Scenario {
    let mut dice = Dice::new(seed).part(nodes as u64 * 16 + class as u64);
    let troubled = matches!(class, Class::Delays | Class::Faults);
    let (mut allowed, pace) = limit(&mut dice);
    let delay_max_us = if troubled { dice.one_of(&[1_000, 5_000, 20_000]) } else { 1_000 };
    let is_slow = troubled && dice.below(3) == 0;
    if delay_max_us > 1_000 || is_slow {
        allowed = allowed.held(20 * MS);
    }
    let mut scenario = Scenario::new(nodes, allowed, dice.word());
    scenario.keys = vec![0; dice.one_of(&[1, 1, 1, 6])];
    let end_ns = load(&mut scenario, class, pace, &mut dice);
    if delay_max_us > 1_000 {
        for delay_ns in scenario.lines.delay_ns.iter_mut().flatten() {
            *delay_ns = dice.between(200, delay_max_us) * 1_000;
        }
    }
    if is_slow {
        for node in 0..nodes {
            scenario.lines.delay_ns[node][nodes - 1] = 15 * MS;
            scenario.lines.delay_ns[nodes - 1][node] = 15 * MS;
        }
    }
    if troubled {
        scenario.lines.loss_ppm = dice.one_of(&[0, 0, 20_000, 100_000]);
        scenario.lines.jitter_ns = dice.one_of(&[0, MS / 2, 5 * MS]);
    }
    if class == Class::Delays {
        for node in 0..nodes {
            let rate_ppm = i32::try_from(dice.below(201)).unwrap_or(0) - 100;
            scenario.drift(node, rate_ppm);
        }
    }
    if class == Class::Faults {
        faults(&mut scenario, end_ns, &mut dice);
    }
    scenario.inspect_every_ns = 5 * MS;
    scenario.end_ns = end_ns.max(scenario.last_ns() + SECOND);
    // A link that flapped is not counted before it has lasted for ten seconds.
    let counted_ns = if class == Class::Faults { 14 * SECOND } else { 4 * SECOND };
    scenario.settle_ns = counted_ns + (2 * allowed.window_ns()).min(10 * SECOND);
    scenario
}

/// A limit, and how many units a second are a load of 1 for it: its rate; of a slow one, which a run is
/// too short to see refilled, a part of its capacity.
fn limit(dice: &mut Dice) -> (Allowed, f64) {
    let burst = dice.one_of(&[50, 100, 300, 1000, 1000, 3000]);
    if dice.below(5) == 0 {
        return (Allowed::balanced(burst, burst, HOUR), burst as f64 / 20.0);
    }
    let count = dice.one_of(&[100, 1000, 1000]);
    let burst = burst / if count == 100 { 2 } else { 1 };
    (Allowed::balanced(burst, count, SECOND), count as f64)
}

/// Segments of load and bursts; returns when they are over.
fn load(scenario: &mut Scenario, class: Class, pace: f64, dice: &mut Dice) -> u64 {
    let allowed = scenario.truth[0];
    let mut workload = Workload::new(dice.word());
    let mut at_ns = SECOND / 2;
    for _ in 0..dice.between(3, 12) {
        let nodes = some_nodes(scenario.nodes, dice);
        let key = dice.place(scenario.keys.len());
        let length_ns = MS
            * match dice.below(4) {
                0 => dice.between(10, 200),
                1 => 200 * dice.between(1, 5),
                2 => dice.between(300, 2_300),
                _ => dice.between(1_000, 4_000),
            };
        let times = dice.one_of(&[0.0, 0.0, 0.5, 0.95, 1.5, 5.0, 20.0]);
        let part = if dice.below(3) == 0 { dice.one_of(&[0.1, 0.24, 0.5, 1.0, 1.5]) } else { 0.0 };
        let within_ns = dice.one_of(&[MS / 2, 3 * MS, 10 * MS, 100 * MS]);
        let is_large = class == Class::LargeCosts && dice.below(3) == 0;
        let cost = if is_large { dice.between(1, allowed.burst / 20 + 1) } else { 1 };
        for node in &nodes {
            let count = to_u64(allowed.burst as f64 * part) / cost;
            workload.costly_burst((*node, key), (count, cost), at_ns, within_ns);
        }
        if times > 0.0 {
            let load = Load { key, per_s: pace * times / cost as f64, cost };
            workload.poisson(&Spread::Even(nodes), load, at_ns, at_ns + length_ns);
        }
        // Segments of different keys overlap.
        at_ns += if scenario.keys.len() > 1 { length_ns / 2 } else { length_ns };
    }
    scenario.arrivals = workload.done();
    at_ns.max(scenario.last_ns())
}

fn some_nodes(nodes: usize, dice: &mut Dice) -> Vec<usize> {
    match dice.below(4) {
        0 => vec![dice.place(nodes)],
        1 => vec![dice.place(nodes), dice.place(nodes)],
        2 => {
            let bits = dice.word();
            let some: Vec<usize> = (0..nodes).filter(|node| bits >> node & 1 == 1).collect();
            if some.is_empty() { vec![0] } else { some }
        }
        _ => (0..nodes).collect(),
    }
}

/// One kind of trouble, again and again until `end_ns`.
fn faults(scenario: &mut Scenario, end_ns: u64, dice: &mut Dice) {
    let nodes = scenario.nodes;
    let every_ns = seconds(1.0) + dice.below(2 * SECOND);
    let down_ns = every_ns * dice.between(20, 80) / 100;
    let (a, b) = if dice.below(2) == 0 { halves(nodes) } else { (1, everyone(nodes) & !1) };
    let one_way = dice.below(3) == 0;
    scenario.extra_dials_ppm = dice.one_of(&[0, 0, 50_000]);
    let times = || (1..).map(move |k| SECOND + (k - 1) * every_ns).take_while(|at| *at < end_ns);
    match dice.below(7) {
        0 => scenario.lines.cuts.extend(times().map(|from_ns| Cut {
            from_ns,
            to_ns: from_ns + down_ns,
            a,
            b,
            one_way,
        })),
        1 => {
            let from_ns = SECOND + end_ns / 5;
            let to_ns = from_ns + end_ns * 2 / 5;
            scenario.lines.cuts.push(Cut { from_ns, to_ns, a, b, one_way });
        }
        2 => {
            for (node, at_ns) in times().enumerate().take(nodes.min(5)) {
                scenario.script.push((at_ns, Act::Leave(node)));
                scenario.script.push((at_ns + every_ns * 2 / 5, Act::Boot(node, 0)));
            }
        }
        3 => {
            for (node, at_ns) in times().enumerate().take(nodes.min(3)) {
                scenario.script.push((at_ns, Act::Crash(node)));
                scenario.script.push((at_ns + down_ns, Act::Boot(node, 0)));
            }
        }
        4 => {
            let pause = |at_ns| (at_ns, Act::Pause(0, at_ns + down_ns));
            scenario.script.extend(times().map(pause));
        }
        5 => {
            // A slow peer, and so little room for what waits for it that connections are closed.
            scenario.lines.bytes_per_s[nodes - 1] = Some(dice.one_of(&[2_000, 20_000]));
            scenario.lines.queue_bytes_max = dice.one_of(&[4_000, 64_000]);
        }
        _ => {
            // Everything at once: a crash and a pause in the middle of flapping cuts.
            for (place, at_ns) in times().enumerate() {
                let cut = Cut { from_ns: at_ns, to_ns: at_ns + down_ns, a, b, one_way };
                match place % 4 {
                    0 | 2 => scenario.lines.cuts.push(cut),
                    1 => scenario.script.push((at_ns, Act::Pause(0, at_ns + down_ns))),
                    _ => {
                        scenario.script.push((at_ns, Act::Crash(nodes - 1)));
                        scenario.script.push((at_ns + down_ns, Act::Boot(nodes - 1, 0)));
                    }
                }
            }
        }
    }
    // A node that is down at the end is up again before the quiet.
    scenario.script.sort_by_key(|(at_ns, _)| *at_ns);
}

/// Searches `seeds` seeds from `first` for every size and class that is asked for, and hands one line of
/// figures per pair, and one per run that broke something, to `say`. Returns how many broke.
///
/// # Errors
/// Numbers that the limiter refuses.
pub fn search(
    common: Common,
    sizes: &[usize],
    classes: &[Class],
    (first, seeds): (u64, u64),
    mut say: impl FnMut(&str),
) -> Result<u64, String> {
    let mut broken = 0;
    for nodes in sizes {
        for class in classes {
            let mut findings = Vec::new();
            for seed in first..first + seeds {
                let finding = common.run(*nodes, *class, seed)?;
                if let Some(fault) = finding.faults.first() {
                    broken += 1;
                    let (class, more) = (class.as_str(), finding.faults.len() - 1);
                    say(&format!(
                        "BROKEN: N = {nodes}, {class}, seed {seed}: {fault} (and {more} more)"
                    ));
                }
                findings.push((seed, finding));
            }
            say(&summary(*nodes, *class, &findings));
        }
    }
    Ok(broken)
}

/// One line: worst excess, its seed, the 99th of a hundred, and what was left unused.
fn summary(nodes: usize, class: Class, findings: &[(u64, Finding)]) -> String {
    let mut excess: Vec<(f64, u64)> =
        findings.iter().map(|(seed, finding)| (finding.report.excess_percent, *seed)).collect();
    let large = findings.iter().filter(|(_, finding)| finding.burst >= 300);
    let large = large.map(|(_, finding)| finding.report.excess_percent).fold(0.0, f64::max);
    let used = findings.iter().filter(|(_, finding)| finding.report.central >= 500);
    let mut lost: Vec<(f64, u64)> =
        used.map(|(seed, f)| (100.0 - f.report.utilisation_percent, *seed)).collect();
    excess.sort_by(|a, b| a.0.total_cmp(&b.0));
    lost.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = |sorted: &[(f64, u64)], share: usize| {
        sorted.get((sorted.len() * share / 100).min(sorted.len().saturating_sub(1))).copied()
    };
    let (worst, seed) = at(&excess, 100).unwrap_or_default();
    let (p99, p90) = (at(&excess, 99).unwrap_or_default().0, at(&excess, 90).unwrap_or_default().0);
    let (unused, unused_seed) = at(&lost, 100).unwrap_or_default();
    format!(
        "N = {nodes}, {}, {} runs: excess worst {worst:.1} % of B (seed {seed}; B >= 300: {large:.1} %), \
         p99 {p99:.1}, p90 {p90:.1}; unused worst {unused:.1} % (seed {unused_seed}), p90 {:.1}, median {:.1}",
        class.as_str(),
        findings.len(),
        at(&lost, 90).unwrap_or_default().0,
        at(&lost, 50).unwrap_or_default().0,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_names_one_scenario() {
        for class in Class::ALL {
            let (first, again) = (scenario(5, class, 3), scenario(5, class, 3));
            assert_eq!(format!("{first:?}"), format!("{again:?}"));
            assert_eq!(Class::from_word(class.as_str()), Some(class));
        }
    }

    #[test]
    fn an_algorithm_changes_nothing_of_what_is_asked_and_of_what_goes_wrong() {
        let bucket = scenario(3, Class::Faults, 7);
        for algorithm in Algorithm::ALL {
            let other = Common { algorithm, skew_ms: 250 }.scenario(3, Class::Faults, 7);
            assert_eq!(other.arrivals, bucket.arrivals);
            assert_eq!(format!("{:?}", other.script), format!("{:?}", bucket.script));
            assert_eq!(other.truth[0], bucket.truth[0].by(algorithm));
            let is_skewed = other.walls.iter().any(|wall| wall.ahead_ms != 0);
            assert_eq!(is_skewed, algorithm.has_windows());
        }
    }

    #[test]
    fn every_node_is_up_when_a_scenario_ends() {
        for seed in 0..200 {
            let mut down = std::collections::BTreeSet::new();
            for (_, act) in scenario(3, Class::Faults, seed).script {
                match act {
                    Act::Crash(node) | Act::Leave(node) => down.insert(node),
                    Act::Boot(node, _) => down.remove(&node),
                    Act::Pause(..) | Act::Forget(..) | Act::Dial(..) | Act::Reset(..) => false,
                };
            }
            assert!(down.is_empty(), "seed {seed} leaves {down:?}");
        }
    }
}
