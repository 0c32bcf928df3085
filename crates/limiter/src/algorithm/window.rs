//! Windows: the fixed window, by the Unix epoch or by a calendar, and the sliding window counter.
//!
//! A fixed window misses what counts in it; a unit is one tick. A sliding window misses what counts in
//! it and, by the part of the window before that still lies within one period, what counted in that:
//! with the period and what is left of the window in whole milliseconds, the latter rounded up, it lets
//! a cost through if
//! `previous * left + (current + cost) * period <= limit * period`, so a unit is `period` ticks.
//!
//! A window that has begun ends on the monotonic clock when it would have ended; where the next one
//! lies is read from the wall clock then. So a wall clock that is set takes nothing back from a count.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Now;
use crate::{Calendar, CalendarSpan, Rate, Wait, When, Window};

const MS: u64 = 1_000_000;
const HOUR_NS: u64 = 3_600_000 * MS;
const DAY_NS: u64 = 24 * HOUR_NS;

/// Most ticks that a limit may have, as for the other algorithms.
const FULL_TICKS_MAX: u64 = (1 << 62) - 1;

/// The numbers of a limit that counts in windows.
#[derive(Clone, Debug)]
pub(crate) struct WindowCounter {
    /// Units in a window.
    limit: u64,
    cut: Cut,
    /// Whether the window before counts too.
    sliding: bool,
    /// Ticks in a unit.
    per_unit: u64,
}

/// How time is cut into windows.
#[derive(Clone, Debug)]
enum Cut {
    /// Into periods of so many milliseconds from the Unix epoch.
    Period(u64),
    /// By a calendar, whose current window is asked for at every check and remembered.
    Calendar(Calendar, Remembered),
}

impl Cut {
    /// Whether both cut time into the same windows.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Period(a), Self::Period(b)) => a == b,
            (Self::Calendar(a, _), Self::Calendar(b, _)) => a == b,
            (Self::Period(_), Self::Calendar(..)) | (Self::Calendar(..), Self::Period(_)) => false,
        }
    }
}

/// What counts in one bucket, in windows of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowCount {
    /// Start of the current window, in milliseconds of Unix time: its identity.
    pub(crate) start_ms: u64,
    /// When it ends, by the monotonic clock.
    pub(crate) ends_ns: u64,
    /// Units that count in the window before.
    pub(crate) previous: u64,
    /// Units that count in the current window.
    pub(crate) current: u64,
    /// Units that peers whose clocks are ahead have already counted in the next.
    pub(crate) next: u64,
}

/// One of the three windows of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The window before.
    Previous,
    /// The window that the node is in.
    Current,
    /// The window after.
    Next,
}

/// Where a window lies on the wall clock, in milliseconds of Unix time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    start_ms: u64,
    end_ms: u64,
}

/// A window, or none, in one word: its start in seconds in the upper 39 bits, its length in seconds in
/// the lower 25. That is room for a year, and for the seventeen thousand after 1970.
#[derive(Debug, Default)]
struct Remembered(AtomicU64);

impl WindowCounter {
    /// A counter of at most `limit` units in each window, or what is wrong with the numbers.
    pub(crate) fn fixed(limit: u64, window: &Window) -> Result<Self, String> {
        let cut = match window {
            Window::Period(ns) => Cut::Period(whole_ms(*ns)?),
            Window::Calendar(calendar) => Cut::Calendar(calendar.clone(), Remembered::default()),
        };
        Self::new(limit, cut, false, 1)
    }

    /// A counter of at most `limit` units in a window of `period_ns` and the weighted window before it.
    pub(crate) fn sliding(limit: u64, period_ns: u64) -> Result<Self, String> {
        let period_ms = whole_ms(period_ns)?;
        Self::new(limit, Cut::Period(period_ms), true, period_ms)
    }

    fn new(limit: u64, cut: Cut, sliding: bool, per_unit: u64) -> Result<Self, String> {
        if limit == 0 {
            return Err("a limit of 0 lets nothing through; write `deny = true`".into());
        }
        let most = FULL_TICKS_MAX / per_unit;
        if limit > most {
            return Err(format!(
                "a limit of `{limit}` per window of this length cannot be counted exactly in 64 bits; \
                 lower it to {most} or less"
            ));
        }
        Ok(Self { limit, cut, sliding, per_unit })
    }

    /// Whether the window before counts too.
    pub(crate) fn is_sliding(&self) -> bool {
        self.sliding
    }

    /// Units in a window.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Ticks in a unit.
    pub(crate) fn per_unit(&self) -> u64 {
        self.per_unit
    }

    /// Ticks of the whole limit, less than 2^62.
    pub(crate) fn full(&self) -> u64 {
        self.limit * self.per_unit
    }

    /// The limit per window; per the shortest that there is where they differ.
    pub(crate) fn rate(&self) -> Rate {
        let period_ns = match &self.cut {
            Cut::Period(period_ms) => period_ms * MS,
            Cut::Calendar(calendar, _) => match calendar.span() {
                CalendarSpan::Day => DAY_NS - HOUR_NS,
                CalendarSpan::Week(_) => 7 * DAY_NS - HOUR_NS,
                CalendarSpan::Month => 28 * DAY_NS,
                CalendarSpan::Year => 365 * DAY_NS,
            },
        };
        Rate { count: self.limit, period_ns }
    }

    /// Length of every window, in milliseconds; 0 for those of a calendar, which vary.
    pub(crate) fn length_ms(&self) -> u64 {
        match self.cut {
            Cut::Period(period_ms) => period_ms,
            Cut::Calendar(..) => 0,
        }
    }

    /// What counts at `now`, of what counted when `count` was written; none where nothing did.
    pub(crate) fn count_at(&self, count: Option<WindowCount>, now: Now) -> WindowCount {
        match count {
            Some(count) if now.ns < count.ends_ns => count,
            Some(count) => self.roll(count, now),
            None => {
                let window = self.current_window(now.unix_ns / MS);
                WindowCount {
                    start_ms: window.start_ms,
                    ends_ns: now.ns.saturating_add(until_end_ns(window, now)),
                    previous: 0,
                    current: 0,
                    next: 0,
                }
            }
        }
    }

    /// What counts at `now` of `count`, which was counted in the windows of `from`. Where those are others
    /// than these, all that counts there counts in the current one here.
    pub(crate) fn count_of(&self, from: &Self, count: &WindowCount, now: Now) -> WindowCount {
        let count = from.count_at(Some(*count), now);
        if self.cut.is_same(&from.cut) {
            return count;
        }
        let units = from.missing(&count, now.ns).div_ceil(from.per_unit);
        WindowCount { current: units.saturating_add(count.next), ..self.count_at(None, now) }
    }

    /// The count of the window after the one that has ended, which need not be the one right after.
    fn roll(&self, ended: WindowCount, now: Now) -> WindowCount {
        let mut window = self.current_window(now.unix_ns / MS);
        let mut ends_ns = now.ns.saturating_add(until_end_ns(window, now));
        // Of two windows that the clocks make overlap or leave a gap between, each takes its half: the
        // wall clock may say that the ended window has some microseconds left, and a window of that
        // length would be one more limit.
        let usable_ns = ends_ns.saturating_sub(ended.ends_ns);
        if usable_ns < window.length_ns() / 2 {
            window = self.window_at(window.end_ms);
            ends_ns = ends_ns.saturating_add(window.length_ns());
        }
        let length_ns = window.length_ns();
        let begins_ns = i128::from(ends_ns) - i128::from(length_ns);
        let between_ns = begins_ns - i128::from(ended.ends_ns);
        let since_ns = now.ns - ended.ends_ns;
        // By the second condition nothing counts longer than a window after its own, whatever the
        // wall clock did: so an entry is seen to be at rest without it.
        let is_near = |windows: u64| {
            between_ns < i128::from(length_ns / 2) + i128::from(length_ns) * i128::from(windows)
                && since_ns < length_ns.saturating_mul(windows + 1)
        };
        let (previous, current) = if is_near(0) {
            (ended.current, self.next_if(ended, |next| next.start_ms == window.start_ms))
        } else if is_near(1) {
            (self.next_if(ended, |next| next.end_ms == window.start_ms), 0)
        } else {
            (0, 0)
        };
        WindowCount { start_ms: window.start_ms, ends_ns, previous, current, next: 0 }
    }

    /// What counts in the window right after `ended`, if that one `is` meant.
    fn next_if(&self, ended: WindowCount, is: impl Fn(Span) -> bool) -> u64 {
        if ended.next > 0 && is(self.window_after(ended.start_ms)) { ended.next } else { 0 }
    }

    /// Ticks missing by a count that was brought to `now_ns`.
    pub(crate) fn missing(&self, count: &WindowCount, now_ns: u64) -> u64 {
        let current = u128::from(count.current) * u128::from(self.per_unit);
        let previous = if self.sliding {
            u128::from(count.previous) * u128::from(self.left_ms(count, now_ns))
        } else {
            0
        };
        u64::try_from(current + previous).unwrap_or(u64::MAX)
    }

    /// Milliseconds that are left of a sliding window, rounded up. A window whose start was put off by
    /// the wall clock weighs the one before in full until a period is left.
    fn left_ms(&self, count: &WindowCount, now_ns: u64) -> u64 {
        count.ends_ns.saturating_sub(now_ns).div_ceil(MS).min(self.per_unit)
    }

    /// The smallest wait until at most `most` ticks are missing if nothing is added, by a count that
    /// was brought to `now_ns`.
    pub(crate) fn until(&self, count: &WindowCount, now_ns: u64, most: u64) -> Wait {
        if self.missing(count, now_ns) <= most {
            return Wait::ZERO;
        }
        let at_ns = if self.sliding {
            self.sliding_until(count, most)
        } else if count.next <= most {
            count.ends_ns
        } else {
            count.ends_ns.saturating_add(self.window_after(count.start_ms).length_ns())
        };
        Wait::from_ns(at_ns.saturating_sub(now_ns))
    }

    /// The first time at which at most `most` ticks are missing of a sliding window: in this one, in
    /// the next, or in the one after, where nothing counts but what weighs on from the next.
    fn sliding_until(&self, count: &WindowCount, most: u64) -> u64 {
        let period_ns = self.per_unit * MS;
        let next_ns = count.ends_ns;
        let after_ns = next_ns.saturating_add(period_ns);
        let end_ns = after_ns.saturating_add(period_ns);
        if let Some(at_ns) = self.first_time(count.previous, count.current, next_ns, most) {
            at_ns
        } else if let Some(at_ns) = self.first_time(count.current, count.next, after_ns, most) {
            at_ns.max(next_ns)
        } else if let Some(at_ns) = self.first_time(count.next, 0, end_ns, most) {
            at_ns.max(after_ns)
        } else {
            end_ns
        }
    }

    /// The first time at which at most `most` ticks are missing in a sliding window that ends at
    /// `ends_ns`, if there is one before its end. It may lie before the window.
    fn first_time(&self, previous: u64, current: u64, ends_ns: u64, most: u64) -> Option<u64> {
        let room = most.checked_sub(current.checked_mul(self.per_unit)?)?;
        let Some(left_ms) = room.checked_div(previous) else {
            return Some(0);
        };
        (left_ms > 0).then(|| ends_ns.saturating_sub(left_ms.saturating_mul(MS)))
    }

    /// Start and length of the window that is current at `now`, in milliseconds of Unix time: what a
    /// delta names.
    pub(crate) fn window(&self, count: &WindowCount, now: Now) -> (u64, u64) {
        let window = self.window_at(self.count_at(Some(*count), now).start_ms);
        (window.start_ms, window.length_ms())
    }

    /// How a delta names one of the windows of a count.
    pub(crate) fn when(&self, count: &WindowCount, part: Part) -> When {
        let window = self.part(count, part);
        When::Window { start_ms: window.start_ms, length_ms: window.length_ms() }
    }

    /// In which of the windows of a count the units of a peer's window count: the same one, else the
    /// first that it overlaps, and the current one if it overlaps none, since a clock that is far off
    /// must not make units uncounted.
    pub(crate) fn part_of(&self, count: &WindowCount, start_ms: u64, length_ms: u64) -> Part {
        let theirs = Span { start_ms, end_ms: start_ms.saturating_add(length_ms) };
        let order = [Part::Current, Part::Previous, Part::Next];
        if self.part(count, Part::Current) == theirs {
            return Part::Current;
        }
        let mine = order.map(|part| (part, self.part(count, part)));
        let same = mine.iter().find(|(_, window)| *window == theirs);
        let overlapping = || mine.iter().find(|(_, window)| window.overlaps(theirs));
        same.or_else(overlapping).map_or(Part::Current, |(part, _)| *part)
    }

    /// Adds units to one of the windows of a count, or takes them back if negative, and says what was
    /// really added: a count is no less than nothing and no more than 64 bits hold.
    pub(crate) fn add(&self, count: &mut WindowCount, part: Part, units: i64) -> i64 {
        let units_there = match part {
            Part::Previous => &mut count.previous,
            Part::Current => &mut count.current,
            Part::Next => &mut count.next,
        };
        let before = *units_there;
        *units_there = before.saturating_add_signed(units);
        let moved = i64::try_from(units_there.abs_diff(before)).unwrap_or(i64::MAX);
        if units < 0 { -moved } else { moved }
    }

    /// Whether nothing of a count, as it was written, counts from `now_ns` on, wherever the wall clock
    /// says that the node is.
    pub(crate) fn is_at_rest(&self, count: &WindowCount, now_ns: u64) -> bool {
        let Some(since_ns) = now_ns.checked_sub(count.ends_ns) else {
            return count.current == 0 && count.next == 0 && (count.previous == 0 || !self.sliding);
        };
        let length_ns = self.length_max_ns();
        let counts_ns = |windows: u64| length_ns.saturating_mul(windows);
        let (current_ns, next_ns) =
            if self.sliding { (counts_ns(1), counts_ns(2)) } else { (0, counts_ns(1)) };
        (count.current == 0 || since_ns >= current_ns) && (count.next == 0 || since_ns >= next_ns)
    }

    fn length_max_ns(&self) -> u64 {
        match &self.cut {
            Cut::Period(period_ms) => period_ms * MS,
            Cut::Calendar(calendar, _) => match calendar.span() {
                CalendarSpan::Day => 2 * DAY_NS,
                CalendarSpan::Week(_) => 8 * DAY_NS,
                CalendarSpan::Month => 32 * DAY_NS,
                CalendarSpan::Year => 367 * DAY_NS,
            },
        }
    }

    fn part(&self, count: &WindowCount, part: Part) -> Span {
        match part {
            Part::Previous => match count.start_ms.checked_sub(1) {
                Some(before_ms) => self.window_at(before_ms),
                None => Span { start_ms: 0, end_ms: 0 },
            },
            Part::Current => self.window_at(count.start_ms),
            Part::Next => self.window_after(count.start_ms),
        }
    }

    fn window_after(&self, unix_ms: u64) -> Span {
        self.window_at(self.window_at(unix_ms).end_ms)
    }

    /// The window in which `unix_ms` lies, which is now and will be asked for again.
    fn current_window(&self, unix_ms: u64) -> Span {
        let window = self.window_at(unix_ms);
        if let Cut::Calendar(_, remembered) = &self.cut {
            remembered.set(window);
        }
        window
    }

    /// The window in which `unix_ms` lies.
    fn window_at(&self, unix_ms: u64) -> Span {
        match &self.cut {
            Cut::Period(period_ms) => {
                let start_ms = unix_ms - unix_ms % period_ms;
                Span { start_ms, end_ms: start_ms.saturating_add(*period_ms) }
            }
            Cut::Calendar(calendar, remembered) => {
                remembered.get().filter(|window| window.contains(unix_ms)).unwrap_or_else(|| {
                    let (start_ms, end_ms) = calendar.window_at(unix_ms);
                    Span { start_ms, end_ms }
                })
            }
        }
    }
}

impl Span {
    fn length_ms(self) -> u64 {
        self.end_ms.saturating_sub(self.start_ms)
    }

    fn length_ns(self) -> u64 {
        self.length_ms().saturating_mul(MS)
    }

    fn contains(self, unix_ms: u64) -> bool {
        self.start_ms <= unix_ms && unix_ms < self.end_ms
    }

    fn overlaps(self, other: Self) -> bool {
        self.start_ms < other.end_ms && other.start_ms < self.end_ms
    }
}

impl Remembered {
    const LENGTH_BITS: u32 = 25;

    fn get(&self) -> Option<Span> {
        let packed = self.0.load(Ordering::Relaxed);
        let start_s = packed >> Self::LENGTH_BITS;
        let length_s = packed & ((1 << Self::LENGTH_BITS) - 1);
        let window = Span { start_ms: start_s * 1_000, end_ms: (start_s + length_s) * 1_000 };
        (length_s > 0).then_some(window)
    }

    /// Remembers a window, if it fits and begins and ends with a second.
    fn set(&self, window: Span) {
        let (start_s, length_s) = (window.start_ms / 1_000, window.length_ms() / 1_000);
        let packed = (start_s << Self::LENGTH_BITS) | length_s;
        let is_whole = window.start_ms.is_multiple_of(1_000) && window.end_ms.is_multiple_of(1_000);
        let fits = start_s >> (64 - Self::LENGTH_BITS) == 0 && length_s >> Self::LENGTH_BITS == 0;
        // A store for each check would have the cores pass the line to each other.
        if is_whole && fits && self.0.load(Ordering::Relaxed) != packed {
            self.0.store(packed, Ordering::Relaxed);
        }
    }
}

impl Clone for Remembered {
    fn clone(&self) -> Self {
        Self(AtomicU64::new(self.0.load(Ordering::Relaxed)))
    }
}

/// Nanoseconds from `now` to the end of the window by the wall clock.
fn until_end_ns(window: Span, now: Now) -> u64 {
    window.end_ms.saturating_mul(MS).saturating_sub(now.unix_ns)
}

/// The milliseconds of a window, if they are whole.
fn whole_ms(ns: u64) -> Result<u64, String> {
    if ns == 0 || !ns.is_multiple_of(MS) {
        return Err(
            "the window must be a whole number of milliseconds, at least one; write `1ms` or \
                    more, such as `60s`"
                .into(),
        );
    }
    Ok(ns / MS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000 * MS;
    const MINUTE: u64 = 60 * SECOND;
    /// 2026-12-01T12:00:00Z.
    const NOON: u64 = 1_796_126_400 * SECOND;

    fn fixed(limit: u64, period_ns: u64) -> WindowCounter {
        WindowCounter::fixed(limit, &Window::Period(period_ns)).unwrap()
    }

    fn sliding(limit: u64, period_ns: u64) -> WindowCounter {
        WindowCounter::sliding(limit, period_ns).unwrap()
    }

    fn by_calendar(limit: u64, span: CalendarSpan, zone: &str) -> WindowCounter {
        let calendar = Calendar::new(span, zone).unwrap();
        WindowCounter::fixed(limit, &Window::Calendar(calendar)).unwrap()
    }

    /// So long after noon by both clocks; the monotonic one began at noon.
    fn at(ns: u64) -> Now {
        at_walls(ns, ns)
    }

    /// So long after noon by the monotonic clock, and so long by the wall clock.
    fn at_walls(ns: u64, wall_ns: u64) -> Now {
        Now { ns, unix_ns: NOON + wall_ns }
    }

    fn unix_ns(time: &str) -> u64 {
        let time: jiff::Timestamp = time.parse().unwrap();
        u64::try_from(time.as_nanosecond()).unwrap()
    }

    /// What a call of `cost` units finds: nothing if it passes, which it then has, else its wait.
    fn call(
        counter: &WindowCounter,
        count: &mut Option<WindowCount>,
        now: Now,
        cost: u64,
    ) -> Option<Wait> {
        let mut rolled = counter.count_at(*count, now);
        let most = counter.full() - cost * counter.per_unit();
        let wait = counter.until(&rolled, now.ns, most);
        if wait == Wait::ZERO {
            counter.add(&mut rolled, Part::Current, i64::try_from(cost).unwrap());
        }
        *count = Some(rolled);
        (wait != Wait::ZERO).then_some(wait)
    }

    /// How many of so many calls of one unit pass.
    fn passed(
        counter: &WindowCounter,
        count: &mut Option<WindowCount>,
        now: Now,
        calls: usize,
    ) -> usize {
        (0..calls).filter(|_| call(counter, count, now, 1).is_none()).count()
    }

    #[test]
    fn refuses_numbers_that_mean_nothing() {
        let fixed = |limit, ns| WindowCounter::fixed(limit, &Window::Period(ns)).unwrap_err();
        let sliding = |limit, ns| WindowCounter::sliding(limit, ns).unwrap_err();
        for refused in [fixed(0, SECOND), sliding(0, SECOND)] {
            assert!(refused.contains("deny = true"), "{refused}");
        }
        for refused in [fixed(1, 0), fixed(1, MS - 1), sliding(1, MS + 1), sliding(1, 0)] {
            assert!(refused.contains("whole number of milliseconds"), "{refused}");
            assert!(refused.contains("`1ms` or more"), "{refused}");
        }
    }

    #[test]
    fn accepts_the_largest_limit_that_fits_and_refuses_one_more() {
        let most = FULL_TICKS_MAX / 60_000;
        let counter = sliding(most, MINUTE);
        assert_eq!(counter.full(), most * 60_000);
        let refusal = WindowCounter::sliding(most + 1, MINUTE).unwrap_err();
        assert!(refusal.contains(&format!("lower it to {most} or less")), "{refusal}");
        assert_eq!(fixed(FULL_TICKS_MAX, MINUTE).full(), FULL_TICKS_MAX);
        assert!(WindowCounter::fixed(FULL_TICKS_MAX + 1, &Window::Period(MINUTE)).is_err());
    }

    #[test]
    fn the_numbers_of_a_limit() {
        let minute = fixed(100, MINUTE);
        assert_eq!((minute.limit(), minute.per_unit(), minute.full()), (100, 1, 100));
        assert_eq!((minute.length_ms(), minute.rate().period_ns), (60_000, MINUTE));
        let minute = sliding(100, MINUTE);
        assert_eq!((minute.limit(), minute.per_unit(), minute.full()), (100, 60_000, 6_000_000));
        let month = by_calendar(100, CalendarSpan::Month, "UTC");
        assert_eq!(
            (month.length_ms(), month.rate()),
            (0, Rate { count: 100, period_ns: 28 * DAY_NS })
        );
        let day = by_calendar(100, CalendarSpan::Day, "UTC");
        assert_eq!(day.rate().period_ns, 23 * HOUR_NS);
    }

    #[test]
    fn a_fixed_window_lets_two_limits_through_around_its_edge() {
        let (counter, mut count) = (fixed(100, MINUTE), None);
        assert_eq!(passed(&counter, &mut count, at(59 * SECOND), 101), 100);
        let denied = call(&counter, &mut count, at(59 * SECOND), 1);
        assert_eq!(denied, Some(Wait::from_ns(SECOND)));
        assert_eq!(call(&counter, &mut count, at(MINUTE - 1), 1), Some(Wait::from_ns(1)));
        assert_eq!(passed(&counter, &mut count, at(MINUTE), 101), 100);
    }

    #[test]
    fn the_wait_of_a_sliding_window_follows_from_its_decay() {
        let (counter, mut count) = (sliding(10, MINUTE), None);
        assert_eq!(passed(&counter, &mut count, at(59 * SECOND), 10), 10);
        let denied = call(&counter, &mut count, at(59 * SECOND), 1);
        assert_eq!(denied, Some(Wait::from_ns(7 * SECOND)));
        let denied = call(&counter, &mut count, at(MINUTE), 1);
        assert_eq!(denied, Some(Wait::from_ns(6 * SECOND)));
        assert_eq!(call(&counter, &mut count, at(66 * SECOND - MS), 1), Some(Wait::from_ns(MS)));
        assert_eq!(call(&counter, &mut count, at(66 * SECOND), 1), None);
    }

    #[test]
    fn a_sliding_window_estimates_by_what_is_left_of_it() {
        let (counter, mut count) = (sliding(100, MINUTE), None);
        assert_eq!(passed(&counter, &mut count, at(30 * SECOND), 80), 80);
        assert_eq!(passed(&counter, &mut count, at(75 * SECOND), 30), 30);
        assert_eq!(counter.missing(&count.unwrap(), 75 * SECOND), 90 * 60_000);
        assert_eq!(passed(&counter, &mut count, at(75 * SECOND), 11), 10);
    }

    #[test]
    fn around_two_edges() {
        let bursts = [900 * MS, 1_100 * MS, 1_900 * MS];
        let all = |counter: &WindowCounter| {
            let mut count = None;
            bursts.map(|ns| passed(counter, &mut count, at(ns), 100))
        };
        assert_eq!(all(&fixed(100, SECOND)), [100, 100, 0]);
        assert_eq!(all(&sliding(100, SECOND)), [100, 10, 80]);
    }

    #[test]
    fn a_day_waits_for_the_next_midnight_of_its_zone() {
        let counter = by_calendar(3, CalendarSpan::Day, "Europe/Berlin");
        for (time, secs) in [("2026-10-24T22:30:00Z", 88_200), ("2027-03-27T23:30:00Z", 81_000)] {
            let now = Now { ns: 5, unix_ns: unix_ns(time) };
            let mut count = None;
            assert_eq!(passed(&counter, &mut count, now, 4), 3);
            let wait = Wait::from_ns(secs * SECOND);
            assert_eq!(call(&counter, &mut count, now, 1), Some(wait), "{time}");
            assert_eq!(counter.until(&count.unwrap(), now.ns, 0), wait, "{time}");
            let midnight = Now { ns: 5 + wait.to_ns(), unix_ns: now.unix_ns + wait.to_ns() };
            assert_eq!(passed(&counter, &mut count, midnight, 4), 3, "{time}");
        }
    }

    #[test]
    fn a_month_waits_for_the_next_first() {
        let counter = by_calendar(3, CalendarSpan::Month, "UTC");
        for (time, end) in [
            ("2027-03-31T12:00:00Z", "2027-04-01T00:00:00Z"),
            ("2028-02-29T12:00:00Z", "2028-03-01T00:00:00Z"),
        ] {
            let now = Now { ns: 0, unix_ns: unix_ns(time) };
            let mut count = None;
            assert_eq!(passed(&counter, &mut count, now, 4), 3);
            let wait = Wait::from_ns(unix_ns(end) - now.unix_ns);
            assert_eq!(call(&counter, &mut count, now, 1), Some(wait), "{time}");
        }
    }

    #[test]
    fn a_wall_clock_set_back_an_hour_gives_one_fresh_window_a_minute() {
        let (counter, mut count) = (fixed(5, MINUTE), None);
        assert_eq!(passed(&counter, &mut count, at(30 * SECOND), 5), 5);
        for second in 31..=120 {
            let now = Now { ns: second * SECOND, unix_ns: NOON + second * SECOND - HOUR_NS };
            let mut asked = count;
            match call(&counter, &mut asked, now, 1) {
                None => assert!([60, 120].contains(&second), "{second}"),
                Some(wait) => assert!(wait <= Wait::from_ns(MINUTE), "{second} {wait:?}"),
            }
            if second == 60 {
                assert_eq!(passed(&counter, &mut count, now, 6), 5);
            }
        }
    }

    #[test]
    fn a_wall_clock_set_back_half_a_window_cuts_the_next_to_a_half() {
        let (counter, mut count) = (fixed(5, MINUTE), None);
        assert_eq!(passed(&counter, &mut count, at(50 * SECOND), 5), 5);
        // What had begun ends when it would have.
        let now = at_walls(59 * SECOND, 29 * SECOND);
        assert_eq!(call(&counter, &mut count, now, 1), Some(Wait::from_ns(SECOND)));
        let now = at_walls(60 * SECOND, 30 * SECOND);
        assert_eq!(passed(&counter, &mut count, now, 6), 5);
        assert_eq!(call(&counter, &mut count, now, 1), Some(Wait::from_ns(30 * SECOND)));
        assert_eq!(count.unwrap().start_ms, NOON / MS);
    }

    #[test]
    fn a_window_that_the_wall_clock_has_not_quite_ended_is_not_begun_again() {
        for counter in [fixed(5, MINUTE), sliding(5, MINUTE)] {
            let mut count = None;
            assert_eq!(passed(&counter, &mut count, at(59 * SECOND), 5), 5);
            // A microsecond is left by the wall clock: no window of its own.
            let now = at_walls(MINUTE, MINUTE - 1_000);
            let rolled = counter.count_at(count, now);
            assert_eq!(rolled.start_ms, NOON / MS + 60_000);
            assert_eq!((rolled.ends_ns, rolled.previous), (2 * MINUTE + 1_000, 5));
            // The one before weighs its whole; not more than that.
            let missing = if counter.sliding { 5 * 60_000 } else { 0 };
            assert_eq!(counter.missing(&rolled, now.ns), missing);
        }
    }

    #[test]
    fn a_wall_clock_set_forward_ends_no_window_early() {
        let (counter, mut count) = (sliding(10, MINUTE), None);
        assert_eq!(passed(&counter, &mut count, at(50 * SECOND), 10), 10);
        let now = at_walls(55 * SECOND, 55 * SECOND + HOUR_NS);
        assert_eq!(call(&counter, &mut count, now, 1), Some(Wait::from_ns(11 * SECOND)));
        // An hour on by the wall clock, but the window that ended just now is still the one before.
        let now = at_walls(66 * SECOND, 66 * SECOND + HOUR_NS);
        assert_eq!(call(&counter, &mut count, now, 1), None);
        let rolled = count.unwrap();
        assert_eq!((rolled.previous, rolled.current), (10, 1));
        assert_eq!(rolled.start_ms, (NOON + HOUR_NS + MINUTE) / MS);
    }

    #[test]
    fn a_window_that_a_step_forward_would_make_short_is_joined_to_the_next() {
        let (counter, mut count) = (fixed(5, MINUTE), None);
        assert_eq!(passed(&counter, &mut count, at(50 * SECOND), 5), 5);
        // By the wall clock a second is left of the window that begins.
        let now = at_walls(MINUTE, MINUTE + 59 * SECOND);
        assert_eq!(passed(&counter, &mut count, now, 6), 5);
        assert_eq!(count.unwrap().start_ms, NOON / MS + 120_000);
        assert_eq!(call(&counter, &mut count, now, 1), Some(Wait::from_ns(61 * SECOND)));
    }

    #[test]
    fn some_milliseconds_between_the_clocks_leave_the_windows_adjacent() {
        let counter = sliding(10, MINUTE);
        for wall_ns in [MINUTE - 3 * MS, MINUTE + 3 * MS] {
            let mut count = None;
            assert_eq!(passed(&counter, &mut count, at(50 * SECOND), 10), 10);
            let rolled = counter.count_at(count, at_walls(MINUTE, wall_ns));
            assert_eq!((rolled.previous, rolled.current), (10, 0), "{wall_ns}");
            assert_eq!(rolled.start_ms, NOON / MS + 60_000, "{wall_ns}");
        }
    }

    #[test]
    fn a_window_becomes_the_one_before_and_then_counts_no_more() {
        let counter = sliding(10, MINUTE);
        let mut count = counter.count_at(None, at(0));
        for (part, units) in [(Part::Previous, 1), (Part::Current, 2), (Part::Next, 3)] {
            assert_eq!(counter.add(&mut count, part, units), units);
        }
        let parts = |ns| {
            let rolled = counter.count_at(Some(count), at(ns));
            (rolled.previous, rolled.current, rolled.next)
        };
        assert_eq!(parts(MINUTE - 1), (1, 2, 3));
        assert_eq!(parts(MINUTE), (2, 3, 0));
        assert_eq!(parts(2 * MINUTE - 1), (2, 3, 0));
        assert_eq!(parts(2 * MINUTE), (3, 0, 0));
        assert_eq!(parts(3 * MINUTE - 1), (3, 0, 0));
        assert_eq!(parts(3 * MINUTE), (0, 0, 0));
    }

    #[test]
    fn a_count_is_not_less_than_nothing_and_says_what_moved() {
        let counter = fixed(10, MINUTE);
        let mut count = counter.count_at(None, at(0));
        assert_eq!(counter.add(&mut count, Part::Current, 5), 5);
        assert_eq!(counter.add(&mut count, Part::Current, -3), -3);
        assert_eq!(counter.add(&mut count, Part::Current, i64::MIN), -2);
        assert_eq!(counter.add(&mut count, Part::Previous, -1), 0);
        for _ in 0..3 {
            counter.add(&mut count, Part::Next, i64::MAX);
        }
        assert_eq!((count.current, count.previous, count.next), (0, 0, u64::MAX));
    }

    #[test]
    fn a_peers_window_is_found_by_its_identity_or_by_where_it_lies() {
        let counter = fixed(10, MINUTE);
        let count = counter.count_at(None, at(MINUTE));
        let noon_ms = NOON / MS;
        let part = |from_noon_ms: u64, length_ms| {
            counter.part_of(&count, noon_ms + from_noon_ms, length_ms)
        };
        assert_eq!(part(60_000, 60_000), Part::Current);
        assert_eq!(part(0, 60_000), Part::Previous);
        assert_eq!(part(120_000, 60_000), Part::Next);
        // Windows of another length: the limit was changed, here or there.
        assert_eq!(part(60_000, 3_600_000), Part::Current);
        assert_eq!(part(119_000, 1_000), Part::Current);
        assert_eq!(part(59_000, 1_000), Part::Previous);
        assert_eq!(part(120_000, 1_000), Part::Next);
        // A clock that is far off.
        assert_eq!(part(180_000, 60_000), Part::Current);
        assert_eq!(counter.part_of(&count, 0, 60_000), Part::Current);
        assert_eq!(counter.part_of(&count, u64::MAX, u64::MAX), Part::Current);
        for part in [Part::Previous, Part::Current, Part::Next] {
            let When::Window { start_ms, length_ms } = counter.when(&count, part) else {
                panic!("a window is named by where it lies")
            };
            assert_eq!(counter.part_of(&count, start_ms, length_ms), part);
        }
    }

    #[test]
    fn days_of_different_lengths_follow_each_other() {
        let counter = by_calendar(10, CalendarSpan::Day, "Europe/Berlin");
        let now = Now { ns: 0, unix_ns: unix_ns("2026-10-25T12:00:00Z") };
        let count = counter.count_at(None, now);
        let hours = |part| match counter.when(&count, part) {
            When::Window { length_ms, .. } => length_ms / 3_600_000,
            other => panic!("{other:?}"),
        };
        assert_eq!([Part::Previous, Part::Current, Part::Next].map(hours), [24, 25, 24]);
        assert_eq!(counter.window(&count, now).1, 25 * 3_600_000);
        let mut count = count;
        counter.add(&mut count, Part::Current, 20);
        counter.add(&mut count, Part::Next, 20);
        let wait = counter.until(&count, 0, 10);
        assert_eq!(wait, Wait::from_ns(11 * HOUR_NS + DAY_NS));
    }

    #[test]
    fn remembers_the_window_of_a_calendar() {
        let counter = by_calendar(10, CalendarSpan::Year, "Europe/Berlin");
        let Cut::Calendar(calendar, remembered) = &counter.cut else { panic!("a calendar") };
        assert_eq!(remembered.get(), None);
        counter.count_at(None, at(0));
        let (start_ms, end_ms) = calendar.window_at(NOON / MS);
        let year = Span { start_ms, end_ms };
        assert_eq!(remembered.get(), Some(year));
        assert_eq!(remembered.clone().get(), Some(year));
        // What does not fit is not remembered.
        for window in [
            Span { start_ms: 500, end_ms: 1_000 },
            Span { start_ms: 0, end_ms: 1_500 },
            Span { start_ms: 0, end_ms: u64::MAX },
            Span { start_ms: u64::MAX / 1_000 * 1_000 - 1_000, end_ms: u64::MAX / 1_000 * 1_000 },
        ] {
            remembered.set(window);
            assert_eq!(remembered.get(), Some(year));
        }
    }

    #[test]
    fn a_clock_at_the_end_of_time_is_no_fault() {
        let last = Now { ns: u64::MAX, unix_ns: u64::MAX };
        let week = CalendarSpan::Week(jiff::civil::Weekday::Monday);
        for counter in
            [fixed(1, u64::MAX / MS * MS), sliding(1, MS), by_calendar(1, week, "Asia/Tokyo")]
        {
            let mut count = Some(WindowCount {
                start_ms: u64::MAX,
                ends_ns: 0,
                previous: u64::MAX,
                current: u64::MAX,
                next: u64::MAX,
            });
            assert!(!counter.is_at_rest(&count.unwrap(), 0));
            counter.until(&count.unwrap(), 0, 0);
            counter.missing(&count.unwrap(), u64::MAX);
            counter.part_of(&count.unwrap(), u64::MAX, u64::MAX);
            counter.when(&count.unwrap(), Part::Next);
            call(&counter, &mut count, last, 1);
            call(&counter, &mut None, last, 1);
            call(&counter, &mut count, Now { ns: 0, unix_ns: 0 }, 1);
        }
    }

    proptest! {
        /// Of a small period, by trying every nanosecond at which anything changes.
        #[test]
        fn the_wait_is_the_smallest(
            period_ms in 1_u64..6,
            is_sliding: bool,
            parts in prop::array::uniform3(0_u64..5),
            into_ns in 0..5 * MS,
            most in 0_u64..40,
        ) {
            let period_ns = period_ms * MS;
            let counter = if is_sliding { sliding(10, period_ns) } else { fixed(10, period_ns) };
            let start_ms = NOON / period_ns * period_ms;
            let now = Now { ns: into_ns % period_ns, unix_ns: start_ms * MS + into_ns % period_ns };
            let [previous, current, next] = parts;
            let count = WindowCount { start_ms, ends_ns: period_ns, previous, current, next };
            let missing_after = |ns: u64| {
                let now = Now { ns: now.ns + ns, unix_ns: now.unix_ns + ns };
                counter.missing(&counter.count_at(Some(count), now), now.ns)
            };
            // What is missing changes where a whole number of milliseconds is left.
            let changes = (1..=4 * period_ms).map(|ms| ms * MS).filter(|ns| *ns > now.ns);
            let first = std::iter::once(0)
                .chain(changes.map(|ns| ns - now.ns))
                .find(|ns| missing_after(*ns) <= most);
            let wait = counter.until(&count, now.ns, most).to_ns();
            prop_assert_eq!(Some(wait), first);
            if wait > 0 {
                prop_assert!(missing_after(wait - 1) > most);
            }
        }

        /// Nothing of a count at rest is found again, whatever the wall clock says.
        #[test]
        fn what_is_at_rest_counts_no_more(
            is_sliding: bool,
            parts in prop::array::uniform3(0_u64..2),
            now_ms in 0_u64..300_000,
            later_ms in 0_u64..100_000,
            wall_ms in 0_u64..400_000,
        ) {
            let counter = if is_sliding { sliding(10, MINUTE) } else { fixed(10, MINUTE) };
            let [previous, current, next] = parts;
            let start_ms = NOON / MS;
            let count = WindowCount { start_ms, ends_ns: MINUTE, previous, current, next };
            if counter.is_at_rest(&count, now_ms * MS) {
                let now = at_walls((now_ms + later_ms) * MS, wall_ms * MS);
                let rolled = counter.count_at(Some(count), now);
                prop_assert_eq!(counter.missing(&rolled, now.ns), 0);
                prop_assert_eq!(counter.until(&rolled, now.ns, 0), Wait::ZERO);
                prop_assert_eq!(rolled.next, 0);
            } else if wall_ms == now_ms {
                let rolled = counter.count_at(Some(count), at(now_ms * MS));
                prop_assert!(counter.missing(&rolled, now_ms * MS) > 0 || rolled.next > 0);
            }
        }

        /// When a count is looked at changes nothing, as long as nobody sets the wall clock.
        #[test]
        fn a_count_may_be_rolled_at_any_time_between(
            parts in prop::array::uniform3(0_u64..3),
            mut times in prop::collection::vec(0..4 * MINUTE, 1..5),
        ) {
            times.sort_unstable();
            let counter = sliding(10, MINUTE);
            let [previous, current, next] = parts;
            let start_ms = NOON / MS;
            let count = WindowCount { start_ms, ends_ns: MINUTE, previous, current, next };
            let stepwise =
                times.iter().fold(count, |count, &ns| counter.count_at(Some(count), at(ns)));
            let last = times[times.len() - 1];
            prop_assert_eq!(stepwise, counter.count_at(Some(count), at(last)));
        }
    }
}
