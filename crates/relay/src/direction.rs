//! One direction from a node to another: its weather, whether it is cut, and what it lets pass when.
//! It sends nothing itself; times are counted from the start of the relay.

use std::time::Duration;

use crate::fate::Stream;
use crate::{Counts, Weather};

/// State of one direction.
#[derive(Debug)]
pub(crate) struct Direction {
    stream: Stream,
    weather: Weather,
    is_cut: bool,
    /// Whether its first and its second node are cut off from all others.
    isolated: [bool; 2],
    /// Datagrams that came, whatever became of them.
    came: u64,
    /// Datagrams that wait for their time in the order in which they came.
    in_order: usize,
    /// When the last of those leaves.
    last_due: Duration,
    counts: Counts,
}

/// What is to be done with a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Drop,
    /// It leaves now.
    Now(Passage),
    /// It waits until this time, which [`Direction::admit_waiting`] must hear of.
    At(Duration, Passage),
}

/// How a datagram leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passage {
    /// A copy follows it.
    pub(crate) is_duplicated: bool,
    /// Others may overtake it.
    pub(crate) is_held_back: bool,
}

impl Direction {
    pub(crate) fn new(stream: Stream) -> Self {
        Self {
            stream,
            weather: Weather::default(),
            is_cut: false,
            isolated: [false; 2],
            came: 0,
            in_order: 0,
            last_due: Duration::ZERO,
            counts: Counts::default(),
        }
    }

    pub(crate) fn set_weather(&mut self, weather: Weather) {
        self.weather = weather;
    }

    pub(crate) fn set_cut(&mut self, is_cut: bool) {
        self.is_cut = is_cut;
    }

    /// Its first node, or its second, is cut off from all others, or is no longer.
    pub(crate) fn set_isolated(&mut self, end: usize, is_isolated: bool) {
        self.isolated[end] = is_isolated;
    }

    fn is_closed(&self) -> bool {
        self.is_cut || self.isolated.contains(&true)
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// A datagram came.
    pub(crate) fn handle_datagram(&mut self, now: Duration) -> Verdict {
        let number = self.came;
        self.came += 1;
        if self.is_closed() {
            self.counts.cut += 1;
            return Verdict::Drop;
        }
        let fate = self.stream.fate(number, &self.weather);
        if fate.is_lost {
            self.counts.lost += 1;
            return Verdict::Drop;
        }
        let is_held_back = fate.held_back.is_some();
        let passage = Passage { is_duplicated: fate.is_duplicated, is_held_back };
        // Who keeps the order leaves no sooner than who came before and still waits.
        let earliest = if self.in_order > 0 { self.last_due.max(now) } else { now };
        let in_order = now.saturating_add(fate.takes).max(earliest);
        match fate.held_back {
            Some(held) => Verdict::At(in_order.saturating_add(held), passage),
            None if in_order > now || self.in_order > 0 => Verdict::At(in_order, passage),
            None => Verdict::Now(passage),
        }
    }

    /// A datagram found a place among those that wait.
    pub(crate) fn admit_waiting(&mut self, due: Duration, passage: Passage) {
        if !passage.is_held_back {
            self.in_order += 1;
            self.last_due = due;
        }
    }

    /// The time of a datagram that waited has come; whether it may leave.
    pub(crate) fn release_waiting(&mut self) -> bool {
        self.counts.cut += u64::from(self.is_closed());
        !self.is_closed()
    }

    /// A datagram that waited and kept the order has left, or was dropped.
    pub(crate) fn finish_waiting(&mut self, passage: Passage) {
        if !passage.is_held_back {
            self.in_order = self.in_order.saturating_sub(1);
        }
    }

    /// There was no place for a datagram.
    pub(crate) fn count_crowded_out(&mut self) {
        self.counts.crowded_out += 1;
    }

    /// A datagram of this length left, or its copy.
    pub(crate) fn count_forwarded(&mut self, length: usize) {
        self.counts.forwarded += 1;
        self.counts.bytes += u64::try_from(length).unwrap_or(0);
    }

    /// What a datagram suffered, once it is sure that it leaves or waits.
    pub(crate) fn count_passage(&mut self, passage: Passage) {
        self.counts.duplicated += u64::from(passage.is_duplicated);
        self.counts.reordered += u64::from(passage.is_held_back);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn direction(weather: Weather) -> Direction {
        let mut direction = Direction::new(Stream::new(7, 0, 1));
        direction.set_weather(weather);
        direction
    }

    /// When each of a thousand datagrams leaves of which one comes each tenth of a millisecond.
    fn departures(direction: &mut Direction) -> Vec<Duration> {
        (0..1_000)
            .filter_map(|number| {
                let now = number * MS / 10;
                match direction.handle_datagram(now) {
                    Verdict::Drop => None,
                    Verdict::Now(_) => Some(now),
                    Verdict::At(due, passage) => {
                        direction.admit_waiting(due, passage);
                        Some(due)
                    }
                }
            })
            .collect()
    }

    #[test]
    fn fair_weather_lets_everything_pass_at_once() {
        let left = departures(&mut direction(Weather::default()));
        assert_eq!(left, (0..1_000).map(|number| number * MS / 10).collect::<Vec<_>>());
    }

    #[test]
    fn a_delay_is_the_same_for_all_and_jitter_alone_reorders_nothing() {
        let left = departures(&mut direction(Weather { delay: 5 * MS, ..Weather::default() }));
        assert!((0..1_000).zip(&left).all(|(number, due)| *due == number * MS / 10 + 5 * MS));
        let jitter = Weather { delay: 5 * MS, jitter: 4 * MS, ..Weather::default() };
        let left = departures(&mut direction(jitter));
        assert!(left.is_sorted());
        assert!((0..1_000).zip(&left).all(|(number, due)| {
            let came = number * MS / 10;
            (came + 5 * MS..=came + 9 * MS).contains(due)
        }));
    }

    #[test]
    fn order_is_lost_only_where_that_is_asked_for() {
        let weather = Weather { delay: 2 * MS, reorder_ppm: 100_000, ..Weather::default() };
        let mut direction = direction(weather);
        let left = departures(&mut direction);
        assert!(!left.is_sorted());
        // Who is held back holds back nobody else.
        let in_time = (0..1_000).zip(&left).filter(|(n, due)| **due == *n * MS / 10 + 2 * MS);
        assert!(in_time.count() > 800);
        assert!((0..1_000).zip(&left).all(|(n, due)| *due <= n * MS / 10 + 2 * MS + 3 * MS));
    }

    #[test]
    fn nobody_overtakes_what_waits_when_the_weather_clears() {
        let mut direction = direction(Weather { delay: 5 * MS, ..Weather::default() });
        let Verdict::At(due, first) = direction.handle_datagram(MS) else {
            panic!("it is delayed");
        };
        direction.admit_waiting(due, first);
        direction.set_weather(Weather::default());
        let Verdict::At(later, second) = direction.handle_datagram(2 * MS) else {
            panic!("the first has not left");
        };
        assert_eq!((due, later), (6 * MS, 6 * MS));
        direction.admit_waiting(later, second);
        assert!(direction.release_waiting());
        direction.finish_waiting(first);
        // The first has left, the second has not, although its time has come.
        assert!(matches!(direction.handle_datagram(7 * MS), Verdict::At(..)));
        direction.finish_waiting(second);
        assert!(matches!(direction.handle_datagram(7 * MS), Verdict::Now(_)));
    }

    #[test]
    fn a_cut_drops_what_comes_and_what_is_under_way_until_it_is_mended() {
        let mut direction = direction(Weather { delay: MS, ..Weather::default() });
        assert!(matches!(direction.handle_datagram(MS), Verdict::At(..)));
        direction.set_cut(true);
        assert!(!direction.release_waiting());
        assert_eq!(direction.handle_datagram(2 * MS), Verdict::Drop);
        assert_eq!(direction.counts(), Counts { cut: 2, ..Counts::default() });
        direction.set_cut(false);
        assert!(direction.release_waiting());
        assert!(matches!(direction.handle_datagram(3 * MS), Verdict::At(..)));
    }
}
