//! What an operator should know of limits that are out of the range in which a cluster holds them well,
//! although nothing is wrong: told by the start of a node, by `validate` and by `explain` alike.

use limiter::{Accuracy, Plan, Quota};

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
    let (Quota::TokenBucket { rate, burst } | Quota::LeakyBucket { rate, burst, .. }) = *quota
    else {
        return Vec::new();
    };
    let members = u64::try_from(around.members).unwrap_or(u64::MAX);
    if members < 2 {
        return Vec::new();
    }
    let name = quoted(name);
    let twice = 2 * members;
    let by_burst = match accuracy {
        _ if burst >= twice => None,
        Accuracy::Balanced if burst >= members => Some(format!(
            "the limit {name} has a burst below {twice}, twice the {members} members: `accuracy = \
             \"balanced\"` then refuses a part of what is left; raise `burst`, or write `accuracy = \
             \"fast\"`, which may let a few units per node through too many"
        )),
        Accuracy::Balanced => Some(format!(
            "the limit {name} has a burst of {burst}, below the {members} members: there is not a \
             unit for each, so that what is left passes only where its turn is and a part is \
             refused; raise `burst` to {twice} or more, or write `accuracy = \"fast\"`, which may \
             let a few units per node through too many"
        )),
        Accuracy::Fast if burst < members => Some(format!(
            "the limit {name} has a burst of {burst}, below the {members} members: `accuracy = \
             \"fast\"` lets each pass a unit before it hears of the others, in all more than the \
             burst; raise `burst` to {members} or more"
        )),
        Accuracy::Fast => None,
    };
    let full_ns = u128::from(rate.period_ns) * u128::from(burst);
    let refilled = u128::from(rate.count) * u128::from(around.sync_interval_ns);
    let by_interval = (full_ns < refilled).then(|| {
        format!(
            "the limit {name} fills its burst of {burst} in {}, sooner than members tell each other \
             (`sync_interval` {}): what one leaves unused is lost before the others know of it, and \
             a part of {} stays unused; raise `burst` to {}, or lower `sync_interval`",
            show_time(full_ns, u128::from(rate.count)),
            show_time(u128::from(around.sync_interval_ns), 1),
            show_rate(rate),
            refilled.div_ceil(u128::from(rate.period_ns.max(1))),
        )
    });
    by_burst.into_iter().chain(by_interval).collect()
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
