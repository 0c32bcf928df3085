//! A node as a process of its own: started from a file, asked where it listens, and ended for sure.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::log::Log;
use super::process::{RLNODE, finish, rlnode};
use super::time::PATIENCE;
use super::{Caller, Config, Ended, HttpConnection, Metrics, Surface, process, wait_until};

/// What a node logs when every door is open.
const READY: &str = "ready node=";
/// The unix socket of every node, in its place.
pub(crate) const SOCKET_FILE: &str = "n.sock";
/// The name of every node that is alone.
pub(crate) const NODE_NAME: &str = "n1";
/// Name of the configuration file.
const CONFIG_FILE: &str = "cluster.toml";

/// A folder with a configuration file, in which a node can be started, also several times.
#[derive(Debug)]
pub(crate) struct Place {
    folder: Arc<TempDir>,
    node: String,
    socket_file: String,
}

impl Place {
    #[track_caller]
    pub(crate) fn new(config: &Config) -> Arc<Self> {
        Self::with_text(&config.text())
    }

    /// A place whose file is this text.
    #[track_caller]
    pub(crate) fn with_text(text: &str) -> Arc<Self> {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        fs::write(folder.path().join(CONFIG_FILE), text).expect("a file in our own folder");
        let (folder, socket_file) = (Arc::new(folder), SOCKET_FILE.to_owned());
        Arc::new(Self { folder, node: NODE_NAME.to_owned(), socket_file })
    }

    /// A place that shares its folder and file with the places of other nodes; its sockets have the
    /// node's name.
    pub(crate) fn shared(folder: &Arc<TempDir>, node: &str) -> Arc<Self> {
        let (folder, socket_file) = (Arc::clone(folder), format!("{node}.sock"));
        Arc::new(Self { folder, node: node.to_owned(), socket_file })
    }

    /// The name of its node.
    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn config_path(&self) -> PathBuf {
        self.folder().join(CONFIG_FILE)
    }

    pub(crate) fn socket_path(&self) -> PathBuf {
        self.folder().join(&self.socket_file)
    }

    /// The command that starts a node here.
    pub(crate) fn command(&self) -> Command {
        let mut command = rlnode(&[]);
        self.prepare(&mut command);
        command
    }

    /// The command that starts a node here from a shell, after `preparation`.
    pub(crate) fn command_after(&self, preparation: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.args(["-c", &format!("{preparation}; exec \"$0\" \"$@\""), RLNODE]);
        self.prepare(&mut command);
        command
    }

    /// The command that starts a node here in the network namespace of the process `host`.
    pub(crate) fn command_on(&self, host: u32) -> Command {
        let mut command = super::network::command_on(host, RLNODE);
        self.prepare(&mut command);
        command
    }

    fn prepare(&self, command: &mut Command) {
        command.arg("--config").arg(self.config_path()).args(["--node", &self.node]);
        command.current_dir(self.folder()).env("TMPDIR", self.folder());
    }

    /// Starts a node and waits until it is ready.
    #[track_caller]
    pub(crate) fn start(self: &Arc<Self>) -> Node {
        Node::spawn(Arc::clone(self), self.command())
    }

    /// Starts a node that must not start, and waits for its end.
    #[track_caller]
    pub(crate) fn start_in_vain(&self) -> Ended {
        finish(self.command())
    }
}

/// A running node. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct Node {
    child: Child,
    log: Log,
    place: Arc<Place>,
    udp: SocketAddr,
    http: SocketAddr,
}

impl Node {
    /// Starts a node with this file in a place of its own.
    #[track_caller]
    pub(crate) fn start(config: &Config) -> Self {
        Place::new(config).start()
    }

    /// Runs a command that becomes a node, and waits until it is ready.
    #[track_caller]
    pub(crate) fn spawn(place: Arc<Place>, command: Command) -> Self {
        Self::spawn_unready(place, command).await_ready()
    }

    /// Waits until it is ready, and learns where it listens.
    #[track_caller]
    pub(crate) fn await_ready(mut self) -> Self {
        let is_ready = self.log.wait_for(READY, PATIENCE);
        assert!(is_ready, "the node does not get ready:\n{}", self.log.text());
        let status = self.status();
        self.udp = address_of(&status, "udp");
        self.http = address_of(&status, "http");
        self
    }

    /// Runs a command that may become a node.
    #[track_caller]
    pub(crate) fn spawn_unready(place: Arc<Place>, mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let log = Log::read(child.stderr.take().expect("it is piped"));
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        Self { child, log, place, udp: nowhere, http: nowhere }
    }

    /// Whether it got ready; else it has ended.
    pub(crate) fn is_ready(&self) -> bool {
        self.log.wait_for(READY, PATIENCE)
    }

    pub(crate) fn udp(&self) -> SocketAddr {
        self.udp
    }

    pub(crate) fn http(&self) -> SocketAddr {
        self.http
    }

    pub(crate) fn stream_path(&self) -> PathBuf {
        self.place.socket_path()
    }

    pub(crate) fn seqpacket_path(&self) -> PathBuf {
        self.place.socket_path().with_extension("seq")
    }

    pub(crate) fn http_path(&self) -> PathBuf {
        self.place.socket_path().with_extension("http")
    }

    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    /// Number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// A client at one of its doors.
    #[track_caller]
    pub(crate) fn caller(&self, surface: Surface) -> Caller {
        Caller::connect(self, surface)
    }

    /// A fresh connection for HTTP.
    #[track_caller]
    pub(crate) fn connection(&self) -> HttpConnection {
        HttpConnection::unix(&self.http_path()).expect("the node listens")
    }

    /// `GET /v1/status`.
    #[track_caller]
    pub(crate) fn status(&self) -> Value {
        let response = self.connection().get("/v1/status");
        assert_eq!(response.status, 200, "{response:?}");
        response.json()
    }

    /// `GET /metrics`.
    #[track_caller]
    pub(crate) fn metrics(&self) -> Metrics {
        let response = self.connection().get("/metrics");
        assert_eq!(response.status, 200, "{response:?}");
        Metrics::parse(&response.text())
    }

    /// What it tells of its cluster in `GET /v1/status`.
    #[track_caller]
    pub(crate) fn cluster(&self) -> Value {
        let cluster = self.status()["cluster"].take();
        assert!(cluster.is_object(), "the node is in no cluster");
        cluster
    }

    pub(crate) fn place(&self) -> &Arc<Place> {
        &self.place
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the process is ours");
    }

    /// Stops the process where it is, until it gets SIGCONT.
    #[track_caller]
    pub(crate) fn suspend(&self) {
        self.signal(Signal::STOP);
        // The signal is under way when it is sent; each thread stops by itself.
        wait_until("every thread stopped", PATIENCE, || process::is_suspended(self.id()));
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_some()
    }

    /// Waits for the end of the process.
    #[track_caller]
    pub(crate) fn wait(&mut self, at_most: Duration) -> ExitStatus {
        let mut status = None;
        wait_until("the end of the node", at_most, || {
            status = self.child.try_wait().expect("a child can be waited for");
            status.is_some()
        });
        status.expect("it was awaited")
    }

    /// Stops it as an operator does, and expects that to go well.
    #[track_caller]
    pub(crate) fn stop(mut self) {
        self.signal(Signal::TERM);
        let status = self.wait(PATIENCE);
        assert_eq!(status.code(), Some(0), "{status:?}:\n{}", self.log.text());
    }

    /// Ends it as a crash does.
    #[track_caller]
    pub(crate) fn crash(mut self) {
        self.signal(Signal::KILL);
        assert_eq!(self.wait(PATIENCE).signal(), Some(Signal::KILL.as_raw()));
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Errors say that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            show(&format!("log of the node `{}`:\n{}", self.place.node, self.log.text()));
        }
    }
}

#[expect(clippy::print_stderr, reason = "the test harness shows it with the test that failed")]
fn show(text: &str) {
    eprintln!("{text}");
}

/// The first address of a door that is an IP address.
fn address_of(status: &Value, door: &str) -> SocketAddr {
    let doors = status["doors"].as_array().expect("a list of doors");
    doors
        .iter()
        .filter(|it| it["door"] == door)
        .flat_map(|it| it["addresses"].as_array().expect("a list of addresses"))
        .find_map(|address| address.as_str()?.parse().ok())
        .unwrap_or_else(|| panic!("no address of `{door}` in {status}"))
}
