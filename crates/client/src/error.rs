//! What a call can fail with. A denial is an answer, and so is what stands in for a silent node.

use std::fmt;

use limiter::RequestError;
use wire::{ErrorCode, Status, WriteError};

use crate::window::FRAMES_IN_FLIGHT_MAX;

/// Why a check has no answer. Nothing was spent for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The caller's fault: the request breaks a bound. It was not sent.
    Request(RequestError),
    /// The caller's fault: no frame can say it, such as an operation that is an operator's. It was
    /// not sent.
    Unwritable(WriteError),
    /// The caller's fault: too much at once. Too many frames wait for an answer already; it was not
    /// sent.
    Busy,
    /// The task behind the client has ended, with its runtime. It was not sent.
    Closed,
    /// The node did not take the frame: the two do not understand each other.
    Rejected {
        /// What the node says is wrong.
        code: ErrorCode,
        /// The lowest and the highest version of the frame that the node speaks.
        versions: (u8, u8),
    },
    /// The node took the frame but did not decide this check.
    Refused(Status),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(error) => error.fmt(f),
            Self::Unwritable(error) => error.fmt(f),
            Self::Busy => write!(
                f,
                "{FRAMES_IN_FLIGHT_MAX} frames wait for an answer already; ask in batches, or slower"
            ),
            Self::Closed => write!(f, "the client's runtime has ended; make a new client"),
            Self::Rejected { code, versions: (min, max) } => {
                write!(f, "{code}; it speaks the versions {min} to {max} of the frame")
            }
            Self::Refused(status) => status.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<RequestError> for Error {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}
