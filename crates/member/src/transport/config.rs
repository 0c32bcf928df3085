//! How QUIC is set between peers, each value with its reason.

use std::sync::Arc;
use std::time::Duration;

use quinn::{AckFrequencyConfig, IdleTimeout, TransportConfig, VarInt};

/// A connection on which nothing arrives for this long is over. The cluster calls a peer lost after
/// half a second; this ends what is then left of the connection, and bounds a handshake.
const IDLE_TIMEOUT_MS: u32 = 3_000;

/// Most bytes that a peer may have in flight on one stream: the longest frame, so that one frame
/// never waits for the reader twice.
pub(super) const STREAM_WINDOW: u32 = 4 << 20;

/// Streams that a peer may open towards this node at a time: liveness and bulk.
pub(super) const UNI_STREAMS_MAX: u32 = 2;

/// Ordered streams that a peer may open towards this node at a time.
pub(super) const BIDI_STREAMS_MAX: u32 = 1;

/// Most bytes of a connection that its reader has not taken yet. One window more than there are
/// streams: a stream that nobody reads never takes the credit of the liveness stream, so that a peer
/// that is slow to read is not mistaken for one that is gone.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * (UNI_STREAMS_MAX + BIDI_STREAMS_MAX + 1);

/// Longest that a peer may wait before it acknowledges a packet. Nothing waits for that while packets
/// arrive; but when the last packets of a batch are lost, as they are when the kernel's buffer of a
/// busy receiver is full, they are sent again only after about one round trip and this delay. With
/// the default of 25 ms such a batch took 29 ms, with this 7 (`examples/peers/RESULTS.md`).
const ACK_DELAY_MAX: Duration = Duration::from_millis(2);

/// Round trip that is assumed before one was measured. It sets when a lost first packet is sent
/// again: 100 ms after it, not the second that the default of 333 ms makes of it.
const INITIAL_RTT: Duration = Duration::from_millis(33);

/// Datagrams carry membership gossip alone, a few hundred bytes at a time.
const DATAGRAM_BUFFER: usize = 64 << 10;

/// The transport's parameters, the same for dialling and for answering.
pub(super) fn transport() -> Arc<TransportConfig> {
    let mut ack_frequency = AckFrequencyConfig::default();
    ack_frequency.max_ack_delay(Some(ACK_DELAY_MAX));

    let mut config = TransportConfig::default();
    config
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(IDLE_TIMEOUT_MS))))
        // A ping of our own goes out every 100 ms.
        .keep_alive_interval(None)
        .max_concurrent_bidi_streams(VarInt::from_u32(BIDI_STREAMS_MAX))
        .max_concurrent_uni_streams(VarInt::from_u32(UNI_STREAMS_MAX))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
        .send_window(u64::from(CONNECTION_WINDOW))
        .ack_frequency_config(Some(ack_frequency))
        .initial_rtt(INITIAL_RTT)
        .datagram_receive_buffer_size(Some(DATAGRAM_BUFFER))
        .datagram_send_buffer_size(DATAGRAM_BUFFER);
    Arc::new(config)
}
