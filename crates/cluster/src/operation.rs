//! What operators do to keys, here and on peers.
//!
//! A reset or a grant is told as this node's spends are, as a number below nothing, in the same batches and owed
//! like them. A frame ahead of the batch says which buckets it was, and what of every member was known then.

use std::sync::Arc;

use limiter::{Bucket, Delta, Operated, Operation, OperationError, Sum};
use wire::peer::{CREDITS_MAX, CreditsFrame, CreditsOf, Position, write_credits};

use crate::batch::unknown_units;
use crate::credit::{Buckets, Known};
use crate::node::Node;
use crate::output::Channel;

/// Which buckets of a batch, heal or chunk operators gave something back of, as a peer said ahead of it.
#[derive(Debug)]
pub(crate) struct Credited {
    of: CreditsOf,
    pub(crate) positions: Vec<Position>,
    /// In this node's terms, sorted.
    pub(crate) credits: Vec<(Bucket, u64)>,
}

impl Credited {
    pub(crate) fn has(&self, bucket: Bucket) -> bool {
        self.credits.binary_search_by_key(&bucket, |(bucket, _)| *bucket).is_ok()
    }
}

/// A batch of a peer, as far as it has to be known to apply its deltas.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch<'d> {
    pub(crate) index: u8,
    pub(crate) life: u64,
    pub(crate) seq: u64,
    pub(crate) credited: &'d [Credited],
}

impl Node {
    /// Carries out an operation here, and tells the peers.
    pub(crate) fn operate(
        &mut self,
        now_ns: u64,
        operation: &Operation<'_>,
    ) -> Result<Operated, OperationError> {
        let gives = matches!(operation, Operation::Reset { .. } | Operation::Grant { .. });
        if gives && !self.is_synced() {
            return Err(OperationError::Starting);
        }
        let mut buckets = Vec::new();
        let operated = self.limiter.operate_noting(now_ns, operation, &mut buckets)?;
        if !buckets.is_empty() {
            let mut positions = self.table.positions();
            // The batch that follows is the first that has it.
            let (name, life) = (self.config.node.clone(), self.life);
            positions.push(Position { name, life, next: self.next_seq + 1 });
            let known = self.table.named(&positions, life);
            self.credits.note_given(now_ns, &buckets, positions, known);
            // A batch of the bucket may be open for long: this does not wait for it.
            let mut forced = Vec::new();
            self.limiter.collect_forced(now_ns, self.unlinked(), &buckets, &mut forced);
            self.bound_log(now_ns);
            self.publish(now_ns, forced);
        }
        Ok(operated)
    }

    /// A peer says which buckets of the frame that follows operators gave something back of.
    pub(crate) fn handle_credits(&mut self, now_ns: u64, index: u8, frame: CreditsFrame<'_>) {
        let Some(link) = self.table.link_mut(index) else { return };
        let slots = &link.greeting.slots;
        let told = frame.credits();
        let told = told.filter_map(|(bucket, units)| Some((slots.bucket(bucket)?, units)));
        let mut credits: Vec<_> = told.collect();
        credits.sort_unstable();
        let CreditsFrame { of, positions, .. } = frame;
        if !link.parts.add_credited(Credited { of, positions, credits }) {
            self.refuse_torn(now_ns, index);
        }
    }

    /// Sends every linked peer which buckets of `deltas`, which the batch `seq` carries, operators gave something
    /// back of.
    pub(crate) fn send_credits_of(&mut self, seq: u64, deltas: &[Delta]) {
        let buckets = deltas.iter().map(|delta| delta.bucket);
        let groups = self.credits.to_tell(buckets, false);
        let links: Vec<_> = self.table.links().map(|(_, link)| link.id).collect();
        for (positions, credits) in groups {
            for frame in frames(CreditsOf::Spends(seq), &positions, &credits) {
                for link in &links {
                    self.send(*link, Channel::Ordered, Arc::clone(&frame));
                }
            }
        }
    }

    /// Sends the peer at `index` the same of the heal `seq`.
    pub(crate) fn send_credits_owed(&mut self, index: u8, seq: u64, sums: &[Sum]) {
        let Some(id) = self.table.link(index).map(|link| link.id) else { return };
        let given = sums.iter().filter(|sum| sum.ticks < 0).map(|sum| sum.bucket);
        for (positions, credits) in self.credits.to_tell(given, true) {
            for frame in frames(CreditsOf::Spends(seq), &positions, &credits) {
                self.send(id, Channel::Ordered, frame);
            }
        }
    }

    /// Sends the peer at `index` the credits of a chunk, which follows: of the rotated hashes from `first` to
    /// `last`.
    pub(crate) fn send_credits_waiting(&mut self, index: u8, (first, last): (u64, u64)) {
        let Some(id) = self.table.link(index).map(|link| link.id) else { return };
        let mut groups: Vec<(Vec<Known>, Buckets)> = Vec::new();
        for (bucket, units, late) in self.credits.waiting() {
            if !(first..=last).contains(&bucket.hash.rotate_left(32)) {
                continue;
            }
            match groups.iter_mut().find(|(it, _)| it == late) {
                Some((_, list)) => list.push((bucket, units)),
                None => groups.push((late.to_vec(), vec![(bucket, units)])),
            }
        }
        for (late, credits) in groups {
            let positions = self.table.positions_of(&late);
            for frame in frames(CreditsOf::Chunk(first), &positions, &credits) {
                self.send(id, Channel::Bulk, frame);
            }
        }
    }

    /// Gives `deltas` of a peer to the limiter, and leaves in them what took effect in the counts. Appends to
    /// `publish` what must be published before they are acknowledged.
    pub(crate) fn receive(
        &mut self,
        now_ns: u64,
        batch: Batch<'_>,
        deltas: &mut [Delta],
        publish: &mut Vec<Bucket>,
    ) {
        let is_calm = self.is_calm(now_ns);
        if batch.credited.is_empty() && self.credits.is_empty() {
            return self.limiter.receive(now_ns, deltas, is_calm, publish);
        }
        for delta in deltas {
            let bucket = delta.bucket;
            let credited = batch.credited.iter().find(|credited| credited.has(bucket));
            if let Some(credited) = credited.filter(|_| delta.spent < 0) {
                let (known, late, new) = self.known_of(bucket, credited);
                let unfilled = self.limiter.receive_given(now_ns, delta, new, is_calm, publish);
                self.credits.add(now_ns, bucket, unfilled, &known, &late);
                // Whoever is lost may know of it: it is nothing that is moved for them.
                delta.spent = 0;
                continue;
            }
            let spender = (batch.index, batch.life);
            if delta.spent > 0
                && let Some(credit) = self.credits.credit_for(bucket, spender, Some(batch.seq))
            {
                let absorbed = (*credit).min(delta.spent.unsigned_abs());
                *credit -= absorbed;
                delta.spent = delta.spent.saturating_sub_unsigned(absorbed);
            }
            if !self.credits.compares(now_ns, bucket) {
                delta.level = None;
            }
            self.limiter.receive(now_ns, std::slice::from_ref(delta), is_calm, publish);
        }
    }

    /// Charges what the peer at `index`, in the life `life`, owed, and what operators there gave back.
    pub(crate) fn charge_sums(
        &mut self,
        now_ns: u64,
        (index, life): (u8, u64),
        credited: &[Credited],
        sums: &[Sum],
    ) {
        if credited.is_empty() && self.credits.is_empty() {
            return self.limiter.charge_sums(now_ns, sums);
        }
        for sum in sums {
            let credited = credited.iter().find(|credited| credited.has(sum.bucket));
            if let Some(credited) = credited.filter(|_| sum.ticks < 0) {
                let (known, late, new) = self.known_of(sum.bucket, credited);
                let unfilled = self.limiter.charge_given(now_ns, sum, new);
                self.credits.add(now_ns, sum.bucket, unfilled, &known, &late);
                continue;
            }
            let sum = match self.credits.credit_for(sum.bucket, (index, life), None) {
                Some(credit) => self.limiter.absorbed(*sum, credit),
                None => *sum,
            };
            self.limiter.charge_sums(now_ns, &[sum]);
        }
    }

    /// What of `bucket` was known where an operator gave something back, what of that has not arrived here, and, if
    /// anything has not, how many units are here in batches that were not known there.
    fn known_of(
        &self,
        bucket: Bucket,
        credited: &Credited,
    ) -> (Arc<[Known]>, Vec<Known>, Option<i64>) {
        let known = self.table.named(&credited.positions, self.life);
        let late = self.table.late(&known);
        let new = (!late.is_empty()).then(|| {
            let is_over = |of| self.table.is_over(of);
            let was_known = |of| known.iter().any(|known| known.has(of, is_over(of)));
            unknown_units(&self.log, &self.received, bucket, was_known)
        });
        (known, late, new)
    }

    /// Takes over the credits of a snapshot: what they wait for and this node has not.
    pub(crate) fn take_credits(&mut self, now_ns: u64, credited: &[Credited]) {
        for credited in credited {
            // What waits in batches that are kept has not arrived either.
            let late = self.table.named(&credited.positions, self.life);
            for (bucket, units) in &credited.credits {
                self.credits.add(now_ns, *bucket, *units, &late, &late);
            }
        }
    }

    pub(crate) fn tidy_credits(&mut self, now_ns: u64) {
        let is_acknowledged = self.log.is_empty();
        self.credits.tidy(now_ns, &self.table, is_acknowledged);
    }
}

/// Frames of all of `credits`.
fn frames(of: CreditsOf, positions: &[Position], credits: &[(Bucket, u64)]) -> Vec<Arc<[u8]>> {
    let frame = |credits: &[(Bucket, u64)]| {
        let mut bytes = Vec::new();
        write_credits(&mut bytes, of, positions, credits);
        bytes.into()
    };
    credits.chunks(CREDITS_MAX).map(frame).collect()
}

impl crate::parts::Parts {
    /// Credits of the batch or heal `seq`, which came; none: they are of another frame.
    pub(crate) fn take_credited(&mut self, seq: u64) -> Option<Vec<Credited>> {
        self.take_credited_of(CreditsOf::Spends(seq))
    }

    /// The same of the chunk that begins with the hash `first`.
    pub(crate) fn take_waiting(&mut self, first: u64) -> Option<Vec<Credited>> {
        self.take_credited_of(CreditsOf::Chunk(first))
    }

    fn take_credited_of(&mut self, of: CreditsOf) -> Option<Vec<Credited>> {
        let list = match of {
            CreditsOf::Spends(_) => &mut self.credited,
            CreditsOf::Chunk(_) => &mut self.waiting,
        };
        let credited = std::mem::take(list);
        credited.iter().all(|credited| credited.of == of).then_some(credited)
    }

    /// Keeps credits for the frame that follows; false: there are too many.
    fn add_credited(&mut self, credited: Credited) -> bool {
        let list = match credited.of {
            CreditsOf::Spends(_) => &mut self.credited,
            CreditsOf::Chunk(_) => &mut self.waiting,
        };
        let kept: usize = list.iter().map(|it| it.credits.len() + 1).sum();
        let has_room = kept + credited.credits.len() < 2 * CREDITS_MAX;
        if has_room {
            list.push(credited);
        }
        has_room
    }
}
