//! The configuration of `docs/recipes/caddy.md` as it stands there, in the real Caddy.

use std::path::Path;
use std::process::Command;

use super::front::{Front, block, config, installed, limits, place, replaced, silence};
use super::{Application, free_port};
use crate::support::{Config, Node};

const PAGE: &str = include_str!("../../../docs/recipes/caddy.md");
/// The page's time-outs, and what tests make of them: a machine that runs all of them at once may not run the
/// node for 20 ms.
const TIMEOUT: (&str, &str) = ("_timeout 20ms", "_timeout 300ms");

fn caddyfile(silence: &str, port: u16, node: &str, application: &Application) -> String {
    let site = block(PAGE, "caddyfile", "site");
    let text = format!("{{\n\tadmin off\n}}\n{}\n{site}", block(PAGE, "caddyfile", silence));
    let (listen, at) = (format!(":{port} {{"), application.address.to_string());
    replaced(
        &text,
        &[(":8000 {", &listen), ("127.0.0.1:7480", node), ("127.0.0.1:8080", &at), TIMEOUT],
    )
}

#[track_caller]
fn caddy(program: &Path, port: u16, conf: &str) -> Front {
    Front::start(port, &[("Caddyfile", conf)], |_| {
        let mut command = Command::new(program);
        command.args(["run", "--config", "Caddyfile", "--adapter", "caddyfile"]);
        command
    })
}

/// A node that is stopped, or gone, lets requests pass.
#[test]
#[ignore = "needs real clients: scripts/doors"]
fn caddy_limits_and_lets_pass_when_the_node_is_silent() {
    let Some(program) = installed("caddy") else { return };
    let ((place, address), application) = (place(&config()), Application::start());
    let (node, port) = (place.start(), free_port());
    let conf = caddyfile("open", port, &address.to_string(), &application);
    let front = caddy(&program, port, &conf);
    limits(&front, &application);
    silence(&front, &place, node, [[10, 0, 0]; 2]);
}

/// An application that is gone is not the node's silence: nobody is asked twice.
#[test]
#[ignore = "needs real clients: scripts/doors"]
fn caddy_tells_the_applications_failure_from_the_nodes() {
    let Some(program) = installed("caddy") else { return };
    let ((place, address), application) = (place(&config()), Application::start());
    let (node, port) = (place.start(), free_port());
    let conf = caddyfile("closed", port, &address.to_string(), &application);
    let conf = replaced(&conf, &[(&application.address.to_string(), "127.0.0.1:1")]);
    let front = caddy(&program, port, &conf);
    assert_eq!(front.flood(1).1.status, 502);
    assert_eq!(node.metrics().checks("http", "allowed"), 1);
}

/// The same, but they get 503, by the unix socket.
#[test]
#[ignore = "needs real clients: scripts/doors"]
fn caddy_limits_and_says_503_when_the_node_is_silent() {
    let Some(program) = installed("caddy") else { return };
    let ((place, _), application) = (place(&config()), Application::start());
    let (node, port) = (place.start(), free_port());
    let address = format!("unix/{}", node.http_path().display());
    let conf = caddyfile("closed", port, &address, &application);
    let front = caddy(&program, port, &conf);
    limits(&front, &application);
    application.seen();
    node.suspend();
    let (_, last) = front.flood(1);
    assert_eq!((last.status, last.header("Retry-After")), (503, Some("1")), "{last:?}");
    assert_eq!(last.json()["status"], 503);
    node.signal(rustix::process::Signal::CONT);
    silence(&front, &place, node, [[0, 0, 10]; 2]);
}

/// The page's other node answers while the first does not, and holds its own count of the same limit.
#[test]
#[ignore = "needs real clients: scripts/doors"]
fn caddy_asks_another_node_when_the_first_is_silent() {
    let Some(program) = installed("caddy") else { return };
    let other = Node::start(&Config::new("[[limit]]\nname = \"per-key\"\nrate = \"7/h\"\n"));
    let ((place, address), application) = (place(&config()), Application::start());
    let (node, port) = (place.start(), free_port());
    let conf = caddyfile("closed", port, &address.to_string(), &application);
    let upstreams = block(PAGE, "caddyfile", "fallback-upstreams").trim_end();
    let upstreams = replaced(
        upstreams,
        &[("127.0.0.1:7480", &address.to_string()), ("10.0.0.2:7480", &other.http().to_string())],
    );
    let fallback = format!("{upstreams}\n{}", block(PAGE, "caddyfile", "fallback"));
    // Longer than the time-outs, as on the page.
    let fallback = replaced(&fallback, &[("lb_try_duration 60ms", "lb_try_duration 900ms")]);
    let conf = replaced(&conf, &[(&format!("forward_auth {address} {{"), &fallback)]);
    let front = caddy(&program, port, &conf);
    assert_eq!(front.flood(8).0, [5, 3, 0], "{}", front.log.text());
    node.suspend();
    let (statuses, last) = front.flood(4);
    assert_eq!((statuses, last.number("X-RateLimit-Limit")), ([4, 0, 0], 7));
    node.crash();
    let (statuses, last) = front.flood(5);
    assert_eq!((statuses, last.status), ([3, 2, 0], 429));
    assert_eq!(application.seen(), 12);
}
