//! Who calls where, and how often: uneven rates that wander from node to node, from a seed.

use super::MEMBERS_MAX;

/// How long the nodes' rates stay as they are, in milliseconds.
const STAY_MS: u64 = 4_000;
/// How long they take from one order to the next, in milliseconds.
const SHIFT_MS: u64 = 1_000;
const PERIOD_MS: u64 = STAY_MS + SHIFT_MS;
/// What the nodes are called, relative to each other: with three of them a tenth, three tenths and
/// six tenths of all calls.
const WEIGHTS: [u64; MEMBERS_MAX] = [1, 3, 6, 10, 15];
/// A millionth of a thousandth of a call: milli-calls in a second, times nanoseconds.
const PER_CALL: u64 = 1_000 * 1_000_000_000;
/// Longest time for which calls are made up: who was away for longer made none.
const STEP_NS_MAX: u64 = 100_000_000;

/// The callers of all nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    seed: u64,
    members: usize,
    /// Calls in a second, to all nodes together.
    per_s: u64,
}

impl Traffic {
    /// Callers of `members` nodes who make `per_s` calls in a second together.
    pub(super) fn new(seed: u64, members: usize, per_s: u64) -> Self {
        Self { seed, members: members.min(MEMBERS_MAX), per_s }
    }

    /// Calls to `node` in a thousand seconds, at `at_ms` since the calls began. Who would call a node
    /// that is not `alive` calls the others.
    pub(super) fn milli_per_s(&self, node: usize, at_ms: u64, alive: &[bool]) -> u64 {
        let is_alive = |node: usize| alive.get(node).copied().unwrap_or(false);
        if !is_alive(node) {
            return 0;
        }
        let weights = self.weights(at_ms);
        let all: u64 =
            (0..self.members).filter(|other| is_alive(*other)).map(|it| weights[it]).sum();
        (self.per_s * 1_000 * weights[node]).checked_div(all).unwrap_or(0)
    }

    /// The weight of each node at `at_ms`, times [`SHIFT_MS`].
    fn weights(&self, at_ms: u64) -> [u64; MEMBERS_MAX] {
        let period = at_ms / PERIOD_MS;
        let shifted_ms = (at_ms % PERIOD_MS).saturating_sub(STAY_MS);
        let (from, to) = (self.order(period), self.order(period + 1));
        let mut weights = [0; MEMBERS_MAX];
        for (node, weight) in weights.iter_mut().enumerate().take(self.members) {
            *weight =
                WEIGHTS[from[node]] * (SHIFT_MS - shifted_ms) + WEIGHTS[to[node]] * shifted_ms;
        }
        weights
    }

    /// Which weight each node has in a period. At first each has its own.
    fn order(&self, period: u64) -> [usize; MEMBERS_MAX] {
        let mut order = std::array::from_fn(|node| node);
        if period == 0 {
            return order;
        }
        let mut noise = Noise::new(self.seed, period);
        for last in (1..self.members).rev() {
            order.swap(last, noise.below(last + 1));
        }
        order
    }
}

/// The callers of one node.
#[derive(Debug)]
pub(super) struct Caller {
    traffic: Traffic,
    node: usize,
    noise: Noise,
    /// What is not yet a whole call, in parts of [`PER_CALL`].
    begun: u64,
}

impl Caller {
    /// Those of `node`.
    pub(super) fn new(traffic: Traffic, node: usize) -> Self {
        let stream = u64::MAX - u64::try_from(node).unwrap_or(0);
        Self { traffic, node, noise: Noise::new(traffic.seed, stream), begun: 0 }
    }

    /// How many calls come in the `step_ns` that end at `at_ms`: of the rate, but unevenly.
    pub(super) fn due(&mut self, at_ms: u64, step_ns: u64, alive: &[bool]) -> u64 {
        let rate = self.traffic.milli_per_s(self.node, at_ms, alive);
        let mean = rate.saturating_mul(step_ns.min(STEP_NS_MAX));
        // From nothing to twice the mean.
        let drawn = mean / 512 * self.noise.next_in_1025();
        self.begun = self.begun.saturating_add(drawn);
        let calls = self.begun / PER_CALL;
        self.begun %= PER_CALL;
        calls
    }
}

/// Random numbers that repeat with the seed: splitmix64.
#[derive(Debug)]
struct Noise(u64);

impl Noise {
    /// The numbers of one `stream` of a seed.
    fn new(seed: u64, stream: u64) -> Self {
        let mut noise = Self(seed);
        Self(noise.next() ^ stream)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(1).max(1);
        usize::try_from(self.next() % bound).unwrap_or(0)
    }

    /// From 0 to 1,024, 512 on average.
    fn next_in_1025(&mut self) -> u64 {
        self.next() % 1_025
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [bool; 3] = [true; 3];
    const STEP_NS: u64 = 5_000_000;

    fn calls(caller: &mut Caller, from_ms: u64, to_ms: u64, alive: &[bool]) -> u64 {
        (from_ms / 5..to_ms / 5).map(|step| caller.due(step * 5, STEP_NS, alive)).sum()
    }

    #[test]
    fn three_nodes_begin_with_a_tenth_three_tenths_and_six_tenths() {
        let traffic = Traffic::new(7, 3, 300);
        let rates = [0, 1, 2].map(|node| traffic.milli_per_s(node, 0, &ALL));
        assert_eq!(rates, [30_000, 90_000, 180_000]);
    }

    #[test]
    fn rates_wander_and_sum_to_the_whole() {
        let traffic = Traffic::new(7, 3, 300);
        let mut most = [0; 3];
        for at_ms in (0..60_000).step_by(50) {
            let rates = [0, 1, 2].map(|node| traffic.milli_per_s(node, at_ms, &ALL));
            assert!((299_997..=300_000).contains(&rates.iter().sum::<u64>()), "{rates:?}");
            most = std::array::from_fn(|node| most[node].max(rates[node]));
        }
        assert_eq!(most, [180_000; 3], "each was the busiest once");
    }

    #[test]
    fn callers_of_a_dead_node_call_the_others() {
        let traffic = Traffic::new(7, 3, 300);
        let alive = [true, false, true];
        let rates = [0, 1, 2].map(|node| traffic.milli_per_s(node, 0, &alive));
        assert_eq!(rates.iter().sum::<u64>() / 1_000, 299);
        assert_eq!(rates[1], 0);
        assert_eq!(traffic.milli_per_s(0, 0, &[false; 3]), 0);
    }

    #[test]
    fn calls_come_unevenly_and_at_the_rate() {
        let mut caller = Caller::new(Traffic::new(7, 3, 300), 2);
        let made = calls(&mut caller, 0, 4_000, &ALL);
        assert!((650..=790).contains(&made), "{made} of about 720");
        let mut again = Caller::new(Traffic::new(7, 3, 300), 2);
        assert_eq!(calls(&mut again, 0, 4_000, &ALL), made, "the seed decides");
        let mut other = Caller::new(Traffic::new(8, 3, 300), 2);
        let seconds = |caller: &mut Caller| -> Vec<u64> {
            (0..4).map(|s| calls(caller, s * 1_000, (s + 1) * 1_000, &ALL)).collect()
        };
        assert_ne!(seconds(&mut other), seconds(&mut again), "and another seed decides otherwise");
    }

    #[test]
    fn who_was_away_for_long_makes_up_for_a_tenth_of_a_second_at_most() {
        let mut caller = Caller::new(Traffic::new(7, 3, 300), 2);
        assert!(caller.due(0, u64::MAX, &ALL) <= 36);
    }
}
