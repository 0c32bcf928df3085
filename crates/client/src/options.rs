//! How a client asks, and what it answers when the node does not.

use std::fmt;
use std::time::Duration;

use limiter::Limiter;

use crate::Backoff;

/// Time-out of a frame unless the options say otherwise.
///
/// A node holds a check for [`NODE_MAX_WAIT`] at most, and takes some 50 us beyond that. The rest of
/// the 20 ms is for a host so busy that node or caller are not scheduled for a few milliseconds, and
/// is still short beside the request that waits for the answer.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_millis(20);
/// Longest time-out. Whoever would wait longer is better served by a fallback.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(60);
/// How long a node holds a check unless the check says otherwise.
pub const NODE_MAX_WAIT: Duration = Duration::from_millis(5);

/// Bounds of the wait before the next attempt to connect, by default: at once for a node that
/// restarts, and no more than one attempt a second for one that is gone.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// Bounds of the jitter on a denial's `retry_after`, by default: enough to part callers that were
/// denied together, little beside the usual wait.
const RETRY: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

/// How a client asks. [`Options::default`] suits a node on the same host.
#[derive(Debug)]
pub struct Options {
    /// How long a frame may take from the call to its answer: above `max_wait`, at most
    /// [`TIMEOUT_MAX`]. A batch of several frames ends at the first that takes longer. Shorter
    /// gives more fallback answers, longer holds the caller up when the node is silent. Default
    /// [`DEFAULT_TIMEOUT`].
    pub timeout: Duration,
    /// How long the node may hold a check that its peers could still allow; zero: not at all. None,
    /// the default, is the node's own [`NODE_MAX_WAIT`], or half the time-out where that is less.
    pub max_wait: Option<Duration>,
    /// What to answer when the node does not. Default [`OnSilence::Open`].
    pub on_silence: OnSilence,
    /// Waits between attempts to connect, between 10 ms and 1 s by default. Meanwhile
    /// checks are answered by `on_silence` at once.
    pub reconnect: Backoff,
    /// Jitter on `retry_after` in
    /// [`Client::check_until_allowed`](crate::Client::check_until_allowed), from 1 ms growing to
    /// 100 ms by default. It only lengthens.
    pub retry: Backoff,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            timeout: DEFAULT_TIMEOUT,
            max_wait: None,
            on_silence: OnSilence::Open,
            reconnect: Backoff::new(RECONNECT.0, RECONNECT.1),
            retry: Backoff::new(RETRY.0, RETRY.1),
        }
    }
}

impl Options {
    /// What to write into each check as its longest wait, in microseconds; none: the node's default.
    ///
    /// # Errors
    /// If the options contradict each other.
    pub(crate) fn max_wait_us(&self) -> Result<Option<u32>, OptionsError> {
        if self.timeout.is_zero() || self.timeout > TIMEOUT_MAX {
            return Err(OptionsError::Timeout(self.timeout));
        }
        let max_wait = match self.max_wait {
            Some(max_wait) if max_wait >= self.timeout => {
                return Err(OptionsError::MaxWait { max_wait, timeout: self.timeout });
            }
            Some(max_wait) => max_wait,
            None if self.timeout / 2 >= NODE_MAX_WAIT => return Ok(None),
            None => self.timeout / 2,
        };
        // It is below `TIMEOUT_MAX`, which 32 bits hold 71 times.
        Ok(u32::try_from(max_wait.as_micros()).ok())
    }
}

/// What to answer when the node does not. It goes for peeks, debits and refunds as for checks, and
/// [`Answer::source`](crate::Answer::source) always says that the node did not answer.
#[derive(Debug)]
pub enum OnSilence {
    /// Allow.
    Open,
    /// Deny.
    Closed,
    /// Ask these limits instead. They count in this process alone, and only while the node is
    /// silent; give them this process's part of the fleet's budget.
    Local(Box<Limiter>),
}

/// Why options cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionsError {
    /// The time-out is zero or above [`TIMEOUT_MAX`].
    Timeout(Duration),
    /// The node would still hold a check when the client has given up.
    MaxWait {
        /// The wait that was given.
        max_wait: Duration,
        /// The time-out that was given.
        timeout: Duration,
    },
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout(timeout) => write!(
                f,
                "the time-out `{timeout:?}` is out of range; give more than zero and at most \
                 {TIMEOUT_MAX:?}"
            ),
            Self::MaxWait { max_wait, timeout } => write!(
                f,
                "max_wait `{max_wait:?}` is not below the time-out `{timeout:?}`; lengthen the \
                 time-out or shorten the wait"
            ),
        }
    }
}

impl std::error::Error for OptionsError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn max_wait_us(timeout: Duration, max_wait: Option<Duration>) -> Result<Option<u32>, String> {
        let options = Options { timeout, max_wait, ..Options::default() };
        options.max_wait_us().map_err(|error| error.to_string())
    }

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn default_options_leave_the_wait_to_the_node() {
        assert_eq!(Options::default().max_wait_us(), Ok(None));
        assert!(DEFAULT_TIMEOUT > NODE_MAX_WAIT);
    }

    #[test]
    fn node_is_told_to_hold_no_longer_than_half_of_a_short_time_out() {
        assert_eq!(max_wait_us(MS * 10, None), Ok(None));
        assert_eq!(max_wait_us(MS * 9, None), Ok(Some(4_500)));
        assert_eq!(max_wait_us(MS, None), Ok(Some(500)));
    }

    #[test]
    fn wait_that_is_given_must_be_below_the_time_out() {
        assert_eq!(max_wait_us(MS * 2, Some(Duration::ZERO)), Ok(Some(0)));
        assert_eq!(max_wait_us(MS * 2, Some(MS)), Ok(Some(1_000)));
        assert_eq!(max_wait_us(TIMEOUT_MAX, Some(TIMEOUT_MAX - MS)), Ok(Some(59_999_000)));
        let error = max_wait_us(MS * 2, Some(MS * 2)).expect_err("as long as the time-out");
        assert!(error.starts_with("max_wait `2ms` is not below the time-out `2ms`"), "{error}");
    }

    #[test]
    fn time_out_of_zero_or_above_the_bound_is_refused() {
        for timeout in [Duration::ZERO, TIMEOUT_MAX + Duration::from_nanos(1)] {
            assert_eq!(
                Options { timeout, ..Options::default() }.max_wait_us(),
                Err(OptionsError::Timeout(timeout))
            );
        }
        assert_eq!(max_wait_us(TIMEOUT_MAX, None), Ok(None));
    }
}
