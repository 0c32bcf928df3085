//! What `rlnode compare` found of the algorithms, in words: a line for each.

use std::fmt::Write;
use std::time::Duration;

use time::OffsetDateTime;

use super::report::{AlgorithmReport, Figures, Report, TraceReport};
use crate::command::words;
use crate::config::show_rate;
use crate::demo::words::grouped;

/// With fewer keys than this the least size of a table shows in the memory of a key.
const KEYS_FEW: u64 = 1_000;
/// Columns of the small chart in a line.
const CHART: usize = 32;
/// A chart's heights, from nothing to all.
const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The report for a person.
pub fn in_words(report: &Report) -> String {
    let mut text = String::new();
    let rate = limiter::Rate { count: report.limit, period_ns: report.period_ns };
    let period = period(report.period_ns);
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{}: {} calls in {}, from {} UTC; limit {}, burst {}",
        report.traffic,
        grouped(report.calls),
        duration_ms(report.duration_ms),
        utc(report.from_unix_ms),
        show_rate(rate),
        grouped(report.burst)
    );
    if let Some(trace) = &report.trace {
        trace_in_words(&mut text, trace);
    }
    let mut head: Vec<String> = ["", "passed", "denied", "worst 1 s", "worst 2 s"]
        .into_iter()
        .map(ToOwned::to_owned)
        .collect();
    head.push(format!("worst {period}"));
    head.extend(
        ["denied for", "told to wait", "delay", "bytes/key", "passed over time"].map(Into::into),
    );
    let mut rows = vec![head];
    for algorithm in &report.algorithms {
        match (&algorithm.alone, &algorithm.refused) {
            (Some(figures), _) => rows.push(row(algorithm.algorithm, figures, slots(report))),
            (None, refused) => rows.push(vec![
                algorithm.algorithm.to_owned(),
                format!("cannot: {}", refused.as_deref().unwrap_or_default()),
            ]),
        }
    }
    table(&mut text, &rows);
    notes(&mut text, report);
    if let Some(nodes) = report.nodes {
        clusters_in_words(&mut text, nodes, &period, &report.algorithms);
    }
    text
}

fn row(name: &str, figures: &Figures, slots: usize) -> Vec<String> {
    let mut passed = figures.passed.clone();
    passed.resize(slots.max(passed.len()), 0);
    let delay = match figures.delayed {
        0 => "-".to_owned(),
        _ => format!("up to {}", duration_ms(figures.longest_delay_ms)),
    };
    let never = if figures.never > 0 { ", or never" } else { "" };
    vec![
        name.to_owned(),
        grouped(figures.units),
        grouped(figures.denied),
        grouped(figures.worst_second),
        grouped(figures.worst_two_seconds),
        grouped(figures.worst_period),
        duration_ms(figures.longest_denial_ms),
        format!("{}{never}", duration_ms(figures.longest_wait_ms)),
        delay,
        grouped(figures.bytes_per_key),
        format!("|{}|", bars(&passed, CHART)),
    ]
}

/// Slots of the longest series.
fn slots(report: &Report) -> usize {
    let figures = report.algorithms.iter().filter_map(|algorithm| algorithm.alone.as_ref());
    figures.map(|figures| figures.passed.len().max(figures.asked.len())).max().unwrap_or(0)
}

/// What is not as the figures look.
fn notes(text: &mut String, report: &Report) {
    let figures = || report.algorithms.iter().filter_map(|algorithm| algorithm.alone.as_ref());
    if let Some(figures) = figures().next() {
        let _ = writeln!(
            text,
            "passed and worst are units, of {}; bytes/key: of the tables of {} keys at their largest{}",
            if report.trace.is_some() { "all keys and of the fullest key" } else { "one key" },
            grouped(figures.keys),
            if report.trace.is_some() && figures.keys < KEYS_FEW {
                ": few keys look costly, for tables have a least size"
            } else {
                ""
            }
        );
    }
    let overflowed = figures().map(|figures| figures.overflowed).max().unwrap_or(0);
    if overflowed > 0 {
        let _ = writeln!(
            text,
            "{} calls found no room in a million entries: their keys shared one bucket",
            grouped(overflowed)
        );
    }
    let unmeasured = figures().map(|figures| figures.unmeasured).max().unwrap_or(0);
    if unmeasured > 0 {
        let _ = writeln!(
            text,
            "{} calls are of keys beyond {} at a time: not in `worst` and `denied for`",
            grouped(unmeasured),
            grouped(sim::compare::MEASURED_KEYS_MAX as u64)
        );
    }
}

fn clusters_in_words(
    text: &mut String,
    nodes: usize,
    period: &str,
    algorithms: &[AlgorithmReport],
) {
    let _ = writeln!(text, "\non {nodes} nodes that are asked at random, beside one exact node");
    let head = [
        "",
        "passed",
        "exact",
        "difference",
        "worst 2 s",
        "exact",
        &format!("worst {period}"),
        "exact",
    ]
    .map(ToOwned::to_owned);
    let mut rows = vec![head.to_vec()];
    for algorithm in algorithms {
        let (Some(cluster), Some(alone)) = (&algorithm.cluster, &algorithm.alone) else { continue };
        if let Some(refused) = &cluster.refused {
            rows.push(vec![algorithm.algorithm.to_owned(), format!("cannot: {refused}")]);
            continue;
        }
        rows.push(vec![
            algorithm.algorithm.to_owned(),
            grouped(cluster.units),
            grouped(alone.units),
            format!("{:+}", cluster.more_units),
            grouped(cluster.worst_two_seconds),
            grouped(alone.worst_two_seconds),
            grouped(cluster.worst_period),
            grouped(alone.worst_period),
        ]);
    }
    table(text, &rows);
}

/// What could not be read of a trace, if anything.
pub(super) fn trace_in_words(text: &mut String, trace: &TraceReport) {
    if trace.unreadable > 0 {
        let _ = writeln!(
            text,
            "{} of {} lines could not be read:",
            grouped(trace.unreadable),
            grouped(trace.lines)
        );
        for told in &trace.told {
            let _ = writeln!(text, "  line {}: {}", told.line, told.why);
        }
    }
    if trace.late > 0 {
        let _ = writeln!(
            text,
            "{} calls came too late to be put in order, and count at the time of the one before",
            grouped(trace.late)
        );
    }
}

/// Appends `rows` in columns: the first to the left, numbers to the right. A last cell that begins the
/// third column or an earlier one is text and makes no column wider.
pub(super) fn table(text: &mut String, rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter(|row| row.len() == columns || column == 0);
        cells.filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let is_text = column + 1 == columns || row.len() < columns;
            let gap = if column == 0 { "" } else { "  " };
            let _ = match column {
                0 => write!(line, "{cell:<width$}"),
                _ if is_text => write!(line, "{gap}{cell}"),
                _ => write!(line, "{gap}{cell:>width$}"),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

/// A small chart of `counts` in at most so many columns; a column is the mean of its counts.
pub(super) fn bars(counts: &[u64], columns: usize) -> String {
    let per_column = counts.len().div_ceil(columns.max(1)).max(1);
    let sums: Vec<u64> = counts.chunks(per_column).map(|part| part.iter().sum()).collect();
    let most = sums.iter().copied().max().unwrap_or(0).max(1);
    let height = |sum: &u64| {
        // Rounded up, so that what is little is not nothing.
        let eighths = (u128::from(*sum) * 8).div_ceil(u128::from(most));
        HEIGHTS[usize::try_from(eighths).unwrap_or(8).min(8)]
    };
    sums.iter().map(height).collect()
}

/// The period of a limit: `1 min`, `10 s`.
pub(super) fn period(period_ns: u64) -> String {
    let words = show_rate(limiter::Rate { count: 1, period_ns });
    match words.strip_prefix("1/") {
        Some(unit) => format!("1 {unit}"),
        None => words.trim_start_matches("1 per ").to_owned(),
    }
}

/// A length of time: `0 ms`, `990 ms`, `1.5 s`, `2 min`, `1 h 30 min`.
pub(super) fn duration_ms(ms: u64) -> String {
    words::wait(Some(Duration::from_millis(ms)))
}

/// The same of nanoseconds, rounded up.
pub(super) fn duration_ns(ns: u64) -> String {
    if ns < 1_000_000 { format!("{ns} ns") } else { duration_ms(ns.div_ceil(1_000_000)) }
}

/// `2026-12-01 00:00:00`, and milliseconds where there are any.
pub(super) fn utc(unix_ms: u64) -> String {
    let ns = i128::from(unix_ms) * 1_000_000;
    let at = OffsetDateTime::from_unix_timestamp_nanos(ns).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let mut text = format!("{} {:02}:{:02}:{:02}", at.date(), at.hour(), at.minute(), at.second());
    if at.millisecond() > 0 {
        let _ = write!(text, ".{:03}", at.millisecond());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_is_as_high_as_its_highest_column_and_shows_what_is_little() {
        assert_eq!(bars(&[0, 1, 400, 800], 4), " ▁▄█");
        assert_eq!(bars(&[1, 1, 2, 2], 2), "▄█");
        assert_eq!(bars(&[0, 0], 2), "  ");
        assert_eq!(bars(&[], 2), "");
        assert_eq!(bars(&[u64::MAX / 2, u64::MAX / 2], 1), "█");
    }

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let rows = [["", "n", "chart"], ["ab", "10", "|x"], ["c", "7", "|yy"]];
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.map(ToOwned::to_owned).to_vec()).collect();
        let mut text = String::new();
        table(&mut text, &[rows, vec![vec!["d".into(), "cannot: it is long".into()]]].concat());
        assert_eq!(text, "     n  chart\nab  10  |x\nc    7  |yy\nd   cannot: it is long\n");
    }

    #[test]
    fn periods_have_the_names_that_limits_give_them() {
        let names = [1_000_000_000, 10_000_000_000, 60_000_000_000, 5_400_000_000_000].map(period);
        assert_eq!(names, ["1 s", "10 s", "1 min", "1.5 h"]);
    }

    #[test]
    fn times_are_utc() {
        assert_eq!(utc(1_796_083_200_000), "2026-12-01 00:00:00");
        assert_eq!(utc(1_796_083_200_007), "2026-12-01 00:00:00.007");
    }
}
