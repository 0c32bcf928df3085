//! What came of the reloads, for status and metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::{ReloadError, Reloaded};

/// What came of the reloads of a node.
#[derive(Debug, Default)]
pub struct Reloads {
    successes: AtomicU64,
    failures: AtomicU64,
    in_force_ns: AtomicU64,
    state: Mutex<FileState>,
}

/// How the file stands to what is in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileState {
    /// When the file was last put in force, in milliseconds of Unix time.
    pub in_force_unix_ms: u64,
    /// Why the file as it is now is not in force; none: it is.
    pub pending: Option<Pending>,
    /// Settings that wait for a restart, by the names of the file.
    pub needs_restart: Vec<&'static str>,
}

/// A file that is not in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Since when, in milliseconds of Unix time.
    pub since_unix_ms: u64,
    /// Why.
    pub error: String,
}

impl Reloads {
    /// Notes that the file was put in force at the start.
    pub fn begin(&self, now_ns: u64, unix_ms: u64) {
        self.in_force_ns.store(now_ns, Ordering::Relaxed);
        self.state.lock().in_force_unix_ms = unix_ms;
    }

    /// Notes what came of a reload at `now_ns`.
    pub(super) fn note(&self, now_ns: u64, unix_ms: u64, outcome: &Result<Reloaded, ReloadError>) {
        let mut state = self.state.lock();
        match outcome {
            Ok(reloaded) => {
                self.successes.fetch_add(1, Ordering::Relaxed);
                self.in_force_ns.store(now_ns, Ordering::Relaxed);
                *state = FileState {
                    in_force_unix_ms: unix_ms,
                    pending: None,
                    needs_restart: reloaded.needs_restart.clone(),
                };
            }
            Err(error) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                let since_unix_ms =
                    state.pending.as_ref().map_or(unix_ms, |pending| pending.since_unix_ms);
                state.pending = Some(Pending { since_unix_ms, error: error.to_string() });
            }
        }
    }

    /// Reloads that put the file in force.
    pub fn successes(&self) -> u64 {
        self.successes.load(Ordering::Relaxed)
    }

    /// When the file was last put in force, by the node's clock; 0: the node has no file.
    pub fn in_force_ns(&self) -> u64 {
        self.in_force_ns.load(Ordering::Relaxed)
    }

    /// Reloads that changed nothing because of a fault.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// How the file stands to what is in force.
    pub fn state(&self) -> FileState {
        self.state.lock().clone()
    }
}
