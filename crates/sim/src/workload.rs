//! Workloads: who asks what, where and when.
#![expect(
    clippy::float_arithmetic,
    reason = "loads are drawn before a run; nothing here decides a request"
)]

use crate::clock::{MS, SECOND};
use crate::dice::Dice;

/// A request of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it is made, in ns.
    pub at_ns: u64,
    /// Node that is asked. While it takes no questions, the next one that does.
    pub node: usize,
    /// Key, by its place in the scenario.
    pub key: usize,
    /// Units that it costs.
    pub cost: u64,
}

/// A workload in the making.
#[derive(Clone, Debug)]
pub struct Workload {
    dice: Dice,
    arrivals: Vec<Arrival>,
}

/// How a load lies on the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Evenly on the nodes named.
    Even(Vec<usize>),
    /// On the node at place k of so many, as 1/k.
    Zipf(usize),
    /// On one of so many nodes at a time, two seconds each.
    Rotating(usize),
}

impl Spread {
    /// Evenly on nodes 0 to `nodes` - 1.
    pub fn all(nodes: usize) -> Self {
        Self::Even((0..nodes).collect())
    }

    /// On `node` alone.
    pub fn one(node: usize) -> Self {
        Self::Even(vec![node])
    }

    fn node(&self, at_ns: u64, dice: &mut Dice) -> usize {
        match self {
            Self::Even(nodes) => dice.one_of(nodes),
            Self::Rotating(nodes) => {
                let turn = usize::try_from(at_ns / (2 * SECOND)).unwrap_or(0);
                turn % nodes
            }
            Self::Zipf(nodes) => {
                let weight = |place: usize| 1.0 / (place + 1) as f64;
                let mut left = unit(dice) * (0..*nodes).map(weight).sum::<f64>();
                for place in 0..*nodes {
                    left -= weight(place);
                    if left <= 0.0 {
                        return place;
                    }
                }
                nodes - 1
            }
        }
    }
}

impl Workload {
    /// No requests; `seed` is for what is drawn.
    pub fn new(seed: u64) -> Self {
        Self { dice: Dice::new(seed).part(0x10ad), arrivals: Vec::new() }
    }

    /// The chance that the workload is drawn from.
    pub fn dice(&mut self) -> &mut Dice {
        &mut self.dice
    }

    /// Independent requests (Poisson) of `cost` units at `per_s` a second, from `from_ns` to `to_ns`.
    pub fn poisson(&mut self, spread: &Spread, load: Load, from_ns: u64, to_ns: u64) -> &mut Self {
        let mean_ns = SECOND as f64 / load.per_s;
        let mut at = from_ns as f64;
        loop {
            at += -(1.0 - unit(&mut self.dice)).ln() * mean_ns;
            let at_ns = to_u64(at);
            if at_ns >= to_ns {
                return self;
            }
            let node = spread.node(at_ns, &mut self.dice);
            self.arrivals.push(Arrival { at_ns, node, key: load.key, cost: load.cost });
        }
    }

    /// `count` requests of `cost` units on `node` within `within_ns` from `from_ns`.
    pub fn burst(&mut self, node: usize, key: usize, count: u64, from_ns: u64, within_ns: u64) {
        self.costly_burst((node, key), (count, 1), from_ns, within_ns);
    }

    /// The same with requests of so many units: (node, key), (count, cost).
    pub fn costly_burst(
        &mut self,
        (node, key): (usize, usize),
        (count, cost): (u64, u64),
        from_ns: u64,
        within_ns: u64,
    ) {
        for _ in 0..count {
            let at_ns = from_ns + self.dice.below(within_ns.max(1));
            self.arrivals.push(Arrival { at_ns, node, key, cost });
        }
    }

    /// `size` calls on a random one of `nodes` nodes within a millisecond, each `every_ns` until
    /// `to_ns`.
    pub fn page_loads(&mut self, nodes: usize, size: u64, every_ns: u64, to_ns: u64) -> &mut Self {
        let mut at_ns = SECOND;
        while at_ns < to_ns {
            let node = self.dice.place(nodes);
            self.burst(node, 0, size, at_ns, MS);
            at_ns += every_ns;
        }
        self
    }

    /// One request.
    pub fn one(&mut self, at_ns: u64, node: usize, key: usize, cost: u64) {
        self.arrivals.push(Arrival { at_ns, node, key, cost });
    }

    /// The requests in the order of their time.
    pub fn done(&mut self) -> Vec<Arrival> {
        let mut arrivals = std::mem::take(&mut self.arrivals);
        arrivals.sort_by_key(|arrival| arrival.at_ns);
        arrivals
    }
}

/// What an even flow of requests is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Key, by its place in the scenario.
    pub key: usize,
    /// Requests a second.
    pub per_s: f64,
    /// Units that each costs.
    pub cost: u64,
}

impl Load {
    /// Requests of one unit for the first key.
    pub fn of(per_s: f64) -> Self {
        Self { key: 0, per_s, cost: 1 }
    }
}

/// `seconds` in nanoseconds.
pub fn seconds(seconds: f64) -> u64 {
    to_u64(seconds * SECOND as f64)
}

/// A number from 0 to below 1.
fn unit(dice: &mut Dice) -> f64 {
    (dice.word() >> 11) as f64 / (1_u64 << 53) as f64
}

/// The whole part of a number that is not negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float is cut at the bounds of the integer, which is what is wanted"
)]
pub(crate) fn to_u64(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_has_its_rate_and_its_bounds() {
        let mut workload = Workload::new(1);
        workload.poisson(&Spread::all(4), Load::of(1000.0), SECOND, 11 * SECOND);
        let arrivals = workload.done();
        assert!((9_500..10_500).contains(&arrivals.len()));
        assert!(arrivals.iter().all(|a| (SECOND..11 * SECOND).contains(&a.at_ns)));
        assert!((0..4).all(|node| arrivals.iter().filter(|a| a.node == node).count() > 2_200));
    }

    #[test]
    fn a_skewed_flow_is_heaviest_on_the_first_node() {
        let mut workload = Workload::new(1);
        workload.poisson(&Spread::Zipf(3), Load::of(1000.0), 0, 11 * SECOND);
        let arrivals = workload.done();
        let on = |node| arrivals.iter().filter(|a| a.node == node).count();
        assert!(on(0) > on(1) && on(1) > on(2) && on(2) > 1_000);
    }

    #[test]
    fn a_rotating_flow_is_on_one_node_at_a_time() {
        let mut workload = Workload::new(1);
        workload.poisson(&Spread::Rotating(3), Load::of(100.0), 0, 9 * SECOND);
        for arrival in workload.done() {
            assert_eq!(arrival.node as u64, arrival.at_ns / (2 * SECOND) % 3);
        }
    }

    #[test]
    fn the_same_seed_is_the_same_workload() {
        let draw = |seed| Workload::new(seed).page_loads(5, 8, SECOND, 9 * SECOND).done();
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
