//! Who waits for a turn and when the first of them has it. Times go in, steps come out; it sleeps for
//! nothing, asks nobody and reads no clock.
//!
//! Times are nanoseconds since the pacer was made.

use limiter::Rate;

/// How late a turn may be taken without moving those behind it: a timer that fires a little late costs
/// no rate. What a turn is later than that is not made up for, so that turns missed in a stall do not
/// follow each other at once.
pub(crate) const LATE_MAX_NS: u64 = 5_000_000;

/// The callers of one pacer.
#[derive(Debug)]
pub(crate) struct Line {
    spacing: Spacing,
    /// A limit says when turns come; the own spacing is for when nobody answers.
    asks: bool,
    queue_max: usize,
    waiting: usize,
    next: Next,
    /// When the first in line became the first.
    began_ns: u64,
}

impl Line {
    /// Turns at `rate`, of which both parts are at least 1.
    pub(crate) fn own(rate: Rate, queue_max: usize) -> Self {
        let spacing = Spacing::new(rate);
        Self { spacing, asks: false, queue_max, waiting: 0, next: Next::Unknown, began_ns: 0 }
    }

    /// Turns as somebody who is asked says, and at `rate` while nobody answers.
    pub(crate) fn asking(rate: Rate, queue_max: usize) -> Self {
        Self { asks: true, ..Self::own(rate, queue_max) }
    }

    /// A caller comes. It either has its turn, or waits until it is the first and then follows
    /// [`Line::step`]; [`Line::leave`] is called when it goes, with or without its turn.
    ///
    /// # Errors
    /// The line is full: how long until its first has gone, zero where that is not known.
    pub(crate) fn enter(&mut self, now_ns: u64) -> Result<Entry, u64> {
        if self.is_due_at_once(now_ns) {
            self.spacing.take(now_ns);
            return Ok(Entry::Turn);
        }
        if self.waiting >= self.queue_max {
            return Err(self.first_due_ns().saturating_sub(now_ns));
        }
        self.waiting += 1;
        Ok(Entry::Waits)
    }

    /// A caller that waited has gone.
    pub(crate) fn leave(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// A turn for a caller that does not wait, where no limit is asked.
    ///
    /// # Errors
    /// How long until it would have its turn in the line.
    pub(crate) fn take_at_once(&mut self, now_ns: u64) -> Result<(), u64> {
        if self.is_due_at_once(now_ns) {
            self.spacing.take(now_ns);
            return Ok(());
        }
        Err(self.spacing.due_after_ns(self.waiting).saturating_sub(now_ns))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Time until the first in line may go on, as far as it is known.
    pub(crate) fn first_due_in_ns(&self, now_ns: u64) -> u64 {
        self.first_due_ns().saturating_sub(now_ns)
    }

    /// Another caller is the first now. A turn that the one before it left is this one's, unless it
    /// has passed: then it was nobody's, and to take it now would put two turns together.
    pub(crate) fn begin(&mut self, now_ns: u64) {
        self.began_ns = now_ns;
        if matches!(self.next, Next::At { ns, .. } if is_past(ns, now_ns)) {
            self.next = Next::Unknown;
        }
    }

    /// What the first in line does now.
    pub(crate) fn step(&mut self, now_ns: u64) -> Step {
        let due_ns = match self.next {
            Next::Unknown if self.asks => return Step::Ask,
            Next::Denied { until_ns } if now_ns >= until_ns => {
                self.next = Next::Unknown;
                return Step::Ask;
            }
            Next::Unknown => self.spacing.due_ns(),
            Next::At { ns, .. } => ns,
            Next::Denied { until_ns } => until_ns,
        };
        if now_ns < due_ns {
            return Step::Wait { until_ns: due_ns };
        }
        match self.next {
            // The limit knows the fleet's turns; the own spacing begins anew behind each.
            Next::At { is_own: false, .. } => self.spacing.begin_behind(now_ns),
            _ => self.spacing.take(now_ns.saturating_sub(LATE_MAX_NS)),
        }
        self.next = Next::Unknown;
        Step::Turn
    }

    /// How long ago, at `now_ns`, a caller that has gone asked the question of `asked_ns`: nobody looked
    /// for its answer meanwhile. Zero if who is the first now asked it.
    pub(crate) fn age_ns(&self, asked_ns: u64, now_ns: u64) -> u64 {
        if asked_ns < self.began_ns { now_ns.saturating_sub(asked_ns) } else { 0 }
    }

    /// Who was asked at `asked_ns` has answered. If the caller that asked has gone, its turn is still as
    /// far from the question as the answer says, and may have passed before the next came.
    pub(crate) fn handle_answer(&mut self, asked_ns: u64, now_ns: u64, heard: Heard) {
        let told_ns = now_ns.saturating_sub(self.age_ns(asked_ns, now_ns));
        self.next = match heard {
            Heard::Turn { delay_ns } => {
                let ns = told_ns.saturating_add(delay_ns);
                match is_past(ns, self.began_ns) {
                    true => Next::Unknown,
                    false => Next::At { ns, is_own: false },
                }
            }
            Heard::Denied { retry_after_ns } => {
                Next::Denied { until_ns: now_ns.saturating_add(retry_after_ns) }
            }
            Heard::Nothing => Next::At { ns: self.spacing.due_ns().max(now_ns), is_own: true },
        };
    }

    fn is_due_at_once(&self, now_ns: u64) -> bool {
        !self.asks && self.waiting == 0 && self.spacing.due_ns() <= now_ns
    }

    fn first_due_ns(&self) -> u64 {
        match self.next {
            Next::Unknown if self.asks => 0,
            Next::Unknown => self.spacing.due_ns(),
            Next::At { ns, .. } => ns,
            Next::Denied { until_ns } => until_ns,
        }
    }
}

fn is_past(due_ns: u64, now_ns: u64) -> bool {
    due_ns.saturating_add(LATE_MAX_NS) < now_ns
}

/// What becomes of a caller that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It has its turn.
    Turn,
    /// It stands in the line.
    Waits,
}

/// What the first in line does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It has its turn.
    Turn,
    /// It waits, and steps again then.
    Wait {
        /// Until when.
        until_ns: u64,
    },
    /// It asks, and hands the answer to [`Line::handle_answer`].
    Ask,
}

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// The turn is so far ahead.
    Turn { delay_ns: u64 },
    /// No turn; another may be asked for so much later.
    Denied { retry_after_ns: u64 },
    /// Nobody knows.
    Nothing,
}

/// What is known of the turn of the first in line. It is the pacer's, not the caller's, so that who
/// goes away leaves it to the next.
#[derive(Clone, Copy, Debug)]
enum Next {
    Unknown,
    At {
        ns: u64,
        /// The own spacing gave it.
        is_own: bool,
    },
    Denied {
        until_ns: u64,
    },
}

/// Turns that are spaced evenly: one each period / count, exactly, in ticks of 1/count ns.
#[derive(Debug)]
struct Spacing {
    count: u64,
    period_ns: u64,
    /// The next turn, in ticks.
    next: u128,
}

impl Spacing {
    fn new(rate: Rate) -> Self {
        Self { count: rate.count.max(1), period_ns: rate.period_ns.max(1), next: 0 }
    }

    /// When the next turn may be taken, rounded up.
    fn due_ns(&self) -> u64 {
        self.due_after_ns(0)
    }

    /// When the turn behind `turns` others may be taken.
    fn due_after_ns(&self, turns: usize) -> u64 {
        let turns = u128::try_from(turns).unwrap_or(u128::MAX);
        let ahead = turns.saturating_mul(u128::from(self.period_ns));
        let due = self.next.saturating_add(ahead).div_ceil(u128::from(self.count));
        u64::try_from(due).unwrap_or(u64::MAX)
    }

    /// Takes a turn. The next comes one spacing behind when this one was due, but no sooner than one
    /// behind `since_ns`.
    fn take(&mut self, since_ns: u64) {
        let began = self.next.max(self.ticks(since_ns));
        self.next = began.saturating_add(u128::from(self.period_ns));
    }

    /// Somebody else gave a turn at `now_ns`.
    fn begin_behind(&mut self, now_ns: u64) {
        self.next = self.ticks(now_ns).saturating_add(u128::from(self.period_ns));
    }

    fn ticks(&self, ns: u64) -> u128 {
        u128::from(ns) * u128::from(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use limiter::{Limit, Limiter, Plan, Quota, Request, StoreConfig, Unmatched, WhenFull};

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1_000 * MS;

    fn rate(count: u64, period_ns: u64) -> Rate {
        Rate { count, period_ns }
    }

    /// A line of 50 turns a second.
    fn fifty(queue_max: usize) -> Line {
        Line::own(rate(50, SECOND), queue_max)
    }

    /// A line that asks and has 5 turns a second of its own, with one caller in it.
    fn asking() -> Line {
        let mut line = Line::asking(rate(5, SECOND), 10);
        assert_eq!(line.enter(0), Ok(Entry::Waits));
        line.begin(0);
        assert_eq!(line.step(0), Step::Ask);
        line
    }

    /// The next caller's turn, taken on time by one that came at `now_ns`.
    fn turn_on_time(line: &mut Line, now_ns: u64) -> u64 {
        match line.enter(now_ns) {
            Ok(Entry::Turn) => now_ns,
            Ok(Entry::Waits) => {
                line.begin(now_ns);
                let Step::Wait { until_ns } = line.step(now_ns) else { panic!("not at once") };
                assert_eq!(line.step(until_ns - 1), Step::Wait { until_ns });
                assert_eq!(line.step(until_ns), Step::Turn);
                line.leave();
                until_ns
            }
            Err(wait_ns) => panic!("full for {wait_ns} ns"),
        }
    }

    #[test]
    fn burst_leaves_twenty_milliseconds_apart() {
        let mut line = fifty(99);
        assert_eq!(line.enter(0), Ok(Entry::Turn));
        for _ in 0..99 {
            assert_eq!(line.enter(0), Ok(Entry::Waits));
        }
        let mut now_ns = 0;
        for turn in 1..100 {
            line.begin(now_ns);
            assert_eq!(line.step(now_ns), Step::Wait { until_ns: turn * 20 * MS });
            now_ns = turn * 20 * MS;
            assert_eq!(line.step(now_ns), Step::Turn);
            line.leave();
        }
        assert_eq!(now_ns, 1_980 * MS);
        assert!(line.is_empty());
    }

    #[test]
    fn no_rate_drifts_in_a_million_turns() {
        let seven_a_year = rate(7, 31_536_000 * SECOND);
        for rate in [rate(50, SECOND), rate(3, SECOND), rate(999_999_937, SECOND), seven_a_year] {
            let mut line = Line::own(rate, 1);
            let mut now_ns = 0;
            for turn in 0..1_000_000_u64 {
                now_ns = turn_on_time(&mut line, now_ns);
                let exact = u128::from(turn) * u128::from(rate.period_ns);
                let due = u64::try_from(exact.div_ceil(u128::from(rate.count)));
                // Beyond 584 years the clock itself ends.
                assert_eq!(now_ns, due.unwrap_or(u64::MAX), "turn {turn} at {rate:?}");
                if now_ns == u64::MAX {
                    break;
                }
            }
        }
    }

    #[test]
    fn three_a_second_are_a_third_of_a_second_apart() {
        let mut line = Line::own(rate(3, SECOND), 1);
        let turns = (0..5).scan(0, |now_ns, _| {
            *now_ns = turn_on_time(&mut line, *now_ns);
            Some(*now_ns)
        });
        let turns: Vec<_> = turns.collect();
        assert_eq!(turns, [0, 333_333_334, 666_666_667, SECOND, 1_333_333_334]);
    }

    #[test]
    fn pause_earns_nothing() {
        let mut line = fifty(1);
        assert_eq!(turn_on_time(&mut line, 0), 0);
        assert_eq!(turn_on_time(&mut line, 90 * SECOND), 90 * SECOND);
        assert_eq!(turn_on_time(&mut line, 90 * SECOND), 90 * SECOND + 20 * MS);
    }

    #[test]
    fn full_line_says_when_its_first_has_gone() {
        let mut line = fifty(2);
        assert_eq!(line.enter(0), Ok(Entry::Turn));
        assert_eq!([line.enter(MS), line.enter(MS)], [Ok(Entry::Waits); 2]);
        assert_eq!(line.enter(MS), Err(19 * MS));
        line.begin(MS);
        assert_eq!(line.step(20 * MS), Step::Turn);
        line.leave();
        assert_eq!(line.enter(20 * MS), Ok(Entry::Waits));
        assert_eq!(line.enter(20 * MS), Err(20 * MS));
    }

    #[test]
    fn who_goes_away_leaves_its_turn_to_the_next() {
        let mut line = fifty(3);
        assert_eq!(line.enter(0), Ok(Entry::Turn));
        assert_eq!([line.enter(0), line.enter(0)], [Ok(Entry::Waits); 2]);
        line.begin(0);
        assert_eq!(line.step(0), Step::Wait { until_ns: 20 * MS });
        line.leave();
        line.begin(7 * MS);
        assert_eq!(line.step(7 * MS), Step::Wait { until_ns: 20 * MS });
        assert_eq!(line.step(20 * MS), Step::Turn);
    }

    #[test]
    fn who_does_not_wait_is_told_when_its_turn_would_be() {
        let mut line = fifty(3);
        assert_eq!(line.take_at_once(0), Ok(()));
        assert_eq!(line.take_at_once(5 * MS), Err(15 * MS));
        assert_eq!([line.enter(5 * MS), line.enter(5 * MS)], [Ok(Entry::Waits); 2]);
        assert_eq!(line.take_at_once(5 * MS), Err(55 * MS));
        // The first could go at 20 ms; nobody overtakes it.
        assert_eq!(line.take_at_once(20 * MS), Err(40 * MS));
    }

    #[test]
    fn late_turn_moves_those_behind_it_by_what_exceeds_the_bound() {
        for (late_ns, next_ns) in [(0, 40 * MS), (5 * MS, 40 * MS), (9 * MS, 44 * MS)] {
            let mut line = fifty(2);
            assert_eq!(line.enter(0), Ok(Entry::Turn));
            assert_eq!([line.enter(0), line.enter(0)], [Ok(Entry::Waits); 2]);
            line.begin(0);
            assert_eq!(line.step(20 * MS + late_ns), Step::Turn);
            line.leave();
            line.begin(20 * MS + late_ns);
            assert_eq!(line.step(20 * MS + late_ns), Step::Wait { until_ns: next_ns });
        }
    }

    #[test]
    fn turns_of_any_callers_are_spaced_but_for_one_lateness() {
        let mut state = 1_u64;
        let mut random = move |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % bound
        };
        for (count, period_ns) in [(50, SECOND), (3, SECOND), (7, 10 * MS), (5_000, SECOND)] {
            let mut line = Line::own(rate(count, period_ns), 8);
            let (mut now_ns, mut turns, mut waiting) = (0, Vec::new(), 0);
            while turns.len() < 3_000 {
                let most = if random(50) == 0 { 40 } else { 2 };
                now_ns += random(most * period_ns / count);
                match random(4) {
                    0 | 1 => match line.enter(now_ns) {
                        Ok(Entry::Turn) => turns.push(now_ns),
                        Ok(Entry::Waits) => waiting += 1,
                        Err(_) => assert_eq!(waiting, 8),
                    },
                    2 if waiting > 0 && random(8) == 0 => {
                        line.leave();
                        waiting -= 1;
                    }
                    _ if waiting > 0 && line.step(now_ns) == Step::Turn => {
                        line.leave();
                        waiting -= 1;
                        turns.push(now_ns);
                    }
                    _ => {}
                }
            }
            for (first, began_ns) in turns.iter().enumerate() {
                for (behind, ns) in (1_u64..).zip(&turns[first + 1..]) {
                    let least_ns = u128::from(behind) * u128::from(period_ns) / u128::from(count);
                    let apart_ns = u128::from(ns - began_ns + LATE_MAX_NS);
                    assert!(apart_ns >= least_ns, "{behind} behind {began_ns} at {ns}");
                }
            }
        }
    }

    #[test]
    fn asks_for_each_turn_and_waits_as_it_is_told() {
        let mut line = asking();
        line.handle_answer(0, MS, Heard::Turn { delay_ns: 30 * MS });
        assert_eq!(line.step(MS), Step::Wait { until_ns: 31 * MS });
        assert_eq!(line.step(31 * MS), Step::Turn);
        assert_eq!(line.step(31 * MS), Step::Ask);
        line.handle_answer(31 * MS, 32 * MS, Heard::Turn { delay_ns: 0 });
        assert_eq!(line.step(32 * MS), Step::Turn);
    }

    #[test]
    fn asks_again_when_a_denial_is_over() {
        let mut line = asking();
        line.handle_answer(0, MS, Heard::Denied { retry_after_ns: 50 * MS });
        assert_eq!(line.step(MS), Step::Wait { until_ns: 51 * MS });
        assert_eq!(line.first_due_in_ns(MS), 50 * MS);
        assert_eq!(line.step(51 * MS - 1), Step::Wait { until_ns: 51 * MS });
        assert_eq!(line.step(51 * MS), Step::Ask);
    }

    #[test]
    fn keeps_its_own_pace_while_nobody_answers_and_begins_it_behind_the_last_turn() {
        let mut line = asking();
        line.handle_answer(0, 0, Heard::Turn { delay_ns: 0 });
        assert_eq!(line.step(0), Step::Turn);
        for turn in 1..4 {
            let now_ns = (turn - 1) * 200 * MS;
            assert_eq!(line.step(now_ns), Step::Ask);
            line.handle_answer(now_ns, now_ns + 20 * MS, Heard::Nothing);
            assert_eq!(line.step(now_ns + 20 * MS), Step::Wait { until_ns: turn * 200 * MS });
            assert_eq!(line.step(turn * 200 * MS), Step::Turn);
        }
        // The fleet's turns may come faster than the own ones, and leave no debt behind.
        for turn in 1..=50 {
            let now_ns = 600 * MS + turn * 20 * MS;
            assert_eq!(line.step(now_ns), Step::Ask);
            line.handle_answer(now_ns, now_ns, Heard::Turn { delay_ns: 0 });
            assert_eq!(line.step(now_ns), Step::Turn);
        }
        assert_eq!(line.step(1_600 * MS), Step::Ask);
        line.handle_answer(1_600 * MS, 1_600 * MS, Heard::Nothing);
        assert_eq!(line.step(1_600 * MS), Step::Wait { until_ns: 1_800 * MS });
    }

    #[test]
    fn turn_that_was_told_goes_to_the_next_unless_it_has_passed() {
        for (comes_ns, step) in [
            (4 * MS, Step::Wait { until_ns: 31 * MS }),
            (31 * MS + LATE_MAX_NS, Step::Turn),
            (31 * MS + LATE_MAX_NS + 1, Step::Ask),
        ] {
            let mut line = asking();
            line.handle_answer(0, MS, Heard::Turn { delay_ns: 30 * MS });
            assert_eq!(line.step(MS), Step::Wait { until_ns: 31 * MS });
            line.leave();
            line.begin(comes_ns);
            assert_eq!(line.step(comes_ns), step, "{comes_ns}");
        }
    }

    #[test]
    fn answer_to_who_has_gone_is_used_unless_its_turn_has_passed() {
        for (comes_ns, step) in [(9 * MS, Step::Turn), (16 * MS, Step::Ask)] {
            let mut line = asking();
            line.leave();
            assert_eq!(line.enter(comes_ns), Ok(Entry::Waits));
            line.begin(comes_ns);
            line.handle_answer(0, comes_ns, Heard::Turn { delay_ns: 10 * MS });
            let step_at = line.step(comes_ns + 10 * MS);
            assert_eq!(step_at, step, "{comes_ns}");
        }
    }

    /// Nobody looked for the answer while nobody waited: the turn came no later for that.
    #[test]
    fn turn_of_who_has_gone_is_when_it_was_told() {
        let mut line = asking();
        line.leave();
        assert_eq!(line.enter(900 * MS), Ok(Entry::Waits));
        line.begin(900 * MS);
        assert_eq!(line.age_ns(0, 901 * MS), 901 * MS);
        line.handle_answer(0, 901 * MS, Heard::Turn { delay_ns: SECOND });
        assert_eq!(line.step(901 * MS), Step::Wait { until_ns: SECOND });
        assert_eq!(line.step(SECOND), Step::Turn);
    }

    #[test]
    fn slow_answer_is_not_taken_for_one_that_has_passed() {
        let mut line = asking();
        line.handle_answer(0, SECOND, Heard::Turn { delay_ns: 0 });
        assert_eq!(line.step(SECOND), Step::Turn);
    }

    /// A limiter with one queue of 50 turns a second, of which `burst` may wait.
    fn queue(burst: u64) -> Limiter {
        let quota = Quota::LeakyBucket { rate: rate(50, SECOND), burst, queue: true };
        let plan = Plan::compile(vec![Limit::new("queue", quota)], Unmatched::Allow);
        let store = StoreConfig {
            memory_bytes: 1 << 20,
            entries_max: None,
            when_full: WhenFull::Overflow,
            secret: [7; 16],
        };
        Limiter::new(plan.expect("a sound limit"), store)
    }

    /// What the limiter says to a pacer that asks it.
    fn ask(limiter: &Limiter, now_ns: u64) -> Heard {
        let decision = limiter.decide(now_ns, &Request::check(b"", b"partner"));
        let verdict = decision.expect("a valid request").verdict;
        match verdict.allowed {
            true => Heard::Turn { delay_ns: verdict.delay.to_ns() },
            false => Heard::Denied { retry_after_ns: verdict.retry_after.to_ns() },
        }
    }

    #[test]
    fn pacers_of_one_limit_keep_its_pace_together_and_take_turns() {
        // The queue has room for the turns that all ten have in hand and the one that leaves; or not,
        // and then who finds it full is not in the rotation.
        for (burst, least, most) in [(11, 99, 101), (4, 0, 1_000)] {
            let limiter = queue(burst);
            let mut lines: Vec<_> =
                (0..10).map(|_| Line::asking(rate(5, SECOND), 1)).map(|line| (0, line)).collect();
            let (mut turns, mut counts) = (Vec::new(), [0; 10]);
            while turns.len() < 1_000 {
                let next = (0..10).min_by_key(|pacer| lines[*pacer].0).expect("ten of them");
                let (now_ns, line) = &mut lines[next];
                match line.step(*now_ns) {
                    Step::Wait { until_ns } => *now_ns = until_ns,
                    Step::Ask => line.handle_answer(*now_ns, *now_ns, ask(&limiter, *now_ns)),
                    Step::Turn => {
                        turns.push(*now_ns);
                        counts[next] += 1;
                    }
                }
            }
            let expected: Vec<_> = (0..1_000).map(|turn| turn * 20 * MS).collect();
            assert_eq!(turns, expected, "{burst}");
            assert!(counts.iter().all(|turns| (least..=most).contains(turns)), "{counts:?}");
        }
    }

    #[test]
    fn extreme_numbers_neither_overflow_nor_panic() {
        let mut line = Line::own(rate(u64::MAX, u64::MAX), usize::MAX);
        assert_eq!(line.enter(u64::MAX), Ok(Entry::Turn));
        line.begin(u64::MAX);
        // The clock ends here, and so does the spacing.
        assert_eq!(line.step(u64::MAX), Step::Turn);
        let mut line = asking();
        line.handle_answer(u64::MAX, u64::MAX, Heard::Turn { delay_ns: u64::MAX });
        assert_eq!(line.step(u64::MAX), Step::Turn);
        assert_eq!(Line::own(rate(1, u64::MAX), 1).take_at_once(0), Ok(()));
    }
}
