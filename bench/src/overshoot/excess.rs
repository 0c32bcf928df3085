//! By how much more passed than may: in the fullest of all windows, and in the fullest of some fixed
//! length. Each key has a bucket of its own, so that windows are those of one key.

use std::collections::BTreeMap;

use serde::Serialize;

use super::asker::Seen;
use super::schedule::Ask;
use crate::clock::NS_PER_S;
use crate::window::{Bucket, Passed};

/// Lengths of the windows that are looked at by themselves, in seconds.
const FIXED_S: [u64; 3] = [1, 10, 60];

/// By how much more passed than may.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Excess {
    /// Of all windows, by the times between which each decision certainly fell; none: nothing passed.
    pub(super) certain: Option<Over>,
    /// As if each decision had fallen when its answer was received.
    pub(super) by_receipt: Option<Over>,
    /// Of all windows of one length, by the times between which each decision certainly fell.
    pub(super) fixed: Vec<Fixed>,
}

/// The window in which most passed beyond what may.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Over {
    /// Its length.
    pub(super) window_s: f64,
    /// What passed in it.
    pub(super) passed: u64,
    /// Units beyond burst + rate x length; below 0: more might have passed.
    pub(super) units: f64,
    /// The same in hundredths of the burst.
    pub(super) percent_of_burst: f64,
}

/// The fullest window of one length.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Fixed {
    /// Its length.
    pub(super) seconds: u64,
    /// What passed in it.
    pub(super) passed: u64,
    /// Burst + rate x length.
    pub(super) may_pass: u64,
    /// What passed beyond that, in hundredths of it; below 0: more might have.
    pub(super) percent: f64,
}

impl Excess {
    /// Of what was seen in `seconds` under `limit`, the worst of the keys.
    pub(super) fn of(asks: &[Ask], seen: &[Seen], limit: Bucket, seconds: u64) -> Self {
        let mut excess = Self::default();
        for units in by_key(asks, seen).values() {
            let received: Vec<_> =
                units.iter().map(|unit| Passed { from_ns: unit.to_ns, ..*unit }).collect();
            excess.certain = worse(excess.certain, over(limit, units));
            excess.by_receipt = worse(excess.by_receipt, over(limit, &received));
            for seconds in FIXED_S.into_iter().filter(|&length| length <= seconds) {
                let fixed = fixed(limit, units, seconds);
                match excess.fixed.iter_mut().find(|other| other.seconds == seconds) {
                    Some(other) if other.passed >= fixed.passed => {}
                    Some(other) => *other = fixed,
                    None => excess.fixed.push(fixed),
                }
            }
        }
        excess
    }
}

/// Each unit that passed, by key.
fn by_key(asks: &[Ask], seen: &[Seen]) -> BTreeMap<u64, Vec<Passed>> {
    let mut by_key: BTreeMap<u64, Vec<Passed>> = BTreeMap::new();
    for (ask, seen) in asks.iter().zip(seen) {
        if let (Some(from_ns), Some(to_ns)) = (seen.sent_ns, seen.received_ns) {
            let count = usize::try_from(seen.answered.allowed).unwrap_or(usize::MAX);
            let units = std::iter::repeat_n(Passed { from_ns, to_ns }, count);
            by_key.entry(ask.key).or_default().extend(units);
        }
    }
    by_key
}

fn over(limit: Bucket, units: &[Passed]) -> Option<Over> {
    let window = limit.fullest_window(units)?;
    let units = limit.excess(&window) as f64 / NS_PER_S as f64;
    Some(Over {
        window_s: window.len_ns() as f64 / NS_PER_S as f64,
        passed: window.passed,
        units,
        percent_of_burst: units * 100.0 / limit.burst as f64,
    })
}

fn worse(one: Option<Over>, other: Option<Over>) -> Option<Over> {
    match (one, other) {
        (Some(one), Some(other)) if one.units >= other.units => Some(one),
        (one, other) => other.or(one),
    }
}

/// The fullest of the windows of this length, by what is in it for certain.
fn fixed(limit: Bucket, units: &[Passed], seconds: u64) -> Fixed {
    let passed = most_within(units, seconds * NS_PER_S);
    let may_pass = limit.burst.saturating_add(limit.per_s.saturating_mul(seconds));
    let percent = (passed as f64 - may_pass as f64) * 100.0 / may_pass as f64;
    Fixed { seconds, passed, may_pass, percent }
}

/// Most units that lie wholly in one window of this length. One that lasts from a to b lies in those
/// that begin from b - length to a.
fn most_within(units: &[Passed], length_ns: u64) -> u64 {
    let mut edges = Vec::with_capacity(2 * units.len());
    for unit in units.iter().filter(|unit| unit.to_ns - unit.from_ns <= length_ns) {
        let (from_ns, to_ns) = (i128::from(unit.from_ns), i128::from(unit.to_ns));
        // Ends come after beginnings of the same time: windows have both their ends in them.
        edges.push((to_ns - i128::from(length_ns), 0));
        edges.push((from_ns, 1));
    }
    edges.sort_unstable();
    let (mut inside, mut most) = (0_u64, 0);
    for (_, edge) in edges {
        if edge == 0 {
            inside += 1;
        } else {
            inside -= 1;
        }
        most = most.max(inside);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::super::line::Answered;
    use super::*;
    use crate::clock::NS_PER_MS;
    use crate::keys::Random;

    fn ask(key: u64) -> Ask {
        Ask { at_ns: 0, node: 0, key, checks: 9, burst: None }
    }

    fn seen(from_ms: u64, to_ms: u64, allowed: u64) -> Seen {
        Seen {
            sent_ns: Some(from_ms * NS_PER_MS),
            received_ns: Some(to_ms * NS_PER_MS),
            answered: Answered { allowed, denied: 9 - allowed, ..Answered::default() },
        }
    }

    #[test]
    fn a_frame_counts_as_often_as_it_has_units_and_only_where_it_was_for_certain() {
        let limit = Bucket { per_s: 100, burst: 5 };
        let asks = [ask(0), ask(0), ask(0)];
        // 5 at once, and 3 within 20 ms, when 2 may; of the last nobody knows the answer.
        let unanswered = Seen { received_ns: None, ..seen(0, 0, 9) };
        let excess = Excess::of(&asks, &[seen(0, 1, 5), seen(8, 20, 3), unanswered], limit, 1);
        let certain = excess.certain.unwrap();
        assert_eq!((certain.passed, certain.window_s), (8, 0.020));
        assert!(
            (certain.units - 1.0).abs() < 1e-9 && (certain.percent_of_burst - 20.0).abs() < 1e-6
        );
        // By receipt it was 19 ms.
        assert!((excess.by_receipt.unwrap().units - 1.1).abs() < 1e-9);
        assert_eq!(excess.fixed.len(), 1);
        assert_eq!((excess.fixed[0].passed, excess.fixed[0].may_pass), (8, 105));
    }

    #[test]
    fn keys_are_not_added_up() {
        let limit = Bucket { per_s: 1, burst: 5 };
        let excess = Excess::of(&[ask(0), ask(1)], &[seen(0, 1, 5), seen(0, 1, 6)], limit, 1);
        assert_eq!(excess.certain.unwrap().passed, 6);
        assert!((excess.certain.unwrap().units - 0.999).abs() < 1e-9);
        assert_eq!(excess.fixed[0].passed, 6);
    }

    #[test]
    fn where_nothing_passed_there_is_no_window() {
        let excess = Excess::of(&[ask(0)], &[seen(0, 1, 0)], Bucket { per_s: 1, burst: 1 }, 1);
        assert!(excess.certain.is_none() && excess.by_receipt.is_none());
    }

    #[test]
    fn most_within_a_length_is_what_trying_every_beginning_finds() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let units: Vec<_> = (0..1 + random.below(40))
                .map(|_| {
                    let from_ns = random.below(100);
                    Passed { from_ns, to_ns: from_ns + random.below(30) }
                })
                .collect();
            let length_ns = 1 + random.below(60);
            let count = |begin: i128| {
                let end = begin + i128::from(length_ns);
                let is_in = |unit: &&Passed| {
                    i128::from(unit.from_ns) >= begin && i128::from(unit.to_ns) <= end
                };
                units.iter().filter(is_in).count() as u64
            };
            let expected = (-60..200).map(count).max().unwrap();
            assert_eq!(most_within(&units, length_ns), expected, "{seed}");
        }
    }
}
