//! What is imported, put to the configuration file's own reader and compared with the service's walk.

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::finding::Findings;
use super::reference::{self, Descriptor, Domain};
use super::{Imported, Source, envoy};
use crate::config::{self, Config};
use crate::endpoint::envoy::messages::Entry;
use crate::endpoint::envoy::values::Values;

fn import(text: &str) -> Imported {
    envoy(&[Source { name: "c.yaml", text }]).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn config(imported: &Imported) -> Config {
    let node = config::Node { name: "a".into(), environment: client::Environment::default() };
    config::parse(imported.file.as_bytes(), Path::new("c.toml"), &node)
        .unwrap_or_else(|errors| panic!("{errors}\n{}", imported.file))
}

fn entries(pairs: &[(&str, &str)]) -> Vec<Entry> {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).into(), value: (*value).into() };
    pairs.iter().map(entry).collect()
}

fn said(imported: &Imported) -> Vec<String> {
    imported.findings.iter().map(ToString::to_string).collect()
}

/// The name of the limit and the bucket in it that a descriptor comes to; none: no limit.
fn bucket(config: &Config, domain: &str, entries: &[Entry]) -> Option<(String, Vec<Vec<u8>>)> {
    let meant = config.envoy.meaning(domain, entries);
    let limits = config.plan.limits().iter();
    let limit = limits.filter(|limit| {
        let endpoint = limit.selector.endpoint.as_deref().expect("each has one");
        endpoint.as_bytes() == meant.endpoint
    });
    let limit = limit.collect::<Vec<_>>();
    assert!(limit.len() <= 1, "one endpoint, one limit");
    let limit = limit.first()?;
    let values = match &*limit.key {
        "*" => Vec::new(),
        "{key}" => vec![meant.key],
        _ => meant.attributes.into_iter().map(|(_, value)| value).collect(),
    };
    Some((limit.name.to_string(), values))
}

#[test]
fn limits_come_over_with_their_windows_and_buckets() {
    let text = "
domain: edge
descriptors:
  - key: database
    value: users
    rate_limit: {unit: second, requests_per_unit: 500}
  - key: database
    rate_limit: {unit: MONTH, requests_per_unit: 1_000, name: by-database}
  - key: tenant
    descriptors:
      - key: user
        rate_limit: {unit: hour, requests_per_unit: 7}
        shadow_mode: true
        descriptors:
          - key: path
            value: /static/*
            share_threshold: true
            rate_limit: {unit: week, requests_per_unit: 9}
  - key: free
    rate_limit: {unlimited: true}
  - key: closed
    rate_limit: {unit: day, requests_per_unit: 0}
";
    let imported = import(text);
    assert_eq!(said(&imported), [""; 0]);
    assert!(imported.is_whole() && imported.limits == 6);
    for line in [
        "[listen]\nenvoy = \"127.0.0.1:7481\"\n",
        "name = \"edge:database=users\"\nendpoint = \"envoy:edge:database=users\"\nkey = \"*\"\n\
         algorithm = \"fixed-window\"\nlimit = \"500 per 1s\"\n",
        "name = \"by-database\"\nendpoint = \"envoy:by-database\"\nkey = \"{key}\"\n\
         algorithm = \"fixed-window\"\nlimit = \"1000 per 30d\"\n",
        "key = \"{tenant}:{user}\"\nalgorithm = \"fixed-window\"\nlimit = \"7 per 1h\"\nshadow = true\n",
        "limit = \"9 per 7d\"\n",
        "unlimited = true\n",
        "deny = true\n",
        "descriptor = [\"tenant\", \"user\", \"path=/static/*\"]\nkey = \"{tenant} {user}\"\n",
    ] {
        assert!(imported.file.contains(line), "{line}\n---\n{}", imported.file);
    }
    let config = config(&imported);
    let bucket = |pairs: &[(&str, &str)]| bucket(&config, "edge", &entries(pairs));
    let of = |name: &str, values: &[&str]| {
        Some((name.to_owned(), values.iter().map(|it| it.as_bytes().to_vec()).collect::<Vec<_>>()))
    };
    assert_eq!(bucket(&[("database", "users")]), of("edge:database=users", &[]));
    assert_eq!(bucket(&[("database", "bank")]), of("by-database", &["bank"]));
    assert_eq!(bucket(&[("tenant", "a"), ("user", "b")]), of("edge:tenant.user", &["a", "b"]));
    let deep = |path| bucket(&[("tenant", "a"), ("user", "b"), ("path", path)]);
    assert_eq!(deep("/static/x"), of("edge:tenant.user.path=-static--", &["a", "b"]));
    assert_eq!(deep("/static/y"), deep("/static/x"), "shared");
    assert_eq!(deep("/other"), None);
    assert_eq!(bucket(&[("tenant", "a")]), None, "not as deep as a limit");
}

/// The first entry that fits decides, and there is no way back from it.
#[test]
fn a_way_that_ends_nowhere_is_not_taken_up_by_a_wider_one() {
    let text = "
domain: d
descriptors:
  - key: a
    value: \"1\"
    descriptors:
      - {key: b, value: \"2\", rate_limit: {unit: day, requests_per_unit: 1, name: narrow}}
  - key: a
    descriptors:
      - {key: b, rate_limit: {unit: day, requests_per_unit: 1, name: wide}}
";
    let imported = import(text);
    let config = config(&imported);
    let name = |a, b| bucket(&config, "d", &entries(&[("a", a), ("b", b)])).map(|it| it.0);
    assert_eq!(name("1", "2").as_deref(), Some("narrow"));
    assert_eq!(name("1", "3"), None);
    assert_eq!(name("2", "3").as_deref(), Some("wide"));
    assert_eq!(imported.file.matches("# No limit").count(), 1);
}

#[test]
fn what_cannot_be_said_is_told_with_its_place() {
    let text = "
domain: d
extra: 1
descriptors:
  - key: a
    rate_limit:
      unit: fortnight
      requests_per_unit: 1
  - key: b
    detailed_metric: true
    rate_limit:
      unit: day
      requests_per_unit: 1
      burst: 5
      replaces: [{name: x}]
  - key: b
    rate_limit: {unit: day, requests_per_unit: 2}
  - key: c
    value: 'x'
    share_threshold: true
    quota_mode: true
    rate_limit: {unit: day, requests_per_unit: -1}
  - value: nobody
  - key: b
    descriptors:
      - key: c
  - key: p
    descriptors:
      - {key: q, rate_limit: {unit: day, requests_per_unit: 1}}
  - key: q
    descriptors:
      - {key: p, rate_limit: {unit: day, requests_per_unit: 1}}
  - key: '{x}'
    rate_limit: {unit: day, requests_per_unit: 1}
";
    let imported = import(text);
    let wanted = [
        "c.yaml:3: `extra` is not known here",
        "c.yaml:7: a: the unit `fortnight` is not known",
        "c.yaml:10: b: `detailed_metric` has no counterpart",
        "c.yaml:14: b: `burst` is not known here",
        "c.yaml:15: b: `replaces` has no counterpart",
        "c.yaml:16: b: it stands in line 9 too",
        "c.yaml:18: c=x: `share_threshold` without a `*`",
        "c.yaml:22: c=x: `requests_per_unit` is no whole number",
        "c.yaml:23: a descriptor without a `key`",
        "c.yaml:24: b: it stands in line 9 too",
        "c.yaml:32: q > p: line 29 has the same entries in another order",
        "c.yaml:33: {x}: a brace in a `key`",
    ];
    let said = said(&imported);
    assert_eq!(said.len(), wanted.len(), "{said:#?}");
    for (said, wanted) in said.iter().zip(wanted) {
        assert!(said.starts_with(wanted), "{said}, not {wanted}");
    }
    assert!(!imported.is_whole());
    assert!(!imported.findings[2].decides, "a metric decides nothing");
    assert_eq!(imported.file.matches("# Not as there: ").count(), wanted.len() - 1);
    assert_eq!(config(&imported).plan.limits().len(), 2);
}

#[test]
fn stars_that_are_never_reached_are_left_out() {
    let rule = |value: &str| {
        format!(
            "  - {{key: a, value: '{value}', rate_limit: {{unit: day, requests_per_unit: 1}}}}\n"
        )
    };
    let text = |values: &[&str]| {
        let rules: String = values.iter().map(|value| rule(value)).collect();
        format!("domain: d\ndescriptors:\n{rules}")
    };
    let ordered = import(&text(&["/a/b/*", "/a/*", "*"]));
    assert_eq!((ordered.limits, said(&ordered)), (3, Vec::new()));
    let dead = import(&text(&["/a/*", "/a/b/*"]));
    assert!(dead.is_whole());
    assert!(said(&dead)[0].contains("line 3 takes every such value first"), "{dead:?}");
    let crossed = import(&text(&["/a*", "*.png.webp"]));
    assert!(!crossed.is_whole());
    assert!(said(&crossed)[0].contains("line 3 takes some of these values first"), "{crossed:?}");
}

#[test]
fn domains_are_a_file_each() {
    let text = |domain: &str| {
        format!(
            "domain: {domain}\ndescriptors:\n  - {{key: a, rate_limit: {{unit: day, \
             requests_per_unit: 1}}}}\n"
        )
    };
    let (one, two) = (text("one"), text("two"));
    let source = |name, text| Source { name, text };
    let both = envoy(&[source("1.yaml", &one), source("2.yaml", &two)]).expect("both");
    let config = config(&both);
    let name = |domain| bucket(&config, domain, &entries(&[("a", "x")])).map(|it| it.0);
    assert_eq!(name("one").as_deref(), Some("one:a"));
    assert_eq!(name("two").as_deref(), Some("two:a"));
    assert_eq!(name("three"), None);
    let twice = envoy(&[source("1.yaml", &one), source("2.yaml", &one)]).expect_err("twice");
    assert!(twice.contains("2.yaml") && twice.contains("1.yaml"), "{twice}");
}

#[test]
fn what_the_service_would_not_load_is_refused() {
    for (text, why) in [
        ("domain: [", "c.yaml:2: this is no YAML"),
        ("descriptors: []", "c.yaml: there is no `domain`"),
        ("domain: ''\n", "c.yaml: there is no `domain`"),
        ("- a\n", "c.yaml: there is no `domain`"),
        ("", "c.yaml: there is no `domain`"),
    ] {
        let error = envoy(&[Source { name: "c.yaml", text }]).expect_err(text);
        assert!(error.starts_with(why.split(':').next().expect("a file")), "{error}");
        assert!(error.contains(why.rsplit(": ").next().expect("words")), "{error}");
    }
    assert_eq!(import("domain: d\n").limits, 0);
}

#[test]
fn more_than_a_file_may_have_is_refused() {
    let rules: String = (0..1_025)
        .map(|n| {
            format!(
                "  - {{key: a, value: v{n}, rate_limit: {{unit: day, requests_per_unit: 1}}}}\n"
            )
        })
        .collect();
    let text = format!("domain: d\ndescriptors:\n{rules}");
    let error = envoy(&[Source { name: "c.yaml", text: &text }]).expect_err("too many");
    assert!(error.contains("1024"), "{error}");
}

/// Where the service goes with `entries`, and how it calls the bucket.
fn walk<'d>(domain: &'d Domain, entries: &[Entry]) -> Option<(&'d Descriptor, Vec<String>)> {
    let (mut level, mut bucket) = (&domain.descriptors, Vec::new());
    for (at, entry) in entries.iter().enumerate() {
        let named = || level.iter().filter(|it| it.key == entry.key);
        let whole = named().find(|it| it.values == Values::Exactly(entry.value.clone()));
        let like = || {
            named().find(|it| matches!(it.values, Values::Like(_)) && it.values.take(&entry.value))
        };
        let any = || named().find(|it| it.values == Values::Any);
        let next = whole.or_else(like).or_else(any)?;
        bucket.push(if next.shares { next.values.to_string() } else { entry.value.clone() });
        if at + 1 == entries.len() {
            return next.limit.is_some().then_some((next, bucket));
        }
        level = &next.within;
    }
    None
}

const VALUES: [&str; 7] = ["", "1", "12", "2", "1*", "*2", "*"];

/// Descriptors at a depth that has keys of its own, so that none differ by their order alone.
fn descriptors(depth: usize) -> BoxedStrategy<Vec<Value>> {
    let within = if depth == 2 { Just(Vec::new()).boxed() } else { descriptors(depth + 1) };
    let keys = [["a", "b"], ["c", "a"], ["e", "f"]];
    let one = (0..2_usize, 0..VALUES.len(), any::<bool>(), any::<bool>(), within).prop_map(
        move |(key, value, has_limit, shares, within)| {
            let mut one = json!({ "key": keys[depth][key], "value": VALUES[value] });
            if has_limit {
                one["rate_limit"] = json!({ "unit": "day", "requests_per_unit": 1 });
            }
            if shares && VALUES[value].contains('*') {
                one["share_threshold"] = json!(true);
            }
            one["descriptors"] = Value::Array(within);
            one
        },
    );
    prop::collection::vec(one, 0..4).boxed()
}

proptest! {
    /// Whatever stands in the file, what becomes of it is a file that a node takes, or nothing.
    #[test]
    fn what_was_made_is_always_taken(
        domain in "\\PC{1,8}",
        rules in prop::collection::vec(("[ab=*{}\"\\\\ \\PC]{1,4}", "[ab*\\PC\\x00-\\x1f\\x7f]{0,4}", "\\PC{0,70}"), 1..6),
    ) {
        let rule = |(key, value, name): &(String, String, String)| {
            let limit = json!({ "unit": "day", "requests_per_unit": 1, "name": name });
            let inner = json!([{ "key": value, "rate_limit": limit }]);
            json!({ "key": key, "value": value, "rate_limit": limit, "descriptors": inner })
        };
        let rules: Vec<_> = rules.iter().map(rule).collect();
        let text = json!({ "domain": domain, "descriptors": rules }).to_string();
        if let Ok(imported) = envoy(&[Source { name: "c.yaml", text: &text }])
            && imported.limits > 0
        {
            prop_assert_eq!(config(&imported).plan.limits().len(), imported.limits);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 100_000, ..ProptestConfig::default() })]

    /// Whatever the tree, every descriptor comes to the limit that the service would take, and two share a
    /// bucket where they do there.
    #[test]
    fn descriptors_come_to_the_limits_of_the_service(descriptors in descriptors(0)) {
        let text = json!({ "domain": "d", "descriptors": descriptors }).to_string();
        let source = Source { name: "c.yaml", text: &text };
        let imported = envoy(&[source]).expect("YAML");
        prop_assume!(imported.limits > 0 && imported.is_whole());
        let domain = reference::read(&source, &mut Findings::default()).expect("YAML");
        let config = config(&imported);
        let values = ["", "1", "12", "2", "x"];
        let mut seen = std::collections::HashMap::new();
        for keys in [&["a"][..], &["b"], &["a", "c"], &["a", "a"], &["b", "c"], &["a", "c", "e"]] {
            for number in 0..values.len().pow(3) {
                let pick = |at: usize| values[number / [1, 5, 25][at] % values.len()];
                let pairs: Vec<_> = keys.iter().enumerate().map(|(at, key)| (*key, pick(at))).collect();
                let entries = entries(&pairs);
                let ours = bucket(&config, "d", &entries);
                let theirs = walk(&domain, &entries);
                prop_assert_eq!(ours.is_some(), theirs.is_some(), "{:?}\n{}", pairs, imported.file);
                let Some((ours, (own, bucket))) = ours.zip(theirs) else { continue };
                let place = format!("# {} (", own.place.path);
                prop_assert!(imported.file.contains(&format!("{place}c.yaml:1)")), "{}", place);
                let ours_now = seen.entry((own.place.path.clone(), bucket)).or_insert(ours.clone());
                prop_assert_eq!(&*ours_now, &ours);
            }
        }
        let buckets: std::collections::HashSet<_> = seen.values().collect();
        prop_assert_eq!(buckets.len(), seen.len(), "no two have one bucket here");
    }
}
