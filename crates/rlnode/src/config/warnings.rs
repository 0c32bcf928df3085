//! What an operator should know of limits that are out of the range in which a cluster holds them well,
//! although nothing is wrong: told by the start of a node, by `validate` and by `explain` alike.

use limiter::{Accuracy, Plan, Quota, Window};

use super::cluster::Cluster;
use super::error::quoted;
use super::value::{show_rate, show_time};
use crate::proof::Surroundings;

/// Most warnings about limits; the rest are counted.
const WARNINGS_MAX: usize = 20;

/// What is to be known of the limits of `plan` on `cluster`, one sentence each. Nothing where the file
/// does not say how many members there are.
pub(super) fn of_limits(plan: &Plan, cluster: &Cluster) -> Vec<String> {
    let Some(members) = cluster.expected() else { return Vec::new() };
    let sync_interval_ns = cluster.sync_interval_ns;
    let around = Surroundings { members, sync_interval_ns, round_trip_us: None };
    let all = plan.rules().iter().flat_map(|rule| {
        let accuracy = plan.limits().get(rule.at().limit).map(|limit| limit.accuracy);
        of_rule(rule.name(), rule.quota(), accuracy.unwrap_or(Accuracy::Balanced), &around)
    });
    let mut warnings: Vec<_> = all.collect();
    let more = warnings.len().saturating_sub(WARNINGS_MAX);
    if more > 0 {
        warnings.truncate(WARNINGS_MAX);
        warnings.push(format!("{more} more warnings: `rlnode explain` has them with each limit"));
    }
    warnings
}

/// What is to be known of the limit or override `name` among these members, one sentence each.
pub(super) fn of_rule(
    name: &str,
    quota: &Quota,
    accuracy: Accuracy,
    around: &Surroundings,
) -> Vec<String> {
    let Some(Capacity { word, units, full_ns }) = Capacity::of(quota) else { return Vec::new() };
    let members = u64::try_from(around.members).unwrap_or(u64::MAX);
    if members < 2 {
        return Vec::new();
    }
    let name = quoted(name);
    let twice = 2 * members;
    let by_burst = match accuracy {
        _ if units >= twice => None,
        Accuracy::Balanced if units >= members => Some(format!(
            "the limit {name} has a {word} below {twice}, twice the {members} members: `accuracy = \
             \"balanced\"` then refuses a part of what is left; raise `{word}`, or write `accuracy = \
             \"fast\"`, which may let a few units per node through too many"
        )),
        Accuracy::Balanced => Some(format!(
            "the limit {name} has a {word} of {units}, below the {members} members: there is not a \
             unit for each, so that what is left passes only where its turn is and a part is \
             refused; raise `{word}` to {twice} or more, or write `accuracy = \"fast\"`, which may \
             let a few units per node through too many"
        )),
        Accuracy::Fast if units < members => Some(format!(
            "the limit {name} has a {word} of {units}, below the {members} members: `accuracy = \
             \"fast\"` lets each pass a unit before it hears of the others, in all more than the \
             {word}; raise `{word}` to {members} or more"
        )),
        Accuracy::Fast => None,
    };
    let by_interval = full_ns.and_then(|full| too_quick(&name, quota, units, full, around));
    by_burst.into_iter().chain(by_interval).collect()
}

/// What a quota has to give at once.
struct Capacity {
    /// The setting that says it.
    word: &'static str,
    units: u64,
    /// Nanoseconds in which all of it comes back, as a fraction; none: it varies, and is hours.
    full_ns: Option<(u128, u128)>,
}

impl Capacity {
    /// None where nothing is counted.
    fn of(quota: &Quota) -> Option<Self> {
        let (word, units, full_ns) = match *quota {
            Quota::Deny | Quota::Unlimited | Quota::Carried => return None,
            Quota::TokenBucket { rate, burst } | Quota::LeakyBucket { rate, burst, .. } => {
                let full_ns = u128::from(rate.period_ns) * u128::from(burst);
                ("burst", burst, Some((full_ns, u128::from(rate.count))))
            }
            Quota::FixedWindow { limit, window: Window::Calendar(_) } => ("limit", limit, None),
            Quota::FixedWindow { limit, window: Window::Period(period_ns) }
            | Quota::SlidingWindow { limit, period_ns }
            | Quota::SlidingLog { limit, period_ns } => {
                ("limit", limit, Some((u128::from(period_ns), 1)))
            }
        };
        Some(Self { word, units, full_ns })
    }
}

/// What is to be known of a quota of `units` that is full again sooner than members tell each other.
fn too_quick(
    name: &str,
    quota: &Quota,
    units: u64,
    (full_ns, divisor): (u128, u128),
    around: &Surroundings,
) -> Option<String> {
    let interval_ns = u128::from(around.sync_interval_ns);
    if full_ns >= divisor.saturating_mul(interval_ns) {
        return None;
    }
    let full = show_time(full_ns, divisor);
    let interval = show_time(interval_ns, 1);
    Some(match *quota {
        Quota::TokenBucket { rate, .. } | Quota::LeakyBucket { rate, .. } => {
            let refilled = u128::from(rate.count) * interval_ns;
            format!(
                "the limit {name} fills its burst of {units} in {full}, sooner than members tell \
                 each other (`sync_interval` {interval}): what one leaves unused is lost before the \
                 others know of it, and a part of {} stays unused; raise `burst` to {}, or lower \
                 `sync_interval`",
                show_rate(rate),
                refilled.div_ceil(u128::from(rate.period_ns.max(1))),
            )
        }
        _ => format!(
            "the limit {name} counts by {full}, less than the time between two exchanges of the \
             members (`sync_interval` {interval}): what one leaves unused is lost before the others \
             know of it, and a part of {units} per {full} stays unused; write a longer time with as \
             much more in it, or lower `sync_interval`"
        ),
    })
}

#[cfg(test)]
mod tests {
    use limiter::{Limit, Rate, Unmatched};

    use super::*;

    const FIVE: Surroundings =
        Surroundings { members: 5, sync_interval_ns: 200_000_000, round_trip_us: None };

    fn bucket(burst: u64, per_s: u64) -> Quota {
        Quota::TokenBucket { rate: Rate { count: per_s, period_ns: 1_000_000_000 }, burst }
    }

    fn told(burst: u64, per_s: u64, accuracy: Accuracy) -> Vec<String> {
        of_rule("a", &bucket(burst, per_s), accuracy, &FIVE)
    }

    #[test]
    fn a_burst_below_the_members_is_told_with_what_to_do() {
        assert_eq!(told(10, 1, Accuracy::Balanced), Vec::<String>::new());
        let [few] = told(9, 1, Accuracy::Balanced).try_into().expect("one");
        assert!(
            few.starts_with("the limit `a` has a burst below 10, twice the 5 members:"),
            "{few}"
        );
        let [fewer] = told(4, 1, Accuracy::Balanced).try_into().expect("one");
        assert_eq!(
            fewer,
            "the limit `a` has a burst of 4, below the 5 members: there is not a unit for each, so \
             that what is left passes only where its turn is and a part is refused; raise `burst` \
             to 10 or more, or write `accuracy = \"fast\"`, which may let a few units per node \
             through too many"
        );
        assert_eq!(told(5, 1, Accuracy::Fast), Vec::<String>::new());
        let [fast] = told(4, 1, Accuracy::Fast).try_into().expect("one");
        assert!(fast.ends_with("raise `burst` to 5 or more"), "{fast}");
        let alone = Surroundings { members: 1, ..FIVE };
        assert!(of_rule("a", &bucket(1, 1), Accuracy::Balanced, &alone).is_empty());
        assert!(of_rule("a", &Quota::Deny, Accuracy::Balanced, &FIVE).is_empty());
    }

    #[test]
    fn a_burst_that_fills_within_an_interval_is_told_with_what_would_do() {
        assert_eq!(told(200, 1_000, Accuracy::Balanced), Vec::<String>::new());
        let [quick] = told(50, 1_000, Accuracy::Balanced).try_into().expect("one");
        assert_eq!(
            quick,
            "the limit `a` fills its burst of 50 in 50 ms, sooner than members tell each other \
             (`sync_interval` 200 ms): what one leaves unused is lost before the others know of it, \
             and a part of 1000/s stays unused; raise `burst` to 200, or lower `sync_interval`"
        );
        assert_eq!(told(4, 1_000, Accuracy::Fast).len(), 2);
    }

    #[test]
    fn windows_and_logs_are_warned_of_by_their_limit_and_their_time() {
        let told = |quota: &Quota, accuracy| of_rule("a", quota, accuracy, &FIVE);
        let (s, ms) = (1_000_000_000, 1_000_000);
        let log = |limit, period_ns| Quota::SlidingLog { limit, period_ns };
        assert_eq!(told(&log(10, s), Accuracy::Balanced), Vec::<String>::new());
        let [few] = told(&log(9, s), Accuracy::Balanced).try_into().expect("one");
        assert!(
            few.starts_with("the limit `a` has a limit below 10, twice the 5 members"),
            "{few}"
        );
        assert!(few.contains("raise `limit`, or write"), "{few}");
        let [fewer] = told(&log(4, s), Accuracy::Fast).try_into().expect("one");
        assert!(
            fewer.ends_with("in all more than the limit; raise `limit` to 5 or more"),
            "{fewer}"
        );
        let window = |ns| Quota::FixedWindow { limit: 50, window: Window::Period(ns) };
        for quota in [window(199 * ms), Quota::SlidingWindow { limit: 50, period_ns: 199 * ms }] {
            let [quick] = told(&quota, Accuracy::Fast).try_into().expect("one");
            assert_eq!(
                quick,
                "the limit `a` counts by 199 ms, less than the time between two exchanges of the \
                 members (`sync_interval` 200 ms): what one leaves unused is lost before the others \
                 know of it, and a part of 50 per 199 ms stays unused; write a longer time with as \
                 much more in it, or lower `sync_interval`"
            );
        }
        assert_eq!(told(&window(200 * ms), Accuracy::Balanced), Vec::<String>::new());
        let leaky =
            Quota::LeakyBucket { rate: Rate { count: 1, period_ns: s }, burst: 9, queue: true };
        assert_eq!(told(&leaky, Accuracy::Balanced), told(&bucket(9, 1), Accuracy::Balanced));
        let calendar = limiter::Calendar::new(limiter::CalendarSpan::Day, "UTC").expect("a zone");
        let day = |limit| Quota::FixedWindow { limit, window: Window::Calendar(calendar.clone()) };
        assert_eq!(told(&day(9), Accuracy::Balanced).len(), 1);
        assert_eq!(told(&day(10), Accuracy::Balanced).len(), 0);
    }

    #[test]
    fn a_file_of_many_such_limits_is_warned_of_in_a_screenful() {
        let limits = (0..30).map(|n| Limit::new(format!("l{n}"), bucket(1, 1))).collect();
        let plan = Plan::compile(limits, Unmatched::Allow).expect("sound limits");
        let cluster = Cluster {
            name: "edge".into(),
            region: String::new(),
            listen: "127.0.0.1:7401".parse().expect("an address"),
            advertise: None,
            peers: Vec::new(),
            sync_interval_ns: 200_000_000,
            expect: Some(3),
            ready_early: false,
            tls: crate::config::Tls { ca: "a".into(), cert: "b".into(), key: "c".into() },
            secret: None,
            forget_after_ns: 1,
        };
        let warnings = of_limits(&plan, &cluster);
        assert_eq!(warnings.len(), WARNINGS_MAX + 1);
        assert!(warnings[WARNINGS_MAX].starts_with("10 more warnings"), "{warnings:?}");
        let unknown = Cluster { expect: None, ..cluster };
        assert!(of_limits(&plan, &unknown).is_empty());
    }
}
