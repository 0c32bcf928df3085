//! Cuts: of half the cluster, one way, and again and again.

use sim::clock::{MS, SECOND};
use sim::network::Cut;
use sim::scenario::{everyone, halves};
use sim::workload::{Load, Spread, Workload};
use sim::{Allowed, Scenario};

use crate::{flow, hold, usual};

#[test]
fn two_halves_spend_their_parts_and_heal_within_a_second() {
    for nodes in [2, 3, 10] {
        let mut scenario = flow(nodes, usual(), 1500.0, 22, nodes as u64);
        let (a, b) = halves(nodes);
        scenario.lines.cuts =
            vec![Cut { from_ns: 5 * SECOND, to_ns: 15 * SECOND, a, b, one_way: false }];
        let (record, report) = hold(&scenario);
        assert!(report.excess_percent <= 2.0, "N = {nodes}: {} % over", report.excess_percent);
        assert!(report.utilisation_percent >= 98.0, "N = {nodes}: {report:?}");
        // A second after the heal the full rate is used again.
        let mut admitted = 0;
        for (arrival, outcome) in scenario.arrivals.iter().zip(&record.outcomes) {
            let after = (16 * SECOND..20 * SECOND).contains(&arrival.at_ns);
            admitted += u64::from(after && outcome.allowed);
        }
        assert!(admitted >= 3_900, "N = {nodes}: {admitted} of 4000 after the heal");
    }
}

#[test]
fn a_cut_of_one_direction_is_a_cut() {
    for nodes in [2, 3] {
        let mut scenario = flow(nodes, usual(), 1500.0, 14, 7);
        let (a, b) = (1, everyone(nodes) & !1);
        scenario.lines.cuts =
            vec![Cut { from_ns: 4 * SECOND, to_ns: 9 * SECOND, a, b, one_way: true }];
        let (_, report) = hold(&scenario);
        assert!(report.excess_percent <= 2.0, "N = {nodes}: {} % over", report.excess_percent);
        assert!(report.utilisation_percent >= 97.0, "N = {nodes}: {report:?}");
    }
}

#[test]
fn a_link_that_flaps_admits_nothing_for_free() {
    for nodes in [2, 3] {
        let mut scenario = Scenario::new(nodes, Allowed::balanced(50, 1000, SECOND), 5);
        let mut workload = Workload::new(5);
        for turn in 0..8 {
            let from_ns = 4 * SECOND + turn * 1_160 * MS;
            let (a, b) = (1, everyone(nodes) & !1);
            let to_ns = from_ns + 600 * MS;
            scenario.lines.cuts.push(Cut { from_ns, to_ns, a, b, one_way: false });
        }
        workload.poisson(&Spread::all(nodes), Load::of(5_000.0), SECOND, 13 * SECOND);
        scenario.arrivals = workload.done();
        scenario.settle_ns = 15 * SECOND;
        let (_, report) = hold(&scenario);
        assert!(report.excess_percent <= 10.0, "N = {nodes}: {} % over", report.excess_percent);
    }
}

#[test]
fn a_slow_peer_whose_queue_is_full_is_lost_and_comes_back() {
    let mut scenario = flow(3, usual(), 1500.0, 12, 9);
    scenario.lines.bytes_per_s[2] = Some(1_500);
    scenario.lines.queue_bytes_max = 2_000;
    let (_, report) = hold(&scenario);
    assert!(report.excess_percent <= 10.0, "{} % over", report.excess_percent);
}
