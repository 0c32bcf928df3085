//! Where those who ask and the sync thread meet: what is asked, and what was last said.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cluster::{ForgetError, Readiness};
use limiter::{Bucket, Limiter, Operated, OperationError};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot, watch};

use super::giving::Giving;
use crate::settings::Clock;
use crate::status::Status;

/// Orders that wait for the sync thread, each from a person or a shutdown.
pub(crate) const ORDERS_MAX: usize = 64;

/// Held checks on their way to the sync thread. As many again wait there (`cluster::HELD_MAX`).
pub(crate) const HOLDS_MAX: usize = 1_024;

/// A check to be woken when its bucket is acknowledged.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) bucket: Bucket,
    /// [`Shared::progress`] before the check was last tried.
    pub(crate) seen: u64,
    pub(crate) waker: oneshot::Sender<()>,
}

/// What somebody wants of the sync thread.
#[derive(Debug)]
pub(crate) enum Order {
    /// Forget a member.
    Forget { node: String, answer: oneshot::Sender<Result<(), ForgetError>> },
    /// Look for peers at these names from now on, and at no others that a file named.
    SetPeers { peers: Vec<String>, answer: oneshot::Sender<()> },
    /// Give back what a key has used, or a part of it.
    Give { giving: Giving, answer: oneshot::Sender<Result<Operated, OperationError>> },
    /// Stop being a member.
    Leave { answer: oneshot::Sender<()> },
    /// Look at everything now.
    Status { answer: oneshot::Sender<Arc<Status>> },
}

/// What both sides see.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) limiter: Arc<Limiter>,
    pub(crate) clock: Clock,
    /// Wakes the sync thread before its time.
    pub(crate) flush: Notify,
    readiness: watch::Sender<Readiness>,
    has_started: AtomicBool,
    status: Mutex<Arc<Status>>,
    progress: AtomicU64,
    holds_refused: AtomicU64,
}

impl Shared {
    pub(crate) fn new(limiter: Arc<Limiter>, clock: Clock, status: Status) -> Self {
        Self {
            limiter,
            clock,
            flush: Notify::new(),
            has_started: (status.cluster.readiness != Readiness::Starting).into(),
            readiness: watch::Sender::new(status.cluster.readiness),
            status: Mutex::new(Arc::new(status)),
            progress: AtomicU64::new(0),
            holds_refused: AtomicU64::new(0),
        }
    }

    /// How often something happened that may have acknowledged a bucket. A check that was tried before
    /// the last of them may have missed it.
    pub(crate) fn progress(&self) -> u64 {
        self.progress.load(Ordering::SeqCst)
    }

    /// Something happens that may acknowledge buckets. Holds are looked at before or after it as a
    /// whole, so that it may be said at either end.
    pub(crate) fn advance(&self) {
        self.progress.fetch_add(1, Ordering::SeqCst);
    }

    /// Wakes the sync thread if a check asked for an early flush.
    pub(crate) fn wake_if_wanted(&self) {
        if self.limiter.flush_wanted() {
            self.flush.notify_one();
        }
    }

    pub(crate) fn count_hold_refused(&self) {
        self.holds_refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn holds_refused(&self) -> u64 {
        self.holds_refused.load(Ordering::Relaxed)
    }

    /// The node may be asked, or might before it left. Every check reads it.
    pub(crate) fn has_started(&self) -> bool {
        self.has_started.load(Ordering::Acquire)
    }

    pub(crate) fn readiness(&self) -> watch::Receiver<Readiness> {
        self.readiness.subscribe()
    }

    pub(crate) fn set_readiness(&self, readiness: Readiness) {
        self.has_started.store(readiness != Readiness::Starting, Ordering::Release);
        self.readiness.send_if_modified(|now| std::mem::replace(now, readiness) != readiness);
    }

    pub(crate) fn status(&self) -> Arc<Status> {
        Arc::clone(&self.status.lock())
    }

    pub(crate) fn set_status(&self, status: Arc<Status>) {
        *self.status.lock() = status;
    }
}
