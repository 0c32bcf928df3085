//! Lines of the table about steady loads: rejections, utilisation, fairness, messages, drift.
#![expect(clippy::float_arithmetic, reason = "figures for people")]

use super::{Bench, Line, SIZES, least, worse};
use crate::clock::SECOND;
use crate::report::percent;
use crate::scenario::{Allowed, Scenario};
use crate::workload::{Load, Spread, Workload};

pub(super) const LINES: &[Line] = &[
    Line {
        demand: "1. at 0.95x, any spread: no rejection, excess 0",
        figures: "rejected of 3 x 57,000; excess",
        reference: ["0; 0.0", "0; 0.0", "0; 0.0", "0; 0.0", "0; 0.0"],
        sizes: &SIZES,
        make: within,
    },
    Line {
        demand: "2. 1.5x: utilisation >= 99 %, excess <= 2",
        figures: "least utilisation; excess",
        reference: ["99.71 %; 0.0", "99.69 %; 0.0", "99.50 %; 0.0", "99.38 %; 0.0", "99.30 %; 0.0"],
        sizes: &SIZES,
        make: above,
    },
    Line {
        demand: "3. 20x: excess <= 9 in all windows, <= 1 in any 10 s",
        figures: "excess; 10 s; utilisation",
        reference: [
            "0.8; 0.00; 100.0 %",
            "1.5; 0.00; 100.0 %",
            "1.4; 0.00; 100.0 %",
            "5.4; 0.20; 100.1 %",
            "5.3; 0.00; 99.9 %",
        ],
        sizes: &SIZES,
        make: flood,
    },
    Line {
        demand: "6. Jain >= 0.95 at 1.5x and 20x, B >= 3 r D",
        figures: "1.5x; 20x",
        reference: ["0.996; 0.999", "0.989; 0.981", "0.978; 0.964", "0.997; 0.999", "0.999; 1.000"],
        sizes: &SIZES,
        make: fairness,
    },
    Line {
        demand: "7. quiet nodes beside a 20x flooder: >= 98.5 % admitted",
        figures: "least",
        reference: ["99.16 %", "99.49 %", "100.00 %", "100.00 %", "100.00 %"],
        sizes: &SIZES,
        make: quiet_beside_flood,
    },
    Line {
        demand: "14. batches per node in the worst second: <= 24 at 0.95x, <= 125 in all cases",
        figures: "0.95x; 1.5x B = 50; 20x",
        reference: ["11; 117; 26", "19; 115; 21", "21; 112; 22", "19; 104; 18", "10; 43; 13"],
        sizes: &SIZES,
        make: messages,
    },
    Line {
        demand: "16. 100 ppm between clocks, 1.5x for 1500 s: least share >= 0.4 of 0.67",
        figures: "least / most; excess",
        reference: ["0.62 / 0.71", "0.55 / 0.76", "0.46 / 0.78", "", ""],
        sizes: &[2, 3, 5],
        make: drift,
    },
    Line {
        demand: "18. B = 10^7, 115/s, 0.9x for 600 s: level >= 0.999 B",
        figures: "least level / B",
        reference: ["1.00000", "", "", "1.00000", ""],
        sizes: &[2, 10],
        make: large_bucket,
    },
];

/// 1000 units, 1000 a second.
pub(super) fn usual() -> Allowed {
    Allowed::balanced(1000, 1000, SECOND)
}

/// `spread` at `per_s` for so many seconds on a limit.
pub(super) fn flow(
    nodes: usize,
    allowed: Allowed,
    seed: u64,
    (spread, per_s, for_s): (&Spread, f64, u64),
) -> Scenario {
    let mut scenario = Scenario::new(nodes, allowed, seed);
    let mut workload = Workload::new(seed * 77 + 1);
    workload.poisson(spread, Load::of(per_s), 0, for_s * SECOND);
    scenario.arrivals = workload.done();
    scenario
}

fn within(bench: &mut Bench, nodes: usize) -> Result<String, String> {
    let (mut rejected, mut excess) = (0, 0.0);
    for seed in 1..=3 {
        for spread in [Spread::all(nodes), Spread::Zipf(nodes), Spread::one(0)] {
            let report = bench.simulate(&flow(nodes, usual(), seed, (&spread, 950.0, 20)))?;
            rejected += report.rejected;
            worse(&mut excess, report.excess_percent);
        }
    }
    Ok(format!("{rejected}; {excess:.1}"))
}

fn above(bench: &mut Bench, nodes: usize) -> Result<String, String> {
    let (mut used, mut excess) = (f64::INFINITY, 0.0);
    let spreads =
        [Spread::all(nodes), Spread::Zipf(nodes), Spread::one(0), Spread::Rotating(nodes)];
    for seed in 1..=2 {
        for spread in &spreads {
            let report = bench.simulate(&flow(nodes, usual(), seed, (spread, 1500.0, 30)))?;
            least(&mut used, report.utilisation_percent);
            worse(&mut excess, report.excess_percent);
        }
    }
    Ok(format!("{used:.2} %; {excess:.1}"))
}

fn flood(bench: &mut Bench, nodes: usize) -> Result<String, String> {
    let (mut used, mut excess, mut ten_s) = (f64::INFINITY, 0.0, 0.0);
    for seed in 1..=3 {
        let spread = Spread::all(nodes);
        let report = bench.simulate(&flow(nodes, usual(), seed, (&spread, 20_000.0, 20)))?;
        least(&mut used, report.utilisation_percent);
        worse(&mut excess, report.excess_percent);
        worse(&mut ten_s, report.ten_s_percent);
    }
    Ok(format!("{excess:.1}; {ten_s:.2}; {used:.1} %"))
}

fn fairness(bench: &mut Bench, nodes: usize) -> Result<String, String> {
    let spread = Spread::all(nodes);
    let some = bench.simulate(&flow(nodes, usual(), 1, (&spread, 1500.0, 30)))?;
    let much = bench.simulate(&flow(nodes, usual(), 1, (&spread, 20_000.0, 20)))?;
    Ok(format!("{:.3}; {:.3}", some.jain, much.jain))
}

fn quiet_beside_flood(bench: &mut Bench, nodes: usize) -> Result<String, String> {
    let mut scenario = Scenario::new(nodes, usual(), 1);
    let mut workload = Workload::new(13);
    workload.poisson(&Spread::one(0), Load::of(20_000.0), 5 * SECOND, 20 * SECOND);
    let each = f64::min(30.0, 500.0 / (nodes - 1) as f64);
    for node in 1..nodes {
        workload.poisson(&Spread::one(node), Load::of(each), 0, 20 * SECOND);
    }
    scenario.arrivals = workload.done();
    let report = bench.simulate(&scenario)?;
    let admitted = |node: usize| percent(report.admitted[node] as f64, report.offered[node] as f64);
    Ok(format!("{:.2} %", (1..nodes).map(admitted).fold(f64::INFINITY, f64::min)))
}

fn messages(bench: &mut Bench, nodes: usize) -> Result<String, String> {
    let spread = Spread::all(nodes);
    let small = Allowed::balanced(50, 1000, SECOND);
    let within = bench.simulate(&flow(nodes, usual(), 1, (&spread, 950.0, 20)))?;
    let above = bench.simulate(&flow(nodes, small, 1, (&spread, 1500.0, 20)))?;
    let flood = bench.simulate(&flow(nodes, usual(), 1, (&spread, 20_000.0, 10)))?;
    Ok(format!("{}; {}; {}", within.batches_max, above.batches_max, flood.batches_max))
}

fn drift(bench: &mut Bench, nodes: usize) -> Result<String, String> {
    let mut scenario = flow(nodes, usual(), 1, (&Spread::all(nodes), 1500.0, 1500));
    for node in 0..nodes {
        let rate_ppm = i32::try_from(100 * node / (nodes - 1)).unwrap_or(0) - 50;
        scenario.drift(node, rate_ppm);
    }
    scenario.inspect_every_ns = SECOND;
    let (record, report) = bench.record(&scenario)?;
    let mut shares = vec![(0.0, 0.0); nodes];
    for (arrival, outcome) in scenario.arrivals.iter().zip(&record.outcomes) {
        if arrival.at_ns > 1470 * SECOND {
            let (admitted, asked) = &mut shares[arrival.node];
            *asked += 1.0;
            *admitted += if outcome.allowed { 1.0 } else { 0.0 };
        }
    }
    let shares = shares.iter().map(|(admitted, asked)| admitted / asked);
    let least = shares.clone().fold(f64::INFINITY, f64::min);
    let most = shares.fold(0.0, f64::max);
    Ok(format!("{least:.2} / {most:.2}; {:.1}", report.excess_percent))
}

fn large_bucket(bench: &mut Bench, nodes: usize) -> Result<String, String> {
    let allowed = Allowed::balanced(10_000_000, 115, SECOND);
    let mut scenario = flow(nodes, allowed, 1, (&Spread::all(nodes), 115.0 * 0.9, 600));
    scenario.probes.push(602 * SECOND);
    let (record, _) = bench.record(&scenario)?;
    let full = allowed.burst as f64 * record.excess[0].per_unit as f64;
    let levels = record.probes.iter().flat_map(|probe| &probe.levels);
    let least = levels.map(|level| *level as f64 / full).fold(f64::INFINITY, f64::min);
    Ok(format!("{least:.5}"))
}
