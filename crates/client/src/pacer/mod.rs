//! Outgoing calls at an even pace: for a third party that allows so many a second.
//!
//! [`Pacer`] and its blocking twin wait and ask; whose turn it is, and when, is decided in `line`.

pub(crate) mod blocking;
mod error;
mod line;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use limiter::{Rate, Reason, Request};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::answer::{Answer, Source};
use crate::{Backoff, Client, Error, clock};
pub use error::{AcquireError, PacerError};
use line::{Entry, Heard, Line, Step};

/// How long a caller of a pacer lets a limit deny it, unless [`Pacer::with_denied_max`] says
/// otherwise.
pub const DENIED_MAX: Duration = Duration::from_secs(10);

/// Gives out turns that are evenly spaced, first come, first served.
///
/// Made by [`Pacer::new`] it paces this process. Made by [`Pacer::of_limit`] it asks a node before each
/// turn, so that all processes that name the same limit and key are paced together. Clones are one
/// pacer.
///
/// A turn belongs to the pacer until [`Pacer::acquire`] gives it: a call that is dropped meanwhile leaves
/// its turn to the next in line. A pause earns nothing: what was not taken is not made up for.
#[derive(Clone)]
pub struct Pacer {
    inner: Arc<Inner>,
    denied_max: Duration,
}

struct Inner {
    made_at: Instant,
    line: Mutex<Line>,
    /// The first in line holds it, the others wait for it, which tokio lets them in the order in which
    /// they came. It holds the question that is on its way, which outlives who asked it.
    first: tokio::sync::Mutex<Option<Asking>>,
    limit: Option<NamedLimit>,
}

impl Pacer {
    /// A pacer of this process: turns at `rate`, the first at once, and up to `queue_max` callers that
    /// wait.
    ///
    /// # Errors
    /// A rate or a queue of 0.
    pub fn new(rate: Rate, queue_max: usize) -> Result<Self, PacerError> {
        check_rate(rate)?;
        check_queue(queue_max)?;
        Ok(Self::build(Line::own(rate, queue_max), None))
    }

    /// A pacer of everybody who names the limit that `endpoint` and `key` meet: a `leaky-bucket` with
    /// `queue = true`. The node that `client` asks says when each turn is. Up to `queue_max` callers wait.
    ///
    /// While no node answers, turns come at the rate `alone`: this process's part of the whole, such as
    /// the limit's rate over the number of processes. The same holds if no limit applies.
    /// [`OnSilence`](crate::OnSilence) is not asked.
    ///
    /// # Errors
    /// A rate or a queue of 0; an endpoint or a key that breaks a bound.
    pub fn of_limit(
        client: Client,
        endpoint: &[u8],
        key: &[u8],
        alone: Rate,
        queue_max: usize,
    ) -> Result<Self, PacerError> {
        check_rate(alone)?;
        check_queue(queue_max)?;
        Request::check(endpoint, key).validate().map_err(PacerError::Request)?;
        let limit = NamedLimit { client, endpoint: endpoint.into(), key: key.into() };
        Ok(Self::build(Line::asking(alone, queue_max), Some(limit)))
    }

    fn build(line: Line, limit: Option<NamedLimit>) -> Self {
        let inner = Inner {
            made_at: clock::timer_now(),
            line: Mutex::new(line),
            first: tokio::sync::Mutex::new(None),
            limit,
        };
        Self { inner: Arc::new(inner), denied_max: DENIED_MAX }
    }

    /// The same pacer, whose callers stop waiting when a limit denies them and a further wait would end
    /// later than `denied_max` after they came; [`DENIED_MAX`] otherwise.
    #[must_use]
    pub fn with_denied_max(mut self, denied_max: Duration) -> Self {
        self.denied_max = denied_max;
        self
    }

    /// Waits for the caller's turn. It stands in the line from when it is first polled, and may be
    /// dropped at any time; wrap it in a time-out to wait no longer.
    ///
    /// # Errors
    /// See [`AcquireError`]; no turn was used.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time.
    pub async fn acquire(&self) -> Result<(), AcquireError> {
        let came_ns = self.inner.now_ns();
        let entered = self.inner.line.lock().enter(came_ns);
        let _place = match entered {
            Ok(Entry::Turn) => return Ok(()),
            Ok(Entry::Waits) => Place { line: &self.inner.line },
            Err(wait_ns) => {
                return Err(AcquireError::Full { retry_after: Duration::from_nanos(wait_ns) });
            }
        };
        let give_up_ns = came_ns.saturating_add(to_ns(self.denied_max));
        let mut asking = self.inner.first.lock().await;
        self.inner.line.lock().begin(self.inner.now_ns());
        let mut attempt = 0;
        loop {
            let now_ns = self.inner.now_ns();
            let step = self.inner.line.lock().step(now_ns);
            match step {
                Step::Turn => return Ok(()),
                Step::Wait { until_ns } => {
                    tokio::time::sleep(Duration::from_nanos(until_ns - now_ns)).await;
                }
                Step::Ask => {
                    self.inner.ask(&mut asking, give_up_ns, attempt).await?;
                    attempt += 1;
                }
            }
        }
    }

    /// Takes a turn if it is now and nobody waits. A limit is asked first; a turn that it gives for
    /// later is left to whoever comes before it has passed.
    ///
    /// # Errors
    /// [`AcquireError::NotYet`]; a limit may give others too, see [`AcquireError`].
    pub async fn try_acquire(&self) -> Result<(), AcquireError> {
        let not_yet = |ns| AcquireError::NotYet { retry_after: Duration::from_nanos(ns) };
        let now_ns = self.inner.now_ns();
        if self.inner.limit.is_none() {
            return self.inner.line.lock().take_at_once(now_ns).map_err(not_yet);
        }
        // Who waits is before this call, and so is who is about to.
        let first = self.inner.first.try_lock().ok();
        let Some(mut asking) = first.filter(|_| self.inner.line.lock().is_empty()) else {
            return Err(not_yet(self.inner.line.lock().first_due_in_ns(now_ns)));
        };
        self.inner.line.lock().begin(now_ns);
        let mut step = self.inner.line.lock().step(now_ns);
        if step == Step::Ask {
            self.inner.ask(&mut asking, u64::MAX, 0).await?;
            step = self.inner.line.lock().step(self.inner.now_ns());
        }
        match step {
            Step::Turn => Ok(()),
            Step::Wait { until_ns } => Err(not_yet(until_ns.saturating_sub(self.inner.now_ns()))),
            Step::Ask => Err(not_yet(0)),
        }
    }
}

impl std::fmt::Debug for Pacer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pacer").field("line", &self.inner.line).finish_non_exhaustive()
    }
}

impl Inner {
    fn now_ns(&self) -> u64 {
        to_ns(clock::timer_now().saturating_duration_since(self.made_at))
    }

    /// Asks the node, or goes on with the question of a caller that has gone, and tells the line what
    /// it answers.
    async fn ask(
        &self,
        asking: &mut Option<Asking>,
        give_up_ns: u64,
        attempt: u32,
    ) -> Result<(), AcquireError> {
        // A line without a limit never asks.
        let Some(limit) = &self.limit else { return Ok(()) };
        let question = asking.get_or_insert_with(|| limit.ask(self.now_ns()));
        let asked_ns = question.asked_ns;
        let answer = question.answer.as_mut().await;
        *asking = None;
        let answer = answer.map_err(AcquireError::Client)?;
        let now_ns = self.now_ns();
        let age_ns = self.line.lock().age_ns(asked_ns, now_ns);
        let patience = Patience { attempt, left_ns: give_up_ns.saturating_sub(now_ns), age_ns };
        let heard = hear(answer, limit.client.retry(), patience)?;
        self.line.lock().handle_answer(asked_ns, now_ns, heard);
        Ok(())
    }
}

/// The limit that a pacer follows.
struct NamedLimit {
    client: Client,
    endpoint: Box<[u8]>,
    key: Box<[u8]>,
}

impl NamedLimit {
    fn ask(&self, now_ns: u64) -> Asking {
        let Self { client, endpoint, key } = self;
        let (client, endpoint, key) = (client.clone(), endpoint.clone(), key.clone());
        let answer = async move { client.check(&Request::check(&endpoint, &key)).await };
        Asking { asked_ns: now_ns, answer: Box::pin(answer) }
    }
}

/// A question that is on its way to the node.
struct Asking {
    asked_ns: u64,
    answer: Pin<Box<dyn Future<Output = Result<Answer, Error>> + Send>>,
}

/// How long a caller lets itself be denied.
struct Patience {
    /// Questions before this one.
    attempt: u32,
    left_ns: u64,
    /// How long ago a caller that has gone asked: so much of a denial's wait is over.
    age_ns: u64,
}

/// What an answer says about a turn. A denial's wait is lengthened by the jitter of `retry`.
///
/// # Errors
/// It denies for longer than the caller has patience.
fn hear(answer: Answer, retry: &Backoff, patience: Patience) -> Result<Heard, AcquireError> {
    match answer.source {
        Source::Fallback(_) => return Ok(Heard::Nothing),
        // Nothing paces what no limit applies to.
        Source::Node if answer.allowed && answer.reason == Some(Reason::Unmatched) => {
            return Ok(Heard::Nothing);
        }
        Source::Node => {}
    }
    let age = Duration::from_nanos(patience.age_ns);
    let retry_after = answer.retry_after.map(|wait| wait.saturating_sub(age));
    let wait = if answer.allowed { answer.delay } else { retry_after };
    match wait {
        Some(delay) if answer.allowed => Ok(Heard::Turn { delay_ns: to_ns(delay) }),
        Some(retry_after) if to_ns(retry_after) <= patience.left_ns => {
            let wait = retry.delay_after(patience.attempt, retry_after);
            Ok(Heard::Denied { retry_after_ns: to_ns(wait) })
        }
        wait => Err(AcquireError::Denied { limit_name: answer.limit_name, retry_after: wait }),
    }
}

/// A place in the line. It is given up when the call ends, however it ends.
struct Place<'p> {
    line: &'p Mutex<Line>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.line.lock().leave();
    }
}

fn check_rate(rate: Rate) -> Result<(), PacerError> {
    let is_pace = rate.count > 0 && rate.period_ns > 0;
    is_pace.then_some(()).ok_or(PacerError::Rate(rate))
}

fn check_queue(queue_max: usize) -> Result<(), PacerError> {
    (queue_max > 0).then_some(()).ok_or(PacerError::Queue)
}

fn to_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The code of the manual's page compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/pacing.md")]
struct Manual;
