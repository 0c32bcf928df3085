//! What missing members do not know: spends kept apart from the common level while the cluster is
//! split, and what is owed to each missing member.

use smallvec::SmallVec;

use super::delta::Bucket;
use super::members::Members;
use super::stand::{Burden, saturated};

/// Number of what is owed beside any batch: no peer has received it.
pub(crate) const UNSENT: u64 = u64::MAX;

/// One bucket's charge.
#[derive(Clone, Debug)]
pub(crate) struct Charge {
    pub(crate) bucket: Bucket,
    /// Ticks spent, by this node and the peers it hears of, that not all members know. Negative when
    /// more was given back.
    pub(crate) ticks: i64,
    /// The part of `ticks` that members lost in a later step know and pay for out of their part.
    pub(crate) relief: i64,
    /// Time up to which refill of the full level has paid the charge back.
    drained_ns: u64,
    /// What the last drain left over, in 1/N of a tick.
    remainder: u64,
    /// What this node owes, by sets of members and batch.
    owed: SmallVec<[Owed; 1]>,
}

/// Ticks that this node spent and `peers` may not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owed {
    peers: Members,
    /// Batch, or sum sent at a heal, that carried it; [`UNSENT`] if none did.
    seq: u64,
    ticks: i64,
}

impl Charge {
    pub(crate) fn new(bucket: Bucket, now_ns: u64) -> Self {
        let owed = SmallVec::new();
        Self { bucket, ticks: 0, relief: 0, drained_ns: now_ns, remainder: 0, owed }
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

    /// What it takes from what the group may spend.
    pub(crate) fn burden(&self) -> Burden {
        let ticks = i128::from(self.ticks) - i128::from(self.relief);
        Burden { ticks, remainder: self.remainder }
    }

    /// Time of the last drain.
    pub(crate) fn drained_ns(&self) -> u64 {
        self.drained_ns
    }

    /// Notes that `peers` may not know `ticks` that the batch `seq` carried. Whoever is owed that batch
    /// already is not owed it twice.
    pub(crate) fn owe(&mut self, peers: Members, seq: u64, ticks: i64) {
        let same = self.owed.iter().filter(|owed| owed.seq == seq && seq != UNSENT);
        let peers = same.fold(peers, |peers, owed| peers.minus(owed.peers));
        if peers.is_empty() || ticks == 0 {
            return;
        }
        match self.owed.iter_mut().find(|owed| owed.peers == peers && owed.seq == seq) {
            Some(owed) => owed.ticks = owed.ticks.saturating_add(ticks),
            None => self.owed.push(Owed { peers, seq, ticks }),
        }
    }

    /// Shrinks what is owed to any of `peers` to `part`/`whole`, rounded away from zero: a peer may be
    /// told of a fraction of a tick too much, never of too little.
    pub(crate) fn shrink_owed_to(&mut self, peers: Members, part: i128, whole: i128) {
        self.scale_owed(|owed| owed.peers.minus(peers) != owed.peers, part, whole);
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

    /// What is owed to `peer` in all, from now on carried by `seq`.
    pub(crate) fn tag(&mut self, peer: u8, seq: u64) -> i64 {
        let mut sum = 0i64;
        for owed in self.owed.iter_mut().filter(|owed| owed.peers.contains(peer)) {
            owed.peers = owed.peers.without(peer);
            sum = sum.saturating_add(owed.ticks);
        }
        self.owed.retain(|owed| !owed.peers.is_empty());
        self.owe(Members::only(peer), seq, sum);
        sum
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
        self.ticks == 0 && self.owed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_owed_to_each_peer_once() {
        let mut charge = Charge::new(Bucket { slot: 0, hash: 1 }, 0);
        charge.owe(Members::only(1).with(2), 5, 10);
        charge.owe(Members::only(2).with(3), 5, 10);
        charge.owe(Members::only(2), 6, 4);
        for _ in 0..2 {
            // What no batch carried is another spend each time.
            charge.owe(Members::only(2), UNSENT, 100);
        }
        assert_eq!([1, 2, 3].map(|peer| charge.tag(peer, 9)), [10, 214, 10]);
    }
}
