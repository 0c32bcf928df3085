//! The YAML of Envoy's reference service: a domain, and descriptors within descriptors.
//!
//! What that service refuses is left out and said; what it knows and ours does not is said.

use std::collections::HashMap;

use super::Source;
use super::finding::{Findings, Place};
use super::yaml::{self, Kind, Node};
use crate::endpoint::envoy::values::Values;

/// The descriptors of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Domain {
    pub(super) name: String,
    pub(super) file: String,
    pub(super) descriptors: Vec<Descriptor>,
}

/// One entry that a descriptor must have, and what comes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub(super) key: String,
    pub(super) values: Values,
    /// All values that are like its own have one bucket.
    pub(super) shares: bool,
    /// The limit of descriptors that end here.
    pub(super) limit: Option<Limit>,
    /// The entries that may follow.
    pub(super) within: Vec<Self>,
    pub(super) place: Place,
}

/// A limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) amount: Amount,
    pub(super) is_shadow: bool,
    pub(super) name: Option<String>,
}

/// How much passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Amount {
    /// Everything.
    Unlimited,
    /// So much in each window of this length, as our file says it.
    Per { count: u32, window: &'static str },
}

/// The units of time of the service, and how long each is there.
const WINDOWS: [(&str, &str); 7] = [
    ("second", "1s"),
    ("minute", "1m"),
    ("hour", "1h"),
    ("day", "1d"),
    ("week", "7d"),
    ("month", "30d"),
    ("year", "365d"),
];

/// Reads a file.
///
/// # Errors
/// It is not YAML, or has no domain.
pub(super) fn read(source: &Source<'_>, findings: &mut Findings) -> Result<Domain, String> {
    let file = source.name;
    let read = yaml::read(source.text)
        .map_err(|error| format!("{file}:{}: this is no YAML: {}", error.line, error.message))?;
    let root = Place { file: file.into(), line: read.document.line, path: String::new() };
    let Kind::Table(entries) = &read.document.kind else {
        return Err(format!("{file}: there is no `domain` and no `descriptors` in it"));
    };
    let name = match read.document.at("domain") {
        Some(Node { kind: Kind::Text(name), .. }) if !name.is_empty() => name.clone(),
        _ => return Err(format!("{file}: there is no `domain`; the service would refuse it too")),
    };
    if let Some(line) = read.second {
        findings.lose(&root.at(line), "a second document; only the first is read, as there");
    }
    for (name, node) in entries {
        if name != "domain" && name != "descriptors" {
            lose_unknown(&root.at(node.line), name, findings);
        }
    }
    let descriptors = match read.document.at("descriptors") {
        Some(list) => read_list(list, &root, findings),
        None => Vec::new(),
    };
    Ok(Domain { name, file: file.into(), descriptors })
}

fn lose_unknown(place: &Place, name: &str, findings: &mut Findings) {
    findings.lose(place, format!("`{}` is not known here, and left out", name.escape_debug()));
}

fn read_list(list: &Node, parent: &Place, findings: &mut Findings) -> Vec<Descriptor> {
    let Kind::List(nodes) = &list.kind else {
        findings.lose(&parent.at(list.line), "`descriptors` is no list, and left out");
        return Vec::new();
    };
    let mut read: Vec<Descriptor> = Vec::new();
    let mut lines: HashMap<(String, String), usize> = HashMap::new();
    for node in nodes {
        let Some(descriptor) = read_descriptor(node, parent, findings) else { continue };
        let own = (descriptor.key.clone(), descriptor.values.to_string());
        if let Some(first) = lines.get(&own) {
            findings.lose(&descriptor.place, format!("it stands in line {first} too; left out"));
            continue;
        }
        lines.insert(own, descriptor.place.line);
        read.push(descriptor);
    }
    read
}

fn read_descriptor(node: &Node, parent: &Place, findings: &mut Findings) -> Option<Descriptor> {
    let mut place = parent.at(node.line);
    let Kind::Table(entries) = &node.kind else {
        findings.lose(&place, "a descriptor that is no table, and is left out");
        return None;
    };
    let key = match node.at("key") {
        Some(Node { kind: Kind::Text(key), .. }) if !key.is_empty() => key.clone(),
        _ => {
            findings.lose(&place, "a descriptor without a `key`, and is left out");
            return None;
        }
    };
    let value = text_at(node, "value", &place, findings).filter(|value| !value.is_empty());
    let values = value.as_deref().map_or(Values::Any, Values::parse);
    let before = if parent.path.is_empty() { "" } else { " > " };
    let own = format!("{key}{values}");
    place.path = format!("{}{before}{}", parent.path, own.escape_debug());
    for (name, node) in entries {
        report(name, &place.at(node.line), findings);
    }
    let is_true = |name, findings: &mut Findings| bool_at(node, name, &place, findings);
    let (is_shadow, is_quota) = (is_true("shadow_mode", findings), is_true("quota_mode", findings));
    let mut shares = is_true("share_threshold", findings);
    if shares && !matches!(values, Values::Like(_)) {
        findings.lose(&place, "`share_threshold` without a `*` in `value`, and is left out");
        shares = false;
    }
    if key.contains('*') {
        findings.lose(&place, "a `*` in `key`, which is left out with all that is within");
        return None;
    }
    let limit = node.at("rate_limit").and_then(|it| read_limit(it, is_shadow, &place, findings));
    if is_quota && limit.is_some() {
        let message = "`quota_mode`: it denies only if all such descriptors of a call are over \
                       their limits there, and whenever it is over its own here";
        findings.lose(&place, message);
    }
    let within = match node.at("descriptors") {
        Some(list) => read_list(list, &place, findings),
        None => Vec::new(),
    };
    Some(Descriptor { key, values, shares, limit, within, place })
}

/// Says what the setting `name` of a descriptor comes to, where that is nothing.
fn report(name: &str, place: &Place, findings: &mut Findings) {
    match name {
        "key" | "value" | "rate_limit" | "descriptors" | "shadow_mode" | "quota_mode"
        | "share_threshold" => {}
        "detailed_metric" | "value_to_metric" => {
            let message =
                format!("`{name}` has no counterpart: metrics are by limit, never by value");
            findings.drop(place, message);
        }
        "metadata" => {
            findings.drop(place, "`metadata` has no counterpart: answers carry none");
        }
        other => lose_unknown(place, other, findings),
    }
}

fn read_limit(
    node: &Node,
    is_shadow: bool,
    place: &Place,
    findings: &mut Findings,
) -> Option<Limit> {
    let place = place.at(node.line);
    let Kind::Table(entries) = &node.kind else {
        findings.lose(&place, "`rate_limit` is no table, and left out");
        return None;
    };
    for (name, node) in entries {
        if !["unit", "requests_per_unit", "unlimited", "name", "replaces"].contains(&name.as_str())
        {
            lose_unknown(&place.at(node.line), name, findings);
        }
    }
    if let Some(replaces) = node.at("replaces") {
        let message = "`replaces` has no counterpart: both limits hold. Send one descriptor or the \
                       other, or write an override";
        findings.lose(&place.at(replaces.line), message);
    }
    let amount = read_amount(node, &place, findings)?;
    Some(Limit { amount, is_shadow, name: text_at(node, "name", &place, findings) })
}

fn read_amount(node: &Node, place: &Place, findings: &mut Findings) -> Option<Amount> {
    if bool_at(node, "unlimited", place, findings) {
        return Some(Amount::Unlimited);
    }
    let unit = text_at(node, "unit", place, findings).unwrap_or_default();
    let Some((_, window)) = WINDOWS.iter().find(|(own, _)| unit.eq_ignore_ascii_case(own)) else {
        let message =
            format!("the unit `{}` is not known; the limit is left out", unit.escape_debug());
        findings.lose(place, message);
        return None;
    };
    let count = match text_at(node, "requests_per_unit", place, findings) {
        // Left out it is none there.
        None => Some(0),
        Some(text) => text.replace('_', "").parse().ok(),
    };
    let Some(count) = count else {
        let message = "`requests_per_unit` is no whole number of 32 bits; the limit is left out";
        findings.lose(place, message);
        return None;
    };
    Some(Amount::Per { count, window })
}

fn text_at(node: &Node, name: &str, place: &Place, findings: &mut Findings) -> Option<String> {
    match node.at(name)? {
        Node { kind: Kind::Text(text), .. } => Some(text.clone()),
        other => {
            findings.lose(&place.at(other.line), format!("`{name}` is no text, and left out"));
            None
        }
    }
}

fn bool_at(node: &Node, name: &str, place: &Place, findings: &mut Findings) -> bool {
    let Some(text) = text_at(node, name, place, findings) else { return false };
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "y" => true,
        "false" | "no" | "off" | "n" => false,
        _ => {
            let message = format!("`{name}` is neither `true` nor `false`, and left out");
            findings.lose(place, message);
            false
        }
    }
}
