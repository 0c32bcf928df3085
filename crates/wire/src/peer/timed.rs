//! What belongs to a window or to a time: spends of buckets that are more than a level.
//!
//! A window is told as it is: its start and length in milliseconds name it on every node. A time is the
//! node's own, and is told as an age in whole milliseconds, rounded down: whoever reads it takes the
//! spend for rather too young than too old. So a writer and a reader are told the time.
//!
//! Sums and standings of such buckets have frames of their own, which belong to the next frame of the
//! usual kind on the same stream. They are below the mark, and older versions skip them: they have no
//! limit that these buckets could belong to.

use limiter::{Bucket, Standing, Sum, When};

use super::batch::{append_demand, demand_bytes, read_demand};
use super::error::Fault;
use super::frame::{FrameType, FrameWriter, ended, proved_list};
use super::{HEAL_SUMS_MAX, SNAPSHOT_STANDINGS_MAX, varint};
use crate::cursor::Cursor;

/// Nanoseconds in a millisecond, in which ages are told.
const MS: u64 = 1_000_000;

/// Bit of an entry's flags: it belongs to a window, whose start and length follow.
const IN_WINDOW: u8 = 1 << 0;
/// Bit of an entry's flags: it belongs to a time, and its age follows.
const AT_TIME: u8 = 1 << 1;
/// Bit of an entry's flags: of the bucket of the entry before, whose slot and hash are left out.
const SAME_BUCKET: u8 = 1 << 2;
/// Bit of a standing's flags: a demand and its shift follow.
const HAS_DEMAND: u8 = 1 << 3;

/// Bytes of a sum at least: flags, ticks.
const SUM_BYTES_MIN: usize = 2;
/// Bytes of a standing at least: flags, missing, charge.
const STANDING_BYTES_MIN: usize = 3;
/// Bytes of slot and hash.
const BUCKET_BYTES: usize = 10;
/// Most bytes of the count of a list.
const COUNT_BYTES_MAX: usize = 3;

/// Sums with the times that they belong to: a part of the next heal on the same stream. Its structure
/// is sound, and it borrows from the bytes that it was read from.
#[derive(Clone, Copy, Debug)]
pub struct TimedSums<'b> {
    /// Number of the heal that they are a part of.
    pub seq: u64,
    sums_len: usize,
    sums: Cursor<'b>,
}

impl<'b> TimedSums<'b> {
    /// Reads a payload to its end and proves that every sum is sound.
    pub(super) fn read(payload: &'b [u8]) -> Result<Self, Fault> {
        let mut cursor = Cursor::new(payload);
        let seq = cursor.u64().ok_or(Fault::Malformed)?;
        let mut reader = Entries::new(0);
        let (sums_len, sums) =
            read_list(&mut cursor, HEAL_SUMS_MAX, SUM_BYTES_MIN, |cursor| reader.sum(cursor))?;
        Ok(Self { seq, sums_len, sums })
    }

    /// How many sums there are.
    pub fn len(&self) -> usize {
        self.sums_len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sums_len == 0
    }

    /// The sums in their order, read at `now_ns`. Their slots and ticks are the sender's.
    pub fn sums(&self, now_ns: u64) -> impl Iterator<Item = Sum> + use<'b> {
        let (mut cursor, mut reader) = (self.sums, Entries::new(now_ns));
        (0..self.sums_len).map_while(move |_| reader.sum(&mut cursor))
    }
}

/// Standings with the times that they belong to: a part of the next chunk of a snapshot on the same
/// stream. Its structure is sound, and it borrows from the bytes that it was read from.
#[derive(Clone, Copy, Debug)]
pub struct TimedStandings<'b> {
    /// First hash of the chunk's range.
    pub first: u64,
    standings_len: usize,
    standings: Cursor<'b>,
}

impl<'b> TimedStandings<'b> {
    /// Reads a payload to its end and proves that every standing is sound.
    pub(super) fn read(payload: &'b [u8]) -> Result<Self, Fault> {
        let mut cursor = Cursor::new(payload);
        let first = cursor.u64().ok_or(Fault::Malformed)?;
        let mut reader = Entries::new(0);
        let (standings_len, standings) =
            read_list(&mut cursor, SNAPSHOT_STANDINGS_MAX, STANDING_BYTES_MIN, |cursor| {
                reader.standing(cursor)
            })?;
        Ok(Self { first, standings_len, standings })
    }

    /// How many standings there are.
    pub fn len(&self) -> usize {
        self.standings_len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.standings_len == 0
    }

    /// The standings in their order, read at `now_ns`. Their slots and ticks are the sender's.
    pub fn standings(&self, now_ns: u64) -> impl Iterator<Item = Standing> + use<'b> {
        let (mut cursor, mut reader) = (self.standings, Entries::new(now_ns));
        (0..self.standings_len).map_while(move |_| reader.standing(&mut cursor))
    }
}

/// A count, held against `count_max`, and as many entries, which end the payload.
fn read_list<'b, T>(
    cursor: &mut Cursor<'b>,
    count_max: usize,
    entry_bytes_min: usize,
    read: impl FnMut(&mut Cursor<'b>) -> Option<T>,
) -> Result<(usize, Cursor<'b>), Fault> {
    let count = varint::read(cursor).ok_or(Fault::Malformed)?;
    if count > count_max as u64 {
        return Err(Fault::Bound);
    }
    let list = proved_list(cursor, count, entry_bytes_min, read)?;
    ended(cursor)?;
    Ok(list)
}

/// Reads entries one after the other: one may be of the bucket of the one before.
struct Entries {
    now_ns: u64,
    bucket: Option<Bucket>,
}

impl Entries {
    fn new(now_ns: u64) -> Self {
        Self { now_ns, bucket: None }
    }

    fn sum(&mut self, cursor: &mut Cursor<'_>) -> Option<Sum> {
        let flags = cursor.u8()?;
        if flags & !(IN_WINDOW | AT_TIME | SAME_BUCKET) != 0 {
            return None;
        }
        let (bucket, when) = self.place(cursor, flags)?;
        Some(Sum { bucket, ticks: varint::read_signed(cursor)?, when })
    }

    fn standing(&mut self, cursor: &mut Cursor<'_>) -> Option<Standing> {
        let flags = cursor.u8()?;
        if flags & !(IN_WINDOW | AT_TIME | SAME_BUCKET | HAS_DEMAND) != 0 {
            return None;
        }
        let (bucket, when) = self.place(cursor, flags)?;
        let missing = varint::read_signed(cursor)?;
        let charge = varint::read_signed(cursor)?;
        let (others, shift) = if flags & HAS_DEMAND != 0 { read_demand(cursor)? } else { (0, 0) };
        Some(Standing { bucket, missing, charge, others, shift, when })
    }

    fn place(&mut self, cursor: &mut Cursor<'_>, flags: u8) -> Option<(Bucket, When)> {
        let bucket = if flags & SAME_BUCKET != 0 {
            self.bucket?
        } else {
            Bucket { slot: cursor.u16()?, hash: cursor.u64()? }
        };
        self.bucket = Some(bucket);
        let when = match (flags & IN_WINDOW != 0, flags & AT_TIME != 0) {
            (false, false) => When::Untimed,
            (true, false) => read_window(cursor)?,
            (false, true) => read_age(cursor, self.now_ns)?,
            (true, true) => return None,
        };
        Some((bucket, when))
    }
}

/// A window: its start and its length.
#[inline]
pub(super) fn read_window(cursor: &mut Cursor<'_>) -> Option<When> {
    Some(When::Window { start_ms: varint::read(cursor)?, length_ms: varint::read(cursor)? })
}

/// A time, told as an age at `now_ns`. What is older than the clock is as old as it.
#[inline]
pub(super) fn read_age(cursor: &mut Cursor<'_>, now_ns: u64) -> Option<When> {
    let age_ns = varint::read(cursor)?.saturating_mul(MS);
    Some(When::At { ns: now_ns.saturating_sub(age_ns) })
}

/// Bytes of a window or a time.
#[inline]
pub(super) fn when_bytes(when: When, now_ns: u64) -> usize {
    match when {
        When::Untimed => 0,
        When::Window { start_ms, length_ms } => varint::len(start_ms) + varint::len(length_ms),
        When::At { ns } => varint::len(age_ms(ns, now_ns)),
    }
}

/// Appends a window or a time.
#[inline]
pub(super) fn append_when(out: &mut Vec<u8>, when: When, now_ns: u64) {
    match when {
        When::Untimed => {}
        When::Window { start_ms, length_ms } => {
            varint::append(out, start_ms);
            varint::append(out, length_ms);
        }
        When::At { ns } => varint::append(out, age_ms(ns, now_ns)),
    }
}

/// What lies ahead of `now_ns`, by a clock that was read meanwhile, is of now.
fn age_ms(ns: u64, now_ns: u64) -> u64 {
    now_ns.saturating_sub(ns) / MS
}

fn when_flags(when: When) -> u8 {
    match when {
        When::Untimed => 0,
        When::Window { .. } => IN_WINDOW,
        When::At { .. } => AT_TIME,
    }
}

/// Appends as many of `sums` as fit in one frame, from the first on, told at `now_ns`, and gives their
/// number, at least one where there are any: what is left goes into the next. They are a part of the
/// heal `seq`, which follows on the same stream.
pub fn write_timed_sums(out: &mut Vec<u8>, seq: u64, now_ns: u64, sums: &[Sum]) -> usize {
    let sums = &sums[..sums.len().min(HEAL_SUMS_MAX)];
    let bytes = |sum: &Sum| when_bytes(sum.when, now_ns) + varint::signed_len(sum.ticks);
    let bucket = |sum: &Sum| sum.bucket;
    write_list(out, FrameType::TimedSums, seq, sums, (bucket, bytes), |out, sum, same| {
        append_place(out, when_flags(sum.when), sum.bucket, same);
        append_when(out, sum.when, now_ns);
        varint::append_signed(out, sum.ticks);
    })
}

/// Appends as many of `standings` as fit in one frame, from the first on, told at `now_ns`, and gives
/// their number, at least one where there are any: what is left goes into the next. They are a part of
/// the chunk whose range begins at `first`, which follows on the same stream.
pub fn write_timed_standings(
    out: &mut Vec<u8>,
    first: u64,
    now_ns: u64,
    standings: &[Standing],
) -> usize {
    let standings = &standings[..standings.len().min(SNAPSHOT_STANDINGS_MAX)];
    let demand = |standing: &Standing| (standing.others, standing.shift) != (0, 0);
    let bytes = |standing: &Standing| {
        let demand = if demand(standing) { demand_bytes(standing.others) } else { 0 };
        when_bytes(standing.when, now_ns)
            + varint::signed_len(standing.missing)
            + varint::signed_len(standing.charge)
            + demand
    };
    let bucket = |standing: &Standing| standing.bucket;
    let kind = FrameType::TimedStandings;
    write_list(out, kind, first, standings, (bucket, bytes), |out, standing, same| {
        let has_demand = if demand(standing) { HAS_DEMAND } else { 0 };
        append_place(out, when_flags(standing.when) | has_demand, standing.bucket, same);
        append_when(out, standing.when, now_ns);
        varint::append_signed(out, standing.missing);
        varint::append_signed(out, standing.charge);
        if demand(standing) {
            append_demand(out, standing.others, standing.shift);
        }
    })
}

/// Appends a frame of a number and as many of `entries` as fit. `bytes` gives what an entry takes
/// beside flags and bucket, and `append` is told whether the entry before is of the same bucket.
fn write_list<T>(
    out: &mut Vec<u8>,
    frame_type: FrameType,
    number: u64,
    entries: &[T],
    (bucket, bytes): (impl Fn(&T) -> Bucket, impl Fn(&T) -> usize),
    append: impl Fn(&mut Vec<u8>, &T, bool),
) -> usize {
    let mut frame = FrameWriter::new(out, frame_type);
    frame.out().extend_from_slice(&number.to_le_bytes());
    let mut room = frame.room().saturating_sub(COUNT_BYTES_MAX);
    let mut last = None;
    let fitting = entries.iter().take_while(|entry| {
        let own = if last == Some(bucket(entry)) { 0 } else { BUCKET_BYTES };
        last = Some(bucket(entry));
        let left = room.checked_sub(1 + own + bytes(entry));
        room = left.unwrap_or(0);
        left.is_some()
    });
    let count = fitting.count();
    let out = frame.out();
    varint::append(out, count as u64);
    let mut last = None;
    for entry in &entries[..count] {
        append(out, entry, last == Some(bucket(entry)));
        last = Some(bucket(entry));
    }
    frame.finish();
    count
}

fn append_place(out: &mut Vec<u8>, flags: u8, bucket: Bucket, same: bool) {
    if same {
        out.push(flags | SAME_BUCKET);
        return;
    }
    out.push(flags);
    out.extend_from_slice(&bucket.slot.to_le_bytes());
    out.extend_from_slice(&bucket.hash.to_le_bytes());
}
