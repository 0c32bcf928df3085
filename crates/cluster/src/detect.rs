//! Who is gone: silence, batches without acknowledgement, a handshake that leads nowhere.

use limiter::Members;

use crate::Cause;
use crate::config::{DETECT_NS, MS, SECOND};
use crate::member::{Link, Peer};
use crate::node::Node;

/// When one peer is lost, so is everybody who was silent for nearly as long: one split instead of two.
const TOGETHER_NS: u64 = 250 * MS;
/// A peer that knows the counts is counted within so long of being linked, or lost: longer than either
/// side may keep the other waiting because it comes and goes too often.
const COUNT_NS: u64 = QUIET_NS + 2 * SECOND;
/// A peer that takes a snapshot has so long.
const JOIN_NS: u64 = 30 * SECOND;
/// A link that is lost within so long of its beginning is a flap. A link that was counted, and used,
/// before it was lost is none, however often that happens.
const FLAP_NS: u64 = SECOND;
/// So many flaps...
const FLAPS_MAX: usize = 3;
/// ...in so long keep a peer uncounted...
const FLAPS_WITHIN_NS: u64 = 30 * SECOND;
/// ...until its link has lasted so long.
const QUIET_NS: u64 = 10 * SECOND;

/// Time before which a peer that is linked now is not counted; 0: it may be at once.
pub(crate) fn quiet_until_ns(peer: &Peer, now_ns: u64) -> u64 {
    let recent = |at: &&u64| now_ns.saturating_sub(**at) <= FLAPS_WITHIN_NS;
    let is_flapping = peer.flaps_ns.iter().filter(recent).count() >= FLAPS_MAX;
    if is_flapping { now_ns.saturating_add(QUIET_NS) } else { 0 }
}

/// Remembers that the link of a peer is lost.
pub(crate) fn note_loss(peer: &mut Peer, since_ns: u64, now_ns: u64) {
    if now_ns.saturating_sub(since_ns) < FLAP_NS {
        peer.flaps_ns.push(now_ns);
        if peer.flaps_ns.len() > FLAPS_MAX {
            peer.flaps_ns.remove(0);
        }
    }
}

impl Node {
    /// Loses whoever is gone.
    pub(crate) fn detect(&mut self, now_ns: u64) {
        let mut gone = Members::EMPTY;
        let mut cause = Cause::Silent;
        for (index, link) in self.table.links() {
            if let Some((_, why)) = self.fate(link).filter(|(at_ns, _)| now_ns > *at_ns) {
                if gone.is_empty() {
                    cause = why;
                }
                gone = gone.with(index);
            }
        }
        if gone.is_empty() {
            return;
        }
        let nearly_ns = DETECT_NS - TOGETHER_NS;
        let nearly =
            self.table.links().filter(|(_, link)| now_ns.saturating_sub(link.heard_ns) > nearly_ns);
        gone = nearly.map(|(index, _)| index).fold(gone, Members::with);
        self.lose(now_ns, gone, cause);
    }

    /// The time after which the peer of `link` is gone if nothing changes, and why.
    fn fate(&self, link: &Link) -> Option<(u64, Cause)> {
        let silent = (link.heard_ns + DETECT_NS, Cause::Silent);
        let (_, oldest_ns) = self.log.unacknowledged(link.acked);
        let unacknowledged = oldest_ns
            .map(|sent_ns| (sent_ns.max(link.since_ns) + DETECT_NS, Cause::Unacknowledged));
        let uncounted = if self.is_synced() {
            let patience_ns = match link.synced_ns {
                Some(synced_ns) => synced_ns.max(link.quiet_until_ns) + COUNT_NS,
                None => link.since_ns + JOIN_NS,
            };
            (!link.counted).then_some(patience_ns.max(self.synced_ns + COUNT_NS))
        } else {
            // A joiner counts nobody, but waits for the heals of all.
            let is_awaited = link.synced_ns.is_some() && !link.heal_in;
            is_awaited.then_some(link.since_ns + COUNT_NS)
        };
        let uncounted = uncounted.map(|at_ns| (at_ns, Cause::Uncounted));
        [Some(silent), unacknowledged, uncounted].into_iter().flatten().min_by_key(|fate| fate.0)
    }

    pub(crate) fn detection_due_ns(&self) -> Option<u64> {
        let fates = self.table.links().filter_map(|(_, link)| self.fate(link));
        fates.map(|(at_ns, _)| at_ns + 1).min()
    }
}
