//! Which limits apply, several at once, keys, overrides, costs by unit, shadows.

use crate::support::{
    DAY, HOUR, SECOND, START, ask, at, attributes, bucket, check, keys, limiter, over, passes,
};
use limiter::{
    Limit, Limiter, Missing, Op, Operation, OperationError, Plan, Quota, Reason, Request,
    RequestError, StoreConfig, Subject, Unmatched, Wait, WhenFull,
};

/// Every order of `items`.
fn orders<T: Clone>(items: &[T]) -> Vec<Vec<T>> {
    let Some((first, rest)) = items.split_first() else { return vec![Vec::new()] };
    let insert = |order: Vec<T>| {
        (0..=order.len()).map(move |place| {
            let mut order = order.clone();
            order.insert(place, first.clone());
            order
        })
    };
    orders(rest).into_iter().flat_map(insert).collect()
}

/// KY-08
#[test]
fn the_most_specific_override_decides_in_every_order_of_the_file() {
    let overrides = [
        over(at("/x"), bucket(5, 5, HOUR)),
        over(keys(&["vip"]), bucket(50, 50, HOUR)),
        over(keys(&["bad"]), bucket(1, 1, HOUR)),
        over(attributes(&[("plan", "pro")]), bucket(20, 20, HOUR)),
        over(attributes(&[("plan", "pro"), ("region", "eu")]), bucket(30, 30, HOUR)),
    ];
    for overrides in orders(&overrides) {
        let mut limit = Limit::new("l", bucket(2, 2, HOUR));
        limit.overrides = overrides;
        let limiter = limiter(vec![limit]);
        let passes = |request: Request<'_>| {
            (0..60).filter(|_| ask(&limiter, START, &request).allowed).count()
        };
        assert_eq!(passes(Request::check(b"/x", b"vip").with_attribute(b"plan", b"pro")), 50);
        assert_eq!(passes(Request::check(b"/x", b"bad")), 1);
        assert_eq!(passes(Request::check(b"/x", b"other")), 5);
        assert_eq!(passes(Request::check(b"/x", b"p").with_attribute(b"plan", b"pro")), 20);
        let eu = Request::check(b"/x", b"p").with_attribute(b"region", b"eu");
        assert_eq!(passes(eu.with_attribute(b"plan", b"pro")), 30);
        assert_eq!(passes(Request::check(b"/y", b"other")), 2);
    }
}

#[test]
fn an_endpoint_is_matched_exactly_then_by_template_then_by_the_longest_prefix() {
    let mut limit = Limit::new("l", bucket(1, 1, HOUR));
    limit.overrides =
        [("/*", 2), ("/users/*", 3), ("/users/{id}", 4), ("/users/me", 5), ("GET /users/me", 6)]
            .map(|(endpoint, burst)| over(at(endpoint), bucket(burst, 1, HOUR)))
            .to_vec();
    let limiter = limiter(vec![limit]);
    for (endpoint, limit, name) in [
        ("GET /users/me", 6, "l/GET /users/me"),
        ("PUT /users/me", 5, "l//users/me"),
        ("GET /users/7", 4, "l//users/{id}"),
        ("GET /users/7/x", 3, "l//users/*"),
        ("GET /teams", 2, "l//*"),
        ("teams", 1, "l"),
    ] {
        let verdict = ask(&limiter, START, &Request::check(endpoint.as_bytes(), b"k"));
        assert_eq!((verdict.limit, verdict.limit_name), (Some(limit), name), "{endpoint}");
    }
}

#[test]
fn an_override_decides_over_a_limit_that_spells_out_as_much() {
    let mut limit = Limit::new("l", bucket(1, 1, HOUR));
    limit.selector = at("/a");
    limit.overrides = vec![over(at("/a"), bucket(7, 1, HOUR))];
    let limiter = limiter(vec![limit]);
    assert_eq!(ask(&limiter, START, &Request::check(b"/a", b"k")).limit, Some(7));
}

/// KY-06
#[test]
fn another_spelling_of_an_endpoint_falls_under_the_general_limit() {
    let mut limit = Limit::new("l", bucket(3, 3, HOUR));
    limit.overrides = vec![over(at("/login"), bucket(1, 1, HOUR))];
    let limiter = limiter(vec![limit]);
    for (n, spelling) in ["/login/", "//login", "/LOGIN", "/log%69n", "/login?x"].iter().enumerate()
    {
        let key = format!("k{n}");
        let request = Request::check(spelling.as_bytes(), key.as_bytes());
        assert_eq!((0..4).filter(|_| ask(&limiter, START, &request).allowed).count(), 3);
    }
    assert!(ask(&limiter, START, &Request::check(b"/login", b"k")).allowed);
    assert!(!ask(&limiter, START, &Request::check(b"/login", b"k")).allowed);
}

/// CC-05
#[test]
fn a_request_that_one_limit_refuses_charges_no_other() {
    let mut whole = Limit::new("whole", bucket(10, 10, HOUR));
    whole.key = "*".into();
    let own = Limit::new("own", bucket(1, 1, HOUR));
    for limits in orders(&[own, whole]) {
        let limiter = limiter(limits);
        assert_eq!(passes(&limiter, START, "x", 20), 1);
        assert!(check(&limiter, START, "y").allowed);
        let mut request = Request::check(b"", b"z").with_op(Op::Peek);
        request.details = true;
        let details = limiter.decide(START, &request).unwrap().details;
        let left = |name| details.iter().find(|v| v.limit_name == name).unwrap().remaining;
        assert_eq!((left("whole"), left("own")), (Some(8), Some(1)));
    }
}

#[test]
fn the_answer_names_the_longest_wait_or_the_smallest_share_left() {
    let mut whole = Limit::new("whole", bucket(100, 1, SECOND));
    whole.key = "*".into();
    let limits = vec![
        Limit::new("second", bucket(2, 1, SECOND)),
        Limit::new("day", bucket(2, 1, DAY)),
        whole,
    ];
    let limiter = limiter(limits);
    assert_eq!(check(&limiter, START, "k").limit_name, "second");
    assert_eq!(check(&limiter, START, "k").limit_name, "second");
    let denied = check(&limiter, START, "k");
    assert_eq!((denied.limit_name, denied.retry_after.to_secs()), ("day", Some(86_400)));
}

/// KY-01
#[test]
fn pairs_of_endpoint_and_key_never_share_a_bucket() {
    let mut limit = Limit::new("l", bucket(1, 1, HOUR));
    limit.key = "{endpoint}:{key}".into();
    let limiter = limiter(vec![limit]);
    let pairs: [(&[u8], &[u8]); 9] = [
        (b"a:b", b"c"),
        (b"a", b"b:c"),
        (b"a", b"b|c"),
        (b"a|b", b"c"),
        (b"", b"a"),
        (b"1", b"12"),
        (b"11", b"2"),
        (b"a\0b", b"c"),
        (b"a", b"b\0c"),
    ];
    for (endpoint, key) in pairs {
        assert!(ask(&limiter, START, &Request::check(endpoint, key)).allowed);
    }
    for (endpoint, key) in pairs {
        assert!(!ask(&limiter, START, &Request::check(endpoint, key)).allowed);
    }
}

/// KY-02, KY-03
#[test]
fn a_request_outside_the_bounds_is_an_error_and_changes_nothing() {
    let limiter = limiter(vec![Limit::new("l", bucket(1, 1, HOUR))]);
    let long = vec![b'k'; 1025];
    let refusal = |request: Request<'_>| limiter.decide(START, &request).unwrap_err();
    assert_eq!(refusal(Request::check(b"", b"")), RequestError::KeyEmpty);
    assert_eq!(refusal(Request::check(b"", &long)), RequestError::KeyTooLong);
    assert_eq!(refusal(Request::check(&long, b"k")), RequestError::EndpointTooLong);
    let request = || Request::check(b"", b"k");
    assert_eq!(refusal(request().with_attribute(b"", b"v")), RequestError::Attribute);
    assert_eq!(refusal(request().with_attribute(&long[..65], b"v")), RequestError::Attribute);
    assert_eq!(refusal(request().with_attribute(b"n", &long[..257])), RequestError::Attribute);
    let twice = request().with_attribute(b"n", b"v").with_attribute(b"n", b"v");
    assert_eq!(refusal(twice), RequestError::Attribute);
    assert_eq!(refusal(request().with_unit_cost(&long[..65], 1)), RequestError::Cost);
    assert_eq!(refusal(request().with_cost(1).with_unit_cost(b"", 1)), RequestError::Cost);
    assert_eq!(limiter.usage().entries, 0);
    // The longest of everything is taken, and the last byte counts.
    let mut other = long[..1024].to_vec();
    other[1023] = b'x';
    for key in [&long[..1024], &other] {
        let longest = Request::check(&long[..1024], key)
            .with_attribute(&long[..64], &long[..256])
            .with_unit_cost(&long[..64], 1);
        assert!(ask(&limiter, START, &longest).allowed);
    }
    assert_eq!(limiter.usage().entries, 2);
}

/// KY-05
#[test]
fn an_address_key_is_one_per_host_or_network() {
    let mut limit = Limit::new("l", bucket(1, 1, HOUR));
    limit.key = "{ip}".into();
    limit.overrides = vec![over(keys(&["::ffff:10.0.0.1"]), Quota::Unlimited)];
    let limiter = limiter(vec![limit]);
    let call = |ip: &str| {
        ask(&limiter, START, &Request::check(b"", b"k").with_attribute(b"ip", ip.as_bytes()))
            .allowed
    };
    assert!(call("2001:db8:1:2::1") && !call("2001:db8:1:2:ffff::9") && call("2001:db8:1:3::1"));
    assert!(call("::ffff:192.0.2.1") && !call("192.0.2.1") && call("::ffff:192.0.2.2"));
    assert!(call("fe80::1%eth0") && !call("fe80::1%eth0"));
    // A listed address is the same address however it is spelt.
    assert!((0..5).all(|_| call("10.0.0.1")));
}

#[test]
fn a_limit_counts_its_own_unit_and_an_unnamed_unit_costs_nothing() {
    let mut bytes = Limit::new("bytes", bucket(1_000, 1, HOUR));
    bytes.unit = "bytes".into();
    let limiter = limiter(vec![Limit::new("requests", bucket(3, 1, HOUR)), bytes]);
    let call =
        |bytes| ask(&limiter, START, &Request::check(b"", b"k").with_unit_cost(b"bytes", bytes));
    assert!(call(900).allowed);
    let denied = call(101);
    assert_eq!((denied.allowed, denied.limit_name), (false, "bytes"));
    let second = check(&limiter, START, "k");
    assert_eq!((second.limit_name, second.remaining), ("bytes", Some(100)));
    let free = Request::check(b"", b"k").with_cost(0).with_unit_cost(b"bytes", 100);
    assert_eq!(ask(&limiter, START, &free).remaining, Some(0));
    assert!(check(&limiter, START, "k").allowed);
    assert_eq!(check(&limiter, START, "k").limit_name, "requests");
    let counts = limiter.counts();
    assert_eq!((counts.rules[0].units, counts.rules[1].units), (3, 1_000));
}

#[test]
fn a_limit_whose_attribute_is_missing_does_not_apply_unless_it_denies() {
    let mut skip = Limit::new("tenant", bucket(1, 1, HOUR));
    skip.key = "{tenant}".into();
    let mut deny = skip.clone();
    deny.missing = Missing::Deny;
    let skipping = limiter(vec![skip]);
    assert_eq!(passes(&skipping, START, "k", 3), 3);
    assert_eq!((skipping.counts().missing, skipping.counts().unmatched), (3, 3));
    let denying = limiter(vec![deny]);
    let verdict = check(&denying, START, "k");
    assert_eq!(
        (verdict.allowed, verdict.reason, verdict.retry_after),
        (false, Reason::Deny, Wait::NEVER)
    );
    assert_eq!((verdict.limit, verdict.remaining), (Some(1), Some(0)));
    assert!(
        ask(&denying, START, &Request::check(b"", b"k").with_attribute(b"tenant", b"t")).allowed
    );
}

#[test]
fn a_request_that_nothing_matches_is_allowed_or_denied_as_the_file_says() {
    let mut limit = Limit::new("l", bucket(1, 1, HOUR));
    limit.selector = at("/x");
    let mut shadow = Limit::new("s", bucket(1, 1, HOUR));
    shadow.shadow = true;
    for (unmatched, allowed, reason) in
        [(Unmatched::Allow, true, Reason::Ok), (Unmatched::Deny, false, Reason::Unmatched)]
    {
        let plan = Plan::compile(vec![limit.clone(), shadow.clone()], unmatched).unwrap();
        let limiter = Limiter::new(plan, denying_store());
        let verdict = check(&limiter, START, "k");
        assert_eq!((verdict.allowed, verdict.reason, verdict.limit_name), (allowed, reason, ""));
        assert_eq!(limiter.counts().unmatched, 1);
        assert_eq!(limiter.counts().rules[1].units, u64::from(allowed));
    }
}

fn denying_store() -> StoreConfig {
    StoreConfig {
        memory_bytes: 1 << 20,
        entries_max: None,
        when_full: WhenFull::Deny,
        secret: [1; 16],
    }
}

#[test]
fn a_shadow_is_counted_and_reported_but_decides_nothing() {
    let mut shadow = Limit::new("shadow", bucket(1, 1, HOUR));
    shadow.shadow = true;
    let limiter = limiter(vec![shadow, Limit::new("real", bucket(3, 1, HOUR))]);
    assert_eq!(passes(&limiter, START, "k", 5), 3);
    let counts = limiter.counts();
    assert_eq!((counts.rules[0].allowed, counts.rules[0].shadow_denied), (1, 4));
    assert_eq!((counts.rules[1].allowed, counts.rules[1].denied), (3, 2));
    let mut peek = Request::check(b"", b"k").with_op(Op::Peek);
    peek.details = true;
    let decision = limiter.decide(START, &peek).unwrap();
    assert_eq!(decision.verdict.limit_name, "real");
    assert_eq!(
        decision.details.iter().map(|v| (v.limit_name, v.shadow)).collect::<Vec<_>>(),
        [("shadow", true), ("real", false)]
    );
}

#[test]
fn deny_and_unlimited_are_said_in_words() {
    let mut limit = Limit::new("l", bucket(1, 1, HOUR));
    limit.overrides =
        vec![over(keys(&["bad"]), Quota::Deny), over(keys(&["vip"]), Quota::Unlimited)];
    let limiter = limiter(vec![limit]);
    let bad = check(&limiter, START, "bad");
    assert_eq!((bad.allowed, bad.reason, bad.retry_after), (false, Reason::Deny, Wait::NEVER));
    assert_eq!((bad.limit, bad.remaining, bad.reset_after), (Some(0), Some(0), Wait::NEVER));
    assert_eq!(passes(&limiter, START, "vip", 10), 10);
    let vip = check(&limiter, START, "vip");
    assert_eq!((vip.limit_name, vip.limit, vip.remaining), ("l/key=vip", None, None));
    assert_eq!(limiter.usage().entries, 0);
    // What is debited where nothing passes goes nowhere.
    assert!(ask(&limiter, START, &Request::check(b"", b"bad").with_op(Op::Debit)).allowed);
    let bad = limiter.counts().rules[1];
    assert_eq!((bad.debits, bad.units), (1, 0));
}

/// What no call can be is nobody: it is refused, and peers are not told what they could not read.
#[test]
fn a_ban_of_what_no_call_can_be_is_refused() {
    let limiter = limiter(vec![Limit::new("l", bucket(1, 1, HOUR))]);
    let subject = |length: usize| Subject::Key(vec![b'k'; length]);
    let refused = |length, error| {
        for operation in [
            Operation::Ban { subject: subject(length), for_ns: None },
            Operation::Unban { subject: subject(length) },
        ] {
            let error = Err(OperationError::Request(error));
            assert_eq!(limiter.operate(START, &operation), error, "{length}");
        }
    };
    refused(0, RequestError::KeyEmpty);
    refused(1_025, RequestError::KeyTooLong);
    assert_eq!((limiter.bans(START).len(), limiter.act_changes()), (0, 0));
    let longest = Operation::Ban { subject: subject(1_024), for_ns: None };
    assert_eq!(limiter.operate(START, &longest).map(|done| done.changed), Ok(1));
}
