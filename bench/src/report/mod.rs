//! What a load came to: every run, the medians over runs, and the ratios between servers.

mod statistics;
mod table;
mod text;

use serde::Serialize;

pub(crate) use statistics::median;
pub(crate) use table::{Table, decimals};

use crate::cli::LoadOptions;
use crate::driver::{Tally, Times};
use crate::failure::Failure;
use crate::keys::KEY_BYTES;
use crate::load::{Cell, FloorResult, Memory};
use crate::pin::Pins;
use crate::procfs::Machine;
use crate::server::Limit;

const NS_PER_US: f64 = 1e3;
const NS_PER_S: f64 = 1e9;

/// A whole load.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// Version of the bench.
    pub(crate) version: &'static str,
    /// Where it was measured.
    pub(crate) machine: Machine,
    /// How.
    pub(crate) method: Method,
    /// What was measured: the node, and redis after it.
    pub(crate) subjects: Vec<Subject>,
    /// Each cell.
    pub(crate) cells: Vec<CellReport>,
    /// Each floor, if they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) floors: Vec<FloorResult>,
}

/// How a load was measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Method {
    /// Repetitions.
    pub(crate) runs: u64,
    /// Seconds of each.
    pub(crate) seconds: f64,
    /// Seconds before each.
    pub(crate) warmup_seconds: f64,
    /// Distinct keys.
    pub(crate) keys: u64,
    /// Bytes of each key.
    pub(crate) key_bytes: usize,
    /// Exponent of Zipf's law; none: uniform.
    pub(crate) zipf: Option<f64>,
    /// Checks in a second of an open loop; none: closed loop.
    pub(crate) checks_per_s: Option<u64>,
    /// Threads of the generator.
    pub(crate) threads: u64,
    /// Where servers and generator ran; none: anywhere.
    pub(crate) pins: Option<Pins>,
    /// The bucket of every key; none: as the node that ran already has it.
    pub(crate) limit: Option<Limit>,
}

/// A server.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Subject {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its version.
    pub(crate) version: String,
    /// What the keys took; none if they were not made beforehand, or its process is not known.
    pub(crate) memory: Option<Memory>,
}

impl Report {
    /// A report without cells.
    pub(crate) fn new(options: &LoadOptions, pins: Option<Pins>, subjects: Vec<Subject>) -> Self {
        let method = Method {
            runs: options.runs,
            seconds: options.duration.as_secs_f64(),
            warmup_seconds: options.warmup.as_secs_f64(),
            keys: options.keys,
            key_bytes: KEY_BYTES,
            zipf: options.zipf,
            checks_per_s: options.rate,
            threads: options.threads,
            pins,
            limit: options.addr.is_none().then_some(Limit::OF_LOAD),
        };
        Self {
            version: env!("CARGO_PKG_VERSION"),
            machine: Machine::this(),
            method,
            subjects,
            cells: Vec::new(),
            floors: Vec::new(),
        }
    }

    /// The report as JSON.
    pub(crate) fn to_json(&self) -> Result<String, Failure> {
        to_json(self)
    }
}

/// `report` as JSON for people.
pub(crate) fn to_json(report: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(report).map_err(|error| Failure::because("no JSON", error))
}

/// A cell with what was measured in it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CellReport {
    /// What was asked.
    #[serde(flatten)]
    pub(crate) cell: Cell,
    /// By server, as the subjects: the median of each figure over all runs.
    pub(crate) medians: Vec<Figures>,
    /// By server: each run.
    pub(crate) runs: Vec<Vec<Figures>>,
    /// The node's figures divided by those of redis.
    pub(crate) node_to_redis: Option<Ratios>,
}

impl CellReport {
    /// A cell and its runs by server.
    pub(crate) fn new(cell: Cell, runs: Vec<Vec<Figures>>) -> Self {
        let medians = runs.iter().map(|runs| Figures::median_of(runs)).collect();
        let node_to_redis = match runs.as_slice() {
            [node, redis] => Some(Ratios::median_of(node, redis)),
            _ => None,
        };
        Self { cell, medians, runs, node_to_redis }
    }

    /// The ratios between the node and redis, where both were measured.
    pub(crate) fn ratios(&self) -> Option<Ratios> {
        self.node_to_redis
    }
}

/// CPU time of both sides at one moment, or between two, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu {
    /// Of the server; none if its process is not known.
    pub(crate) server_ns: Option<u64>,
    /// Of this program.
    pub(crate) client_ns: u64,
}

impl Cpu {
    /// What was used since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        let server = self.server_ns.zip(before.server_ns);
        Self {
            server_ns: server.map(|(now, before)| now.saturating_sub(before)),
            client_ns: self.client_ns.saturating_sub(before.client_ns),
        }
    }
}

/// The figures of one run, or the medians of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Figures {
    /// Checks decided in a second.
    pub(crate) checks_per_s: f64,
    /// Latency of a question, in microseconds: half took no longer.
    pub(crate) p50_us: f64,
    /// Nine in ten took no longer.
    pub(crate) p90_us: f64,
    /// 99 in 100.
    pub(crate) p99_us: f64,
    /// 999 in 1,000.
    pub(crate) p999_us: f64,
    /// The longest.
    pub(crate) max_us: f64,
    /// CPU time of the server for each check, in microseconds; none if its process is not known.
    pub(crate) server_cpu_us: Option<f64>,
    /// CPU time of the generator for each check, in microseconds.
    pub(crate) client_cpu_us: f64,
    /// Checks denied.
    pub(crate) denied: f64,
    /// Checks answered with an error, or not at all.
    pub(crate) errors: f64,
    /// Open loop: how late 99 in 100 questions were sent, in microseconds: the generator woke late,
    /// or the window of every connection was full. It is part of the latency.
    pub(crate) late_p99_us: f64,
    /// Open loop: checks that were due and not sent by the end.
    pub(crate) unsent: f64,
}

impl Figures {
    /// The figures of a run that came to `tally` and used `cpu`.
    pub(crate) fn new(tally: &Tally, cpu: Cpu) -> Self {
        let decided = tally.decided().max(1) as f64;
        let by_check = |ns: u64| ns as f64 / NS_PER_US / decided;
        let us = |times: &Times, quantile| times.at(quantile) as f64 / NS_PER_US;
        let latency = &tally.latency;
        Self {
            checks_per_s: tally.decided() as f64 * NS_PER_S / tally.elapsed_ns.max(1) as f64,
            p50_us: us(latency, 0.5),
            p90_us: us(latency, 0.9),
            p99_us: us(latency, 0.99),
            p999_us: us(latency, 0.999),
            max_us: us(latency, 1.0),
            server_cpu_us: cpu.server_ns.map(by_check),
            client_cpu_us: by_check(cpu.client_ns),
            denied: tally.denied as f64,
            errors: (tally.failed + tally.lost) as f64,
            late_p99_us: us(&tally.lateness, 0.99),
            unsent: tally.unsent as f64,
        }
    }

    /// The median of each figure.
    fn median_of(runs: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| median(runs.iter().map(figure)).unwrap_or(0.0);
        Self {
            checks_per_s: of(|run| run.checks_per_s),
            p50_us: of(|run| run.p50_us),
            p90_us: of(|run| run.p90_us),
            p99_us: of(|run| run.p99_us),
            p999_us: of(|run| run.p999_us),
            max_us: of(|run| run.max_us),
            server_cpu_us: median(runs.iter().filter_map(|run| run.server_cpu_us)),
            client_cpu_us: of(|run| run.client_cpu_us),
            denied: of(|run| run.denied),
            errors: of(|run| run.errors),
            late_p99_us: of(|run| run.late_p99_us),
            unsent: of(|run| run.unsent),
        }
    }
}

/// One server's figures divided by another's: the median over the pairs of runs that were made one
/// after the other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Ratios {
    /// Checks in a second.
    pub(crate) checks_per_s: f64,
    /// Median latency.
    pub(crate) p50: f64,
    /// Latency that 99 in 100 do not exceed.
    pub(crate) p99: f64,
    /// CPU time of the server for each check; none if a process is not known.
    pub(crate) server_cpu: Option<f64>,
}

impl Ratios {
    fn median_of(runs: &[Figures], of_other: &[Figures]) -> Self {
        let pairs = || runs.iter().zip(of_other);
        let of = |figure: fn(&Figures) -> f64| {
            median(pairs().map(|(one, other)| figure(one) / figure(other))).unwrap_or(0.0)
        };
        let cpu =
            pairs().filter_map(|(one, other)| Some(one.server_cpu_us? / other.server_cpu_us?));
        Self {
            checks_per_s: of(|run| run.checks_per_s),
            p50: of(|run| run.p50_us),
            p99: of(|run| run.p99_us),
            server_cpu: median(cpu),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-9
    }

    #[test]
    fn figures_are_by_check_and_by_second() {
        let tally = Tally {
            allowed: 900,
            denied: 100,
            failed: 3,
            lost: 4,
            elapsed_ns: 500_000_000,
            ..Tally::new()
        };
        let cpu = Cpu { server_ns: Some(2_000_000), client_ns: 5_000_000 };
        let figures = Figures::new(&tally, cpu);
        assert!(close(figures.checks_per_s, 2000.0));
        assert!(close(figures.server_cpu_us.unwrap(), 2.0));
        assert!(close(figures.client_cpu_us, 5.0));
        assert!(close(figures.denied, 100.0) && close(figures.errors, 7.0));
    }

    #[test]
    fn a_run_without_an_answer_has_figures_too() {
        let figures = Figures::new(&Tally::new(), Cpu { server_ns: None, client_ns: 0 });
        assert!(close(figures.checks_per_s, 0.0) && close(figures.p50_us, 0.0));
        assert_eq!(figures.server_cpu_us, None);
    }

    #[test]
    fn cpu_is_counted_from_where_it_stood() {
        let before = Cpu { server_ns: Some(10), client_ns: 100 };
        let used = Cpu { server_ns: Some(15), client_ns: 130 }.since(before);
        assert_eq!((used.server_ns, used.client_ns), (Some(5), 30));
        assert_eq!(Cpu { server_ns: None, client_ns: 0 }.since(before).server_ns, None);
    }

    #[test]
    fn ratios_are_taken_pair_by_pair() {
        let run = |p50_us, checks_per_s| Figures { p50_us, checks_per_s, ..Figures::default() };
        // The machine was slow in the second pair, for both.
        let node = [run(10.0, 100.0), run(50.0, 20.0), run(10.0, 100.0)];
        let redis = [run(20.0, 50.0), run(100.0, 10.0), run(20.0, 50.0)];
        let ratios = Ratios::median_of(&node, &redis);
        assert!(close(ratios.p50, 0.5) && close(ratios.checks_per_s, 2.0));
        assert_eq!(ratios.server_cpu, None);
    }

    #[test]
    fn medians_are_taken_figure_by_figure() {
        let run = |p50_us, p99_us| Figures { p50_us, p99_us, ..Figures::default() };
        let median = Figures::median_of(&[run(1.0, 9.0), run(2.0, 8.0), run(3.0, 7.0)]);
        assert!(close(median.p50_us, 2.0) && close(median.p99_us, 8.0));
    }
}
