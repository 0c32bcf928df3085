//! A bucket in motion: what this node has spent and peers have not acknowledged, and who asks for it.

use super::delta::{Bucket, When};
use super::demand::{Fading, IDLE, ONE, step_at};
use crate::algorithm::{Counter, younger};

/// Own spends are published before a claim is acknowledged that is at least 3 in 100 of all demand.
const CLAIM_PERCENT: u64 = 3;
/// And before claims are that together are a sixteenth of it.
pub(super) const CLAIMS_PART: u64 = 16;

/// Most times at which one node spent of a bucket and told nobody: twice as many as can still count.
const TIMES_MAX: usize = 2_048;
/// Room for so many is kept when they were told, for the next.
const TIMES_KEPT: usize = 4;

/// What is known of a bucket while it moves. Demand is in the fixed point of [`super::demand`].
#[derive(Clone, Debug)]
pub(crate) struct Motion {
    pub(crate) bucket: Bucket,
    /// Units spent here and in no batch yet; negative only after a refund.
    pub(crate) unpublished: i64,
    /// The same by the times at which it was spent, oldest first, where the algorithm counts.
    times: Vec<(When, i64)>,
    /// Units in batches that some reachable peer has not acknowledged.
    pub(crate) in_flight: i64,
    /// Units given back in such batches. Peers that have them may spend them already: they are not for
    /// this node to spend beside its share.
    pub(crate) returned: i64,
    /// The part of both that is only reserved.
    pub(crate) reserved: u64,
    /// When it was reserved.
    pub(crate) reserved_when: When,
    /// Units asked for, allowed or not, since the last flush.
    pub(crate) attempted: u64,
    /// Demand in open batches.
    pub(crate) told: u32,
    /// Own demand that every reachable peer knows.
    pub(crate) own: u32,
    /// Demand that peers reported.
    pub(crate) others: u32,
    /// The part of it that was reported while own spends were in no batch.
    heard: u32,
    /// Step of the last fading.
    step: u32,
    /// Deltas of the bucket in batches that are not acknowledged by all.
    pub(crate) opens: u16,
    /// Acknowledgements of this bucket until the reservation is settled; none while it is in no batch.
    pub(crate) settles_after: Option<u16>,
    /// In the list of buckets that the next tick carries.
    pub(crate) is_dirty: bool,
    /// In the list of buckets that ask for an early flush.
    pub(crate) is_early: bool,
    /// Asked for an early flush while a batch was open.
    pub(crate) is_again: bool,
}

impl Motion {
    pub(crate) fn new(bucket: Bucket, now_ns: u64) -> Self {
        Self {
            bucket,
            unpublished: 0,
            times: Vec::new(),
            in_flight: 0,
            returned: 0,
            reserved: 0,
            reserved_when: When::Untimed,
            attempted: 0,
            told: 0,
            own: 0,
            others: 0,
            heard: 0,
            step: step_at(now_ns),
            opens: 0,
            settles_after: None,
            is_dirty: false,
            is_early: false,
            is_again: false,
        }
    }

    /// Bytes that it takes beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.times.capacity() * size_of::<(When, i64)>()
    }

    /// Lets demand fade up to `now_ns`. Comes before everything that reads it.
    pub(crate) fn fade(&mut self, now_ns: u64) {
        let step = step_at(now_ns);
        let passed = step.wrapping_sub(self.step);
        // A reading older than the last counts as no time passed.
        if passed == 0 || passed > u32::MAX / 2 {
            return;
        }
        self.step = step;
        let fading = Fading::of(passed);
        self.told = fading.apply(self.told);
        self.own = fading.apply(self.own);
        self.others = fading.apply(self.others);
    }

    /// Takes over a peer's claim of `demand`, so that all peers together claim `most` at most; whether
    /// own spends must be in a batch before it is acknowledged, because they were made with a share
    /// that the claims since then have made smaller.
    pub(crate) fn hear(&mut self, claim: u32, most: u32) -> bool {
        self.others = self.others.saturating_add(claim).min(most);
        if self.unpublished <= 0 {
            self.heard = 0;
            return false;
        }
        self.heard = self.heard.saturating_add(claim);
        let all = u64::from(self.own) + u64::from(self.others) + ONE;
        let is_large = u64::from(claim) * 100 >= CLAIM_PERCENT * all;
        is_large || u64::from(self.heard) * CLAIMS_PART >= all
    }

    /// Notes that this node spent `units` at `when`, or gave them back where they are negative.
    pub(crate) fn spend(&mut self, counter: Option<&Counter>, when: When, units: i64) {
        self.unpublished = self.unpublished.saturating_add(units);
        let Some(counter) = counter else { return };
        // Time goes on, so that only the last can be of one grain with it; what is given back may be
        // older.
        let is_one = |(other, had): &&mut (When, i64)| {
            // Of one time there is one entry: peers are owed each time of a batch once.
            *other == when || counter.is_one_grain(*other, when) && (*had < 0) == (units < 0)
        };
        match self.times.iter_mut().rev().take(2).find(is_one) {
            Some((other, had)) => {
                *other = younger(*other, when);
                *had = had.saturating_add(units);
            }
            None => self.times.push((when, units)),
        }
        if self.times.len() > TIMES_MAX {
            // Nobody has been told for long: what is oldest counts as a little younger.
            let (_, oldest) = self.times.remove(0);
            if let Some((_, units)) = self.times.first_mut() {
                *units = units.saturating_add(oldest);
            }
        }
    }

    /// What this node spent and has told nobody yet, by the times at which it was spent.
    pub(crate) fn unpublished_times(&self) -> &[(When, i64)] {
        &self.times
    }

    /// As [`Motion::publish`] for all times but the last, with no claim: what goes with them. The `dead`
    /// first cannot count anywhere any more and are told to nobody.
    pub(crate) fn publish_older(&mut self, dead: usize) -> Vec<(When, i64)> {
        let older = self.times.len().saturating_sub(1).max(dead.min(self.times.len()));
        let mut older: Vec<_> = self.times.drain(..older).collect();
        for (_, units) in &older {
            self.unpublished = self.unpublished.saturating_sub(*units);
        }
        older.drain(..dead.min(older.len()));
        older.retain(|(_, units)| *units != 0);
        for (_, units) in &older {
            self.open(*units);
        }
        older
    }

    /// Where in time what [`Motion::publish`] would give belongs; none where the algorithm does not ask.
    pub(crate) fn last_time(&self) -> Option<When> {
        self.times.last().map(|(when, _)| *when)
    }

    fn open(&mut self, spent: i64) {
        self.in_flight = self.in_flight.saturating_add(spent);
        self.returned = self.returned.saturating_sub(spent.min(0));
        self.opens = self.opens.saturating_add(1);
    }

    /// Moves what was spent since the last batch into one, with a claim of `demand`; gives the units.
    pub(crate) fn publish(&mut self, demand: u32) -> i64 {
        let spent = std::mem::take(&mut self.unpublished);
        self.times.clear();
        self.times.shrink_to(TIMES_KEPT);
        self.open(spent);
        self.told = self.told.saturating_add(demand);
        self.heard = 0;
        self.attempted = 0;
        spent
    }

    /// Every reachable peer has acknowledged the oldest batch, which carried `spent` units.
    pub(crate) fn close(&mut self, spent: i64) {
        self.in_flight = self.in_flight.saturating_sub(spent);
        self.returned = self.returned.saturating_add(spent.min(0));
        self.opens = self.opens.saturating_sub(1);
    }

    /// Units spent here that peers may not know, and that are not only reserved. A reservation that
    /// every peer has acknowledged is no longer among the units that they may not know.
    pub(crate) fn flying(&self) -> i64 {
        let reserved = if self.is_settled() { 0 } else { self.reserved };
        let reserved = i64::try_from(reserved).unwrap_or(i64::MAX);
        let untold = self.unpublished.saturating_add(self.in_flight);
        untold.saturating_add(self.returned).saturating_sub(reserved)
    }

    /// Units of the time `when` that were spent here and that peers may not know; none where those on
    /// their way may be of another time.
    pub(crate) fn unknown_of(&self, when: When) -> Option<i64> {
        if when == When::Untimed {
            return Some(self.unpublished.saturating_add(self.in_flight));
        }
        let unpublished = self.times.iter().filter(|(of, _)| *of == when);
        let unpublished = unpublished.fold(0, |sum: i64, (_, units)| sum.saturating_add(*units));
        (self.opens == 0).then_some(unpublished)
    }

    /// Whether every peer has acknowledged what is reserved.
    pub(crate) fn is_settled(&self) -> bool {
        self.settles_after == Some(0)
    }

    /// Whether nothing would be lost with it.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.unpublished == 0
            && self.in_flight == 0
            && self.reserved == 0
            && self.attempted == 0
            && self.told == 0
            && self.opens == 0
            && !self.is_dirty
            && !self.is_early
            && self.own.saturating_add(self.others) < IDLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bucket for which this node and the others together asked `all` units, a hundred at least.
    fn moving(all: u32) -> Motion {
        let mut motion = Motion::new(Bucket { slot: 0, hash: 1 }, 0);
        motion.others = (all - 1) * 256;
        motion
    }

    #[test]
    fn a_claim_of_three_in_a_hundred_must_wait_for_what_was_spent() {
        let mut motion = moving(1_000);
        assert!(!motion.hear(40 * 256, u32::MAX), "nothing was spent");
        motion.unpublished = 1;
        assert!(!motion.hear(30 * 256, u32::MAX));
        assert!(motion.hear(34 * 256, u32::MAX));
    }

    #[test]
    fn so_must_smaller_claims_once_they_are_a_sixteenth_of_all() {
        let mut motion = moving(1_000);
        motion.unpublished = 1;
        let waits: Vec<bool> = (0..7).map(|_| motion.hear(10 * 256, u32::MAX)).collect();
        assert_eq!(waits, [false, false, false, false, false, false, true]);
        // From the next batch on they are counted anew.
        assert_eq!((motion.publish(256), motion.unpublished, motion.told), (1, 0, 256));
        motion.unpublished = 1;
        assert!(!motion.hear(10 * 256, u32::MAX));
    }

    #[test]
    fn what_was_given_back_is_the_nodes_own_until_it_is_told() {
        let mut motion = moving(1_000);
        motion.unpublished = -4;
        assert_eq!(motion.flying(), -4);
        assert_eq!(motion.publish(0), -4);
        assert_eq!((motion.in_flight, motion.flying()), (-4, 0));
        motion.unpublished = 3;
        assert_eq!((motion.publish(0), motion.flying()), (3, 3));
        motion.close(-4);
        assert_eq!((motion.in_flight, motion.flying()), (3, 3));
        motion.close(3);
        assert_eq!((motion.in_flight, motion.flying(), motion.opens), (0, 0, 0));
    }

    #[test]
    fn claims_that_were_heard_before_anything_was_spent_do_not_count() {
        let mut motion = moving(1_000);
        assert!((0..100).all(|_| !motion.hear(10 * 256, u32::MAX)));
        motion.unpublished = 1;
        assert!(!motion.hear(10 * 256, u32::MAX));
    }
}
