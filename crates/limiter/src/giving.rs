//! What an operator gives back of the buckets of a key: all that they have used, or so many units.

use smallvec::SmallVec;

use crate::force::InForce;
use crate::matching::RuleIndex;
use crate::rule::Allowance;
use crate::{Bucket, CARRIED, Limiter, Operated, OperationError, Plan, Request, Spend, SpendKind};

impl Limiter {
    /// Gives up to `units` back to each bucket that `request` meets, of the limit `limit` alone if there is one;
    /// `u64::MAX`: all that it has used. Appends to `buckets` those that it did so.
    ///
    /// # Errors
    /// The request breaks a bound; no limit applies, or none of that name; there is no room to tell peers.
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
        let indices = met(&force, request, limit).ok_or(OperationError::NoLimit)?;
        let met = indices.iter().filter_map(|index| self.bucket_of(&force, *index, request));
        let met: SmallVec<[Bucket; 4]> = met.collect();
        let mut operated = Operated { changed: met.len(), units: 0 };
        let mut is_short = false;
        for bucket in met {
            let given = self.store().with(bucket.hash, now_ns, &force, |shard, now_ns| {
                let given = self.give_in(&force, shard, bucket, units, now_ns)?;
                Some((given, now_ns))
            });
            let Some((given, at_ns)) = given else {
                is_short = true;
                continue;
            };
            operated.units = operated.units.saturating_add(given);
            if given > 0 {
                buckets.push(bucket);
                let Bucket { slot, hash } = bucket;
                let (kind, units) = (SpendKind::Refund, given);
                self.tell_witness(Spend { at_ns, slot, hash, kind, units });
            }
        }
        // What was given was; asked again, the rest may find room.
        if is_short && buckets.is_empty() { Err(OperationError::NoRoom) } else { Ok(operated) }
    }

    /// The bucket of the rule at `index` that `request` meets, if it counts the request.
    pub(crate) fn bucket_of(
        &self,
        plan: &Plan,
        index: RuleIndex,
        request: &Request<'_>,
    ) -> Option<Bucket> {
        let rule = plan.rule_at(index);
        match rule.allowance {
            Allowance::Deny | Allowance::Unlimited => None,
            Allowance::Counted(_) | Allowance::Carried => {
                let hash = self.bucket_hash(rule, request).ok()?;
                Some(Bucket { slot: rule.slot, hash })
            }
        }
    }
}

/// The rules that apply to `request`, of the limit `limit` alone if there is one; none: there are none.
fn met(
    force: &InForce,
    request: &Request<'_>,
    limit: Option<&str>,
) -> Option<SmallVec<[RuleIndex; 4]>> {
    let carried = force.carried_index();
    let mut indices: SmallVec<[RuleIndex; 4]> =
        if request.terms.is_some() || (limit == Some(CARRIED) && carried.is_some()) {
            carried.into_iter().collect()
        } else {
            force.matched(request)
        };
    if let Some(limit) = limit {
        indices.retain(|index| is_named(force, *index, limit));
    }
    (!indices.is_empty()).then_some(indices)
}

/// Whether the rule at `index` is the limit `name`, an override of it, or the override of that name.
pub(crate) fn is_named(plan: &Plan, index: RuleIndex, name: &str) -> bool {
    let rule = plan.rule_at(index);
    rule.name() == name
        || plan.limits().get(rule.at().limit).is_some_and(|limit| limit.name == name)
}
