//! `rlbench sync` as it is run: two processes, real members, a moment of load.

use std::process::Command;

use serde_json::Value;

#[test]
fn every_spend_is_told_to_every_peer() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rlbench"));
    command.args(["sync", "--peers", "2", "--keys", "200", "--interval", "100ms"]);
    let output = command.args(["--duration", "500ms", "--json"]).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    let exchange: Value = serde_json::from_slice(&output.stdout).expect(&errors);
    let [cell] = exchange["cells"].as_array().unwrap().as_slice() else {
        panic!("{exchange:#}");
    };
    assert_eq!(cell["peers"], 2);
    for figure in ["deltas_per_s", "bytes_per_s_and_peer", "sender_cpu_percent"] {
        assert!(cell[figure].as_f64().unwrap() > 0.0, "{figure}: {cell:#}");
    }
    for way in cell["delivery"].as_array().unwrap() {
        let deliveries = way["deliveries"].as_u64().unwrap();
        assert!(deliveries > 0, "{cell:#}");
    }
    // Whether a busy machine splits them is no matter of this test.
    for fault in ["denied", "rows_full", "dropped"] {
        assert_eq!(cell["faults"][fault], 0, "{fault}: {cell:#}");
    }
}
