//! Who got what: whether nodes that asked were served alike, and how long one of them got nothing.

use super::asker::Seen;
use super::schedule::Ask;
use crate::clock::NS_PER_S;

/// A node that does not ask for so long has stopped asking.
const KEEPS_ASKING_NS: u64 = NS_PER_S / 4;

/// Jain's index (Jain, Chiu, Hawe 1984) of what each node was let through, `admitted`, divided by its
/// max-min fair part of their sum, given what it `asked`: 1 if all are served alike, 1/n if one of n
/// gets everything. None if nothing was let through.
pub(super) fn jain(asked: &[u64], admitted: &[u64]) -> Option<f64> {
    let parts = max_min(asked, admitted.iter().sum());
    let ratios: Vec<f64> = admitted
        .iter()
        .zip(&parts)
        .filter(|(_, part)| **part > 0.0)
        .map(|(&admitted, part)| admitted as f64 / part)
        .collect();
    let sum: f64 = ratios.iter().sum();
    let squares: f64 = ratios.iter().map(|ratio| ratio * ratio).sum();
    (squares > 0.0).then(|| sum * sum / (ratios.len() as f64 * squares))
}

/// Parts of `sum` such that nobody has more than it `asked`, and whoever has less than that has no
/// less than any other.
fn max_min(asked: &[u64], sum: u64) -> Vec<f64> {
    let mut by_size: Vec<usize> = (0..asked.len()).collect();
    by_size.sort_by_key(|&node| asked[node]);
    let mut parts = vec![0.0; asked.len()];
    let mut left = sum as f64;
    for (place, &node) in by_size.iter().enumerate() {
        let even = left / (asked.len() - place) as f64;
        parts[node] = even.min(asked[node] as f64);
        left -= parts[node];
    }
    parts
}

/// The longest time in nanoseconds for which a node kept asking and let nothing through although the
/// central limiter did: from a request of the node's that `central` let through, by ask, to the last
/// one that the node denied before it let one through again or stopped being asked.
pub(super) fn starvation_ns(asks: &[Ask], seen: &[Seen], central: &[u64], members: usize) -> u64 {
    #[derive(Clone, Copy, Default)]
    struct Hunger {
        since_ns: Option<u64>,
        last_ns: u64,
    }
    let mut hungers = vec![Hunger::default(); members];
    let mut longest_ns = 0;
    for ((ask, seen), &passed) in asks.iter().zip(seen).zip(central) {
        let (Some(sent_ns), Some(_)) = (seen.sent_ns, seen.received_ns) else { continue };
        let hunger = &mut hungers[ask.node];
        if seen.answered.allowed > 0 || sent_ns.saturating_sub(hunger.last_ns) > KEEPS_ASKING_NS {
            hunger.since_ns = None;
        }
        if seen.answered.allowed == 0 && hunger.since_ns.is_none() && passed > 0 {
            hunger.since_ns = Some(sent_ns);
        }
        hunger.last_ns = sent_ns;
        longest_ns = longest_ns.max(sent_ns.saturating_sub(hunger.since_ns.unwrap_or(sent_ns)));
    }
    longest_ns
}

#[cfg(test)]
mod tests {
    use super::super::line::Answered;
    use super::*;
    use crate::clock::NS_PER_MS;

    fn close(one: Option<f64>, other: f64) -> bool {
        one.is_some_and(|one| (one - other).abs() < 1e-9)
    }

    #[test]
    fn nodes_that_are_served_alike_have_an_index_of_one() {
        assert!(close(jain(&[100, 100, 100], &[30, 30, 30]), 1.0));
        assert!(close(jain(&[100, 100, 100], &[90, 0, 0]), 1.0 / 3.0));
        assert_eq!(jain(&[100, 100], &[0, 0]), None);
    }

    #[test]
    fn who_asks_for_less_than_its_part_is_served_if_it_gets_all_of_it() {
        assert!(close(jain(&[10, 1000, 1000], &[10, 45, 45]), 1.0));
        assert!(jain(&[10, 1000, 1000], &[1, 49, 50]).unwrap() < 0.8);
        // Who asks nothing is not counted.
        assert!(close(jain(&[0, 100, 100], &[0, 50, 50]), 1.0));
        assert_eq!(max_min(&[5, 100, 10], 60), [5.0, 45.0, 10.0]);
        assert_eq!(max_min(&[5, 5], 60), [5.0, 5.0]);
    }

    /// Asks of two nodes: node, time in milliseconds, let through, let through by the central one.
    fn starved_ms(lines: &[(usize, u64, u64, u64)]) -> u64 {
        let asks: Vec<_> = lines
            .iter()
            .map(|&(node, ..)| Ask { at_ns: 0, node, key: 0, checks: 1, burst: None })
            .collect();
        let seen: Vec<_> = lines
            .iter()
            .map(|&(_, at_ms, allowed, _)| Seen {
                sent_ns: Some(at_ms * NS_PER_MS),
                received_ns: Some(at_ms * NS_PER_MS + 1),
                answered: Answered { allowed, denied: 1 - allowed, ..Answered::default() },
            })
            .collect();
        let central: Vec<_> = lines.iter().map(|&(.., passed)| passed).collect();
        starvation_ns(&asks, &seen, &central, 2) / NS_PER_MS
    }

    #[test]
    fn a_node_starves_from_what_it_might_have_passed_until_it_passes_something() {
        assert_eq!(starved_ms(&[(0, 0, 0, 1), (0, 100, 0, 0), (0, 150, 1, 0)]), 100);
        // While nothing is to be had nobody starves.
        assert_eq!(starved_ms(&[(0, 0, 0, 0), (0, 100, 0, 0)]), 0);
        // Each node by itself.
        assert_eq!(starved_ms(&[(0, 0, 0, 1), (1, 50, 1, 1), (0, 100, 0, 1)]), 100);
    }

    #[test]
    fn a_node_that_is_not_asked_does_not_starve() {
        assert_eq!(
            starved_ms(&[(0, 0, 0, 1), (0, 200, 0, 1), (0, 900, 0, 1), (0, 950, 0, 1)]),
            200
        );
    }
}
