//! Cutting a stream into frames.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use quinn::{ReadError, RecvStream};
use wire::peer::{PEER_HEADER_BYTES, peer_frame_length};

use super::failure::Failure;

/// Most bytes that are taken from a stream at a time.
const READ_LEN_MAX: usize = 64 << 10;

/// Reads frames off one stream, and notes when anything arrived.
pub(super) struct FrameReader<'h> {
    stream: RecvStream,
    buffer: BytesMut,
    heard_ns: &'h AtomicU64,
    now: fn() -> u64,
}

impl<'h> FrameReader<'h> {
    pub(super) fn new(stream: RecvStream, heard_ns: &'h AtomicU64, now: fn() -> u64) -> Self {
        Self { stream, buffer: BytesMut::new(), heard_ns, now }
    }

    /// The next whole frame, header included; none where the stream ends between frames. What is
    /// kept is at most one frame, whose length was bounded by its header, and one read.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            if let Some(frame) = self.split()? {
                return Ok(Some(frame));
            }
            let chunk = match self.stream.read_chunk(READ_LEN_MAX, true).await {
                Ok(Some(chunk)) => chunk,
                Ok(None) if self.buffer.is_empty() => return Ok(None),
                Ok(None) => return Err(Failure::Malformed("the stream ends within a frame")),
                Err(error) => return Err(failure_of(error)),
            };
            self.heard_ns.store((self.now)(), Ordering::Relaxed);
            self.buffer.extend_from_slice(&chunk.bytes);
        }
    }

    fn split(&mut self) -> Result<Option<Bytes>, Failure> {
        let Some(header) = self.buffer.first_chunk::<PEER_HEADER_BYTES>() else { return Ok(None) };
        let length = peer_frame_length(header)
            .map_err(|_| Failure::Malformed("the header of a frame breaks the rules"))?;
        if self.buffer.len() < length {
            return Ok(None);
        }
        Ok(Some(self.buffer.split_to(length).freeze()))
    }
}

fn failure_of(error: ReadError) -> Failure {
    match error {
        ReadError::ConnectionLost(error) => error.into(),
        ReadError::Reset(_) => Failure::Malformed("a stream was reset"),
        other => Failure::Other(other.to_string()),
    }
}
