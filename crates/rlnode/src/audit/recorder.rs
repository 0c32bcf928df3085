//! Takes the spends of sampled keys where they are made, and hands them to the writer without waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use limiter::{Plan, Spend, Witness};
use tokio::sync::oneshot;

use super::record::State;

/// Spends that wait for the writer, at most: 1.3 million a second, as often as it looks. A further one
/// is dropped and counted.
pub const QUEUE_LEN: usize = 65_536;
/// Orders that wait for the writer, at most. A state that finds no room is told again later.
const ORDERS_LEN: usize = 64;

/// Which keys are recorded: one in `one_in`, chosen by the hash of the bucket, so that every node of a
/// cluster records the same. Whoever is chosen as one of many is among those chosen as one of fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    one_in: u32,
}

impl Sample {
    /// One key in `one_in`, at least 1.
    pub fn one_in(one_in: u32) -> Self {
        Self { one_in: one_in.max(1) }
    }

    /// One key in so many.
    pub fn to_one_in(self) -> u32 {
        self.one_in
    }

    /// Whether the bucket `hash` is recorded. Spread by a multiplication, because the bits of the hash
    /// itself choose shards and places in tables.
    pub fn takes(self, hash: u64) -> bool {
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let place = hash.wrapping_mul(SPREAD) >> 32;
        place.wrapping_mul(u64::from(self.one_in)) >> 32 == 0
    }
}

/// What the recording did since the start.
#[derive(Debug, Default)]
pub struct Counts {
    /// Spends of sampled keys that are in files.
    pub recorded: AtomicU64,
    /// Spends of sampled keys that are not: the queue was full.
    pub dropped: AtomicU64,
    /// Spends of sampled keys that are not: their block could not be written.
    pub unwritten: AtomicU64,
    /// Times that a file could not be opened or written.
    pub failures: AtomicU64,
    /// Files removed to keep within the bound.
    pub removed: AtomicU64,
    /// Bytes of the files of this node.
    pub bytes: AtomicU64,
}

impl Counts {
    pub(super) fn add(counter: &AtomicU64, by: u64) {
        counter.fetch_add(by, Ordering::Relaxed);
    }
}

/// The hot end of the queue.
#[derive(Debug)]
pub struct Recorder {
    sample: Sample,
    spends: SyncSender<Spend>,
    counts: Arc<Counts>,
}

impl Witness for Recorder {
    fn handle_spend(&self, spend: Spend) {
        // The writer never sleeps on this queue, so that nobody is ever woken here.
        if self.sample.takes(spend.hash) && self.spends.try_send(spend).is_err() {
            Counts::add(&self.counts.dropped, 1);
        }
    }
}

/// What the writer is told.
#[derive(Debug)]
pub(super) enum Order {
    /// What the node knows of its cluster now.
    State(State),
    /// Other limits are in force.
    Limits(Arc<Plan>),
    /// Write what is left, and end. Answered when that is done.
    Finish(oneshot::Sender<()>),
}

/// The writer's ends of the queues.
#[derive(Debug)]
pub struct Tail {
    pub(super) sample: Sample,
    pub(super) spends: Receiver<Spend>,
    pub(super) orders: Receiver<Order>,
    pub(super) counts: Arc<Counts>,
}

/// The recording of a node, as the node has it.
#[derive(Debug)]
pub struct Audit {
    recorder: Arc<Recorder>,
    orders: SyncSender<Order>,
    counts: Arc<Counts>,
}

impl Audit {
    /// A recording of `sample`, and the ends that its writer reads.
    pub fn new(sample: Sample) -> (Self, Tail) {
        let (spends, spends_end) = sync_channel(QUEUE_LEN);
        let (orders, orders_end) = sync_channel(ORDERS_LEN);
        let counts = Arc::new(Counts::default());
        let tail =
            Tail { sample, spends: spends_end, orders: orders_end, counts: Arc::clone(&counts) };
        let recorder = Arc::new(Recorder { sample, spends, counts: Arc::clone(&counts) });
        (Self { recorder, orders, counts }, tail)
    }

    /// Who the limiter tells of its spends.
    pub fn witness(&self) -> Arc<dyn Witness> {
        Arc::clone(&self.recorder) as Arc<dyn Witness>
    }

    /// What it did since the start.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Which keys it records.
    pub fn sample(&self) -> Sample {
        self.recorder.sample
    }

    /// Takes over what the node knows of its cluster now.
    pub fn handle_state(&self, state: State) {
        // With a queue full of states, a further one says nothing new.
        let _ = self.orders.try_send(Order::State(state));
    }

    /// Takes over other limits. Comes when they are in force: spends that were made meanwhile may be put down
    /// to the limits before.
    pub fn handle_limits(&self, plan: Arc<Plan>) {
        // It waits for room if there is none: without it every later spend would be put down wrongly.
        let _ = self.orders.send(Order::Limits(plan));
    }

    /// Waits until everything is written; at once if the writer has ended.
    pub async fn finish(&self) {
        let (done, finished) = oneshot::channel();
        if self.orders.try_send(Order::Finish(done)).is_ok() {
            // An error: the writer ended without an answer, and there is nothing to wait for.
            let _ = finished.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use limiter::SpendKind;

    use super::*;

    fn spend(hash: u64) -> Spend {
        Spend { at_ns: 1, slot: 0, hash, kind: SpendKind::Check, units: 1 }
    }

    #[test]
    fn a_sample_takes_its_part_and_is_within_every_larger_one() {
        let hashes = || (0..1 << 20).map(|i: u64| i.wrapping_mul(0x2545_f491_4f6c_dd1d));
        assert!(hashes().all(|hash| Sample::one_in(1).takes(hash)));
        for one_in in [2, 64, 1_000] {
            let taken = hashes().filter(|hash| Sample::one_in(one_in).takes(*hash)).count();
            let expected = (1 << 20) / one_in as usize;
            assert!(taken.abs_diff(expected) < expected / 5 + 2, "{taken} of 1/{one_in}");
        }
        let larger = Sample::one_in(3);
        assert!(hashes().filter(|hash| Sample::one_in(64).takes(*hash)).all(|h| larger.takes(h)));
    }

    #[test]
    fn a_full_queue_drops_and_counts_and_does_not_wait() {
        let (audit, tail) = Audit::new(Sample::one_in(1));
        let witness = audit.witness();
        (0..QUEUE_LEN as u64 + 5).for_each(|hash| witness.handle_spend(spend(hash)));
        assert_eq!(audit.counts().dropped.load(Ordering::Relaxed), 5);
        assert_eq!(tail.spends.try_iter().count(), QUEUE_LEN);
        drop(tail);
        witness.handle_spend(spend(1));
        assert_eq!(audit.counts().dropped.load(Ordering::Relaxed), 6);
    }

    #[tokio::test]
    async fn nobody_waits_for_a_writer_that_has_ended() {
        let (audit, tail) = Audit::new(Sample::one_in(1));
        drop(tail);
        audit.handle_state(State::default());
        audit.finish().await;
    }
}
