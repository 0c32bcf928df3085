//! The window of time in which most passed, held against what a limit lets pass in one of that
//! length. It knows of a decision only that it fell between two times, and claims nothing that those
//! leave open.

use serde::Serialize;

use crate::clock::NS_PER_S;

/// One unit, in the billionths that [`Bucket::excess`] counts in.
const UNIT: i128 = NS_PER_S as i128;

/// A token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Bucket {
    /// Units that it gains in a second; at least 1.
    pub(crate) per_s: u64,
    /// Units that it holds; at least 1.
    pub(crate) burst: u64,
}

/// One unit that passed, at some time from the first to the last of these, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Not before.
    pub(crate) from_ns: u64,
    /// Not after, and so not below `from_ns`.
    pub(crate) to_ns: u64,
}

/// A window of time, both ends included, and what certainly passed in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Window {
    /// Its start.
    pub(crate) from_ns: u64,
    /// Its end.
    pub(crate) to_ns: u64,
    /// Units.
    pub(crate) passed: u64,
}

impl Window {
    /// Its length.
    pub(crate) fn len_ns(&self) -> u64 {
        self.to_ns - self.from_ns
    }
}

impl Bucket {
    /// By how much more passed in `window` than may, in billionths of a unit, without rounding. Below
    /// zero if more might have passed.
    pub(crate) fn excess(&self, window: &Window) -> i128 {
        let gained = i128::from(self.per_s) * i128::from(window.len_ns());
        (i128::from(window.passed) - i128::from(self.burst)) * UNIT - gained
    }

    /// The window with the greatest excess among all there are; none if nothing passed.
    ///
    /// It begins with a unit and ends with one. Sweeping over the ends, every start is kept with what
    /// passed since; after sorting this takes time in proportion to the units, times those that were
    /// under way at once.
    pub(crate) fn fullest_window(&self, passed: &[Passed]) -> Option<Window> {
        let mut by_end = passed.to_vec();
        by_end.sort_unstable_by_key(|unit| unit.to_ns);
        let mut starts: Vec<u64> = passed.iter().map(|unit| unit.from_ns).collect();
        starts.sort_unstable();
        let mut starts = starts.into_iter().peekable();
        let mut sweep =
            Sweep { per_s: i128::from(self.per_s), starts: Vec::new(), best: i128::MIN };
        let mut windows = by_end.into_iter().filter_map(|unit| {
            while let Some(from_ns) = starts.next_if(|&from_ns| from_ns <= unit.to_ns) {
                sweep.begin(from_ns);
            }
            sweep.pass(unit.from_ns);
            sweep.window_until(unit.to_ns)
        });
        let first = windows.next()?;
        Some(windows.fold(first, |fullest, window| {
            if self.excess(&window) > self.excess(&fullest) { window } else { fullest }
        }))
    }
}

/// The starts of windows that end now, as far as one of them may still be the best.
///
/// The worth of a start is what passed since, and the rate times its time: of windows with one end
/// that with the greatest worth has the greatest excess. A unit raises the worth of every start up to
/// its own time, so that whatever raises a start raises all before it: one that is worth no more than
/// an earlier one never will be, and is dropped. The worths of those that are kept rise with time, and
/// the last is the best.
struct Sweep {
    per_s: i128,
    starts: Vec<Start>,
    /// The worth of the last start.
    best: i128,
}

struct Start {
    at_ns: u64,
    /// How much more it is worth than the start before it; above 0, and of no meaning in the first.
    lead: i128,
}

impl Sweep {
    /// Windows may begin here, from which on nothing has passed yet.
    fn begin(&mut self, at_ns: u64) {
        let worth = self.per_s * i128::from(at_ns);
        if worth > self.best {
            self.starts.push(Start { at_ns, lead: worth.saturating_sub(self.best) });
            self.best = worth;
        }
    }

    /// A unit passed that windows have in them which begin at `from_ns` or before.
    fn pass(&mut self, from_ns: u64) {
        let after = self.starts.partition_point(|start| start.at_ns <= from_ns);
        let Some(start) = self.starts.get_mut(after) else {
            self.best += UNIT;
            return;
        };
        start.lead -= UNIT;
        while self.starts.get(after).is_some_and(|start| start.lead <= 0) {
            let behind = self.starts.remove(after).lead;
            match self.starts.get_mut(after) {
                Some(next) => next.lead += behind,
                None => self.best -= behind,
            }
        }
    }

    /// The best window that ends at `to_ns`.
    fn window_until(&self, to_ns: u64) -> Option<Window> {
        let from_ns = self.starts.last()?.at_ns;
        let passed = (self.best - self.per_s * i128::from(from_ns)) / UNIT;
        Some(Window { from_ns, to_ns, passed: u64::try_from(passed).ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Keys;

    const MS: u64 = NS_PER_S / 1000;

    fn at(ms: u64) -> Passed {
        between(ms, ms)
    }

    fn between(from_ms: u64, to_ms: u64) -> Passed {
        Passed { from_ns: from_ms * MS, to_ns: to_ms * MS }
    }

    /// By definition: every start with every end, and every unit between them.
    fn greatest_excess(bucket: Bucket, units: &[Passed]) -> Option<i128> {
        let windows = units.iter().flat_map(|first| {
            let ends = units.iter().map(|last| last.to_ns).filter(|&to| to >= first.from_ns);
            ends.map(|to_ns| {
                let from_ns = first.from_ns;
                let is_inside = |unit: &&Passed| unit.from_ns >= from_ns && unit.to_ns <= to_ns;
                let passed = units.iter().filter(is_inside).count() as u64;
                Window { from_ns, to_ns, passed }
            })
        });
        windows.map(|window| bucket.excess(&window)).max()
    }

    #[test]
    fn finds_the_excess_that_trying_every_window_finds() {
        for seed in 0..300 {
            let mut random = Keys::uniform(1 << 20, seed);
            let mut below = |bound: u64| random.next_number() % bound;
            let bucket = Bucket { per_s: 1 + below(400), burst: 1 + below(5) };
            let longest_ms = [1, 3, 30, 300][usize::try_from(seed % 4).unwrap()];
            let units: Vec<Passed> = (0..1 + below(60))
                .map(|_| {
                    let from_ms = below(200);
                    between(from_ms, from_ms + below(longest_ms))
                })
                .collect();
            let window = bucket.fullest_window(&units).unwrap();
            assert_eq!(Some(bucket.excess(&window)), greatest_excess(bucket, &units), "{seed}");
            let inside = units
                .iter()
                .filter(|unit| unit.from_ns >= window.from_ns && unit.to_ns <= window.to_ns);
            assert_eq!(window.passed, inside.count() as u64, "{seed}");
        }
    }

    #[test]
    fn what_a_bucket_lets_pass_is_no_excess_and_one_unit_more_is() {
        let bucket = Bucket { per_s: 100, burst: 3 };
        let mut units = vec![at(0), at(0), at(0), at(10), at(20), at(500), at(500)];
        let full = bucket.fullest_window(&units).unwrap();
        assert_eq!(bucket.excess(&full), 0);
        units.push(at(21));
        let over = bucket.fullest_window(&units).unwrap();
        assert_eq!(over, Window { from_ns: 0, to_ns: 21 * MS, passed: 6 });
        assert_eq!(bucket.excess(&over), UNIT * 9 / 10);
    }

    #[test]
    fn a_unit_counts_only_in_windows_that_it_is_certainly_in() {
        let bucket = Bucket { per_s: 100, burst: 1 };
        // By receipt the second came 2 ms after the first, and may have passed 10 ms after it.
        let late = [between(0, 10), between(5, 12)];
        assert!(bucket.excess(&bucket.fullest_window(&late).unwrap()) <= 0);
        let by_receipt = [at(10), at(12)];
        assert_eq!(bucket.excess(&bucket.fullest_window(&by_receipt).unwrap()), UNIT * 8 / 10);
    }

    #[test]
    fn there_is_no_window_in_which_nothing_passed() {
        assert_eq!(Bucket { per_s: 1, burst: 1 }.fullest_window(&[]), None);
    }
}
