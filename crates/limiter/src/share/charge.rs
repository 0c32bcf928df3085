//! What missing members do not know: spends kept apart from the common level while the cluster is
//! split, and what is owed to each missing member.

use smallvec::SmallVec;

use super::delta::{Bucket, When};
use super::members::Members;
use super::stand::{Burden, saturated};
use crate::algorithm::{Count, Counter, Now, younger};

/// Number of what is owed beside any batch: no peer has received it.
pub(crate) const UNSENT: u64 = u64::MAX;

/// One bucket's charge.
#[derive(Clone, Debug)]
pub(crate) struct Charge {
    pub(crate) bucket: Bucket,
    /// Ticks spent, by this node and the peers it hears of, that not all members know. Negative when
    /// more was given back.
    pub(crate) ticks: i64,
    /// The same as a count, where the algorithm counts; `ticks` are what is missing by it.
    count: Option<Box<Count>>,
    /// The part of `ticks` that members lost in a later step know and pay for out of their part; where the
    /// algorithm counts, when `relief_of` ticks were charged. It ages with them, and is reckoned anew
    /// from there each time, so that nothing is rounded away by looking.
    relief: i64,
    /// See `relief`; 0 where the algorithm keeps a level.
    relief_of: i64,
    /// Time up to which refill of the full level has paid the charge back.
    drained_ns: u64,
    /// What the last drain left over, in 1/N of a tick.
    remainder: u64,
    /// What this node owes, by sets of members and batch.
    owed: SmallVec<[Owed; 1]>,
}

/// Ticks with the times that they belong to.
pub(crate) type Sums = SmallVec<[(When, i64); 2]>;

/// Ticks that this node spent and `peers` may not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owed {
    peers: Members,
    /// Batch, or sum sent at a heal, that carried it; [`UNSENT`] if none did.
    seq: u64,
    ticks: i64,
    /// Where in time they belong.
    when: When,
}

impl Charge {
    pub(crate) fn new(bucket: Bucket, now_ns: u64) -> Self {
        let owed = SmallVec::new();
        Self {
            bucket,
            ticks: 0,
            count: None,
            relief: 0,
            relief_of: 0,
            drained_ns: now_ns,
            remainder: 0,
            owed,
        }
    }

    /// Adds `ticks`, within `missing_max` either way; whether that cut it.
    pub(crate) fn add(&mut self, ticks: i128, missing_max: u64) -> bool {
        let missing_max = i128::from(missing_max);
        let wanted = i128::from(self.ticks) + ticks;
        self.ticks = saturated(wanted.clamp(-missing_max, missing_max));
        wanted > missing_max
    }

    /// Pays the charge back by what a full level would have lost since the last drain: of `refill`
    /// ticks, the `n` of `size` that are this group's. `refill` is what flowed while the level was
    /// full. All that is owed shrinks in proportion.
    pub(crate) fn drain(&mut self, now_ns: u64, refill: u128, n: usize, size: usize) {
        self.drained_ns = self.drained_ns.max(now_ns);
        if self.ticks <= 0 || refill == 0 {
            return;
        }
        let (n, size) = (n as u128, size as u128);
        let flow = refill.saturating_mul(n).saturating_add(u128::from(self.remainder));
        self.remainder = u64::try_from(flow % size).unwrap_or(0);
        let before = self.ticks;
        let drained = i64::try_from(flow / size).unwrap_or(i64::MAX);
        self.ticks = before.saturating_sub(drained).max(0);
        self.relief = self.relief.min(self.ticks);
        self.scale_owed(|_| true, i128::from(self.ticks), i128::from(before));
    }

    /// Bytes that it takes beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        let count = self.count().map_or(0, |count| size_of::<Count>() + count.heap_bytes());
        let spilled = if self.owed.spilled() { self.owed.capacity() } else { 0 };
        count + spilled * size_of::<Owed>()
    }

    /// What is charged, by the times at which it was spent; none where nothing counts, or where the
    /// algorithm keeps a level.
    pub(crate) fn count(&self) -> Option<&Count> {
        self.count.as_deref()
    }

    /// Changes what is charged where the algorithm counts.
    pub(crate) fn change_count<R>(
        &mut self,
        counter: &Counter,
        now: Now,
        act: impl FnOnce(&mut Count) -> R,
    ) -> R {
        let relief = self.relief();
        let result = act(self.count.get_or_insert_with(|| Box::new(counter.fresh(now))));
        self.ticks = saturated(counter.missing(self.count(), now).into());
        self.set_relief(relief);
        result
    }

    /// Lets what is charged age up to `now`, where the algorithm counts: the relief ages with it, and what
    /// can no longer count anywhere is no longer owed.
    pub(crate) fn age(&mut self, counter: &Counter, now: Now) {
        self.drained_ns = self.drained_ns.max(now.ns);
        self.ticks = saturated(counter.missing(self.count(), now).into());
        if self.count().is_some_and(|count| counter.is_at_rest(count, now.ns)) {
            self.count = None;
        }
        let count = self.count.take();
        self.owed.retain(|owed| counter.counts(count.as_deref(), owed.when, now));
        self.count = count;
    }

    /// The part of what is charged that members lost in a later step know.
    pub(crate) fn relief(&self) -> i64 {
        saturated(self.relief_when(self.ticks.into()))
    }

    /// The same when `ticks` are charged, if nothing is added.
    pub(crate) fn relief_when(&self, ticks: i128) -> i128 {
        let (relief, of) = (i128::from(self.relief), i128::from(self.relief_of));
        let aged = if of > 0 && ticks < of { relief * ticks / of } else { relief };
        aged.min(ticks.max(0))
    }

    /// Makes the relief `ticks`, of what is charged now.
    pub(crate) fn set_relief(&mut self, ticks: i64) {
        self.relief = ticks.min(self.ticks.max(0));
        self.relief_of = if self.count.is_some() { self.ticks } else { 0 };
    }

    /// What it takes from what the group may spend.
    pub(crate) fn burden(&self) -> Burden {
        let ticks = i128::from(self.ticks) - i128::from(self.relief());
        Burden { ticks, remainder: self.remainder }
    }

    /// Time of the last drain.
    pub(crate) fn drained_ns(&self) -> u64 {
        self.drained_ns
    }

    /// Notes that `peers` may not know `ticks` of the time `when` that the batch `seq` carried. Whoever is
    /// owed that batch already is not owed it twice. `counter` says which times are told as one.
    pub(crate) fn owe(
        &mut self,
        counter: Option<&Counter>,
        (peers, seq): (Members, u64),
        when: When,
        ticks: i64,
    ) {
        let is_one = |owed: &Owed| counter.is_none_or(|it| it.is_one_class(owed.when, when));
        let is_same = |owed: &&Owed| owed.seq == seq && seq != UNSENT && owed.when == when;
        let same = self.owed.iter().filter(is_same);
        let peers = same.fold(peers, |peers, owed| peers.minus(owed.peers));
        if peers.is_empty() || ticks == 0 {
            return;
        }
        let mut rows = self.owed.iter_mut();
        match rows.find(|owed| owed.peers == peers && owed.seq == seq && is_one(owed)) {
            Some(owed) if seq == UNSENT || counter.is_none() || owed.when == when => {
                owed.ticks = owed.ticks.saturating_add(ticks);
                owed.when = younger(owed.when, when);
            }
            _ => self.owed.push(Owed { peers, seq, ticks, when }),
        }
    }

    /// Shrinks what is owed to any of `peers` to `part`/`whole`, rounded away from zero: a peer may be
    /// told of a fraction of a tick too much, never of too little.
    pub(crate) fn shrink_owed_to(&mut self, peers: Members, part: i128, whole: i128) {
        self.scale_owed(|owed| owed.peers.minus(peers) != owed.peers, part, whole);
    }

    /// Scales all ticks by `scale`. What was left over of the last drain, less than one, goes.
    pub(super) fn scale_all(&mut self, scale: impl Fn(i64) -> i64) {
        self.ticks = scale(self.ticks);
        self.remainder = 0;
        self.owed.iter_mut().for_each(|owed| owed.ticks = scale(owed.ticks));
        self.owed.retain(|owed| owed.ticks != 0);
    }

    fn scale_owed(&mut self, which: impl Fn(&Owed) -> bool, part: i128, whole: i128) {
        if whole == 0 || part == whole {
            return;
        }
        for owed in self.owed.iter_mut().filter(|owed| which(owed)) {
            let scaled = i128::from(owed.ticks) * part;
            let up = if scaled > 0 { (scaled + whole - 1) / whole } else { scaled / whole };
            owed.ticks = i64::try_from(up).unwrap_or(owed.ticks);
        }
        self.owed.retain(|owed| owed.ticks != 0);
    }

    /// `peer` has received every batch below `next`.
    pub(crate) fn received(&mut self, peer: u8, next: u64) {
        for owed in self.owed.iter_mut().filter(|owed| owed.seq < next) {
            owed.peers = owed.peers.without(peer);
        }
        self.owed.retain(|owed| !owed.peers.is_empty());
    }

    /// What is owed to `peer` in all, by the times at which it was spent.
    pub(crate) fn owed_to(&self, counter: Option<&Counter>, peer: u8) -> Sums {
        let mut sums = Sums::new();
        for owed in self.owed.iter().filter(|owed| owed.peers.contains(peer)) {
            let is_one = |when| counter.is_none_or(|it| it.is_one_class(when, owed.when));
            match sums.iter_mut().find(|(when, _)| is_one(*when)) {
                Some((when, ticks)) => {
                    *when = younger(*when, owed.when);
                    *ticks = ticks.saturating_add(owed.ticks);
                }
                None => sums.push((owed.when, owed.ticks)),
            }
        }
        sums.retain(|(_, ticks)| *ticks != 0);
        sums
    }

    /// From now on `seq` carries `ticks` of the time `when` to `peer`, and nothing else is owed to it that
    /// was not tagged since `from`.
    pub(crate) fn tag(&mut self, peer: u8, tagged: &[(u64, When, i64)]) {
        for owed in self.owed.iter_mut().filter(|owed| owed.peers.contains(peer)) {
            owed.peers = owed.peers.without(peer);
        }
        self.owed.retain(|owed| !owed.peers.is_empty());
        let peers = Members::only(peer);
        let rows = tagged.iter().map(|(seq, when, ticks)| Owed {
            peers,
            seq: *seq,
            ticks: *ticks,
            when: *when,
        });
        self.owed.extend(rows);
    }

    /// What is owed to `peers` no longer is.
    pub(crate) fn forget(&mut self, peers: Members) {
        for owed in &mut self.owed {
            owed.peers = owed.peers.minus(peers);
        }
        self.owed.retain(|owed| !owed.peers.is_empty());
    }

    /// Whether nothing is left of it.
    pub(crate) fn is_settled(&self) -> bool {
        // What peers spent in a window that has not begun here is charged and takes nothing yet.
        self.ticks == 0 && self.owed.is_empty() && self.count.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_owed_to_each_peer_once() {
        let mut charge = Charge::new(Bucket { slot: 0, hash: 1 }, 0);
        let mut owe = |peers, seq, ticks| charge.owe(None, (peers, seq), When::Untimed, ticks);
        owe(Members::only(1).with(2), 5, 10);
        owe(Members::only(2).with(3), 5, 10);
        owe(Members::only(2), 6, 4);
        for _ in 0..2 {
            // What no batch carried is another spend each time.
            owe(Members::only(2), UNSENT, 100);
        }
        let owed = |peer| charge.owed_to(None, peer).iter().map(|(_, ticks)| *ticks).sum::<i64>();
        assert_eq!([1, 2, 3].map(owed), [10, 214, 10]);
    }
}
