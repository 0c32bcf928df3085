//! The configuration of `docs/envoy.md` as it stands there, in the real Envoy.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use super::{Application, brought, flood, free_port};
use crate::support::log::Log;
use crate::support::process::Background;
use crate::support::{Config, HttpConnection, Node, Place, wait_until};

const PAGE: &str = include_str!("../../../docs/envoy.md");
/// The page's time-out, and what tests make of it: a machine that runs all of them at once may not run the
/// node for 20 ms.
const TIMEOUT: (&str, &str) = ("timeout: 0.02s", "timeout: 0.5s");

/// The page's rate limit of the address.
const ADDRESS: &str = "                  - actions:\n                    - remote_address: {}\n";

/// The block of the page whose first line is `# name`.
#[track_caller]
fn block(language: &str, name: &str) -> &'static str {
    let fence = format!("```{language}\n# {name}\n");
    let (_, rest) = PAGE.split_once(&fence).expect("the block");
    rest.split("```").next().expect("its end")
}

/// A running Envoy.
struct Envoy {
    _process: Background,
    log: Log,
    front: SocketAddr,
    _folder: TempDir,
}

impl Envoy {
    #[track_caller]
    fn start(program: &Path, node: &str, application: &Application, denies: bool) -> Self {
        Self::start_with(program, node, application, denies, "")
    }

    /// With more rate limits beside that of the address.
    #[track_caller]
    fn start_with(
        program: &Path,
        node: &str,
        application: &Application,
        denies: bool,
        more: &str,
    ) -> Self {
        let front = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let socket = |port: u16| format!("{{ address: 127.0.0.1, port_value: {port} }}");
        let conf = block("yaml", "envoy.yaml");
        assert_eq!(conf.matches(&socket(7481)).count(), 1);
        let node_at = format!("socket_address: {}", socket(7481));
        let conf = conf
            .replace(&socket(10_000), &socket(front.port()))
            .replace(&socket(8080), &socket(application.address.port()))
            .replace(&node_at, node)
            .replace(TIMEOUT.0, TIMEOUT.1)
            .replace("failure_mode_deny: false", &format!("failure_mode_deny: {denies}"))
            .replace(ADDRESS, &format!("{ADDRESS}{more}"));
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("envoy.yaml");
        fs::write(&file, conf).expect("our own folder");
        let mut child = Command::new(program)
            .arg("-c")
            .arg(&file)
            .args(["--concurrency", "1", "--disable-hot-restart", "--log-level", "warning"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("Envoy can be run");
        let log = Log::read(child.stderr.take().expect("it is piped"));
        let mut process = Background(child);
        wait_until("Envoy listening", Duration::from_secs(30), || {
            assert!(!process.has_ended(), "Envoy ended:\n{}", log.text());
            HttpConnection::tcp(front).is_ok()
        });
        Self { _process: process, log, front, _folder: folder }
    }
}

fn config(listen: &str) -> Config {
    let file = block("toml", "node");
    let (_, limits) = file.split_once("\n\n").expect("the limits come after the listeners");
    Config::new(limits).listen(&format!("envoy = {listen}\n"))
}

fn address_of(node: &Node) -> String {
    let status = node.status();
    let doors = status["doors"].as_array().expect("doors").clone();
    let door = doors.into_iter().find(|door| door["door"] == "envoy").expect("the door");
    let tcp = door["addresses"].as_array().expect("addresses").iter().filter_map(|it| it.as_str());
    let tcp = tcp.filter_map(|it| it.parse::<SocketAddr>().ok()).next().expect("an address");
    format!("socket_address: {{ address: 127.0.0.1, port_value: {} }}", tcp.port())
}

fn program() -> Option<std::path::PathBuf> {
    brought("venv/lib/*/site-packages/envoy/_bin/envoy", "Envoy")
}

/// Five pass and the rest get 429, with the headers of the page and none of them twice; nothing reaches the
/// application that was denied.
#[test]
#[ignore = "needs real clients: scripts/doors"]
fn envoy_counts_and_denies() {
    let Some(program) = program() else { return };
    let (node, application) = (Node::start(&config("\"127.0.0.1:0\"")), Application::start());
    let envoy = Envoy::start(&program, &address_of(&node), &application, false);
    let mut connection = HttpConnection::tcp(envoy.front).expect("a connection");
    for left in (0..5).rev() {
        let response = connection.get("/page");
        assert_eq!(response.status, 200, "{}", envoy.log.text());
        assert_eq!(response.header("x-ratelimit-limit"), Some("5, 5;w=3600;name=\"per-address\""));
        assert_eq!(response.number("x-ratelimit-remaining"), left);
        assert_eq!(response.header("retry-after"), None);
        let names: Vec<_> = response.headers.iter().map(|(name, _)| name.to_lowercase()).collect();
        let limits = names.iter().filter(|name| name.starts_with("x-ratelimit")).count();
        assert_eq!(limits, 3, "each header once: {names:?}");
    }
    for _ in 0..5 {
        let denied = connection.get("/page");
        assert_eq!((denied.status, denied.header("x-envoy-ratelimited")), (429, Some("true")));
        assert_eq!(denied.header("content-type"), Some("application/problem+json"));
        assert!((1..=720).contains(&denied.number("retry-after")));
        assert_eq!(denied.json()["limit_name"], "per-address");
        assert_eq!(denied.number("x-ratelimit-remaining"), 0);
    }
    assert_eq!(application.seen(), 5);
    let checks = |outcome| node.metrics().checks("envoy", outcome);
    assert_eq!((checks("allowed"), checks("denied")), (5, 5));
}

/// A route with two rate limits sends two descriptors: one that is over its limit denies the request, and then
/// none is spent.
#[test]
#[ignore = "needs real clients: scripts/doors"]
fn descriptors_of_one_request_are_spent_together() {
    const USER: &str = "[[limit]]\nname = \"per-user\"\nendpoint = \"user\"\nrate = \"3/h\"\n\
                        [[envoy]]\ndescriptor = [\"user\"]\nkey = \"{user}\"\nendpoint = \"user\"\n";
    let Some(program) = program() else { return };
    let file = block("toml", "node");
    let (_, limits) = file.split_once("\n\n").expect("the limits come after the listeners");
    let listen = "envoy = \"127.0.0.1:0\"\n";
    let node = Node::start(&Config::new(&format!("{limits}{USER}")).listen(listen));
    let application = Application::start();
    let more = "                  - actions:\n                    - request_headers: \
                { header_name: x-user, descriptor_key: user }\n";
    let envoy = Envoy::start_with(&program, &address_of(&node), &application, false, more);
    let mut connection = HttpConnection::tcp(envoy.front).expect("a connection");
    let mut get = |user| {
        let response = connection.request("GET", "/page", &[("x-user", user)], b"");
        (response.status, response.number("x-ratelimit-remaining"))
    };
    assert_eq!(
        [(); 3].map(|()| get("alice")),
        [(200, 2), (200, 1), (200, 0)],
        "{}",
        envoy.log.text()
    );
    assert_eq!([(); 4].map(|()| get("alice")), [(429, 0); 4]);
    // Of the address three are spent, and not seven.
    assert_eq!([(); 3].map(|()| get("bob").0), [200, 200, 429]);
    assert_eq!(application.seen(), 5);
}

/// Bytes are charged when a stream has ended, into debt, and the next request is denied until they are paid.
#[test]
#[ignore = "needs real clients: scripts/doors"]
fn bytes_are_charged_at_the_end_of_a_stream() {
    let Some(program) = program() else { return };
    let (node, application) = (Node::start(&config("\"127.0.0.1:0\"")), Application::start());
    let envoy = Envoy::start(&program, &address_of(&node), &application, false);
    let mut connection = HttpConnection::tcp(envoy.front).expect("a connection");
    let mut get = || connection.request("GET", "/download", &[("x-user", "alice")], b"").status;
    let charged = || node.metrics().sum("rlnode_units_total", &[("limit", "traffic")]);
    assert_eq!(get(), 200);
    wait_until("the bytes are charged", Duration::from_secs(10), || charged() == 11);
    let mut passed = 1;
    while passed < 200 && get() == 200 {
        passed += 1;
        wait_until("the bytes are charged", Duration::from_secs(10), || charged() >= 11 * passed);
    }
    // Ninety-one times eleven bytes are a thousand and one: in debt, nothing fits, not even a peek.
    assert_eq!(passed, 91);
    assert_eq!(application.seen(), 91);
}

/// A node that is gone, or silent, lets requests pass or denies them as the filter says, and is asked again when
/// it is back.
#[test]
#[ignore = "needs real clients: scripts/doors"]
fn a_silent_node_fails_open_or_closed() {
    let Some(program) = program() else { return };
    for denies in [false, true] {
        let port = free_port();
        let place = Place::new(&config(&format!("\"127.0.0.1:{port}\"")));
        let (node, application) = (place.start(), Application::start());
        let address = format!("socket_address: {{ address: 127.0.0.1, port_value: {port} }}");
        let envoy = Envoy::start(&program, &address, &application, denies);
        assert_eq!(flood(envoy.front, "/", 8).0, [5, 3, 0]);
        node.suspend();
        let (statuses, _) = flood(envoy.front, "/", 3);
        assert_eq!(statuses, if denies { [0, 0, 3] } else { [3, 0, 0] }, "silent, {denies}");
        node.signal(Signal::CONT);
        wait_until("the node answers again", Duration::from_secs(10), || {
            flood(envoy.front, "/", 1).0 == [0, 1, 0]
        });
        node.crash();
        let (statuses, _) = flood(envoy.front, "/", 5);
        assert_eq!(statuses, if denies { [0, 0, 5] } else { [5, 0, 0] }, "gone, {denies}");
        let node = place.start();
        wait_until("Envoy has found the node again", Duration::from_secs(30), || {
            flood(envoy.front, "/", 1).0[0] + flood(envoy.front, "/", 1).0[0] > 0
                && node.metrics().checks("envoy", "allowed") > 0
        });
        wait_until("it limits", Duration::from_secs(10), || flood(envoy.front, "/", 1).0[1] == 1);
    }
}

/// The same by the unix socket.
#[test]
#[ignore = "needs real clients: scripts/doors"]
fn envoy_asks_by_the_unix_socket() {
    let Some(program) = program() else { return };
    let (node, application) = (Node::start(&config("true")), Application::start());
    let path = node.stream_path().with_extension("envoy");
    let pipe = format!("pipe: {{ path: {} }}", path.display());
    let envoy = Envoy::start(&program, &pipe, &application, true);
    assert_eq!(flood(envoy.front, "/", 9).0, [5, 4, 0], "{}", envoy.log.text());
}
