//! Why a limit applies to a request or does not, and which of its overrides decides: for people who ask
//! what the file means. No check comes here.

use std::cmp::Reverse;
use std::ops::Range;

use super::index::Matches;
use super::{Conditions, Matcher, RuleIndex};
use crate::Request;
use crate::plan::Plan;

/// Most overrides told of one limit; the rest are counted.
pub const CONSIDERED_MAX: usize = 16;

/// What a request lacks for a rule to match it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Its endpoint is another.
    Endpoint,
    /// It has no attribute of this name, or another value of it.
    Attribute(String),
    /// Its key is not one of those that are listed.
    Key,
}

/// Whether a rule matches a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It matches, and decides for its limit.
    Decides,
    /// It matches, and a more specific one decides.
    LessSpecific,
    /// It does not match: all that the request lacks, at least one thing.
    Lacks(Vec<Lack>),
}

/// A limit or override that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Considered {
    /// Its place in [`Plan::rules`].
    pub index: u16,
    /// Whether it matches.
    pub fit: Fit,
}

/// A limit that applies to a request, or names its endpoint or key and does not apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consideration {
    /// The rules of the limit from the most specific to the limit itself, which is the last. If the
    /// limit does not apply it stands alone: then none of its overrides is asked.
    pub rules: Vec<Considered>,
    /// Overrides that do not match and were left out of `rules`: of more than [`CONSIDERED_MAX`] those
    /// that lack the most.
    pub left_out: usize,
}

impl Consideration {
    /// The rule that decides; none: the limit does not apply.
    pub fn decides(&self) -> Option<u16> {
        self.rules.iter().find(|rule| rule.fit == Fit::Decides).map(|rule| rule.index)
    }
}

impl Plan {
    /// The limits that apply to `request` and those that name its endpoint or its key and do not, in
    /// the order of the file; and how many there are beside. Looks at every rule: for people, not for
    /// every request.
    pub fn consider(&self, request: &Request<'_>) -> (Vec<Consideration>, usize) {
        let matcher = self.matcher();
        let endpoint = matcher.index.matches(request.endpoint);
        let (mut found, mut others, mut from) = (Vec::new(), 0, 0);
        for limit in self.limits() {
            let end = from + 1 + limit.overrides.len();
            match matcher.consider(from..end, request, &endpoint) {
                Some(consideration) => found.push(consideration),
                None => others += 1,
            }
            from = end;
        }
        (found, others)
    }
}

impl Plan {
    /// What a request that carries terms meets: the carried limit, which decides.
    pub(crate) fn carried_alone(&self) -> Vec<Consideration> {
        let index = self.carried_index().into_iter();
        let consideration = |index| Consideration {
            rules: vec![Considered { index, fit: Fit::Decides }],
            left_out: 0,
        };
        index.map(consideration).collect()
    }
}

impl Matcher {
    /// The limit that has these `indices`, its own first; none if it does not apply and names neither the
    /// endpoint nor the key of `request`.
    fn consider(
        &self,
        indices: Range<usize>,
        request: &Request<'_>,
        endpoint: &Matches,
    ) -> Option<Consideration> {
        let mut indices = indices.filter_map(|index| RuleIndex::try_from(index).ok());
        let limit = indices.next()?;
        let lacks = self.lacks(limit, request, endpoint);
        if !lacks.is_empty() {
            let rules = vec![Considered { index: limit, fit: Fit::Lacks(lacks) }];
            return self
                .is_named(limit, request, endpoint)
                .then_some(Consideration { rules, left_out: 0 });
        }
        let mut considered: Vec<_> =
            indices.map(|index| (index, self.lacks(index, request, endpoint))).collect();
        // Those that lack the least are the ones that somebody may have meant.
        considered.sort_by_key(|(_, lacks)| lacks.len());
        let matching = considered.iter().filter(|(_, lacks)| lacks.is_empty()).count();
        let left_out = considered.len().saturating_sub(CONSIDERED_MAX.max(matching));
        considered.truncate(considered.len() - left_out);
        considered.sort_by_key(|(index, _)| Reverse(self.rule(*index).rank));
        considered.push((limit, Vec::new()));
        let mut is_decided = false;
        let rules = considered.into_iter().map(|(index, lacks)| {
            let fit = match (lacks.is_empty(), is_decided) {
                (false, _) => Fit::Lacks(lacks),
                (true, false) => Fit::Decides,
                (true, true) => Fit::LessSpecific,
            };
            is_decided |= fit == Fit::Decides;
            Considered { index, fit }
        });
        Some(Consideration { rules: rules.collect(), left_out })
    }

    /// Everything that `request`, whose endpoint matches `endpoint`, lacks for the rule at `index`.
    fn lacks(&self, index: RuleIndex, request: &Request<'_>, endpoint: &Matches) -> Vec<Lack> {
        let rule = self.rule(index);
        let mut lacks = Vec::new();
        if !rule.patterns.iter().all(|pattern| endpoint.contains(pattern)) {
            lacks.push(Lack::Endpoint);
        }
        let lacking = rule
            .attributes
            .iter()
            .filter(|(name, value)| request.attribute(name) != Some(value.as_slice()));
        lacks.extend(lacking.map(|(name, _)| Lack::Attribute(name.clone())));
        if !rule.keys.iter().all(|list| list.contains(request)) {
            lacks.push(Lack::Key);
        }
        lacks
    }

    /// Whether the rule at `index` says something about the endpoint or the key that holds.
    fn is_named(&self, index: RuleIndex, request: &Request<'_>, endpoint: &Matches) -> bool {
        let rule = self.rule(index);
        rule.patterns.iter().any(|pattern| endpoint.contains(pattern))
            || rule.keys.iter().any(|list| list.contains(request))
    }

    fn rule(&self, index: RuleIndex) -> &Conditions {
        &self.rules[usize::from(index)]
    }
}
