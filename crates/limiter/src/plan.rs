//! The limits in force: checked for what makes no sense, numbered, and compiled for matching.

use std::sync::OnceLock;

use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;

use crate::algorithm::TokenBucket;
use crate::identity::Identity;
use crate::lists::Listed;
use crate::matching::{
    Conditions, KeyList, Matched, Matcher, Pattern, PatternId, Rank, RuleIndex, Slot,
};
use crate::naming::{check_name, override_name};
use crate::rule::{Allowance, Rule, RuleAt};
use crate::share::SharedBucket;
use crate::template::KeyTemplate;
use crate::{
    ATTRIBUTE_NAME_BYTES_MAX, ATTRIBUTE_VALUE_BYTES_MAX, ATTRIBUTES_MAX, Limit, Quota, RULES_MAX,
    Request, Selector, UNIT_BYTES_MAX, Unmatched, ip,
};

/// Most overrides of one limit: two that are equally specific are compared pair by pair.
pub const OVERRIDES_MAX: usize = 4096;
/// The algorithm in the identity of a limit that counts nothing.
const ALGORITHM: &str = "token-bucket";

/// Why limits cannot be compiled. The operator is at fault; nothing is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// The rule at fault.
    pub at: RuleAt,
    /// The rule that it collides with.
    pub with: Option<RuleAt>,
    /// What is wrong and what to do, in lower case.
    pub message: String,
}

impl std::fmt::Display for PlanError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PlanError {}

/// Compiled limits. Immutable: other limits are another plan.
#[derive(Debug)]
pub struct Plan {
    limits: Vec<Limit>,
    /// In the order of the file, each limit before its overrides; then the carried one.
    rules: Vec<Rule>,
    /// By slot: the rule that has it.
    by_slot: Vec<Option<RuleIndex>>,
    matcher: Matcher,
    unmatched: Unmatched,
    /// The carried limit, which comes behind those of the file.
    carried: Option<RuleIndex>,
    /// Who comes ahead of every limit; none: nobody.
    pub(crate) listed: Option<Box<Listed>>,
    /// Set when it is first asked for.
    pub(crate) fingerprint: OnceLock<u64>,
}

impl Plan {
    /// Compiles `limits`, whose order is the order of the file.
    ///
    /// # Errors
    /// The first rule that is refused: a name, pattern, template or rate that cannot be meant, two
    /// overrides that could tie, an override that can never match, too many rules.
    pub fn compile(limits: Vec<Limit>, unmatched: Unmatched) -> Result<Self, PlanError> {
        let mut compiler = Compiler::default();
        for (index, limit) in limits.iter().enumerate() {
            compiler.add_limit(index, limit)?;
        }
        let Compiler { rules, conditions, patterns, .. } = compiler;
        let matcher = Matcher::new(conditions, patterns);
        let by_slot = (0..rules.len()).map(|at| RuleIndex::try_from(at).ok()).collect();
        Ok(Self {
            limits,
            rules,
            by_slot,
            matcher,
            unmatched,
            carried: None,
            listed: None,
            fingerprint: OnceLock::new(),
        })
    }

    /// Puts the carried limit behind the others, unless it is there or there is no room for one more.
    pub(crate) fn push_carried(&mut self, make: impl FnOnce(RuleAt, Slot) -> Option<Rule>) {
        let at = RuleAt { limit: self.limits.len(), override_index: None };
        let index = RuleIndex::try_from(self.rules.len()).ok();
        let slot = Slot::try_from(self.by_slot.len()).unwrap_or(Slot::MAX);
        if self.carried.is_none() && self.rules.len() < RULES_MAX {
            self.rules.extend(make(at, slot));
            self.by_slot.push(index);
            self.carried = index;
        }
    }

    /// The carried limit, if there is one.
    pub(crate) fn carried(&self) -> Option<&Rule> {
        self.carried.map(|index| self.rule_at(index))
    }

    /// The place of the carried limit among the rules.
    pub(crate) fn carried_index(&self) -> Option<RuleIndex> {
        self.carried
    }

    /// Every limit and override in the order of the file, each limit before its overrides; behind them the
    /// carried limit, if there is one.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The limits as they were given.
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// What happens to a request that no limit matches.
    pub fn unmatched(&self) -> Unmatched {
        self.unmatched
    }

    /// The rules that apply to `request`, one per limit.
    /// Whether `rule` is the limit `name`, or an override of it; an override may be named alone.
    pub(crate) fn is_of(&self, rule: &Rule, name: &str) -> bool {
        let limit = self.limits.get(rule.at().limit);
        rule.name() == name || limit.is_some_and(|limit| limit.name == name)
    }

    pub(crate) fn matched(&self, request: &Request<'_>) -> Matched {
        self.matcher.matched(request)
    }

    pub(crate) fn matcher(&self) -> &Matcher {
        &self.matcher
    }

    /// The rule at `index` in the order of the file.
    pub(crate) fn rule_at(&self, index: RuleIndex) -> &Rule {
        &self.rules[usize::from(index)]
    }

    /// The rule at `slot`; none: there is none any more.
    pub fn rule(&self, slot: u16) -> Option<&Rule> {
        let index = self.by_slot.get(usize::from(slot)).copied().flatten()?;
        self.rules.get(usize::from(index))
    }

    /// One more than the highest slot.
    pub(crate) fn slots(&self) -> usize {
        self.by_slot.len()
    }

    pub(crate) fn rules_mut(&mut self) -> &mut [Rule] {
        &mut self.rules
    }

    /// Gives each rule the slot that `slots` has for it, in the order of the file.
    pub(crate) fn number(&mut self, slots: &[Slot]) {
        let most = slots.iter().map(|slot| usize::from(*slot) + 1).max().unwrap_or(0);
        self.by_slot = vec![None; most];
        for (index, (rule, slot)) in self.rules.iter_mut().zip(slots).enumerate() {
            rule.slot = *slot;
            if let Some(place) = self.by_slot.get_mut(usize::from(*slot)) {
                *place = RuleIndex::try_from(index).ok();
            }
        }
    }

    /// What the buckets of the rule at `slot` share between nodes; none where there is no such rule, or
    /// it counts nothing.
    pub(crate) fn shared(&self, slot: Slot) -> Option<&SharedBucket> {
        self.rule(slot)?.shared()
    }

    /// Longest time for which a shard may go unswept: see [`TokenBucket::horizon_ns`].
    pub(crate) fn horizon_ns(&self) -> u64 {
        let levels = self.rules.iter().filter_map(|rule| rule.shared()?.level());
        levels.map(TokenBucket::horizon_ns).min().unwrap_or(u64::MAX)
    }
}

/// Collects the rules of limits one after the other.
#[derive(Default)]
struct Compiler {
    rules: Vec<Rule>,
    conditions: Vec<Conditions>,
    patterns: Vec<Pattern>,
    pattern_ids: HashMap<Pattern, PatternId>,
    names: HashMap<String, RuleAt>,
}

impl Compiler {
    fn add_limit(&mut self, index: usize, limit: &Limit) -> Result<(), PlanError> {
        let at = RuleAt { limit: index, override_index: None };
        let refuse = |message| PlanError { at, with: None, message };
        check_name(&limit.name).map_err(refuse)?;
        if limit.unit.is_empty() || limit.unit.len() > UNIT_BYTES_MAX {
            let message = format!("the unit `{}` is not 1 to {UNIT_BYTES_MAX} bytes", limit.unit);
            return Err(refuse(message));
        }
        if limit.overrides.len() > OVERRIDES_MAX {
            return Err(refuse(format!("the limit has more than {OVERRIDES_MAX} overrides")));
        }
        let template = KeyTemplate::parse(&limit.key, limit.ipv6_prefix).map_err(refuse)?;
        let mut base = self.conditions(index, &limit.selector, &template).map_err(refuse)?;
        // Whatever the limit itself spells out, each of its overrides is more specific.
        base.rank = Rank::default();
        let allowance = Allowance::new(&limit.quota, limit.accuracy).map_err(refuse)?;
        self.push(at, limit, &template, &limit.quota, allowance, None, base.clone())?;

        let mut ties = Ties::default();
        for (override_index, over) in limit.overrides.iter().enumerate() {
            let at = RuleAt { limit: index, override_index: Some(override_index) };
            let refuse = |message| PlanError { at, with: None, message };
            let own = self.conditions(index, &over.selector, &template).map_err(refuse)?;
            let name = override_name(over).map_err(refuse)?;
            let merged = self.merge(&own, &base).map_err(refuse)?;
            if let Some(other) = ties.find(self, &own) {
                let with = Some(RuleAt { limit: index, override_index: Some(other) });
                let message = "two overrides could decide the same request and neither is more \
                               specific; change what one of them matches"
                    .into();
                return Err(PlanError { at, with, message });
            }
            ties.add(own);
            let allowance = Allowance::new(&over.quota, limit.accuracy).map_err(refuse)?;
            self.push(at, limit, &template, &over.quota, allowance, Some(name), merged)?;
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the one place where a rule's parts meet")]
    fn push(
        &mut self,
        at: RuleAt,
        limit: &Limit,
        template: &KeyTemplate,
        quota: &Quota,
        allowance: Allowance,
        override_name: Option<String>,
        conditions: Conditions,
    ) -> Result<(), PlanError> {
        if self.rules.len() >= RULES_MAX {
            let message = format!("there are more than {RULES_MAX} limits and overrides");
            return Err(PlanError { at, with: None, message });
        }
        let identity = Identity {
            name: &limit.name,
            override_name: override_name.as_deref().unwrap_or_default(),
            key_template: &limit.key,
            unit: &limit.unit,
            algorithm: quota.algorithm().unwrap_or(ALGORITHM),
            exact: false,
        };
        let id = identity.id();
        let name = match &override_name {
            Some(override_name) => format!("{}/{override_name}", limit.name),
            None => limit.name.clone(),
        };
        if let Some(other) = self.names.insert(name.clone(), at) {
            let message = format!("the name `{name}` is given twice; give one another `name`");
            return Err(PlanError { at, with: Some(other), message });
        }
        let slot = Slot::try_from(self.rules.len()).unwrap_or(Slot::MAX);
        let rule = Rule::new(at, slot, (name, id), limit, template.clone(), allowance);
        self.rules.push(rule.with_quota(quota));
        self.conditions.push(conditions);
        Ok(())
    }

    /// The conditions that one selector names.
    fn conditions(
        &mut self,
        limit: usize,
        selector: &Selector,
        template: &KeyTemplate,
    ) -> Result<Conditions, String> {
        let mut rank = Rank::default();
        let mut patterns = SmallVec::new();
        if let Some(text) = &selector.endpoint {
            let pattern = Pattern::parse(text)?;
            rank.endpoint = pattern.rank();
            patterns.push(self.pattern_id(pattern));
        }
        rank.attributes = selector.attributes.len();
        rank.keys = !selector.keys.is_empty();
        let keys = key_list(selector, template)?.into_iter().collect();
        Ok(Conditions {
            limit: u16::try_from(limit).unwrap_or(u16::MAX),
            rank,
            patterns,
            attributes: attributes(selector)?,
            keys,
        })
    }

    fn pattern_id(&mut self, pattern: Pattern) -> PatternId {
        let next = PatternId::try_from(self.patterns.len()).unwrap_or(PatternId::MAX);
        let id = *self.pattern_ids.entry(pattern.clone()).or_insert(next);
        if id == next {
            self.patterns.push(pattern);
        }
        id
    }

    /// An override's conditions with its limit's added, or why it can never match.
    fn merge(&self, own: &Conditions, base: &Conditions) -> Result<Conditions, String> {
        if !self.could_meet(own, base) {
            return Err(
                "the override can never match: the limit itself does not apply to what it \
                        selects; widen the limit or move the override"
                    .into(),
            );
        }
        let mut merged = own.clone();
        merged.patterns.extend(base.patterns.iter().copied());
        merged.keys.extend(base.keys.iter().cloned());
        for (name, value) in &base.attributes {
            if !merged.attributes.iter().any(|(n, _)| n == name) {
                merged.attributes.push((name.clone(), value.clone()));
            }
        }
        Ok(merged)
    }

    /// Whether some request could meet both.
    fn could_meet(&self, a: &Conditions, b: &Conditions) -> bool {
        let pattern = |id: &PatternId| &self.patterns[usize::from(*id)];
        let endpoints =
            a.patterns.iter().all(|x| b.patterns.iter().all(|y| pattern(x).overlaps(pattern(y))));
        let attributes = a.attributes.iter().all(|(name, value)| {
            b.attributes.iter().all(|(other, wanted)| name != other || value == wanted)
        });
        let keys = a.keys.iter().all(|x| {
            b.keys
                .iter()
                .all(|y| x.values.iter().any(|value| y.values.binary_search(value).is_ok()))
        });
        endpoints && attributes && keys
    }
}

/// The overrides of one limit, to find two that could tie.
#[derive(Default)]
struct Ties {
    seen: Vec<Conditions>,
    /// Overrides with listed keys, by key: only those that share one can tie.
    by_key: HashMap<Vec<u8>, Vec<usize>>,
    without_keys: Vec<usize>,
}

impl Ties {
    fn find(&self, compiler: &Compiler, own: &Conditions) -> Option<usize> {
        let tie = |other: &usize| {
            let seen = &self.seen[*other];
            seen.rank == own.rank && compiler.could_meet(seen, own)
        };
        if own.keys.is_empty() {
            return self.without_keys.iter().copied().find(|other| tie(other));
        }
        let values = own.keys.iter().flat_map(|list| &list.values);
        values
            .filter_map(|value| self.by_key.get(value))
            .flatten()
            .copied()
            .find(|other| tie(other))
    }

    fn add(&mut self, own: Conditions) {
        let index = self.seen.len();
        if own.keys.is_empty() {
            self.without_keys.push(index);
        }
        for value in own.keys.iter().flat_map(|list| &list.values) {
            self.by_key.entry(value.clone()).or_default().push(index);
        }
        self.seen.push(own);
    }
}

fn attributes(selector: &Selector) -> Result<Vec<(String, Vec<u8>)>, String> {
    if selector.attributes.len() > ATTRIBUTES_MAX {
        return Err(format!(
            "more than {ATTRIBUTES_MAX} attributes are named; a request has no more"
        ));
    }
    let mut seen = HashSet::new();
    for (name, value) in &selector.attributes {
        if name.is_empty() || name.len() > ATTRIBUTE_NAME_BYTES_MAX {
            return Err(format!(
                "the attribute name `{name}` is not 1 to {ATTRIBUTE_NAME_BYTES_MAX} bytes"
            ));
        }
        if value.len() > ATTRIBUTE_VALUE_BYTES_MAX {
            return Err(format!(
                "the value of the attribute `{name}` is longer than {ATTRIBUTE_VALUE_BYTES_MAX} bytes"
            ));
        }
        if name == ip::ATTRIBUTE {
            return Err(
                "an address is matched in every spelling only as a key: list it as `keys` \
                        of a limit whose key is `{ip}`"
                    .into(),
            );
        }
        if !seen.insert(name) {
            return Err(format!("the attribute `{name}` is named twice"));
        }
    }
    let pairs = selector.attributes.iter();
    Ok(pairs.map(|(name, value)| (name.clone(), value.clone().into_bytes())).collect())
}

fn key_list(selector: &Selector, template: &KeyTemplate) -> Result<Option<KeyList>, String> {
    if selector.keys.is_empty() {
        return Ok(None);
    }
    let Some(source) = template.single_source() else {
        return Err("keys can be listed only where the limit's key is a single `{name}`; match \
                    attributes instead"
            .into());
    };
    let mut values = Vec::with_capacity(selector.keys.len());
    for key in &selector.keys {
        if key.is_empty() || key.len() > source.bytes_max() {
            return Err(format!("a listed key is not 1 to {} bytes", source.bytes_max()));
        }
        values.push(template.normalise(source, key).as_slice().to_vec());
    }
    values.sort();
    if let Some(pair) = values.windows(2).find(|pair| pair[0] == pair[1]) {
        let key = String::from_utf8_lossy(&pair[0]).into_owned();
        return Err(format!("the key `{}` is listed twice", key.escape_debug()));
    }
    Ok(Some(KeyList { template: template.clone(), values }))
}
