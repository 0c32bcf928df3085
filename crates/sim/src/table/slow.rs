//! Lines of the table about slow limits: short blips and long cuts.
#![expect(clippy::float_arithmetic, reason = "figures for people")]

use super::faults::cut;
use super::{Bench, Line, SIZES, least, worse};
use crate::blip::{Gone, blip};
use crate::clock::{MS, SECOND};
use crate::scenario::{Allowed, Scenario, halves};
use crate::workload::{Load, Spread, Workload};

const HOUR: u64 = 3_600 * SECOND;
const DAY: u64 = 24 * HOUR;
const SOME: [usize; 4] = [2, 3, 5, 10];

const BLIP: &str = "utilisation; units over; level error";
const ON_BOTH: &str = "excess; utilisation; level error";

pub(super) const LINES: &[Line] = &[
    Line {
        demand: "13. 100/h, 40 used, one node silent 2 s by pause, cut, crash, then the rest: nothing over, \
                 level right to 1 unit 1 s after the return",
        figures: BLIP,
        reference: [
            "100.00 %; 0.0; 0.00",
            "100.00 %; 0.0; 0.00",
            "100.00 %; 0.0; 0.00",
            "100.00 %; 0.0; 0.00",
            "94.00 %; 0.0; 0.00",
        ],
        sizes: &SIZES,
        make: |bench, nodes| blips(bench, nodes, Allowed::balanced(100, 100, HOUR), 1),
    },
    Line {
        demand: "13. the same 20 times",
        figures: BLIP,
        reference: [
            "100.00 %; 0.0; 0.00",
            "100.00 %; 0.0; 0.00",
            "100.00 %; 0.0; 0.00",
            "100.00 %; 0.0; 0.00",
            "94.17 %; 0.0; 0.00",
        ],
        sizes: &SOME,
        make: |bench, nodes| blips(bench, nodes, Allowed::balanced(100, 100, HOUR), 20),
    },
    Line {
        demand: "13. 10,000/day: over <= 0.1 % of B, level right to 1 unit",
        figures: BLIP,
        reference: [
            "100.00 %; 3.6; 0.00",
            "100.00 %; 2.6; 0.00",
            "100.01 %; 2.6; 0.00",
            "100.00 %; 3.6; 0.00",
            "100.00 %; 2.6; 0.00",
        ],
        sizes: &SIZES,
        make: |bench, nodes| blips(bench, nodes, Allowed::balanced(10_000, 10_000, DAY), 1),
    },
    Line {
        demand: "13. the same 20 times",
        figures: BLIP,
        reference: [
            "100.00 %; 4.6; 0.00",
            "100.01 %; 4.6; 0.00",
            "100.01 %; 2.6; 0.00",
            "100.00 %; 2.6; 0.00",
            "100.00 %; 2.6; 0.00",
        ],
        sizes: &SOME,
        make: |bench, nodes| blips(bench, nodes, Allowed::balanced(10_000, 10_000, DAY), 20),
    },
    Line {
        demand: "13. 1000/s",
        figures: BLIP,
        reference: ["100.00 %; 0.0; 0.00"; 5],
        sizes: &SIZES,
        make: |bench, nodes| blips(bench, nodes, Allowed::balanced(1000, 1000, SECOND), 1),
    },
    Line {
        demand: "13. the same 20 times",
        figures: BLIP,
        reference: ["100.00 %; 0.0; 0.00"; 5],
        sizes: &SOME,
        make: |bench, nodes| blips(bench, nodes, Allowed::balanced(1000, 1000, SECOND), 20),
    },
    Line {
        demand: "13. 100/h, half/half for 2 h, 0.4x on both sides: level error 0",
        figures: ON_BOTH,
        reference: ["0.0; 100 %; 0.0 .. 0.0"; 5],
        sizes: &SOME,
        make: |bench, nodes| long_cut(bench, nodes, false, 0.4),
    },
    Line {
        demand: "13. the same at 1.5x: excess 0, error between -5 and 0",
        figures: ON_BOTH,
        reference: [
            "0.0; 97 %; -1.7 .. -1.7",
            "0.0; 99 %; -1.3 .. -1.3",
            "0.0; 95 %; -2.5 .. -2.5",
            "0.0; 97 %; -1.8 .. -1.8",
            "0.0; 95 %; -2.0 .. -2.0",
        ],
        sizes: &SOME,
        make: |bench, nodes| long_cut(bench, nodes, false, 1.5),
    },
    Line {
        demand: "13. 0.4x on one side: error never above 0",
        figures: ON_BOTH,
        reference: [
            "0.0; 100 %; -1.0 .. -1.0",
            "0.0; 100 %; -6.0 .. -6.0",
            "0.0; 100 %; -3.0 .. -3.0",
            "0.0; 100 %; -1.0 .. -1.0",
            "0.0; 100 %; -1.0 .. -1.0",
        ],
        sizes: &SOME,
        make: |bench, nodes| long_cut(bench, nodes, true, 0.4),
    },
    Line {
        demand: "13. 1.5x on one side: never above 0",
        figures: ON_BOTH,
        reference: [
            "0.0; 50 %; -49.0 .. -49.0",
            "0.0; 33 %; -32.3 .. -32.3",
            "0.0; 40 %; -39.0 .. -39.0",
            "0.0; 50 %; -48.8 .. -48.8",
            "0.0; 50 %; -47.3 .. -47.3",
        ],
        sizes: &SOME,
        make: |bench, nodes| long_cut(bench, nodes, true, 1.5),
    },
];

fn blips(bench: &mut Bench, nodes: usize, allowed: Allowed, times: u64) -> Result<String, String> {
    let (mut used, mut over, mut error) = (f64::INFINITY, 0.0, 0.0);
    let seeds = if nodes > 10 || allowed.burst > 1_000 { 1 } else { 3 };
    for gone in Gone::ALL {
        for seed in 1..=seeds {
            let report = bench.simulate(&blip(nodes, gone, times, allowed, seed))?;
            least(&mut used, report.utilisation_percent);
            worse(&mut over, report.excess_units);
            worse(&mut error, report.level_error());
        }
    }
    Ok(format!("{used:.2} %; {over:.1}; {error:.2}"))
}

/// Half/half for two hours on 100/h, nobody forgotten, `times` the rate on both sides or on one.
fn long_cut(bench: &mut Bench, nodes: usize, one_side: bool, times: f64) -> Result<String, String> {
    let for_ns = 2 * HOUR;
    let mut scenario = Scenario::new(nodes, Allowed::balanced(100, 100, HOUR), 3);
    scenario.forget_after_ns = DAY;
    scenario.lines.cuts = vec![cut(10 * SECOND, 10 * SECOND + for_ns, halves(nodes))];
    let mut workload = Workload::new(5);
    let side = if one_side { (nodes / 2).max(1) } else { nodes };
    let load = Load::of(100.0 / 3600.0 * times);
    workload.poisson(&Spread::all(side), load, 0, for_ns + 10 * SECOND);
    scenario.arrivals = workload.done();
    scenario.probes.push(for_ns + 11_500 * MS);
    scenario.end_ns = for_ns + 20 * SECOND;
    scenario.inspect_every_ns = 5 * SECOND;
    let report = bench.simulate(&scenario)?;
    Ok(format!(
        "{:.1}; {:.0} %; {:.1} .. {:.1}",
        report.excess_percent, report.utilisation_percent, report.level_low, report.level_high
    ))
}
