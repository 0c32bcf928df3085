//! What goes from a shard when its time has come: entries at rest, charges paid back, memory no longer used.

use super::counts::Counts;
use super::layout::Space;
use super::numbers::OwnNumbers;
use super::shard::{Shard, buckets_of};
use crate::algorithm::{Algorithm, TokenBucket};
use crate::matching::Slot;
use crate::plan::Plan;
use crate::share::{Ledger, SharedBucket, drain};

/// Buckets that a new key may look through for an entry at rest when the shard is full.
const EVICTION_BUCKETS_MAX: usize = 64;

/// A table is shrunk when it has fewer entries than a quarter of what it has room for; below this
/// many there is nothing worth giving back.
const SHRINK_CAPACITY_MIN: usize = 64;

/// What may be dropped: of the bucket of this hash.
#[derive(Clone, Copy, Debug)]
enum AtRest {
    Level(u64),
    Count(u64),
    Numbers(u64),
}

/// What one step of the sweep did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Entries at rest that were dropped.
    pub(crate) dropped: u64,
    /// The step came to the end of the table.
    pub(crate) finished: bool,
    /// Buckets that a table grown as far as it may would have had beyond that end.
    pub(crate) absent: usize,
}

impl Shard {
    /// Drops every entry that has come to rest since the shard was last entered, however long ago
    /// that is. Ticks wrap, so that an entry left alone for longer than the horizon could look empty
    /// again; what it missed *then* is unambiguous, and the time since is exact in 128 bits.
    #[cold]
    pub(super) fn settle<'p>(
        &mut self,
        now_ns: u64,
        of_rule: &impl Fn(Slot) -> Option<&'p SharedBucket>,
    ) {
        let entered_ns = self.entered_ns;
        let mut numbers = self.numbers.take();
        let shared = |bucket| shared_of(numbers.as_deref(), bucket, of_rule);
        self.settle_charges(now_ns, &shared);
        self.table.retain(|entry| {
            shared(entry.bucket()).and_then(SharedBucket::level).is_some_and(|bucket| {
                let missing = TokenBucket::missing(entry.full_at(), bucket.tick(entered_ns));
                u128::from(missing) > bucket.elapsed(now_ns - entered_ns)
            })
        });
        if let Some(numbers) = &mut numbers {
            numbers.reckon_horizon();
        }
        self.numbers = numbers;
        self.swept_ns = now_ns;
        self.hand = 0;
    }

    /// Lets every charge be paid back by the refill that full levels could not take, up to `now_ns`.
    pub(crate) fn drain_charges(&mut self, now_ns: u64, plan: &Plan) {
        let numbers = self.numbers.take();
        let of_rule = |slot| plan.shared(slot);
        self.drain_charges_by(now_ns, &|bucket| shared_of(numbers.as_deref(), bucket, &of_rule));
        self.numbers = numbers;
    }

    fn drain_charges_by<'p>(
        &mut self,
        now_ns: u64,
        shared: &impl Fn(crate::Bucket) -> Option<&'p SharedBucket>,
    ) {
        let now = self.now(now_ns);
        for bucket in self.ledger().map_or_else(Vec::new, Ledger::charged) {
            let full_at = self.find(bucket.hash).map(|(_, entry)| entry.full_at());
            if let (Some(shared), Some(ledger)) = (shared(bucket), self.ledger_mut()) {
                drain(ledger, shared, bucket.hash, full_at, now);
            }
        }
    }

    /// Drains every charge up to `now_ns`, when that is too long after the shard was last entered to
    /// tell by ticks for how long a level was full.
    fn settle_charges<'p>(
        &mut self,
        now_ns: u64,
        shared: &impl Fn(crate::Bucket) -> Option<&'p SharedBucket>,
    ) {
        let entered_ns = self.entered_ns;
        self.drain_charges_by(entered_ns, shared);
        for bucket in self.ledger().map_or_else(Vec::new, Ledger::charged) {
            let full_at = self.find(bucket.hash).map(|(_, entry)| entry.full_at());
            let (Some(shared), Some(ledger)) = (shared(bucket), self.ledger_mut()) else {
                continue;
            };
            let Some(level) = shared.level() else { continue };
            let missing =
                full_at.map_or(0, |full_at| TokenBucket::missing(full_at, level.tick(entered_ns)));
            let (n, size) = (ledger.view.reach(), ledger.view.size());
            if let Some(mut charge) = ledger.charge(bucket.hash) {
                let passed = level.elapsed(now_ns - entered_ns);
                charge.drain(now_ns, passed.saturating_sub(u128::from(missing)), n, size);
            }
        }
        if let Some(ledger) = self.ledger_mut() {
            ledger.drop_settled_charges();
        }
    }

    /// Drains the charges and drops the motions with which nothing would be lost.
    fn sweep_ledger(&mut self, now_ns: u64, plan: &Plan) {
        self.drain_charges(now_ns, plan);
        if let Some(ledger) = self.ledger_mut() {
            ledger.drop_motions_if_due(now_ns);
        }
    }

    /// Whether `wanted` has room, after dropping what is at rest among a bounded number
    /// of buckets if they have not. Also returns how many were dropped.
    pub(crate) fn make_room(&mut self, wanted: Space, now_ns: u64, plan: &Plan) -> (bool, u64) {
        if self.has_room(wanted) {
            return (true, 0);
        }
        let step = self.sweep(EVICTION_BUCKETS_MAX, now_ns, plan);
        (self.has_room(wanted), step.dropped)
    }

    /// As [`Shard::make_room`], for `units` more of the bucket `hash`.
    pub(crate) fn make_room_for(
        &mut self,
        (hash, units): (u64, u64),
        algorithm: &Algorithm,
        now_ns: u64,
        plan: &Plan,
    ) {
        let need = self.need(hash, algorithm, units);
        self.make_room(need, now_ns, plan);
    }

    /// Whether [`Shard::make_room`] would find room for `wanted`, if one entry gives way.
    pub(crate) fn could_make_room(&self, wanted: Space, now_ns: u64, plan: &Plan) -> bool {
        let end = self.table_buckets().min(self.hand.saturating_add(EVICTION_BUCKETS_MAX));
        self.has_room(wanted) || (self.hand..end).any(|at| self.at_rest(at, now_ns, plan).is_some())
    }

    /// Buckets of all tables: first those of the levels, then those of the counts, then those of the buckets
    /// that have numbers of their own.
    pub(super) fn table_buckets(&self) -> usize {
        let numbers = self.numbers.as_deref().map_or(0, OwnNumbers::table_buckets);
        self.counts_end() + numbers
    }

    /// Where the buckets of the counts end.
    fn counts_end(&self) -> usize {
        self.table.num_buckets() + self.counts().map_or(0, Counts::table_buckets)
    }

    /// What is at `at` of all tables, if it may be dropped. A level that was full must be remembered
    /// as long as there is a charge to pay back.
    fn at_rest(&self, at: usize, now_ns: u64, plan: &Plan) -> Option<AtRest> {
        if let Some(at) = at.checked_sub(self.counts_end()) {
            let hash = self.numbers.as_deref()?.carried_at(at)?;
            return self.is_row_at_rest(hash).then_some(AtRest::Numbers(hash));
        }
        let at_rest = match at.checked_sub(self.table.num_buckets()) {
            None => {
                let entry = self.table.get_bucket(at)?;
                let shared = self.shared(plan, entry.bucket());
                entry.is_at_rest(now_ns, shared).then_some(AtRest::Level(entry.bucket().hash))?
            }
            Some(at) => {
                let shared = |bucket| self.shared(plan, bucket);
                AtRest::Count(self.counts()?.at_rest(at, now_ns, shared)?)
            }
        };
        let (AtRest::Level(hash) | AtRest::Count(hash) | AtRest::Numbers(hash)) = at_rest;
        let has_charge = self.ledger().is_some_and(|ledger| ledger.has_charge(hash));
        (!has_charge).then_some(at_rest)
    }

    /// Visits the next `buckets` buckets and drops the entries at rest; stops at the end of the table,
    /// where it also gives back memory that is no longer used.
    pub(crate) fn sweep(&mut self, buckets: usize, now_ns: u64, plan: &Plan) -> Step {
        if self.hand == 0 {
            self.pass_started_ns = now_ns;
            self.sweep_ledger(now_ns, plan);
        }
        let before = self.len();
        let end = self.table_buckets().min(self.hand.saturating_add(buckets));
        for at in self.hand..end {
            match self.at_rest(at, now_ns, plan) {
                None => {}
                Some(AtRest::Level(_)) => {
                    if let Ok(entry) = self.table.get_bucket_entry(at) {
                        entry.remove();
                    }
                }
                Some(AtRest::Count(hash)) => self.remove_count(hash),
                Some(AtRest::Numbers(hash)) => {
                    if let Some(numbers) = &mut self.numbers {
                        numbers.remove(hash);
                    }
                }
            }
        }
        self.hand = end;
        let dropped = (before - self.len()) as u64;
        let finished = end >= self.table_buckets();
        let mut absent = 0;
        if finished {
            absent = buckets_of(self.space.cells as usize).saturating_sub(end);
            self.hand = 0;
            self.swept_ns = self.pass_started_ns;
            self.shrink();
        }
        Step { dropped, finished, absent }
    }
    fn shrink(&mut self) {
        let capacity = self.table.capacity();
        if capacity > SHRINK_CAPACITY_MIN && self.table.len() < capacity / 4 {
            self.table.shrink_to(self.table.len() * 2, |entry| entry.bucket().hash);
        }
        if let Some(counts) = &mut self.counts {
            counts.shrink(SHRINK_CAPACITY_MIN);
        }
        if self.counts().is_some_and(|counts| counts.len() == 0) {
            self.counts = None;
        }
        if let Some(numbers) = &mut self.numbers {
            numbers.shrink(SHRINK_CAPACITY_MIN);
        }
        if self.numbers.as_deref().is_some_and(OwnNumbers::is_empty) {
            self.numbers = None;
        }
    }
}

/// The numbers of `bucket`: its own if it has any, else those that `of_rule` gives its rule.
fn shared_of<'n, 'p: 'n>(
    numbers: Option<&'n OwnNumbers>,
    bucket: crate::Bucket,
    of_rule: &impl Fn(Slot) -> Option<&'p SharedBucket>,
) -> Option<&'n SharedBucket> {
    numbers.and_then(|numbers| numbers.counted(bucket.hash)).or_else(|| of_rule(bucket.slot))
}
