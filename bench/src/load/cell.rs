//! One cell of a load: a door, how much is asked at once, and where the generator runs.

use serde::Serialize;

use crate::cli::LoadOptions;
use crate::failure::Failure;
use crate::pin::{CpuList, Pins};
use crate::server::Door;

/// Batches of a matrix.
const MATRIX_BATCHES: [u64; 3] = [1, 16, 64];
/// Clients of the floors that are about many.
const FLOOR_CONNECTIONS: usize = 50;

/// What a cell is measured for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    /// It was asked for.
    Figure,
    /// A round trip on one CPU over UDP, beside redis over TCP.
    RoundTripUdp,
    /// A round trip on one CPU over seqpacket, beside redis over a unix socket.
    RoundTripUnix,
    /// Many clients over UDP, beside as many of redis over TCP.
    ManyClients,
}

/// One cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Cell {
    /// What it is for.
    pub(crate) role: Role,
    /// The way into the node.
    pub(crate) door: Door,
    /// Checks in a question.
    pub(crate) batch: usize,
    /// Connections of all threads.
    pub(crate) connections: usize,
    /// Questions in flight on each.
    pub(crate) window: usize,
    /// Where the generator runs; none: anywhere.
    pub(crate) client_cpus: Option<CpuList>,
}

/// The cells that `options` ask for.
///
/// # Errors
/// If there are fewer connections than threads.
pub(super) fn plan(options: &LoadOptions, pins: Option<&Pins>) -> Result<Vec<Cell>, Failure> {
    if options.connections < options.threads {
        return Err(Failure::new(format!(
            "`--connections {}` is less than `--threads {}`; each thread needs one",
            options.connections, options.threads
        )));
    }
    let as_size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let doors = match &options.addr {
        Some(node) => vec![node.door],
        None if options.matrix || options.door.is_empty() => Door::ALL.to_vec(),
        None => options.door.clone(),
    };
    let batches = if options.matrix { MATRIX_BATCHES.as_slice() } else { options.batch.as_slice() };
    let client_cpus = pins.map(|pins| pins.client.clone());
    let mut cells = Vec::new();
    // Floors alone are asked for without naming a door.
    if !options.floors || options.matrix || !options.door.is_empty() {
        for &door in &doors {
            cells.extend(batches.iter().map(|&batch| Cell {
                role: Role::Figure,
                door,
                batch: as_size(batch),
                connections: as_size(options.connections),
                window: as_size(options.window),
                client_cpus: client_cpus.clone(),
            }));
        }
    }
    if let (true, Some(pins)) = (options.floors, pins) {
        let floor = |role, door, connections, cpus: &CpuList| Cell {
            role,
            door,
            batch: 1,
            connections,
            window: 1,
            client_cpus: Some(cpus.clone()),
        };
        cells.push(floor(Role::RoundTripUdp, Door::Udp, 1, &pins.server));
        cells.push(floor(Role::RoundTripUnix, Door::Seqpacket, 1, &pins.server));
        cells.push(floor(Role::ManyClients, Door::Udp, FLOOR_CONNECTIONS, &pins.client));
    }
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn planned(arguments: &str) -> Result<Vec<Cell>, Failure> {
        let words = ["rlbench", "load"].into_iter().chain(arguments.split_whitespace());
        let Command::Load(options) = Cli::try_parse_from(words).unwrap().command else {
            panic!("not a load")
        };
        plan(&options, Some(&"0:1".parse().unwrap()))
    }

    #[test]
    fn a_matrix_is_every_door_with_every_batch() {
        let cells = planned("--matrix").unwrap();
        assert_eq!(cells.len(), Door::ALL.len() * MATRIX_BATCHES.len());
        assert!(cells.iter().all(|cell| cell.role == Role::Figure));
        assert_eq!((cells[0].door, cells[0].batch), (Door::Udp, 1));
    }

    #[test]
    fn floors_compare_round_trips_on_one_cpu_and_many_clients_on_two() {
        let cells = planned("--floors").unwrap();
        let of = |role| cells.iter().find(|cell| cell.role == role).unwrap();
        assert_eq!(cells.len(), 3);
        assert_eq!(of(Role::RoundTripUdp).client_cpus.as_ref().unwrap().to_string(), "0");
        assert_eq!(of(Role::RoundTripUnix).door, Door::Seqpacket);
        assert_eq!(of(Role::ManyClients).client_cpus.as_ref().unwrap().to_string(), "1");
        assert_eq!(of(Role::ManyClients).connections, 50);
        assert_eq!(planned("--floors --matrix").unwrap().len(), 3 + 15);
    }

    #[test]
    fn a_given_node_is_asked_through_its_own_door() {
        let cells = planned("--addr seqpacket:///x.seq --batch 4,8").unwrap();
        assert!(cells.iter().all(|cell| cell.door == Door::Seqpacket));
        assert_eq!(cells.iter().map(|cell| cell.batch).collect::<Vec<_>>(), [4, 8]);
    }

    #[test]
    fn each_thread_needs_a_connection() {
        let error = planned("--threads 2 --connections 1").unwrap_err().to_string();
        assert!(error.contains("`--connections 1`"), "{error}");
        assert!(planned("--threads 2 --connections 2").is_ok());
    }
}
