//! A batch: what its sender let through in some buckets since it last said so of them.
//!
//! It is made of sections, so that a later version can say more: a reader skips sections of types
//! that it does not know.

use limiter::{Bucket, Delta, When};

use super::error::Fault;
use super::frame::{FrameType, FrameWriter, ended, proved_list};
use super::timed::{append_when, read_age, read_window, when_bytes};
use super::{SHIFT_MAX, varint};
use crate::cursor::Cursor;

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

/// A section that carries deltas: which are in it, and what each says of its time behind the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Section {
    /// Of levels. Nothing follows.
    Spends = 1,
    /// Of windows: the start and the length of each follow.
    InWindows = 2,
    /// Of logs: the age of each follows.
    AtTimes = 3,
}

impl Section {
    const ALL: [Self; 3] = [Self::Spends, Self::InWindows, Self::AtTimes];

    fn from_u8(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|known| *known as u8 == number)
    }

    /// The section of a delta.
    fn of(when: When) -> Self {
        match when {
            When::Untimed => Self::Spends,
            When::Window { .. } => Self::InWindows,
            When::At { .. } => Self::AtTimes,
        }
    }

    /// Bytes of a delta at least, beside what every delta has.
    fn when_bytes_min(self) -> usize {
        match self {
            Self::Spends => 0,
            Self::InWindows => 2,
            Self::AtTimes => 1,
        }
    }

    fn read_when(self, cursor: &mut Cursor<'_>, now_ns: u64) -> Option<When> {
        match self {
            Self::Spends => Some(When::Untimed),
            Self::InWindows => read_window(cursor),
            Self::AtTimes => read_age(cursor, now_ns),
        }
    }
}

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
            match Section::from_u8(section_type) {
                Some(section) => deltas_len += prove_spends(section, body)?,
                None => skipped += 1,
            }
        }
        Ok(Self { seq, skipped, deltas_len, sections })
    }

    /// The deltas in the order of the batch, read at `now_ns`. Their slots are the sender's.
    pub fn deltas(&self, now_ns: u64) -> Deltas<'b> {
        Deltas {
            now_ns,
            left: self.deltas_len,
            left_in_section: 0,
            kind: Section::Spends,
            section: Cursor::new(&[]),
            sections: self.sections,
        }
    }
}

/// The deltas of a batch; see [`BatchFrame::deltas`].
#[derive(Clone, Debug)]
pub struct Deltas<'b> {
    now_ns: u64,
    left: usize,
    left_in_section: u64,
    kind: Section,
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
            if let Some(kind) = Section::from_u8(section_type) {
                (self.kind, self.section) = (kind, body);
                self.left_in_section = varint::read(&mut self.section)?;
            }
        }
        self.left_in_section -= 1;
        read_delta(&mut self.section, self.kind, self.now_ns)
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
fn prove_spends(section: Section, mut body: Cursor<'_>) -> Result<usize, Fault> {
    let count = varint::read(&mut body).ok_or(Fault::Malformed)?;
    let bytes_min = DELTA_BYTES_MIN + section.when_bytes_min();
    let read = |cursor: &mut Cursor<'_>| read_delta(cursor, section, 0);
    let (count, _) = proved_list(&mut body, count, bytes_min, read)?;
    ended(&body)?;
    Ok(count)
}

#[inline]
fn read_delta(cursor: &mut Cursor<'_>, section: Section, now_ns: u64) -> Option<Delta> {
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
    let when = section.read_when(cursor, now_ns)?;
    Some(Delta { bucket, spent, demand, shift, reserved: flags & RESERVED != 0, level, when })
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
    now_ns: u64,
}

impl<'b> BatchWriter<'b> {
    /// Begins the batch `seq`, told at `now_ns`, behind whatever `out` holds.
    pub fn new(out: &'b mut Vec<u8>, seq: u64, now_ns: u64) -> Self {
        let mut frame = FrameWriter::new(out, FrameType::Batch);
        frame.out().extend_from_slice(&seq.to_le_bytes());
        Self { frame, now_ns }
    }

    /// Adds as many of `deltas` as fit, from the first on, and gives their number: whatever is left
    /// goes into the next batch. A batch without deltas takes several thousand, so that a loop over
    /// batches ends.
    ///
    /// Deltas of one kind, and so of one bucket, stay in their order; those of levels come before those
    /// of windows, and these before those of logs. The shift of a delta without demand says nothing and
    /// is read as 0.
    pub fn spends(&mut self, deltas: &[Delta]) -> usize {
        let opening = SECTION_HEADER_BYTES + varint::len(deltas.len() as u64);
        let mut room = self.frame.room();
        let mut bodies = Section::ALL.map(|section| Body { section, count: 0, bytes: 0 });
        let mut taken = 0;
        for delta in deltas {
            let section = Section::of(delta.when);
            let Some(body) = bodies.iter_mut().find(|body| body.section == section) else { break };
            let bytes = delta_bytes(delta, self.now_ns);
            let opening = if body.count == 0 { opening } else { 0 };
            let Some(left) = room.checked_sub(opening + bytes) else { break };
            room = left;
            body.count += 1;
            body.bytes += bytes;
            taken += 1;
        }
        for body in bodies.iter().filter(|body| body.count > 0) {
            self.append(body, &deltas[..taken]);
        }
        taken
    }

    /// Adds a section with those of `deltas` that belong into it.
    fn append(&mut self, body: &Body, deltas: &[Delta]) {
        // A batch is at most `BATCH_BYTES_MAX` long.
        let length = u32::try_from(varint::len(body.count) + body.bytes).unwrap_or(u32::MAX);
        let out = self.frame.out();
        out.push(body.section as u8);
        out.extend_from_slice(&length.to_le_bytes());
        varint::append(out, body.count);
        for delta in deltas.iter().filter(|delta| Section::of(delta.when) == body.section) {
            append_delta(out, delta, self.now_ns);
        }
    }

    /// Completes the frame. A batch without deltas is a batch all the same.
    pub fn finish(self) {
        self.frame.finish();
    }
}

/// What a section will hold.
struct Body {
    section: Section,
    count: u64,
    /// Bytes of its deltas.
    bytes: usize,
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
fn delta_bytes(delta: &Delta, now_ns: u64) -> usize {
    let demand = if delta.demand == 0 { 0 } else { demand_bytes(delta.demand) };
    DELTA_BYTES_MIN - 1
        + varint::signed_len(delta.spent)
        + demand
        + delta.level.map_or(0, varint::signed_len)
        + when_bytes(delta.when, now_ns)
}

#[inline]
fn append_delta(out: &mut Vec<u8>, delta: &Delta, now_ns: u64) {
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
    append_when(out, delta.when, now_ns);
}

/// Bytes of a demand and its shift.
#[inline]
pub(super) fn demand_bytes(demand: u32) -> usize {
    varint::len(u64::from(demand)) + 1
}

/// Appends a demand and its shift.
#[inline]
pub(super) fn append_demand(out: &mut Vec<u8>, demand: u32, shift: u8) {
    debug_assert!(shift <= SHIFT_MAX, "no limit has a divisor of 2^{shift}");
    varint::append(out, u64::from(demand));
    out.push(shift.min(SHIFT_MAX));
}
