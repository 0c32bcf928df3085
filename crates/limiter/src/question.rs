//! What a request asks of the limits that apply to it, apart from what it costs each.

use crate::share::SharedBucket;
use crate::{Op, Request};

/// What is asked of the limits that apply, whoever asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub(crate) op: Op,
    pub(crate) details: bool,
    pub(crate) is_peek: bool,
    /// It may be held for an acknowledgement.
    pub(crate) may_hold: bool,
    /// It was held before: its demand is known.
    pub(crate) is_again: bool,
}

impl Question {
    /// Units that it may add to a bucket in which `missing` ticks are missing and which costs it `cost`
    /// units: none where it only reads or gives back, nor where it is denied anyway. So a drained log that
    /// cannot grow is asked itself, and not the overflow bucket in its place.
    pub(crate) fn adds(&self, shared: &SharedBucket, cost: u64, missing: u64) -> u64 {
        let fits = || shared.counter().and_then(|it| it.most_missing(cost)) >= Some(missing);
        match self.op {
            _ if self.is_peek => 0,
            Op::Check if shared.counter().is_some() && !fits() => 0,
            Op::Check | Op::Debit => cost,
            Op::Peek | Op::Refund | Op::Reset => 0,
        }
    }

    pub(crate) fn of(request: &Request<'_>, may_hold: bool) -> Self {
        Self {
            op: request.op,
            details: request.details,
            is_peek: request.is_peek(),
            may_hold,
            is_again: false,
        }
    }
}
