//! What an operator gives back of the buckets of a key: all that they have used, or so many units.

use smallvec::SmallVec;

use crate::force::InForce;
use crate::{Bucket, CARRIED, Limiter, Operated, OperationError, Request, Spend, SpendKind};

/// The buckets that a request meets: one per limit, few of them.
type Met = SmallVec<[Bucket; 4]>;

impl Limiter {
    /// Gives up to `units` back to each bucket that `request` meets, of the limit `limit` alone if there is one;
    /// `u64::MAX`: all that it has used. Appends to `buckets` those to which it gave something.
    ///
    /// # Errors
    /// The request breaks a bound; no limit of that name applies; there is no room to tell peers.
    pub(crate) fn give(
        &self,
        now_ns: u64,
        request: &Request<'_>,
        (limit, units): (Option<&str>, u64),
        buckets: &mut Vec<Bucket>,
    ) -> Result<Operated, OperationError> {
        request.validate().map_err(OperationError::Request)?;
        // Nobody replaces the limits meanwhile.
        let force = self.steady();
        let met = self.met(now_ns, &force, request, limit);
        if met.is_empty() && limit.is_some() {
            return Err(OperationError::NoLimit);
        }
        let (mut operated, mut is_short) = (Operated::default(), false);
        for bucket in met {
            let given = self.store().with(bucket.hash, now_ns, &force, |shard, now_ns| {
                let given = self.give_in(&force, shard, bucket, units, now_ns)?;
                Some((given, now_ns))
            });
            let Some((given, at_ns)) = given else {
                is_short = true;
                continue;
            };
            operated.changed += 1;
            operated.units = operated.units.saturating_add(given);
            if given > 0 {
                buckets.push(bucket);
                let Bucket { slot, hash } = bucket;
                let (kind, units) = (SpendKind::Refund, given);
                self.tell_witness(Spend { at_ns, slot, hash, kind, units });
            }
        }
        // Where something was done it is not undone for what found no room.
        if is_short && operated.changed == 0 { Err(OperationError::NoRoom) } else { Ok(operated) }
    }

    /// The buckets that `request` meets and that count, of the limit `limit` alone if there is one. That of the
    /// carried limit is among them where a call gave it numbers.
    fn met(&self, now_ns: u64, force: &InForce, request: &Request<'_>, limit: Option<&str>) -> Met {
        let rules = force.matched(request).into_iter().map(|index| force.rule_at(index));
        let rules = rules.filter(|rule| limit.is_none_or(|name| force.is_of(rule, name)));
        let counting = rules.filter(|rule| rule.shared().is_some());
        let buckets = counting.filter_map(|rule| {
            let hash = self.bucket_hash(rule, request).ok()?;
            Some(Bucket { slot: rule.slot, hash })
        });
        let mut met: Met = buckets.collect();
        let carried = force.carried().filter(|_| limit.is_none_or(|name| name == CARRIED));
        met.extend(carried.and_then(|rule| {
            let hash = self.carried_hash(rule, request);
            let has_numbers = |shard: &mut crate::store::Shard, _| shard.terms(hash).is_some();
            let is_met = self.store().with(hash, now_ns, force, has_numbers);
            is_met.then_some(Bucket { slot: rule.slot, hash })
        }));
        met
    }
}
