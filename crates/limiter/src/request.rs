//! The question: what a caller asks of the limiter.
//!
//! A request borrows everything from the bytes it was read from, so that asking allocates nothing.

use arrayvec::ArrayVec;

use crate::Terms;

/// Longest key, in bytes. Keys are hashed, never stored, so this bounds time and frames, not memory.
pub const KEY_BYTES_MAX: usize = 1024;
/// Longest endpoint, in bytes.
pub const ENDPOINT_BYTES_MAX: usize = 1024;
/// Most attributes in one request.
pub const ATTRIBUTES_MAX: usize = 16;
/// Longest attribute name, in bytes.
pub const ATTRIBUTE_NAME_BYTES_MAX: usize = 64;
/// Longest attribute value, in bytes.
pub const ATTRIBUTE_VALUE_BYTES_MAX: usize = 256;
/// Most named costs in one request.
pub const COSTS_MAX: usize = 4;
/// Longest name of a cost's unit, in bytes.
pub const UNIT_BYTES_MAX: usize = 64;
/// The unit that a limit counts, and a request costs one of, unless they say otherwise.
pub const DEFAULT_UNIT: &str = "requests";

/// Attributes of a request: name and value, opaque bytes, compared exactly.
pub type Attributes<'a> = ArrayVec<(&'a [u8], &'a [u8]), ATTRIBUTES_MAX>;

/// Costs of a request by unit. An empty unit name means [`DEFAULT_UNIT`].
pub type Costs<'a> = ArrayVec<(&'a [u8], u64), COSTS_MAX>;

/// What to do with the buckets that a request matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Spend the cost if every deciding limit has room for it, else change nothing.
    Check,
    /// Answer as a check would, and change nothing whatever the cost.
    Peek,
    /// Spend always, into bounded debt. For costs known only afterwards.
    Debit,
    /// Give back what an earlier check or debit spent; a bucket never rises above full.
    Refund,
    /// Forget the buckets, so that they are full again. An operator's act, not a client's.
    Reset,
}

/// One question to the limiter.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// What to do.
    pub op: Op,
    /// What is called: `POST /search`, `/users/7`, `login`; any bytes, may be empty.
    pub endpoint: &'a [u8],
    /// Who calls: 1 to [`KEY_BYTES_MAX`] opaque bytes.
    pub key: &'a [u8],
    /// Further facts that limits may match or take their keys from.
    pub attributes: Attributes<'a>,
    /// What the call costs. Unless [`DEFAULT_UNIT`] is named it costs one of that unit; every other
    /// unit that is not named costs nothing.
    pub costs: Costs<'a>,
    /// Report every limit that applied, not only the one that decided.
    pub details: bool,
    /// The numbers of the limit, where the caller brings them: then the carried limit
    /// ([`crate::CARRIED`]) decides, and no other.
    pub terms: Option<Terms>,
}

impl<'a> Request<'a> {
    /// A check of `key` at `endpoint` that costs one request.
    pub fn check(endpoint: &'a [u8], key: &'a [u8]) -> Self {
        Self {
            op: Op::Check,
            endpoint,
            key,
            attributes: Attributes::new(),
            costs: Costs::new(),
            details: false,
            terms: None,
        }
    }

    /// The same request, decided by the carried limit with `terms`.
    pub fn with_terms(mut self, terms: Terms) -> Self {
        self.terms = Some(terms);
        self
    }

    /// The same request with another operation.
    pub fn with_op(mut self, op: Op) -> Self {
        self.op = op;
        self
    }

    /// The same request at a cost of `cost` requests. Cost 0 is a peek.
    ///
    /// # Panics
    /// If [`COSTS_MAX`] units are named already; a request from outside is built by a decoder that
    /// checks the bound.
    pub fn with_cost(self, cost: u64) -> Self {
        self.with_unit_cost(DEFAULT_UNIT.as_bytes(), cost)
    }

    /// The same request that also costs `cost` of `unit`. Panics like [`Request::with_cost`].
    pub fn with_unit_cost(mut self, unit: &'a [u8], cost: u64) -> Self {
        self.costs.push((unit, cost));
        self
    }

    /// The same request with an attribute more.
    ///
    /// # Panics
    /// If it has [`ATTRIBUTES_MAX`] already.
    pub fn with_attribute(mut self, name: &'a [u8], value: &'a [u8]) -> Self {
        self.attributes.push((name, value));
        self
    }

    /// Whether nothing can be spent: a peek, or a check that costs nothing in any unit.
    pub fn is_peek(&self) -> bool {
        let costs_nothing =
            || self.cost_in(DEFAULT_UNIT) == 0 && self.costs.iter().all(|(_, cost)| *cost == 0);
        self.op == Op::Peek || (self.op == Op::Check && costs_nothing())
    }

    /// Cost in `unit`: what the request names, else 1 for [`DEFAULT_UNIT`] and 0 for any other.
    pub(crate) fn cost_in(&self, unit: &str) -> u64 {
        let is_default = unit == DEFAULT_UNIT;
        for (name, cost) in &self.costs {
            if *name == unit.as_bytes() || (is_default && name.is_empty()) {
                return *cost;
            }
        }
        u64::from(is_default)
    }

    /// Value of the attribute `name`, if the request has it.
    pub(crate) fn attribute(&self, name: &str) -> Option<&'a [u8]> {
        self.attributes.iter().find(|(n, _)| *n == name.as_bytes()).map(|(_, value)| *value)
    }

    /// Checks the bounds that the types do not keep: what [`crate::Limiter::decide`] refuses.
    ///
    /// # Errors
    /// The first bound that is not met.
    pub fn validate(&self) -> Result<(), RequestError> {
        if self.key.is_empty() {
            return Err(RequestError::KeyEmpty);
        }
        if self.key.len() > KEY_BYTES_MAX {
            return Err(RequestError::KeyTooLong);
        }
        if self.endpoint.len() > ENDPOINT_BYTES_MAX {
            return Err(RequestError::EndpointTooLong);
        }
        for (i, (name, value)) in self.attributes.iter().enumerate() {
            let named_well = (1..=ATTRIBUTE_NAME_BYTES_MAX).contains(&name.len());
            let named_before = self.attributes[..i].iter().any(|(n, _)| n == name);
            if !named_well || value.len() > ATTRIBUTE_VALUE_BYTES_MAX || named_before {
                return Err(RequestError::Attribute);
            }
        }
        for (i, (unit, _)) in self.costs.iter().enumerate() {
            let canonical = |u: &&'a [u8]| if u.is_empty() { DEFAULT_UNIT.as_bytes() } else { *u };
            let named_before = self.costs[..i].iter().any(|(u, _)| canonical(u) == canonical(unit));
            if unit.len() > UNIT_BYTES_MAX || named_before {
                return Err(RequestError::Cost);
            }
        }
        Ok(())
    }
}

/// Why a request cannot be decided. The caller is at fault, and nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The key has no bytes.
    KeyEmpty,
    /// The key is longer than [`KEY_BYTES_MAX`].
    KeyTooLong,
    /// The endpoint is longer than [`ENDPOINT_BYTES_MAX`].
    EndpointTooLong,
    /// An attribute has no name, is too long, or is named twice.
    Attribute,
    /// A cost's unit is too long, or named twice.
    Cost,
    /// The numbers that the request carries make no bucket, or there is no carried limit.
    Terms,
}

impl std::fmt::Display for RequestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::KeyEmpty => write!(f, "the key is empty; send 1 to {KEY_BYTES_MAX} bytes"),
            Self::KeyTooLong => write!(f, "the key is longer than {KEY_BYTES_MAX} bytes"),
            Self::EndpointTooLong => {
                write!(f, "the endpoint is longer than {ENDPOINT_BYTES_MAX} bytes")
            }
            Self::Attribute => write!(
                f,
                "an attribute has no name, is named twice, or is longer than \
                 {ATTRIBUTE_NAME_BYTES_MAX} bytes of name or {ATTRIBUTE_VALUE_BYTES_MAX} of value"
            ),
            Self::Cost => {
                write!(f, "a cost's unit is named twice or is longer than {UNIT_BYTES_MAX} bytes")
            }
            Self::Terms => f.write_str(
                "the burst, count and period that the call carries make no limit: each is at least \
                 1, at most one unit comes back per nanosecond, and burst * period / count is at \
                 most some decades",
            ),
        }
    }
}

impl std::error::Error for RequestError {}
