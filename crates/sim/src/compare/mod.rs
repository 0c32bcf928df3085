//! The same traffic through every algorithm, on virtual time: what each lets through, when, and in how
//! much memory.
//!
//! Every algorithm is the real limiter with a plan of one limit, all of the same numbers. Nothing here
//! reads a file or draws a picture.

mod exact_node;
mod fleet;
mod judge;
mod lane;
mod memory;
mod numbers;
mod series;
#[cfg(test)]
mod tests;
mod traffic;

use limiter::Rate;

pub use exact_node::ExactNode;
pub use fleet::{DURATION_NS_MAX, FleetJudgement, NODES_MAX, run_on_cluster};
pub use judge::{Delays, Judgement, Worst};
pub use lane::{Call, Lane, MEASURED_KEYS_MAX};
pub use memory::Memory;
pub use numbers::Numbers;
pub use series::{SLOTS_MAX, Series, Slot};
pub use traffic::{LIMIT_MAX, Traffic};

pub use crate::scenario::Algorithm;
use crate::workload::Arrival;

/// What is compared.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The numbers that all algorithms have.
    pub numbers: Numbers,
    /// The traffic.
    pub traffic: Traffic,
    /// Where chance in the traffic comes from.
    pub seed: u64,
    /// The algorithms, in the order of the answer.
    pub algorithms: Vec<Algorithm>,
}

/// What a comparison found.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Unix time at which the traffic begins, in nanoseconds: a whole number of periods.
    pub start_unix_ns: u64,
    /// Time from there to the end of the traffic, in nanoseconds.
    pub duration_ns: u64,
    /// Calls that were made.
    pub calls: u64,
    /// What each algorithm did with them, or why it cannot have these numbers.
    pub lanes: Vec<(Algorithm, Result<Judgement, String>)>,
}

/// The key of all calls that are made here.
const KEY: &[u8] = b"client-1";

/// Runs the traffic of `setup` through each of its algorithms, each on one exact node.
///
/// # Errors
/// Numbers for which no traffic can be made; what to do is said. Numbers that one algorithm alone cannot
/// have are in its place of the answer.
pub fn compare(setup: &Setup) -> Result<Comparison, String> {
    let arrivals = setup.traffic.arrivals(&setup.numbers, setup.seed, 1)?;
    let start_unix_ns = start_unix_ns(setup.numbers.rate.period_ns);
    let numbers = &setup.numbers;
    let run = |algorithm: Algorithm| {
        let mut judgement = run(algorithm, numbers, start_unix_ns, &arrivals)?;
        judgement.memory = memory::measure(algorithm, numbers, start_unix_ns, &arrivals)?;
        Ok(judgement)
    };
    let lanes = setup.algorithms.iter().map(|algorithm| (*algorithm, run(*algorithm)));
    Ok(Comparison {
        start_unix_ns,
        duration_ns: setup.traffic.duration_ns(&setup.numbers),
        calls: arrivals.len() as u64,
        lanes: lanes.collect(),
    })
}

/// What one exact node with this algorithm does with `arrivals`.
fn run(
    algorithm: Algorithm,
    numbers: &Numbers,
    start_unix_ns: u64,
    arrivals: &[Arrival],
) -> Result<Judgement, String> {
    let slot_ns = slot_ns(numbers.rate);
    let mut lane = Lane::new(algorithm, numbers, start_unix_ns, slot_ns)?;
    for arrival in arrivals {
        let unix_ns = start_unix_ns.saturating_add(arrival.at_ns);
        let call = Call { unix_ns, key: KEY, cost: arrival.cost };
        lane.handle_call(&call).map_err(|error| error.to_string())?;
    }
    Ok(lane.finish())
}

/// Where a traffic begins: at the first whole period from Monday, 5 January 2026, 0:00 UTC on, so that
/// windows begin with it.
fn start_unix_ns(period_ns: u64) -> u64 {
    const BASE_NS: u64 = 1_767_571_200 * crate::clock::SECOND;
    BASE_NS.checked_next_multiple_of(period_ns.max(1)).unwrap_or(BASE_NS)
}

/// Width of a slot of a series: there are 48 in a period, so that a picture shows what happens in one.
fn slot_ns(rate: Rate) -> u64 {
    (rate.period_ns / 48).max(crate::clock::MS)
}
