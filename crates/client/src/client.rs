//! The async client: what callers hold. The connection belongs to its task, in `driver`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use limiter::{Op, Request};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::answer::{Answer, Silence, Source};
use crate::clock;
use crate::driver::{Command, Driver};
use crate::fallback::Fallback;
use crate::question::{Outcome, Question, Style, answer_unasked, request_as};
use crate::window::{FRAMES_IN_FLIGHT_MAX, Window};
use crate::{Address, Backoff, Counts, Error, Options, OptionsError};

/// A client for tokio. Clones share one socket, and any number of tasks may ask at once, up to 1,024
/// frames in flight.
///
/// A call that is dropped before its answer is not sent if it was not yet, and its answer is ignored
/// if it was: the node may have spent it. When the last clone is dropped the socket is closed.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    window: Arc<Mutex<Window>>,
    commands: mpsc::Sender<Command>,
    /// Holds the one task. It ends with this set.
    driver: JoinSet<()>,
    fallback: Fallback,
    timeout: Duration,
    max_wait_us: Option<u32>,
    pads_requests: AtomicBool,
    retry: Backoff,
}

impl Client {
    /// A client of the node at `address`. It connects when it is first asked, and again after the
    /// connection was lost, so it can be made before the node is there.
    ///
    /// # Errors
    /// If the options contradict each other.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time.
    pub fn new(address: Address, options: Options) -> Result<Self, OptionsError> {
        let max_wait_us = options.max_wait_us()?;
        let window = Arc::new(Mutex::new(Window::new()));
        let (commands, receiver) = mpsc::channel(FRAMES_IN_FLIGHT_MAX);
        let pads_requests = AtomicBool::new(address.pads_requests());
        let driver = Driver::new(address, Arc::clone(&window), receiver, options.reconnect);
        let inner = Inner {
            window,
            commands,
            driver: JoinSet::from_iter([driver.run()]),
            fallback: Fallback::new(options.on_silence, options.reconnect.max()),
            timeout: options.timeout,
            max_wait_us,
            pads_requests,
            retry: options.retry,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Asks whether `request` may go on, and spends its cost if so. It is sent once.
    ///
    /// # Errors
    /// See [`Error`]; nothing was spent. A silent node is no error: the answer says so.
    pub async fn check(&self, request: &Request<'_>) -> Result<Answer, Error> {
        self.ask_as(Op::Check, request).await
    }

    /// Asks whether `request` could go on, and changes nothing.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn peek(&self, request: &Request<'_>) -> Result<Answer, Error> {
        self.ask_as(Op::Peek, request).await
    }

    /// Spends the cost of `request`, whatever is left: for costs known only afterwards.
    ///
    /// # Errors
    /// See [`Error`]; nothing was spent.
    pub async fn debit(&self, request: &Request<'_>) -> Result<Answer, Error> {
        self.ask_as(Op::Debit, request).await
    }

    /// Gives back the cost of `request`.
    ///
    /// # Errors
    /// See [`Error`]; nothing was given back.
    pub async fn refund(&self, request: &Request<'_>) -> Result<Answer, Error> {
        self.ask_as(Op::Refund, request).await
    }

    /// Asks `requests`, each by its own [`Request::op`], in as few frames as they fit into (256
    /// checks or 64 KiB each), one frame after another. The answers are in the same order. Each
    /// request stands alone: one that fails stops no other.
    ///
    /// The batch ends at the first frame without an answer; the checks behind it are not sent.
    pub async fn check_batch(&self, requests: &[Request<'_>]) -> Vec<Result<Answer, Error>> {
        let mut answers = Vec::with_capacity(requests.len());
        while let Some(rest) = requests.get(answers.len()..).filter(|rest| !rest.is_empty()) {
            let (question, outcome) = self.exchange(rest).await;
            let silence = question.answer(rest, outcome, &self.inner.fallback, &mut answers);
            if silence.is_some() {
                let unasked = requests.get(answers.len()..).unwrap_or_default();
                answer_unasked(unasked, &self.inner.fallback, &mut answers);
            }
        }
        answers
    }

    /// Asks until `request` is allowed: after each denial it waits `retry_after` and a jitter that
    /// only lengthens. Gives the last denial when the wait would not end within `within`, when no
    /// wait helps, and when the check may have been spent although the node did not answer.
    ///
    /// The last check may take the time-out longer than `within`.
    ///
    /// # Errors
    /// See [`Error`]; nothing was spent.
    pub async fn check_until_allowed(
        &self,
        request: &Request<'_>,
        within: Duration,
    ) -> Result<Answer, Error> {
        let deadline = clock::timer_now().checked_add(within);
        let mut attempt = 0;
        loop {
            let answer = self.check(request).await?;
            let left = deadline.map_or(Duration::MAX, |deadline| {
                deadline.saturating_duration_since(clock::timer_now())
            });
            match wait_before_retry(&answer) {
                Some(retry_after) if retry_after < left => {
                    let wait = self.inner.retry.delay_after(attempt, retry_after);
                    tokio::time::sleep(wait.min(left)).await;
                    attempt = attempt.saturating_add(1);
                }
                _ => return Ok(answer),
            }
        }
    }

    /// What was dropped, lost or answered by the fallback since the client was made.
    pub fn counts(&self) -> Counts {
        let counts = self.inner.window.lock().counts();
        Counts { fallback_answers: self.inner.fallback.answers(), ..counts }
    }

    /// The jitter on a denial's wait.
    pub(crate) fn retry(&self) -> &Backoff {
        &self.inner.retry
    }

    /// Drops this clone; if it is the last one, waits until the socket is closed.
    pub async fn close(self) {
        if let Some(Inner { commands, mut driver, .. }) = Arc::into_inner(self.inner) {
            drop(commands);
            // It has no output; a panic of the task was reported by the runtime.
            let _ = driver.join_next().await;
        }
    }

    async fn ask_as(&self, op: Op, request: &Request<'_>) -> Result<Answer, Error> {
        let request = request_as(op, request);
        let mut answers = self.check_batch(std::slice::from_ref(&*request)).await;
        answers.pop().expect("a batch has an answer for each request")
    }

    /// Asks as many of `requests` as one frame takes. A frame that a node would answer only if it
    /// were padded is asked again with padding: it decided nothing.
    async fn exchange(&self, requests: &[Request<'_>]) -> (Question, Outcome) {
        let pads_requests = self.inner.pads_requests.load(Ordering::Relaxed);
        let (question, outcome) = self.exchange_once(requests, pads_requests).await;
        if !pads_requests && outcome.asks_for_padding() {
            self.inner.pads_requests.store(true, Ordering::Relaxed);
            return self.exchange_once(requests, true).await;
        }
        (question, outcome)
    }

    async fn exchange_once(
        &self,
        requests: &[Request<'_>],
        is_padded: bool,
    ) -> (Question, Outcome) {
        let style = Style { max_wait_us: self.inner.max_wait_us, is_padded };
        let mut frame = Vec::new();
        let Some(ticket) = Ticket::admit(&self.inner.window) else {
            let question = Question::write(&mut frame, 0, requests, style);
            return (question, Outcome::Failed(Error::Busy));
        };
        let question = Question::write(&mut frame, ticket.id, requests, style);
        if !question.is_asked() {
            return (question, Outcome::Answered(Vec::new()));
        }
        let outcome = self.round_trip(ticket, frame).await;
        (question, outcome)
    }

    async fn round_trip(&self, mut ticket: Ticket<'_>, frame: Vec<u8>) -> Outcome {
        match self.inner.commands.try_send(Command { id: ticket.id, frame }) {
            Ok(()) => {}
            // Frames whose callers have given up fill the queue: the node takes none.
            Err(mpsc::error::TrySendError::Full(_)) => {
                return Outcome::Silent(Silence::Unreachable(io::ErrorKind::WouldBlock));
            }
            Err(mpsc::error::TrySendError::Closed(_)) => return Outcome::Failed(Error::Closed),
        }
        match tokio::time::timeout(self.inner.timeout, &mut ticket.outcome).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Outcome::Silent(Silence::Lost(io::ErrorKind::BrokenPipe)),
            Err(_) => Outcome::Silent(Silence::TimedOut),
        }
    }
}

/// How long to wait before a denied check may be asked again; none if it should not be.
fn wait_before_retry(answer: &Answer) -> Option<Duration> {
    let is_unspent = match answer.source {
        Source::Node => true,
        Source::Fallback(silence) => !silence.may_have_been_spent(),
    };
    answer.retry_after.filter(|_| !answer.allowed && is_unspent)
}

/// A place in the window. It is given up when the call ends, however it ends.
#[derive(Debug)]
struct Ticket<'c> {
    window: &'c Mutex<Window>,
    id: u64,
    outcome: oneshot::Receiver<Outcome>,
}

impl<'c> Ticket<'c> {
    fn admit(window: &'c Mutex<Window>) -> Option<Self> {
        let (id, outcome) = window.lock().admit()?;
        Some(Self { window, id, outcome })
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.window.lock().forget(self.id);
    }
}
