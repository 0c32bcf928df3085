//! Overflow buckets: one per limit, shared by the keys that found no room in the store. The carried limit has
//! one for each set of terms.

use std::sync::Arc;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::numbers::Numbered;
use crate::Terms;
use crate::algorithm::{Algorithm, Count, Counter, Now, TokenBucket};
use crate::force::InForce;
use crate::matching::Slot;

/// Most sets of terms that have an overflow bucket at once. Calls with others are answered as if `when_full`
/// were `deny`.
const TERMS_MAX: usize = 1024;

/// The overflow bucket of carried keys that have the same terms. What is missing is kept with its time: it is
/// not read often enough for ticks that wrap.
#[derive(Debug)]
struct Loose {
    numbered: Arc<Numbered>,
    missing: u64,
    at_ns: u64,
}

impl Loose {
    fn missing(&self, now_ns: u64) -> u64 {
        let elapsed_ns = now_ns.saturating_sub(self.at_ns);
        let passed = self.numbered.level().map_or(0, |level| level.elapsed(elapsed_ns));
        u64::try_from(u128::from(self.missing).saturating_sub(passed)).unwrap_or(0)
    }
}

/// The overflow buckets of a plan.
#[derive(Debug)]
pub(crate) struct Overflow {
    /// By slot: the tick at which the bucket is full again; none if it is as if untouched.
    full_at: Vec<Option<u64>>,
    /// What counts, by slot, where the algorithm counts.
    counts: HashMap<Slot, Count>,
    /// Of the carried limit, by terms: they have no numbers in common.
    carried: HashMap<Terms, Loose>,
    /// Latest time at which buckets were read.
    entered_ns: u64,
    /// Latest time at which the full ones were forgotten.
    settled_ns: u64,
    /// Number of the plan whose rules the buckets belong to.
    number: u64,
}

impl Overflow {
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            full_at: vec![None; slots],
            counts: HashMap::new(),
            carried: HashMap::new(),
            entered_ns: 0,
            settled_ns: 0,
            number: 0,
        }
    }

    /// Moves the time forward to `now_ns`. Like a shard, it forgets what has filled before ticks can
    /// have wrapped, by what was missing when it was last entered and the exact time since.
    pub(crate) fn enter(&mut self, now: Now, force: &InForce) {
        if self.number != force.number {
            self.adopt(now, force);
        }
        let now_ns = now.ns;
        let Some(elapsed_ns) = now_ns.checked_sub(self.entered_ns) else { return };
        if now_ns - self.settled_ns > force.horizon_ns {
            for (slot, full_at) in (0..).zip(&mut self.full_at) {
                let (Some(shared), Some(tick)) = (force.shared(slot), *full_at) else { continue };
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

    /// Brings the buckets to the rules of `force`: what was used is kept, in units.
    pub(crate) fn adopt(&mut self, now: Now, force: &InForce) {
        if self.number >= force.number {
            return;
        }
        self.number = force.number;
        if force.carried().is_none() {
            self.carried = HashMap::new();
        }
        let at_ns = now.ns.max(self.entered_ns);
        self.full_at.resize(force.slots().max(self.full_at.len()), None);
        for (slot, full_at) in (0..).zip(&mut self.full_at) {
            if force.is_removed(slot) {
                *full_at = None;
            }
            let (Some(from), Some(to)) = (force.renumbered(slot), force.shared(slot)) else {
                continue;
            };
            let (Some(tick), Some(old), Some(new)) = (*full_at, from.level(), to.level()) else {
                continue;
            };
            let missing = TokenBucket::missing(tick, old.tick(self.entered_ns));
            let passed = old.elapsed(at_ns - self.entered_ns);
            let missing = u64::try_from(u128::from(missing).saturating_sub(passed)).unwrap_or(0);
            let missing = to.missing_of(from, missing, None);
            *full_at = Some(new.tick(at_ns).wrapping_add(missing));
        }
        self.counts.retain(|slot, count| {
            if let (Some(from), Some(to)) = (force.renumbered(*slot), force.shared(*slot))
                && let Some(converted) = to.count_of(from, count, now)
            {
                *count = converted;
            }
            !force.is_removed(*slot)
        });
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

    /// The numbers of the bucket of carried keys with `terms`, and the ticks missing in it; none where there
    /// are too many such buckets.
    pub(crate) fn of_terms(&mut self, terms: Terms, now_ns: u64) -> Option<(Arc<Numbered>, u64)> {
        if self.carried.len() >= TERMS_MAX && !self.carried.contains_key(&terms) {
            self.carried.retain(|_, loose| loose.missing(now_ns) > 0);
        }
        let has_room = self.carried.len() < TERMS_MAX;
        let loose = match self.carried.entry(terms) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(_) if !has_room => return None,
            Entry::Vacant(entry) => {
                let numbered = Arc::new(Numbered::by(terms)?);
                entry.insert(Loose { numbered, missing: 0, at_ns: now_ns })
            }
        };
        Some((Arc::clone(&loose.numbered), loose.missing(now_ns)))
    }

    /// Notes that the bucket of carried keys with `terms` is full at the tick `full_at`.
    pub(crate) fn write_of(&mut self, terms: Terms, full_at: u64, now_ns: u64) {
        let Some(loose) = self.carried.get_mut(&terms) else { return };
        if let Some(level) = loose.numbered.level() {
            loose.missing = TokenBucket::missing(full_at, level.tick(now_ns));
            loose.at_ns = loose.at_ns.max(now_ns);
        }
    }

    pub(crate) fn remove_of(&mut self, terms: Terms) {
        self.carried.remove(&terms);
    }
}
