//! `rlbench load`: every cell of a plan measured on every server, run by run in turn, so that what
//! the machine does meanwhile meets all of them alike.

mod cell;
mod floor;
mod measure;
mod preload;

use rustix::process::Pid;

pub(crate) use cell::{Cell, Role};
pub(crate) use floor::{Claim, FloorResult};
pub(crate) use preload::Memory;

use crate::cli::LoadOptions;
use crate::failure::Failure;
use crate::pin::Pins;
use crate::report::{CellReport, Figures, Report, Subject};
use crate::server::{Limit, NodeConfig, Server};

/// Memory that a node under load has for its tables: the default of its file.
const MEMORY_MIB: u64 = 1024;
/// Where floors are measured unless told otherwise.
const FLOOR_PINS: &str = "0:1";

/// Measures what `options` ask for.
///
/// # Errors
/// If a server does not start, or does not answer.
pub(crate) fn run(options: &LoadOptions) -> Result<Report, Failure> {
    let pins = match &options.pin {
        None if options.floors => Some(FLOOR_PINS.parse::<Pins>().map_err(Failure::new)?),
        pins => pins.clone(),
    };
    let cells = cell::plan(options, pins.as_ref())?;
    let servers = start_servers(options, pins.as_ref())?;
    for server in &servers {
        server.pause()?;
    }
    let memory = preload_all(&servers, options, pins.as_ref())?;
    let mut figures: Vec<Vec<Vec<Figures>>> = vec![vec![Vec::new(); servers.len()]; cells.len()];
    for run in 0..options.runs {
        for (cell, of_cell) in cells.iter().zip(&mut figures) {
            for at in turns(run, servers.len()) {
                let server = &servers[at];
                let seed = run + 1;
                of_cell[at].push(alone(server, || measure::measure(server, cell, options, seed))?);
            }
        }
    }
    let subjects = servers.iter().zip(memory).map(subject).collect();
    let mut report = Report::new(options, pins, subjects);
    report.cells = cells.into_iter().zip(figures).map(|(c, f)| CellReport::new(c, f)).collect();
    if options.floors {
        report.floors = floor::evaluate(&report);
    }
    for server in servers {
        server.stop()?;
    }
    Ok(report)
}

/// The node, and redis after it if it is asked for.
fn start_servers(options: &LoadOptions, pins: Option<&Pins>) -> Result<Vec<Server>, Failure> {
    let cpus = pins.map(|pins| &pins.server);
    let node = match &options.addr {
        Some(node) => Server::given_node(node.clone(), options.pid.and_then(Pid::from_raw)),
        None => Server::start_node(&NodeConfig {
            program: options.rlnode.as_deref(),
            cpus,
            limit: Limit::OF_LOAD,
            memory_mib: MEMORY_MIB,
            overrides: "",
        })?,
    };
    let mut servers = vec![node];
    if options.has_redis() {
        servers.push(Server::start_redis(&options.redis_server, cpus, Limit::OF_LOAD)?);
    }
    Ok(servers)
}

/// Makes every key on every server, if that is asked for; by server what the keys took.
fn preload_all(
    servers: &[Server],
    options: &LoadOptions,
    pins: Option<&Pins>,
) -> Result<Vec<Option<Memory>>, Failure> {
    if !options.has_preload() {
        return Ok(vec![None; servers.len()]);
    }
    if let Some(pins) = pins {
        pins.client.pin_this_thread()?;
    }
    let preload = |server| alone(server, || preload::preload(server, options.keys));
    servers.iter().map(preload).collect()
}

/// Does `work` while `server` runs, which is halted before and after: the sweep of an idle node, or
/// the timers of an idle redis, would use the CPU that another is measured on.
fn alone<T>(server: &Server, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    server.resume()?;
    let done = work()?;
    server.pause()?;
    Ok(done)
}

/// The order of `count` servers in this run: forwards and backwards in turn, so that none is always
/// the one after another.
fn turns(run: u64, count: usize) -> Vec<usize> {
    let forwards = 0..count;
    if run.is_multiple_of(2) { forwards.collect() } else { forwards.rev().collect() }
}

fn subject((server, memory): (&Server, Option<Memory>)) -> Subject {
    Subject { name: server.name, version: server.version.clone(), memory }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_take_turns_in_both_orders() {
        assert_eq!(turns(0, 2), [0, 1]);
        assert_eq!(turns(1, 2), [1, 0]);
        assert_eq!(turns(1, 1), [0]);
    }
}
