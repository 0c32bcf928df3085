//! What the limiter promises, asked through its public face on virtual time.
//!
//! Ids such as AR-01 are those of the list of faults that other limiters shipped.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod algorithms;
mod arithmetic;
mod carried;
mod concurrency;
mod limits;
mod memory;
mod model;
mod numbers;
mod plan;
mod properties;
mod replace;
mod share;
mod support;
mod together;
mod wall;
mod why;
mod witness;
