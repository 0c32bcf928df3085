//! The algorithms, one file each: pure arithmetic on the state of one bucket.
//!
//! An algorithm knows no key, no lock and no clock. It is asked with the state and the time, and
//! answers with a wait or a new state.

mod log;
mod token_bucket;
mod window;

pub(crate) use log::{Log, SlidingLog};
pub(crate) use token_bucket::{Room, TokenBucket};
pub(crate) use window::{Part, WindowCount, WindowCounter};

/// One moment on both clocks of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Now {
    /// Nanoseconds of its monotonic clock, which alone decides when a window that has begun ends.
    pub(crate) ns: u64,
    /// Nanoseconds of Unix time by its wall clock, which says where the next window begins.
    pub(crate) unix_ns: u64,
}
