//! The metrics of a node that records what it lets through; others have none of them.

use std::sync::atomic::Ordering;

use prometheus_client::encoding::DescriptorEncoder;

use super::{Encoded, counter, counter_family, gauge};
use crate::audit::recorder::Counts;

pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, counts: &Counts) -> Encoded {
    let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    counter(
        encoder,
        "rlnode_audit_spends",
        "Spends of sampled keys that are recorded",
        read(&counts.recorded),
    )?;
    counter_family(
        encoder,
        "rlnode_audit_missing",
        "Spends of sampled keys that are not recorded, by reason",
        [
            ([("reason", "queue")], read(&counts.dropped)),
            ([("reason", "disk")], read(&counts.unwritten)),
        ],
    )?;
    counter(
        encoder,
        "rlnode_audit_failures",
        "Times that a file of the audit could not be opened or written",
        read(&counts.failures),
    )?;
    counter(
        encoder,
        "rlnode_audit_removed_files",
        "Files of the audit removed to keep within its bound",
        read(&counts.removed),
    )?;
    gauge(encoder, "rlnode_audit_bytes", "Bytes of the files of the audit", read(&counts.bytes))
}
