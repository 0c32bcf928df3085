//! One central sliding log, exact: it keeps when every unit was spent.

use std::collections::VecDeque;

use super::Worst;

/// A log in true time. A unit spent at s counts at t if s > t - period.
#[derive(Clone, Debug)]
pub struct ExactLog {
    limit: u64,
    period_ns: u64,
    /// When, and how many units: for two periods, so that what came back lately is known.
    spends: VecDeque<(u64, u64)>,
    /// Place of the first that counts, and the units from there on.
    first: usize,
    counting: u64,
    full_at_ns: u64,
    worst: Worst,
}

impl ExactLog {
    /// At most `limit` units in any `period_ns`.
    pub fn new(limit: u64, period_ns: u64) -> Self {
        Self {
            limit,
            period_ns,
            spends: VecDeque::new(),
            first: 0,
            counting: 0,
            full_at_ns: 0,
            worst: Worst::new(limit.into()),
        }
    }

    /// Units that any period allows.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Length of the period, in ns.
    pub fn period_ns(&self) -> u64 {
        self.period_ns
    }

    /// Units left at `now_ns`.
    pub fn level_at(&mut self, now_ns: u64) -> i128 {
        while let Some((at_ns, units)) = self.spends.get(self.first)
            && at_ns.saturating_add(self.period_ns) <= now_ns
        {
            self.counting -= units;
            self.first += 1;
        }
        while let Some((at_ns, _)) = self.spends.front()
            && at_ns.saturating_add(2 * self.period_ns) <= now_ns
        {
            self.spends.pop_front();
            self.first -= 1;
        }
        if self.counting == 0 {
            self.full_at_ns = self.full_at_ns.max(now_ns);
        }
        i128::from(self.limit) - i128::from(self.counting)
    }

    /// When nothing counted last, as far as it was looked at.
    pub fn full_at_ns(&self) -> u64 {
        self.full_at_ns
    }

    /// Notes `cost` units if they fit.
    pub fn try_spend(&mut self, now_ns: u64, cost: u64) -> bool {
        let fits = self.level_at(now_ns) >= i128::from(cost);
        if fits {
            self.note(now_ns, cost);
        }
        fits
    }

    /// Notes `cost` units whether or not they fit.
    pub fn charge(&mut self, now_ns: u64, cost: u64) {
        self.note(now_ns, cost);
        let left = self.level_at(now_ns);
        self.worst.note(left, now_ns);
    }

    /// Units that left the log in the `elapsed_ns` before `now_ns`, up to a period.
    pub fn came(&self, now_ns: u64, elapsed_ns: u64) -> i128 {
        let Some(end_ns) = now_ns.checked_sub(self.period_ns) else { return 0 };
        let begin_ns = end_ns.saturating_sub(elapsed_ns.min(self.period_ns));
        let counted = self.spends.iter().filter(|(at_ns, _)| *at_ns <= end_ns);
        counted.rev().take_while(|(at_ns, _)| *at_ns >= begin_ns).map(units).sum()
    }

    /// Units that leave the log in the `elapsed_ns` after `now_ns`.
    pub fn coming(&self, now_ns: u64, elapsed_ns: u64) -> i128 {
        let later_ns = now_ns.saturating_add(elapsed_ns);
        let counting = self.spends.iter().skip(self.first);
        counting.take_while(|(at_ns, _)| at_ns + self.period_ns <= later_ns).map(units).sum()
    }

    /// What was left at worst.
    pub fn worst(&self) -> &Worst {
        &self.worst
    }

    fn note(&mut self, now_ns: u64, cost: u64) {
        self.counting += cost;
        match self.spends.back_mut() {
            Some((at_ns, units)) if *at_ns >= now_ns => *units += cost,
            _ => self.spends.push_back((now_ns, cost)),
        }
    }
}

fn units((_, units): &(u64, u64)) -> i128 {
    (*units).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SECOND;

    #[test]
    fn five_in_fifteen_minutes_at_the_exact_edges() {
        let period_ns = 900 * SECOND;
        let mut log = ExactLog::new(5, period_ns);
        assert!((0..5).all(|turn| log.try_spend(turn * 60 * SECOND, 1)));
        assert!(!log.try_spend(period_ns - 1, 1));
        assert!(log.try_spend(period_ns, 1) && !log.try_spend(period_ns, 1));
        assert!(!log.try_spend(period_ns + 60 * SECOND - 1, 1));
        assert!(log.try_spend(period_ns + 60 * SECOND, 1));
    }

    #[test]
    fn debt_is_the_most_in_any_period_above_the_limit() {
        let mut log = ExactLog::new(10, SECOND);
        log.charge(0, 8);
        log.charge(SECOND - 1, 5);
        log.charge(SECOND, 7);
        assert_eq!(log.worst().debt_max(), (3, SECOND - 1));
        assert_eq!(log.worst().least(), -3);
        assert_eq!(log.level_at(2 * SECOND - 1), 3);
        assert_eq!(log.level_at(9 * SECOND), 10);
    }

    #[test]
    fn tells_what_left_the_log_and_what_will() {
        let mut log = ExactLog::new(10, SECOND);
        log.charge(5, 1);
        log.charge(7, 2);
        log.charge(SECOND / 2, 4);
        assert_eq!((log.coming(SECOND / 2, SECOND / 2 + 4), log.coming(9, SECOND - 2)), (0, 3));
        let now_ns = SECOND + 7;
        assert_eq!(log.level_at(now_ns), 6);
        assert_eq!((log.came(now_ns, 1), log.came(now_ns, 2), log.came(now_ns, SECOND)), (2, 3, 3));
    }
}
