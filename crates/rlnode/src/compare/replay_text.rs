//! What a file would have done with a trace, in words.

use std::fmt::Write;

use super::replay_report::{HourReport, LimitReport, ReplayReport};
use super::text::{bars, duration_ms, table, trace_in_words, utc};
use crate::demo::words::grouped;

/// Most lines of the table of hours.
const HOURS_MAX: usize = 48;

/// The report for a person.
pub fn replay_in_words(report: &ReplayReport) -> String {
    let mut text = String::new();
    let calls = report.allowed + report.denied;
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{} calls of {}, {} to {} UTC, under {}",
        grouped(calls),
        report.traffic,
        utc(report.from_unix_ms),
        utc(report.until_unix_ms),
        report.config
    );
    trace_in_words(&mut text, &report.trace);
    let _ = writeln!(
        text,
        "{} would have passed, {} would have been denied",
        grouped(report.allowed),
        grouped(report.denied)
    );
    if report.unmatched > 0 {
        let denied = match report.unmatched_denied {
            0 => String::new(),
            denied => format!(" and {} of them are denied for it", grouped(denied)),
        };
        let _ = writeln!(text, "no limit matches {} calls{denied}", grouped(report.unmatched));
    }
    if report.missing > 0 {
        let _ = writeln!(
            text,
            "{} times a limit lacked an attribute of its key: a trace tells of `ip` alone",
            grouped(report.missing)
        );
    }
    if report.full > 0 {
        let _ = writeln!(
            text,
            "{} times a new key found no room in [memory], and `when_full` answered",
            grouped(report.full)
        );
    }
    limits_in_words(&mut text, &report.limits);
    hours_in_words(&mut text, &report.hours);
    text
}

fn limits_in_words(text: &mut String, limits: &[LimitReport]) {
    let head = ["limit", "allowed", "denied", "as a shadow", "keys denied", "first denied"];
    let mut rows = vec![head.map(ToOwned::to_owned).to_vec()];
    rows.extend(limits.iter().map(|limit| {
        vec![
            limit.limit.clone(),
            grouped(limit.allowed),
            if limit.shadow { "-".to_owned() } else { grouped(limit.denied) },
            if limit.shadow { grouped(limit.shadow_denied) } else { "-".to_owned() },
            grouped(limit.denied_keys),
            limit.first_denied_unix_ms.map_or_else(|| "never".to_owned(), utc),
        ]
    }));
    text.push('\n');
    table(text, &rows);
    for limit in limits.iter().filter(|limit| !limit.most_denied.is_empty()) {
        let _ = writeln!(text, "\nmost denied by {}:", limit.limit);
        let rows: Vec<_> = limit
            .most_denied
            .iter()
            .map(|key| {
                vec![
                    format!("  {}", key.key),
                    grouped(key.denied),
                    format!("first {}", utc(key.first_denied_unix_ms)),
                ]
            })
            .collect();
        table(text, &rows);
        if limit.denied_others > 0 {
            let _ = writeln!(
                text,
                "  {} denials more are of keys that were too many to keep apart",
                grouped(limit.denied_others)
            );
        }
    }
}

fn hours_in_words(text: &mut String, hours: &[HourReport]) {
    let hours = shortened(hours);
    let Some(first) = hours.first() else { return };
    let has_shadow = hours.iter().any(|hour| hour.shadow_denied > 0);
    let span = duration_ms(first.length_ms);
    let mut head = vec![format!("from, each {span}"), "calls".to_owned(), "denied".to_owned()];
    if has_shadow {
        head.push("by shadows".to_owned());
    }
    let mut rows = vec![head];
    let bars = bars(&hours.iter().map(|hour| hour.denied).collect::<Vec<_>>(), hours.len());
    for (hour, bar) in hours.iter().zip(bars.chars()) {
        let mut row = vec![utc(hour.from_unix_ms), grouped(hour.calls), grouped(hour.denied)];
        if has_shadow {
            row.push(grouped(hour.shadow_denied));
        }
        row.push(bar.to_string());
        rows.push(row);
    }
    text.push('\n');
    table(text, &rows);
}

/// The same in spans so long that there are few.
fn shortened(hours: &[HourReport]) -> Vec<HourReport> {
    let mut hours = hours.to_vec();
    while hours.len() > HOURS_MAX {
        let Some(first) = hours.first().copied() else { break };
        let length_ms = first.length_ms * 2;
        let span = |hour: &HourReport| (hour.from_unix_ms - first.from_unix_ms) / length_ms;
        let sum = |part: &[HourReport]| HourReport {
            from_unix_ms: first.from_unix_ms + part.first().map_or(0, span) * length_ms,
            length_ms,
            calls: part.iter().map(|hour| hour.calls).sum(),
            denied: part.iter().map(|hour| hour.denied).sum(),
            shadow_denied: part.iter().map(|hour| hour.shadow_denied).sum(),
        };
        hours = hours.chunk_by(|a, b| span(a) == span(b)).map(sum).collect();
    }
    hours
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_hours_become_few_longer_spans_and_nothing_is_lost() {
        let hour = |place: u64| HourReport {
            from_unix_ms: 7 + place * 10,
            length_ms: 10,
            calls: 3,
            denied: 2,
            shadow_denied: 1,
        };
        let hours: Vec<_> = (0..200).filter(|place| place % 7 != 0).map(hour).collect();
        let short = shortened(&hours);
        assert!(short.len() <= HOURS_MAX, "{}", short.len());
        assert_eq!(short.iter().map(|hour| hour.calls).sum::<u64>(), 3 * hours.len() as u64);
        assert!(short.windows(2).all(|two| two[1].from_unix_ms >= two[0].from_unix_ms + 80));
        assert_eq!(shortened(&hours[..HOURS_MAX]).len(), HOURS_MAX);
    }
}
