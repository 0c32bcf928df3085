//! What operators do to keys, over HTTP and by the command line, on one node and on three.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::support::fleet::{HUNDRED_PER_HOUR, await_left, await_reached, left, spend};
use crate::support::time::PATIENCE;
use crate::support::{
    Answer, Config, Ended, Fleet, HttpConnection, Node, Place, Response, Surface, check, run,
    wait_until,
};

pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A node of a hundred an hour that is operated by [`TOKEN`].
pub(crate) fn node_with_token() -> Node {
    let config = Config::new(
        "[[limit]]\nname = \"per-key\"\nrate = \"100/h\"\n\
                              [[limit]]\nname = \"log\"\nalgorithm = \"sliding-log\"\n\
                              limit = \"50 per 1h\"\n\
                              [admin]\ntoken_file = \"token\"\n",
    );
    let place = Place::new(&config);
    let file = place.folder().join("token");
    fs::write(&file, TOKEN).expect("our own folder");
    fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("ours");
    place.start()
}

#[track_caller]
fn post(connection: &mut HttpConnection, path: &str, token: &str, body: &Value) -> Response {
    let shown = format!("Bearer {token}");
    let headers: &[(&str, &str)] =
        if token.is_empty() { &[] } else { &[("Authorization", &shown)] };
    connection.request("POST", path, headers, body.to_string().as_bytes())
}

#[track_caller]
fn ask(node: &Node, key: &str) -> Answer {
    node.caller(Surface::Http).decide(&check("GET /", key))
}

#[track_caller]
fn operator(node: &Node, arguments: &[&str]) -> Ended {
    let address = node.stream_path().display().to_string();
    run(&[&["key"], arguments, &["--addr", &address]].concat())
}

/// What the command says, which must succeed.
#[track_caller]
fn said(node: &Node, arguments: &[&str]) -> String {
    let ended = operator(node, arguments);
    assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:?}");
    ended.stdout
}

/// Over TCP an act needs the token, whole; without it nothing is changed, and it is counted.
#[test]
fn only_the_token_lets_somebody_act_from_elsewhere() {
    let node = node_with_token();
    assert_eq!(spend(&node, "alice", 10), 10);
    let mut tcp = HttpConnection::tcp(node.http()).expect("a connection");
    let body = json!({ "key": "alice" });
    for wrong in ["", "x", &TOKEN[1..], &format!("{TOKEN}0")] {
        let refused = post(&mut tcp, "/v1/keys/reset", wrong, &body);
        assert_eq!(refused.status, 401, "{wrong}: {}", refused.text());
        assert_eq!(refused.header("WWW-Authenticate"), Some("Bearer"));
        let refused = post(&mut tcp, "/v1/nodes/b/forget", wrong, &Value::Null);
        assert_eq!(refused.status, 401, "{wrong}: {}", refused.text());
    }
    assert_eq!(left(&node, "alice"), 40, "nothing was reset");
    let errors =
        node.metrics().sum("rlnode_errors_total", &[("door", "http"), ("kind", "forbidden")]);
    assert_eq!(errors, 8);
    let done = post(&mut tcp, "/v1/keys/reset", TOKEN, &body);
    assert_eq!((done.status, done.json()), (200, json!({ "changed": 2, "units": 20 })));
    assert_eq!(left(&node, "alice"), 100);
    let acts = node.metrics().sum("rlnode_operations_total", &[("operation", "reset")]);
    assert_eq!(acts, 1);
    // The command with the token's file, and with a wrong one.
    let http = node.http().to_string();
    let file = node.place().folder().join("token").display().to_string();
    let peek = ["key", "peek", "alice", "--addr", &http];
    assert_eq!(run(&[&peek[..], &["--token-file", &file]].concat()).code, Some(0));
    assert_eq!(run(&peek).code, Some(1));
}

/// Without a token in the file nobody acts from elsewhere, and is told how it could be.
#[test]
fn without_a_token_operators_come_by_the_unix_socket() {
    let node = Node::start(&Config::of_rate("100/h"));
    let mut tcp = HttpConnection::tcp(node.http()).expect("a connection");
    let refused = post(&mut tcp, "/v1/keys/reset", TOKEN, &json!({ "key": "alice" }));
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("token_file"), "{}", refused.text());
    let mut unix = HttpConnection::unix(&node.http_path()).expect("a connection");
    assert_eq!(post(&mut unix, "/v1/keys/reset", "", &json!({ "key": "alice" })).status, 200);
}

/// A token that others may read, or none at all, keeps the node from starting.
#[test]
fn a_token_that_is_no_secret_keeps_the_node_from_starting() {
    let config =
        Config::new("[[limit]]\nname = \"a\"\nrate = \"1/s\"\n[admin]\ntoken_file = \"token\"\n");
    let place = Place::new(&config);
    let ended = place.start_in_vain();
    assert!(ended.stderr.contains("token` cannot be read"), "{ended:?}");
    let file = place.folder().join("token");
    fs::write(&file, TOKEN).expect("our own folder");
    fs::set_permissions(&file, Permissions::from_mode(0o644)).expect("ours");
    let ended = place.start_in_vain();
    assert!(ended.stderr.contains("chmod 600"), "{ended:?}");
}

/// What an act cannot mean is refused with what to send, and changes nothing.
#[test]
fn bodies_that_mean_nothing_are_refused() {
    let node = node_with_token();
    assert_eq!(spend(&node, "alice", 10), 10);
    let mut unix = HttpConnection::unix(&node.http_path()).expect("a connection");
    for (act, body, why) in [
        ("reset", json!({}), "there is no key"),
        ("reset", json!({ "key": "" }), "the key is empty"),
        ("reset", json!({ "key": "alice", "units": 1 }), "`units` means nothing here"),
        ("reset", json!([]), "an object"),
        ("grant", json!({ "key": "alice" }), "there are no `units`"),
        ("grant", json!({ "key": "alice", "units": -1 }), "a whole number"),
        ("ban", json!({ "ip": "10.1.2.3/8" }), "write `10.0.0.0/8`"),
        ("ban", json!({ "ip": "10.0.0.0/8", "key": "alice" }), "send one of them"),
        ("ban", json!({ "key": "alice", "for_ms": 0 }), "`for_ms` is not 1 to"),
        ("ban", json!({ "key": "alice", "for": "1m" }), "unknown field `for`"),
        ("override", json!({ "key": "alice", "rate": "1/s" }), "there is no `limit_name`"),
        ("override", json!({ "key": "alice", "limit_name": "per-key" }), "nothing says"),
        (
            "override",
            json!({ "key": "alice", "limit_name": "per-key", "limit": "5 per 1m" }),
            "is a bucket",
        ),
        (
            "override",
            json!({ "key": "alice", "limit_name": "log", "rate": "5/s" }),
            "a count per window",
        ),
        ("peek", json!({ "key": "alice", "op": "debit" }), "send one question"),
        ("refund", json!({ "checks": [] }), "`checks` is empty"),
    ] {
        let refused = post(&mut unix, &format!("/v1/keys/{act}"), "", &body);
        assert_eq!(refused.status, 400, "{act} {body}: {}", refused.text());
        assert!(refused.text().contains(why), "{act} {body}: {}", refused.text());
    }
    for act in ["reset", "end-override"] {
        let body = json!({ "key": "alice", "limit_name": "nobody" });
        assert_eq!(post(&mut unix, &format!("/v1/keys/{act}"), "", &body).status, 404, "{act}");
    }
    assert_eq!(unix.get("/v1/keys/reset").status, 405);
    assert_eq!(left(&node, "alice"), 40);
    assert_eq!(unix.get("/v1/keys/bans").json(), json!({ "bans": [] }));
}

/// Each act by the command line, with what it changes.
#[test]
fn every_act_does_what_it_says() {
    let node = node_with_token();
    assert_eq!(spend(&node, "alice", 10), 10);
    assert_eq!(said(&node, &["peek", "alice"]), "per-key: 90 of 100 left\nlog: 40 of 50 left\n");
    assert_eq!(
        said(&node, &["grant", "alice", "--units", "4", "--limit", "log"]),
        "1 bucket, 4 units given back\n"
    );
    assert_eq!(said(&node, &["peek", "alice"]), "per-key: 90 of 100 left\nlog: 44 of 50 left\n");
    said(&node, &["refund", "alice", "--cost", "2"]);
    assert_eq!(said(&node, &["peek", "alice"]), "per-key: 92 of 100 left\nlog: 46 of 50 left\n");
    // No more than there is to give.
    assert_eq!(
        said(&node, &["grant", "alice", "--units", "1000"]),
        "2 buckets, 12 units given back\n"
    );
    assert_eq!(said(&node, &["reset", "alice"]), "2 buckets, 0 units given back\n");

    said(&node, &["override", "alice", "--limit", "log", "--count", "3 per 1h", "--for", "1h"]);
    assert_eq!(spend(&node, "alice", 5), 3);
    let listed = said(&node, &["overrides"]);
    assert!(listed.starts_with("alice in log: 3 per 1h for "), "{listed}");
    assert_eq!(said(&node, &["end-override", "alice", "--limit", "log"]), "done\n");
    assert_eq!(said(&node, &["overrides"]), "no overrides\n");
    assert_eq!(said(&node, &["peek", "alice"]), "per-key: 97 of 100 left\nlog: 47 of 50 left\n");

    said(&node, &["ban", "alice", "--for", "1h"]);
    let denied = ask(&node, "alice");
    assert_eq!((denied.allowed, denied.reason.as_str()), (false, "banned"));
    let retry_ms = denied.retry_after_ms.expect("it ends");
    assert!((3_590_000..=3_600_000).contains(&retry_ms), "{retry_ms}");
    assert!(said(&node, &["bans"]).starts_with("alice for "));
    said(&node, &["ban", "--ip", "203.0.113.0/24"]);
    assert!(said(&node, &["bans"]).contains("203.0.113.0/24 until it is ended\n"));
    assert_eq!(said(&node, &["unban", "alice"]), "done\n");
    assert_eq!(said(&node, &["unban", "alice"]), "nothing to change\n");
    assert!(ask(&node, "alice").allowed);
    let refused = operator(&node, &["reset", "alice", "--limit", "nobody"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
}

/// Told to one of three, an act holds on all of them, and on one that comes later.
#[test]
fn an_act_on_one_node_holds_on_all() {
    let fleet = Fleet::new(&["a", "b", "c"], HUNDRED_PER_HOUR);
    let mut nodes = fleet.start();
    assert_eq!(spend(&nodes[1], "alice", 60), 60);
    nodes.iter().for_each(|node| await_left(node, "alice", 40));
    assert_eq!(said(&nodes[0], &["reset", "alice"]), "1 bucket, 60 units given back\n");
    nodes.iter().for_each(|node| await_left(node, "alice", 100));
    assert_eq!(spend(&nodes[2], "alice", 10), 10);
    nodes.iter().for_each(|node| await_left(node, "alice", 90));

    said(&nodes[0], &["ban", "mallory"]);
    said(&nodes[1], &["override", "carol", "--limit", "per-key", "--rate", "5/h"]);
    let is_banned = |node: &Node| ask(node, "mallory").reason == "banned";
    for node in &nodes {
        wait_until("the ban holds", PATIENCE, || is_banned(node));
        wait_until("the override holds", PATIENCE, || left(node, "carol") == 5);
    }
    let c = fleet.spawn_after(nodes.remove(2), Node::crash).await_ready();
    await_reached(&c, 3);
    assert!(is_banned(&c), "it took the bans with the counts");
    assert_eq!(left(&c, "carol"), 5);
    said(&c, &["unban", "mallory"]);
    said(&c, &["end-override", "carol", "--limit", "per-key"]);
    for node in &nodes {
        wait_until("the ban ends", PATIENCE, || !is_banned(node));
        wait_until("the override ends", PATIENCE, || left(node, "carol") == 100);
    }
}
