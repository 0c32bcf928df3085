//! Every figure of a run, from what was seen and from what the central limiter would have done. It
//! asks nothing and prints nothing.

use serde::Serialize;

use super::asker::Seen;
use super::central::Central;
use super::excess::Excess;
use super::fairness::{jain, starvation_ns};
use super::schedule::{Ask, Brief, keys};
use super::workload::Workload;
use crate::clock::{NS_PER_MS, NS_PER_S};
use crate::driver::Times;

/// A frame that was sent so much later than due was not sent in time.
const LATE_NS: u64 = 5 * NS_PER_MS;
/// An answer that took longer was waited for: one that is given at once takes some tenths of this.
const WAITED_NS: u64 = NS_PER_MS;

/// What one run came to, as far as the sender saw it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figures {
    /// What was sent.
    pub(super) sending: Sending,
    /// By how much more passed than may.
    pub(super) excess: Excess,
    /// What was let through, and what might have been.
    pub(super) usage: Usage,
    /// How long answers took.
    pub(super) waits: Waits,
    /// How far the bursts were spread.
    pub(super) bursts: Vec<Spread>,
    /// By node.
    pub(super) nodes: Vec<OfNode>,
    /// Answers that were given while members were missing, in checks.
    pub(super) apart: u64,
}

/// Whether the machine could send what was to be sent, in checks.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Sending {
    /// Of the schedule.
    pub(super) asked: u64,
    /// Sent within 5 ms of when they were due.
    pub(super) in_time: u64,
    /// Never sent.
    pub(super) unsent: u64,
    /// Sent, and not answered.
    pub(super) unanswered: u64,
    /// Answered with an error.
    pub(super) failed: u64,
    /// How late frames were sent.
    pub(super) late_p50_ms: f64,
    /// The same, of 99 in 100 at most.
    pub(super) late_p99_ms: f64,
    /// The latest.
    pub(super) late_max_ms: f64,
}

/// What was let through, held against an exact central limiter that was fed the requests that were
/// answered, at the times at which they were sent.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Usage {
    /// Checks let through.
    pub(super) allowed: u64,
    /// Checks denied.
    pub(super) denied: u64,
    /// Checks that the central limiter lets through.
    pub(super) central_allowed: u64,
    /// Allowed in hundredths of that.
    pub(super) percent: f64,
    /// The same of what was sent in the second after the first frame.
    pub(super) first_second_percent: f64,
    /// Of the checks of nodes other than the one most asked; only beside a flooder.
    pub(super) quiet_percent: Option<f64>,
    /// Denied beyond what the central limiter denies.
    pub(super) false_denials: u64,
    /// Denied although the central limiter lets them through, whatever was let through in their place.
    pub(super) denied_not_by_central: u64,
    /// Denied for want of a share.
    pub(super) share_denied: u64,
    /// Jain's index of the nodes; none: nothing was let through.
    pub(super) jain: Option<f64>,
    /// Longest time for which a node got nothing that might have got something.
    pub(super) starved_ms: f64,
}

/// How long answers took, from sending to receipt, in milliseconds. All checks of a frame are answered
/// together.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Waits {
    /// Of frames with a check that was let through.
    pub(super) p50_ms: f64,
    /// The same, of 99 in 100 at most.
    pub(super) p99_ms: f64,
    /// The longest.
    pub(super) max_ms: f64,
    /// Frames that took more than 1 ms, whatever was answered.
    pub(super) waited: u64,
    /// How long those took.
    pub(super) waited_p50_ms: f64,
    /// The same, of 99 in 100 at most.
    pub(super) waited_p99_ms: f64,
}

/// How far a burst was spread in truth, in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Spread {
    /// Checks in it.
    pub(super) checks: u64,
    /// Of those, let through.
    pub(super) allowed: u64,
    /// From sending its first frame to sending its last.
    pub(super) sent_ms: f64,
    /// From sending its first frame to the last answer: between these all decisions fell.
    pub(super) decided_ms: f64,
}

/// What came of asking one node, in checks.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct OfNode {
    /// Of the schedule.
    pub(super) asked: u64,
    /// Let through.
    pub(super) allowed: u64,
    /// Denied.
    pub(super) denied: u64,
    /// Let through by the central limiter.
    pub(super) central_allowed: u64,
}

impl Figures {
    /// What `seen` comes to, by ask, in a run that began at the Unix time `unix_ns`.
    pub(super) fn of(brief: &Brief, unix_ns: u64, asks: &[Ask], seen: &[Seen]) -> Self {
        let central = central(brief, unix_ns, asks, seen);
        let nodes = nodes(brief, asks, seen, &central);
        Self {
            sending: sending(asks, seen),
            excess: Excess::of(brief, unix_ns, asks, seen),
            usage: usage(brief, asks, seen, &central, &nodes),
            waits: waits(seen),
            bursts: spreads(asks, seen),
            nodes,
            apart: seen.iter().map(|seen| seen.answered.apart).sum(),
        }
    }
}

/// What the central limiter lets through, by ask, in a run that began at the Unix time `unix_ns`. What was
/// not answered it is not asked.
pub(super) fn central(brief: &Brief, unix_ns: u64, asks: &[Ask], seen: &[Seen]) -> Vec<u64> {
    let count = keys(asks).last().map_or(0, |last| last + 1);
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let mut buckets = vec![Central::new(brief.exact(unix_ns)); count];
    let mut order: Vec<usize> = (0..asks.len()).filter(|&at| is_answered(&seen[at])).collect();
    order.sort_by_key(|&at| seen[at].sent_ns);
    let mut passed = vec![0; asks.len()];
    for at in order {
        let bucket = usize::try_from(asks[at].key).ok().and_then(|key| buckets.get_mut(key));
        if let (Some(bucket), Some(sent_ns)) = (bucket, seen[at].sent_ns) {
            passed[at] = bucket.pass(sent_ns, decided(&seen[at]));
        }
    }
    passed
}

fn is_answered(seen: &Seen) -> bool {
    seen.sent_ns.is_some() && seen.received_ns.is_some()
}

fn decided(seen: &Seen) -> u64 {
    seen.answered.allowed + seen.answered.denied
}

fn sending(asks: &[Ask], seen: &[Seen]) -> Sending {
    let mut late = Times::new();
    let mut sending = Sending::default();
    for (ask, seen) in asks.iter().zip(seen) {
        sending.asked += ask.checks;
        sending.failed += seen.answered.failed;
        match seen.sent_ns {
            None => sending.unsent += ask.checks,
            Some(sent_ns) => {
                let late_ns = sent_ns.saturating_sub(ask.at_ns);
                late.record(late_ns);
                sending.in_time += if late_ns <= LATE_NS { ask.checks } else { 0 };
                sending.unanswered += if seen.received_ns.is_none() { ask.checks } else { 0 };
            }
        }
    }
    let [late_p50_ms, late_p99_ms, late_max_ms] = [0.5, 0.99, 1.0].map(|q| ms(late.at(q)));
    Sending { late_p50_ms, late_p99_ms, late_max_ms, ..sending }
}

fn nodes(brief: &Brief, asks: &[Ask], seen: &[Seen], central: &[u64]) -> Vec<OfNode> {
    let mut nodes = vec![OfNode::default(); brief.members];
    for ((ask, seen), passed) in asks.iter().zip(seen).zip(central) {
        let node = &mut nodes[ask.node];
        node.asked += ask.checks;
        node.allowed += seen.answered.allowed;
        node.denied += seen.answered.denied;
        node.central_allowed += passed;
    }
    nodes
}

fn usage(brief: &Brief, asks: &[Ask], seen: &[Seen], central: &[u64], nodes: &[OfNode]) -> Usage {
    let allowed = nodes.iter().map(|node| node.allowed).sum();
    let central_allowed: u64 = central.iter().sum();
    let first_ns = asks.first().map_or(0, |ask| ask.at_ns);
    let is_first = |ask: &Ask| ask.at_ns - first_ns < NS_PER_S;
    let (mut first, mut first_central, mut denied_not_by_central) = (0, 0, 0);
    for ((ask, seen), &passed) in asks.iter().zip(seen).zip(central) {
        denied_not_by_central += passed.saturating_sub(seen.answered.allowed);
        if is_first(ask) {
            first += seen.answered.allowed;
            first_central += passed;
        }
    }
    let by_node = |count: fn(&OfNode) -> u64| nodes.iter().map(count).collect::<Vec<_>>();
    let starved_ns = starvation_ns(asks, seen, central, brief.members);
    Usage {
        allowed,
        denied: nodes.iter().map(|node| node.denied).sum(),
        central_allowed,
        percent: percent(allowed, central_allowed),
        first_second_percent: percent(first, first_central),
        quiet_percent: quiet_percent(brief, nodes),
        false_denials: central_allowed.saturating_sub(allowed),
        denied_not_by_central,
        share_denied: seen.iter().map(|seen| seen.answered.share).sum(),
        jain: jain(&by_node(|node| node.asked), &by_node(|node| node.allowed)),
        starved_ms: ms(starved_ns),
    }
}

/// What the nodes beside the flooder, which is the last, were let through of what they asked.
fn quiet_percent(brief: &Brief, nodes: &[OfNode]) -> Option<f64> {
    let (_, quiet) = nodes.split_last().filter(|_| brief.workload == Workload::Flooder)?;
    let sum = |count: fn(&OfNode) -> u64| quiet.iter().map(count).sum::<u64>();
    let decided = sum(|node| node.allowed + node.denied);
    (decided > 0).then(|| percent(sum(|node| node.allowed), decided))
}

fn waits(seen: &[Seen]) -> Waits {
    let (mut allowed, mut waited) = (Times::new(), Times::new());
    let mut count = 0;
    for seen in seen {
        let (Some(sent_ns), Some(received_ns)) = (seen.sent_ns, seen.received_ns) else { continue };
        let took_ns = received_ns.saturating_sub(sent_ns);
        if seen.answered.allowed > 0 {
            allowed.record(took_ns);
        }
        if took_ns > WAITED_NS {
            waited.record(took_ns);
            count += 1;
        }
    }
    Waits {
        p50_ms: ms(allowed.at(0.5)),
        p99_ms: ms(allowed.at(0.99)),
        max_ms: ms(allowed.at(1.0)),
        waited: count,
        waited_p50_ms: ms(waited.at(0.5)),
        waited_p99_ms: ms(waited.at(0.99)),
    }
}

fn spreads(asks: &[Ask], seen: &[Seen]) -> Vec<Spread> {
    let numbers: std::collections::BTreeSet<_> = asks.iter().filter_map(|ask| ask.burst).collect();
    let spread = |number| {
        let of_burst = || asks.iter().zip(seen).filter(move |(ask, _)| ask.burst == Some(number));
        let first_ns = of_burst().filter_map(|(_, seen)| seen.sent_ns).min()?;
        let last_ns = of_burst().filter_map(|(_, seen)| seen.sent_ns).max()?;
        let end_ns = of_burst().filter_map(|(_, seen)| seen.received_ns).max()?;
        Some(Spread {
            checks: of_burst().map(|(ask, _)| ask.checks).sum(),
            allowed: of_burst().map(|(_, seen)| seen.answered.allowed).sum(),
            sent_ms: ms(last_ns - first_ns),
            decided_ms: ms(end_ns.saturating_sub(first_ns)),
        })
    };
    numbers.into_iter().filter_map(spread).collect()
}

fn ms(ns: u64) -> f64 {
    ns as f64 / NS_PER_MS as f64
}

/// `part` in hundredths of `whole`; all of nothing is everything.
fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 100.0 } else { part as f64 * 100.0 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::super::line::Answered;
    use super::*;
    use crate::window::Bucket;
    use sim::Algorithm;

    fn brief(workload: Workload) -> Brief {
        let limit = Bucket { per_s: 10, burst: 5 };
        let algorithm = Algorithm::TokenBucket;
        Brief { workload, members: 2, algorithm, limit, load_permille: 1000, seconds: 1 }
    }

    fn ask(node: usize, at_ms: u64, checks: u64) -> Ask {
        Ask { at_ns: at_ms * NS_PER_MS, node, key: 0, checks, burst: None }
    }

    fn seen(sent_ms: u64, received_ms: u64, allowed: u64, denied: u64) -> Seen {
        Seen {
            sent_ns: Some(sent_ms * NS_PER_MS),
            received_ns: Some(received_ms * NS_PER_MS),
            answered: Answered { allowed, denied, ..Answered::default() },
        }
    }

    #[test]
    fn the_central_limiter_gets_what_was_answered_when_it_was_sent() {
        let asks = [ask(0, 0, 4), ask(1, 1, 9), ask(0, 2, 4), ask(1, 1500, 3)];
        let lost = Seen { received_ns: None, ..seen(1, 1, 0, 0) };
        // The third was sent before the first.
        let all = [seen(3, 4, 4, 0), lost, seen(2, 3, 0, 4), seen(1500, 1501, 2, 1)];
        let brief = brief(Workload::Steady);
        assert_eq!(central(&brief, 0, &asks, &all), [1, 0, 4, 3]);
        let figures = Figures::of(&brief, 0, &asks, &all);
        let usage = figures.usage;
        assert_eq!((usage.allowed, usage.denied, usage.central_allowed), (6, 5, 8));
        assert_eq!((usage.false_denials, usage.denied_not_by_central), (2, 5));
        assert!((usage.percent - 75.0).abs() < 1e-9);
        assert!((usage.first_second_percent - 80.0).abs() < 1e-9);
        assert_eq!((figures.sending.asked, figures.sending.unanswered), (20, 9));
        assert_eq!((figures.nodes[1].asked, figures.nodes[1].allowed), (12, 2));
        assert_eq!(usage.quiet_percent, None);
    }

    #[test]
    fn more_than_the_central_limiter_lets_through_is_no_false_denial() {
        let figures =
            Figures::of(&brief(Workload::Steady), 0, &[ask(0, 0, 9)], &[seen(0, 1, 7, 2)]);
        assert_eq!(figures.usage.false_denials, 0);
        assert!((figures.usage.percent - 140.0).abs() < 1e-9);
    }

    #[test]
    fn what_was_sent_late_or_never_is_told() {
        let asks = [ask(0, 0, 2), ask(0, 10, 3), ask(0, 20, 4)];
        let never = Seen::default();
        let figures = Figures::of(
            &brief(Workload::Steady),
            0,
            &asks,
            &[seen(1, 2, 2, 0), seen(30, 31, 3, 0), never],
        );
        let sending = figures.sending;
        assert_eq!((sending.asked, sending.in_time, sending.unsent), (9, 2, 4));
        assert!((sending.late_max_ms - 20.0).abs() < 0.1);
    }

    #[test]
    fn waits_are_of_frames_with_something_let_through_and_of_long_ones() {
        let asks = [ask(0, 0, 1), ask(0, 0, 1), ask(0, 0, 1)];
        let all = [seen(0, 1, 1, 0), seen(0, 4, 1, 0), seen(0, 6, 0, 1)];
        let waits = Figures::of(&brief(Workload::Steady), 0, &asks, &all).waits;
        assert_eq!(waits.waited, 2);
        assert!((waits.max_ms - 4.0).abs() < 0.1 && (waits.waited_p99_ms - 6.0).abs() < 0.1);
    }

    #[test]
    fn a_burst_is_spread_from_its_first_frame_to_its_last_answer() {
        let part = |at_ms| Ask { burst: Some(1), ..ask(0, at_ms, 2) };
        let figures = Figures::of(
            &brief(Workload::Burst),
            0,
            &[part(0), part(0), ask(0, 0, 9)],
            &[seen(1, 2, 2, 0), seen(3, 7, 0, 2), seen(0, 90, 9, 0)],
        );
        let [spread] = figures.bursts.as_slice() else { panic!("{figures:?}") };
        assert_eq!((spread.checks, spread.allowed), (4, 2));
        assert!((spread.sent_ms - 2.0).abs() < 1e-9 && (spread.decided_ms - 6.0).abs() < 1e-9);
    }

    #[test]
    fn beside_a_flooder_the_others_are_counted_by_themselves() {
        let asks = [ask(0, 0, 4), ask(1, 0, 99)];
        let figures = Figures::of(
            &brief(Workload::Flooder),
            0,
            &asks,
            &[seen(0, 1, 3, 1), seen(0, 1, 9, 90)],
        );
        assert_eq!(figures.usage.quiet_percent, Some(75.0));
    }
}
