//! Connections between nodes that were refused, by reason: one list for status and metrics.

use wire::peer::Refusal;

/// Reasons found before a handshake of the cluster begins, or beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Early {
    /// The certificate of the other is not of the authority, is over, or names no node.
    pub authority: u64,
    /// The other speaks another protocol, or none that is known.
    pub protocol: u64,
    /// What the other sent breaks the rules of frames and streams.
    pub malformed: u64,
}

/// How many connections were refused since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    early: Early,
    ours: cluster::Refusals,
    by_peers: cluster::Refusals,
}

impl Refusals {
    /// What the cluster counted, with what was refused `early`.
    pub fn new(counts: &cluster::Counts, early: Early) -> Self {
        Self { early, ours: counts.refused, by_peers: counts.refused_by_peers }
    }

    /// Those that this node refused, by reason; every reason is there.
    pub fn ours(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let early = self.early;
        let known = reasons().map(move |reason| {
            let more = match reason {
                Refusal::Protocol => early.protocol,
                Refusal::Malformed => early.malformed,
                _ => 0,
            };
            (reason.as_str(), self.ours.of(reason).saturating_add(more))
        });
        std::iter::once(("authority", early.authority)).chain(known)
    }

    /// Those by which peers refused this node, by reason; every reason is there.
    pub fn by_peers(&self) -> impl Iterator<Item = (&'static str, u64)> {
        reasons().map(|reason| (reason.as_str(), self.by_peers.of(reason)))
    }
}

/// Every reason but one: that a node meets itself at an address of its own is expected.
fn reasons() -> impl Iterator<Item = Refusal> {
    Refusal::ALL.into_iter().filter(|reason| *reason != Refusal::Itself)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_there_once_and_meeting_oneself_is_none() {
        let early = Early { authority: 3, protocol: 2, malformed: 1 };
        let refusals = Refusals::new(&cluster::Counts::default(), early);
        let ours: Vec<_> = refusals.ours().collect();
        assert_eq!(ours.len(), Refusal::ALL.len());
        for want in [("authority", 3), ("protocol", 2), ("malformed", 1), ("cluster", 0)] {
            assert!(ours.contains(&want), "{want:?}");
        }
        assert!(
            ours.iter()
                .chain(&refusals.by_peers().collect::<Vec<_>>())
                .all(|(r, _)| *r != "itself")
        );
    }
}
