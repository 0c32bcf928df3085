//! Sliding log: the time of every unit, so that at most `limit` fall into any period, exactly.
//!
//! A unit accepted at `s` counts at `t` if `s > t - period`: it is free again exactly at `s + period`.
//! What is missing is the number of units that count, so a unit is one tick.

use std::collections::VecDeque;

use crate::{LOG_MAX, Rate, Wait};

/// Bytes of one time.
const TIME_BYTES: usize = size_of::<u64>();

/// A sliding log's numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlidingLog {
    /// Units that may count at a time: 1 to [`LOG_MAX`].
    limit: u64,
    /// How long a unit counts, in nanoseconds.
    period_ns: u64,
}

/// Times of the units that count in one bucket, oldest first, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    times: VecDeque<u64>,
}

impl SlidingLog {
    /// A log of `limit` units in any `period_ns`, or what is wrong with the numbers.
    pub(crate) fn new(limit: u64, period_ns: u64) -> Result<Self, String> {
        if limit == 0 {
            return Err("a limit of 0 lets nothing through; write `deny = true`".into());
        }
        if limit > LOG_MAX {
            return Err(format!(
                "a sliding log keeps the time of every unit, of at most `log_max` = {LOG_MAX}, and the \
                 limit is `{limit}`; lower it, or write `algorithm = \"sliding-window\"`, which keeps \
                 two numbers whatever the limit"
            ));
        }
        if period_ns == 0 {
            return Err(
                "a period of 0 limits nothing; write a longer one, or `unlimited = true`".into()
            );
        }
        Ok(Self { limit, period_ns })
    }

    /// Units that may count at a time.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// The limit per period.
    pub(crate) fn rate(&self) -> Rate {
        Rate { count: self.limit, period_ns: self.period_ns }
    }

    /// How long a unit counts, in nanoseconds.
    pub(crate) fn period_ns(&self) -> u64 {
        self.period_ns
    }

    /// The same in milliseconds, rounded up.
    pub(crate) fn length_ms(&self) -> u64 {
        self.period_ns.div_ceil(1_000_000)
    }

    /// Units that count.
    pub(crate) fn missing(&self, log: &Log, now_ns: u64) -> u64 {
        units(log.len() - self.first_that_counts(log, now_ns))
    }

    /// The smallest wait until at most `most` units count, if none is added.
    pub(crate) fn until(&self, log: &Log, now_ns: u64, most: u64) -> Wait {
        let first = self.first_that_counts(log, now_ns);
        let too_many = units(log.len() - first).saturating_sub(most);
        let Some(before_last) = too_many.checked_sub(1) else {
            return Wait::ZERO;
        };
        let last = usize::try_from(before_last).ok().and_then(|past| log.times.get(first + past));
        Wait::from_ns(last.map_or(0, |&at| at.saturating_add(self.period_ns) - now_ns))
    }

    /// Adds `units` at `at_ns`, after what no longer counts is dropped. How many there may be is for the
    /// caller to say.
    pub(crate) fn add(&self, log: &mut Log, at_ns: u64, now_ns: u64, units: u64) {
        log.times.drain(..self.first_that_counts(log, now_ns));
        log.insert(at_ns, usize::try_from(units).unwrap_or(usize::MAX), self.limit);
        log.shrink();
    }

    /// Takes back `units`, and says how many there were to take: the newest of those that are no younger
    /// than `at_ns`, then the oldest of the younger.
    pub(crate) fn remove_near(&self, log: &mut Log, at_ns: u64, units: u64) -> u64 {
        let units = usize::try_from(units).unwrap_or(usize::MAX);
        let younger = log.times.partition_point(|&at| at <= at_ns);
        let first = younger.saturating_sub(units);
        let end = first.saturating_add(units).min(log.len());
        log.remove(first..end)
    }

    /// The units that count, in groups of those whose times fall into the same `grain_ns`, oldest
    /// first: the time of the group's youngest, and how many there are.
    pub(crate) fn groups<'l>(
        &self,
        log: &'l Log,
        now_ns: u64,
        grain_ns: u64,
    ) -> impl Iterator<Item = (u64, u64)> + use<'l> {
        let grain_ns = grain_ns.max(1);
        let mut times = log.times.range(self.first_that_counts(log, now_ns)..).copied().peekable();
        std::iter::from_fn(move || {
            let mut youngest = times.next()?;
            let class = youngest / grain_ns;
            let mut units = 1;
            while let Some(at) = times.next_if(|at| at / grain_ns == class) {
                youngest = at;
                units += 1;
            }
            Some((youngest, units))
        })
    }

    /// Whether nothing counts any more.
    pub(crate) fn is_at_rest(&self, log: &Log, now_ns: u64) -> bool {
        !log.times.back().is_some_and(|&at| self.counts(at, now_ns))
    }

    /// Where those that count begin.
    fn first_that_counts(&self, log: &Log, now_ns: u64) -> usize {
        // Most checks find nothing to drop, and the oldest alone says so.
        match log.times.front() {
            Some(&oldest) if self.counts(oldest, now_ns) => 0,
            _ => log.times.partition_point(|&at| !self.counts(at, now_ns)),
        }
    }

    fn counts(&self, at_ns: u64, now_ns: u64) -> bool {
        now_ns.saturating_sub(at_ns) < self.period_ns
    }
}

impl Log {
    /// Times that are kept, those that no longer count included.
    pub(crate) fn len(&self) -> usize {
        self.times.len()
    }

    /// Bytes that are allocated.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.times.capacity() * TIME_BYTES
    }

    /// Bytes that adding `units` would allocate more, if nothing was dropped before.
    pub(crate) fn bytes_to_grow(&self, units: usize, limit: u64) -> usize {
        self.capacity_with(units, limit)
            .saturating_sub(self.times.capacity())
            .saturating_mul(TIME_BYTES)
    }

    /// Capacity after `units` were added: what is there if they fit, else by a quarter more than what
    /// is kept, so that a log in use is at most a quarter empty.
    fn capacity_with(&self, units: usize, limit: u64) -> usize {
        let wanted = self.len().saturating_add(units);
        if wanted <= self.times.capacity() {
            return self.times.capacity();
        }
        // Beyond the limit there is only what was charged in spite of it.
        let limit = usize::try_from(limit).unwrap_or(usize::MAX).max(self.len());
        wanted.max(roomy(self.len()).min(limit))
    }

    /// Inserts `units` times `at_ns` where they belong: at the end, unless a peer's clock or a slow
    /// message puts them earlier.
    fn insert(&mut self, at_ns: u64, units: usize, limit: u64) {
        let capacity = self.capacity_with(units, limit);
        self.times.reserve_exact(capacity - self.len());
        let place = match self.times.back() {
            Some(&newest) if newest > at_ns => self.times.partition_point(|&at| at <= at_ns),
            _ => self.len(),
        };
        self.times.resize(self.len() + units, at_ns);
        if place < self.len() - units {
            self.times.make_contiguous()[place..].rotate_right(units);
        }
    }

    /// Removes a range and says how many that were.
    fn remove(&mut self, range: std::ops::Range<usize>) -> u64 {
        let removed = units(range.len());
        self.times.drain(range);
        self.shrink();
        removed
    }

    /// Gives memory back once three quarters of it are unused.
    fn shrink(&mut self) {
        if self.len() <= self.times.capacity() / 4 {
            self.times.shrink_to(roomy(self.len()));
        }
    }
}

/// Capacity for `len` times and a quarter more.
fn roomy(len: usize) -> usize {
    len + len / 4 + 4
}

fn units(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const MINUTE: u64 = 60 * SECOND;

    fn log_of(times: &[u64]) -> Log {
        Log { times: times.iter().copied().collect() }
    }

    fn times(log: &Log) -> Vec<u64> {
        log.times.iter().copied().collect()
    }

    #[test]
    fn refuses_numbers_that_mean_nothing() {
        assert!(SlidingLog::new(0, SECOND).unwrap_err().contains("deny = true"));
        assert!(SlidingLog::new(1, 0).unwrap_err().contains("unlimited = true"));
        let refusal = SlidingLog::new(LOG_MAX + 1, SECOND).unwrap_err();
        for said in ["`log_max` = 10000", "`10001`", "sliding-window"] {
            assert!(refusal.contains(said), "{refusal}");
        }
        assert_eq!(SlidingLog::new(LOG_MAX, SECOND).unwrap().limit(), LOG_MAX);
    }

    #[test]
    fn a_unit_is_free_again_exactly_a_period_after_it_was_spent() {
        let five = SlidingLog::new(5, 15 * MINUTE).unwrap();
        let mut log = Log::default();
        for minute in 0..5 {
            five.add(&mut log, minute * MINUTE, minute * MINUTE, 1);
        }
        let free_at = 15 * MINUTE;
        assert_eq!(five.missing(&log, free_at - 1), 5);
        assert_eq!(five.until(&log, free_at - 1, 4), Wait::from_ns(1));
        assert_eq!(five.missing(&log, free_at), 4);
        assert_eq!(five.until(&log, free_at, 4), Wait::ZERO);
        assert_eq!(five.until(&log, free_at, 2), Wait::from_ns(2 * MINUTE));
        assert_eq!(five.until(&log, free_at, 0), Wait::from_ns(4 * MINUTE));
        assert!(!five.is_at_rest(&log, 19 * MINUTE - 1));
        assert!(five.is_at_rest(&log, 19 * MINUTE));
        assert!(five.is_at_rest(&Log::default(), 0));
    }

    #[test]
    fn all_count_when_the_period_is_longer_than_the_clock_has_run() {
        let log = SlidingLog::new(3, u64::MAX).unwrap();
        let mut kept = Log::default();
        log.add(&mut kept, 0, 0, 2);
        assert_eq!(log.missing(&kept, u64::MAX - 1), 2);
        assert_eq!(log.until(&kept, 5, 0), Wait::from_ns(u64::MAX - 5));
        log.add(&mut kept, 7, 7, 1);
        assert_eq!(log.until(&kept, 7, 0), Wait::from_ns(u64::MAX - 7));
    }

    #[test]
    fn adding_drops_what_no_longer_counts() {
        let log = SlidingLog::new(10, SECOND).unwrap();
        let mut kept = log_of(&[0, 1, 2]);
        log.add(&mut kept, SECOND + 1, SECOND + 1, 1);
        assert_eq!(times(&kept), [2, SECOND + 1]);
    }

    #[test]
    fn what_is_heard_late_stands_where_it_belongs() {
        let log = SlidingLog::new(10, SECOND).unwrap();
        let mut kept = log_of(&[10, 20, 30]);
        log.add(&mut kept, 20, 30, 2);
        log.add(&mut kept, 5, 30, 1);
        log.add(&mut kept, 40, 40, 1);
        assert_eq!(times(&kept), [5, 10, 20, 20, 20, 30, 40]);
    }

    #[test]
    fn takes_back_what_is_nearest_to_a_time() {
        let log = SlidingLog::new(10, SECOND).unwrap();
        let mut kept = log_of(&[10, 20, 20, 30, 40]);
        assert_eq!(log.remove_near(&mut kept, 25, 2), 2);
        assert_eq!(times(&kept), [10, 30, 40]);
        assert_eq!(log.remove_near(&mut kept, 25, 2), 2);
        assert_eq!(times(&kept), [40], "the older first, then the younger");
        assert_eq!(log.remove_near(&mut kept, u64::MAX, u64::MAX), 1);
        assert_eq!(log.remove_near(&mut kept, u64::MAX, 1), 0);
        assert_eq!(kept.len(), 0);
    }

    #[test]
    fn a_group_has_the_time_of_its_youngest() {
        let log = SlidingLog::new(10, 100).unwrap();
        let kept = log_of(&[0, 9, 10, 19, 19, 30, 105]);
        let groups = |now_ns, grain_ns| log.groups(&kept, now_ns, grain_ns).collect::<Vec<_>>();
        assert_eq!(groups(105, 10), [(9, 1), (19, 3), (30, 1), (105, 1)]);
        assert_eq!(groups(108, 1), [(9, 1), (10, 1), (19, 2), (30, 1), (105, 1)]);
        assert_eq!(groups(109, 0), [(10, 1), (19, 2), (30, 1), (105, 1)]);
        assert_eq!(groups(205, 10), []);
    }

    #[test]
    fn says_beforehand_what_it_will_allocate() {
        let log = SlidingLog::new(1_000, SECOND).unwrap();
        let mut kept = Log::default();
        assert_eq!(kept.heap_bytes(), 0);
        for cost in [1, 3, 1, 40, 0, 7, 100, 848] {
            let told = kept.bytes_to_grow(cost, 1_000);
            let before = kept.heap_bytes();
            log.add(&mut kept, 1, 1, u64::try_from(cost).unwrap());
            assert_eq!(kept.heap_bytes(), before + told, "{cost}");
        }
        assert_eq!((kept.len(), kept.heap_bytes()), (1_000, 8_000));
    }

    #[test]
    fn is_at_most_a_quarter_empty_after_it_grew() {
        let log = SlidingLog::new(LOG_MAX, SECOND).unwrap();
        let mut kept = Log::default();
        for len in 1..=1_000 {
            log.add(&mut kept, 1, 1, 1);
            assert!(kept.heap_bytes() <= 8 * (len + len / 4 + 4), "{len}");
        }
    }

    #[test]
    fn gives_memory_back_once_three_quarters_are_unused() {
        let log = SlidingLog::new(1_000, SECOND).unwrap();
        let mut kept = Log::default();
        log.add(&mut kept, 1, 1, 1_000);
        log.remove_near(&mut kept, u64::MAX, 749);
        assert_eq!((kept.len(), kept.heap_bytes()), (251, 8_000));
        log.remove_near(&mut kept, u64::MAX, 1);
        assert_eq!((kept.len(), kept.heap_bytes()), (250, 8 * 316));
        log.add(&mut kept, SECOND + 1, SECOND + 1, 1);
        assert_eq!((kept.len(), kept.heap_bytes()), (1, 40));
    }
}
