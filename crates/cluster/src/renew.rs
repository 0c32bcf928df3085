//! What changes of the limits while nodes are linked: other limits, and the numbers of carried buckets.

use limiter::{Bucket, Terms};
use wire::peer::{LIMITS_PART_MAX, LimitsFrame, Refusal, write_limits, write_terms};

use crate::node::Node;
use crate::output::Channel;
use crate::slots::OwnLimits;
use crate::{LinkId, Note};

impl Node {
    /// Tells every linked peer the limits if others are in force than it was told. Comes before whatever
    /// else is told: what follows is by the new ones.
    pub(crate) fn renew_limits(&mut self) {
        let number = self.limiter.plan_number();
        if number == self.plan_number {
            return;
        }
        self.plan_number = number;
        self.limits = OwnLimits::of(&self.limiter.plan());
        let links: Vec<u8> = self.table.links().map(|(index, _)| index).collect();
        for index in links {
            if let Some(link) = self.table.link_mut(index) {
                link.greeting.map_slots(&self.limits);
            }
            self.send_limits(index);
        }
    }

    fn send_limits(&mut self, index: u8) {
        let limits = std::mem::take(&mut self.limits.numbers);
        let mut parts = limits.chunks(LIMITS_PART_MAX).peekable();
        let mut first: u16 = 0;
        while let Some(part) = parts.next() {
            let is_last = parts.peek().is_none();
            self.send_to(index, |out| write_limits(out, first, is_last, part));
            first = first.saturating_add(u16::try_from(part.len()).unwrap_or(u16::MAX));
        }
        if limits.is_empty() {
            self.send_to(index, |out| write_limits(out, 0, true, &[]));
        }
        self.limits.numbers = limits;
    }

    /// A part of a peer's limits came, which take the place of those in its hello when all have come.
    pub(crate) fn handle_limits(&mut self, now_ns: u64, index: u8, frame: LimitsFrame) {
        let Some(link) = self.table.link_mut(index) else { return };
        if usize::from(frame.first) != link.limits_coming.len() {
            let (id, text) = (link.id, "a part of the limits is missing".to_owned());
            return self.refuse(now_ns, id, Refusal::Malformed, text);
        }
        link.limits_coming.extend(frame.limits);
        if !frame.is_last {
            return;
        }
        let limits = std::mem::take(&mut link.limits_coming);
        let Some(link) = self.table.link_mut(index) else { return };
        link.greeting.limits = limits;
        link.greeting.map_slots(&self.limits);
        let (peer, limits) = (link.greeting.node.clone(), link.greeting.slots.drift.clone());
        if !limits.is_empty() {
            self.note(Note::Drift { peer, limits });
        }
    }

    /// The frames that tell the numbers of the carried buckets among `buckets`.
    pub(crate) fn terms_of(
        &self,
        now_ns: u64,
        buckets: impl Iterator<Item = Bucket>,
    ) -> Vec<(u64, Terms)> {
        let mut terms = self.limiter.carried_terms(now_ns, buckets);
        // The entries of a bucket stand next to each other.
        terms.dedup();
        terms
    }

    /// Sends `terms`, before what counts by them.
    pub(crate) fn send_terms(&mut self, id: LinkId, channel: Channel, terms: &[(u64, Terms)]) {
        let mut rest = terms;
        while !rest.is_empty() {
            let mut bytes = Vec::new();
            let sent = write_terms(&mut bytes, rest).max(1);
            rest = rest.get(sent..).unwrap_or_default();
            self.send(id, channel, bytes.into());
        }
    }
}
