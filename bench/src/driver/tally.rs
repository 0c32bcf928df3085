//! What a driver counted: checks by outcome, and how long each question took; on demand each answer.

use hdrhistogram::Histogram;

/// Longest time that a histogram tells apart, in nanoseconds; longer ones count as this. A minute is
/// beyond every time-out here.
const LONGEST_NS: u64 = 60_000_000_000;
/// Digits to which a histogram is exact.
const DIGITS: u8 = 3;

/// Times in nanoseconds, each exact to [`DIGITS`] digits.
#[derive(Clone, Debug)]
pub(crate) struct Times(Histogram<u64>);

impl Times {
    /// No times yet.
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS);
        Self(histogram.expect("the bounds are constants that a histogram can have"))
    }

    /// Adds a time.
    pub(crate) fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    /// Adds all times of `other`.
    pub(crate) fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all histograms have the same bounds");
    }

    /// The time that `quantile` of all do not exceed; 0 without any. Quantile 1 is the longest.
    pub(crate) fn at(&self, quantile: f64) -> u64 {
        self.0.value_at_quantile(quantile)
    }

    /// Number of times above `ns`.
    pub(crate) fn above(&self, ns: u64) -> u64 {
        self.0
            .iter_recorded()
            .filter(|step| step.value_iterated_to() > ns)
            .fold(0, |sum, step| sum + step.count_since_last_iteration())
    }
}

/// One answer. What it tells was decided between the two times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Just before its question was sent.
    pub(crate) sent_ns: u64,
    /// Just after it was received.
    pub(crate) received_ns: u64,
    /// Checks allowed.
    pub(crate) allowed: u64,
    /// Checks denied.
    pub(crate) denied: u64,
}

/// What one stretch of load came to.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Questions answered.
    pub(crate) answered: u64,
    /// Checks allowed.
    pub(crate) allowed: u64,
    /// Checks denied.
    pub(crate) denied: u64,
    /// Checks answered with an error.
    pub(crate) failed: u64,
    /// Checks without an answer.
    pub(crate) lost: u64,
    /// Checks that were due and were not sent by the end; open loop only.
    pub(crate) unsent: u64,
    /// From the start to the last answer, in nanoseconds.
    pub(crate) elapsed_ns: u64,
    /// From sending a question (open loop: from when it was due) to its answer.
    pub(crate) latency: Times,
    /// How late questions were sent; open loop only.
    pub(crate) lateness: Times,
    /// Each answer, in the order of receipt on each connection; none if they are not kept.
    pub(crate) answers: Option<Vec<Answer>>,
}

impl Tally {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        Self {
            answered: 0,
            allowed: 0,
            denied: 0,
            failed: 0,
            lost: 0,
            unsent: 0,
            elapsed_ns: 0,
            latency: Times::new(),
            lateness: Times::new(),
            answers: None,
        }
    }

    /// Checks that were decided.
    pub(crate) fn decided(&self) -> u64 {
        self.allowed + self.denied
    }

    /// Takes in what another driver counted in the same stretch.
    pub(crate) fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.failed += other.failed;
        self.lost += other.lost;
        self.unsent += other.unsent;
        self.elapsed_ns = self.elapsed_ns.max(other.elapsed_ns);
        self.latency.add(&other.latency);
        self.lateness.add(&other.lateness);
        if let (Some(answers), Some(of_other)) = (&mut self.answers, &other.answers) {
            answers.extend_from_slice(of_other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(ns: u64, expected: u64) -> bool {
        ns.abs_diff(expected) * 1000 <= expected
    }

    #[test]
    fn quantiles_are_exact_to_three_digits() {
        let mut times = Times::new();
        (1..=10_000).for_each(|us| times.record(us * 1000));
        for (quantile, us) in [(0.5, 5000), (0.9, 9000), (0.99, 9900), (0.999, 9990), (1.0, 10_000)]
        {
            assert!(close(times.at(quantile), us * 1000), "{quantile}: {}", times.at(quantile));
        }
        assert_eq!(Times::new().at(0.5), 0);
    }

    #[test]
    fn a_time_beyond_the_histogram_counts_as_its_longest() {
        let mut times = Times::new();
        times.record(u64::MAX);
        assert_eq!(times.0.len(), 1);
        assert!(close(times.at(1.0), LONGEST_NS));
    }

    #[test]
    fn counts_the_times_above_a_bound() {
        let mut times = Times::new();
        [10, 20, 1_000_000, 2_000_000].into_iter().for_each(|ns| times.record(ns));
        assert_eq!(times.above(1_100_000), 1);
        assert_eq!(times.above(100), 2);
        assert_eq!(times.above(5_000_000), 0);
    }

    #[test]
    fn tallies_of_one_stretch_add_up_but_their_time_does_not() {
        let mut first = Tally { allowed: 2, denied: 1, elapsed_ns: 5, ..Tally::new() };
        let mut second = Tally { allowed: 3, lost: 4, elapsed_ns: 7, ..Tally::new() };
        second.latency.record(1000);
        let answer = |sent_ns| Answer { sent_ns, received_ns: 9, allowed: 1, denied: 0 };
        first.answers = Some(vec![answer(1)]);
        second.answers = Some(vec![answer(2)]);
        first.add(&second);
        assert_eq!((first.decided(), first.lost, first.elapsed_ns), (6, 4, 7));
        assert_eq!(first.latency.0.len(), 1);
        assert_eq!(first.answers, Some(vec![answer(1), answer(2)]));
    }
}
