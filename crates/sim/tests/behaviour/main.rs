//! Whole clusters: what they promise, through every kind of trouble. A failure prints the seed that
//! replays it.
#![expect(clippy::unwrap_used, reason = "a test that fails to make its scenario has failed")]

mod algorithms;
mod attacks;
mod blips;
mod cuts;
mod found;
mod loads;
mod operations;
mod parts;
mod replay;
mod restarts;
mod seeds;

use sim::clock::SECOND;
use sim::workload::{Load, Spread, Workload};
use sim::{Allowed, Record, Report, Scenario, simulate};

/// Runs a scenario in which every invariant must hold and nothing may be left over.
fn hold(scenario: &Scenario) -> (Record, Report) {
    let (record, report) = simulate(scenario).unwrap();
    let what = format!("N = {}, seed {}", scenario.nodes, scenario.seed);
    assert!(record.broken.is_empty(), "{what}: {:#?}", record.broken);
    assert!(record.stuck.is_empty(), "{what}: {:#?}", record.stuck);
    (record, report)
}

/// 1000 units, 1000 a second.
fn usual() -> Allowed {
    Allowed::balanced(1000, 1000, SECOND)
}

/// An even flow on all nodes.
fn flow(nodes: usize, allowed: Allowed, per_s: f64, for_s: u64, seed: u64) -> Scenario {
    let mut scenario = Scenario::new(nodes, allowed, seed);
    let mut workload = Workload::new(seed);
    workload.poisson(&Spread::all(nodes), Load::of(per_s), 0, for_s * SECOND);
    scenario.arrivals = workload.done();
    scenario
}
