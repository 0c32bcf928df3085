//! Limits and overrides: from the tables of the file to what the limiter compiles.
//!
//! What the limiter itself checks when it compiles (names, patterns, key templates, ties) is not
//! checked here; its errors are given their lines.

use limiter::{Accuracy, Limit, Missing, Override, PlanError, RuleAt, Selector, WhenIsolated};

use toml::Spanned;

use super::error::{Problems, Span, printable, quoted};
use super::quota::{Manner, read_quota};
use super::settings::OVERRIDE;
use super::written::Section;

/// Most characters of the limiter's own messages, which repeat what the file says.
const PLAN_MESSAGE_CHARS_MAX: usize = 500;

/// The key of a limit that gives none: one bucket for each key.
const DEFAULT_KEY: &str = "{key}";

/// What the file says about a limit beside what the limiter needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSettings {
    /// Line of the limit's name, from 1.
    pub line: usize,
    /// Lines of its overrides, in the order of the file.
    pub override_lines: Vec<usize>,
}

/// A limit as read, with its places in the file.
pub(super) struct ReadLimit {
    pub(super) limit: Limit,
    pub(super) span: Span,
    pub(super) override_spans: Vec<Span>,
}

/// Reads every limit. Those that have errors are left out, and the errors reported.
pub(super) fn read_limits(
    sections: Vec<Section<'_, '_>>,
    problems: &mut Problems,
) -> Vec<ReadLimit> {
    sections.into_iter().filter_map(|section| read_limit(section, problems)).collect()
}

/// Gives the limiter's error its place in the file.
pub(super) fn report_plan_error(error: &PlanError, limits: &[ReadLimit], problems: &mut Problems) {
    let span_at = |at: RuleAt| {
        let limit = limits.get(at.limit)?;
        at.override_index.map_or(Some(&limit.span), |index| limit.override_spans.get(index))
    };
    let message = printable(&error.message, PLAN_MESSAGE_CHARS_MAX);
    match (span_at(error.at), error.with.and_then(span_at)) {
        (Some(at), Some(with)) => problems.add_pair(at, with, message),
        (Some(at), None) => problems.add(at, message),
        (None, _) => problems.add_about_file(message),
    }
}

fn read_limit(mut section: Section<'_, '_>, problems: &mut Problems) -> Option<ReadLimit> {
    let name = section.take_string("name", problems);
    if !section.has("name") {
        problems.add(section.span(), "this limit has no name; write `name = \"per-key\"`");
    }
    let selector = read_selector(&mut section, problems);
    let key = section.take_string("key", problems).map(Spanned::into_inner);
    let unit = section.take_string("unit", problems).map(Spanned::into_inner);
    let (manner, quota) = read_quota(&mut section, &Manner::default(), problems);
    let accuracy = read_accuracy(&mut section, problems);
    let when_isolated = read_when_isolated(&mut section, problems);
    let missing_words = [("skip", Ok(Missing::Skip)), ("deny", Ok(Missing::Deny))];
    let missing = section.take_word("missing", &missing_words, problems);
    let ipv6_prefix = section.take_integer("ipv6_prefix", 1..=128, problems);
    let shadow = section.take_bool("shadow", problems).is_some_and(Spanned::into_inner);
    let sections = section.take_sections("override", &OVERRIDE, problems).unwrap_or_default();
    check_key_settings(&section, key.unwrap_or(DEFAULT_KEY), problems);
    section.finish(problems);
    let spans = sections.iter().map(|section| section.span().clone()).collect();
    let overrides: Vec<_> =
        sections.into_iter().map(|section| read_override(section, &manner, problems)).collect();

    let name = name?;
    let default = Limit::new(*name.get_ref(), quota?);
    let bits = ipv6_prefix.and_then(|bits| u8::try_from(bits.into_inner()).ok());
    let limit = Limit {
        selector,
        key: key.unwrap_or(DEFAULT_KEY).into(),
        unit: unit.map_or(default.unit, Into::into),
        missing: missing.unwrap_or(default.missing),
        ipv6_prefix: bits.unwrap_or(default.ipv6_prefix),
        shadow,
        accuracy,
        when_isolated,
        // One that has errors is never compiled, since then the file is refused.
        overrides: overrides.into_iter().flatten().collect(),
        ..default
    };
    Some(ReadLimit { limit, span: name.span(), override_spans: spans })
}

fn read_override<'v>(
    mut section: Section<'v, '_>,
    of_limit: &Manner<'v>,
    problems: &mut Problems,
) -> Option<Override> {
    let name = section.take_string("name", problems).map(|name| name.into_inner().to_owned());
    let selector = read_selector(&mut section, problems);
    let (_, quota) = read_quota(&mut section, of_limit, problems);
    section.finish(problems);
    Some(Override { name, selector, quota: quota? })
}

fn read_selector(section: &mut Section<'_, '_>, problems: &mut Problems) -> Selector {
    let endpoint = section.take_string("endpoint", problems);
    let attributes = section.take_string_table("attributes", problems).unwrap_or_default();
    let keys = section.take_strings("keys", problems).unwrap_or_default();
    Selector {
        endpoint: endpoint.map(|endpoint| endpoint.into_inner().to_owned()),
        attributes: attributes.into_iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect(),
        keys: keys.into_iter().map(|key| key.into_inner().as_bytes().to_vec()).collect(),
    }
}

fn read_accuracy(section: &mut Section<'_, '_>, problems: &mut Problems) -> Accuracy {
    let words = [
        ("balanced", Ok(Accuracy::Balanced)),
        ("fast", Ok(Accuracy::Fast)),
        ("exact", Err("a ceiling by quorum comes in a later release; write `balanced`")),
        ("strict", Err("there is no such mode any more; write `balanced`")),
    ];
    section.take_word("accuracy", &words, problems).unwrap_or(Accuracy::Balanced)
}

fn read_when_isolated(section: &mut Section<'_, '_>, problems: &mut Problems) -> WhenIsolated {
    let words = [
        ("split", Ok(WhenIsolated::Split)),
        ("allow", Ok(WhenIsolated::Allow)),
        ("deny", Ok(WhenIsolated::Deny)),
    ];
    section.take_word("when_isolated", &words, problems).unwrap_or(WhenIsolated::Split)
}

/// Refuses settings about parts that the key does not have.
fn check_key_settings(section: &Section<'_, '_>, key: &str, problems: &mut Problems) {
    let mut parts = key.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let key = quoted(key);
    if let Some(span) = section.name_span("ipv6_prefix")
        && !parts.clone().any(|part| part == "ip")
    {
        let message = format!("`ipv6_prefix` has no effect: the key {key} has no `{{ip}}`");
        problems.add(&span, format!("{message}; write `key = \"{{ip}}\"`, or drop it"));
    }
    if let Some(span) = section.name_span("missing")
        && !parts.any(|part| part != "key" && part != "endpoint")
    {
        let message = format!("`missing` has no effect: the key {key} names no attribute");
        problems.add(&span, format!("{message}; drop it"));
    }
}
