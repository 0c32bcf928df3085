//! `rlbench overshoot` as it is run: real nodes in a cluster, a moment of load, a little trouble.

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

/// Runs it, and returns what it printed as JSON.
fn overshoot(arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rlbench"));
    command.arg("overshoot").args(arguments).arg("--json").arg("--rlnode").arg(rlnode());
    let output = command.output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).expect(&errors);
    // 1 says that a busy machine split them, which is no matter of these tests, but must be told.
    let counts = told["contenders"][0]["runs"][0]["counts"].as_bool().unwrap();
    assert_eq!(output.status.code(), Some(i32::from(!counts)), "{told:#}");
    told
}

#[test]
fn two_nodes_hold_a_limit_that_each_alone_would_break() {
    let picture = std::env::temp_dir().join(format!("overshoot-{}.svg", std::process::id()));
    let svg = picture.to_str().unwrap();
    // In one second: 300 asked, of which 50 + 100 may pass.
    let common = ["steady", "--members", "2", "--rate", "100", "--burst", "50", "--load", "3"];
    let told =
        overshoot(&[&common[..], &["--seconds", "1", "--beside", "static", "--svg", svg]].concat());
    let contenders = told["contenders"].as_array().unwrap();
    assert_eq!(contenders.len(), 2, "{told:#}");
    for contender in contenders {
        let run = &contender["runs"][0];
        assert_eq!(run["sending"]["asked"], 300);
        let usage = &run["usage"];
        let count = |name: &str| usage[name].as_u64().unwrap();
        let unsure = ["unsent", "unanswered", "failed"];
        let unsure: u64 = unsure.iter().map(|name| run["sending"][name].as_u64().unwrap()).sum();
        assert_eq!(count("allowed") + count("denied") + unsure, 300, "{run:#}");
        assert!(count("allowed") > 0 && count("central_allowed") > 100, "{run:#}");
        // Both with a whole limit of their own let 300 pass: 150 too many.
        let excess = run["excess"]["certain"]["units"].as_f64().unwrap();
        assert!(excess < 50.0, "{run:#}");
    }
    let drawn = std::fs::read_to_string(&picture).unwrap();
    std::fs::remove_file(&picture).unwrap();
    assert!(drawn.starts_with("<svg ") && drawn.contains("static split"));
}

#[test]
fn a_node_is_killed_and_comes_back_and_the_relay_counts() {
    let common = ["rotating", "--members", "2", "--rate", "100", "--burst", "50", "--seconds", "2"];
    let told = overshoot(&[&common[..], &["--kill", "b@500ms..1s", "--delay", "1ms"]].concat());
    let run = &told["contenders"][0]["runs"][0];
    assert!(run["counts"].as_bool().unwrap(), "the split was planned: {run:#}");
    assert!(run["exchange"]["datagrams"].as_u64().unwrap() > 0, "{run:#}");
    assert!(run["exchange"]["splits"].as_u64().unwrap() > 0, "{run:#}");
    assert!(run["remarks"][0].as_str().unwrap().starts_with("as the trouble lets expect"));
}

#[test]
fn what_is_not_installed_is_skipped_and_told() {
    let common = ["small", "--members", "2", "--seconds", "1", "--beside", "redis,rateguard"];
    let missing = ["--redis-server", "/nonexistent/redis", "--rateguard", "/nonexistent/guard"];
    let told = overshoot(&[&common[..], &missing].concat());
    let skipped = told["skipped"].as_array().unwrap();
    assert_eq!((skipped.len(), told["contenders"].as_array().unwrap().len()), (2, 1));
    assert!(skipped[0]["why"].as_str().unwrap().contains("/nonexistent/redis"));
    assert!(skipped[1]["why"].as_str().unwrap().contains("/nonexistent/guard"));
}

#[test]
fn options_that_do_not_go_together_are_refused_before_anything_starts() {
    let output = Command::new(env!("CARGO_BIN_EXE_rlbench"))
        .args(["overshoot", "--members", "2", "--kill", "c@1s..2s", "--rlnode", "/nonexistent"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("there is no node `c`"));
}
