//! By how much the clocks of a fleet differ, from what its nodes measured of each other.
//!
//! A node tells its wall clock when it is linked. Who hears it measures the difference to its own, too
//! small by the time that the hello was on its way: between nothing and a round trip. Both clocks are
//! told in whole milliseconds. So every measure is an interval; two nodes that measured each other give
//! two, which should meet, and the time between any two clocks is put together from the narrowest.

use std::collections::HashMap;

use super::survey::Life;

/// What whole milliseconds may hide.
const ROUNDING_NS: i64 = 1_000_000;
/// Most time that a hello is taken to be on its way where no round trip was measured: a peer that is
/// silent for longer is lost.
const RTT_UNKNOWN_NS: u64 = 500_000_000;

/// The clock of a life, as against the clock that all times are put into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shift {
    /// Its reading less the common clock's, in nanoseconds.
    pub ahead_ns: i64,
    /// By how much that may be wrong either way; none: nobody measured it, and the wall clocks are
    /// taken for right.
    pub error_ns: Option<u64>,
}

/// The clocks of several lives put into one.
#[derive(Clone, Debug)]
pub struct Alignment {
    /// One for each life.
    pub shifts: Vec<Shift>,
    /// Unix time less the common clock, in nanoseconds: the wall clock of the life it was taken from.
    pub wall_offset_ns: i64,
    /// Pairs of nodes whose two measures of each other do not meet, and by how much, in nanoseconds.
    pub disagreement_ns: u64,
}

impl Alignment {
    /// `at_ns` of the life of this index in the common clock.
    pub fn common(&self, life: usize, at_ns: u64) -> i64 {
        let at_ns = i64::try_from(at_ns).unwrap_or(i64::MAX);
        at_ns.saturating_sub(self.shifts[life].ahead_ns)
    }

    /// Unix time at `at_ns` of the common clock, in nanoseconds.
    pub fn wall_ns(&self, at_ns: i64) -> i64 {
        at_ns.saturating_add(self.wall_offset_ns)
    }

    /// By how much the time between two events on different lives may be wrong; none if it is not known
    /// of all.
    pub fn between_ns(&self) -> Option<u64> {
        let (mut most, mut second) = (0, 0);
        for shift in &self.shifts {
            let error = shift.error_ns?;
            if error > most {
                (most, second) = (error, most);
            } else {
                second = second.max(error);
            }
        }
        Some(most.saturating_add(second))
    }
}

/// How far the clock `to` is ahead of the clock `from`.
#[derive(Clone, Copy, Debug)]
struct Edge {
    from: usize,
    to: usize,
    ahead_ns: i64,
    error_ns: u64,
}

/// Puts the clocks of `lives` into one: that of the life with the most spends.
pub fn align(lives: &[&Life]) -> Alignment {
    let (edges, disagreement_ns) = edges(lives);
    let reference = (0..lives.len()).max_by_key(|index| (lives[*index].spends, usize::MAX - index));
    let reference = reference.unwrap_or(0);
    let mut shifts: Vec<Option<Shift>> = vec![None; lives.len()];
    let mut is_settled = vec![false; lives.len()];
    if let Some(first) = shifts.get_mut(reference) {
        *first = Some(Shift { ahead_ns: 0, error_ns: Some(0) });
    }
    // Dijkstra's shortest paths, where the length of a path is the sum of its errors.
    loop {
        let reached = (0..lives.len()).filter(|at| !is_settled[*at]);
        let nearest = reached.filter_map(|at| Some((shifts[at]?.error_ns?, at))).min();
        let Some((error_ns, at)) = nearest else { break };
        is_settled[at] = true;
        let ahead_ns = shifts[at].map_or(0, |shift| shift.ahead_ns);
        for edge in edges.iter().filter(|edge| edge.from == at) {
            let error_ns = error_ns.saturating_add(edge.error_ns);
            let is_nearer = shifts[edge.to]
                .and_then(|shift| shift.error_ns)
                .is_none_or(|known| error_ns < known);
            if is_nearer {
                let ahead_ns = ahead_ns.saturating_add(edge.ahead_ns);
                shifts[edge.to] = Some(Shift { ahead_ns, error_ns: Some(error_ns) });
            }
        }
    }
    let wall_offset_ns = lives.get(reference).map_or(0, |life| life.wall_offset_ns);
    let by_wall = |life: &Life| Shift {
        ahead_ns: wall_offset_ns.saturating_sub(life.wall_offset_ns),
        error_ns: None,
    };
    let shifts =
        shifts.iter().zip(lives).map(|(shift, life)| shift.unwrap_or_else(|| by_wall(life)));
    Alignment { shifts: shifts.collect(), wall_offset_ns, disagreement_ns }
}

/// What is known between pairs, each in both directions, and the largest disagreement in a pair.
fn edges(lives: &[&Life]) -> (Vec<Edge>, u64) {
    let mut by_name = HashMap::new();
    let mut by_boot = HashMap::new();
    let mut edges = Vec::new();
    for (index, life) in lives.iter().enumerate() {
        by_name.insert((life.begin.node.as_str(), life.begin.life), index);
        if life.begin.boot != [0; 16] {
            // Processes of one machine have one clock.
            let first = *by_boot.entry(life.begin.boot).or_insert(index);
            if first != index {
                edges.push(Edge { from: first, to: index, ahead_ns: 0, error_ns: 0 });
            }
        }
    }
    let mut disagreement_ns = 0;
    for (from, life) in lives.iter().enumerate() {
        for (name, peer_life) in life.measures.keys() {
            let Some(&to) = by_name.get(&(name.as_str(), *peer_life)) else { continue };
            let ours = interval(lives, from, to);
            let theirs = interval(lives, to, from).map(|(low, high)| (-high, -low));
            let (Some((low, high)), both) = (ours, theirs) else { continue };
            let (theirs_low, theirs_high) = both.unwrap_or((low, high));
            let (low, high) = (low.max(theirs_low), high.min(theirs_high));
            let apart_ns = u64::try_from(low.saturating_sub(high)).unwrap_or(0);
            disagreement_ns = disagreement_ns.max(apart_ns);
            let (low, high) = (low.min(high), low.max(high));
            let error_ns = high.abs_diff(low).div_ceil(2).saturating_add(apart_ns);
            edges.push(Edge { from, to, ahead_ns: low.midpoint(high), error_ns });
        }
    }
    let back = edges.iter().map(|edge| Edge {
        from: edge.to,
        to: edge.from,
        ahead_ns: edge.ahead_ns.saturating_neg(),
        error_ns: edge.error_ns,
    });
    let back: Vec<_> = back.collect();
    edges.extend(back);
    (edges, disagreement_ns)
}

/// Between which bounds the clock of `to` is ahead of that of `from`, as `from` measured it.
fn interval(lives: &[&Life], from: usize, to: usize) -> Option<(i64, i64)> {
    let (measuring, measured) = (lives[from], lives[to]);
    let key = (measured.begin.node.clone(), measured.begin.life);
    let measure = measuring.measures.get(&key)?;
    let rtt_ns = measure.rtt_ns.unwrap_or(RTT_UNKNOWN_NS);
    let step_ns = i64::try_from(measured.wall_step_ns).unwrap_or(i64::MAX);
    let at_most = |ns: i64| ns.saturating_sub(measured.wall_offset_ns);
    let low = at_most(measure.least_ns).saturating_sub(ROUNDING_NS).saturating_sub(step_ns);
    let high = at_most(measure.most_ns)
        .saturating_add(i64::try_from(rtt_ns).unwrap_or(i64::MAX))
        .saturating_add(ROUNDING_NS)
        .saturating_add(step_ns);
    Some((low, high))
}
