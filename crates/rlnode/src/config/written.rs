//! The configuration file as written: names and typed values with their places in the text.
//!
//! It reads each setting with the type it is asked for and reports those that nobody asked for;
//! what they mean and how they fit together is not decided here.

use std::ops::RangeInclusive;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::error::{Problems, Span, quoted};
use super::settings::{PLACES, Place};

/// Longest unknown name for which a near one is sought: the cost grows with its length.
const NEAR_NAME_BYTES_MAX: usize = 64;

/// A table being read. [`Section::finish`] reports the settings that were never taken.
pub(super) struct Section<'v, 'a> {
    place: &'static Place,
    table: &'v DeTable<'a>,
    span: Span,
    taken: Vec<&'static str>,
}

impl<'v, 'a> Section<'v, 'a> {
    pub(super) fn new(place: &'static Place, table: &'v DeTable<'a>, span: Span) -> Self {
        Self { place, table, span, taken: Vec::new() }
    }

    /// The table's header, or the table itself where it is written inline.
    pub(super) fn span(&self) -> &Span {
        &self.span
    }

    /// Where the setting `name` is written, if it is.
    pub(super) fn name_span(&self, name: &str) -> Option<Span> {
        self.table.get_key_value(name).map(|(key, _)| key.span())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.table.contains_key(name)
    }

    /// The value of `name`, of any type.
    pub(super) fn take(&mut self, name: &'static str) -> Option<&'v Spanned<DeValue<'a>>> {
        debug_assert!(self.example(name).is_some(), "`{name}` is not listed in its place");
        self.taken.push(name);
        self.table.get(name)
    }

    /// Text.
    pub(super) fn take_string(
        &mut self,
        name: &'static str,
        problems: &mut Problems,
    ) -> Option<Spanned<&'v str>> {
        let value = self.take(name)?;
        match value.get_ref().as_str() {
            Some(text) => Some(Spanned::new(value.span(), text)),
            None => self.wrong_type(name, value, "a string", problems),
        }
    }

    /// Text that `parse` gives a meaning.
    pub(super) fn take_parsed<T>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
        problems: &mut Problems,
    ) -> Option<Spanned<T>> {
        let text = self.take_string(name, problems)?;
        match parse(text.get_ref()) {
            Ok(value) => Some(Spanned::new(text.span(), value)),
            Err(message) => {
                problems.add(&text.span(), message);
                None
            }
        }
    }

    /// One of `words`; those that stand with a message are known and refused with it.
    pub(super) fn take_word<T: Copy>(
        &mut self,
        name: &'static str,
        words: &[(&'static str, Result<T, &'static str>)],
        problems: &mut Problems,
    ) -> Option<T> {
        let parse = |text: &str| match words.iter().find(|(word, _)| *word == text) {
            Some((_, Ok(value))) => Ok(*value),
            Some((word, Err(why))) => Err(format!("`{word}` is refused for `{name}`: {why}")),
            None => {
                let accepted = words.iter().filter(|(_, value)| value.is_ok());
                let list: Vec<_> = accepted.map(|(word, _)| format!("`{word}`")).collect();
                let text = quoted(text);
                Err(format!("unknown value {text} for `{name}`; write {}", list.join(" or ")))
            }
        };
        Some(self.take_parsed(name, parse, problems)?.into_inner())
    }

    /// Yes or no.
    pub(super) fn take_bool(
        &mut self,
        name: &'static str,
        problems: &mut Problems,
    ) -> Option<Spanned<bool>> {
        let value = self.take(name)?;
        match value.get_ref().as_bool() {
            Some(is) => Some(Spanned::new(value.span(), is)),
            None => self.wrong_type(name, value, "`true` or `false`", problems),
        }
    }

    /// A whole number within `range`.
    pub(super) fn take_integer(
        &mut self,
        name: &'static str,
        range: RangeInclusive<u64>,
        problems: &mut Problems,
    ) -> Option<Spanned<u64>> {
        let value = self.take(name)?;
        let Some(integer) = value.get_ref().as_integer() else {
            return self.wrong_type(name, value, "a whole number", problems);
        };
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
        match number.filter(|number| range.contains(number)) {
            Some(number) => Some(Spanned::new(value.span(), number)),
            None => {
                let text = quoted(&integer.to_string());
                let (min, max) = range.into_inner();
                problems.add(
                    &value.span(),
                    format!("{text} is out of range for `{name}`; write {min} to {max}"),
                );
                None
            }
        }
    }

    /// A list of texts. A text alone is a list of one; an empty list is refused.
    pub(super) fn take_strings(
        &mut self,
        name: &'static str,
        problems: &mut Problems,
    ) -> Option<Vec<Spanned<&'v str>>> {
        let value = self.take(name)?;
        if let Some(text) = value.get_ref().as_str() {
            return Some(vec![Spanned::new(value.span(), text)]);
        }
        let Some(array) = value.get_ref().as_array() else {
            return self.wrong_type(name, value, "a list of strings", problems);
        };
        if array.is_empty() {
            problems.add(&value.span(), format!("`{name}` is empty; leave it out"));
            return None;
        }
        let mut texts = Vec::with_capacity(array.len());
        for item in array.iter() {
            match item.get_ref().as_str() {
                Some(text) => texts.push(Spanned::new(item.span(), text)),
                None => return self.wrong_type(name, item, "a list of strings", problems),
            }
        }
        Some(texts)
    }

    /// A table of texts, such as `{ plan = "pro" }`, by name. An empty one is refused.
    pub(super) fn take_string_table(
        &mut self,
        name: &'static str,
        problems: &mut Problems,
    ) -> Option<Vec<(&'v str, &'v str)>> {
        let value = self.take(name)?;
        let Some(table) = value.get_ref().as_table() else {
            return self.wrong_type(name, value, "a table of strings", problems);
        };
        if table.is_empty() {
            problems.add(&value.span(), format!("`{name}` is empty; leave it out"));
            return None;
        }
        let mut pairs = Vec::with_capacity(table.len());
        for (key, item) in table.iter() {
            match item.get_ref().as_str() {
                Some(text) => pairs.push((key.get_ref().as_ref(), text)),
                None => return self.wrong_type(name, item, "a table of strings", problems),
            }
        }
        Some(pairs)
    }

    /// A table within this one.
    pub(super) fn take_section(
        &mut self,
        name: &'static str,
        place: &'static Place,
        problems: &mut Problems,
    ) -> Option<Section<'v, 'a>> {
        let value = self.take(name)?;
        match value.get_ref().as_table() {
            Some(table) => Some(Section::new(place, table, value.span())),
            None => self.wrong_type(name, value, "a table", problems),
        }
    }

    /// A list of tables within this one, in the order of the file.
    pub(super) fn take_sections(
        &mut self,
        name: &'static str,
        place: &'static Place,
        problems: &mut Problems,
    ) -> Option<Vec<Section<'v, 'a>>> {
        let value = self.take(name)?;
        let Some(array) = value.get_ref().as_array() else {
            return self.wrong_type(name, value, "a list of tables", problems);
        };
        let mut sections = Vec::with_capacity(array.len());
        for item in array.iter() {
            match item.get_ref().as_table() {
                Some(table) => sections.push(Section::new(place, table, item.span())),
                None => return self.wrong_type(name, item, "a list of tables", problems),
            }
        }
        Some(sections)
    }

    /// Reports every setting that was not taken, in the order of the file.
    pub(super) fn finish(self, problems: &mut Problems) {
        let is_taken = |key: &Spanned<DeString<'_>>| self.taken.contains(&key.get_ref().as_ref());
        let mut unknown: Vec<_> = self.table.keys().filter(|key| !is_taken(key)).collect();
        unknown.sort_by_key(|key| key.span().start);
        for key in unknown {
            problems.add_lazily(&key.span(), || self.unknown(key.get_ref()));
        }
    }

    fn unknown(&self, name: &str) -> String {
        if let Some((_, why)) = self.place.refused.iter().find(|(refused, _)| *refused == name) {
            return (*why).into();
        }
        let (shown, title) = (quoted(name), self.place.title);
        let near = nearest(name, self.place.settings.iter().map(|(known, _)| *known));
        let holders = PLACES.iter().filter(|p| p.settings.iter().any(|(known, _)| *known == name));
        let nested_first = |p: &&&Place| !p.title.starts_with(title.trim_end_matches(']'));
        let instead = match (holders.min_by_key(nested_first), near) {
            (Some(holder), Some(near)) => {
                format!("it belongs {}, or did you mean `{near}`?", holder.title)
            }
            (Some(holder), None) => format!("it belongs {}", holder.title),
            (None, Some(near)) => format!("did you mean `{near}`?"),
            (None, None) => {
                let known: Vec<_> = self.place.settings.iter().map(|(known, _)| *known).collect();
                format!("the names known there are {}", known.join(", "))
            }
        };
        format!("unknown name {shown} {title}; {instead}")
    }

    fn example(&self, name: &str) -> Option<&'static str> {
        let setting = self.place.settings.iter().find(|(known, _)| *known == name);
        setting.map(|(_, example)| *example)
    }

    /// Reports that `value` is not the `expected` thing. Always none, to be returned.
    pub(super) fn wrong_type<T>(
        &self,
        name: &str,
        value: &Spanned<DeValue<'_>>,
        expected: &str,
        problems: &mut Problems,
    ) -> Option<T> {
        let found = match value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number with a point",
            DeValue::Boolean(_) => "`true` or `false`",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        let example = self.example(name).unwrap_or_default();
        problems.add(
            &value.span(),
            format!("`{name}` takes {expected}, not {found}; write it like `{example}`"),
        );
        None
    }
}

/// The one of `known` that `name` was probably meant to be.
pub(super) fn nearest<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    if name.len() > NEAR_NAME_BYTES_MAX {
        return None;
    }
    let normal = name.to_ascii_lowercase().replace('-', "_");
    let distances = known.map(|candidate| {
        let comparable = candidate.to_ascii_lowercase().replace('-', "_");
        (strsim::damerau_levenshtein(&normal, &comparable), candidate)
    });
    let (distance, candidate) = distances.min_by_key(|(distance, _)| *distance)?;
    // A third of the letters may differ: `bursts`, `endpont`, but not `http` for `unix`.
    (distance <= 1.max(candidate.len() / 3)).then_some(candidate)
}
