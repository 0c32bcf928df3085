//! The algorithms, one file each: pure arithmetic on the state of one bucket.
//!
//! An algorithm knows no key, no lock and no clock. It is asked with the state and the time and answers
//! with what is missing, a wait or a new state. There are two kinds of state: a *level*, which one number
//! tells (token and leaky bucket), and a *count*, which knows when it was spent (windows and logs).

mod count;
mod log;
mod token_bucket;
mod window;

pub(crate) use count::{Count, Counter, younger};
pub(crate) use log::{Log, SlidingLog};
pub(crate) use token_bucket::{Room, TokenBucket};
pub(crate) use window::{Part, WindowCount, WindowCounter};

use crate::{Quota, Rate};

/// One moment on both clocks of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// Nanoseconds of the monotonic clock.
    pub(crate) ns: u64,
    /// Nanoseconds of Unix time.
    pub(crate) unix_ns: u64,
}

/// The algorithm of a rule, with its numbers.
#[derive(Clone, Debug)]
pub(crate) enum Algorithm {
    /// Token and leaky bucket.
    Level(TokenBucket),
    /// Windows and logs.
    Count(Counter),
}

impl Algorithm {
    /// The algorithm of `quota`, none where nothing is counted; or what is wrong with its numbers.
    pub(crate) fn new(quota: &Quota) -> Result<Option<Self>, String> {
        Ok(Some(match quota {
            Quota::Deny | Quota::Unlimited => return Ok(None),
            Quota::Carried => {
                return Err("numbers that come with each call are those of the carried limit, \
                            which no file writes"
                    .into());
            }
            Quota::TokenBucket { rate, burst } | Quota::LeakyBucket { rate, burst, .. } => {
                Self::Level(TokenBucket::new(*rate, *burst)?)
            }
            Quota::FixedWindow { limit, window } => {
                Self::Count(Counter::Window(WindowCounter::fixed(*limit, window)?))
            }
            Quota::SlidingWindow { limit, period_ns } => {
                Self::Count(Counter::Window(WindowCounter::sliding(*limit, *period_ns)?))
            }
            Quota::SlidingLog { limit, period_ns } => {
                Self::Count(Counter::Log(SlidingLog::new(*limit, *period_ns)?))
            }
        }))
    }

    /// Capacity, in units.
    pub(crate) fn capacity(&self) -> u64 {
        match self {
            Self::Level(bucket) => bucket.burst(),
            Self::Count(counter) => counter.limit(),
        }
    }

    /// Ticks in a unit.
    pub(crate) fn per_unit(&self) -> u64 {
        match self {
            Self::Level(bucket) => bucket.per_unit(),
            Self::Count(counter) => counter.per_unit(),
        }
    }

    /// Units that come back in a time, on the whole.
    pub(crate) fn rate(&self) -> Rate {
        match self {
            Self::Level(bucket) => Rate { count: bucket.per_ns(), period_ns: bucket.per_unit() },
            Self::Count(counter) => counter.rate(),
        }
    }

    /// Ticks that come back in `elapsed_ns`, on the whole.
    pub(crate) fn flow(&self, elapsed_ns: u64) -> u128 {
        match self {
            Self::Level(bucket) => bucket.elapsed(elapsed_ns),
            Self::Count(counter) => {
                let Rate { count, period_ns } = counter.rate();
                let units = u128::from(count) * u128::from(elapsed_ns);
                units.saturating_mul(counter.per_unit().into()) / u128::from(period_ns.max(1))
            }
        }
    }

    /// Whole units left when `missing` ticks are missing; 0 in debt.
    #[inline]
    pub(crate) fn remaining(&self, missing: u64) -> u64 {
        match self {
            Self::Level(bucket) => bucket.remaining(missing),
            Self::Count(counter) => counter.remaining(missing),
        }
    }
}
