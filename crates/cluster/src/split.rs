//! Losing peers: what they may not know leaves the common level, in one step for all of them.

use limiter::{Loss, Members};

use crate::batch::Unknown;
use crate::config::DETECT_NS;
use crate::detect;
use crate::node::Node;
use crate::output::Effect;
use crate::{Cause, Note};

impl Node {
    /// Loses those of `peers` that are linked. Their connections are closed, and nothing that is
    /// still to arrive on them counts.
    pub(crate) fn lose(&mut self, now_ns: u64, peers: Members, cause: Cause) {
        let was_whole = self.table.is_whole();
        let reached = self.table.counted();
        let (mut lost, mut aware) = (Vec::new(), Vec::new());
        let (mut heard_ns, mut since_ns) = (u64::MAX, u64::MAX);
        for index in peers.iter() {
            let Some(peer) = self.table.peers.get_mut(&index) else { continue };
            let Some(link) = peer.link.take() else { continue };
            detect::note_loss(peer, link.since_ns, now_ns);
            peer.missing_since_ns = now_ns;
            // A peer that was heard to the end and closed had lost this node first: it may for so
            // long have missed others of this side too, whose batches this node received. What it
            // does know of them is folded for nothing, which costs a little refill.
            let unheard_ns = if cause == Cause::Closed { DETECT_NS } else { 0 };
            heard_ns = heard_ns.min(link.heard_ns);
            since_ns = since_ns.min(link.heard_ns.saturating_sub(unheard_ns));
            lost.push((index, link.acked));
            // Before that it is owed what it missed, whatever it has acknowledged since.
            if link.heal_out {
                aware.push((index, link.acked));
            }
            if self.links.remove(&link.id).is_some() && cause != Cause::Closed {
                self.effects.push_back(Effect::Close { link: link.id, refusal: None });
            }
        }
        if lost.is_empty() {
            return;
        }
        let gone: Members = lost.iter().map(|(index, _)| *index).collect();
        self.serving.retain(|serving| !gone.contains(serving.index));
        let view = self.table.view();
        let linked = self.table.links().filter(|(_, link)| link.heal_out);
        aware.extend(linked.map(|(index, link)| (index, link.acked)));
        let times = (heard_ns, since_ns);
        let (log, received, credits) = (&mut self.log, &mut self.received, &self.credits);
        let table = &self.table;
        let was_given = |bucket, of| credits.was_given(bucket, of, table.is_over(of));
        let unknown = Unknown::of(log, received, &lost, &aware, times, was_given);
        let owed = unknown.tail.iter().fold(Members::EMPTY, |all, tail| all.union(tail.peers));
        self.mark_owed(owed.minus(self.table.linked()));
        self.limiter.lose(
            now_ns,
            &Loss {
                view: &view,
                tail: &unknown.tail,
                fold: &unknown.fold,
                doubtful: &unknown.doubtful,
                unknown: if was_whole { &[] } else { &unknown.all },
            },
        );
        if gone.iter().any(|index| reached.contains(index)) {
            self.changed_ns = now_ns;
            self.counts.splits += 1;
        }
        self.counts.peers_lost += lost.len() as u64;
        self.note(Note::Lost {
            peers: self.table.names_of(gone),
            cause,
            reached: self.table.reached(),
            members: self.table.size(),
        });
        if let Some(join) = &mut self.join {
            join.lost(now_ns, gone);
        }
        self.settle(now_ns);
    }

    /// Something may be owed to `peers` from now on.
    pub(crate) fn mark_owed(&mut self, peers: Members) {
        for (_, peer) in self.table.peers.iter_mut().filter(|(i, _)| peers.contains(**i)) {
            peer.owed = true;
        }
    }
}
