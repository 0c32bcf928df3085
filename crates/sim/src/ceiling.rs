//! The proven ceiling beside what a run let through: while nobody was lost, the excess of every key is at
//! most that.

use limiter::bound::{Circumstances, ceiling};

use crate::record::{Excess, Record};
use crate::scenario::{Allowed, Scenario};

/// Keys of `record`, which `scenario` left, whose excess is above the proven ceiling; none where the
/// proof takes more for granted than the run gave it.
pub(crate) fn broken(scenario: &Scenario, record: &Record) -> Vec<String> {
    above(scenario, record, ceiling)
}

/// The same for any `ceiling`.
fn above(
    scenario: &Scenario,
    record: &Record,
    ceiling: impl Fn(&Circumstances) -> u64,
) -> Vec<String> {
    let is_undisturbed = scenario.script.is_empty()
        && scenario.lines.cuts.is_empty()
        && scenario.versions.len() == 1
        && record.changes == 0;
    if !is_undisturbed {
        return Vec::new();
    }
    let keys = scenario.keys.iter().zip(&record.excess).enumerate();
    let above = |(key, (limit, excess)): (usize, (&usize, &Excess))| {
        let allowed = scenario.truth[*limit];
        // It is proven of what is spent and comes back evenly.
        if !allowed.algorithm.is_bucket() {
            return None;
        }
        let most = ceiling(&circumstances(scenario, record, &allowed));
        // The proof is for clocks that run alike.
        let most = most.saturating_add(apart_units(scenario, &allowed));
        (excess.units() > most).then(|| {
            format!("key {key} is {} units over its limit, {most} are proven", excess.units())
        })
    };
    keys.filter_map(above).collect()
}

fn circumstances(scenario: &Scenario, record: &Record, allowed: &Allowed) -> Circumstances {
    Circumstances {
        members: scenario.nodes,
        accuracy: allowed.accuracy,
        rate: allowed.rate,
        burst: allowed.burst,
        sync_interval_ns: scenario.sync_interval_ns,
        acknowledged_within_ns: record.acknowledged_ns,
        held_ns: allowed.max_wait_ns,
    }
}

/// Units that the fastest of the clocks refills in a run beyond what true time does.
fn apart_units(scenario: &Scenario, allowed: &Allowed) -> u64 {
    let fastest = scenario.clocks.iter().map(|clock| clock.rate_ppm).max().unwrap_or(0);
    let fastest = u128::try_from(fastest).unwrap_or(0);
    let run_ns = u128::from(scenario.warm_up_ns + scenario.last_ns() + scenario.settle_ns);
    let units = run_ns * u128::from(allowed.rate.count) * fastest;
    let units = units.div_ceil(u128::from(allowed.rate.period_ns.max(1)) * 1_000_000);
    u64::try_from(units).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attack::Attack;
    use crate::scenario::Algorithm;
    use crate::world::World;

    /// Three nodes that let a little more through than their limit says.
    const ATTACK: &str = "N=3 seed=749379 mode=balanced burst=1000 window=3600000 wait=5 delay=1000 \
                          jitter=500 loss=0 ask=273116:7:0:56:10:10000:10000 \
                          ask=273129:7:0:1001:2:1284:-2000 ask=274833:7:0:1000:1:0:-2000";

    #[test]
    fn an_excess_above_a_ceiling_is_found_and_one_below_it_is_not() {
        let scenario = Attack::parse(ATTACK).unwrap().scenario();
        let record = World::run(scenario.clone()).unwrap();
        let units = record.excess[0].units();
        assert!(units > 0, "the attack does nothing any more: replace it by another find");
        assert_eq!(above(&scenario, &record, |_| units), Vec::<String>::new());
        assert_eq!(above(&scenario, &record, |_| units - 1).len(), 1);
        assert_eq!(record.broken, []);
        // A wrong ceiling, that of a cluster of one.
        let of_one = |it: &Circumstances| ceiling(&Circumstances { members: 1, ..*it });
        assert_eq!(above(&scenario, &record, of_one).len(), 1);
    }

    #[test]
    fn nothing_is_proven_of_windows_and_logs() {
        let scenario = Attack::parse(ATTACK).unwrap().scenario();
        let record = World::run(scenario.clone()).unwrap();
        assert!(above(&scenario.by(Algorithm::SlidingLog), &record, |_| 0).is_empty());
    }

    #[test]
    fn nothing_is_proven_of_a_run_in_which_somebody_was_lost() {
        let scenario = Attack::parse(ATTACK).unwrap().scenario();
        let mut record = World::run(scenario.clone()).unwrap();
        record.changes = 1;
        assert!(above(&scenario, &record, |_| 0).is_empty());
    }

    #[test]
    fn the_time_of_the_slowest_acknowledgement_is_measured() {
        let attack = Attack::parse(ATTACK).unwrap();
        let slow = |delay_us| {
            let record = World::run(Attack { delay_us, ..attack.clone() }.scenario()).unwrap();
            record.acknowledged_ns
        };
        let (fast_ns, slow_ns) = (slow(1_000), slow(20_000));
        assert!((2_000_000..4_000_000).contains(&fast_ns), "{fast_ns}");
        assert!((40_000_000..60_000_000).contains(&slow_ns), "{slow_ns}");
    }

    #[test]
    fn a_fast_clock_refills_more() {
        let mut scenario = Attack::parse(ATTACK).unwrap().scenario();
        let allowed = Allowed::balanced(1000, 1000, 1_000_000_000);
        assert_eq!(apart_units(&scenario, &allowed), 0);
        scenario.drift(0, -100);
        assert_eq!(apart_units(&scenario, &allowed), 0);
        scenario.drift(1, 100);
        assert_eq!(apart_units(&scenario, &allowed), 1);
    }
}
