//! The same workloads under every algorithm, with the same numbers: what a cluster lets through above the
//! same algorithm in one exact place, and what of that it uses.
#![expect(clippy::float_arithmetic, reason = "figures for people")]

use limiter::Accuracy;

use super::faults::{cut, first, heal_and_burst};
use super::steady::{flow, usual};
use super::{Bench, least, worse};
use crate::attack::Family;
use crate::attack::finds::Finds;
use crate::blip::{Gone, blip};
use crate::clock::{MS, SECOND};
use crate::scenario::{Act, Algorithm, Allowed, Scenario, halves};
use crate::workload::{Load, Spread, Workload};

const HOUR: u64 = 3_600 * SECOND;

/// How far the wall clocks of every second node are ahead in the columns that say so, in ms.
const SKEW_MS: i64 = 250;

/// A column: an algorithm, on wall clocks that agree or do not.
#[derive(Clone, Copy)]
struct Column {
    algorithm: Algorithm,
    skew_ms: i64,
}

/// A line: a workload.
struct Row {
    name: &'static str,
    figures: &'static str,
    make: fn(&mut Bench, usize, Column) -> Result<String, String>,
}

impl Column {
    /// Every column.
    fn all() -> impl Iterator<Item = Self> {
        Algorithm::ALL.into_iter().flat_map(|algorithm| {
            let skews: &[i64] = if algorithm.has_windows() { &[0, SKEW_MS] } else { &[0] };
            skews.iter().map(move |skew_ms| Self { algorithm, skew_ms: *skew_ms })
        })
    }

    fn name(self) -> String {
        match self.skew_ms {
            0 => self.algorithm.as_str().to_owned(),
            ms => format!("{}, {ms} ms apart", self.algorithm.as_str()),
        }
    }

    /// `scenario` as it is in this column.
    fn of(self, scenario: Scenario) -> Scenario {
        let mut scenario = scenario.by(self.algorithm);
        for node in (1..scenario.nodes).step_by(2) {
            scenario.skew(node, self.skew_ms);
        }
        scenario
    }
}

const ROWS: &[Row] = &[
    Row { name: "0.95x: evenly, skewed, on one node", figures: EXCESS_AND_USE, make: within },
    Row { name: "1.5x: the same, and rotating", figures: EXCESS_AND_USE, make: above },
    Row { name: "20x", figures: EXCESS_AND_USE, make: flood },
    Row { name: "B on every node within 5 ms", figures: EXCESS_AND_USE, make: burst },
    Row {
        name: "B on every node in the 20 ms before an edge of windows, and in the 20 ms after it",
        figures: EXCESS_AND_USE,
        make: at_edge,
    },
    Row { name: "20 per s: 1.5x; 20x", figures: "use; excess in units", make: small },
    Row { name: "8 calls in 1 ms of 20 per 20 s", figures: "use", make: pages },
    Row {
        name: "5 per 15 min: two guesses on every node every minute",
        figures: "units over; use",
        make: guesses,
    },
    Row { name: "half/half cut of 30 s at 1.5x", figures: EXCESS_AND_USE, make: half_cut },
    Row { name: "20 cuts of 2 s at 1.5x", figures: EXCESS_AND_USE, make: twenty_cuts },
    Row { name: "1.5 B on all nodes after a heal", figures: EXCESS_AND_USE, make: after_heal },
    Row { name: "earned share, cut, two bursts", figures: EXCESS_AND_USE, make: earned_share },
    Row { name: "crash at 1.5x, back after 10 s", figures: EXCESS_AND_USE, make: crash },
    Row { name: "rolling restart at 1.5x", figures: EXCESS_AND_USE, make: rolling_restart },
    Row { name: "10 %; 30 % loss at 1.5x", figures: EXCESS_AND_USE, make: loss },
    Row {
        name: "100 per hour, 40 used, one node silent 2 s by pause, cut, crash, then the rest",
        figures: "units over; use; level error",
        make: blips,
    },
    Row {
        name: "attacks on the token bucket, undisturbed; disturbed",
        figures: "excess of B >= 100; units of smaller ones",
        make: finds,
    },
    Row {
        name: "leaving the queue, at 1.5x, at 20x, of a burst on every node",
        figures: "units above the rate and one; overtakes; longest delay in ms",
        make: queue,
    },
];

const EXCESS_AND_USE: &str = "excess in % of B; use in %";

/// Prints every line for each of `sizes`. Returns how many findings there were.
///
/// # Errors
/// Numbers that the limiter refuses.
pub(super) fn print(sizes: &[usize], say: &mut impl FnMut(&str)) -> Result<usize, String> {
    let names: Vec<String> = Column::all().map(Column::name).collect();
    say(&format!("| workload | figures | N | {} |", names.join(" | ")));
    say(&format!("|---|---|---|{}", "---|".repeat(names.len())));
    let mut findings = 0;
    for row in ROWS {
        for nodes in sizes {
            let (mut cells, mut broken) = (Vec::new(), Vec::new());
            for column in Column::all() {
                let mut bench = Bench::default();
                cells.push((row.make)(&mut bench, *nodes, column)?);
                let found = bench.findings.into_iter();
                broken.extend(found.map(|what| format!("{}: {}: {what}", row.name, column.name())));
            }
            say(&format!("| {} | {} | {nodes} | {} |", row.name, row.figures, cells.join(" | ")));
            broken.iter().for_each(|what| say(&format!("BROKEN: {what}")));
            findings += broken.len();
        }
    }
    Ok(findings)
}

/// The worst of some runs.
struct Worst {
    excess_percent: f64,
    excess_units: f64,
    use_percent: f64,
}

impl std::fmt::Display for Worst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1}; {:.1}", self.excess_percent, self.use_percent)
    }
}

fn worst(
    bench: &mut Bench,
    column: Column,
    scenarios: impl IntoIterator<Item = Scenario>,
) -> Result<Worst, String> {
    let mut worst = Worst { excess_percent: 0.0, excess_units: 0.0, use_percent: f64::INFINITY };
    for scenario in scenarios {
        let report = bench.simulate(&column.of(scenario))?;
        worse(&mut worst.excess_percent, report.excess_percent);
        worse(&mut worst.excess_units, report.excess_units);
        least(&mut worst.use_percent, report.utilisation_percent);
    }
    Ok(worst)
}

fn flows(nodes: usize, spreads: &[Spread], per_s: f64, for_s: u64) -> Vec<Scenario> {
    spreads.iter().map(|spread| flow(nodes, usual(), 1, (spread, per_s, for_s))).collect()
}

fn within(bench: &mut Bench, nodes: usize, column: Column) -> Result<String, String> {
    let spreads = [Spread::all(nodes), Spread::Zipf(nodes), Spread::one(0)];
    Ok(worst(bench, column, flows(nodes, &spreads, 950.0, 20))?.to_string())
}

fn above(bench: &mut Bench, nodes: usize, column: Column) -> Result<String, String> {
    let spreads =
        [Spread::all(nodes), Spread::Zipf(nodes), Spread::one(0), Spread::Rotating(nodes)];
    Ok(worst(bench, column, flows(nodes, &spreads, 1500.0, 30))?.to_string())
}

fn flood(bench: &mut Bench, nodes: usize, column: Column) -> Result<String, String> {
    Ok(worst(bench, column, flows(nodes, &[Spread::all(nodes)], 20_000.0, 12))?.to_string())
}

/// The whole burst on every node, from each of `at_ns` on within `within_ns`; by seed.
fn bursts(nodes: usize, at_ns: &[u64], within_ns: u64) -> Vec<Scenario> {
    let scenario = |seed| {
        let mut scenario = Scenario::new(nodes, usual(), seed);
        let mut workload = Workload::new(seed * 31);
        for at_ns in at_ns {
            (0..nodes).for_each(|node| workload.burst(node, 0, 1000, *at_ns, within_ns));
        }
        scenario.arrivals = workload.done();
        scenario.settle_ns = 2 * SECOND;
        scenario
    };
    (1..=10).map(scenario).collect()
}

fn burst(bench: &mut Bench, nodes: usize, column: Column) -> Result<String, String> {
    Ok(worst(bench, column, bursts(nodes, &[3 * SECOND + SECOND / 2], 5 * MS))?.to_string())
}

fn at_edge(bench: &mut Bench, nodes: usize, column: Column) -> Result<String, String> {
    let around_ns = [3 * SECOND - 20 * MS, 3 * SECOND];
    Ok(worst(bench, column, bursts(nodes, &around_ns, 20 * MS))?.to_string())
}

fn small(bench: &mut Bench, nodes: usize, column: Column) -> Result<String, String> {
    let allowed = Allowed::balanced(20, 20, SECOND);
    let mut at = |times: f64, for_s| {
        let scenario = flow(nodes, allowed, 3, (&Spread::all(nodes), 20.0 * times, for_s));
        worst(bench, column, [scenario])
    };
    let (above, flood) = (at(1.5, 200)?, at(20.0, 40)?);
    Ok(format!(
        "{:.1}; {:.1} / {:.1}; {:.1}",
        above.use_percent, above.excess_units, flood.use_percent, flood.excess_units
    ))
}

fn pages(bench: &mut Bench, nodes: usize, column: Column) -> Result<String, String> {
    let mut scenario = Scenario::new(nodes, Allowed::balanced(20, 1, SECOND), 1);
    scenario.arrivals = Workload::new(9).page_loads(nodes, 8, 30 * SECOND, 50 * 30 * SECOND).done();
    scenario.inspect_every_ns = SECOND;
    Ok(format!("{:.1}", worst(bench, column, [scenario])?.use_percent))
}

fn guesses(bench: &mut Bench, nodes: usize, column: Column) -> Result<String, String> {
    let scenario = |seed| {
        let mut scenario = Scenario::new(nodes, Allowed::balanced(5, 5, HOUR / 4), seed);
        let mut workload = Workload::new(seed * 13 + 10);
        for minute in 0..60 {
            for node in 0..nodes {
                workload.burst(node, 0, 2, SECOND + minute * 60 * SECOND, MS);
            }
        }
        scenario.arrivals = workload.done();
        scenario.inspect_every_ns = SECOND;
        scenario
    };
    let worst = worst(bench, column, (1..=5).map(scenario))?;
    Ok(format!("{:.1}; {:.1}", worst.excess_units, worst.use_percent))
}

fn half_cut(bench: &mut Bench, nodes: usize, column: Column) -> Result<String, String> {
    let mut scenario = flow(nodes, usual(), 1, (&Spread::all(nodes), 1500.0, 60));
    scenario.lines.cuts = vec![cut(20 * SECOND, 50 * SECOND, halves(nodes))];
    Ok(worst(bench, column, [scenario])?.to_string())
}

fn twenty_cuts(bench: &mut Bench, nodes: usize, column: Column) -> Result<String, String> {
    let mut scenario = flow(nodes, usual(), 1, (&Spread::all(nodes), 1500.0, 90));
    for turn in 0..20 {
        let from_ns = (5 + 4 * turn) * SECOND;
        scenario.lines.cuts.push(cut(from_ns, from_ns + 2 * SECOND, first(nodes)));
    }
    Ok(worst(bench, column, [scenario])?.to_string())
}

fn after_heal(bench: &mut Bench, nodes: usize, column: Column) -> Result<String, String> {
    Ok(worst(bench, column, heal_and_burst(nodes, 5))?.to_string())
}

fn earned_share(bench: &mut Bench, nodes: usize, column: Column) -> Result<String, String> {
    let scenario = |seed| {
        // A window of ten seconds that begins before the cut, and ends long after it.
        let mut scenario = Scenario::new(nodes, Allowed::balanced(1000, 100, SECOND), seed);
        scenario.lines.cuts = vec![cut(4 * SECOND, 6 * SECOND, first(nodes))];
        let mut workload = Workload::new(41 + seed);
        workload.poisson(&Spread::one(0), Load::of(95.0), SECOND, 4 * SECOND);
        workload.burst(0, 0, 1500, 4_010 * MS, 300 * MS);
        for node in 1..nodes {
            workload.burst(node, 0, 1500, 4_700 * MS, 100 * MS);
        }
        scenario.arrivals = workload.done();
        scenario
    };
    Ok(worst(bench, column, (0..5).map(scenario))?.to_string())
}

fn crash(bench: &mut Bench, nodes: usize, column: Column) -> Result<String, String> {
    let mut scenario = flow(nodes, usual(), 12, (&Spread::all(nodes), 1500.0, 40));
    scenario.script = vec![(20 * SECOND, Act::Crash(1)), (30 * SECOND, Act::Boot(1, 0))];
    Ok(worst(bench, column, [scenario])?.to_string())
}

fn rolling_restart(bench: &mut Bench, nodes: usize, column: Column) -> Result<String, String> {
    let load = (&Spread::all(nodes), 1500.0, 10 + 4 * nodes as u64);
    let mut scenario = flow(nodes, usual(), 8, load);
    for node in 0..nodes {
        let at_ns = (5 + 4 * node as u64) * SECOND;
        scenario.script.push((at_ns, Act::Leave(node)));
        scenario.script.push((at_ns + 2 * SECOND, Act::Boot(node, 0)));
    }
    Ok(worst(bench, column, [scenario])?.to_string())
}

fn loss(bench: &mut Bench, nodes: usize, column: Column) -> Result<String, String> {
    let mut figures = Vec::new();
    for loss_ppm in [100_000, 300_000] {
        let mut scenario = flow(nodes, usual(), 8, (&Spread::all(nodes), 1500.0, 30));
        scenario.lines.loss_ppm = loss_ppm;
        figures.push(worst(bench, column, [scenario])?.to_string());
    }
    Ok(figures.join(" / "))
}

fn blips(bench: &mut Bench, nodes: usize, column: Column) -> Result<String, String> {
    let (mut over, mut used, mut error) = (0.0, f64::INFINITY, 0.0);
    for gone in Gone::ALL {
        let scenario = blip(nodes, gone, 1, Allowed::balanced(100, 100, HOUR), 1);
        let report = bench.simulate(&column.of(scenario))?;
        worse(&mut over, report.excess_units);
        worse(&mut error, report.level_error());
        least(&mut used, report.utilisation_percent);
    }
    Ok(format!("{over:.1}; {used:.1}; {error:.2}"))
}

/// What was found against the token bucket with as many nodes, asked of this algorithm.
fn finds(bench: &mut Bench, nodes: usize, column: Column) -> Result<String, String> {
    if column.skew_ms != 0 {
        // Windows of attacks are shorter than clocks are apart here.
        return Ok("–".into());
    }
    let finds = Finds::committed()?;
    let mut figures = Vec::new();
    for family in Family::ALL {
        let (mut large, mut small) = (0.0, 0.0);
        let wanted = finds.finds.iter().filter(|find| {
            let aim = find.aim();
            (aim.nodes, aim.family, aim.accuracy) == (nodes, family, Accuracy::Balanced)
        });
        for find in wanted {
            let (record, _) = bench.record(&column.of(find.scenario()))?;
            let Some(excess) = record.excess.first() else { continue };
            match excess.burst {
                100.. => worse(&mut large, excess.permille() as f64 / 10.0),
                _ => worse(&mut small, excess.units() as f64),
            }
        }
        figures.push(format!("{large:.1} %, {small:.0}"));
    }
    Ok(figures.join("; "))
}

fn queue(bench: &mut Bench, nodes: usize, column: Column) -> Result<String, String> {
    if column.algorithm != Algorithm::LeakyQueue {
        return Ok("–".into());
    }
    let mut figures = Vec::new();
    let spread = [Spread::all(nodes)];
    for scenarios in [
        flows(nodes, &spread, 1500.0, 30),
        flows(nodes, &spread, 20_000.0, 12),
        bursts(nodes, &[3 * SECOND], 5 * MS),
    ] {
        let (mut units, mut overtakes, mut delay_ms) = (0.0, 0, 0.0);
        for scenario in scenarios {
            let report = bench.simulate(&column.of(scenario))?;
            worse(&mut units, report.departures_units);
            worse(&mut delay_ms, report.delay_max_ms);
            overtakes += report.overtakes;
        }
        figures.push(format!("{units:.1}, {overtakes}, {delay_ms:.0}"));
    }
    Ok(figures.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_has_a_column_and_windows_one_more() {
        let names: Vec<String> = Column::all().map(Column::name).collect();
        assert_eq!(names.len(), Algorithm::ALL.len() + 2);
        assert!(names.contains(&"sliding-window, 250 ms apart".to_owned()));
    }

    #[test]
    fn clocks_that_are_apart_are_those_of_every_second_node() {
        let column = Column { algorithm: Algorithm::FixedWindow, skew_ms: SKEW_MS };
        let scenario = column.of(Scenario::new(4, usual(), 1));
        let ahead: Vec<i64> = scenario.walls.iter().map(|wall| wall.ahead_ms).collect();
        assert_eq!(ahead, [0, 250, 0, 250]);
        assert_eq!(scenario.truth[0].algorithm, Algorithm::FixedWindow);
    }
}
