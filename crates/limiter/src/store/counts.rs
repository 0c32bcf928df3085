//! The part of a shard that holds counts: buckets whose algorithm knows when they were spent.

use hashbrown::HashTable;

use crate::Bucket;
use crate::algorithm::{Count, Counter, Now};
use crate::force::InForce;
use crate::matching::Slot;
use crate::share::SharedBucket;

/// A bucket that is not at rest.
#[derive(Debug)]
struct CountEntry {
    hash: u64,
    slot: Slot,
    count: Count,
}

/// A table of counts.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    table: HashTable<CountEntry>,
    /// Bytes of the logs, beside the table.
    heap_bytes: usize,
}

impl Counts {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Bytes of the logs, beside the table.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.heap_bytes
    }

    pub(crate) fn bytes(&self) -> usize {
        self.table.allocation_size() + self.heap_bytes
    }

    pub(crate) fn table_buckets(&self) -> usize {
        self.table.num_buckets()
    }

    /// Every bucket.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = Bucket> {
        self.table.iter().map(|entry| Bucket { slot: entry.slot, hash: entry.hash })
    }

    pub(crate) fn find(&self, hash: u64) -> Option<&Count> {
        self.table.find(hash, |entry| entry.hash == hash).map(|entry| &entry.count)
    }

    /// Runs `act` on the count of `bucket`, which is made if there is none. True if the table grew, and
    /// entries have moved.
    pub(crate) fn change<R>(
        &mut self,
        bucket: Bucket,
        counter: &Counter,
        now: Now,
        rows_max: usize,
        act: impl FnOnce(&mut Count) -> R,
    ) -> (R, bool) {
        let Bucket { slot, hash } = bucket;
        let has_grown = self.table.len() == self.table.capacity() && self.find(hash).is_none();
        if has_grown {
            self.grow(rows_max);
        }
        let entry = self.table.entry(hash, |entry| entry.hash == hash, |entry| entry.hash);
        let fresh = || CountEntry { hash, slot, count: counter.fresh(now) };
        let count = &mut entry.or_insert_with(fresh).into_mut().count;
        let before = count.heap_bytes();
        let result = act(count);
        self.heap_bytes = (self.heap_bytes + count.heap_bytes()).saturating_sub(before);
        (result, has_grown)
    }

    /// By a larger table, or, at the largest, by one of the same size without the marks of removed
    /// entries.
    #[cold]
    fn grow(&mut self, rows_max: usize) {
        if self.table.len() < rows_max && self.table.num_buckets() <= rows_max {
            self.table.reserve(1, |entry| entry.hash);
            return;
        }
        let fresh = HashTable::with_capacity(rows_max.max(self.table.len() + 1));
        for entry in std::mem::replace(&mut self.table, fresh) {
            self.table.insert_unique(entry.hash, entry, |entry| entry.hash);
        }
    }

    /// Forgets the count of `hash`.
    pub(crate) fn remove(&mut self, hash: u64) {
        if let Ok(entry) = self.table.find_entry(hash, |entry| entry.hash == hash) {
            let (entry, _) = entry.remove();
            self.heap_bytes = self.heap_bytes.saturating_sub(entry.count.heap_bytes());
        }
    }

    /// Whether the count at the table's bucket `at`, if there is one, is as if untouched by the numbers that
    /// `shared` gives it; which it is.
    pub(crate) fn at_rest<'p>(
        &self,
        at: usize,
        now_ns: u64,
        shared: impl Fn(Bucket) -> Option<&'p SharedBucket>,
    ) -> Option<u64> {
        let entry = self.table.get_bucket(at)?;
        let bucket = Bucket { slot: entry.slot, hash: entry.hash };
        let counter = shared(bucket).and_then(SharedBucket::counter);
        counter.is_none_or(|it| it.is_at_rest(&entry.count, now_ns)).then_some(entry.hash)
    }

    /// Makes the counts those of the rules of `force`. Those that have numbers of their own (`is_own`) keep
    /// them.
    pub(crate) fn adopt(&mut self, force: &InForce, is_own: impl Fn(u64) -> bool, now: Now) {
        self.table.retain(|entry| {
            let (Some(from), Some(to)) = (force.renumbered(entry.slot), force.shared(entry.slot))
            else {
                return !force.is_removed(entry.slot);
            };
            if is_own(entry.hash) {
                return true;
            }
            match to.count_of(from, &entry.count, now) {
                Some(count) => entry.count = count,
                None => return false,
            }
            true
        });
        self.heap_bytes = self.table.iter().map(|entry| entry.count.heap_bytes()).sum();
    }

    /// Makes what counts in the bucket `hash` that of the numbers `to`: it was counted by those of `from`.
    pub(crate) fn convert(&mut self, hash: u64, from: &SharedBucket, to: &SharedBucket, now: Now) {
        let Some(entry) = self.table.find_mut(hash, |entry| entry.hash == hash) else { return };
        if let Some(count) = to.count_of(from, &entry.count, now) {
            let before = entry.count.heap_bytes();
            self.heap_bytes = (self.heap_bytes + count.heap_bytes()).saturating_sub(before);
            entry.count = count;
        }
    }

    /// Gives back all memory that is not needed.
    pub(crate) fn fit(&mut self) {
        self.table.shrink_to(self.table.len() + 1, |entry| entry.hash);
    }

    /// Gives back memory that is no longer used.
    pub(crate) fn shrink(&mut self, capacity_min: usize) {
        let capacity = self.table.capacity();
        if capacity > capacity_min && self.table.len() < capacity / 4 {
            self.table.shrink_to(self.table.len() * 2, |entry| entry.hash);
        }
    }
}
