//! The carried limit: its numbers come with each call, and the key alone is the bucket.

use crate::algorithm::{Algorithm, TokenBucket};
use crate::force::InForce;
use crate::hit::{Hit, State};
use crate::identity::Identity;
use crate::rule::{Allowance, Rule};
use crate::share::{FleetEvent, SharedBucket};
use crate::template::KeyTemplate;
use crate::{Accuracy, Bucket, Limit, Limiter, Plan, Quota, Rate, Request, RequestError};

/// Name of the limit whose numbers each call carries, as `CL.THROTTLE` does. All such calls share it, and
/// the key alone is the bucket.
pub const CARRIED: &str = "cl.throttle";

/// The numbers of a token bucket that a call carries.
///
/// A bucket has the numbers of the last call that could have changed it: what was used is kept, in units.
/// A rate that cannot be counted exactly in 64 bits together with the burst is rounded down to the nearest
/// that can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Terms {
    /// Refill.
    pub rate: Rate,
    /// Capacity, in units; at least 1.
    pub burst: u64,
}

impl Terms {
    /// Whether they make a bucket: nothing is 0, at most one unit comes back per nanosecond, and the burst
    /// comes back within 2^62 nanoseconds (146 years).
    ///
    /// # Examples
    ///
    /// ```
    /// use limiter::{Rate, Terms};
    ///
    /// let terms = |burst, count, seconds: u64| {
    ///     Terms { burst, rate: Rate { count, period_ns: seconds * 1_000_000_000 } }
    /// };
    /// assert!(terms(16, 30, 60).make_a_bucket());
    /// assert!(!terms(0, 30, 60).make_a_bucket());
    /// assert!(!terms(16, 0, 60).make_a_bucket());
    /// ```
    pub fn make_a_bucket(&self) -> bool {
        TokenBucket::can_be(self.rate, self.burst)
    }

    /// The bucket that they make, as nodes share it.
    pub(crate) fn shared(&self) -> Option<SharedBucket> {
        let bucket = TokenBucket::nearest(self.rate, self.burst)?;
        Some(SharedBucket::new(Algorithm::Level(bucket), Accuracy::Balanced))
    }
}

impl Plan {
    /// The same limits, and the carried limit ([`CARRIED`]), which only decides calls that carry terms.
    ///
    /// A limit of the file with that name is another limit, and answers could not tell the two apart: whoever
    /// reads the file refuses it. Where there are [`crate::RULES_MAX`] limits there is no room for one more, and
    /// calls that carry terms are refused.
    #[must_use]
    pub fn with_carried(mut self) -> Self {
        let limit = Limit::new(CARRIED, Quota::Carried);
        self.push_carried(|at, slot| {
            let identity = Identity {
                name: &limit.name,
                override_name: "",
                key_template: &limit.key,
                unit: &limit.unit,
                algorithm: limit.quota.algorithm()?,
                exact: false,
            };
            let named = (limit.name.clone(), identity.id());
            let template = KeyTemplate::parse(&limit.key, limit.ipv6_prefix).ok()?;
            Some(Rule::new(at, slot, named, &limit, template, Allowance::Carried))
        });
        self
    }
}

impl Limiter {
    /// The carried limit as it applies to `request`, which carries `terms`. Its bucket, and what it has for
    /// numbers, are looked up later.
    ///
    /// # Errors
    /// The terms make no bucket, or there is no carried limit.
    pub(crate) fn carried_hit<'p>(
        &self,
        force: &'p InForce,
        request: &Request<'_>,
        terms: Terms,
    ) -> Result<Hit<'p>, RequestError> {
        let rule = force.carried().filter(|_| terms.make_a_bucket()).ok_or(RequestError::Terms)?;
        let state = State::Carried { hash: self.carried_hash(rule, request) };
        let (slot, cost) = (rule.slot, request.cost_in(&rule.unit));
        Ok(Hit { slot, rule, cost, terms: Some(terms), state, denial: None })
    }

    /// The numbers of those of `buckets` that are of the carried limit, each by its hash: what peers must know
    /// before they count in them.
    pub fn carried_terms(
        &self,
        now_ns: u64,
        buckets: impl Iterator<Item = Bucket>,
    ) -> Vec<(u64, Terms)> {
        let force = self.steady();
        let Some(slot) = force.carried().map(|rule| rule.slot) else { return Vec::new() };
        let carried = buckets.filter(|bucket| bucket.slot == slot).map(|bucket| bucket.hash);
        let terms = carried.filter_map(|hash| {
            let terms = self.store().with(hash, now_ns, &force, |shard, _| shard.terms(hash));
            Some((hash, terms?))
        });
        terms.collect()
    }

    /// Takes over the numbers of carried buckets that a peer counts by. What was used is kept, in units. Numbers
    /// that make no bucket, and those that find no room, are not taken: what the peer spent there is dropped.
    pub fn take_carried_terms(&self, now_ns: u64, terms: &[(u64, Terms)]) {
        let force = self.steady();
        let Some(slot) = force.carried().map(|rule| rule.slot) else { return };
        for (hash, terms) in terms {
            let is_taken = terms.make_a_bucket()
                && self.store().with(*hash, now_ns, &force, |shard, now_ns| {
                    let bucket = Bucket { slot, hash: *hash };
                    let taken = shard.take_terms(bucket, *terms, now_ns, &force);
                    taken.is_some_and(|numbered| numbered.is_by(*terms))
                });
            if let Some(fleet) = self.fleet().filter(|_| !is_taken) {
                fleet.event(FleetEvent::Dropped);
            }
        }
    }

    /// The identity of the bucket of the carried limit that has the key of `request`.
    pub(crate) fn carried_hash(&self, rule: &Rule, request: &Request<'_>) -> u64 {
        // Its template is the key, which no request lacks.
        self.bucket_hash(rule, request).unwrap_or(0)
    }
}
