//! When each question of an open loop is due: at an even rate from the start, whatever became of
//! those before it. That, and not the moment of sending, is where its latency begins, so that a
//! server which stalls is charged for every question it kept from being asked.

use crate::clock::NS_PER_S;

/// The due times of questions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    started_ns: u64,
    checks: u64,
    checks_per_s: u64,
    asked: u64,
}

impl Schedule {
    /// Questions of `checks` checks each, from `started_ns` on, `checks_per_s` checks in a second.
    pub(super) fn new(started_ns: u64, checks: u64, checks_per_s: u64) -> Self {
        Self { started_ns, checks, checks_per_s: checks_per_s.max(1), asked: 0 }
    }

    /// When the next question is due.
    pub(super) fn next_ns(&self) -> u64 {
        let checks = u128::from(self.asked) * u128::from(self.checks);
        let after_ns = checks * u128::from(NS_PER_S) / u128::from(self.checks_per_s);
        self.started_ns.saturating_add(u64::try_from(after_ns).unwrap_or(u64::MAX))
    }

    /// The next question was asked.
    pub(super) fn advance(&mut self) {
        self.asked += 1;
    }

    /// Checks that were due by `now_ns` and were not asked.
    pub(super) fn behind(&self, now_ns: u64) -> u64 {
        if self.next_ns() > now_ns {
            return 0;
        }
        let passed = u128::from(now_ns - self.started_ns) * u128::from(self.checks_per_s);
        let due = passed / u128::from(NS_PER_S) / u128::from(self.checks) + 1;
        u64::try_from(due).unwrap_or(u64::MAX).saturating_sub(self.asked) * self.checks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_due_at_an_even_rate_without_drift() {
        let mut schedule = Schedule::new(100, 16, 48);
        let due: Vec<u64> = (0..4)
            .map(|_| {
                let at = schedule.next_ns();
                schedule.advance();
                at - 100
            })
            .collect();
        assert_eq!(due, [0, 333_333_333, 666_666_666, 1_000_000_000]);
    }

    #[test]
    fn what_was_due_and_not_asked_is_counted_in_checks() {
        let mut schedule = Schedule::new(0, 2, 20);
        assert_eq!(schedule.behind(0), 2);
        schedule.advance();
        assert_eq!(schedule.behind(99_999_999), 0);
        assert_eq!(schedule.behind(100_000_000), 2);
        assert_eq!(schedule.behind(1_000_000_000), 20);
    }
}
