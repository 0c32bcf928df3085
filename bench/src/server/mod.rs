//! What is put under load: a node of ours, or redis doing the same. Both are started, asked, watched
//! and stopped alike.

mod fleet;
mod node;
mod redis;

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use rustix::process::Pid;
use serde::Serialize;

pub(crate) use fleet::{Fleet, FleetConfig, FleetNode};
pub(crate) use node::{ClusterStatus, GivenNode, NodeConfig, Status, program};

use crate::driver::Endpoint;
use crate::failure::Failure;
use crate::process::{Folder, Process};
use crate::procfs;

/// A bucket that every key of a load has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Limit {
    /// Milliseconds in which it gains one unit.
    pub(crate) period_ms: u64,
    /// Units that it holds.
    pub(crate) burst: u64,
}

impl Limit {
    /// One unit in an hour: a key that was asked about once stays in the table for the whole load. A
    /// burst that only a key asked about a million times uses up.
    pub(crate) const OF_LOAD: Self = Self { period_ms: 3_600_000, burst: 1_000_000 };
}

/// A way into a node, and the way into redis that it is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Door {
    /// The frame, one in a datagram.
    Udp,
    /// The frame on a unix stream socket.
    Unix,
    /// The frame, one in a message of a unix seqpacket socket.
    Seqpacket,
    /// `POST /v1/check` over TCP.
    Http,
    /// The same over a unix socket.
    HttpUnix,
}

impl Door {
    /// All of them.
    pub(crate) const ALL: [Self; 5] =
        [Self::Udp, Self::Unix, Self::Seqpacket, Self::Http, Self::HttpUnix];

    /// The word for it on the command line and in reports.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Unix => "unix",
            Self::Seqpacket => "seqpacket",
            Self::Http => "http",
            Self::HttpUnix => "http-unix",
        }
    }

    /// The word for the way into redis that it is compared with: through the network's code, or not.
    pub(crate) fn as_str_of_redis(self) -> &'static str {
        if self.is_unix() { "unix" } else { "tcp" }
    }

    fn is_unix(self) -> bool {
        matches!(self, Self::Unix | Self::Seqpacket | Self::HttpUnix)
    }
}

impl fmt::Display for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A server under load.
#[derive(Debug)]
pub(crate) struct Server {
    /// Its name in reports.
    pub(crate) name: &'static str,
    /// Its version, as it tells it.
    pub(crate) version: String,
    process: Running,
    endpoints: Endpoints,
}

/// The process of a server.
#[derive(Debug)]
enum Running {
    /// Ours. It works in the folder.
    Started { process: Process, _folder: Folder },
    /// Somebody else's, which may be watched if its id was given.
    Given(Option<Pid>),
}

#[derive(Debug)]
enum Endpoints {
    Node(node::Doors),
    Given(GivenNode),
    Redis(redis::Doors),
}

impl Server {
    /// Where and how it is asked through `door`; none if it is not known there.
    pub(crate) fn endpoint(&self, door: Door) -> Option<Endpoint> {
        match &self.endpoints {
            Endpoints::Node(doors) => Some(doors.endpoint(door)),
            Endpoints::Given(given) => given.endpoint(door),
            Endpoints::Redis(doors) => Some(doors.endpoint(door.is_unix())),
        }
    }

    /// The endpoint through which keys are made: the one that takes the most at once.
    pub(crate) fn endpoint_for_preload(&self) -> Endpoint {
        match &self.endpoints {
            Endpoints::Given(given) => given.own_endpoint(),
            Endpoints::Node(doors) => doors.endpoint(Door::Unix),
            Endpoints::Redis(doors) => doors.endpoint(true),
        }
    }

    /// What a node tells about itself.
    ///
    /// # Errors
    /// If it is no node of ours, or does not answer.
    pub(crate) fn status(&self) -> Result<Status, Failure> {
        match &self.endpoints {
            Endpoints::Node(doors) => doors.status(),
            Endpoints::Given(_) | Endpoints::Redis(_) => {
                Err(Failure::new(format!("{} has no status to read", self.name)))
            }
        }
    }

    /// CPU time used so far, in nanoseconds; none if the process is not known.
    pub(crate) fn cpu_ns(&self) -> Result<Option<u64>, Failure> {
        self.pid().map(procfs::cpu_ns).transpose()
    }

    /// Physical memory held, in bytes; none if the process is not known.
    pub(crate) fn rss_bytes(&self) -> Result<Option<u64>, Failure> {
        self.pid().map(procfs::rss_bytes).transpose()
    }

    fn pid(&self) -> Option<Pid> {
        match &self.process {
            Running::Started { process, .. } => Some(process.pid()),
            Running::Given(pid) => *pid,
        }
    }

    /// Waits for as long as `time`.
    ///
    /// # Errors
    /// If the server ends meanwhile.
    pub(crate) fn stays_for(&self, time: Duration) -> Result<(), Failure> {
        match &self.process {
            Running::Started { process, .. } if process.has_ended_within(time) => {
                Err(process.failed("ended under load"))
            }
            Running::Started { .. } => Ok(()),
            Running::Given(_) => {
                Err(Failure::new("a node that was not started here cannot be waited on"))
            }
        }
    }

    /// Halts it, so that it does not disturb the measuring of another.
    pub(crate) fn pause(&self) -> Result<(), Failure> {
        match &self.process {
            Running::Started { process, .. } => process.pause(),
            Running::Given(_) => Ok(()),
        }
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) -> Result<(), Failure> {
        match &self.process {
            Running::Started { process, .. } => process.resume(),
            Running::Given(_) => Ok(()),
        }
    }

    /// Stops it, if it was started here.
    ///
    /// # Errors
    /// If it does not stop when told, or says that something went wrong.
    pub(crate) fn stop(self) -> Result<(), Failure> {
        match self.process {
            Running::Started { process, .. } => process.stop(),
            Running::Given(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_for_a_door_is_the_one_on_the_command_line() {
        for door in Door::ALL {
            let value = door.to_possible_value().unwrap();
            assert_eq!(value.get_name(), door.as_str());
            assert_eq!(serde_json::to_value(door).unwrap(), door.as_str());
        }
        assert_eq!(Door::ALL.as_slice(), Door::value_variants());
    }
}
