//! However a stream is cut into reads, the same frames are found in it, and the same end.
#![no_main]

use rlnode_fuzz::{Input, fuzz_target};
use wire::{FRAME_BYTES_MAX, FrameError, HEADER_BYTES, frame_length};

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let read_lens = input.short_bytes();
    let stream = input.rest();

    let mut whole = Stream::default();
    whole.read(stream);
    let mut pieces = Stream::default();
    let mut rest = stream;
    // A length of 0 is a read of 256 bytes; without lengths it is one byte at a time.
    let mut read_lens = read_lens.iter().map(|len| usize::from(len.wrapping_sub(1)) + 1).cycle();
    while !rest.is_empty() {
        let len = read_lens.next().unwrap_or(1).min(rest.len());
        let (read, later) = rest.split_at(len);
        pieces.read(read);
        rest = later;
    }
    assert_eq!(pieces, whole);
});

/// The reading end of a stream, as a door has it.
#[derive(Debug, Default, PartialEq)]
struct Stream {
    frames: Vec<Vec<u8>>,
    buffer: Vec<u8>,
    fault: Option<FrameError>,
}

impl Stream {
    fn read(&mut self, bytes: &[u8]) {
        if self.fault.is_some() {
            return;
        }
        self.buffer.extend_from_slice(bytes);
        loop {
            match frame_length(&self.buffer) {
                Ok(Some(length)) if length <= self.buffer.len() => {
                    assert!((HEADER_BYTES..=FRAME_BYTES_MAX).contains(&length));
                    self.frames.push(self.buffer.drain(..length).collect());
                }
                Ok(_) => return,
                Err(fault) => {
                    assert!(fault.closes_stream());
                    self.fault = Some(fault);
                    // What had come with the fault depends on the reads.
                    self.buffer.clear();
                    return;
                }
            }
        }
    }
}
