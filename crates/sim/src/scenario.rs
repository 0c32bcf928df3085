//! A run, written down: how many nodes, which limits, what is asked, and what goes wrong.

use limiter::{Accuracy, Limit, Plan, PlanError, Quota, Rate, Selector, Unmatched, Window};

use crate::clock::{Clock, MS, SECOND, Wall};
use crate::exact::Exact;
use crate::network::Lines;
use crate::workload::Arrival;

/// How a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// A token bucket.
    TokenBucket,
    /// A leaky bucket as a meter.
    LeakyBucket,
    /// A leaky bucket as a queue.
    LeakyQueue,
    /// Windows counted from the Unix epoch.
    FixedWindow,
    /// The same with the weighted window before.
    SlidingWindow,
    /// The time of every unit.
    SlidingLog,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Self; 6] = [
        Self::TokenBucket,
        Self::LeakyBucket,
        Self::LeakyQueue,
        Self::FixedWindow,
        Self::SlidingWindow,
        Self::SlidingLog,
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TokenBucket => "token-bucket",
            Self::LeakyBucket => "leaky-bucket",
            Self::LeakyQueue => "leaky-queue",
            Self::FixedWindow => "fixed-window",
            Self::SlidingWindow => "sliding-window",
            Self::SlidingLog => "sliding-log",
        }
    }

    /// The algorithm of that word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.as_str() == word)
    }

    /// What is spent comes back evenly, as time goes by.
    pub fn is_bucket(self) -> bool {
        matches!(self, Self::TokenBucket | Self::LeakyBucket | Self::LeakyQueue)
    }

    /// Spends belong to windows of the wall clock.
    pub fn has_windows(self) -> bool {
        matches!(self, Self::FixedWindow | Self::SlidingWindow)
    }
}

/// The Unix time of a midnight in 2027: a run begins with a window of any usual length.
const MIDNIGHT_NS: u64 = 20_833 * 86_400 * SECOND;

/// The numbers of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// How it counts.
    pub algorithm: Algorithm,
    /// Capacity, in units: what a window or a period allows.
    pub burst: u64,
    /// Refill. Windows and periods are as long as an empty bucket takes to fill.
    pub rate: Rate,
    /// How the nodes hold it together.
    pub accuracy: Accuracy,
    /// Longest time for which a request may be held, in ns.
    pub max_wait_ns: u64,
}

impl Allowed {
    /// `burst` units and `count` units per `period_ns`, balanced, held at most 5 ms.
    pub fn balanced(burst: u64, count: u64, period_ns: u64) -> Self {
        let rate = Rate { count, period_ns };
        let (algorithm, accuracy) = (Algorithm::TokenBucket, Accuracy::Balanced);
        Self { algorithm, burst, rate, accuracy, max_wait_ns: 5 * MS }
    }

    /// The same, fast: never held.
    pub fn fast(burst: u64, count: u64, period_ns: u64) -> Self {
        let balanced = Self::balanced(burst, count, period_ns);
        Self { accuracy: Accuracy::Fast, max_wait_ns: 0, ..balanced }
    }

    /// The same, held for another time.
    #[must_use]
    pub fn held(self, max_wait_ns: u64) -> Self {
        Self { max_wait_ns, ..self }
    }

    /// The same numbers, counted by another algorithm.
    #[must_use]
    pub fn by(self, algorithm: Algorithm) -> Self {
        Self { algorithm, ..self }
    }

    /// What a node's file says of it.
    pub fn quota(&self) -> Quota {
        let Self { burst, rate, .. } = *self;
        match self.algorithm {
            Algorithm::TokenBucket => Quota::TokenBucket { rate, burst },
            Algorithm::LeakyBucket => Quota::LeakyBucket { rate, burst, queue: false },
            Algorithm::LeakyQueue => Quota::LeakyBucket { rate, burst, queue: true },
            Algorithm::FixedWindow => {
                Quota::FixedWindow { limit: burst, window: Window::Period(self.window_ns()) }
            }
            Algorithm::SlidingWindow => {
                Quota::SlidingWindow { limit: burst, period_ns: self.window_ns() }
            }
            Algorithm::SlidingLog => {
                Quota::SlidingLog { limit: burst, period_ns: self.window_ns() }
            }
        }
    }

    /// The same in one exact place, whose time 0 is `unix_ns` after the Unix epoch.
    pub fn exact(&self, unix_ns: u64) -> Exact {
        match self.algorithm {
            Algorithm::FixedWindow => Exact::fixed_window(self.burst, self.window_ns(), unix_ns),
            Algorithm::SlidingWindow => {
                Exact::sliding_window(self.burst, self.window_ns(), unix_ns)
            }
            Algorithm::SlidingLog => Exact::sliding_log(self.burst, self.window_ns()),
            _ => Exact::bucket(self.burst, self.rate),
        }
    }

    /// Time in which an empty bucket fills, in ns.
    pub fn window_ns(&self) -> u64 {
        let ns = u128::from(self.burst) * u128::from(self.rate.period_ns);
        u64::try_from(ns / u128::from(self.rate.count.max(1))).unwrap_or(u64::MAX)
    }
}

/// What is done to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Killed: it says nothing and remembers nothing.
    Crash(usize),
    /// Started, with the numbers at this place of [`Scenario::versions`].
    Boot(usize, usize),
    /// Told to stop: it hands over and leaves.
    Leave(usize),
    /// Stopped as by SIGSTOP until the time, in ns: its clock goes on.
    Pause(usize, u64),
    /// An operator tells the first node that the second is gone for good.
    Forget(usize, usize),
    /// The first node dials the second, whether or not they have a connection.
    Dial(usize, usize),
    /// An operator tells the node to reset the key at this place, which is counted in a bucket.
    Reset(usize, usize),
}

/// A run. Times are counted from the moment when the cluster has formed and is calm.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Where all chance comes from.
    pub seed: u64,
    /// Nodes, all started at once.
    pub nodes: usize,
    /// What the files of the nodes say; all start with the first.
    pub versions: Vec<Vec<Allowed>>,
    /// The numbers to which admissions are compared.
    pub truth: Vec<Allowed>,
    /// For each key, the limit that it is counted in.
    pub keys: Vec<usize>,
    /// Time between two ticks of a node, in ns.
    pub sync_interval_ns: u64,
    /// After which time a silent member is forgotten, in ns.
    pub forget_after_ns: u64,
    /// The lines between nodes.
    pub lines: Lines,
    /// Clocks of the nodes.
    pub clocks: Vec<Clock>,
    /// Their wall clocks.
    pub walls: Vec<Wall>,
    /// The true Unix time when the run begins, in ns.
    pub unix_ns: u64,
    /// What is done to nodes, and when, in ns.
    pub script: Vec<(u64, Act)>,
    /// What is asked, in the order of time.
    pub arrivals: Vec<Arrival>,
    /// When all levels of the first key are read, in ns.
    pub probes: Vec<u64>,
    /// Millionths of dials that are made although there is a connection.
    pub extra_dials_ppm: u64,
    /// Earliest end of what happens, in ns.
    pub end_ns: u64,
    /// Quiet time after everything, in ns.
    pub settle_ns: u64,
    /// Time between two inspections of all nodes, in ns.
    pub inspect_every_ns: u64,
    /// Time that the cluster has for forming before the run begins, in ns.
    pub warm_up_ns: u64,
    /// The record keeps what clusters note.
    pub keep_notes: bool,
}

impl Scenario {
    /// `nodes` nodes with one limit and one key, lines of 1 ms, and no trouble.
    pub fn new(nodes: usize, allowed: Allowed, seed: u64) -> Self {
        Self {
            seed,
            nodes,
            versions: vec![vec![allowed]],
            truth: vec![allowed],
            keys: vec![0],
            sync_interval_ns: 200 * MS,
            forget_after_ns: 60 * SECOND,
            lines: Lines::even(nodes, MS),
            clocks: (0..nodes).map(|node| clock_of(node, 0)).collect(),
            walls: vec![Wall::default(); nodes],
            unix_ns: MIDNIGHT_NS,
            script: Vec::new(),
            arrivals: Vec::new(),
            probes: Vec::new(),
            extra_dials_ppm: 0,
            end_ns: 0,
            settle_ns: 3 * SECOND,
            inspect_every_ns: 20 * MS,
            warm_up_ns: 6 * SECOND,
            keep_notes: false,
        }
    }

    /// The same with another limit, and one key that is counted in it.
    pub fn add_limit(&mut self, allowed: Allowed) {
        for version in &mut self.versions {
            version.push(allowed);
        }
        self.truth.push(allowed);
        self.keys.push(self.truth.len() - 1);
    }

    /// Sets how far the clock of `node` is off, in millionths.
    pub fn drift(&mut self, node: usize, rate_ppm: i32) {
        self.clocks[node] = clock_of(node, rate_ppm);
    }

    /// Sets how far the wall clock of `node` is ahead, in ms.
    pub fn skew(&mut self, node: usize, ahead_ms: i64) {
        self.walls[node].ahead_ms = ahead_ms;
    }

    /// What the wall clock of `node` shows at `now_ns`, in ns of Unix time.
    pub(crate) fn wall_ns(&self, node: usize, now_ns: u64) -> u64 {
        (self.unix_ns + now_ns).saturating_add_signed(self.walls[node].ahead_ns(now_ns))
    }

    /// The same run with every limit counted by another algorithm.
    #[must_use]
    pub fn by(mut self, algorithm: Algorithm) -> Self {
        let limits = self.versions.iter_mut().flatten().chain(&mut self.truth);
        limits.for_each(|allowed| *allowed = allowed.by(algorithm));
        self
    }

    /// When the last thing happens, without the quiet after it.
    pub fn last_ns(&self) -> u64 {
        let asked = self.arrivals.last().map_or(0, |arrival| arrival.at_ns);
        let done = self.script.iter().map(|(at_ns, act)| match act {
            Act::Pause(_, to_ns) => *to_ns,
            Act::Crash(_) | Act::Boot(..) | Act::Leave(_) => *at_ns,
            Act::Forget(..) | Act::Dial(..) | Act::Reset(..) => *at_ns,
        });
        let probed = self.probes.last().copied().unwrap_or(0);
        let done = done.max().unwrap_or(0);
        self.end_ns.max(asked).max(done).max(probed).max(self.lines.cuts_end_ns())
    }

    /// The limits of one version, compiled.
    ///
    /// # Errors
    /// Numbers that the limiter refuses.
    pub fn plan(&self, version: usize) -> Result<Plan, PlanError> {
        let limit = |(place, allowed): (usize, &Allowed)| {
            let endpoint = Some(endpoint(place));
            Limit {
                selector: Selector { endpoint, ..Selector::default() },
                accuracy: allowed.accuracy,
                ..Limit::new(format!("limit-{place}"), allowed.quota())
            }
        };
        let limits = self.versions[version].iter().enumerate().map(limit).collect();
        Plan::compile(limits, Unmatched::Deny)
    }
}

/// The endpoint whose requests the limit at `place` counts.
pub(crate) fn endpoint(place: usize) -> String {
    format!("/limit/{place}")
}

/// Nodes read clocks that have nothing in common: each is some days further than the one before.
fn clock_of(node: usize, rate_ppm: i32) -> Clock {
    Clock { offset_ns: (node as u64 * 977_777 + 3) * SECOND, rate_ppm }
}

/// All of `nodes` nodes, by bits.
pub fn everyone(nodes: usize) -> u64 {
    (1 << nodes) - 1
}

/// The first half of the nodes, rounded down, and the others.
pub fn halves(nodes: usize) -> (u64, u64) {
    let first = everyone(nodes / 2);
    (first, everyone(nodes) & !first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_disjoint_and_are_all() {
        for nodes in [2, 3, 5, 10, 50] {
            let (a, b) = halves(nodes);
            assert_eq!((a & b, a | b), (0, everyone(nodes)));
        }
    }

    #[test]
    fn an_algorithm_is_named_by_its_word() {
        for algorithm in Algorithm::ALL {
            assert_eq!(Algorithm::from_word(algorithm.as_str()), Some(algorithm));
        }
        assert_eq!(Algorithm::from_word("bucket"), None);
    }

    #[test]
    fn a_window_is_as_long_as_an_empty_bucket_takes_to_fill() {
        let allowed = Allowed::balanced(50, 1000, SECOND);
        for algorithm in Algorithm::ALL {
            let (allowed, mut exact) = (allowed.by(algorithm), allowed.by(algorithm).exact(0));
            assert!(exact.try_spend(0, 50) && !exact.try_spend(0, 1), "{algorithm:?}");
            assert_eq!(exact.capacity(), 50);
            // Of a sliding window the one before counts whole as the next begins.
            let back_ns =
                allowed.window_ns() * if algorithm == Algorithm::SlidingWindow { 2 } else { 1 };
            assert!(!exact.try_spend(back_ns - 1, 50), "{algorithm:?}");
            assert!(exact.try_spend(back_ns, 50), "{algorithm:?}");
        }
    }

    #[test]
    fn every_key_is_counted_in_its_limit() {
        let mut scenario = Scenario::new(2, Allowed::balanced(9, 1, SECOND), 1);
        scenario.add_limit(Allowed::fast(5, 1, SECOND));
        assert_eq!(scenario.keys, [0, 1]);
        assert_eq!(scenario.plan(0).unwrap().rules().len(), 2);
    }
}
