//! Lines of the table about cuts, crashes, restarts, pauses, loss and eviction.
#![expect(clippy::float_arithmetic, reason = "figures for people")]

use super::steady::{flow, usual};
use super::{Bench, Line, SIZES, least, worse};
use crate::clock::{MS, SECOND};
use crate::network::Cut;
use crate::scenario::{Act, Allowed, Scenario, everyone, halves};
use crate::workload::{Load, Spread, Workload, seconds};

const SOME: [usize; 4] = [2, 3, 5, 10];

pub(super) const LINES: &[Line] = &[
    Line {
        demand: "11. half/half cut of 30 s at 1.5x: excess <= 2, utilisation >= 98 %",
        figures: "excess; utilisation",
        reference: ["0.0; 99.9 %", "0.0; 99.9 %", "0.0; 99.8 %", "0.0; 99.6 %", "0.0; 99.6 %"],
        sizes: &SIZES,
        make: half_cut,
    },
    Line {
        demand: "11. 20 cuts of 2 s at 1.5x: the same",
        figures: "the same",
        reference: ["0.0; 99.2 %", "0.0; 99.5 %", "0.0; 99.2 %", "0.0; 99.4 %", ""],
        sizes: &SOME,
        make: twenty_cuts,
    },
    Line {
        demand: "11. load on one side, then on all: shares within 0.15 within 5 s of the heal",
        figures: "A / B",
        reference: ["0.71 / 0.61", "0.67 / 0.66", "0.63 / 0.68", "0.64 / 0.68", ""],
        sizes: &SOME,
        make: one_sided,
    },
    Line {
        demand: "11. 1.5 B on all nodes 0.1 to 2.5 s after a heal: <= 10",
        figures: "excess, 10 seeds",
        reference: ["0.0", "6.1", "5.0", "0.0", ""],
        sizes: &SOME,
        make: burst_after_heal,
    },
    Line {
        demand: "11. flaps of 0.6 s at 5x, B = 50: <= 10",
        figures: "excess, 20 seeds",
        reference: ["0", "0", "0", "0", ""],
        sizes: &SOME,
        make: flaps,
    },
    Line {
        demand: "11. earned share, cut, two bursts: reported, <= w - n/N",
        figures: "r = 1000; r = 100",
        reference: ["0; 33", "0; 46", "0; 57", "0; 60", ""],
        sizes: &SOME,
        make: earned_share,
    },
    Line {
        demand: "12. crash, back after 10 s, at 1.5x: excess <= 2; survivors at (N-1)/N meanwhile",
        figures: "excess; utilisation",
        reference: ["0.0; 88.9 %", "0.0; 92.6 %", "0.0; 95.6 %", "0.0; 97.6 %", "0.0; 99.2 %"],
        sizes: &SIZES,
        make: crash,
    },
    Line {
        demand: "12. rolling restart at 0.9x; 1.5x; 20x: excess <= 2; 2; 9",
        figures: "excess / utilisation",
        reference: [
            "0.0/100.0; 0.0/99.8; 2.9/100.0",
            "0.0/100.0; 0.0/99.8; 3.7/100.0",
            "0.0/100.0; 0.0/99.9; 2.1/100.0",
            "0.0/100.0; 0.0/99.8; 5.5/100.1",
            "",
        ],
        sizes: &SOME,
        make: rolling_restart,
    },
    Line {
        demand: "12. nine crashes of 300 ms at 20x: reported",
        figures: "excess",
        reference: ["32.5", "21.1", "15.9", "19.9", ""],
        sizes: &SOME,
        make: nine_crashes,
    },
    Line {
        demand: "12. 10 % / 30 % loss; pauses of 0.4 s: excess <= 2, utilisation >= 98 %",
        figures: "excess / utilisation",
        reference: [
            "0.0/99.9; 0.0/99.7; 0.0/99.9",
            "0.0/99.8; 0.0/99.6; 0.0/99.9",
            "0.0/99.7; 0.0/99.6; 0.0/99.9",
            "0.0/99.3; 0.0/98.6; 0.0/99.8",
            "",
        ],
        sizes: &SOME,
        make: loss_and_pauses,
    },
    Line {
        demand: "18. evicted on one side, drained on the other, heal, burst: 0",
        figures: "excess",
        reference: ["0.0", "0.0", "0.0", "0.0", ""],
        sizes: &SOME,
        make: evicted,
    },
    Line {
        demand: "18. one node cut for 40 s, the rest split 10 s of it: excess <= 2, utilisation >= 98 %",
        figures: "excess; utilisation",
        reference: ["", "0.0; 99.3 %", "0.0; 99.2 %", "0.0; 99.0 %", ""],
        sizes: &[3, 5, 10],
        make: nested,
    },
];

/// A cut between two sets for a time.
pub(super) fn cut(from_ns: u64, to_ns: u64, (a, b): (u64, u64)) -> Cut {
    Cut { from_ns, to_ns, a, b, one_way: false }
}

/// The first node, and all others.
pub(super) fn first(nodes: usize) -> (u64, u64) {
    (1, everyone(nodes) & !1)
}

fn half_cut(bench: &mut Bench, nodes: usize) -> Result<String, String> {
    let (mut used, mut excess) = (f64::INFINITY, 0.0);
    for seed in 1..=2 {
        let mut scenario = flow(nodes, usual(), seed, (&Spread::all(nodes), 1500.0, 60));
        scenario.lines.cuts = vec![cut(20 * SECOND, 50 * SECOND, halves(nodes))];
        let report = bench.simulate(&scenario)?;
        least(&mut used, report.utilisation_percent);
        worse(&mut excess, report.excess_percent);
    }
    Ok(format!("{excess:.1}; {used:.1} %"))
}

fn twenty_cuts(bench: &mut Bench, nodes: usize) -> Result<String, String> {
    let mut scenario = flow(nodes, usual(), 1, (&Spread::all(nodes), 1500.0, 90));
    for turn in 0..20 {
        let from_ns = (5 + 4 * turn) * SECOND;
        scenario.lines.cuts.push(cut(from_ns, from_ns + 2 * SECOND, first(nodes)));
    }
    let report = bench.simulate(&scenario)?;
    Ok(format!("{:.1}; {:.1} %", report.excess_percent, report.utilisation_percent))
}

fn one_sided(bench: &mut Bench, nodes: usize) -> Result<String, String> {
    let half = nodes / 2;
    let mut scenario = Scenario::new(nodes, usual(), 1);
    let mut workload = Workload::new(3);
    let (ours, others) = (Spread::Even((0..half).collect()), Spread::Even((half..nodes).collect()));
    workload.poisson(&ours, Load::of(1500.0), 0, 50 * SECOND);
    workload.poisson(&others, Load::of(100.0), 0, 50 * SECOND);
    workload.poisson(&Spread::all(nodes), Load::of(1500.0), 50 * SECOND, 62 * SECOND);
    scenario.arrivals = workload.done();
    scenario.lines.cuts = vec![cut(20 * SECOND, 50 * SECOND, halves(nodes))];
    let (record, _) = bench.record(&scenario)?;
    let mut sides = [(0.0, 0.0); 2];
    for (arrival, outcome) in scenario.arrivals.iter().zip(&record.outcomes) {
        if (55 * SECOND..60 * SECOND).contains(&arrival.at_ns) {
            let (asked, admitted) = &mut sides[usize::from(arrival.node >= half)];
            *asked += 1.0;
            *admitted += if outcome.allowed { 1.0 } else { 0.0 };
        }
    }
    Ok(format!("{:.2} / {:.2}", sides[0].1 / sides[0].0, sides[1].1 / sides[1].0))
}

/// Half of the nodes cut off from the others for 6 s, then one and a half bursts on all of them, a while
/// after they are back, for each of `seeds`.
pub(super) fn heal_and_burst(nodes: usize, seeds: u64) -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    for seed in 0..seeds {
        for after_ms in [100, 300, 1_000, 2_500] {
            let mut scenario = Scenario::new(nodes, usual(), seed);
            scenario.lines.cuts = vec![cut(4 * SECOND, 10 * SECOND, halves(nodes))];
            let mut workload = Workload::new(31 + seed);
            workload.poisson(&Spread::all(nodes), Load::of(950.0), 5 * SECOND, 10 * SECOND);
            for node in 0..nodes {
                workload.burst(node, 0, 1500, 10 * SECOND + after_ms * MS, 3 * MS);
            }
            scenario.arrivals = workload.done();
            scenarios.push(scenario);
        }
    }
    scenarios
}

fn burst_after_heal(bench: &mut Bench, nodes: usize) -> Result<String, String> {
    let mut worst = 0.0;
    for scenario in heal_and_burst(nodes, 10) {
        worse(&mut worst, bench.simulate(&scenario)?.excess_percent);
    }
    Ok(format!("{worst:.1}"))
}

fn flaps(bench: &mut Bench, nodes: usize) -> Result<String, String> {
    let mut worst = 0.0;
    for seed in 0..20 {
        let mut scenario = Scenario::new(nodes, Allowed::balanced(50, 1000, SECOND), seed);
        let mut workload = Workload::new(32 + seed);
        for turn in 0..11 {
            let from_ns = 4 * SECOND + turn * 1_160 * MS;
            scenario.lines.cuts.push(cut(from_ns, from_ns + 600 * MS, first(nodes)));
        }
        workload.poisson(&Spread::one(0), Load::of(950.0), SECOND, 16 * SECOND);
        let others = Spread::Even((1..nodes).collect());
        workload.poisson(&others, Load::of(5000.0), 4_050 * MS, 16 * SECOND);
        scenario.arrivals = workload.done();
        // A peer that was lost often is not counted before it was quiet for ten seconds.
        scenario.settle_ns = 15 * SECOND;
        worse(&mut worst, bench.simulate(&scenario)?.excess_percent);
    }
    Ok(format!("{worst:.0}"))
}

fn earned_share(bench: &mut Bench, nodes: usize) -> Result<String, String> {
    let mut figures = Vec::new();
    for count in [1000, 100] {
        let mut worst = 0.0;
        for seed in 0..10 {
            let mut scenario = Scenario::new(nodes, Allowed::balanced(1000, count, SECOND), seed);
            scenario.lines.cuts = vec![cut(4 * SECOND, 6 * SECOND, first(nodes))];
            let mut workload = Workload::new(41 + seed);
            let load = Load::of(0.95 * count as f64);
            workload.poisson(&Spread::one(0), load, SECOND, 4 * SECOND);
            workload.burst(0, 0, 1500, 4_010 * MS, 300 * MS);
            for node in 1..nodes {
                workload.burst(node, 0, 1500, 4_700 * MS, 100 * MS);
            }
            scenario.arrivals = workload.done();
            worse(&mut worst, bench.simulate(&scenario)?.excess_percent);
        }
        figures.push(format!("{worst:.0}"));
    }
    Ok(figures.join("; "))
}

fn crash(bench: &mut Bench, nodes: usize) -> Result<String, String> {
    let mut scenario = flow(nodes, usual(), 12, (&Spread::all(nodes), 1500.0, 40));
    scenario.script = vec![(20 * SECOND, Act::Crash(1)), (30 * SECOND, Act::Boot(1, 0))];
    let report = bench.simulate(&scenario)?;
    Ok(format!("{:.1}; {:.1} %", report.excess_percent, report.utilisation_percent))
}

fn rolling_restart(bench: &mut Bench, nodes: usize) -> Result<String, String> {
    let mut figures = Vec::new();
    for times in [0.9, 1.5, 20.0] {
        let load = (&Spread::all(nodes), 1000.0 * times, 10 + 4 * nodes as u64);
        let mut scenario = flow(nodes, usual(), 8, load);
        for node in 0..nodes {
            let at_ns = (5 + 4 * node as u64) * SECOND;
            scenario.script.push((at_ns, Act::Leave(node)));
            scenario.script.push((at_ns + 2 * SECOND, Act::Boot(node, 0)));
        }
        let report = bench.simulate(&scenario)?;
        figures.push(format!("{:.1}/{:.1}", report.excess_percent, report.utilisation_percent));
    }
    Ok(figures.join("; "))
}

fn nine_crashes(bench: &mut Bench, nodes: usize) -> Result<String, String> {
    let mut scenario = flow(nodes, usual(), 8, (&Spread::all(nodes), 20_000.0, 35));
    for turn in 0..9 {
        let at_ns = (5 + 3 * turn as u64) * SECOND;
        scenario.script.push((at_ns, Act::Crash(turn % nodes)));
        scenario.script.push((at_ns + 300 * MS, Act::Boot(turn % nodes, 0)));
    }
    Ok(format!("{:.1}", bench.simulate(&scenario)?.excess_percent))
}

fn loss_and_pauses(bench: &mut Bench, nodes: usize) -> Result<String, String> {
    let mut figures = Vec::new();
    for loss_ppm in [100_000, 300_000, 0] {
        let mut scenario = flow(nodes, usual(), 8, (&Spread::all(nodes), 1500.0, 30));
        scenario.lines.loss_ppm = loss_ppm;
        if loss_ppm == 0 {
            for turn in 0..5 {
                let at_ns = (4 + 5 * turn) * SECOND;
                scenario.script.push((at_ns, Act::Pause(0, at_ns + 400 * MS)));
            }
        }
        let report = bench.simulate(&scenario)?;
        figures.push(format!("{:.1}/{:.1}", report.excess_percent, report.utilisation_percent));
    }
    Ok(figures.join("; "))
}

fn evicted(bench: &mut Bench, nodes: usize) -> Result<String, String> {
    let mut scenario = Scenario::new(nodes, Allowed::balanced(1000, 10, SECOND), 1);
    let mut workload = Workload::new(4);
    workload.burst(0, 0, 5, SECOND, MS);
    for node in nodes / 2..nodes {
        workload.burst(node, 0, 1000, 20 * SECOND, 100 * MS);
    }
    for node in 0..nodes / 2 {
        workload.burst(node, 0, 1000, 22 * SECOND, 100 * MS);
    }
    scenario.arrivals = workload.done();
    scenario.lines.cuts = vec![cut(12 * SECOND, seconds(20.9), halves(nodes))];
    Ok(format!("{:.1}", bench.simulate(&scenario)?.excess_percent))
}

fn nested(bench: &mut Bench, nodes: usize) -> Result<String, String> {
    let mut scenario = flow(nodes, usual(), 4, (&Spread::all(nodes), 1500.0, 60));
    let (_, rest) = first(nodes);
    scenario.lines.cuts = vec![
        cut(10 * SECOND, 50 * SECOND, first(nodes)),
        cut(20 * SECOND, 30 * SECOND, (2, rest & !2)),
    ];
    let report = bench.simulate(&scenario)?;
    Ok(format!("{:.1}; {:.1} %", report.excess_percent, report.utilisation_percent))
}
