//! Why a request is answered as it is: what matches and what does not, how its buckets stand, and that
//! asking changes nothing.

use limiter::{
    Accuracy, CONSIDERED_MAX, Counted, Fit, Lack, Limit, Limiter, Members, Missing, Op, Reason,
    Request, ShareConfig, StoreConfig, Unmatched, View, ViewMember, WhenFull, Why, member_id,
};

use crate::support::{
    HOUR, MS, START, ask, at, attributes, bounded, bucket, check, keys, limiter, over, passes,
};

/// A limit with overrides of every kind, and one that matches nearly nothing.
fn limits() -> Vec<Limit> {
    let small = bucket(5, 5, HOUR);
    let all = Limit {
        overrides: vec![
            over(at("POST /search"), small.clone()),
            over(attributes(&[("plan", "pro")]), small.clone()),
            over(keys(&["vip"]), small.clone()),
        ],
        ..Limit::new("all", bucket(100, 100, HOUR))
    };
    let login =
        Limit { selector: at("POST /login"), key: "{ip}".into(), ..Limit::new("login", small) };
    vec![all, login]
}

/// Name and fit of what was looked at for the limit at `index`.
fn looked_at<'w>(why: &'w Why<'_>, index: usize) -> Vec<(&'w str, Fit)> {
    let rules = why.limits[index].rules.iter();
    rules.map(|it| (why.plan.rules()[usize::from(it.index)].name(), it.fit.clone())).collect()
}

#[test]
fn overrides_are_told_from_the_most_specific_with_what_is_lacking() {
    let limiter = limiter(limits());
    let request = Request::check(b"POST /search", b"alice").with_attribute(b"plan", b"pro");
    let why = limiter.why(START, &request).unwrap();
    assert_eq!(
        looked_at(&why, 0),
        [
            ("all/key=vip", Fit::Lacks(vec![Lack::Key])),
            ("all/plan=pro", Fit::Decides),
            ("all/POST /search", Fit::LessSpecific),
            ("all", Fit::LessSpecific),
        ]
    );
    // It names neither the endpoint nor the key.
    assert_eq!((why.limits.len(), why.others), (1, 1));
    assert_eq!(why.next.verdict.limit_name, "all/plan=pro");
    let request = Request::check(b"GET /", b"bob").with_attribute(b"plan", b"free");
    let why = limiter.why(START, &request).unwrap();
    let lacks = Fit::Lacks(vec![Lack::Attribute("plan".into())]);
    assert_eq!(looked_at(&why, 0)[1], ("all/plan=pro", lacks));
    assert_eq!(looked_at(&why, 0)[3], ("all", Fit::Decides));
}

#[test]
fn a_limit_that_names_the_endpoint_and_does_not_apply_says_why() {
    let tenant = Limit {
        selector: limiter::Selector { endpoint: Some("/a".into()), ..attributes(&[("t", "1")]) },
        ..Limit::new("tenant", bucket(5, 5, HOUR))
    };
    let limiter = limiter(vec![tenant, Limit::new("all", bucket(5, 5, HOUR))]);
    let why = limiter.why(START, &Request::check(b"/a", b"k")).unwrap();
    let lacks = Fit::Lacks(vec![Lack::Attribute("t".into())]);
    assert_eq!(looked_at(&why, 0), [("tenant", lacks)]);
    assert!(why.limits[0].applied.is_none() && why.limits[1].applied.is_some());
    let elsewhere = limiter.why(START, &Request::check(b"/b", b"k")).unwrap();
    assert_eq!((elsewhere.limits.len(), elsewhere.others), (1, 1));
}

#[test]
fn of_many_overrides_those_that_lack_the_least_are_told() {
    let two = |n: usize| {
        let pairs = [("plan".to_owned(), n.to_string()), ("zone".to_owned(), n.to_string())];
        let selector = limiter::Selector { attributes: pairs.into(), ..Default::default() };
        over(selector, bucket(1, 1, HOUR))
    };
    let mut overrides: Vec<_> = (0..40).map(two).collect();
    overrides.push(over(attributes(&[("plan", "pro")]), bucket(1, 1, HOUR)));
    let limit = Limit { overrides, ..Limit::new("l", bucket(9, 9, HOUR)) };
    let limiter = limiter(vec![limit]);
    let why = limiter.why(START, &Request::check(b"", b"k")).unwrap();
    assert_eq!(why.limits[0].left_out, 41 - CONSIDERED_MAX);
    let told = looked_at(&why, 0);
    assert_eq!(told.len(), CONSIDERED_MAX + 1);
    assert!(told.iter().any(|(name, _)| *name == "l/plan=pro"), "{told:?}");
    assert_eq!(told.last(), Some(&("l", Fit::Decides)));
}

#[test]
fn what_decides_is_what_a_check_meets() {
    let limiter = limiter(limits());
    let requests = [
        Request::check(b"POST /search", b"alice"),
        Request::check(b"POST /login", b"vip").with_attribute(b"ip", b"192.0.2.1"),
        Request::check(b"GET /", b"bob").with_attribute(b"plan", b"pro").with_cost(5),
        Request::check(b"POST /login", b"carol"),
    ];
    for round in 0..7 {
        for request in &requests {
            let why = limiter.why(START, request).unwrap();
            let peek = limiter.decide(START, &request.clone().with_op(Op::Peek)).unwrap();
            assert_eq!(why.next, peek, "{round}");
            assert!(!why.may_wait);
            let mut asked = request.clone();
            asked.details = true;
            let decided = limiter.decide(START, &asked).unwrap();
            let of_why: Vec<_> = why
                .limits
                .iter()
                .filter_map(|limit| limit.applied.as_ref()?.verdict.as_ref())
                .map(|verdict| (verdict.limit_name, verdict.allowed))
                .collect();
            let of_check: Vec<_> = decided
                .details
                .iter()
                .map(|verdict| (verdict.limit_name, verdict.allowed))
                .collect();
            assert_eq!(of_why, of_check);
            assert_eq!(why.next.verdict.allowed, decided.verdict.allowed);
        }
    }
}

#[test]
fn a_limit_that_is_skipped_or_denies_for_want_of_an_attribute_says_so() {
    let by_ip =
        |missing| Limit { key: "{ip}".into(), missing, ..Limit::new("l", bucket(5, 5, HOUR)) };
    let skips = limiter(vec![by_ip(Missing::Skip)]);
    let why = skips.why(START, &Request::check(b"", b"k")).unwrap();
    let applied = why.limits[0].applied.as_ref().unwrap();
    assert_eq!((applied.counted, applied.verdict.is_none()), (Counted::MissingAttribute, true));
    assert!(why.next.verdict.allowed);
    let denies = limiter(vec![by_ip(Missing::Deny)]);
    let why = denies.why(START, &Request::check(b"", b"k")).unwrap();
    assert_eq!(why.next.verdict.reason, Reason::Deny);
    assert_eq!((skips.counts().missing, denies.counts().missing), (0, 0));
}

#[test]
fn asking_why_changes_nothing() {
    let limiter = limiter(limits());
    passes(&limiter, START, "alice", 3);
    let before = (limiter.counts(), limiter.usage());
    for n in 0..100u32 {
        let key = n.to_le_bytes();
        let cost = u64::from(n % 7);
        let request = Request::check(b"POST /search", &key).with_cost(cost);
        limiter.why(START, &request).unwrap();
        limiter.why(START, &Request::check(b"", b"alice")).unwrap();
    }
    assert_eq!((limiter.counts(), limiter.usage()), before);
    assert_eq!(check(&limiter, START, "alice").remaining, Some(96));
    assert!(limiter.why(START, &Request::check(b"", b"")).is_err());
}

#[test]
fn a_key_without_room_is_told_where_it_is_counted_and_drives_nobody_out() {
    for (when_full, reason) in [
        (WhenFull::Overflow, Reason::Ok),
        (WhenFull::Allow, Reason::Ok),
        (WhenFull::Deny, Reason::Full),
    ] {
        let limiter = bounded(vec![Limit::new("l", bucket(9, 9, HOUR))], 2, when_full);
        for key in ["a", "b"] {
            check(&limiter, START, key);
        }
        let request = Request::check(b"", b"c");
        let why = limiter.why(START, &request).unwrap();
        let counted = why.limits[0].applied.as_ref().unwrap().counted;
        assert_eq!(matches!(counted, Counted::Overflow(_)), when_full == WhenFull::Overflow);
        assert_eq!(why.next.verdict.reason, reason);
        assert_eq!((limiter.usage().entries, limiter.counts().full), (2, 0));
        // When one of them is at rest a check would take its place; asking does not.
        let later = START + HOUR;
        let why = limiter.why(later, &request).unwrap();
        let counted = why.limits[0].applied.as_ref().unwrap().counted;
        assert!(matches!(counted, Counted::Bucket(..)), "{counted:?}");
        assert_eq!(limiter.usage().entries, 2);
        assert!(ask(&limiter, later, &request).allowed);
    }
}

/// One of three members, with 30 units.
fn member(accuracy: Accuracy) -> Limiter {
    let limit = Limit { accuracy, ..Limit::new("l", bucket(30, 30, HOUR)) };
    let plan = limiter::Plan::compile(vec![limit], Unmatched::Allow).unwrap();
    let store = StoreConfig {
        memory_bytes: 1 << 20,
        entries_max: None,
        when_full: WhenFull::Overflow,
        secret: [5; 16],
    };
    let of = |(index, name): (u8, &str)| ViewMember { index, id: Some(member_id(name)) };
    let members: Vec<_> = [(0, "a"), (1, "b"), (2, "c")].map(of).into();
    let reachable = (0..3).collect::<Members>();
    let view = View { members, me: 0, reachable, isolated: false };
    let limiter =
        Limiter::new_member(plan, store, ShareConfig { sync_interval_ns: 200 * MS, view });
    limiter.set_alive_until(u64::MAX);
    limiter
}

#[test]
fn a_member_tells_its_share_what_is_in_flight_and_whether_waiting_helps() {
    for (accuracy, may_wait) in [(Accuracy::Balanced, true), (Accuracy::Fast, false)] {
        let limiter = member(accuracy);
        let passed = passes(&limiter, START, "alice", 100);
        let spent = i64::try_from(passed).unwrap();
        let request = Request::check(b"", b"alice");
        let states: Vec<_> = (0..2)
            .map(|_| {
                let why = limiter.why(START, &request).unwrap();
                assert_eq!(why.next.verdict.reason, Reason::Share);
                assert_eq!(why.may_wait, may_wait, "{accuracy:?}");
                let counted = why.limits[0].applied.as_ref().unwrap().counted;
                let Counted::Bucket(bucket, state) = counted else { panic!("{counted:?}") };
                assert_eq!(limiter.bucket_state(START, bucket), Some(state));
                state
            })
            .collect();
        let state = states[1];
        assert_eq!((state.allowance, state.unpublished, state.in_flight), (spent, spent, 0));
        assert_eq!((state.part, state.remaining), (30, 30 - u64::try_from(passed).unwrap()));
        let mut deltas = Vec::new();
        limiter.collect_early(START, Members::EMPTY, &mut deltas);
        let why = limiter.why(START, &request).unwrap();
        let counted = why.limits[0].applied.as_ref().unwrap().counted;
        let Counted::Bucket(_, state) = counted else { panic!("{counted:?}") };
        assert_eq!((state.unpublished, state.in_flight, state.open_batches), (0, spent, 1));
        assert_eq!(limiter.counts().rules[0].share_denied, 100 - passed as u64);
        assert_eq!(limiter.share_counts().share_denied, 100 - passed as u64);
    }
}

#[test]
fn asking_a_member_why_makes_no_row_and_fades_nothing_twice() {
    let (asked, left_alone) = (member(Accuracy::Balanced), member(Accuracy::Balanced));
    for limiter in [&asked, &left_alone] {
        passes(limiter, START, "alice", 5);
        let (mut deltas, mut woken) = (Vec::new(), Vec::new());
        limiter.collect_due(
            START,
            Members::EMPTY,
            false,
            (limiter::StorePart::START, usize::MAX),
            &mut deltas,
        );
        limiter.acknowledged(START, &deltas, &mut woken);
    }
    for ms in 0..900 {
        let now = START + ms * MS;
        asked.why(now, &Request::check(b"", b"alice")).unwrap();
        asked.why(now, &Request::check(b"", b"nobody")).unwrap();
    }
    let counts = asked.share_counts();
    assert_eq!((counts, asked.usage().entries), (left_alone.share_counts(), 1));
    let later = START + 950 * MS;
    let states = [&asked, &left_alone].map(|limiter| {
        let why = limiter.why(later, &Request::check(b"", b"alice")).unwrap();
        why.limits[0].applied.as_ref().unwrap().counted
    });
    assert_eq!(states[0], states[1]);
}
