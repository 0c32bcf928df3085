//! What is let through, told to somebody who keeps a record of it.

use std::fmt;

/// Is told of every spend: after it was made, on the thread that made it, with no lock held. It must
/// not wait; the caller's answer comes after it.
pub trait Witness: fmt::Debug + Send + Sync {
    /// A bucket changed by `spend`.
    fn handle_spend(&self, spend: Spend);
}

/// What a spend was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpendKind {
    /// An allowed check, at the moment at which it was allowed.
    Check,
    /// A debit, as far as it was charged.
    Debit,
    /// A refund or a reset, as far as the bucket took it.
    Refund,
}

/// Units that one request took from one bucket, or gave back to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spend {
    /// Time at which the bucket changed, in nanoseconds of the limiter's clock.
    pub at_ns: u64,
    /// The rule, by its place in [`crate::Plan::rules`].
    pub slot: u16,
    /// The bucket's identity: see [`crate::Limiter::fingerprint`].
    pub hash: u64,
    /// Which way the units went.
    pub kind: SpendKind,
    /// Units, at least 1. Of an allowed check all that it cost. What a refund gave back of a unit
    /// only in part, because the bucket is full with that, counts as a whole one.
    pub units: u64,
}
