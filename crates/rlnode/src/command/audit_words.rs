//! What `rlnode audit` says, in words.

use std::fmt::Write;
use std::time::Duration;

use limiter::Rate;
use time::OffsetDateTime;

use super::audit_report::{
    ClusterReport, Judgement, LifeReport, LimitReport, Report, WindowReport,
};
use super::words;
use crate::config;

/// The report for a person.
pub(super) fn in_words(report: &Report) -> String {
    let mut text = String::new();
    for cluster in &report.clusters {
        cluster_in_words(&mut text, cluster);
    }
    for damage in &report.damaged {
        let (file, at_byte, what) = (&damage.file, damage.at_byte, &damage.what);
        let _ = writeln!(text, "damaged: {file} from byte {at_byte}: {what}; read up to there");
    }
    for file in &report.copies {
        let _ = writeln!(text, "left out: {file} is a copy of another");
    }
    text.push_str(match report.within {
        true => "no limit is above its ceiling",
        false => "A LIMIT IS ABOVE ITS CEILING",
    });
    let missing = missing_in_words(report);
    if !missing.is_empty() {
        let _ = write!(text, ", of what is here; MISSING: {}", missing.join("; "));
    }
    text.push('\n');
    text
}

/// What is not in the figures, so that the judgement is not of it.
fn missing_in_words(report: &Report) -> Vec<String> {
    let mut missing = Vec::new();
    for cluster in &report.clusters {
        for life in &cluster.unrecorded {
            missing.push(format!("the records of {}, started as {}", life.node, life.life));
        }
        if cluster.unmet > 0 {
            missing.push(format!("the records of {} members that nobody met", cluster.unmet));
        }
        for life in &cluster.nodes {
            if life.missing_files > 0 {
                missing.push(format!("{} files of {}", life.missing_files, life.node));
            }
            if life.missing_spends > 0 {
                missing.push(format!("{} spends of {}", life.missing_spends, life.node));
            }
            if uncovered_ms(life) > 0 {
                missing.push(format!("{} of {}", duration(uncovered_ms(life)), life.node));
            }
        }
        if cluster.limits.is_empty() && cluster.unjudged.is_empty() {
            missing.push("any spend to judge".to_owned());
        }
        for limit in &cluster.unjudged {
            missing.push(format!("a judgement of {} ({})", limit.limit, limit.algorithm));
        }
        for limit in cluster.limits.iter().filter(|it| it.judgement == Judgement::Nothing) {
            missing.push(format!("anything to judge of {}", limit.limit));
        }
    }
    missing.extend(report.damaged.iter().map(|damage| format!("the rest of {}", damage.file)));
    missing
}

/// Time between the first and the last record of which no block tells, in milliseconds.
fn uncovered_ms(life: &LifeReport) -> u64 {
    let whole_ms = life.until_unix_ms.abs_diff(life.from_unix_ms);
    // Both ends are rounded.
    if life.covered_ms + 1 < whole_ms { whole_ms - life.covered_ms } else { 0 }
}

fn cluster_in_words(text: &mut String, cluster: &ClusterReport) {
    let spends = cluster.spends;
    let what = if cluster.cluster.is_empty() { "a node in no cluster" } else { "cluster " };
    let _ = writeln!(
        text,
        "{what}{}: {spends} spends, {}, {} to {} UTC",
        cluster.cluster,
        if cluster.sample == 1 {
            "of every key".to_owned()
        } else {
            format!("of 1 key in {}", cluster.sample)
        },
        utc(cluster.from_unix_ms.saturating_mul(1_000_000)),
        utc(cluster.until_unix_ms.saturating_mul(1_000_000))
    );
    for life in &cluster.unrecorded {
        let _ = writeln!(
            text,
            "  MISSING: no records of {}, started as {}, which others counted from {} to {}: what it \
             let through is not in these figures",
            life.node,
            life.life,
            utc(life.from_unix_ms.saturating_mul(1_000_000)),
            utc(life.until_unix_ms.saturating_mul(1_000_000))
        );
    }
    if cluster.unmet > 0 {
        let _ = writeln!(
            text,
            "  MISSING: no records of {} of {} members, which nobody here met",
            cluster.unmet, cluster.members
        );
    }
    match cluster.clock_error_us {
        Some(0) => text.push_str("  clocks: one for all\n"),
        Some(us) => {
            let _ = writeln!(
                text,
                "  clocks: between two nodes wrong by {} at most{}",
                millis(us),
                match cluster.clock_disagreement_us {
                    0 => String::new(),
                    us => format!("; two measures of one difference are {} apart", millis(us)),
                }
            );
        }
        None => text.push_str(
            "  clocks: NOT MEASURED between all nodes; their wall clocks are taken for right\n",
        ),
    }
    if cluster.splits > 0 {
        let _ = writeln!(
            text,
            "  not all members reached each other, or it is not known, {} times, {} in all: no \
             ceiling is stated for these",
            cluster.splits,
            duration(cluster.split_ms)
        );
    }
    if cluster.late > 0 {
        let _ =
            writeln!(text, "  {} spends came late and count later than they were", cluster.late);
    }
    cluster.nodes.iter().for_each(|node| life_in_words(text, node));
    cluster.limits.iter().for_each(|limit| limit_in_words(text, cluster, limit));
    for limit in &cluster.unjudged {
        let _ = writeln!(
            text,
            "limit {}: {}; {} spends, {} units admitted; NOT JUDGED: only token and leaky buckets \
             have a rate and a burst to compare a window with",
            limit.limit, limit.algorithm, limit.spends, limit.admitted
        );
    }
}

fn life_in_words(text: &mut String, life: &LifeReport) {
    let _ = write!(
        text,
        "  node {}, started as {}: {} spends in {}, from {}",
        life.node,
        life.life,
        life.spends,
        duration(life.covered_ms),
        utc(life.from_unix_ms.saturating_mul(1_000_000))
    );
    if uncovered_ms(life) > 0 {
        let _ = write!(text, "; NOT COVERED: {} between", duration(uncovered_ms(life)));
    }
    if life.missing_files > 0 {
        let _ = write!(
            text,
            "; {} files are not here, {} of them removed to keep within the bound",
            life.missing_files, life.removed_files
        );
    }
    if life.missing_spends > 0 {
        let _ = write!(text, "; {} spends MISSING, by its own count", life.missing_spends);
    }
    text.push_str(if life.ended {
        "; stopped in order\n"
    } else {
        "; it runs, or did not stop in order: up to a second is missing at the end\n"
    });
}

fn limit_in_words(text: &mut String, cluster: &ClusterReport, limit: &LimitReport) {
    let rate = Rate { count: limit.rate_count, period_ns: limit.rate_period_ns };
    let _ = write!(
        text,
        "limit {}{}: {}, burst {}, {}; {} {}, {} spends, {} units admitted",
        limit.limit,
        if limit.shadow { " (shadow)" } else { "" },
        config::show_rate(rate),
        limit.burst,
        limit.accuracy,
        limit.keys,
        if limit.keys == 1 { "key" } else { "keys" },
        limit.totals.spends,
        limit.totals.admitted
    );
    for (units, what) in [(limit.totals.debited, "debited"), (limit.totals.refunded, "given back")]
    {
        if units > 0 {
            let _ = write!(text, ", {units} {what}");
        }
    }
    text.push('\n');
    if limit.numbers_differ {
        text.push_str("  its numbers were not the same everywhere; these are the most generous\n");
    }
    for (node, totals) in limit.by_node.iter().filter(|_| limit.by_node.len() > 1) {
        let _ = writeln!(text, "  {node}: {} units in {} spends", totals.admitted, totals.spends);
    }
    for window in &limit.worst {
        let _ = writeln!(text, "  worst window of key {}: {}", window.key, window_in_words(window));
    }
    if let Some(window) = limit.judged.as_ref().filter(|_| cluster.members > 1) {
        let words = window_in_words(window);
        let _ = writeln!(text, "  worst while all members reached each other: {words}");
    }
    let _ = writeln!(
        text,
        "  ceiling: {} units above burst + rate * t, proven for {}: {}",
        limit.ceiling,
        match cluster.members {
            1 => "a node alone".to_owned(),
            members => format!("{members} members that reach each other"),
        },
        judgement_in_words(limit)
    );
}

fn judgement_in_words(limit: &LimitReport) -> &'static str {
    let least = limit.judged.as_ref().and_then(|window| window.excess_least);
    let is_sure = least.is_some_and(|least| i128::from(least) >= i128::from(limit.ceiling));
    match limit.judgement {
        Judgement::Within => "within",
        Judgement::Above if is_sure => "ABOVE",
        Judgement::Above => "ABOVE, but by less than the clocks may be wrong",
        Judgement::NotStated => {
            "above, but debits or refunds are among the spends, and it is of checks alone"
        }
        Judgement::Nothing => "nothing to judge",
    }
}

fn window_in_words(window: &WindowReport) -> String {
    let excess = window.excess_milliunits;
    let thousandths = excess.unsigned_abs();
    let mut text = format!(
        "{} units in {} from {} by {}: {}.{:03} {}",
        window.units,
        seconds(window.length_ns),
        utc(window.from_unix_ns),
        window.nodes.join(", "),
        thousandths / 1_000,
        thousandths % 1_000,
        if excess > 0 { "TOO MANY" } else { "below burst + rate * t" }
    );
    if window.debited > 0 {
        let _ = write!(text, " ({} of them debited)", window.debited);
    }
    match (window.excess_least, window.excess_most) {
        (Some(least), Some(most)) if excess > 0 => {
            let _ = write!(text, ", excess between {least} and {most} whatever the clocks");
        }
        (None, _) if excess > 0 => text.push_str(", if the wall clocks are right"),
        _ => {}
    }
    text
}

/// `2026-12-01 00:00:00.123`.
fn utc(unix_ns: i64) -> String {
    let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(unix_ns))
        .unwrap_or(OffsetDateTime::UNIX_EPOCH);
    format!(
        "{} {:02}:{:02}:{:02}.{:03}",
        at.date(),
        at.hour(),
        at.minute(),
        at.second(),
        at.millisecond()
    )
}

fn duration(ms: u64) -> String {
    words::wait(Some(Duration::from_millis(ms)))
}

/// Nanoseconds as seconds, with six digits.
fn seconds(ns: u64) -> String {
    format!("{}.{:06} s", ns / 1_000_000_000, ns % 1_000_000_000 / 1_000)
}

fn millis(us: u64) -> String {
    format!("{}.{:03} ms", us / 1_000, us % 1_000)
}
