//! Loads without faults: many hot keys at once, large costs, and quiet nodes beside a flood.

use sim::clock::{MS, SECOND};
use sim::workload::{Load, Spread, Workload};
use sim::{Allowed, Scenario};

use crate::{flow, hold, usual};

#[test]
fn a_load_within_the_limit_is_never_refused() {
    for nodes in [2, 3, 5] {
        for spread in [Spread::all(nodes), Spread::Zipf(nodes), Spread::one(0)] {
            let mut scenario = Scenario::new(nodes, usual(), 1);
            let mut workload = Workload::new(nodes as u64);
            workload.poisson(&spread, Load::of(950.0), 0, 8 * SECOND);
            scenario.arrivals = workload.done();
            let (_, report) = hold(&scenario);
            assert_eq!(report.rejected, 0, "N = {nodes}, {spread:?}");
        }
    }
}

#[test]
fn an_even_flood_is_let_through_at_the_limit_and_evenly() {
    for nodes in [2, 3, 5] {
        let (_, report) = hold(&flow(nodes, usual(), 20_000.0, 6, nodes as u64));
        assert!(report.excess_percent <= 9.0, "N = {nodes}: {} % over", report.excess_percent);
        assert!(report.utilisation_percent >= 99.0, "N = {nodes}: {report:?}");
        assert!(report.jain >= 0.95, "N = {nodes}: {}", report.jain);
    }
}

#[test]
fn many_hot_keys_share_the_budget_of_early_flushes() {
    let mut scenario = Scenario::new(3, Allowed::balanced(50, 100, SECOND), 6);
    scenario.keys = vec![0; 60];
    let mut workload = Workload::new(6);
    for key in 0..scenario.keys.len() {
        let load = Load { key, per_s: 300.0, cost: 1 };
        workload.poisson(&Spread::all(3), load, 0, 4 * SECOND);
    }
    scenario.arrivals = workload.done();
    let (_, report) = hold(&scenario);
    assert!(report.excess_percent <= 10.0, "{} % over", report.excess_percent);
    assert!(report.utilisation_percent >= 97.0, "{} %", report.utilisation_percent);
    // The budget is a hundred a second. What must be published before a peer's claim is acknowledged
    // is outside it: at most one batch for each that comes.
    assert!(report.batches_max <= 300, "{} batches in a second", report.batches_max);
}

#[test]
fn large_costs_pass_beside_small_ones() {
    let mut scenario = Scenario::new(3, usual(), 10);
    let mut workload = Workload::new(10);
    workload.poisson(&Spread::all(3), Load::of(500.0), 0, 16 * SECOND);
    for turn in 0..7 {
        let node = workload.dice().place(3);
        workload.one((2 + 2 * turn) * SECOND, node, 0, 200);
    }
    scenario.arrivals = workload.done();
    let (record, report) = hold(&scenario);
    let costly = scenario.arrivals.iter().zip(&record.outcomes).filter(|(a, _)| a.cost > 1);
    assert_eq!(costly.filter(|(_, outcome)| outcome.allowed).count(), 7);
    assert!(report.excess_percent <= 5.0, "{} % over", report.excess_percent);
}

#[test]
fn a_burst_on_an_idle_key_waits_for_an_acknowledgement_and_passes() {
    let mut scenario = Scenario::new(5, Allowed::balanced(20, 1, SECOND), 9);
    let mut workload = Workload::new(9);
    (0..4).for_each(|turn| workload.burst(turn, 0, 8, (1 + 30 * turn as u64) * SECOND, MS));
    scenario.arrivals = workload.done();
    let (_, report) = hold(&scenario);
    assert_eq!(report.rejected, 0, "{report:?}");
    assert!(report.held_percent > 0.0 && report.wait_p99_ms <= 5.0, "{report:?}");
}
