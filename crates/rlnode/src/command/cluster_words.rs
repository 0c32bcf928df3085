//! A node's cluster in words, for people at a terminal.

use std::fmt::Write;
use std::time::Duration;

use super::explain::distance_in_words;
use super::words;
use crate::endpoint::http::cluster_status::{ClusterStatus, PeerStatus};

/// A certificate that ends within this time is told, in seconds: a month is time to renew it.
const WARN_BEFORE_S: i64 = 30 * 86_400;

/// Refusals that belong to the life of a cluster: two nodes dial each other at once, one stops.
const EXPECTED_REFUSALS: [&str; 2] = ["busy", "leaving"];

/// Lines on the cluster: its size, each other member, what is to be known and what is to be done.
/// `unix_s` is Unix time now, in seconds.
pub(super) fn cluster_in_words(cluster: &ClusterStatus, unix_s: i64) -> String {
    let counts = &cluster.counts;
    let mut text = format!(
        "cluster {}: reaches {} of {} members; {} splits, {} heals",
        cluster.name, cluster.reached, cluster.members, counts.splits, counts.heals
    );
    if !cluster.region.is_empty() {
        let _ = write!(text, "; region {}", cluster.region);
    }
    text.push('\n');
    for peer in &cluster.peers {
        let _ = writeln!(text, "member {}", peer_in_words(peer));
    }
    for peer in &cluster.peers {
        if let Some(warning) = clock_in_words(peer) {
            let _ = writeln!(text, "** {warning}");
        }
    }
    if let Some(advice) = &cluster.advice {
        let _ = writeln!(text, "** {advice}");
    }
    if let Some(warning) = distance_in_words(cluster) {
        let _ = writeln!(text, "** {warning}");
    }
    let _ = writeln!(
        text,
        "shares: {} held now, {} ever, {} denied; {} in motion, {} charged, deepest debt {} %",
        counts.held,
        counts.held_total,
        counts.share_denied,
        counts.motions,
        counts.charges,
        counts.debt_permille.div_ceil(10)
    );
    for (refused, by) in [(&cluster.refused, ""), (&cluster.refused_by_peers, " by peers")] {
        let is_news = |reason: &&str| !EXPECTED_REFUSALS.contains(reason);
        for (reason, count) in refused.iter().filter(|(reason, _)| is_news(&reason.as_ref())) {
            let _ = writeln!(text, "refused{by}: {count} for {reason}");
        }
    }
    for (peer, why) in &cluster.unresolved {
        let _ = writeln!(text, "** `{peer}` cannot be looked up: {why}");
    }
    let left_s = cluster.certificate_ends_s.saturating_sub(unix_s);
    if left_s <= 0 {
        text.push_str("** the certificate of this node has ended: issue another and restart\n");
    } else if left_s <= WARN_BEFORE_S {
        let days = left_s / 86_400;
        let _ = writeln!(text, "** the certificate of this node ends in {days} days: renew it");
    }
    text
}

/// `edge-2: counted, heard 40 ms ago, lag 0 ms, round trip 400 us`.
pub(super) fn peer_in_words(peer: &PeerStatus) -> String {
    let ms = |ms| words::wait(Some(Duration::from_millis(ms)));
    let mut text = match &peer.name {
        Some(name) => format!("{name}: {}", peer.state),
        None => "never met: expected".to_owned(),
    };
    if let Some(missing_ms) = peer.missing_ms {
        let _ = write!(text, " for {}", ms(missing_ms));
    }
    if let Some(heard_ms) = peer.heard_ms {
        let _ = write!(text, ", heard {} ago, lag {}", ms(heard_ms), ms(peer.lag_ms));
    }
    if let Some(rtt_us) = peer.rtt_us {
        let _ = write!(text, ", round trip {rtt_us} us");
    }
    if !peer.region.is_empty() {
        let _ = write!(text, ", region {}", peer.region);
    }
    if peer.flapping {
        text.push_str(", comes and goes: not counted before it stays");
    }
    let lists = [(&peer.drift, "other numbers for"), (&peer.unknown_there, "does not have")];
    for (limits, what) in lists.iter().filter(|(limits, _)| !limits.is_empty()) {
        let _ = write!(text, ", {what} {}", limits.join(", "));
    }
    if peer.unknown_here > 0 {
        let _ = write!(text, ", has {} limits that this node does not have", peer.unknown_here);
    }
    text
}

/// A wall clock that is far off, and what to do; none where it is not.
fn clock_in_words(peer: &PeerStatus) -> Option<String> {
    let skew_ms = peer.skew_ms.filter(|_| peer.clock_off)?;
    Some(format!(
        "the wall clock of `{}` is {} {} this node's: set both right, with NTP; until then windows \
         begin and end that far apart",
        peer.name.as_deref()?,
        words::wait(Some(Duration::from_millis(skew_ms.unsigned_abs()))),
        if skew_ms < 0 { "behind" } else { "ahead of" }
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::sample;

    #[test]
    fn a_cluster_is_told_with_what_to_do() {
        let cluster = ClusterStatus::new(&sample());
        let words = cluster_in_words(&cluster, 1_800_000_000 - 86_400);
        let want = "\
cluster edge: reaches 2 of 3 members; 1 splits, 0 heals
member a: counted, heard 12 ms ago, lag 3 ms, round trip 400 us, region eu, other numbers for \
per-key, does not have login, has 1 limits that this node does not have
member c: missing for 20 s, round trip 400 us, region eu, other numbers for per-key, does not \
have login, has 1 limits that this node does not have
** 2/3 of every limit without `c`; forgotten by itself in 40 s, or now by `rlnode node forget c`
shares: 2 held now, 0 ever, 0 denied; 0 in motion, 0 charged, deepest debt 0 %
refused: 3 for authority
** `edge-9:7401` cannot be looked up: no such name
** the certificate of this node ends in 1 days: renew it
";
        assert_eq!(words, want);
        let far = {
            let mut sample = sample();
            sample.cluster.peers[0].rtt_us = Some(8_000);
            sample
        };
        let words = cluster_in_words(&ClusterStatus::new(&far), 1_700_000_000);
        let warning = far.warning_of_distance().expect("it is far");
        assert!(warning.starts_with("the round trip to `a` takes 8 ms"), "{warning}");
        assert!(words.contains(&format!("\n** {warning}\n")), "{words}");
        assert_eq!(sample().warning_of_distance(), None);
        let skewed = |skew_ms: i64, clock_off: bool| {
            let mut sample = sample();
            sample.cluster.peers[0].skew_ms = Some(skew_ms);
            sample.cluster.peers[0].clock_off = clock_off;
            cluster_in_words(&ClusterStatus::new(&sample), 1_700_000_000)
        };
        let words = skewed(-5_000, true);
        let warning = "\n** the wall clock of `a` is 5 s behind this node's: set both right, with NTP; \
                       until then windows begin and end that far apart\n";
        assert!(words.contains(warning), "{words}");
        assert!(skewed(300, true).contains("`a` is 300 ms ahead of this node's"));
        assert!(!skewed(300, false).contains("wall clock"));
        let later = cluster_in_words(&cluster, 1_800_000_000);
        assert!(later.ends_with("has ended: issue another and restart\n"), "{later}");
        let earlier = cluster_in_words(&cluster, 1_700_000_000);
        assert!(!earlier.contains("certificate"), "{earlier}");
    }
}
