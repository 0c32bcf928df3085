//! The exit codes of every command, in one place.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It did what was asked; a check was allowed; a file is valid; the daemon stopped when told.
    Success,
    /// A check was denied, a file is not valid, or the daemon could not start.
    Refused,
    /// The question could not be put or was not answered. Also what a wrong command line gives.
    Error,
}

impl Exit {
    /// The number that a shell sees: 0, 1 or 2.
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Refused => 1,
            Self::Error => 2,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
