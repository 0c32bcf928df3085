//! Starts, restarts, crashes, and files that change from host to host.

use sim::clock::{MS, SECOND};
use sim::workload::{Load, Spread, Workload};
use sim::{Act, Allowed, Scenario};

use crate::{flow, hold, usual};

const HOUR: u64 = 3_600 * SECOND;

#[test]
fn nodes_that_start_together_form_a_cluster_within_two_seconds() {
    for nodes in [2, 3, 5, 10] {
        let scenario = Scenario::new(nodes, usual(), nodes as u64);
        let (record, _) = hold(&scenario);
        assert_eq!(record.ready_ns.len(), nodes);
        let last_ns = record.ready_ns.iter().map(|(_, at_ns)| *at_ns).max().unwrap();
        assert!(last_ns < 2 * SECOND, "N = {nodes}: the last was ready after {last_ns} ns");
    }
}

#[test]
fn a_rolling_restart_forgets_nothing() {
    // 4 of 10 are used; every node leaves and comes back; then 6 more pass, and no seventh.
    let mut scenario = Scenario::new(3, Allowed::balanced(10, 10, 24 * HOUR), 4);
    let mut workload = Workload::new(4);
    (0..4).for_each(|k| workload.one(SECOND + k * 200 * MS, 0, 0, 1));
    for node in 0..3 {
        let at_ns = (4 + 4 * node as u64) * SECOND;
        scenario.script.push((at_ns, Act::Leave(node)));
        scenario.script.push((at_ns + 2 * SECOND, Act::Boot(node, 0)));
    }
    for k in 0..10 {
        workload.one(18 * SECOND + k * SECOND, usize::try_from(k).unwrap() % 3, 0, 1);
    }
    scenario.arrivals = workload.done();
    let (record, _) = hold(&scenario);
    let admitted: Vec<bool> = record.outcomes.iter().map(|outcome| outcome.allowed).collect();
    assert_eq!(admitted.iter().filter(|allowed| **allowed).count(), 10, "{admitted:?}");
}

#[test]
fn rolling_restarts_under_load_stay_within_the_limit() {
    for (times, over) in [(0.9, 2.0), (1.5, 2.0), (20.0, 9.0)] {
        let mut scenario = flow(3, usual(), 1000.0 * times, 18, 8);
        for node in 0..3 {
            let at_ns = (5 + 4 * node as u64) * SECOND;
            scenario.script.push((at_ns, Act::Leave(node)));
            scenario.script.push((at_ns + 2 * SECOND, Act::Boot(node, 0)));
        }
        let (_, report) = hold(&scenario);
        assert!(report.excess_percent <= over, "{times}x: {} % over", report.excess_percent);
        assert!(report.utilisation_percent >= 99.0, "{times}x: {}", report.utilisation_percent);
    }
}

#[test]
fn survivors_of_a_crash_have_their_part_until_the_node_is_back() {
    let mut scenario = flow(3, usual(), 1500.0, 25, 12);
    scenario.script = vec![(8 * SECOND, Act::Crash(1)), (16 * SECOND, Act::Boot(1, 0))];
    let (record, report) = hold(&scenario);
    assert!(report.excess_percent <= 2.0, "{} % over", report.excess_percent);
    let admitted = |from: u64, to: u64| {
        let all = scenario.arrivals.iter().zip(&record.outcomes);
        all.filter(|(a, o)| (from * SECOND..to * SECOND).contains(&a.at_ns) && o.allowed).count()
    };
    assert!((3_200..3_500).contains(&admitted(10, 15)), "{}", admitted(10, 15));
    assert!((3_900..4_150).contains(&admitted(18, 22)), "{}", admitted(18, 22));
}

#[test]
fn a_missing_node_is_forgotten_and_the_others_have_all() {
    let mut scenario = flow(3, usual(), 1500.0, 20, 13);
    scenario.forget_after_ns = 5 * SECOND;
    scenario.script = vec![(4 * SECOND, Act::Crash(2)), (19 * SECOND, Act::Boot(2, 0))];
    let (record, report) = hold(&scenario);
    assert!(report.excess_percent <= 2.0, "{} % over", report.excess_percent);
    let after = scenario.arrivals.iter().zip(&record.outcomes);
    let after = after.filter(|(a, o)| (12 * SECOND..16 * SECOND).contains(&a.at_ns) && o.allowed);
    let admitted = after.count();
    assert!((3_900..4_100).contains(&admitted), "{admitted} of 4000");
}

/// Units that a pair admits in four seconds of the run, of which one node is killed after four seconds
/// and forgotten after five more, and, by hand, after 14.
fn admitted_by_the_rest(gone: usize, from_s: u64, by_hand: bool) -> usize {
    let rest = 1 - gone;
    let mut scenario = flow(2, usual(), 1500.0, 20, 14);
    scenario.forget_after_ns = 5 * SECOND;
    scenario.script = vec![(4 * SECOND, Act::Crash(gone))];
    if by_hand {
        scenario.script.push((14 * SECOND, Act::Forget(rest, gone)));
    }
    let (record, report) = hold(&scenario);
    assert!(report.excess_percent <= 2.0, "{} % over", report.excess_percent);
    let all = scenario.arrivals.iter().zip(&record.outcomes);
    let within = from_s * SECOND..(from_s + 4) * SECOND;
    all.filter(|(a, o)| within.contains(&a.at_ns) && o.allowed).count()
}

#[test]
fn the_first_of_a_pair_forgets_the_other_and_has_the_whole_limit() {
    let admitted = admitted_by_the_rest(1, 10, false);
    // At the full rate, and with what the other half of the bucket held.
    assert!((3_900..4_500).contains(&admitted), "{admitted} of 4000");
}

#[test]
fn the_second_of_a_pair_keeps_to_its_half_until_an_operator_says_so() {
    let half = admitted_by_the_rest(0, 10, true);
    assert!((1_900..2_100).contains(&half), "{half} of 2000");
    let whole = admitted_by_the_rest(0, 16, true);
    assert!((3_900..4_500).contains(&whole), "{whole} of 4000");
}

/// Every host in turn is restarted with other numbers, under load.
fn host_by_host(from: Allowed, to: Allowed, truth: Allowed) {
    let mut scenario = Scenario::new(3, from, 21);
    scenario.versions.push(vec![to]);
    scenario.truth = vec![truth];
    let mut workload = Workload::new(21);
    workload.poisson(&Spread::all(3), Load::of(3_000.0), 0, 20 * SECOND);
    scenario.arrivals = workload.done();
    for node in 0..3 {
        let at_ns = (4 + 4 * node as u64) * SECOND;
        scenario.script.push((at_ns, Act::Leave(node)));
        scenario.script.push((at_ns + SECOND, Act::Boot(node, 1)));
    }
    let (_, report) = hold(&scenario);
    assert!(report.excess_percent <= 2.0, "{from:?} to {to:?}: {} % over", report.excess_percent);
}

#[test]
fn a_limit_raised_host_by_host_stays_within_the_larger() {
    let larger = Allowed::balanced(2000, 1500, SECOND);
    host_by_host(usual(), larger, larger);
}

#[test]
fn a_limit_lowered_host_by_host_stays_within_the_larger() {
    host_by_host(usual(), Allowed::balanced(300, 400, SECOND), usual());
}
