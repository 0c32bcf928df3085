//! The one limit that every algorithm gets.

use limiter::{Limit, Plan, Rate, Unmatched};

use crate::scenario::{Algorithm, Allowed};

/// The numbers that all algorithms have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// Units in a period. Windows and logs allow so many in one.
    pub rate: Rate,
    /// Capacity of the buckets, in units.
    pub burst: u64,
}

impl Numbers {
    /// The limit of these numbers by `algorithm`.
    pub(super) fn allowed(&self, algorithm: Algorithm) -> Allowed {
        let Self { rate, burst } = *self;
        // Windows and logs have no burst: it is what a period allows.
        let burst = if algorithm.is_bucket() { burst } else { rate.count };
        Allowed::balanced(burst, rate.count, rate.period_ns).by(algorithm)
    }

    /// A plan of this one limit, one bucket for each key.
    ///
    /// # Errors
    /// The algorithm cannot have these numbers, and what to do.
    pub(super) fn plan(&self, algorithm: Algorithm) -> Result<Plan, String> {
        let limit = Limit::new("compared", self.allowed(algorithm).quota());
        Plan::compile(vec![limit], Unmatched::Deny).map_err(|error| error.message)
    }
}

#[cfg(test)]
mod tests {
    use limiter::{Quota, Window};

    use super::*;
    use crate::clock::SECOND;

    #[test]
    fn buckets_have_the_burst_and_windows_the_count_of_the_rate() {
        let rate = Rate { count: 5, period_ns: 7 * SECOND };
        let numbers = Numbers { rate, burst: 9 };
        let quota = |algorithm| numbers.allowed(algorithm).quota();
        let period_ns = rate.period_ns;
        assert_eq!(quota(Algorithm::TokenBucket), Quota::TokenBucket { rate, burst: 9 });
        let queue = Quota::LeakyBucket { rate, burst: 9, queue: true };
        assert_eq!(quota(Algorithm::LeakyQueue), queue);
        let window = Window::Period(period_ns);
        assert_eq!(quota(Algorithm::FixedWindow), Quota::FixedWindow { limit: 5, window });
        assert_eq!(quota(Algorithm::SlidingLog), Quota::SlidingLog { limit: 5, period_ns });
    }
}
