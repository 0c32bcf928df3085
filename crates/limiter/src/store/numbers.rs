//! Buckets whose numbers are their own: those of carried keys, which have the numbers of the last call, and
//! those that an operator gave other numbers. Rows beside the entries of a shard, few or none of them.
//!
//! Only the numbers are here. What was used stays in the entry, the motion and the charge of the bucket, which
//! are converted when its numbers change.

use std::ops::Deref;
use std::sync::Arc;

use hashbrown::{HashMap, HashTable};

use super::layout::Space;
use super::shard::{CELL_BYTES, Shard};
use super::{Locked, Place};
use crate::algorithm::TokenBucket;
use crate::force::InForce;
use crate::matching::Slot;
use crate::plan::Plan;
use crate::rule::Allowance;
use crate::share::{Ledger, SharedBucket, drain};
use crate::{Bucket, Terms};

/// Cells of a row: with the entry beside it no more than such rows take of a table that was just grown.
const ROW_CELLS: u32 = 4;
/// Cells of numbers that carried keys share.
const TERMS_CELLS: u32 = cells_of(size_of::<Numbered>() + 2 * (size_of::<(Terms, InUse)>() + 1));

/// The most cells that a carried key takes beside its entry.
pub(super) const CARRIED_CELLS: usize = (ROW_CELLS + TERMS_CELLS) as usize;

const fn cells_of(bytes: usize) -> u32 {
    let mut cells = 0;
    while (cells as usize) * CELL_BYTES < bytes {
        cells += 1;
    }
    cells
}

/// Numbers that are not those of a rule.
#[derive(Debug)]
pub(crate) struct Numbered {
    shared: SharedBucket,
    /// What a call carried; none: an operator gave them.
    terms: Option<Terms>,
}

impl Numbered {
    /// The numbers of `terms`; none: they make no bucket.
    pub(crate) fn by(terms: Terms) -> Option<Self> {
        Some(Self { shared: terms.shared()?, terms: Some(terms) })
    }

    /// Whether a call with these terms brought them.
    pub(crate) fn is_by(&self, terms: Terms) -> bool {
        self.terms == Some(terms)
    }
}

impl Deref for Numbered {
    type Target = SharedBucket;

    fn deref(&self) -> &SharedBucket {
        &self.shared
    }
}

/// What one bucket has instead of what its rule has.
#[derive(Clone, Debug)]
pub(crate) enum Own {
    /// Nothing passes. What counts in the bucket goes on by the rule's numbers.
    Deny,
    /// Everything passes, and is counted nowhere. What counts goes on by the rule's numbers.
    Unlimited,
    /// Other numbers.
    Counted(Arc<Numbered>),
}

impl Own {
    /// What an operator gives a bucket; none: each call carries it.
    pub(crate) fn of(allowance: Allowance) -> Option<Self> {
        Some(match allowance {
            Allowance::Deny => Self::Deny,
            Allowance::Unlimited => Self::Unlimited,
            Allowance::Counted(shared) => Self::Counted(Arc::new(Numbered { shared, terms: None })),
            Allowance::Carried => return None,
        })
    }

    fn numbered(&self) -> Option<&Arc<Numbered>> {
        match self {
            Self::Counted(numbered) => Some(numbered),
            Self::Deny | Self::Unlimited => None,
        }
    }
}

/// The numbers of a bucket, for as long as somebody reckons with them.
#[derive(Clone, Debug)]
pub(crate) enum Held<'p> {
    /// Those of its rule.
    OfRule(&'p SharedBucket),
    /// Its own.
    Own(Arc<Numbered>),
}

impl Deref for Held<'_> {
    type Target = SharedBucket;

    #[inline]
    fn deref(&self) -> &SharedBucket {
        match self {
            Self::OfRule(shared) => shared,
            Self::Own(numbered) => &numbered.shared,
        }
    }
}

#[derive(Debug)]
struct Row {
    bucket: Bucket,
    own: Own,
}

/// Numbers that calls carried, and how many rows have them.
#[derive(Debug)]
struct InUse {
    numbered: Arc<Numbered>,
    rows: usize,
}

/// The buckets of one shard that have numbers of their own.
#[derive(Debug)]
pub(crate) struct OwnNumbers {
    rows: HashTable<Row>,
    /// The numbers of carried keys, each once.
    in_use: HashMap<Terms, InUse>,
    /// For so long may every level here go unread: see [`TokenBucket::horizon_ns`].
    horizon_ns: u64,
}

impl Default for OwnNumbers {
    fn default() -> Self {
        Self { rows: HashTable::new(), in_use: HashMap::new(), horizon_ns: u64::MAX }
    }
}

impl OwnNumbers {
    fn own(&self, hash: u64) -> Option<&Own> {
        self.rows.find(hash, |row| row.bucket.hash == hash).map(|row| &row.own)
    }

    fn numbered(&self, hash: u64) -> Option<&Arc<Numbered>> {
        self.own(hash)?.numbered()
    }

    /// The numbers by which the bucket `hash` counts, where they are its own.
    pub(super) fn counted(&self, hash: u64) -> Option<&SharedBucket> {
        self.numbered(hash).map(|numbered| &numbered.shared)
    }

    pub(super) fn horizon_ns(&self) -> u64 {
        self.horizon_ns
    }

    /// Finds for how long every level here may go unread.
    pub(super) fn reckon_horizon(&mut self) {
        let numbered = self.rows.iter().filter_map(|row| row.own.numbered());
        let levels = numbered.filter_map(|numbered| numbered.level());
        self.horizon_ns = levels.map(TokenBucket::horizon_ns).min().unwrap_or(u64::MAX);
    }

    pub(super) fn cells(&self) -> usize {
        let (rows, terms) = (ROW_CELLS as usize, TERMS_CELLS as usize);
        self.rows.len() * rows + self.in_use.len() * terms
    }

    pub(super) fn bytes(&self) -> usize {
        let in_use = self.in_use.len() * size_of::<Numbered>();
        self.rows.allocation_size() + self.in_use.allocation_size() + in_use
    }

    pub(super) fn table_buckets(&self) -> usize {
        self.rows.num_buckets()
    }

    /// The carried bucket whose row is at the table's bucket `at`, if there is one.
    pub(super) fn carried_at(&self, at: usize) -> Option<u64> {
        let row = self.rows.get_bucket(at)?;
        row.own.numbered()?.terms.map(|_| row.bucket.hash)
    }

    /// Numbers of `terms` for one more row: those that others have, or new ones.
    fn share(&mut self, terms: Terms) -> Option<Arc<Numbered>> {
        if let Some(in_use) = self.in_use.get_mut(&terms) {
            in_use.rows += 1;
            return Some(Arc::clone(&in_use.numbered));
        }
        let numbered = Arc::new(Numbered::by(terms)?);
        self.in_use.insert(terms, InUse { numbered: Arc::clone(&numbered), rows: 1 });
        Some(numbered)
    }

    /// A row that had `own` has it no longer.
    fn release(in_use: &mut HashMap<Terms, InUse>, own: &Own) {
        let Some(terms) = own.numbered().and_then(|numbered| numbered.terms) else { return };
        if let Some(found) = in_use.get_mut(&terms) {
            found.rows -= 1;
            if found.rows == 0 {
                in_use.remove(&terms);
            }
        }
    }

    /// Gives `bucket` `own`; true if the table grew, and rows have moved.
    fn insert(&mut self, bucket: Bucket, own: Own, rows_max: usize) -> bool {
        if let Some(level) = own.numbered().and_then(|numbered| numbered.level()) {
            self.horizon_ns = self.horizon_ns.min(level.horizon_ns());
        }
        let hash = bucket.hash;
        if let Some(row) = self.rows.find_mut(hash, |row| row.bucket.hash == hash) {
            let before = std::mem::replace(&mut row.own, own);
            Self::release(&mut self.in_use, &before);
            return false;
        }
        let grows = self.rows.len() == self.rows.capacity();
        if grows {
            self.grow(rows_max);
        }
        self.rows.insert_unique(hash, Row { bucket, own }, |row| row.bucket.hash);
        grows
    }

    /// By a larger table, or, at the largest, by one of the same size without the marks of removed rows.
    #[cold]
    fn grow(&mut self, rows_max: usize) {
        if self.rows.len() < rows_max && self.rows.num_buckets() <= rows_max {
            self.rows.reserve(1, |row| row.bucket.hash);
            return;
        }
        let fresh = HashTable::with_capacity(rows_max.max(self.rows.len() + 1));
        for row in std::mem::replace(&mut self.rows, fresh) {
            self.rows.insert_unique(row.bucket.hash, row, |row| row.bucket.hash);
        }
    }

    pub(super) fn remove(&mut self, hash: u64) {
        if let Ok(row) = self.rows.find_entry(hash, |row| row.bucket.hash == hash) {
            let (row, _) = row.remove();
            Self::release(&mut self.in_use, &row.own);
        }
    }

    /// Keeps the rows of the rules of `force`.
    pub(super) fn adopt(&mut self, force: &InForce) {
        let in_use = &mut self.in_use;
        self.rows.retain(|row| {
            let stays = !force.is_removed(row.bucket.slot);
            if !stays {
                Self::release(in_use, &row.own);
            }
            stays
        });
    }

    /// Gives back memory that is no longer used, down to room for `capacity_min` rows.
    pub(super) fn shrink(&mut self, capacity_min: usize) {
        let capacity = self.rows.capacity();
        if capacity > capacity_min && self.rows.len() < capacity / 4 {
            self.rows.shrink_to(self.rows.len() * 2, |row| row.bucket.hash);
        }
        self.in_use.shrink_to(self.in_use.len() * 2);
    }

    /// Gives back all memory that is not needed.
    pub(super) fn fit(&mut self) {
        self.rows.shrink_to(self.rows.len() + 1, |row| row.bucket.hash);
        self.in_use.shrink_to_fit();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Shard {
    /// The numbers by which `bucket` counts: its own, or those of its rule; none: there is no such rule, or it
    /// counts nothing. Carried keys have none before a call that could have changed them.
    #[inline]
    pub(crate) fn held<'p>(&self, plan: &'p Plan, bucket: Bucket) -> Option<Held<'p>> {
        match self.numbered(bucket.hash) {
            Some(numbered) => Some(Held::Own(Arc::clone(numbered))),
            None => plan.shared(bucket.slot).map(Held::OfRule),
        }
    }

    /// The same, read in place.
    #[inline]
    pub(super) fn shared<'s>(&'s self, plan: &'s Plan, bucket: Bucket) -> Option<&'s SharedBucket> {
        let own = self.numbers.as_ref().and_then(|numbers| numbers.counted(bucket.hash));
        own.or_else(|| plan.shared(bucket.slot))
    }

    /// The ledger, and what gives each bucket its numbers.
    pub(crate) fn ledger_and_numbers<'s>(
        &'s mut self,
        plan: &'s Plan,
    ) -> (Option<&'s mut Ledger>, impl Fn(Bucket) -> Option<&'s SharedBucket>) {
        let numbers = self.numbers.as_deref();
        let shared = move |bucket: Bucket| {
            let own = numbers.and_then(|numbers| numbers.counted(bucket.hash));
            own.or_else(|| plan.shared(bucket.slot))
        };
        (self.ledger.as_deref_mut(), shared)
    }

    /// What the bucket `hash` has instead of what its rule has.
    #[inline]
    pub(crate) fn own(&self, hash: u64) -> Option<&Own> {
        self.numbers.as_ref()?.own(hash)
    }

    /// The numbers of the bucket `hash`, where they are its own.
    pub(crate) fn numbered(&self, hash: u64) -> Option<&Arc<Numbered>> {
        self.numbers.as_ref()?.numbered(hash)
    }

    /// The terms of the bucket `hash`, if it is a carried one that has any.
    pub(crate) fn terms(&self, hash: u64) -> Option<Terms> {
        self.numbered(hash)?.terms
    }

    /// What a row with `terms` for the bucket `hash` needs, and the bucket's entry.
    fn need_of_terms(&self, hash: u64, terms: Terms) -> Space {
        let numbers = self.numbers.as_deref();
        let has_row = numbers.is_some_and(|it| it.own(hash).is_some());
        let is_known = numbers.is_some_and(|it| it.in_use.contains_key(&terms));
        let cells = if has_row { 0 } else { ROW_CELLS } + if is_known { 0 } else { TERMS_CELLS };
        let entry = if self.find(hash).is_some() { Space::NONE } else { Space::ONE };
        entry.plus(Space { entries: 0, cells })
    }

    /// Gives the carried `bucket` the numbers of `terms` from `now_ns` on. What was used is kept, in units.
    /// None where there is no room for the row and an entry, or the terms make no bucket. A bucket that has a
    /// row keeps the numbers that it has where there is no room for others.
    pub(crate) fn take_terms(
        &mut self,
        bucket: Bucket,
        terms: Terms,
        now_ns: u64,
        force: &InForce,
    ) -> Option<Arc<Numbered>> {
        let hash = bucket.hash;
        let has = self.numbered(hash).cloned();
        if has.as_ref().is_some_and(|has| has.is_by(terms)) {
            return has;
        }
        let wanted = self.need_of_terms(hash, terms);
        if !self.make_room(wanted, now_ns, force).0 {
            return has;
        }
        let numbered = self.numbers.get_or_insert_default().share(terms)?;
        self.set_own(bucket, Some(Own::Counted(Arc::clone(&numbered))), now_ns, force);
        Some(numbered)
    }

    /// Gives `bucket` what an operator says, or, where that is none, the numbers of its rule again. What was
    /// used is kept, in units.
    pub(crate) fn set_own(
        &mut self,
        bucket: Bucket,
        own: Option<Own>,
        now_ns: u64,
        force: &InForce,
    ) {
        let before = self.held(force, bucket);
        let after = match own.as_ref().and_then(Own::numbered) {
            Some(numbered) => Some(Held::Own(Arc::clone(numbered))),
            None => force.shared(bucket.slot).map(Held::OfRule),
        };
        if let (Some(before), Some(after)) = (before, after) {
            self.convert(bucket.hash, &before, &after, now_ns);
        }
        let rows_max = (self.space.cells / ROW_CELLS) as usize;
        let numbers = self.numbers.get_or_insert_default();
        match own {
            Some(own) => {
                if numbers.insert(bucket, own, rows_max) {
                    // Rows have moved: the sweep starts again, so that it misses none.
                    self.hand = 0;
                }
                self.fit_all();
            }
            None => numbers.remove(bucket.hash),
        }
        if self.numbers.as_ref().is_some_and(|numbers| numbers.is_empty()) {
            self.numbers = None;
        }
    }

    /// Makes what is known of the bucket `hash` that of the numbers `to`: it was counted by those of `from`.
    fn convert(&mut self, hash: u64, from: &SharedBucket, to: &SharedBucket, now_ns: u64) {
        let full_at = self.find(hash).map(|(_, entry)| entry.full_at());
        let now = self.now(now_ns);
        let members = self.ledger().map(|ledger| ledger.view.size());
        if let Some(ledger) = self.ledger_mut() {
            drain(ledger, from, hash, full_at, now);
            if let Some(mut motion) = ledger.motion(hash) {
                motion.fade(now_ns);
                motion.convert(from, to);
            }
            if let Some(mut charge) = ledger.charge(hash) {
                charge.convert(from, to, now);
            }
        }
        if let (Some(full_at), Some(old), Some(new)) = (full_at, from.level(), to.level()) {
            let missing = TokenBucket::missing(full_at, old.tick(now_ns));
            let missing = to.missing_of(from, missing, members);
            self.refill_at(hash, new.tick(now_ns).wrapping_add(missing));
        }
        if let Some(counts) = &mut self.counts {
            counts.convert(hash, from, to, now);
        }
    }

    /// Whether the row of the carried bucket `hash` tells nothing that an entry, a motion or a charge needs.
    pub(super) fn is_row_at_rest(&self, hash: u64) -> bool {
        let ledger = self.ledger();
        self.find(hash).is_none()
            && ledger.is_none_or(|it| it.motion_ref(hash).is_none() && !it.has_charge(hash))
    }
}

impl Locked<'_> {
    /// What the bucket `hash` has instead of what its rule has.
    #[inline]
    pub(crate) fn own(&self, hash: u64) -> Option<&Own> {
        let index = self.store.shard_of(hash);
        self.shards.iter().find(|locked| locked.index == index)?.shard.own(hash)
    }

    /// Gives the carried bucket `hash` of `slot` the numbers of `terms`; none: there is no room.
    pub(crate) fn take_terms(
        &mut self,
        (slot, hash): (Slot, u64),
        terms: Terms,
    ) -> Option<Arc<Numbered>> {
        let (now_ns, force) = (self.now_ns, self.force);
        self.shard_of(hash)?.take_terms(Bucket { slot, hash }, terms, now_ns, force)
    }

    /// The bucket of all carried keys with `terms` that find no room, its numbers, and the ticks missing in
    /// it; none where there are too many such buckets.
    pub(crate) fn find_overflow_of(&mut self, terms: Terms) -> Option<(Arc<Numbered>, Place, u64)> {
        let now_ns = self.now_ns;
        let (numbered, missing) = self.overflow().of_terms(terms, now_ns)?;
        Some((numbered, Place::OverflowOf(terms), missing))
    }
}
