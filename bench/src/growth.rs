//! `rlbench growth`: how long single checks take while a table grows, on the limiter itself.
//!
//! A check that meets a full table moves its entries to a larger one; the claim is that none takes
//! more than a millisecond of its thread's CPU time for that. Wall time is shown beside it and holds
//! nothing, since anything else on the machine adds to it.

use std::fmt;
use std::panic;
use std::thread;

use limiter::{Limit, Limiter, Plan, Quota, Rate, Request, StoreConfig, Unmatched, WhenFull};
use serde::Serialize;

use crate::cli::GrowthOptions;
use crate::clock;
use crate::driver::Times;
use crate::driver::codec::ENDPOINT;
use crate::failure::Failure;
use crate::keys::key_text;
use crate::procfs::Machine;
use crate::report::{self, Table, decimals};

/// Most CPU time that a check may take.
const CPU_NS_MAX: u64 = 1_000_000;
/// Memory for the tables: room for the most keys that can be asked for.
const MEMORY_BYTES: u64 = 8 << 30;
/// Upper ends of the classes that are shown, in microseconds.
const CLASSES_US: [u64; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
const NS_PER_US: u64 = 1000;
const NS_PER_HOUR: u64 = 3600 * clock::NS_PER_S;

/// What a growth came to.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Growth {
    machine: Machine,
    from: u64,
    to: u64,
    threads: u64,
    /// Entries at the end.
    entries: u64,
    table_bytes_before: u64,
    table_bytes_after: u64,
    /// CPU time of a check with both readings of the clocks, of the thread that made it.
    cpu: Spread,
    /// Wall time of the same.
    wall: Spread,
}

/// How times are spread.
#[derive(Clone, Debug, Serialize)]
struct Spread {
    p50_us: f64,
    p99_us: f64,
    p9999_us: f64,
    worst_us: f64,
    /// Checks that took longer than each end of [`CLASSES_US`].
    above: Vec<Above>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Above {
    us: u64,
    checks: u64,
}

impl Spread {
    fn of(times: &Times) -> Self {
        let us = |quantile| times.at(quantile) as f64 / NS_PER_US as f64;
        let above = |us: u64| Above { us, checks: times.above(us * NS_PER_US) };
        Self {
            p50_us: us(0.5),
            p99_us: us(0.99),
            p9999_us: us(0.9999),
            worst_us: us(1.0),
            above: CLASSES_US.map(above).into(),
        }
    }
}

/// The two times of every check.
struct Measured {
    cpu: Times,
    wall: Times,
}

/// Grows a table as `options` say.
///
/// # Errors
/// If the options make no sense together, or a thread cannot be pinned.
pub(crate) fn run(options: &GrowthOptions) -> Result<Growth, Failure> {
    let GrowthOptions { from, to, threads, .. } = *options;
    if from >= to {
        return Err(Failure::new(format!("`--from {from}` is not below `--to {to}`")));
    }
    if let Some(cpus) = &options.pin {
        cpus.pin_this_thread()?;
    }
    let limiter = limiter()?;
    for number in 0..from {
        check(&limiter, clock::now_ns(), number);
    }
    let table_bytes_before = limiter.usage().table_bytes;
    let measured = thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|at| {
                let limiter = &limiter;
                scope.spawn(move || grow(limiter, (from + at..to).step_by(step(threads))))
            })
            .collect();
        let joined = running.into_iter().map(thread::ScopedJoinHandle::join);
        let each = joined.map(|joined| joined.unwrap_or_else(|panic| panic::resume_unwind(panic)));
        each.fold(Measured { cpu: Times::new(), wall: Times::new() }, |mut sum, one| {
            sum.cpu.add(&one.cpu);
            sum.wall.add(&one.wall);
            sum
        })
    });
    let usage = limiter.usage();
    Ok(Growth {
        machine: Machine::this(),
        from,
        to,
        threads,
        entries: usage.entries,
        table_bytes_before,
        table_bytes_after: usage.table_bytes,
        cpu: Spread::of(&measured.cpu),
        wall: Spread::of(&measured.wall),
    })
}

fn step(threads: u64) -> usize {
    usize::try_from(threads).unwrap_or(usize::MAX)
}

fn limiter() -> Result<Limiter, Failure> {
    let rate = Rate { count: 1, period_ns: NS_PER_HOUR };
    limiter_of(Quota::TokenBucket { rate, burst: 100 }, MEMORY_BYTES)
}

/// A limiter of one limit, whose every checked key stays in the table if it takes an hour to come to rest.
pub(crate) fn limiter_of(quota: Quota, memory_bytes: u64) -> Result<Limiter, Failure> {
    let plan = Plan::compile(vec![Limit::new("per-key", quota)], Unmatched::Allow)
        .map_err(|error| Failure::because("the plan", error))?;
    let config = StoreConfig {
        memory_bytes,
        entries_max: None,
        when_full: WhenFull::Overflow,
        secret: *b"rlbench's secret",
    };
    Ok(Limiter::new(plan, config))
}

/// Checks new keys and measures each check. The end of one is the start of the next, so that nothing
/// falls between.
fn grow(limiter: &Limiter, numbers: impl Iterator<Item = u64>) -> Measured {
    let mut measured = Measured { cpu: Times::new(), wall: Times::new() };
    let (mut cpu_ns, mut wall_ns) = (clock::thread_cpu_ns(), clock::now_ns());
    for number in numbers {
        check(limiter, wall_ns, number);
        let (cpu_after_ns, wall_after_ns) = (clock::thread_cpu_ns(), clock::now_ns());
        measured.cpu.record(cpu_after_ns.saturating_sub(cpu_ns));
        measured.wall.record(wall_after_ns.saturating_sub(wall_ns));
        (cpu_ns, wall_ns) = (cpu_after_ns, wall_after_ns);
    }
    measured
}

fn check(limiter: &Limiter, now_ns: u64, number: u64) {
    let key = key_text(number);
    let decision = limiter.decide(now_ns, &Request::check(ENDPOINT.as_bytes(), &key));
    debug_assert!(decision.is_ok_and(|decision| decision.verdict.allowed), "a new key has room");
}

impl Growth {
    /// No check took more CPU time than it may, and every key is in the table.
    pub(crate) fn holds(&self) -> bool {
        self.entries == self.to && self.cpu.worst_us <= CPU_NS_MAX as f64 / NS_PER_US as f64
    }

    /// The growth as JSON.
    pub(crate) fn to_json(&self) -> Result<String, Failure> {
        report::to_json(self)
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const BYTES_PER_MIB: f64 = 1024.0 * 1024.0;
        let mib = |bytes: u64| bytes as f64 / BYTES_PER_MIB;
        writeln!(f, "the limiter on {}", self.machine)?;
        writeln!(
            f,
            "from {} to {} keys in {} thread(s); {} entries, tables {:.1} to {:.1} MiB\n",
            self.from,
            self.to,
            self.threads,
            self.entries,
            mib(self.table_bytes_before),
            mib(self.table_bytes_after),
        )?;
        let mut table =
            Table::new(1, &["time of a check", "p50 us", "p99 us", "p99.99 us", "worst us"]);
        for (name, spread) in [("CPU, of its thread", &self.cpu), ("wall", &self.wall)] {
            let times = [spread.p50_us, spread.p99_us, spread.p9999_us, spread.worst_us];
            let mut row = vec![name.to_owned()];
            row.extend(times.map(decimals));
            table.row(row);
        }
        writeln!(f, "{table}")?;
        let mut table = Table::new(1, &["checks above", "CPU", "wall"]);
        for (cpu, wall) in self.cpu.above.iter().zip(&self.wall.above) {
            let cells = [format!("{} us", cpu.us), cpu.checks.to_string(), wall.checks.to_string()];
            table.row(cells.into());
        }
        writeln!(f, "{table}")?;
        write!(
            f,
            "no check takes more than {} us of its thread's CPU time: {}",
            CPU_NS_MAX / NS_PER_US,
            if self.holds() { "holds" } else { "DOES NOT HOLD" }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_tells_quantiles_and_what_lies_above_each_class() {
        let mut times = Times::new();
        for us in [1, 3, 3, 2000] {
            times.record(us * NS_PER_US);
        }
        let spread = Spread::of(&times);
        assert!((spread.p50_us - 3.0).abs() < 0.01 && (spread.worst_us - 2000.0).abs() < 2.0);
        let above = |us| spread.above.iter().find(|above| above.us == us).unwrap().checks;
        assert_eq!((above(2), above(5), above(1000)), (3, 1, 1));
    }

    #[test]
    fn every_key_is_in_the_table_whatever_the_number_of_threads() {
        for threads in [1, 3] {
            let options = GrowthOptions { from: 100, to: 1000, threads, pin: None, json: false };
            let growth = run(&options).unwrap();
            assert_eq!(growth.entries, 1000);
            assert!(growth.table_bytes_after > growth.table_bytes_before);
        }
    }

    #[test]
    fn a_growth_that_does_not_grow_is_refused() {
        let options = GrowthOptions { from: 10, to: 10, threads: 1, pin: None, json: false };
        assert!(run(&options).unwrap_err().to_string().contains("`--from 10`"));
    }
}
