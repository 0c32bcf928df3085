//! `rlbench sync`: what the exchange between nodes costs, and how soon peers know of a spend.
//!
//! Real members exchange over QUIC on loopback: one that spends in this process, its peers in a second
//! one, so that what the kernel does for each side counts for that side.

mod control;
mod fleet;
mod marker;
mod peers;
mod report;
mod sender;

use std::process::Command;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::cli::SyncOptions;
use crate::failure::Failure;
use crate::process::{Folder, Process};
use control::{Listener, Whole};
use fleet::{Fleet, SENDER};
pub(crate) use peers::run as run_peers;
use report::Cell;
pub(crate) use report::Exchange;
use sender::Sender;

/// Measures as `options` say, one number of peers after the other.
///
/// # Errors
/// If a member or a process does not start, or fails.
pub(crate) fn run(options: &SyncOptions) -> Result<Exchange, Failure> {
    let cells = options.peers.iter().map(|peers| measure(*peers, options));
    Ok(Exchange::new(options, cells.collect::<Result<_, _>>()?))
}

fn measure(peers: u64, options: &SyncOptions) -> Result<Cell, Failure> {
    let folder = Folder::new()?;
    let fleet = Fleet::new(&folder, peers, options.interval)?;
    let listener = Listener::bind(folder.path())?;
    let program =
        std::env::current_exe().map_err(|error| Failure::because("this program", error))?;
    let mut command = Command::new(program);
    command.arg("sync-peers").arg("--folder").arg(folder.path());
    let process = Process::start("peers", &mut command, &folder, None)?;
    let mut control = listener.accept(&process)?;
    let member = fleet.start(folder.path(), SENDER)?;
    let failed = || process.failed("ended before its members were linked");
    let Whole = control.hear()?.ok_or_else(failed)?;
    fleet.wait_until_whole(std::slice::from_ref(&member), |time| pause(&process, time))?;
    let mut sender =
        Sender { fleet: &fleet, member: &member, process: &process, control, runtime: runtime()? };
    sender.measure(options.keys, options.duration)
}

/// Waits for as long as `time`.
///
/// # Errors
/// If `process` ends.
fn pause(process: &Process, time: Duration) -> Result<(), Failure> {
    let has_ended = process.has_ended_within(time);
    if has_ended { Err(process.failed("ended while it was measured")) } else { Ok(()) }
}

/// What is needed to wait for a member's answer.
fn runtime() -> Result<Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.map_err(|error| Failure::because("no runtime", error))
}
