//! What an algorithm did with the calls that it was asked: totals, the fullest windows of any key, the
//! longest denial, the added delay.

use std::collections::{BTreeMap, VecDeque};

use limiter::{Verdict, Wait};

use super::memory::Memory;
use super::series::Series;
use crate::clock::SECOND;

/// Passings that are kept at a time for measuring windows: about 64 MB.
const PASSINGS_MAX: usize = 2_000_000;

/// The fullest window of one length, of any key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Worst {
    /// Units that were let through in it.
    pub units: u64,
    /// Unix time of the first of them, in nanoseconds.
    pub from_unix_ns: u64,
}

/// What waiting in the queue came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Calls that had to wait before they acted.
    pub delayed: u64,
    /// The sum of all waits, in nanoseconds.
    pub total_ns: u128,
    /// The longest, in nanoseconds.
    pub longest_ns: u64,
}

/// What an algorithm did.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// Calls that were let through.
    pub allowed: u64,
    /// Calls that were denied.
    pub denied: u64,
    /// Units that were let through.
    pub units: u64,
    /// The fullest second, half-open: what is a whole second apart is not in one.
    pub worst_second: Worst,
    /// The fullest two seconds.
    pub worst_two_seconds: Worst,
    /// The fullest period of the limit.
    pub worst_period: Worst,
    /// Longest time from a denied call to the next call of the same key that passed, or to its last that
    /// was denied, in nanoseconds.
    pub longest_denial_ns: u64,
    /// The longest wait that a denied call was told, [`Wait::NEVER`] aside.
    pub longest_wait: Wait,
    /// Calls that were told that no wait helps.
    pub never: u64,
    /// What waiting in the queue came to.
    pub delays: Delays,
    /// Units over time.
    pub series: Series,
    /// Memory of the tables.
    pub memory: Memory,
    /// Calls of keys that were too many to measure their windows and denials.
    pub unmeasured: u64,
}

/// Counts what is let through.
#[derive(Clone, Debug)]
pub(super) struct Judge {
    judgement: Judgement,
    lengths_ns: [u64; 3],
    keys: BTreeMap<Box<[u8]>, Key>,
    keys_max: usize,
    passings: usize,
    /// When keys of which nothing counts may be sought again.
    sweep_at_ns: u64,
}

/// What is known of one key.
#[derive(Clone, Debug, Default)]
struct Key {
    /// When what was let through, as far back as the longest window reaches.
    passings: VecDeque<(u64, u64)>,
    windows: [Window; 3],
    denied_since_ns: Option<u64>,
    seen_ns: u64,
}

/// The last passings of a key that are in one window.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    first: usize,
    units: u128,
}

impl Judge {
    /// Judges by windows of one second, two, and `period_ns`, those of at most `keys_max` keys at a time.
    pub(super) fn new(period_ns: u64, keys_max: usize, series: Series) -> Self {
        let judgement = Judgement {
            allowed: 0,
            denied: 0,
            units: 0,
            worst_second: Worst::default(),
            worst_two_seconds: Worst::default(),
            worst_period: Worst::default(),
            longest_denial_ns: 0,
            longest_wait: Wait::ZERO,
            never: 0,
            delays: Delays::default(),
            series,
            memory: Memory::default(),
            unmeasured: 0,
        };
        let lengths_ns = [SECOND, 2 * SECOND, period_ns];
        Self { judgement, lengths_ns, keys: BTreeMap::new(), keys_max, passings: 0, sweep_at_ns: 0 }
    }

    /// A call of `key` at `at_ns` that costs `cost` was answered with `verdict`.
    pub(super) fn handle(&mut self, at_ns: u64, key: &[u8], cost: u64, verdict: &Verdict<'_>) {
        self.judgement.series.asked(at_ns, cost);
        if verdict.allowed {
            self.pass(at_ns, key, cost, verdict.delay.to_ns());
        } else {
            self.judgement.denied += 1;
            match verdict.retry_after {
                Wait::NEVER => self.judgement.never += 1,
                wait => self.judgement.longest_wait = self.judgement.longest_wait.max(wait),
            }
            self.measure(at_ns, key, None);
        }
    }

    /// A call of `key` at `at_ns` that costs `cost` was let through, to act `delay_ns` later.
    pub(super) fn pass(&mut self, at_ns: u64, key: &[u8], cost: u64, delay_ns: u64) {
        let leaves_ns = at_ns.saturating_add(delay_ns);
        self.judgement.allowed += 1;
        self.judgement.units = self.judgement.units.saturating_add(cost);
        self.judgement.series.passed(leaves_ns, cost);
        let delays = &mut self.judgement.delays;
        delays.delayed += u64::from(delay_ns > 0);
        delays.total_ns += u128::from(delay_ns);
        delays.longest_ns = delays.longest_ns.max(delay_ns);
        self.measure(at_ns, key, Some((leaves_ns, cost)));
    }

    /// Where the memory is filled in.
    pub(super) fn memory(&mut self) -> &mut Memory {
        &mut self.judgement.memory
    }

    pub(super) fn finish(self) -> Judgement {
        self.judgement
    }

    /// Counts a passing, or else a denial, in the windows of `key`.
    fn measure(&mut self, at_ns: u64, key: &[u8], passing: Option<(u64, u64)>) {
        let is_new = !self.keys.contains_key(key);
        if !self.has_room(is_new) && at_ns >= self.sweep_at_ns {
            self.drop_idle(at_ns);
        }
        if !self.has_room(is_new) {
            self.judgement.unmeasured += 1;
            return;
        }
        if is_new {
            self.keys.insert(key.into(), Key::default());
        }
        let Some(key) = self.keys.get_mut(key) else { return };
        key.seen_ns = key.seen_ns.max(at_ns);
        let denied_ns = at_ns.saturating_sub(*key.denied_since_ns.get_or_insert(at_ns));
        let longest_ns = &mut self.judgement.longest_denial_ns;
        *longest_ns = (*longest_ns).max(denied_ns);
        let Some((leaves_ns, units)) = passing else { return };
        key.denied_since_ns = None;
        let before = key.passings.len();
        key.pass(leaves_ns, units, &self.lengths_ns);
        self.passings = self.passings + key.passings.len() - before.min(self.passings);
        let Judgement { worst_second, worst_two_seconds, worst_period, .. } = &mut self.judgement;
        for (worst, window) in
            [worst_second, worst_two_seconds, worst_period].into_iter().zip(key.windows)
        {
            let units = u64::try_from(window.units).unwrap_or(u64::MAX);
            if units > worst.units {
                let from_unix_ns =
                    key.passings.get(window.first).map_or(leaves_ns, |first| first.0);
                *worst = Worst { units, from_unix_ns };
            }
        }
    }

    fn has_room(&self, for_new_key: bool) -> bool {
        self.passings < PASSINGS_MAX && (!for_new_key || self.keys.len() < self.keys_max)
    }

    /// Forgets keys of which nothing counts any more. Visits all, so not for every call.
    fn drop_idle(&mut self, now_ns: u64) {
        let longest_ns = self.lengths_ns.iter().copied().max().unwrap_or(0);
        self.sweep_at_ns = now_ns.saturating_add(longest_ns / 16);
        let is_idle = |key: &Key| {
            let last_ns = key.passings.back().map_or(0, |passing| passing.0).max(key.seen_ns);
            now_ns.saturating_sub(last_ns) >= longest_ns
        };
        let passings = &mut self.passings;
        self.keys.retain(|_, key| {
            let is_idle = is_idle(key);
            if is_idle {
                *passings = passings.saturating_sub(key.passings.len());
            }
            !is_idle
        });
    }
}

impl Key {
    fn pass(&mut self, at_ns: u64, units: u64, lengths_ns: &[u64; 3]) {
        // What waits in a queue leaves in the order in which it came.
        let at_ns = at_ns.max(self.passings.back().map_or(0, |last| last.0));
        match self.passings.back_mut() {
            Some(last) if last.0 == at_ns => last.1 = last.1.saturating_add(units),
            _ => self.passings.push_back((at_ns, units)),
        }
        for (window, length_ns) in self.windows.iter_mut().zip(lengths_ns) {
            window.units += u128::from(units);
            while let Some((first_ns, first_units)) = self.passings.get(window.first)
                && at_ns - first_ns >= *length_ns
            {
                window.units -= u128::from(*first_units);
                window.first += 1;
            }
        }
        let gone = self.windows.iter().map(|window| window.first).min().unwrap_or(0);
        self.passings.drain(..gone);
        self.windows.iter_mut().for_each(|window| window.first -= gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use limiter::Reason;

    fn verdict(allowed: bool, wait_ns: u64, delay_ns: u64) -> Verdict<'static> {
        Verdict {
            limit_name: "compared",
            allowed,
            reason: if allowed { Reason::Ok } else { Reason::Limit },
            shadow: false,
            limit: None,
            remaining: None,
            reset_after: Wait::ZERO,
            retry_after: Wait::from_ns(wait_ns),
            delay: Wait::from_ns(delay_ns),
            window: Wait::ZERO,
        }
    }

    fn judge() -> Judge {
        Judge::new(10 * SECOND, 2, Series::new(0, SECOND))
    }

    #[test]
    fn the_fullest_windows_are_half_open_and_of_one_key() {
        let mut judge = judge();
        for (at_ns, key) in [
            (0, b"a"),
            (SECOND - 1, b"a"),
            (SECOND, b"a"),
            (2 * SECOND, b"a"),
            (2 * SECOND, b"b"),
            (9 * SECOND, b"a"),
            (10 * SECOND, b"a"),
        ] {
            judge.handle(at_ns, key, 1, &verdict(true, 0, 0));
        }
        let judgement = judge.finish();
        assert_eq!(judgement.worst_second, Worst { units: 2, from_unix_ns: 0 });
        assert_eq!(judgement.worst_two_seconds, Worst { units: 3, from_unix_ns: 0 });
        assert_eq!(judgement.worst_period, Worst { units: 5, from_unix_ns: 0 });
        assert_eq!((judgement.allowed, judgement.denied, judgement.units), (7, 0, 7));
    }

    #[test]
    fn costs_count_as_units() {
        let mut judge = judge();
        judge.handle(SECOND, b"a", 5, &verdict(true, 0, 0));
        judge.handle(SECOND, b"a", 2, &verdict(true, 0, 0));
        judge.handle(4 * SECOND, b"a", 3, &verdict(true, 0, 0));
        let judgement = judge.finish();
        assert_eq!(judgement.worst_second.units, 7);
        assert_eq!(judgement.worst_period.units, 10);
        assert_eq!((judgement.allowed, judgement.units), (3, 10));
    }

    #[test]
    fn a_denial_lasts_until_the_key_passes_again() {
        let mut judge = judge();
        for (at_s, key, allowed) in
            [(1, b"a", false), (2, b"a", false), (3, b"b", true), (7, b"a", true), (9, b"b", false)]
        {
            judge.handle(at_s * SECOND, key, 1, &verdict(allowed, at_s * SECOND, 0));
        }
        judge.handle(11 * SECOND, b"b", 1, &verdict(false, u64::MAX, 0));
        let judgement = judge.finish();
        assert_eq!(judgement.longest_denial_ns, 6 * SECOND);
        assert_eq!(judgement.longest_wait, Wait::from_ns(9 * SECOND));
        assert_eq!((judgement.denied, judgement.never), (4, 1));
    }

    #[test]
    fn what_waits_counts_when_it_leaves() {
        let mut judge = judge();
        for call in 0..3 {
            judge.handle(0, b"a", 1, &verdict(true, 0, call * SECOND));
        }
        let judgement = judge.finish();
        assert_eq!(judgement.worst_second.units, 1);
        let Delays { delayed, total_ns, longest_ns } = judgement.delays;
        assert_eq!((delayed, total_ns, longest_ns), (2, 3_000_000_000, 2 * SECOND));
        let passed: Vec<_> = judgement.series.slots().iter().map(|slot| slot.passed).collect();
        assert_eq!(passed, [1, 1, 1]);
    }

    #[test]
    fn too_many_keys_are_counted_and_idle_ones_make_room() {
        let mut judge = judge();
        for key in [b"a", b"b", b"c"] {
            judge.handle(SECOND, key, 1, &verdict(true, 0, 0));
        }
        assert_eq!(judge.judgement.unmeasured, 1);
        judge.handle(20 * SECOND, b"c", 1, &verdict(true, 0, 0));
        assert_eq!((judge.judgement.unmeasured, judge.keys.len(), judge.passings), (1, 1, 1));
    }
}
