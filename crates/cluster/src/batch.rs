//! What was sent and what was received lately: the two logs that say, when a peer is lost, what it
//! may not know.

use std::collections::VecDeque;

use limiter::{Bucket, Delta, Members, Tail, When};

use crate::config::MS;
use crate::member::ME;

/// Most bytes of the log of own batches. Half a second of batches is far below; above, the slowest
/// peer is lost before the memory is.
pub(crate) const LOG_BYTES_MAX: usize = 64 << 20;
/// Batches received are remembered for so long: longer than it takes to notice that a peer is gone.
const RECEIVED_NS: u64 = 1_500 * MS;
/// Most bytes of the log of received batches; above, the oldest go.
const RECEIVED_BYTES_MAX: usize = 64 << 20;

/// A batch, by who sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) index: u8,
    pub(crate) life: u64,
    pub(crate) seq: u64,
}

/// A batch of this node that some linked peer has not acknowledged.
#[derive(Debug)]
struct Sent {
    seq: u64,
    deltas: Vec<Delta>,
    at_ns: u64,
    /// Every reachable peer has acknowledged it.
    closed: bool,
    /// Its spends are charges, not in the common level.
    charged: bool,
}

impl Sent {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.deltas.len() * size_of::<Delta>()
    }
}

/// This node's own batches, until every linked peer has acknowledged them.
#[derive(Debug)]
pub(crate) struct Log {
    life: u64,
    batches: VecDeque<Sent>,
    bytes: usize,
    /// See [`LOG_BYTES_MAX`].
    pub(crate) bytes_max: usize,
}

impl Log {
    /// Of this node's `life`.
    pub(crate) fn new(life: u64) -> Self {
        Self { life, batches: VecDeque::new(), bytes: 0, bytes_max: LOG_BYTES_MAX }
    }

    /// Keeps the batch `seq`, which is greater than all before.
    pub(crate) fn push(&mut self, seq: u64, deltas: Vec<Delta>, at_ns: u64, charged: bool) {
        let sent = Sent { seq, deltas, at_ns, closed: false, charged };
        self.bytes += sent.bytes();
        self.batches.push_back(sent);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes > self.bytes_max
    }

    /// How many batches from `acked` on there are, and when the first of them was sent.
    pub(crate) fn unacknowledged(&self, acked: u64) -> (usize, Option<u64>) {
        let from = self.batches.partition_point(|sent| sent.seq < acked);
        (self.batches.len() - from, self.batches.get(from).map(|sent| sent.at_ns))
    }

    /// When the last batch below `acked` was sent, if it is still here.
    pub(crate) fn sent_ns(&self, acked: u64) -> Option<u64> {
        let below = self.batches.partition_point(|sent| sent.seq < acked);
        self.batches.get(below.checked_sub(1)?).map(|sent| sent.at_ns)
    }

    /// Closes the batches below `acked`, in order, each once: every reachable peer knows them now.
    pub(crate) fn close(&mut self, acked: u64, mut close: impl FnMut(&[Delta])) {
        let open = self.batches.iter_mut().take_while(|sent| sent.seq < acked);
        for sent in open.filter(|sent| !sent.closed) {
            sent.closed = true;
            close(&sent.deltas);
        }
    }

    /// Drops the closed batches below `acked`, which every linked peer has acknowledged.
    pub(crate) fn drop_below(&mut self, acked: u64) {
        while let Some(sent) = self.batches.pop_front_if(|sent| sent.closed && sent.seq < acked) {
            self.bytes -= sent.bytes();
        }
    }

    /// Calls `found` for every batch that some of the lost have not acknowledged, with those to whom it
    /// is owed from now on, and whether it is to be moved to the charges now. `lost` and `aware` pair
    /// each with what it acknowledged.
    fn unknown_to(
        &mut self,
        lost: &[(u8, u64)],
        aware: &[(u8, u64)],
        mut found: impl FnMut(&Sent, Members, bool),
    ) {
        for sent in &mut self.batches {
            let unaware = lost.iter().filter(|(_, acked)| sent.seq >= *acked);
            let unaware: Members = unaware.map(|(index, _)| *index).collect();
            if !unaware.is_empty() {
                let aware = aware.iter().filter(|(_, acked)| sent.seq < *acked);
                let peers = aware.fold(unaware, |peers, (index, _)| peers.with(*index));
                let folds = !std::mem::replace(&mut sent.charged, true);
                found(sent, peers, folds);
            }
        }
    }
}

/// A batch of a peer.
#[derive(Debug)]
struct Received {
    at_ns: u64,
    of: Source,
    spent: Vec<(Bucket, When, i64)>,
    /// Its spends are charges, not in the common level.
    charged: bool,
}

impl Received {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.spent.len() * size_of::<(Bucket, When, i64)>()
    }
}

/// The batches of all peers that were received lately.
#[derive(Debug, Default)]
pub(crate) struct ReceiveLog {
    batches: VecDeque<Received>,
    bytes: usize,
}

impl ReceiveLog {
    pub(crate) fn push(&mut self, at_ns: u64, of: Source, deltas: &[Delta], charged: bool) {
        let spent = deltas.iter().filter(|delta| delta.spent != 0);
        let spent: Vec<_> = spent.map(|delta| (delta.bucket, delta.when, delta.spent)).collect();
        if !spent.is_empty() {
            let received = Received { at_ns, of, spent, charged };
            self.bytes += received.bytes();
            self.batches.push_back(received);
        }
        self.drop_old(at_ns);
    }

    /// Drops what is too old to matter, and what there is no room for.
    pub(crate) fn drop_old(&mut self, now_ns: u64) {
        while let Some(old) = self.batches.pop_front_if(|received| {
            let is_full = self.bytes > RECEIVED_BYTES_MAX;
            is_full || now_ns.saturating_sub(received.at_ns) > RECEIVED_NS
        }) {
            self.bytes -= old.bytes();
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// What lost peers may not know, as [`limiter::Loss`] wants it.
#[derive(Debug, Default)]
pub(crate) struct Unknown {
    pub(crate) tail: Vec<Tail>,
    pub(crate) fold: Vec<(Bucket, When, i64)>,
    pub(crate) doubtful: Vec<(Bucket, When, i64)>,
    pub(crate) all: Vec<(Bucket, i64)>,
}

impl Unknown {
    /// Reads both logs for the `lost`, each with what it acknowledged, last heard at `heard_ns` at
    /// the earliest. To those of `aware`, lost or not, who have acknowledged what some of the lost
    /// have not, it is owed too: a peer says what it has when it is back, and that is dropped then; but
    /// one that has started again meanwhile may have the counts of a peer that lacks it. What was in the common level is in `fold`, once, and is a charge from now on; or in
    /// `doubtful`, where it was received earlier than that, but since `since_ns`. What an operator gave back since, as
    /// `was_given` says of a bucket and a member's batch, is in neither.
    pub(crate) fn of(
        log: &mut Log,
        received: &mut ReceiveLog,
        lost: &[(u8, u64)],
        aware: &[(u8, u64)],
        (heard_ns, since_ns): (u64, u64),
        was_given: impl Fn(Bucket, Source) -> bool,
    ) -> Self {
        let mut unknown = Self::default();
        let life = log.life;
        log.unknown_to(lost, aware, |sent, peers, folds| {
            for delta in sent.deltas.iter().filter(|delta| delta.spent != 0) {
                let (bucket, units, seq) = (delta.bucket, delta.spent, sent.seq);
                unknown.tail.push(Tail { bucket, peers, seq, units, when: delta.when });
                if was_given(bucket, Source { index: ME, life, seq }) {
                    continue;
                }
                unknown.all.push((bucket, units));
                if folds {
                    unknown.fold.push((bucket, delta.when, units));
                }
            }
        });
        let recent = received.batches.iter_mut().filter(|received| received.at_ns >= since_ns);
        for batch in recent {
            let of = batch.of;
            let spent = || batch.spent.iter().filter(|(bucket, ..)| !was_given(*bucket, of));
            unknown.all.extend(spent().map(|(bucket, _, units)| (*bucket, *units)));
            if !std::mem::replace(&mut batch.charged, true) {
                let is_doubtful = batch.at_ns < heard_ns;
                let list = if is_doubtful { &mut unknown.doubtful } else { &mut unknown.fold };
                list.extend(spent());
            }
        }
        unknown
    }
}

/// Units of `bucket` in batches, own and received, of which `was_known` does not hold.
pub(crate) fn unknown_units(
    log: &Log,
    received: &ReceiveLog,
    bucket: Bucket,
    was_known: impl Fn(Source) -> bool,
) -> i64 {
    let of = |sent: &Sent| Source { index: ME, life: log.life, seq: sent.seq };
    let own = log.batches.iter().filter(|sent| !was_known(of(sent)));
    let own = own.flat_map(|sent| &sent.deltas).map(|delta| (delta.bucket, delta.spent));
    let theirs = received.batches.iter().filter(|batch| !was_known(batch.of));
    let theirs = theirs.flat_map(|batch| &batch.spent).map(|(bucket, _, units)| (*bucket, *units));
    let of_bucket = own.chain(theirs).filter(|(of, _)| *of == bucket);
    of_bucket.fold(0, |sum: i64, (_, units)| sum.saturating_add(units))
}

/// Nobody is missing any more: every charge is in the common level again.
pub(crate) fn settle_charges(log: &mut Log, received: &mut ReceiveLog) {
    for sent in &mut log.batches {
        sent.charged = false;
    }
    for batch in &mut received.batches {
        batch.charged = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: u64 = 7;

    fn of(index: u8, seq: u64) -> Source {
        Source { index, life: LIFE, seq }
    }

    fn delta(hash: u64, spent: i64) -> Delta {
        let bucket = Bucket { slot: 0, hash };
        Delta {
            bucket,
            spent,
            demand: 0,
            shift: 0,
            reserved: false,
            level: None,
            when: When::Untimed,
        }
    }

    fn units(list: &[(Bucket, When, i64)]) -> Vec<(u64, i64)> {
        list.iter().map(|(bucket, _, units)| (bucket.hash, *units)).collect()
    }

    #[test]
    fn closes_in_order_and_drops_what_all_have() {
        let mut log = Log::new(LIFE);
        for seq in [3, 5, 6] {
            log.push(seq, vec![delta(seq, 1)], seq, false);
        }
        let mut closed = Vec::new();
        log.close(6, |deltas| closed.push(deltas[0].bucket.hash));
        log.close(6, |_| panic!("closed twice"));
        assert_eq!(closed, [3, 5]);
        log.drop_below(4);
        assert_eq!(log.unacknowledged(0), (2, Some(5)));
        assert_eq!(log.unacknowledged(6), (1, Some(6)));
        assert_eq!(log.sent_ns(6), Some(5));
        log.drop_below(u64::MAX);
        assert_eq!(log.unacknowledged(0), (1, Some(6)), "an open batch stays");
        log.close(u64::MAX, |_| ());
        log.drop_below(u64::MAX);
        assert!(log.is_empty());
        assert_eq!(log.bytes(), 0);
    }

    #[test]
    fn a_loss_folds_each_batch_once() {
        let (mut log, mut received) = (Log::new(LIFE), ReceiveLog::default());
        log.push(0, vec![delta(1, 10)], 0, false);
        log.push(1, vec![delta(1, 20), delta(2, 0)], 0, true);
        received.push(100, of(1, 0), &[delta(3, 5)], false);
        received.push(200, of(1, 1), &[delta(3, 6)], false);
        let first = Unknown::of(
            &mut log,
            &mut received,
            &[(1, 1), (2, 0)],
            &[(1, 1), (3, 2)],
            (150, 150),
            |_, _| false,
        );
        let tail: Vec<_> = first.tail.iter().map(|t| (t.seq, t.units, t.peers)).collect();
        let all = Members::only(1).with(2).with(3);
        assert_eq!(tail, [(0, 10, all), (1, 20, all)]);
        assert_eq!(units(&first.fold), [(1, 10), (3, 6)]);
        let all: Vec<_> = first.all.iter().map(|(bucket, units)| (bucket.hash, *units)).collect();
        assert_eq!(all, [(1, 10), (1, 20), (3, 6)]);
        let second = Unknown::of(&mut log, &mut received, &[(3, 0)], &[], (0, 0), |_, _| false);
        assert_eq!(units(&second.fold), [(3, 5)]);
        settle_charges(&mut log, &mut received);
        let third = Unknown::of(&mut log, &mut received, &[(1, 1)], &[], (300, 300), |_, _| false);
        assert_eq!(units(&third.fold), [(1, 20)]);
    }

    #[test]
    fn what_an_operator_gave_back_is_folded_no_more() {
        let (mut log, mut received) = (Log::new(LIFE), ReceiveLog::default());
        log.push(0, vec![delta(1, 10), delta(2, 7)], 100, false);
        log.push(1, vec![delta(1, -15)], 200, false);
        log.push(2, vec![delta(1, 1)], 201, false);
        received.push(100, of(2, 8), &[delta(1, 5), delta(2, 3)], false);
        received.push(201, of(2, 9), &[delta(1, 2)], false);
        let was_given =
            |bucket: Bucket, it| bucket.hash == 1 && [of(ME, 0), of(ME, 1), of(2, 8)].contains(&it);
        let unknown = Unknown::of(&mut log, &mut received, &[(1, 0)], &[], (0, 0), was_given);
        let owed: Vec<_> = unknown.tail.iter().map(|tail| tail.units).collect();
        assert_eq!(owed, [10, 7, -15, 1], "who was lost is owed all the same");
        assert_eq!(units(&unknown.fold), [(2, 7), (1, 1), (2, 3), (1, 2)]);
        assert_eq!(unknown.all.len(), 4);
        let (one, two) = (Bucket { slot: 0, hash: 1 }, Bucket { slot: 0, hash: 2 });
        assert_eq!(unknown_units(&log, &received, one, |it| was_given(one, it)), 3);
        assert_eq!(unknown_units(&log, &received, two, |it| was_given(two, it)), 10);
    }

    #[test]
    fn what_was_received_is_remembered_for_a_while() {
        let mut received = ReceiveLog::default();
        received.push(0, of(1, 0), &[delta(1, 1)], false);
        received.push(RECEIVED_NS, of(1, 1), &[delta(1, 1)], false);
        assert_eq!(received.batches.len(), 2);
        received.drop_old(RECEIVED_NS + 1);
        assert_eq!(received.batches.len(), 1);
        received.drop_old(3 * RECEIVED_NS);
        assert_eq!(received.bytes(), 0);
    }
}
