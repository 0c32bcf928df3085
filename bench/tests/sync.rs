//! `rlbench sync` as it is run: two processes, real members, a moment of load.
#![expect(clippy::unwrap_used, reason = "a test fails where it is")]

use std::process::Command;

use serde_json::Value;

#[test]
fn every_spend_is_told_to_every_peer() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rlbench"));
    command.args(["sync", "--peers", "1,3", "--keys", "200", "--interval", "100ms"]);
    let output = command.args(["--duration", "500ms", "--json"]).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    let exchange: Value = serde_json::from_slice(&output.stdout).expect(&errors);
    let cells = exchange["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 2);
    for (cell, peers) in cells.iter().zip([1, 3]) {
        assert_eq!(cell["peers"], peers);
        for figure in ["deltas_per_s", "bytes_per_s_and_peer", "sender_cpu_percent"] {
            assert!(cell[figure].as_f64().unwrap() > 0.0, "{figure}: {cell:#}");
        }
        for way in cell["delivery"].as_array().unwrap() {
            let deliveries = way["deliveries"].as_u64().unwrap();
            assert!(deliveries > 0 && deliveries % peers == 0, "{cell:#}");
        }
        // Whether a busy machine splits them is no matter of this test.
        assert_eq!(
            (&cell["faults"]["rows_full"], &cell["faults"]["dropped"]),
            (&0.into(), &0.into())
        );
    }
}
