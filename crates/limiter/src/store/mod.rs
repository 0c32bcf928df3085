//! The sharded store of counts: which shard a bucket lives in, locking several at once, the memory
//! cap, and the sweep that drops entries at rest.
//!
//! A key that is not in the store has a full bucket. Locks are always taken in the order of the
//! shards, then the overflow buckets', so that requests with several limits cannot deadlock.

mod adopt;
mod all;
mod counts;
mod layout;
mod numbers;
mod overflow;
mod shard;
mod sweep;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use crate::Bucket as BucketOf;
use crate::Terms;
use crate::algorithm::{Algorithm, Count, Counter, Now, TokenBucket};
use crate::force::InForce;
use crate::matching::Slot;
use crate::plan::Plan;
use crate::share::{Ledger, SharedBucket, View};
pub(crate) use all::LockedAll;
pub(crate) use layout::Space;
use layout::{Bounds, rows_of};
pub(crate) use numbers::{Held, Numbered, Own};
use overflow::Overflow;
pub(crate) use shard::Shard;
use shard::{Bucket, buckets_of};

/// Buckets that the sweep visits under one lock: some microseconds.
const SWEEP_LOCK_BUCKETS: usize = 1024;

/// The store.
#[derive(Debug)]
pub(crate) struct Store {
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    overflow: CachePadded<Mutex<Overflow>>,
    bounds: Bounds,
    /// Shard that the sweep visits next.
    sweep_at: AtomicUsize,
    /// What the wall clock is ahead of the monotonic one, in nanoseconds.
    wall_offset_ns: AtomicI64,
}

impl Store {
    /// An empty store for the buckets of `plan`; on a member of a cluster, whose members are those of
    /// `view`.
    pub(crate) fn new(
        memory_bytes: u64,
        entries_max: Option<u64>,
        plan: &Plan,
        view: Option<View>,
    ) -> Self {
        let bounds = Bounds { memory_bytes, entries_max, is_member: view.is_some() };
        let shards = bounds.shards(plan);
        let space = bounds.space(plan, shards);
        let view = view.map(Arc::new);
        let ledger =
            || Some(Ledger::new(Arc::clone(view.as_ref()?), rows_of(space.entries as usize)));
        let shard = || CachePadded::new(Mutex::new(Shard::new(space, ledger())));
        Self {
            shards: (0..shards).map(|_| shard()).collect(),
            overflow: CachePadded::new(Mutex::new(Overflow::new(plan.slots()))),
            bounds,
            sweep_at: AtomicUsize::new(0),
            wall_offset_ns: AtomicI64::new(0),
        }
    }

    /// What each shard may hold of the buckets of `plan`.
    pub(crate) fn space_for(&self, plan: &Plan) -> Space {
        self.bounds.space(plan, self.shards.len())
    }

    /// At `now_ns` the wall clock says `unix_ns`.
    pub(crate) fn set_wall(&self, now_ns: u64, unix_ns: u64) {
        let offset_ns = i128::from(unix_ns) - i128::from(now_ns);
        let offset_ns = i64::try_from(offset_ns).unwrap_or(i64::MAX);
        self.wall_offset_ns.store(offset_ns, Ordering::Relaxed);
    }

    /// What the wall clock says at `now_ns`.
    pub(crate) fn unix_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_add_signed(self.wall_offset_ns())
    }

    fn wall_offset_ns(&self) -> i64 {
        self.wall_offset_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn entries_max(&self, force: &InForce) -> u64 {
        self.shards.len() as u64 * u64::from(force.space.entries)
    }

    /// Entries held, and bytes that their tables take. Visits every shard.
    pub(crate) fn usage(&self) -> (u64, u64) {
        self.shards.iter().fold((0, 0), |(entries, bytes), shard| {
            let shard = shard.lock();
            (entries + shard.len() as u64, bytes + shard.table_bytes() as u64)
        })
    }

    /// Locks the shards of all `hashes` at one time, which is `now_ns` or later. None where one of them is
    /// at a later plan than `force`: nothing was changed.
    pub(crate) fn lock<'s>(
        &'s self,
        hashes: impl Iterator<Item = u64>,
        now_ns: u64,
        force: &'s InForce,
    ) -> Option<Locked<'s>> {
        let mut indices = hashes.map(|hash| self.shard_of(hash));
        let (first, second) = (indices.next(), indices.next());
        let mut shards: SmallVec<[LockedShard<'s>; 4]> = SmallVec::new();
        match (first, second) {
            (None, _) => {}
            (Some(index), None) => shards.push(self.lock_shard(index)),
            (Some(first), Some(second)) => {
                let mut indices: SmallVec<[usize; 8]> = indices.chain([first, second]).collect();
                indices.sort_unstable();
                indices.dedup();
                shards.extend(indices.iter().map(|index| self.lock_shard(*index)));
            }
        }
        if shards.iter().any(|locked| locked.shard.number > force.number) {
            return None;
        }
        let now_ns = shards.iter().fold(now_ns, |now_ns, locked| locked.shard.time(now_ns));
        let wall_offset_ns = self.wall_offset_ns();
        for locked in &mut shards {
            locked.shard.enter(now_ns, wall_offset_ns, force);
        }
        let overflow = None;
        Some(Locked { store: self, force, shards, overflow, now_ns, wall_offset_ns, evicted: 0 })
    }

    /// Runs `act` on the shard of `hash`, at `now_ns` or later.
    pub(crate) fn with<R>(
        &self,
        hash: u64,
        now_ns: u64,
        force: &InForce,
        act: impl FnOnce(&mut Shard, u64) -> R,
    ) -> R {
        self.with_shard(self.shard_of(hash), now_ns, force, act)
    }

    /// Runs `act` on the shard at `index`, at `now_ns` or later.
    pub(crate) fn with_shard<R>(
        &self,
        index: usize,
        now_ns: u64,
        force: &InForce,
        act: impl FnOnce(&mut Shard, u64) -> R,
    ) -> R {
        let mut shard = self.shards[index].lock();
        let now_ns = shard.time(now_ns);
        shard.enter(now_ns, self.wall_offset_ns(), force);
        act(&mut shard, now_ns)
    }

    /// Runs `act` on every shard, one after the other, at `now_ns` or later.
    pub(crate) fn for_each(
        &self,
        now_ns: u64,
        force: &InForce,
        mut act: impl FnMut(&mut Shard, u64),
    ) {
        for index in 0..self.shards() {
            self.with_shard(index, now_ns, force, &mut act);
        }
    }

    /// How many shards there are.
    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The first and the last hash, rotated by half, of the shards from `first` to before `end`.
    pub(crate) fn range(&self, first: usize, end: usize) -> (u64, u64) {
        let start = |index: usize| {
            let scaled = ((index as u128) << 64).div_ceil(self.shards.len() as u128);
            u64::try_from(scaled)
        };
        let last = start(end).map_or(u64::MAX, |next| next.wrapping_sub(1));
        (start(first).unwrap_or(u64::MAX), last)
    }

    fn lock_shard(&self, index: usize) -> LockedShard<'_> {
        LockedShard { index, shard: self.shards[index].lock(), promised: Space::NONE }
    }

    /// The shard of `hash`. Tables use the lowest and the highest bits of a hash, so the shard is
    /// taken from the middle.
    fn shard_of(&self, hash: u64) -> usize {
        let scaled = u128::from(hash.rotate_left(32)) * self.shards.len() as u128;
        usize::try_from(scaled >> 64).unwrap_or(0)
    }

    /// Visits up to `buckets` buckets and drops the entries at rest; returns how many were dropped.
    pub(crate) fn sweep(&self, now_ns: u64, buckets: usize, force: &InForce) -> u64 {
        let (mut dropped, mut left) = (0, buckets);
        // A small table costs as much of the budget as one that is full grown, so that a call over
        // empty shards visits few, and a round takes the same time however many keys there are.
        while left > 0 {
            let index = self.sweep_at.load(Ordering::Relaxed) % self.shards.len();
            let mut shard = self.shards[index].lock();
            let now_ns = shard.time(now_ns);
            shard.enter(now_ns, self.wall_offset_ns(), force);
            let visit = left.min(SWEEP_LOCK_BUCKETS);
            let step = shard.sweep(visit, now_ns, force);
            drop(shard);
            dropped += step.dropped;
            left = left.saturating_sub(visit + step.absent);
            if step.finished {
                self.sweep_at.store(index + 1, Ordering::Relaxed);
            }
        }
        dropped
    }

    /// Buckets that a sweep of everything visits: what [`Store::sweep`] counts for a whole round.
    pub(crate) fn sweep_round(&self, force: &InForce) -> usize {
        self.shards.len() * buckets_of(force.space.cells as usize).max(SWEEP_LOCK_BUCKETS)
    }

    /// Brings the overflow buckets to the rules of `force`. The shards do so as they are locked with it.
    pub(crate) fn adopt_overflow(&self, now_ns: u64, force: &InForce) {
        let now = Now { ns: now_ns, unix_ns: self.unix_ns(now_ns) };
        self.overflow.lock().adopt(now, force);
    }
}

/// Shards that are locked together, at one time.
pub(crate) struct Locked<'s> {
    store: &'s Store,
    force: &'s InForce,
    shards: SmallVec<[LockedShard<'s>; 4]>,
    overflow: Option<MutexGuard<'s, Overflow>>,
    now_ns: u64,
    /// What the wall clock is ahead: the same in all that is decided here.
    wall_offset_ns: i64,
    evicted: u64,
}

struct LockedShard<'s> {
    index: usize,
    shard: MutexGuard<'s, Shard>,
    /// What this request may still add here: new entries, and ones that it found, which may be at rest
    /// and make room for another before they are written.
    promised: Space,
}

/// What a request may add to a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct More {
    /// Units at most.
    pub(crate) units: u64,
    /// It adds nothing unless they fit.
    pub(crate) must_fit: bool,
}

/// Where a bucket's state is read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a shard: at a bucket, or nowhere yet.
    Shard { at: usize, bucket: Option<Bucket> },
    /// In the overflow bucket of its limit.
    Overflow,
    /// In the overflow bucket of the carried keys that have these terms.
    OverflowOf(Terms),
    /// Nowhere: the shard is full.
    None,
}

impl Locked<'_> {
    /// The time of everything that is read here.
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Entries at rest that made room for new ones.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Finds the bucket `hash`, to which `more` may be added: its place, and the ticks missing in it.
    pub(crate) fn find(&mut self, hash: u64, shared: &SharedBucket, more: More) -> (Place, u64) {
        let index = self.store.shard_of(hash);
        let Some(at) = self.shards.iter().position(|locked| locked.index == index) else {
            return (Place::None, 0);
        };
        let locked = &mut self.shards[at];
        if let Algorithm::Level(level) = &shared.algorithm
            && let Some((bucket, entry)) = locked.shard.find(hash)
        {
            locked.promised = locked.promised.plus(Space::ONE);
            let missing = TokenBucket::missing(entry.full_at(), level.tick(self.now_ns));
            return (Place::Shard { at, bucket: Some(bucket) }, missing);
        }
        let need = locked.shard.need(hash, &shared.algorithm, more.units);
        let (missing, has_entry) = match shared.counter() {
            None => (0, false),
            Some(_) => {
                let missing = locked.shard.missing(hash, &shared.algorithm, self.now_ns);
                (missing, locked.shard.count(hash).is_some())
            }
        };
        let place = Place::Shard { at, bucket: None };
        if need != Space::NONE {
            let wanted = locked.promised.plus(need);
            let (has_room, evicted) = locked.shard.make_room(wanted, self.now_ns, self.force);
            self.evicted += evicted;
            // A key whose log has no room for the unit that would be too many is no new key: elsewhere it
            // could pass.
            let most = shared.counter().and_then(|counter| counter.most_missing(more.units));
            let fits = most.is_some_and(|most| missing <= most);
            if !has_room && has_entry && more.must_fit && !fits {
                return (place, missing);
            }
            if !has_room {
                return (Place::None, 0);
            }
        }
        let entry = if has_entry { Space::COUNT } else { Space::NONE };
        locked.promised = locked.promised.plus(entry).plus(need);
        (place, missing)
    }

    /// Whether there is room for `units` more of the bucket `hash` where they are charged while members
    /// are missing. It is this request's from now on.
    pub(crate) fn promise_charge(&mut self, hash: u64, shared: &SharedBucket, units: u64) -> bool {
        let index = self.store.shard_of(hash);
        let Some(locked) = self.shards.iter_mut().find(|it| it.index == index) else {
            return false;
        };
        let need = locked.shard.need_of_charge(hash, &shared.algorithm, units);
        if need.cells > 0 {
            let wanted = locked.promised.plus(need);
            let (has_room, evicted) = locked.shard.make_room(wanted, self.now_ns, self.force);
            self.evicted += evicted;
            if !has_room {
                return false;
            }
            locked.promised = wanted;
        }
        true
    }

    /// As [`Locked::find`], but changes nothing: whether there would be room for a new entry, without
    /// making it.
    pub(crate) fn look(&self, hash: u64, shared: &SharedBucket) -> (Place, u64) {
        let index = self.store.shard_of(hash);
        let Some(at) = self.shards.iter().position(|locked| locked.index == index) else {
            return (Place::None, 0);
        };
        let shard = &self.shards[at].shard;
        let missing = shard.missing(hash, &shared.algorithm, self.now_ns);
        let need = shard.need(hash, &shared.algorithm, 1);
        if shard.has_entry(hash, &shared.algorithm)
            || shard.could_make_room(need, self.now_ns, self.force)
        {
            (Place::Shard { at, bucket: None }, missing)
        } else {
            (Place::None, 0)
        }
    }

    /// Both clocks.
    pub(crate) fn now(&self) -> Now {
        let unix_ns = self.now_ns.saturating_add_signed(self.wall_offset_ns);
        Now { ns: self.now_ns, unix_ns }
    }

    /// What counts in the bucket `hash` of `slot`, which is at `place`.
    pub(crate) fn count(&self, place: Place, hash: u64, slot: Slot) -> Option<&Count> {
        match place {
            Place::Shard { at, .. } => self.shards.get(at)?.shard.count(hash),
            Place::Overflow => self.overflow.as_ref()?.count(slot),
            Place::OverflowOf(_) | Place::None => None,
        }
    }

    /// Changes what counts in the bucket `hash` of `slot`, which is at `place`.
    pub(crate) fn change_count<R>(
        &mut self,
        place: Place,
        (slot, hash): (Slot, u64),
        counter: &Counter,
        act: impl FnOnce(&mut Count) -> R,
    ) -> Option<R> {
        let now = self.now();
        match place {
            Place::Shard { at, .. } => {
                let bucket = BucketOf { slot, hash };
                let locked = self.shards.get_mut(at)?;
                Some(locked.shard.change_count(bucket, counter, now.ns, act))
            }
            Place::Overflow => Some(self.overflow.as_mut()?.change_count(slot, counter, now, act)),
            Place::OverflowOf(_) | Place::None => None,
        }
    }

    /// The members, as the shards that are locked see them; none on a node of its own.
    pub(crate) fn view(&self) -> Option<&View> {
        self.shards.first()?.shard.ledger().map(|ledger| &*ledger.view)
    }

    /// How many members there are.
    pub(crate) fn members(&self) -> usize {
        self.view().map_or(1, View::size)
    }

    /// What the shard of `hash` holds beside, on a member of a cluster.
    pub(crate) fn ledger_of(&self, hash: u64) -> Option<&Ledger> {
        let index = self.store.shard_of(hash);
        let locked = self.shards.iter().find(|locked| locked.index == index)?;
        locked.shard.ledger()
    }

    /// The shard of `hash`, if it is locked.
    pub(crate) fn shard_of(&mut self, hash: u64) -> Option<&mut Shard> {
        let index = self.store.shard_of(hash);
        let locked = self.shards.iter_mut().find(|locked| locked.index == index)?;
        Some(&mut *locked.shard)
    }

    /// The overflow bucket of `slot`, and the ticks missing in it.
    pub(crate) fn find_overflow(&mut self, slot: Slot, shared: &SharedBucket) -> (Place, u64) {
        let now = self.now();
        (Place::Overflow, self.overflow().missing(slot, &shared.algorithm, now))
    }

    /// The overflow buckets, locked from the first time on.
    fn overflow(&mut self) -> &mut Overflow {
        let (now, store, force) = (self.now(), self.store, self.force);
        self.overflow.get_or_insert_with(|| {
            let mut overflow = store.overflow.lock();
            overflow.enter(now, force);
            overflow
        })
    }

    /// Writes the state of a bucket: the tick at which it is full.
    pub(crate) fn write(&mut self, place: Place, hash: u64, slot: Slot, full_at: u64) {
        match place {
            Place::Shard { at, bucket } => {
                self.shards[at].shard.write(hash, slot, full_at, bucket);
            }
            Place::Overflow => {
                if let Some(overflow) = &mut self.overflow {
                    overflow.write(slot, full_at);
                }
            }
            Place::OverflowOf(terms) => {
                let now_ns = self.now_ns;
                if let Some(overflow) = &mut self.overflow {
                    overflow.write_of(terms, full_at, now_ns);
                }
            }
            Place::None => {}
        }
    }

    /// Forgets the state of a bucket: it is full.
    pub(crate) fn remove(&mut self, place: Place, hash: u64, slot: Slot) {
        match place {
            Place::Shard { at, .. } => {
                self.shards[at].shard.remove(hash);
                self.shards[at].shard.remove_count(hash);
            }
            Place::Overflow => {
                if let Some(overflow) = &mut self.overflow {
                    overflow.remove(slot);
                }
            }
            Place::OverflowOf(terms) => {
                if let Some(overflow) = &mut self.overflow {
                    overflow.remove_of(terms);
                }
            }
            Place::None => {}
        }
    }
}
