//! One run: a cell under load on a server, first to warm up and then to count.

use std::panic;
use std::thread;
use std::time::Duration;

use super::Cell;
use crate::cli::LoadOptions;
use crate::clock;
use crate::driver::{Driver, Endpoint, Shape, Tally, Until};
use crate::failure::Failure;
use crate::keys::Keys;
use crate::report::{Cpu, Figures};
use crate::server::Server;

/// Measures `cell` on `server`. `seed` decides the order of keys.
///
/// # Errors
/// If the server does not answer.
pub(super) fn measure(
    server: &Server,
    cell: &Cell,
    options: &LoadOptions,
    seed: u64,
) -> Result<Figures, Failure> {
    let endpoint = server.endpoint(cell.door).ok_or_else(|| {
        Failure::new(format!("{} was given without an address for `{}`", server.name, cell.door))
    })?;
    if let Some(cpus) = &cell.client_cpus {
        cpus.pin_this_thread()?;
    }
    let mut drivers = open(&endpoint, cell, options, seed)?;
    if !options.warmup.is_zero() {
        run_all(&mut drivers, options.warmup)?;
    }
    let cpu = || -> Result<Cpu, Failure> {
        Ok(Cpu { server_ns: server.cpu_ns()?, client_ns: clock::process_cpu_ns() })
    };
    let before = cpu()?;
    let tally = run_all(&mut drivers, options.duration)?;
    let used = cpu()?.since(before);
    Ok(Figures::new(&tally, used))
}

/// A driver for each thread, with its part of the connections, and of the rate if there is one.
fn open(
    endpoint: &Endpoint,
    cell: &Cell,
    options: &LoadOptions,
    seed: u64,
) -> Result<Vec<Driver>, Failure> {
    let threads = usize::try_from(options.threads).unwrap_or(1);
    let of_rate = |at: u64| options.rate.map(|rate| part(rate, options.threads, at).max(1));
    (0..options.threads)
        .map(|at| {
            let index = usize::try_from(at).unwrap_or(0);
            let connections =
                cell.connections / threads + usize::from(index < cell.connections % threads);
            let shape = Shape {
                connections,
                window: cell.window,
                checks: cell.batch,
                checks_per_s: of_rate(at),
            };
            let seed = seed * options.threads + at;
            let keys = match options.zipf {
                Some(exponent) => Keys::zipf(options.keys, exponent, seed),
                None => Keys::uniform(options.keys, seed),
            };
            Driver::open(endpoint, shape, keys)
        })
        .collect()
}

/// The part number `at` of `whole` in `parts`, which add up to it.
fn part(whole: u64, parts: u64, at: u64) -> u64 {
    whole / parts + u64::from(at < whole % parts)
}

/// Runs every driver for `time`: one in this thread, several in one thread each.
fn run_all(drivers: &mut [Driver], time: Duration) -> Result<Tally, Failure> {
    let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let until = Until::Time(clock::now_ns().saturating_add(time_ns));
    if let [driver] = drivers {
        return driver.run(until);
    }
    let tallies: Vec<Result<Tally, Failure>> = thread::scope(|scope| {
        let running: Vec<_> =
            drivers.iter_mut().map(|driver| scope.spawn(move || driver.run(until))).collect();
        let joined = running.into_iter().map(thread::ScopedJoinHandle::join);
        joined.map(|tally| tally.unwrap_or_else(|panic| panic::resume_unwind(panic))).collect()
    });
    let mut sum = Tally::new();
    for tally in tallies {
        sum.add(&tally?);
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_the_whole() {
        for (whole, parts) in [(10, 3), (2, 4), (7, 7), (0, 2)] {
            let sum: u64 = (0..parts).map(|at| part(whole, parts, at)).sum();
            assert_eq!(sum, whole);
        }
        assert_eq!((part(10, 3, 0), part(10, 3, 2)), (4, 3));
    }
}
