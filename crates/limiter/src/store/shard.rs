//! One shard of the store: a table of entries, swept a few buckets at a time.

use hashbrown::HashTable;

use super::counts::Counts;
use super::layout::{Space, saturated, with_both};
use crate::algorithm::{Algorithm, Count, Counter, Now, TokenBucket};
use crate::force::InForce;
use crate::matching::Slot;
use crate::plan::Plan;
use crate::share::{Charge, Ledger, SharedBucket, drain};

/// Buckets of a shard's table when it has grown as far as it may. Moving its entries to another table
/// is the longest thing that a single check can have to wait for.
pub(crate) const TABLE_BUCKETS_MAX: usize = 16_384;

/// Bytes that a table takes per bucket: the entry and its control byte.
pub(crate) const TABLE_BYTES_PER_BUCKET: usize = size_of::<Entry>() + 1;

/// Entries of a table of `buckets` buckets that is as full as it may be. A table could be 7/8 full;
/// the eighth between is room for the marks that removed entries leave, so that a table which loses
/// and gains entries at its cap is rebuilt seldom.
pub(crate) const fn entries_of(buckets: usize) -> usize {
    buckets / 4 * 3
}

/// Buckets of the table that `entries` fill: the inverse of [`entries_of`], rounded up.
pub(crate) const fn buckets_of(entries: usize) -> usize {
    (entries.div_ceil(3) * 4).next_power_of_two()
}

/// Buckets that a new key may look through for an entry at rest when the shard is full.
const EVICTION_BUCKETS_MAX: usize = 64;

/// A table is shrunk when it has fewer entries than a quarter of what it has room for; below this
/// many there is nothing worth giving back.
const SHRINK_CAPACITY_MIN: usize = 64;

/// One bucket that is not at rest, as small as it can be: 18 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(2))]
pub(crate) struct Entry {
    /// Tick of its limit, modulo 2^64, at which the bucket is full again.
    full_at: u64,
    /// Identity of the bucket.
    hash: u64,
    /// Limit or override that it belongs to.
    slot: Slot,
}

impl Entry {
    fn new(full_at: u64, hash: u64, slot: Slot) -> Self {
        Self { full_at, hash, slot }
    }

    /// Tick at which the bucket is full again.
    pub(crate) fn full_at(&self) -> u64 {
        self.full_at
    }

    /// Notes that it is full at `tick`.
    pub(super) fn fill_at(&mut self, tick: u64) {
        self.full_at = tick;
    }

    /// Which bucket it is.
    pub(crate) fn bucket(&self) -> crate::Bucket {
        crate::Bucket { slot: self.slot, hash: self.hash }
    }

    fn token_bucket<'p>(&self, plan: &'p Plan) -> Option<&'p TokenBucket> {
        plan.shared(self.slot).and_then(SharedBucket::level)
    }

    /// Whether the bucket is as if untouched.
    fn is_at_rest(&self, now_ns: u64, plan: &Plan) -> bool {
        self.token_bucket(plan)
            .is_none_or(|bucket| TokenBucket::missing(self.full_at, bucket.tick(now_ns)) == 0)
    }
}

/// Cells of a row in the table of counts: with as many rows as there are cells for, that table takes no
/// more than one of levels would.
pub(crate) const COUNT_CELLS: u32 = 4;
/// Bytes of a log that are a cell: what an entry takes of a table that is as full as it may be.
pub(crate) const CELL_BYTES: usize = TABLE_BYTES_PER_BUCKET * 4 / 3;

/// Where an entry was found. Only a hint once the table has changed.
pub(crate) type Bucket = usize;

/// A table of entries and how far its sweep has come.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(super) table: HashTable<Entry>,
    /// The buckets that are counts; none until there is one.
    pub(super) counts: Option<Box<Counts>>,
    pub(super) space: Space,
    /// Number of the plan whose rules everything here belongs to.
    pub(super) number: u64,
    /// What the wall clock is ahead of the monotonic one, in nanoseconds.
    wall_offset_ns: i64,
    /// Latest time that the shard was entered at: its time never goes back.
    pub(super) entered_ns: u64,
    /// Time at which every entry that is still here was not at rest, or younger.
    swept_ns: u64,
    /// Next bucket that the sweep visits.
    hand: usize,
    /// Time at which the sweep passed the first bucket.
    pass_started_ns: u64,
    /// What a member of a cluster holds beside.
    ledger: Option<Box<Ledger>>,
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
    pub(crate) fn new(space: Space, ledger: Option<Ledger>) -> Self {
        Self {
            ledger: ledger.map(Box::new),
            table: HashTable::new(),
            counts: None,
            space,
            number: 0,
            wall_offset_ns: 0,
            entered_ns: 0,
            swept_ns: 0,
            hand: 0,
            pass_started_ns: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len() + self.counts().map_or(0, Counts::len)
    }

    pub(crate) fn table_bytes(&self) -> usize {
        let counts = self.counts().map_or(0, Counts::bytes);
        self.table.allocation_size() + counts + self.ledger().map_or(0, Ledger::bytes)
    }

    fn counts(&self) -> Option<&Counts> {
        self.counts.as_deref()
    }

    /// Cells taken.
    fn cells(&self) -> usize {
        let counts = self.counts().map_or(0, |counts| {
            counts.len() * COUNT_CELLS as usize + counts.heap_bytes().div_ceil(CELL_BYTES)
        });
        let ledger = self.ledger().map_or(0, |it| it.heap_bytes().div_ceil(CELL_BYTES));
        self.table.len() + counts + ledger
    }

    /// Both clocks at `now_ns`.
    pub(crate) fn now(&self, now_ns: u64) -> Now {
        Now { ns: now_ns, unix_ns: now_ns.saturating_add_signed(self.wall_offset_ns) }
    }

    pub(crate) fn ledger(&self) -> Option<&Ledger> {
        self.ledger.as_deref()
    }

    pub(crate) fn ledger_mut(&mut self) -> Option<&mut Ledger> {
        self.ledger.as_deref_mut()
    }

    /// Every bucket that has an entry: those that are not at rest, with some that are.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = crate::Bucket> {
        let counts = self.counts().into_iter().flat_map(Counts::buckets);
        self.table.iter().map(Entry::bucket).chain(counts)
    }

    /// The time in this shard when its caller reads `now_ns`: an older reading than the last counts
    /// as no time passed.
    pub(crate) fn time(&self, now_ns: u64) -> u64 {
        now_ns.max(self.entered_ns)
    }

    /// Moves the shard's time to `now_ns`, which [`Shard::time`] gave. Must come before any entry is
    /// read.
    pub(crate) fn enter(&mut self, now_ns: u64, wall_offset_ns: i64, force: &InForce) {
        self.wall_offset_ns = wall_offset_ns;
        if self.number != force.number {
            self.adopt(now_ns, force);
        }
        if now_ns - self.swept_ns > force.horizon_ns {
            self.settle(now_ns, &|slot| force.shared(slot));
        }
        self.entered_ns = now_ns;
    }

    /// Drops every entry that has come to rest since the shard was last entered, however long ago
    /// that is. Ticks wrap, so that an entry left alone for longer than the horizon could look empty
    /// again; what it missed *then* is unambiguous, and the time since is exact in 128 bits.
    #[cold]
    pub(super) fn settle<'p>(
        &mut self,
        now_ns: u64,
        shared: &impl Fn(Slot) -> Option<&'p SharedBucket>,
    ) {
        let entered_ns = self.entered_ns;
        self.settle_charges(now_ns, shared);
        self.table.retain(|entry| {
            shared(entry.slot).and_then(SharedBucket::level).is_some_and(|bucket| {
                let missing = TokenBucket::missing(entry.full_at, bucket.tick(entered_ns));
                u128::from(missing) > bucket.elapsed(now_ns - entered_ns)
            })
        });
        self.swept_ns = now_ns;
        self.hand = 0;
    }

    /// Lets every charge be paid back by the refill that full levels could not take, up to `now_ns`.
    pub(crate) fn drain_charges(&mut self, now_ns: u64, plan: &Plan) {
        self.drain_charges_by(now_ns, &|slot| plan.shared(slot));
    }

    fn drain_charges_by<'p>(
        &mut self,
        now_ns: u64,
        shared: &impl Fn(Slot) -> Option<&'p SharedBucket>,
    ) {
        let now = self.now(now_ns);
        for bucket in self.ledger().map_or_else(Vec::new, Ledger::charged) {
            let full_at = self.find(bucket.hash).map(|(_, entry)| entry.full_at());
            if let (Some(shared), Some(ledger)) = (shared(bucket.slot), self.ledger.as_deref_mut())
            {
                drain(ledger, shared, bucket.hash, full_at, now);
            }
        }
    }

    /// Drains every charge up to `now_ns`, when that is too long after the shard was last entered to
    /// tell by ticks for how long a level was full.
    fn settle_charges<'p>(
        &mut self,
        now_ns: u64,
        shared: &impl Fn(Slot) -> Option<&'p SharedBucket>,
    ) {
        let entered_ns = self.entered_ns;
        self.drain_charges_by(entered_ns, shared);
        for bucket in self.ledger().map_or_else(Vec::new, Ledger::charged) {
            let full_at = self.find(bucket.hash).map(|(_, entry)| entry.full_at());
            let (Some(shared), Some(ledger)) = (shared(bucket.slot), self.ledger.as_deref_mut())
            else {
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

    /// Whether `wanted` has room as things are.
    pub(crate) fn has_room(&self, wanted: Space) -> bool {
        self.len() + wanted.entries as usize <= self.space.entries as usize
            && self.cells() + wanted.cells as usize <= self.space.cells as usize
    }

    /// What `units` more of the bucket `hash` need: of a level, an entry; of a count, an entry if it has
    /// none, and what a log grows by.
    pub(crate) fn need(&self, hash: u64, algorithm: &Algorithm, units: u64) -> Space {
        let Algorithm::Count(counter) = algorithm else { return Space::ONE };
        let count = self.count(hash);
        let entry = if count.is_some() { Space::NONE } else { Space::COUNT };
        let log_bytes = counter.bytes_to_grow(count, units);
        entry.plus(Space::new(0, log_bytes.div_ceil(CELL_BYTES)))
    }

    /// What `units` more of the bucket `hash` need where they are charged while members are missing, beside
    /// the row of the charge.
    pub(crate) fn need_of_charge(&self, hash: u64, algorithm: &Algorithm, units: u64) -> Space {
        let Algorithm::Count(counter) = algorithm else { return Space::NONE };
        let count = self.ledger().and_then(|it| it.charge_ref(hash)).and_then(Charge::count);
        let entry_bytes = if count.is_none() { size_of::<Count>() } else { 0 };
        let bytes = counter.bytes_to_grow(count, units).saturating_add(entry_bytes);
        Space { entries: 0, cells: saturated(bytes.div_ceil(CELL_BYTES)) }
    }

    /// Ticks missing in the bucket `hash`.
    pub(crate) fn missing(&self, hash: u64, algorithm: &Algorithm, now_ns: u64) -> u64 {
        match algorithm {
            Algorithm::Level(level) => self
                .find(hash)
                .map_or(0, |(_, entry)| TokenBucket::missing(entry.full_at(), level.tick(now_ns))),
            Algorithm::Count(counter) => counter.missing(self.count(hash), self.now(now_ns)),
        }
    }

    /// Whether the bucket `hash` has an entry.
    pub(crate) fn has_entry(&self, hash: u64, algorithm: &Algorithm) -> bool {
        match algorithm {
            Algorithm::Level(_) => self.find(hash).is_some(),
            Algorithm::Count(_) => self.count(hash).is_some(),
        }
    }

    /// What counts in the bucket `hash`.
    pub(crate) fn count(&self, hash: u64) -> Option<&Count> {
        self.counts()?.find(hash)
    }

    /// Changes what counts in `bucket`, which gets an entry if it has none.
    pub(crate) fn change_count<R>(
        &mut self,
        bucket: crate::Bucket,
        counter: &Counter,
        now_ns: u64,
        act: impl FnOnce(&mut Count) -> R,
    ) -> R {
        let (now, rows_max) = (self.now(now_ns), (self.space.cells / COUNT_CELLS) as usize);
        let counts = self.counts.get_or_insert_default();
        let (result, has_grown) = counts.change(bucket, counter, now, rows_max, act);
        self.fit_both();
        if has_grown {
            // Entries have moved: the sweep starts again, so that it misses none.
            self.hand = 0;
        }
        result
    }

    /// The entry of `hash`, and where it is.
    pub(crate) fn find(&self, hash: u64) -> Option<(Bucket, Entry)> {
        let bucket = self.table.find_bucket_index(hash, |entry| entry.hash == hash)?;
        Some((bucket, *self.table.get_bucket(bucket)?))
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

    /// Buckets of both tables: first those of the levels, then those of the counts.
    fn table_buckets(&self) -> usize {
        self.table.num_buckets() + self.counts().map_or(0, Counts::table_buckets)
    }

    /// The bucket at `at` of both tables, if it may be dropped. A level that was full must be remembered
    /// as long as there is a charge to pay back.
    fn at_rest(&self, at: usize, now_ns: u64, plan: &Plan) -> Option<u64> {
        let hash = match at.checked_sub(self.table.num_buckets()) {
            None => {
                let entry = self.table.get_bucket(at)?;
                entry.is_at_rest(now_ns, plan).then_some(entry.hash)?
            }
            Some(at) => self.counts()?.at_rest(at, now_ns, plan)?,
        };
        let has_charge = self.ledger().is_some_and(|ledger| ledger.has_charge(hash));
        (!has_charge).then_some(hash)
    }

    /// Writes the state of `hash`, found at `bucket` before; makes an entry if it has none.
    pub(crate) fn write(&mut self, hash: u64, slot: Slot, full_at: u64, bucket: Option<Bucket>) {
        let entry = Entry::new(full_at, hash, slot);
        let found = bucket.and_then(|bucket| self.table.get_bucket_mut(bucket));
        if let Some(found) = found.filter(|found| found.hash == hash) {
            *found = entry;
            return;
        }
        if self.table.len() == self.table.capacity() {
            self.grow();
        }
        self.table.entry(hash, |entry| entry.hash == hash, |entry| entry.hash).insert(entry);
    }

    /// Makes room in the table, which has no free bucket left that no removed entry has marked: by a
    /// larger table, or, at the largest, by one of the same size without the marks.
    #[cold]
    fn grow(&mut self) {
        if self.table.num_buckets() < buckets_of(self.space.levels()) {
            self.table.reserve(1, |entry| entry.hash);
        } else {
            let fresh = HashTable::with_capacity(self.space.levels());
            for entry in std::mem::replace(&mut self.table, fresh) {
                self.table.insert_unique(entry.hash, entry, |entry| entry.hash);
            }
        }
        self.fit_both();
        // Entries have moved: the sweep starts again, so that it misses none.
        self.hand = 0;
    }

    /// Gives back what either table has that the other needs, once both take more than they may.
    fn fit_both(&mut self) {
        let counts_bytes = self.counts().map_or(0, Counts::bytes);
        let bytes_max = with_both(self.space.cells as usize * CELL_BYTES);
        if counts_bytes > 0 && self.table.allocation_size() + counts_bytes > bytes_max {
            self.fit();
        }
    }

    #[cold]
    fn fit(&mut self) {
        let table_buckets = self.table_buckets();
        self.table.shrink_to(self.table.len() + 1, |entry| entry.hash);
        if let Some(counts) = &mut self.counts {
            counts.fit();
        }
        if self.table_buckets() != table_buckets {
            self.hand = 0;
        }
    }

    /// Forgets what counts in the bucket `hash`.
    pub(crate) fn remove_count(&mut self, hash: u64) {
        if let Some(counts) = &mut self.counts {
            counts.remove(hash);
        }
    }

    /// Forgets the level of the bucket `hash`.
    pub(crate) fn remove(&mut self, hash: u64) {
        if let Ok(entry) = self.table.find_entry(hash, |entry| entry.hash == hash) {
            entry.remove();
        }
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
            let Some(hash) = self.at_rest(at, now_ns, plan) else { continue };
            if at < self.table.num_buckets() {
                if let Ok(entry) = self.table.get_bucket_entry(at) {
                    entry.remove();
                }
            } else {
                self.remove_count(hash);
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
            self.table.shrink_to(self.table.len() * 2, |entry| entry.hash);
        }
        if let Some(counts) = &mut self.counts {
            counts.shrink(SHRINK_CAPACITY_MIN);
        }
        if self.counts().is_some_and(|counts| counts.len() == 0) {
            self.counts = None;
        }
    }
}
