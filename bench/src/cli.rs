//! The command line: what each option means, and between which bounds it lies.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use sim::Algorithm;

use crate::abuse::AbuseOptions;
use crate::added::{FrontKind, Rate, Stage};
use crate::keys::KEYS_MAX;
use crate::overshoot::OvershootOptions;
use crate::pin::{CpuList, Pins};
use crate::server::{Door, GivenNode};

/// Most checks in one frame: what the issue of figures is about, and well below a frame's bound.
const BATCH_MAX: u64 = 64;
/// Most connections: what a node takes without raising its limits.
const CONNECTIONS_MAX: u64 = 1024;
/// Most questions in flight on a connection: beyond this only queues grow.
const WINDOW_MAX: u64 = 256;
/// Most threads of the load generator.
const THREADS_MAX: u64 = 64;
/// Most checks in a second of an open loop.
const RATE_MAX: u64 = 1_000_000_000;
/// Most repetitions.
const RUNS_MAX: u64 = 99;
/// Longest duration or warm-up.
const DURATION_MAX: Duration = Duration::from_secs(3600);
/// Largest exponent of Zipf's law: beyond it there is one key.
const ZIPF_MAX: f64 = 5.0;
/// Most keys of a growth or a flood.
const MANY_KEYS_MAX: u64 = 100_000_000;
/// Most questions in a second of which each answer is kept, and the rate of their limit: as much as
/// five threads of one machine ask in time.
const ASKED_MAX: u64 = 100_000;
/// Longest time in which each answer is kept, in seconds: 6 million answers of 32 bytes.
const HOLD_SECONDS_MAX: u64 = 60;
/// Largest burst that is held: a sixth of the most that is asked.
const HELD_BURST_MAX: u64 = 1_000_000;

/// Most peers of an exchange: a cluster has 64 members, the sender among them.
const PEERS_MAX: u64 = 63;
/// Most keys in motion: what the memory of a member of the bench has room for.
const KEYS_IN_MOTION_MAX: u64 = 1_000_000;
/// Most pairs of phases.
const PAIRS_MAX: u64 = 1_000;
/// Most connections to a gateway: with as many to the node they fit into what a process may open.
const FRONT_CONNECTIONS_MAX: u64 = 256;
/// Times that a node takes for `sync_interval`.
const SYNC_INTERVAL: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(10);

/// Load against a real rlnode, and beside redis.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100)]
pub(crate) struct Cli {
    /// What to measure.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Checks over a node's doors: checks/s, latency, CPU per check, memory per key
    Load(Box<LoadOptions>),
    /// The longest check while a table grows: CPU time and wall time of each
    Growth(GrowthOptions),
    /// What a key takes under each algorithm: bytes of the tables and of the process
    Memory(MemoryOptions),
    /// A flood of new keys into a node of bounded memory: does each promise hold?
    Flood(FloodOptions),
    /// One key asked over every door at once: does more pass in any window than its limit lets pass?
    Hold(HoldOptions),
    /// One limit on several nodes, asked in many ways and under trouble: how much more passes than may,
    /// and how much less
    Overshoot(Box<OvershootOptions>),
    /// The exchange between nodes: its bytes and CPU, and how long until peers know of a spend
    Sync(SyncOptions),
    /// The time that asking a node adds to a request through a real nginx or Envoy
    Added(AddedOptions),
    /// Idle connections and garbage at one door at a time: what they cost a client that behaves well
    Abuse(AbuseOptions),
    /// One algorithm of `memory`, in a process of its own, which starts it
    #[command(hide = true)]
    MemoryOf(MemoryOfOptions),
    /// The peers of `sync`, in a process of their own, which starts it
    #[command(hide = true)]
    SyncPeers(SyncPeersOptions),
}

/// Options of `rlbench load`.
#[derive(Clone, Debug, Args)]
pub(crate) struct LoadOptions {
    /// Doors to ask through [default: all; with --addr its own]
    #[arg(long, value_delimiter = ',', value_name = "DOOR,...")]
    pub(crate) door: Vec<Door>,
    /// Checks in one frame, or commands in one pipeline of redis: 1 to 64
    #[arg(long, value_delimiter = ',', default_value = "1", value_name = "N,...",
          value_parser = clap::value_parser!(u64).range(1..=BATCH_MAX))]
    pub(crate) batch: Vec<u64>,
    /// Connections: 1 to 1024
    #[arg(long, default_value_t = 1, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=CONNECTIONS_MAX))]
    pub(crate) connections: u64,
    /// Frames in flight on each connection: 1 to 256
    #[arg(long, default_value_t = 1, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=WINDOW_MAX))]
    pub(crate) window: u64,
    /// Threads of the load generator, which share the connections: 1 to 64
    #[arg(long, default_value_t = 1, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=THREADS_MAX))]
    pub(crate) threads: u64,
    /// Open loop: checks in a second, in all; latency counts from when a frame was due. Left out:
    /// closed loop, each answer asks the next frame
    #[arg(long, value_name = "CHECKS/S",
          value_parser = clap::value_parser!(u64).range(1..=RATE_MAX))]
    pub(crate) rate: Option<u64>,
    /// Distinct keys: 1 to 10000000
    #[arg(long, default_value_t = 1_000_000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=KEYS_MAX))]
    pub(crate) keys: u64,
    /// Choose keys by Zipf's law with this exponent, above 0 and up to 5. Left out: uniformly
    #[arg(long, value_name = "EXPONENT", value_parser = parse_zipf)]
    pub(crate) zipf: Option<f64>,
    /// How long each run is measured: up to 3600s
    #[arg(long, default_value = "5s", value_name = "TIME", value_parser = parse_some_duration)]
    pub(crate) duration: Duration,
    /// Load before each run that is not measured
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = parse_duration)]
    pub(crate) warmup: Duration,
    /// Repetitions, each of everything in turn; medians are reported: 1 to 99
    #[arg(long, default_value_t = 5, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=RUNS_MAX))]
    pub(crate) runs: u64,
    /// CPUs of the server and of this program, such as `0:1` or `0-3:4,5` [default: anywhere;
    /// with --floors 0:1]
    #[arg(long, value_name = "SERVER:CLIENT")]
    pub(crate) pin: Option<Pins>,
    /// Ask about every key once before the first run, and report the memory that each takes
    #[arg(long)]
    pub(crate) preload: bool,
    /// Every door with 1, 16 and 64 checks in a frame; implies --preload
    #[arg(long, conflicts_with_all = ["door", "batch", "addr"])]
    pub(crate) matrix: bool,
    /// The same load on redis, run by run in turn, and the ratios
    #[arg(long)]
    pub(crate) redis: bool,
    /// Hold the figures beside redis against the floors that the project set itself; implies --redis
    /// and --preload
    #[arg(long, conflicts_with_all = ["addr", "rate", "threads"])]
    pub(crate) floors: bool,
    /// A node that runs already: udp://HOST:PORT, unix://PATH, seqpacket://PATH, http://HOST:PORT or
    /// http-unix://PATH. Left out: one is started
    #[arg(long, value_name = "ADDRESS", conflicts_with = "door")]
    pub(crate) addr: Option<GivenNode>,
    /// Process of that node, for its CPU and memory
    #[arg(long, value_name = "PID", requires = "addr",
          value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: Option<i32>,
    /// The node's program [default: `rlnode` beside this program]
    #[arg(long, value_name = "PATH", conflicts_with = "addr")]
    pub(crate) rlnode: Option<PathBuf>,
    /// The program of redis
    #[arg(long, value_name = "PATH", default_value = "redis-server")]
    pub(crate) redis_server: PathBuf,
    /// Print JSON, with every run
    #[arg(long)]
    pub(crate) json: bool,
}

impl LoadOptions {
    /// Redis is measured too.
    pub(crate) fn has_redis(&self) -> bool {
        self.redis || self.floors
    }

    /// Every key is made before the first run.
    pub(crate) fn has_preload(&self) -> bool {
        self.preload || self.matrix || self.floors
    }
}

/// Options of `rlbench growth`.
#[derive(Clone, Debug, Args)]
pub(crate) struct GrowthOptions {
    /// Keys in the table before anything is measured: up to 100000000
    #[arg(long, default_value_t = 1_000_000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(0..=MANY_KEYS_MAX))]
    pub(crate) from: u64,
    /// Keys in the table at the end
    #[arg(long, default_value_t = 4_000_000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=MANY_KEYS_MAX))]
    pub(crate) to: u64,
    /// Threads that check at the same time: 1 to 64
    #[arg(long, default_value_t = 1, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=THREADS_MAX))]
    pub(crate) threads: u64,
    /// CPUs to run on, such as `0` or `0-3` [default: anywhere]
    #[arg(long, value_name = "CPUS")]
    pub(crate) pin: Option<CpuList>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `rlbench memory`.
#[derive(Clone, Debug, Args)]
pub(crate) struct MemoryOptions {
    /// Keys in each table: up to 100000000
    #[arg(long, default_value_t = 1_000_000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=MANY_KEYS_MAX))]
    pub(crate) keys: u64,
    /// Algorithms [default: all of which an entry is different]
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", value_parser = parse_algorithm)]
    pub(crate) algorithm: Vec<Algorithm>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl MemoryOptions {
    /// The algorithms to measure: a leaky bucket is a token bucket in memory.
    pub(crate) fn algorithms(&self) -> &[Algorithm] {
        const ALL: [Algorithm; 4] = [
            Algorithm::TokenBucket,
            Algorithm::FixedWindow,
            Algorithm::SlidingWindow,
            Algorithm::SlidingLog,
        ];
        if self.algorithm.is_empty() { &ALL } else { &self.algorithm }
    }
}

/// Options of `rlbench memory-of`.
#[derive(Clone, Debug, Args)]
pub(crate) struct MemoryOfOptions {
    /// Algorithm
    #[arg(long, value_name = "NAME", value_parser = parse_algorithm)]
    pub(crate) algorithm: Algorithm,
    /// Keys
    #[arg(long, value_name = "N")]
    pub(crate) keys: u64,
}

/// Options of `rlbench flood`.
#[derive(Clone, Debug, Args)]
pub(crate) struct FloodOptions {
    /// Distinct keys of the flood: up to 100000000
    #[arg(long, default_value_t = 20_000_000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=MANY_KEYS_MAX))]
    pub(crate) keys: u64,
    /// Memory that the node may use for its tables, in MiB
    #[arg(long, default_value_t = 256, value_name = "MIB",
          value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(crate) memory_mib: u64,
    /// Seconds after which a key of the flood is at rest: 12 to 600. A node sweeps its tables once in
    /// ten seconds, so that entries are gone by twice this time
    #[arg(long, default_value_t = 15, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(12..=600))]
    pub(crate) rest_s: u64,
    /// CPUs of the node and of this program, such as `0:1` [default: anywhere]
    #[arg(long, value_name = "SERVER:CLIENT")]
    pub(crate) pin: Option<Pins>,
    /// The node's program [default: `rlnode` beside this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) rlnode: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `rlbench hold`.
#[derive(Clone, Debug, Args)]
pub(crate) struct HoldOptions {
    /// Units in a second that the limit lets pass: 1 to 100000
    #[arg(long, default_value_t = 200, value_name = "UNITS/S",
          value_parser = clap::value_parser!(u64).range(1..=ASKED_MAX))]
    pub(crate) rate: u64,
    /// Units that it lets pass at once: 1 to 1000000
    #[arg(long, default_value_t = 200, value_name = "UNITS",
          value_parser = clap::value_parser!(u64).range(1..=HELD_BURST_MAX))]
    pub(crate) burst: u64,
    /// How long it is asked, with a pause of 1.5 s in the middle: 3 to 60
    #[arg(long, default_value_t = 8, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(3..=HOLD_SECONDS_MAX))]
    pub(crate) seconds: u64,
    /// Questions in a second over all doors, whatever the answers are: 100 to 100000
    #[arg(long, default_value_t = 1000, value_name = "CHECKS/S",
          value_parser = clap::value_parser!(u64).range(100..=ASKED_MAX))]
    pub(crate) asked: u64,
    /// Draw what was seen into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// The node's program [default: `rlnode` beside this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) rlnode: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `rlbench sync`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SyncOptions {
    /// Peers that the sender has, each number in a measurement of its own: 1 to 63
    #[arg(long, value_delimiter = ',', default_value = "2,9", value_name = "N,...",
          value_parser = clap::value_parser!(u64).range(1..=PEERS_MAX))]
    pub(crate) peers: Vec<u64>,
    /// Keys of which a unit each is spent in every interval: 1 to 1000000
    #[arg(long, default_value_t = 10_000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=KEYS_IN_MOTION_MAX))]
    pub(crate) keys: u64,
    /// Time between two exchanges, the node's `sync_interval`: 10ms to 10s
    #[arg(long, default_value = "200ms", value_name = "TIME", value_parser = parse_interval)]
    pub(crate) interval: Duration,
    /// How long the cost is measured, and after it as long how soon spends arrive: up to 3600s
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = parse_some_duration)]
    pub(crate) duration: Duration,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `rlbench added`.
#[derive(Clone, Debug, Args)]
pub(crate) struct AddedOptions {
    /// Requests in a second, open loop: 200 to 1000000, or `auto`: the highest rate from 10000
    /// downwards that leaves 30 % of the machine idle
    #[arg(long, default_value = "auto", value_name = "REQUESTS/S")]
    pub(crate) rate: Rate,
    /// Stages, in their order: under which circumstances it is measured [default: all]
    #[arg(long, value_delimiter = ',', value_name = "STAGE,...")]
    pub(crate) stage: Vec<Stage>,
    /// Pairs of phases in each stage, one without and one with the check: 1 to 1000
    #[arg(long, default_value_t = 20, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=PAIRS_MAX))]
    pub(crate) pairs: u64,
    /// How long each phase lasts: up to 3600s
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = parse_some_duration)]
    pub(crate) phase: Duration,
    /// Connections to the gateway, for each of the two pages: 1 to 256
    #[arg(long, default_value_t = 32, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=FRONT_CONNECTIONS_MAX))]
    pub(crate) connections: u64,
    /// Distinct keys: 1 to 10000000
    #[arg(long, default_value_t = 10_000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=KEYS_MAX))]
    pub(crate) keys: u64,
    /// Door of the node that nginx asks at: http or http-unix
    #[arg(long, default_value = "http", value_name = "DOOR", value_parser = parse_http_door)]
    pub(crate) door: Door,
    /// The gateway that asks
    #[arg(long, default_value = "nginx", value_name = "GATEWAY")]
    pub(crate) front: FrontKind,
    /// The program of Envoy [default: `envoy` in PATH]
    #[arg(long, value_name = "PATH")]
    pub(crate) envoy: Option<PathBuf>,
    /// The program of nginx [default: `nginx` in PATH, or where packages put it]
    #[arg(long, value_name = "PATH")]
    pub(crate) nginx: Option<PathBuf>,
    /// The node's program [default: `rlnode` beside this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) rlnode: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl AddedOptions {
    /// The stages to measure.
    pub(crate) fn stages(&self) -> &[Stage] {
        if self.stage.is_empty() { &Stage::ALL } else { &self.stage }
    }
}

/// Options of `rlbench sync-peers`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SyncPeersOptions {
    /// Folder of the measurement
    #[arg(long, value_name = "PATH")]
    pub(crate) folder: PathBuf,
}

/// Reads the name of an algorithm.
pub(crate) fn parse_algorithm(text: &str) -> Result<Algorithm, String> {
    Algorithm::from_word(text).ok_or_else(|| {
        let all = Algorithm::ALL.map(Algorithm::as_str).join(", ");
        format!("there is no algorithm `{text}`; write one of {all}")
    })
}

/// Reads `500ms`, `5s` or `2m`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let fail = || {
        let most_s = DURATION_MAX.as_secs();
        format!("`{text}` is no time up to {most_s}s; write a whole number and ms, s or m")
    };
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(fail)?;
    let (digits, unit) = text.split_at(unit_at);
    let count: u32 = digits.parse().map_err(|_| fail())?;
    let unit = match unit {
        "ms" => Duration::from_millis(1),
        "s" => Duration::from_secs(1),
        "m" => Duration::from_secs(60),
        _ => return Err(fail()),
    };
    unit.checked_mul(count).filter(|duration| *duration <= DURATION_MAX).ok_or_else(fail)
}

/// Reads a time that is not zero: nothing can be measured in none.
fn parse_some_duration(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    if duration.is_zero() {
        Err(format!("`{text}` is no time; write 1ms or more"))
    } else {
        Ok(duration)
    }
}

/// Reads a time between two exchanges.
pub(crate) fn parse_interval(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    if SYNC_INTERVAL.contains(&duration) {
        Ok(duration)
    } else {
        Err(format!("`{text}` is no time between exchanges; write 10ms to 10s"))
    }
}

/// Reads a door that speaks HTTP.
fn parse_http_door(text: &str) -> Result<Door, String> {
    let doors = [Door::Http, Door::HttpUnix];
    let door = doors.into_iter().find(|door| door.as_str() == text);
    door.ok_or_else(|| {
        format!("`{text}` is no door that nginx asks at; write `http` or `http-unix`")
    })
}

fn parse_zipf(text: &str) -> Result<f64, String> {
    let exponent = text.parse::<f64>().ok().filter(|&e| e > 0.0 && e <= ZIPF_MAX);
    exponent.ok_or_else(|| format!("`{text}` is no exponent above 0 and up to {ZIPF_MAX}"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn load(arguments: &str) -> Result<LoadOptions, String> {
        let words = ["rlbench", "load"].into_iter().chain(arguments.split_whitespace());
        match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
            Command::Load(options) => Ok(*options),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        let options = load("").unwrap();
        assert_eq!(options.keys, 1_000_000);
        assert_eq!((options.connections, options.window, options.threads), (1, 1, 1));
        assert_eq!(options.batch, [1]);
        assert_eq!(options.duration, Duration::from_secs(5));
        assert!(!options.has_redis() && !options.has_preload());
    }

    #[test]
    fn numbers_are_taken_up_to_their_bounds_and_no_further() {
        for (option, least, most) in [
            ("--batch", 1, BATCH_MAX),
            ("--connections", 1, CONNECTIONS_MAX),
            ("--window", 1, WINDOW_MAX),
            ("--threads", 1, THREADS_MAX),
            ("--rate", 1, RATE_MAX),
            ("--keys", 1, KEYS_MAX),
            ("--runs", 1, RUNS_MAX),
        ] {
            assert!(load(&format!("{option} {least}")).is_ok(), "{option}");
            assert!(load(&format!("{option} {most}")).is_ok(), "{option}");
            assert!(load(&format!("{option} {}", least - 1)).is_err(), "{option}");
            assert!(load(&format!("{option} {}", most + 1)).is_err(), "{option}");
        }
    }

    #[test]
    fn lists_are_separated_by_commas() {
        let options = load("--door udp,http-unix --batch 1,16,64").unwrap();
        assert_eq!(options.door, [Door::Udp, Door::HttpUnix]);
        assert_eq!(options.batch, [1, 16, 64]);
        assert!(load("--batch 1,65").is_err());
        assert!(load("--door tcp").is_err());
    }

    #[test]
    fn times_are_whole_numbers_with_a_unit() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("3600s"), Ok(DURATION_MAX));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("0s"), Ok(Duration::ZERO));
        assert!(parse_some_duration("0s").unwrap_err().contains("`0s`"));
        for text in ["", "5", "s", "1.5s", "5 s", "-1s", "3601s", "61m", "99999999999s"] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn an_interval_is_what_a_node_takes() {
        assert_eq!(parse_interval("10ms"), Ok(Duration::from_millis(10)));
        assert_eq!(parse_interval("10s"), Ok(Duration::from_secs(10)));
        for text in ["9ms", "11s", "0s", "x"] {
            assert!(parse_interval(text).unwrap_err().contains(&format!("`{text}`")), "{text}");
        }
    }

    #[test]
    fn nginx_asks_at_a_door_that_speaks_http() {
        assert_eq!(parse_http_door("http"), Ok(Door::Http));
        assert_eq!(parse_http_door("http-unix"), Ok(Door::HttpUnix));
        for text in ["udp", "unix", "", "HTTP"] {
            assert!(parse_http_door(text).unwrap_err().contains(&format!("`{text}`")), "{text}");
        }
    }

    #[test]
    fn the_added_time_is_measured_as_demanded_unless_it_says_otherwise() {
        let added = |arguments: &str| {
            let words = ["rlbench", "added"].into_iter().chain(arguments.split_whitespace());
            match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
                Command::Added(options) => Ok(options),
                other => Err(format!("{other:?}")),
            }
        };
        let options = added("").unwrap();
        assert_eq!((options.rate, options.door), (Rate::Auto, Door::Http));
        assert_eq!((options.pairs, options.phase), (20, Duration::from_secs(1)));
        assert_eq!(options.stages(), Stage::ALL);
        let options = added("--stage denied,bursts-one-paused").unwrap();
        assert_eq!(options.stages(), [Stage::Denied, Stage::BurstsOnePaused]);
        let options = added("--rate 500 --pairs 1000 --connections 256 --door http-unix").unwrap();
        assert_eq!((options.rate, options.pairs), (Rate::Given(500), PAIRS_MAX));
        for arguments in [
            "--rate 199",
            "--pairs 0",
            "--pairs 1001",
            "--connections 257",
            "--door udp",
            "--phase 0s",
        ] {
            assert!(added(arguments).is_err(), "{arguments}");
        }
    }

    #[test]
    fn an_exponent_lies_above_zero_and_within_bounds() {
        assert_eq!(parse_zipf("0.99"), Ok(0.99));
        assert_eq!(parse_zipf("5"), Ok(5.0));
        for text in ["0", "-1", "5.1", "nan", "inf", "x"] {
            assert!(parse_zipf(text).is_err(), "{text}");
        }
    }

    #[test]
    fn options_that_exclude_each_other_are_refused_together() {
        for arguments in [
            "--matrix --door udp",
            "--matrix --addr udp://127.0.0.1:1",
            "--floors --rate 10",
            "--addr udp://127.0.0.1:1 --rlnode x",
            "--pid 1",
        ] {
            assert!(load(arguments).is_err(), "{arguments}");
        }
        let floors = load("--floors").unwrap();
        assert!(floors.has_redis() && floors.has_preload());
    }
}
