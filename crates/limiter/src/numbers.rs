//! Numbers of a single bucket: what an operator gives one key instead of what its limit says.

use crate::rule::Allowance;
use crate::store::Own;
use crate::{Bucket, Limiter, Plan, Quota};

impl Limiter {
    /// Gives `bucket` the numbers of `quota` from `now_ns` on, or those of its rule again where there is none.
    ///
    /// The bucket stays the same: what was used is kept, in units, now and when it ends, and what is on its way
    /// between nodes, charged or reserved counts on. While nothing or everything passes (`deny`, `unlimited`)
    /// the bucket is left as it is, so that it fills by the numbers of its rule. What is given stays until it is
    /// ended here, also while the bucket is full and through changes of the limits, unless its rule is gone or
    /// counts no longer. It is not told to anybody.
    ///
    /// # Errors
    /// What is wrong with the numbers, and what to do; nothing is changed. They are of the algorithm of the
    /// bucket's rule, which counts and is not the carried limit.
    pub fn set_numbers(
        &self,
        now_ns: u64,
        bucket: Bucket,
        quota: Option<&Quota>,
    ) -> Result<(), String> {
        let force = self.steady();
        let own = own_of(&force, bucket, quota)?;
        self.store().with(bucket.hash, now_ns, &force, |shard, now_ns| {
            shard.set_own(bucket, own, now_ns, &force);
        });
        Ok(())
    }

    /// What [`Limiter::set_numbers`] would refuse.
    pub(crate) fn check_numbers(&self, bucket: Bucket, quota: &Quota) -> Result<(), String> {
        own_of(&self.steady(), bucket, Some(quota)).map(|_| ())
    }
}

/// What `bucket` has by `quota` instead of what its rule has.
fn own_of(plan: &Plan, bucket: Bucket, quota: Option<&Quota>) -> Result<Option<Own>, String> {
    let rule = plan.rule(bucket.slot).ok_or("there is no such limit")?;
    let counts = rule.quota().algorithm().filter(|_| rule.shared().is_some());
    let Some(algorithm) = counts else {
        return Err(format!(
            "the limit `{}` keeps no numbers that a key could have others than; name a limit that \
             counts",
            rule.name()
        ));
    };
    if quota.and_then(Quota::algorithm).is_some_and(|other| other != algorithm) {
        return Err(format!(
            "the limit `{}` is a {algorithm}; give the key other numbers of a {algorithm}, or let \
             everything or nothing pass",
            rule.name()
        ));
    }
    let allowance = quota.map(|quota| Allowance::new(quota, rule.accuracy)).transpose()?;
    Ok(allowance.and_then(Own::of))
}
