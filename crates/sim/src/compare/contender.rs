//! The algorithms that are compared, and the one limit that each of them gets.

use limiter::{Limit, Plan, Quota, Rate, Unmatched, Window};

/// The numbers that all algorithms have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// Units in a period. Windows and logs allow so many in one.
    pub rate: Rate,
    /// Capacity of the buckets, in units.
    pub burst: u64,
}

/// An algorithm, or a variant of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// Tokens that come at the rate, up to the burst.
    TokenBucket,
    /// A bucket that drains at the rate, as a meter.
    LeakyBucket,
    /// A bucket that drains at the rate, in which calls wait their turn.
    LeakyBucketQueue,
    /// A count for each period of the clock.
    FixedWindow,
    /// Such a count, and a part of the one before.
    SlidingWindow,
    /// The time of each unit.
    SlidingLog,
}

impl Contender {
    /// Every algorithm, in the order in which they are shown.
    pub const ALL: [Self; 6] = [
        Self::TokenBucket,
        Self::LeakyBucket,
        Self::LeakyBucketQueue,
        Self::FixedWindow,
        Self::SlidingWindow,
        Self::SlidingLog,
    ];

    /// Its name: the configuration's, and for the queue that with `-queue`.
    pub fn name(self) -> &'static str {
        match self {
            Self::TokenBucket => "token-bucket",
            Self::LeakyBucket => "leaky-bucket",
            Self::LeakyBucketQueue => "leaky-bucket-queue",
            Self::FixedWindow => "fixed-window",
            Self::SlidingWindow => "sliding-window",
            Self::SlidingLog => "sliding-log",
        }
    }

    /// The one of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|contender| contender.name() == name)
    }

    /// What it lets through by these numbers.
    pub fn quota(self, numbers: &Numbers) -> Quota {
        let Numbers { rate, burst } = *numbers;
        let (limit, period_ns) = (rate.count, rate.period_ns);
        match self {
            Self::TokenBucket => Quota::TokenBucket { rate, burst },
            Self::LeakyBucket => Quota::LeakyBucket { rate, burst, queue: false },
            Self::LeakyBucketQueue => Quota::LeakyBucket { rate, burst, queue: true },
            Self::FixedWindow => Quota::FixedWindow { limit, window: Window::Period(period_ns) },
            Self::SlidingWindow => Quota::SlidingWindow { limit, period_ns },
            Self::SlidingLog => Quota::SlidingLog { limit, period_ns },
        }
    }

    /// A plan of this one limit, one bucket for each key.
    ///
    /// # Errors
    /// Numbers that it cannot have, and what to do.
    pub(crate) fn plan(self, numbers: &Numbers) -> Result<Plan, String> {
        let limit = Limit::new("compared", self.quota(numbers));
        Plan::compile(vec![limit], Unmatched::Deny).map_err(|error| error.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_configuration_and_lead_back() {
        let numbers = Numbers { rate: Rate { count: 5, period_ns: 1_000_000_000 }, burst: 7 };
        for contender in Contender::ALL {
            let name = contender.name();
            let configured = contender.quota(&numbers).algorithm().unwrap();
            assert_eq!(name.strip_suffix("-queue").unwrap_or(name), configured);
            assert_eq!(Contender::from_name(name), Some(contender));
        }
        assert_eq!(Contender::from_name("token_bucket"), None);
    }
}
