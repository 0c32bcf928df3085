//! One bucket on a member of a cluster: its level, its charge and its motion, read and changed under
//! the lock of its shard.

use super::charge::Charge;
use super::delta::Bucket;
use super::ledger::Ledger;
use super::members::Members;
use super::motion::Motion;
use super::stand::{SharedBucket, Stand};
use crate::algorithm::TokenBucket;
use crate::store::Shard;

/// A bucket and the shard it lives in, at one time.
pub(crate) struct Account<'a> {
    shard: &'a mut Shard,
    shared: SharedBucket,
    bucket: Bucket,
    now_ns: u64,
}

/// What became of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charged {
    /// All of it counts.
    Whole,
    /// It was cut at the bound of the bucket's debt.
    Clipped,
    /// There was no room to count it.
    Dropped,
}

impl<'a> Account<'a> {
    /// The account of `bucket`, with demand faded and the charge drained up to `now_ns`. None on a
    /// shard that belongs to no member of a cluster.
    pub(crate) fn open(
        shard: &'a mut Shard,
        shared: SharedBucket,
        bucket: Bucket,
        now_ns: u64,
    ) -> Option<Self> {
        let mut account = Self::reopen(shard, shared, bucket, now_ns)?;
        account.touch();
        Some(account)
    }

    /// The same for one that was opened before at this very time, under the same lock.
    pub(crate) fn reopen(
        shard: &'a mut Shard,
        shared: SharedBucket,
        bucket: Bucket,
        now_ns: u64,
    ) -> Option<Self> {
        shard.ledger()?;
        Some(Self { shard, shared, bucket, now_ns })
    }

    fn touch(&mut self) {
        let (now_ns, hash) = (self.now_ns, self.bucket.hash);
        if let Some(motion) = self.motion() {
            motion.fade(now_ns);
        }
        if !self.shard.ledger().is_some_and(|ledger| ledger.has_charge(hash)) {
            return;
        }
        let full_at = self.shard.find(hash).map(|(_, entry)| entry.full_at());
        let shared = self.shared;
        if let Some(ledger) = self.ledger() {
            drain(ledger, &shared, hash, full_at, now_ns);
        }
    }

    pub(crate) fn ledger(&mut self) -> Option<&mut Ledger> {
        self.shard.ledger_mut()
    }

    /// The motion, if the bucket has one.
    pub(crate) fn motion(&mut self) -> Option<&mut Motion> {
        let hash = self.bucket.hash;
        self.ledger()?.motion(hash)
    }

    /// The motion, made if there is none; none if there is no room.
    pub(crate) fn motion_or_new(&mut self) -> Option<&mut Motion> {
        let (bucket, now_ns) = (self.bucket, self.now_ns);
        self.ledger()?.motion_or_new(bucket, now_ns)
    }

    /// Puts the bucket among those that the next tick carries.
    pub(crate) fn mark_dirty(&mut self) {
        let bucket = self.bucket;
        let Some(ledger) = self.ledger() else { return };
        if let Some(motion) = ledger.motion(bucket.hash)
            && !motion.is_dirty
        {
            motion.is_dirty = true;
            ledger.dirty.push(bucket);
        }
    }

    /// Asks for an early flush; true if the bucket must be put among those that did. While a batch
    /// that carries it is open, the wish waits for that batch.
    pub(crate) fn ask_early(&mut self) -> bool {
        let Some(motion) = self.motion() else { return false };
        if motion.opens > 0 {
            motion.is_again = true;
            return false;
        }
        !std::mem::replace(&mut motion.is_early, true)
    }

    /// Ticks missing until the common level is full.
    pub(crate) fn missing(&self) -> u64 {
        let full_at = self.shard.find(self.bucket.hash).map(|(_, entry)| entry.full_at());
        full_at.map_or(0, |full_at| TokenBucket::missing(full_at, self.tick()))
    }

    /// The common level, in ticks; negative in debt.
    pub(crate) fn common_level(&self) -> i128 {
        self.shared.ticks(self.shared.bucket.burst()) - i128::from(self.missing())
    }

    /// Ticks charged, without relief.
    pub(crate) fn charged(&mut self) -> i64 {
        let hash = self.bucket.hash;
        self.ledger().and_then(|ledger| ledger.charge(hash)).map_or(0, |charge| charge.ticks)
    }

    /// The level that all nodes should agree on.
    pub(crate) fn level(&mut self) -> i128 {
        self.common_level() - i128::from(self.charged())
    }

    /// Where the bucket stands in its group; in a group of one if the sync side does not run
    /// (`is_alive`), so that nothing is known of peers.
    pub(crate) fn stand(&self, is_alive: bool, sync_interval_ns: u64) -> Stand {
        let (level, hash, shared) = (self.common_level(), self.bucket.hash, self.shared);
        let Some(ledger) = self.shard.ledger() else {
            return Stand::lone(&shared, level);
        };
        let (burden, motion) = (ledger.burden(hash), ledger.motion_ref(hash));
        let view = (&*ledger.view, is_alive);
        Stand::seen(&shared, hash, level, burden, motion, view, sync_interval_ns)
    }

    /// How many members there are.
    pub(crate) fn members(&self) -> usize {
        self.shard.ledger().map_or(1, |ledger| ledger.view.size())
    }

    /// Whether there is room for what a spend changes: the motion, which is made if there is none,
    /// and, while members are missing, the charge.
    pub(crate) fn has_room_to_change(&mut self) -> bool {
        let hash = self.bucket.hash;
        let has_room =
            self.shard.ledger().is_some_and(|l| l.view.is_whole() || l.has_room_for_charge(hash));
        has_room && self.motion_or_new().is_some()
    }

    /// Ticks spent here that are in no batch yet.
    pub(crate) fn unpublished_ticks(&self) -> i128 {
        let motion = self.shard.ledger().and_then(|ledger| ledger.motion_ref(self.bucket.hash));
        motion.map_or(0, |motion| self.shared.signed_ticks(motion.unpublished))
    }

    /// Whole units by which the level is below full.
    pub(crate) fn units_below_full(&mut self) -> i64 {
        let full = self.shared.ticks(self.shared.bucket.burst());
        let below = full - self.level();
        self.whole_units(below)
    }

    /// Whole units until the deepest debt that debits may make: one burst.
    pub(crate) fn units_to_deepest_debt(&mut self) -> i64 {
        let full = self.shared.ticks(self.shared.bucket.burst());
        let left = self.level() + full;
        self.whole_units(left)
    }

    fn whole_units(&self, ticks: i128) -> i64 {
        let units = ticks.max(0) / i128::from(self.shared.bucket.per_unit());
        i64::try_from(units).unwrap_or(i64::MAX)
    }

    /// Which bucket it is.
    pub(crate) fn bucket(&self) -> Bucket {
        self.bucket
    }

    /// Counts `ticks` that were spent, by whomever: in the common level, or, while members are
    /// missing, apart from it.
    pub(crate) fn charge(&mut self, ticks: i128) -> Charged {
        let (bucket, now_ns, shared) = (self.bucket, self.now_ns, self.shared);
        let Some(ledger) = self.ledger() else { return Charged::Dropped };
        if ledger.view.is_whole() {
            return self.lower(ticks);
        }
        let missing_max = shared.missing_max(ledger.view.size());
        let least = -i64::try_from(self.missing()).unwrap_or(i64::MAX);
        let Some(charge) = self.ledger().and_then(|l| l.charge_or_new(bucket, now_ns)) else {
            // No row is free. Taken from the common level it weighs n/N of what it should on this
            // group's part; forgotten it would weigh nothing.
            return self.lower(ticks);
        };
        // Units given back fill the level and no more, as they do while nobody is missing: what was
        // refilled for them meanwhile is not kept for later.
        charge.ticks = charge.ticks.max(least);
        let is_clipped = charge.add(ticks, missing_max);
        charge.ticks = charge.ticks.max(least);
        charge.relief = charge.relief.min(charge.ticks.max(0));
        if is_clipped { Charged::Clipped } else { Charged::Whole }
    }

    /// Adds `ticks` to the charge, members missing or not, within the deepest debt; false if there is no
    /// room to.
    pub(crate) fn add_charge(&mut self, ticks: i128) -> bool {
        let (bucket, now_ns) = (self.bucket, self.now_ns);
        let missing_max = self.shared.missing_max(self.members());
        let charge = self.ledger().and_then(|ledger| ledger.charge_or_new(bucket, now_ns));
        charge.map(|charge| charge.add(ticks, missing_max)).is_some()
    }

    /// Makes the charge `ticks`, within the deepest debt.
    pub(crate) fn set_charge(&mut self, ticks: i128) {
        let was = i128::from(self.charged());
        if ticks != was {
            self.add_charge(ticks - was);
        }
    }

    /// Shrinks what is owed to any of `peers` to `part` of `whole`.
    pub(crate) fn shrink_owed_to(&mut self, peers: Members, part: i128, whole: i128) {
        let hash = self.bucket.hash;
        if let Some(charge) = self.ledger().and_then(|ledger| ledger.charge(hash)) {
            charge.shrink_owed_to(peers, part, whole);
        }
    }

    /// Lowers the common level by `ticks`, to the deepest debt at most; a negative number raises it, to
    /// full at most.
    pub(crate) fn lower(&mut self, ticks: i128) -> Charged {
        let missing_max = i128::from(self.shared.missing_max(self.members()));
        let wanted = i128::from(self.missing()) + ticks;
        let kept = wanted.clamp(0, missing_max);
        if !self.write_missing(u64::try_from(kept).unwrap_or(u64::MAX >> 1)) {
            return Charged::Dropped;
        }
        if wanted > kept { Charged::Clipped } else { Charged::Whole }
    }

    /// Notes that `missing` ticks are missing; false if there is no room to.
    pub(crate) fn write_missing(&mut self, missing: u64) -> bool {
        let (Bucket { slot, hash }, full_at) = (self.bucket, self.tick().wrapping_add(missing));
        match self.shard.find(hash) {
            Some((at, _)) => self.shard.write(hash, slot, full_at, Some(at)),
            None if missing == 0 => {}
            None if self.shard.has_room(1) => self.shard.write(hash, slot, full_at, None),
            None => return false,
        }
        true
    }

    /// Notes that `peers` may not know `ticks` that the batch `seq` carried; false if there is no room
    /// to.
    pub(crate) fn owe(&mut self, peers: Members, seq: u64, ticks: i64) -> bool {
        let (bucket, now_ns) = (self.bucket, self.now_ns);
        let charge = self.ledger().and_then(|ledger| ledger.charge_or_new(bucket, now_ns));
        charge.map(|charge| charge.owe(peers, seq, ticks)).is_some()
    }

    pub(crate) fn shared(&self) -> &SharedBucket {
        &self.shared
    }

    fn tick(&self) -> u64 {
        self.shared.bucket.tick(self.now_ns)
    }
}

/// Lets the refill that a full level could not take pay the charge of `hash` back, up to `now_ns`.
/// `full_at` is the tick at which the level is or was full; none: long ago.
pub(crate) fn drain(
    ledger: &mut Ledger,
    shared: &SharedBucket,
    hash: u64,
    full_at: Option<u64>,
    now_ns: u64,
) {
    let (n, size) = (ledger.view.reach(), ledger.view.size());
    let Some(charge) = ledger.charge(hash) else { return };
    charge.drain(now_ns, refill(charge, shared, full_at, now_ns), n, size);
    if charge.is_settled() {
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
    let since_drain = shared.bucket.elapsed(now_ns.saturating_sub(charge.drained_ns()));
    let since_full = full_at.map_or(u128::MAX, |full_at| {
        let passed = shared.bucket.tick(now_ns).wrapping_sub(full_at).cast_signed();
        u128::from(u64::try_from(passed).unwrap_or(0))
    });
    since_drain.min(since_full)
}
