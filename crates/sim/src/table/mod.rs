//! The table of what the cluster must show, every line that a simulation can show: the figures of the
//! real code beside those of the float simulation that the method was designed with.

mod algorithms;
mod bursts;
mod faults;
mod slow;
mod steady;

use crate::record::Record;
use crate::report::{Report, simulate};
use crate::scenario::Scenario;

/// The sizes of clusters that the table has columns for.
pub const SIZES: [usize; 5] = [2, 3, 5, 10, 50];

/// Findings that are kept of one line.
const FINDINGS_MAX: usize = 5;

/// Makes the figures of a line for a cluster of so many nodes.
type Figure = fn(&mut Bench, usize) -> Result<String, String>;

/// A line of the table.
#[derive(Clone, Copy)]
struct Line {
    /// Number of the demand, and what it asks for.
    demand: &'static str,
    /// What the figures are.
    figures: &'static str,
    /// What the float simulation shows, by size; empty: was not run.
    reference: [&'static str; 5],
    /// Sizes that are run.
    sizes: &'static [usize],
    make: Figure,
}

/// Runs scenarios for a line and keeps what broke in them.
#[derive(Debug, Default)]
struct Bench {
    findings: Vec<String>,
}

impl Bench {
    fn simulate(&mut self, scenario: &Scenario) -> Result<Report, String> {
        Ok(self.record(scenario)?.1)
    }

    fn record(&mut self, scenario: &Scenario) -> Result<(Record, Report), String> {
        let (record, report) = simulate(scenario)?;
        let (nodes, seed) = (scenario.nodes, scenario.seed);
        let broken =
            record.broken.iter().map(|(at_ns, what)| format!("{} ms: {what}", at_ns / 1_000_000));
        let stuck = record.stuck.iter().map(|what| format!("at the end: {what}"));
        for what in broken.chain(stuck) {
            if self.findings.len() < FINDINGS_MAX {
                self.findings.push(format!("N = {nodes}, seed {seed}: {what}"));
            }
        }
        Ok((record, report))
    }
}

/// The word for the table that has a column for each algorithm, in the place of a demand's number.
const ALGORITHMS: &str = "algorithms";

/// Prints the lines whose demand begins with one of `demands` and a dot, and `algorithms` (all: none
/// given), for the `sizes` asked for, each as soon as it is known. Returns how many findings there were.
///
/// # Errors
/// Numbers that the limiter refuses.
pub fn print(
    demands: &[String],
    sizes: &[usize],
    mut say: impl FnMut(&str),
) -> Result<usize, String> {
    let has_algorithms = demands.is_empty() || demands.iter().any(|demand| demand == ALGORITHMS);
    let mut findings = 0;
    if demands.is_empty() || demands.iter().any(|demand| demand != ALGORITHMS) {
        findings += print_demands(demands, sizes, &mut say)?;
    }
    if has_algorithms {
        findings += algorithms::print(sizes, &mut say)?;
    }
    Ok(findings)
}

fn print_demands(
    demands: &[String],
    sizes: &[usize],
    say: &mut impl FnMut(&str),
) -> Result<usize, String> {
    say("| demand | figures | | N=2 | 3 | 5 | 10 | 50 |\n|---|---|---|---|---|---|---|---|");
    let mut findings = 0;
    for line in lines() {
        let number = line.demand.split('.').next().unwrap_or_default();
        if !demands.is_empty() && !demands.iter().any(|demand| demand == number) {
            continue;
        }
        let mut bench = Bench::default();
        let mut here = String::new();
        for size in SIZES {
            let is_run = line.sizes.contains(&size) && sizes.contains(&size);
            let figure = if is_run { (line.make)(&mut bench, size)? } else { String::new() };
            here += &format!(" {figure} |");
        }
        say(&format!("| {} | {} | here |{here}", line.demand, line.figures));
        let reference = line.reference.map(|figure| format!(" {figure} |")).concat();
        say(&format!("| | | reference |{reference}"));
        for finding in &bench.findings {
            say(&format!("BROKEN: {}: {finding}", line.demand));
        }
        findings += bench.findings.len();
    }
    Ok(findings)
}

fn lines() -> impl Iterator<Item = Line> {
    let all = [steady::LINES, bursts::LINES, faults::LINES, slow::LINES];
    let mut lines: Vec<Line> = all.concat();
    // In the order of the demands' numbers; lines of one demand stay in the order of their file.
    lines.sort_by_key(|line| {
        let number = line.demand.split('.').next().unwrap_or_default();
        number.parse::<u32>().unwrap_or(u32::MAX)
    });
    lines.into_iter()
}

/// The greater and the lesser of figures, for folding.
fn worse(worst: &mut f64, figure: f64) {
    *worst = worst.max(figure);
}

fn least(lowest: &mut f64, figure: f64) {
    *lowest = lowest.min(figure);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_demand_has_its_lines() {
        let numbers: Vec<u32> =
            lines().map(|line| line.demand.split('.').next().unwrap().parse().unwrap()).collect();
        assert!((1..=18).all(|number| numbers.contains(&number)), "{numbers:?}");
        assert!(numbers.is_sorted());
    }
}
