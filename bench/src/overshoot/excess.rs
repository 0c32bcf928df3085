//! By how much more passed than may: in the fullest of all windows, and in the fullest of some fixed
//! length. Each key has a bucket of its own, so that windows are those of one key.

use std::collections::BTreeMap;

use serde::Serialize;

use sim::Algorithm;

use super::asker::Seen;
use super::schedule::{Ask, Brief};
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
    /// Of what was seen in a run that began at the Unix time `unix_ns`, the worst of the keys.
    pub(super) fn of(brief: &Brief, unix_ns: u64, asks: &[Ask], seen: &[Seen]) -> Self {
        let limit = brief.limit;
        let over = |units: &[Passed]| match brief.algorithm {
            Algorithm::FixedWindow | Algorithm::SlidingWindow => in_windows(brief, unix_ns, units),
            Algorithm::SlidingLog => in_periods(brief, units),
            _ => over(limit, units),
        };
        // Of all times of one length a bucket, and only that, allows burst + rate x length.
        let is_of_length = |length: &u64| brief.algorithm.is_bucket() && *length <= brief.seconds;
        let mut excess = Self::default();
        for units in by_key(asks, seen).values() {
            let received: Vec<_> =
                units.iter().map(|unit| Passed { from_ns: unit.to_ns, ..*unit }).collect();
            excess.certain = worse(excess.certain, over(units));
            excess.by_receipt = worse(excess.by_receipt, over(&received));
            for seconds in FIXED_S.into_iter().filter(is_of_length) {
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

/// By how much more counted in a window than may, for certain: a unit counts in the window in which it was
/// decided wholly, from when it was on certainly, and with the weight that is left of that.
fn in_windows(brief: &Brief, unix_ns: u64, units: &[Passed]) -> Option<Over> {
    let mut exact = brief.exact(unix_ns);
    let number = |at_ns: u64| (unix_ns + at_ns) / brief.period_ns();
    let mut certain: Vec<_> = units
        .iter()
        .filter(|unit| number(unit.from_ns) == number(unit.to_ns))
        .map(|unit| unit.to_ns)
        .collect();
    certain.sort_unstable();
    certain.iter().for_each(|&to_ns| exact.charge(to_ns, 1));
    (!certain.is_empty()).then(|| of_period(brief, -exact.least(), exact.per_unit()))
}

/// By how much more passed within one period than may, for certain.
fn in_periods(brief: &Brief, units: &[Passed]) -> Option<Over> {
    // A unit counts for less than a whole period after its own time.
    let most = most_within(units, brief.period_ns() - 1);
    let beyond = i128::from(most) - i128::from(brief.limit.burst);
    (!units.is_empty()).then(|| of_period(brief, beyond, 1))
}

/// So many ticks beyond what one window or period allows; what counted in it in whole units, rounded down.
fn of_period(brief: &Brief, ticks: i128, per_unit: u64) -> Over {
    let burst = brief.limit.burst;
    let passed = i128::from(burst) + ticks.div_euclid(per_unit.into());
    let units = ticks as f64 / per_unit as f64;
    Over {
        window_s: brief.period_ns() as f64 / NS_PER_S as f64,
        passed: u64::try_from(passed).unwrap_or(0),
        units,
        percent_of_burst: units * 100.0 / burst as f64,
    }
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
    use super::super::workload::Workload;
    use super::*;
    use crate::clock::NS_PER_MS;
    use crate::keys::Random;

    fn brief(per_s: u64, burst: u64) -> Brief {
        let limit = Bucket { per_s, burst };
        let (workload, algorithm) = (Workload::Steady, Algorithm::TokenBucket);
        Brief { workload, members: 1, algorithm, limit, load_permille: 1000, seconds: 1 }
    }

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
        let brief = brief(100, 5);
        let asks = [ask(0), ask(0), ask(0)];
        // 5 at once, and 3 within 20 ms, when 2 may; of the last nobody knows the answer.
        let unanswered = Seen { received_ns: None, ..seen(0, 0, 9) };
        let excess = Excess::of(&brief, 0, &asks, &[seen(0, 1, 5), seen(8, 20, 3), unanswered]);
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
        let all = [seen(0, 1, 5), seen(0, 1, 6)];
        let excess = Excess::of(&brief(1, 5), 0, &[ask(0), ask(1)], &all);
        assert_eq!(excess.certain.unwrap().passed, 6);
        assert!((excess.certain.unwrap().units - 0.999).abs() < 1e-9);
        assert_eq!(excess.fixed[0].passed, 6);
    }

    #[test]
    fn where_nothing_passed_there_is_no_window() {
        for algorithm in Algorithm::ALL {
            let brief = Brief { algorithm, ..brief(1, 1) };
            let excess = Excess::of(&brief, 0, &[ask(0)], &[seen(0, 1, 0)]);
            assert!(excess.certain.is_none() && excess.by_receipt.is_none());
        }
    }

    /// Excess in units, certain and by receipt, of 5 in 50 ms.
    fn of_five(algorithm: Algorithm, unix_ms: u64, seen: &[Seen]) -> (f64, f64) {
        let brief = Brief { algorithm, ..brief(100, 5) };
        let asks = vec![ask(0); seen.len()];
        let excess = Excess::of(&brief, unix_ms * NS_PER_MS, &asks, seen);
        assert!(excess.fixed.is_empty(), "no length but its own means anything");
        (excess.certain.unwrap().units, excess.by_receipt.unwrap().units)
    }

    #[test]
    fn a_window_has_only_what_was_decided_in_it_for_certain() {
        // By receipt all eight are in the window from 50 ms on; three may have been in the one before.
        let seen = [seen(45, 51, 3), seen(52, 53, 5), seen(110, 111, 4)];
        assert_eq!(of_five(Algorithm::FixedWindow, 0, &seen), (0.0, 3.0));
        // The run begins 10 ms into a window: now all eight are in one.
        assert_eq!(of_five(Algorithm::FixedWindow, 10, &seen), (3.0, 3.0));
    }

    #[test]
    fn a_sliding_window_weighs_what_was_in_the_one_before_for_certain() {
        let seen = [seen(10, 11, 5), seen(60, 75, 4)];
        // 5 x 25 / 50 + 4 - 5.
        assert_eq!(of_five(Algorithm::SlidingWindow, 0, &seen), (1.5, 1.5));
    }

    #[test]
    fn a_log_has_what_lies_less_than_a_period_apart() {
        let apart = |ms: u64| [seen(10, 10, 5), seen(10 + ms, 10 + ms, 1)];
        assert_eq!(of_five(Algorithm::SlidingLog, 0, &apart(49)), (1.0, 1.0));
        assert_eq!(of_five(Algorithm::SlidingLog, 0, &apart(50)), (0.0, 0.0));
        // The second was answered too late to be sure.
        let late = [seen(10, 10, 5), seen(50, 60, 1)];
        assert_eq!(of_five(Algorithm::SlidingLog, 0, &late).0, 0.0);
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
