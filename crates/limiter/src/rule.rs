//! One compiled limit or override.

use crate::algorithm::TokenBucket;
use crate::share::SharedBucket;
use crate::template::KeyTemplate;
use crate::{Accuracy, Missing, Numbers, Quota, WhenIsolated};

/// Where a rule stands in the list of limits that was compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleAt {
    /// Index of the limit.
    pub limit: usize,
    /// Index of the override within it; none for the limit itself.
    pub override_index: Option<usize>,
}

/// One compiled limit or override.
#[derive(Debug)]
pub struct Rule {
    pub(crate) name: String,
    pub(crate) at: RuleAt,
    pub(crate) quota: Quota,
    pub(crate) id: u64,
    pub(crate) allowance: Allowance,
    pub(crate) template: KeyTemplate,
    pub(crate) unit: String,
    pub(crate) missing: Missing,
    pub(crate) shadow: bool,
    pub(crate) when_isolated: WhenIsolated,
}

/// A compiled quota.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Allowance {
    Deny,
    Unlimited,
    TokenBucket(SharedBucket),
}

impl Allowance {
    /// The allowance of `quota`, or what is wrong with its numbers.
    pub(crate) fn new(quota: &Quota, accuracy: Accuracy) -> Result<Self, String> {
        Ok(match *quota {
            Quota::Deny => Self::Deny,
            Quota::Unlimited => Self::Unlimited,
            Quota::TokenBucket { rate, burst } => {
                Self::TokenBucket(SharedBucket::new(TokenBucket::new(rate, burst)?, accuracy))
            }
            Quota::LeakyBucket { .. }
            | Quota::FixedWindow { .. }
            | Quota::SlidingWindow { .. }
            | Quota::SlidingLog { .. } => return Err("this algorithm is being built".into()),
        })
    }

    /// Capacity, in units, of what denies or counts; nothing where nothing passes.
    pub(crate) fn burst(&self) -> u64 {
        match self {
            Self::TokenBucket(shared) => shared.bucket.burst(),
            Self::Deny | Self::Unlimited => 0,
        }
    }
}

impl Rule {
    /// `name` of a limit, `name/override` of an override.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it stands in the list that was compiled.
    pub fn at(&self) -> RuleAt {
        self.at
    }

    /// How much it lets through.
    pub fn quota(&self) -> &Quota {
        &self.quota
    }

    /// Its identity: the same on every node whose file names, keys, counts and matches it alike,
    /// whatever its rate.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The numbers of its buckets; none where nothing is counted.
    pub fn numbers(&self) -> Option<Numbers> {
        let bucket = self.shared()?.bucket;
        let (burst, per_ns, per_unit) = (bucket.burst(), bucket.per_ns(), bucket.per_unit());
        Some(Numbers { burst, per_ns, per_unit })
    }

    /// What its buckets share between nodes; none where nothing is counted.
    pub(crate) fn shared(&self) -> Option<&SharedBucket> {
        match &self.allowance {
            Allowance::TokenBucket(shared) => Some(shared),
            Allowance::Deny | Allowance::Unlimited => None,
        }
    }
}
