//! A batch: what its sender let through in some buckets since it last said so of them.
//!
//! It is made of sections, so that a later version can say more: a reader skips sections of types
//! that it does not know.

use limiter::{Bucket, Delta, When};

use super::error::Fault;
use super::frame::{FrameType, FrameWriter, ended, proved_list};
use super::{SHIFT_MAX, varint};
use crate::cursor::Cursor;

/// Type of the section that carries deltas.
const SPENDS: u8 = 1;
/// Bytes of a section before its body: type and length.
const SECTION_HEADER_BYTES: usize = 5;
/// Bytes of a delta at least: slot, hash, flags, and one for the units.
const DELTA_BYTES_MIN: usize = 12;

/// Bit of a delta's flags: a part of it is only reserved.
const RESERVED: u8 = 1 << 0;
/// Bit of a delta's flags: a level follows.
const HAS_LEVEL: u8 = 1 << 1;
/// Bit of a delta's flags: a demand and its shift follow.
const HAS_DEMAND: u8 = 1 << 2;

/// A batch whose structure is sound. It borrows from the bytes that it was read from.
#[derive(Clone, Copy, Debug)]
pub struct BatchFrame<'b> {
    /// Its number among the sender's batches and heals.
    pub seq: u64,
    /// Sections of types that this version does not know. The reader counts them.
    pub skipped: u32,
    deltas_len: usize,
    sections: Cursor<'b>,
}

impl<'b> BatchFrame<'b> {
    /// Reads a payload to its end and proves that every section and delta is sound.
    pub(super) fn read(payload: &'b [u8]) -> Result<Self, Fault> {
        let mut cursor = Cursor::new(payload);
        let seq = cursor.u64().ok_or(Fault::Malformed)?;
        let sections = cursor;
        let mut skipped = 0;
        let mut deltas_len = 0;
        while cursor.len() > 0 {
            let (section_type, body) = read_section(&mut cursor).ok_or(Fault::Malformed)?;
            if section_type == SPENDS {
                deltas_len += prove_spends(body)?;
            } else {
                skipped += 1;
            }
        }
        Ok(Self { seq, skipped, deltas_len, sections })
    }

    /// The deltas in the order of the batch. Their slots are the sender's.
    pub fn deltas(&self) -> Deltas<'b> {
        Deltas {
            left: self.deltas_len,
            left_in_section: 0,
            section: Cursor::new(&[]),
            sections: self.sections,
        }
    }
}

/// The deltas of a batch; see [`BatchFrame::deltas`].
#[derive(Clone, Debug)]
pub struct Deltas<'b> {
    left: usize,
    left_in_section: u64,
    section: Cursor<'b>,
    sections: Cursor<'b>,
}

impl Iterator for Deltas<'_> {
    type Item = Delta;

    #[inline]
    fn next(&mut self) -> Option<Delta> {
        self.left = self.left.checked_sub(1)?;
        while self.left_in_section == 0 {
            let (section_type, body) = read_section(&mut self.sections)?;
            if section_type == SPENDS {
                self.section = body;
                self.left_in_section = varint::read(&mut self.section)?;
            }
        }
        self.left_in_section -= 1;
        read_delta(&mut self.section)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Deltas<'_> {}

#[inline]
fn read_section<'b>(cursor: &mut Cursor<'b>) -> Option<(u8, Cursor<'b>)> {
    let section_type = cursor.u8()?;
    let length = usize::try_from(cursor.u32()?).ok()?;
    Some((section_type, Cursor::new(cursor.bytes(length)?)))
}

/// The number of deltas in the body of a section, each of which is sound.
fn prove_spends(mut body: Cursor<'_>) -> Result<usize, Fault> {
    let count = varint::read(&mut body).ok_or(Fault::Malformed)?;
    let (count, _) = proved_list(&mut body, count, DELTA_BYTES_MIN, read_delta)?;
    ended(&body)?;
    Ok(count)
}

#[inline]
fn read_delta(cursor: &mut Cursor<'_>) -> Option<Delta> {
    let bucket = Bucket { slot: cursor.u16()?, hash: cursor.u64()? };
    let flags = cursor.u8()?;
    if flags & !(RESERVED | HAS_LEVEL | HAS_DEMAND) != 0 {
        return None;
    }
    let spent = varint::read_signed(cursor)?;
    let (demand, shift) = if flags & HAS_DEMAND != 0 { read_demand(cursor)? } else { (0, 0) };
    // A writer leaves out a demand of 0, and its shift with it.
    let shift = if demand == 0 { 0 } else { shift };
    let level = if flags & HAS_LEVEL != 0 { Some(varint::read_signed(cursor)?) } else { None };
    Some(Delta {
        bucket,
        spent,
        demand,
        shift,
        reserved: flags & RESERVED != 0,
        level,
        when: When::Untimed,
    })
}

/// A demand and its shift, as deltas and standings end with.
#[inline]
pub(super) fn read_demand(cursor: &mut Cursor<'_>) -> Option<(u32, u8)> {
    let demand = u32::try_from(varint::read(cursor)?).ok()?;
    let shift = cursor.u8()?;
    (shift <= SHIFT_MAX).then_some((demand, shift))
}

/// A batch being appended to a buffer. Until [`BatchWriter::finish`] the buffer's tail is no frame.
#[derive(Debug)]
#[must_use = "the frame is not complete before `finish`"]
pub struct BatchWriter<'b> {
    frame: FrameWriter<'b>,
}

impl<'b> BatchWriter<'b> {
    /// Begins the batch `seq` behind whatever `out` holds.
    pub fn new(out: &'b mut Vec<u8>, seq: u64) -> Self {
        let mut frame = FrameWriter::new(out, FrameType::Batch);
        frame.out().extend_from_slice(&seq.to_le_bytes());
        Self { frame }
    }

    /// Adds as many of `deltas` as fit, from the first on, and gives their number: whatever is left
    /// goes into the next batch. A batch without deltas takes several thousand, so that a loop over
    /// batches ends.
    ///
    /// The shift of a delta without demand says nothing and is read as 0.
    pub fn spends(&mut self, deltas: &[Delta]) -> usize {
        let room = self
            .frame
            .room()
            .saturating_sub(SECTION_HEADER_BYTES + varint::len(deltas.len() as u64));
        let (fitting, body_bytes) = fitting(deltas, room, delta_bytes);
        let (fitting, count) = (&deltas[..fitting], fitting as u64);
        if fitting.is_empty() {
            return 0;
        }
        // A batch is at most `BATCH_BYTES_MAX` long.
        let length = u32::try_from(varint::len(count) + body_bytes).unwrap_or(u32::MAX);
        let out = self.frame.out();
        out.push(SPENDS);
        out.extend_from_slice(&length.to_le_bytes());
        varint::append(out, count);
        for delta in fitting {
            append_delta(out, delta);
        }
        fitting.len()
    }

    /// Completes the frame. A batch without deltas is a batch all the same.
    pub fn finish(self) {
        self.frame.finish();
    }
}

/// How many of `entries`, from the first on, take at most `room` bytes, and how many they take.
pub(super) fn fitting<T>(
    entries: &[T],
    room: usize,
    bytes: impl Fn(&T) -> usize,
) -> (usize, usize) {
    let mut taken = 0;
    for (index, entry) in entries.iter().enumerate() {
        let entry_bytes = bytes(entry);
        if taken + entry_bytes > room {
            return (index, taken);
        }
        taken += entry_bytes;
    }
    (entries.len(), taken)
}

fn flags(delta: &Delta) -> u8 {
    let mut flags = 0;
    if delta.reserved {
        flags |= RESERVED;
    }
    if delta.level.is_some() {
        flags |= HAS_LEVEL;
    }
    if delta.demand != 0 {
        flags |= HAS_DEMAND;
    }
    flags
}

#[inline]
fn delta_bytes(delta: &Delta) -> usize {
    let demand = if delta.demand == 0 { 0 } else { varint::len(u64::from(delta.demand)) + 1 };
    DELTA_BYTES_MIN - 1
        + varint::signed_len(delta.spent)
        + demand
        + delta.level.map_or(0, varint::signed_len)
}

#[inline]
fn append_delta(out: &mut Vec<u8>, delta: &Delta) {
    out.extend_from_slice(&delta.bucket.slot.to_le_bytes());
    out.extend_from_slice(&delta.bucket.hash.to_le_bytes());
    out.push(flags(delta));
    varint::append_signed(out, delta.spent);
    if delta.demand != 0 {
        append_demand(out, delta.demand, delta.shift);
    }
    if let Some(level) = delta.level {
        varint::append_signed(out, level);
    }
}

/// Appends a demand and its shift.
#[inline]
pub(super) fn append_demand(out: &mut Vec<u8>, demand: u32, shift: u8) {
    debug_assert!(shift <= SHIFT_MAX, "no limit has a divisor of 2^{shift}");
    varint::append(out, u64::from(demand));
    out.push(shift.min(SHIFT_MAX));
}
