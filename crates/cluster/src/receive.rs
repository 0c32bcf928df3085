//! Batches of peers, and the acknowledgements in both directions.

use limiter::{Bucket, Delta};
use wire::peer::BatchFrame;

use crate::batch::Source;
use crate::join::Kept;
use crate::node::Node;
use crate::operation::Batch;
use crate::output::Effect;

impl Node {
    /// Charges what a peer let through, publishes what it must hear first, and acknowledges.
    pub(crate) fn handle_batch(&mut self, now_ns: u64, index: u8, batch: BatchFrame<'_>) {
        let Some(peer) = self.table.peers.get_mut(&index) else { return };
        let Some(link) = &mut peer.link else { return };
        link.ack_due = true;
        let Some(credited) = link.parts.take_credited(batch.seq) else {
            return self.refuse_torn(now_ns, index);
        };
        self.counts.batches_received += 1;
        self.counts.sections_skipped += u64::from(batch.skipped);
        if batch.seq < peer.next {
            self.counts.duplicates += 1;
            return;
        }
        peer.next = batch.seq.saturating_add(1);
        let slots = &link.greeting.slots;
        let told = batch.deltas(now_ns);
        let told_len = told.len();
        let deltas = told.filter_map(|delta| slots.delta(delta));
        // What an operator gives back fills the bucket at the most, however much it is.
        let is_given = |delta: &Delta| {
            delta.spent < 0 && credited.iter().any(|credited| credited.has(delta.bucket))
        };
        let bounded = |delta| if is_given(&delta) { delta } else { self.limiter.bounded(delta) };
        let mut deltas: Vec<_> = deltas.map(bounded).collect();
        self.counts.deltas_received += told_len as u64;
        self.counts.unknown_limits += (told_len - deltas.len()) as u64;
        let life = peer.life;
        if let Some(join) = &mut self.join {
            if !join.keep(Kept { index, life, seq: batch.seq, deltas, credited }) {
                self.counts.join_overflows += 1;
                self.join_anew(now_ns);
            }
            return;
        }
        self.drop_covered(index, batch.seq, &mut deltas);
        let batch = Batch { index, life, seq: batch.seq, credited: &credited };
        let publish = self.apply(now_ns, batch, deltas);
        // Acknowledging a claim while own spends of the bucket are unknown would let two nodes use
        // the same share. The acknowledgement follows this batch on the same stream.
        self.bound_log(now_ns);
        let mut forced = Vec::new();
        self.limiter.collect_forced(now_ns, self.unlinked(), &publish, &mut forced);
        if self.publish(now_ns, forced) {
            self.counts.forced += 1;
        }
    }

    /// Charges `deltas` of a peer's `batch`, and gives what must be published before they are acknowledged.
    pub(crate) fn apply(
        &mut self,
        now_ns: u64,
        batch: Batch<'_>,
        mut deltas: Vec<Delta>,
    ) -> Vec<Bucket> {
        let mut publish = Vec::new();
        self.receive(now_ns, batch, &mut deltas, &mut publish);
        let Batch { index, life, seq, .. } = batch;
        let of = Source { index, life, seq };
        self.received.push(now_ns, of, &deltas, !self.table.is_whole());
        publish
    }

    pub(crate) fn handle_ack(&mut self, now_ns: u64, index: u8, next: u64) {
        // A peer cannot have what was not sent.
        let next = next.min(self.next_seq);
        let sent_ns = self.log.sent_ns(next);
        let Some(link) = self.table.link_mut(index).filter(|link| next > link.acked) else {
            return;
        };
        link.acked = next;
        if let Some(sent_ns) = sent_ns.filter(|sent_ns| *sent_ns >= link.since_ns) {
            let sample_ns = now_ns.saturating_sub(sent_ns);
            // The usual eighth of each new sample.
            let smoothed = |old_ns: u64| old_ns - old_ns / 8 + sample_ns / 8;
            link.rtt_ns = Some(link.rtt_ns.map_or(sample_ns, smoothed));
        }
        self.settle(now_ns);
    }

    /// Closes the batches that every reachable peer has acknowledged, and drops from the log what
    /// every linked peer has. Alone, that is all of them.
    pub(crate) fn settle(&mut self, now_ns: u64) {
        let counted = self.table.links().filter(|(_, link)| link.counted);
        let reachable_acked = counted.map(|(_, link)| link.acked).min().unwrap_or(u64::MAX);
        let linked_acked = self.table.links().map(|(_, link)| link.acked).min();
        let mut woken = Vec::new();
        let limiter = &self.limiter;
        self.log.close(reachable_acked, |deltas| limiter.acknowledged(now_ns, deltas, &mut woken));
        self.log.drop_below(linked_acked.unwrap_or(u64::MAX));
        self.effects.extend(woken.into_iter().map(Effect::Woken));
    }
}
