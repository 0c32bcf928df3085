//! Which files are refused, and what a rule's name and identity are made of.

use limiter::{Limit, Plan, RuleAt, Selector, Unmatched};

use crate::support::{HOUR, SECOND, at, attributes, bucket, keys, over};

fn refusal(limits: Vec<Limit>) -> (RuleAt, Option<RuleAt>, String) {
    let error = Plan::compile(limits, Unmatched::Allow).unwrap_err();
    (error.at, error.with, error.message)
}

fn with_overrides(base: Selector, overrides: &[Selector]) -> Vec<Limit> {
    let mut limit = Limit::new("l", bucket(1, 1, HOUR));
    limit.selector = base;
    limit.overrides =
        overrides.iter().map(|selector| over(selector.clone(), bucket(1, 1, HOUR))).collect();
    vec![limit]
}

/// CF-02
#[test]
fn two_overrides_that_could_tie_are_refused_and_both_are_named() {
    let pro = || attributes(&[("plan", "pro")]);
    let ties = [
        [at("/a"), at("/a")],
        [at("/{a}/x"), at("/y/{b}")],
        [pro(), attributes(&[("region", "eu")])],
        [keys(&["a", "b"]), keys(&["b", "c"])],
        [
            Selector { endpoint: Some("/a".into()), ..pro() },
            Selector { endpoint: Some("/a".into()), ..attributes(&[("region", "eu")]) },
        ],
    ];
    for pair in &ties {
        let (at, with, message) = refusal(with_overrides(Selector::default(), pair));
        assert_eq!(at, RuleAt { limit: 0, override_index: Some(1) });
        assert_eq!(with, Some(RuleAt { limit: 0, override_index: Some(0) }), "{message}");
    }
    let fine = [
        [at("/a"), at("/b")],
        [at("/a"), at("GET /a")],
        [at("GET /a"), at("POST /a")],
        [at("/a/*"), at("/a/b*")],
        [pro(), attributes(&[("plan", "free")])],
        [keys(&["a"]), keys(&["b"])],
        [keys(&["a"]), Selector { keys: vec![b"a".to_vec()], ..pro() }],
    ];
    for pair in &fine {
        assert!(Plan::compile(with_overrides(Selector::default(), pair), Unmatched::Allow).is_ok());
    }
}

/// CF-06
#[test]
fn an_override_that_can_never_match_is_refused() {
    let pro = attributes(&[("plan", "pro")]);
    for (base, own) in [
        (at("/login"), at("/logout")),
        (at("/static/*"), at("/users/{id}")),
        (pro.clone(), attributes(&[("plan", "free")])),
        (keys(&["a"]), keys(&["b"])),
    ] {
        let (at, with, message) = refusal(with_overrides(base, &[own]));
        assert_eq!((at.override_index, with), (Some(0), None));
        assert!(message.contains("never match"), "{message}");
    }
    let narrower = with_overrides(at("/users/*"), &[at("/users/{id}")]);
    assert!(Plan::compile(narrower, Unmatched::Allow).is_ok());
}

#[test]
fn limits_that_cannot_be_meant_are_refused() {
    let named = |name: &str| Limit::new(name, bucket(1, 1, HOUR));
    let message = |limits| refusal(limits).2;
    for name in ["", "a/b", "a\"b", "a\\b", "a\nb", "\u{e9}", &"n".repeat(65)] {
        assert!(message(vec![named(name)]).contains("printable ASCII"), "{name:?}");
    }
    let (at, with, twice) = refusal(vec![named("a"), named("b"), named("a")]);
    assert!(twice.contains("given twice"));
    assert_eq!((at.limit, with.unwrap().limit), (2, 0));
    let mut all = named("l");
    all.overrides = vec![over(Selector::default(), bucket(1, 1, HOUR))];
    assert!(message(vec![all]).contains("matches everything"));
    let mut listed = named("l");
    listed.key = "{tenant}:{key}".into();
    listed.overrides = vec![over(keys(&["a"]), bucket(1, 1, HOUR))];
    assert!(message(vec![listed]).contains("single `{name}`"));
    assert!(message(with_overrides(Selector::default(), &[keys(&["a", "a"])])).contains("twice"));
    assert!(message(with_overrides(Selector::default(), &[keys(&[""])])).contains("1 to 1024"));
    let many: Vec<_> = (0..17).map(|n| (format!("a{n}"), "v")).collect();
    let many: Vec<_> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert!(
        message(with_overrides(Selector::default(), &[attributes(&many)])).contains("more than 16")
    );
    assert!(message(vec![Limit::new("l", bucket(0, 1, HOUR))]).contains("burst of 0"));
}

/// AR-03: a rate that the clock cannot count is refused, with a reason, and not taken for none.
#[test]
fn a_rate_above_one_unit_per_nanosecond_is_refused() {
    let at = |count| vec![Limit::new("l", bucket(5, count, SECOND))];
    assert!(Plan::compile(at(SECOND), Unmatched::Allow).is_ok());
    for count in [1_000_000_001, 3_000_000_000, u64::MAX] {
        let message = refusal(at(count)).2;
        assert!(message.contains("above one unit per nanosecond"), "{count}: {message}");
    }
}

#[test]
fn there_are_bounds_on_overrides_and_on_rules() {
    let overrides = |count: usize| {
        let mut limit = Limit::new("l", bucket(1, 1, HOUR));
        let one = |n: usize| over(keys(&[&n.to_string()]), bucket(1, 1, HOUR));
        limit.overrides = (0..count).map(one).collect();
        vec![limit]
    };
    assert!(Plan::compile(overrides(4_096), Unmatched::Allow).is_ok());
    assert!(refusal(overrides(4_097)).2.contains("more than 4096 overrides"));
    let limits = |count: usize| -> Vec<Limit> {
        (0..count).map(|n| Limit::new(n.to_string(), bucket(1, 1, HOUR))).collect()
    };
    let most = Plan::compile(limits(65_535), Unmatched::Allow).unwrap();
    assert_eq!(most.rules().len(), 65_535);
    assert!(refusal(limits(65_536)).2.contains("more than 65535"));
}

#[test]
fn a_listed_key_is_as_long_as_what_it_is_compared_with() {
    let listed = |template: &str, bytes: usize| {
        let mut limits = with_overrides(Selector::default(), &[keys(&[&"a".repeat(bytes)])]);
        limits[0].key = template.into();
        limits
    };
    for (template, most) in [("{key}", 1_024), ("{tenant}", 256), ("{ip}", 256)] {
        assert!(Plan::compile(listed(template, most), Unmatched::Allow).is_ok(), "{template}");
        assert!(refusal(listed(template, most + 1)).2.contains(&format!("1 to {most} bytes")));
    }
}

#[test]
fn an_address_is_not_matched_as_text() {
    let by_ip = with_overrides(Selector::default(), &[attributes(&[("ip", "192.0.2.1")])]);
    assert!(refusal(by_ip).2.contains("`{ip}`"));
}

/// Identity is what a rule is called, keyed by, counts and matches, wherever it stands.
#[test]
fn the_identity_of_a_rule_does_not_depend_on_its_place_or_rate() {
    let ids = |limits: Vec<Limit>| {
        let plan = Plan::compile(limits, Unmatched::Allow).unwrap();
        let mut ids: Vec<_> = plan.rules().iter().map(|r| (r.name().to_owned(), r.id())).collect();
        ids.sort();
        ids
    };
    let mut limit = Limit::new("l", bucket(1, 1, HOUR));
    limit.overrides = vec![
        over(attributes(&[("b", "2"), ("a", "1")]), bucket(1, 1, HOUR)),
        over(keys(&["y", "x"]), bucket(1, 1, HOUR)),
    ];
    let mut other = limit.clone();
    other.quota = bucket(9, 7, SECOND);
    other.overrides.reverse();
    other.overrides[0].selector.keys.reverse();
    other.overrides[1].selector.attributes.reverse();
    let first = Limit::new("first", bucket(1, 1, HOUR));
    assert_eq!(ids(vec![first.clone(), limit]), ids(vec![other, first]));
}

#[test]
fn a_derived_name_is_printable_and_bounded() {
    let mut limit = Limit::new("l", bucket(1, 1, HOUR));
    let odd = Selector { keys: vec![b"\xff \"=;".to_vec()], ..Selector::default() };
    limit.overrides = vec![
        over(odd, bucket(1, 1, HOUR)),
        over(keys(&[&"a".repeat(200)]), bucket(1, 1, HOUR)),
        over(keys(&[&"b".repeat(200)]), bucket(1, 1, HOUR)),
    ];
    let plan = Plan::compile(vec![limit], Unmatched::Allow).unwrap();
    let names: Vec<_> = plan.rules().iter().map(|rule| rule.name()).collect();
    assert_eq!(names[1], "l/key=%FF %22%3D%3B");
    assert!(names[2].starts_with("l/key=aaa") && names[2].len() == 2 + 64);
    assert_ne!(names[2], names[3]);
}
