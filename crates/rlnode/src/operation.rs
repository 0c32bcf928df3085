//! What operators do to keys: carried out, counted and logged, whichever door they come by.

use std::sync::atomic::{AtomicU64, Ordering};

use limiter::{Operated, Operation, OperationError, Quota, Subject};

use crate::config::Exception;
use crate::node::Node;

/// The kinds of operation, by the words of metrics and logs.
const KINDS: [&str; 6] = ["reset", "grant", "ban", "unban", "override", "end_override"];

/// How many operations of each kind were carried out.
#[derive(Debug, Default)]
pub struct Operations([AtomicU64; KINDS.len()]);

impl Operations {
    fn count(&self, kind: usize) {
        if let Some(counter) = self.0.get(kind) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Each kind with its count.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        KINDS.into_iter().zip(self.0.iter().map(|count| count.load(Ordering::Relaxed)))
    }
}

fn kind_of(operation: &Operation<'_>) -> usize {
    match operation {
        Operation::Reset { .. } => 0,
        Operation::Grant { .. } => 1,
        Operation::Ban { .. } => 2,
        Operation::Unban { .. } => 3,
        Operation::Override { .. } => 4,
        Operation::EndOverride { .. } => 5,
    }
}

/// The key that `operation` is about; none: a network.
fn key_of<'o>(operation: &'o Operation<'_>) -> Option<&'o [u8]> {
    match operation {
        Operation::Reset { request, .. }
        | Operation::Grant { request, .. }
        | Operation::Override { request, .. }
        | Operation::EndOverride { request, .. } => Some(request.key),
        Operation::Ban { subject, .. } | Operation::Unban { subject } => match subject {
            Subject::Key(key) => Some(key),
            Subject::Network(_) => None,
        },
    }
}

impl Node {
    /// Carries out `operation` and tells the peers. The caller has shown that it may.
    ///
    /// # Errors
    /// See [`OperationError`]; nothing is changed.
    pub async fn operate(&self, operation: &Operation<'_>) -> Result<Operated, OperationError> {
        if !self.engine().is_ready() {
            return Err(OperationError::Starting);
        }
        let operated = self.engine().operate(self.clock().now_ns(), operation).await?;
        let kind = kind_of(operation);
        self.operations().count(kind);
        let word = KINDS.get(kind).copied().unwrap_or_default();
        match key_of(operation) {
            Some(key) => tracing::info!(
                operation = word,
                key = %self.shown_key(key),
                changed = operated.changed,
                units = operated.units,
                "an operator acted on a key"
            ),
            None => tracing::info!(
                operation = word,
                changed = operated.changed,
                "an operator acted on a network"
            ),
        }
        Ok(operated)
    }

    /// The quota that `exception` gives a key in the limit `name`.
    ///
    /// # Errors
    /// There is no such limit, or the exception does not go with it.
    pub fn exception(
        &self,
        name: &str,
        exception: &Exception<'_>,
    ) -> Result<Quota, OperationError> {
        let plan = self.limiter().plan();
        let limit = plan.limits().iter().find(|limit| limit.name == name);
        let limit = limit.ok_or(OperationError::NoLimit)?;
        exception.quota(&limit.quota).map_err(OperationError::Quota)
    }
}
