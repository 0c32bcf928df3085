//! The pacer for a thread without a runtime.

use std::time::Duration;

use limiter::{Rate, Request};

use super::line::{Entry, Line, Step};
use super::{AcquireError, DENIED_MAX, PacerError, Patience, check_rate, hear, to_ns};
use crate::{blocking, clock};

/// Gives out turns that are evenly spaced, to one thread. See [`Pacer`](crate::Pacer), which is for many
/// callers.
#[derive(Debug)]
pub struct Pacer {
    line: Line,
    limit: Option<NamedLimit>,
    /// When it was made, by the clock that counts suspended time too.
    made_ns: u64,
    denied_max: Duration,
}

#[derive(Debug)]
struct NamedLimit {
    client: blocking::Client,
    endpoint: Box<[u8]>,
    key: Box<[u8]>,
}

impl Pacer {
    /// A pacer of this thread: turns at `rate`, the first at once.
    ///
    /// # Errors
    /// A rate of 0.
    pub fn new(rate: Rate) -> Result<Self, PacerError> {
        check_rate(rate)?;
        Ok(Self::build(Line::own(rate, 1), None))
    }

    /// A pacer of everybody who names the limit that `endpoint` and `key` meet, and of this thread alone
    /// at the rate `alone` while no node answers: see [`Pacer::of_limit`](crate::Pacer::of_limit).
    ///
    /// # Errors
    /// A rate of 0; an endpoint or a key that breaks a bound.
    pub fn of_limit(
        client: blocking::Client,
        endpoint: &[u8],
        key: &[u8],
        alone: Rate,
    ) -> Result<Self, PacerError> {
        check_rate(alone)?;
        Request::check(endpoint, key).validate().map_err(PacerError::Request)?;
        let limit = NamedLimit { client, endpoint: endpoint.into(), key: key.into() };
        Ok(Self::build(Line::asking(alone, 1), Some(limit)))
    }

    fn build(line: Line, limit: Option<NamedLimit>) -> Self {
        Self { line, limit, made_ns: clock::now_ns(), denied_max: DENIED_MAX }
    }

    /// The same pacer, which stops waiting when a limit denies and a further wait would end later than
    /// `denied_max` after the call began; [`DENIED_MAX`] otherwise.
    #[must_use]
    pub fn with_denied_max(mut self, denied_max: Duration) -> Self {
        self.denied_max = denied_max;
        self
    }

    /// Holds the thread up until its turn.
    ///
    /// # Errors
    /// [`AcquireError::Denied`] and [`AcquireError::Client`], both of a limit alone; no turn was used.
    pub fn acquire(&mut self) -> Result<(), AcquireError> {
        let came_ns = self.now_ns();
        match self.line.enter(came_ns) {
            Ok(Entry::Turn) => return Ok(()),
            Ok(Entry::Waits) => {}
            // Nobody else is in the line of a thread's own pacer.
            Err(wait_ns) => {
                return Err(AcquireError::Full { retry_after: Duration::from_nanos(wait_ns) });
            }
        }
        let turn = self.wait(came_ns.saturating_add(to_ns(self.denied_max)));
        self.line.leave();
        turn
    }

    fn wait(&mut self, give_up_ns: u64) -> Result<(), AcquireError> {
        self.line.begin(self.now_ns());
        let mut attempt = 0;
        loop {
            let now_ns = self.now_ns();
            match self.line.step(now_ns) {
                Step::Turn => return Ok(()),
                Step::Wait { until_ns } => clock::sleep(until_ns.saturating_sub(now_ns)),
                Step::Ask => {
                    self.ask(give_up_ns, attempt)?;
                    attempt += 1;
                }
            }
        }
    }

    fn ask(&mut self, give_up_ns: u64, attempt: u32) -> Result<(), AcquireError> {
        let asked_ns = self.now_ns();
        // A line without a limit never asks.
        let Some(NamedLimit { client, endpoint, key }) = &mut self.limit else { return Ok(()) };
        let answer = client.check(&Request::check(endpoint, key)).map_err(AcquireError::Client)?;
        let now_ns = clock::now_ns().saturating_sub(self.made_ns);
        // Nobody else asks in the line of a thread's own pacer.
        let left_ns = give_up_ns.saturating_sub(now_ns);
        let patience = Patience { attempt, left_ns, age_ns: 0 };
        let heard = hear(answer, client.retry(), patience)?;
        self.line.handle_answer(asked_ns, now_ns, heard);
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        clock::now_ns().saturating_sub(self.made_ns)
    }
}
