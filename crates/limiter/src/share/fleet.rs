//! What a member of a cluster has once, not per shard: the buckets that ask for an early flush, what
//! the sync side last said, and counts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;

use super::delta::{Bucket, ShareCounts};
use super::stand::SharedBucket;
use crate::matching::Slot;
use crate::rule::Rule;
use crate::{Freshness, Wait};

/// Shared by all threads that decide, and by the one that exchanges with peers.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) sync_interval_ns: u64,
    /// Each bucket at most once, as its motion says.
    early: Mutex<Vec<Bucket>>,
    is_flush_wanted: AtomicBool,
    /// Time of the next exchange.
    exchange_ns: AtomicU64,
    /// Time until which the sync side is known to run.
    alive_until_ns: AtomicU64,
    /// Freshness in the upper half, age in milliseconds in the lower.
    freshness: AtomicU64,
    events: [AtomicU64; EVENTS],
    debt_permille: AtomicU64,
    /// Deepest debt seen, in units, by slot: only of rules that had any.
    debts: Mutex<HashMap<Slot, u64>>,
}

/// What can happen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FleetEvent {
    RowsFull,
    Dropped,
    Clipped,
    ShareDenied,
    Held,
    Reserved,
    Released,
    Echo,
}

const EVENTS: usize = 8;

impl Fleet {
    pub(crate) fn new(sync_interval_ns: u64) -> Self {
        Self {
            sync_interval_ns,
            early: Mutex::new(Vec::new()),
            is_flush_wanted: AtomicBool::new(false),
            exchange_ns: AtomicU64::new(0),
            alive_until_ns: AtomicU64::new(u64::MAX),
            freshness: AtomicU64::new((Freshness::Starting as u64) << 32),
            events: Default::default(),
            debt_permille: AtomicU64::new(0),
            debts: Mutex::default(),
        }
    }

    /// Puts `bucket` among those that ask for an early flush.
    pub(crate) fn ask_early(&self, bucket: Bucket) {
        self.early.lock().push(bucket);
        self.is_flush_wanted.store(true, Ordering::Release);
    }

    /// The buckets that asked for an early flush since the last call.
    pub(crate) fn take_early(&self) -> Vec<Bucket> {
        std::mem::take(&mut *self.early.lock())
    }

    pub(crate) fn has_early(&self) -> bool {
        !self.early.lock().is_empty()
    }

    /// Whether an early flush became wanted since the last call.
    pub(crate) fn take_flush_wanted(&self) -> bool {
        self.is_flush_wanted.load(Ordering::Relaxed)
            && self.is_flush_wanted.swap(false, Ordering::AcqRel)
    }

    /// Time until the next exchange with peers, at most one interval.
    pub(crate) fn until_exchange(&self, now_ns: u64) -> Wait {
        let wait = self.exchange_ns.load(Ordering::Relaxed).saturating_sub(now_ns);
        Wait::from_ns(if wait == 0 {
            self.sync_interval_ns
        } else {
            wait.min(self.sync_interval_ns)
        })
    }

    pub(crate) fn set_exchange(&self, at_ns: u64) {
        self.exchange_ns.store(at_ns, Ordering::Relaxed);
    }

    /// Whether the sync side ran lately enough for what it last said to hold.
    pub(crate) fn is_alive(&self, now_ns: u64) -> bool {
        now_ns <= self.alive_until_ns.load(Ordering::Acquire)
    }

    pub(crate) fn set_alive_until(&self, ns: u64) {
        self.alive_until_ns.store(ns, Ordering::Release);
    }

    /// Freshness, and the age of the oldest news in milliseconds.
    pub(crate) fn freshness(&self) -> (Freshness, u32) {
        let packed = self.freshness.load(Ordering::Relaxed);
        let freshness = usize::try_from(packed >> 32).ok();
        let freshness = freshness.and_then(|at| Freshness::ALL.get(at).copied());
        let stale_ms = u32::try_from(packed & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        (freshness.unwrap_or(Freshness::Starting), stale_ms)
    }

    pub(crate) fn set_freshness(&self, freshness: Freshness, stale_ms: u64) {
        let stale_ms = stale_ms.min(u64::from(u32::MAX));
        self.freshness.store((freshness as u64) << 32 | stale_ms, Ordering::Relaxed);
    }

    pub(crate) fn event(&self, event: FleetEvent) {
        self.events[event as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that the level of a bucket of the rule at `slot` is `level` ticks.
    pub(crate) fn note_level(&self, slot: Slot, level: i128, shared: &SharedBucket) {
        let full = shared.full();
        if level >= 0 || full <= 0 {
            return;
        }
        let permille = u64::try_from(-level * 1_000 / full).unwrap_or(u64::MAX);
        self.debt_permille.fetch_max(permille, Ordering::Relaxed);
        // Rounded up: a debt is never told smaller than it was.
        let units = (-level).unsigned_abs().div_ceil(u128::from(shared.per_unit()));
        let mut debts = self.debts.lock();
        let deepest = debts.entry(slot).or_default();
        *deepest = (*deepest).max(u64::try_from(units).unwrap_or(u64::MAX));
    }

    /// Deepest debt seen in any bucket of each of `rules`, in units rounded up.
    pub(crate) fn deepest_debts(&self, rules: &[Rule]) -> Vec<u64> {
        let debts = self.debts.lock();
        rules.iter().map(|rule| debts.get(&rule.slot).copied().unwrap_or(0)).collect()
    }

    /// The rules that had `slots` are gone.
    pub(crate) fn forget_debts(&self, slots: impl Iterator<Item = Slot>) {
        let mut debts = self.debts.lock();
        for slot in slots {
            debts.remove(&slot);
        }
    }

    /// The counts that are not of the store.
    pub(crate) fn counts(&self) -> ShareCounts {
        let read = |event: FleetEvent| self.events[event as usize].load(Ordering::Relaxed);
        ShareCounts {
            motions: 0,
            charges: 0,
            rows_max: 0,
            rows_full: read(FleetEvent::RowsFull),
            dropped: read(FleetEvent::Dropped),
            clipped: read(FleetEvent::Clipped),
            share_denied: read(FleetEvent::ShareDenied),
            held: read(FleetEvent::Held),
            reserved: read(FleetEvent::Reserved),
            released: read(FleetEvent::Released),
            echoes: read(FleetEvent::Echo),
            debt_permille: self.debt_permille.load(Ordering::Relaxed),
        }
    }
}
