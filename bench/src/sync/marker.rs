//! A marker: a spend on a key of its own, which peers are watched for.

use limiter::{Limiter, Op, Reason, Request};
use serde::{Deserialize, Serialize};

use super::fleet::{EARLY_BURST, EARLY_ENDPOINT, LOAD_ENDPOINT};
use crate::failure::Failure;
use crate::keys::{KEY_BYTES, key_text};

/// Part of its share that an early marker spends: an early flush is asked for from a quarter on.
const EARLY_PART: u64 = 2;

/// When the sender tells its peers of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Told {
    /// With everything else, at the next tick.
    AtTick,
    /// In an early flush, as the sender's share is soon used up.
    Early,
}

/// A key that nothing was spent of yet.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Marker {
    pub(super) told: Told,
    number: u64,
}

/// What the sender knows when it has spent a marker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spent {
    /// The clock was read for it just before.
    pub(super) at_ns: u64,
    /// When the next tick is due.
    pub(super) tick_ns: u64,
}

impl Marker {
    /// The marker `number` of a measurement. No load comes that far.
    pub(super) fn new(told: Told, number: u64) -> Self {
        Self { told, number: u64::MAX - number }
    }

    fn key(self) -> [u8; KEY_BYTES] {
        key_text(self.number)
    }

    fn endpoint(self) -> &'static [u8] {
        match self.told {
            Told::AtTick => LOAD_ENDPOINT.as_bytes(),
            Told::Early => EARLY_ENDPOINT.as_bytes(),
        }
    }

    /// Units to spend at the sender, which is one of `members`: of a bucket that nobody asked for
    /// yet, each has the same share.
    fn cost(self, members: usize) -> u64 {
        match self.told {
            Told::AtTick => 1,
            Told::Early => EARLY_BURST / members as u64 / EARLY_PART,
        }
    }

    /// Spends it at `now_ns` through `check`, which asks the limiter and sees to early flushes.
    ///
    /// # Errors
    /// If it is denied, or the limiter does not tell of its next tick.
    pub(super) fn spend(
        self,
        member: &member::Member,
        members: usize,
        now_ns: u64,
    ) -> Result<Spent, Failure> {
        let tick_ns = next_tick_ns(member.limiter(), now_ns)?;
        let key = self.key();
        let request = Request::check(self.endpoint(), &key).with_cost(self.cost(members));
        let answer = member.check(now_ns, &request, false);
        match answer.map_err(|error| Failure::because("a marker", error))? {
            limiter::Answer::Decided(decision) if decision.verdict.allowed => {
                Ok(Spent { at_ns: now_ns, tick_ns })
            }
            other => Err(Failure::new(format!("a marker was not let through: {other:?}"))),
        }
    }

    /// Whether a peer whose `limiter` this is knows of it at `now_ns`.
    pub(super) fn is_known(self, limiter: &Limiter, now_ns: u64) -> bool {
        let key = self.key();
        let peek = Request::check(self.endpoint(), &key).with_cost(0);
        let decision = limiter.decide(now_ns, &peek);
        decision.is_ok_and(|decision| decision.verdict.remaining < decision.verdict.limit)
    }
}

/// When the member whose `limiter` this is next exchanges everything: what it tells to a caller who
/// wants more than its share.
fn next_tick_ns(limiter: &Limiter, now_ns: u64) -> Result<u64, Failure> {
    let key = Marker::new(Told::Early, 0).key();
    let peek =
        Request::check(EARLY_ENDPOINT.as_bytes(), &key).with_op(Op::Peek).with_cost(EARLY_BURST);
    let decision =
        limiter.decide(now_ns, &peek).map_err(|error| Failure::because("peek", error))?;
    let verdict = decision.verdict;
    if verdict.reason != Reason::Share {
        return Err(Failure::new(format!("a whole bucket is this node's own: {verdict:?}")));
    }
    Ok(now_ns.saturating_add(verdict.retry_after.to_ns()))
}
