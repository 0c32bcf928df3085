//! Clients of Redis that others wrote, against the door: pipelined, in both versions of the protocol, and when
//! the node is gone.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{brought, folder};
use crate::support::resp::redis_address;
use crate::support::{Config, Node, process};

const LIMITS: &str = "[[limit]]\nname = \"per-key\"\nrate = \"100/h\"\n";

fn node() -> Node {
    Node::start(&Config::new(LIMITS).listen("redis = \"127.0.0.1:0\"\n"))
}

fn script(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.join("tests/node/clients/redis").join(name)
}

/// What `program` prints.
#[track_caller]
fn run(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert!(output.status.success(), "{said}: {}", String::from_utf8_lossy(&output.stderr));
    said
}

/// Ten of twenty calls pass, and the check answers; when the node is gone the client says so.
#[track_caller]
fn floods(program: &Path, before: &[&str], after: &[&str]) {
    let node = node();
    let port = redis_address(&node).port().to_string();
    let arguments = [before, &[&port], after].concat();
    assert_eq!(run(program, &arguments), "10 10 10 98");
    let malformed = [("door", "redis"), ("kind", "malformed")];
    assert_eq!(node.metrics().sum("rlnode_errors_total", &malformed), 0, "it understood all");
    drop(node);
    assert_eq!(run(program, &arguments), "gone");
}

#[test]
#[ignore = "needs real clients: scripts/doors"]
fn redis_py() {
    let Some(python) = brought("venv/bin/python", "redis-py") else { return };
    for version in ["2", "3"] {
        floods(&python, &[&script("redis_py.py").display().to_string()], &[version]);
    }
}

#[test]
#[ignore = "needs real clients: scripts/doors"]
fn node_redis() {
    if brought("node_modules/redis", "node-redis").is_none() {
        return;
    }
    let (script, modules) = (script("node_redis.mjs"), folder());
    let before = [&*script.display().to_string(), &modules.display().to_string()];
    for version in ["2", "3"] {
        floods(Path::new("node"), &before, &[version]);
    }
}

#[test]
#[ignore = "needs real clients: scripts/doors"]
fn ioredis() {
    if brought("node_modules/ioredis", "ioredis").is_none() {
        return;
    }
    let (script, modules) = (script("ioredis.mjs"), folder());
    let before = [&*script.display().to_string(), &modules.display().to_string()];
    floods(Path::new("node"), &before, &[]);
}

/// A call by a command's arguments, and twenty through its pipe.
#[test]
#[ignore = "needs real clients: scripts/doors"]
fn redis_cli() {
    if Command::new("redis-cli").arg("--version").output().is_err() {
        return process::leave_out("redis-cli is not here; run scripts/doors");
    }
    let node = node();
    let port = redis_address(&node).port().to_string();
    let cli = Path::new("redis-cli");
    let call = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        run(cli, &[&["-p", &port], &words[..]].concat())
    };
    assert_eq!(call("PING"), "PONG");
    assert_eq!(call("CL.THROTTLE cli 9 10 3600"), "0\n10\n9\n-1\n360");
    let commands = "CL.THROTTLE cli 9 10 3600\n".repeat(20);
    let mut child = Command::new(cli)
        .args(["-p", &port])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut input = child.stdin.take().expect("piped");
    std::io::Write::write_all(&mut input, commands.as_bytes()).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Vec<&str> = said.lines().collect();
    assert_eq!(numbers.len(), 100, "{said}");
    let passed = numbers.chunks(5).filter(|answer| answer[0] == "0").count();
    assert_eq!(passed, 9, "{said}");
    let pipe = Command::new(cli)
        .args(["-p", &port, "--pipe"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut pipe = pipe;
    let mut input = pipe.stdin.take().expect("piped");
    std::io::Write::write_all(&mut input, "RL.PEEK alice GET\r\n".repeat(500).as_bytes())
        .expect("it reads");
    drop(input);
    let output = pipe.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("errors: 0, replies: 500"), "{said}");
    drop(node);
    let gone = Command::new(cli).args(["-p", &port, "PING"]).output().expect("it starts");
    assert!(String::from_utf8_lossy(&gone.stderr).contains("refused"), "{gone:?}");
}
