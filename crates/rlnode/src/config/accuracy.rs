//! How exactly a limit is held, in words: what is proven, what is not, and the worst that was found. The
//! two are never mixed.

use limiter::{Accuracy, Limit, Quota, Rate, WhenIsolated, Window};

use super::cluster::Cluster;
use super::error::quoted;
use super::found;
use super::value::{show_rate, show_time};
use crate::node::DEFAULT_MAX_WAIT;
use crate::proof::Surroundings;

/// What a running node of the cluster knows that its file does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Name of the node.
    pub node: String,
    /// Members, the node included.
    pub members: usize,
    /// The slowest smoothed round trip to a member, in microseconds; none: none was measured yet.
    pub round_trip_us: Option<u64>,
}

/// Where a limit is held.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'c> {
    /// By one node.
    Alone,
    /// By a cluster of which the file does not say how many members it has, and no node was asked.
    Unknown(&'c Cluster),
    /// By a cluster.
    Among(&'c Cluster, Surroundings),
}

impl<'c> Place<'c> {
    /// Where the limits of a file with this `cluster` are held, as a node of it `measured`.
    pub(super) fn new(cluster: Option<&'c Cluster>, measured: Option<&Measured>) -> Self {
        let Some(cluster) = cluster else { return Self::Alone };
        let members = measured.map(|measured| measured.members).or(cluster.expected());
        members.map_or(Self::Unknown(cluster), |members| {
            let round_trip_us = measured.and_then(|measured| measured.round_trip_us);
            let sync_interval_ns = cluster.sync_interval_ns;
            Self::Among(cluster, Surroundings { members, sync_interval_ns, round_trip_us })
        })
    }

    /// The cluster, if there is one.
    pub(super) fn cluster(&self) -> Option<&'c Cluster> {
        match *self {
            Self::Alone => None,
            Self::Unknown(cluster) | Self::Among(cluster, _) => Some(cluster),
        }
    }

    /// What bounds are about, and what they take for granted, in a paragraph; empty on a node alone.
    pub(super) fn in_words(&self, measured: Option<&Measured>) -> String {
        let Self::Among(cluster, around) = self else { return String::new() };
        let source = match measured {
            Some(measured) => format!("as node {} counts them", quoted(&measured.node)),
            None => "as the file says".into(),
        };
        let round_trip = match around.round_trip_us {
            Some(us) => format!("the slowest round trip {us} us"),
            None if measured.is_some() => "no round trip measured yet".into(),
            None => "no round trip measured, since no node was asked".into(),
        };
        format!(
            "Bounds are for {} members, {source}, `sync_interval` {}, {round_trip}:\nmembers are \
             taken to acknowledge within {} ms, and checks to wait for {} ms at most.\n",
            around.members,
            show_time(u128::from(cluster.sync_interval_ns), 1),
            around.acknowledged_within_ms(),
            DEFAULT_MAX_WAIT.as_millis(),
        )
    }
}

/// How the limit is shared, in words; empty where there is nothing to say.
pub(super) fn mode_in_words(place: &Place<'_>, accuracy: Accuracy) -> &'static str {
    match (place, accuracy) {
        (Place::Alone, Accuracy::Balanced) => "",
        (Place::Alone, Accuracy::Fast) => "fast, once in a cluster",
        (_, Accuracy::Balanced) => {
            "balanced: each member spends its share of what is left, and a check may wait some \
             milliseconds for more"
        }
        (_, Accuracy::Fast) => {
            "fast: as balanced without waiting, and some 8 units more on each member"
        }
    }
}

/// What is proven of `quota`, of which the limit is `limit`, and the worst that was found: pairs of a
/// label and its words, of which an empty label goes on with the one above. In full, or as short as a
/// list of limits wants it (`is_short`). Empty where nothing is counted.
pub(super) fn in_words(
    place: &Place<'_>,
    limit: &Limit,
    quota: &Quota,
    is_short: bool,
) -> Vec<(&'static str, String)> {
    let (rate, burst) = match quota {
        Quota::Deny | Quota::Unlimited | Quota::Carried => return Vec::new(),
        Quota::TokenBucket { rate, burst } | Quota::LeakyBucket { rate, burst, .. } => {
            (*rate, *burst)
        }
        Quota::FixedWindow { .. } | Quota::SlidingWindow { .. } | Quota::SlidingLog { .. } => {
            return of_windows(place, quota);
        }
    };
    let exact = exact_in_words(burst, rate);
    let (cluster, around) = match place {
        Place::Alone => return vec![("proven:", format!("exact: {exact} in any window of t"))],
        Place::Unknown(_) => {
            let unknown = "depends on how many members there are, which the file does not say: ask a \
                           running node (--addr), or set `expect`";
            return vec![("proven:", unknown.into())];
        }
        Place::Among(_, around) if around.members < 2 => {
            let words = format!("exact: {exact} in any window of t, while it is the only member");
            return vec![("proven:", words)];
        }
        Place::Among(cluster, around) => (cluster, around),
    };
    let ceiling = around.ceiling(limit.accuracy, quota).unwrap_or(0);
    let at_most = format!("at most {exact} + {ceiling} in any window of t");
    let found = found_in_words(around, limit.accuracy, burst, is_short);
    if is_short {
        let proven = ("proven:", format!("{at_most}, while every member reaches all others"));
        return std::iter::once(proven).chain(found).collect();
    }
    let forgotten = show_time(u128::from(cluster.forget_after_ns), 1);
    let mut lines = vec![
        ("proven:", format!("{at_most}, while every member reaches all others")),
        ("", format!("and acknowledges within {} ms", around.acknowledged_within_ms())),
    ];
    match limit.when_isolated {
        WhenIsolated::Split | WhenIsolated::Deny => lines.extend([
            (
                "proven:",
                "the parts of groups that are cut off from each other sum to the limit,".into(),
            ),
            ("", format!("until one forgets the other ({forgotten})")),
        ]),
        WhenIsolated::Allow => lines.push((
            "not proven:",
            "while members are cut off: an isolated one allows everything".into(),
        )),
    }
    lines.extend([
        (
            "not proven:",
            "a ceiling for a window in which members come, go or are lost, and for".into(),
        ),
        ("", "groups that share a member".into()),
    ]);
    lines.extend(found);
    lines
}

/// The same of windows and logs. What they let through on one node follows from how they count; a ceiling
/// for a cluster is not proven.
fn of_windows(place: &Place<'_>, quota: &Quota) -> Vec<(&'static str, String)> {
    let twice = |limit: u64| u128::from(limit) * 2;
    let on_one = match quota {
        Quota::FixedWindow { limit, window: Window::Period(period_ns) } => format!(
            "exact: {limit} in each window, so at most {} in any {}",
            twice(*limit),
            show_time(u128::from(*period_ns), 1)
        ),
        Quota::FixedWindow { limit, .. } => format!("exact: {limit} in each window"),
        Quota::SlidingWindow { limit, period_ns } => format!(
            "at most {limit} in any {} if calls come evenly, at most {} however they come",
            show_time(u128::from(*period_ns), 1),
            twice(*limit)
        ),
        Quota::SlidingLog { limit, period_ns } => {
            format!("exact: {limit} in any {}", show_time(u128::from(*period_ns), 1))
        }
        _ => return Vec::new(),
    };
    match place {
        Place::Alone => vec![("proven:", on_one)],
        Place::Among(_, around) if around.members < 2 => {
            vec![("proven:", format!("{on_one}, while it is the only member"))]
        }
        Place::Among(..) | Place::Unknown(_) => vec![(
            "not proven:",
            "how much more members let through together; measured in docs/accuracy.md".into(),
        )],
    }
}

/// The worst that was found, labelled as [`in_words`] does.
fn found_in_words(
    around: &Surroundings,
    accuracy: Accuracy,
    burst: u64,
    is_short: bool,
) -> Vec<(&'static str, String)> {
    let lines = found::in_words(accuracy, around.members, burst, is_short);
    let labels = std::iter::once("worst found:").chain(std::iter::repeat(""));
    labels.zip(lines).collect()
}

/// `BURST + RATE x t`.
fn exact_in_words(burst: u64, rate: Rate) -> String {
    format!("{burst} + {} x t", show_rate(rate))
}

#[cfg(test)]
mod tests {
    use limiter::Quota;

    use super::*;

    const HUNDRED_PER_HOUR: Quota =
        Quota::TokenBucket { rate: Rate { count: 100, period_ns: 3_600_000_000_000 }, burst: 100 };

    fn cluster(expect: Option<usize>) -> Cluster {
        Cluster {
            name: "edge".into(),
            region: String::new(),
            listen: "127.0.0.1:7401".parse().expect("an address"),
            advertise: None,
            peers: vec!["edge:7401".into()],
            sync_interval_ns: 200_000_000,
            expect,
            ready_early: false,
            tls: crate::config::Tls { ca: "a".into(), cert: "b".into(), key: "c".into() },
            secret: None,
            forget_after_ns: 60_000_000_000,
        }
    }

    fn measured(round_trip_us: Option<u64>) -> Measured {
        Measured { node: "a".into(), members: 3, round_trip_us }
    }

    fn told(place: &Place<'_>, limit: &Limit, is_short: bool) -> String {
        let line = |(what, words): (&str, String)| format!("{what:<13} {words}\n");
        in_words(place, limit, &limit.quota, is_short).into_iter().map(line).collect()
    }

    fn ceiling(place: &Place<'_>, accuracy: Accuracy) -> u64 {
        let Place::Among(_, around) = place else { panic!("no cluster") };
        around.ceiling(accuracy, &HUNDRED_PER_HOUR).expect("something is counted")
    }

    #[test]
    fn a_node_alone_is_exact() {
        let limit = Limit::new("l", HUNDRED_PER_HOUR);
        let exact = "proven:       exact: 100 + 100/h x t in any window of t\n";
        for is_short in [false, true] {
            assert_eq!(told(&Place::Alone, &limit, is_short), exact);
        }
        let unlimited = Limit::new("u", Quota::Unlimited);
        assert_eq!(told(&Place::Alone, &unlimited, false), "");
        assert_eq!(Place::new(None, None).in_words(None), "");
        let one = cluster(Some(1));
        let words = told(&Place::new(Some(&one), None), &limit, false);
        assert_eq!(words, exact.replace("\n", ", while it is the only member\n"));
    }

    #[test]
    fn what_is_proven_of_a_cluster_is_told_with_what_it_takes_for_granted() {
        let cluster = cluster(None);
        let place = Place::new(Some(&cluster), Some(&measured(Some(8_000))));
        for accuracy in [Accuracy::Balanced, Accuracy::Fast] {
            let limit = Limit { accuracy, ..Limit::new("l", HUNDRED_PER_HOUR) };
            let ceiling = ceiling(&place, accuracy);
            assert!(ceiling > 0);
            let words = told(&place, &limit, false);
            let want = format!(
                "proven:       at most 100 + 100/h x t + {ceiling} in any window of t, while every \
                 member reaches all others\n              and acknowledges within 32 ms\n\
                 proven:       the parts of groups that are cut off from each other sum to the limit,\n              \
                 until one forgets the other (1 min)\n\
                 not proven:   a ceiling for a window in which members come, go or are lost, and for\n              \
                 groups that share a member\n"
            );
            assert!(words.starts_with(&want), "{words}");
            let short = told(&place, &limit, true);
            let line = want.lines().next().expect("a line");
            assert!(short.starts_with(line), "{short}");
        }
    }

    #[test]
    fn windows_and_logs_are_said_to_be_held_exactly_by_one_node_alone() {
        let minute = 60_000_000_000;
        let window = Window::Period(minute);
        let day = limiter::Calendar::new(limiter::CalendarSpan::Day, "UTC").expect("a zone");
        let cases = [
            (
                Quota::FixedWindow { limit: 100, window },
                "exact: 100 in each window, so at most 200 in any 1 min",
            ),
            (
                Quota::FixedWindow { limit: 7, window: Window::Calendar(day) },
                "exact: 7 in each window",
            ),
            (
                Quota::SlidingWindow { limit: 100, period_ns: minute },
                "at most 100 in any 1 min if calls come evenly, at most 200 however they come",
            ),
            (Quota::SlidingLog { limit: 5, period_ns: 15 * minute }, "exact: 5 in any 15 min"),
        ];
        let (three, one, unknown) = (cluster(Some(3)), cluster(Some(1)), cluster(None));
        for (quota, on_one) in cases {
            let limit = Limit::new("l", quota);
            for is_short in [false, true] {
                let told = |cluster| told(&Place::new(cluster, None), &limit, is_short);
                let proven = format!("{:<13} {on_one}", "proven:");
                assert_eq!(told(None), format!("{proven}\n"));
                assert_eq!(told(Some(&one)), format!("{proven}, while it is the only member\n"));
                let not = "not proven:   how much more members let through together; measured in \
                           docs/accuracy.md\n";
                assert_eq!(told(Some(&three)), not);
                assert_eq!(told(Some(&unknown)), not);
            }
        }
    }

    #[test]
    fn a_leaky_bucket_is_held_as_a_token_bucket_of_its_numbers() {
        let three = cluster(Some(3));
        let place = Place::new(Some(&three), None);
        let Quota::TokenBucket { rate, burst } = HUNDRED_PER_HOUR else { panic!("a bucket") };
        for queue in [false, true] {
            let leaky = Limit::new("l", Quota::LeakyBucket { rate, burst, queue });
            let token = Limit::new("l", HUNDRED_PER_HOUR);
            assert_eq!(told(&place, &leaky, false), told(&place, &token, false));
        }
    }

    #[test]
    fn what_is_proven_and_what_was_found_are_told_apart() {
        let cluster = cluster(Some(3));
        let place = Place::new(Some(&cluster), None);
        let labels = |accuracy, is_short| {
            let limit = Limit { accuracy, ..Limit::new("l", HUNDRED_PER_HOUR) };
            let lines = in_words(&place, &limit, &HUNDRED_PER_HOUR, is_short);
            for (label, words) in &lines {
                assert!(*label != "proven:" || !words.contains("found"), "{words}");
                assert!(*label != "worst found:" || !words.contains("proven"), "{words}");
            }
            lines.into_iter().map(|(label, _)| label).collect::<Vec<_>>()
        };
        let proven = ["proven:", "", "proven:", "", "not proven:", ""];
        let full = labels(Accuracy::Balanced, false);
        assert_eq!(full, [&proven[..], &["worst found:", "", ""]].concat());
        let fast = labels(Accuracy::Fast, false);
        assert_eq!(fast, full);
        for accuracy in [Accuracy::Balanced, Accuracy::Fast] {
            assert_eq!(labels(accuracy, true), ["proven:", "worst found:"]);
        }
    }

    #[test]
    fn no_mode_is_named_that_the_file_refuses() {
        let cluster = cluster(Some(3));
        let place = Place::new(Some(&cluster), None);
        for accuracy in [Accuracy::Balanced, Accuracy::Fast] {
            let limit = Limit { accuracy, ..Limit::new("l", HUNDRED_PER_HOUR) };
            for is_short in [false, true] {
                let words = told(&place, &limit, is_short);
                assert!(!words.contains("exact"), "{words}");
            }
            assert!(!mode_in_words(&place, accuracy).contains("exact"));
        }
    }

    #[test]
    fn parts_are_not_said_to_sum_up_where_an_isolated_member_allows_everything() {
        let cluster = cluster(Some(3));
        let place = Place::new(Some(&cluster), None);
        let when_isolated = WhenIsolated::Allow;
        let limit = Limit { when_isolated, ..Limit::new("l", HUNDRED_PER_HOUR) };
        let words = told(&place, &limit, false);
        assert!(!words.contains("sum to the limit"), "{words}");
        let line = "not proven:   while members are cut off: an isolated one allows everything\n";
        assert!(words.contains(line), "{words}");
    }

    #[test]
    fn what_bounds_are_about_is_told_before_them() {
        let three = cluster(Some(3));
        let by_file = Place::new(Some(&three), None).in_words(None);
        assert_eq!(
            by_file,
            "Bounds are for 3 members, as the file says, `sync_interval` 200 ms, no round trip \
             measured, since no node was asked:\nmembers are taken to acknowledge within 20 ms, \
             and checks to wait for 5 ms at most.\n"
        );
        let measured = measured(Some(400));
        let by_node = Place::new(Some(&three), Some(&measured)).in_words(Some(&measured));
        let want = "Bounds are for 3 members, as node `a` counts them, `sync_interval` 200 ms, the \
                    slowest round trip 400 us:\n";
        assert!(by_node.starts_with(want), "{by_node}");
    }

    #[test]
    fn where_the_members_are_unknown_a_node_is_to_be_asked() {
        let cluster = cluster(None);
        let place = Place::new(Some(&cluster), None);
        let words = told(&place, &Limit::new("l", HUNDRED_PER_HOUR), false);
        assert!(words.contains("the file does not say: ask a running node (--addr)"), "{words}");
        assert_eq!(place.in_words(None), "");
    }
}
