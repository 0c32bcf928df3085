//! One central counter of windows, fixed or sliding, exact: it keeps what was spent in each window by
//! its number since the Unix epoch.

use std::collections::BTreeMap;

use super::Worst;
use crate::clock::MS;

/// Windows that are kept: no clock is so far ahead that more of them lie between two that are asked for.
const WINDOWS_MAX: usize = 64;

/// Windows in true time.
#[derive(Clone, Debug)]
pub struct ExactWindow {
    limit: u64,
    period_ns: u64,
    /// The window before counts too, by the part of it that lies within one period.
    slides: bool,
    /// Unix time at the time 0.
    unix_ns: u64,
    /// Units by the number of their window.
    used: BTreeMap<u64, u64>,
    full_at_ns: u64,
    worst: Worst,
}

impl ExactWindow {
    /// At most `limit` units in each window of `period_ns`, counted from the Unix epoch, which is
    /// `unix_ns` before the time 0.
    pub fn fixed(limit: u64, period_ns: u64, unix_ns: u64) -> Self {
        Self::new(limit, period_ns, unix_ns, false)
    }

    /// The same, with the weighted window before.
    pub fn sliding(limit: u64, period_ns: u64, unix_ns: u64) -> Self {
        Self::new(limit, period_ns, unix_ns, true)
    }

    fn new(limit: u64, period_ns: u64, unix_ns: u64, slides: bool) -> Self {
        let worst = Worst::new(0);
        let used = BTreeMap::new();
        let mut window = Self { limit, period_ns, slides, unix_ns, used, full_at_ns: 0, worst };
        window.worst = Worst::new(window.full());
        window
    }

    /// Units that each window allows.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Length of a window, in ns.
    pub fn period_ns(&self) -> u64 {
        self.period_ns
    }

    /// Ticks in a unit: one, or the milliseconds of a window that slides.
    pub fn per_unit(&self) -> u64 {
        if self.slides { self.period_ns / MS } else { 1 }
    }

    fn full(&self) -> i128 {
        i128::from(self.limit) * i128::from(self.per_unit())
    }

    /// Ticks left at `now_ns` by a wall clock that is `ahead_ns` ahead.
    pub fn level_seen(&mut self, now_ns: u64, ahead_ns: i64) -> i128 {
        let level = self.left(self.wall_ns(now_ns, ahead_ns));
        if level == self.full() {
            self.full_at_ns = self.full_at_ns.max(now_ns);
        }
        level
    }

    /// When nothing counted last, as far as it was looked at.
    pub fn full_at_ns(&self) -> u64 {
        self.full_at_ns
    }

    /// Counts `cost` units if they fit.
    pub fn try_spend(&mut self, now_ns: u64, cost: u64) -> bool {
        let wall_ns = self.wall_ns(now_ns, 0);
        let fits = self.left(wall_ns) >= i128::from(cost) * i128::from(self.per_unit());
        if fits {
            self.count(wall_ns, cost);
        }
        fits
    }

    /// Counts `cost` units whether or not they fit, in the window of a wall clock that is `ahead_ns` ahead.
    pub fn charge_seen(&mut self, now_ns: u64, ahead_ns: i64, cost: u64) {
        let wall_ns = self.wall_ns(now_ns, ahead_ns);
        self.count(wall_ns, cost);
        let left = self.left(wall_ns);
        self.worst.note(left, now_ns);
    }

    /// Ticks that came back in the `elapsed_ns` before `now_ns`.
    pub fn came(&self, now_ns: u64, ahead_ns: i64, elapsed_ns: u64) -> i128 {
        let wall_ns = self.wall_ns(now_ns, ahead_ns);
        self.counting(wall_ns.saturating_sub(elapsed_ns)) - self.counting(wall_ns)
    }

    /// Ticks that come back in the `elapsed_ns` after `now_ns`.
    pub fn coming(&self, now_ns: u64, ahead_ns: i64, elapsed_ns: u64) -> i128 {
        let wall_ns = self.wall_ns(now_ns, ahead_ns);
        self.counting(wall_ns) - self.counting(wall_ns.saturating_add(elapsed_ns))
    }

    /// After which time a spend counts no more, in ns.
    pub fn forgets_after_ns(&self) -> u64 {
        if self.slides { 2 * self.period_ns } else { self.period_ns }
    }

    /// How far the wall clock that is `ahead_ns` ahead is from the nearest edge, in ns.
    pub fn from_edge_ns(&self, now_ns: u64, ahead_ns: i64) -> u64 {
        let into_ns = self.wall_ns(now_ns, ahead_ns) % self.period_ns;
        into_ns.min(self.period_ns - into_ns)
    }

    /// What was left at worst.
    pub fn worst(&self) -> &Worst {
        &self.worst
    }

    fn wall_ns(&self, now_ns: u64, ahead_ns: i64) -> u64 {
        (self.unix_ns + now_ns).saturating_add_signed(ahead_ns)
    }

    fn number(&self, wall_ns: u64) -> u64 {
        wall_ns / self.period_ns
    }

    /// Milliseconds of the window at `wall_ns` that are left, a part of one as a whole one.
    fn rest_ms(&self, wall_ns: u64) -> u64 {
        (self.period_ns - wall_ns % self.period_ns).div_ceil(MS)
    }

    fn used(&self, number: u64) -> i128 {
        self.used.get(&number).copied().unwrap_or(0).into()
    }

    fn count(&mut self, wall_ns: u64, cost: u64) {
        *self.used.entry(self.number(wall_ns)).or_default() += cost;
        if self.used.len() > WINDOWS_MAX {
            self.used.pop_first();
        }
    }

    /// The limit by its formula: what of it is left at `wall_ns`.
    fn left(&self, wall_ns: u64) -> i128 {
        let number = self.number(wall_ns);
        let current = self.used(number) * i128::from(self.per_unit());
        let previous = match self.slides {
            true => self.used(number.wrapping_sub(1)) * i128::from(self.rest_ms(wall_ns)),
            false => 0,
        };
        self.full() - current - previous
    }

    /// Ticks of all that was ever counted that count at `wall_ns`, as if none lay after that.
    fn counting(&self, wall_ns: u64) -> i128 {
        let number = self.number(wall_ns);
        let weight = |of: u64| match of {
            _ if of >= number => self.per_unit(),
            _ if self.slides && of + 1 == number => self.rest_ms(wall_ns),
            _ => 0,
        };
        self.used.iter().map(|(of, units)| i128::from(*units) * i128::from(weight(*of))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SECOND;

    const MINUTE: u64 = 60 * SECOND;

    #[test]
    fn fixed_windows_let_twice_the_limit_through_around_an_edge() {
        let mut window = ExactWindow::fixed(100, MINUTE, 7 * MINUTE);
        assert_eq!((0..150).filter(|_| window.try_spend(59 * SECOND, 1)).count(), 100);
        assert!(!window.try_spend(MINUTE - 1, 1));
        assert_eq!((0..150).filter(|_| window.try_spend(MINUTE, 1)).count(), 100);
    }

    #[test]
    fn windows_lie_where_the_wall_clock_puts_them() {
        let mut window = ExactWindow::fixed(1, MINUTE, 90 * SECOND);
        assert!(window.try_spend(0, 1) && !window.try_spend(30 * SECOND - 1, 1));
        assert!(window.try_spend(30 * SECOND, 1));
        assert_eq!(window.from_edge_ns(30 * SECOND, 0), 0);
        assert_eq!(window.from_edge_ns(29 * SECOND, -2_000_000_000), 3 * SECOND);
    }

    #[test]
    fn a_sliding_window_weighs_the_one_before() {
        // 80 in the minute before, 30 in this one, 15 s of it gone: 80 x 45 / 60 + 30 = 90.
        let mut window = ExactWindow::sliding(100, MINUTE, 0);
        window.charge_seen(30 * SECOND, 0, 80);
        window.charge_seen(MINUTE + SECOND, 0, 30);
        assert_eq!(window.level_seen(MINUTE + 15 * SECOND, 0), 10 * 60_000);
        assert!(window.try_spend(MINUTE + 15 * SECOND, 10));
        assert!(!window.try_spend(MINUTE + 15 * SECOND, 1));
        // 80 x 44,250 ms are the first that leave a unit more, and a part of a millisecond is a whole one.
        assert!(!window.try_spend(MINUTE + 15 * SECOND + 750 * MS - 1, 1));
        assert!(window.try_spend(MINUTE + 15 * SECOND + 750 * MS, 1));
    }

    #[test]
    fn debt_is_what_counts_above_the_limit_in_the_worst_window() {
        let mut window = ExactWindow::fixed(10, SECOND, 0);
        window.charge_seen(0, 0, 12);
        window.charge_seen(SECOND, 0, 9);
        window.charge_seen(2 * SECOND, 0, 13);
        window.charge_seen(3 * SECOND, 0, 11);
        assert_eq!(window.worst().debt_max(), (3, 2 * SECOND));
        // By the clock of one who is half a second ahead it lies in the next window.
        window.charge_seen(4 * SECOND - MS, 500_000_000, 10);
        assert_eq!(window.worst().debt_max(), (3, 2 * SECOND));
        assert_eq!(window.level_seen(4 * SECOND - MS, 0), -1);
        assert_eq!(window.level_seen(4 * SECOND, 0), 0);
    }

    #[test]
    fn tells_what_came_back_and_what_will() {
        let mut fixed = ExactWindow::fixed(10, SECOND, 0);
        fixed.charge_seen(SECOND / 2, 0, 4);
        assert_eq!(fixed.coming(SECOND / 2, 0, SECOND / 2 - 1), 0);
        assert_eq!(fixed.coming(SECOND / 2, 0, SECOND / 2), 4);
        assert_eq!((fixed.came(SECOND, 0, 1), fixed.came(3 * SECOND / 2, 0, SECOND / 4)), (4, 0));
        let mut sliding = ExactWindow::sliding(10, SECOND, 0);
        sliding.charge_seen(SECOND / 2, 0, 4);
        assert_eq!(sliding.coming(SECOND, 0, 10 * MS), 40);
        assert_eq!(sliding.came(SECOND + 30 * MS, 0, 10 * MS), 40);
    }
}
