//! What a fleet let through, recorded by its nodes and judged by `rlnode audit`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::support::fleet::{ask_at_once, await_cluster, drain, spend};
use crate::support::time::PATIENCE;
use crate::support::{Config, Ended, Fleet, Node, Surface, check, pause, run_in, wait_until};

/// A hundred an hour for each key, every key recorded.
const RECORDED: &str = "[audit]\nsample = \"1/1\"\n\n\
                        [[limit]]\nname = \"per-key\"\nrate = \"100/h\"\n";
/// The record calls a cluster whole a second after it said so itself.
const SETTLED: Duration = Duration::from_millis(2_500);

fn audit(fleet: &Fleet, arguments: &[&str]) -> Ended {
    run_in(fleet.folder(), &[&["audit", "audit"], arguments].concat())
}

#[track_caller]
fn report(fleet: &Fleet, code: i32) -> Value {
    let ended = audit(fleet, &["--json", "--keys", "10"]);
    assert_eq!(ended.code, Some(code), "{ended:?}");
    serde_json::from_str(&ended.stdout).expect("a JSON object")
}

/// Spends at all nodes at once, one key after the other, and gives what passed of each.
fn load(nodes: &[Node], keys: &[&str]) -> Vec<u64> {
    let passed = |key: &&str| {
        let counts: Vec<_> = std::thread::scope(|scope| {
            let asking = nodes.iter().map(|node| {
                scope.spawn(|| {
                    let mut caller = node.caller(Surface::Stream);
                    (0..50).map(|_| ask_at_once(&mut caller, key, 1) as u64).sum::<u64>()
                })
            });
            let asking: Vec<_> = asking.collect();
            asking.into_iter().map(|it| it.join().expect("a caller")).collect()
        });
        counts.iter().sum()
    };
    keys.iter().map(passed).collect()
}

/// Three nodes spend three keys at once; what they recorded is what their callers saw, to the unit, and
/// the worst window of each key is all of it.
#[test]
fn a_fleet_that_stopped_has_recorded_what_its_callers_saw() {
    let fleet = Fleet::new(&["a", "b", "c"], RECORDED);
    let nodes = fleet.start();
    pause(SETTLED);
    let mut passed = load(&nodes, &["alice", "bob", "carol"]);
    passed[0] += drain(&nodes.iter().collect::<Vec<_>>(), "alice") as u64;
    let admitted: u64 = passed.iter().sum();
    let metrics = nodes[0].metrics();
    assert_eq!(metrics.sum("rlnode_audit_missing_total", &[]), 0);
    for node in nodes {
        node.stop();
    }
    let report = report(&fleet, 0);
    assert_eq!((&report["within"], &report["damaged"]), (&true.into(), &Value::Array(vec![])));
    let cluster = &report["clusters"][0];
    assert_eq!((&cluster["cluster"], &cluster["members"]), (&"test".into(), &3.into()));
    assert_eq!(cluster["unrecorded"], Value::Array(vec![]));
    for node in cluster["nodes"].as_array().expect("the nodes") {
        assert_eq!((&node["ended"], &node["missing_spends"]), (&true.into(), &0.into()), "{node}");
    }
    let limit = &cluster["limits"][0];
    assert_eq!((&limit["limit"], &limit["keys"]), (&"per-key".into(), &3.into()));
    assert_eq!(limit["admitted"], admitted);
    assert_eq!((&limit["judgement"], &limit["debited"]), (&"within".into(), &0.into()));
    let mut windows: Vec<_> = limit["worst"].as_array().expect("three keys").iter().collect();
    windows.sort_by_key(|window| window["units"].as_u64());
    passed.sort_unstable();
    for (window, passed) in windows.iter().zip(&passed) {
        // The refill of some seconds is less than a unit: no shorter window is worse.
        assert_eq!(window["units"], *passed, "{window}");
        assert_eq!(window["nodes"], serde_json::json!(["a", "b", "c"]));
        let below = window["excess_milliunits"].as_i64().expect("a number");
        let whole = (i64::try_from(*passed).expect("a hundred") - 100) * 1_000;
        assert!((whole - 999..=whole).contains(&below), "{window}");
    }
    // All processes of one machine have one clock.
    assert_eq!(cluster["clock_error_us"], 0);
    let words = audit(&fleet, &[]).stdout;
    assert!(words.ends_with("no limit is above its ceiling\n"), "{words}");
    let shown = audit(&fleet, &["--limit", "other"]);
    assert_eq!(shown.code, Some(2), "{shown:?}");
    assert!(shown.stderr.contains("`per-key`"), "{shown:?}");
}

/// What a killed node had not written is all that is missing, and the report says that it did not stop
/// in order.
#[test]
fn a_killed_node_loses_what_it_had_not_written_and_the_report_says_so() {
    let fleet = Fleet::new(&["a", "b", "c"], RECORDED);
    let mut nodes = fleet.start();
    let c = nodes.pop().expect("c");
    assert_eq!(spend(&c, "alice", 20), 20);
    wait_until("the record of 20 spends", PATIENCE, || {
        c.metrics().sum("rlnode_audit_spends_total", &[]) >= 20
    });
    assert_eq!(spend(&c, "alice", 10), 10);
    c.crash();
    await_cluster(&nodes[0], "has lost `c`", |cluster| cluster["reached"] == 2);
    assert_eq!(spend(&nodes[0], "alice", 10), 10);
    for node in nodes {
        node.stop();
    }
    let report = report(&fleet, 0);
    let cluster = &report["clusters"][0];
    let nodes = cluster["nodes"].as_array().expect("the nodes");
    let c = nodes.iter().find(|node| node["node"] == "c").expect("c");
    assert_eq!(c["ended"], false);
    let recorded = c["spends"].as_u64().expect("a number");
    assert!((20..=30).contains(&recorded), "{c}");
    assert_eq!(cluster["limits"][0]["admitted"], recorded + 10);
    assert!(cluster["split_ms"].as_u64().expect("a number") > 0);
    assert_eq!(report["damaged"], Value::Array(vec![]));
    let words = audit(&fleet, &[]).stdout;
    assert!(words.contains("did not stop in order"), "{words}");
}

/// A node that was killed and started again has two records. Where the first is not brought, others tell
/// that there was one: the name alone would not.
#[test]
fn a_start_whose_record_was_not_brought_is_missing_though_the_node_has_another() {
    let fleet = Fleet::new(&["a", "b", "c"], RECORDED);
    let mut nodes = fleet.start();
    pause(SETTLED);
    assert_eq!(spend(&nodes[1], "alice", 40), 40);
    wait_until("the record of 40 spends", PATIENCE, || {
        nodes[1].metrics().sum("rlnode_audit_spends_total", &[]) >= 40
    });
    nodes.remove(1).crash();
    await_cluster(&nodes[0], "has lost `b`", |cluster| cluster["reached"] == 2);
    let folder = fleet.folder().join("audit");
    let of_b = fs::read_dir(&folder).expect("a folder").map(|file| file.expect("an entry").path());
    let of_b = of_b.filter(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("b."))
    });
    let first: Vec<_> = of_b.collect();
    assert_eq!(first.len(), 1, "{first:?}");
    let b = fleet.spawn("b").await_ready();
    await_cluster(&nodes[0], "has `b` again", |cluster| cluster["reached"] == 3);
    pause(SETTLED);
    assert_eq!(spend(&b, "alice", 20), 20);
    b.stop();
    nodes.into_iter().for_each(Node::stop);
    let whole = report(&fleet, 0);
    assert_eq!(whole["clusters"][0]["unrecorded"], Value::Array(vec![]));
    assert_eq!(whole["clusters"][0]["limits"][0]["admitted"], 60);
    fs::remove_file(&first[0]).expect("our own file");
    let report = report(&fleet, 0);
    let cluster = &report["clusters"][0];
    assert_eq!((&cluster["spends"], &cluster["unmet"]), (&20.into(), &0.into()));
    let missing = cluster["unrecorded"].as_array().expect("what is missing");
    let [b] = missing.as_slice() else { panic!("one start: {missing:?}") };
    assert_eq!(b["node"], "b");
    let life = b["life"].as_str().expect("its life");
    assert!(first[0].to_string_lossy().contains(life), "{life} {first:?}");
    assert!(b["from_unix_ms"].as_i64() < b["until_unix_ms"].as_i64(), "{b}");
    let words = audit(&fleet, &[]).stdout;
    let end = format!("of what is here; MISSING: the records of b, started as {life}\n");
    assert!(words.ends_with(&end), "{words}");
}

/// The files are the user's alone, hold no key, and a cut one is read up to there.
#[test]
fn files_are_private_and_a_cut_one_is_read_up_to_where_it_is_cut() {
    let fleet = Fleet::new(&["a"], RECORDED);
    let nodes = fleet.start();
    let key = "a-key-that-nobody-has-to-see";
    assert_eq!(spend(&nodes[0], key, 30), 30);
    let answer = nodes[0].caller(Surface::Http).decide(&check("GET /", key));
    assert!(answer.allowed);
    nodes.into_iter().for_each(Node::stop);
    let folder = fleet.folder().join("audit");
    let mode = |path: &std::path::Path| {
        fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    };
    assert_eq!(mode(&folder), 0o700);
    let files = fs::read_dir(&folder).expect("a folder");
    let files: Vec<_> = files.map(|file| file.expect("an entry").path()).collect();
    let [file] = files.as_slice() else { panic!("one file: {files:?}") };
    assert_eq!(mode(file), 0o600);
    let bytes = fs::read(file).expect("a file");
    assert!(!bytes.windows(key.len()).any(|window| window == key.as_bytes()));
    assert_eq!(report(&fleet, 0)["clusters"][0]["limits"][0]["admitted"], 31);
    fs::write(file, &bytes[..bytes.len() - 1]).expect("our own file");
    let report = report(&fleet, 0);
    let damage = report["damaged"][0]["at_byte"].as_u64().expect("where");
    assert!(damage > 8 && damage < bytes.len() as u64, "{report}");
    fs::write(file, b"something else").expect("our own file");
    let ended = audit(&fleet, &[]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("no audit file"), "{ended:?}");
}

/// A limit that is no bucket is named with what it let through, and the last sentence does not speak for it.
#[test]
fn a_limit_that_is_not_judged_is_said_to_be_so() {
    let node = Node::start(&Config::new(
        "[audit]\nsample = \"1/1\"\n\n[[limit]]\nname = \"login\"\nalgorithm = \"sliding-log\"\n\
         limit = \"5 per 15m\"\n",
    ));
    let place = Arc::clone(node.place());
    let mut caller = node.caller(Surface::Stream);
    let passed = (0..7).filter(|_| caller.decide(&check("", "alice")).allowed).count();
    assert_eq!(passed, 5);
    node.stop();
    let ended = run_in(place.folder(), &["audit", "audit"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let line = "limit login: sliding-log; 5 spends, 5 units admitted; NOT JUDGED: ";
    assert!(ended.stdout.contains(line), "{}", ended.stdout);
    let last = "of what is here; MISSING: a judgement of login (sliding-log)\n";
    assert!(ended.stdout.ends_with(last), "{}", ended.stdout);
    let json = run_in(place.folder(), &["audit", "audit", "--json", "--limit", "login"]);
    let json: Value = serde_json::from_str(&json.stdout).expect("a JSON object");
    assert_eq!(
        json["clusters"][0]["unjudged"],
        serde_json::json!([
            { "limit": "login", "algorithm": "sliding-log", "spends": 5, "admitted": 5 }
        ])
    );
}
