//! A node of ours: started from a file written for the load, or one that runs already.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use rustix::process::Pid;
use serde::Deserialize;

use super::{Door, Endpoints, Limit, Running, Server};
use crate::driver::codec::Codec;
use crate::driver::{Address, Endpoint};
use crate::failure::Failure;
use crate::http::http_get;
use crate::pin::CpuList;
use crate::process::{Folder, Process, free_tcp_port, free_udp_port, ports};

/// Name of the program, which is looked for beside this one.
pub(super) const PROGRAM: &str = "rlnode";

/// What a node is started with.
#[derive(Clone, Debug)]
pub(crate) struct NodeConfig<'c> {
    /// The program; none: the one beside this.
    pub(crate) program: Option<&'c Path>,
    /// Where it runs.
    pub(crate) cpus: Option<&'c CpuList>,
    /// The bucket of every key.
    pub(crate) limit: Limit,
    /// Memory for the tables, in MiB.
    pub(crate) memory_mib: u64,
    /// Further lines of the limit: its overrides.
    pub(crate) overrides: &'c str,
}

/// What `/v1/status` tells, as far as it is read here.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Status {
    /// Version of the program.
    pub(crate) version: String,
    /// Entries in the tables.
    pub(crate) entries: u64,
    /// Most entries.
    pub(crate) entries_max: u64,
    /// Checks that found the tables full.
    pub(crate) full: u64,
    /// Entries at rest that made room for others.
    pub(crate) evicted: u64,
    /// Its cluster; none where it is alone.
    pub(crate) cluster: Option<ClusterStatus>,
}

/// What a node tells of its cluster, as far as it is read here.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct ClusterStatus {
    /// Members that are reached and counted, the node included.
    pub(crate) reached: usize,
    /// Steps in which members were lost.
    pub(crate) splits: u64,
    /// Checks that were held.
    pub(crate) held_total: u64,
}

/// The doors of a node that was started here.
#[derive(Debug)]
pub(super) struct Doors {
    pub(super) udp: SocketAddr,
    pub(super) http: SocketAddr,
    /// Open in a fleet only.
    pub(super) envoy: SocketAddr,
    pub(super) unix: PathBuf,
}

impl Doors {
    /// Ports that nobody has now, and sockets named `name` in `folder`.
    pub(super) fn free(folder: &Path, name: &str) -> Result<Self, Failure> {
        let [http, envoy] = *ports(2, free_tcp_port)? else {
            return Err(Failure::new("no free ports"));
        };
        Ok(Self {
            udp: SocketAddr::from(([127, 0, 0, 1], free_udp_port()?)),
            http: SocketAddr::from(([127, 0, 0, 1], http)),
            envoy: SocketAddr::from(([127, 0, 0, 1], envoy)),
            unix: folder.join(format!("{name}.sock")),
        })
    }

    pub(super) fn endpoint(&self, door: Door) -> Endpoint {
        let (address, codec) = match door {
            Door::Udp => (Address::Udp(self.udp), Codec::Frame { is_padded: false }),
            Door::Unix => (Address::Unix(self.unix.clone()), Codec::Frame { is_padded: false }),
            Door::Seqpacket => {
                let path = self.unix.with_extension("seq");
                (Address::Seqpacket(path), Codec::Frame { is_padded: false })
            }
            Door::Http => (Address::Tcp(self.http), Codec::Http),
            Door::HttpUnix => (Address::Unix(self.unix.with_extension("http")), Codec::Http),
        };
        Endpoint { address, codec }
    }

    pub(super) fn status(&self) -> Result<Status, Failure> {
        let fail = |cause: String| Failure::because("cannot read the node's status", cause);
        let (code, body) = http_get(self.http, "/v1/status").map_err(|e| fail(e.to_string()))?;
        if code != 200 {
            return Err(fail(format!("it answers {code}")));
        }
        serde_json::from_str(&body).map_err(|error| fail(error.to_string()))
    }

    /// Connections that the node accepted at `door`, as metrics call it, since it started.
    pub(super) fn accepted(&self, door: &str) -> Result<u64, Failure> {
        let fail = |cause: String| Failure::because("cannot read the node's metrics", cause);
        let (_, text) = http_get(self.http, "/metrics").map_err(|e| fail(e.to_string()))?;
        let series = format!("rlnode_connections_accepted_total{{door=\"{door}\"}}");
        sample(&text, &series).ok_or_else(|| fail(format!("there is no `{series}`")))
    }

    pub(super) fn is_ready(&self) -> bool {
        http_get(self.http, "/readyz").is_ok_and(|(code, _)| code == 200)
    }
}

impl Server {
    /// Starts a node and waits until it is ready.
    ///
    /// # Errors
    /// If it does not start.
    pub(crate) fn start_node(config: &NodeConfig<'_>) -> Result<Self, Failure> {
        let folder = Folder::new()?;
        let doors = Doors::free(folder.path(), PROGRAM)?;
        let file = folder.write("bench.toml", &file_text(config, &doors))?;
        let mut command = Command::new(program(config.program)?);
        command.arg("--config").arg(file);
        let process = Process::start(PROGRAM, &mut command, &folder, config.cpus)?;
        process.wait_until(|| doors.is_ready())?;
        let version = doors.status()?.version;
        Ok(Self {
            name: PROGRAM,
            version,
            process: Running::Started { process, _folder: folder },
            endpoints: Endpoints::Node(doors),
        })
    }

    /// A node that runs already, with its process if that is to be watched.
    pub(crate) fn given_node(node: GivenNode, pid: Option<Pid>) -> Self {
        Self {
            name: PROGRAM,
            version: "unknown".into(),
            process: Running::Given(pid),
            endpoints: Endpoints::Given(node),
        }
    }
}

/// The configuration file of a node under load.
fn file_text(config: &NodeConfig<'_>, doors: &Doors) -> String {
    let Limit { period_ms, burst } = config.limit;
    // A TOML text in single quotes is taken as it is; a path of ours has no quote in it.
    format!(
        "[listen]\nudp = '{}'\nhttp = '{}'\nunix = '{}'\n\n[memory]\nmax = '{}MiB'\n\n\
         [[limit]]\nname = 'per-key'\nrate = '1/{period_ms}ms'\nburst = {burst}\n{}",
        doors.udp,
        doors.http,
        doors.unix.display(),
        config.memory_mib,
        config.overrides,
    )
}

/// The program to start: the one named, or the one beside this.
pub(crate) fn program(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let fail = |cause: String| {
        Failure::because("cannot find rlnode; build it, or name it with --rlnode", cause)
    };
    let path = match named {
        // It is started from another folder.
        Some(path) => std::path::absolute(path).map_err(|error| fail(error.to_string()))?,
        None => {
            let own = std::env::current_exe().map_err(|error| fail(error.to_string()))?;
            own.with_file_name(PROGRAM)
        }
    };
    if path.is_file() { Ok(path) } else { Err(fail(format!("there is no `{}`", path.display()))) }
}

/// The value of `series` in the text of metrics.
fn sample(text: &str, series: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(series))?;
    value.trim_start().parse().ok()
}

/// The address of a node that runs already: one door of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GivenNode {
    /// The door that the address leads to.
    pub(crate) door: Door,
    address: Address,
}

impl GivenNode {
    pub(super) fn endpoint(&self, door: Door) -> Option<Endpoint> {
        (door == self.door).then(|| self.own_endpoint())
    }

    pub(super) fn own_endpoint(&self) -> Endpoint {
        let codec = match (self.door, &self.address) {
            (Door::Http | Door::HttpUnix, _) => Codec::Http,
            (_, Address::Udp(to)) => Codec::Frame { is_padded: !to.ip().is_loopback() },
            _ => Codec::Frame { is_padded: false },
        };
        Endpoint { address: self.address.clone(), codec }
    }
}

impl FromStr for GivenNode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fail = || {
            format!(
                "`{text}` is no address of a node; write udp://HOST:PORT, unix://PATH, \
                 seqpacket://PATH, http://HOST:PORT or http-unix://PATH"
            )
        };
        let (scheme, rest) = text.split_once("://").ok_or_else(fail)?;
        let path = || if rest.is_empty() { Err(fail()) } else { Ok(PathBuf::from(rest)) };
        let socket = || {
            rest.to_socket_addrs().ok().and_then(|mut addresses| addresses.next()).ok_or_else(fail)
        };
        let (door, address) = match scheme {
            "udp" => (Door::Udp, Address::Udp(socket()?)),
            "unix" => (Door::Unix, Address::Unix(path()?)),
            "seqpacket" => (Door::Seqpacket, Address::Seqpacket(path()?)),
            "http" => (Door::Http, Address::Tcp(socket()?)),
            "http-unix" => (Door::HttpUnix, Address::Unix(path()?)),
            _ => return Err(fail()),
        };
        Ok(Self { door, address })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_to_one_door() {
        for (text, door) in [
            ("udp://127.0.0.1:7400", Door::Udp),
            ("unix:///run/rlnode.sock", Door::Unix),
            ("seqpacket:///run/rlnode.seq", Door::Seqpacket),
            ("http://[::1]:7480", Door::Http),
            ("http-unix:///run/rlnode.http", Door::HttpUnix),
        ] {
            let node: GivenNode = text.parse().unwrap();
            assert_eq!(node.door, door);
            let asked: Vec<_> =
                Door::ALL.into_iter().filter(|d| node.endpoint(*d).is_some()).collect();
            assert_eq!(asked, [door]);
        }
    }

    #[test]
    fn refuses_what_is_no_address() {
        for text in ["", "127.0.0.1:7400", "tcp://127.0.0.1:1", "udp://nowhere", "unix://"] {
            let error = text.parse::<GivenNode>().unwrap_err();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn requests_are_padded_only_beyond_loopback() {
        let padded = |text: &str| match text.parse::<GivenNode>().unwrap().own_endpoint().codec {
            Codec::Frame { is_padded } => is_padded,
            _ => panic!("not a frame"),
        };
        assert!(!padded("udp://127.0.0.1:7400"));
        assert!(padded("udp://192.0.2.1:7400"));
        assert!(!padded("unix:///run/rlnode.sock"));
    }

    #[test]
    fn the_file_names_every_door_and_the_limit() {
        let doors = Doors {
            udp: SocketAddr::from(([127, 0, 0, 1], 1)),
            http: SocketAddr::from(([127, 0, 0, 1], 2)),
            envoy: SocketAddr::from(([127, 0, 0, 1], 3)),
            unix: "/tmp/x/rlnode.sock".into(),
        };
        let config = NodeConfig {
            program: None,
            cpus: None,
            limit: Limit { period_ms: 10_000, burst: 5 },
            memory_mib: 256,
            overrides: "",
        };
        assert_eq!(
            file_text(&config, &doors),
            "[listen]\nudp = '127.0.0.1:1'\nhttp = '127.0.0.1:2'\nunix = '/tmp/x/rlnode.sock'\n\n\
             [memory]\nmax = '256MiB'\n\n\
             [[limit]]\nname = 'per-key'\nrate = '1/10000ms'\nburst = 5\n"
        );
    }

    #[test]
    fn a_series_has_its_value_behind_it() {
        let text = "# TYPE x counter\nseries{door=\"http\"} 12\nother 3\n";
        assert_eq!(sample(text, "series{door=\"http\"}"), Some(12));
        assert_eq!(sample(text, "missing"), None);
        assert_eq!(sample("other x\n", "other"), None);
    }
}
