//! One shard of the store: a table of entries, swept a few buckets at a time.

use hashbrown::HashTable;

use super::counts::Counts;
use super::layout::{Space, saturated, with_both};
use super::numbers::OwnNumbers;
use crate::algorithm::{Algorithm, Count, Counter, Now, TokenBucket};
use crate::force::InForce;
use crate::matching::Slot;
use crate::share::{Charge, Ledger, SharedBucket};

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

    /// Whether the bucket, which has these numbers if any, is as if untouched.
    pub(super) fn is_at_rest(&self, now_ns: u64, shared: Option<&SharedBucket>) -> bool {
        shared
            .and_then(SharedBucket::level)
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
    /// The buckets that have numbers of their own; none until there is one.
    pub(super) numbers: Option<Box<OwnNumbers>>,
    pub(super) space: Space,
    /// Number of the plan whose rules everything here belongs to.
    pub(super) number: u64,
    /// What the wall clock is ahead of the monotonic one, in nanoseconds.
    wall_offset_ns: i64,
    /// Latest time that the shard was entered at: its time never goes back.
    pub(super) entered_ns: u64,
    /// Time at which every entry that is still here was not at rest, or younger.
    pub(super) swept_ns: u64,
    /// Next bucket that the sweep visits.
    pub(super) hand: usize,
    /// Time at which the sweep passed the first bucket.
    pub(super) pass_started_ns: u64,
    /// What a member of a cluster holds beside.
    pub(super) ledger: Option<Box<Ledger>>,
}

impl Shard {
    pub(crate) fn new(space: Space, ledger: Option<Ledger>) -> Self {
        Self {
            ledger: ledger.map(Box::new),
            table: HashTable::new(),
            counts: None,
            numbers: None,
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
        let numbers = self.numbers.as_deref().map_or(0, OwnNumbers::bytes);
        self.table.allocation_size() + counts + numbers + self.ledger().map_or(0, Ledger::bytes)
    }

    pub(super) fn counts(&self) -> Option<&Counts> {
        self.counts.as_deref()
    }

    /// Cells taken.
    fn cells(&self) -> usize {
        let counts = self.counts().map_or(0, |counts| {
            counts.len() * COUNT_CELLS as usize + counts.heap_bytes().div_ceil(CELL_BYTES)
        });
        let ledger = self.ledger().map_or(0, |it| it.heap_bytes().div_ceil(CELL_BYTES));
        self.table.len() + counts + ledger + self.numbers.as_deref().map_or(0, OwnNumbers::cells)
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
        let own_ns = self.numbers.as_deref().map_or(u64::MAX, OwnNumbers::horizon_ns);
        if now_ns - self.swept_ns > force.horizon_ns.min(own_ns) {
            self.settle(now_ns, &|slot| force.shared(slot));
        }
        self.entered_ns = now_ns;
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
        self.fit_all();
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

    /// Notes that the level of `hash`, if it has an entry, is full at `tick`.
    pub(super) fn refill_at(&mut self, hash: u64, tick: u64) {
        if let Some(entry) = self.table.find_mut(hash, |entry| entry.hash == hash) {
            entry.fill_at(tick);
        }
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
        self.fit_all();
        // Entries have moved: the sweep starts again, so that it misses none.
        self.hand = 0;
    }

    /// Gives back what each table has that another needs, once all take more than they may.
    pub(super) fn fit_all(&mut self) {
        let beside = self.counts().map_or(0, Counts::bytes)
            + self.numbers.as_deref().map_or(0, OwnNumbers::bytes);
        let bytes_max = with_both(self.space.cells as usize * CELL_BYTES);
        if beside > 0 && self.table.allocation_size() + beside > bytes_max {
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
        if let Some(numbers) = &mut self.numbers {
            numbers.fit();
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
}
