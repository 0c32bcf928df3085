//! What a connection has said of itself.

use std::sync::atomic::{AtomicU64, Ordering};

use wire::resp::RespVersion;

/// Longest name that a client may give itself, in bytes.
pub(super) const NAME_BYTES_MAX: usize = 64;

static LAST_ID: AtomicU64 = AtomicU64::new(0);

/// One client.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: u64,
    pub(super) version: RespVersion,
    pub(super) name: Vec<u8>,
    /// It may act on keys.
    pub(super) is_operator: bool,
    /// What it was when it connected.
    was_operator: bool,
}

impl Session {
    /// A client that has just connected.
    pub(super) fn new(is_operator: bool) -> Self {
        Self {
            id: LAST_ID.fetch_add(1, Ordering::Relaxed) + 1,
            version: RespVersion::V2,
            name: Vec::new(),
            is_operator,
            was_operator: is_operator,
        }
    }

    /// Forgets all that it said.
    pub(super) fn reset(&mut self) {
        self.version = RespVersion::V2;
        self.name.clear();
        self.is_operator = self.was_operator;
    }
}
