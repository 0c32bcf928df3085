//! `rlnode compare`: the same traffic through every algorithm, or yesterday's calls through tomorrow's
//! file.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use limiter::Rate;
use serde::Serialize;
use sim::compare::{Algorithm, NODES_MAX, Numbers, Setup, Traffic, compare, run_on_cluster};

use super::{Output, load_config};
use crate::compare::trace::Trace;
use crate::compare::{
    GRID, ReplayReport, Report, TraceReport, in_words, page, picture, replay, replay_in_words,
    run_trace,
};
use crate::config;
use crate::exit::Exit;

/// Most keys that are shown of a limit.
const TOP_MAX: u64 = 1_000;
/// The node for which a file is read unless one is named: its limits are the same on every node.
const NODE: &str = "compare";

/// Run the same traffic through every algorithm, or a log through the limits of a file
///
/// Every algorithm is the one that decides in a node, on virtual time. Without a trace the traffic is made
/// for one key. With --config it says who would have been denied if the calls of the trace had been made
/// under that file.
#[derive(Debug, Args)]
pub struct Compare {
    /// What calls are made: `steady`, `burst`, `window-edge`, `page-load` or `poisson`
    #[arg(long, value_name = "NAME", value_parser = parse_traffic, conflicts_with = "trace")]
    traffic: Option<Traffic>,
    /// Calls that were made: an access log, CSV with `time,key,endpoint,cost`, or JSON lines; `-` is
    /// standard input
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Who calls, in the trace: `address`, `user` or `agent` of an access log, else the name of a field
    #[arg(long, value_name = "FIELD", requires = "trace")]
    key: Option<String>,
    /// The limit, as a rate: `100/min`, `10/s`
    #[arg(long, value_name = "RATE", default_value = "100/min", value_parser = config::parse_rate)]
    limit: Rate,
    /// Capacity of the buckets [default: the count of the limit]
    #[arg(long, value_name = "UNITS", value_parser = clap::value_parser!(u64).range(1..))]
    burst: Option<u64>,
    /// Which algorithms, by a comma [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = parse_algorithm)]
    algorithms: Vec<Algorithm>,
    /// Decides when calls are made, and at which node
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Beside the exact node, a simulated cluster of so many nodes
    #[arg(long, value_name = "N", value_parser = parse_nodes, conflicts_with = "trace")]
    nodes: Option<usize>,
    /// A file whose limits the calls of the trace meet
    #[arg(
        long,
        value_name = "FILE",
        requires = "trace",
        conflicts_with_all = ["limit", "burst", "algorithms", "nodes", "seed", "svg", "html"]
    )]
    config: Option<PathBuf>,
    /// Name of the node that would read the file, where it has tables without which it is not valid
    #[arg(long, value_name = "NAME", requires = "config")]
    node: Option<String>,
    /// How many keys of each limit are shown with --config, those denied most first
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 5,
        requires = "config",
        value_parser = clap::value_parser!(u64).range(1..=TOP_MAX)
    )]
    top: u64,
    /// How it is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Draw it to a file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write a page to a file, with pictures for some limits and every traffic
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// How the answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Words and columns.
    Text,
    /// A JSON object.
    Json,
}

fn parse_traffic(text: &str) -> Result<Traffic, String> {
    Traffic::from_name(text)
        .ok_or_else(|| format!("write one of {}", names(Traffic::ALL.map(Traffic::name))))
}

fn parse_algorithm(text: &str) -> Result<Algorithm, String> {
    Algorithm::from_word(text)
        .ok_or_else(|| format!("write one of {}", names(Algorithm::ALL.map(Algorithm::as_str))))
}

fn names<const N: usize>(names: [&str; N]) -> String {
    names.map(|name| format!("`{name}`")).join(", ")
}

fn parse_nodes(text: &str) -> Result<usize, String> {
    let nodes = text.parse().ok().filter(|nodes| (2..=NODES_MAX).contains(nodes));
    nodes.ok_or_else(|| format!("give a number from 2 to {NODES_MAX}"))
}

impl Compare {
    /// Compares and prints.
    pub fn run(self, output: &mut Output<'_>) -> Exit {
        let told = match &self.config {
            Some(config) => self.replay(config),
            None => self.compare(),
        };
        match told {
            Ok(text) => {
                output.say(&text.trim_end());
                Exit::Success
            }
            Err((exit, why)) => {
                output.complain(&why);
                exit
            }
        }
    }

    fn compare(&self) -> Result<String, (Exit, String)> {
        let numbers = self.numbers(self.limit);
        let report = match &self.trace {
            Some(file) => self.of_trace(file, &numbers)?,
            None => {
                self.of_traffic(self.traffic.unwrap_or(Traffic::WindowEdge), numbers, self.nodes)?
            }
        };
        if let Some(file) = &self.svg {
            write(file, &picture(&report))?;
        }
        let text = match self.format {
            Format::Text => in_words(&report),
            Format::Json => json(&report)?,
        };
        if let Some(file) = &self.html {
            write(file, &page(&self.grid(report)?))?;
        }
        Ok(text)
    }

    fn numbers(&self, rate: Rate) -> Numbers {
        Numbers { rate, burst: self.burst.unwrap_or(rate.count) }
    }

    fn chosen(&self) -> Vec<Algorithm> {
        let is_all = self.algorithms.is_empty();
        let is_chosen = |it: &Algorithm| is_all || self.algorithms.contains(it);
        Algorithm::ALL.into_iter().filter(is_chosen).collect()
    }

    fn of_traffic(
        &self,
        traffic: Traffic,
        numbers: Numbers,
        nodes: Option<usize>,
    ) -> Result<Report, (Exit, String)> {
        let algorithms = self.chosen();
        let setup = Setup { numbers, traffic, seed: self.seed, algorithms };
        let found = compare(&setup).map_err(refused)?;
        let mut report = Report::new(traffic.name().to_owned(), &numbers, &found);
        report.seed = Some(self.seed);
        if let Some(nodes) = nodes {
            let run = |algorithm: &Algorithm| run_on_cluster(&setup, *algorithm, nodes);
            report.add_cluster(nodes, setup.algorithms.iter().map(run).collect());
        }
        Ok(report)
    }

    fn of_trace(&self, file: &Path, numbers: &Numbers) -> Result<Report, (Exit, String)> {
        let mut trace = self.open(file)?;
        let found =
            run_trace(&mut trace, numbers, &self.chosen()).map_err(|error| about(file, &error))?;
        let mut report = Report::new(name_of(file), numbers, &found);
        report.trace = Some(TraceReport::from(trace.counts()));
        Ok(report)
    }

    /// What the page shows: `report`, and if its traffic was made, every other traffic and limit.
    fn grid(&self, report: Report) -> Result<Vec<Report>, (Exit, String)> {
        let mut reports = Vec::new();
        if report.trace.is_none() {
            let mut rates = vec![self.limit];
            rates.extend(GRID.into_iter().filter(|rate| *rate != self.limit));
            for rate in rates {
                let numbers = if rate == self.limit {
                    self.numbers(rate)
                } else {
                    Numbers { rate, burst: rate.count }
                };
                for traffic in Traffic::ALL {
                    if rate != self.limit || traffic.name() != report.traffic {
                        reports.push(self.of_traffic(traffic, numbers, None)?);
                    }
                }
            }
        }
        reports.insert(0, report);
        Ok(reports)
    }

    fn replay(&self, file: &Path) -> Result<String, (Exit, String)> {
        let node = self.node.clone().unwrap_or_else(|| NODE.to_owned());
        let config = load_config(file, Some(node)).map_err(|why| (Exit::Refused, why))?;
        let Some(traffic) = &self.trace else {
            return Err((Exit::Error, "--config needs the calls of a --trace".to_owned()));
        };
        let mut trace = self.open(traffic)?;
        let replay = replay(&mut trace, config).map_err(|error| about(traffic, &error))?;
        let report = ReplayReport::new(
            file.display().to_string(),
            name_of(traffic),
            TraceReport::from(trace.counts()),
            &replay,
            usize::try_from(self.top).unwrap_or(usize::MAX),
        );
        match self.format {
            Format::Text => Ok(replay_in_words(&report)),
            Format::Json => json(&report),
        }
    }

    fn open(&self, file: &Path) -> Result<Trace<Box<dyn BufRead>>, (Exit, String)> {
        let reader: Box<dyn BufRead> = if file == Path::new("-") {
            Box::new(BufReader::new(io::stdin()))
        } else {
            Box::new(BufReader::new(File::open(file).map_err(|error| about(file, &error))?))
        };
        Ok(Trace::new(reader, self.key.clone()))
    }
}

/// What the trace in `file` is called.
fn name_of(file: &Path) -> String {
    if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() }
}

fn refused(why: String) -> (Exit, String) {
    (Exit::Error, why)
}

fn about(file: &Path, error: &io::Error) -> (Exit, String) {
    let file = file.display();
    let why = match error.kind() {
        io::ErrorKind::NotFound => "there is no such file; name another".to_owned(),
        io::ErrorKind::IsADirectory => "it is a folder; name a file in it".to_owned(),
        _ => error.to_string(),
    };
    (Exit::Error, format!("the trace `{file}` cannot be read: {why}"))
}

fn write(file: &Path, text: &str) -> Result<(), (Exit, String)> {
    fs::write(file, text)
        .map_err(|error| (Exit::Error, format!("`{}` cannot be written: {error}", file.display())))
}

fn json(report: &impl Serialize) -> Result<String, (Exit, String)> {
    serde_json::to_string_pretty(report).map_err(|error| (Exit::Error, error.to_string()))
}
