//! Lines of the table about bursts, small buckets, large costs and waits.
#![expect(clippy::float_arithmetic, reason = "figures for people")]

use super::steady::{flow, usual};
use super::{Bench, Line, SIZES, worse};
use crate::clock::{MS, SECOND};
use crate::scenario::{Allowed, Scenario};
use crate::workload::{Load, Spread, Workload, seconds};

const HOUR: u64 = 3_600 * SECOND;

pub(super) const LINES: &[Line] = &[
    Line {
        demand: "4. B on every node in 5 / 100 ms after quiet; in 3 ms after two nodes at 0.95x: <= 5",
        figures: "excess, 20 seeds",
        reference: [
            "0.0 / 0.7; 0.0",
            "0.0 / 2.0; 0.0",
            "0.0 / 2.7; 0.0",
            "0.0 / 1.1; 0.0",
            "0.0 / 1.2; 0.0",
        ],
        sizes: &SIZES,
        make: everywhere_at_once,
    },
    Line {
        demand: "5. just under theta, then a burst; beside a hot key that eats the flush budget: <= 20",
        figures: "excess, 40 seeds",
        reference: ["0.7; 0.5", "0.7; 5.0", "2.6; 3.6", "1.4; 13.3", ""],
        sizes: &[2, 3, 5, 10],
        make: under_theta,
    },
    Line {
        demand: "8. 8 calls in 1 ms, burst 20, 1/s: >= 99 %, p99 <= 5 ms",
        figures: "admitted; held; p50/p99 ms",
        reference: [
            "100.0 %; 0 %; 0.0/0.0",
            "100.0 %; 25 %; 1.9/2.3",
            "100.0 %; 50 %; 1.9/2.4",
            "100.0 %; 75 %; 2.0/2.5",
            "100.0 %; 96 %; 2.1/2.5",
        ],
        sizes: &SIZES,
        make: |bench, nodes| page_loads(bench, nodes, 8),
    },
    Line {
        demand: "8. 16 calls: >= 99 %",
        figures: "the same",
        reference: [
            "100.0 %; 38 %; 1.9/2.2",
            "100.0 %; 62 %; 1.9/2.4",
            "100.0 %; 75 %; 2.0/4.2",
            "100.0 %; 88 %; 2.1/4.3",
            "100.0 %; 98 %; 2.3/4.4",
        ],
        sizes: &SIZES,
        make: |bench, nodes| page_loads(bench, nodes, 16),
    },
    Line {
        demand: "8. 20 calls (the whole bucket): >= 80 % within 5 ms",
        figures: "the same",
        reference: [
            "95.0 %; 50 %; 2.0/5.0",
            "95.0 %; 70 %; 2.1/5.0",
            "90.0 %; 80 %; 2.2/5.0",
            "90.0 %; 90 %; 2.3/5.0",
            "85.0 %; 98 %; 2.4/5.0",
        ],
        sizes: &SIZES,
        make: |bench, nodes| page_loads(bench, nodes, 20),
    },
    Line {
        demand: "8. 30 each minute of 100/min: >= 99 %",
        figures: "admitted",
        reference: ["100.0 %"; 5],
        sizes: &SIZES,
        make: minute_bursts,
    },
    Line {
        demand: "9. B = 50, 1000/s: utilisation >= 98 % (N <= 10); 20x <= 10; 3 per node in 1 ms: 0 over",
        figures: "0.9x / 1.5x; 20x; units over",
        reference: [
            "100 / 100 %; 2 %; 0",
            "100 / 100 %; 2 %; 0",
            "100 / 100 %; 1 %; 0",
            "99 / 100 %; 1 %; 0",
            "92 / 100 %; 9 %; 0",
        ],
        sizes: &SIZES,
        make: |bench, nodes| small(bench, nodes, Allowed::balanced(50, 1000, SECOND)),
    },
    Line {
        demand: "9. B = 20, 20/s: the same, 20x <= 12",
        figures: "the same",
        reference: [
            "100 / 100 %; 4 %; 0",
            "100 / 100 %; 4 %; 0",
            "100 / 100 %; 4 %; 0",
            "99 / 100 %; 9 %; 0",
            "74 / 78 %; 3 %; 0",
        ],
        sizes: &SIZES,
        make: |bench, nodes| small(bench, nodes, Allowed::balanced(20, 20, SECOND)),
    },
    Line {
        demand: "9. B = 5, 5/s: within the limit; utilisation is the price",
        figures: "the same",
        reference: [
            "99 / 99 %; 0 %; 0",
            "97 / 99 %; 0 %; 0",
            "91 / 96 %; 0 %; 0",
            "69 / 75 %; 0 %; 0",
            "19 / 17 %; 0 %; 0",
        ],
        sizes: &SIZES,
        make: |bench, nodes| small(bench, nodes, Allowed::balanced(5, 5, SECOND)),
    },
    Line {
        demand: "9. the same in `fast`: <= 8 units per node over",
        figures: "the same",
        reference: [
            "100 / 100 %; 20 %; 0",
            "100 / 100 %; 39 %; 1",
            "101 / 100 %; 78 %; 5",
            "101 / 100 %; 132 %; 15",
            "100 / 100 %; 192 %; 95",
        ],
        sizes: &SIZES,
        make: |bench, nodes| small(bench, nodes, Allowed::fast(5, 5, SECOND)),
    },
    Line {
        demand: "9. B = 5, 5 per 15 min: >= 95 %, 0 over",
        figures: "the same (N <= 5: for a twentieth of the time)",
        reference: [
            "100 / 100 %; 0 %; 0",
            "99 / 100 %; 0 %; 0",
            "98 / 99 %; 0 %; 0",
            "97 / 99 %; 0 %; 0",
            "96 / 98 %; 0 %; 0",
        ],
        sizes: &[2, 3, 5, 10],
        make: |bench, nodes| small(bench, nodes, Allowed::balanced(5, 5, HOUR / 4)),
    },
    Line {
        demand: "10. parallel guesses on all nodes, 5/15 min: 0 over; honest: >= 99.9 %",
        figures: "units over, 10 seeds; refused, 4 seeds",
        reference: [
            "0.0; 0 of 1693",
            "0.0; 0 of 1671",
            "0.0; 0 of 1677",
            "0.0; 0 of 1685",
            "0.0; 0 of 1682",
        ],
        sizes: &[2, 3, 5, 10],
        make: logins,
    },
    Line {
        demand: "15. costs of 200 / 400 of 1000 beside 0.5x / 0.3x: all admitted",
        figures: "admitted, excess, utilisation",
        reference: ["28/28, 0.0, 100.0 %; 28/28, 0.0, 100.0 %"; 5],
        sizes: &SIZES,
        make: large_costs,
    },
    Line {
        demand: "17. page loads with one peer at 22 ms, max_wait 5 / 40 ms: >= 99 % with 40",
        figures: "admitted",
        reference: ["", "75 % / 100 %", "50 % / 100 %", "25 % / 100 %", "5 % / 100 %"],
        sizes: &[3, 5, 10, 50],
        make: far_peer,
    },
];

fn everywhere_at_once(bench: &mut Bench, nodes: usize) -> Result<String, String> {
    let mut worst = [0.0; 3];
    let count = if nodes > 10 { 200 } else { 1000 };
    for seed in 1..=20 {
        for (place, within_ns) in [5 * MS, 100 * MS, 3 * MS].into_iter().enumerate() {
            let mut scenario = Scenario::new(nodes, usual(), seed);
            let mut workload = Workload::new(seed * 31 + place as u64);
            let at_ns = 3 * SECOND + SECOND / 2;
            if place == 2 {
                let two = Spread::Even(vec![0, nodes - 1]);
                workload.poisson(&two, Load::of(950.0), SECOND / 2, at_ns);
            }
            for node in 0..nodes {
                workload.burst(node, 0, count, at_ns, within_ns);
            }
            scenario.arrivals = workload.done();
            scenario.settle_ns = 2 * SECOND;
            worse(&mut worst[place], bench.simulate(&scenario)?.excess_percent);
        }
    }
    Ok(format!("{:.1} / {:.1}; {:.1}", worst[0], worst[1], worst[2]))
}

fn under_theta(bench: &mut Bench, nodes: usize) -> Result<String, String> {
    let mut worst = [0.0; 2];
    for seed in 0..40 {
        for (place, worst) in worst.iter_mut().enumerate() {
            let mut scenario = Scenario::new(nodes, usual(), seed);
            scenario.add_limit(Allowed::balanced(50, 1000, SECOND));
            let mut workload = Workload::new(130 + seed);
            let late_ns = workload.dice().below(4 * MS);
            let at_ns = 3 * SECOND;
            if place == 1 {
                let hot = Load { key: 1, per_s: 3000.0, cost: 1 };
                let others = Spread::Even((1..nodes).collect());
                workload.poisson(&others, hot, 0, at_ns + SECOND / 5);
            }
            for node in 1..nodes {
                workload.burst(node, 0, 1000 / nodes as u64 * 24 / 100, at_ns, 2 * MS);
                workload.burst(node, 0, 1000, at_ns + 6 * MS, 20 * MS);
            }
            workload.burst(0, 0, 1000, at_ns + late_ns, 20 * MS);
            scenario.arrivals = workload.done();
            scenario.settle_ns = 2 * SECOND;
            let (record, _) = bench.record(&scenario)?;
            let of_first = &record.excess[0];
            let full = of_first.burst as f64 * of_first.per_unit as f64;
            worse(worst, of_first.ticks as f64 / full * 100.0);
        }
    }
    Ok(format!("{:.1}; {:.1}", worst[0], worst[1]))
}

fn page_loads(bench: &mut Bench, nodes: usize, size: u64) -> Result<String, String> {
    let mut scenario = Scenario::new(nodes, Allowed::balanced(20, 1, SECOND), 1);
    let loads = if nodes > 10 { 20 } else { 100 };
    scenario.arrivals =
        Workload::new(9).page_loads(nodes, size, 30 * SECOND, loads * 30 * SECOND).done();
    scenario.inspect_every_ns = SECOND;
    let report = bench.simulate(&scenario)?;
    Ok(format!(
        "{:.1} %; {:.0} %; {:.1}/{:.1}",
        report.utilisation_percent, report.held_percent, report.wait_p50_ms, report.wait_p99_ms
    ))
}

fn minute_bursts(bench: &mut Bench, nodes: usize) -> Result<String, String> {
    let mut scenario = Scenario::new(nodes, Allowed::balanced(100, 100, 60 * SECOND), 1);
    let loads = if nodes > 10 { 10 } else { 60 };
    scenario.arrivals =
        Workload::new(9).page_loads(nodes, 30, 60 * SECOND, loads * 60 * SECOND).done();
    scenario.inspect_every_ns = SECOND;
    Ok(format!("{:.1} %", bench.simulate(&scenario)?.utilisation_percent))
}

fn small(bench: &mut Bench, nodes: usize, allowed: Allowed) -> Result<String, String> {
    let per_s = allowed.rate.count as f64 * SECOND as f64 / allowed.rate.period_ns as f64;
    let for_s = if per_s < 1.0 { 20_000.0 } else { (4000.0 / per_s).clamp(15.0, 200.0) };
    let spread = Spread::all(nodes);
    let mut at = |times: f64, for_s: f64| {
        let for_s = seconds(for_s) / SECOND;
        let mut scenario = flow(nodes, allowed, 3, (&spread, per_s * times, for_s));
        scenario.inspect_every_ns = SECOND / 5;
        bench.simulate(&scenario)
    };
    let (within, above, flood) = (at(0.9, for_s)?, at(1.5, for_s)?, at(20.0, for_s / 5.0)?);
    let mut over = 0.0;
    for seed in 0..40 {
        let mut scenario = Scenario::new(nodes, allowed, seed);
        let mut workload = Workload::new(seed);
        (0..nodes).for_each(|node| workload.burst(node, 0, 3, 5 * SECOND, MS));
        scenario.arrivals = workload.done();
        worse(&mut over, bench.simulate(&scenario)?.excess_units);
    }
    Ok(format!(
        "{:.0} / {:.0} %; {:.0} %; {over:.0}",
        within.utilisation_percent, above.utilisation_percent, flood.excess_percent
    ))
}

fn logins(bench: &mut Bench, nodes: usize) -> Result<String, String> {
    let allowed = Allowed::balanced(5, 5, HOUR / 4);
    let mut over = 0.0;
    for seed in 1..=10 {
        let mut scenario = Scenario::new(nodes, allowed, seed);
        let mut workload = Workload::new(seed * 13 + 10);
        for minute in 0..30 {
            for node in 0..nodes {
                workload.burst(node, 0, 2, SECOND + minute * 60 * SECOND, MS);
            }
        }
        scenario.arrivals = workload.done();
        scenario.inspect_every_ns = SECOND;
        worse(&mut over, bench.simulate(&scenario)?.excess_units);
    }
    let (mut refused, mut asked) = (0, 0);
    for seed in 1..=4 {
        let mut scenario = Scenario::new(nodes, allowed, seed);
        let mut workload = Workload::new(seed * 13 + 11);
        // One honest login after another: 185 s at least, 485 s on average.
        let mut at_ns = SECOND;
        while at_ns < 20_000 * SECOND {
            at_ns += 185 * SECOND + workload.dice().below(600 * SECOND);
            let node = workload.dice().place(nodes);
            workload.one(at_ns, node, 0, 1);
        }
        scenario.arrivals = workload.done();
        scenario.inspect_every_ns = 10 * SECOND;
        asked += scenario.arrivals.len();
        refused += bench.simulate(&scenario)?.rejected;
    }
    Ok(format!("{over:.1}; {refused} of {asked}"))
}

fn large_costs(bench: &mut Bench, nodes: usize) -> Result<String, String> {
    let mut figures = Vec::new();
    for (cost, times) in [(200, 0.5), (400, 0.3)] {
        let mut scenario = Scenario::new(nodes, usual(), 1);
        let mut workload = Workload::new(10);
        workload.poisson(&Spread::all(nodes), Load::of(1000.0 * times), 0, 60 * SECOND);
        for turn in 0..28 {
            let node = workload.dice().place(nodes);
            workload.one((5 + 2 * turn) * SECOND, node, 0, cost);
        }
        scenario.arrivals = workload.done();
        let (record, report) = bench.record(&scenario)?;
        let costly = scenario.arrivals.iter().zip(&record.outcomes).filter(|(a, _)| a.cost > 1);
        let admitted = costly.clone().filter(|(_, outcome)| outcome.allowed).count();
        figures.push(format!(
            "{admitted}/{}, {:.1}, {:.1} %",
            costly.count(),
            report.excess_percent,
            report.utilisation_percent
        ));
    }
    Ok(figures.join("; "))
}

fn far_peer(bench: &mut Bench, nodes: usize) -> Result<String, String> {
    let mut figures = Vec::new();
    for wait_ms in [5, 40] {
        let allowed = Allowed::balanced(20, 1, SECOND).held(wait_ms * MS);
        let mut scenario = Scenario::new(nodes, allowed, 1);
        let loads = if nodes > 10 { 20 } else { 100 };
        scenario.arrivals =
            Workload::new(9).page_loads(nodes - 1, 8, 30 * SECOND, loads * 30 * SECOND).done();
        for node in 0..nodes - 1 {
            scenario.lines.delay_ns[node][nodes - 1] = 11 * MS;
            scenario.lines.delay_ns[nodes - 1][node] = 11 * MS;
        }
        scenario.inspect_every_ns = SECOND;
        figures.push(format!("{:.0} %", bench.simulate(&scenario)?.utilisation_percent));
    }
    Ok(figures.join(" / "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exact::Exact;

    #[test]
    fn a_login_bucket_refills_in_a_quarter_of_an_hour() {
        let allowed = Allowed::balanced(5, 5, HOUR / 4);
        let bucket = Exact::bucket(allowed.burst, allowed.rate);
        assert_eq!(bucket.coming(0, 0, allowed.window_ns()), bucket.full());
    }
}
