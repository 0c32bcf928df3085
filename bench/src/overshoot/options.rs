//! What the command line says of `rlbench overshoot`.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use limiter::LOG_MAX;
use serde::Serialize;
use sim::Algorithm;

use super::schedule::Brief;
use super::trouble::{Event, Trouble, Weather, parse_event, parse_share};
use super::workload::Workload;
use crate::cli::{parse_algorithm, parse_duration, parse_interval};
use crate::window::Bucket;

/// Most nodes that are started: two CPUs keep no more of them in time.
const MEMBERS_MAX: u64 = 16;
/// Highest rate of a limit, in units in a second.
const RATE_MAX: u64 = 100_000;
/// Largest burst: each node is sent all of it at once.
const BURST_MAX: u64 = 100_000;
/// Longest run: every answer is kept.
const SECONDS_MAX: u64 = 300;
/// Most repetitions.
const RUNS_MAX: u64 = 99;
/// Most checks in a second over all nodes.
const LOAD_MAX: u64 = 100_000;
/// Most checks of a run: every answer is kept, and two thirds of a gigabyte are enough for that.
const CHECKS_MAX: u64 = 10_000_000;
/// Longest endpoint or beginning of a key.
const NAME_BYTES_MAX: usize = 256;

/// Another way to hold a limit, asked the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Comparator {
    /// Nodes that know nothing of each other, each with its even part of the limit
    Static,
    /// One redis that every node asks
    Redis,
    /// rateguard 0.7, by the program `rateguard-node`
    Rateguard,
}

/// Options of `rlbench overshoot`.
#[derive(Clone, Debug, Args)]
pub(crate) struct OvershootOptions {
    /// How the nodes are asked
    #[arg(default_value = "steady", value_name = "WORKLOAD")]
    pub(crate) workload: Workload,
    /// How the limit counts: token-bucket, leaky-bucket, leaky-queue (the same, where calls wait their
    /// turn), fixed-window, sliding-window or sliding-log. Windows allow the burst, and are as long as
    /// that takes at the rate
    #[arg(long, default_value = "token-bucket", value_name = "NAME", value_parser = parse_algorithm)]
    pub(crate) algorithm: Algorithm,
    /// Nodes: 2 to 16
    #[arg(long, default_value_t = 3, value_name = "N", conflicts_with = "nodes",
          value_parser = clap::value_parser!(u64).range(2..=MEMBERS_MAX))]
    pub(crate) members: u64,
    /// Units in a second that the limit lets pass: 1 to 100000 [default: the workload's]
    #[arg(long, value_name = "UNITS/S",
          value_parser = clap::value_parser!(u64).range(1..=RATE_MAX))]
    pub(crate) rate: Option<u64>,
    /// Units that it lets pass at once: 1 to 100000 [default: the workload's]
    #[arg(long, value_name = "UNITS",
          value_parser = clap::value_parser!(u64).range(1..=BURST_MAX))]
    pub(crate) burst: Option<u64>,
    /// Checks in a second over all nodes, in multiples of the rate, such as 0.95, 1.5 or 20
    /// [default: the workload's]
    #[arg(long, value_name = "TIMES", value_parser = parse_permille)]
    pub(crate) load: Option<u64>,
    /// Length of a run: 1 to 300 [default: the workload's]
    #[arg(long, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    pub(crate) seconds: Option<u64>,
    /// Number from which the first run's schedule and trouble are drawn; each further run takes the
    /// next
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub(crate) seed: u64,
    /// Runs, each with a key and a schedule of its own: 1 to 99
    #[arg(long, default_value_t = 1, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=RUNS_MAX))]
    pub(crate) runs: u64,
    /// Time between two exchanges, the nodes' `sync_interval`: 10ms to 10s
    #[arg(long, default_value = "200ms", value_name = "TIME", value_parser = parse_interval)]
    pub(crate) interval: Duration,
    /// The same beside: limits held in other ways, on the same schedule
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", conflicts_with = "nodes")]
    pub(crate) beside: Vec<Comparator>,
    #[command(flatten)]
    pub(crate) trouble: TroubleOptions,
    /// Nodes of a cluster that runs already, by their UDP doors. `--rate` and `--burst` say what its
    /// limit is
    #[arg(long, value_delimiter = ',', value_name = "HOST:PORT,...", value_parser = parse_node,
          requires = "rate", requires = "burst",
          conflicts_with_all = ["delay", "jitter", "loss", "duplicate", "reorder", "kill", "pause", "cut"])]
    pub(crate) nodes: Vec<SocketAddr>,
    /// Endpoint that every check names
    #[arg(long, default_value = "GET /", value_name = "ENDPOINT", value_parser = parse_name)]
    pub(crate) endpoint: String,
    /// What every key begins with; what follows is different for each run
    #[arg(long, default_value = "overshoot-", value_name = "TEXT", value_parser = parse_name)]
    pub(crate) key: String,
    /// The node's program [default: `rlnode` beside this program]
    #[arg(long, value_name = "PATH", conflicts_with = "nodes")]
    pub(crate) rlnode: Option<PathBuf>,
    /// The program of redis
    #[arg(long, value_name = "PATH", default_value = "redis-server")]
    pub(crate) redis_server: PathBuf,
    /// The program that answers from rateguard [default: `rateguard-node` beside this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) rateguard: Option<PathBuf>,
    /// Draw what was seen in the first run into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Print JSON, with every run
    #[arg(long)]
    pub(crate) json: bool,
}

/// Trouble between the nodes and with them, for the nodes of ours only.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TroubleOptions {
    /// What every datagram between nodes takes more: up to 3600s
    #[arg(long, default_value = "0ms", value_name = "TIME", value_parser = parse_duration)]
    pub(crate) delay: Duration,
    /// At most so much more, different for each
    #[arg(long, default_value = "0ms", value_name = "TIME", value_parser = parse_duration)]
    pub(crate) jitter: Duration,
    /// Part of them that is lost, such as 10%
    #[arg(long, default_value = "0%", value_name = "PERCENT", value_parser = parse_share)]
    pub(crate) loss: u32,
    /// Part of them that arrives twice
    #[arg(long, default_value = "0%", value_name = "PERCENT", value_parser = parse_share)]
    pub(crate) duplicate: u32,
    /// Part of them that later ones overtake
    #[arg(long, default_value = "0%", value_name = "PERCENT", value_parser = parse_share)]
    pub(crate) reorder: u32,
    /// Kill a node (nodes are a, b, c, ...) and start it again, such as b@2s..4s
    #[arg(long, value_delimiter = ',', value_name = "NODE@FROM..TO", value_parser = parse_event)]
    pub(crate) kill: Vec<Event>,
    /// Halt a node for a while
    #[arg(long, value_delimiter = ',', value_name = "NODE@FROM..TO", value_parser = parse_event)]
    pub(crate) pause: Vec<Event>,
    /// Cut a node off from all others for a while; its own clients still reach it
    #[arg(long, value_delimiter = ',', value_name = "NODE@FROM..TO", value_parser = parse_event)]
    pub(crate) cut: Vec<Event>,
}

impl OvershootOptions {
    /// What schedules are drawn from.
    ///
    /// # Errors
    /// In words, if the options do not go together.
    pub(super) fn brief(&self) -> Result<Brief, String> {
        let defaults = self.workload.defaults();
        let members = match self.nodes.len() {
            0 => usize::try_from(self.members).unwrap_or(usize::MAX),
            given => given,
        };
        let limit = Bucket {
            per_s: self.rate.unwrap_or(defaults.rate),
            burst: self.burst.unwrap_or(defaults.burst),
        };
        self.check_algorithm(limit)?;
        let load_permille = match self.load {
            Some(_) if self.workload.has_own_load() => {
                let name = self.workload.as_str();
                return Err(format!("`{name}` asks for whole bursts; leave out --load"));
            }
            load => load.unwrap_or(defaults.load_permille),
        };
        let seconds = self.seconds.unwrap_or(defaults.seconds);
        let checks_per_s = limit.per_s.saturating_mul(load_permille) / 1000;
        if checks_per_s > LOAD_MAX {
            return Err(format!(
                "{checks_per_s} checks in a second are more than {LOAD_MAX}; lower --load or --rate"
            ));
        }
        let bursts = limit.burst * members as u64 * (seconds + 1);
        let sum =
            (checks_per_s * seconds).max(if self.workload.has_own_load() { bursts } else { 0 });
        if sum > CHECKS_MAX {
            return Err(format!(
                "a run of {sum} checks is too long, every answer is kept; at most {CHECKS_MAX}"
            ));
        }
        let (workload, algorithm) = (self.workload, self.algorithm);
        Ok(Brief { workload, members, algorithm, limit, load_permille, seconds })
    }

    /// Whether the limit can count so, and be compared.
    fn check_algorithm(&self, limit: Bucket) -> Result<(), String> {
        let name = self.algorithm.as_str();
        let Bucket { per_s, burst } = limit;
        if !self.algorithm.is_bucket() && !burst.saturating_mul(1000).is_multiple_of(per_s) {
            return Err(format!(
                "the windows of a `{name}` are whole milliseconds, and {burst} units at {per_s}/s take a \
                 part of one; change --rate or --burst"
            ));
        }
        if self.algorithm == Algorithm::SlidingLog && burst > LOG_MAX {
            return Err(format!(
                "a `{name}` allows at most {LOG_MAX} units, and not {burst}; lower --burst"
            ));
        }
        if self.algorithm != Algorithm::TokenBucket && !self.beside.is_empty() {
            return Err(format!("--beside compares token buckets; leave it out for a `{name}`"));
        }
        Ok(())
    }

    /// The trouble that is made.
    ///
    /// # Errors
    /// In words, if it is made for a node that there is not, or after the end.
    pub(super) fn trouble(&self, brief: &Brief) -> Result<Trouble, String> {
        let TroubleOptions { delay, jitter, loss, duplicate, reorder, .. } = self.trouble;
        let TroubleOptions { kill, pause, cut, .. } = &self.trouble;
        for event in [kill, pause, cut].into_iter().flatten() {
            if event.node >= brief.members {
                return Err(format!("there is no node `{}`", event.name()));
            }
            if event.to_ns > brief.seconds * crate::clock::NS_PER_S {
                return Err(format!("`{event}` ends after the run of {} s", brief.seconds));
            }
        }
        let weather = Weather {
            delay,
            jitter,
            loss_ppm: loss,
            duplicate_ppm: duplicate,
            reorder_ppm: reorder,
        };
        Ok(Trouble { weather, kill: kill.clone(), pause: pause.clone(), cut: cut.clone() })
    }
}

/// Reads a multiple such as `1.5` as thousandths.
fn parse_permille(text: &str) -> Result<u64, String> {
    let fail = || format!("`{text}` is no multiple from 0.001 to 100000, such as 0.95 or 20");
    let (whole, parts) = text.split_once('.').unwrap_or((text, ""));
    let is_plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_plain(whole) || !is_plain(parts) || parts.len() > 3 {
        return Err(fail());
    }
    let whole: u64 = whole.parse().map_err(|_| fail())?;
    let parts: u64 = format!("{parts:0<3}").parse().map_err(|_| fail())?;
    let permille = whole.checked_mul(1000).and_then(|whole| whole.checked_add(parts));
    permille.filter(|permille| (1..=100_000_000).contains(permille)).ok_or_else(fail)
}

fn parse_node(text: &str) -> Result<SocketAddr, String> {
    let fail = || format!("`{text}` is no UDP door of a node; write HOST:PORT");
    text.to_socket_addrs().ok().and_then(|mut found| found.next()).ok_or_else(fail)
}

fn parse_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > NAME_BYTES_MAX {
        return Err(format!("`{text}` has not 1 to {NAME_BYTES_MAX} bytes"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn overshoot(arguments: &str) -> Result<OvershootOptions, String> {
        let words = ["rlbench", "overshoot"].into_iter().chain(arguments.split_whitespace());
        match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
            Command::Overshoot(options) => Ok(*options),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_left_out_is_the_workloads() {
        let brief = overshoot("small --members 5").unwrap().brief().unwrap();
        assert_eq!((brief.limit, brief.members), (Bucket { per_s: 20, burst: 20 }, 5));
        let brief = overshoot("--load 20 --burst 7").unwrap().brief().unwrap();
        assert_eq!((brief.workload, brief.load_permille), (Workload::Steady, 20_000));
        assert_eq!(brief.limit, Bucket { per_s: 1000, burst: 7 });
    }

    #[test]
    fn numbers_are_taken_up_to_their_bounds_and_no_further() {
        for (option, least, most) in [
            ("--members", 2, MEMBERS_MAX),
            ("--rate", 1, RATE_MAX),
            ("--burst", 1, BURST_MAX),
            ("--seconds", 1, SECONDS_MAX),
            ("--runs", 1, RUNS_MAX),
        ] {
            assert!(overshoot(&format!("{option} {least}")).is_ok(), "{option}");
            assert!(overshoot(&format!("{option} {most}")).is_ok(), "{option}");
            assert!(overshoot(&format!("{option} {}", least - 1)).is_err(), "{option}");
            assert!(overshoot(&format!("{option} {}", most + 1)).is_err(), "{option}");
        }
    }

    #[test]
    fn a_load_is_a_multiple_to_three_places() {
        for (text, permille) in [("20", 20_000), ("0.95", 950), ("1.5", 1500), ("0.001", 1)] {
            assert_eq!(parse_permille(text), Ok(permille));
        }
        for text in ["", "0", "-1", "1.", ".5", "1.2345", "x", "100001", "99999999999999999999"] {
            let read = parse_permille(text);
            assert!(
                text == "1." || read.is_err_and(|e| e.contains(&format!("`{text}`"))),
                "{text}"
            );
        }
    }

    #[test]
    fn what_cannot_be_driven_or_kept_is_refused() {
        let error = |arguments: &str| overshoot(arguments).unwrap().brief().unwrap_err();
        assert!(error("--rate 100000 --load 20").contains("2000000 checks"));
        assert!(error("--rate 50000 --load 2 --seconds 300").contains("30000000"));
        assert!(error("burst --burst 100000 --members 16").contains("every answer is kept"));
        assert!(error("burst --load 2").contains("--load"));
    }

    #[test]
    fn a_limit_that_an_algorithm_cannot_hold_or_be_compared_by_is_refused() {
        let brief = |arguments: &str| overshoot(arguments).unwrap().brief();
        let log = "--algorithm sliding-log";
        assert_eq!(brief(log).unwrap().algorithm, Algorithm::SlidingLog);
        assert!(brief(&format!("{log} --burst 20000")).unwrap_err().contains("10000"));
        assert!(brief(&format!("{log} --rate 3000")).unwrap_err().contains("whole milliseconds"));
        assert!(brief(&format!("{log} --beside static")).unwrap_err().contains("--beside"));
        assert!(overshoot("--algorithm bucket").unwrap_err().contains("`bucket`"));
    }

    #[test]
    fn a_cluster_that_runs_already_is_asked_and_left_alone() {
        let given = "--nodes 127.0.0.1:7400,127.0.0.1:7401 --rate 10 --burst 20";
        assert_eq!(overshoot(given).unwrap().brief().unwrap().members, 2);
        for more in ["--kill a@1s..2s", "--loss 1%", "--beside redis", "--members 2"] {
            assert!(overshoot(&format!("{given} {more}")).is_err(), "{more}");
        }
        assert!(overshoot("--nodes 127.0.0.1:7400 --rate 10").is_err());
        assert!(overshoot("--nodes nowhere --rate 10 --burst 10").is_err());
    }

    #[test]
    fn trouble_is_for_nodes_that_there_are_and_within_the_run() {
        let trouble = |arguments: &str| {
            let options = overshoot(arguments).unwrap();
            options.trouble(&options.brief().unwrap())
        };
        let made = trouble("--kill b@2s..4s,c@1s..2s --delay 5ms --loss 10%").unwrap();
        assert_eq!((made.kill.len(), made.weather.loss_ppm), (2, 100_000));
        assert!(trouble("--kill d@2s..4s").unwrap_err().contains("`d`"));
        assert!(trouble("--cut a@2s..11s").unwrap_err().contains("10 s"));
    }
}
