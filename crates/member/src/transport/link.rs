//! One connection: its handle for the owner, and the tasks that read and write it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use quinn::{Connection, RecvStream, SendStream, VarInt, WriteError};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};
use wire::peer::{PEER_HEADER_BYTES, PeerDecoded, PeerFrame, decode_peer, write_ping};

use super::config::UNI_STREAMS_MAX;
use super::counts::Counts;
use super::event::Outbox;
use super::failure::Failure;
use super::frames::FrameReader;

/// Most frames that wait to be sent on one stream of a link. A healthy peer takes them as they come;
/// one that has this many waiting is closed, and counts as lost.
pub const OUTGOING_FRAMES_MAX: usize = 4_096;

/// Most bytes that wait to be sent on one stream of a link; a frame more closes it.
pub const OUTGOING_BYTES_MAX: usize = 64 << 20;

/// How often a ping goes out.
const PING_EVERY: Duration = Duration::from_millis(100);

/// Frames that are handed to QUIC in one call.
const WRITE_FRAMES_MAX: usize = 64;

/// How long a close waits for what was written before it to arrive.
const CLOSE_FLUSH_MAX: Duration = Duration::from_millis(250);

/// Streams in the order in which they are served when not all can be: greater first.
const PRIORITY_LIVENESS: i32 = 2;
const PRIORITY_ORDERED: i32 = 1;
const PRIORITY_BULK: i32 = 0;

/// Names one connection; never used again by this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub u64);

/// Which stream of a link a frame goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Everything that must arrive in the order it was sent.
    Ordered,
    /// Large and not urgent; neither side waits for it.
    Bulk,
}

/// Why this side closes a connection, as the other side is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseCode {
    /// Number of the reason; 0 is an ordinary end.
    pub number: u32,
    /// The reason in one word, for the other side's log.
    pub word: &'static str,
}

impl CloseCode {
    /// An ordinary end.
    pub const DONE: Self = Self { number: 0, word: "done" };
    /// Too much waited to be sent.
    pub(super) const FULL: Self = Self { number: 1, word: "full" };
    /// What came broke the rules.
    pub(super) const MALFORMED: Self = Self { number: 2, word: "malformed" };
}

/// A frame was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// Too much waits already. The link is closed: what it would carry next no longer fits what it
    /// carried before.
    Full,
    /// The link is closed.
    Closed,
}

enum Outgoing {
    Frame(Bytes),
    Close(CloseCode),
}

/// The way onto one stream.
#[derive(Debug)]
struct Lane {
    queue: mpsc::Sender<Outgoing>,
    waiting_bytes: Arc<AtomicUsize>,
}

/// What the tasks of a link take from: the other ends of its lanes.
pub(super) struct Lanes {
    ordered: (mpsc::Receiver<Outgoing>, Arc<AtomicUsize>),
    bulk: (mpsc::Receiver<Outgoing>, Arc<AtomicUsize>),
}

fn lane() -> (Lane, (mpsc::Receiver<Outgoing>, Arc<AtomicUsize>)) {
    let (queue, receiver) = mpsc::channel(OUTGOING_FRAMES_MAX);
    let waiting_bytes = Arc::new(AtomicUsize::new(0));
    (Lane { queue, waiting_bytes: Arc::clone(&waiting_bytes) }, (receiver, waiting_bytes))
}

/// Handle of one connection. Cheap to clone; the connection lives until it is closed.
#[derive(Clone, Debug)]
pub struct Link(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    id: LinkId,
    dialed: Option<SocketAddr>,
    connection: Connection,
    heard_ns: AtomicU64,
    is_full: std::sync::atomic::AtomicBool,
    ordered: Lane,
    bulk: Lane,
}

impl Link {
    pub(super) fn new(
        id: LinkId,
        connection: Connection,
        dialed: Option<SocketAddr>,
        now_ns: u64,
    ) -> (Self, Lanes) {
        let (ordered, ordered_end) = lane();
        let (bulk, bulk_end) = lane();
        let inner = Inner {
            id,
            dialed,
            connection,
            heard_ns: AtomicU64::new(now_ns),
            is_full: false.into(),
            ordered,
            bulk,
        };
        (Self(Arc::new(inner)), Lanes { ordered: ordered_end, bulk: bulk_end })
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> LinkId {
        self.0.id
    }

    /// The address that this side dialled; none where the other side dialled.
    #[must_use]
    pub fn dialed(&self) -> Option<SocketAddr> {
        self.0.dialed
    }

    /// Where the other side is now. An address of IPv4 is shown as such on a socket for both families.
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        let remote = self.0.connection.remote_address();
        SocketAddr::new(remote.ip().to_canonical(), remote.port())
    }

    /// The address of this machine that the other side sends to, where the system tells.
    #[must_use]
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.0.connection.local_ip().map(|ip| ip.to_canonical())
    }

    /// When anything last arrived, on the clock that the endpoint was given.
    #[must_use]
    pub fn heard_ns(&self) -> u64 {
        self.0.heard_ns.load(Ordering::Relaxed)
    }

    /// Smoothed round trip of packets.
    #[must_use]
    pub fn rtt(&self) -> Duration {
        self.0.connection.rtt()
    }

    /// Bytes of UDP sent and received.
    #[must_use]
    pub fn udp_bytes(&self) -> (u64, u64) {
        let stats = self.0.connection.stats();
        (stats.udp_tx.bytes, stats.udp_rx.bytes)
    }

    /// Queues a frame; it leaves at once when the network takes it. Never waits.
    ///
    /// # Errors
    /// See [`SendError`]; either way the link is over.
    pub fn send(&self, channel: Channel, frame: Bytes) -> Result<(), SendError> {
        let lane = match channel {
            Channel::Ordered => &self.0.ordered,
            Channel::Bulk => &self.0.bulk,
        };
        let size = frame.len();
        let waiting = lane.waiting_bytes.fetch_add(size, Ordering::Relaxed);
        let is_first = waiting == 0;
        if waiting.saturating_add(size) > OUTGOING_BYTES_MAX && !is_first {
            return Err(self.overflow());
        }
        match lane.queue.try_send(Outgoing::Frame(frame)) {
            Ok(()) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => Err(self.overflow()),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(SendError::Closed),
        }
    }

    fn overflow(&self) -> SendError {
        self.0.is_full.store(true, Ordering::Relaxed);
        self.close_now(CloseCode::FULL);
        SendError::Full
    }

    /// Sends a datagram if it fits and the connection takes it. It may be lost.
    pub fn send_datagram(&self, bytes: Bytes) -> bool {
        self.0.connection.send_datagram(bytes).is_ok()
    }

    /// Closes the link after what was queued on the ordered stream has arrived, or a quarter of a
    /// second later.
    pub fn close(&self, code: CloseCode) {
        if self.0.ordered.queue.try_send(Outgoing::Close(code)).is_err() {
            self.close_now(code);
        }
    }

    /// Closes the link at once; what was queued is lost.
    pub fn close_now(&self, code: CloseCode) {
        self.0.connection.close(VarInt::from_u32(code.number), code.word.as_bytes());
    }
}

/// Reads and writes a connection until it is over, and says why it is.
pub(super) async fn run(
    link: Link,
    lanes: Lanes,
    ordered: (SendStream, RecvStream),
    outbox: Outbox,
    counts: Arc<Counts>,
    now: fn() -> u64,
) -> Failure {
    let (send, receive) = ordered;
    let _ = send.set_priority(PRIORITY_ORDERED);
    let connection = link.0.connection.clone();
    let mut readers = JoinSet::new();
    readers.spawn(read_frames(link.clone(), receive, outbox.clone(), now));
    readers.spawn(read_uni_streams(link.clone(), outbox.clone(), now));
    let mut others = JoinSet::new();
    others.spawn(write_ordered(send, lanes.ordered, connection.clone()));
    others.spawn(write_bulk(connection.clone(), lanes.bulk));
    others.spawn(ping(connection.clone()));
    others.spawn(read_datagrams(link.clone(), outbox, counts, now));
    let first = tokio::select! {
        ended = readers.join_next() => ended,
        ended = others.join_next() => ended,
    };
    let first = match first {
        Some(Ok(failure)) => failure,
        Some(Err(error)) => Failure::Other(error.to_string()),
        None => Failure::ByUs,
    };
    // Which task notices first is chance; the connection knows why it is over, if it is.
    let why = match (link.0.is_full.load(Ordering::Relaxed), connection.close_reason()) {
        (true, _) => Failure::Full,
        (false, Some(reason)) => Failure::from(reason),
        (false, None) => first,
    };
    let code = match &why {
        Failure::Malformed(_) => CloseCode::MALFORMED,
        _ => CloseCode::DONE,
    };
    link.close_now(code);
    others.shutdown().await;
    if matches!(why, Failure::Closed(..)) {
        // What the peer said before it closed has arrived: the reason, more often than not.
        let _ =
            timeout(CLOSE_FLUSH_MAX, async { while readers.join_next().await.is_some() {} }).await;
    }
    readers.shutdown().await;
    why
}

async fn write_ordered(
    mut stream: SendStream,
    (mut queue, waiting_bytes): (mpsc::Receiver<Outgoing>, Arc<AtomicUsize>),
    connection: Connection,
) -> Failure {
    match write(&mut stream, &mut queue, &waiting_bytes).await {
        Ok(code) => {
            if stream.finish().is_ok() {
                // Either it arrived, or there was time enough for it to.
                let _ = timeout(CLOSE_FLUSH_MAX, stream.stopped()).await;
            }
            connection.close(VarInt::from_u32(code.number), code.word.as_bytes());
            Failure::ByUs
        }
        Err(error) => failure_of(error),
    }
}

async fn write_bulk(
    connection: Connection,
    (mut queue, waiting_bytes): (mpsc::Receiver<Outgoing>, Arc<AtomicUsize>),
) -> Failure {
    let mut stream = match connection.open_uni().await {
        Ok(stream) => stream,
        Err(error) => return error.into(),
    };
    let _ = stream.set_priority(PRIORITY_BULK);
    match write(&mut stream, &mut queue, &waiting_bytes).await {
        Ok(_) => Failure::ByUs,
        Err(error) => failure_of(error),
    }
}

/// Writes what is queued, as much at a time as there is, until a close is queued or nobody is left
/// to queue anything.
async fn write(
    stream: &mut SendStream,
    queue: &mut mpsc::Receiver<Outgoing>,
    waiting_bytes: &AtomicUsize,
) -> Result<CloseCode, WriteError> {
    let mut taken = Vec::with_capacity(WRITE_FRAMES_MAX);
    let mut chunks = Vec::with_capacity(WRITE_FRAMES_MAX);
    loop {
        if queue.recv_many(&mut taken, WRITE_FRAMES_MAX).await == 0 {
            return Ok(CloseCode::DONE);
        }
        let mut closing = None;
        for outgoing in taken.drain(..) {
            match outgoing {
                Outgoing::Frame(bytes) if closing.is_none() => chunks.push(bytes),
                Outgoing::Frame(_) => {}
                Outgoing::Close(code) => closing = closing.or(Some(code)),
            }
        }
        let size: usize = chunks.iter().map(Bytes::len).sum();
        stream.write_all_chunks(&mut chunks).await?;
        chunks.clear();
        waiting_bytes.fetch_sub(size, Ordering::Relaxed);
        if let Some(code) = closing {
            return Ok(code);
        }
    }
}

async fn ping(connection: Connection) -> Failure {
    let mut stream = match connection.open_uni().await {
        Ok(stream) => stream,
        Err(error) => return error.into(),
    };
    let _ = stream.set_priority(PRIORITY_LIVENESS);
    let mut frame = Vec::with_capacity(PEER_HEADER_BYTES);
    write_ping(&mut frame);
    let mut ticks = interval(PING_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = stream.write_all(&frame).await {
            return failure_of(error);
        }
    }
}

/// A ping has said what it has to say by arriving.
fn is_ping(frame: &[u8]) -> bool {
    frame.len() == PEER_HEADER_BYTES
        && matches!(decode_peer(frame), Ok(PeerDecoded::Frame(PeerFrame::Ping)))
}

async fn read_frames(link: Link, stream: RecvStream, outbox: Outbox, now: fn() -> u64) -> Failure {
    let mut reader = FrameReader::new(stream, &link.0.heard_ns, now);
    loop {
        match reader.next().await {
            Ok(Some(frame)) if is_ping(&frame) => {}
            Ok(Some(frame)) => {
                if outbox.frame(link.id(), frame).await.is_err() {
                    return Failure::ByUs;
                }
            }
            // The close that follows says why.
            Ok(None) => return link.0.connection.closed().await.into(),
            Err(failure) => return failure,
        }
    }
}

/// Reads the streams that the other side opens towards this one. QUIC lets it open no more than
/// [`UNI_STREAMS_MAX`] at a time.
async fn read_uni_streams(link: Link, outbox: Outbox, now: fn() -> u64) -> Failure {
    let mut readers = JoinSet::new();
    for _ in 0..UNI_STREAMS_MAX {
        match link.0.connection.accept_uni().await {
            Ok(stream) => {
                readers.spawn(read_frames(link.clone(), stream, outbox.clone(), now));
            }
            Err(error) => {
                // What has arrived on the others is still read.
                while readers.join_next().await.is_some() {}
                return error.into();
            }
        }
    }
    match readers.join_next().await {
        Some(Ok(failure)) => failure,
        Some(Err(error)) => Failure::Other(error.to_string()),
        None => Failure::ByUs,
    }
}

async fn read_datagrams(
    link: Link,
    outbox: Outbox,
    counts: Arc<Counts>,
    now: fn() -> u64,
) -> Failure {
    loop {
        match link.0.connection.read_datagram().await {
            Ok(bytes) => {
                link.0.heard_ns.store(now(), Ordering::Relaxed);
                if !outbox.datagram(link.id(), bytes) {
                    Counts::add_one(&counts.datagrams_dropped);
                }
            }
            Err(error) => return error.into(),
        }
    }
}

fn failure_of(error: WriteError) -> Failure {
    match error {
        WriteError::ConnectionLost(error) => error.into(),
        WriteError::Stopped(_) => Failure::Malformed("a stream was stopped"),
        other => Failure::Other(other.to_string()),
    }
}
