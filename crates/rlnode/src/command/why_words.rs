//! Why a node answers as it does, in words, for people at a terminal.

use std::fmt::{Display, Write};
use std::time::Duration;

use super::cluster_words::peer_in_words;
use super::words;
use crate::endpoint::http::why::{
    AppliedWhy, BucketWhy, ClusterWhy, LimitOfWhy, NextWhy, RuleWhy, Why,
};

/// Lines on the next check, each limit with its bucket, the peers and the node. `unix_ms` is Unix time
/// now, in milliseconds, by the clock of whoever reads it.
pub(super) fn in_words(why: &Why, unix_ms: u64) -> String {
    let stale = match why.freshness.as_str() {
        "stale" => format!(" for {}", wait(u64::from(why.stale_ms))),
        _ => String::new(),
    };
    let mut text = format!("node {}: {}, {}{stale}\n", why.node, why.readiness, why.freshness);
    let _ = match &why.next {
        Some(next) => writeln!(text, "next check: {}", next_in_words(next, why)),
        None => writeln!(text, "next check: no answer, the node is starting"),
    };
    for limit in &why.limits {
        text.push_str(&limit_in_words(limit, why.cluster.is_some()));
    }
    if why.other_limits > 0 {
        let _ = writeln!(
            text,
            "{} more limits do not apply, and name neither the endpoint nor the key",
            why.other_limits
        );
    }
    if let Some(cluster) = &why.cluster {
        text.push_str(&cluster_in_words(cluster));
    }
    let _ = writeln!(text, "configuration: read {} ago", wait(why.configuration_age_ms));
    if let Some(now_ms) = why.now_ms {
        let _ =
            writeln!(text, "clock: {}; only windows follow it", clock_in_words(now_ms, unix_ms));
    }
    text
}

fn wait(ms: u64) -> String {
    words::wait(Some(Duration::from_millis(ms)))
}

fn next_in_words(next: &NextWhy, why: &Why) -> String {
    let by = match next.limit_name.as_str() {
        "" if next.reason == "banned" => " ahead of every limit".to_owned(),
        "" => ": no limit matches".to_owned(),
        name => format!(" by `{name}`"),
    };
    if next.allowed {
        return match next.delay_ms {
            Some(ms) if ms > 0 => format!("allowed{by}, to act in {}", wait(ms)),
            _ => format!("allowed{by}"),
        };
    }
    let because = match next.reason.as_str() {
        "limit" => "too few units are left".to_owned(),
        "share" => "units are left, but not yet this node's to spend".to_owned(),
        "isolated" => "the node reaches too few members, and the limit denies then".to_owned(),
        "deny" => "the limit denies it whatever is left".to_owned(),
        "full" => "there is no memory for the key".to_owned(),
        "unmatched" => "the file denies what no limit matches".to_owned(),
        "banned" => "an operator or the file bans who calls".to_owned(),
        other => other.to_owned(),
    };
    let after = match next.retry_after_ms {
        Some(ms) => format!("would pass in {}", wait(ms)),
        None => "no wait helps".to_owned(),
    };
    let held = match (next.may_wait, why.cluster.is_some()) {
        (true, _) => "; it is held, and passes if the peers acknowledge in time",
        (false, _) if next.reason == "share" => "; it is not held",
        (false, _) => "",
    };
    format!("denied{by} ({}): {because}; {after}{held}", next.reason)
}

fn limit_in_words(limit: &LimitOfWhy, in_cluster: bool) -> String {
    let mut text = String::new();
    let _ = match &limit.applied {
        Some(applied) => writeln!(text, "limit {}: {}", limit.name, verdict_in_words(applied)),
        None => writeln!(text, "limit {}: does not apply", limit.name),
    };
    for (index, rule) in limit.rules.iter().enumerate() {
        let what = if index == 0 { "looked at" } else { "" };
        say(&mut text, what, &rule_in_words(rule));
    }
    if limit.left_out > 0 {
        say(&mut text, "", &format!("{} more overrides do not match", limit.left_out));
    }
    if let Some(applied) = &limit.applied {
        say(&mut text, "counts", &counted_in_words(applied));
        if let Some(bucket) = &applied.bucket {
            bucket_in_words(&mut text, applied, bucket, in_cluster);
        }
    }
    text
}

fn say(text: &mut String, what: &str, words: &dyn Display) {
    let _ = writeln!(text, "  {what:<10} {words}");
}

fn verdict_in_words(applied: &AppliedWhy) -> String {
    let shadow = if applied.shadow { " (a shadow: decides nothing)" } else { "" };
    let says = match (applied.allowed, applied.reason.as_deref()) {
        (Some(true), _) => "lets it pass".to_owned(),
        (Some(false), Some(reason)) => format!("denies it ({reason})"),
        (Some(false), None) => "denies it".to_owned(),
        (None, _) => "is skipped: the request lacks an attribute of the key".to_owned(),
    };
    format!("{says}{shadow}")
}

fn rule_in_words(rule: &RuleWhy) -> String {
    match rule.fit.as_str() {
        "decides" => format!("`{}` decides", rule.name),
        "less_specific" => format!("`{}` matches too, and is less specific", rule.name),
        _ => format!("`{}` does not match: {}", rule.name, rule.lacks.join(", ")),
    }
}

fn counted_in_words(applied: &AppliedWhy) -> String {
    let AppliedWhy { key, unit, cost, .. } = applied;
    let template = match key.as_str() {
        "*" => "one bucket for all".to_owned(),
        key => format!("one bucket for each `{key}`"),
    };
    let hash = applied.hash.as_deref().unwrap_or("none");
    // A bucket that is no more than a bucket goes without saying.
    let by = applied.algorithm.as_deref().filter(|algorithm| *algorithm != "token-bucket");
    let by = by.map_or_else(String::new, |algorithm| format!(" ({algorithm})"));
    let costs = format!("{cost} of `{unit}`{by}");
    match applied.counted.as_str() {
        "bucket" => format!("{costs}, {template}; this is {hash}"),
        "overflow" => {
            format!("{costs} in the bucket that keys without memory share; {hash} would be its own")
        }
        "no_room" => format!("nothing: there is no memory for {hash}, and `when_full` answers"),
        "missing_attribute" => format!("nothing: the key `{key}` needs an attribute"),
        _ => "nothing".to_owned(),
    }
}

fn bucket_in_words(text: &mut String, applied: &AppliedWhy, bucket: &BucketWhy, in_cluster: bool) {
    let limit = applied.limit.unwrap_or(0);
    let full = match applied.reset_after_ms {
        Some(0) => "full".to_owned(),
        Some(ms) => format!("full in {}", wait(ms)),
        None => "never full".to_owned(),
    };
    let level = &format!("{} of {limit}, {full}", bucket.level);
    say(text, "level", level);
    if !in_cluster {
        return;
    }
    if bucket.part != limit || bucket.charge != 0 {
        let part = &format!(
            "{} of {limit} belong to the members that it reaches, {} are left; {} spent that \
             missing members do not know",
            bucket.part, bucket.remaining, bucket.charge
        );
        say(text, "part", part);
    }
    let share = &format!(
        "may have {} in flight, has {}: {} not told yet, {} in {} batches that not all have \
         acknowledged, {} of them only reserved",
        bucket.allowance,
        bucket.in_flight,
        bucket.unpublished,
        bucket.unacknowledged,
        bucket.open_batches,
        bucket.reserved
    );
    say(text, "share", share);
    let demand = &format!(
        "{} of this node, {} of its peers, in the last second or so",
        bucket.demand, bucket.demand_of_peers
    );
    say(text, "demand", demand);
    say(text, "held", &format!("{} checks wait for it", bucket.held));
}

fn cluster_in_words(cluster: &ClusterWhy) -> String {
    let isolated = if cluster.isolated { ", isolated" } else { "" };
    let ClusterWhy { name, members, reached, .. } = cluster;
    let mut text = format!("cluster {name}: reaches {reached} of {members} members{isolated}\n");
    for peer in &cluster.peers {
        let _ = writeln!(
            text,
            "member {}, {} batches not acknowledged",
            peer_in_words(peer),
            peer.unacknowledged
        );
    }
    text
}

/// How the node's wall clock stands to that of whoever reads it.
fn clock_in_words(node_ms: u64, here_ms: u64) -> String {
    /// What the question takes on its way.
    const CLOSE_MS: u64 = 100;
    let apart = node_ms.abs_diff(here_ms);
    match node_ms.cmp(&here_ms) {
        _ if apart <= CLOSE_MS => "the node's wall clock is that of this host".to_owned(),
        std::cmp::Ordering::Less => format!("the node's wall clock is {} behind", wait(apart)),
        _ => format!("the node's wall clock is {} ahead", wait(apart)),
    }
}

#[cfg(test)]
mod tests {
    use cluster::PeerState;

    use super::*;
    use crate::endpoint::http::cluster_status::ClusterStatus;
    use crate::scripted::{peer, sample};

    const NOW_MS: u64 = 1_796_065_386_953;

    fn bucket() -> BucketWhy {
        BucketWhy {
            has_entry: true,
            level: 12,
            part: 100,
            remaining: 12,
            allowance: 4,
            in_flight: 4,
            unpublished: 1,
            unacknowledged: 5,
            reserved: 2,
            open_batches: 1,
            charge: 0,
            demand: 3,
            demand_of_peers: 9,
            held: 2,
        }
    }

    fn limit(bucket: BucketWhy) -> LimitOfWhy {
        let rule = |name: &str, fit: &str, lacks: &[&str]| RuleWhy {
            name: name.into(),
            fit: fit.into(),
            lacks: lacks.iter().map(|lack| (*lack).to_owned()).collect(),
        };
        LimitOfWhy {
            name: "per-key".into(),
            rules: vec![
                rule("per-key/search", "lacks", &["the endpoint is not `POST /search`"]),
                rule("per-key/pro", "decides", &[]),
                rule("per-key", "less_specific", &[]),
            ],
            left_out: 3,
            applied: Some(AppliedWhy {
                limit_name: "per-key/pro".into(),
                key: "{key}".into(),
                unit: "requests".into(),
                cost: 1,
                algorithm: Some("token-bucket".into()),
                shadow: false,
                allowed: Some(false),
                reason: Some("share".into()),
                retry_after_ms: Some(80),
                reset_after_ms: Some(36_000),
                limit: Some(100),
                counted: "bucket".into(),
                hash: Some("00000000000000ab".into()),
                bucket: Some(bucket),
            }),
        }
    }

    fn why(limits: Vec<LimitOfWhy>) -> Why {
        Why {
            node: "b".into(),
            readiness: "ready".into(),
            freshness: "synced".into(),
            stale_ms: 0,
            configuration_read_s: NOW_MS / 1_000 - 90,
            configuration_age_ms: 90_000,
            now_ms: Some(NOW_MS),
            next: Some(NextWhy {
                allowed: false,
                limit_name: "per-key/pro".into(),
                reason: "share".into(),
                retry_after_ms: Some(80),
                delay_ms: Some(0),
                may_wait: true,
            }),
            limits,
            other_limits: 2,
            cluster: Some(ClusterWhy {
                name: "edge".into(),
                members: 3,
                reached: 3,
                isolated: false,
                peers: {
                    let mut status = sample();
                    status.cluster.peers = vec![cluster::PeerStatus {
                        region: String::new(),
                        drift: Vec::new(),
                        unknown_there: Vec::new(),
                        unknown_here: 0,
                        ..peer(Some("a"), PeerState::Counted)
                    }];
                    ClusterStatus::new(&status).peers
                },
            }),
        }
    }

    #[test]
    fn everything_that_decides_is_told() {
        let want = "\
node b: ready, synced
next check: denied by `per-key/pro` (share): units are left, but not yet this node's to spend; would \
pass in 80 ms; it is held, and passes if the peers acknowledge in time
limit per-key: denies it (share)
  looked at  `per-key/search` does not match: the endpoint is not `POST /search`
             `per-key/pro` decides
             `per-key` matches too, and is less specific
             3 more overrides do not match
  counts     1 of `requests`, one bucket for each `{key}`; this is 00000000000000ab
  level      12 of 100, full in 36 s
  share      may have 4 in flight, has 4: 1 not told yet, 5 in 1 batches that not all have \
acknowledged, 2 of them only reserved
  demand     3 of this node, 9 of its peers, in the last second or so
  held       2 checks wait for it
2 more limits do not apply, and name neither the endpoint nor the key
cluster edge: reaches 3 of 3 members
member a: counted, heard 12 ms ago, lag 3 ms, round trip 400 us, 1 batches not acknowledged
configuration: read 90 s ago
clock: the node's wall clock is that of this host; only windows follow it
";
        assert_eq!(in_words(&why(vec![limit(bucket())]), NOW_MS + 7), want);
    }

    #[test]
    fn the_part_is_told_while_members_are_missing() {
        let split = BucketWhy { part: 67, remaining: 5, charge: 3, ..bucket() };
        let words = limit_in_words(&limit(split.clone()), true);
        let line = "  part       67 of 100 belong to the members that it reaches, 5 are left; 3 \
                    spent that missing members do not know\n";
        assert!(words.contains(line), "{words}");
        let alone = limit_in_words(&limit(split), false);
        for what in ["part", "share  ", "demand", "held"] {
            assert!(!alone.contains(&format!("\n  {what}")), "{alone}");
        }
    }

    #[test]
    fn every_reason_has_words() {
        let next = |reason: &str| NextWhy {
            allowed: reason == "ok",
            limit_name: "l".into(),
            reason: reason.into(),
            retry_after_ms: None,
            delay_ms: Some(0),
            may_wait: false,
        };
        let why = why(Vec::new());
        for reason in limiter::Reason::ALL.map(limiter::Reason::as_str) {
            let words = next_in_words(&next(reason), &why);
            match reason {
                "ok" => assert_eq!(words, "allowed by `l`"),
                // No release bans yet.
                "banned" => assert!(words.starts_with("denied by `l` (banned)"), "{words}"),
                _ => assert!(!words.contains(&format!("): {reason};")), "{words}"),
            }
        }
        let none = NextWhy { limit_name: String::new(), ..next("unmatched") };
        let words = next_in_words(&none, &why);
        assert!(words.starts_with("denied: no limit matches (unmatched): the file"), "{words}");
    }

    #[test]
    fn a_queue_says_how_long_to_wait_and_an_algorithm_its_name() {
        let next = NextWhy {
            allowed: true,
            limit_name: "partner".into(),
            reason: "ok".into(),
            retry_after_ms: Some(0),
            delay_ms: Some(1_980),
            may_wait: false,
        };
        let words = next_in_words(&next, &why(Vec::new()));
        assert_eq!(words, "allowed by `partner`, to act in 1.98 s");
        let mut limit = limit(bucket());
        limit.applied.as_mut().expect("it applies").algorithm = Some("leaky-bucket".into());
        let words = limit_in_words(&limit, false);
        let line = "  counts     1 of `requests` (leaky-bucket), one bucket for each `{key}`;";
        assert!(words.contains(line), "{words}");
    }

    #[test]
    fn a_starting_node_and_a_clock_that_is_off_say_so() {
        let starting = Why { next: None, cluster: None, ..why(Vec::new()) };
        let words = in_words(&starting, NOW_MS + 5_000);
        assert!(words.contains("next check: no answer, the node is starting\n"), "{words}");
        assert!(words.contains("clock: the node's wall clock is 5 s behind;"), "{words}");
        assert!(in_words(&starting, NOW_MS - 5_000).contains("5 s ahead;"));
    }
}
