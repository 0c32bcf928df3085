//! The limits in force: a plan, how buckets of the plan before it become buckets of this one, and what
//! follows from both for the store.

use std::ops::Deref;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::Plan;
use crate::matching::Slot;
use crate::share::SharedBucket;
use crate::store::Space;

/// A plan in force. Every shard of the store is brought to it when it is first locked with it.
#[derive(Debug)]
pub(crate) struct InForce {
    pub(crate) plan: Arc<Plan>,
    /// How many plans were in force before.
    pub(crate) number: u64,
    /// Longest time for which levels may go unread.
    pub(crate) horizon_ns: u64,
    /// What a shard may hold.
    pub(crate) space: Space,
    /// What became of the rules of the plan before, by slot, where they are not as they were.
    changes: HashMap<Slot, Change>,
}

/// What became of a rule that counted.
#[derive(Debug)]
pub(crate) enum Change {
    /// It is gone, or counts no longer.
    Removed,
    /// It has other numbers than these.
    Renumbered(SharedBucket),
}

impl Deref for InForce {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        &self.plan
    }
}

impl InForce {
    pub(crate) fn new(
        plan: Plan,
        number: u64,
        space: Space,
        changes: HashMap<Slot, Change>,
    ) -> Self {
        let horizon_ns = plan.horizon_ns();
        Self { plan: Arc::new(plan), number, horizon_ns, space, changes }
    }

    /// Whether any bucket has to change.
    pub(crate) fn changes_nothing(&self) -> bool {
        self.changes.is_empty()
    }

    /// Whether the buckets of `slot` are gone.
    pub(crate) fn is_removed(&self, slot: Slot) -> bool {
        matches!(self.changes.get(&slot), Some(Change::Removed))
    }

    /// The numbers that the buckets of `slot` had in the plan before, where they have others now.
    pub(crate) fn renumbered(&self, slot: Slot) -> Option<&SharedBucket> {
        match self.changes.get(&slot)? {
            Change::Removed => None,
            Change::Renumbered(before) => Some(before),
        }
    }

    /// The numbers that the buckets of `slot` had in the plan before; none: they are gone.
    pub(crate) fn shared_before(&self, slot: Slot) -> Option<&SharedBucket> {
        match self.changes.get(&slot) {
            None => self.plan.shared(slot),
            Some(Change::Removed) => None,
            Some(Change::Renumbered(before)) => Some(before),
        }
    }

    /// The slots whose buckets are gone.
    pub(crate) fn removed(&self) -> impl Iterator<Item = Slot> {
        let removed = self.changes.iter().filter(|(_, change)| matches!(change, Change::Removed));
        removed.map(|(slot, _)| *slot)
    }
}
