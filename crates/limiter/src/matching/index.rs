//! Finds the patterns that an endpoint matches, without trying each: exact paths by hash, templates
//! by a tree of segments, prefixes by one binary search.

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::pattern::{PathPattern, Pattern, Segment, split_method};

/// Number of a pattern in its index.
pub(crate) type PatternId = u16;

/// Patterns matched by one endpoint, in no order.
pub(crate) type Matches = SmallVec<[PatternId; 8]>;

/// An index of endpoint patterns.
#[derive(Debug, Default)]
pub(crate) struct EndpointIndex {
    patterns: Vec<Pattern>,
    exact: HashMap<Vec<u8>, Vec<PatternId>>,
    templates: TemplateNode,
    /// Sorted by their bytes.
    prefixes: Vec<Prefix>,
}

#[derive(Debug, Default)]
struct TemplateNode {
    literals: HashMap<Vec<u8>, TemplateNode>,
    any: Option<Box<TemplateNode>>,
    ends: Vec<PatternId>,
}

#[derive(Debug)]
struct Prefix {
    bytes: Vec<u8>,
    /// The longest other prefix in the index that this one starts with.
    parent: Option<usize>,
    ids: Vec<PatternId>,
}

impl EndpointIndex {
    /// An index of `patterns`; a pattern's id is its place in the list.
    pub(crate) fn new(patterns: Vec<Pattern>) -> Self {
        let mut index = Self::default();
        let mut prefixes: Vec<(Vec<u8>, PatternId)> = Vec::new();
        for (id, pattern) in (0..=PatternId::MAX).zip(&patterns) {
            match &pattern.path {
                PathPattern::Exact(path) => index.exact.entry(path.clone()).or_default().push(id),
                PathPattern::Template(segments) => index.templates.insert(segments, id),
                PathPattern::Prefix(prefix) => prefixes.push((prefix.clone(), id)),
            }
        }
        prefixes.sort();
        for (bytes, id) in prefixes {
            index.insert_prefix(bytes, id);
        }
        index.patterns = patterns;
        index
    }

    fn insert_prefix(&mut self, bytes: Vec<u8>, id: PatternId) {
        if let Some(last) = self.prefixes.last_mut().filter(|last| last.bytes == bytes) {
            last.ids.push(id);
            return;
        }
        // In sorted order, whatever this one starts with is the last one or an ancestor of it.
        let mut parent = self.prefixes.len().checked_sub(1);
        while let Some(at) = parent.filter(|at| !bytes.starts_with(&self.prefixes[*at].bytes)) {
            parent = self.prefixes[at].parent;
        }
        self.prefixes.push(Prefix { bytes, parent, ids: vec![id] });
    }

    /// Every pattern that `endpoint` matches.
    pub(crate) fn matches(&self, endpoint: &[u8]) -> Matches {
        let mut found = Matches::new();
        if self.patterns.is_empty() {
            return found;
        }
        let (method, path) = split_method(endpoint);
        if let Some(ids) = self.exact.get(path) {
            self.add(ids, method, &mut found);
        }
        self.match_templates(&self.templates, Some(path), method, &mut found);
        self.match_prefixes(path, method, &mut found);
        found
    }

    /// Walks the tree; visits each node at most once, whatever the path.
    fn match_templates(
        &self,
        node: &TemplateNode,
        path: Option<&[u8]>,
        method: Option<&[u8]>,
        found: &mut Matches,
    ) {
        let Some(path) = path else {
            self.add(&node.ends, method, found);
            return;
        };
        if node.literals.is_empty() && node.any.is_none() {
            return;
        }
        let mut halves = path.splitn(2, |b| *b == b'/');
        let (segment, rest) = (halves.next().unwrap_or_default(), halves.next());
        if let Some(next) = node.literals.get(segment) {
            self.match_templates(next, rest, method, found);
        }
        if let Some(next) = node.any.as_deref().filter(|_| !segment.is_empty()) {
            self.match_templates(next, rest, method, found);
        }
    }

    fn match_prefixes(&self, path: &[u8], method: Option<&[u8]>, found: &mut Matches) {
        // Every prefix of the path is the greatest one not above it, or an ancestor of that one.
        let after = self.prefixes.partition_point(|prefix| prefix.bytes.as_slice() <= path);
        let mut at = after.checked_sub(1);
        while let Some(prefix) = at.map(|at| &self.prefixes[at]) {
            if path.starts_with(&prefix.bytes) {
                self.add(&prefix.ids, method, found);
            }
            at = prefix.parent;
        }
    }

    fn add(&self, ids: &[PatternId], method: Option<&[u8]>, found: &mut Matches) {
        for id in ids {
            if self.patterns[usize::from(*id)].takes_method(method) {
                found.push(*id);
            }
        }
    }
}

impl TemplateNode {
    fn insert(&mut self, segments: &[Segment], id: PatternId) {
        match segments.split_first() {
            None => self.ends.push(id),
            Some((Segment::Literal(literal), rest)) => {
                self.literals.entry(literal.clone()).or_default().insert(rest, id);
            }
            Some((Segment::Any, rest)) => self.any.get_or_insert_default().insert(rest, id),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::pattern::template_matches;
    use super::*;

    fn matches(patterns: &[&str], endpoint: &str) -> Vec<String> {
        let compiled = patterns.iter().map(|text| Pattern::parse(text).unwrap()).collect();
        let mut found: Vec<_> = EndpointIndex::new(compiled)
            .matches(endpoint.as_bytes())
            .into_iter()
            .map(|id| patterns[usize::from(id)].to_owned())
            .collect();
        found.sort();
        found
    }

    #[test]
    fn finds_every_kind_with_and_without_a_method() {
        let all = [
            "*",
            "/*",
            "/users/*",
            "GET /users/*",
            "POST /users/*",
            "/users/{id}",
            "/{a}/7",
            "/users/7",
            "GET /users/7",
            "/users/8",
            "/user*",
            "/v*",
            "/users/{id}/x",
        ];
        assert_eq!(
            matches(&all, "GET /users/7"),
            [
                "*",
                "/*",
                "/user*",
                "/users/*",
                "/users/7",
                "/users/{id}",
                "/{a}/7",
                "GET /users/*",
                "GET /users/7"
            ]
        );
        assert_eq!(matches(&all, "/users/"), ["*", "/*", "/user*", "/users/*"]);
        assert_eq!(matches(&all, "login"), ["*"]);
    }

    #[test]
    fn bytes_are_compared_as_they_are() {
        for spelling in ["/login/", "//login", "/LOGIN", "/log%69n", "/login?x"] {
            assert!(matches(&["/login"], spelling).is_empty(), "{spelling}");
        }
    }

    fn naive(pattern: &Pattern, endpoint: &[u8]) -> bool {
        let (method, path) = split_method(endpoint);
        pattern.takes_method(method)
            && match &pattern.path {
                PathPattern::Exact(exact) => exact == path,
                PathPattern::Template(segments) => template_matches(segments, path),
                PathPattern::Prefix(prefix) => path.starts_with(prefix),
            }
    }

    proptest! {
        #[test]
        fn agrees_with_trying_each_pattern(
            texts in prop::collection::vec("(G /|/|)((a|b|ab|\\{x\\})/){0,3}(a|b|\\{y\\}|\\*|)", 1..24),
            endpoints in prop::collection::vec("(G /|/|)((a|b|ab|)/){0,3}(a|b|ab|)", 1..12),
        ) {
            let patterns: Vec<_> = texts.iter().filter_map(|text| Pattern::parse(text).ok()).collect();
            let index = EndpointIndex::new(patterns.clone());
            for endpoint in &endpoints {
                let mut found = index.matches(endpoint.as_bytes()).to_vec();
                found.sort_unstable();
                let expected: Vec<PatternId> = (0..)
                    .zip(&patterns)
                    .filter(|(_, pattern)| naive(pattern, endpoint.as_bytes()))
                    .map(|(id, _)| id)
                    .collect();
                prop_assert_eq!(found, expected, "{}", endpoint);
            }
        }

        #[test]
        fn patterns_that_match_one_endpoint_overlap(
            a in "(G /|/)((a|b|\\{x\\})/){0,2}(a|b|\\{y\\}|\\*|)",
            b in "(G /|/)((a|b|\\{x\\})/){0,2}(a|b|\\{y\\}|\\*|)",
            endpoint in "(G /|/)((a|b)/){0,2}(a|b|)",
        ) {
            if let (Ok(a), Ok(b)) = (Pattern::parse(&a), Pattern::parse(&b)) {
                let endpoint = endpoint.as_bytes();
                if naive(&a, endpoint) && naive(&b, endpoint) {
                    prop_assert!(a.overlaps(&b));
                }
            }
        }
    }
}
