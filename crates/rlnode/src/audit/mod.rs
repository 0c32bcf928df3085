//! The record of what a node lets through, and what a fleet's records say about its limits.
//!
//! [`recorder`] takes the spends on the threads that make them and never waits; [`writer`] is the thread
//! that puts them into [`files`]; `record` and `block` are their format, which `docs/audit.md` describes
//! so that others can read it. The rest reads: [`survey`] what the files are, `clocks` by how much
//! their clocks differ, `timeline` the spends of all in the order of time, `worst` the worst window of
//! a bucket, and [`examine`] puts it together.

pub mod block;
pub mod clocks;
pub mod examine;
pub mod files;
pub mod reader;
pub mod record;
pub mod recorder;
pub mod session;
pub mod survey;
pub mod timeline;
pub mod worst;
pub mod writer;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

pub use recorder::{Audit, Sample};
pub use writer::AuditError;

/// What the file says about the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditSettings {
    /// Folder of the files.
    pub dir: PathBuf,
    /// Which keys are recorded.
    pub sample: Sample,
    /// Most bytes of all files of this node: [`MAX_BYTES_MIN`] to [`MAX_BYTES_MAX`].
    pub max_bytes: u64,
}

/// Which part of all keys is recorded unless the file says otherwise: one in so many.
pub const DEFAULT_SAMPLE: u32 = 64;
/// Least part of all keys that can be recorded: one in so many.
pub const SAMPLE_MAX: u32 = 1_000_000;
/// Most bytes of a node's files unless the file says otherwise.
pub const DEFAULT_MAX_BYTES: u64 = 64 << 20;
/// Least of that: eight files of some thousand spends.
pub const MAX_BYTES_MIN: u64 = 1 << 20;
/// Most of that: days of every spend of a busy node.
pub const MAX_BYTES_MAX: u64 = 64 << 30;
