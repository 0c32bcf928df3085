//! What stands in front of the node in a measurement: a real gateway in a process of its own, with a page
//! that it serves as it is and pages about which it asks the node.

use std::net::SocketAddr;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

use crate::cli::AddedOptions;
use crate::driver::codec::{Codec, Page};
use crate::driver::{Address, Endpoint};
use crate::failure::Failure;
use crate::process::{Folder, Process};
use crate::procfs;
use crate::server::FleetNode;

use super::{envoy, nginx};

/// A page that rlnode is not asked about.
pub(super) const PLAIN: &str = "plain";
/// What every page says.
pub(super) const ANSWER: &str = "ok\n";

/// Which gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FrontKind {
    /// nginx with `auth_request`
    Nginx,
    /// Envoy with its rate limit filter
    Envoy,
}

impl FrontKind {
    /// The word for the node's door that it asks at.
    pub(super) fn door(self, options: &AddedOptions) -> &'static str {
        match self {
            Self::Nginx => options.door.as_str(),
            Self::Envoy => "envoy",
        }
    }

    /// The door as the node counts it.
    pub(super) fn counted_door(self) -> &'static str {
        match self {
            Self::Nginx => "http",
            Self::Envoy => "envoy",
        }
    }
}

/// A running gateway.
#[derive(Debug)]
pub(super) struct Front {
    process: Process,
    address: SocketAddr,
    /// Its name and version, as it tells them.
    pub(super) version: String,
    /// Goes when the process has gone.
    _folder: Folder,
}

impl Front {
    /// Starts the one of `options` in front of `node`; `pages` are those that it asks about.
    ///
    /// # Errors
    /// If there is none, or it does not start.
    pub(super) fn start(
        options: &AddedOptions,
        node: &FleetNode,
        pages: &[&str],
    ) -> Result<Self, Failure> {
        match options.front {
            FrontKind::Nginx => {
                let node = node.endpoint(options.door);
                nginx::start(options.nginx.as_deref(), &node.address, pages)
            }
            FrontKind::Envoy => envoy::start(options.envoy.as_deref(), node.envoy()),
        }
    }

    /// `process`, which listens at `address`, as soon as it does.
    ///
    /// # Errors
    /// If it ends before, or is not ready in time.
    pub(super) fn ready(
        process: Process,
        address: SocketAddr,
        version: String,
        folder: Folder,
    ) -> Result<Self, Failure> {
        let front = Address::Tcp(address);
        process.wait_until(|| front.connect(Duration::from_secs(1)).is_ok())?;
        Ok(Self { process, address, version, _folder: folder })
    }

    /// The page that rlnode is not asked about.
    pub(super) fn plain(&self) -> Endpoint {
        self.endpoint(Page::new(&format!("/{PLAIN}"), false))
    }

    /// A page that it is asked about.
    pub(super) fn checked(&self, page: &str) -> Endpoint {
        self.endpoint(Page::new(&format!("/{page}"), true))
    }

    fn endpoint(&self, page: Page) -> Endpoint {
        Endpoint { address: Address::Tcp(self.address), codec: Codec::Get(page) }
    }

    /// CPU time used so far, in nanoseconds.
    ///
    /// # Errors
    /// If it has ended.
    pub(super) fn cpu_ns(&self) -> Result<u64, Failure> {
        procfs::cpu_ns(self.process.pid())
    }

    /// Waits for as long as `time`.
    ///
    /// # Errors
    /// If it ends meanwhile.
    pub(super) fn stays_for(&self, time: Duration) -> Result<(), Failure> {
        let has_ended = self.process.has_ended_within(time);
        if has_ended { Err(self.process.failed("ended while it was measured")) } else { Ok(()) }
    }

    /// Stops it.
    ///
    /// # Errors
    /// If it does not stop when told.
    pub(super) fn stop(self) -> Result<(), Failure> {
        self.process.stop()
    }
}

/// `text` with `new` in place of `old`, which is there once.
pub(super) fn replaced(text: &str, old: &str, new: &str) -> Result<String, Failure> {
    match text.matches(old).count() {
        1 => Ok(text.replace(old, new)),
        count => Err(Failure::new(format!("the recipe has `{old}` {count} times"))),
    }
}
