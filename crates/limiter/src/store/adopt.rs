//! Bringing a shard from the plan before to the one in force: what was used is kept, in units.

use super::shard::Shard;
use crate::algorithm::TokenBucket;
use crate::force::InForce;
use crate::share::Ledger;

impl Shard {
    /// Brings everything here to the rules of `force`, at `now_ns`. What has come to rest meanwhile goes.
    #[cold]
    pub(super) fn adopt(&mut self, now_ns: u64, force: &InForce) {
        self.number = force.number;
        self.space = force.space;
        if force.changes_nothing() {
            return;
        }
        self.settle(now_ns, &|slot| force.shared_before(slot));
        self.entered_ns = now_ns;
        let mut numbers = self.numbers.take();
        // What has numbers of its own keeps them, whatever those of its rule are now.
        let is_own = |hash| numbers.as_deref().is_some_and(|it| it.counted(hash).is_some());
        let members = self.ledger().map(|ledger| ledger.view.size());
        self.table.retain(|entry| {
            let slot = entry.bucket().slot;
            let Some(from) = force.renumbered(slot) else { return !force.is_removed(slot) };
            let Some(to) = force.shared(slot) else { return false };
            if is_own(entry.bucket().hash) {
                return true;
            }
            let (Some(old), Some(new)) = (from.level(), to.level()) else { return false };
            let missing = TokenBucket::missing(entry.full_at(), old.tick(now_ns));
            let missing = to.missing_of(from, missing, members);
            entry.fill_at(new.tick(now_ns).wrapping_add(missing));
            missing > 0
        });
        let now = self.now(now_ns);
        if let Some(counts) = &mut self.counts {
            counts.adopt(force, is_own, now);
        }
        if let Some(ledger) = self.ledger_mut() {
            Ledger::adopt(ledger, force, is_own, now);
        }
        if let Some(numbers) = &mut numbers {
            numbers.adopt(force);
        }
        self.numbers = numbers.filter(|numbers| !numbers.is_empty());
    }
}
