//! From descriptors within descriptors to limits and the mappings that lead to them.
//!
//! The service goes from entry to entry: a whole value before one with stars, the first of those before the
//! rest, and last any value; and never back. A mapping says all entries at once, and the most specific decides,
//! entry by entry. So each way through the tree becomes a mapping, and where the service would stop although
//! a less specific way goes on, one that leads to no limit.

use std::collections::{HashMap, HashSet};

use limiter::NAME_BYTES_MAX;

use super::finding::{Findings, Place};
use super::reference::{Amount, Descriptor, Domain, Limit};
use crate::endpoint::envoy::mapping::MAPPINGS_MAX;
use crate::endpoint::envoy::values::{VALUES_BYTES_MAX, Values};

/// What endpoints of imported limits begin with, so that none is that of a descriptor that nothing maps.
const ENDPOINT_PREFIX: &str = "envoy:";
/// The endpoint that no limit has.
const NOWHERE: &str = "nowhere";
/// Sources of a limit's key that are no attributes as they are sent.
const RESERVED_NAMES: [&str; 3] = ["key", "endpoint", "ip"];

/// What to write.
#[derive(Debug, Default)]
pub(super) struct Compiled {
    pub(super) limits: Vec<NamedLimit>,
    pub(super) mappings: Vec<Mapping>,
}

/// A `[[limit]]`.
#[derive(Debug)]
pub(super) struct NamedLimit {
    pub(super) name: String,
    pub(super) endpoint: String,
    pub(super) key: String,
    pub(super) amount: Amount,
    pub(super) is_shadow: bool,
    pub(super) place: Place,
}

/// An `[[envoy]]`.
#[derive(Debug)]
pub(super) struct Mapping {
    pub(super) domain: String,
    pub(super) descriptor: Vec<String>,
    pub(super) key: String,
    pub(super) endpoint: String,
    pub(super) attributes: Vec<(String, String)>,
    /// It leads to no limit.
    pub(super) is_nothing: bool,
}

/// Compiles the descriptors of all domains.
///
/// # Errors
/// They take more mappings than a file may have.
pub(super) fn compile(domains: &[Domain], findings: &mut Findings) -> Result<Compiled, String> {
    let mut compiler = Compiler::default();
    for domain in domains {
        let descriptors = settle(&domain.descriptors, findings);
        for shape in shapes(&descriptors, findings) {
            let mut ways = Vec::new();
            follow(&descriptors, &shape, &[], &mut ways);
            compiler.add_shape(domain, &ways, findings)?;
        }
    }
    Ok(compiler.compiled)
}

/// A descriptor of the tree, without those that can never decide.
struct Settled<'d> {
    own: &'d Descriptor,
    within: Vec<Self>,
}

/// Leaves out what an earlier sibling with stars always takes first, and what no order of ours can say.
fn settle<'d>(descriptors: &'d [Descriptor], findings: &mut Findings) -> Vec<Settled<'d>> {
    let mut settled: Vec<Settled<'d>> = Vec::with_capacity(descriptors.len());
    for own in descriptors {
        let before = match own.values {
            Values::Like(_) => settled.iter().find(|other| {
                other.own.key == own.key
                    && matches!(other.own.values, Values::Like(_))
                    && other.own.values.meet(&own.values)
                    && other.own.values.rank() <= own.values.rank()
            }),
            Values::Any | Values::Exactly(_) => None,
        };
        if let Some(before) = before {
            let line = before.own.place.line;
            if before.own.values.cover(&own.values) {
                let message = format!("line {line} takes every such value first; left out");
                findings.drop(&own.place, message);
            } else {
                let message = format!(
                    "line {line} takes some of these values first, though it says less; left out"
                );
                findings.lose(&own.place, message);
            }
            continue;
        }
        settled.push(Settled { own, within: settle(&own.within, findings) });
    }
    settled
}

/// Every list of keys that a descriptor with a limit has, each once, in the order of the file. Lists that
/// differ by their order alone cannot be told apart.
fn shapes<'d>(descriptors: &[Settled<'d>], findings: &mut Findings) -> Vec<Vec<&'d str>> {
    let mut ends = Vec::new();
    collect(descriptors, &mut Vec::new(), &mut ends);
    let (mut shapes, mut sorted): (Vec<Vec<&str>>, HashMap<Vec<&str>, usize>) = Default::default();
    let mut known: HashSet<Vec<&str>> = HashSet::new();
    for (keys, own) in ends {
        if known.contains(&keys) {
            continue;
        }
        let mut as_set = keys.clone();
        as_set.sort_unstable();
        if let Some(line) = sorted.get(&as_set) {
            let message = format!(
                "line {line} has the same entries in another order, which are the same here; left out"
            );
            findings.lose(&own.place, message);
            continue;
        }
        sorted.insert(as_set, own.place.line);
        known.insert(keys.clone());
        shapes.push(keys);
    }
    shapes
}

fn collect<'d>(
    descriptors: &[Settled<'d>],
    keys: &mut Vec<&'d str>,
    ends: &mut Vec<(Vec<&'d str>, &'d Descriptor)>,
) {
    for it in descriptors {
        keys.push(&it.own.key);
        if it.own.limit.is_some() {
            ends.push((keys.clone(), it.own));
        }
        collect(&it.within, keys, ends);
        keys.pop();
    }
}

/// All entries of a descriptor, and where the service ends with it.
struct Way<'d> {
    entries: Vec<WayEntry<'d>>,
    /// None: without a limit.
    end: Option<(&'d Descriptor, &'d Limit)>,
}

#[derive(Clone)]
struct WayEntry<'d> {
    key: &'d str,
    values: &'d Values,
    shares: bool,
}

impl Way<'_> {
    /// Whether some descriptor goes both ways, and this one is more specific.
    fn goes_before(&self, other: &Self) -> bool {
        let rank = |way: &Self| way.entries.iter().map(|it| it.values.rank()).collect::<Vec<_>>();
        let mut entries = self.entries.iter().zip(&other.entries);
        entries.all(|(own, theirs)| own.values.meet(theirs.values)) && rank(self) > rank(other)
    }
}

/// Every way of descriptors with the keys `shape` from `descriptors` on.
fn follow<'d>(
    descriptors: &[Settled<'d>],
    shape: &[&'d str],
    before: &[WayEntry<'d>],
    ways: &mut Vec<Way<'d>>,
) {
    let [key, rest @ ..] = shape else { return };
    let any = |key: &'d str| WayEntry { key, values: &Values::Any, shares: false };
    let mut is_open = true;
    for it in descriptors.iter().filter(|it| it.own.key == *key) {
        let own = it.own;
        is_open &= own.values != Values::Any;
        let mut entries = before.to_vec();
        entries.push(WayEntry { key, values: &own.values, shares: own.shares });
        if rest.is_empty() {
            ways.push(Way { entries, end: own.limit.as_ref().map(|limit| (own, limit)) });
        } else {
            follow(&it.within, rest, &entries, ways);
        }
    }
    if is_open {
        // What is none of these ends here; with a first entry of no descriptor nothing ever began.
        let mut entries = before.to_vec();
        entries.extend(shape.iter().map(|key| any(key)));
        ways.push(Way { entries, end: None });
    }
}

#[derive(Default)]
struct Compiler {
    compiled: Compiled,
    names: HashSet<String>,
}

impl Compiler {
    fn add_shape(
        &mut self,
        domain: &Domain,
        ways: &[Way<'_>],
        findings: &mut Findings,
    ) -> Result<(), String> {
        let limited: Vec<&Way<'_>> = ways.iter().filter(|way| way.end.is_some()).collect();
        for way in ways {
            let mapping = match way.end {
                Some((own, limit)) => self.limited(domain, way, own, limit, findings),
                // Without a way that goes on it is the same as no mapping.
                None if limited.iter().any(|other| way.goes_before(other)) => Some(Mapping {
                    key: NOWHERE.to_owned(),
                    ..mapping(domain, way, NOWHERE.to_owned())
                }),
                None => None,
            };
            self.compiled.mappings.extend(mapping);
            if self.compiled.mappings.len() > MAPPINGS_MAX {
                return Err(format!(
                    "{}: it takes more than the {MAPPINGS_MAX} `[[envoy]]` that a file may have",
                    domain.file
                ));
            }
        }
        Ok(())
    }

    /// Adds the limit at the end of `way`.
    fn limited(
        &mut self,
        domain: &Domain,
        way: &Way<'_>,
        own: &Descriptor,
        limit: &Limit,
        findings: &mut Findings,
    ) -> Option<Mapping> {
        let varying: Vec<&str> = way
            .entries
            .iter()
            .filter(|it| !matches!(it.values, Values::Exactly(_)) && !it.shares)
            .map(|it| it.key)
            .collect();
        if let Some(why) = unsayable(way, &varying) {
            findings.lose(&own.place, format!("{why}; left out"));
            return None;
        }
        let name = self.name(domain, own, limit);
        let endpoint = format!("{ENDPOINT_PREFIX}{name}");
        let mut mapping = mapping(domain, way, endpoint.clone());
        let entry = |key: &&str| format!("{{{key}}}");
        mapping.key = varying.iter().map(entry).collect::<Vec<_>>().join(" ");
        let key = match varying.as_slice() {
            [] => {
                mapping.key.clone_from(&name);
                "*".to_owned()
            }
            [_] => "{key}".to_owned(),
            // The parts of a limit's key never run together, whatever they hold.
            several => {
                let named = several.iter().enumerate();
                let attribute = named.map(|(at, key)| (attribute_name(at, key), entry(key)));
                mapping.attributes = attribute.collect();
                let parts = mapping.attributes.iter().map(|(name, _)| format!("{{{name}}}"));
                parts.collect::<Vec<_>>().join(":")
            }
        };
        let (amount, is_shadow) = (limit.amount, limit.is_shadow);
        let place = own.place.clone();
        self.compiled.limits.push(NamedLimit { name, endpoint, key, amount, is_shadow, place });
        Some(mapping)
    }

    /// A name that no other limit has.
    fn name(&mut self, domain: &Domain, own: &Descriptor, limit: &Limit) -> String {
        let of_path = || format!("{}:{}", domain.name, own.place.path.replace(" > ", "."));
        let wanted = limit.name.clone().filter(|name| !name.is_empty()).unwrap_or_else(of_path);
        let allowed = |c: char| match c {
            '"' | '\\' | '/' | '*' | '{' | '}' => '-',
            c if c.is_ascii_graphic() => c,
            _ => '-',
        };
        let base: String = wanted.chars().map(allowed).take(NAME_BYTES_MAX).collect();
        let mut name = base.clone();
        let mut number = 2_u32;
        while !self.names.insert(name.clone()) {
            let suffix = format!("-{number}");
            name = base.chars().take(NAME_BYTES_MAX.saturating_sub(suffix.len())).collect();
            name.push_str(&suffix);
            number = number.saturating_add(1);
        }
        name
    }
}

/// Why a way cannot be said as a mapping.
fn unsayable(way: &Way<'_>, varying: &[&str]) -> Option<&'static str> {
    let is_twice = |key: &&&str| way.entries.iter().filter(|it| it.key == **key).count() > 1;
    if varying.len() > limiter::ATTRIBUTES_MAX {
        Some("more entries without a value than a request has attributes")
    } else if varying.iter().any(|key| key.contains(['{', '}'])) {
        Some("a brace in a `key` without a value")
    } else if way.entries.iter().any(|it| it.key.contains('=')) {
        Some("an `=` in a `key`")
    } else if way.entries.iter().any(|it| it.values.to_string().len() > VALUES_BYTES_MAX) {
        Some("a `value` that is longer than a file may have it")
    } else if varying.iter().any(|key| is_twice(&key)) {
        Some("a `key` that stands twice, once without a value")
    } else {
        None
    }
}

fn mapping(domain: &Domain, way: &Way<'_>, endpoint: String) -> Mapping {
    Mapping {
        domain: domain.name.clone(),
        descriptor: way.entries.iter().map(|it| format!("{}{}", it.key, it.values)).collect(),
        key: String::new(),
        is_nothing: endpoint == NOWHERE,
        endpoint,
        attributes: Vec::new(),
    }
}

/// The attribute for the entry `key`: its name, where that can stand in the key of a limit.
fn attribute_name(at: usize, key: &str) -> String {
    let is_plain = (1..=limiter::ATTRIBUTE_NAME_BYTES_MAX).contains(&key.len())
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if is_plain && !RESERVED_NAMES.contains(&key) { key.to_owned() } else { format!("entry.{at}") }
}
