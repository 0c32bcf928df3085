//! Short ways to say what the tests say often.

use limiter::{
    Limit, Limiter, Override, Plan, Quota, Rate, Request, Selector, StoreConfig, Unmatched,
    Verdict, WhenFull,
};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000 * MS;
pub(crate) const HOUR: u64 = 3_600 * SECOND;
pub(crate) const DAY: u64 = 24 * HOUR;

/// When the tests start: some time after the clock did.
pub(crate) const START: u64 = DAY;

/// A token bucket of `burst` units that refills `count` per `period_ns`.
pub(crate) fn bucket(burst: u64, count: u64, period_ns: u64) -> Quota {
    Quota::TokenBucket { rate: Rate { count, period_ns }, burst }
}

/// One limit of `quota` per key.
pub(crate) fn per_key(quota: Quota) -> Limiter {
    limiter(vec![Limit::new("l", quota)])
}

/// A limiter of `limits` with room for everything.
pub(crate) fn limiter(limits: Vec<Limit>) -> Limiter {
    bounded(limits, 1 << 20, WhenFull::Overflow)
}

/// A limiter that holds at most `entries_max` entries.
pub(crate) fn bounded(limits: Vec<Limit>, entries_max: u64, when_full: WhenFull) -> Limiter {
    let plan = Plan::compile(limits, Unmatched::Allow).unwrap();
    let entries_max = Some(entries_max);
    Limiter::new(
        plan,
        StoreConfig { memory_bytes: 1 << 30, entries_max, when_full, secret: [5; 16] },
    )
}

/// What a check of `key` says.
pub(crate) fn check<'l>(limiter: &'l Limiter, now_ns: u64, key: &str) -> Verdict<'l> {
    ask(limiter, now_ns, &Request::check(b"", key.as_bytes()))
}

/// What `request` is answered.
pub(crate) fn ask<'l>(limiter: &'l Limiter, now_ns: u64, request: &Request<'_>) -> Verdict<'l> {
    limiter.decide(now_ns, request).unwrap().verdict
}

/// How many of `calls` checks of `key` at `now_ns` pass.
pub(crate) fn passes(limiter: &Limiter, now_ns: u64, key: &str, calls: usize) -> usize {
    (0..calls).filter(|_| check(limiter, now_ns, key).allowed).count()
}

/// An unnamed override.
pub(crate) fn over(selector: Selector, quota: Quota) -> Override {
    Override { name: None, selector, quota }
}

/// Selects an endpoint.
pub(crate) fn at(endpoint: &str) -> Selector {
    Selector { endpoint: Some(endpoint.into()), ..Selector::default() }
}

/// Selects listed keys.
pub(crate) fn keys(keys: &[&str]) -> Selector {
    Selector {
        keys: keys.iter().map(|key| key.as_bytes().to_vec()).collect(),
        ..Selector::default()
    }
}

/// Selects attributes.
pub(crate) fn attributes(pairs: &[(&str, &str)]) -> Selector {
    let pairs = pairs.iter().map(|(name, value)| ((*name).into(), (*value).into()));
    Selector { attributes: pairs.collect(), ..Selector::default() }
}
