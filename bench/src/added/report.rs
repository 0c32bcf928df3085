//! What a measurement came to, in words and as JSON.

use std::fmt;

use serde::Serialize;

use super::bursts::{AT_ONCE, EVERY_NS};
use super::figures::{Bursts, Counts, Quantiles, Side, Spread, StageFigures};
use super::rate::{IDLE_PERMILLE_MIN, Look, RATE_DEMANDED};
use crate::cli::AddedOptions;
use crate::clock::NS_PER_MS;
use crate::failure::Failure;
use crate::procfs::Machine;
use crate::report::{self, Table, decimals};

/// What the check may add to the time that 99 in 100 requests do not exceed.
const ADDED_P99_MAX_US: f64 = 5_000.0;
const IDLE_PERCENT_MIN: f64 = IDLE_PERMILLE_MIN as f64 / 10.0;

/// What the check adds, under every circumstance.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Added {
    machine: Machine,
    rlnode: String,
    /// Name and version of the gateway.
    front: String,
    /// Of the node, by which the gateway asks it.
    door: &'static str,
    /// Requests in a second.
    rate: u64,
    /// The rates that were looked at to find it; none if it was given.
    looks: Vec<Look>,
    pairs: u64,
    phase_seconds: f64,
    connections: u64,
    keys: u64,
    stages: Vec<StageFigures>,
}

impl Added {
    /// Nothing yet, of these programs.
    pub(super) fn new(options: &AddedOptions, rlnode: &str, front: &str) -> Self {
        Self {
            machine: Machine::this(),
            rlnode: rlnode.to_owned(),
            front: front.to_owned(),
            door: options.front.door(options),
            rate: 0,
            looks: Vec::new(),
            pairs: options.pairs,
            phase_seconds: options.phase.as_secs_f64(),
            connections: options.connections,
            keys: options.keys,
            stages: Vec::new(),
        }
    }

    /// At this rate, found by `looks`.
    pub(super) fn set_rate(&mut self, rate: u64, looks: Vec<Look>) {
        (self.rate, self.looks) = (rate, looks);
    }

    /// With the figures of a further stage.
    pub(super) fn push(&mut self, stage: StageFigures) {
        self.stages.push(stage);
    }

    /// The check adds less to p99 than it may, in every stage: by the median over the pairs, and in all.
    pub(crate) fn holds(&self) -> bool {
        let is_below = |spread: &Spread| {
            spread.median_us < ADDED_P99_MAX_US && spread.in_all_us < ADDED_P99_MAX_US
        };
        !self.stages.is_empty() && self.stages.iter().all(|stage| is_below(&stage.added.p99))
    }

    /// As much of the machine was idle as the rate is to leave, in every stage.
    fn is_idle_enough(&self) -> bool {
        self.stages.iter().all(|stage| stage.with.idle_percent >= IDLE_PERCENT_MIN)
    }

    /// All of it as JSON.
    pub(crate) fn to_json(&self) -> Result<String, Failure> {
        report::to_json(self)
    }

    fn sides(&self) -> Table {
        let headings = [
            "under",
            "check",
            "p50 us",
            "p99 us",
            "p99.9 us",
            "max us",
            "passed",
            "429",
            "errors",
            "unsent",
            "late p99 us",
        ];
        let mut table = Table::new(2, &headings);
        self.each_side(|stage, check, side| {
            let Quantiles { p50_us, p99_us, p999_us, max_us } = side.times;
            let times = [p50_us, p99_us, p999_us, max_us].map(decimals);
            let counts = [side.passed, side.denied, side.errors, side.unsent];
            let counts = counts.map(|count| count.to_string());
            let names = [stage, check].map(str::to_owned);
            let late = decimals(side.late_p99_us);
            table.row(names.into_iter().chain(times).chain(counts).chain([late]).collect());
        });
        table
    }

    fn cpu(&self) -> Table {
        let headings = [
            "under",
            "check",
            "idle %",
            "node CPU %",
            "gateway CPU %",
            "peers CPU %",
            "bench CPU %",
        ];
        let mut table = Table::new(2, &headings);
        self.each_side(|stage, check, side| {
            let percents = [
                side.idle_percent,
                side.node_cpu_percent,
                side.front_cpu_percent,
                side.peers_cpu_percent,
                side.bench_cpu_percent,
            ];
            let names = [stage, check].map(str::to_owned);
            table.row(names.into_iter().chain(percents.map(decimals)).collect());
        });
        table
    }

    fn each_side(&self, mut of: impl FnMut(&str, &str, &Side)) {
        for stage in &self.stages {
            of(stage.stage.as_str(), "without", &stage.without);
            of(stage.stage.as_str(), "with", &stage.with);
        }
    }

    fn added(&self) -> Table {
        let headings = ["added by the check", "", "median us", "least us", "most us", "in all us"];
        let mut table = Table::new(2, &headings);
        for stage in &self.stages {
            let added = &stage.added;
            for (what, spread) in [("p50", added.p50), ("p99", added.p99), ("p99.9", added.p999)] {
                let Spread { median_us, least_us, most_us, in_all_us } = spread;
                let names = [stage.stage.as_str(), what].map(str::to_owned);
                let figures = [median_us, least_us, most_us, in_all_us].map(decimals);
                table.row(names.into_iter().chain(figures).collect());
            }
        }
        table
    }

    fn bursts(&self) -> Table {
        let headings = [
            "bursts",
            "asked",
            "passed",
            "429",
            "errors",
            "held",
            "p50 us",
            "p99 us",
            "held p50 us",
            "held p99 us",
        ];
        let mut table = Table::new(1, &headings);
        for stage in &self.stages {
            let Some(bursts) = &stage.bursts else { continue };
            let Bursts { asked, passed, denied, errors, held, .. } = *bursts;
            let counts = [asked, passed, denied, errors, held].map(|count| count.to_string());
            let of_held = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), decimals);
            let times = [
                decimals(bursts.p50_us),
                decimals(bursts.p99_us),
                of_held(bursts.held_p50_us),
                of_held(bursts.held_p99_us),
            ];
            let name = stage.stage.as_str().to_owned();
            table.row(std::iter::once(name).chain(counts).chain(times).collect());
        }
        table
    }

    fn counts(&self) -> Table {
        let headings = ["the node", "reaches", "splits", "holds", "connections accepted"];
        let mut table = Table::new(1, &headings);
        for stage in &self.stages {
            let Counts { held, reached, splits, accepted } = stage.counts;
            let counts = [reached as u64, splits, held, accepted].map(|count| count.to_string());
            let name = stage.stage.as_str().to_owned();
            table.row(std::iter::once(name).chain(counts).collect());
        }
        table
    }

    fn method(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rate, pairs, connections, keys, door, .. } = self;
        writeln!(f, "rlnode {} beside {} on {}", self.rlnode, self.front, self.machine)?;
        writeln!(
            f,
            "{rate} requests/s over {connections} connections about {keys} keys, {pairs} pairs of {} s \
             each without and with the check, which goes over {door}",
            self.phase_seconds
        )?;
        for Look { rate, idle_permille } in &self.looks {
            let idle_percent = *idle_permille as f64 / 10.0;
            writeln!(f, "looked for a rate: {rate} requests/s leave {idle_percent:.1} % idle")?;
        }
        Ok(())
    }
}

impl fmt::Display for Added {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.method(f)?;
        let mut tables = vec![self.added(), self.sides(), self.cpu(), self.counts()];
        if self.stages.iter().any(|stage| stage.bursts.is_some()) {
            tables.push(self.bursts());
        }
        for table in tables {
            writeln!(f, "\n{}", table.to_string().trim_end())?;
        }
        writeln!(
            f,
            "\nmedian, least, most: of the differences pair by pair; in all: of all phases together.\n\
             errors: answered otherwise, or passed because rlnode did not answer in the recipe's time.\n\
             bursts: {AT_ONCE} at once of a key never asked about, every {} ms; held: times that checks were\n\
             held for peers; held p50, p99: of as many of the slowest answers.",
            EVERY_NS / NS_PER_MS
        )?;
        if self.rate < RATE_DEMANDED {
            writeln!(f, "the rate is below the {RATE_DEMANDED} requests/s that are demanded")?;
        }
        if !self.is_idle_enough() {
            writeln!(
                f,
                "less than {IDLE_PERCENT_MIN:.0} % of the machine were idle: the figures have in them what \
                 else it did"
            )?;
        }
        let holds = if self.holds() { "yes" } else { "NO" };
        let ms = ADDED_P99_MAX_US / 1e3;
        write!(f, "the check adds less than {ms} ms to p99, also while a node is paused: {holds}")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::stage::Stage;
    use super::super::{FrontKind, Rate};
    use super::*;
    use crate::driver::Tally;
    use crate::server::Door;

    fn stage(stage: Stage, p99_us: f64) -> StageFigures {
        let mut figures = StageFigures::new(stage, &[]);
        figures.added.p99 =
            Spread { median_us: p99_us, least_us: 1.0, most_us: 9_999.0, in_all_us: p99_us };
        figures.with.idle_percent = 40.0;
        figures
    }

    fn added(stages: Vec<StageFigures>) -> Added {
        let options = AddedOptions {
            rate: Rate::Auto,
            stage: Vec::new(),
            pairs: 2,
            phase: Duration::from_secs(1),
            connections: 32,
            keys: 10,
            door: Door::Http,
            front: FrontKind::Nginx,
            nginx: None,
            envoy: None,
            rlnode: None,
            json: false,
        };
        let mut added = Added::new(&options, "1.0.0", "nginx/1.22.1");
        added.set_rate(RATE_DEMANDED, vec![Look { rate: RATE_DEMANDED, idle_permille: 412 }]);
        stages.into_iter().for_each(|stage| added.push(stage));
        added
    }

    #[test]
    fn it_holds_where_every_stage_stays_below_the_bound() {
        let good = added(vec![stage(Stage::Whole, 300.0), stage(Stage::OnePaused, 4_999.0)]);
        assert!(good.holds());
        let text = good.to_string();
        assert!(text.ends_with("while a node is paused: yes"), "{text}");
        assert!(text.contains("10000 requests/s leave 41.2 % idle"), "{text}");
        assert!(!text.contains("less than 30 %") && !text.contains("demanded"), "{text}");
        let bad = added(vec![stage(Stage::Whole, 300.0), stage(Stage::OnePaused, 5_000.0)]);
        assert!(!bad.holds() && bad.to_string().ends_with(": NO"));
        assert!(!added(Vec::new()).holds());
    }

    #[test]
    fn one_of_median_and_whole_is_not_enough() {
        let mut figures = stage(Stage::OnePaused, 300.0);
        figures.added.p99.in_all_us = 6_000.0;
        assert!(!added(vec![figures]).holds());
    }

    #[test]
    fn a_lower_rate_and_a_busy_machine_are_said() {
        let mut busy = stage(Stage::Whole, 300.0);
        busy.with.idle_percent = 29.0;
        let mut added = added(vec![busy]);
        added.set_rate(9_000, Vec::new());
        let text = added.to_string();
        assert!(text.contains("less than 30 % of the machine"), "{text}");
        assert!(text.contains("below the 10000 requests/s that are demanded"), "{text}");
    }

    #[test]
    fn bursts_have_a_line_where_there_were_any() {
        let tally = Tally { answered: 80, allowed: 78, denied: 2, ..Tally::new() };
        let bursts = Some(Bursts::new(&tally, 30));
        let counts = Counts { held: 30, reached: 3, splits: 0, accepted: 41 };
        let figures = StageFigures { bursts, counts, ..stage(Stage::Bursts, 300.0) };
        let text = added(vec![stage(Stage::Whole, 1.0), figures]).to_string();
        let rows: Vec<Vec<_>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        let expected = ["three", "nodes,", "bursts", "80", "78", "2", "0", "30"];
        assert!(rows.iter().any(|row| row.starts_with(&expected)), "{text}");
        let expected = ["three", "nodes,", "bursts", "3", "0", "30", "41"];
        assert!(rows.iter().any(|row| *row == expected), "{text}");
        let quiet = added(vec![stage(Stage::Whole, 1.0)]).to_string();
        assert!(!quiet.contains("held p99"), "{quiet}");
    }

    #[test]
    fn json_names_stages_and_figures() {
        let json = added(vec![stage(Stage::OnePaused, 300.0)]).to_json().unwrap();
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["stages"][0]["stage"], "one-paused");
        assert_eq!(value["stages"][0]["added"]["p99"]["median_us"], 300.0);
        assert_eq!(value["looks"][0]["idle_permille"], 412);
        assert_eq!(value["door"], "http");
    }
}
