//! What a descriptor of Envoy means: endpoint, key, attributes and cost of a request.

use limiter::{
    ATTRIBUTE_NAME_BYTES_MAX, ATTRIBUTE_VALUE_BYTES_MAX, ATTRIBUTES_MAX, ENDPOINT_BYTES_MAX,
    KEY_BYTES_MAX,
};

use super::messages::Entry;
use super::values::Values;

/// Most mappings in a file: they are looked through one after the other.
pub const MAPPINGS_MAX: usize = 1_024;

/// Entries that hold an address, in the order in which they are asked.
const ADDRESSES: [&str; 2] = ["remote_address", "masked_remote_address"];
/// The key of a descriptor that gives an empty one, which no limit takes.
const EMPTY_KEY: &[u8] = b"-";

/// Text in which `{name}` stands for the value of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Entry(String),
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// A brace that stands alone, or an entry without a name.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        let refuse = || {
            format!("`{}` has a brace that does not belong to a `{{name}}`", text.escape_debug())
        };
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            let inner = from.strip_prefix('{').ok_or_else(refuse)?;
            let (name, after) = inner.split_once('}').ok_or_else(refuse)?;
            if name.is_empty() || name.contains('{') {
                return Err(refuse());
            }
            pieces.push(Piece::Entry(name.to_owned()));
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Self(pieces))
    }

    /// The entries that it names.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Entry(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }

    fn fill(&self, entries: &[Entry]) -> Vec<u8> {
        let mut filled = Vec::new();
        for piece in &self.0 {
            let text = match piece {
                Piece::Text(text) => text,
                Piece::Entry(name) => value_of(entries, name).unwrap_or_default(),
            };
            filled.extend_from_slice(text.as_bytes());
        }
        filled
    }
}

/// What descriptors of one kind mean.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// The domain; none: any.
    pub domain: Option<String>,
    /// The entries that the descriptor has, all of them and no other, in any order, and which of their values
    /// are meant. Of entries of one name the first here is the first there.
    pub descriptor: Vec<(String, Values)>,
    /// The key.
    pub key: Template,
    /// The endpoint.
    pub endpoint: Template,
    /// The attributes.
    pub attributes: Vec<(String, Template)>,
    /// It is charged always and never denied: its cost is known afterwards.
    pub debit: bool,
    /// What is counted; none: requests.
    pub unit: Option<String>,
}

impl Mapping {
    fn matches(&self, domain: &str, entries: &[Entry]) -> bool {
        self.domain.as_ref().is_none_or(|own| own == domain)
            && self.descriptor.len() == entries.len()
            && self.numbered().all(|(name, nth, values)| {
                let mut named = entries.iter().filter(|entry| entry.key == name);
                named.nth(nth).is_some_and(|entry| values.take(&entry.value))
            })
    }

    /// Each entry with how many of its name stand before it.
    fn numbered(&self) -> impl Iterator<Item = (&str, usize, &Values)> {
        self.descriptor.iter().enumerate().map(|(at, (name, values))| {
            let before = self.descriptor.iter().take(at);
            (name.as_str(), before.filter(|(other, _)| other == name).count(), values)
        })
    }

    /// Greater decides: one that names the domain, and then entry by entry.
    fn rank(&self) -> (bool, Vec<(u8, usize)>) {
        let values = self.descriptor.iter().map(|(_, values)| values.rank());
        (self.domain.is_some(), values.collect())
    }

    /// Whether some descriptor would match both, and neither is more specific.
    pub fn ties_with(&self, other: &Self) -> bool {
        let is_met = |(name, nth, values): (&str, usize, &Values)| {
            let theirs = other.numbered().find(|(own, at, _)| (*own, *at) == (name, nth));
            theirs.is_some_and(|(_, _, theirs)| values.meet(theirs))
        };
        let names = |mapping: &Self| {
            mapping.descriptor.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        self.domain == other.domain
            && self.descriptor.len() == other.descriptor.len()
            && self.numbered().all(is_met)
            // In another order the first to differ is another.
            && (names(self) != names(other) || self.rank() == other.rank())
    }
}

/// What a descriptor means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meant {
    /// What is called.
    pub endpoint: Vec<u8>,
    /// Who calls.
    pub key: Vec<u8>,
    /// Names and values, at most [`ATTRIBUTES_MAX`].
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
    /// It is charged always and never denied.
    pub debit: bool,
    /// What is counted; none: requests.
    pub unit: Option<String>,
}

/// Every mapping of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mappings(pub Vec<Mapping>);

impl Mappings {
    /// What a descriptor with `entries` of `domain` means: by the most specific mapping that matches it, else
    /// by the rule for all others.
    pub fn meaning(&self, domain: &str, entries: &[Entry]) -> Meant {
        let matching = self.0.iter().filter(|mapping| mapping.matches(domain, entries));
        match matching.max_by_key(|mapping| mapping.rank()) {
            Some(mapping) => Meant {
                endpoint: cut(mapping.endpoint.fill(entries), ENDPOINT_BYTES_MAX),
                key: key(mapping.key.fill(entries)),
                attributes: mapping
                    .attributes
                    .iter()
                    .map(|(name, value)| {
                        (name.clone().into_bytes(), attribute(value.fill(entries)))
                    })
                    .collect(),
                debit: mapping.debit,
                unit: mapping.unit.clone(),
            },
            None => unmapped(domain, entries),
        }
    }
}

/// Values come from whoever calls. One that is too long is cut, so that it has its limits all the same: a
/// refusal would let the whole call pass where Envoy is told to let failures pass.
fn cut(mut value: Vec<u8>, bytes_max: usize) -> Vec<u8> {
    value.truncate(bytes_max);
    value
}

fn key(value: Vec<u8>) -> Vec<u8> {
    if value.is_empty() { EMPTY_KEY.to_vec() } else { cut(value, KEY_BYTES_MAX) }
}

fn attribute(value: Vec<u8>) -> Vec<u8> {
    cut(value, ATTRIBUTE_VALUE_BYTES_MAX)
}

/// What a descriptor means that no mapping names.
fn unmapped(domain: &str, entries: &[Entry]) -> Meant {
    let value = |name| value_of(entries, name);
    let endpoint = match (value("method"), value("path"), value("generic_key")) {
        (Some(method), Some(path), _) => format!("{method} {path}"),
        (None, Some(path), _) => path.to_owned(),
        (_, None, generic) => generic.unwrap_or_default().to_owned(),
    };
    let address = ADDRESSES.into_iter().find_map(value);
    let caller = address.or(entries.last().map(|entry| entry.value.as_str())).unwrap_or_default();
    let mut attributes: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let mut add = |name: &str, value: &str| {
        let is_short = (1..=ATTRIBUTE_NAME_BYTES_MAX).contains(&name.len());
        let is_new = attributes.iter().all(|(known, _)| known != name.as_bytes());
        if is_short && is_new && attributes.len() < ATTRIBUTES_MAX {
            attributes.push((name.into(), attribute(value.into())));
        }
    };
    // What limits go by most often comes first, so that many entries do not push it out.
    if let Some(address) = address {
        add("ip", address.split('/').next().unwrap_or_default());
    }
    add("domain", domain);
    entries.iter().for_each(|entry| add(&entry.key, &entry.value));
    let endpoint = cut(endpoint.into_bytes(), ENDPOINT_BYTES_MAX);
    Meant { endpoint, key: key(caller.into()), attributes, debit: false, unit: None }
}

/// The value of the first entry `name`.
fn value_of<'e>(entries: &'e [Entry], name: &str) -> Option<&'e str> {
    entries.iter().find(|entry| entry.key == name).map(|entry| entry.value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(pairs: &[(&str, &str)]) -> Vec<Entry> {
        let entry = |(key, value): &(&str, &str)| Entry {
            key: (*key).to_owned(),
            value: (*value).to_owned(),
        };
        pairs.iter().map(entry).collect()
    }

    fn mapping(domain: Option<&str>, descriptor: &[(&str, Option<&str>)], key: &str) -> Mapping {
        let entry = |(name, value): &(&str, Option<&str>)| {
            ((*name).to_owned(), value.map_or(Values::Any, Values::parse))
        };
        Mapping {
            domain: domain.map(ToOwned::to_owned),
            descriptor: descriptor.iter().map(entry).collect(),
            key: Template::parse(key).expect("a template"),
            ..Mapping::default()
        }
    }

    #[test]
    fn a_template_takes_values_of_entries() {
        let template = Template::parse("{method} {path}!").expect("a template");
        assert_eq!(template.entries().collect::<Vec<_>>(), ["method", "path"]);
        let filled = template.fill(&entries(&[("path", "/x"), ("method", "GET")]));
        assert_eq!(filled, b"GET /x!");
        for wrong in ["{", "}", "{}", "a{b", "a}b", "{a{b}}"] {
            assert!(Template::parse(wrong).is_err(), "{wrong}");
        }
    }

    /// PR-14: entries of one descriptor are not looked for in another, and all must be there.
    #[test]
    fn a_mapping_matches_all_entries_and_no_others() {
        let mapped = Mappings(vec![mapping(None, &[("a", None), ("b", None)], "{b}{a}")]);
        let key = |pairs: &[(&str, &str)]| mapped.meaning("d", &entries(pairs)).key;
        assert_eq!(key(&[("a", "1"), ("b", "2")]), b"21");
        assert_eq!(key(&[("b", "2"), ("a", "1")]), b"21");
        assert_eq!(key(&[("a", "1")]), b"1", "the rule for all others");
        assert_eq!(key(&[("a", "1"), ("b", "2"), ("c", "3")]), b"3");
    }

    #[test]
    fn the_most_specific_mapping_decides_in_every_order() {
        let any = mapping(None, &[("a", None)], "any");
        let value = mapping(None, &[("a", Some("1"))], "value");
        let domain = mapping(Some("d"), &[("a", None)], "domain");
        for order in [[&any, &value, &domain], [&domain, &value, &any], [&value, &any, &domain]] {
            let mapped = Mappings(order.into_iter().cloned().collect());
            let key = |domain, a| mapped.meaning(domain, &entries(&[("a", a)])).key;
            assert_eq!(key("d", "1"), b"domain");
            assert_eq!(key("e", "1"), b"value");
            assert_eq!(key("e", "2"), b"any");
        }
        assert!(!any.ties_with(&value) && !any.ties_with(&domain));
        let other_value = mapping(None, &[("a", Some("2"))], "other");
        assert!(!value.ties_with(&other_value) && value.ties_with(&value));
        let first = mapping(None, &[("a", Some("1")), ("b", None)], "first");
        let second = mapping(None, &[("a", None), ("b", Some("2"))], "second");
        assert!(!first.ties_with(&second), "the first entry that differs decides");
        let both = Mappings(vec![second.clone(), first]);
        assert_eq!(both.meaning("d", &entries(&[("b", "2"), ("a", "1")])).key, b"first");
        let turned = mapping(None, &[("b", None), ("a", Some("1"))], "turned");
        assert!(second.ties_with(&turned), "which of them is the first?");
        let apart = mapping(None, &[("b", Some("3")), ("a", None)], "apart");
        assert!(!second.ties_with(&apart), "none matches both");
    }

    #[test]
    fn stars_come_after_whole_values_and_before_any() {
        let like = |values| mapping(None, &[("path", values)], values.unwrap_or("any"));
        let all = [None, Some("/a/*"), Some("/a/b/*"), Some("/a/b/c"), Some("*.png")].map(like);
        let mapped = Mappings(all.to_vec());
        let key = |path| mapped.meaning("d", &entries(&[("path", path)])).key;
        for (path, decides) in [
            ("/a/b/c", "/a/b/c"),
            ("/a/b/d", "/a/b/*"),
            ("/a/c", "/a/*"),
            ("/x.png", "*.png"),
            ("/x", "any"),
        ] {
            assert_eq!(key(path), decides.as_bytes(), "{path}");
        }
        let other = like(Some("/b/*"));
        assert!(!other.ties_with(&all[1]), "no path begins as both");
        assert!(like(Some("*.jpg")).ties_with(&like(Some("/pic*"))), "`/pic.jpg`");
    }

    #[test]
    fn entries_of_one_name_are_told_apart_by_their_place() {
        let twice = mapping(None, &[("generic_key", Some("a")), ("generic_key", Some("b"))], "ab");
        let mapped = Mappings(vec![twice]);
        let key = |pairs: &[(&str, &str)]| mapped.meaning("d", &entries(pairs)).key;
        assert_eq!(key(&[("generic_key", "a"), ("generic_key", "b")]), b"ab");
        assert_eq!(key(&[("generic_key", "b"), ("generic_key", "a")]), b"a", "the usual rule");
    }

    /// A value that is too long or empty must not make the call fail: Envoy would let it pass.
    #[test]
    fn what_callers_send_always_makes_a_request() {
        let mut mapped = mapping(None, &[("user", None)], "{user}");
        mapped.endpoint = Template::parse("{user}").expect("a template");
        mapped.attributes = vec![("user".into(), mapped.key.clone())];
        let long = "x".repeat(5_000);
        for mappings in [Mappings(vec![mapped]), Mappings::default()] {
            for pairs in [vec![("user", "")], vec![("user", &*long), ("path", &long)], Vec::new()] {
                let meant = mappings.meaning("d", &entries(&pairs));
                let mut request = limiter::Request::check(&meant.endpoint, &meant.key);
                for (name, value) in &meant.attributes {
                    request = request.with_attribute(name, value);
                }
                assert_eq!(request.validate(), Ok(()), "{pairs:?}");
            }
        }
        let meant = Mappings::default().meaning("d", &entries(&[("user", &long)]));
        assert_eq!((meant.key.len(), meant.attributes[1].1.len()), (1_024, 256));
        assert_eq!(Mappings::default().meaning("d", &entries(&[("user", "")])).key, b"-");
    }

    #[test]
    fn what_no_mapping_names_is_read_by_the_usual_names() {
        let meant = |pairs: &[(&str, &str)]| Mappings::default().meaning("edge", &entries(pairs));
        let by_address =
            meant(&[("remote_address", "192.0.2.7"), ("path", "/x"), ("method", "GET")]);
        assert_eq!(
            (by_address.endpoint, by_address.key),
            (b"GET /x".to_vec(), b"192.0.2.7".to_vec())
        );
        let pair = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        assert_eq!(
            by_address.attributes,
            [
                pair("ip", "192.0.2.7"),
                pair("domain", "edge"),
                pair("remote_address", "192.0.2.7"),
                pair("path", "/x"),
                pair("method", "GET"),
            ]
        );
        let generic = meant(&[("generic_key", "slow"), ("user", "alice")]);
        assert_eq!((generic.endpoint, generic.key), (b"slow".to_vec(), b"alice".to_vec()));
        let masked = meant(&[("masked_remote_address", "10.1.0.0/16")]);
        assert_eq!(masked.key, b"10.1.0.0/16");
        assert_eq!(masked.attributes[0], pair("ip", "10.1.0.0"));
        let long = meant(&[("path", &"x".repeat(300))]);
        assert_eq!((long.endpoint.len(), long.attributes[1].1.len()), (300, 256));
    }
}
