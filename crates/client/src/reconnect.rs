//! When a connection that failed may be tried again. It opens nothing and reads no clock.

use std::io;

use crate::Backoff;

/// Counts failed attempts and spaces the next ones.
///
/// A connection that has given an answer is opened again at the next call; one that fails before its
/// first answer is a failed attempt, and the next waits for the backoff.
#[derive(Debug)]
pub(crate) struct Reconnect {
    backoff: Backoff,
    attempts: u32,
    retry_at_ns: u64,
    has_answered: bool,
    last_failure: io::ErrorKind,
}

impl Reconnect {
    pub(crate) fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            attempts: 0,
            retry_at_ns: 0,
            has_answered: false,
            last_failure: io::ErrorKind::NotConnected,
        }
    }

    /// Failed attempts since the last connection that answered.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Whether a connection may be opened at `now_ns`.
    ///
    /// # Errors
    /// How the last attempt failed, if the wait after it is not over.
    pub(crate) fn may_try(&self, now_ns: u64) -> Result<(), io::ErrorKind> {
        if now_ns >= self.retry_at_ns { Ok(()) } else { Err(self.last_failure) }
    }

    /// The connection gave an answer.
    pub(crate) fn handle_answer(&mut self) {
        self.attempts = 0;
        self.has_answered = true;
    }

    /// The connection could not be opened, or broke.
    pub(crate) fn handle_failure(&mut self, now_ns: u64, failure: io::ErrorKind) {
        if std::mem::take(&mut self.has_answered) {
            return;
        }
        let delay = self.backoff.delay(self.attempts);
        let delay_ns = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        self.retry_at_ns = now_ns.saturating_add(delay_ns);
        self.attempts = self.attempts.saturating_add(1);
        self.last_failure = failure;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const FAILURE: io::ErrorKind = io::ErrorKind::ConnectionRefused;

    fn reconnect() -> (Backoff, Reconnect) {
        let backoff = Backoff::with_seed(Duration::from_nanos(100), Duration::from_micros(1), 3);
        (backoff, Reconnect::new(backoff))
    }

    #[test]
    fn failed_attempts_are_spaced_by_the_backoff() {
        let (backoff, mut reconnect) = reconnect();
        assert_eq!(reconnect.may_try(0), Ok(()));
        for attempt in 0..5 {
            assert_eq!(reconnect.attempts(), attempt);
            reconnect.handle_failure(1_000, FAILURE);
            let wait_ns = u64::try_from(backoff.delay(attempt).as_nanos()).expect("short");
            assert_eq!(reconnect.may_try(1_000 + wait_ns - 1), Err(FAILURE));
            assert_eq!(reconnect.may_try(1_000 + wait_ns), Ok(()));
        }
    }

    #[test]
    fn connection_that_answered_is_opened_again_at_once_but_only_once() {
        let (_, mut reconnect) = reconnect();
        reconnect.handle_failure(0, FAILURE);
        reconnect.handle_answer();
        reconnect.handle_failure(5_000, FAILURE);
        assert_eq!(reconnect.may_try(5_000), Ok(()));
        assert_eq!(reconnect.attempts(), 0);
        reconnect.handle_failure(5_000, FAILURE);
        assert_eq!(reconnect.may_try(5_000), Err(FAILURE));
    }
}
