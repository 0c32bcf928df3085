//! A reset or a grant on its way to the sync thread, which alone knows what of each peer has arrived.

use limiter::{Attributes, Operation, Request, Terms};

/// The same as an operation that borrows, kept.
#[derive(Clone, Debug)]
pub(crate) struct Giving {
    endpoint: Vec<u8>,
    key: Vec<u8>,
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
    terms: Option<Terms>,
    limit: Option<String>,
    /// None: all that was used.
    units: Option<u64>,
}

impl Giving {
    /// What `operation` gives back; none: it gives nothing.
    pub(crate) fn of(operation: &Operation<'_>) -> Option<Self> {
        let (request, limit, units) = match operation {
            Operation::Reset { request, limit } => (request, limit, None),
            Operation::Grant { request, limit, units } => (request, limit, Some(*units)),
            Operation::Ban { .. }
            | Operation::Unban { .. }
            | Operation::Override { .. }
            | Operation::EndOverride { .. } => return None,
        };
        let attributes = request.attributes.iter();
        Some(Self {
            endpoint: request.endpoint.to_vec(),
            key: request.key.to_vec(),
            attributes: attributes.map(|(name, value)| (name.to_vec(), value.to_vec())).collect(),
            terms: request.terms,
            limit: limit.map(str::to_owned),
            units,
        })
    }

    pub(crate) fn to_operation(&self) -> Operation<'_> {
        let attributes: Attributes<'_> =
            self.attributes.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        let request =
            Request { attributes, terms: self.terms, ..Request::check(&self.endpoint, &self.key) };
        let limit = self.limit.as_deref();
        match self.units {
            None => Operation::Reset { request, limit },
            Some(units) => Operation::Grant { request, limit, units },
        }
    }
}
