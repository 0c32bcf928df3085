//! A cluster of which something is missing: what the rest does by itself, and what a person does.

use std::time::Duration;

use crate::support::fleet::{
    HUNDRED_PER_HOUR, await_cluster, await_left, await_reached, left, spend,
};
use crate::support::{Fleet, Refusal, Surface, check, pause, process, run};

/// Members say every tenth of a second that they live.
const HEARD: Duration = Duration::from_millis(400);

/// Of a pair whose first by name is gone, the other stays on its half, says so, and has the whole limit
/// when somebody says that the first will not come back.
#[test]
fn the_second_of_a_pair_waits_for_somebody_to_forget_the_first() {
    let fleet = Fleet::new(&["a", "b"], HUNDRED_PER_HOUR);
    let mut nodes = fleet.start();
    assert_eq!(spend(&nodes[0], "alice", 40), 40);
    await_left(&nodes[1], "alice", 60);
    // What came last before a cut counts as the other side's until it was heard of once more.
    pause(HEARD);
    nodes.remove(0).crash();
    let b = &nodes[0];
    await_cluster(b, "is isolated", |cluster| cluster["isolated"] == true);
    // Half of sixty.
    assert_eq!(left(b, "alice"), 30);
    let address = b.stream_path().display().to_string();
    let status = run(&["status", "--addr", &address]);
    assert!(status.stdout.contains("isolated: it stays on 1/2 of every limit"), "{status:?}");
    assert!(status.stdout.contains("`rlnode node forget a`"), "{}", status.stdout);
    assert_eq!(b.metrics().sum("rlnode_cluster_isolated", &[]), 1);

    // Not over TCP, not this node, not somebody who is unknown.
    let http = b.http().to_string();
    let refused = run(&["node", "forget", "a", "--addr", &http]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("at its unix socket"), "{}", refused.stderr);
    let refused = run(&["node", "forget", "b", "--addr", &address]);
    assert!(refused.stderr.contains("this is the node itself"), "{}", refused.stderr);
    let refused = run(&["node", "forget", "z", "--addr", &address]);
    assert!(refused.stderr.contains("no member has this name"), "{}", refused.stderr);
    assert_eq!(left(b, "alice"), 30);

    let forgot = run(&["node", "forget", "a", "--addr", &address]);
    assert_eq!((forgot.code, forgot.stdout.as_str()), (Some(0), "forgot `a`: 1 members\n"));
    assert_eq!(left(b, "alice"), 60);
    assert_eq!(b.cluster()["isolated"], false);
    // Who comes back is a member again, with the counts.
    let a = fleet.spawn("a").await_ready();
    await_reached(&a, 2);
    await_left(&a, "alice", 60);
}

/// Who may use the sockets may not therefore operate the node: that is for its user and root.
#[test]
fn a_stranger_at_the_unix_socket_forgets_nobody() {
    const NOBODY: u32 = 65_534;
    if !rustix::process::geteuid().is_root() {
        return process::leave_out("a stranger at the unix socket: only root can become one");
    }
    let fleet = Fleet::new(&["a", "b"], HUNDRED_PER_HOUR);
    let file = fleet.folder().join("cluster.toml");
    let text = std::fs::read_to_string(&file).expect("the file");
    std::fs::write(&file, text.replace("[listen]\n", "[listen]\nunix_mode = 0o666\n"))
        .expect("ours");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(fleet.folder(), open).expect("our own folder");
    let a = fleet.spawn("a").await_ready();
    let address = a.stream_path().display().to_string();
    let mut command = process::rlnode(&["node", "forget", "b", "--addr", &address]);
    std::os::unix::process::CommandExt::uid(&mut command, NOBODY);
    let refused = process::finish(command);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("for the user of the node and root"), "{}", refused.stderr);
    assert_eq!(a.cluster()["members"], 2);
}

/// The first of a pair takes the whole limit over by itself when the other is gone for long enough.
#[test]
fn the_first_of_a_pair_forgets_the_second_by_itself() {
    let lines = "name = \"test\"\nforget_after = \"2s\"";
    let fleet = Fleet::with(&["a", "b"], lines, HUNDRED_PER_HOUR);
    let mut nodes = fleet.start();
    nodes.pop().expect("b").crash();
    let a = &nodes[0];
    await_cluster(a, "has lost `b`", |cluster| cluster["reached"] == 1);
    assert_eq!(a.cluster()["isolated"], false);
    assert_eq!(left(a, "alice"), 50);
    let advice = a.cluster()["advice"].as_str().expect("advice").to_owned();
    assert!(advice.contains("`b`; forgotten by itself in "), "{advice}");
    await_reached(a, 1);
    assert_eq!(left(a, "alice"), 100);
}

/// A limit may say what an isolated node does, instead of going on with its part.
#[test]
fn an_isolated_node_does_what_each_limit_says() {
    let limits = "[[limit]]\nname = \"open\"\nendpoint = \"/open\"\nrate = \"2/h\"\n\
                  when_isolated = \"allow\"\n\
                  [[limit]]\nname = \"closed\"\nendpoint = \"/closed\"\nrate = \"2/h\"\n\
                  when_isolated = \"deny\"\n";
    let fleet = Fleet::new(&["a", "b"], limits);
    let mut nodes = fleet.start();
    nodes.remove(0).crash();
    let b = &nodes[0];
    await_cluster(b, "is isolated", |cluster| cluster["isolated"] == true);
    let mut caller = b.caller(Surface::Http);
    for _ in 0..5 {
        assert!(caller.decide(&check("/open", "alice")).allowed);
    }
    let denied = caller.decide(&check("/closed", "alice"));
    assert_eq!((denied.allowed, denied.reason.as_str()), (false, "isolated"));
}

/// A node that has met nobody yet says so: it decides nothing until it is sure, then it has its part.
#[test]
fn a_node_that_starts_alone_waits_and_then_has_its_part() {
    let fleet = Fleet::new(&["a", "b"], HUNDRED_PER_HOUR);
    let a = fleet.spawn("a");
    assert!(a.log().wait_for("listening door=\"http\"", Duration::from_secs(9)));
    let mut stream = a.caller(Surface::Stream);
    let answer = stream.ask(&check("GET /", "alice"));
    assert_eq!(answer, Err(Refusal::Status(wire::Status::Starting)));
    let mut http = a.connection();
    assert_eq!(http.get("/readyz").status, 503);
    assert_eq!(http.get("/livez").status, 200);
    assert_eq!(http.get("/v1/auth?key=alice").status, 503);
    let asked = run(&["check", "GET /", "alice", "--addr", &a.stream_path().display().to_string()]);
    assert_eq!(asked.code, Some(2), "{asked:?}");
    let a = a.await_ready();
    assert_eq!(http.get("/readyz").status, 200);
    assert_eq!(left(&a, "alice"), 50);
    assert_eq!(a.caller(Surface::Http).decide(&check("GET /", "alice")).freshness, "split");
}

/// With `ready = "early"` a node answers from its part before it knows more.
#[test]
fn a_node_may_answer_early_from_its_part() {
    let lines = "name = \"test\"\nready = \"early\"";
    let fleet = Fleet::with(&["a", "b"], lines, HUNDRED_PER_HOUR);
    let a = fleet.spawn("a").await_ready();
    let answer = a.caller(Surface::Stream).decide(&check("GET /", "alice"));
    assert_eq!((answer.allowed, answer.remaining), (true, Some(49)));
    assert!(["starting", "split"].contains(&answer.freshness.as_str()), "{answer:?}");
}

/// Nodes with different files go on counting together, each by its own numbers, and say so.
#[test]
fn nodes_with_different_files_count_together_and_show_the_drift() {
    let fleet = Fleet::new(&["a", "b"], HUNDRED_PER_HOUR);
    let a = fleet.spawn("a");
    // The file is read at the start.
    assert!(a.log().wait_for("listening door=\"http\"", Duration::from_secs(9)));
    let more = "[[limit]]\nname = \"per-key\"\nrate = \"200/h\"\n\
                [[limit]]\nname = \"login\"\nendpoint = \"/login\"\nrate = \"5/h\"\n";
    fleet.write("name = \"test\"", more);
    let b = fleet.spawn("b").await_ready();
    let a = a.await_ready();
    for node in [&a, &b] {
        await_reached(node, 2);
    }
    assert_eq!(spend(&a, "alice", 40), 40);
    await_left(&b, "alice", 160);
    assert_eq!(spend(&b, "alice", 20), 20);
    await_left(&a, "alice", 40);
    let seen_by = |node: &crate::support::Node| node.cluster()["peers"][0].clone();
    assert_eq!(seen_by(&a)["drift"][0], "per-key");
    assert_eq!(seen_by(&a)["unknown_here"], 1);
    assert_eq!(seen_by(&b)["unknown_there"][0], "login");
    let drift = |node: &crate::support::Node, peer| {
        node.metrics().sum("rlnode_cluster_peer_drift_limits", &[("peer", peer)])
    };
    assert_eq!((drift(&a, "b"), drift(&b, "a")), (2, 2));
    let status = run(&["status", "--addr", &a.stream_path().display().to_string()]);
    assert!(status.stdout.contains("other numbers for per-key"), "{}", status.stdout);
}
