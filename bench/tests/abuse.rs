//! `rlbench abuse` as it is run: a real node, every door, a moment of garbage.

#![expect(clippy::unwrap_used, reason = "a test that fails to run the bench has failed")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The daemon beside the program under test. It is of another package, which cargo builds for these
/// tests only when it is told to.
fn rlnode() -> PathBuf {
    let rlbench = Path::new(env!("CARGO_BIN_EXE_rlbench"));
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--package", "rlnode", "--bin", "rlnode"]);
    build.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    if rlbench.parent().is_some_and(|folder| folder.ends_with("release")) {
        build.arg("--release");
    }
    assert!(build.status().unwrap().success(), "the daemon does not build");
    rlbench.with_file_name("rlnode")
}

#[test]
fn a_client_is_answered_beside_garbage_at_every_door() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rlbench"));
    command.args(["abuse", "--idle", "50", "--garbage", "8", "--messages", "400", "--rate", "200"]);
    command.args(["--rounds", "2", "--phase", "300ms", "--json", "--rlnode"]).arg(rlnode());
    let output = command.output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    let abuse: Value = serde_json::from_slice(&output.stdout).expect(&errors);
    let doors = abuse["doors"].as_array().unwrap();
    let names: Vec<_> = doors.iter().map(|door| door["door"].as_str().unwrap()).collect();
    assert_eq!(names, ["udp", "stream", "seqpacket", "http", "redis", "envoy"]);
    for door in doors {
        for side in ["without", "aside", "with"] {
            assert!(door[side]["answered"].as_u64().unwrap() > 0, "{door:#}");
            assert_eq!(door[side]["errors"], 0, "{side}: {door:#}");
        }
        assert!(door["messages"].as_u64().unwrap() > 0, "{door:#}");
        assert!(door["node_errors"].as_u64().unwrap() > 0, "the node counts none: {door:#}");
        assert_eq!(door["idle_closed"], 0, "{door:#}");
        if door["door"] != "udp" {
            assert!(door["open_min"].as_u64().unwrap() >= 50, "{door:#}");
            // A message is whole on seqpacket, whatever is in it: the node answers and goes on.
            let is_ended = door["door"] != "seqpacket";
            assert_eq!(door["reopened"].as_u64().unwrap() > 0, is_ended, "{door:#}");
        }
    }
}
