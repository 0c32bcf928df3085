//! All shards at once, for what changes every bucket in one step.

use parking_lot::MutexGuard;

use super::{Shard, Store};
use crate::force::InForce;

/// All shards, locked at one time.
pub(crate) struct LockedAll<'s> {
    store: &'s Store,
    shards: Vec<MutexGuard<'s, Shard>>,
    now_ns: u64,
}

impl LockedAll<'_> {
    /// The time of everything that is read here.
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// The shard of `hash`.
    pub(crate) fn shard_of(&mut self, hash: u64) -> &mut Shard {
        &mut self.shards[self.store.shard_of(hash)]
    }

    /// Every shard.
    pub(crate) fn shards(&mut self) -> impl Iterator<Item = &mut Shard> {
        self.shards.iter_mut().map(|shard| &mut **shard)
    }
}

impl Store {
    /// Locks every shard, at one time which is `now_ns` or later.
    pub(crate) fn lock_all(&self, now_ns: u64, force: &InForce) -> LockedAll<'_> {
        let mut shards: Vec<_> = self.shards.iter().map(|shard| shard.lock()).collect();
        let now_ns = shards.iter().fold(now_ns, |now_ns, shard| shard.time(now_ns));
        for shard in &mut shards {
            shard.enter(now_ns, self.wall_offset_ns(), force);
        }
        LockedAll { store: self, shards, now_ns }
    }
}
