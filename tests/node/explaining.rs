//! What a cluster says of itself: what is proven of a limit on it, and why a key is answered as it is.

use serde_json::Value;

use crate::support::fleet::{
    HUNDRED_PER_HOUR, SOON, await_cluster, await_left, await_reached, spend,
};
use crate::support::{Config, Ended, Fleet, Node, run, run_in, wait_until};

fn ask_why(node: &Node, arguments: &[&str]) -> Ended {
    let address = node.stream_path().display().to_string();
    let ended = run(&[&["why"], arguments, &["--addr", &address]].concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended
}

/// What `node` says of `alice` at `GET /`.
fn why_json(node: &Node, key: &str) -> Value {
    let ended = ask_why(node, &["GET /", key, "--json"]);
    serde_json::from_str(&ended.stdout).expect("JSON")
}

fn explain(fleet: &Fleet, arguments: &[&str]) -> String {
    let file = fleet.folder().join("cluster.toml").display().to_string();
    let arguments = [&["explain", "--config", &file, "--node", "a"], arguments].concat();
    let ended = run(&arguments);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.stdout
}

/// A running node gives the members and the round trip that the bound of a limit depends on.
#[test]
fn explain_tells_the_bound_for_the_cluster_that_runs() {
    let fleet = Fleet::new(&["a", "b", "c"], HUNDRED_PER_HOUR);
    let absent = fleet.folder().join("absent.sock").display().to_string();
    let file = fleet.folder().join("cluster.toml").display().to_string();
    let refused = run(&["explain", "--config", &file, "--node", "a", "--addr", &absent]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let by_file = "Bounds are for 3 members, as the file says, `sync_interval` 200 ms, no round trip \
                   measured, since no node was asked:\n";
    assert!(refused.stdout.contains(by_file), "{}", refused.stdout);

    let nodes = fleet.start();
    // A round trip is that of a batch.
    assert_eq!(spend(&nodes[0], "alice", 5), 5);
    await_cluster(&nodes[0], "has measured", |cluster| {
        let peers = cluster["peers"].as_array().expect("a list");
        peers.iter().all(|peer| peer["rtt_us"].is_u64())
    });
    let address = nodes[0].stream_path().display().to_string();
    let told = explain(&fleet, &["per-key", "--addr", &address]);
    let by_node = "Bounds are for 3 members, as node `a` counts them, `sync_interval` 200 ms, the \
                   slowest round trip ";
    assert!(told.starts_with(by_node), "{told}");
    assert!(told.contains("\n  proven:       at most 100 + 100/h x t + "), "{told}");
    assert!(told.contains("while every member reaches all others\n"), "{told}");
    assert!(
        told.contains("\n  proven:       the parts of groups that are cut off from each other sum"),
        "{told}"
    );
    assert!(
        told.contains("\n  not proven:   a ceiling for a window in which members come, go"),
        "{told}"
    );
    assert!(told.contains("\n  worst found:  "), "{told}");
    assert!(!told.contains("exact"), "{told}");

    // Every limit has its bound in the list of all, and the node tells the same ceiling as a metric.
    let all = explain(&fleet, &["--addr", &address]);
    let proven = "  proven:       at most 100 + 100/h x t + ";
    let (_, rest) = all.split_once(proven).expect("it is told");
    assert!(rest.split(' ').next().is_some_and(|units| units.parse::<u64>().is_ok()), "{all}");
    assert!(rest.contains("\n  worst found:  "), "{all}");
    let ceiling =
        |node: &Node| node.metrics().sum("rlnode_cluster_ceiling_units", &[("limit", "per-key")]);
    assert!(ceiling(&nodes[0]) > 0);
}

/// What a limit refuses although units are left, and what it let through too much, is counted for each.
#[test]
fn both_sides_of_a_limit_are_counted() {
    let fleet = Fleet::new(&["a", "b"], HUNDRED_PER_HOUR);
    let nodes = fleet.start();
    let of = |node: &Node, what: &str| {
        node.metrics().sum(&format!("rlnode_cluster_{what}"), &[("limit", "per-key")])
    };
    assert_eq!((of(&nodes[0], "share_denied_total"), of(&nodes[1], "debt_units")), (0, 0));
    let mut http = nodes[0].connection();
    let mut ask = |body: &str| http.request("POST", "/v1/check", &[], body.as_bytes()).json();
    let denied = ask(r#"{"key":"alice","cost":100,"max_wait_ms":0}"#);
    assert_eq!(denied["reason"], "share", "{denied}");
    assert_eq!(of(&nodes[0], "share_denied_total"), 1);
    let address = nodes[0].stream_path().display().to_string();
    let status = run(&["status", "--addr", &address]).stdout;
    assert!(status.contains("1 denied, 1 of them with units left"), "{status}");
    // A debit charges whatever is left, and the other node hears of it.
    ask(r#"{"key":"bob","op":"debit","cost":130}"#);
    wait_until("the debt is known", SOON, || of(&nodes[1], "debt_units") > 0);
    assert!((29..=30).contains(&of(&nodes[1], "debt_units")));
}

/// What was spent at one node another can account for, and asking spends nothing.
#[test]
fn why_tells_of_a_key_that_was_spent_elsewhere() {
    let limits = format!(
        "{HUNDRED_PER_HOUR}\n  [[limit.override]]\n  name = \"search\"\n  endpoint = \"POST /search\"\n  \
         rate = \"5/h\"\n[[limit]]\nname = \"login\"\nendpoint = \"POST /login\"\nrate = \"5/h\"\n"
    );
    let fleet = Fleet::new(&["a", "b", "c"], &limits);
    let nodes = fleet.start();
    let (a, b) = (&nodes[0], &nodes[1]);
    assert_eq!(spend(a, "alice", 60), 60);
    await_left(b, "alice", 40);
    let words = ask_why(b, &["GET /", "alice"]).stdout;
    for line in [
        "node b: ready, ",
        "next check: allowed by `per-key`\n",
        "limit per-key: lets it pass\n  looked at  `per-key/search` does not match: the endpoint is \
         not `POST /search`\n             `per-key` decides\n",
        "\n  level      40 of 100, full in 3",
        "1 more limits do not apply, and name neither",
        "cluster test: reaches 3 of 3 members\nmember a: counted, heard ",
        " batches not acknowledged\n",
        "configuration: read ",
    ] {
        assert!(words.contains(line), "no {line:?} in\n{words}");
    }
    let of = |node: &Node| why_json(node, "alice")["limits"][0]["applied"].clone();
    assert_eq!(of(a)["hash"], of(b)["hash"]);
    assert_eq!((&of(a)["bucket"]["level"], &of(b)["bucket"]["level"]), (&40.into(), &40.into()));

    let entries = |node: &Node| node.metrics().sum("rlnode_entries", &[]);
    let decisions = |node: &Node| node.metrics().sum("rlnode_decisions_total", &[]);
    let before = (entries(b), decisions(b));
    for key in ["nobody", "alice", "nobody"] {
        let why = why_json(b, key);
        let has_entry = &why["limits"][0]["applied"]["bucket"]["has_entry"];
        assert_eq!(*has_entry, key == "alice", "{why}");
    }
    assert_eq!((entries(b), decisions(b)), before);

    // The most specific override, and a key that is empty.
    let search = ask_why(b, &["POST /search", "alice"]).stdout;
    assert!(search.contains("`per-key/search` decides\n"), "{search}");
    let address = b.stream_path().display().to_string();
    let refused = run(&["why", "GET /", "", "--addr", &address]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("the key is empty"), "{}", refused.stderr);
}

/// While a peer stands still the others say so, what of the limit is theirs, and what it does not know.
#[test]
fn why_tells_of_a_peer_that_stands_still() {
    let fleet = Fleet::new(&["a", "b", "c"], HUNDRED_PER_HOUR);
    let nodes = fleet.start();
    nodes[2].suspend();
    await_cluster(&nodes[0], "has lost `c`", |cluster| cluster["reached"] == 2);
    assert_eq!(spend(&nodes[0], "alice", 10), 10);
    let words = ask_why(&nodes[0], &["GET /", "alice"]).stdout;
    assert!(words.starts_with("node a: ready, split\n"), "{words}");
    assert!(words.contains("cluster test: reaches 2 of 3 members\n"), "{words}");
    assert!(words.contains("member c: missing for "), "{words}");
    assert!(words.contains("; 10 spent that missing members do not know\n"), "{words}");
    let why = why_json(&nodes[0], "alice");
    let bucket = &why["limits"][0]["applied"]["bucket"];
    let part = bucket["part"].as_u64().expect("a number");
    assert!((66..=67).contains(&part), "{bucket}");
    assert_eq!(bucket["remaining"], part - 10, "{bucket}");
    nodes[2].signal(rustix::process::Signal::CONT);
    for node in &nodes {
        await_reached(node, 3);
        await_left(node, "alice", 90);
    }
    let healed = why_json(&nodes[2], "alice");
    let bucket = &healed["limits"][0]["applied"]["bucket"];
    assert_eq!((&bucket["part"], &bucket["charge"]), (&100.into(), &0.into()));
}

/// A limit that is too small for its cluster is warned of in the same words everywhere.
#[test]
fn a_limit_out_of_range_is_warned_of_by_validate_explain_and_the_start() {
    let limits = "[[limit]]\nname = \"per-key\"\nrate = \"2/h\"\n";
    let fleet = Fleet::new(&["a", "b", "c"], limits);
    let warning = "the limit `per-key` has a burst of 2, below the 3 members: ";
    let file = fleet.folder().join("cluster.toml").display().to_string();
    let valid = run(&["validate", &file, "--node", "a"]);
    assert_eq!(valid.code, Some(0), "{valid:?}");
    assert!(valid.stderr.contains(&format!("warning: {warning}")), "{}", valid.stderr);
    let node = fleet.spawn("a").await_ready();
    assert!(node.log().text().contains(warning), "{}", node.log().text());
    let told = explain(&fleet, &["--addr", &node.stream_path().display().to_string()]);
    assert!(told.contains(&format!("  warning:      {warning}")), "{told}");
}

/// What `validate` takes and `explain` says of each algorithm.
#[test]
fn explain_says_how_each_algorithm_counts() {
    let node = Node::start(&Config::new(
        "[[limit]]\nname = \"login\"\nalgorithm = \"sliding-log\"\nlimit = \"5 per 15m\"\n\
         [[limit]]\nname = \"plan\"\nalgorithm = \"fixed-window\"\n\
         limit = \"1000 per calendar-week\"\ntime_zone = \"Europe/Berlin\"\n\
         week_start = \"sunday\"\n",
    ));
    let folder = node.place().folder().to_owned();
    let file = node.place().config_path().display().to_string();
    let valid = run_in(&folder, &["validate", &file, "--node", "n1"]);
    assert_eq!(valid.code, Some(0), "{valid:?}");
    let told = run_in(&folder, &["explain", "--config", &file, "--node", "n1"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    for line in [
        "  lets through  at most 5 in any 15 min\n",
        "  algorithm     sliding-log: the time of each unit is kept, 8 B for each: 40 B for a bucket \
         that is used up, beside its entry\n",
        "  proven:       exact: 5 in any 15 min\n",
        "  lets through  1000 in each calendar week from sunday on\n",
        "  algorithm     fixed-window: each begins at a midnight of `Europe/Berlin`\n",
    ] {
        assert!(told.stdout.contains(line), "{}\nhas no: {line}", told.stdout);
    }
}
