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
    let stale = match why.stale_ms {
        0 => String::new(),
        ms => format!(", for {}", wait(u64::from(ms))),
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
    let _ =
        writeln!(text, "configuration: read {} ago, at the start", wait(why.configuration_age_ms));
    if let Some(now_ms) = why.now_ms {
        let _ = writeln!(text, "clock: {}; decides nothing", clock_in_words(now_ms, unix_ms));
    }
    text
}

fn wait(ms: u64) -> String {
    words::wait(Some(Duration::from_millis(ms)))
}

fn next_in_words(next: &NextWhy, why: &Why) -> String {
    let by = match next.limit_name.as_str() {
        "" => ": no limit matches".to_owned(),
        name => format!(" by `{name}`"),
    };
    if next.allowed {
        return format!("allowed{by}");
    }
    let because = match next.reason.as_str() {
        "limit" => "too few units are left".to_owned(),
        "share" => "units are left, but not yet this node's to spend".to_owned(),
        "isolated" => "the node reaches too few members, and the limit denies then".to_owned(),
        "deny" => "the limit denies it whatever is left".to_owned(),
        "full" => "there is no memory for the key".to_owned(),
        "unmatched" => "the file denies what no limit matches".to_owned(),
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
    let costs = format!("{cost} of `{unit}`");
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
        "may have {} in flight and has {}: {} not yet told, {} told in {} batches and not \
         acknowledged by all, {} of both only reserved",
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
