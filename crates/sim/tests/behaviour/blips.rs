//! A slow limit and a node that is gone for two seconds, once and twenty times.

use sim::blip::{Gone, blip};
use sim::clock::SECOND;
use sim::{Allowed, Scenario};

use crate::hold;

const HOUR: u64 = 3_600 * SECOND;

/// Nothing is forgotten and nothing refilled for free: every level is right to one unit a second after
/// every return, and in the end all can be spent and no more than `over` units above.
fn assert_nothing_lost(scenario: &Scenario, over: f64, what: &str) {
    let (_, report) = hold(scenario);
    assert!(report.level_error() <= 1.0, "{what}: a level is {} units off", report.level_error());
    assert!(report.excess_units <= over, "{what}: {} units over", report.excess_units);
    assert!(report.utilisation_percent >= 99.0, "{what}: {} %", report.utilisation_percent);
}

#[test]
fn a_hundred_an_hour_survives_one_blip_of_every_kind() {
    for nodes in [2, 3, 10] {
        for gone in Gone::ALL {
            let scenario = blip(nodes, gone, 1, Allowed::balanced(100, 100, HOUR), 1);
            assert_nothing_lost(&scenario, 0.0, &format!("N = {nodes}, {gone:?}"));
        }
    }
}

#[test]
fn a_hundred_an_hour_survives_twenty_blips_of_every_kind() {
    for nodes in [2, 3] {
        for gone in Gone::ALL {
            let scenario = blip(nodes, gone, 20, Allowed::balanced(100, 100, HOUR), 2);
            assert_nothing_lost(&scenario, 0.0, &format!("N = {nodes}, {gone:?}, 20 times"));
        }
    }
}

#[test]
fn ten_thousand_a_day_survive_blips_with_a_thousandth_over_at_most() {
    for times in [1, 20] {
        for gone in Gone::ALL {
            let allowed = Allowed::balanced(10_000, 10_000, 24 * HOUR);
            let scenario = blip(3, gone, times, allowed, 3);
            assert_nothing_lost(&scenario, 10.0, &format!("{gone:?}, {times} times"));
        }
    }
}
