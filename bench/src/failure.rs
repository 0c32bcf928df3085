//! What keeps a measurement from being made, in words for whoever runs it. It carries no code: the
//! bench has nobody who would act on one.

use std::fmt;

/// Why there is no figure.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    /// A failure in these words.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// What was tried, and what came in its way.
    pub(crate) fn because(tried: impl fmt::Display, cause: impl fmt::Display) -> Self {
        Self(format!("{tried}: {cause}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}
