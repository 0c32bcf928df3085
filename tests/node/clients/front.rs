//! A server that we did not write, in front of a node, with the configuration of a page of the manual.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use super::{Application, flood, free_port};
use crate::support::log::Log;
use crate::support::process::{Background, leave_out};
use crate::support::{Config, HttpConnection, Node, Place, Response, wait_until};

/// The folder of what is written in Lua.
pub(super) const LUA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/contrib/lua");

/// The block of `page` in `language` whose first line is `# name`, without that line; of Lua, `-- name`.
#[track_caller]
pub(super) fn block<'p>(page: &'p str, language: &str, name: &str) -> &'p str {
    let mark = if language == "lua" { "--" } else { "#" };
    let fence = format!("```{language}\n{mark} {name}\n");
    let (_, rest) = page.split_once(&fence).unwrap_or_else(|| panic!("no block `{name}`"));
    rest.split("```").next().expect("its end")
}

/// `text` with every pair replaced, each of which stands there.
#[track_caller]
pub(super) fn replaced(text: &str, pairs: &[(&str, &str)]) -> String {
    let mut text = text.to_owned();
    for (old, new) in pairs {
        assert!(text.contains(old), "`{old}` is not in:\n{text}");
        text = text.replace(old, new);
    }
    text
}

/// A program of a package; none: it is not installed, which is said.
#[track_caller]
pub(super) fn installed(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
    let found = folders.iter().map(|folder| Path::new(folder).join(name)).find(|it| it.exists());
    if found.is_none() {
        leave_out(&format!("{name} is not installed"));
    }
    found
}

/// The limit of the recipes, of five an hour so that tests are short, and one that shows that method and path
/// arrive.
pub(super) fn config() -> Config {
    Config::new(
        "[[limit]]\nname = \"per-key\"\nrate = \"5/h\"\n\
         [[limit.override]]\nname = \"search\"\nendpoint = \"POST /search\"\nrate = \"2/h\"\n",
    )
}

/// A running server.
pub(super) struct Front {
    process: Background,
    pub(super) log: Log,
    pub(super) address: SocketAddr,
    _folder: TempDir,
}

impl Front {
    /// Starts it with files in a folder of its own, by what `command` makes of that folder; it listens on `port`.
    #[track_caller]
    pub(super) fn start(
        port: u16,
        files: &[(&str, &str)],
        command: impl FnOnce(&Path) -> Command,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).expect("our own folder");
        }
        let mut command = command(folder.path());
        command.current_dir(folder.path()).env("HOME", folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the server can be run");
        let log = Log::read(child.stderr.take().expect("it is piped"));
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut front = Self { process: Background(child), log, address, _folder: folder };
        wait_until("the server listening", Duration::from_secs(20), || {
            assert!(!front.process.has_ended(), "it ended:\n{}", front.log.text());
            HttpConnection::tcp(address).is_ok()
        });
        front
    }

    pub(super) fn connection(&self) -> HttpConnection {
        HttpConnection::tcp(self.address).expect("the server listens")
    }

    /// How many of `count` requests got 200, 429 and 5xx, and the last answer.
    #[track_caller]
    pub(super) fn flood(&self, count: usize) -> ([usize; 3], Response) {
        flood(self.address, "/page?key=another", count)
    }
}

/// A node whose HTTP door has an address that it keeps over restarts.
pub(super) fn place(config: &Config) -> (Arc<Place>, SocketAddr) {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    (Place::new(&config.clone().listen(&format!("http = \"{address}\""))), address)
}

/// Five pass and the rest get 429, each with its headers; nothing that was denied reaches the application, and
/// nothing that a client says of itself the node.
#[track_caller]
pub(super) fn limits(front: &Front, application: &Application) {
    application.seen();
    let mut connection = front.connection();
    for asked in 0..12 {
        let own = [("X-RateLimit-Key", "another"), ("X-RateLimit-Endpoint", "POST /search")];
        let response = connection.request("GET", "/page?key=another&cost=0", &own, b"");
        let left = 4_u64.saturating_sub(asked);
        let denied = asked >= 5;
        assert_eq!(response.status, if denied { 429 } else { 200 }, "{}", front.log.text());
        assert_eq!(response.number("X-RateLimit-Limit"), 5, "{response:?}");
        assert_eq!(response.number("X-RateLimit-Remaining"), left);
        assert!(response.number("X-RateLimit-Reset") > 1_700_000_000);
        if let Some(policy) = response.header("RateLimit-Policy") {
            assert_eq!(policy, "\"per-key\";q=5;w=3600");
        }
        let state = response.header("RateLimit").expect("the header");
        assert!(state.starts_with(&format!("\"per-key\";r={left};t=")), "{state}");
        if denied {
            assert!((690..=720).contains(&response.number("Retry-After")), "{response:?}");
            assert_eq!(response.header("Content-Type"), Some("application/problem+json"));
            assert_eq!(response.json()["status"], 429);
        } else {
            assert_eq!(response.text(), "application");
            assert_eq!(response.header("Retry-After"), None);
        }
        if response.header("Connection") == Some("close") {
            connection = front.connection();
        }
    }
    assert_eq!(application.seen(), 5);
    // Method and path reach the node, the body the application.
    let body = vec![b'x'; 100_000];
    let statuses: Vec<u16> = (0..4)
        .map(|_| front.connection().request("POST", "/search?q=1", &[], &body).status)
        .collect();
    assert_eq!(statuses, [200, 200, 429, 429], "{}", front.log.text());
}

/// The node is silent, and then gone, and then back: what `counts` says of ten requests each time, and limits again.
#[track_caller]
pub(super) fn silence(front: &Front, place: &Arc<Place>, node: Node, counts: [[usize; 3]; 2]) {
    node.suspend();
    assert_eq!(front.flood(10).0, counts[0], "silent:\n{}", front.log.text());
    node.signal(Signal::CONT);
    wait_until("the node answers again", Duration::from_secs(20), || {
        front.flood(1).1.header("X-RateLimit-Limit") == Some("5")
    });
    node.crash();
    assert_eq!(front.flood(10).0, counts[1], "gone:\n{}", front.log.text());
    let _node = place.start();
    // Each worker of the server finds out by itself.
    wait_until("it is asked again, and limits", Duration::from_secs(20), || {
        let (statuses, last) = front.flood(10);
        statuses == [0, 10, 0] && last.header("X-RateLimit-Remaining") == Some("0")
    });
}
