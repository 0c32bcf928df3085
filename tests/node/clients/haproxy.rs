//! The configuration of `docs/recipes/haproxy.md` as it stands there, in the real HAProxy.

use std::path::Path;
use std::process::Command;

use super::front::{Front, LUA, block, config, installed, limits, place, replaced, silence};
use super::{Application, free_port};
use crate::support::{Config, Node};

const PAGE: &str = include_str!("../../../docs/recipes/haproxy.md");
/// The page's time-out, and what tests make of it: a machine that runs all of them at once may not run the node
/// for 20 ms.
const TIMEOUT: (&str, &str) = ("rlnode.sock 20", "rlnode.sock 300");

/// The page's file: with `silent`, the lines for when the node does not answer, and `more` sections.
fn conf(silent: &str, more: &str, port: u16, node: &Node, application: &Application) -> String {
    let lines = |name: &str| if name.is_empty() { "" } else { block(PAGE, "haproxy", name) };
    let listen = format!("bind 127.0.0.1:{port}");
    let socket = format!("unix@{} ", node.stream_path().display());
    // Behind the `return` of a denial.
    let front = block(PAGE, "haproxy", "frontend");
    let (head, rest) = front.split_once("\n\n    http-after-response").expect("the headers");
    let front = format!("{head}\n{}\n    http-after-response{rest}", lines(silent));
    let text = format!(
        "{}{front}{}\nbackend application\n    mode http\n    timeout connect 1s\n    \
         timeout server 10s\n    server application {}\n",
        block(PAGE, "haproxy", "global"),
        lines(more),
        application.address
    );
    let pairs = [
        TIMEOUT,
        ("/etc/haproxy/lua", LUA),
        ("bind :8000", &listen),
        ("unix@/run/rlnode/rlnode.sock ", &socket),
    ];
    replaced(&text, &pairs)
}

#[track_caller]
fn haproxy(program: &Path, port: u16, conf: &str) -> Front {
    Front::start(port, &[("haproxy.cfg", conf)], |_| {
        let mut command = Command::new(program);
        command.args(["-db", "-f", "haproxy.cfg"]);
        command
    })
}

/// A node that is stopped, or gone, lets requests pass.
#[test]
#[ignore = "needs real clients: scripts/doors"]
fn haproxy_limits_and_lets_pass_when_the_node_is_silent() {
    let Some(program) = installed("haproxy") else { return };
    let ((place, _), application) = (place(&config()), Application::start());
    let (node, port) = (place.start(), free_port());
    let front = haproxy(&program, port, &conf("", "", port, &node, &application));
    limits(&front, &application);
    silence(&front, &place, node, [[10, 0, 0]; 2]);
}

/// The same, but they get 503.
#[test]
#[ignore = "needs real clients: scripts/doors"]
fn haproxy_limits_and_says_503_when_the_node_is_silent() {
    let Some(program) = installed("haproxy") else { return };
    let ((place, _), application) = (place(&config()), Application::start());
    let (node, port) = (place.start(), free_port());
    let front = haproxy(&program, port, &conf("closed", "", port, &node, &application));
    limits(&front, &application);
    silence(&front, &place, node, [[0, 0, 10]; 2]);
    assert_eq!(application.seen(), 2 + 5, "of each node what its limits let through");
}

/// The same, but HAProxy's own table lets five through.
#[test]
#[ignore = "needs real clients: scripts/doors"]
fn haproxy_counts_by_itself_when_the_node_is_silent() {
    let Some(program) = installed("haproxy") else { return };
    let ((place, _), application) = (place(&config()), Application::start());
    let (node, port) = (place.start(), free_port());
    let front = haproxy(&program, port, &conf("local", "local-table", port, &node, &application));
    limits(&front, &application);
    silence(&front, &place, node, [[5, 5, 0], [0, 10, 0]]);
}

/// A denial that no wait ends has no `Retry-After`, and no header is empty.
#[test]
#[ignore = "needs real clients: scripts/doors"]
fn haproxy_says_nothing_that_the_node_does_not() {
    let Some(program) = installed("haproxy") else { return };
    let limits = "[[limit]]\nname = \"no\"\nendpoint = \"GET /no\"\ndeny = true\n";
    let (node, application, port) =
        (Node::start(&Config::new(limits)), Application::start(), free_port());
    let front = haproxy(&program, port, &conf("closed", "", port, &node, &application));
    for (path, status) in [("/no", 429), ("/yes", 200)] {
        let response = front.connection().get(path);
        assert_eq!(response.status, status, "{}", front.log.text());
        let empty = response.headers.iter().filter(|(_, value)| value.is_empty()).count();
        assert_eq!((response.header("Retry-After"), empty), (None, 0), "{response:?}");
    }
    assert_eq!(application.seen(), 1);
}
