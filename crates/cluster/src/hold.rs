//! Checks that wait for an acknowledgement of their bucket.

use std::collections::{HashMap, VecDeque};

use limiter::Bucket;

/// Most checks that wait at once. Each is a caller that waits for milliseconds; more are denied.
pub const HELD_MAX: usize = 1_024;

/// The waiting checks, first in, first out per bucket.
#[derive(Debug)]
pub(crate) struct Held<W> {
    by_bucket: HashMap<Bucket, Vec<W>>,
    waiting: usize,
    woken: VecDeque<W>,
}

impl<W> Held<W> {
    pub(crate) fn new() -> Self {
        Self { by_bucket: HashMap::new(), waiting: 0, woken: VecDeque::new() }
    }

    /// Keeps `waiter` until its bucket is acknowledged, or gives it back when too many wait.
    pub(crate) fn keep(&mut self, bucket: Bucket, waiter: W) -> Result<(), W> {
        if self.waiting >= HELD_MAX {
            return Err(waiter);
        }
        self.waiting += 1;
        self.by_bucket.entry(bucket).or_default().push(waiter);
        Ok(())
    }

    /// Everything that waits for `bucket` is to be tried again.
    pub(crate) fn wake(&mut self, bucket: Bucket) {
        let Some(waiters) = self.by_bucket.remove(&bucket) else { return };
        self.waiting -= waiters.len();
        self.woken.extend(waiters);
    }

    /// The next check to try again.
    pub(crate) fn next_woken(&mut self) -> Option<W> {
        self.woken.pop_front()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Bucket = Bucket { slot: 0, hash: 1 };
    const B: Bucket = Bucket { slot: 0, hash: 2 };

    #[test]
    fn wakes_first_in_first_out_and_only_the_bucket() {
        let mut held = Held::new();
        for (bucket, waiter) in [(A, 1), (B, 2), (A, 3)] {
            held.keep(bucket, waiter).unwrap();
        }
        held.wake(A);
        assert_eq!(
            (held.next_woken(), held.next_woken(), held.next_woken()),
            (Some(1), Some(3), None)
        );
        assert_eq!(held.len(), 1);
    }

    #[test]
    fn gives_back_what_is_above_the_bound() {
        let mut held = Held::new();
        for waiter in 0..HELD_MAX {
            held.keep(A, waiter).unwrap();
        }
        assert_eq!(held.keep(B, 7), Err(7));
        held.wake(A);
        assert_eq!(held.keep(B, 7), Ok(()));
    }
}
