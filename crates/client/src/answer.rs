//! The answer to one check, owned, and who gave it.

use std::fmt;
use std::io;
use std::time::{Duration, SystemTime};

use limiter::{Freshness, Reason, Verdict, Wait};

/// The answer to one check. All numbers are those of the limit that decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Who answers: the node, or this client because the node did not.
    pub source: Source,
    /// The request may go on.
    pub allowed: bool,
    /// The limit that decided, `name` or `name/override`: on a denial, of those that deny, the one
    /// with the longest wait; when allowed, the one with the smallest remaining / limit. Empty when
    /// no limit matched or none was asked.
    pub limit_name: String,
    /// Capacity, in units; none where there is no number.
    pub limit: Option<u64>,
    /// Whole units left after this call; none where there is no number.
    pub remaining: Option<u64>,
    /// Time until the bucket is as if untouched; none for never.
    pub reset_after: Option<Duration>,
    /// The same as a date; none for never, and where no limit was asked.
    pub reset_at: Option<SystemTime>,
    /// Zero when allowed, else the smallest wait after which the same call would pass if nobody
    /// else called; none for never. Where [`OnSilence::Closed`](crate::OnSilence::Closed) denied,
    /// the longest time until the client tries the node again.
    pub retry_after: Option<Duration>,
    /// How long the caller must wait before it acts, although allowed; none for never.
    pub delay: Option<Duration>,
    /// Why; none where no limit was asked, and where the node's reason is newer than this client.
    pub reason: Option<Reason>,
    /// How well the fleet's counts were known; none as for `reason`.
    pub freshness: Option<Freshness>,
    /// Age of the oldest news from a reachable peer, in whole milliseconds.
    pub stale: Duration,
    /// Every limit that applied, in the order of the file; empty unless asked for.
    pub details: Vec<Detail>,
    /// The node left out some details, so that its reply fits in a frame.
    pub details_cut: bool,
}

impl Answer {
    /// An answer without a limit behind it.
    pub(crate) fn without_limit(
        silence: Silence,
        allowed: bool,
        retry_after: Option<Duration>,
    ) -> Self {
        Self {
            source: Source::Fallback(silence),
            allowed,
            limit_name: String::new(),
            limit: None,
            remaining: None,
            reset_after: Some(Duration::ZERO),
            reset_at: None,
            retry_after,
            delay: Some(Duration::ZERO),
            reason: None,
            freshness: None,
            stale: Duration::ZERO,
            details: Vec::new(),
            details_cut: false,
        }
    }

    /// What a local limiter said at `wall`.
    pub(crate) fn from_local(
        silence: Silence,
        decision: &limiter::Decision<'_>,
        wall: SystemTime,
    ) -> Self {
        let verdict = &decision.verdict;
        let reset_after = to_duration(verdict.reset_after);
        Self {
            source: Source::Fallback(silence),
            allowed: verdict.allowed,
            limit_name: verdict.limit_name.to_owned(),
            limit: verdict.limit,
            remaining: verdict.remaining,
            reset_after,
            reset_at: reset_after.and_then(|after| wall.checked_add(after)),
            retry_after: to_duration(verdict.retry_after),
            delay: to_duration(verdict.delay),
            reason: Some(verdict.reason),
            freshness: Some(decision.freshness),
            stale: Duration::from_millis(decision.stale_ms.into()),
            details: decision.details.iter().map(Detail::from_verdict).collect(),
            details_cut: false,
        }
    }

    /// What the node said.
    pub(crate) fn from_wire(answer: wire::Answer<'_>) -> Self {
        let at = |ms| SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms));
        Self {
            source: Source::Node,
            allowed: answer.allowed,
            limit_name: answer.limit_name.to_owned(),
            limit: answer.limit,
            remaining: answer.remaining,
            reset_after: to_duration(answer.reset_after),
            reset_at: answer.reset_at_ms.and_then(at),
            retry_after: to_duration(answer.retry_after),
            delay: to_duration(answer.delay),
            reason: answer.reason,
            freshness: answer.freshness,
            stale: Duration::from_millis(answer.stale_ms.into()),
            details: answer.details.map(Detail::from_wire).collect(),
            details_cut: answer.details_cut,
        }
    }
}

/// What one limit said to a check. The numbers are its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// `name`, or `name/override`.
    pub limit_name: String,
    /// The request may go on, as far as this limit is concerned.
    pub allowed: bool,
    /// Why; none where the node's reason is newer than this client.
    pub reason: Option<Reason>,
    /// The limit is counted and reported, but decides nothing.
    pub shadow: bool,
    /// As [`Answer::limit`].
    pub limit: Option<u64>,
    /// As [`Answer::remaining`].
    pub remaining: Option<u64>,
    /// As [`Answer::reset_after`].
    pub reset_after: Option<Duration>,
    /// As [`Answer::retry_after`].
    pub retry_after: Option<Duration>,
    /// As [`Answer::delay`].
    pub delay: Option<Duration>,
}

impl Detail {
    fn from_verdict(verdict: &Verdict<'_>) -> Self {
        Self {
            limit_name: verdict.limit_name.to_owned(),
            allowed: verdict.allowed,
            reason: Some(verdict.reason),
            shadow: verdict.shadow,
            limit: verdict.limit,
            remaining: verdict.remaining,
            reset_after: to_duration(verdict.reset_after),
            retry_after: to_duration(verdict.retry_after),
            delay: to_duration(verdict.delay),
        }
    }

    fn from_wire(detail: wire::Detail<'_>) -> Self {
        Self {
            limit_name: detail.limit_name.to_owned(),
            allowed: detail.allowed,
            reason: detail.reason,
            shadow: detail.shadow,
            limit: detail.limit,
            remaining: detail.remaining,
            reset_after: to_duration(detail.reset_after),
            retry_after: to_duration(detail.retry_after),
            delay: to_duration(detail.delay),
        }
    }
}

fn to_duration(wait: Wait) -> Option<Duration> {
    (wait != Wait::NEVER).then(|| Duration::from_nanos(wait.to_ns()))
}

/// Who gave an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The node.
    Node,
    /// This client, by its [`OnSilence`](crate::OnSilence), because the node gave no answer.
    Fallback(Silence),
}

/// Why the node gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// No connection could be opened, or none may be tried before the wait after a failed attempt is
    /// over. The check was not sent.
    Unreachable(io::ErrorKind),
    /// The time-out passed.
    TimedOut,
    /// The connection broke after the check was handed to it; over UDP, the host said that nobody
    /// listens.
    Lost(io::ErrorKind),
    /// The reply could not be read.
    Garbled,
    /// The node is starting and does not know the fleet's counts yet. It decided nothing.
    Starting,
    /// The node has too much to do. It decided nothing.
    Overloaded,
    /// An earlier frame of the same batch got no answer, so this check was not sent.
    NotAsked,
}

impl Silence {
    /// Whether the node may have spent the check's cost all the same. Such a check is never sent
    /// again by this client, and should not be by its caller.
    pub fn may_have_been_spent(self) -> bool {
        match self {
            Self::TimedOut | Self::Lost(_) | Self::Garbled => true,
            Self::Unreachable(_) | Self::Starting | Self::Overloaded | Self::NotAsked => false,
        }
    }

    /// The word for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::TimedOut => "timed_out",
            Self::Lost(_) => "lost",
            Self::Garbled => "garbled",
            Self::Starting => "starting",
            Self::Overloaded => "overloaded",
            Self::NotAsked => "not_asked",
        }
    }
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(kind) => write!(f, "the node cannot be reached: {kind}"),
            Self::TimedOut => write!(f, "the node did not answer in time"),
            Self::Lost(kind) => write!(f, "the connection to the node was lost: {kind}"),
            Self::Garbled => write!(f, "the node's reply cannot be read"),
            Self::Starting => write!(f, "the node is starting"),
            Self::Overloaded => write!(f, "the node has too much to do"),
            Self::NotAsked => write!(f, "the node did not answer the checks before this one"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_of_the_wire_become_durations_and_never_becomes_none() {
        assert_eq!(to_duration(Wait::ZERO), Some(Duration::ZERO));
        assert_eq!(to_duration(Wait::from_ns(1_500)), Some(Duration::from_nanos(1_500)));
        assert_eq!(to_duration(Wait::NEVER), None);
    }

    #[test]
    fn only_a_check_that_reached_a_connection_and_was_not_refused_may_have_been_spent() {
        let kind = io::ErrorKind::ConnectionRefused;
        for silence in [Silence::TimedOut, Silence::Lost(kind), Silence::Garbled] {
            assert!(silence.may_have_been_spent(), "{silence}");
        }
        let unspent =
            [Silence::Unreachable(kind), Silence::Starting, Silence::Overloaded, Silence::NotAsked];
        for silence in unspent {
            assert!(!silence.may_have_been_spent(), "{silence}");
        }
    }
}
