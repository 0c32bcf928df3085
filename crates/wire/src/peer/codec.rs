//! The one place that knows bincode: control messages as their bytes have them.
//!
//! bincode has no releases to come, so nothing outside of this file names it; byte vectors in the
//! tests hold the format still for whatever takes its place. A struct here is the format of its
//! message: fields in this order, integers as bincode's variable ones. Strings and lists are read
//! where they lie and held against their bounds before anything is copied. Bytes behind the last
//! field are skipped: a later version puts fields there.

use bincode::config::{self, Config};
use bincode::de::BorrowDecoder;
use bincode::de::read::Reader;
use bincode::enc::Encoder;
use bincode::error::{DecodeError, EncodeError};
use bincode::{BorrowDecode, Encode};
use limiter::MEMBERS_MAX;

use super::control::{
    Answer, Cursor, Hello, LimitNumbers, Position, Refusal, Refused, SnapshotRequest,
};
use super::error::{Fault, PeerWriteError};
use super::frame::{FrameType, FrameWriter};
use super::snapshot::{STANDING_BYTES_MAX, SnapshotHead};
use super::{
    LIMITS_MAX, PEER_FRAME_BYTES_MAX, PEER_HEADER_BYTES, PEER_NAME_BYTES_MAX,
    REFUSED_TEXT_BYTES_MAX, SMALL_FRAME_BYTES_MAX, SNAPSHOT_REQUEST_BYTES_MAX,
    SNAPSHOT_STANDINGS_MAX,
};

/// Little-endian, variable integers, and no message that claims more than a frame can be.
fn configuration() -> impl Config {
    config::standard().with_limit::<PEER_FRAME_BYTES_MAX>()
}

/// Reads a message from the front of `bytes`.
pub(super) fn read<'b, T: BorrowDecode<'b, ()>>(bytes: &'b [u8]) -> Result<T, Fault> {
    match bincode::borrow_decode_from_slice(bytes, configuration()) {
        Ok((message, _)) => Ok(message),
        Err(DecodeError::LimitExceeded) => Err(Fault::Bound),
        Err(_) => Err(Fault::Malformed),
    }
}

/// Appends a frame that is this one message.
pub(super) fn append(
    out: &mut Vec<u8>,
    frame_type: FrameType,
    message: impl Encode,
) -> Result<(), PeerWriteError> {
    let mut frame = FrameWriter::new(out, frame_type);
    let written = encode(frame.out(), message);
    match written {
        Ok(()) => frame.finish(),
        Err(_) => frame.abandon(),
    }
    written
}

/// Appends a message behind its length of four bytes. After an error a part of it is left behind.
pub(super) fn append_sized(out: &mut Vec<u8>, message: impl Encode) -> Result<(), PeerWriteError> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    encode(out, message)?;
    let length = u32::try_from(out.len() - start - 4).map_err(|_| PeerWriteError::TooMany)?;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

/// Nothing below can fail to be encoded; if it ever does, no frame of a part of it is sent.
fn encode(out: &mut Vec<u8>, message: impl Encode) -> Result<(), PeerWriteError> {
    match bincode::encode_into_std_write(message, out, configuration()) {
        Ok(_) => Ok(()),
        Err(_) => Err(PeerWriteError::TooMany),
    }
}

/// A hello.
#[derive(Encode, BorrowDecode)]
pub(super) struct HelloBytes<'b> {
    protocol_min: u16,
    protocol_max: u16,
    capabilities: u64,
    cluster: &'b str,
    region: &'b str,
    node: &'b str,
    life: u64,
    synced: bool,
    members: List<&'b str, MEMBERS_MAX>,
    members_version: u64,
    limits: List<LimitBytes, LIMITS_MAX>,
    digest: [u8; 16],
    unix_ms: u64,
    size: u32,
}

impl<'b> HelloBytes<'b> {
    pub(super) fn of(hello: &'b Hello) -> Result<Self, PeerWriteError> {
        let bytes = Self {
            protocol_min: hello.protocol_min,
            protocol_max: hello.protocol_max,
            capabilities: hello.capabilities,
            cluster: &hello.cluster,
            region: &hello.region,
            node: &hello.node,
            life: hello.life,
            synced: hello.synced,
            members: List::of_names(&hello.members)?,
            members_version: hello.members_version,
            limits: List::of(hello.limits.iter().map(LimitBytes::of))?,
            digest: hello.digest,
            unix_ms: hello.unix_ms,
            size: hello.size,
        };
        bytes.verify()?;
        Ok(bytes)
    }

    /// What holds of every hello, sent or received.
    fn verify(&self) -> Result<(), PeerWriteError> {
        verify_text(self.cluster)?;
        verify_text(self.region)?;
        verify_name(self.node)?;
        verify_number(self.life != 0)?;
        verify_number(self.protocol_min <= self.protocol_max)?;
        verify_size(self.size)
    }

    pub(super) fn check(self) -> Result<Hello, Fault> {
        self.verify()?;
        Ok(Hello {
            protocol_min: self.protocol_min,
            protocol_max: self.protocol_max,
            capabilities: self.capabilities,
            cluster: self.cluster.to_owned(),
            region: self.region.to_owned(),
            node: self.node.to_owned(),
            life: self.life,
            synced: self.synced,
            members: self.members.to_names()?,
            members_version: self.members_version,
            limits: self.limits.0.iter().map(LimitBytes::to_numbers).collect(),
            digest: self.digest,
            unix_ms: self.unix_ms,
            size: self.size,
        })
    }
}

/// An answer. The hello stands last, so that fields can be appended to it.
#[derive(Encode, BorrowDecode)]
pub(super) struct AnswerBytes<'b> {
    cursor: CursorBytes,
    hello: HelloBytes<'b>,
}

impl<'b> AnswerBytes<'b> {
    pub(super) fn of(answer: &'b Answer) -> Result<Self, PeerWriteError> {
        Ok(Self { cursor: CursorBytes::of(answer.cursor), hello: HelloBytes::of(&answer.hello)? })
    }

    pub(super) fn check(self) -> Result<Answer, Fault> {
        Ok(Answer { hello: self.hello.check()?, cursor: self.cursor.to_cursor() })
    }
}

/// A cursor, which is also the whole end of a handshake.
#[derive(Encode, BorrowDecode)]
pub(super) struct CursorBytes {
    life: u64,
    next: u64,
}

impl CursorBytes {
    pub(super) fn of(cursor: Cursor) -> Self {
        Self { life: cursor.life, next: cursor.next }
    }

    pub(super) fn to_cursor(&self) -> Cursor {
        Cursor { life: self.life, next: self.next }
    }
}

/// A limit of a hello.
#[derive(Encode, BorrowDecode)]
struct LimitBytes {
    id: u64,
    burst: u64,
    per_ns: u64,
    per_unit: u64,
}

impl LimitBytes {
    fn of(limit: &LimitNumbers) -> Self {
        let LimitNumbers { id, burst, per_ns, per_unit } = *limit;
        Self { id, burst, per_ns, per_unit }
    }

    fn to_numbers(&self) -> LimitNumbers {
        let Self { id, burst, per_ns, per_unit } = *self;
        LimitNumbers { id, burst, per_ns, per_unit }
    }
}

/// A refusal.
#[derive(Encode, BorrowDecode)]
pub(super) struct RefusedBytes<'b> {
    refusal: u8,
    text: &'b str,
}

impl<'b> RefusedBytes<'b> {
    pub(super) fn of(refusal: Refusal, text: &'b str) -> Self {
        Self { refusal: refusal.to_u8(), text }
    }

    pub(super) fn check(self) -> Result<Refused, Fault> {
        if self.text.len() > REFUSED_TEXT_BYTES_MAX {
            return Err(Fault::Bound);
        }
        Ok(Refused { refusal: Refusal::from_u8(self.refusal), text: self.text.to_owned() })
    }
}

/// The name of a member that is gone.
#[derive(Encode, BorrowDecode)]
pub(super) struct ForgetBytes<'b> {
    name: &'b str,
}

impl<'b> ForgetBytes<'b> {
    pub(super) fn of(name: &'b str) -> Result<Self, PeerWriteError> {
        verify_name(name)?;
        Ok(Self { name })
    }

    pub(super) fn check(self) -> Result<&'b str, Fault> {
        verify_name(self.name)?;
        Ok(self.name)
    }
}

/// A position.
#[derive(Encode, BorrowDecode)]
struct PositionBytes<'b> {
    name: &'b str,
    life: u64,
    next: u64,
}

impl<'b> PositionBytes<'b> {
    fn of(position: &'b Position) -> Self {
        Self { name: &position.name, life: position.life, next: position.next }
    }
}

/// A request for a snapshot.
#[derive(Encode, BorrowDecode)]
pub(super) struct SnapshotRequestBytes<'b> {
    positions: List<PositionBytes<'b>, MEMBERS_MAX>,
}

impl<'b> SnapshotRequestBytes<'b> {
    pub(super) fn of(request: &'b SnapshotRequest) -> Result<Self, PeerWriteError> {
        Ok(Self { positions: List::of_positions(&request.positions)? })
    }

    pub(super) fn check(self) -> Result<SnapshotRequest, Fault> {
        Ok(SnapshotRequest { positions: self.positions.to_positions()? })
    }
}

/// The head of a chunk of a snapshot.
#[derive(Encode, BorrowDecode)]
pub(super) struct SnapshotHeadBytes<'b> {
    first: u64,
    last: u64,
    end: bool,
    own_next: u64,
    cursors: List<PositionBytes<'b>, MEMBERS_MAX>,
    size: u32,
    members: List<&'b str, MEMBERS_MAX>,
}

impl<'b> SnapshotHeadBytes<'b> {
    pub(super) fn of(head: &'b SnapshotHead) -> Result<Self, PeerWriteError> {
        let bytes = Self {
            first: head.first,
            last: head.last,
            end: head.end,
            own_next: head.own_next,
            cursors: List::of_positions(&head.cursors)?,
            size: head.size,
            members: List::of_names(&head.members)?,
        };
        bytes.verify()?;
        Ok(bytes)
    }

    /// What holds of every head, sent or received.
    fn verify(&self) -> Result<(), PeerWriteError> {
        verify_number(self.first <= self.last)?;
        verify_size(self.size)
    }

    pub(super) fn check(self) -> Result<SnapshotHead, Fault> {
        self.verify()?;
        Ok(SnapshotHead {
            first: self.first,
            last: self.last,
            end: self.end,
            own_next: self.own_next,
            cursors: self.cursors.to_positions()?,
            size: self.size,
            members: self.members.to_names()?,
        })
    }
}

/// A list of at most `MAX` entries. In bytes it is what bincode makes of a `Vec`.
struct List<T, const MAX: usize>(Vec<T>);

/// What a [`List`] can hold.
trait Entry {
    /// Bytes that one takes at least.
    const BYTES_MIN: usize;
}

impl Entry for &str {
    const BYTES_MIN: usize = 1;
}

impl Entry for LimitBytes {
    const BYTES_MIN: usize = 4;
}

impl Entry for PositionBytes<'_> {
    const BYTES_MIN: usize = 3;
}

impl<T, const MAX: usize> List<T, MAX> {
    fn of(entries: impl ExactSizeIterator<Item = T>) -> Result<Self, PeerWriteError> {
        if entries.len() > MAX {
            return Err(PeerWriteError::TooMany);
        }
        Ok(Self(entries.collect()))
    }
}

impl<'b, const MAX: usize> List<&'b str, MAX> {
    /// Each name once, in ascending order: one set of names has one list.
    fn of_names(names: &'b [String]) -> Result<Self, PeerWriteError> {
        let mut list = Self::of(names.iter().map(String::as_str))?;
        list.0.sort_unstable();
        list.0.dedup();
        list.0.iter().try_for_each(|name| verify_name(name))?;
        Ok(list)
    }

    fn to_names(&self) -> Result<Vec<String>, Fault> {
        self.0.iter().try_for_each(|name| verify_name(name))?;
        if !self.0.is_sorted_by(|name, next| name < next) {
            return Err(Fault::Malformed);
        }
        Ok(self.0.iter().map(|name| (*name).to_owned()).collect())
    }
}

impl<'b, const MAX: usize> List<PositionBytes<'b>, MAX> {
    fn of_positions(positions: &'b [Position]) -> Result<Self, PeerWriteError> {
        positions.iter().try_for_each(|position| verify_name(&position.name))?;
        Self::of(positions.iter().map(PositionBytes::of))
    }

    fn to_positions(&self) -> Result<Vec<Position>, Fault> {
        self.0.iter().try_for_each(|position| verify_name(position.name))?;
        let owned = |position: &PositionBytes<'_>| Position {
            name: position.name.to_owned(),
            life: position.life,
            next: position.next,
        };
        Ok(self.0.iter().map(owned).collect())
    }
}

impl<T: Encode, const MAX: usize> Encode for List<T, MAX> {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        (self.0.len() as u64).encode(encoder)?;
        self.0.iter().try_for_each(|entry| entry.encode(encoder))
    }
}

impl<'de, C, T, const MAX: usize> BorrowDecode<'de, C> for List<T, MAX>
where
    T: BorrowDecode<'de, C> + Entry,
{
    fn borrow_decode<D: BorrowDecoder<'de, Context = C>>(
        decoder: &mut D,
    ) -> Result<Self, DecodeError> {
        let count = u64::borrow_decode(decoder)?;
        let count = usize::try_from(count).ok().filter(|count| *count <= MAX);
        let count = count.ok_or(DecodeError::LimitExceeded)?;
        // bincode's own list would take memory for as many as the bytes claim.
        let bytes_min = count * T::BYTES_MIN;
        if decoder.reader().peek_read(bytes_min).is_none() {
            return Err(DecodeError::UnexpectedEnd { additional: bytes_min });
        }
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            entries.push(T::borrow_decode(decoder)?);
        }
        Ok(Self(entries))
    }
}

fn verify_text(text: &str) -> Result<(), PeerWriteError> {
    if text.len() <= PEER_NAME_BYTES_MAX { Ok(()) } else { Err(PeerWriteError::Name) }
}

/// The name of a node is not empty.
fn verify_name(name: &str) -> Result<(), PeerWriteError> {
    if name.is_empty() { Err(PeerWriteError::Name) } else { verify_text(name) }
}

fn verify_number(holds: bool) -> Result<(), PeerWriteError> {
    if holds { Ok(()) } else { Err(PeerWriteError::Number) }
}

fn verify_size(size: u32) -> Result<(), PeerWriteError> {
    verify_number(u64::from(size) <= MEMBERS_MAX as u64)
}

/// Most bytes of an integer.
const INTEGER_BYTES_MAX: usize = 9;
/// Most bytes of a name: three of them say how long it is.
const NAME_BYTES_MAX: usize = 3 + PEER_NAME_BYTES_MAX;
/// Most bytes of a list of names.
const NAMES_BYTES_MAX: usize = INTEGER_BYTES_MAX + MEMBERS_MAX * NAME_BYTES_MAX;
/// Most bytes of a list of positions.
const POSITIONS_BYTES_MAX: usize =
    INTEGER_BYTES_MAX + MEMBERS_MAX * (NAME_BYTES_MAX + 2 * INTEGER_BYTES_MAX);
/// Most bytes of an answer, which is longer than a hello.
const ANSWER_BYTES_MAX: usize = PEER_HEADER_BYTES
    + 12 * INTEGER_BYTES_MAX
    + 3 * NAME_BYTES_MAX
    + NAMES_BYTES_MAX
    + LIMITS_MAX * 4 * INTEGER_BYTES_MAX
    + 16;
/// Most bytes of a chunk of a snapshot.
const SNAPSHOT_CHUNK_BYTES_MAX: usize = PEER_HEADER_BYTES
    + 7 * INTEGER_BYTES_MAX
    + POSITIONS_BYTES_MAX
    + NAMES_BYTES_MAX
    + SNAPSHOT_STANDINGS_MAX * STANDING_BYTES_MAX;

// Whatever the bounds let through fits into its frame.
const _: () = assert!(ANSWER_BYTES_MAX <= PEER_FRAME_BYTES_MAX);
const _: () = assert!(SNAPSHOT_CHUNK_BYTES_MAX <= PEER_FRAME_BYTES_MAX);
const _: () = assert!(PEER_HEADER_BYTES + POSITIONS_BYTES_MAX <= SNAPSHOT_REQUEST_BYTES_MAX);
const _: () = assert!(
    PEER_HEADER_BYTES + INTEGER_BYTES_MAX + REFUSED_TEXT_BYTES_MAX <= SMALL_FRAME_BYTES_MAX
);
const _: () = assert!(PEER_HEADER_BYTES + NAME_BYTES_MAX <= SMALL_FRAME_BYTES_MAX);
