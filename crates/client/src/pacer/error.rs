//! Why a pacer cannot be made, and why a caller has no turn.

use std::fmt;
use std::time::Duration;

use limiter::{Rate, RequestError};

use crate::Error;

/// Why a pacer cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacerError {
    /// The count or the period of the rate is 0.
    Rate(Rate),
    /// Nobody may wait.
    Queue,
    /// The endpoint or the key breaks a bound.
    Request(RequestError),
}

impl fmt::Display for PacerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(Rate { count, period_ns }) => write!(
                f,
                "a pace of `{count}` turns in `{period_ns}` ns is none; give at least 1 of both"
            ),
            Self::Queue => {
                write!(f, "a queue of `0` lets nobody wait; give the most callers that may")
            }
            Self::Request(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PacerError {}

/// Why a caller has no turn. None was used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcquireError {
    /// Too much at once: as many callers wait as may.
    Full {
        /// Until the first of them has gone; zero where that is not known.
        retry_after: Duration,
    },
    /// It is not the caller's turn and it would not wait.
    NotYet {
        /// Until it could be, if nobody else comes; zero where that is not known.
        retry_after: Duration,
    },
    /// The limit denies, for longer than the caller would wait.
    Denied {
        /// The limit that denied.
        limit_name: String,
        /// What it said; none where no wait helps.
        retry_after: Option<Duration>,
    },
    /// The node did not take the question.
    Client(Error),
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { retry_after } => write!(
                f,
                "as many callers wait for their turn as may; come back in {retry_after:?}, or \
                 lengthen the queue"
            ),
            Self::NotYet { retry_after } => {
                write!(f, "it is not this call's turn; come back in {retry_after:?}")
            }
            Self::Denied { limit_name, retry_after: Some(wait) } => {
                write!(
                    f,
                    "`{limit_name}` denies for {wait:?}, which is longer than this call waits"
                )
            }
            Self::Denied { limit_name, retry_after: None } => {
                write!(f, "`{limit_name}` denies, and no wait helps; look at the limit")
            }
            Self::Client(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AcquireError {}
