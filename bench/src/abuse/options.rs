//! What the command line says of `rlbench abuse`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::door::AbusedDoor;
use crate::cli::parse_duration;
use crate::failure::Failure;
use crate::pin::Pins;

/// Most idle connections: what a door takes, with room for those that ask and those that send garbage.
const IDLE_MAX: u64 = 16_000;
/// Most connections that send garbage: with the most idle ones they still fit into a door.
const GARBAGE_CONNECTIONS_MAX: u64 = 256;
/// Most messages, and most checks, in a second.
const RATE_MAX: u64 = 1_000_000;
/// Most rounds.
const ROUNDS_MAX: u64 = 99;
/// Longest phase: HTTP closes what is idle for 30 seconds, and then fewer would be idle than are said to be.
const PHASE_MAX: Duration = Duration::from_secs(20);

/// Options of `rlbench abuse`.
#[derive(Clone, Debug, Args)]
pub(crate) struct AbuseOptions {
    /// Doors, one after the other [default: all]
    #[arg(long, value_delimiter = ',', value_name = "DOOR,...")]
    pub(crate) door: Vec<AbusedDoor>,
    /// Connections that do nothing: 0 to 16000
    #[arg(long, default_value_t = 10_000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(0..=IDLE_MAX))]
    pub(crate) idle: u64,
    /// Connections that send garbage: 1 to 256
    #[arg(long, default_value_t = 100, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=GARBAGE_CONNECTIONS_MAX))]
    pub(crate) garbage: u64,
    /// Messages of garbage in a second, on all of them together: 1 to 1000000
    #[arg(long, default_value_t = 10_000, value_name = "MESSAGES/S",
          value_parser = clap::value_parser!(u64).range(1..=RATE_MAX))]
    pub(crate) messages: u64,
    /// Checks in a second of the well-behaved client, open loop: 1 to 1000000
    #[arg(long, default_value_t = 1_000, value_name = "CHECKS/S",
          value_parser = clap::value_parser!(u64).range(1..=RATE_MAX))]
    pub(crate) rate: u64,
    /// Rounds, each with a phase without and one with abuse: 1 to 99
    #[arg(long, default_value_t = 7, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=ROUNDS_MAX))]
    pub(crate) rounds: u64,
    /// How long each phase lasts: up to 20s
    #[arg(long, default_value = "3s", value_name = "TIME", value_parser = parse_phase)]
    pub(crate) phase: Duration,
    /// CPUs of the node and of the bench, SERVER:CLIENT, such as 0:1 [default: all]
    #[arg(long, value_name = "CPUS:CPUS")]
    pub(crate) pin: Option<Pins>,
    /// The node's program [default: `rlnode` beside this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) rlnode: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl AbuseOptions {
    /// The doors to abuse.
    pub(super) fn doors(&self) -> &[AbusedDoor] {
        if self.door.is_empty() { &AbusedDoor::ALL } else { &self.door }
    }

    /// Raises what this process may open to what its connections need.
    ///
    /// # Errors
    /// If the system does not allow it.
    pub(super) fn raise_open_files(&self) -> Result<(), Failure> {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        const BESIDE: u64 = 256;
        let needed = self.idle + self.garbage + BESIDE;
        let limit = getrlimit(Resource::Nofile);
        if let Some(maximum) = limit.maximum.filter(|&maximum| maximum < needed) {
            return Err(Failure::new(format!(
                "the bench and the node need {needed} open files each, and may have {maximum}: raise the \
                 hard limit, or ask for fewer `--idle`"
            )));
        }
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        setrlimit(Resource::Nofile, raised)
            .map_err(|error| Failure::because("cannot raise the limit of open files", error))
    }
}

fn parse_phase(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    if duration.is_zero() || duration > PHASE_MAX {
        return Err(format!("`{text}` is no time for a phase; write 1ms to 20s"));
    }
    Ok(duration)
}

#[cfg(test)]
impl AbuseOptions {
    /// What is left out on the command line.
    pub(super) fn of_tests() -> Self {
        Self {
            door: Vec::new(),
            idle: 10_000,
            garbage: 100,
            messages: 10_000,
            rate: 1_000,
            rounds: 7,
            phase: Duration::from_secs(3),
            pin: None,
            rlnode: None,
            json: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_ends_before_an_idle_connection_does() {
        assert_eq!(parse_phase("20s"), Ok(PHASE_MAX));
        for text in ["0s", "21s", "x"] {
            assert!(parse_phase(text).unwrap_err().contains(&format!("`{text}`")), "{text}");
        }
    }
}
