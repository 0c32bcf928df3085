//! What a request asks of the limits that apply to it, apart from what it costs each.

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
