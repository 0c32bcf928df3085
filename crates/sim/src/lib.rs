//! Whole clusters on virtual clocks and a virtual network.
//!
//! Every node of a run has the real limiter and the real cluster; the clocks, the network and the chance
//! are not real. A run is written down as a [`Scenario`], is the same every time, and leaves a
//! [`Record`]. No threads, no time of day, no randomness but from the scenario's seed.

pub mod attack;
pub mod blip;
pub mod clock;
pub mod compare;
pub mod dice;
pub mod exact;
pub mod network;
pub mod report;
pub mod scenario;
pub mod search;
pub mod table;
pub mod workload;

mod acknowledged;
mod ceiling;
mod drive;
mod invariants;
mod process;
mod queue;
mod reading;
mod record;
mod trace;
mod world;

pub use record::{Excess, Outcome, Probe, Record};
pub use report::{Report, simulate};
pub use scenario::{Act, Algorithm, Allowed, Scenario};
pub use trace::Trace;
pub use world::World;
