//! How exactly a limit is held, in words: what is proven, what is not, and the worst that was found. The
//! two are never mixed.

use limiter::{Accuracy, Limit, Quota, Rate, WhenIsolated};

use super::cluster::Cluster;
use super::error::quoted;
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
    quota: Quota,
    is_short: bool,
) -> Vec<(&'static str, String)> {
    let Quota::TokenBucket { rate, burst } = quota else { return Vec::new() };
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
    if is_short {
        return vec![("proven:", format!("{at_most}, while every member reaches all others"))];
    }
    let forgotten = show_time(u128::from(cluster.forget_after_ns), 1);
    let mut lines = vec![
        ("proven:", format!("{at_most}, while every member reaches all others")),
        ("", format!("and acknowledges within {} ms", around.acknowledged_within_ms())),
    ];
    lines.push(match limit.when_isolated {
        WhenIsolated::Split | WhenIsolated::Deny => (
            "proven:",
            format!(
                "while members are cut off, too: the parts sum to the limit, until the missing are \
                 forgotten ({forgotten})"
            ),
        ),
        WhenIsolated::Allow => {
            ("not proven:", "while members are cut off: an isolated one allows everything".into())
        }
    });
    let change = "a window in which members come, go or are lost: no ceiling is proven for it";
    lines.push(("not proven:", change.into()));
    lines
}

/// `BURST + RATE x t`.
fn exact_in_words(burst: u64, rate: Rate) -> String {
    format!("{burst} + {} x t", show_rate(rate))
}
