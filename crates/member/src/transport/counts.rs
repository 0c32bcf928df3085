//! What the transport refused, dropped and failed at, since start.

use std::sync::atomic::{AtomicU64, Ordering};

use super::failure::Failure;

/// Counters that only grow.
#[derive(Debug, Default)]
pub struct Counts {
    pub(super) not_quic: AtomicU64,
    pub(super) over_handshakes: AtomicU64,
    authority: AtomicU64,
    protocol: AtomicU64,
    unfinished: AtomicU64,
    pub(super) malformed: AtomicU64,
    pub(super) full: AtomicU64,
    pub(super) datagrams_dropped: AtomicU64,
}

/// What the counters read at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// UDP datagrams on the peer port that cannot be of QUIC 1. What looks like it and is of no
    /// connection is dropped without a count.
    pub not_quic: u64,
    /// Connections turned away because too many were being set up.
    pub over_handshakes: u64,
    /// Connections that failed because one side did not accept the other's certificate, or because
    /// it names no node.
    pub authority: u64,
    /// Connections that failed because the other side speaks another protocol.
    pub protocol: u64,
    /// Connections that others began and that failed in any other way before they stood.
    pub unfinished: u64,
    /// Connections closed because a frame or stream broke the rules.
    pub malformed: u64,
    /// Connections closed because too much waited to be sent on them.
    pub full: u64,
    /// Datagrams dropped because too many events waited.
    pub datagrams_dropped: u64,
}

impl Counts {
    /// What the counters read now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Snapshot {
            not_quic: read(&self.not_quic),
            over_handshakes: read(&self.over_handshakes),
            authority: read(&self.authority),
            protocol: read(&self.protocol),
            unfinished: read(&self.unfinished),
            malformed: read(&self.malformed),
            full: read(&self.full),
            datagrams_dropped: read(&self.datagrams_dropped),
        }
    }

    pub(super) fn add_one(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that somebody else began and that never stood.
    pub(super) fn count_incoming(&self, why: &Failure) {
        match why {
            Failure::Authority(_) | Failure::Nameless => Self::add_one(&self.authority),
            Failure::Protocol(_) => Self::add_one(&self.protocol),
            Failure::Malformed(_) => Self::add_one(&self.malformed),
            _ => Self::add_one(&self.unfinished),
        }
    }

    /// Counts a dial that came to nothing. A peer that is not there is no refusal.
    pub(super) fn count_dial(&self, why: &Failure) {
        match why {
            Failure::Authority(_) | Failure::Nameless => Self::add_one(&self.authority),
            Failure::Protocol(_) => Self::add_one(&self.protocol),
            _ => {}
        }
    }

    /// Counts why a connection ended that had stood.
    pub(super) fn count_closed(&self, why: &Failure) {
        match why {
            Failure::Malformed(_) => Self::add_one(&self.malformed),
            Failure::Full => Self::add_one(&self.full),
            // The dialling side learns only after it stands that its certificate was not accepted.
            Failure::Authority(_) => Self::add_one(&self.authority),
            _ => {}
        }
    }
}
