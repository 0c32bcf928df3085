//! A histogram of durations in fixed buckets, two to every doubling.

use std::sync::atomic::{AtomicU64, Ordering};

/// Upper end of the first bucket: 2^10 ns, about a microsecond.
const FIRST_BIT: u32 = 10;
/// Buckets with an upper end; the last ends at 2^27 ns, about 134 ms. Whatever is longer is counted
/// in the sum and the count only.
pub const BUCKETS: usize = 35;

/// Counts of durations by bucket. Reading while others write may miss the newest few.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    count: AtomicU64,
    sum_ns: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            count: AtomicU64::new(0),
            sum_ns: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    /// Adds one duration.
    pub fn record(&self, ns: u64) {
        if let Some(bucket) = self.buckets.get(bucket_of(ns)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Each bucket's upper end in nanoseconds, inclusive, and what it alone counted.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.buckets.iter().enumerate().map(|(i, n)| (upper_ns(i), n.load(Ordering::Relaxed)))
    }

    /// Durations recorded.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Their sum, in nanoseconds.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns.load(Ordering::Relaxed)
    }
}

/// Index of the first bucket whose upper end is at least `ns`; [`BUCKETS`] or more if there is none.
fn bucket_of(ns: u64) -> usize {
    let below = ns.saturating_sub(1);
    if below < 1 << FIRST_BIT {
        return 0;
    }
    let octave = below.ilog2();
    let is_upper_half = (below >> (octave - 1)) & 1;
    let steps = u64::from(octave - FIRST_BIT) * 2 + is_upper_half + 1;
    usize::try_from(steps).unwrap_or(BUCKETS)
}

fn upper_ns(bucket: usize) -> u64 {
    (2 + (bucket as u64 & 1)) << (bucket / 2 + FIRST_BIT as usize - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_upper_end_falls_into_its_own_bucket_and_one_more_into_the_next() {
        for bucket in 0..BUCKETS {
            assert_eq!(bucket_of(upper_ns(bucket)), bucket);
            assert_eq!(bucket_of(upper_ns(bucket) + 1), bucket + 1);
        }
    }

    #[test]
    fn bounds_run_from_a_microsecond_to_an_eighth_of_a_second() {
        assert_eq!(upper_ns(0), 1_024);
        assert_eq!(upper_ns(1), 1_536);
        assert_eq!(upper_ns(BUCKETS - 1), 1 << 27);
    }

    #[test]
    fn a_duration_beyond_the_last_bucket_is_still_counted() {
        let histogram = Histogram::default();
        histogram.record(1_000);
        histogram.record(u64::from(u32::MAX));
        assert_eq!(histogram.count(), 2);
        assert_eq!(histogram.sum_ns(), 1_000 + u64::from(u32::MAX));
        assert_eq!(histogram.buckets().map(|(_, n)| n).sum::<u64>(), 1);
    }
}
