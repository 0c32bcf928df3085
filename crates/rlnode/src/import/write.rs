//! The file of a node, as text.

use std::fmt::Write;

use super::compile::{Compiled, Mapping, NamedLimit};
use super::finding::Finding;
use super::reference::Amount;

/// Where the node listens, as in the manual.
const LISTEN: &str = "[listen]\nenvoy = \"127.0.0.1:7481\"\n";

/// Writes it.
pub(super) fn write(compiled: &Compiled, sources: &[&str], findings: &[Finding]) -> String {
    let mut text = String::new();
    comment(&mut text, &format!("Made by `rlnode import envoy {}`.", sources.join(" ")));
    for finding in findings.iter().filter(|finding| finding.decides) {
        comment(&mut text, &format!("Not as there: {finding}"));
    }
    text.push('\n');
    text.push_str(LISTEN);
    for limit in &compiled.limits {
        text.push('\n');
        write_limit(&mut text, limit);
    }
    for mapping in &compiled.mappings {
        text.push('\n');
        write_mapping(&mut text, mapping);
    }
    text
}

fn write_limit(text: &mut String, limit: &NamedLimit) {
    comment(text, &format!("{} ({}:{})", limit.place.path, limit.place.file, limit.place.line));
    text.push_str("[[limit]]\n");
    set(text, "name", &quoted(&limit.name));
    set(text, "endpoint", &quoted(&limit.endpoint));
    set(text, "key", &quoted(&limit.key));
    match limit.amount {
        Amount::Unlimited => set(text, "unlimited", "true"),
        Amount::Per { count: 0, .. } => set(text, "deny", "true"),
        Amount::Per { count, window } => {
            set(text, "algorithm", &quoted("fixed-window"));
            set(text, "limit", &quoted(&format!("{count} per {window}")));
        }
    }
    if limit.is_shadow {
        set(text, "shadow", "true");
    }
}

fn write_mapping(text: &mut String, mapping: &Mapping) {
    if mapping.is_nothing {
        comment(text, "No limit: what stands first there decides, and has nothing that fits.");
    }
    text.push_str("[[envoy]]\n");
    set(text, "domain", &quoted(&mapping.domain));
    let entries: Vec<_> = mapping.descriptor.iter().map(|entry| quoted(entry)).collect();
    set(text, "descriptor", &format!("[{}]", entries.join(", ")));
    set(text, "key", &quoted(&mapping.key));
    set(text, "endpoint", &quoted(&mapping.endpoint));
    if !mapping.attributes.is_empty() {
        let attribute =
            |(name, value): &(String, String)| format!("{} = {}", quoted(name), quoted(value));
        let attributes: Vec<_> = mapping.attributes.iter().map(attribute).collect();
        set(text, "attributes", &format!("{{ {} }}", attributes.join(", ")));
    }
}

fn set(text: &mut String, name: &str, value: &str) {
    text.extend([name, " = ", value, "\n"]);
}

fn comment(text: &mut String, line: &str) {
    text.push_str("# ");
    text.extend(line.chars().map(|c| if c.is_control() { ' ' } else { c }));
    text.push('\n');
}

/// A basic string of TOML.
fn quoted(value: &str) -> String {
    let mut quoted = String::with_capacity(value.len() + 2);
    quoted.push('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                // Writing to a `String` does not fail.
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
