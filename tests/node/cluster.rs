//! Several nodes as one: what is spent at one is spent at all, also across starts, stops and blips.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use crate::support::fleet::{
    HUNDRED_PER_HOUR, ask_at_once, await_cluster, await_left, await_reached, drain, left, spend,
};
use crate::support::time::PATIENCE;
use crate::support::{Fleet, Node, Place, Stopwatch, Surface, check, pause, run, run_in};

/// The five commands of the manual: certificates, and three nodes from the file that is shipped.
#[test]
fn three_nodes_from_the_shipped_file_hold_one_limit() {
    let folder = Arc::new(tempfile::tempdir().expect("a folder for temporary files"));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/three-nodes.toml");
    let mut text = fs::read_to_string(path).expect("the shipped file");
    // The same file at addresses that are free here.
    let host = std::process::id() % 250 + 1;
    for (port, own) in [("7412", "1"), ("7422", "2"), ("7432", "3")] {
        let shipped = format!("127.0.0.1:{port}");
        assert_eq!(text.matches(&shipped).count(), 2, "{shipped}");
        text = text.replace(&shipped, &format!("127.{host}.255.{own}:{port}"));
    }
    for port in ["7410", "7411", "7420", "7421", "7430", "7431"] {
        let shipped = format!("127.0.0.1:{port}");
        assert_eq!(text.matches(&shipped).count(), 1, "{shipped}");
        text = text.replace(&shipped, "127.0.0.1:0");
    }
    fs::write(folder.path().join("cluster.toml"), text).expect("a file in our own folder");
    for arguments in [
        &["cert", "init", "--dir", "certs"][..],
        &["cert", "issue", "--dir", "certs", "--node", "a", "--node", "b", "--node", "c"],
    ] {
        let ended = run_in(folder.path(), arguments);
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    let starting = ["a", "b", "c"].map(|name| {
        let place = Place::shared(&folder, name);
        let command = place.command();
        Node::spawn_unready(place, command)
    });
    let [a, b, c] = starting.map(Node::await_ready);

    let address = a.stream_path().display().to_string();
    for call in 0..40 {
        let ended = run(&["check", "GET /", "alice", "--addr", &address]);
        assert_eq!(ended.code, Some(0), "call {call}: {ended:?}");
    }
    for node in [&b, &c] {
        await_left(node, "alice", 60);
        let answer = node.caller(Surface::Http).decide(&check("GET /", "bob"));
        assert_eq!(answer.freshness, "synced");
        let status = run(&["status", "--addr", &node.stream_path().display().to_string()]);
        assert!(status.stdout.contains("cluster laptop: reaches 3 of 3 members"), "{status:?}");
        assert!(status.stdout.contains("member a: counted, heard "), "{}", status.stdout);
    }
    // What is left can be spent, and not more.
    assert_eq!(drain(&[&b, &c, &a], "alice"), 60);
    for node in [&a, &b, &c] {
        await_left(node, "alice", 0);
    }
}

/// A node that was killed takes the counts from the others, and what it let through is not forgotten.
#[test]
fn a_node_that_crashed_comes_back_with_the_counts() {
    let fleet = Fleet::new(&["a", "b", "c"], HUNDRED_PER_HOUR);
    let mut nodes = fleet.start();
    assert_eq!(spend(&nodes[0], "alice", 25) + spend(&nodes[2], "alice", 15), 40);
    await_left(&nodes[1], "alice", 60);
    nodes.pop().expect("c").crash();
    // Two thirds of the limit are left to two of three, less what was spent.
    await_cluster(&nodes[0], "has lost `c`", |cluster| cluster["reached"] == 2);
    assert_eq!(spend(&nodes[0], "alice", 5), 5);
    let c = fleet.spawn("c").await_ready();
    for node in [&nodes[0], &nodes[1], &c] {
        await_left(node, "alice", 55);
    }
    assert_eq!(c.log().count("took the counts of 1 buckets"), 1, "{}", c.log().text());
    assert_eq!(drain(&[&c, &nodes[0], &nodes[1]], "alice"), 55);
}

/// A process that stood still for two seconds knows within one what happened meanwhile, and so do
/// the others: nothing is counted twice, nothing comes back.
#[test]
fn a_node_that_stood_still_catches_up_within_a_second() {
    let fleet = Fleet::new(&["a", "b", "c"], HUNDRED_PER_HOUR);
    let nodes = fleet.start();
    assert_eq!(spend(&nodes[2], "alice", 40), 40);
    await_left(&nodes[0], "alice", 60);
    nodes[2].suspend();
    let stopwatch = Stopwatch::start();
    await_cluster(&nodes[0], "has lost `c`", |cluster| cluster["reached"] == 2);
    let split = nodes[0].caller(Surface::Http).decide(&check("GET /", "bob"));
    assert_eq!(split.freshness, "split");
    assert_eq!(spend(&nodes[0], "alice", 6) + spend(&nodes[1], "alice", 4), 10);
    pause(Duration::from_secs(2).saturating_sub(stopwatch.elapsed()));
    nodes[2].signal(rustix::process::Signal::CONT);
    for node in &nodes {
        await_left(node, "alice", 50);
        await_reached(node, 3);
    }
    assert_eq!(drain(&[&nodes[1], &nodes[2], &nodes[0]], "alice"), 50);
}

/// A stop tells the last of what was let through, leaves, and takes less than five seconds; the others
/// have the whole limit at once.
#[test]
fn a_node_that_stops_leaves_at_once_and_loses_nothing() {
    let fleet = Fleet::new(&["a", "b", "c"], HUNDRED_PER_HOUR);
    let mut nodes = fleet.start();
    let mut c = nodes.pop().expect("c");
    let mut caller = c.caller(Surface::Stream);
    c.signal(rustix::process::Signal::TERM);
    let stopwatch = Stopwatch::start();
    // It is answered to the end.
    let passed: usize = (0..40).map(|_| ask_at_once(&mut caller, "alice", 1)).sum();
    assert_eq!(passed, 40);
    let status = c.wait(PATIENCE);
    assert!(stopwatch.elapsed() < Duration::from_secs(5), "{:?}", stopwatch.elapsed());
    assert_eq!(status.code(), Some(0), "{}", c.log().text());
    for node in &nodes {
        await_reached(node, 2);
        assert_eq!(left(node, "alice"), 60);
        let answer = node.caller(Surface::Http).decide(&check("GET /", "bob"));
        assert_eq!((answer.freshness.as_str(), answer.limit), ("synced", Some(100)));
    }
}

/// Every node is restarted, one after the other, and of ten units six are left all the time.
#[test]
fn a_rolling_restart_forgets_nothing() {
    let fleet = Fleet::new(&["a", "b", "c"], "[[limit]]\nname = \"per-key\"\nrate = \"10/h\"\n");
    let mut nodes = fleet.start();
    assert_eq!(spend(&nodes[0], "alice", 4), 4);
    for _ in 0..3 {
        let node = nodes.remove(0);
        let name = node.place().node().to_owned();
        node.stop();
        let node = fleet.spawn(&name).await_ready();
        await_reached(&node, 3);
        nodes.push(node);
    }
    for node in &nodes {
        await_left(node, "alice", 6);
    }
    assert_eq!(drain(&nodes.iter().collect::<Vec<_>>(), "alice"), 6);
}

/// Nearly the whole burst of an idle key can be spent at one node: what is more than its share is held
/// until the peers know, and a frame is answered when its last check is decided. The last units wait
/// for the members whose turn it is.
#[test]
fn a_burst_at_one_node_is_held_for_its_peers_and_passes() {
    let limit = "[[limit]]\nname = \"per-key\"\nrate = \"20/h\"\n";
    let fleet = Fleet::new(&["a", "b", "c"], limit);
    let nodes = fleet.start();
    for (key, surface) in [("s", Surface::Stream), ("q", Surface::Seqpacket), ("u", Surface::Udp)] {
        let mut caller = nodes[0].caller(surface);
        let passed = ask_at_once(&mut caller, key, 20);
        assert!((16..=20).contains(&passed), "{surface:?}: {passed}");
        await_left(&nodes[1], key, 20 - passed as u64);
    }
    let mut http = nodes[0].connection();
    let checks: Vec<_> =
        (0..20).map(|_| serde_json::json!({"key": "h", "max_wait_ms": 1_000})).collect();
    let body = serde_json::json!({ "checks": checks }).to_string();
    let answer = http.request("POST", "/v1/check", &[], body.as_bytes()).json();
    let decisions = answer["decisions"].as_array().expect("a list");
    let passed = decisions.iter().filter(|it| it["allowed"] == true).count();
    assert!((16..=20).contains(&passed), "{answer}");
    assert!(nodes[0].metrics().sum("rlnode_cluster_held_total", &[]) > 0);
    // Who does not wait is told that units are left, and when to ask again.
    let denied =
        http.request("POST", "/v1/check", &[], br#"{"key":"n","cost":20,"max_wait_ms":0}"#);
    assert_eq!(denied.json()["reason"], "share", "{denied:?}");
}
