//! `rlbench abuse` as it is run: a real node, every door, a moment of garbage.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The program of the node, which is built with the workspace: beside this program's.
fn rlnode() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_BIN_EXE_rlbench")).with_file_name("rlnode");
    path.is_file().then_some(path)
}

#[test]
fn a_client_is_answered_beside_garbage_at_every_door() {
    let Some(program) = rlnode() else {
        let is_in_ci = option_env!("CI").is_some_and(|value| !value.is_empty());
        assert!(!is_in_ci, "rlnode is not built, and in CI it must be");
        eprintln!("\n*** LEFT OUT *** `rlbench abuse`: rlnode is not built\n");
        return;
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_rlbench"));
    command.args(["abuse", "--idle", "50", "--garbage", "8", "--messages", "400", "--rate", "200"]);
    command.args(["--rounds", "2", "--phase", "300ms", "--json", "--rlnode"]).arg(program);
    let output = command.output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    let abuse: Value = serde_json::from_slice(&output.stdout).expect(&errors);
    let doors = abuse["doors"].as_array().unwrap();
    let names: Vec<_> = doors.iter().map(|door| door["door"].as_str().unwrap()).collect();
    assert_eq!(names, ["udp", "stream", "seqpacket", "http", "redis", "envoy"]);
    for door in doors {
        for side in ["without", "with"] {
            assert!(door[side]["answered"].as_u64().unwrap() > 0, "{door:#}");
            assert_eq!(door[side]["errors"], 0, "{side}: {door:#}");
        }
        assert!(door["messages"].as_u64().unwrap() > 0, "{door:#}");
        assert!(door["node_errors"].as_u64().unwrap() > 0, "the node counts none: {door:#}");
        assert_eq!(door["idle_closed"], 0, "{door:#}");
        if door["door"] != "udp" {
            assert!(door["open_min"].as_u64().unwrap() >= 50, "{door:#}");
            assert!(door["reopened"].as_u64().unwrap() > 0, "{door:#}");
        }
    }
}
