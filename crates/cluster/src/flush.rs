//! When a node tells its peers what it has let through: every interval, sooner where a bucket needs
//! it, and at once before it acknowledges a claim.

use std::sync::Arc;

use limiter::{Delta, Members, StorePart};
use wire::peer::BatchWriter;

use crate::Cause;
use crate::config::{MS, SECOND};
use crate::node::Node;
use crate::output::Channel;

/// An early flush waits so long for other buckets that want one.
const COALESCE_NS: u64 = MS / 2;
/// Two early flushes are so far apart at least.
const APART_NS: u64 = MS;
/// Flushes that may follow each other before the budget says no.
const BURST: u64 = 4;
/// The budget is one flush in so long, or half a millisecond for each member if that is longer: what
/// all members send each other grows with their square.
const GAP_NS: u64 = 10 * MS;
const GAP_PER_MEMBER_NS: u64 = MS / 2;
/// Deltas after which a part of a tick is sent: some tens of microseconds of collecting, and 25 kB.
const TICK_DELTAS: usize = 1_024;
/// The reachable set is calm when it has not changed for so long.
pub(crate) const CALM_NS: u64 = 2 * SECOND;

/// When the next flush is due.
#[derive(Debug)]
pub(crate) struct Pace {
    interval_ns: u64,
    next_tick_ns: u64,
    /// An early flush is planned for this time.
    early_ns: Option<u64>,
    last_early_ns: Option<u64>,
    /// Time at which the budget is full again.
    budget_ns: u64,
}

impl Pace {
    /// The first tick comes at a random part of the interval, so that nodes that start together do
    /// not all speak at once.
    pub(crate) fn new(interval_ns: u64, seed: u64, now_ns: u64) -> Self {
        let interval_ns = interval_ns.max(1);
        let next_tick_ns = now_ns.saturating_add(scrambled(seed) % interval_ns);
        Self { interval_ns, next_tick_ns, early_ns: None, last_early_ns: None, budget_ns: 0 }
    }

    pub(crate) fn next_tick_ns(&self) -> u64 {
        self.next_tick_ns
    }

    /// Whether the tick is due; the next one is planned. Ticks that were slept through are skipped.
    fn take_tick(&mut self, now_ns: u64) -> bool {
        let Some(late_ns) = now_ns.checked_sub(self.next_tick_ns) else { return false };
        let ticks = late_ns / self.interval_ns + 1;
        self.next_tick_ns =
            self.next_tick_ns.saturating_add(ticks.saturating_mul(self.interval_ns));
        true
    }

    /// Plans an early flush, if none is planned.
    fn want_early(&mut self, now_ns: u64, gap_ns: u64) {
        let apart_ns = self.last_early_ns.map_or(0, |last_ns| last_ns + APART_NS);
        let at_ns = (now_ns + COALESCE_NS).max(apart_ns).max(self.free_ns(gap_ns));
        self.early_ns.get_or_insert(at_ns);
    }

    /// Whether an early flush is due and within the budget.
    fn take_early(&mut self, now_ns: u64, gap_ns: u64) -> bool {
        if self.early_ns.is_none_or(|at_ns| now_ns < at_ns) {
            return false;
        }
        let free_ns = self.free_ns(gap_ns);
        self.early_ns = (free_ns > now_ns).then_some(free_ns);
        self.early_ns.is_none()
    }

    /// Time from which on the budget allows a flush.
    fn free_ns(&self, gap_ns: u64) -> u64 {
        self.budget_ns.saturating_sub((BURST - 1) * gap_ns)
    }

    /// A flush was sent.
    fn charge(&mut self, now_ns: u64, gap_ns: u64) {
        self.budget_ns = self.budget_ns.max(now_ns) + gap_ns;
    }
}

impl Node {
    fn gap_ns(&self) -> u64 {
        GAP_NS.max(GAP_PER_MEMBER_NS * self.table.size() as u64)
    }

    /// Sends the tick's batch and the early one, where they are due. A node that does not know the
    /// counts keeps what it spent until it does.
    pub(crate) fn flush_due(&mut self, now_ns: u64) {
        let gap_ns = self.gap_ns();
        let is_tick = self.pace.take_tick(now_ns);
        if is_tick {
            self.received.drop_old(now_ns);
            self.limiter.set_exchange(self.pace.next_tick_ns);
        }
        if !self.is_synced() {
            return;
        }
        self.bound_log(now_ns);
        if is_tick {
            // A tick that is not done when the next comes is part of that.
            self.tick_from.get_or_insert(StorePart::START);
        }
        if self.step_tick(now_ns) {
            self.pace.charge(now_ns, gap_ns);
        }
        if self.limiter.has_early() {
            self.pace.want_early(now_ns, gap_ns);
        }
        if self.pace.take_early(now_ns, gap_ns) {
            let mut deltas = Vec::new();
            self.limiter.collect_early(now_ns, self.unlinked(), &mut deltas);
            if self.publish(now_ns, deltas) {
                self.pace.last_early_ns = Some(now_ns);
                self.pace.charge(now_ns, gap_ns);
            }
            // What could not go now, or was asked for while this was sent.
            if self.limiter.has_early() {
                self.pace.want_early(now_ns, gap_ns);
            }
        }
    }

    /// Tells a part of what a tick has to tell: peers take it in while the next part is collected, and
    /// nothing else waits for the whole. Whether the tick has begun to tell something.
    fn step_tick(&mut self, now_ns: u64) -> bool {
        let Some(from) = self.tick_from else { return false };
        let (unlinked, is_calm) = (self.unlinked(), self.is_calm(now_ns));
        let mut deltas = Vec::new();
        let part = (from, TICK_DELTAS);
        self.tick_from = self.limiter.collect_due(now_ns, unlinked, is_calm, part, &mut deltas);
        self.publish(now_ns, deltas) && from == StorePart::START
    }

    /// Tells everything that there is to tell. Whether that was anything.
    pub(crate) fn flush_all(&mut self, now_ns: u64) -> bool {
        let (unlinked, is_calm) = (self.unlinked(), self.is_calm(now_ns));
        let mut deltas = Vec::new();
        let all = (StorePart::START, usize::MAX);
        self.limiter.collect_due(now_ns, unlinked, is_calm, all, &mut deltas);
        self.tick_from = None;
        self.publish(now_ns, deltas)
    }

    pub(crate) fn flush_due_ns(&self) -> u64 {
        if self.tick_from.is_some() && self.is_synced() {
            return 0;
        }
        let early_ns = self.pace.early_ns.filter(|_| self.is_synced());
        early_ns.map_or(self.pace.next_tick_ns, |at_ns| at_ns.min(self.pace.next_tick_ns))
    }

    /// Sends `deltas` to every linked peer, in as many batches as they need, and keeps them until
    /// all have acknowledged them. Whether there were any.
    pub(crate) fn publish(&mut self, now_ns: u64, mut deltas: Vec<Delta>) -> bool {
        if deltas.is_empty() {
            return false;
        }
        let unlinked = self.unlinked();
        if !unlinked.is_empty() && deltas.iter().any(|delta| delta.spent != 0) {
            self.mark_owed(unlinked);
        }
        let links: Vec<_> = self.table.links().map(|(_, link)| link.id).collect();
        let is_charged = !self.table.is_whole();
        let buckets: Vec<_> = deltas.iter().map(|delta| delta.bucket).collect();
        while !deltas.is_empty() {
            let seq = self.next_seq;
            let mut bytes = Vec::new();
            let mut writer = BatchWriter::new(&mut bytes, seq, now_ns);
            let written = writer.spends(&deltas).max(1);
            writer.finish();
            let rest = deltas.split_off(written.min(deltas.len()));
            let frame: Arc<[u8]> = bytes.into();
            let terms = self.terms_of(now_ns, deltas.iter().map(|delta| delta.bucket));
            for link in &links {
                self.send_terms(*link, Channel::Ordered, &terms);
            }
            self.send_credits_of(seq, &deltas);
            for link in &links {
                self.send(*link, Channel::Ordered, Arc::clone(&frame));
            }
            self.next_seq += 1;
            self.upto = self.next_seq;
            self.counts.batches_sent += 1;
            self.counts.deltas_sent += deltas.len() as u64;
            self.log.push(seq, deltas, now_ns, is_charged);
            deltas = rest;
        }
        // What one flush tells of a bucket may go in two batches.
        self.credits.told(buckets.into_iter());
        self.settle(now_ns);
        true
    }

    /// Loses the slowest peer while the log of batches is above its bound. Comes before a flush: what
    /// is flushed is owed to whoever is lost by then, and the newest batches are nobody's fault.
    pub(crate) fn bound_log(&mut self, now_ns: u64) {
        while self.log.is_full() {
            let slowest = self.table.links().min_by_key(|(_, link)| link.acked);
            let Some((index, _)) = slowest else { return };
            self.counts.log_overflows += 1;
            self.lose(now_ns, Members::only(index), Cause::Slow);
        }
    }
}

/// Spreads a seed over all 64 bits (the finalizer of SplitMix64).
fn scrambled(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_come_once_an_interval_from_a_random_phase_on() {
        let mut pace = Pace::new(200 * MS, 1, SECOND);
        let first_ns = pace.next_tick_ns();
        assert!((SECOND..SECOND + 200 * MS).contains(&first_ns));
        assert_ne!(first_ns, Pace::new(200 * MS, 2, SECOND).next_tick_ns());
        assert!(!pace.take_tick(first_ns - 1));
        assert!(pace.take_tick(first_ns));
        assert!(!pace.take_tick(first_ns));
        // Two are slept through; the phase stays.
        assert!(pace.take_tick(first_ns + 650 * MS));
        assert_eq!(pace.next_tick_ns(), first_ns + 800 * MS);
    }

    #[test]
    fn early_flushes_coalesce_and_keep_within_the_budget() {
        let mut pace = Pace::new(SECOND, 1, 0);
        let gap_ns = 10 * MS;
        let mut sent = Vec::new();
        for step in 0..1_000 {
            let now_ns = SECOND + step * MS / 10;
            pace.want_early(now_ns, gap_ns);
            if pace.take_early(now_ns, gap_ns) {
                pace.last_early_ns = Some(now_ns);
                pace.charge(now_ns, gap_ns);
                sent.push((now_ns - SECOND) / (MS / 10));
            }
        }
        assert_eq!(sent[..5], [5, 15, 25, 35, 105], "tenths of a millisecond");
        assert!(sent[5..].windows(2).all(|pair| pair[1] - pair[0] == 100));
    }
}
