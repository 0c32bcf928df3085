//! The members of a measurement: who they are, what they limit, and how each is started. Both
//! processes read it from the folder of the measurement.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use limiter::{Limit, Plan, Quota, Rate, Selector, StoreConfig, Unmatched, WhenFull};
use member::{Clock, Member, Settings};
use serde::{Deserialize, Serialize};

use crate::certificates;
use crate::clock;
use crate::failure::Failure;
use crate::process::{Folder, free_udp_port, ports};

/// Index of the member that spends; all others only hear of it.
pub(super) const SENDER: usize = 0;
/// Where the load is spent.
pub(super) const LOAD_ENDPOINT: &str = "/load";
/// Where so much is spent at once that peers are told early.
pub(super) const EARLY_ENDPOINT: &str = "/early";
/// As in the other commands: a burst that nothing here uses up, and one unit more in an hour, so that
/// what was spent can be seen for as long as it takes.
const LOAD_BURST: u64 = 1_000_000;
/// Enough for every member to have a share of thousands of units.
pub(super) const EARLY_BURST: u64 = 1_000_000;
const NS_PER_HOUR: u64 = 3600 * clock::NS_PER_S;
const MEMORY_BYTES: u64 = 256 << 20;
/// A member that is missing is never forgotten in a measurement.
const FORGET_AFTER: Duration = Duration::from_secs(3600);
/// How long all members may take until each counts all others.
const WHOLE_WITHIN_NS: u64 = 20 * clock::NS_PER_S;
/// Pause between two looks whether they do.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const FILE: &str = "fleet.json";

/// The members, by index.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Fleet {
    interval_ns: u64,
    /// Of each member, on loopback.
    ports: Vec<u16>,
}

impl Fleet {
    /// A sender with so many peers that exchange every `interval`; all that they need is in `folder`.
    ///
    /// # Errors
    /// If there are no ports, or a file cannot be written.
    pub(super) fn new(folder: &Folder, peers: u64, interval: Duration) -> Result<Self, Failure> {
        let members = usize::try_from(peers).map_or(usize::MAX, |peers| peers + 1);
        let ports = ports(members, free_udp_port)?;
        let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        let fleet = Self { interval_ns, ports };
        let names: Vec<_> = (0..fleet.size()).map(name).collect();
        certificates::issue(folder, &names)?;
        let text = serde_json::to_string(&fleet).map_err(|error| Failure::because(FILE, error))?;
        folder.write(FILE, &text)?;
        Ok(fleet)
    }

    /// Reads what [`Fleet::new`] wrote.
    ///
    /// # Errors
    /// If it is not there.
    pub(super) fn read(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join(FILE);
        let fail = |error: &dyn std::fmt::Display| Failure::because(path.display(), error);
        let text = fs::read_to_string(&path).map_err(|error| fail(&error))?;
        serde_json::from_str(&text).map_err(|error| fail(&error))
    }

    /// Members, the sender included.
    pub(super) fn size(&self) -> usize {
        self.ports.len()
    }

    /// Time between two exchanges, in nanoseconds.
    pub(super) fn interval_ns(&self) -> u64 {
        self.interval_ns
    }

    /// Starts the member `index`.
    ///
    /// # Errors
    /// As [`Member::start`].
    pub(super) fn start(&self, folder: &Path, index: usize) -> Result<Member, Failure> {
        let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let settings = Settings {
            node: name(index),
            cluster: "bench".to_owned(),
            region: String::new(),
            listen: address(self.ports[index]),
            advertise: None,
            peers: self.ports.iter().map(|port| address(*port).to_string()).collect(),
            sync_interval: Duration::from_nanos(self.interval_ns),
            expect: None,
            ready_early: false,
            tls: certificates::files(folder, &name(index)),
            forget_after: FORGET_AFTER,
        };
        let store = StoreConfig {
            memory_bytes: MEMORY_BYTES,
            entries_max: None,
            when_full: WhenFull::Overflow,
            // Replaced by the cluster's.
            secret: [0; 16],
        };
        // No machine is suspended while it measures, so the bench's clock does for a member's.
        let clock = Clock { now_ns: clock::now_ns, unix_ns: clock::unix_ns };
        Member::start(settings, plan()?, store, clock)
            .map_err(|error| Failure::because(format!("member `{}`", name(index)), error))
    }

    /// Waits until each of `members` counts all members, with `pause` between two looks.
    ///
    /// # Errors
    /// If they do not in time, or `pause` fails.
    pub(super) fn wait_until_whole(
        &self,
        members: &[Member],
        mut pause: impl FnMut(Duration) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let deadline_ns = clock::now_ns() + WHOLE_WITHIN_NS;
        while !members.iter().all(|member| self.is_whole(member)) {
            if clock::now_ns() > deadline_ns {
                let seconds = WHOLE_WITHIN_NS / clock::NS_PER_S;
                return Err(Failure::new(format!("the members do not link within {seconds} s")));
            }
            pause(LOOK_EVERY)?;
        }
        Ok(())
    }

    fn is_whole(&self, member: &Member) -> bool {
        let cluster = &member.status().cluster;
        member.has_started() && cluster.members == self.size() && cluster.reached == self.size()
    }
}

/// Name of the member `index`.
fn name(index: usize) -> String {
    if index == SENDER { "sender".to_owned() } else { format!("peer-{index}") }
}

fn plan() -> Result<Plan, Failure> {
    let limit = |name: &str, endpoint: &str, burst: u64| {
        let rate = Rate { count: 1, period_ns: NS_PER_HOUR };
        let selector = Selector { endpoint: Some(endpoint.to_owned()), ..Selector::default() };
        Limit { selector, ..Limit::new(name, Quota::TokenBucket { rate, burst }) }
    };
    let limits =
        vec![limit("load", LOAD_ENDPOINT, LOAD_BURST), limit("early", EARLY_ENDPOINT, EARLY_BURST)];
    Plan::compile(limits, Unmatched::Deny).map_err(|error| Failure::because("the plan", error))
}
