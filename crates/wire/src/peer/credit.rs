//! What operators gave back: which buckets of the next batch, heal or chunk of a snapshot it is, and of which
//! members' spends the sender knew.
//!
//! A reset travels as what a node spends does, as a number below nothing. Where a receiver lacks some of the spends
//! that it is for, it must not lose the rest: this frame says up to where each member's spends were known. It
//! belongs to the next frame of its number on the same stream. It is below the mark: a version that skips it takes
//! the spends, and what arrives late counts there.

use limiter::{Bucket, MEMBERS_MAX};

use super::control::Position;
use super::error::Fault;
use super::frame::{FrameType, FrameWriter, ended, proved_list};
use super::{PEER_NAME_BYTES_MAX, varint};
use crate::cursor::Cursor;

/// Most buckets in one frame: 20 bytes each at the most.
pub const CREDITS_MAX: usize = 10_000;

/// Bytes of a credit at least: slot, hash, and one for the units.
const CREDIT_BYTES_MIN: usize = 11;
/// Bytes of a position at least: a name of one byte with its length, a life, and one for the number.
const POSITION_BYTES_MIN: usize = 11;

/// The frame that credits belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreditsOf {
    /// The batch or heal of this number.
    Spends(u64),
    /// The chunk of a snapshot whose range begins with this hash.
    Chunk(u64),
}

/// Which buckets operators gave something back of. Its structure is sound, and it borrows from the bytes that it
/// was read from.
#[derive(Clone, Debug)]
pub struct CreditsFrame<'b> {
    /// The frame that it belongs to.
    pub of: CreditsOf,
    /// Of each member, the number before which all was known of it when that was done.
    pub positions: Vec<Position>,
    credits_len: usize,
    credits: Cursor<'b>,
}

impl<'b> CreditsFrame<'b> {
    /// Reads a payload to its end and proves that everything in it is sound.
    pub(super) fn read(payload: &'b [u8]) -> Result<Self, Fault> {
        let mut cursor = Cursor::new(payload);
        let of = read_of(&mut cursor).ok_or(Fault::Malformed)?;
        let count = varint::read(&mut cursor).ok_or(Fault::Malformed)?;
        if count > MEMBERS_MAX as u64 {
            return Err(Fault::Bound);
        }
        let mut positions = Vec::new();
        proved_list(&mut cursor, count, POSITION_BYTES_MIN, |cursor| {
            positions.push(read_position(cursor)?);
            Some(())
        })?;
        let count = varint::read(&mut cursor).ok_or(Fault::Malformed)?;
        if count > CREDITS_MAX as u64 {
            return Err(Fault::Bound);
        }
        let (credits_len, credits) =
            proved_list(&mut cursor, count, CREDIT_BYTES_MIN, read_credit)?;
        ended(&cursor)?;
        Ok(Self { of, positions, credits_len, credits })
    }

    /// How many buckets there are.
    pub fn len(&self) -> usize {
        self.credits_len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.credits_len == 0
    }

    /// The buckets in their order, each with the units that still wait for late spends: of a chunk; 0
    /// otherwise. Their slots are the sender's.
    pub fn credits(&self) -> impl Iterator<Item = (Bucket, u64)> + use<'b> {
        let mut cursor = self.credits;
        (0..self.credits_len).map_while(move |_| read_credit(&mut cursor))
    }
}

fn read_of(cursor: &mut Cursor<'_>) -> Option<CreditsOf> {
    match (cursor.u8()?, cursor.u64()?) {
        (0, number) => Some(CreditsOf::Spends(number)),
        (1, first) => Some(CreditsOf::Chunk(first)),
        _ => None,
    }
}

fn read_position(cursor: &mut Cursor<'_>) -> Option<Position> {
    let length = usize::from(cursor.u8()?);
    let name = std::str::from_utf8(cursor.bytes(length)?).ok().filter(|name| !name.is_empty())?;
    Some(Position { name: name.to_owned(), life: cursor.u64()?, next: varint::read(cursor)? })
}

fn read_credit(cursor: &mut Cursor<'_>) -> Option<(Bucket, u64)> {
    let bucket = Bucket { slot: cursor.u16()?, hash: cursor.u64()? };
    Some((bucket, varint::read(cursor)?))
}

/// Appends as many of `credits` as fit in one frame, from the first on, and gives their number, at least one where
/// there are any: what is left goes into the next. They belong to the frame `of`, which follows on the same
/// stream.
///
/// A position whose name is empty or too long, and what comes after [`MEMBERS_MAX`] of them, is left out.
pub fn write_credits(
    out: &mut Vec<u8>,
    of: CreditsOf,
    positions: &[Position],
    credits: &[(Bucket, u64)],
) -> usize {
    let mut frame = FrameWriter::new(out, FrameType::Credits);
    let (kind, number) = match of {
        CreditsOf::Spends(number) => (0, number),
        CreditsOf::Chunk(first) => (1, first),
    };
    let out = frame.out();
    out.push(kind);
    out.extend_from_slice(&number.to_le_bytes());
    let is_sound = |position: &&Position| (1..=PEER_NAME_BYTES_MAX).contains(&position.name.len());
    let positions: Vec<_> = positions.iter().filter(is_sound).take(MEMBERS_MAX).collect();
    varint::append(out, positions.len() as u64);
    for position in positions {
        out.push(u8::try_from(position.name.len()).unwrap_or(u8::MAX));
        out.extend_from_slice(position.name.as_bytes());
        out.extend_from_slice(&position.life.to_le_bytes());
        varint::append(out, position.next);
    }
    let count = credits.len().min(CREDITS_MAX);
    varint::append(out, count as u64);
    for (bucket, units) in &credits[..count] {
        out.extend_from_slice(&bucket.slot.to_le_bytes());
        out.extend_from_slice(&bucket.hash.to_le_bytes());
        varint::append(out, *units);
    }
    frame.finish();
    count
}

// All positions and credits fit into the longest frame that older versions skip.
const _: () = assert!(
    super::PEER_HEADER_BYTES
        + 9
        + 1
        + MEMBERS_MAX * (1 + PEER_NAME_BYTES_MAX + 8 + varint::VARINT_BYTES_MAX)
        + 3
        + CREDITS_MAX * (10 + varint::VARINT_BYTES_MAX)
        <= super::BATCH_BYTES_MAX
);
