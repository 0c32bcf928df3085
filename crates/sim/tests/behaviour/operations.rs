//! What operators do to keys while the network does what it can.

use sim::clock::{MS, SECOND};
use sim::network::Cut;
use sim::scenario::everyone;
use sim::workload::{Load, Spread, Workload};
use sim::{Act, Allowed, Scenario};

use crate::hold;

const HOUR: u64 = 3_600 * SECOND;
const NODES: usize = 5;

/// Ten thousand units, of which hardly one comes back while a run lasts; asked for on all nodes in three bursts
/// of two seconds. Frames are late by chance and lost.
fn scenario(seed: u64) -> Scenario {
    let mut scenario = Scenario::new(NODES, Allowed::balanced(10_000, 1, HOUR), seed);
    scenario.lines.jitter_ns = 60 * MS;
    scenario.lines.loss_ppm = 100_000;
    let mut workload = Workload::new(seed);
    for from_s in [0, 6, 12] {
        let span = from_s * SECOND..(from_s + 2) * SECOND;
        workload.poisson(&Spread::all(NODES), Load::of(400.0), span.start, span.end);
    }
    scenario.arrivals = workload.done();
    scenario
}

/// A number below `bound`, as the seed has it.
fn dice(seed: u64, turn: u64, bound: u64) -> u64 {
    let word = limiter::rendezvous(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), turn);
    word % bound
}

fn node(seed: u64, turn: u64) -> usize {
    usize::try_from(dice(seed, turn, NODES as u64)).unwrap()
}

/// Levels at the probes are the truth, to a unit.
fn levels_are_true(scenario: &Scenario) {
    let (record, _) = hold(scenario);
    let unit = i128::from(HOUR);
    assert!(!record.probes.is_empty());
    for probe in &record.probes {
        assert_eq!(probe.levels.len(), NODES, "seed {}", scenario.seed);
        let is_true = |level: &i128| (level - probe.truth).abs() <= unit;
        let levels: Vec<_> = probe.levels.iter().map(|level| level / unit).collect();
        let (at_ns, truth) = (probe.at_ns, probe.truth / unit);
        assert!(
            probe.levels.iter().all(is_true),
            "seed {} at {at_ns} ns: {levels:?}, in truth {truth}",
            scenario.seed
        );
    }
}

/// In the middle of each burst, so that spends are on their way that the operator's node knows of and others do not,
/// and the other way round: a second after the last spend every node has exactly what is left in truth, and nothing
/// that comes late changes that.
#[test]
fn a_reset_in_the_middle_of_load_holds_everywhere_within_a_second() {
    for seed in 0..40 {
        let mut scenario = scenario(seed);
        let operator = node(seed, 0);
        for burst in 0..3 {
            for turn in 0..2 {
                let at_ns = burst * 6 * SECOND + dice(seed, 1 + 2 * burst + turn, 2_000) * MS;
                scenario.script.push((at_ns, Act::Reset(operator, 0)));
            }
        }
        scenario.script.sort_by_key(|(at_ns, _)| *at_ns);
        scenario.probes = [3, 4, 5, 9, 10, 11, 15, 16, 17].map(|s| s * SECOND).to_vec();
        levels_are_true(&scenario);
    }
}

/// The same while some do not reach others, for a moment or for long: when all is mended.
#[test]
fn a_reset_in_a_cut_holds_everywhere_when_it_is_mended() {
    for seed in 0..40 {
        let mut scenario = scenario(seed);
        let operator = node(seed, 0);
        for turn in 0..3 {
            let at_ns = 200 * MS + dice(seed, 10 + turn, 13_800) * MS;
            scenario.script.push((at_ns, Act::Reset(operator, 0)));
            let from_ns = at_ns.saturating_sub(dice(seed, 20 + turn, 600) * MS);
            let to_ns = at_ns + (50 + dice(seed, 30 + turn, 1_500)) * MS;
            let a = 1 + dice(seed, 40 + turn, everyone(NODES) - 1);
            let b = match dice(seed, 50 + turn, 2) {
                0 => everyone(NODES) & !a,
                _ => 1 << node(seed, 60 + turn),
            };
            scenario.lines.cuts.push(Cut { from_ns, to_ns, a: a & !b, b, one_way: false });
        }
        scenario.script.sort_by_key(|(at_ns, _)| *at_ns);
        scenario.end_ns = 26 * SECOND;
        scenario.probes = vec![25 * SECOND, 26 * SECOND];
        levels_are_true(&scenario);
    }
}

/// Whoever starts takes the counts with the resets in them, and what waits there.
#[test]
fn a_reset_while_a_node_starts_is_in_what_it_takes() {
    for seed in 0..20 {
        let mut scenario = scenario(seed);
        let operator = node(seed, 0);
        let joiner = (operator + 1 + node(seed, 1) % (NODES - 1)) % NODES;
        for turn in 0..2 {
            let back_ns = (3 + 6 * turn) * SECOND;
            scenario.script.push((back_ns - SECOND, Act::Leave(joiner)));
            scenario.script.push((back_ns, Act::Boot(joiner, 0)));
            let at_ns = back_ns + dice(seed, 10 + turn, 1_000) * MS;
            scenario.script.push((at_ns, Act::Reset(operator, 0)));
        }
        scenario.script.sort_by_key(|(at_ns, _)| *at_ns);
        scenario.probes = vec![17 * SECOND, 18 * SECOND];
        levels_are_true(&scenario);
    }
}
