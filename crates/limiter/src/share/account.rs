//! One bucket on a member of a cluster: its level, its charge and its motion, read and changed under
//! the lock of its shard.

use super::delta::{Bucket, When};
use super::ledger::{Ledger, Row, drain};
use super::members::Members;
use super::motion::Motion;
use super::stand::Stand;
use crate::algorithm::{Count, Counter, Now};
use crate::store::{Held, Shard, Space};

/// A bucket and the shard it lives in, at one time.
pub(crate) struct Account<'a> {
    shard: &'a mut Shard,
    shared: Held<'a>,
    bucket: Bucket,
    now_ns: u64,
}

/// Units with the times that they belong to.
pub(crate) type Parts = Vec<(When, u64)>;

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
        shared: Held<'a>,
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
        shared: Held<'a>,
        bucket: Bucket,
        now_ns: u64,
    ) -> Option<Self> {
        shard.ledger()?;
        Some(Self { shard, shared, bucket, now_ns })
    }

    fn touch(&mut self) {
        let (now_ns, hash) = (self.now_ns, self.bucket.hash);
        if let Some(mut motion) = self.motion() {
            motion.fade(now_ns);
        }
        if !self.shard.ledger().is_some_and(|ledger| ledger.has_charge(hash)) {
            return;
        }
        let full_at = self.shard.find(hash).map(|(_, entry)| entry.full_at());
        let (shared, now) = (self.shared(), self.now());
        if let Some(ledger) = self.ledger() {
            drain(ledger, &shared, hash, full_at, now);
        }
    }

    pub(crate) fn ledger(&mut self) -> Option<&mut Ledger> {
        self.shard.ledger_mut()
    }

    /// The motion, if the bucket has one.
    pub(crate) fn motion(&mut self) -> Option<Row<'_, Motion>> {
        let hash = self.bucket.hash;
        self.ledger()?.motion(hash)
    }

    /// The motion, made if there is none; none if there is no room.
    pub(crate) fn motion_or_new(&mut self) -> Option<Row<'_, Motion>> {
        let (bucket, now_ns) = (self.bucket, self.now_ns);
        self.ledger()?.motion_or_new(bucket, now_ns)
    }

    /// Puts the bucket among those that the next tick carries.
    pub(crate) fn mark_dirty(&mut self) {
        let bucket = self.bucket;
        let Some(ledger) = self.ledger() else { return };
        let motion = ledger.motion(bucket.hash);
        if motion.is_some_and(|mut motion| !std::mem::replace(&mut motion.is_dirty, true)) {
            ledger.dirty.push(bucket);
        }
    }

    /// Asks for an early flush; true if the bucket must be put among those that did. While a batch
    /// that carries it is open, the wish waits for that batch.
    pub(crate) fn ask_early(&mut self) -> bool {
        let Some(mut motion) = self.motion() else { return false };
        if motion.opens > 0 {
            motion.is_again = true;
            return false;
        }
        !std::mem::replace(&mut motion.is_early, true)
    }

    /// Ticks missing until the common level is full.
    pub(crate) fn missing(&self) -> u64 {
        self.shard.missing(self.bucket.hash, &self.shared.algorithm, self.now_ns)
    }

    /// Both clocks.
    pub(crate) fn now(&self) -> Now {
        self.shard.now(self.now_ns)
    }

    /// Where in time a spend of this moment belongs.
    pub(crate) fn when(&self) -> When {
        let count = || self.shard.count(self.bucket.hash);
        self.shared.counter().map_or(When::Untimed, |it| it.when(count(), self.now()))
    }

    /// How many of the first times of what this node has told nobody yet can count nowhere any more.
    pub(crate) fn dead_times(&self) -> usize {
        let Some(counter) = self.shared.counter() else { return 0 };
        let motion = self.shard.ledger().and_then(|ledger| ledger.motion_ref(self.bucket.hash));
        let times = motion.map_or(&[][..], |motion| motion.unpublished_times());
        let counts = |when| counter.counts(self.count(), when, self.now());
        times.iter().take_while(|(when, _)| !counts(*when)).count()
    }

    /// What counts in the common level, where the algorithm counts.
    pub(crate) fn count(&self) -> Option<&Count> {
        self.shard.count(self.bucket.hash)
    }

    /// The common level, in ticks; negative in debt.
    pub(crate) fn common_level(&self) -> i128 {
        self.shared.full() - i128::from(self.missing())
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
        let (level, hash, shared) = (self.common_level(), self.bucket.hash, &*self.shared);
        let Some(ledger) = self.shard.ledger() else {
            return Stand::lone(shared, level);
        };
        let (burden, motion) = (ledger.burden(hash), ledger.motion_ref(hash));
        let view = (&*ledger.view, is_alive);
        Stand::seen(shared, hash, level, burden, motion, view, sync_interval_ns)
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
        let full = self.shared.full();
        let below = full - self.level();
        self.whole_units(below)
    }

    /// Units by which the level is below full, one of which a part is missing among them.
    pub(crate) fn units_used(&mut self) -> i64 {
        let (full, unit) = (self.shared.full(), i128::from(self.shared.per_unit()));
        let below = full - self.level();
        self.whole_units(below + unit - 1)
    }

    /// Whole units until the deepest debt that debits may make: one burst.
    pub(crate) fn units_to_deepest_debt(&mut self) -> i64 {
        let full = self.shared.full();
        let left = self.level() + full;
        self.whole_units(left)
    }

    fn whole_units(&self, ticks: i128) -> i64 {
        let units = ticks.max(0) / i128::from(self.shared.per_unit());
        i64::try_from(units).unwrap_or(i64::MAX)
    }

    /// Which bucket it is.
    pub(crate) fn bucket(&self) -> Bucket {
        self.bucket
    }

    /// Counts `ticks` that were spent at `when`, by whomever: in the common level, or, while members are
    /// missing, apart from it.
    pub(crate) fn charge(&mut self, ticks: i128, when: When) -> Charged {
        let (bucket, now_ns, shared) = (self.bucket, self.now_ns, self.shared());
        let Some(ledger) = self.ledger() else { return Charged::Dropped };
        if ledger.view.is_whole() {
            return self.lower(ticks, when);
        }
        let missing_max = shared.missing_max(ledger.view.size());
        let least = -i64::try_from(self.missing()).unwrap_or(i64::MAX);
        let now = self.now();
        let has_room = self.has_room_to_charge(ticks);
        let row = self.ledger().filter(|_| has_room);
        let Some(mut charge) = row.and_then(|ledger| ledger.charge_or_new(bucket, now_ns)) else {
            // No row is free. Taken from the common level it weighs n/N of what it should on this
            // group's part; forgotten it would weigh nothing.
            return self.lower(ticks, when);
        };
        let Some(counter) = shared.counter() else {
            // Units given back fill the level and no more, as they do while nobody is missing: what was
            // refilled for them meanwhile is not kept for later.
            charge.ticks = charge.ticks.max(least);
            let is_clipped = charge.add(ticks, missing_max);
            charge.ticks = charge.ticks.max(least);
            let relief = charge.relief();
            charge.set_relief(relief);
            return if is_clipped { Charged::Clipped } else { Charged::Whole };
        };
        let units = shared.within(ticks, missing_max, charge.ticks);
        let added = charge.change_count(counter, now, |it| counter.add(it, when, units, now));
        drop(charge);
        // What was given back of spends that everybody knows counts no longer in the common level.
        match shared.signed_ticks(units - added) {
            0 if shared.signed_ticks(units) < ticks => Charged::Clipped,
            0 => Charged::Whole,
            rest => self.lower(rest, when),
        }
    }

    /// Adds `ticks` of the time `when` to the charge, members missing or not, within the deepest debt;
    /// false if there is no room to.
    pub(crate) fn add_charge(&mut self, ticks: i128, when: When) -> bool {
        let (bucket, now_ns, shared, now) = (self.bucket, self.now_ns, self.shared(), self.now());
        let missing_max = shared.missing_max(self.members());
        if !self.has_room_to_charge(ticks) {
            return false;
        }
        let charge = self.ledger().and_then(|ledger| ledger.charge_or_new(bucket, now_ns));
        let Some(mut charge) = charge else { return false };
        match shared.counter() {
            None => drop(charge.add(ticks, missing_max)),
            Some(counter) => {
                let units = shared.within(ticks, missing_max, charge.ticks);
                charge.change_count(counter, now, |it| counter.add(it, when, units, now));
            }
        }
        true
    }

    /// Whether there is room to charge `ticks`, in a row that there is or may be.
    fn has_room_to_charge(&mut self, ticks: i128) -> bool {
        let missing_max = self.shared.missing_max(self.members());
        let charged = self.charged();
        let units = self.shared.within(ticks, missing_max, charged);
        let units = u64::try_from(units).unwrap_or(0);
        let need = self.shard.need_of_charge(self.bucket.hash, &self.shared.algorithm, units);
        // What fits into the memory that the row has needs no room, however full the shard is.
        units == 0 || need == Space::NONE || self.shard.has_room(need)
    }

    /// Makes the charge `ticks`, within the deepest debt.
    pub(crate) fn set_charge(&mut self, ticks: i128) {
        let was = i128::from(self.charged());
        if ticks != was {
            self.add_charge(ticks - was, When::Untimed);
        }
    }

    /// Charges nothing any more of a bucket that counts; what is owed stays.
    pub(crate) fn clear_charge_count(&mut self, counter: &Counter) {
        let (hash, now) = (self.bucket.hash, self.now());
        if let Some(mut charge) = self.ledger().and_then(|ledger| ledger.charge(hash)) {
            charge.change_count(counter, now, |it| *it = counter.fresh(now));
        }
    }

    /// What is charged, where the algorithm counts.
    pub(crate) fn charged_count(&self) -> Option<&Count> {
        self.shard.ledger()?.charge_ref(self.bucket.hash)?.count()
    }

    /// Moves what is in the charge's `count` back into the common level.
    pub(crate) fn absorb(&mut self, counter: &Counter, count: &Count) {
        for (when, units) in counter.parts(count, self.now()) {
            self.lower(self.shared.ticks(units), when);
        }
    }

    /// Takes up to `units` off what counts, the newest first; gives what was taken. `u64::MAX`:
    /// everything.
    pub(crate) fn give_back(&mut self, counter: &Counter, units: u64) -> Vec<(When, u64)> {
        let (hash, now) = (self.bucket.hash, self.now());
        let mut taken = Vec::new();
        if let Some(mut charge) = self.ledger().and_then(|ledger| ledger.charge(hash)) {
            taken.extend(charge.change_count(counter, now, |it| counter.give_back(it, units, now)));
        }
        let left = match units {
            u64::MAX => u64::MAX,
            units => units - taken.iter().map(|(_, units)| *units).sum::<u64>(),
        };
        if left > 0 && self.count().is_some() {
            let (bucket, now_ns) = (self.bucket, self.now_ns);
            let give_back = |it: &mut Count| counter.give_back(it, left, now);
            taken.extend(self.shard.change_count(bucket, counter, now_ns, give_back));
        }
        taken
    }

    /// Shrinks what is owed to any of `peers` to `part` of `whole`.
    pub(crate) fn shrink_owed_to(&mut self, peers: Members, part: i128, whole: i128) {
        let hash = self.bucket.hash;
        if let Some(mut charge) = self.ledger().and_then(|ledger| ledger.charge(hash)) {
            charge.shrink_owed_to(peers, part, whole);
        }
    }

    /// Lowers the common level by `ticks`, spent at `when`, to the deepest debt at most; a negative number
    /// raises it, to full at most.
    pub(crate) fn lower(&mut self, ticks: i128, when: When) -> Charged {
        let missing_max = self.shared.missing_max(self.members());
        if let Some(counter) = self.shared().counter() {
            return self.lower_count(counter, ticks, when, missing_max);
        }
        let wanted = i128::from(self.missing()) + ticks;
        let kept = wanted.clamp(0, i128::from(missing_max));
        if !self.write_missing(u64::try_from(kept).unwrap_or(u64::MAX >> 1)) {
            return Charged::Dropped;
        }
        if wanted > kept { Charged::Clipped } else { Charged::Whole }
    }

    fn lower_count(
        &mut self,
        counter: &Counter,
        ticks: i128,
        when: When,
        missing_max: u64,
    ) -> Charged {
        let (bucket, shared, now) = (self.bucket, self.shared(), self.now());
        let missing = i64::try_from(self.missing()).unwrap_or(i64::MAX);
        let units = shared.within(ticks, missing_max, missing);
        if units < 0 && self.count().is_none() {
            return Charged::Whole;
        }
        let need = self.shard.need(bucket.hash, &shared.algorithm, units.max(0).unsigned_abs());
        if units > 0 && need != Space::NONE && !self.shard.has_room(need) {
            return Charged::Dropped;
        }
        let add = |it: &mut Count| counter.add(it, when, units, now);
        self.shard.change_count(bucket, counter, now.ns, add);
        if shared.signed_ticks(units) < ticks { Charged::Clipped } else { Charged::Whole }
    }

    /// Takes up to `units` that were spent at `when` off the common level of a bucket that counts; gives how
    /// many.
    pub(crate) fn take(&mut self, counter: &Counter, when: When, units: u64) -> u64 {
        if self.count().is_none() {
            return 0;
        }
        let (bucket, now) = (self.bucket, self.now());
        let units = i64::try_from(units).unwrap_or(i64::MAX);
        let take = |it: &mut Count| counter.add(it, when, -units, now);
        self.shard.change_count(bucket, counter, now.ns, take).unsigned_abs()
    }

    /// The same, but off the charge first, while members are missing.
    pub(crate) fn take_given(&mut self, counter: &Counter, when: When, units: u64) -> u64 {
        let (hash, now) = (self.bucket.hash, self.now());
        let wanted = i64::try_from(units).unwrap_or(i64::MAX);
        let take = |it: &mut Count| counter.add(it, when, -wanted, now).unsigned_abs();
        let charge = self.ledger().and_then(|ledger| ledger.charge(hash));
        let taken = charge.map_or(0, |mut charge| charge.change_count(counter, now, take));
        taken + self.take(counter, when, units - taken)
    }

    /// What counts in the common level of a bucket that counts, and what is charged, less what this node has
    /// told nobody yet.
    ///
    /// Of that, what was spent while members were missing is charged, and what was spent before is in the
    /// common level. It is taken off the charge as far as it can be: together the two are right.
    pub(crate) fn told_parts(&self, counter: &Counter) -> (Parts, Parts) {
        let (mut common, mut charged) = (self.count().cloned(), self.charged_count().cloned());
        let motion = self.shard.ledger().and_then(|ledger| ledger.motion_ref(self.bucket.hash));
        let (times, now) =
            (motion.map_or(&[][..], |motion| motion.unpublished_times()), self.now());
        let counts = |(when, _): &&(When, i64)| counter.counts(self.count(), *when, now);
        // What was given back comes first: a count that it left at nothing has room for what was spent.
        let (given, spent): (Vec<&(When, i64)>, Vec<_>) =
            times.iter().filter(counts).partition(|(_, units)| *units < 0);
        for (when, units) in given.into_iter().chain(spent) {
            let taken = charged.as_mut().map_or(0, |it| counter.add(it, *when, -units, now));
            let left = -units - taken;
            if left != 0 {
                let common = common.get_or_insert_with(|| counter.fresh(now));
                counter.add(common, *when, left, now);
            }
        }
        let parts = |count: Option<Count>| match count {
            Some(count) => counter.parts(&count, now),
            None => Parts::new(),
        };
        (parts(common), parts(charged))
    }

    /// Makes `parts` all that counts in the common level of a bucket that counts.
    pub(crate) fn set_count(&mut self, parts: &[(When, u64)]) {
        self.shard.remove_count(self.bucket.hash);
        for (when, units) in parts {
            self.lower(self.shared.ticks(*units), *when);
        }
    }

    /// Notes that `missing` ticks are missing; false if there is no room to.
    pub(crate) fn write_missing(&mut self, missing: u64) -> bool {
        let (Bucket { slot, hash }, full_at) = (self.bucket, self.tick().wrapping_add(missing));
        match self.shard.find(hash) {
            Some((at, _)) => self.shard.write(hash, slot, full_at, Some(at)),
            None if missing == 0 => {}
            None if self.shard.has_room(Space::ONE) => self.shard.write(hash, slot, full_at, None),
            None => return false,
        }
        true
    }

    /// Notes that `peers` may not know `ticks` of the time `when` that the batch `seq` carried; false if
    /// there is no room to.
    pub(crate) fn owe(&mut self, (peers, seq): (Members, u64), when: When, ticks: i64) -> bool {
        let (bucket, now_ns, shared) = (self.bucket, self.now_ns, self.shared());
        let charge = self.ledger().and_then(|ledger| ledger.charge_or_new(bucket, now_ns));
        charge.map(|mut it| it.owe(shared.counter(), (peers, seq), when, ticks)).is_some()
    }

    /// The numbers by which it counts.
    pub(crate) fn shared(&self) -> Held<'a> {
        self.shared.clone()
    }

    fn tick(&self) -> u64 {
        self.shared.level().map_or(0, |level| level.tick(self.now_ns))
    }
}
