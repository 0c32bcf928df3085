//! Members in one process, over real QUIC on loopback.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod carrying;
mod clocks;
mod fleet;
mod holding;
mod joining;
mod refusing;
mod waiting;
