//! Peers that the file adds and takes away while the nodes run.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::fleet::{
    HUNDRED_PER_HOUR, await_cluster, await_left, await_reached, await_whole, spend,
};
use crate::support::process::{self, memory_kib, open_files, threads};
use crate::support::time::PATIENCE;
use crate::support::{Fleet, Node, pause, wait_until};

/// How long a peer that is not there is looked for: an address is dialled five times a second.
const LOOKED_FOR: Duration = Duration::from_millis(100);

/// Writes the file with the first so many nodes of the fleet as peers.
fn name_peers(fleet: &Fleet, count: usize) {
    let path = fleet.folder().join("cluster.toml");
    let text = fs::read_to_string(&path).expect("the file");
    let line = text.lines().find(|line| line.starts_with("peers = ")).expect("the peers");
    let peers: Vec<_> = (0..count).map(|index| format!("\"{}\"", fleet.at(index))).collect();
    let text = text.replace(line, &format!("peers = [{}]", peers.join(", ")));
    let fresh = path.with_extension("new");
    fs::write(&fresh, text).expect("our own file");
    fs::rename(&fresh, &path).expect("our own file");
}

/// Has `node` read the file, and waits until it has.
#[track_caller]
fn reload(node: &Node) {
    let reloads = || {
        let file = &node.status()["file"];
        assert_eq!(file["failed_reloads"], 0, "{file}");
        file["reloads"].as_u64().expect("a number")
    };
    let before = reloads();
    node.signal(Signal::HUP);
    wait_until("the file was read", PATIENCE, || reloads() > before);
}

/// Adds a peer to the file of two nodes and takes it out again, so many times, and expects them to hold
/// no more than after the first. In the middle the peer is there, joins, and leaves.
#[track_caller]
fn change_peers(times: usize) {
    let fleet = Fleet::new(&["a", "b", "c"], HUNDRED_PER_HOUR);
    name_peers(&fleet, 2);
    let nodes = ["a", "b"].map(|name| fleet.spawn(name)).map(Node::await_ready);
    await_whole(&nodes);
    assert_eq!(spend(&nodes[0], "alice", 40), 40);
    let a = &nodes[0];
    let held = || (open_files(a.id()), threads(a.id()));
    let (mut before, mut grown_kib) = (None, 0);
    for time in 0..times {
        name_peers(&fleet, 3);
        nodes.iter().for_each(reload);
        if time == times / 2 {
            let c = fleet.spawn("c").await_ready();
            nodes.iter().chain([&c]).for_each(|node| await_reached(node, 3));
            await_left(&c, "alice", 60);
            // Whoever is named no longer is a member as before, until it leaves.
            name_peers(&fleet, 2);
            nodes.iter().for_each(reload);
            pause(LOOKED_FOR);
            assert!(nodes.iter().all(|node| node.cluster()["members"] == 3));
            c.stop();
        } else {
            pause(LOOKED_FOR);
            name_peers(&fleet, 2);
            nodes.iter().for_each(reload);
        }
        await_whole(&nodes);
        let (before, memory_before_kib) = *before.get_or_insert((held(), memory_kib(a.id())));
        // What belonged to a dial, or to the connection, goes with it, a little later.
        wait_until("as many files and threads as after the first", PATIENCE, || {
            let now = held();
            now.0 <= before.0 && now.1 <= before.1
        });
        grown_kib = memory_kib(a.id()).saturating_sub(memory_before_kib);
        assert!(grown_kib < 8 * 1024, "{grown_kib} KiB after {} changes of the peers", time + 1);
    }
    for node in &nodes {
        await_cluster(node, "counts two", |cluster| cluster["members"] == 2);
        await_left(node, "alice", 60);
    }
    process::say(&format!(
        "{grown_kib} KiB more after {times} changes of the peers than after one"
    ));
}

/// PE-21: a peer that the file adds and takes away, twenty times, leaves nothing behind.
#[test]
fn peers_that_come_and_go_in_the_file_leave_nothing_behind() {
    change_peers(20);
}

#[test]
#[ignore = "some minutes: scripts/long peers"]
fn five_hundred_changes_of_the_peers_leave_nothing_behind() {
    change_peers(500);
}
