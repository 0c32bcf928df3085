//! How memory becomes shards: how many there are, and what fits in each.

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use super::numbers::CARRIED_CELLS;
use super::shard::{
    CELL_BYTES, COUNT_CELLS, Shard, TABLE_BUCKETS_MAX, TABLE_BYTES_PER_BUCKET, entries_of,
};
use crate::plan::Plan;
use crate::rule::Rule;
use crate::share::MEMBER_ROW_BYTES;

/// Most entries of a shard.
const SHARD_ENTRIES_MAX: usize = entries_of(TABLE_BUCKETS_MAX);
/// Bytes of a shard beside its buckets: the padded lock, and the table's trailing control bytes.
const SHARD_OVERHEAD_BYTES: usize = size_of::<CachePadded<Mutex<Shard>>>() + 16;
/// Bytes of a shard that has grown as far as it may.
const SHARD_BYTES_MAX: usize = TABLE_BUCKETS_MAX * TABLE_BYTES_PER_BUCKET + SHARD_OVERHEAD_BYTES;
/// Bytes of the ledger of such a shard on a member of a cluster, when it is full.
const LEDGER_BYTES_MAX: usize = rows_of(SHARD_ENTRIES_MAX) * MEMBER_ROW_BYTES;
/// Part of the memory that is left to the allocator: it rounds tables up to sizes of its own and keeps
/// outgrown ones for a moment. Floods of 20M keys were seen to take 2 to 10 % more than their tables.
const ALLOCATOR_PART: u64 = 8;
/// On a member of a cluster, entries of a shard for each bucket that may be in motion in it, and for
/// each that may have a charge.
const ENTRIES_PER_ROW: usize = 16;
/// Rows of either kind that even the smallest shard may have.
const ROWS_MIN: usize = 64;
/// Entries of a shard at least, where their number is bounded and not the memory.
const SHARD_ENTRIES_MIN: usize = 64;

/// What a shard may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    /// Entries, of whatever kind.
    pub(crate) entries: u32,
    /// Memory, in what the entry of a level takes.
    pub(crate) cells: u32,
}

impl Space {
    /// So many entries, and so many cells.
    pub(crate) fn new(entries: usize, cells: usize) -> Self {
        Self { entries: saturated(entries), cells: saturated(cells) }
    }

    /// Entries of levels that fit.
    pub(super) fn levels(self) -> usize {
        self.entries.min(self.cells) as usize
    }

    /// Nothing.
    pub(crate) const NONE: Self = Self { entries: 0, cells: 0 };
    /// The entry of a count that takes nothing beside it.
    pub(crate) const COUNT: Self = Self { entries: 1, cells: COUNT_CELLS };
    /// The entry of a level.
    pub(crate) const ONE: Self = Self { entries: 1, cells: 1 };

    pub(crate) fn plus(self, more: Self) -> Self {
        Self {
            entries: self.entries.saturating_add(more.entries),
            cells: self.cells.saturating_add(more.cells),
        }
    }
}

pub(super) fn saturated(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The bounds that the operator sets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) memory_bytes: u64,
    pub(super) entries_max: Option<u64>,
    /// On a member of a cluster each shard has a ledger beside.
    pub(super) is_member: bool,
}

impl Bounds {
    /// How many shards hold the most entries whose tables take at most the memory when full.
    pub(super) fn shards(self, plan: &Plan) -> usize {
        let (cells, wanted) = self.cells(plan);
        // Shards of few entries would fill unevenly; one of few and large entries is as quick.
        cells.div_ceil(SHARD_ENTRIES_MAX).min((wanted / SHARD_ENTRIES_MIN).max(1))
    }

    /// What fits in each of so many `shards`. They may have been made for limits of other kinds: those of
    /// this plan may need more memory for a shard, and none may grow larger than its table serves.
    pub(super) fn space(self, plan: &Plan, shards: usize) -> Space {
        let (cells, wanted) = self.cells(plan);
        let shards = shards.max(self.shards(plan));
        let cells = cells / shards;
        Space::new(cells.min((wanted / shards).max(1)), cells)
    }

    /// Cells of all shards, and entries wanted at most. An entry may take as many as `weight` cells.
    fn cells(self, plan: &Plan) -> (usize, usize) {
        let Kinds { weight, is_mixed } = Kinds::of(plan);
        let to_usize = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let memory = to_usize(self.memory_bytes - self.memory_bytes / ALLOCATOR_PART);
        let wanted = self.entries_max.map_or(usize::MAX, to_usize).max(1);
        let ledger_bytes = if self.is_member { LEDGER_BYTES_MAX } else { 0 };
        let shard_bytes = if is_mixed { with_both(SHARD_BYTES_MAX) } else { SHARD_BYTES_MAX };
        let by_memory = match memory / (shard_bytes + ledger_bytes) {
            0 if is_mixed => entries_in_one_table(memory / 3 * 2),
            0 => entries_in_one_table(memory),
            shards => shards * SHARD_ENTRIES_MAX,
        };
        (by_memory.min(wanted.saturating_mul(weight)).max(1), wanted)
    }
}

/// What kinds of entries a plan needs.
#[derive(Clone, Copy, Debug)]
struct Kinds {
    /// The most cells that an entry may take.
    weight: usize,
    /// There are levels and counts, or buckets with numbers of their own, and a shard has more than one table.
    is_mixed: bool,
}

impl Kinds {
    fn of(plan: &Plan) -> Self {
        let has = |is_count| {
            let mut shared = plan.rules().iter().filter_map(Rule::shared);
            shared.any(|shared| shared.counter().is_some() == is_count)
        };
        let is_mixed = plan.carried().is_some() || (has(true) && has(false));
        Self { weight: weight(plan), is_mixed }
    }
}

/// The most cells that an entry of a bucket of `plan` may take.
fn weight(plan: &Plan) -> usize {
    let weights = plan.rules().iter().filter_map(Rule::shared).map(|shared| {
        shared.counter().map_or(1, |counter| {
            // A log grows by a part at a time, and holds as much again of debt.
            let log_bytes = counter.bytes_to_grow(None, counter.limit()) * 5 / 4;
            COUNT_CELLS as usize + log_bytes.div_ceil(CELL_BYTES)
        })
    });
    let carried = plan.carried().map(|_| 1 + CARRIED_CELLS);
    weights.chain(carried).max().unwrap_or(1)
}

/// What tables take of which each could be as large as `bytes`, and which share its cells: one may be just
/// too large for half the room that it has, and another for a quarter.
pub(super) const fn with_both(bytes: usize) -> usize {
    bytes / 2 * 3
}

/// Rows of either kind in the ledger of a shard of at most `entries_max` entries.
pub(super) const fn rows_of(entries_max: usize) -> usize {
    let rows = entries_max / ENTRIES_PER_ROW;
    if rows < ROWS_MIN { ROWS_MIN } else { rows }
}

/// Entries of the largest table, less than a whole shard's, that takes at most `memory` bytes.
fn entries_in_one_table(memory: usize) -> usize {
    let mut buckets = TABLE_BUCKETS_MAX;
    while buckets > 8 && buckets * TABLE_BYTES_PER_BUCKET + SHARD_OVERHEAD_BYTES > memory {
        buckets /= 2;
    }
    entries_of(buckets)
}
