//! Which buckets the checks that are held wait for, so that a person who asks can be told.
//!
//! It decides nothing: the member holds and wakes them. It is as long as the list of held checks.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use limiter::Bucket;

/// How many checks wait for each bucket.
#[derive(Debug, Default)]
pub struct Waiting(Mutex<HashMap<Bucket, usize>>);

/// One check that waits, as long as this is there.
#[derive(Debug)]
pub struct Waits<'w> {
    waiting: &'w Waiting,
    bucket: Bucket,
}

impl Waiting {
    /// Counts a check that waits for `bucket`, until what is returned is dropped.
    pub fn enter(&self, bucket: Bucket) -> Waits<'_> {
        *self.lock().entry(bucket).or_default() += 1;
        Waits { waiting: self, bucket }
    }

    /// How many checks wait for `bucket` now.
    pub fn count(&self, bucket: Bucket) -> usize {
        self.lock().get(&bucket).copied().unwrap_or(0)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Bucket, usize>> {
        // A count that is off by one after a panic elsewhere harms nobody.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock();
        if let Some(count) = waiting.get_mut(&self.bucket) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                waiting.remove(&self.bucket);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_those_that_wait_and_keeps_nothing_of_those_that_have_gone() {
        let (a, b) = (Bucket { slot: 0, hash: 1 }, Bucket { slot: 1, hash: 1 });
        let waiting = Waiting::default();
        let (first, second) = (waiting.enter(a), waiting.enter(a));
        let other = waiting.enter(b);
        assert_eq!((waiting.count(a), waiting.count(b)), (2, 1));
        drop(first);
        assert_eq!(waiting.count(a), 1);
        drop((second, other));
        assert!(waiting.lock().is_empty());
    }
}
