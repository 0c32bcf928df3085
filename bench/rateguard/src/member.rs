//! A member of a cluster of `rateguard`: how it is set up, and when the cluster has formed.

use std::time::Duration;

use rateguard::{Guard, Stats};

use crate::cli::Cli;

/// How often the node's state changes: a quarter of its protocol period.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Starts the node in the current runtime. Everything that is not said here is as the crate has it;
/// `README.md` gives the reason for each.
///
/// # Errors
/// If a number is out of the crate's range, or the gossip's address is taken.
pub(crate) fn start(cli: &Cli) -> Result<Guard, rateguard::Error> {
    let mut builder = Guard::builder()
        .bind(cli.gossip.to_string())
        .advertise(cli.advertised().to_string())
        .seeds(cli.peers.iter().map(ToString::to_string))
        .limit(cli.rate);
    if let Some(burst) = cli.burst {
        builder = builder.burst(burst);
    }
    builder.spawn()
}

/// Waits until this node and `members - 1` others have joined and each of them was heard.
pub(crate) async fn formed(guard: &Guard, members: usize) {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        looks.tick().await;
        if has_formed(&guard.stats(), members) {
            return;
        }
    }
}

/// Whether a node that tells this of itself counts everybody and is held back by nothing. A node that
/// is *learning* has joined, but has not heard each of its peers since, and keeps every key at the
/// floor.
fn has_formed(stats: &Stats, members: usize) -> bool {
    let has_begun = stats.since_last_round.is_some();
    has_begun
        && stats.cluster_size >= members
        && stats.suspects == 0
        && !stats.joining
        && !stats.learning
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_has_formed_when_everybody_was_heard() {
        let mut stats = Stats::default();
        stats.cluster_size = 3;
        assert!(!has_formed(&stats, 3), "no round has run");
        stats.since_last_round = Some(Duration::ZERO);
        assert!(has_formed(&stats, 3));
        assert!(!has_formed(&stats, 4), "one is missing");
        for hold in [
            |stats: &mut Stats| stats.joining = true,
            |stats: &mut Stats| stats.learning = true,
            |stats: &mut Stats| stats.suspects = 1,
        ] {
            let mut held = stats.clone();
            hold(&mut held);
            assert!(!has_formed(&held, 3), "{held:?}");
        }
    }
}
