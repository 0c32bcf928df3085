//! An attack, written down: one limit, what is asked of which nodes when, and what goes wrong.

use limiter::Accuracy;

use crate::clock::{MS, SECOND};
use crate::network::Cut;
use crate::scenario::{Act, Allowed, Scenario, everyone};
use crate::workload::Arrival;

/// A microsecond, in nanoseconds: times of an attack are counted in it.
const US: u64 = 1_000;
/// Time for forming before an attack, in ns: nodes that start together need two seconds, and levels
/// are compared two seconds after.
const WARM_UP_NS: u64 = 4 * SECOND;
/// Quiet time after an attack in which what is held is decided, in ns.
const SETTLE_NS: u64 = SECOND / 4;
/// Quiet time after which everything must be at rest, in ns.
const REST_NS: u64 = 16 * SECOND;
/// Keys of an attack: the first is attacked, the others are hot beside it.
pub(super) const KEYS_MAX: usize = 6;
/// Moves of an attack.
pub(super) const MOVES_MAX: usize = 40;
/// Faults of an attack. More of them would find no other ways, only the same again: each crash forgets
/// what was in flight.
pub(super) const FAULTS_MAX: usize = 4;
/// Lines with a delay of their own.
pub(super) const LINES_MAX: usize = 4;
/// Requests of an attack.
pub(super) const REQUESTS_MAX: u64 = 30_000;
/// Latest time in an attack, in µs.
pub(super) const END_US_MAX: u64 = 30_000_000;

/// One kind of request: each node of a set is asked so many times, evenly in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// When the first is asked, in µs.
    pub at_us: u64,
    /// The nodes, by bits.
    pub nodes: u64,
    /// Which key: the first is attacked.
    pub key: usize,
    /// Requests to each node.
    pub count: u64,
    /// Units that each costs.
    pub cost: u64,
    /// Time that the requests to one node take, in µs.
    pub within_us: u64,
    /// Time from one node to the next, in µs; below 0 they come in the other order.
    pub step_us: i64,
}

/// A line with a delay of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Senders, by bits.
    pub from: u64,
    /// Receivers, by bits.
    pub to: u64,
    /// One way, in µs.
    pub delay_us: u64,
}

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A set of nodes and the others do not reach each other; or only the others do not hear the set.
    Cut {
        /// From when, in µs.
        from_us: u64,
        /// Until when, in µs.
        to_us: u64,
        /// The set, by bits.
        nodes: u64,
        /// Only what the set sends is cut.
        one_way: bool,
    },
    /// A node is killed, and started again.
    Crash {
        /// When, in µs.
        from_us: u64,
        /// When it is started, in µs.
        to_us: u64,
        /// Which.
        node: usize,
    },
    /// A node stands still.
    Pause {
        /// From when, in µs.
        from_us: u64,
        /// Until when, in µs.
        to_us: u64,
        /// Which.
        node: usize,
    },
    /// A node is told to stop, and started again.
    Restart {
        /// When, in µs.
        from_us: u64,
        /// When it is started, in µs.
        to_us: u64,
        /// Which.
        node: usize,
    },
}

/// An attack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attack {
    /// Nodes.
    pub nodes: usize,
    /// What chance in the run comes from: the phases of the ticks, above all.
    pub seed: u64,
    /// How the limit is held together.
    pub accuracy: Accuracy,
    /// Capacity, in units.
    pub burst: u64,
    /// Time in which an empty bucket fills, in ms.
    pub window_ms: u64,
    /// Longest hold, in ms.
    pub wait_ms: u64,
    /// One way from any node to any other, in µs.
    pub delay_us: u64,
    /// Most that chance adds to it, in µs.
    pub jitter_us: u64,
    /// Millionths of frames that are lost.
    pub loss_ppm: u64,
    /// Lines with other delays.
    pub lines: Vec<Line>,
    /// What is asked.
    pub moves: Vec<Move>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
}

impl Fault {
    /// From when, in µs.
    pub fn from_us(&self) -> u64 {
        match self {
            Self::Cut { from_us, .. }
            | Self::Crash { from_us, .. }
            | Self::Pause { from_us, .. }
            | Self::Restart { from_us, .. } => *from_us,
        }
    }

    /// From when and until when, in µs, to be changed.
    pub fn times_mut(&mut self) -> (&mut u64, &mut u64) {
        match self {
            Self::Cut { from_us, to_us, .. }
            | Self::Crash { from_us, to_us, .. }
            | Self::Pause { from_us, to_us, .. }
            | Self::Restart { from_us, to_us, .. } => (from_us, to_us),
        }
    }
}

impl Attack {
    /// The limit that is attacked.
    pub fn allowed(&self) -> Allowed {
        let (burst, period_ns) = (self.burst, self.window_ms * MS);
        match self.accuracy {
            Accuracy::Balanced => {
                Allowed::balanced(burst, burst, period_ns).held(self.wait_ms * MS)
            }
            Accuracy::Fast => Allowed::fast(burst, burst, period_ns),
        }
    }

    /// The run that it is. What is asked above `REQUESTS_MAX` is not.
    pub fn scenario(&self) -> Scenario {
        let mut scenario = Scenario::new(self.nodes, self.allowed(), self.seed);
        let hot = Allowed::balanced(50, 1000, SECOND);
        let keys = self.moves.iter().map(|step| step.key + 1).max().unwrap_or(1);
        if keys > 1 {
            scenario.add_limit(hot);
            scenario.keys.resize(keys, 1);
        }
        self.lay_lines(&mut scenario);
        scenario.arrivals = self.arrivals();
        for fault in &self.faults {
            self.plan(&mut scenario, fault);
        }
        scenario.script.sort_by_key(|(at_ns, _)| *at_ns);
        scenario.warm_up_ns = WARM_UP_NS;
        scenario.settle_ns = SETTLE_NS + scenario.truth[0].max_wait_ns;
        scenario.inspect_every_ns = 50 * MS;
        scenario
    }

    /// The same run with enough quiet after it that nothing may be left open.
    pub fn scenario_to_rest(&self) -> Scenario {
        let mut scenario = self.scenario();
        scenario.settle_ns = REST_NS;
        scenario.inspect_every_ns = 5 * MS;
        scenario
    }

    fn lay_lines(&self, scenario: &mut Scenario) {
        let lines = &mut scenario.lines;
        lines.jitter_ns = self.jitter_us * US;
        lines.loss_ppm = self.loss_ppm;
        lines.delay_ns.iter_mut().flatten().for_each(|delay_ns| *delay_ns = self.delay_us * US);
        for line in &self.lines {
            for from in each(line.from, self.nodes) {
                for to in each(line.to, self.nodes).filter(|to| *to != from) {
                    lines.delay_ns[from][to] = line.delay_us * US;
                }
            }
        }
    }

    fn arrivals(&self) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        let mut left = REQUESTS_MAX;
        for step in &self.moves {
            let nodes: Vec<usize> = each(step.nodes, self.nodes).collect();
            for (place, node) in nodes.iter().enumerate() {
                let place = if step.step_us < 0 { nodes.len() - 1 - place } else { place } as u64;
                let from_us = step.at_us + place * step.step_us.unsigned_abs();
                let count = step.count.min(left);
                left -= count;
                for k in 0..count {
                    let at_ns =
                        (from_us * US + step.within_us * US * k / count).min(END_US_MAX * US);
                    let (node, key, cost) = (*node, step.key, step.cost);
                    arrivals.push(Arrival { at_ns, node, key, cost });
                }
            }
        }
        arrivals.sort_by_key(|arrival| arrival.at_ns);
        arrivals
    }

    fn plan(&self, scenario: &mut Scenario, fault: &Fault) {
        let script = &mut scenario.script;
        match *fault {
            Fault::Cut { from_us, to_us, nodes, one_way } => {
                let (a, b) = (nodes, everyone(self.nodes) & !nodes);
                let (from_ns, to_ns) = (from_us * US, to_us * US);
                scenario.lines.cuts.push(Cut { from_ns, to_ns, a, b, one_way });
            }
            Fault::Crash { from_us, to_us, node } => {
                script.push((from_us * US, Act::Crash(node)));
                script.push((to_us * US, Act::Boot(node, 0)));
            }
            Fault::Pause { from_us, to_us, node } => {
                script.push((from_us * US, Act::Pause(node, to_us * US)));
            }
            Fault::Restart { from_us, to_us, node } => {
                script.push((from_us * US, Act::Leave(node)));
                script.push((to_us * US, Act::Boot(node, 0)));
            }
        }
    }
}

/// The nodes in `bits`, of `nodes`.
fn each(bits: u64, nodes: usize) -> impl Iterator<Item = usize> {
    (0..nodes).filter(move |node| bits >> node & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attack(moves: Vec<Move>) -> Attack {
        Attack {
            nodes: 3,
            seed: 1,
            accuracy: Accuracy::Balanced,
            burst: 100,
            window_ms: 1_000,
            wait_ms: 5,
            delay_us: 1_000,
            jitter_us: 0,
            loss_ppm: 0,
            lines: vec![Line { from: 0b1, to: 0b110, delay_us: 9_000 }],
            moves,
            faults: Vec::new(),
        }
    }

    const MOVE: Move =
        Move { at_us: 10, nodes: 0b101, key: 0, count: 2, cost: 3, within_us: 8, step_us: 100 };

    #[test]
    fn requests_are_spread_evenly_and_node_after_node() {
        let order = |step_us| {
            let arrivals = attack(vec![Move { step_us, ..MOVE }]).scenario().arrivals;
            arrivals.iter().map(|a| (a.at_ns / US, a.node, a.cost)).collect::<Vec<_>>()
        };
        assert_eq!(order(100), [(10, 0, 3), (14, 0, 3), (110, 2, 3), (114, 2, 3)]);
        assert_eq!(order(-100), [(10, 2, 3), (14, 2, 3), (110, 0, 3), (114, 0, 3)]);
    }

    #[test]
    fn a_line_of_its_own_is_one_way() {
        let delay_ns = attack(vec![MOVE]).scenario().lines.delay_ns;
        assert_eq!((delay_ns[0][2], delay_ns[2][0]), (9 * MS, MS));
    }

    #[test]
    fn requests_and_keys_are_bounded() {
        let hot = Move { key: KEYS_MAX - 1, count: u64::MAX, ..MOVE };
        let scenario = attack(vec![hot, MOVE]).scenario();
        assert_eq!(scenario.arrivals.len() as u64, REQUESTS_MAX);
        assert_eq!(scenario.keys, [0, 1, 1, 1, 1, 1]);
    }
}
