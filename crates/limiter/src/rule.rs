//! One compiled limit or override.

use std::sync::Arc;

use crate::algorithm::Algorithm;
use crate::counters::Tally;
use crate::matching::Slot;
use crate::share::SharedBucket;
use crate::template::KeyTemplate;
use crate::{Accuracy, Limit, Missing, Numbers, Quota, WhenIsolated};

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
    /// Where its limiter keeps the name.
    pub(crate) name_at: usize,
    /// Its number in the limiter, which it keeps when other limits come and go.
    pub(crate) slot: Slot,
    /// What it decided; none before it is in force.
    pub(crate) tally: Option<Arc<Tally>>,
    pub(crate) at: RuleAt,
    pub(crate) quota: Quota,
    pub(crate) id: u64,
    pub(crate) allowance: Allowance,
    pub(crate) template: KeyTemplate,
    pub(crate) unit: String,
    pub(crate) missing: Missing,
    pub(crate) shadow: bool,
    pub(crate) when_isolated: WhenIsolated,
    pub(crate) accuracy: Accuracy,
    /// Its answers have times that no level tells: it counts, or what it lets through waits its turn.
    pub(crate) has_times: bool,
}

/// A compiled quota.
#[derive(Debug)]
pub(crate) enum Allowance {
    Deny,
    Unlimited,
    Counted(SharedBucket),
    /// By the numbers that each call carries.
    Carried,
}

impl Allowance {
    /// The allowance of `quota`, or what is wrong with its numbers.
    pub(crate) fn new(quota: &Quota, accuracy: Accuracy) -> Result<Self, String> {
        Ok(match Algorithm::new(quota)? {
            Some(algorithm) => Self::Counted(SharedBucket::new(algorithm, accuracy)),
            None if *quota == Quota::Unlimited => Self::Unlimited,
            None => Self::Deny,
        })
    }

    /// Capacity, in units, of what denies or counts; nothing where nothing passes, and where each call says.
    pub(crate) fn capacity(&self) -> u64 {
        match self {
            Self::Counted(shared) => shared.capacity(),
            Self::Deny | Self::Unlimited | Self::Carried => 0,
        }
    }
}

impl Rule {
    /// The rule of `limit` itself that stands `at`.
    pub(crate) fn new(
        at: RuleAt,
        slot: Slot,
        (name, id): (String, u64),
        limit: &Limit,
        template: KeyTemplate,
        allowance: Allowance,
    ) -> Self {
        Self {
            name,
            name_at: 0,
            slot,
            tally: None,
            at,
            quota: limit.quota.clone(),
            id,
            allowance,
            template,
            unit: limit.unit.clone(),
            missing: limit.missing,
            shadow: limit.shadow,
            when_isolated: limit.when_isolated,
            accuracy: limit.accuracy,
            has_times: has_times(&limit.quota),
        }
    }

    /// The same, with the quota of an override.
    pub(crate) fn with_quota(mut self, quota: &Quota) -> Self {
        self.quota = quota.clone();
        self.has_times = has_times(quota);
        self
    }

    /// `name` of a limit, `name/override` of an override.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number by which buckets, spends and peers name it. It keeps it in every plan that takes the place
    /// of this one and has the rule too.
    pub fn slot(&self) -> u16 {
        self.slot
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

    /// The numbers of its buckets; none where nothing is counted, or each call carries them.
    pub fn numbers(&self) -> Option<Numbers> {
        let shared = self.shared()?;
        let per_ns = match &shared.algorithm {
            Algorithm::Level(bucket) => bucket.per_ns(),
            Algorithm::Count(counter) => counter.length_ms(),
        };
        Some(Numbers { burst: shared.capacity(), per_ns, per_unit: shared.per_unit() })
    }

    /// Whether what it lets through waits its turn.
    pub(crate) fn is_queue(&self) -> bool {
        matches!(self.quota, Quota::LeakyBucket { queue: true, .. })
    }

    /// Whether its numbers come with each call: it is the carried limit ([`crate::CARRIED`]).
    pub fn is_carried(&self) -> bool {
        matches!(self.allowance, Allowance::Carried)
    }

    /// What its buckets share between nodes; none where nothing is counted, or each bucket has numbers of its
    /// own.
    pub(crate) fn shared(&self) -> Option<&SharedBucket> {
        match &self.allowance {
            Allowance::Counted(shared) => Some(shared),
            Allowance::Deny | Allowance::Unlimited | Allowance::Carried => None,
        }
    }
}

/// Whether a limit of `quota` counts, or lets what passes wait its turn.
fn has_times(quota: &Quota) -> bool {
    match quota {
        Quota::Deny | Quota::Unlimited | Quota::Carried | Quota::TokenBucket { .. } => false,
        Quota::LeakyBucket { queue, .. } => *queue,
        Quota::FixedWindow { .. } | Quota::SlidingWindow { .. } | Quota::SlidingLog { .. } => true,
    }
}
