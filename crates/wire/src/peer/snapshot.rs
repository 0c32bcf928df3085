//! A chunk of a snapshot: the buckets of a range of hashes as the sender knows them, and what it
//! had received when it said so.

use limiter::{Bucket, Standing, When};

use super::batch::{append_demand, read_demand};
use super::codec;
use super::control::Position;
use super::error::{Fault, PeerWriteError};
use super::frame::{FrameType, FrameWriter, ended, proved_list};
use super::{SNAPSHOT_STANDINGS_MAX, varint};
use crate::cursor::Cursor;

/// Bytes of a standing at least: slot, hash, one for each of missing, charge and others, shift.
const STANDING_BYTES_MIN: usize = 14;
/// Bytes of a standing at most.
pub(super) const STANDING_BYTES_MAX: usize = 10 + 3 * varint::VARINT_BYTES_MAX + 1;

/// What a chunk says before its buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotHead {
    /// First hash of the range, which is over `hash.rotate_left(32)`.
    pub first: u64,
    /// Last hash of the range, inclusive and not below the first.
    pub last: u64,
    /// No further chunk follows.
    pub end: bool,
    /// Number of the sender's own next batch or heal: its spends in all before are contained.
    pub own_next: u64,
    /// What the sender had read of the other members: all before is contained. At most
    /// [`limiter::MEMBERS_MAX`].
    pub cursors: Vec<Position>,
    /// Members that the sender counts, itself included, at most [`limiter::MEMBERS_MAX`].
    pub size: u32,
    /// Names of those that it knows by name. Read: strictly ascending by bytes. Written: in any
    /// order; doubles go.
    pub members: Vec<String>,
}

/// A chunk whose structure is sound. Its standings borrow from the bytes that it was read from.
#[derive(Clone, Debug)]
pub struct SnapshotChunk<'b> {
    /// What it says before its standings.
    pub head: SnapshotHead,
    standings_len: usize,
    standings: Cursor<'b>,
}

impl<'b> SnapshotChunk<'b> {
    /// Reads a payload to its end and proves that every standing is sound.
    pub(super) fn read(payload: &'b [u8]) -> Result<Self, Fault> {
        let mut cursor = Cursor::new(payload);
        let head = read_head(&mut cursor).ok_or(Fault::Malformed)?;
        let head = codec::read::<codec::SnapshotHeadBytes<'_>>(head)?.check()?;
        let count = varint::read(&mut cursor).ok_or(Fault::Malformed)?;
        if count > SNAPSHOT_STANDINGS_MAX as u64 {
            return Err(Fault::Bound);
        }
        let (standings_len, standings) =
            proved_list(&mut cursor, count, STANDING_BYTES_MIN, read_standing)?;
        ended(&cursor)?;
        Ok(Self { head, standings_len, standings })
    }

    /// The standings in the order of the chunk. Their slots and ticks are the sender's.
    pub fn standings(&self) -> Standings<'b> {
        Standings { left: self.standings_len, cursor: self.standings }
    }
}

/// The standings of a chunk; see [`SnapshotChunk::standings`].
#[derive(Clone, Debug)]
pub struct Standings<'b> {
    left: usize,
    cursor: Cursor<'b>,
}

impl Iterator for Standings<'_> {
    type Item = Standing;

    #[inline]
    fn next(&mut self) -> Option<Standing> {
        self.left = self.left.checked_sub(1)?;
        read_standing(&mut self.cursor)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Standings<'_> {}

/// The bytes of the head, which its length precedes: a later version appends fields to it.
fn read_head<'b>(cursor: &mut Cursor<'b>) -> Option<&'b [u8]> {
    let length = usize::try_from(cursor.u32()?).ok()?;
    cursor.bytes(length)
}

#[inline]
fn read_standing(cursor: &mut Cursor<'_>) -> Option<Standing> {
    let bucket = Bucket { slot: cursor.u16()?, hash: cursor.u64()? };
    let missing = varint::read_signed(cursor)?;
    let charge = varint::read_signed(cursor)?;
    let (others, shift) = read_demand(cursor)?;
    Some(Standing { bucket, missing, charge, others, shift, when: When::Untimed })
}

/// Appends a chunk to `out`. Its `standings` are of levels; those of windows and logs go before it: see
/// [`super::write_timed_standings`].
///
/// # Errors
/// When there are more than [`SNAPSHOT_STANDINGS_MAX`] standings, or a name, list or number of the
/// head is not what its field can have.
pub fn write_snapshot_chunk(
    out: &mut Vec<u8>,
    head: &SnapshotHead,
    standings: &[Standing],
) -> Result<(), PeerWriteError> {
    if standings.len() > SNAPSHOT_STANDINGS_MAX {
        return Err(PeerWriteError::TooMany);
    }
    let head = codec::SnapshotHeadBytes::of(head)?;
    let mut frame = FrameWriter::new(out, FrameType::SnapshotChunk);
    if let Err(error) = codec::append_sized(frame.out(), head) {
        frame.abandon();
        return Err(error);
    }
    let out = frame.out();
    varint::append(out, standings.len() as u64);
    for standing in standings {
        out.extend_from_slice(&standing.bucket.slot.to_le_bytes());
        out.extend_from_slice(&standing.bucket.hash.to_le_bytes());
        varint::append_signed(out, standing.missing);
        varint::append_signed(out, standing.charge);
        append_demand(out, standing.others, standing.shift);
    }
    frame.finish();
    Ok(())
}
