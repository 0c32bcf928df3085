//! Ways to hold one limit on several nodes, each started, asked and stopped alike.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::fleet::{Exchange, Fleet, Orders, Snapshot, loopback};
use super::options::{Comparator, OvershootOptions};
use super::schedule::Brief;
use super::trouble::Step;
use crate::clock::{self, NS_PER_S};
use crate::driver::codec::{Bucket as Script, Codec};
use crate::driver::{Address, Endpoint};
use crate::failure::Failure;
use crate::process::{Folder, Process, free_udp_port, ports};
use crate::server::{Door, Server};

/// Name of the program that answers from rateguard, which is looked for beside this one.
const RATEGUARD: &str = "rateguard-node";
/// The version of rateguard that the program is built with.
const RATEGUARD_VERSION: &str = "0.7";
/// What it says when it answers.
const READY: &str = "ready";
/// How long its nodes get to find each other, which they do not tell.
const ACQUAINT_NS: u64 = 2 * NS_PER_S;

/// A limiter of several nodes.
#[derive(Debug)]
pub(super) enum Contender {
    /// Nodes of ours, in a cluster.
    Ours(Fleet),
    /// A cluster of somebody else's.
    Given(Vec<Endpoint>),
    /// Nodes of ours that know nothing of each other.
    Static(Fleet),
    /// One redis, which so many nodes ask.
    Redis(Server, usize),
    /// rateguard.
    Rateguard(Guards),
}

/// Nodes of rateguard.
#[derive(Debug)]
pub(super) struct Guards {
    endpoints: Vec<Endpoint>,
    /// Dropping them kills them.
    _processes: Vec<Process>,
    _folder: Folder,
}

impl Contender {
    /// Starts what is the subject: the cluster.
    ///
    /// # Errors
    /// If it does not start.
    pub(super) fn subject(
        options: &OvershootOptions,
        orders: &Orders<'_>,
    ) -> Result<Self, Failure> {
        if options.nodes.is_empty() {
            return Fleet::cluster(orders).map(Self::Ours);
        }
        let endpoint = |to: &std::net::SocketAddr| Endpoint {
            address: Address::Udp(*to),
            codec: Codec::Frame { is_padded: !to.ip().is_loopback() },
        };
        Ok(Self::Given(options.nodes.iter().map(endpoint).collect()))
    }

    /// Starts one to compare with.
    ///
    /// # Errors
    /// If it is not installed or does not start.
    pub(super) fn comparator(
        kind: Comparator,
        options: &OvershootOptions,
        orders: &Orders<'_>,
        brief: &Brief,
    ) -> Result<Self, Failure> {
        let limit = brief.limit;
        match kind {
            Comparator::Static => Fleet::split(orders).map(Self::Static),
            Comparator::Redis => {
                let script = |digest: &str| Script::per_second(digest, limit.per_s, limit.burst);
                let server = Server::start_redis_with(&options.redis_server, None, script)?;
                Ok(Self::Redis(server, brief.members))
            }
            Comparator::Rateguard => {
                Guards::start(options.rateguard.as_deref(), brief).map(Self::Rateguard)
            }
        }
    }

    /// Its name in reports.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Ours(_) => "rlnode",
            Self::Given(_) => "the given nodes",
            Self::Static(_) => Comparator::Static.as_str(),
            Self::Redis(..) => Comparator::Redis.as_str(),
            Self::Rateguard(_) => Comparator::Rateguard.as_str(),
        }
    }

    /// Its version.
    pub(super) fn version(&self) -> &str {
        match self {
            Self::Ours(fleet) | Self::Static(fleet) => &fleet.version,
            Self::Given(_) => "unknown",
            Self::Redis(server, _) => &server.version,
            Self::Rateguard(_) => RATEGUARD_VERSION,
        }
    }

    /// Its nodes know of each other and say when they do not reach all.
    pub(super) fn tells_splits(&self) -> bool {
        matches!(self, Self::Ours(_) | Self::Given(_))
    }

    /// Where each node is asked.
    pub(super) fn endpoints(&self) -> Vec<Endpoint> {
        match self {
            Self::Ours(fleet) | Self::Static(fleet) => fleet.endpoints(),
            Self::Given(endpoints) => endpoints.clone(),
            Self::Redis(server, count) => {
                // Every node has a connection of its own to the one server.
                server.endpoint(Door::Udp).into_iter().cycle().take(*count).collect()
            }
            Self::Rateguard(guards) => guards.endpoints.clone(),
        }
    }

    /// Waits until all is as it should be before a run.
    ///
    /// # Errors
    /// If it does not come to that.
    pub(super) fn settle(&self) -> Result<(), Failure> {
        match self {
            Self::Ours(fleet) | Self::Static(fleet) => fleet.wait_until_whole(),
            Self::Given(_) | Self::Redis(..) | Self::Rateguard(_) => Ok(()),
        }
    }

    /// What its nodes counted until now; none if they do not tell.
    ///
    /// # Errors
    /// If one should and does not.
    pub(super) fn snapshot(&self) -> Result<Option<Snapshot>, Failure> {
        match self {
            Self::Ours(fleet) => fleet.snapshot().map(Some),
            _ => Ok(None),
        }
    }

    /// Makes the trouble of a run, which only nodes of ours get.
    ///
    /// # Errors
    /// If a step cannot be done.
    pub(super) fn perform(&mut self, steps: &[Step], started_ns: u64) -> Result<(), Failure> {
        match self {
            Self::Ours(fleet) => fleet.perform(steps, started_ns),
            _ => Ok(()),
        }
    }

    /// Stops what was started.
    ///
    /// # Errors
    /// If it does not stop when told.
    pub(super) fn stop(self) -> Result<(), Failure> {
        match self {
            Self::Ours(fleet) | Self::Static(fleet) => fleet.stop(),
            Self::Redis(server, _) => server.stop(),
            // Those are somebody else's, and how these end is no matter of ours.
            Self::Given(_) | Self::Rateguard(_) => Ok(()),
        }
    }
}

impl Comparator {
    /// Its name in reports.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Static => "static split",
            Self::Redis => "redis",
            Self::Rateguard => "rateguard",
        }
    }
}

impl Guards {
    fn start(program: Option<&Path>, brief: &Brief) -> Result<Self, Failure> {
        let program = rateguard(program)?;
        let folder = Folder::new()?;
        let all = loopback(&ports(2 * brief.members, free_udp_port)?);
        let (doors, gossip) = all.split_at(brief.members);
        let peers: Vec<_> = gossip.iter().map(ToString::to_string).collect();
        let mut processes = Vec::new();
        for (node, (door, own)) in doors.iter().zip(gossip).enumerate() {
            let others: Vec<_> =
                peers.iter().filter(|peer| **peer != own.to_string()).cloned().collect();
            let name = format!("guard-{node}");
            let mut command = Command::new(&program);
            command
                .args(["--udp", &door.to_string(), "--gossip", &own.to_string()])
                .args(["--peers", &others.join(",")])
                .args(["--rate", &brief.limit.per_s.to_string()])
                .args(["--burst", &brief.limit.burst.to_string(), "--name", &name]);
            processes.push(Process::start(&name, &mut command, &folder, None)?);
        }
        for process in &processes {
            process.wait_until(|| process.has_said(READY))?;
        }
        clock::wait_until(clock::now_ns() + ACQUAINT_NS);
        let endpoint = |door: &std::net::SocketAddr| Endpoint {
            address: Address::Udp(*door),
            codec: Codec::Frame { is_padded: false },
        };
        let endpoints = doors.iter().map(endpoint).collect();
        Ok(Self { endpoints, _processes: processes, _folder: folder })
    }
}

fn rateguard(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let fail = |cause: String| {
        let tried = format!(
            "cannot find {RATEGUARD}; build it in bench/rateguard, or name it with --rateguard"
        );
        Failure::because(tried, cause)
    };
    let path = match named {
        Some(path) => std::path::absolute(path),
        None => std::env::current_exe().map(|own| own.with_file_name(RATEGUARD)),
    };
    let path = path.map_err(|error| fail(error.to_string()))?;
    if path.is_file() { Ok(path) } else { Err(fail(format!("there is no `{}`", path.display()))) }
}

/// What was counted from `before` until `after`, if it was.
pub(super) fn exchange(before: Option<&Snapshot>, after: Option<&Snapshot>) -> Option<Exchange> {
    Some(before?.until(after?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = rateguard(Some(Path::new("/nonexistent/guard"))).unwrap_err().to_string();
        assert!(error.contains("`/nonexistent/guard`") && error.contains("--rateguard"), "{error}");
    }
}
