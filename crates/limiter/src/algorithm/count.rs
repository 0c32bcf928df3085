//! What windows and logs have in common: a count of spends that knows when they were spent.
//!
//! A spend belongs to a [`When`]: that is how nodes tell each other of it. A node counts what it hears in
//! the window that the sender names, or at the time at which it was spent.

use smallvec::SmallVec;

use super::{Log, Now, Part, SlidingLog, WindowCount, WindowCounter};
use crate::{Rate, Wait, When};

/// Own spends in a log that no peer knows yet are merged when they lie in one such part of the period.
const GRAINS: u64 = 1_024;
/// What peers are owed of a log is kept in so many parts of the period.
const CLASSES: u64 = 16;
/// Least length of either, in nanoseconds: ages are told in whole milliseconds.
const GRAIN_NS_MIN: u64 = 1_000_000;

/// Units with the times that they belong to, oldest first.
pub(crate) type Timed = SmallVec<[(When, u64); 3]>;

/// An algorithm that counts.
#[derive(Clone, Debug)]
pub(crate) enum Counter {
    /// Fixed and sliding windows.
    Window(WindowCounter),
    /// The sliding log.
    Log(SlidingLog),
}

/// What counts in one bucket.
#[derive(Clone, Debug)]
pub(crate) enum Count {
    /// Units by window.
    Window(WindowCount),
    /// The time of each unit.
    Log(Log),
}

impl Count {
    /// Bytes that it takes beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Window(_) => 0,
            Self::Log(log) => log.heap_bytes(),
        }
    }
}

impl Counter {
    /// Units that may count at once.
    pub(crate) fn limit(&self) -> u64 {
        match self {
            Self::Window(window) => window.limit(),
            Self::Log(log) => log.limit(),
        }
    }

    /// Ticks in a unit that counts in full.
    pub(crate) fn per_unit(&self) -> u64 {
        match self {
            Self::Window(window) => window.per_unit(),
            Self::Log(_) => 1,
        }
    }

    /// Ticks of the whole limit.
    fn full(&self) -> u64 {
        match self {
            Self::Window(window) => window.full(),
            Self::Log(log) => log.limit(),
        }
    }

    /// Units that come back in a time, on the whole.
    pub(crate) fn rate(&self) -> Rate {
        match self {
            Self::Window(window) => window.rate(),
            Self::Log(log) => log.rate(),
        }
    }

    /// Length of its windows or of its period in milliseconds; 0 where they differ.
    pub(crate) fn length_ms(&self) -> u64 {
        match self {
            Self::Window(window) => window.length_ms(),
            Self::Log(log) => log.length_ms(),
        }
    }

    /// Time over which it counts; of a calendar's windows, the shortest.
    pub(crate) fn period(&self) -> Wait {
        Wait::from_ns(self.rate().period_ns)
    }

    /// Length of the window that `now` lies in.
    pub(crate) fn period_at(&self, count: Option<&Count>, now: Now) -> Wait {
        match (self, count) {
            (Self::Window(window), Some(Count::Window(count))) => {
                let count = window.count_at(Some(*count), now);
                ms(window.window(&count, now).1)
            }
            (Self::Window(window), _) => ms(window.window(&window.count_at(None, now), now).1),
            (Self::Log(_), _) => self.period(),
        }
    }

    /// Bytes that `count`, none: a fresh one, takes more for `units` more, beside itself.
    pub(crate) fn bytes_to_grow(&self, count: Option<&Count>, units: u64) -> usize {
        // A debit beyond the deepest debt is cut.
        let units = units.min(self.limit().saturating_mul(2));
        let units = usize::try_from(units).unwrap_or(usize::MAX);
        match (self, count) {
            (Self::Window(_), _) => 0,
            (Self::Log(it), Some(Count::Log(log))) => log.bytes_to_grow(units, it.limit()),
            (Self::Log(it), _) => Log::default().bytes_to_grow(units, it.limit()),
        }
    }

    /// A count of nothing.
    pub(crate) fn fresh(&self, now: Now) -> Count {
        match self {
            Self::Window(window) => Count::Window(window.count_at(None, now)),
            Self::Log(_) => Count::Log(Log::default()),
        }
    }

    /// Ticks by which `count` is below the limit; none: nothing counts.
    pub(crate) fn missing(&self, count: Option<&Count>, now: Now) -> u64 {
        match (self, count) {
            (Self::Window(window), Some(Count::Window(count))) => {
                window.missing(&window.count_at(Some(*count), now), now.ns)
            }
            (Self::Log(algorithm), Some(Count::Log(log))) => algorithm.missing(log, now.ns),
            _ => 0,
        }
    }

    /// The most ticks that may be missing for `cost` units to fit; none where they never do.
    pub(crate) fn most_missing(&self, cost: u64) -> Option<u64> {
        Some(self.limit().checked_sub(cost)? * self.per_unit())
    }

    /// Whole units left when `missing` ticks are missing; 0 in debt.
    pub(crate) fn remaining(&self, missing: u64) -> u64 {
        self.full().saturating_sub(missing) / self.per_unit()
    }

    /// The smallest wait after which at most `most` ticks are missing if nothing is added.
    pub(crate) fn until(&self, count: Option<&Count>, now: Now, most: u64) -> Wait {
        match (self, count) {
            (Self::Window(window), Some(Count::Window(count))) => {
                window.until(&window.count_at(Some(*count), now), now.ns, most)
            }
            (Self::Log(algorithm), Some(Count::Log(log))) => algorithm.until(log, now.ns, most),
            _ => Wait::ZERO,
        }
    }

    /// Whether a bucket with `count` is as if untouched.
    pub(crate) fn is_at_rest(&self, count: &Count, now_ns: u64) -> bool {
        match (self, count) {
            (Self::Window(window), Count::Window(count)) => window.is_at_rest(count, now_ns),
            (Self::Log(algorithm), Count::Log(log)) => algorithm.is_at_rest(log, now_ns),
            _ => true,
        }
    }

    /// Where in time a spend of this moment belongs.
    pub(crate) fn when(&self, count: Option<&Count>, now: Now) -> When {
        match (self, count) {
            (Self::Window(window), Some(Count::Window(count))) => {
                window.when(&window.count_at(Some(*count), now), Part::Current)
            }
            (Self::Window(window), _) => window.when(&window.count_at(None, now), Part::Current),
            (Self::Log(_), _) => When::At { ns: now.ns },
        }
    }

    /// Adds `units` that were spent at `when` to `count`, or takes them off where they are negative;
    /// gives what was added.
    pub(crate) fn add(&self, count: &mut Count, when: When, units: i64, now: Now) -> i64 {
        match (self, count) {
            (Self::Window(window), Count::Window(count)) => {
                *count = window.count_at(Some(*count), now);
                let part = match when {
                    When::Window { start_ms, length_ms } => {
                        window.part_of(count, start_ms, length_ms)
                    }
                    When::Untimed | When::At { .. } => Part::Current,
                };
                window.add(count, part, units)
            }
            (Self::Log(algorithm), Count::Log(log)) => {
                let at_ns = match when {
                    When::At { ns } => ns.min(now.ns),
                    When::Untimed | When::Window { .. } => now.ns,
                };
                match u64::try_from(units) {
                    Ok(units) => {
                        algorithm.add(log, at_ns, now.ns, units);
                        units.cast_signed()
                    }
                    Err(_) => {
                        let removed = algorithm.remove_near(log, at_ns, units.unsigned_abs());
                        -removed.cast_signed()
                    }
                }
            }
            _ => 0,
        }
    }

    /// Takes up to `units` off `count`, the newest first; `u64::MAX`: everything, also what peers have
    /// spent in a window that has not begun here. Gives what was taken.
    pub(crate) fn give_back(&self, count: &mut Count, units: u64, now: Now) -> Timed {
        let mut taken = Timed::new();
        match (self, &mut *count) {
            (Self::Window(window), Count::Window(count)) => {
                *count = window.count_at(Some(*count), now);
                // What a fixed window no longer counts cannot be given back.
                let is_dead = |part: &Part| *part == Part::Previous && !window.is_sliding();
                let is_early = |part: &Part| *part == Part::Next && units < u64::MAX;
                let mut left = units;
                let parts = [Part::Current, Part::Previous, Part::Next];
                for part in parts.into_iter().filter(|part| !is_dead(part) && !is_early(part)) {
                    let wanted = i64::try_from(left).unwrap_or(i64::MAX);
                    let when = window.when(count, part);
                    let removed = window.add(count, part, -wanted).unsigned_abs();
                    left -= removed;
                    if removed > 0 {
                        taken.push((when, removed));
                    }
                }
            }
            (Self::Log(algorithm), Count::Log(log)) => {
                let removed = algorithm.remove_near(log, now.ns, units);
                if removed > 0 {
                    taken.push((When::At { ns: now.ns }, removed));
                }
            }
            _ => {}
        }
        taken
    }

    /// What counts by these numbers of `count`, which was counted by those of `from`. Other windows carry
    /// over what counts as spent in the one that now runs.
    pub(crate) fn count_of(&self, from: &Self, count: &Count, now: Now) -> Count {
        match (self, from, count) {
            (Self::Window(to), Self::Window(from), Count::Window(count)) => {
                Count::Window(to.count_of(from, count, now))
            }
            (Self::Log(_), Self::Log(_), Count::Log(log)) => Count::Log(log.clone()),
            _ => self.fresh(now),
        }
    }

    /// What counts in `count`, by the times at which it was spent, to the millisecond.
    pub(crate) fn parts(&self, count: &Count, now: Now) -> Vec<(When, u64)> {
        match (self, count) {
            (Self::Window(window), Count::Window(count)) => {
                let count = window.count_at(Some(*count), now);
                let parts = [
                    (Part::Previous, count.previous),
                    (Part::Current, count.current),
                    (Part::Next, count.next),
                ];
                let parts = parts.into_iter().filter(|(_, units)| *units > 0);
                parts.map(|(part, units)| (window.when(&count, part), units)).collect()
            }
            (Self::Log(algorithm), Count::Log(log)) => algorithm
                .groups(log, now.ns, GRAIN_NS_MIN)
                .map(|(ns, units)| (When::At { ns }, units))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Whether what was spent at `when` can still count somewhere.
    pub(crate) fn counts(&self, count: Option<&Count>, when: When, now: Now) -> bool {
        match (self, when) {
            (Self::Window(window), When::Window { start_ms, length_ms }) => {
                let count = match count {
                    Some(Count::Window(count)) => Some(*count),
                    _ => None,
                };
                let count = window.count_at(count, now);
                if start_ms == count.start_ms {
                    return true;
                }
                match window.when(&count, Part::Previous) {
                    When::Window { start_ms: oldest_ms, .. } => {
                        start_ms.saturating_add(length_ms) > oldest_ms
                    }
                    When::Untimed | When::At { .. } => true,
                }
            }
            (Self::Log(log), When::At { ns }) => now.ns.saturating_sub(ns) < log.period_ns(),
            _ => true,
        }
    }

    /// Whether own spends of the times `a` and `b` are told to peers as one.
    pub(crate) fn is_one_grain(&self, a: When, b: When) -> bool {
        self.is_one(a, b, GRAINS)
    }

    /// Whether peers are owed spends of the times `a` and `b` as one.
    pub(crate) fn is_one_class(&self, a: When, b: When) -> bool {
        self.is_one(a, b, CLASSES)
    }

    fn is_one(&self, a: When, b: When, parts: u64) -> bool {
        match (self, a, b) {
            (Self::Log(log), When::At { ns: a }, When::At { ns: b }) => {
                let grain = (log.period_ns() / parts).max(GRAIN_NS_MIN);
                a / grain == b / grain
            }
            _ => a == b,
        }
    }
}

/// The younger of two times that are told as one.
pub(crate) fn younger(a: When, b: When) -> When {
    a.max(b)
}

fn ms(ms: u64) -> Wait {
    Wait::from_ns(ms.saturating_mul(1_000_000))
}
