//! Counts over time, in a bounded number of slots: when there is no room they become twice as wide.

/// Most slots of a series.
pub const SLOTS_MAX: usize = 480;

/// What happened in a slot, in units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Units that were asked for.
    pub asked: u64,
    /// Units that were let through; of a queue, when they left it.
    pub passed: u64,
}

/// Slots of one width, from a time on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    start_ns: u64,
    slot_ns: u64,
    slots: Vec<Slot>,
}

impl Series {
    /// An empty series from `start_ns` on, in slots of `slot_ns` at first.
    pub fn new(start_ns: u64, slot_ns: u64) -> Self {
        Self { start_ns, slot_ns: slot_ns.max(1), slots: Vec::new() }
    }

    /// When the first slot begins, in nanoseconds.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Width of a slot, in nanoseconds.
    pub fn slot_ns(&self) -> u64 {
        self.slot_ns
    }

    /// The slots up to the last in which something happened.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The same in slots of at least this width.
    #[must_use]
    pub fn widened(mut self, slot_ns: u64) -> Self {
        while self.slot_ns < slot_ns {
            self.widen();
        }
        self
    }

    /// Counts units that were asked for.
    pub fn asked(&mut self, at_ns: u64, units: u64) {
        let slot = self.slot(at_ns);
        slot.asked = slot.asked.saturating_add(units);
    }

    /// Counts units that were let through.
    pub fn passed(&mut self, at_ns: u64, units: u64) {
        let slot = self.slot(at_ns);
        slot.passed = slot.passed.saturating_add(units);
    }

    fn slot(&mut self, at_ns: u64) -> &mut Slot {
        let since_ns = at_ns.saturating_sub(self.start_ns);
        while since_ns / self.slot_ns >= SLOTS_MAX as u64 {
            self.widen();
        }
        let place = usize::try_from(since_ns / self.slot_ns).unwrap_or(SLOTS_MAX - 1);
        if place >= self.slots.len() {
            self.slots.resize(place + 1, Slot::default());
        }
        &mut self.slots[place]
    }

    fn widen(&mut self) {
        let sum = |pair: &[Slot]| Slot {
            asked: pair.iter().fold(0, |sum, slot| sum.saturating_add(slot.asked)),
            passed: pair.iter().fold(0, |sum, slot| sum.saturating_add(slot.passed)),
        };
        self.slots = self.slots.chunks(2).map(sum).collect();
        self.slot_ns = self.slot_ns.saturating_mul(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_stand_in_their_slots() {
        let mut series = Series::new(100, 10);
        series.asked(100, 1);
        series.passed(109, 2);
        series.asked(110, 4);
        let slots = [Slot { asked: 1, passed: 2 }, Slot { asked: 4, passed: 0 }];
        assert_eq!((series.slots(), series.slot_ns()), (&slots[..], 10));
        let widened = series.widened(15);
        assert_eq!((widened.slots(), widened.slot_ns()), (&[Slot { asked: 5, passed: 2 }][..], 20));
    }

    #[test]
    fn however_long_it_gets_the_slots_are_bounded_and_nothing_is_lost() {
        let mut series = Series::new(0, 1);
        for at_ns in (0..SLOTS_MAX as u64 * 5).chain([u64::MAX]) {
            series.asked(at_ns, 1);
        }
        assert!(series.slots().len() <= SLOTS_MAX);
        let asked: u64 = series.slots().iter().map(|slot| slot.asked).sum();
        assert_eq!(asked, SLOTS_MAX as u64 * 5 + 1);
    }
}
