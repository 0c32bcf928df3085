//! A peer is linked again: each side tells the other what it missed, and both count each other from
//! then on, together with everybody else who comes back.

use limiter::Members;
use wire::peer::{HEAL_SUMS_MAX, HealFrame, write_heal, write_heal_ack};

use crate::Note;
use crate::batch::settle_charges;
use crate::config::{MS, SECOND};
use crate::node::Node;
use crate::output::Channel;
use crate::parts::split_sums;

/// Peers that come back are counted together: those that are ready wait so long for the others.
const TOGETHER_NS: u64 = 300 * MS;
/// A node that starts waits so long for a peer to be counted before it is ready.
const AWAITED_NS: u64 = 2 * SECOND;

impl Node {
    /// Tells the peer at `index`, which was just linked, what is owed to it; nothing, as often as not.
    pub(crate) fn send_heal(&mut self, now_ns: u64, index: u8) {
        let Some(id) = self.table.link(index).map(|link| link.id) else { return };
        let mut sums = Vec::new();
        self.limiter.heal_sums(now_ns, index, self.next_seq, HEAL_SUMS_MAX, &mut sums);
        // Those of levels come first, and no heal has sums of both kinds: as they were tagged.
        let (levels, timed) = split_sums(&sums);
        let heals = levels.chunks(HEAL_SUMS_MAX).map(|heal| (heal, &[][..]));
        let heals = heals.chain(timed.chunks(HEAL_SUMS_MAX).map(|heal| (&[][..], heal)));
        // One without sums says that nothing is owed.
        let nothing = sums.is_empty().then_some((&[][..], &[][..]));
        let mut heals = heals.chain(nothing).peekable();
        while let Some((levels, timed)) = heals.next() {
            let terms = self.terms_of(now_ns, levels.iter().map(|sum| sum.bucket));
            self.send_terms(id, Channel::Ordered, &terms);
            self.send_credits_owed(
                index,
                self.next_seq,
                if levels.is_empty() { timed } else { levels },
            );
            self.send_timed_sums(now_ns, id, self.next_seq, timed);
            let mut bytes = Vec::new();
            let numbers = (self.next_seq, self.upto);
            write_heal(&mut bytes, numbers, heals.peek().is_none(), levels);
            self.next_seq += 1;
            self.counts.heals_sent += 1;
            self.send(id, Channel::Ordered, bytes.into());
        }
        self.counts.sums_sent += sums.len() as u64;
        let last_seq = self.next_seq - 1;
        if let Some(link) = self.table.link_mut(index) {
            link.heal_seq = Some(last_seq);
            link.acked = self.next_seq;
        }
    }

    pub(crate) fn handle_heal(&mut self, now_ns: u64, index: u8, heal: HealFrame<'_>) {
        let is_synced = self.is_synced();
        let Some(peer) = self.table.peers.get_mut(&index) else { return };
        let Some(link) = &mut peer.link else { return };
        let parts = (link.parts.take_sums(heal.seq), link.parts.take_credited(heal.seq));
        let (Ok(timed), Some(credited)) = parts else {
            return self.refuse_torn(now_ns, index);
        };
        let is_owed =
            link.greeting.expects_more || link.greeting.members.contains(&self.config.node);
        if is_synced && !is_owed && !link.heal_in && heal.upto > peer.next {
            // The peer did not have this node for a member when it sent the batches in between, so it
            // does not owe them; a snapshot taken from another peer did not wait for them either.
            return self.rejoin(now_ns, index);
        }
        if heal.seq >= peer.next {
            peer.next = heal.seq.saturating_add(1);
            // A joiner is owed nothing: its snapshot contains it.
            if is_synced {
                let slots = &link.greeting.slots;
                let told_len = heal.sums().len() + timed.len();
                let told = heal.sums().chain(timed);
                let sums: Vec<_> = told.filter_map(|sum| slots.sum(sum)).collect();
                self.counts.unknown_limits += (told_len - sums.len()) as u64;
                self.counts.sums_received += sums.len() as u64;
                let life = peer.life;
                self.charge_sums(now_ns, (index, life), &credited, &sums);
            }
        }
        let Some(link) = self.table.link_mut(index) else { return };
        if heal.last {
            link.upto = heal.upto;
            link.heal_in = true;
            link.synced_ns.get_or_insert(now_ns);
        }
        self.counts.heals_received += 1;
        if heal.last && now_ns < link.quiet_until_ns {
            // Were this node counted there and the peer not here, their parts would overlap.
            link.confirm_later = Some(heal.seq);
        } else {
            self.send_to(index, |out| write_heal_ack(out, heal.seq));
        }
        self.count_ready(now_ns);
    }

    /// Confirms the heals of peers whose quiet is over.
    fn confirm_quiet(&mut self, now_ns: u64) {
        for index in self.table.linked().iter() {
            let link = self.table.link_mut(index).filter(|link| now_ns >= link.quiet_until_ns);
            if let Some(seq) = link.and_then(|link| link.confirm_later.take()) {
                self.send_to(index, |out| write_heal_ack(out, seq));
            }
        }
    }

    pub(crate) fn handle_heal_ack(&mut self, now_ns: u64, index: u8, seq: u64) {
        let Some(peer) = self.table.peers.get_mut(&index) else { return };
        let Some(link) = &mut peer.link else { return };
        if link.heal_seq == Some(seq) && !link.heal_out {
            link.heal_out = true;
            peer.owed = false;
            self.limiter.owed_cleared(index);
            self.count_ready(now_ns);
        }
    }

    /// Peers that are healed and not counted.
    fn countable(&self, now_ns: u64) -> Members {
        let links = self.table.links().filter(|(_, link)| {
            let is_healed = link.heal_in && link.heal_out;
            is_healed && !link.counted && now_ns >= link.quiet_until_ns
        });
        links.map(|(index, _)| index).collect()
    }

    /// Counts the peers that came back: when nobody else is awaited, or a while after the first of
    /// them was ready. Counted one by one, the charges of those to come would be missing.
    pub(crate) fn count_ready(&mut self, now_ns: u64) {
        self.confirm_quiet(now_ns);
        if !self.is_synced() {
            // Who joins anew meanwhile begins to wait anew.
            self.countable_ns = None;
            return;
        }
        let ready = self.countable(now_ns);
        if ready.is_empty() {
            self.countable_ns = None;
            self.settle_readiness(now_ns);
            return;
        }
        let since_ns = *self.countable_ns.get_or_insert(now_ns);
        let known = self.table.counted().union(ready);
        let is_all = known.len() + 1 == self.table.size();
        if !is_all && now_ns.saturating_sub(since_ns) < TOGETHER_NS {
            return;
        }
        self.countable_ns = None;
        for index in ready.iter() {
            let Some(peer) = self.table.peers.get_mut(&index) else { continue };
            peer.counted_life = peer.life;
            if let Some(link) = &mut peer.link {
                link.counted = true;
            }
        }
        self.changed_ns = now_ns;
        self.counts.heals += 1;
        self.limiter.count(now_ns, &self.table.view());
        if self.table.is_whole() {
            self.began_alone = false;
            settle_charges(&mut self.log, &mut self.received);
        }
        self.note(Note::Counted {
            peers: self.table.names_of(ready),
            reached: self.table.reached(),
            members: self.table.size(),
        });
        self.settle(now_ns);
        self.settle_readiness(now_ns);
    }

    /// A node that knows the counts is ready once everybody who knows them too is counted, or takes
    /// too long.
    fn settle_readiness(&mut self, now_ns: u64) {
        let is_awaited = self.table.links().any(|(_, link)| {
            let is_late = now_ns.saturating_sub(link.since_ns) > AWAITED_NS;
            link.synced_ns.is_some() && !link.counted && !is_late
        });
        if !self.is_ready && !is_awaited {
            self.become_ready();
        }
    }

    pub(crate) fn counting_due_ns(&self, now_ns: u64) -> Option<u64> {
        let together = self.countable_ns.map(|since_ns| since_ns + TOGETHER_NS);
        let quiet = self.table.links().map(|(_, link)| link.quiet_until_ns);
        let late = self.table.links().map(|(_, link)| link.since_ns + AWAITED_NS + 1);
        let late = late.filter(|_| !self.is_ready);
        let later = quiet.chain(late).filter(|at_ns| *at_ns > now_ns).min();
        together.into_iter().chain(later).min()
    }
}
