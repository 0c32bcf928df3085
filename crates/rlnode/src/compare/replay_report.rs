//! What a file would have done with a trace, as the JSON of `rlnode compare --config` has it.

use limiter::RuleCounts;
use serde::Serialize;

use super::replay::{Denials, Replay};
use super::report::TraceReport;
use super::trace::shown;

const NS_PER_MS: u64 = 1_000_000;

/// The whole answer.
#[derive(Debug, Serialize)]
pub struct ReplayReport {
    /// The configuration file.
    pub config: String,
    /// The file of the trace.
    pub traffic: String,
    /// What was read of it.
    pub trace: TraceReport,
    /// Unix time of the first and of the last call, in milliseconds.
    pub from_unix_ms: u64,
    /// See `from_unix_ms`.
    pub until_unix_ms: u64,
    /// Calls that would have passed.
    pub allowed: u64,
    /// Calls that would have been denied.
    pub denied: u64,
    /// Calls that no limit matched, and how many of them the file denies.
    pub unmatched: u64,
    /// See `unmatched`.
    pub unmatched_denied: u64,
    /// Times that a limit did not apply, or denied, for want of an attribute: a trace has `ip` alone.
    pub missing: u64,
    /// Times that a new key found no room, and `when_full` answered.
    pub full: u64,
    /// Each limit and override.
    pub limits: Vec<LimitReport>,
    /// What happened in each hour, or in longer spans of a long trace.
    pub hours: Vec<HourReport>,
}

/// What one limit or override would have done.
#[derive(Debug, Serialize)]
pub struct LimitReport {
    /// Its name, `name/override` of an override.
    pub limit: String,
    /// It is a shadow: it decides nothing.
    pub shadow: bool,
    /// Calls that it and every other limit allowed.
    pub allowed: u64,
    /// Calls that it denied.
    pub denied: u64,
    /// Calls that it would have denied, were it no shadow.
    pub shadow_denied: u64,
    /// Units spent.
    pub units: u64,
    /// Unix time of the first denial, in milliseconds.
    pub first_denied_unix_ms: Option<u64>,
    /// Keys that were denied something.
    pub denied_keys: u64,
    /// Denials of further keys, which were too many to keep apart.
    pub denied_others: u64,
    /// Those that were denied most.
    pub most_denied: Vec<KeyReport>,
}

/// Somebody who would have been denied.
#[derive(Debug, Serialize)]
pub struct KeyReport {
    /// The key, as the trace has it.
    pub key: String,
    /// How often.
    pub denied: u64,
    /// Unix time of the first time, in milliseconds.
    pub first_denied_unix_ms: u64,
}

/// What happened in an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HourReport {
    /// Unix time at which it begins, in milliseconds.
    pub from_unix_ms: u64,
    /// How long it is: an hour, or more.
    pub length_ms: u64,
    /// Calls.
    pub calls: u64,
    /// Calls that were denied.
    pub denied: u64,
    /// Calls that a shadow would have denied.
    pub shadow_denied: u64,
}

impl ReplayReport {
    /// The report of `replay`, with so many keys for each limit.
    pub fn new(
        config: String,
        traffic: String,
        trace: TraceReport,
        replay: &Replay,
        keys: usize,
    ) -> Self {
        let limits = replay.rules.iter().zip(&replay.counts.rules);
        let limits = limits.map(|((name, shadow), counts)| {
            LimitReport::new(name, *shadow, counts, replay.denials.get(name), keys)
        });
        Self {
            config,
            traffic,
            trace,
            from_unix_ms: replay.from_unix_ns / NS_PER_MS,
            until_unix_ms: replay.until_unix_ns / NS_PER_MS,
            allowed: replay.allowed,
            denied: replay.denied,
            unmatched: replay.counts.unmatched,
            unmatched_denied: replay.unmatched_denied,
            missing: replay.counts.missing,
            full: replay.counts.full,
            limits: limits.collect(),
            hours: hours(replay),
        }
    }
}

impl LimitReport {
    fn new(
        name: &str,
        shadow: bool,
        counts: &RuleCounts,
        denials: Option<&Denials>,
        keys: usize,
    ) -> Self {
        let mut most_denied: Vec<_> = denials
            .into_iter()
            .flat_map(|denials| &denials.keys)
            .map(|(key, (denied, first_ns))| (*denied, *first_ns, key))
            .collect();
        // Of those that were denied as often, who was denied first.
        most_denied.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        most_denied.truncate(keys);
        let key = |(denied, first_ns, key): (u64, u64, &Vec<u8>)| KeyReport {
            key: shown(&String::from_utf8_lossy(key)),
            denied,
            first_denied_unix_ms: first_ns / NS_PER_MS,
        };
        Self {
            limit: name.to_owned(),
            shadow,
            allowed: counts.allowed,
            denied: counts.denied,
            shadow_denied: counts.shadow_denied,
            units: counts.units,
            first_denied_unix_ms: denials.map(|denials| denials.first_unix_ns / NS_PER_MS),
            denied_keys: denials.map_or(0, |denials| denials.keys.len() as u64),
            denied_others: denials.map_or(0, |denials| denials.of_others),
            most_denied: most_denied.into_iter().map(key).collect(),
        }
    }
}

fn hours(replay: &Replay) -> Vec<HourReport> {
    // Both series were asked at the same times, and so are of one width and length.
    let length_ns = replay.hours.slot_ns();
    let from_ns = replay.hours.start_ns();
    let slots = replay.hours.slots().iter().zip(replay.shadow_hours.slots());
    let hour =
        |(place, (slot, shadow)): (u64, (&sim::compare::Slot, &sim::compare::Slot))| HourReport {
            from_unix_ms: from_ns.saturating_add(place.saturating_mul(length_ns)) / NS_PER_MS,
            length_ms: length_ns / NS_PER_MS,
            calls: slot.asked,
            denied: slot.asked - slot.passed,
            shadow_denied: shadow.passed,
        };
    (0..).zip(slots).map(hour).filter(|hour| hour.calls > 0).collect()
}
