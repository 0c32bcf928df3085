//! The header of a peer's frame, and what a frame can be.

use limiter::Act;

use super::acts;
use super::batch::BatchFrame;
use super::codec;
use super::control::{Answer, Done, Hello, Refused, SnapshotRequest};
use super::credit::CreditsFrame;
use super::error::{Fault, PeerFrameError};
use super::heal::HealFrame;
use super::limits::{self, LimitsFrame, TermsFrame};
use super::signal;
use super::snapshot::SnapshotChunk;
use super::timed::{TimedStandings, TimedSums};
use super::{
    BATCH_BYTES_MAX, PEER_FRAME_BYTES_MAX, PEER_HEADER_BYTES, SMALL_FRAME_BYTES_MAX,
    SNAPSHOT_REQUEST_BYTES_MAX,
};
use crate::cursor::Cursor;

/// Types from here on must be understood: whoever does not know one refuses the connection. Those
/// below may be skipped.
const MUST_UNDERSTAND: u8 = 0x80;

/// What a frame is; the number is the first byte of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum FrameType {
    Ping = 0x01,
    TimedSums = 0x02,
    TimedStandings = 0x03,
    Clock = 0x04,
    Limits = 0x05,
    Acts = 0x07,
    Terms = 0x08,
    Credits = 0x06,
    Hello = 0x80,
    Answer = 0x81,
    Done = 0x82,
    Refused = 0x83,
    Batch = 0x84,
    Ack = 0x85,
    Heal = 0x86,
    HealAck = 0x87,
    SnapshotRequest = 0x88,
    SnapshotChunk = 0x89,
    Leave = 0x8a,
    Forget = 0x8b,
}

impl FrameType {
    const ALL: [Self; 20] = [
        Self::Ping,
        Self::TimedSums,
        Self::TimedStandings,
        Self::Clock,
        Self::Limits,
        Self::Acts,
        Self::Terms,
        Self::Credits,
        Self::Hello,
        Self::Answer,
        Self::Done,
        Self::Refused,
        Self::Batch,
        Self::Ack,
        Self::Heal,
        Self::HealAck,
        Self::SnapshotRequest,
        Self::SnapshotChunk,
        Self::Leave,
        Self::Forget,
    ];

    fn from_u8(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|known| *known as u8 == number)
    }

    /// Longest frame of this type, with its header.
    fn bytes_max(self) -> usize {
        match self {
            Self::Hello | Self::Answer | Self::SnapshotChunk => PEER_FRAME_BYTES_MAX,
            // Older versions skip some of them, and skip nothing longer.
            Self::Batch
            | Self::Heal
            | Self::TimedSums
            | Self::TimedStandings
            | Self::Limits
            | Self::Credits
            | Self::Acts
            | Self::Terms => BATCH_BYTES_MAX,
            Self::SnapshotRequest => SNAPSHOT_REQUEST_BYTES_MAX,
            Self::Ping
            | Self::Clock
            | Self::Done
            | Self::Refused
            | Self::Ack
            | Self::HealAck
            | Self::Leave
            | Self::Forget => SMALL_FRAME_BYTES_MAX,
        }
    }
}

/// A frame that this version knows. Those that carry many buckets borrow from the bytes that they
/// were read from.
#[derive(Clone, Debug)]
pub enum PeerFrame<'b> {
    /// Begins a handshake; whoever dialled sends it at once.
    Hello(Hello),
    /// Answers a hello that was accepted.
    Answer(Answer),
    /// Ends a handshake.
    Done(Done),
    /// Ends a connection.
    Refused(Refused),
    /// What the sender let through in some buckets since it last said so of them.
    Batch(BatchFrame<'b>),
    /// Everything below `next`, batches and heals, was received and applied.
    Ack {
        /// Number of the batch or heal that is expected next.
        next: u64,
    },
    /// What the sender owes the receiver: spends made while the two were not linked.
    Heal(HealFrame<'b>),
    /// The heal of this number was received and applied.
    HealAck {
        /// Its number.
        seq: u64,
    },
    /// Asks for a snapshot.
    SnapshotRequest(SnapshotRequest),
    /// A part of a snapshot.
    SnapshotChunk(SnapshotChunk<'b>),
    /// The sender stops: it is a member no more.
    Leave,
    /// An operator said that this member is gone for good.
    Forget {
        /// Its name, 1 to [`PEER_NAME_BYTES_MAX`](super::PEER_NAME_BYTES_MAX) bytes.
        name: &'b str,
    },
    /// The sender is alive.
    Ping,
    /// A part of the next heal on the stream: sums that belong to windows or times.
    TimedSums(TimedSums<'b>),
    /// A part of the next chunk of a snapshot on the stream: standings that belong to windows or times.
    TimedStandings(TimedStandings<'b>),
    /// A part of the next batch, heal or chunk on the stream: of which buckets operators gave something back.
    Credits(CreditsFrame<'b>),
    /// What the sender's wall clock says. It is shown and decides nothing.
    Clock {
        /// Milliseconds of Unix time.
        unix_ms: u64,
    },
    /// Bans and numbers of single keys that the receiver may not know.
    Acts(Vec<Act>),
    /// A part of the sender's limits, which changed.
    Limits(LimitsFrame),
    /// Numbers of carried buckets.
    Terms(TermsFrame),
}

/// What bytes were read as.
#[derive(Clone, Debug)]
pub enum PeerDecoded<'b> {
    /// A frame that this version knows.
    Frame(PeerFrame<'b>),
    /// A frame of this unknown type that may be skipped. The reader counts it.
    Skipped(u8),
}

/// A header, checked.
struct Header {
    /// None: an unknown type that may be skipped.
    frame_type: Option<FrameType>,
    number: u8,
    length: u32,
}

impl Header {
    fn read(header: &[u8; PEER_HEADER_BYTES]) -> Result<Self, PeerFrameError> {
        let [number, flags, reserved_low, reserved_high, length @ ..] = *header;
        let reserved = u16::from_le_bytes([reserved_low, reserved_high]);
        let length = u32::from_le_bytes(length);
        let frame_type = FrameType::from_u8(number);
        if frame_type.is_none() && number >= MUST_UNDERSTAND {
            return Err(PeerFrameError::Type(number));
        }
        if flags != 0 {
            return Err(PeerFrameError::Flags(flags));
        }
        if reserved != 0 {
            return Err(PeerFrameError::Reserved(reserved));
        }
        Ok(Self { frame_type, number, length })
    }

    /// The length, if it is one that a frame of this type can have.
    fn bounded_length(&self) -> Result<usize, PeerFrameError> {
        let length = usize::try_from(self.length).unwrap_or(usize::MAX);
        let bytes_max = self.frame_type.map_or(BATCH_BYTES_MAX, FrameType::bytes_max);
        if length < PEER_HEADER_BYTES {
            Err(PeerFrameError::Length(self.length))
        } else if length > bytes_max {
            Err(PeerFrameError::TooLarge { frame_type: self.number, length: self.length })
        } else {
            Ok(length)
        }
    }
}

/// Length of the frame with this header, in bytes, the header included: what a transport reads
/// before it hands the frame to [`decode_peer`]. At most [`PEER_FRAME_BYTES_MAX`].
///
/// # Errors
/// When the frame will be refused whatever follows, or its end cannot be known. The connection must
/// be closed.
pub fn peer_frame_length(header: &[u8; PEER_HEADER_BYTES]) -> Result<usize, PeerFrameError> {
    Header::read(header)?.bounded_length()
}

/// Reads `bytes`, which must be one whole frame and nothing else.
///
/// Whatever the bytes say, memory is taken only for what is there, and only by control messages.
///
/// # Errors
/// Whatever is wrong with the frame. The connection must be closed; nothing was applied.
pub fn decode_peer(bytes: &[u8]) -> Result<PeerDecoded<'_>, PeerFrameError> {
    let (header, payload) =
        bytes.split_first_chunk::<PEER_HEADER_BYTES>().ok_or(PeerFrameError::Short)?;
    let header = Header::read(header)?;
    if header.bounded_length()? != bytes.len() {
        return Err(PeerFrameError::Length(header.length));
    }
    let Some(frame_type) = header.frame_type else {
        return Ok(PeerDecoded::Skipped(header.number));
    };
    match read_payload(frame_type, payload) {
        Ok(frame) => Ok(PeerDecoded::Frame(frame)),
        Err(Fault::Malformed) => Err(PeerFrameError::Malformed(header.number)),
        Err(Fault::Bound) => Err(PeerFrameError::Bound(header.number)),
    }
}

fn read_payload(frame_type: FrameType, payload: &[u8]) -> Result<PeerFrame<'_>, Fault> {
    Ok(match frame_type {
        FrameType::Hello => {
            PeerFrame::Hello(codec::read::<codec::HelloBytes<'_>>(payload)?.check()?)
        }
        FrameType::Answer => {
            PeerFrame::Answer(codec::read::<codec::AnswerBytes<'_>>(payload)?.check()?)
        }
        FrameType::Done => PeerFrame::Done(Done {
            cursor: codec::read::<codec::CursorBytes>(payload)?.to_cursor(),
        }),
        FrameType::Refused => {
            PeerFrame::Refused(codec::read::<codec::RefusedBytes<'_>>(payload)?.check()?)
        }
        FrameType::SnapshotRequest => PeerFrame::SnapshotRequest(
            codec::read::<codec::SnapshotRequestBytes<'_>>(payload)?.check()?,
        ),
        FrameType::Forget => {
            PeerFrame::Forget { name: codec::read::<codec::ForgetBytes<'_>>(payload)?.check()? }
        }
        FrameType::Batch => PeerFrame::Batch(BatchFrame::read(payload)?),
        FrameType::Heal => PeerFrame::Heal(HealFrame::read(payload)?),
        FrameType::SnapshotChunk => PeerFrame::SnapshotChunk(SnapshotChunk::read(payload)?),
        FrameType::Ack => PeerFrame::Ack { next: signal::read_number(payload)? },
        FrameType::HealAck => PeerFrame::HealAck { seq: signal::read_number(payload)? },
        FrameType::Leave => signal::read_nothing(payload).map(|()| PeerFrame::Leave)?,
        FrameType::Ping => signal::read_nothing(payload).map(|()| PeerFrame::Ping)?,
        FrameType::TimedSums => PeerFrame::TimedSums(TimedSums::read(payload)?),
        FrameType::TimedStandings => PeerFrame::TimedStandings(TimedStandings::read(payload)?),
        FrameType::Limits => PeerFrame::Limits(limits::read_limits(payload)?),
        FrameType::Terms => PeerFrame::Terms(limits::read_terms(payload)?),
        FrameType::Acts => PeerFrame::Acts(acts::read(payload)?),
        FrameType::Credits => PeerFrame::Credits(CreditsFrame::read(payload)?),
        FrameType::Clock => PeerFrame::Clock { unix_ms: signal::read_number(payload)? },
    })
}

/// A frame being appended to a buffer: its header first, with the length patched at the end.
#[derive(Debug)]
pub(super) struct FrameWriter<'b> {
    out: &'b mut Vec<u8>,
    start: usize,
    bytes_max: usize,
}

impl<'b> FrameWriter<'b> {
    pub(super) fn new(out: &'b mut Vec<u8>, frame_type: FrameType) -> Self {
        let start = out.len();
        out.extend_from_slice(&[frame_type as u8, 0, 0, 0, 0, 0, 0, 0]);
        Self { out, start, bytes_max: frame_type.bytes_max() }
    }

    /// The buffer, to append the payload to.
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// Bytes that the payload may still take.
    pub(super) fn room(&self) -> usize {
        (self.start + self.bytes_max).saturating_sub(self.out.len())
    }

    /// Completes the header.
    pub(super) fn finish(self) {
        let length = self.out.len() - self.start;
        debug_assert!(length <= self.bytes_max, "writers keep within the bound of their type");
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.out[self.start + 4..][..4].copy_from_slice(&length.to_le_bytes());
    }

    /// Takes the frame back.
    pub(super) fn abandon(self) {
        self.out.truncate(self.start);
    }
}

/// Reads a list of `count` entries of at least `entry_bytes_min` bytes each, and proves with `read`
/// that each is sound. Gives the bytes of all of them.
///
/// The count is held against the bytes that are there first, so that no loop is longer than they are.
pub(super) fn proved_list<'b, T>(
    cursor: &mut Cursor<'b>,
    count: u64,
    entry_bytes_min: usize,
    mut read: impl FnMut(&mut Cursor<'b>) -> Option<T>,
) -> Result<(usize, Cursor<'b>), Fault> {
    let count = usize::try_from(count).map_err(|_| Fault::Bound)?;
    if count > cursor.len() / entry_bytes_min {
        return Err(Fault::Malformed);
    }
    let list = *cursor;
    for _ in 0..count {
        read(cursor).ok_or(Fault::Malformed)?;
    }
    Ok((count, list))
}

/// Everything was read.
pub(super) fn ended(cursor: &Cursor<'_>) -> Result<(), Fault> {
    if cursor.len() == 0 { Ok(()) } else { Err(Fault::Malformed) }
}
