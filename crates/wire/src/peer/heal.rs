//! A heal: what its sender owes the receiver, as one sum for each bucket.

use limiter::{Bucket, Sum, When};

use super::HEAL_SUMS_MAX;
use super::error::Fault;
use super::frame::{FrameType, FrameWriter, ended, proved_list};
use super::varint;
use crate::cursor::Cursor;

/// Bytes of a sum at least: slot, hash, and one for the ticks.
const SUM_BYTES_MIN: usize = 11;
/// Bit of a heal's flags: no further heal follows for the same link.
const LAST: u8 = 1 << 0;

/// A heal whose structure is sound. It borrows from the bytes that it was read from.
///
/// What is owed may take several heals, each with a number of its own.
#[derive(Clone, Copy, Debug)]
pub struct HealFrame<'b> {
    /// Its number among the sender's batches and heals.
    pub seq: u64,
    /// Number after the sender's last batch: whoever joins reads the sender from here on.
    pub upto: u64,
    /// No further heal follows on this link.
    pub last: bool,
    sums_len: usize,
    sums: Cursor<'b>,
}

impl<'b> HealFrame<'b> {
    /// Reads a payload to its end and proves that every sum is sound.
    pub(super) fn read(payload: &'b [u8]) -> Result<Self, Fault> {
        let mut cursor = Cursor::new(payload);
        let (seq, upto, flags, count) = read_head(&mut cursor).ok_or(Fault::Malformed)?;
        if flags & !LAST != 0 {
            return Err(Fault::Malformed);
        }
        let (sums_len, sums) = proved_list(&mut cursor, count, SUM_BYTES_MIN, read_sum)?;
        ended(&cursor)?;
        Ok(Self { seq, upto, last: flags & LAST != 0, sums_len, sums })
    }

    /// The sums in the order of the heal. Their slots and ticks are the sender's.
    pub fn sums(&self) -> Sums<'b> {
        Sums { left: self.sums_len, cursor: self.sums }
    }
}

/// The sums of a heal; see [`HealFrame::sums`].
#[derive(Clone, Debug)]
pub struct Sums<'b> {
    left: usize,
    cursor: Cursor<'b>,
}

impl Iterator for Sums<'_> {
    type Item = Sum;

    #[inline]
    fn next(&mut self) -> Option<Sum> {
        self.left = self.left.checked_sub(1)?;
        read_sum(&mut self.cursor)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Sums<'_> {}

fn read_head(cursor: &mut Cursor<'_>) -> Option<(u64, u64, u8, u64)> {
    Some((cursor.u64()?, cursor.u64()?, cursor.u8()?, varint::read(cursor)?))
}

#[inline]
fn read_sum(cursor: &mut Cursor<'_>) -> Option<Sum> {
    let bucket = Bucket { slot: cursor.u16()?, hash: cursor.u64()? };
    Some(Sum { bucket, ticks: varint::read_signed(cursor)?, when: When::Untimed })
}

/// Appends the heal `seq` to `out` with the first [`HEAL_SUMS_MAX`] of `sums`, which are of levels, and
/// gives their number: whatever is left goes into the next. It is the last heal if `is_last` and there
/// are no more. Sums of windows and logs go before it: see [`super::write_timed_sums`].
///
/// `upto` is the number after this node's last batch. A heal without sums is sent too: it says that
/// nothing is owed.
pub fn write_heal(
    out: &mut Vec<u8>,
    (seq, upto): (u64, u64),
    is_last: bool,
    sums: &[Sum],
) -> usize {
    let mut frame = FrameWriter::new(out, FrameType::Heal);
    frame.out().extend_from_slice(&seq.to_le_bytes());
    frame.out().extend_from_slice(&upto.to_le_bytes());
    let count = sums.len().min(HEAL_SUMS_MAX);
    let out = frame.out();
    out.push(if is_last && count == sums.len() { LAST } else { 0 });
    varint::append(out, count as u64);
    for sum in &sums[..count] {
        out.extend_from_slice(&sum.bucket.slot.to_le_bytes());
        out.extend_from_slice(&sum.bucket.hash.to_le_bytes());
        varint::append_signed(out, sum.ticks);
    }
    frame.finish();
    count
}
