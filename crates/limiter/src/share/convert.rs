//! Other numbers for a bucket that is in use: what was used is kept, in units.
//!
//! Ticks of a unit differ from one rate to another, so they are scaled; what does not come out even is
//! rounded so that nothing is handed out.

use super::charge::Charge;
use super::motion::Motion;
use super::stand::{SharedBucket, saturated};
use crate::algorithm::{Algorithm, Count, Now};

/// `ticks` of a bucket of `from` as ticks of one of `to`, rounded up.
fn scaled(ticks: i128, from: &SharedBucket, to: &SharedBucket) -> i128 {
    let (theirs, ours) = (i128::from(from.per_unit()), i128::from(to.per_unit()));
    if theirs == ours {
        return ticks;
    }
    -(-ticks.saturating_mul(ours)).div_euclid(theirs.max(1))
}

impl SharedBucket {
    /// What is missing in a level of these numbers, if `missing` ticks were by those of `from`: as many
    /// units, to the deepest debt that a bucket may have among `members`; none: on a node of its own.
    pub(crate) fn missing_of(&self, from: &Self, missing: u64, members: Option<usize>) -> u64 {
        let ticks = scaled(missing.into(), from, self);
        let twice_full = || u64::try_from(self.full().saturating_mul(2)).unwrap_or(u64::MAX >> 1);
        let most = members.map_or_else(twice_full, |size| self.missing_max(size));
        u64::try_from(ticks).unwrap_or(u64::MAX).min(most)
    }

    /// What counts by these numbers of `count`, which was counted by those of `from`. None where either
    /// keeps a level.
    pub(crate) fn count_of(&self, from: &Self, count: &Count, now: Now) -> Option<Count> {
        match (&from.algorithm, &self.algorithm) {
            (Algorithm::Count(from), Algorithm::Count(to)) => Some(to.count_of(from, count, now)),
            _ => None,
        }
    }
}

impl Charge {
    /// The same spends by the numbers of `to`; they were charged by those of `from`. It was drained to now.
    pub(crate) fn convert(&mut self, from: &SharedBucket, to: &SharedBucket, now: Now) {
        let relief = scaled(self.relief().into(), from, to);
        self.scale_all(|ticks| saturated(scaled(ticks.into(), from, to)));
        if let Some(counter) = to.counter() {
            let count = self.count().and_then(|count| to.count_of(from, count, now));
            match count {
                Some(count) => self.change_count(counter, now, |it| *it = count),
                None => self.ticks = 0,
            }
        }
        self.set_relief(saturated(relief));
    }
}

impl Motion {
    /// The same motion where the numbers are those of `to`. Spends are units; only demand is told in
    /// parts that depend on the rate.
    pub(crate) fn convert(&mut self, from: &SharedBucket, to: &SharedBucket) {
        let (shift, most) = (from.scale.shift, to.scale.fair(1));
        let convert = |demand: u32| to.scale.convert(demand, shift).min(most);
        self.told = convert(self.told);
        self.own = convert(self.own);
        self.others = to.scale.convert(self.others, shift);
    }
}
