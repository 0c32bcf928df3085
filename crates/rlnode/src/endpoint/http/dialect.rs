//! Which headers tell a client of a gateway about its limits: there are several customs.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

/// A custom of naming them. `Retry-After` is of none: a denial that a wait ends always has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `X-RateLimit-Limit`, `-Remaining`, and `-Reset` in Unix seconds.
    XRateLimit,
    /// The same with `-Reset` in seconds from now.
    XRateLimitDelta,
    /// `RateLimit` and `RateLimit-Policy`, lists of structured fields, as
    /// draft-ietf-httpapi-ratelimit-headers has them since revision 08.
    RateLimit,
    /// `RateLimit-Limit`, `-Remaining`, `-Reset` in seconds from now, and `RateLimit-Policy`, as the same draft
    /// had them up to revision 06.
    RateLimit06,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 4] =
        [Self::XRateLimit, Self::XRateLimitDelta, Self::RateLimit, Self::RateLimit06];

    /// Its name in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::XRateLimit => "x-ratelimit",
            Self::XRateLimitDelta => "x-ratelimit-delta",
            Self::RateLimit => "ratelimit",
            Self::RateLimit06 => "ratelimit-06",
        }
    }

    /// The one that gives headers of the same names another meaning.
    pub fn rival(self) -> Self {
        match self {
            Self::XRateLimit => Self::XRateLimitDelta,
            Self::XRateLimitDelta => Self::XRateLimit,
            Self::RateLimit => Self::RateLimit06,
            Self::RateLimit06 => Self::RateLimit,
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The dialects that are spoken, all at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Dialects(u8);

impl Dialects {
    /// None: `Retry-After` alone.
    pub const NONE: Self = Self(0);

    /// With `dialect`, too.
    #[must_use]
    pub const fn with(self, dialect: Dialect) -> Self {
        Self(self.0 | dialect.bit())
    }

    /// Whether `dialect` is spoken.
    pub fn has(self, dialect: Dialect) -> bool {
        self.0 & dialect.bit() != 0
    }
}

impl Default for Dialects {
    fn default() -> Self {
        Self::NONE.with(Dialect::XRateLimit).with(Dialect::RateLimit)
    }
}

impl fmt::Debug for Dialects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(Dialect::ALL.iter().filter(|dialect| self.has(**dialect))).finish()
    }
}

/// The dialects of a node: a reload changes them.
#[derive(Debug)]
pub struct Spoken(AtomicU8);

impl Default for Spoken {
    fn default() -> Self {
        Self(AtomicU8::new(Dialects::default().0))
    }
}

impl Spoken {
    /// What is spoken now.
    pub fn get(&self) -> Dialects {
        Dialects(self.0.load(Ordering::Relaxed))
    }

    /// Speaks `dialects` from now on.
    pub fn set(&self, dialects: Dialects) {
        self.0.store(dialects.0, Ordering::Relaxed);
    }
}
