//! `rlbench added`: the time that asking rlnode adds to a request through a real nginx or Envoy.
//!
//! A cluster of three real nodes, one of which answers the gateway; two pages there, of which one is
//! served as it is and one after the node was asked, asked in turn at one rate. What is measured is what a
//! client of the gateway sees.

mod bursts;
mod envoy;
mod figures;
mod front;
mod nginx;
mod rate;
mod report;
mod stage;

use std::time::Duration;

use crate::cli::AddedOptions;
use crate::clock;
use crate::driver::{Driver, Shape, Tally, Until};
use crate::failure::Failure;
use crate::keys::Keys;
use crate::server::{Fleet, FleetConfig, FleetNode};
use figures::Usage;
use front::Front;
pub(crate) use front::FrontKind;
pub(crate) use rate::Rate;
pub(crate) use report::Added;
use stage::Page;
pub(crate) use stage::Stage;

/// Nodes of the cluster.
const NODES: usize = 3;
/// Index of the node that the gateway asks, and of the one that is paused.
const ASKED: usize = 0;
const PAUSED: usize = 1;
const MEMORY_MIB: u64 = 256;
/// A paused node is missing for the whole of a stage, however long that is.
const CLUSTER: &str = "forget_after = '1h'\n";
/// Load of both pages before anything is measured.
const WARM_UP: Duration = Duration::from_secs(1);
/// How long a rate is looked at when one is searched for.
const LOOK: Duration = Duration::from_secs(3);

/// Measures as `options` say.
///
/// # Errors
/// If a node or the gateway does not start, ends, or does not answer; or if no rate leaves the machine idle
/// enough.
pub(crate) fn run(options: &AddedOptions) -> Result<Added, Failure> {
    let fleet = Fleet::start(&FleetConfig {
        program: options.rlnode.as_deref(),
        nodes: NODES,
        memory_mib: MEMORY_MIB,
        cluster: CLUSTER,
        limits: &stage::limits(),
    })?;
    let pages = Page::ALL.map(Page::as_str);
    let front = Front::start(options, &fleet.nodes()[ASKED], &pages)?;
    let site = Site { fleet: &fleet, front: &front, options };
    let (rate, looks) = match options.rate {
        Rate::Given(rate) => (rate, Vec::new()),
        Rate::Auto => site.find_rate()?,
    };
    let mut added = Added::new(options, &fleet.nodes()[ASKED].status()?.version, &front.version);
    added.set_rate(rate, looks);
    for (number, &stage) in (0..).zip(options.stages()) {
        added.push(site.measure(stage, number, rate)?);
    }
    front.stop()?;
    fleet.stop()?;
    Ok(added)
}

/// What is measured, and how.
#[derive(Clone, Copy, Debug)]
struct Site<'s> {
    fleet: &'s Fleet,
    front: &'s Front,
    options: &'s AddedOptions,
}

impl Site<'_> {
    /// The node that the gateway asks.
    fn asked(&self) -> &FleetNode {
        &self.fleet.nodes()[ASKED]
    }

    /// The highest rate that leaves enough of the machine idle, and what was looked at to find it.
    fn find_rate(&self) -> Result<(u64, Vec<rate::Look>), Failure> {
        let mut checked = self.open(Some(Page::Load), rate::RATE_DEMANDED, 0)?;
        run_for(&mut checked, WARM_UP)?;
        let looks = rate::find(|rate| {
            checked.set_rate(rate);
            let before = Usage::now(self)?;
            run_for(&mut checked, LOOK)?;
            Ok(Usage::now(self)?.since(before).machine.idle_permille())
        })?;
        let rate = looks.last().map_or(rate::RATE_DEMANDED, |look| look.rate);
        Ok((rate, looks))
    }

    /// A driver of a page that is checked, or of the plain one. `seed` decides the order of keys.
    fn open(&self, page: Option<Page>, rate: u64, seed: u64) -> Result<Driver, Failure> {
        let endpoint = match page {
            Some(page) => self.front.checked(page.as_str()),
            None => self.front.plain(),
        };
        let keys = match page {
            // One key, which has nothing left.
            Some(Page::Denied) => Keys::sequence(0, 1),
            _ => Keys::uniform(self.options.keys, seed),
        };
        let shape = Shape {
            connections: usize::try_from(self.options.connections).unwrap_or(1),
            window: 1,
            checks: 1,
            checks_per_s: Some(rate),
        };
        Driver::open(&endpoint, shape, keys)
    }
}

/// Runs `driver` for `time`.
fn run_for(driver: &mut Driver, time: Duration) -> Result<Tally, Failure> {
    let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    driver.run(Until::Time(clock::now_ns().saturating_add(time_ns)))
}
