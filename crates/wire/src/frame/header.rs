//! The header of a frame: what kind it is, how long, and whose. It reads no records.

use super::{CHECKS_MAX, FRAME_BYTES_MAX, FrameError, HEADER_BYTES, VERSION};
use crate::cursor::Cursor;

/// First bytes of every frame.
const MAGIC: [u8; 2] = *b"RL";

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Request = 1,
    Reply = 2,
    Error = 3,
}

/// The fields of a header whose magic is right; the others are as the bytes say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) version: u8,
    pub(super) kind: u8,
    pub(super) length: u32,
    pub(super) id: u64,
    pub(super) flags: u16,
    pub(super) count: u16,
}

impl Header {
    /// Reads the fields and checks nothing but the magic.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, FrameError> {
        let header: &[u8; HEADER_BYTES] = bytes.first_chunk().ok_or(FrameError::Short)?;
        if !header.starts_with(&MAGIC) {
            return Err(FrameError::Magic);
        }
        let mut cursor = Cursor::new(&header[MAGIC.len()..]);
        let mut fields = || {
            Some(Self {
                version: cursor.u8()?,
                kind: cursor.u8()?,
                length: cursor.u32()?,
                id: cursor.u64()?,
                flags: cursor.u16()?,
                count: cursor.u16()?,
            })
        };
        fields().ok_or(FrameError::Short)
    }

    /// The kind, if it is one that this version knows.
    pub(super) fn known_kind(&self) -> Result<Kind, FrameError> {
        match self.kind {
            1 => Ok(Kind::Request),
            2 => Ok(Kind::Reply),
            3 => Ok(Kind::Error),
            other => Err(FrameError::Kind(other)),
        }
    }

    pub(super) fn check_version(&self) -> Result<(), FrameError> {
        if self.version == VERSION { Ok(()) } else { Err(FrameError::Version(self.version)) }
    }

    /// The length, if it is one that a frame can have.
    pub(super) fn bounded_length(&self) -> Result<usize, FrameError> {
        let length = usize::try_from(self.length).unwrap_or(usize::MAX);
        if length < HEADER_BYTES {
            Err(FrameError::Length(self.length))
        } else if length > FRAME_BYTES_MAX {
            Err(FrameError::TooLarge(self.length))
        } else {
            Ok(length)
        }
    }

    /// What follows the header in `bytes`, which must be this one whole frame.
    pub(super) fn body<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], FrameError> {
        if self.bounded_length()? != bytes.len() {
            return Err(FrameError::Length(self.length));
        }
        Ok(&bytes[HEADER_BYTES..])
    }

    pub(super) fn check_flags(&self) -> Result<(), FrameError> {
        if self.flags == 0 { Ok(()) } else { Err(FrameError::Flags(self.flags)) }
    }

    /// The number of records, if it is one that a request or reply can have.
    pub(super) fn bounded_count(&self) -> Result<usize, FrameError> {
        let count = usize::from(self.count);
        if (1..=CHECKS_MAX).contains(&count) {
            Ok(count)
        } else {
            Err(FrameError::Count(self.count))
        }
    }
}

/// Length of the frame that begins at `bytes`, in bytes, header included; none while there are too
/// few bytes to tell. At most [`FRAME_BYTES_MAX`]; the frame itself may not be there in full.
///
/// For streams, on both sides. Bytes that cannot be the start of a frame are refused at once, not
/// only when [`HEADER_BYTES`] of them have come.
///
/// # Errors
/// When the end of the frame cannot be known, and so neither the start of the next: the stream must
/// be closed. Nothing else is checked here; decoding does that.
pub fn frame_length(bytes: &[u8]) -> Result<Option<usize>, FrameError> {
    if bytes.len() < HEADER_BYTES {
        let seen = bytes.len().min(MAGIC.len());
        return if bytes[..seen] == MAGIC[..seen] { Ok(None) } else { Err(FrameError::Magic) };
    }
    let header = Header::read(bytes)?;
    // An error frame looks the same in every version, so that it can say which ones there are.
    if header.known_kind()? != Kind::Error {
        header.check_version()?;
    }
    header.bounded_length().map(Some)
}

/// The id to put into an error frame that answers `bytes`: theirs, or 0 where they are no frame.
/// It stands at the same place in every version.
pub fn frame_id(bytes: &[u8]) -> u64 {
    Header::read(bytes).map_or(0, |header| header.id)
}

/// A frame being appended to a buffer: its header first, with length and count patched at the end.
#[derive(Debug)]
pub(super) struct FrameWriter<'b> {
    out: &'b mut Vec<u8>,
    start: usize,
    count: u16,
}

impl<'b> FrameWriter<'b> {
    pub(super) fn new(out: &'b mut Vec<u8>, kind: Kind, id: u64) -> Self {
        let start = out.len();
        out.extend_from_slice(&header_bytes(kind, 0, id));
        Self { out, start, count: 0 }
    }

    /// Bytes of the frame so far.
    pub(super) fn len(&self) -> usize {
        self.out.len() - self.start
    }

    /// Records so far.
    pub(super) fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// The buffer, to append one record to. [`FrameWriter::count_record`] follows.
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        self.out
    }

    pub(super) fn count_record(&mut self) {
        debug_assert!(self.count() < CHECKS_MAX, "a frame has at most {CHECKS_MAX} records");
        self.count += 1;
    }

    /// Fills the frame up with zeros to `bytes` bytes, if it is shorter.
    pub(super) fn pad(&mut self, bytes: usize) {
        if self.len() < bytes {
            self.out.resize(self.start + bytes, 0);
        }
    }

    /// Takes the frame so far out of the buffer, with the number of its records.
    pub(super) fn pause(self) -> (Vec<u8>, u16) {
        (self.out.split_off(self.start), self.count)
    }

    /// Goes on with what [`FrameWriter::pause`] gave, behind whatever `out` holds.
    pub(super) fn resume(out: &'b mut Vec<u8>, (frame, count): (Vec<u8>, u16)) -> Self {
        let start = out.len();
        out.extend_from_slice(&frame);
        Self { out, start, count }
    }

    /// Completes the header. A frame without records is taken back: there is no such frame.
    pub(super) fn finish(self) {
        if self.count == 0 {
            self.out.truncate(self.start);
            return;
        }
        let length = length_bytes(self.len());
        self.out[self.start + 4..][..4].copy_from_slice(&length);
        self.out[self.start + 18..][..2].copy_from_slice(&self.count.to_le_bytes());
    }
}

/// A header without flags and records.
pub(super) fn header_bytes(kind: Kind, length: usize, id: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..2].copy_from_slice(&MAGIC);
    header[2] = VERSION;
    header[3] = kind as u8;
    header[4..8].copy_from_slice(&length_bytes(length));
    header[8..16].copy_from_slice(&id.to_le_bytes());
    header
}

/// A length that writers keep within [`FRAME_BYTES_MAX`].
fn length_bytes(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes()
}
