//! What changes of the limits while nodes are linked: the table of a node whose file was reloaded, and the
//! numbers of carried buckets, which calls bring.

use limiter::{Rate, Terms};

use super::LIMITS_MAX;
use super::control::LimitNumbers;
use super::error::Fault;
use super::frame::{FrameType, FrameWriter, ended, proved_list};
use super::varint::{self, VARINT_BYTES_MAX};
use crate::cursor::Cursor;

/// Most limits in one frame.
pub const LIMITS_PART_MAX: usize = 4_096;
/// Most and fewest bytes of an entry of either frame: an identity, and three numbers.
const ENTRY_BYTES_MAX: usize = 8 + 3 * VARINT_BYTES_MAX;
const ENTRY_BYTES_MIN: usize = 8 + 3;

/// An identity, and three numbers.
type Entry = (u64, [u64; 3]);

/// A part of the limits of a node, by slot, that take the place of those in its hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitsFrame {
    /// Slot of the first.
    pub first: u16,
    /// No part follows: the table is complete.
    pub is_last: bool,
    /// The limits from there on.
    pub limits: Vec<LimitNumbers>,
}

/// Numbers of carried buckets, by [`limiter::Bucket::hash`]: those by which the next batch, heal or chunk on
/// the stream counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TermsFrame {
    /// Each bucket with its numbers.
    pub terms: Vec<(u64, Terms)>,
}

/// Appends a frame with the first [`LIMITS_PART_MAX`] of `limits`, that stand from the slot `first` on, to
/// `out`. `is_last`: these are all that are left.
pub fn write_limits(out: &mut Vec<u8>, first: u16, is_last: bool, limits: &[LimitNumbers]) {
    let mut frame = FrameWriter::new(out, FrameType::Limits);
    let part = &limits[..limits.len().min(LIMITS_PART_MAX)];
    frame.out().extend_from_slice(&first.to_le_bytes());
    frame.out().push(u8::from(is_last));
    frame.out().extend_from_slice(&u16::try_from(part.len()).unwrap_or(u16::MAX).to_le_bytes());
    for numbers in part {
        append(frame.out(), numbers.id, [numbers.burst, numbers.per_ns, numbers.per_unit]);
    }
    frame.finish();
}

/// Appends a frame with as many of `terms` as fit to `out`; gives how many.
pub fn write_terms(out: &mut Vec<u8>, terms: &[(u64, Terms)]) -> usize {
    let mut frame = FrameWriter::new(out, FrameType::Terms);
    let most = (frame.room() - 2) / ENTRY_BYTES_MAX;
    let part = &terms[..terms.len().min(most)];
    frame.out().extend_from_slice(&u16::try_from(part.len()).unwrap_or(u16::MAX).to_le_bytes());
    for (hash, Terms { rate, burst }) in part {
        append(frame.out(), *hash, [*burst, rate.count, rate.period_ns]);
    }
    frame.finish();
    part.len()
}

fn append(out: &mut Vec<u8>, id: u64, numbers: [u64; 3]) {
    out.extend_from_slice(&id.to_le_bytes());
    numbers.into_iter().for_each(|number| varint::append(out, number));
}

fn read_entry(cursor: &mut Cursor<'_>) -> Option<Entry> {
    let id = cursor.u64()?;
    Some((id, [varint::read(cursor)?, varint::read(cursor)?, varint::read(cursor)?]))
}

fn read_entries(cursor: &mut Cursor<'_>) -> Result<Vec<Entry>, Fault> {
    let count = cursor.u16().ok_or(Fault::Malformed)?;
    let (count, mut list) = proved_list(cursor, count.into(), ENTRY_BYTES_MIN, read_entry)?;
    ended(cursor)?;
    Ok((0..count).filter_map(|_| read_entry(&mut list)).collect())
}

pub(super) fn read_limits(payload: &[u8]) -> Result<LimitsFrame, Fault> {
    let mut cursor = Cursor::new(payload);
    let first = cursor.u16().ok_or(Fault::Malformed)?;
    let is_last = match cursor.u8() {
        Some(0) => false,
        Some(1) => true,
        _ => return Err(Fault::Malformed),
    };
    let entries = read_entries(&mut cursor)?;
    if usize::from(first) + entries.len() > LIMITS_MAX {
        return Err(Fault::Bound);
    }
    let limit =
        |(id, [burst, per_ns, per_unit]): Entry| LimitNumbers { id, burst, per_ns, per_unit };
    Ok(LimitsFrame { first, is_last, limits: entries.into_iter().map(limit).collect() })
}

pub(super) fn read_terms(payload: &[u8]) -> Result<TermsFrame, Fault> {
    let entries = read_entries(&mut Cursor::new(payload))?;
    let terms = |(hash, [burst, count, period_ns]): Entry| {
        (hash, Terms { rate: Rate { count, period_ns }, burst })
    };
    Ok(TermsFrame { terms: entries.into_iter().map(terms).collect() })
}
