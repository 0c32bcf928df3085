//! Counts of what the doors did, cheap enough to be kept on every check.
//!
//! It only counts; `metrics` puts the counts into words.

use std::num::NonZero;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::available_parallelism;

use crossbeam_utils::CachePadded;

use crate::door::{Door, Fault, Outcome};
use crate::histogram::Histogram;

/// One frame in this many has its duration measured, which costs a second clock read.
pub const SAMPLE_EVERY: u64 = 16;

/// The counts of a node, split by thread so that threads do not share cache lines.
#[derive(Debug)]
pub struct Counters {
    shards: Box<[CachePadded<Shard>]>,
    doors: [DoorGauges; Door::ALL.len()],
}

#[derive(Debug, Default)]
struct Shard {
    frames: [AtomicU64; Door::ALL.len()],
    checks: [[AtomicU64; Outcome::ALL.len()]; Door::ALL.len()],
    faults: [[AtomicU64; Fault::ALL.len()]; Door::ALL.len()],
}

#[derive(Debug, Default)]
struct DoorGauges {
    connections_open: AtomicU64,
    connections_total: AtomicU64,
    durations: Histogram,
}

impl Counters {
    /// Counts that all stand at 0.
    pub fn new() -> Self {
        let shards = available_parallelism().map_or(1, NonZero::get);
        Self {
            shards: (0..shards).map(|_| CachePadded::default()).collect(),
            doors: Default::default(),
        }
    }

    /// Counts one frame, or one HTTP question, at `door`. True if its duration is to be measured.
    pub fn count_frame(&self, door: Door) -> bool {
        let before = self.shard().frames[door as usize].fetch_add(1, Ordering::Relaxed);
        before.is_multiple_of(SAMPLE_EVERY)
    }

    /// Counts one check.
    pub fn count_check(&self, door: Door, outcome: Outcome) {
        self.shard().checks[door as usize][outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one fault.
    pub fn count_fault(&self, door: Door, fault: Fault) {
        self.shard().faults[door as usize][fault as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Adds the duration of a sampled frame.
    pub fn record_duration(&self, door: Door, ns: u64) {
        self.doors[door as usize].durations.record(ns);
    }

    /// Counts a connection for as long as the guard lives.
    pub fn open_connection(&self, door: Door) -> ConnectionGuard<'_> {
        let gauges = &self.doors[door as usize];
        gauges.connections_open.fetch_add(1, Ordering::Relaxed);
        gauges.connections_total.fetch_add(1, Ordering::Relaxed);
        ConnectionGuard(gauges)
    }

    /// Frames, or HTTP questions, at `door` since the start.
    pub fn frames(&self, door: Door) -> u64 {
        self.sum(|shard| &shard.frames[door as usize])
    }

    /// Checks at `door` that ended as `outcome` since the start.
    pub fn checks(&self, door: Door, outcome: Outcome) -> u64 {
        self.sum(|shard| &shard.checks[door as usize][outcome as usize])
    }

    /// Faults of one kind at `door` since the start.
    pub fn faults(&self, door: Door, fault: Fault) -> u64 {
        self.sum(|shard| &shard.faults[door as usize][fault as usize])
    }

    /// Connections that are open at `door`.
    pub fn connections_open(&self, door: Door) -> u64 {
        self.doors[door as usize].connections_open.load(Ordering::Relaxed)
    }

    /// Connections that `door` has served or is serving.
    pub fn connections_total(&self, door: Door) -> u64 {
        self.doors[door as usize].connections_total.load(Ordering::Relaxed)
    }

    /// Durations of the sampled frames at `door`.
    pub fn durations(&self, door: Door) -> &Histogram {
        &self.doors[door as usize].durations
    }

    fn sum(&self, counter: impl Fn(&Shard) -> &AtomicU64) -> u64 {
        self.shards.iter().map(|shard| counter(shard).load(Ordering::Relaxed)).sum()
    }

    fn shard(&self) -> &Shard {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static THREAD: usize = NEXT.fetch_add(1, Ordering::Relaxed);
        }
        &self.shards[THREAD.with(|thread| *thread) % self.shards.len()]
    }
}

impl Default for Counters {
    fn default() -> Self {
        Self::new()
    }
}

/// An open connection, counted until it is dropped.
#[derive(Debug)]
pub struct ConnectionGuard<'c>(&'c DoorGauges);

impl Drop for ConnectionGuard<'_> {
    fn drop(&mut self) {
        self.0.connections_open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_all_threads_are_summed() {
        let counters = Counters::new();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| counters.count_check(Door::Udp, Outcome::Denied));
            }
        });
        assert_eq!(counters.checks(Door::Udp, Outcome::Denied), 8);
        assert_eq!(counters.checks(Door::Udp, Outcome::Allowed), 0);
        assert_eq!(counters.checks(Door::Stream, Outcome::Denied), 0);
    }

    #[test]
    fn one_frame_in_sixteen_is_sampled() {
        let counters = Counters::new();
        let sampled = (0..64).filter(|_| counters.count_frame(Door::Stream)).count();
        assert_eq!(sampled, 4);
        assert_eq!(counters.frames(Door::Stream), 64);
    }

    #[test]
    fn a_connection_is_open_while_its_guard_lives() {
        let counters = Counters::new();
        let guard = counters.open_connection(Door::Http);
        assert_eq!(counters.connections_open(Door::Http), 1);
        drop(guard);
        assert_eq!(counters.connections_open(Door::Http), 0);
        assert_eq!(counters.connections_total(Door::Http), 1);
    }
}
