//! Bytes from a socket, cut into frames. It reads no socket and looks into no frame.

use wire::{FRAME_BYTES_MAX, FrameError};

/// One byte more than the longest frame, so that a datagram cut off by the end of the buffer cannot
/// pass for a whole one.
const BUFFER_BYTES: usize = FRAME_BYTES_MAX + 1;

/// What was received and not yet read.
#[derive(Debug)]
pub(crate) struct Inbound {
    buffer: Box<[u8]>,
    /// The bytes not yet read are those from `start` to `end`.
    start: usize,
    end: usize,
    is_stream: bool,
}

impl Inbound {
    pub(crate) fn new(is_stream: bool) -> Self {
        Self { buffer: vec![0; BUFFER_BYTES].into(), start: 0, end: 0, is_stream }
    }

    /// Where to receive to. Never empty once every whole frame was taken.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        &mut self.buffer[self.end..]
    }

    /// Notes that `len` bytes were received.
    pub(crate) fn handle_received(&mut self, len: usize) {
        self.end = (self.end + len).min(self.buffer.len());
    }

    /// The next frame: on a stream when it is whole, else whatever one message held.
    ///
    /// # Errors
    /// If no frame can start here. The stream cannot be read any further.
    pub(crate) fn next_frame(&mut self) -> Result<Option<&[u8]>, FrameError> {
        let received = &self.buffer[self.start..self.end];
        if received.is_empty() {
            return Ok(None);
        }
        let length = if self.is_stream {
            match wire::frame_length(received)? {
                Some(length) if length <= received.len() => length,
                _ => return Ok(None),
            }
        } else {
            received.len()
        };
        let start = self.start;
        self.start += length;
        Ok(Some(&self.buffer[start..start + length]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use limiter::Request;
    use wire::RequestWriter;

    fn frame(id: u64, key_bytes: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let key = vec![b'k'; key_bytes];
        let mut frame = RequestWriter::new(&mut bytes, id);
        frame.check(&Request::check(b"", &key), None).expect("room for one");
        frame.finish();
        bytes
    }

    fn receive(inbound: &mut Inbound, bytes: &[u8]) {
        inbound.space()[..bytes.len()].copy_from_slice(bytes);
        inbound.handle_received(bytes.len());
    }

    #[test]
    fn stream_gives_the_same_frames_however_it_is_cut() {
        let frames = [frame(1, 3), frame(2, 1_000), frame(3, 1)];
        let stream = frames.concat();
        for piece in [1, 7, 19, 20, 21, 500, stream.len()] {
            let mut inbound = Inbound::new(true);
            let mut read = Vec::new();
            for bytes in stream.chunks(piece) {
                receive(&mut inbound, bytes);
                while let Some(frame) = inbound.next_frame().expect("sound frames") {
                    read.push(frame.to_vec());
                }
            }
            assert_eq!(read, frames, "pieces of {piece}");
        }
    }

    #[test]
    fn stream_holds_the_longest_frame_and_has_room_until_it_is_whole() {
        let mut longest = frame(7, 9);
        let length = u32::try_from(FRAME_BYTES_MAX).expect("16 bits and a little");
        longest[4..8].copy_from_slice(&length.to_le_bytes());
        longest.resize(FRAME_BYTES_MAX, 0);
        let mut inbound = Inbound::new(true);
        receive(&mut inbound, &frame(6, 9));
        assert!(inbound.next_frame().expect("a sound frame").is_some());
        for bytes in longest.chunks(1_000) {
            assert_eq!(inbound.next_frame(), Ok(None));
            receive(&mut inbound, bytes);
        }
        assert_eq!(inbound.next_frame(), Ok(Some(&longest[..])));
    }

    #[test]
    fn garbage_ends_a_stream() {
        let mut inbound = Inbound::new(true);
        receive(&mut inbound, &[b'x'; 20]);
        assert_eq!(inbound.next_frame(), Err(FrameError::Magic));
    }

    #[test]
    fn datagram_is_one_frame_whatever_it_says_and_an_empty_one_is_none() {
        let mut inbound = Inbound::new(false);
        for bytes in [&b"x"[..], &[0; 100], &[1; BUFFER_BYTES]] {
            receive(&mut inbound, bytes);
            assert_eq!(inbound.next_frame(), Ok(Some(bytes)));
            assert_eq!(inbound.next_frame(), Ok(None));
        }
        receive(&mut inbound, b"");
        assert_eq!(inbound.next_frame(), Ok(None));
    }
}
