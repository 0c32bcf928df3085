//! Datagrams that wait for their time to leave: a bounded heap, soonest first.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::Duration;

use crate::direction::Passage;

/// Most datagrams that wait, of all directions together: a tenth of a second of 160,000 a second, in
/// 24 MB at QUIC's usual length. A further one is dropped and counted.
pub(crate) const WAITING_MAX: usize = 16_384;

/// A datagram that waits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// When it leaves, counted from the start of the relay.
    pub(crate) due: Duration,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) passage: Passage,
    pub(crate) bytes: Box<[u8]>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Entry>,
    pushed: u64,
}

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    /// Those of one time leave in the order in which they came.
    number: u64,
    waiting: Waiting,
}

impl Queue {
    /// Takes a datagram, and says whether it is the soonest now. None if there is no room.
    pub(crate) fn push(&mut self, waiting: Waiting) -> Option<bool> {
        if self.heap.len() >= WAITING_MAX {
            return None;
        }
        let is_soonest = self.next_due().is_none_or(|due| waiting.due < due);
        self.heap.push(Entry { number: self.pushed, waiting });
        self.pushed += 1;
        Some(is_soonest)
    }

    /// When the soonest leaves.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.heap.peek().map(|entry| entry.waiting.due)
    }

    /// The soonest, if its time has come.
    pub(crate) fn pop_due(&mut self, now: Duration) -> Option<Waiting> {
        self.next_due().filter(|due| *due <= now)?;
        self.heap.pop().map(|entry| entry.waiting)
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        // The greatest of a heap comes first.
        (other.waiting.due, other.number).cmp(&(self.waiting.due, self.number))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(due_ms: u64, mark: u8) -> Waiting {
        let passage = Passage { is_duplicated: false, is_held_back: false };
        let due = Duration::from_millis(due_ms);
        Waiting { due, from: 0, to: 1, passage, bytes: Box::new([mark]) }
    }

    #[test]
    fn the_soonest_leaves_first_and_those_of_one_time_as_they_came() {
        let mut queue = Queue::default();
        let soonest = [at(5, 1), at(5, 2), at(3, 3), at(5, 4)].map(|it| queue.push(it));
        assert_eq!(soonest, [Some(true), Some(false), Some(true), Some(false)]);
        assert_eq!(queue.pop_due(Duration::from_millis(2)), None);
        let left = |queue: &mut Queue, ms| queue.pop_due(Duration::from_millis(ms));
        assert_eq!(left(&mut queue, 3), Some(at(3, 3)));
        assert_eq!(left(&mut queue, 4), None);
        assert_eq!([(); 4].map(|()| left(&mut queue, 9).map(|it| it.bytes[0])), {
            [Some(1), Some(2), Some(4), None]
        });
    }

    #[test]
    fn a_full_queue_takes_nothing_more_until_one_has_left() {
        let mut queue = Queue::default();
        for _ in 0..WAITING_MAX {
            assert!(queue.push(at(1, 0)).is_some());
        }
        assert_eq!(queue.push(at(0, 0)), None);
        assert!(queue.pop_due(Duration::from_secs(1)).is_some());
        assert!(queue.push(at(0, 0)).is_some());
    }
}
