//! The part of `GET /v1/status` about the node's cluster.

use std::borrow::Cow;
use std::collections::BTreeMap;

use cluster::PeerState;
use serde::{Deserialize, Serialize};

use crate::engine::MemberStatus;

/// A node's cluster as the node sees it. Fields may be added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// Name of the cluster.
    pub name: String,
    /// Where this node is; empty: nothing is said.
    pub region: String,
    /// Number of this start of the node, in hexadecimal digits.
    pub life: String,
    /// Members, this node included.
    pub members: u64,
    /// Members that it reaches, itself included.
    pub reached: u64,
    /// It reaches too few to take the part of the missing over by itself.
    pub isolated: bool,
    /// Unix time in seconds at which the certificate of this node ends.
    pub certificate_ends_s: i64,
    /// Entries of `peers` that cannot be looked up, each with the reason.
    pub unresolved: BTreeMap<String, String>,
    /// What recovers by itself, and what somebody has to do; none where nothing is missing.
    pub advice: Option<String>,
    /// The other members by name; those that were never met come last.
    pub peers: Vec<PeerStatus>,
    /// What was counted.
    #[serde(flatten)]
    pub counts: ClusterCounts,
    /// Connections that this node refused, by reason, without those that did not happen.
    pub refused: BTreeMap<Cow<'static, str>, u64>,
    /// Connections by which peers refused this node, by reason, without those that did not happen.
    pub refused_by_peers: BTreeMap<Cow<'static, str>, u64>,
}

/// What happened in the cluster since the node started, and what it holds for it now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterCounts {
    /// Steps in which peers were lost.
    pub splits: u64,
    /// Steps in which peers were reached again.
    pub heals: u64,
    /// Members forgotten, those that left included.
    pub forgotten: u64,
    /// Times that this node gave its counts up and took them anew.
    pub joins: u64,
    /// Batches sent.
    pub batches_sent: u64,
    /// Batches received.
    pub batches_received: u64,
    /// Bytes sent to peers.
    pub bytes_sent: u64,
    /// Bytes received from peers.
    pub bytes_received: u64,
    /// Checks that are held now.
    pub held: u64,
    /// Checks that were held.
    pub held_total: u64,
    /// Checks that were not held because too many were.
    pub holds_refused: u64,
    /// Checks denied for want of a share while units were left.
    pub share_denied: u64,
    /// Buckets in motion.
    pub motions: u64,
    /// Buckets with spends that missing members do not know.
    pub charges: u64,
    /// Most of each.
    pub rows_max: u64,
    /// Buckets for which there was no room among these.
    pub rows_full: u64,
    /// Deepest debt seen in any bucket, in thousandths of its capacity.
    pub debt_permille: u64,
    /// Buckets that peers told of and whose limit this node does not have.
    pub unknown_limits: u64,
}

/// Another member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerStatus {
    /// Its name; none: it is expected and was never met.
    pub name: Option<String>,
    /// Its region.
    pub region: String,
    /// `counted`, `linked`, `missing` or `unmet`.
    pub state: Cow<'static, str>,
    /// Milliseconds since it was heard; none: it is not connected.
    pub heard_ms: Option<u64>,
    /// Milliseconds for which it has been missing; none: it is not.
    pub missing_ms: Option<u64>,
    /// Batches of this node that it has not acknowledged.
    #[serde(default)]
    pub unacknowledged: u64,
    /// Milliseconds that it is behind in what this node told it.
    pub lag_ms: u64,
    /// Microseconds from a batch to its acknowledgement; none: not known yet.
    pub rtt_us: Option<u64>,
    /// Its wall clock less this node's, in milliseconds, as of a few seconds ago at most; none: it is not
    /// connected.
    pub skew_ms: Option<i64>,
    /// Its wall clock is so far off that it is warned of.
    #[serde(default)]
    pub clock_off: bool,
    /// Limits whose numbers differ there.
    pub drift: Vec<String>,
    /// Limits of this node that it does not have.
    pub unknown_there: Vec<String>,
    /// How many limits it has that this node does not have.
    pub unknown_here: u64,
    /// It comes and goes, and is not counted before it stays.
    pub flapping: bool,
}

impl ClusterStatus {
    /// The JSON of what a member tells.
    pub fn new(member: &MemberStatus) -> Self {
        let MemberStatus { cluster: status, refusals, forget_after_ns, .. } = member;
        let (counts, shares) = (&status.counts, &status.shares);
        Self {
            name: status.cluster.clone(),
            region: status.region.clone(),
            life: format!("{:016x}", status.life),
            members: status.members as u64,
            reached: status.reached as u64,
            isolated: status.isolated,
            certificate_ends_s: member.certificate_ends_s,
            unresolved: member.unresolved.iter().cloned().collect(),
            advice: advice(status, forget_after_ns / 1_000_000),
            peers: status.peers.iter().map(PeerStatus::new).collect(),
            counts: ClusterCounts {
                splits: counts.splits,
                heals: counts.heals,
                forgotten: counts.forgotten,
                joins: counts.joins,
                batches_sent: counts.batches_sent,
                batches_received: counts.batches_received,
                bytes_sent: counts.bytes_sent,
                bytes_received: counts.bytes_received,
                held: status.held as u64,
                held_total: shares.held,
                holds_refused: member.holds_refused(),
                share_denied: shares.share_denied,
                motions: shares.motions,
                charges: shares.charges,
                rows_max: shares.rows_max,
                rows_full: shares.rows_full,
                debt_permille: shares.debt_permille,
                unknown_limits: counts.unknown_limits,
            },
            refused: happened(refusals.ours()),
            refused_by_peers: happened(refusals.by_peers()),
        }
    }
}

impl PeerStatus {
    /// The JSON of what a member knows of another.
    pub(super) fn new(peer: &cluster::PeerStatus) -> Self {
        Self {
            name: peer.name.clone(),
            region: peer.region.clone(),
            state: peer.state.as_str().into(),
            heard_ms: peer.heard_ms,
            missing_ms: peer.missing_ms,
            unacknowledged: peer.unacknowledged,
            lag_ms: peer.lag_ms,
            rtt_us: peer.rtt_us,
            skew_ms: peer.skew_ms,
            clock_off: peer.clock_off,
            drift: peer.drift.clone(),
            unknown_there: peer.unknown_there.clone(),
            unknown_here: peer.unknown_here,
            flapping: peer.flapping,
        }
    }
}

fn happened(counts: impl Iterator<Item = (&'static str, u64)>) -> BTreeMap<Cow<'static, str>, u64> {
    counts.filter(|(_, n)| *n > 0).map(|(reason, n)| (reason.into(), n)).collect()
}

/// Which side recovers by itself, and what to do on the other.
fn advice(status: &cluster::Status, forget_after_ms: u64) -> Option<String> {
    let is_missing = |state| matches!(state, PeerState::Missing | PeerState::Unmet);
    let missing: Vec<_> = status.peers.iter().filter(|peer| is_missing(peer.state)).collect();
    let first = missing.first()?;
    let named = |peer: &cluster::PeerStatus| match &peer.name {
        Some(name) => format!("`{name}`"),
        None => "a member that was never met".to_owned(),
    };
    let names = missing.iter().map(|peer| named(peer)).collect::<Vec<_>>().join(", ");
    let forget = first.name.as_deref().unwrap_or("NAME");
    let (reached, members) = (status.reached, status.members);
    if status.isolated {
        return Some(format!(
            "isolated: it stays on {reached}/{members} of every limit until it reaches {names}; for \
             one that is gone for good say here `rlnode node forget {forget}`"
        ));
    }
    let missing_ms = missing.iter().filter_map(|peer| peer.missing_ms).max().unwrap_or(0);
    let left_s = forget_after_ms.saturating_sub(missing_ms).div_ceil(1_000);
    Some(format!(
        "{reached}/{members} of every limit without {names}; forgotten by itself in {left_s} s, or \
         now by `rlnode node forget {forget}`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{peer, sample};

    fn status_of(cluster: &cluster::Status) -> ClusterStatus {
        let cluster = cluster.clone();
        ClusterStatus::new(&MemberStatus { cluster, ..sample() })
    }

    #[test]
    fn the_side_that_is_not_isolated_recovers_by_itself() {
        let status = status_of(&sample().cluster);
        assert_eq!((status.members, status.reached, &*status.life), (3, 2, "00000000000000ab"));
        assert_eq!(
            status.advice.as_deref(),
            Some(
                "2/3 of every limit without `c`; forgotten by itself in 40 s, or now by `rlnode \
                 node forget c`"
            )
        );
    }

    #[test]
    fn the_isolated_side_is_told_whom_to_forget() {
        let mut sample = sample().cluster;
        sample.isolated = true;
        sample.peers = vec![peer(Some("a"), PeerState::Missing)];
        (sample.members, sample.reached) = (2, 1);
        let advice = status_of(&sample).advice.expect("something is missing");
        let want = "isolated: it stays on 1/2 of every limit until it reaches `a`;";
        assert!(advice.starts_with(want), "{advice}");
        assert!(advice.ends_with("`rlnode node forget a`"), "{advice}");
        sample.peers = vec![peer(None, PeerState::Unmet)];
        let advice = status_of(&sample).advice.expect("something is missing");
        assert!(advice.contains("a member that was never met"), "{advice}");
        sample.peers = vec![peer(Some("a"), PeerState::Counted)];
        assert_eq!(status_of(&sample).advice, None);
    }

    #[test]
    fn what_is_written_can_be_read_back() {
        let status = status_of(&sample().cluster);
        let text = serde_json::to_string(&status).expect("JSON");
        assert_eq!(serde_json::from_str::<ClusterStatus>(&text).expect("the same"), status);
    }
}
