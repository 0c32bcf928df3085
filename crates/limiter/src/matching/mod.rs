//! Which limits apply to a request, and which override of each: compiled so that the time does not
//! grow with the number of limits that do not apply.
//!
//! Every limit and override is filed under one *anchor*, a thing that a request must have for it to
//! match: a listed key, else whichever of its attributes and endpoint patterns the fewest others
//! name, else nothing. A request looks its own anchors up, and only what it finds there is tested in
//! full.

mod considered;
mod index;
mod pattern;

use hashbrown::HashMap;
use smallvec::SmallVec;

pub use considered::{CONSIDERED_MAX, Consideration, Considered, Fit, Lack};
pub(crate) use index::PatternId;
use index::{EndpointIndex, Matches};
pub(crate) use pattern::{Pattern, PatternRank};

use crate::Request;
use crate::template::{KeyTemplate, Source};

/// Number of a limit or override in its limiter: it keeps it when other limits come and go.
pub(crate) type Slot = u16;

/// Place of a limit or override in the order of the file.
pub(crate) type RuleIndex = u16;

/// The rules that apply to one request, one per limit, in the order of the file.
pub(crate) type Matched = SmallVec<[RuleIndex; 4]>;

/// How specific a selector is: by listed keys, then attributes, then endpoint. Greater decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    pub(crate) keys: bool,
    pub(crate) attributes: usize,
    pub(crate) endpoint: PatternRank,
}

/// What a request must have for a rule to apply. A limit's own conditions are among those of each of
/// its overrides.
#[derive(Clone, Debug)]
pub(crate) struct Conditions {
    /// Index of the limit that the rule belongs to.
    pub(crate) limit: u16,
    /// Greater decides among the rules of one limit.
    pub(crate) rank: Rank,
    /// Patterns that the endpoint must match: the override's first, then the limit's.
    pub(crate) patterns: SmallVec<[PatternId; 2]>,
    /// Attributes that it must have: the override's first, then the limit's.
    pub(crate) attributes: Vec<(String, Vec<u8>)>,
    /// Values of the bucket's key that it must have, each list in its normal form.
    pub(crate) keys: SmallVec<[KeyList; 1]>,
}

/// The listed keys of a selector: the bucket's key must be one of them.
#[derive(Clone, Debug)]
pub(crate) struct KeyList {
    pub(crate) template: KeyTemplate,
    /// Normalised and sorted.
    pub(crate) values: Vec<Vec<u8>>,
}

impl KeyList {
    /// The one source of the limit's key; a list is only compiled where there is one.
    fn source(&self) -> Option<&Source> {
        self.template.single_source()
    }

    fn contains(&self, request: &Request<'_>) -> bool {
        self.source().and_then(|source| self.template.value(source, request)).is_some_and(|value| {
            self.values.binary_search_by(|v| v.as_slice().cmp(value.as_slice())).is_ok()
        })
    }
}

/// Finds the rules that apply to a request.
#[derive(Debug, Default)]
pub(crate) struct Matcher {
    rules: Vec<Conditions>,
    index: EndpointIndex,
    /// Rules without an anchor have no conditions: they apply to every request.
    always: Vec<RuleIndex>,
    by_pattern: Vec<Vec<RuleIndex>>,
    /// By name, then by value.
    by_attribute: HashMap<String, HashMap<Vec<u8>, Vec<RuleIndex>>>,
    by_key: Vec<KeyAnchors>,
}

/// Rules filed under the values of one source of keys.
#[derive(Debug)]
struct KeyAnchors {
    /// Any template with this source and normal form.
    template: KeyTemplate,
    values: HashMap<Vec<u8>, Vec<RuleIndex>>,
}

impl Matcher {
    /// A matcher of `rules`, which stand in the order of the file, over the endpoint `patterns`.
    pub(crate) fn new(rules: Vec<Conditions>, patterns: Vec<Pattern>) -> Self {
        let mut matcher = Self { by_pattern: vec![Vec::new(); patterns.len()], ..Self::default() };
        let popularity = Popularity::of(&rules);
        for (index, rule) in (0..=RuleIndex::MAX).zip(&rules) {
            matcher.file(index, rule, &popularity);
        }
        drop(popularity);
        matcher.index = EndpointIndex::new(patterns);
        matcher.rules = rules;
        matcher
    }

    fn file(&mut self, index: RuleIndex, rule: &Conditions, popularity: &Popularity<'_>) {
        if let Some(list) = rule.keys.first() {
            self.file_by_key(index, list);
            return;
        }
        let attribute = rule.attributes.iter().min_by_key(|pair| popularity.of_attribute(pair));
        let pattern = rule.patterns.iter().min_by_key(|id| popularity.of_pattern(**id));
        match (attribute, pattern) {
            (Some(pair), Some(id))
                if popularity.of_pattern(*id) < popularity.of_attribute(pair) =>
            {
                self.by_pattern[usize::from(*id)].push(index);
            }
            (Some((name, value)), _) => {
                let values = self.by_attribute.entry(name.clone()).or_default();
                values.entry(value.clone()).or_default().push(index);
            }
            (None, Some(id)) => self.by_pattern[usize::from(*id)].push(index),
            (None, None) => self.always.push(index),
        }
    }

    fn file_by_key(&mut self, index: RuleIndex, list: &KeyList) {
        let template = &list.template;
        let at = self.by_key.iter().position(|anchors| {
            anchors.template.single_source() == template.single_source()
                && anchors.template.ipv6_prefix() == template.ipv6_prefix()
        });
        let at = at.unwrap_or_else(|| {
            self.by_key.push(KeyAnchors { template: template.clone(), values: HashMap::new() });
            self.by_key.len() - 1
        });
        for value in &list.values {
            self.by_key[at].values.entry(value.clone()).or_default().push(index);
        }
    }

    /// The rule of each limit that applies to `request`: its most specific override that matches,
    /// else the limit itself.
    pub(crate) fn matched(&self, request: &Request<'_>) -> Matched {
        let endpoint = self.index.matches(request.endpoint);
        let mut found = Matched::from_slice(&self.always);
        let mut add = |indices: &[RuleIndex]| {
            for index in indices {
                if self.applies(*index, request, &endpoint) {
                    found.push(*index);
                }
            }
        };
        for pattern in &endpoint {
            add(&self.by_pattern[usize::from(*pattern)]);
        }
        if !self.by_attribute.is_empty() {
            for (name, value) in &request.attributes {
                let values = std::str::from_utf8(name).ok().and_then(|n| self.by_attribute.get(n));
                if let Some(indices) = values.and_then(|values| values.get(*value)) {
                    add(indices);
                }
            }
        }
        for anchors in &self.by_key {
            let source = anchors.template.single_source();
            let value = source.and_then(|source| anchors.template.value(source, request));
            if let Some(indices) = value.and_then(|value| anchors.values.get(value.as_slice())) {
                add(indices);
            }
        }
        self.keep_most_specific(&mut found);
        found
    }

    fn keep_most_specific(&self, found: &mut Matched) {
        if found.len() > 1 {
            let rule = |index: RuleIndex| &self.rules[usize::from(index)];
            found.sort_unstable_by(|a, b| {
                let (a, b) = (rule(*a), rule(*b));
                a.limit.cmp(&b.limit).then(b.rank.cmp(&a.rank))
            });
            found.dedup_by_key(|index| rule(*index).limit);
        }
    }

    fn applies(&self, index: RuleIndex, request: &Request<'_>, endpoint: &Matches) -> bool {
        let rule = &self.rules[usize::from(index)];
        rule.patterns.iter().all(|pattern| endpoint.contains(pattern))
            && rule
                .attributes
                .iter()
                .all(|(name, value)| request.attribute(name) == Some(value.as_slice()))
            && rule.keys.iter().all(|list| list.contains(request))
    }
}

/// How many rules name each attribute with its value, and each pattern.
#[derive(Default)]
struct Popularity<'r> {
    attributes: HashMap<&'r (String, Vec<u8>), usize>,
    patterns: HashMap<PatternId, usize>,
}

impl<'r> Popularity<'r> {
    fn of(rules: &'r [Conditions]) -> Self {
        let mut popularity = Self::default();
        for rule in rules {
            for pair in &rule.attributes {
                *popularity.attributes.entry(pair).or_default() += 1;
            }
            for id in &rule.patterns {
                *popularity.patterns.entry(*id).or_default() += 1;
            }
        }
        popularity
    }

    fn of_attribute(&self, pair: &(String, Vec<u8>)) -> usize {
        self.attributes.get(pair).copied().unwrap_or(0)
    }

    fn of_pattern(&self, id: PatternId) -> usize {
        self.patterns.get(&id).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(attributes: &[(&str, &str)], patterns: &[PatternId]) -> Conditions {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), value.as_bytes().to_vec());
        Conditions {
            limit: 0,
            rank: Rank::default(),
            patterns: patterns.iter().copied().collect(),
            attributes: attributes.iter().map(pair).collect(),
            keys: SmallVec::new(),
        }
    }

    #[test]
    fn no_anchor_is_shared_by_rules_that_have_a_rarer_one() {
        let patterns = (0..100).map(|n| Pattern::parse(&format!("/p{n}")).unwrap()).collect();
        let by_zone =
            (0..100).map(|n| conditions(&[("plan", "pro"), ("zone", &n.to_string())], &[]));
        let by_path = (0..100).map(|n| conditions(&[("plan", "pro")], &[n]));
        let matcher = Matcher::new(by_zone.chain(by_path).collect(), patterns);
        let longest = matcher.by_attribute.values().flat_map(|values| values.values());
        assert_eq!(longest.map(Vec::len).max(), Some(1));
        assert_eq!(matcher.by_pattern.iter().map(Vec::len).max(), Some(1));
        assert!(matcher.always.is_empty());
    }
}
