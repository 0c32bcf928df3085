//! `rlbench memory`: what a key takes under each algorithm, of the tables and of the whole process, beside
//! the plain state that it is: a word for when and one for how much, or the time of every unit.
//!
//! Each algorithm is measured in a process of its own that has nothing else in it: an allocator gives
//! little back.

use std::fmt;
use std::process::Command;

use limiter::{Limiter, Request};
use rustix::process::getpid;
use serde::{Deserialize, Serialize};
use sim::{Algorithm, Allowed};

use crate::cli::{MemoryOfOptions, MemoryOptions};
use crate::clock::NS_PER_S;
use crate::driver::codec::ENDPOINT;
use crate::failure::Failure;
use crate::growth::limiter_of;
use crate::keys::key_text;
use crate::procfs::{Machine, rss_bytes};
use crate::report::{self, Table, decimals};

/// Memory for the tables: room for the most keys that can be asked for.
const MEMORY_BYTES: u64 = 64 << 30;
/// Units that a key may use in an hour, and that each key of a log has used.
const LIMIT: u64 = 100;
const NS_PER_HOUR: u64 = 3600 * NS_PER_S;
/// Between two checks: those of one key lie all over the period.
const STEP_NS: u64 = 100;
/// Bytes of a level and its time, or of two counts.
const PLAIN_BYTES: u64 = 16;
/// Bytes of the time of a unit.
const TIME_BYTES: u64 = 8;

/// What the algorithms take.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Memory {
    machine: Machine,
    keys: u64,
    algorithms: Vec<OfAlgorithm>,
}

/// What one takes.
#[derive(Clone, Debug, Serialize)]
struct OfAlgorithm {
    algorithm: &'static str,
    /// Units that each key has used.
    units: u64,
    /// Bytes of the plain state of a key.
    plain_bytes_per_key: u64,
    /// Bytes of the tables by key, as the node counts them towards its cap.
    table_bytes_per_key: f64,
    /// Bytes that the process holds more than before the first key, by key.
    resident_bytes_per_key: f64,
    #[serde(flatten)]
    taken: Taken,
}

/// What a process told that has nothing else in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Taken {
    /// Entries in the tables.
    entries: u64,
    /// Bytes of the tables.
    table_bytes: u64,
    /// Bytes that the process holds more than before the first key.
    resident_bytes: u64,
}

/// Measures what `options` name.
///
/// # Errors
/// If a process of its own cannot be started, or fails.
pub(crate) fn run(options: &MemoryOptions) -> Result<Memory, Failure> {
    let keys = options.keys;
    let algorithms = options.algorithms().iter().map(|algorithm| {
        let taken = in_a_process(*algorithm, keys)?;
        let per_key = |bytes: u64| bytes as f64 / keys as f64;
        Ok(OfAlgorithm {
            algorithm: algorithm.as_str(),
            units: units(*algorithm),
            plain_bytes_per_key: plain_bytes(*algorithm),
            table_bytes_per_key: per_key(taken.table_bytes),
            resident_bytes_per_key: per_key(taken.resident_bytes),
            taken,
        })
    });
    let algorithms = algorithms.collect::<Result<_, Failure>>()?;
    Ok(Memory { machine: Machine::this(), keys, algorithms })
}

/// Measures one in a process of its own.
fn in_a_process(algorithm: Algorithm, keys: u64) -> Result<Taken, Failure> {
    let own = std::env::current_exe().map_err(|error| Failure::because("this program", error))?;
    let fail = |cause: String| {
        Failure::because(format!("cannot measure a `{}`", algorithm.as_str()), cause)
    };
    let ended = Command::new(own)
        .args(["memory-of", "--algorithm", algorithm.as_str(), "--keys", &keys.to_string()])
        .output()
        .map_err(|error| fail(error.to_string()))?;
    if !ended.status.success() {
        return Err(fail(String::from_utf8_lossy(&ended.stderr).trim().to_owned()));
    }
    serde_json::from_slice(&ended.stdout).map_err(|error| fail(error.to_string()))
}

/// Measures one in this process, and tells it as JSON.
///
/// # Errors
/// If the limit is refused, or the kernel does not tell what the process holds.
pub(crate) fn run_of(options: &MemoryOfOptions) -> Result<String, Failure> {
    report::to_json(&taken(options.algorithm, options.keys)?)
}

fn taken(algorithm: Algorithm, keys: u64) -> Result<Taken, Failure> {
    let limiter = limiter(algorithm)?;
    let before = rss_bytes(getpid())?;
    let mut now_ns = NS_PER_HOUR;
    for _ in 0..units(algorithm) {
        for number in 0..keys {
            let key = key_text(number);
            let decided = limiter.decide(now_ns, &Request::check(ENDPOINT.as_bytes(), &key));
            let is_allowed = decided.is_ok_and(|decision| decision.verdict.allowed);
            debug_assert!(is_allowed, "every key has room for its units");
            now_ns += STEP_NS;
        }
    }
    let usage = limiter.usage();
    let resident_bytes = rss_bytes(getpid())?.saturating_sub(before);
    Ok(Taken { entries: usage.entries, table_bytes: usage.table_bytes, resident_bytes })
}

fn limiter(algorithm: Algorithm) -> Result<Limiter, Failure> {
    let quota = Allowed::balanced(LIMIT, LIMIT, NS_PER_HOUR).by(algorithm).quota();
    limiter_of(quota, MEMORY_BYTES)
}

/// Units that each key has used: one makes an entry, and of a log every one takes memory.
fn units(algorithm: Algorithm) -> u64 {
    if algorithm == Algorithm::SlidingLog { LIMIT } else { 1 }
}

fn plain_bytes(algorithm: Algorithm) -> u64 {
    if algorithm == Algorithm::SlidingLog { LIMIT * TIME_BYTES } else { PLAIN_BYTES }
}

impl Memory {
    /// Every key is in its table.
    pub(crate) fn holds(&self) -> bool {
        self.algorithms.iter().all(|of| of.taken.entries == self.keys)
    }

    /// What they take as JSON.
    pub(crate) fn to_json(&self) -> Result<String, Failure> {
        report::to_json(self)
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the limiter on {}", self.machine)?;
        writeln!(f, "{} keys, each algorithm in a process of its own\n", self.keys)?;
        let headings = [
            "algorithm",
            "units a key",
            "plain B/key",
            "tables B/key",
            "resident B/key",
            "resident / plain",
            "resident MiB",
        ];
        let mut table = Table::new(1, &headings);
        for of in &self.algorithms {
            table.row(vec![
                of.algorithm.to_owned(),
                of.units.to_string(),
                of.plain_bytes_per_key.to_string(),
                decimals(of.table_bytes_per_key),
                decimals(of.resident_bytes_per_key),
                decimals(of.resident_bytes_per_key / of.plain_bytes_per_key as f64),
                decimals(of.taken.resident_bytes as f64 / (1 << 20) as f64),
            ]);
        }
        writeln!(f, "{table}")?;
        let all = if self.holds() { "holds" } else { "DOES NOT HOLD" };
        write!(f, "every key is in its table: {all}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_every_algorithm_is_in_its_table() {
        for algorithm in Algorithm::ALL {
            let taken = taken(algorithm, 500).unwrap();
            assert_eq!(taken.entries, 500, "{algorithm:?}");
            assert!(taken.table_bytes >= 500 * plain_bytes(algorithm), "{algorithm:?}: {taken:?}");
        }
    }

    #[test]
    fn what_a_process_tells_is_read_by_the_one_that_asked() {
        let options = MemoryOfOptions { algorithm: Algorithm::FixedWindow, keys: 10 };
        let told: Taken = serde_json::from_str(&run_of(&options).unwrap()).unwrap();
        assert_eq!(told.entries, 10);
    }

    #[test]
    fn a_key_that_is_not_in_its_table_is_told() {
        let taken = Taken { entries: 9, table_bytes: 900, resident_bytes: 1800 };
        let of = OfAlgorithm {
            algorithm: "sliding-log",
            units: 100,
            plain_bytes_per_key: 800,
            table_bytes_per_key: 90.0,
            resident_bytes_per_key: 180.0,
            taken,
        };
        let memory = Memory { machine: Machine::this(), keys: 10, algorithms: vec![of] };
        assert!(!memory.holds() && memory.to_string().contains("DOES NOT HOLD"));
        let json: serde_json::Value = serde_json::from_str(&memory.to_json().unwrap()).unwrap();
        assert_eq!(json["algorithms"][0]["resident_bytes_per_key"], 180.0);
        assert_eq!(json["algorithms"][0]["entries"], 9);
    }
}
