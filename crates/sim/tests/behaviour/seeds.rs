//! A fixed set of seeds of mixed trouble. The search runs as many more as there is time for:
//! `cargo run --release -p rlnode-sim -- search 1000`.

use sim::search::{Class, run};

/// Runs `seeds` seeds of every class on `nodes` nodes: no invariant breaks, nothing is stuck, and the
/// excess is within what the class may show.
fn search(nodes: usize, seeds: std::ops::Range<u64>) {
    for class in Class::ALL {
        for seed in seeds.clone() {
            let finding = run(nodes, class, seed).unwrap();
            let replay = format!("replay {nodes} {} {seed}", class.as_str());
            assert!(finding.faults.is_empty(), "{replay}: {:#?}", finding.faults);
            let excess = finding.report.excess_percent;
            assert!(excess <= excess_percent_max(class), "{replay}: {excess} % over");
        }
    }
}

/// The worst that a class may show, as a part of the capacity. A cut costs most: until it is noticed, a
/// node may spend the share of the level that its demand has earned, and the others have their part.
fn excess_percent_max(class: Class) -> f64 {
    match class {
        Class::FaultFree => 10.0,
        Class::Delays | Class::LargeCosts => 15.0,
        Class::Faults => 25.0,
    }
}

#[test]
fn two_nodes_in_mixed_trouble() {
    search(2, 0..12);
}

#[test]
fn three_nodes_in_mixed_trouble() {
    search(3, 0..10);
}

#[test]
fn five_nodes_in_mixed_trouble() {
    search(5, 0..6);
}

#[test]
fn ten_nodes_in_mixed_trouble() {
    search(10, 0..2);
}
