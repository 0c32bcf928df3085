//! What happens next: events in the order of time, and of being put in where times are equal.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::network::Timed;

/// Something that happens.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A connection or a frame arrives, or an end learns that it is closed.
    Delivery(Timed),
    /// The cluster of a node asked to be polled.
    Poll(Life),
    /// A node sends its signs of life.
    Ping(Life),
    /// A node dials whom it has no connection to.
    Dial(Life),
    /// A node drops entries at rest.
    Sweep(Life),
    /// A node reads its wall clock.
    Wall(Life),
    /// The time of a held check is over: its waiter.
    HoldEnds(Life, usize),
    /// The act at this place of the script.
    Act(usize),
    /// All levels of the first key are read.
    Probe,
    /// All nodes are inspected.
    Inspect,
}

/// A node in one of its lives: what was meant for an earlier one is void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) node: usize,
    pub(crate) life: u64,
}

#[derive(Debug)]
struct Queued {
    at_ns: u64,
    serial: u64,
    event: Event,
}

impl PartialEq for Queued {
    fn eq(&self, other: &Self) -> bool {
        (self.at_ns, self.serial) == (other.at_ns, other.serial)
    }
}

impl Eq for Queued {}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Queued {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_ns, self.serial).cmp(&(other.at_ns, other.serial))
    }
}

/// The queue of events.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<Queued>>,
    serial: u64,
}

impl Queue {
    pub(crate) fn push(&mut self, at_ns: u64, event: Event) {
        self.serial += 1;
        self.heap.push(Reverse(Queued { at_ns, serial: self.serial, event }));
    }

    /// When the next event happens.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(queued)| queued.at_ns)
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, Event)> {
        self.heap.pop().map(|Reverse(queued)| (queued.at_ns, queued.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_time_then_of_being_put_in() {
        let mut queue = Queue::default();
        for (at_ns, place) in [(5, 0), (3, 1), (5, 2), (3, 3)] {
            queue.push(at_ns, Event::Act(place));
        }
        assert_eq!(queue.next_ns(), Some(3));
        let mut order = Vec::new();
        while let Some((_, Event::Act(place))) = queue.pop() {
            order.push(place);
        }
        assert_eq!(order, [1, 3, 0, 2]);
    }
}
