//! Every algorithm under the loads and the trouble that the token bucket is held to: every spend counts
//! once, in the window or at the time of whoever let it through, and excess is within the token bucket's.

use sim::clock::{MS, SECOND};
use sim::network::Cut;
use sim::scenario::halves;
use sim::search::{Class, Common};
use sim::workload::Workload;
use sim::{Act, Algorithm, Allowed, Scenario};

use crate::{flow, hold, usual};

/// All but the token bucket, which every other test is about.
const OTHERS: [Algorithm; 5] = [
    Algorithm::LeakyBucket,
    Algorithm::LeakyQueue,
    Algorithm::FixedWindow,
    Algorithm::SlidingWindow,
    Algorithm::SlidingLog,
];

#[test]
fn mixed_trouble_counts_every_spend_once() {
    for algorithm in OTHERS {
        for (nodes, seeds) in [(2, 0..4), (3, 0..4), (5, 0..2)] {
            for class in Class::ALL {
                for seed in seeds.clone() {
                    let finding = Common::of(algorithm).run(nodes, class, seed).unwrap();
                    let name = algorithm.as_str();
                    let replay =
                        format!("replay {nodes} {} {seed} --algorithm {name}", class.as_str());
                    assert!(finding.faults.is_empty(), "{replay}: {:#?}", finding.faults);
                    let excess = finding.report.excess_percent;
                    assert!(excess <= 25.0, "{replay}: {excess} % over");
                }
            }
        }
    }
}

#[test]
fn wall_clocks_that_are_apart_make_nobody_count_twice_or_never() {
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindow] {
        for class in Class::ALL {
            for seed in 0..3 {
                let common = Common { algorithm, skew_ms: 250 };
                let finding = common.run(3, class, seed).unwrap();
                let replay = format!(
                    "replay 3 {} {seed} --algorithm {} --skew 250",
                    class.as_str(),
                    algorithm.as_str()
                );
                assert!(finding.faults.is_empty(), "{replay}: {:#?}", finding.faults);
            }
        }
    }
}

#[test]
fn an_even_flood_is_let_through_at_the_limit() {
    for algorithm in OTHERS {
        for nodes in [2, 3] {
            let (_, report) = hold(&flow(nodes, usual(), 20_000.0, 4, 1).by(algorithm));
            let what = format!("N = {nodes}, {algorithm:?}: {report:?}");
            assert!(report.excess_percent <= 9.0, "{what}");
            assert!(report.utilisation_percent >= 95.0, "{what}");
        }
    }
}

#[test]
fn halves_keep_their_parts_of_a_window_and_of_a_log() {
    for algorithm in OTHERS {
        let mut scenario = flow(3, usual(), 1500.0, 16, 3).by(algorithm);
        let (a, b) = halves(3);
        let cut = Cut { from_ns: 4 * SECOND, to_ns: 10 * SECOND, a, b, one_way: false };
        scenario.lines.cuts = vec![cut];
        let (_, report) = hold(&scenario);
        assert!(report.excess_percent <= 3.0, "{algorithm:?}: {report:?}");
    }
}

#[test]
fn what_a_crash_has_told_counts_to_the_end_of_the_window() {
    for algorithm in OTHERS {
        // 40 of 100 in an hour, told; then all of it is asked of a node that started again.
        let mut scenario = Scenario::new(3, Allowed::balanced(100, 100, 3_600 * SECOND), 1);
        scenario = scenario.by(algorithm);
        let mut workload = Workload::new(1);
        workload.burst(0, 0, 40, SECOND, SECOND);
        workload.burst(0, 0, 100, 12 * SECOND, 2 * SECOND);
        scenario.arrivals = workload.done();
        scenario.script = vec![(5 * SECOND, Act::Crash(0)), (7 * SECOND, Act::Boot(0, 0))];
        let (_, report) = hold(&scenario);
        assert!(report.excess_units.abs() < 1e-9, "{algorithm:?}: {report:?}");
        let admitted: u64 = report.admitted.iter().sum();
        assert!((98..=100).contains(&admitted), "{algorithm:?}: {admitted}");
    }
}

#[test]
fn a_window_that_begins_is_shared_at_once() {
    let around = |at_ns| {
        let mut workload = Workload::new(7);
        for node in 0..3 {
            workload.burst(node, 0, 1000, at_ns - 20 * MS, 20 * MS);
            workload.burst(node, 0, 1000, at_ns, 20 * MS);
        }
        workload.done()
    };
    let mut scenario = Scenario::new(3, usual(), 7).by(Algorithm::FixedWindow);
    scenario.arrivals = around(3 * SECOND);
    let (_, report) = hold(&scenario);
    let admitted: u64 = report.admitted.iter().sum();
    assert!((1980..=2200).contains(&admitted), "{admitted} of twice a thousand: {report:?}");
    let (_, report) = hold(&scenario.by(Algorithm::SlidingLog));
    let admitted: u64 = report.admitted.iter().sum();
    assert!((980..=1050).contains(&admitted), "{admitted} of a thousand: {report:?}");
}

#[test]
fn calls_of_a_burst_leave_a_queue_on_one_node_evenly_and_in_order() {
    let mut scenario = Scenario::new(3, Allowed::balanced(100, 50, SECOND), 2);
    scenario = scenario.by(Algorithm::LeakyQueue);
    let mut workload = Workload::new(2);
    workload.burst(1, 0, 100, 3 * SECOND, 400 * MS);
    scenario.arrivals = workload.done();
    let (record, report) = hold(&scenario);
    assert_eq!(report.rejected, 0, "{report:?}");
    assert_eq!(report.overtakes, 0);
    assert!(report.departures_units < 0.001, "{report:?}");
    let longest = record.outcomes.iter().map(|outcome| outcome.delay_ns).max().unwrap();
    // The last of a hundred leaves 1980 ms after the first; it came up to 400 ms later.
    assert!((1_570 * MS..=1_980 * MS).contains(&longest), "{longest}");
}
