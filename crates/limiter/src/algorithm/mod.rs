//! The algorithms, one file each: pure arithmetic on the state of one bucket.
//!
//! An algorithm knows no key, no lock and no clock. It is asked with the state and the time, both in
//! ticks of its limit, and answers with a wait or a new state.

mod token_bucket;

pub(crate) use token_bucket::{Room, TokenBucket};
