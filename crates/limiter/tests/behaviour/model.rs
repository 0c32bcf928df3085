//! The obvious limiter that the real one is held against: no ticks, no shards, no index, nothing
//! bounded. It scans every limit and keeps each bucket's level as an exact fraction.

use std::collections::HashMap;

use limiter::{Limit, Op, Quota, Request};

/// What the model says to a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) allowed: bool,
    /// Of the limit that decides; none where no limit with a bucket applies.
    pub(crate) limit_name: String,
    pub(crate) remaining: Option<u64>,
    /// None for never.
    pub(crate) retry_after_ns: Option<u64>,
    pub(crate) reset_after_ns: u64,
}

/// A bucket's level, in units times the period of its rate: exact at every rate.
struct Bucket {
    level: i128,
    read_ns: u64,
}

/// The obvious limiter.
pub(crate) struct Model {
    limits: Vec<Limit>,
    buckets: HashMap<(String, Vec<u8>), Bucket>,
    last_ns: u64,
}

/// One rule that applies: its name, quota and the bucket's key.
struct Hit {
    name: String,
    quota: Quota,
    key: Vec<u8>,
    cost: u64,
}

impl Model {
    /// Limits whose keys are `{key}`, `{endpoint}`, `{tenant}` or `*`, and whose overrides select by
    /// one exact endpoint, by attributes or by keys.
    pub(crate) fn new(limits: Vec<Limit>) -> Self {
        Self { limits, buckets: HashMap::new(), last_ns: 0 }
    }

    /// Decides as the real one must.
    pub(crate) fn decide(&mut self, now_ns: u64, request: &Request<'_>) -> Answer {
        let hits: Vec<Hit> = self.limits.iter().filter_map(|limit| hit(limit, request)).collect();
        if !hits.is_empty() {
            self.last_ns = self.last_ns.max(now_ns);
        }
        let waits: Vec<Option<u64>> = hits.iter().map(|hit| self.wait(hit)).collect();
        let tests = matches!(request.op, Op::Check | Op::Peek);
        let denied = tests && waits.iter().any(|wait| *wait != Some(0));
        for hit in hits.iter().filter(|_| !(denied || request.op == Op::Peek)) {
            self.change(request.op, hit);
        }
        let waits = if tests { waits } else { vec![Some(0); hits.len()] };
        self.answer(&hits, &waits, denied)
    }

    fn answer(&mut self, hits: &[Hit], waits: &[Option<u64>], denied: bool) -> Answer {
        let longest = |wait: &Option<u64>| wait.unwrap_or(u64::MAX);
        let mut deciding: Option<(usize, (u64, u64))> = None;
        for (at, hit) in hits.iter().enumerate() {
            let left = self.remaining(hit);
            let better = match deciding {
                None => !denied || waits[at] != Some(0),
                Some((other, _)) if denied => longest(&waits[at]) > longest(&waits[other]),
                Some((_, (other_left, other_limit))) => {
                    u128::from(left.0) * u128::from(other_limit)
                        < u128::from(other_left) * u128::from(left.1)
                }
            };
            if better {
                deciding = Some((at, left));
            }
        }
        match deciding {
            None => Answer {
                allowed: true,
                limit_name: String::new(),
                remaining: None,
                retry_after_ns: Some(0),
                reset_after_ns: 0,
            },
            Some((at, (remaining, _))) => Answer {
                allowed: !denied,
                limit_name: hits[at].name.clone(),
                remaining: Some(remaining),
                retry_after_ns: waits[at],
                reset_after_ns: self.reset(&hits[at]),
            },
        }
    }

    fn level(&mut self, hit: &Hit) -> i128 {
        let (count, _, full) = numbers(&hit.quota);
        let now = self.last_ns;
        let bucket = self
            .buckets
            .entry((hit.name.clone(), hit.key.clone()))
            .or_insert(Bucket { level: full, read_ns: now });
        let elapsed = i128::from(now - bucket.read_ns);
        bucket.level = (bucket.level + elapsed * count).min(full);
        bucket.read_ns = now;
        bucket.level
    }

    fn wait(&mut self, hit: &Hit) -> Option<u64> {
        let level = self.level(hit);
        let (count, period, full) = numbers(&hit.quota);
        let wanted = i128::from(hit.cost) * period;
        if wanted > full {
            return None;
        }
        Some(
            u64::try_from((wanted - level).max(0).unsigned_abs().div_ceil(count.unsigned_abs()))
                .unwrap(),
        )
    }

    fn remaining(&mut self, hit: &Hit) -> (u64, u64) {
        let level = self.level(hit);
        let (_, period, full) = numbers(&hit.quota);
        let units = |n: i128| u64::try_from(n.max(0) / period).unwrap();
        (units(level), units(full))
    }

    fn reset(&mut self, hit: &Hit) -> u64 {
        let level = self.level(hit);
        let (count, _, full) = numbers(&hit.quota);
        u64::try_from((full - level).unsigned_abs().div_ceil(count.unsigned_abs())).unwrap()
    }

    fn change(&mut self, op: Op, hit: &Hit) {
        let level = self.level(hit);
        let (_, period, full) = numbers(&hit.quota);
        let cost = i128::from(hit.cost) * period;
        let after = match op {
            Op::Peek => level,
            Op::Check => level - cost,
            Op::Debit => (level - cost).max(-full),
            Op::Refund => (level + cost).min(full),
            Op::Reset => full,
        };
        if let Some(bucket) = self.buckets.get_mut(&(hit.name.clone(), hit.key.clone())) {
            bucket.level = after;
        }
    }
}

fn numbers(quota: &Quota) -> (i128, i128, i128) {
    let Quota::TokenBucket { rate, burst } = *quota else { panic!("the model has only buckets") };
    let (count, period) = (i128::from(rate.count), i128::from(rate.period_ns));
    (count, period, i128::from(burst) * period)
}

fn hit(limit: &Limit, request: &Request<'_>) -> Option<Hit> {
    let attribute = |name: &str| {
        request.attributes.iter().find(|(n, _)| *n == name.as_bytes()).map(|(_, value)| *value)
    };
    let key = match limit.key.as_str() {
        "{key}" => request.key.to_vec(),
        "{endpoint}" => request.endpoint.to_vec(),
        "{tenant}" => attribute("tenant")?.to_vec(),
        "*" => Vec::new(),
        other => panic!("the model does not know the key {other}"),
    };
    let cost = request
        .costs
        .iter()
        .find(|(unit, _)| *unit == limit.unit.as_bytes())
        .map_or(u64::from(limit.unit == "requests"), |(_, cost)| *cost);
    let matches = |selector: &limiter::Selector| {
        selector.endpoint.as_ref().is_none_or(|e| e.as_bytes() == request.endpoint)
            && selector.attributes.iter().all(|(n, v)| attribute(n) == Some(v.as_bytes()))
            && (selector.keys.is_empty() || selector.keys.contains(&key))
    };
    if !matches(&limit.selector) {
        return None;
    }
    let specific = |selector: &limiter::Selector| {
        (!selector.keys.is_empty(), selector.attributes.len(), selector.endpoint.is_some())
    };
    let best = limit
        .overrides
        .iter()
        .filter(|over| matches(&over.selector))
        .max_by_key(|over| specific(&over.selector));
    let (name, quota) = match best {
        Some(over) => {
            (format!("{}/{}", limit.name, over.name.clone().unwrap()), over.quota.clone())
        }
        None => (limit.name.clone(), limit.quota.clone()),
    };
    Some(Hit { name, quota, key, cost })
}
