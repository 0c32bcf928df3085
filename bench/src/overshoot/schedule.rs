//! What is asked, when and where: drawn from a seed before anything is sent, so that every contender
//! gets the same. It sends nothing and reads no clock.

use std::collections::BTreeSet;

use sim::exact::Exact;
use sim::{Algorithm, Allowed};

use super::workload::Workload;
use crate::clock::{NS_PER_MS, NS_PER_S};
use crate::keys::Random;
use crate::window::Bucket;

/// Most checks of one frame: those of a burst.
const FRAME_CHECKS_MAX: u64 = 64;
/// Frames in a second beyond which checks that are due together share one. Each takes some 15 us of
/// a CPU at both ends, and the nodes and this program share the machine.
const FRAMES_PER_S_MAX: u64 = 4000;
/// How long a client stays with a node before it moves on.
const STAY_NS: u64 = NS_PER_S / 4;
/// Calls of a page.
const PAGE_CALLS: usize = 8;
/// Nothing is asked before this, so that the first question of a workload meets idle nodes.
const LEAD_NS: u64 = NS_PER_S / 4;
/// From what is just too little to be told until the burst.
const SNEAK_NS: u64 = 10 * NS_PER_MS;
/// How long before an edge of windows the burst before it begins at the most: ten nodes decide it in half
/// of that.
const EDGE_NS: u64 = 40 * NS_PER_MS;
/// Least time between two bursts, so that what they spent is told in between.
const BURST_EVERY_NS: u64 = NS_PER_S;

/// What is drawn from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Brief {
    /// How it is asked.
    pub(crate) workload: Workload,
    /// Nodes; at least 1.
    pub(crate) members: usize,
    /// How the limit counts.
    pub(crate) algorithm: Algorithm,
    /// The limit. Windows allow the burst, and are as long as that takes at the rate.
    pub(crate) limit: Bucket,
    /// Checks in a second by thousandths of the rate.
    pub(crate) load_permille: u64,
    /// Length; at least 1.
    pub(crate) seconds: u64,
}

/// One frame that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// When, from the start on.
    pub(crate) at_ns: u64,
    /// Index of the node.
    pub(crate) node: usize,
    /// Number of the key, from 0 on.
    pub(crate) key: u64,
    /// Checks in it; at least 1.
    pub(crate) checks: u64,
    /// Number of the burst that it is part of; none: it is not.
    pub(crate) burst: Option<u64>,
}

/// Everything that is asked, in the order in which it is due.
pub(crate) fn draw(brief: &Brief, seed: u64) -> Vec<Ask> {
    let mut draft = Draft { brief, random: Random::new(seed), asks: Vec::new(), bursts: 0 };
    let (end_ns, load) = (brief.seconds * NS_PER_S, brief.load());
    match brief.workload {
        Workload::Steady | Workload::Small => draft.shared(0, end_ns, load, |_| 1),
        Workload::Skewed => draft.shared(0, end_ns, load, |node| SKEW / (node as u64 + 1)),
        Workload::Rotating => draft.rotating(0, end_ns, load),
        Workload::FirstSecond => {
            let node = draft.any_node();
            draft.stream(node, (LEAD_NS, end_ns), load);
        }
        Workload::Burst => draft.bursts(end_ns, 0),
        Workload::NearTheta => {
            // An idle node may have an N-th of the burst in flight, and tells at a quarter of that.
            let quarter = brief.limit.burst.div_ceil(4 * brief.members as u64);
            draft.bursts(end_ns, quarter.saturating_sub(1));
        }
        Workload::WindowEdge => draft.edges(end_ns),
        Workload::PageLoad => draft.pages(end_ns, load),
        Workload::Flooder => draft.flooder(end_ns, load),
        Workload::Showcase => draft.showcase(end_ns),
    }
    let mut asks = draft.asks;
    asks.sort_by_key(|ask| ask.at_ns);
    asks
}

/// Keys of a schedule.
pub(crate) fn keys(asks: &[Ask]) -> BTreeSet<u64> {
    asks.iter().map(|ask| ask.key).collect()
}

/// Divided by the place of a node it is the node's weight: a multiple of 1 to 16.
const SKEW: u64 = 720_720;

impl Brief {
    /// Length of a window or a period: the time in which the burst comes at the rate.
    pub(crate) fn period_ns(&self) -> u64 {
        let Bucket { per_s, burst } = self.limit;
        let ns = u128::from(burst) * u128::from(NS_PER_S) / u128::from(per_s.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX).max(1)
    }

    /// The limit of one key in one exact place, where the run begins at the Unix time `unix_ns`.
    pub(super) fn exact(&self, unix_ns: u64) -> Exact {
        let Bucket { per_s, burst } = self.limit;
        Allowed::balanced(burst, per_s, NS_PER_S).by(self.algorithm).exact(unix_ns)
    }

    /// How long after the Unix time `unix_ns` a run may begin: where edges of windows matter, with a
    /// window.
    pub(super) fn begins_after_ns(&self, unix_ns: u64) -> u64 {
        match self.workload {
            Workload::WindowEdge => self.period_ns() - unix_ns % self.period_ns(),
            _ => 0,
        }
    }

    /// Checks in a second over all nodes; at least 1.
    fn load(&self) -> u64 {
        scaled(self.limit.per_s, self.load_permille)
    }
}

fn scaled(rate: u64, permille: u64) -> u64 {
    (rate.saturating_mul(permille) / 1000).max(1)
}

/// A schedule being drawn.
struct Draft<'b> {
    brief: &'b Brief,
    random: Random,
    asks: Vec<Ask>,
    bursts: u64,
}

impl Draft<'_> {
    fn members(&self) -> u64 {
        self.brief.members as u64
    }

    fn any_node(&mut self) -> usize {
        let node = self.random.below(self.members());
        usize::try_from(node).unwrap_or(0)
    }

    /// Checks of one key at one node, each at a random time of its own part of the whole.
    fn stream(&mut self, node: usize, (from_ns, to_ns): (u64, u64), checks_per_s: u64) {
        let checks = self.checks_in_frame(checks_per_s);
        let due_ns = |number: u64| {
            let passed = u128::from(number) * u128::from(checks) * u128::from(NS_PER_S);
            u64::try_from(passed / u128::from(checks_per_s.max(1))).unwrap_or(u64::MAX)
        };
        let (mut number, mut at_ns) = (0, from_ns);
        while at_ns < to_ns {
            number += 1;
            let next_ns = from_ns.saturating_add(due_ns(number));
            let drawn_ns = at_ns + self.random.below(next_ns - at_ns);
            if drawn_ns < to_ns {
                self.asks.push(Ask { at_ns: drawn_ns, node, key: 0, checks, burst: None });
            }
            at_ns = next_ns;
        }
    }

    /// So many that all nodes together get no more frames than can be sent.
    fn checks_in_frame(&self, checks_per_s: u64) -> u64 {
        let all = checks_per_s.max(self.brief.load());
        all.div_ceil(FRAMES_PER_S_MAX).clamp(1, FRAME_CHECKS_MAX)
    }

    /// A stream for each node, by weights.
    fn shared(
        &mut self,
        from_ns: u64,
        to_ns: u64,
        checks_per_s: u64,
        weight: impl Fn(usize) -> u64,
    ) {
        let sum: u64 = (0..self.brief.members).map(&weight).sum();
        for node in 0..self.brief.members {
            let part = u128::from(checks_per_s) * u128::from(weight(node)) / u128::from(sum.max(1));
            // What is less than one in a second is one.
            let part = u64::try_from(part).unwrap_or(u64::MAX).max(1);
            self.stream(node, (from_ns, to_ns), part);
        }
    }

    fn rotating(&mut self, from_ns: u64, to_ns: u64, checks_per_s: u64) {
        let (mut node, mut at_ns) = (self.any_node(), from_ns);
        while at_ns < to_ns {
            let until_ns = (at_ns + STAY_NS).min(to_ns);
            self.stream(node, (at_ns, until_ns), checks_per_s);
            at_ns = until_ns;
            node = (node + 1) % self.brief.members;
        }
    }

    /// So much on every node at one moment, frame by frame in turn.
    fn burst(&mut self, at_ns: u64, units: u64) {
        self.bursts += 1;
        let first = self.any_node();
        let mut left = units;
        while left > 0 {
            let checks = left.min(FRAME_CHECKS_MAX);
            left -= checks;
            for step in 0..self.brief.members {
                let node = (first + step) % self.brief.members;
                self.asks.push(Ask { at_ns, node, key: 0, checks, burst: Some(self.bursts) });
            }
        }
    }

    /// The whole burst on every node as often as it refills, each shortly after `sneak` units on every
    /// node.
    fn bursts(&mut self, end_ns: u64, sneak: u64) {
        let burst = self.brief.limit.burst;
        // Twice that, as what comes too much is paid back first.
        let every_ns = self.brief.period_ns().saturating_mul(2).max(BURST_EVERY_NS);
        let mut at_ns = LEAD_NS;
        while at_ns < end_ns {
            // At any phase of the nodes' exchange.
            let drawn_ns = at_ns + self.random.below(every_ns / 4);
            if sneak > 0 {
                for node in 0..self.brief.members {
                    let before = Ask { at_ns: drawn_ns, node, key: 0, checks: 1, burst: None };
                    self.asks
                        .extend(std::iter::repeat_n(before, usize::try_from(sneak).unwrap_or(0)));
                }
            }
            self.burst(drawn_ns + SNEAK_NS, burst);
            at_ns = at_ns.saturating_add(every_ns);
        }
    }

    /// The whole burst on every node before an edge of windows and after it, and again when that is as if
    /// it had not been.
    fn edges(&mut self, end_ns: u64) {
        let (burst, period_ns) = (self.brief.limit.burst, self.brief.period_ns());
        let every = BURST_EVERY_NS.div_ceil(period_ns).max(3);
        let mut edge_ns = period_ns.saturating_mul(EDGE_NS.div_ceil(period_ns));
        while edge_ns < end_ns {
            let before_ns = EDGE_NS - self.random.below(EDGE_NS / 2);
            self.burst(edge_ns - before_ns, burst);
            let after_ns = 1 + self.random.below(EDGE_NS / 2);
            self.burst(edge_ns + after_ns, burst);
            edge_ns = edge_ns.saturating_add(every.saturating_mul(period_ns));
        }
    }

    /// Pages with a key of their own at one node each.
    fn pages(&mut self, end_ns: u64, checks_per_s: u64) {
        let pages_per_s = (checks_per_s / PAGE_CALLS as u64).max(1);
        let every_ns = NS_PER_S / pages_per_s;
        for (key, at_ns) in (0..).zip((LEAD_NS..end_ns).step_by(step(every_ns))) {
            let at_ns = at_ns + self.random.below(every_ns.max(1));
            let node = self.any_node();
            let call = Ask { at_ns, node, key, checks: 1, burst: None };
            self.asks.extend(std::iter::repeat_n(call, PAGE_CALLS));
        }
    }

    fn flooder(&mut self, end_ns: u64, checks_per_s: u64) {
        let last = self.brief.members - 1;
        let quiet = (self.brief.limit.per_s / (2 * self.members())).max(1);
        for node in 0..last {
            self.stream(node, (0, end_ns), quiet);
        }
        self.stream(last, (0, end_ns), checks_per_s);
    }

    /// Twelfths of the whole: 1 a burst in quiet, 2 and 3 a little and unevenly, 4 to 7 overload that
    /// moves, 8 and 9 a pause, then a burst and overload at one node beside little at the others.
    fn showcase(&mut self, end_ns: u64) {
        let at = |twelfth: u64| end_ns / 12 * twelfth;
        let (rate, load) = (self.brief.limit.per_s, self.brief.load());
        self.burst(at(1) / 2, self.brief.limit.burst);
        self.shared(at(1), at(3), scaled(rate, 700), |node| SKEW / (node as u64 + 1));
        let members = self.brief.members;
        for part in 3..7 {
            let most = usize::try_from(part).unwrap_or(0) % members;
            self.shared(at(part), at(part + 1), load, |node| if node == most { 6 } else { 1 });
        }
        self.burst(at(9), self.brief.limit.burst);
        self.shared(at(9), end_ns, load, |node| if node == 0 { 1 } else { 4 });
    }
}

fn step(ns: u64) -> usize {
    usize::try_from(ns).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    fn brief(workload: Workload, members: usize) -> Brief {
        let defaults = workload.defaults();
        Brief {
            workload,
            members,
            algorithm: Algorithm::TokenBucket,
            limit: Bucket { per_s: defaults.rate, burst: defaults.burst },
            load_permille: defaults.load_permille,
            seconds: defaults.seconds,
        }
    }

    fn checks<'a>(asks: impl IntoIterator<Item = &'a Ask>) -> u64 {
        asks.into_iter().map(|ask| ask.checks).sum()
    }

    #[test]
    fn a_schedule_follows_from_its_seed() {
        for &workload in Workload::value_variants() {
            let brief = brief(workload, 3);
            let asks = draw(&brief, 7);
            assert_eq!(asks, draw(&brief, 7), "{workload:?}");
            assert_ne!(asks, draw(&brief, 8), "{workload:?}");
        }
    }

    #[test]
    fn every_frame_is_due_within_the_run_in_order_at_a_node_that_there_is() {
        for &workload in Workload::value_variants() {
            for members in [1, 2, 10] {
                let brief = brief(workload, members);
                let asks = draw(&brief, 3);
                assert!(!asks.is_empty());
                assert!(asks.is_sorted_by_key(|ask| ask.at_ns));
                for ask in &asks {
                    assert!(ask.node < members && (1..=FRAME_CHECKS_MAX).contains(&ask.checks));
                    // Bursts and pages begin before the end, at a random moment.
                    assert!(ask.at_ns < (brief.seconds + 1) * NS_PER_S, "{workload:?}");
                }
            }
        }
    }

    #[test]
    fn load_is_that_of_the_command_line() {
        for (workload, permille) in [
            (Workload::Steady, 950),
            (Workload::Steady, 20_000),
            (Workload::Skewed, 1500),
            (Workload::Rotating, 1500),
            (Workload::Small, 1500),
        ] {
            let brief = Brief { load_permille: permille, ..brief(workload, 3) };
            let asked = checks(&draw(&brief, 1));
            let expected = brief.limit.per_s * permille / 1000 * brief.seconds;
            assert!(asked.abs_diff(expected) * 50 <= expected, "{workload:?}: {asked}");
        }
    }

    #[test]
    fn one_client_is_at_one_node_at_a_time_and_comes_to_all() {
        let asks = draw(&brief(Workload::Rotating, 3), 1);
        let mut nodes = BTreeSet::new();
        for stay in asks.chunk_by(|a, b| a.at_ns / STAY_NS == b.at_ns / STAY_NS) {
            assert!(stay.iter().all(|ask| ask.node == stay[0].node));
            nodes.insert(stay[0].node);
        }
        assert_eq!(nodes.len(), 3);
    }

    #[test]
    fn a_burst_is_the_whole_bucket_on_every_node_at_one_moment() {
        let brief = brief(Workload::Burst, 10);
        let asks = draw(&brief, 1);
        let first: Vec<_> = asks.iter().filter(|ask| ask.burst == Some(1)).collect();
        for node in 0..10 {
            let of_node = first.iter().copied().filter(|ask| ask.node == node);
            assert_eq!(checks(of_node), 1000);
        }
        assert!(first.iter().all(|ask| ask.at_ns == first[0].at_ns));
        assert!(asks.iter().any(|ask| ask.burst == Some(2)));
    }

    #[test]
    fn bursts_lie_on_both_sides_of_an_edge() {
        let brief = brief(Workload::WindowEdge, 2);
        let asks = draw(&brief, 1);
        assert_eq!(brief.period_ns(), NS_PER_S);
        for (number, edge_ns) in [(1, NS_PER_S), (3, 4 * NS_PER_S), (5, 7 * NS_PER_S)] {
            let at = |number| asks.iter().find(|ask| ask.burst == Some(number)).unwrap().at_ns;
            assert!((edge_ns - EDGE_NS..edge_ns).contains(&at(number)));
            assert!((edge_ns + 1..edge_ns + EDGE_NS).contains(&at(number + 1)));
        }
        assert_eq!(checks(&asks), 6 * 2 * 1000);
        assert_eq!(brief.begins_after_ns(5 * NS_PER_S - 7), 7);
    }

    #[test]
    fn what_is_near_theta_stays_below_a_quarter_of_the_allowance() {
        let asks = draw(&brief(Workload::NearTheta, 5), 1);
        let first_ns = asks[0].at_ns;
        let before = asks.iter().take_while(|ask| ask.at_ns == first_ns);
        let by_first: u64 = checks(before.filter(|ask| ask.node == 0));
        // A quarter of a fifth of 1000 is 50.
        assert_eq!(by_first, 49);
    }

    #[test]
    fn a_page_is_eight_calls_of_a_key_of_its_own_at_one_node() {
        let asks = draw(&brief(Workload::PageLoad, 10), 1);
        for key in keys(&asks) {
            let page: Vec<_> = asks.iter().filter(|ask| ask.key == key).collect();
            assert_eq!(page.len(), 8);
            assert!(page.iter().all(|ask| (ask.at_ns, ask.node) == (page[0].at_ns, page[0].node)));
        }
        assert!(keys(&asks).len() > 100);
    }

    #[test]
    fn a_flooder_is_alone_in_asking_more_than_its_part() {
        let brief = brief(Workload::Flooder, 5);
        let asks = draw(&brief, 1);
        let of = |node| checks(asks.iter().filter(|ask| ask.node == node));
        assert!((990..=1010).contains(&of(0)), "{}", of(0));
        assert!(of(4) > 190_000);
    }

    #[test]
    fn the_showcase_pauses() {
        let asks = draw(&brief(Workload::Showcase, 3), 1);
        let second = |from: u64| asks.iter().filter(|ask| ask.at_ns / NS_PER_S == from).count();
        assert_eq!((second(7), second(8)), (0, 0));
        assert!(second(5) > 0 && second(11) > 0);
    }
}
