//! One algorithm on a simulated cluster that is asked the same calls at the same times, each at a node
//! that the seed chooses.

use super::judge::{Judge, Worst};
use super::numbers::Numbers;
use super::series::Series;
use super::{KEY, Setup, slot_ns, start_unix_ns};
use crate::clock::SECOND;
use crate::scenario::{Algorithm, Scenario};
use crate::world::World;

/// Most nodes: what is simulated grows with their square.
pub const NODES_MAX: usize = 10;
/// Longest traffic that is run through a cluster, in nanoseconds: half an hour, for some seconds of work.
pub const DURATION_NS_MAX: u64 = 1_800 * SECOND;

/// What a cluster let through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FleetJudgement {
    /// Calls that passed.
    pub allowed: u64,
    /// Units that passed.
    pub units: u64,
    /// The fullest two seconds.
    pub worst_two_seconds: Worst,
    /// The fullest period of the limit.
    pub worst_period: Worst,
}

/// Runs the traffic of `setup` through `algorithm` on `nodes` nodes with lines of a millisecond, where a
/// call waits up to 5 ms to be told of. All clocks are right.
///
/// # Errors
/// Numbers for which it cannot be run, and what to do.
pub fn run_on_cluster(
    setup: &Setup,
    algorithm: Algorithm,
    nodes: usize,
) -> Result<FleetJudgement, String> {
    let numbers = &setup.numbers;
    if setup.traffic.duration_ns(numbers) > DURATION_NS_MAX {
        return Err(format!(
            "a cluster is simulated for {} s at most; write a shorter period, such as a tenth with a \
             tenth of the limit",
            DURATION_NS_MAX / SECOND
        ));
    }
    // The same refusal, in the same words, as on the exact node.
    numbers.plan(algorithm)?;
    let mut scenario = scenario(algorithm, numbers, setup.seed, nodes);
    scenario.arrivals = setup.traffic.arrivals(numbers, setup.seed, nodes)?;
    let arrivals = scenario.arrivals.clone();
    let record = World::run(scenario)?;
    let start_ns = start_unix_ns(numbers.rate.period_ns);
    // Held calls pass later than they came, what a queue delays acts later still, and neither in order.
    let mut passed: Vec<(u64, u64)> = Vec::new();
    for (arrival, outcome) in arrivals.iter().zip(&record.outcomes).filter(|(_, it)| it.allowed) {
        let at_ns = u64::try_from(record.scenario_ns(outcome.at_ns)).unwrap_or(0);
        let at_ns = at_ns.saturating_add(outcome.delay_ns);
        passed.push((start_ns.saturating_add(at_ns), arrival.cost));
    }
    passed.sort_unstable();
    let series = Series::new(start_ns, slot_ns(numbers.rate));
    let mut judge = Judge::new(numbers.rate.period_ns, 1, series);
    for (at_ns, cost) in passed {
        judge.pass(at_ns, KEY, cost, 0);
    }
    let judgement = judge.finish();
    Ok(FleetJudgement {
        allowed: judgement.allowed,
        units: judgement.units,
        worst_two_seconds: judgement.worst_two_seconds,
        worst_period: judgement.worst_period,
    })
}

/// The cluster, calm and without anything asked.
fn scenario(algorithm: Algorithm, numbers: &Numbers, seed: u64, nodes: usize) -> Scenario {
    let mut scenario = Scenario::new(nodes, numbers.allowed(algorithm), seed);
    scenario.unix_ns = start_unix_ns(numbers.rate.period_ns);
    // Nobody looks at the invariants here; the simulator's own runs do.
    scenario.inspect_every_ns = SECOND;
    scenario
}

#[cfg(test)]
mod tests {
    use limiter::Rate;

    use super::*;
    use crate::compare::Traffic;

    fn setup(count: u64, period_ns: u64, traffic: Traffic) -> Setup {
        let numbers = Numbers { rate: Rate { count, period_ns }, burst: count };
        Setup { numbers, traffic, seed: 7, algorithms: Algorithm::ALL.to_vec() }
    }

    #[test]
    fn a_cluster_lets_through_nearly_what_one_node_does_by_every_algorithm() {
        for traffic in [Traffic::Steady, Traffic::WindowEdge] {
            let setup = setup(200, 4 * SECOND, traffic);
            let alone = crate::compare::compare(&setup).unwrap();
            for (algorithm, alone) in alone.lanes {
                let alone = alone.unwrap();
                let fleet = run_on_cluster(&setup, algorithm, 3).unwrap();
                let what = format!("{} {}: {fleet:?}", traffic.name(), algorithm.as_str());
                assert!(fleet.units.abs_diff(alone.units) * 20 <= alone.units, "{what}");
                assert_eq!(fleet.allowed, fleet.units, "{what}");
                let (fullest, one) = (fleet.worst_two_seconds.units, alone.worst_two_seconds.units);
                // The queue of a node does not know at once of what others let through.
                assert!(fullest.abs_diff(one) * 10 <= one, "{what}: {one}");
            }
        }
    }

    #[test]
    fn a_traffic_that_would_take_hours_is_refused() {
        let setup = setup(100, 600 * SECOND, Traffic::Steady);
        let error = run_on_cluster(&setup, Algorithm::TokenBucket, 3).unwrap_err();
        assert!(error.contains("1800 s at most"), "{error}");
    }
}
