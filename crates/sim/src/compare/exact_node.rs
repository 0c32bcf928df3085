//! One node alone, on virtual time: the real limiter, asked by Unix time.

use limiter::{Decision, Limiter, Plan, Request, RequestError, StoreConfig};

use crate::clock::{MS, SECOND};

/// What the monotonic clock shows at the start: enough for a call that is told of too late.
const BEGIN_NS: u64 = 86_400 * SECOND;

/// Time between two sweeps, and the part of the store that each visits.
const SWEEP_EVERY_NS: u64 = 500 * MS;
const SWEEP_PART: usize = 10;

/// A node whose two clocks run alike.
#[derive(Debug)]
pub struct ExactNode {
    limiter: Limiter,
    start_unix_ns: u64,
    swept_ns: u64,
}

impl ExactNode {
    /// A node that starts at `start_unix_ns`, with every bucket full.
    pub fn new(plan: Plan, store: StoreConfig, start_unix_ns: u64) -> Self {
        let limiter = Limiter::new(plan, store);
        limiter.set_wall(BEGIN_NS, start_unix_ns);
        Self { limiter, start_unix_ns, swept_ns: BEGIN_NS }
    }

    /// Decides `request` at `unix_ns`, or at the time of the last if that is later.
    ///
    /// # Errors
    /// A request outside the limiter's bounds; nothing is changed.
    pub fn decide(
        &mut self,
        unix_ns: u64,
        request: &Request<'_>,
    ) -> Result<Decision<'_>, RequestError> {
        let since_ns = i128::from(unix_ns) - i128::from(self.start_unix_ns);
        let now_ns = u64::try_from(i128::from(BEGIN_NS) + since_ns).unwrap_or(0);
        if now_ns.saturating_sub(self.swept_ns) >= SWEEP_EVERY_NS {
            self.limiter.sweep(now_ns, self.limiter.sweep_round() / SWEEP_PART);
            self.swept_ns = now_ns;
        }
        self.limiter.decide(now_ns, request)
    }

    /// The limiter, to be looked at.
    pub fn limiter(&self) -> &Limiter {
        &self.limiter
    }
}
