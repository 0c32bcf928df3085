//! `[[envoy]]`: what descriptors of Envoy's rate limit filter mean.

use limiter::{ATTRIBUTE_NAME_BYTES_MAX, ATTRIBUTES_MAX, UNIT_BYTES_MAX};
use toml::Spanned;

use super::error::{Problems, Span, quoted};
use super::written::Section;
use crate::endpoint::envoy::mapping::{MAPPINGS_MAX, Mapping, Mappings, Template};
use crate::endpoint::envoy::values::{VALUES_BYTES_MAX, Values};

/// Reads every `[[envoy]]`.
pub(super) fn read_mappings(sections: Vec<Section<'_, '_>>, problems: &mut Problems) -> Mappings {
    let mut read: Vec<(Mapping, Span)> = Vec::new();
    for section in sections {
        let span = section.span().clone();
        if read.len() >= MAPPINGS_MAX {
            problems
                .add(&span, format!("there are more than {MAPPINGS_MAX} `[[envoy]]`; write fewer"));
            break;
        }
        let Some(mapping) = read_mapping(section, problems) else { continue };
        if let Some((_, other)) = read.iter().find(|(other, _)| other.ties_with(&mapping)) {
            let message = "two mappings could decide the same descriptor and neither is more \
                           specific; name their entries in the same order, or change what one of \
                           them names";
            problems.add_pair(&span, other, message);
        }
        read.push((mapping, span));
    }
    Mappings(read.into_iter().map(|(mapping, _)| mapping).collect())
}

fn read_mapping(mut section: Section<'_, '_>, problems: &mut Problems) -> Option<Mapping> {
    let domain = section.take_string("domain", problems).map(|it| it.into_inner().to_owned());
    let descriptor = read_descriptor(&mut section, problems);
    let key = section.take_parsed("key", Template::parse, problems);
    if !section.has("key") {
        let message = "the mapping gives no key; write `key = \"{ENTRY}\"`";
        problems.add(section.span(), message);
    }
    let endpoint = section.take_parsed("endpoint", Template::parse, problems);
    let debit = section.take_bool("debit", problems).is_some_and(Spanned::into_inner);
    let unit = section.take_parsed("unit", parse_unit, problems).map(Spanned::into_inner);
    let span = section.name_span("attributes").unwrap_or_else(|| section.span().clone());
    let written = section.take_string_table("attributes", problems).unwrap_or_default();
    let attributes = read_attributes(written, &span, problems);
    let whole = section.span().clone();
    section.finish(problems);
    let (descriptor, key) = (descriptor?, key?.into_inner());
    let mapping = Mapping {
        domain,
        descriptor,
        key,
        endpoint: endpoint.map(Spanned::into_inner).unwrap_or_default(),
        attributes: attributes?,
        debit,
        unit,
    };
    let templates = [&mapping.key, &mapping.endpoint];
    let templates = templates.into_iter().chain(mapping.attributes.iter().map(|(_, it)| it));
    let named = |name: &str| mapping.descriptor.iter().any(|(own, _)| own == name);
    if let Some(unknown) = templates.flat_map(Template::entries).find(|name| !named(name)) {
        let unknown = quoted(&format!("{{{unknown}}}"));
        problems
            .add(&whole, format!("{unknown} is no entry that `descriptor` names; add it there"));
        return None;
    }
    Some(mapping)
}

/// `["remote_address", "generic_key=slow", "path=/static/*"]`: names of entries, each with its values where
/// they matter.
fn read_descriptor(
    section: &mut Section<'_, '_>,
    problems: &mut Problems,
) -> Option<Vec<(String, Values)>> {
    let Some(written) = section.take_strings("descriptor", problems) else {
        if !section.has("descriptor") {
            let message =
                "nothing says which descriptors are meant; write `descriptor = [\"ENTRY\"]`";
            problems.add(section.span(), message);
        }
        return None;
    };
    let mut entries: Vec<(String, Values)> = Vec::new();
    for text in &written {
        let (name, values) = match text.get_ref().split_once('=') {
            Some((name, values)) => (name, Some(values)),
            None => (*text.get_ref(), None),
        };
        if name.is_empty() {
            problems.add(&text.span(), "the entry has no name; write `name`, or `name=value`");
            return None;
        }
        if values.is_some_and(|values| values.len() > VALUES_BYTES_MAX) {
            let message =
                format!("the value is longer than {VALUES_BYTES_MAX} bytes; end it with `*`");
            problems.add(&text.span(), message);
            return None;
        }
        entries.push((name.to_owned(), values.map_or(Values::Any, Values::parse)));
    }
    Some(entries)
}

fn read_attributes(
    written: Vec<(&str, &str)>,
    span: &Span,
    problems: &mut Problems,
) -> Option<Vec<(String, Template)>> {
    if written.len() > ATTRIBUTES_MAX {
        let message = format!("a request has {ATTRIBUTES_MAX} attributes at most; name fewer");
        problems.add(span, message);
        return None;
    }
    let mut attributes = Vec::with_capacity(written.len());
    for (name, text) in written {
        if !(1..=ATTRIBUTE_NAME_BYTES_MAX).contains(&name.len()) {
            let message = format!(
                "the attribute {} is not 1 to {ATTRIBUTE_NAME_BYTES_MAX} bytes long",
                quoted(name)
            );
            problems.add(span, message);
            return None;
        }
        match Template::parse(text) {
            Ok(template) => attributes.push((name.to_owned(), template)),
            Err(message) => {
                problems.add(span, message);
                return None;
            }
        }
    }
    Some(attributes)
}

fn parse_unit(text: &str) -> Result<String, String> {
    match text.len() {
        1..=UNIT_BYTES_MAX => Ok(text.to_owned()),
        _ => Err(format!("the unit {} is not 1 to {UNIT_BYTES_MAX} bytes long", quoted(text))),
    }
}
