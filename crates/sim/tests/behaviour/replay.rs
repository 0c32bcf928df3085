//! A seed is a run: the same every time, in every detail.

use sim::search::{Class, run, scenario};
use sim::simulate;

#[test]
fn a_run_replays_from_its_seed() {
    for class in Class::ALL {
        for (nodes, seed) in [(3, 1), (5, 2)] {
            let first = run(nodes, class, seed).unwrap();
            let again = run(nodes, class, seed).unwrap();
            assert_eq!(first.trace, again.trace, "N = {nodes}, {class:?}, seed {seed}");
        }
    }
}

#[test]
fn another_seed_is_another_run() {
    let (first, other) = (scenario(3, Class::Faults, 1), scenario(3, Class::Faults, 2));
    let trace = |scenario| simulate(scenario).unwrap().0.trace.hash();
    assert_ne!(trace(&first), trace(&other));
}
