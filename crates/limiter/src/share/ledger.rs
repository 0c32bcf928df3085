//! What a shard holds beside its entries on a member of a cluster: the buckets in motion, the charges,
//! and the buckets that have something to tell.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use hashbrown::HashTable;

use super::charge::Charge;
use super::delta::Bucket;
use super::motion::Motion;
use super::stand::{Burden, SharedBucket};
use super::view::View;
use crate::algorithm::Now;
use crate::force::InForce;

/// Time between two looks for rows at rest in a ledger that is full.
const RETAIN_EVERY_NS: u64 = 50_000_000;
/// The same in one that is not: what a row at rest still knows of demand is forgotten with it, and what
/// is forgotten within the fading must not add up.
const DROP_EVERY_NS: u64 = 1_000_000_000;

/// Bytes that a row of each kind takes, with its place in the list of what has something to tell.
pub(crate) const MEMBER_ROW_BYTES: usize =
    (size_of::<Motion>() + size_of::<Charge>() + 2) * 8 / 7 + size_of::<Bucket>();

/// The ledger of one shard.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// The members, the same in every shard.
    pub(crate) view: Arc<View>,
    motions: HashTable<Motion>,
    charges: HashTable<Charge>,
    /// Buckets that the next tick carries.
    pub(crate) dirty: Vec<Bucket>,
    /// Most rows of either kind.
    rows_max: usize,
    /// Bytes that rows take beside their tables: the times of logs.
    heap_bytes: usize,
    /// Time of the last look for motions at rest.
    retained_ns: u64,
}

impl Ledger {
    pub(crate) fn new(view: Arc<View>, rows_max: usize) -> Self {
        Self {
            view,
            motions: HashTable::new(),
            charges: HashTable::new(),
            dirty: Vec::new(),
            rows_max,
            heap_bytes: 0,
            retained_ns: 0,
        }
    }

    pub(crate) fn motion(&mut self, hash: u64) -> Option<Row<'_, Motion>> {
        let row = self.motions.find_mut(hash, |motion| motion.bucket.hash == hash)?;
        Some(Row::new(row, Motion::heap_bytes, &mut self.heap_bytes))
    }

    pub(crate) fn motion_ref(&self, hash: u64) -> Option<&Motion> {
        self.motions.find(hash, |motion| motion.bucket.hash == hash)
    }

    /// The motion of `bucket`, made if there is none; none if there is no room.
    pub(crate) fn motion_or_new(&mut self, bucket: Bucket, now_ns: u64) -> Option<Row<'_, Motion>> {
        if self.motions.find(bucket.hash, |motion| motion.bucket.hash == bucket.hash).is_none() {
            if self.motions.len() >= self.rows_max
                && now_ns.saturating_sub(self.retained_ns) >= RETAIN_EVERY_NS
            {
                self.drop_motions_at_rest(now_ns);
            }
            if self.motions.len() >= self.rows_max {
                return None;
            }
            let motion = Motion::new(bucket, now_ns);
            self.motions.insert_unique(bucket.hash, motion, |motion| motion.bucket.hash);
        }
        self.motion(bucket.hash)
    }

    /// Drops the motions with which nothing would be lost, unless it did so a moment ago.
    pub(crate) fn drop_motions_if_due(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.retained_ns) >= DROP_EVERY_NS {
            self.drop_motions_at_rest(now_ns);
        }
    }

    fn drop_motions_at_rest(&mut self, now_ns: u64) {
        self.retained_ns = now_ns;
        self.motions.retain(|motion| {
            motion.fade(now_ns);
            !motion.is_at_rest()
        });
        if self.motions.capacity() > 64 && self.motions.len() < self.motions.capacity() / 4 {
            self.motions.shrink_to(self.motions.len() * 2, |motion| motion.bucket.hash);
        }
        self.recount();
    }

    /// Counts anew what all rows take beside their tables. Comes after they were changed all at once.
    pub(crate) fn recount(&mut self) {
        let motions = self.motions.iter().map(Motion::heap_bytes).sum::<usize>();
        self.heap_bytes = motions + self.charges.iter().map(Charge::heap_bytes).sum::<usize>();
    }

    /// Makes the rows those of the rules of `force`. Those whose bucket has numbers of its own (`is_own`) keep
    /// them.
    pub(crate) fn adopt(&mut self, force: &InForce, is_own: impl Fn(u64) -> bool, now: Now) {
        let renumbered = |bucket: Bucket| {
            let from = force.renumbered(bucket.slot).filter(|_| !is_own(bucket.hash))?;
            Some((from, force.shared(bucket.slot)?))
        };
        self.dirty.retain(|bucket| !force.is_removed(bucket.slot));
        self.motions.retain(|motion| {
            if let Some((from, to)) = renumbered(motion.bucket) {
                motion.convert(from, to);
            }
            !force.is_removed(motion.bucket.slot)
        });
        self.charges.retain(|charge| {
            if let Some((from, to)) = renumbered(charge.bucket) {
                charge.convert(from, to, now);
            }
            !force.is_removed(charge.bucket.slot) && !charge.is_settled()
        });
        self.recount();
    }

    pub(crate) fn motions_mut(&mut self) -> impl Iterator<Item = &mut Motion> {
        self.motions.iter_mut()
    }

    pub(crate) fn charge(&mut self, hash: u64) -> Option<Row<'_, Charge>> {
        let row = self.charges.find_mut(hash, |charge| charge.bucket.hash == hash)?;
        Some(Row::new(row, Charge::heap_bytes, &mut self.heap_bytes))
    }

    pub(crate) fn charge_ref(&self, hash: u64) -> Option<&Charge> {
        self.charges.find(hash, |charge| charge.bucket.hash == hash)
    }

    /// What is charged to the bucket `hash`.
    pub(crate) fn burden(&self, hash: u64) -> Burden {
        if self.charges.is_empty() {
            return Burden::default();
        }
        self.charge_ref(hash).map_or_else(Burden::default, Charge::burden)
    }

    pub(crate) fn has_charge(&self, hash: u64) -> bool {
        !self.charges.is_empty() && self.charge_ref(hash).is_some()
    }

    /// The charge of `bucket`, made if there is none; none if there is no room.
    pub(crate) fn charge_or_new(&mut self, bucket: Bucket, now_ns: u64) -> Option<Row<'_, Charge>> {
        if !self.has_charge(bucket.hash) {
            if self.charges.len() >= self.rows_max {
                return None;
            }
            let charge = Charge::new(bucket, now_ns);
            self.charges.insert_unique(bucket.hash, charge, |charge| charge.bucket.hash);
        }
        self.charge(bucket.hash)
    }

    /// Whether a spend of the bucket `hash` would find its rows: a motion, and a charge while members are
    /// missing. Motions at rest, which could give way, count as taken.
    pub(crate) fn has_room_for(&self, hash: u64) -> bool {
        let has_motion = self.motions.len() < self.rows_max || self.motion_ref(hash).is_some();
        has_motion && (self.view.is_whole() || self.has_room_for_charge(hash))
    }

    pub(crate) fn has_room_for_charge(&self, hash: u64) -> bool {
        self.charges.len() < self.rows_max || self.has_charge(hash)
    }

    /// Buckets with a charge.
    pub(crate) fn charged(&self) -> Vec<Bucket> {
        self.charges.iter().map(|charge| charge.bucket).collect()
    }

    pub(crate) fn charges(&self) -> impl Iterator<Item = &Charge> {
        self.charges.iter()
    }

    pub(crate) fn charges_mut(&mut self) -> impl Iterator<Item = &mut Charge> {
        self.charges.iter_mut()
    }

    /// Drops the charges that nothing is left of.
    pub(crate) fn drop_settled_charges(&mut self) {
        self.charges.retain(|charge| !charge.is_settled());
        if self.charges.is_empty() {
            self.charges = HashTable::new();
        }
        self.recount();
    }

    pub(crate) fn remove_charge(&mut self, hash: u64) {
        if let Ok(charge) = self.charges.find_entry(hash, |charge| charge.bucket.hash == hash) {
            let (charge, _) = charge.remove();
            self.heap_bytes = self.heap_bytes.saturating_sub(charge.heap_bytes());
        }
    }

    /// All charges, which are no longer here.
    pub(crate) fn take_charges(&mut self) -> impl Iterator<Item = Charge> {
        let charges = std::mem::take(&mut self.charges);
        self.recount();
        charges.into_iter()
    }

    pub(crate) fn lens(&self) -> (usize, usize) {
        (self.motions.len(), self.charges.len())
    }

    pub(crate) fn bytes(&self) -> usize {
        self.motions.allocation_size() + self.charges.allocation_size() + self.heap_bytes
    }

    /// Bytes that rows take beside their tables.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.heap_bytes
    }

    pub(crate) fn rows_max(&self) -> usize {
        self.rows_max
    }
}

/// A row that may be changed. What it takes beside its table is counted when that is done.
pub(crate) struct Row<'l, T> {
    row: &'l mut T,
    bytes: fn(&T) -> usize,
    before: usize,
    all: &'l mut usize,
}

impl<'l, T> Row<'l, T> {
    fn new(row: &'l mut T, bytes: fn(&T) -> usize, all: &'l mut usize) -> Self {
        let before = bytes(row);
        Self { row, bytes, before, all }
    }
}

impl<T> Deref for Row<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.row
    }
}

impl<T> DerefMut for Row<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.row
    }
}

impl<T> Drop for Row<'_, T> {
    fn drop(&mut self) {
        *self.all = (*self.all + (self.bytes)(self.row)).saturating_sub(self.before);
    }
}

/// Lets the refill that a full level could not take pay the charge of `hash` back, up to `now`; or lets
/// the charge of a bucket that counts age. `full_at` is the tick at which the level is or was full; none:
/// long ago.
pub(crate) fn drain(
    ledger: &mut Ledger,
    shared: &SharedBucket,
    hash: u64,
    full_at: Option<u64>,
    now: Now,
) {
    let (n, size) = (ledger.view.reach(), ledger.view.size());
    let Some(mut charge) = ledger.charge(hash) else { return };
    match shared.counter() {
        None => {
            let refilled = refill(&charge, shared, full_at, now.ns);
            charge.drain(now.ns, refilled, n, size);
        }
        Some(counter) => charge.age(counter, now),
    }
    let is_settled = charge.is_settled();
    drop(charge);
    if is_settled {
        ledger.remove_charge(hash);
    }
}

/// Ticks that flowed since the last drain of `charge` while the level, full since the tick `full_at`,
/// was full.
pub(super) fn refill(
    charge: &Charge,
    shared: &SharedBucket,
    full_at: Option<u64>,
    now_ns: u64,
) -> u128 {
    let Some(level) = shared.level() else { return 0 };
    let since_drain = level.elapsed(now_ns.saturating_sub(charge.drained_ns()));
    let since_full = full_at.map_or(u128::MAX, |full_at| {
        let passed = level.tick(now_ns).wrapping_sub(full_at).cast_signed();
        u128::from(u64::try_from(passed).unwrap_or(0))
    });
    since_drain.min(since_full)
}
