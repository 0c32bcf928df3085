//! Hosts on a switch, in network namespaces: real links, addresses and neighbours to break. Nothing
//! of the machine's own network is touched, and nothing of it is left: a namespace goes with the
//! process that holds it, and that process with ours.

use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};

use super::process::{Background, Ended, finish, leave_out};
use super::time::PATIENCE;
use super::wait_until;

/// The link of each host.
const LINK: &str = "eth0";
/// An address of hardware that no host has. What is sent there is lost without an error.
const NOBODY: &str = "02:00:00:00:00:ff";

/// The hosts and their switch.
#[derive(Debug)]
pub(crate) struct Network {
    switch: Namespace,
    hosts: Vec<Namespace>,
}

/// A network namespace, held by a process that ends when its standard input does.
#[derive(Debug)]
struct Namespace(Background);

impl Network {
    /// So many hosts that reach each other. None where this machine does not let us make them.
    pub(crate) fn open(hosts: usize) -> Option<Self> {
        match Self::try_open(hosts) {
            Ok(network) => Some(network),
            Err(why) => {
                leave_out(&format!("hosts in network namespaces: {why}"));
                None
            }
        }
    }

    fn try_open(hosts: usize) -> Result<Self, String> {
        let switch = Namespace::open()?;
        switch.ip("link add switch type bridge forward_delay 0")?;
        switch.ip("link set switch up")?;
        let mut network = Self { switch, hosts: Vec::new() };
        for host in 0..hosts {
            network.connect_host(host)?;
        }
        Ok(network)
    }

    fn connect_host(&mut self, host: usize) -> Result<(), String> {
        let namespace = Namespace::open()?;
        let (port, process) = (port(host), namespace.process());
        let switch = &self.switch;
        switch.ip(&format!("link add {port} type veth peer name {LINK} netns {process}"))?;
        switch.ip(&format!("link set {port} master switch up"))?;
        namespace.ip("link set lo up")?;
        let address = self.address(host);
        namespace.ip(&format!("address add {address}/24 dev {LINK}"))?;
        namespace.ip(&format!("link set {LINK} up"))?;
        self.hosts.push(namespace);
        Ok(())
    }

    /// The address of a host.
    pub(crate) fn address(&self, host: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, 0, u8::try_from(host + 1).expect("a few hosts"))
    }

    /// The process that holds the host's namespace.
    pub(crate) fn host_process(&self, host: usize) -> u32 {
        self.hosts[host].process()
    }

    /// Pulls the cable of a host.
    #[track_caller]
    pub(crate) fn pull_cable(&self, host: usize) {
        self.switch.must(&format!("link set {} down", port(host)));
    }

    /// Plugs it in again.
    #[track_caller]
    pub(crate) fn plug_in(&self, host: usize) {
        self.switch.must(&format!("link set {} up", port(host)));
    }

    /// Loses what one host sends to another, without an error to the sender. The other way stays open.
    #[track_caller]
    pub(crate) fn lose(&self, from: usize, to: usize) {
        let to = self.address(to);
        let lost = format!("neigh replace {to} lladdr {NOBODY} nud permanent dev {LINK}");
        self.hosts[from].must(&lost);
    }

    /// Ends [`Network::lose`].
    #[track_caller]
    pub(crate) fn find(&self, from: usize, to: usize) {
        self.hosts[from].must(&format!("neigh del {} dev {LINK}", self.address(to)));
    }

    /// Refuses what one host sends to another with an error to the sender, as a missing route does.
    #[track_caller]
    pub(crate) fn refuse(&self, from: usize, to: usize) {
        self.hosts[from].must(&format!("route add unreachable {}/32", self.address(to)));
    }

    /// Ends [`Network::refuse`].
    #[track_caller]
    pub(crate) fn admit(&self, from: usize, to: usize) {
        self.hosts[from].must(&format!("route del unreachable {}/32", self.address(to)));
    }
}

/// The end of a host's cable at the switch.
fn port(host: usize) -> String {
    format!("port{host}")
}

impl Namespace {
    fn open() -> Result<Self, String> {
        let mut command = Command::new("unshare");
        command.args(["--net", "cat"]).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| format!("`unshare`: {error}"))?;
        let mut namespace = Self(Background(child));
        let mut has_ended = false;
        wait_until("a network namespace", PATIENCE, || {
            has_ended = namespace.0.has_ended();
            has_ended || is_apart(&namespace.0.0)
        });
        if has_ended { Err("`unshare --net` is not permitted".to_owned()) } else { Ok(namespace) }
    }

    fn process(&self) -> u32 {
        self.0.0.id()
    }

    /// Runs `ip` here.
    fn ip(&self, arguments: &str) -> Result<(), String> {
        let mut command = command_on(self.process(), "ip");
        command.args(arguments.split(' '));
        let Ended { code, stderr, .. } = finish(command);
        if code == Some(0) { Ok(()) } else { Err(format!("`ip {arguments}`: {}", stderr.trim())) }
    }

    #[track_caller]
    fn must(&self, arguments: &str) {
        self.ip(arguments).unwrap_or_else(|why| panic!("{why}"));
    }
}

/// Whether this process has left our namespace.
fn is_apart(child: &Child) -> bool {
    let namespace_of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
    let theirs = namespace_of(&child.id().to_string());
    theirs.is_some() && theirs != namespace_of("self")
}

/// A command that becomes `program` in the network namespace of the process `host`.
pub(crate) fn command_on(host: u32, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.arg("--net").arg(format!("--target={host}")).args(["--", program]);
    command
}
