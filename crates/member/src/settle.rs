//! Checks that wait: held until the bucket is acknowledged, or until the caller's patience ends.

use std::time::Duration;

use limiter::{Answer, Decision, Limiter, Ticket};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::sync::{Hold, Shared};

/// A held check. Dropped before it is decided it is given up, and nothing is spent for it.
struct Held<'m> {
    limiter: &'m Limiter,
    now_ns: fn() -> u64,
    ticket: Option<Ticket>,
}

impl<'m> Held<'m> {
    /// Asks again; afterwards it holds the next ticket, if there is one.
    fn retry(&mut self, is_last: bool) -> Option<Decision<'m>> {
        let ticket = self.ticket.take()?;
        match self.limiter.retry((self.now_ns)(), ticket, is_last) {
            Answer::Decided(decision) => Some(decision),
            Answer::Held(again) => {
                self.ticket = Some(again);
                None
            }
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.limiter.abandon((self.now_ns)(), ticket);
        }
    }
}

/// Waits until the check of `ticket` is decided, `max_wait` at most.
pub(crate) fn settle<'m>(
    shared: &'m Shared,
    holds: &'m mpsc::Sender<Hold>,
    ticket: Ticket,
    max_wait: Duration,
) -> impl Future<Output = Decision<'m>> + Send + use<'m> {
    let now_ns = shared.clock.now_ns;
    let wait_ns = u64::try_from(max_wait.as_nanos()).unwrap_or(u64::MAX);
    let deadline_ns = now_ns().saturating_add(wait_ns);
    // Before the future first runs: one that is dropped without gives the check up too.
    let held = Held { limiter: &shared.limiter, now_ns, ticket: Some(ticket) };
    wait(shared, holds, held, deadline_ns)
}

async fn wait<'m>(
    shared: &'m Shared,
    holds: &mpsc::Sender<Hold>,
    mut held: Held<'m>,
    deadline_ns: u64,
) -> Decision<'m> {
    let now_ns = held.now_ns;
    let mut is_last = false;
    loop {
        // Read before the retry: what is acknowledged between the two wakes the hold at once.
        let seen = shared.progress();
        let left_ns = deadline_ns.saturating_sub(now_ns());
        is_last |= left_ns == 0;
        let decision = held.retry(is_last);
        shared.wake_if_wanted();
        match (decision, &held.ticket) {
            (Some(decision), _) => return decision,
            (None, Some(ticket)) => {
                let (waker, woken) = oneshot::channel();
                let is_taken =
                    holds.try_send(Hold { bucket: ticket.bucket(), seen, waker }).is_ok();
                if !is_taken {
                    shared.count_hold_refused();
                }
                let patience = Duration::from_nanos(left_ns);
                // Too many wait, nobody is left who could wake, or it takes too long: decided now.
                is_last = !is_taken || !matches!(timeout(patience, woken).await, Ok(Ok(())));
            }
            (None, None) => is_last = true,
        }
    }
}
