//! The command line.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use clap::Parser;
use clap::value_parser;

/// A node of `rateguard` that answers rlnode's local frame over UDP.
///
/// Prints one line, `ready`, when it has heard every peer. Ends on SIGTERM, and leaves the cluster
/// then.
#[derive(Clone, Debug, Parser)]
#[command(name = "rateguard-node", version)]
pub(crate) struct Cli {
    /// Where checks are answered; an address of loopback.
    #[arg(long, value_name = "ADDRESS", value_parser = loopback)]
    pub(crate) udp: SocketAddr,
    /// Where it listens for its peers.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) gossip: SocketAddr,
    /// Where its peers reach it, if something stands between them [default: as --gossip].
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) advertise: Option<SocketAddr>,
    /// Where it reaches its peers; its own address may be among them.
    #[arg(long, value_name = "ADDRESS,...", value_delimiter = ',')]
    pub(crate) peers: Vec<SocketAddr>,
    /// Requests per second of each key, across all nodes.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub(crate) rate: u32,
    /// Requests of a key that one node may let through back to back [default: a twentieth of the
    /// rate, as the crate has it].
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub(crate) burst: Option<u32>,
    /// Name of the limit in its answers.
    #[arg(long, value_name = "NAME", default_value = "rateguard")]
    pub(crate) name: String,
}

impl Cli {
    /// The address by which its peers know it.
    pub(crate) fn advertised(&self) -> SocketAddr {
        self.advertise.unwrap_or(self.gossip)
    }

    /// Nodes of the cluster, this one included.
    pub(crate) fn members(&self) -> usize {
        let mut members: BTreeSet<_> = self.peers.iter().copied().collect();
        members.insert(self.advertised());
        members.len()
    }
}

/// An address of loopback. Beyond it a node would have to mind forged senders.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|error| format!("{error}"))?;
    if address.ip().is_loopback() { Ok(address) } else { Err("name an address of loopback".into()) }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parsed(more: &[&str]) -> Result<Cli, clap::Error> {
        let line = ["rateguard-node", "--gossip", "127.0.0.1:2", "--rate", "5"];
        Cli::try_parse_from(line.iter().chain(more))
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn its_version_is_that_of_the_crate_which_it_runs() {
        let pinned = concat!("\nrateguard = \"=", env!("CARGO_PKG_VERSION"), "\"\n");
        assert!(include_str!("../Cargo.toml").contains(pinned), "{pinned}");
    }

    #[test]
    fn members_are_the_peers_and_itself_each_counted_once() {
        let peers = "127.0.0.1:3,127.0.0.1:4,127.0.0.1:2,127.0.0.1:4";
        let cli = parsed(&["--udp", "127.0.0.1:1", "--peers", peers]).unwrap();
        assert_eq!(cli.members(), 3);
        let behind = parsed(&["--udp", "[::1]:1", "--peers", peers, "--advertise", "127.0.0.1:9"]);
        assert_eq!(behind.unwrap().members(), 4);
        assert_eq!(parsed(&["--udp", "127.0.0.1:1"]).unwrap().members(), 1);
    }

    #[test]
    fn refuses_what_could_not_work() {
        for more in [
            &["--udp", "0.0.0.0:1"][..],
            &["--udp", "somewhere"],
            &["--udp", "127.0.0.1:1", "--burst", "0"],
            &["--udp", "127.0.0.1:1", "--rate", "0"],
            &["--udp", "127.0.0.1:1", "--peers", "127.0.0.1:3;127.0.0.1:4"],
        ] {
            assert!(parsed(more).is_err(), "{more:?}");
        }
    }
}
