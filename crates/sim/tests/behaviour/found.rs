//! Faults that the simulation found while the code was written, each as a scenario of its kind.

use sim::clock::{MS, SECOND};
use sim::network::Cut;
use sim::workload::{Load, Spread, Workload};
use sim::{Act, Allowed, Scenario};

use crate::{hold, usual};

/// Levels were compared with a peer's at every tick, and a level in debt was lifted to empty by that.
#[test]
fn a_debt_is_not_forgiven_when_levels_are_compared() {
    for seed in 0..8 {
        let mut scenario = Scenario::new(2, usual(), seed);
        let mut workload = Workload::new(seed);
        workload.poisson(&Spread::one(0), Load::of(950.0), SECOND, 6 * SECOND);
        for node in 0..2 {
            workload.burst(node, 0, 700, 4 * SECOND + seed * 25 * MS, 100 * MS);
        }
        workload.poisson(&Spread::all(2), Load::of(1500.0), 4_100 * MS, 6 * SECOND);
        scenario.arrivals = workload.done();
        scenario.inspect_every_ns = 2 * MS;
        hold(&scenario);
    }
}

/// Two nodes dialled each other in step, each gave the other's connection up, and never linked.
#[test]
fn nodes_that_dial_each_other_at_once_are_linked() {
    for seed in 0..60 {
        for nodes in [2, 3] {
            let mut scenario = Scenario::new(nodes, usual(), seed);
            scenario.lines.jitter_ns = 200_000;
            let (record, _) = hold(&scenario);
            let last_ns = record.ready_ns.iter().map(|(_, at_ns)| *at_ns).max().unwrap();
            assert!(last_ns < 3 * SECOND, "N = {nodes}, seed {seed}: ready after {last_ns} ns");
        }
    }
}

/// Who is cut off in one direction only is told so by the others' closing. It had heard them to the
/// end, and took what its side had spent meanwhile for known to them: both sides refilled it.
#[test]
fn a_one_way_cut_of_several_nodes_refills_nothing_twice() {
    for seed in 0..4 {
        let mut scenario = Scenario::new(5, usual(), seed);
        let mut workload = Workload::new(seed);
        workload.poisson(&Spread::one(1), Load::of(3_000.0), 0, 2_450 * MS);
        let others = Spread::Even(vec![2, 3, 4]);
        workload.poisson(&others, Load::of(5_000.0), 2_450 * MS, 3_300 * MS);
        workload.poisson(&Spread::all(5), Load::of(950.0), 3_300 * MS, 6 * SECOND);
        scenario.arrivals = workload.done();
        let (from_ns, to_ns) = (2 * SECOND, 3_300 * MS);
        scenario.lines.cuts = vec![Cut { from_ns, to_ns, a: 0b11, b: 0b11100, one_way: true }];
        hold(&scenario);
    }
}

/// A dial that reached a process just before it ended kept the next process of that name out for two
/// seconds; that one took the counts without this node's, and missed what it spent until they linked.
#[test]
fn a_node_that_comes_back_misses_nobodys_spends() {
    for seed in 0..6 {
        let mut scenario = Scenario::new(4, usual(), seed);
        let mut workload = Workload::new(seed);
        workload.poisson(&Spread::one(0), Load::of(1_500.0), 0, 8 * SECOND);
        scenario.arrivals = workload.done();
        scenario.lines.delay_ns.iter_mut().flatten().for_each(|delay_ns| *delay_ns = 20 * MS);
        let dialed_ns = 1_945 * MS + seed * 10 * MS;
        scenario.script = vec![
            (2 * SECOND, Act::Leave(3)),
            (dialed_ns, Act::Dial(0, 3)),
            (2_400 * MS, Act::Boot(3, 0)),
        ];
        hold(&scenario);
    }
}

/// A node that started again beside a cut forgot what the snapshot contained of the node that was cut off,
/// and was told once more what had just reached the others. Was that given back, as here, it had that
/// twice: its level was above what was left until the bucket was full.
#[test]
fn a_node_that_starts_again_beside_a_cut_is_given_nothing_back_twice() {
    for seed in 0..20 {
        let mut scenario = Scenario::new(3, Allowed::balanced(1_000, 1_000, 3_600 * SECOND), seed);
        scenario.lines.delay_ns.iter_mut().flatten().for_each(|delay_ns| *delay_ns = 20 * MS);
        let mut workload = Workload::new(seed);
        // The whole bucket is reserved on all nodes; what none of them gets is given back, on its way
        // when the first is cut off.
        let asked_ns = 2 * SECOND;
        (0..3).for_each(|node| workload.one(asked_ns, node, 0, 1_000));
        let from_ns = asked_ns + 5 * MS + seed * 10 * MS;
        let cut = Cut { from_ns, to_ns: from_ns + 3 * SECOND, a: 0b1, b: 0b110, one_way: false };
        scenario.lines.cuts = vec![cut];
        scenario.script =
            vec![(from_ns + 100 * MS, Act::Crash(2)), (from_ns + 300 * MS, Act::Boot(2, 0))];
        workload.poisson(&Spread::one(0), Load::of(100.0), 3 * SECOND, 4 * SECOND);
        scenario.arrivals = workload.done();
        scenario.settle_ns = 5 * SECOND;
        hold(&scenario);
    }
}
