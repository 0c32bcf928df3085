//! Answers in the place of a silent node.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use limiter::{Limiter, Request};

use crate::answer::{Answer, Silence};
use crate::clock;
use crate::{Error, OnSilence};

/// Buckets of the local limiter's table that are looked at after each of its decisions, so that it
/// drops what has come to rest: more than the one that a decision can fill.
const SWEEP_BUCKETS: usize = 4;

/// What [`OnSilence`] says, ready to answer.
#[derive(Debug)]
pub(crate) struct Fallback {
    on_silence: OnSilence,
    /// A closed fallback's answer: the client has tried the node again by then.
    closed_retry_after: Duration,
    answers: AtomicU64,
}

impl Fallback {
    pub(crate) fn new(on_silence: OnSilence, closed_retry_after: Duration) -> Self {
        Self { on_silence, closed_retry_after, answers: AtomicU64::new(0) }
    }

    /// Answers given so far.
    pub(crate) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// Answers a request that is within its bounds.
    pub(crate) fn answer(&self, request: &Request<'_>, silence: Silence) -> Result<Answer, Error> {
        let answer = match &self.on_silence {
            OnSilence::Open => Answer::without_limit(silence, true, Some(Duration::ZERO)),
            OnSilence::Closed => {
                Answer::without_limit(silence, false, Some(self.closed_retry_after))
            }
            OnSilence::Local(limiter) => decide(limiter, request, silence)?,
        };
        self.answers.fetch_add(1, Ordering::Relaxed);
        Ok(answer)
    }
}

fn decide(limiter: &Limiter, request: &Request<'_>, silence: Silence) -> Result<Answer, Error> {
    let now_ns = clock::now_ns();
    let decision = limiter.decide(now_ns, request)?;
    limiter.sweep(now_ns, SWEEP_BUCKETS);
    Ok(Answer::from_local(silence, &decision, clock::wall()))
}
