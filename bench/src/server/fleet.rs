//! A cluster of real nodes from one file, each a process of its own on loopback, with certificates made
//! for it by `rlnode cert`. Nodes can be halted and resumed one by one.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Pid;

use super::node::{self, ClusterStatus, Doors};
use super::{Door, Status};
use crate::clock;
use crate::driver::Endpoint;
use crate::failure::Failure;
use crate::process::{Folder, Process, free_udp_port, ports};
use crate::procfs;

/// How long all nodes may take until each reaches all others.
const WHOLE_WITHIN_NS: u64 = 30 * clock::NS_PER_S;
/// Pause between two looks whether they do.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const FILE: &str = "cluster.toml";

/// What a fleet is started with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FleetConfig<'c> {
    /// The program; none: the one beside this.
    pub(crate) program: Option<&'c Path>,
    /// Nodes, at least 1.
    pub(crate) nodes: usize,
    /// Memory for the tables of each, in MiB.
    pub(crate) memory_mib: u64,
    /// Further lines of `[cluster]`.
    pub(crate) cluster: &'c str,
    /// The limits, as the file has them.
    pub(crate) limits: &'c str,
}

/// Nodes that are one cluster.
#[derive(Debug)]
pub(crate) struct Fleet {
    nodes: Vec<FleetNode>,
    /// Goes when the nodes have gone.
    _folder: Folder,
}

/// A node of a fleet.
#[derive(Debug)]
pub(crate) struct FleetNode {
    process: Process,
    doors: Doors,
}

impl Fleet {
    /// Starts the nodes, and waits until all are ready and each reaches all others.
    ///
    /// # Errors
    /// If a node does not start, or they do not find each other in time.
    pub(crate) fn start(config: &FleetConfig<'_>) -> Result<Self, Failure> {
        let folder = Folder::new()?;
        let program = node::program(config.program)?;
        let names: Vec<String> =
            (1..=config.nodes).map(|number| format!("node-{number}")).collect();
        certify(&program, folder.path(), &names)?;
        let places: Vec<Place> = names
            .into_iter()
            .zip(ports(config.nodes, free_udp_port)?)
            .map(|(name, port)| {
                let doors = Doors::free(folder.path(), &name)?;
                Ok(Place { name, doors, peer: SocketAddr::from(([127, 0, 0, 1], port)) })
            })
            .collect::<Result<_, Failure>>()?;
        let file = folder.write(FILE, &file_text(config, &places))?;
        let start = |place: Place| {
            let mut command = Command::new(&program);
            command.arg("--config").arg(&file).arg("--node").arg(&place.name);
            let process = Process::start(&place.name, &mut command, &folder, None)?;
            Ok(FleetNode { process, doors: place.doors })
        };
        let nodes: Vec<_> = places.into_iter().map(start).collect::<Result<_, Failure>>()?;
        for node in &nodes {
            node.process.wait_until(|| node.doors.is_ready())?;
        }
        let fleet = Self { nodes, _folder: folder };
        fleet.wait_until_whole()?;
        Ok(fleet)
    }

    /// The nodes, in the order of their names.
    pub(crate) fn nodes(&self) -> &[FleetNode] {
        &self.nodes
    }

    /// Waits until each node reaches all others.
    ///
    /// # Errors
    /// If they do not in time, or one ends.
    pub(crate) fn wait_until_whole(&self) -> Result<(), Failure> {
        let deadline_ns = clock::now_ns() + WHOLE_WITHIN_NS;
        let is_whole = |node: &FleetNode| {
            let cluster = node.cluster();
            cluster.is_ok_and(|cluster| cluster.reached == self.nodes.len())
        };
        for node in &self.nodes {
            while !is_whole(node) {
                if clock::now_ns() > deadline_ns {
                    let seconds = WHOLE_WITHIN_NS / clock::NS_PER_S;
                    return Err(node.process.failed(&format!("misses nodes after {seconds} s")));
                }
                node.stays_for(LOOK_EVERY)?;
            }
        }
        Ok(())
    }

    /// Stops all nodes.
    ///
    /// # Errors
    /// If one does not stop when told, or says that something went wrong.
    pub(crate) fn stop(self) -> Result<(), Failure> {
        self.nodes.into_iter().try_for_each(|node| node.process.stop())
    }
}

impl FleetNode {
    /// Where and how it is asked through `door`.
    pub(crate) fn endpoint(&self, door: Door) -> Endpoint {
        self.doors.endpoint(door)
    }

    /// What it tells about itself.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) fn status(&self) -> Result<Status, Failure> {
        self.doors.status()
    }

    /// What it tells about its cluster.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) fn cluster(&self) -> Result<ClusterStatus, Failure> {
        let cluster = self.status()?.cluster;
        cluster.ok_or_else(|| Failure::new("a node of the fleet says that it is alone"))
    }

    /// Where it answers Envoy.
    pub(crate) fn envoy(&self) -> SocketAddr {
        self.doors.envoy
    }

    /// Connections that it accepted at `door`, as metrics call it, since it started; over HTTP that of this
    /// question among them.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) fn accepted(&self, door: &str) -> Result<u64, Failure> {
        self.doors.accepted(door)
    }

    /// CPU time used so far, in nanoseconds.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn cpu_ns(&self) -> Result<u64, Failure> {
        procfs::cpu_ns(self.pid())
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> Pid {
        self.process.pid()
    }

    /// Waits for as long as `time`.
    ///
    /// # Errors
    /// If the node ends meanwhile.
    pub(crate) fn stays_for(&self, time: Duration) -> Result<(), Failure> {
        let has_ended = self.process.has_ended_within(time);
        if has_ended { Err(self.process.failed("ended while it was measured")) } else { Ok(()) }
    }

    /// Halts it where it stands.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn pause(&self) -> Result<(), Failure> {
        self.process.pause()
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn resume(&self) -> Result<(), Failure> {
        self.process.resume()
    }
}

/// Where a node is before it is started.
#[derive(Debug)]
struct Place {
    name: String,
    doors: Doors,
    /// Where peers reach it.
    peer: SocketAddr,
}

/// The one file of all nodes.
fn file_text(config: &FleetConfig<'_>, places: &[Place]) -> String {
    let peers: Vec<String> = places.iter().map(|place| format!("'{}'", place.peer)).collect();
    // A TOML text in single quotes is taken as it is.
    let mut text = format!(
        "[listen]\nunix = '{{node}}.sock'\n\n[memory]\nmax = '{}MiB'\n\n[cluster]\nname = 'bench'\n\
         peers = [{}]\ntls = {{ ca = 'ca.pem', cert = '{{node}}.pem', key = '{{node}}.key' }}\n{}",
        config.memory_mib,
        peers.join(", "),
        config.cluster,
    );
    for Place { name, doors, peer } in places {
        text += &format!(
            "\n[node.{name}]\nlisten = {{ udp = '{}', http = '{}', envoy = '{}' }}\ncluster = {{ listen = '{peer}' }}\n",
            doors.udp, doors.http, doors.envoy
        );
    }
    text + "\n" + config.limits
}

/// Makes an authority and the certificates of `names` in `folder`.
fn certify(program: &PathBuf, folder: &Path, names: &[String]) -> Result<(), Failure> {
    let mut init = Command::new(program);
    init.args(["cert", "init"]);
    let mut issue = Command::new(program);
    issue.args(["cert", "issue"]);
    for name in names {
        issue.arg("--node").arg(name);
    }
    for mut command in [init, issue] {
        let output = command.current_dir(folder).stdin(Stdio::null()).output();
        let output = output.map_err(|error| {
            Failure::because(format!("cannot start `{}`", program.display()), error)
        })?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr);
            return Err(Failure::because("`rlnode cert` made no certificates", words.trim_end()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_names_every_node_once_and_all_peers() {
        let place = |number: u16| Place {
            name: format!("node-{number}"),
            doors: Doors {
                udp: SocketAddr::from(([127, 0, 0, 1], number)),
                http: SocketAddr::from(([127, 0, 0, 1], number + 10)),
                envoy: SocketAddr::from(([127, 0, 0, 1], number + 30)),
                unix: "unused".into(),
            },
            peer: SocketAddr::from(([127, 0, 0, 1], number + 20)),
        };
        let config = FleetConfig {
            program: None,
            nodes: 2,
            memory_mib: 64,
            cluster: "forget_after = '1h'\n",
            limits: "[[limit]]\nname = 'l'\nrate = '1/h'\n",
        };
        assert_eq!(
            file_text(&config, &[place(1), place(2)]),
            "[listen]\nunix = '{node}.sock'\n\n[memory]\nmax = '64MiB'\n\n\
             [cluster]\nname = 'bench'\npeers = ['127.0.0.1:21', '127.0.0.1:22']\n\
             tls = { ca = 'ca.pem', cert = '{node}.pem', key = '{node}.key' }\nforget_after = '1h'\n\n\
             [node.node-1]\nlisten = { udp = '127.0.0.1:1', http = '127.0.0.1:11', envoy = '127.0.0.1:31' }\n\
             cluster = { listen = '127.0.0.1:21' }\n\n\
             [node.node-2]\nlisten = { udp = '127.0.0.1:2', http = '127.0.0.1:12', envoy = '127.0.0.1:32' }\n\
             cluster = { listen = '127.0.0.1:22' }\n\n\
             [[limit]]\nname = 'l'\nrate = '1/h'\n"
        );
    }

    #[test]
    fn a_program_that_makes_no_certificates_is_told_with_its_words() {
        let folder = Folder::new().unwrap();
        let program = folder.write("program", "").unwrap();
        let failure = certify(&program, folder.path(), &["a".into()]).unwrap_err().to_string();
        assert!(failure.contains("cannot start"), "{failure}");
        let failure = certify(&"/bin/false".into(), folder.path(), &["a".into()]).unwrap_err();
        assert!(failure.to_string().contains("no certificates"), "{failure}");
    }
}
