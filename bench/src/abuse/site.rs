//! The node under abuse: one with every door open.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::door::AbusedDoor;
use crate::driver::codec::Codec;
use crate::driver::{Address, Endpoint};
use crate::failure::Failure;
use crate::http::http_get;
use crate::pin::CpuList;
use crate::process::{Folder, Process, free_udp_port, ports};
use crate::procfs;
use crate::server::program;

const NAME: &str = "rlnode";

/// A running node and where its doors are.
#[derive(Debug)]
pub(super) struct Site {
    process: Process,
    udp: SocketAddr,
    http: SocketAddr,
    redis: SocketAddr,
    envoy: SocketAddr,
    unix: PathBuf,
    _folder: Folder,
}

impl Site {
    /// Starts a node and waits until it is ready.
    ///
    /// # Errors
    /// If it does not start.
    pub(super) fn start(named: Option<&Path>, cpus: Option<&CpuList>) -> Result<Self, Failure> {
        let folder = Folder::new()?;
        let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let [http, redis, envoy] = *ports(3, crate::process::free_tcp_port)? else {
            return Err(Failure::new("no free ports"));
        };
        let (udp, http) = (local(free_udp_port()?), local(http));
        let (redis, envoy) = (local(redis), local(envoy));
        let unix = folder.path().join("rlnode.sock");
        let text = format!(
            "[listen]\nudp = '{udp}'\nhttp = '{http}'\nunix = '{}'\nredis = '{redis}'\n\
             envoy = '{envoy}'\n\n[[limit]]\nname = 'per-key'\nrate = '1/h'\nburst = 1000000\n",
            unix.display()
        );
        let file = folder.write("bench.toml", &text)?;
        let mut command = Command::new(program(named)?);
        command.arg("--config").arg(file);
        let process = Process::start(NAME, &mut command, &folder, cpus)?;
        process.wait_until(|| http_get(http, "/readyz").is_ok_and(|(code, _)| code == 200))?;
        Ok(Self { process, udp, http, redis, envoy, unix, _folder: folder })
    }

    /// Where and how a well-behaved client asks at `door`.
    pub(super) fn endpoint(&self, door: AbusedDoor) -> Endpoint {
        let (address, codec) = match door {
            AbusedDoor::Udp => (Address::Udp(self.udp), Codec::Frame { is_padded: false }),
            AbusedDoor::Stream => {
                (Address::Unix(self.unix.clone()), Codec::Frame { is_padded: false })
            }
            AbusedDoor::Seqpacket => {
                let path = self.unix.with_extension("seq");
                (Address::Seqpacket(path), Codec::Frame { is_padded: false })
            }
            AbusedDoor::Http => (Address::Tcp(self.http), Codec::Http),
            AbusedDoor::Redis => (Address::Tcp(self.redis), Codec::Throttle),
            AbusedDoor::Envoy => (Address::Tcp(self.envoy), Codec::Grpc),
        };
        Endpoint { address, codec }
    }

    /// What the node counted at `door`.
    ///
    /// # Errors
    /// If it does not answer.
    pub(super) fn counts(&self, door: AbusedDoor) -> Result<Counts, Failure> {
        let fail = |cause: String| Failure::because("cannot read the node's metrics", cause);
        let (_, text) = http_get(self.http, "/metrics").map_err(|e| fail(e.to_string()))?;
        let door = format!("door=\"{door}\"");
        let sum = |name: &str| -> u64 {
            let series = text.lines().filter(|line| {
                line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'))
                    && line.contains(&door)
            });
            series.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
        };
        Ok(Counts {
            open: sum("rlnode_connections"),
            accepted: sum("rlnode_connections_accepted_total"),
            errors: sum("rlnode_errors_total"),
        })
    }

    /// CPU time used so far, in nanoseconds.
    pub(super) fn cpu_ns(&self) -> Result<u64, Failure> {
        procfs::cpu_ns(self.process.pid())
    }

    /// Physical memory held, in bytes.
    pub(super) fn rss_bytes(&self) -> Result<u64, Failure> {
        procfs::rss_bytes(self.process.pid())
    }

    /// Stops it.
    ///
    /// # Errors
    /// If it does not stop when told.
    pub(super) fn stop(self) -> Result<(), Failure> {
        self.process.stop()
    }
}

/// What a node counted at a door since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Connections open now.
    pub(super) open: u64,
    /// Connections that it took.
    pub(super) accepted: u64,
    /// Errors of every kind.
    pub(super) errors: u64,
}
