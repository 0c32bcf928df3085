//! Where a bucket stands for this node: what its group may still spend, and how much of that this
//! node may have in flight.

use super::demand::{IDLE, Scale, Share};
use super::members::MEMBERS_MAX;
use super::motion::Motion;
use super::view::View;
use crate::algorithm::{Algorithm, Counter, TokenBucket};
use crate::{Accuracy, Rate, Wait};

/// Units that the first in the bucket's order may have in flight however small its share is.
const SLACK: u64 = 1;
/// Units that it may have in flight of a bucket that nobody else asks for.
const TRUST: u64 = 1;
/// The same on every node, for a limit whose accuracy is `fast`.
const TRUST_FAST: u64 = 8;
/// See [`SharedBucket::brisk_intervals`].
const BRISK_INTERVALS: i128 = 30;
/// An early flush is asked for when a quarter of the allowance is not published.
const FLUSH_PART: i128 = 4;

/// A rule as far as shares are concerned.
#[derive(Clone, Debug)]
pub(crate) struct SharedBucket {
    pub(crate) algorithm: Algorithm,
    pub(crate) scale: Scale,
    pub(crate) accuracy: Accuracy,
    /// Capacity, in units.
    capacity: u64,
    /// Ticks in a unit.
    per_unit: u64,
}

impl SharedBucket {
    pub(crate) fn new(algorithm: Algorithm, accuracy: Accuracy) -> Self {
        let Rate { count, period_ns } = algorithm.rate();
        let (capacity, per_unit) = (algorithm.capacity(), algorithm.per_unit());
        let scale = Scale::new(count, period_ns.max(1));
        Self { algorithm, scale, accuracy, capacity, per_unit }
    }

    /// The bucket that it is, if its algorithm keeps a level.
    pub(crate) fn level(&self) -> Option<&TokenBucket> {
        match &self.algorithm {
            Algorithm::Level(bucket) => Some(bucket),
            Algorithm::Count(_) => None,
        }
    }

    /// How it counts, if its algorithm does.
    pub(crate) fn counter(&self) -> Option<&Counter> {
        match &self.algorithm {
            Algorithm::Level(_) => None,
            Algorithm::Count(counter) => Some(counter),
        }
    }

    /// Capacity, in units.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Ticks in a unit.
    pub(crate) fn per_unit(&self) -> u64 {
        self.per_unit
    }

    /// Whether nothing comes back before all does.
    fn is_fixed(&self) -> bool {
        matches!(&self.algorithm, Algorithm::Count(Counter::Window(window)) if !window.is_sliding())
    }

    /// A bucket whose units come back within so many intervals is worth its messages however low it is.
    /// What a level keeps because it lies with a node that does not need it is there later; in a window or
    /// a log it is lost when its time is over, so that more of them are.
    fn brisk_intervals(&self) -> i128 {
        match &self.algorithm {
            Algorithm::Level(_) => 3,
            Algorithm::Count(_) => BRISK_INTERVALS,
        }
    }

    /// Ticks of all units.
    pub(crate) fn full(&self) -> i128 {
        self.ticks(self.capacity)
    }

    /// Ticks of `units`.
    pub(crate) fn ticks(&self, units: u64) -> i128 {
        i128::from(units) * i128::from(self.per_unit)
    }

    /// Ticks of `units`, which may be negative.
    pub(crate) fn signed_ticks(&self, units: i64) -> i128 {
        i128::from(units) * i128::from(self.per_unit)
    }

    /// Whether a check may wait for an acknowledgement.
    pub(crate) fn may_wait(&self) -> bool {
        self.accuracy == Accuracy::Balanced
    }

    /// The most that may be missing in one bucket on `size` members, in ticks: twice what all of them
    /// can have in flight at once, and what they spend of the refill until they hear of each other, so
    /// that nothing is cut that honest members spend.
    pub(crate) fn missing_max(&self, size: usize) -> u64 {
        let each = self.capacity.max(extra_units(self.accuracy, self.capacity));
        let flying = u128::from(each) * 2 * size as u128 * u128::from(self.per_unit);
        let ticks = flying.saturating_add(self.algorithm.flow(UNHEARD_NS));
        u64::try_from(ticks).map_or(MISSING_TICKS_MAX, |ticks| ticks.min(MISSING_TICKS_MAX))
    }

    /// The units of `ticks` that may be added where `missing` ticks are missing of at most `missing_max`.
    pub(super) fn within(&self, ticks: i128, missing_max: u64, missing: i64) -> i64 {
        let room = (i128::from(missing_max) - i128::from(missing)).max(0);
        saturated(ticks.min(room) / i128::from(self.per_unit))
    }

    /// The most units of one bucket that a batch of an honest member names: twice what it can have in
    /// flight, for debits and a reservation.
    pub(crate) fn spent_max(&self) -> u64 {
        let units = self.capacity.max(extra_units(self.accuracy, u64::MAX) * MEMBERS_MAX as u64);
        units.saturating_mul(2).min(MISSING_TICKS_MAX / self.per_unit)
    }

    /// The ticks of `level` that belong to the group of `view`.
    pub(crate) fn part(&self, level: i128, view: &View, hash: u64) -> i128 {
        if view.is_whole() {
            return level;
        }
        match u64::try_from(level / i128::from(self.per_unit)) {
            Ok(units) if level > 0 => self.ticks(view.part(units, hash)),
            _ => (level * view.reach() as i128).div_euclid(view.size() as i128),
        }
    }
}

/// Units of a bucket of `burst` that a node may have in flight however small its share is.
pub(super) fn extra_units(accuracy: Accuracy, burst: u64) -> u64 {
    let trust = match accuracy {
        Accuracy::Balanced => TRUST,
        Accuracy::Fast => TRUST_FAST,
    };
    SLACK.max(trust.min(burst / 2))
}

/// Longest time between two exchanges that a cluster may be set to, in nanoseconds.
const UNHEARD_NS: u64 = 10_000_000_000;
/// So that a debt lies less than 2^63 ticks ahead, where wrapping differences are unambiguous.
const MISSING_TICKS_MAX: u64 = (1 << 63) - 1;

/// `ticks`, or the nearest number of 64 bits.
pub(crate) fn saturated(ticks: i128) -> i64 {
    i64::try_from(ticks).unwrap_or(if ticks < 0 { i64::MIN } else { i64::MAX })
}

/// What is charged to a bucket and not in its common level.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Burden {
    /// Ticks, less relief; negative when more was given back.
    pub(crate) ticks: i128,
    /// What the last drain left over, in 1/N of a tick.
    pub(crate) remainder: u64,
}

/// Where a bucket stands. Amounts are ticks.
#[derive(Debug)]
pub(crate) struct Stand {
    /// The common level: negative in debt.
    level: i128,
    /// Spends that are not in the common level.
    burden: Burden,
    /// What the group may still spend.
    available: i128,
    /// Capacity of the group's part.
    cap: i128,
    /// What this node may have in flight.
    allowance: i128,
    /// What it has in flight.
    flying: i128,
    /// The level is high enough, or the bucket small enough, that an exchange is worth its message.
    is_stocked: bool,
    /// Waiting for an acknowledgement may help.
    may_hold: bool,
    n: usize,
    size: usize,
}

/// What a bucket says to a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// It fits.
    Fits,
    /// The group has too few units.
    Limit,
    /// Units are left, but not this node's to spend yet.
    Share,
}

impl Stand {
    /// Where the bucket `hash` stands: at a common level of `level` ticks, with a `burden` that is
    /// not in it.
    pub(crate) fn new(
        shared: &SharedBucket,
        hash: u64,
        level: i128,
        burden: Burden,
        motion: Option<&Motion>,
        view: &View,
        sync_interval_ns: u64,
    ) -> Self {
        let (n, size) = (view.reach(), view.size());
        let unit = i128::from(shared.per_unit);
        let cap = shared.part(shared.full(), view, hash);
        // What was given back of spends that the others know is not theirs to fill the part beyond full.
        let available = (shared.part(level, view, hash) - burden.ticks).min(cap);
        let flying = motion.map_or(0, |motion| shared.signed_ticks(motion.flying()));
        let (own, others) = motion.map_or((0, 0), |motion| (motion.own, motion.others));
        // The level as peers can know it.
        let seen = (available + flying).min(cap);
        let (slack, trust) = match shared.accuracy {
            Accuracy::Fast => (SLACK, TRUST_FAST),
            Accuracy::Balanced => {
                let is_plenty = seen >= n as i128 * unit;
                let is_first = is_plenty || i128::from(view.rank(hash)) < seen.div_euclid(unit);
                if is_first { (SLACK, TRUST) } else { (0, 0) }
            }
        };
        let mut allowance = if n == 1 {
            // Nobody else spends of this group's part.
            available + flying
        } else {
            let share = if seen > 0 { Share::new(n, own, others).of(seen) } else { seen };
            share.max((i128::from(slack) * unit).min(seen))
        };
        if others < IDLE {
            allowance = allowance.max((i128::from(trust) * unit).min(seen / 2));
        }
        let interval =
            i128::try_from(shared.algorithm.flow(sync_interval_ns)).unwrap_or(i128::MAX >> 16);
        // More than one and a half intervals of the group's refill.
        let is_rich = 2 * size as i128 * seen > 3 * n as i128 * interval;
        let is_small = shared.full() < shared.brisk_intervals() * interval;
        let is_modest = own < shared.scale.fair(n) / 2;
        // What a fixed window has left comes back in no other way than by being told.
        let is_stocked = is_small || is_rich || shared.is_fixed();
        let is_rich = is_rich || shared.is_fixed();
        let may_hold = n > 1
            && is_stocked
            && shared.accuracy == Accuracy::Balanced
            && (is_modest || (flying > 0 && is_rich));
        Self { level, burden, available, cap, allowance, flying, is_stocked, may_hold, n, size }
    }

    /// The same for a node whose sync side runs (`is_alive`), and otherwise for a group of one: then
    /// nothing is known of the peers of the view.
    pub(crate) fn seen(
        shared: &SharedBucket,
        hash: u64,
        level: i128,
        burden: Burden,
        motion: Option<&Motion>,
        (view, is_alive): (&View, bool),
        sync_interval_ns: u64,
    ) -> Self {
        if is_alive {
            return Self::new(shared, hash, level, burden, motion, view, sync_interval_ns);
        }
        // What peers may not know is taken from this node's part alone, as in a split.
        let unpublished = motion.map_or(0, |motion| shared.signed_ticks(motion.unpublished));
        let level = level + unpublished;
        let burden = Burden { ticks: burden.ticks + unpublished, ..burden };
        Self::new(shared, hash, level, burden, motion, &view.alone(), sync_interval_ns)
    }

    /// Where a bucket stands that nobody else has.
    pub(crate) fn lone(shared: &SharedBucket, level: i128) -> Self {
        let cap = shared.full();
        Self {
            level,
            burden: Burden::default(),
            available: level,
            cap,
            allowance: level,
            flying: 0,
            is_stocked: false,
            may_hold: false,
            n: 1,
            size: 1,
        }
    }

    /// Whether `cost` ticks may be spent.
    pub(crate) fn judge(&self, cost: i128) -> Judgement {
        if !self.covers(cost) {
            Judgement::Limit
        } else if self.flying + cost <= self.allowance {
            Judgement::Fits
        } else {
            Judgement::Share
        }
    }

    /// Whether the group has `cost` ticks, whoever of it may spend them.
    pub(crate) fn covers(&self, cost: i128) -> bool {
        self.available >= cost
    }

    /// Whether waiting for an acknowledgement may help where the share is too small.
    pub(crate) fn may_hold(&self) -> bool {
        self.may_hold
    }

    /// Whether the bucket has peers to wait for.
    pub(crate) fn has_peers(&self) -> bool {
        self.n > 1
    }

    /// Whether an early flush is wanted when `unpublished` ticks are in no batch yet, or when a check
    /// found the share too small.
    pub(crate) fn wants_flush(&self, unpublished: i128, is_short: bool) -> bool {
        self.is_stocked
            && (is_short || (unpublished > 0 && unpublished * FLUSH_PART >= self.allowance))
    }

    /// `ticks` were charged.
    pub(crate) fn moved(&mut self, ticks: i128) {
        self.available -= ticks;
        if self.n == self.size {
            self.level -= ticks;
        } else {
            self.burden.ticks += ticks;
        }
    }

    /// Whether more was spent than there was.
    pub(crate) fn is_overdrawn(&self) -> bool {
        self.available < 0
    }

    /// Whole units that this node may have in flight.
    pub(crate) fn allowance_units(&self, shared: &SharedBucket) -> i64 {
        let units = self.allowance.div_euclid(i128::from(shared.per_unit));
        i64::try_from(units).unwrap_or(i64::MAX)
    }

    /// Whole units of the capacity that belong to the group.
    pub(crate) fn part_units(&self, shared: &SharedBucket) -> u64 {
        u64::try_from(self.cap / i128::from(shared.per_unit)).unwrap_or(u64::MAX)
    }

    /// Whole units that the group may still spend.
    pub(crate) fn remaining(&self, shared: &SharedBucket) -> u64 {
        let units = self.available.max(0) / i128::from(shared.per_unit);
        u64::try_from(units).map_or(shared.capacity, |units| units.min(shared.capacity))
    }

    /// Time until the bucket is as if untouched.
    pub(crate) fn reset_after(&self, shared: &SharedBucket) -> Wait {
        self.drained_after(shared, 0)
    }

    /// Time until everything that was spent has drained, but for `own` units that were spent last.
    pub(crate) fn drained_after(&self, shared: &SharedBucket, own: u64) -> Wait {
        let (below, own) = (shared.full() - self.level, shared.ticks(own));
        let (below, burden) = match self.n == self.size {
            true => (below - own, self.burden.ticks),
            false => (below, self.burden.ticks - own),
        };
        wait(shared, below.max(0) + self.paid_back_in(burden))
    }

    /// Time until a cost of `cost` units fits if nobody else spends; none if it cannot while the
    /// members that are missing stay away.
    pub(crate) fn fits_after(
        &self,
        shared: &SharedBucket,
        cost: u64,
        view: &View,
        hash: u64,
    ) -> Option<Wait> {
        let wanted = shared.ticks(cost);
        if self.n == self.size {
            return Some(wait(shared, wanted - self.available));
        }
        if wanted > self.cap {
            return None;
        }
        let full = shared.full();
        // The part must cover the cost and what was charged.
        let covered = (wanted + self.burden.ticks).max(0);
        let unit = i128::from(shared.per_unit);
        let units = u64::try_from((covered + unit - 1) / unit).unwrap_or(u64::MAX);
        let level = i128::try_from(view.whole_of(units, hash)).unwrap_or(i128::MAX);
        let ticks = match level.checked_mul(unit) {
            Some(level) if level <= full => level - self.level,
            // A full level does not suffice: from then on its refill pays the charge back.
            _ => full - self.level + self.paid_back_in(covered - self.cap),
        };
        Some(wait(shared, ticks))
    }

    /// Ticks of time in which a full level pays `charge` back: the group's part of the rate does.
    fn paid_back_in(&self, charge: i128) -> i128 {
        let (n, size) = (self.n as i128, self.size as i128);
        let flow = charge.max(0) * size - i128::from(self.burden.remainder);
        (flow.max(0) + n - 1) / n
    }
}

fn wait(shared: &SharedBucket, ticks: i128) -> Wait {
    let wait = |ticks| shared.level().map_or(Wait::ZERO, |level| level.wait(ticks));
    u64::try_from(ticks.max(0)).map_or(Wait::NEVER, wait)
}
