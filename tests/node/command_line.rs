//! The command line: what an operator types in the first minute, and what comes back.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::{Config, Ended, Node, Place, process, run, run_in};

/// The file as it is shipped, at ports that are free and a socket in its own folder.
fn shipped() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/cluster.toml");
    let mut text = fs::read_to_string(path).expect("the shipped file");
    for (shipped, own) in [
        ("\"127.0.0.1:7400\"", "\"127.0.0.1:0\""),
        ("\"127.0.0.1:7480\"", "\"127.0.0.1:0\""),
        ("# unix = \"/run/rlnode/rlnode.sock\"", "unix = \"n.sock\""),
    ] {
        assert_eq!(text.matches(shipped).count(), 1, "{shipped}");
        text = text.replace(shipped, own);
    }
    text
}

fn check(node: &Node, arguments: &[&str]) -> Ended {
    let path = node.stream_path();
    let address = path.to_str().expect("text");
    run(&[&["check"], arguments, &["--addr", address]].concat())
}

/// With the shipped file, `rlnode check "GET /" alice` prints the right numbers; exit 0
/// while allowed, 1 when denied.
#[test]
fn check_prints_the_numbers_of_the_shipped_file() {
    let node = Place::with_text(&shipped()).start();
    let first = check(&node, &["GET /", "alice"]);
    let words = "allowed by `per-key`: 99 of 100 left; full again in 36 s\n";
    assert_eq!((first.code, first.stdout.as_str()), (Some(0), words), "{}", first.stderr);
    assert_eq!(first.stderr, "");

    let spent = check(&node, &["GET /", "alice", "--cost", "99"]);
    assert_eq!(spent.code, Some(0));
    assert!(spent.stdout.starts_with("allowed by `per-key`: 0 of 100 left;"), "{}", spent.stdout);
    let denied = check(&node, &["GET /", "alice"]);
    assert_eq!(denied.code, Some(1), "{}", denied.stderr);
    let start = "denied by `per-key`: 0 of 100 left (limit); would pass in ";
    assert!(denied.stdout.starts_with(start), "{}", denied.stdout);

    let search = check(&node, &["POST /search", "alice"]);
    assert!(search.stdout.starts_with("allowed by `per-key/search`: 19 of 20"), "{search:?}");
    let pro = check(&node, &["GET /", "bob", "--attribute", "plan=pro"]);
    assert!(pro.stdout.starts_with("allowed by `per-key/pro`: 9999 of 10000"), "{pro:?}");
    let login = check(&node, &["POST /login", "bob", "--attribute", "ip=192.0.2.1"]);
    assert!(login.stdout.starts_with("allowed by `login`: 4 of 5"), "{login:?}");
    let health = check(&node, &["/health/live", "alice"]);
    assert_eq!(health.code, Some(0), "{health:?}");
}

/// The same at every door that the command knows.
#[test]
fn check_asks_by_any_address() {
    let node = Node::start(&Config::of_rate("100/h"));
    let udp = node.udp().to_string();
    let seqpacket = node.seqpacket_path().display().to_string();
    let stream = format!("unix://{}", node.stream_path().display());
    for (address, left) in [(udp, 99), (seqpacket, 98), (stream, 97)] {
        let ended = run(&["check", "GET /", "alice", "--addr", &address]);
        assert!(ended.stdout.contains(&format!("{left} of 100 left")), "{address}: {ended:?}");
    }
    let mut by_environment = process::rlnode(&["check", "GET /", "alice"]);
    by_environment.env("RLNODE_ADDR", node.udp().to_string());
    let ended = process::finish(by_environment);
    assert!(ended.stdout.contains("96 of 100 left"), "{ended:?}");
}

/// A node whose file names no socket is found without an address, by whoever has its environment.
#[test]
fn check_finds_the_default_socket() {
    let place = Place::with_text(
        "[listen]\nudp = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\n\
         [[limit]]\nname = \"per-key\"\nrate = \"100/h\"\n",
    );
    for variable in ["RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR", "TMPDIR"] {
        let mut command = place.command();
        command.env(variable, place.folder());
        let node = Node::spawn_unready(place.clone(), command);
        assert!(node.is_ready(), "{variable}: {}", node.log().text());
        for arguments in [&["check", "GET /", "alice"][..], &["status"]] {
            let mut command = process::rlnode(arguments);
            command.env("TMPDIR", place.folder()).env(variable, place.folder());
            let ended = process::finish(command);
            assert_eq!(ended.code, Some(0), "{variable}: {ended:?}");
        }
        node.stop();
    }
}

/// `--json` gives the names of the HTTP answer.
#[test]
fn check_prints_json() {
    let node = Node::start(&Config::of_rate("100/h"));
    let ended = check(&node, &["GET /", "alice", "--json", "--details"]);
    let json: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(json["allowed"], true);
    assert_eq!(json["limit_name"], "per-key");
    assert_eq!((&json["limit"], &json["remaining"]), (&Value::from(100), &Value::from(99)));
    assert_eq!(json["reset_after_ms"], 36_000);
    assert_eq!(json["retry_after_ms"], 0);
    assert_eq!(json["reason"], "ok");
    assert_eq!(json["freshness"], "alone");
    assert_eq!(json["details"][0]["limit_name"], "per-key");
}

/// No answer is 2, whatever the reason, and says what to look at.
#[test]
fn a_question_without_an_answer_exits_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let absent = folder.path().join("absent.sock").display().to_string();
    let cases = [
        vec!["check", "GET /", "alice", "--addr", &absent],
        vec!["check", "GET /", "alice", "--addr", "127.0.0.1:1"],
        vec!["check", "GET /", "alice", "--addr", "127.0.0.1"],
        vec!["check", "GET /", "", "--addr", "127.0.0.1:1"],
        vec!["check", "GET /"],
        vec!["check", "GET /", "alice", "--cost=-1"],
        vec!["check", "GET /", "alice", "--cost", "18446744073709551616"],
        vec!["chekc", "GET /", "alice"],
        vec!["status", "--addr", &absent],
        vec!["why", "GET /", "alice", "--addr", &absent],
        vec!["why", "GET /"],
        vec!["--no-such-option"],
        vec![],
    ];
    for arguments in cases {
        let ended = run_in(folder.path(), &arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {ended:?}");
        assert!(!ended.stderr.is_empty() && ended.stdout.is_empty(), "{arguments:?}: {ended:?}");
    }
    let node = Node::start(&Config::of_rate("1/h"));
    let ended = check(&node, &["GET /", ""]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("key"), "{}", ended.stderr);
}

/// `status` shows the node in words and in the JSON of HTTP.
#[test]
fn status_shows_the_node() {
    let node = Node::start(&Config::of_rate("2/h"));
    for _ in 0..3 {
        check(&node, &["GET /", "alice"]);
    }
    let http = node.http().to_string();
    let socket = node.stream_path().display().to_string();
    for address in [&http, &socket] {
        let ended = run(&["status", "--addr", address]);
        assert_eq!(ended.code, Some(0), "{address}: {ended:?}");
        assert!(ended.stdout.starts_with("node n1 (rlnode "), "{}", ended.stdout);
        assert!(ended.stdout.contains("limit per-key: 2 allowed, 1 denied"), "{}", ended.stdout);
        assert!(ended.stdout.contains(&node.udp().to_string()), "{}", ended.stdout);
        let ended = run(&["status", "--json", "--addr", address]);
        let json: Value = serde_json::from_str(&ended.stdout).expect("JSON");
        assert_eq!((&json["node"], &json["limits"][0]["denied"]), (&"n1".into(), &1.into()));
    }
}

/// `validate` takes the shipped file as it is; `explain` says what it does, and knows the live
/// figures of a node.
#[test]
fn validate_and_explain_read_the_shipped_file() {
    let place = Place::with_text(&shipped());
    let file = place.config_path().display().to_string();
    let valid = run(&["validate", &file, "--node", "n1"]);
    assert_eq!(valid.code, Some(0), "{valid:?}");
    assert!(valid.stdout.contains("valid for node `n1`"), "{}", valid.stdout);

    let explained = run_in(place.folder(), &["explain", "--config", &file]);
    assert_eq!(explained.code, Some(0), "{explained:?}");
    assert!(explained.stdout.contains("100/h sustained, burst 100, one per 36 s"));
    let one = run_in(place.folder(), &["explain", "per-key/pro", "--config", &file]);
    assert!(one.stdout.contains("attribute `plan` is `pro`"), "{}", one.stdout);
    assert!(!one.stdout.contains("POST /login"), "{}", one.stdout);
    let unknown = run_in(place.folder(), &["explain", "per-kee", "--config", &file]);
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.stderr.contains("did you mean `per-key`?"), "{}", unknown.stderr);

    let node = place.start();
    check(&node, &["GET /", "alice"]);
    let socket = node.stream_path().display().to_string();
    let live = run(&["explain", "per-key", "--config", &file, "--addr", &socket]);
    assert!(live.stdout.contains("per-key: 1 allowed, 0 denied"), "{}", live.stdout);
    assert!(!live.stdout.contains("login:"), "{}", live.stdout);
}

/// Every command has help; completions and the manual know every command.
#[test]
fn help_completions_and_manual_come_from_one_definition() {
    const COMMANDS: [&str; 10] = [
        "check",
        "status",
        "validate",
        "explain",
        "why",
        "cert",
        "node",
        "demo",
        "completions",
        "man",
    ];
    let help = run(&["--help"]);
    assert_eq!(help.code, Some(0));
    let manual = run(&["man"]);
    assert_eq!(manual.code, Some(0));
    assert!(manual.stdout.contains(".TH rlnode 1"), "{}", manual.stdout);
    for command in COMMANDS {
        assert!(help.stdout.contains(&format!("\n  {command} ")), "{}", help.stdout);
        assert!(manual.stdout.contains(&format!("rlnode\\-{command}")), "{command}");
        let of_command = run(&[command, "--help"]);
        assert_eq!(of_command.code, Some(0), "{command}");
        assert!(of_command.stdout.contains(&format!("Usage: rlnode {command}")), "{of_command:?}");
    }
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completions", shell]);
        assert_eq!(script.code, Some(0), "{shell}");
        assert!(COMMANDS.iter().all(|command| script.stdout.contains(command)), "{shell}");
    }
    let version = run(&["--version"]);
    assert_eq!(version.stdout, format!("rlnode {}\n", env!("CARGO_PKG_VERSION")));
}

/// A reader that has had enough, such as `head`, is no error.
#[test]
fn a_closed_pipe_is_no_error() {
    let place = Place::with_text(&shipped());
    let file = place.config_path().display().to_string();
    for arguments in [&["completions", "bash"][..], &["man"], &["explain", "--config", &file]] {
        // The shell closes the reading end before the program starts.
        let script = "exec 3>&1; (sleep 0.1; \"$0\" \"$@\"; echo $? >&3) | exec true";
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script, process::RLNODE]).args(arguments).stdin(Stdio::null());
        let ended = process::finish(command);
        assert_eq!((ended.stdout.trim(), ended.stderr.as_str()), ("0", ""), "{arguments:?}");
    }
}

/// Logs can be had as one JSON object per line, and as loud as one wants.
#[test]
fn logs_can_be_json_and_quiet() {
    let place = Place::new(&Config::of_rate("1/h"));
    let mut command = place.command();
    command.args(["--log-format", "json"]);
    let node = Node::spawn_unready(place, command);
    let is_ready = node.log().wait_for("\"ready\"", Duration::from_secs(5));
    assert!(is_ready, "{}", node.log().text());
    for line in node.log().lines() {
        let json: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(json["level"], "INFO");
    }
    let place = Place::new(&Config::of_rate("1/h"));
    let mut command = place.command();
    command.args(["--log", "no=such=level"]);
    let ended = process::finish(command);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("`no=such=level`"), "{}", ended.stderr);
}
