//! What the transport tells its owner.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::failure::Failure;
use super::link::{Link, LinkId};
use crate::tls::Identity;

/// Most events that wait for the owner. When there are more, reading stops until there are fewer,
/// and QUIC's flow control holds the peers back.
pub const EVENTS_MAX: usize = 1_024;

/// Most bytes of frames in those events, of all peers together.
pub const EVENT_BYTES_MAX: u32 = 64 << 20;

/// Room in the queue of events, given back when it is dropped.
#[derive(Debug)]
pub struct Permit(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

/// Something that happened on the network.
#[derive(Debug)]
pub enum Event {
    /// A connection stands, with certificates verified on both sides. Nothing arrived on it yet.
    Connected {
        /// The connection.
        link: Link,
        /// What the other side's certificate proves.
        identity: Identity,
    },
    /// One whole frame, header included, of whichever stream. Pings are not told.
    Frame {
        /// The connection it came on.
        link: LinkId,
        /// Header and payload.
        bytes: Bytes,
        /// Its room in the queue.
        permit: Permit,
    },
    /// A datagram. They may be lost, and are lost first when the queue is full.
    Datagram {
        /// The connection it came on.
        link: LinkId,
        /// What the peer sent.
        bytes: Bytes,
    },
    /// A connection is over; nothing more comes from it. Told once for each `Connected`.
    Closed {
        /// The connection.
        link: LinkId,
        /// Why.
        why: Failure,
    },
    /// A dial did not lead to a connection. Told once for each dial that none came of.
    NotDialed {
        /// The address that was dialled.
        address: SocketAddr,
        /// Why.
        why: Failure,
    },
}

/// The way into the queue, one for every task that reads.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    queue: mpsc::Sender<Event>,
    bytes: Arc<Semaphore>,
}

/// The owner of the queue is gone, so there is nobody to tell.
#[derive(Debug)]
pub(super) struct Unheard;

impl Outbox {
    pub(super) fn new(queue: mpsc::Sender<Event>) -> Self {
        // The bound fits: a semaphore holds far more than 2^26.
        Self { queue, bytes: Arc::new(Semaphore::new(EVENT_BYTES_MAX as usize)) }
    }

    pub(super) async fn tell(&self, event: Event) -> Result<(), Unheard> {
        self.queue.send(event).await.map_err(|_| Unheard)
    }

    /// Waits until there is room for the frame.
    pub(super) async fn frame(&self, link: LinkId, bytes: Bytes) -> Result<(), Unheard> {
        let size = u32::try_from(bytes.len()).unwrap_or(EVENT_BYTES_MAX).min(EVENT_BYTES_MAX);
        let room = Arc::clone(&self.bytes).acquire_many_owned(size).await.map_err(|_| Unheard)?;
        self.tell(Event::Frame { link, bytes, permit: Permit(room) }).await
    }

    /// Never waits; false when the datagram was dropped.
    pub(super) fn datagram(&self, link: LinkId, bytes: Bytes) -> bool {
        self.queue.try_send(Event::Datagram { link, bytes }).is_ok()
    }
}
