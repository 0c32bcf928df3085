//! Overflow buckets: one per limit, shared by the keys that found no room in the store.

use hashbrown::HashMap;

use crate::algorithm::{Algorithm, Count, Counter, Now, TokenBucket};
use crate::matching::Slot;
use crate::plan::Plan;

/// The overflow buckets of a plan.
#[derive(Debug)]
pub(crate) struct Overflow {
    /// By slot: the tick at which the bucket is full again; none if it is as if untouched.
    full_at: Vec<Option<u64>>,
    /// What counts, by slot, where the algorithm counts.
    counts: HashMap<Slot, Count>,
    /// Latest time at which buckets were read.
    entered_ns: u64,
    /// Latest time at which the full ones were forgotten.
    settled_ns: u64,
}

impl Overflow {
    pub(crate) fn new(slots: usize) -> Self {
        Self { full_at: vec![None; slots], counts: HashMap::new(), entered_ns: 0, settled_ns: 0 }
    }

    /// Moves the time forward to `now_ns`. Like a shard, it forgets what has filled before ticks can
    /// have wrapped, by what was missing when it was last entered and the exact time since.
    pub(crate) fn enter(&mut self, now_ns: u64, horizon_ns: u64, plan: &Plan) {
        let Some(elapsed_ns) = now_ns.checked_sub(self.entered_ns) else { return };
        if now_ns - self.settled_ns > horizon_ns {
            for (rule, full_at) in plan.rules().iter().zip(&mut self.full_at) {
                let (Some(shared), Some(tick)) = (rule.shared(), *full_at) else {
                    continue;
                };
                let Some(bucket) = shared.level() else { continue };
                let missing = TokenBucket::missing(tick, bucket.tick(self.entered_ns));
                if u128::from(missing) <= bucket.elapsed(elapsed_ns) {
                    *full_at = None;
                }
            }
            self.settled_ns = now_ns;
        }
        self.entered_ns = now_ns;
    }

    /// Ticks missing in the bucket of `slot`.
    pub(crate) fn missing(&self, slot: Slot, algorithm: &Algorithm, now: Now) -> u64 {
        match algorithm {
            Algorithm::Level(level) => {
                let full_at = self.full_at.get(usize::from(slot)).copied().flatten();
                full_at.map_or(0, |full_at| TokenBucket::missing(full_at, level.tick(now.ns)))
            }
            Algorithm::Count(counter) => counter.missing(self.count(slot), now),
        }
    }

    /// What counts in the bucket of `slot`.
    pub(crate) fn count(&self, slot: Slot) -> Option<&Count> {
        self.counts.get(&slot)
    }

    /// Changes what counts in the bucket of `slot`.
    pub(crate) fn change_count<R>(
        &mut self,
        slot: Slot,
        counter: &Counter,
        now: Now,
        act: impl FnOnce(&mut Count) -> R,
    ) -> R {
        act(self.counts.entry(slot).or_insert_with(|| counter.fresh(now)))
    }

    pub(crate) fn write(&mut self, slot: Slot, full_at: u64) {
        if let Some(state) = self.full_at.get_mut(usize::from(slot)) {
            *state = Some(full_at);
        }
    }

    pub(crate) fn remove(&mut self, slot: Slot) {
        if let Some(state) = self.full_at.get_mut(usize::from(slot)) {
            *state = None;
        }
        self.counts.remove(&slot);
    }
}
