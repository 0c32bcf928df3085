//! Several checks that are decided as one.

use limiter::{Limit, Limiter, Plan, Reason, Request, StoreConfig, Unmatched, WhenFull};

use crate::support::{HOUR, START, at, bucket, limiter};

fn limits() -> Vec<Limit> {
    let by_ip = Limit { key: "{ip}".into(), ..Limit::new("ip", bucket(3, 1, HOUR)) };
    let user = Limit { selector: at("/user"), ..Limit::new("user", bucket(5, 1, HOUR)) };
    vec![by_ip, user]
}

fn of_ip(ip: &'static [u8]) -> Request<'static> {
    Request::check(b"/ip", b"-").with_attribute(b"ip", ip)
}

fn of_user(user: &'static [u8]) -> Request<'static> {
    Request::check(b"/user", user)
}

fn told(limiter: &Limiter, requests: &[Request<'_>]) -> Vec<(bool, Option<u64>)> {
    let decisions = limiter.decide_together(START, requests).unwrap();
    decisions.iter().map(|it| (it.verdict.allowed, it.verdict.remaining)).collect()
}

/// CC-05: a denial by one of them charges none.
#[test]
fn all_are_spent_or_none() {
    let limiter = limiter(limits());
    let both = [of_ip(b"192.0.2.7"), of_user(b"alice")];
    for left in (0..3).rev() {
        assert_eq!(told(&limiter, &both), [(true, Some(left)), (true, Some(left + 2))]);
    }
    // The address has none left: the user is charged nothing, however often.
    for _ in 0..9 {
        assert_eq!(told(&limiter, &both), [(false, Some(0)), (true, Some(2))]);
    }
    let other = [of_user(b"alice"), of_ip(b"192.0.2.8")];
    assert_eq!(told(&limiter, &other), [(true, Some(1)), (true, Some(2))]);
    let counts = limiter.counts();
    assert_eq!((counts.rules[0].allowed, counts.rules[0].denied), (4, 9));
    assert_eq!((counts.rules[1].allowed, counts.rules[1].denied), (4, 0));
}

#[test]
fn one_bucket_must_have_room_for_all_costs_together() {
    let limiter = limiter(limits());
    let twice = [of_user(b"alice").with_cost(3), of_user(b"alice").with_cost(3)];
    assert_eq!(told(&limiter, &twice), [(false, Some(5)), (false, Some(5))]);
    let fits = [of_user(b"alice").with_cost(3), of_user(b"alice").with_cost(2)];
    assert_eq!(told(&limiter, &fits), [(true, Some(0)), (true, Some(0))]);
    assert_eq!(told(&limiter, &[of_user(b"alice").with_cost(0)]), [(true, Some(0))]);
    assert_eq!(limiter.counts().rules[1].units, 5);
    let huge = [of_user(b"bob").with_cost(u64::MAX), of_user(b"bob").with_cost(u64::MAX)];
    assert_eq!(told(&limiter, &huge), [(false, Some(5)), (false, Some(5))]);
}

#[test]
fn what_no_limit_matches_denies_all_only_where_the_file_says_so() {
    let stranger = || Request::check(b"/other", b"k");
    let allows = limiter(limits());
    assert_eq!(told(&allows, &[stranger(), of_user(b"a")]), [(true, None), (true, Some(4))]);
    assert_eq!(allows.counts().unmatched, 1);
    let store = StoreConfig {
        memory_bytes: 1 << 30,
        entries_max: None,
        when_full: WhenFull::Overflow,
        secret: [5; 16],
    };
    let denies = Limiter::new(Plan::compile(limits(), Unmatched::Deny).unwrap(), store);
    let decisions = denies.decide_together(START, &[stranger(), of_user(b"a")]).unwrap();
    assert_eq!(decisions[0].verdict.reason, Reason::Unmatched);
    assert!(decisions[1].verdict.allowed);
    assert_eq!(denies.decide(START, &of_user(b"a")).unwrap().verdict.remaining, Some(4));
}

#[test]
fn a_request_outside_the_bounds_stops_all() {
    let limiter = limiter(limits());
    assert!(limiter.decide_together(START, &[of_user(b"a"), of_user(b"")]).is_err());
    assert_eq!(limiter.usage().entries, 0);
    assert_eq!(limiter.decide_together(START, &[]).unwrap().len(), 0);
}
