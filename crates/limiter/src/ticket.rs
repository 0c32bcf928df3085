//! A check that is held: refused only because peers do not yet know of this node's demand.

use smallvec::SmallVec;

use crate::{Bucket, Decision, Terms};

/// The answer to a check that may be held.
#[derive(Debug)]
pub enum Answer<'p> {
    /// Decided.
    Decided(Decision<'p>),
    /// To be asked again when the ticket's bucket is acknowledged, and at the deadline.
    Held(Ticket),
}

/// What is needed to ask again. It holds nothing in any limit, but for a reservation.
#[derive(Debug)]
#[must_use = "a ticket may stand for a reservation: retry it or abandon it"]
pub struct Ticket {
    /// Every limit that applies: its rule, its bucket where it has one, the cost in its unit.
    pub(crate) hits: SmallVec<[TicketHit; 2]>,
    pub(crate) details: bool,
    /// The bucket whose acknowledgement it waits for.
    pub(crate) waits_for: Bucket,
    /// The cost is charged to `waits_for` already, and told to peers as reserved.
    pub(crate) is_reserved: bool,
}

/// One limit of a held check.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TicketHit {
    pub(crate) slot: u16,
    /// Identity of the rule: another may have the slot by now.
    pub(crate) id: u64,
    /// None where the rule counts nothing for the request.
    pub(crate) hash: Option<u64>,
    pub(crate) cost: u64,
    /// What the check carries, where that is the limit.
    pub(crate) terms: Option<Terms>,
}

impl Ticket {
    /// The bucket whose acknowledgement may let it pass.
    pub fn bucket(&self) -> Bucket {
        self.waits_for
    }
}
