//! Reading what a node answers: a reply frame or an error frame.

use limiter::{Freshness, Reason, Wait};

use super::header::{Header, Kind};
use super::{
    ANSWER_ALLOWED, ANSWER_DETAILS_CUT, DETAIL_SHADOW, ErrorCode, FrameError, NO_NUMBER, Status,
};
use crate::cursor::Cursor;

/// A frame from a node.
#[derive(Clone, Copy, Debug)]
pub enum ServerFrame<'a> {
    /// The answers to the checks of one request.
    Reply(Reply<'a>),
    /// One request was refused as a whole, and nothing was charged for it.
    Error {
        /// The request's id; 0 if the node could not read it.
        id: u64,
        /// Why.
        code: ErrorCode,
        /// The lowest and the highest version that the node speaks.
        versions: (u8, u8),
    },
}

/// Reads `bytes`, which must be one whole frame from a node and nothing else.
///
/// # Errors
/// Whatever is wrong with the frame. An error frame is read in any version, because all versions
/// share it.
pub fn decode_reply(bytes: &[u8]) -> Result<ServerFrame<'_>, FrameError> {
    let header = Header::read(bytes)?;
    match header.known_kind()? {
        Kind::Request => Err(FrameError::Kind(header.kind)),
        Kind::Reply => Reply::read(&header, bytes).map(ServerFrame::Reply),
        Kind::Error => {
            let mut body = Cursor::new(header.body(bytes)?);
            let mut fields = || Some((body.u16()?, body.u8()?, body.u8()?));
            let (code, min, max) = fields().ok_or(FrameError::Length(header.length))?;
            let code = ErrorCode::from_u16(code);
            Ok(ServerFrame::Error { id: header.id, code, versions: (min, max) })
        }
    }
}

/// A reply frame whose structure is sound. It borrows from the bytes that it was read from.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The id of the request that it answers.
    pub id: u64,
    count: u16,
    records: &'a [u8],
}

impl<'a> Reply<'a> {
    fn read(header: &Header, bytes: &'a [u8]) -> Result<Self, FrameError> {
        header.check_version()?;
        let records = header.body(bytes)?;
        header.check_flags()?;
        header.bounded_count()?;
        let mut cursor = Cursor::new(records);
        for index in 0..header.count {
            let answer = read_record(&mut cursor).ok_or(FrameError::Record(index))?;
            let is_sound = answer.map_or(true, |answer| {
                answer.details.clone().count() == usize::from(answer.details.left)
            });
            if !is_sound {
                return Err(FrameError::Record(index));
            }
        }
        Ok(Self { id: header.id, count: header.count, records })
    }

    /// Number of answers: 1 to [`CHECKS_MAX`](super::CHECKS_MAX).
    #[expect(clippy::len_without_is_empty, reason = "a frame has at least one answer")]
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// The answers in the order of the request's checks. A check without a decision has a status,
    /// which is an error also where this program does not know it.
    pub fn answers(&self) -> Answers<'a> {
        Answers { left: self.len(), cursor: Cursor::new(self.records) }
    }
}

/// A node's answer to one check: a [`limiter::Decision`] read back.
#[derive(Clone, Debug)]
pub struct Answer<'a> {
    /// The request may go on.
    pub allowed: bool,
    /// The limit that decided, `name` or `name/override`; empty when no limit matched. The numbers
    /// below are its own.
    pub limit_name: &'a str,
    /// Why; none if the node gave a reason newer than this program.
    pub reason: Option<Reason>,
    /// How well the node knows the fleet's counts; none if it gave a word newer than this program.
    pub freshness: Option<Freshness>,
    /// Capacity, in units; none where there is no number.
    pub limit: Option<u64>,
    /// Whole units left after this call; none where there is no number.
    pub remaining: Option<u64>,
    /// Time until the bucket is as if untouched.
    pub reset_after: Wait,
    /// The same as a date, in milliseconds of Unix time; none for never.
    pub reset_at_ms: Option<u64>,
    /// Zero when allowed, else the smallest wait after which the same call would pass if nobody
    /// else called.
    pub retry_after: Wait,
    /// How long the caller must wait before it acts, although allowed.
    pub delay: Wait,
    /// Age of the oldest news from a reachable peer, in milliseconds.
    pub stale_ms: u32,
    /// Some details were left out, so that the frame fits.
    pub details_cut: bool,
    /// Every limit that applied, in the order of the file; empty unless asked for.
    pub details: Details<'a>,
}

/// What one limit said to a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detail<'a> {
    /// `name`, or `name/override`.
    pub limit_name: &'a str,
    /// The request may go on, as far as this limit is concerned.
    pub allowed: bool,
    /// Why; none if the node gave a reason newer than this program.
    pub reason: Option<Reason>,
    /// The limit is counted and reported, but decides nothing.
    pub shadow: bool,
    /// As [`Answer::limit`].
    pub limit: Option<u64>,
    /// As [`Answer::remaining`].
    pub remaining: Option<u64>,
    /// As [`Answer::reset_after`].
    pub reset_after: Wait,
    /// As [`Answer::retry_after`].
    pub retry_after: Wait,
    /// As [`Answer::delay`].
    pub delay: Wait,
}

/// The answers of a frame; see [`Reply::answers`].
#[derive(Clone, Debug)]
pub struct Answers<'a> {
    left: usize,
    cursor: Cursor<'a>,
}

impl<'a> Iterator for Answers<'a> {
    type Item = Result<Answer<'a>, Status>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        read_record(&mut self.cursor)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Answers<'_> {}

/// The details of an answer; see [`Answer::details`].
#[derive(Clone, Debug)]
pub struct Details<'a> {
    left: u8,
    cursor: Cursor<'a>,
}

impl<'a> Iterator for Details<'a> {
    type Item = Detail<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        read_detail(&mut self.cursor)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.left), Some(usize::from(self.left)))
    }
}

impl ExactSizeIterator for Details<'_> {}

/// Takes the next record off `cursor`. Its details are not read yet.
fn read_record<'a>(cursor: &mut Cursor<'a>) -> Option<Result<Answer<'a>, Status>> {
    let mut fields = cursor.sized()?;
    let status = fields.u8()?;
    let flags = fields.u8()?;
    let reason = fields.u8()?;
    let freshness = fields.u8()?;
    let name_len = fields.u8()?;
    let detail_count = fields.u8()?;
    let limit = fields.u64()?;
    let remaining = fields.u64()?;
    let reset_after = fields.u64()?;
    let reset_at_ms = fields.u64()?;
    let retry_after = fields.u64()?;
    let delay = fields.u64()?;
    let stale_ms = fields.u32()?;
    fields.u32()?;
    let limit_name = std::str::from_utf8(fields.bytes(usize::from(name_len))?).ok()?;
    if let Some(status) = Status::from_u8(status) {
        return Some(Err(status));
    }
    Some(Ok(Answer {
        allowed: flags & ANSWER_ALLOWED != 0,
        limit_name,
        reason: Reason::ALL.get(usize::from(reason)).copied(),
        freshness: Freshness::ALL.get(usize::from(freshness)).copied(),
        limit: number(limit),
        remaining: number(remaining),
        reset_after: Wait::from_ns(reset_after),
        reset_at_ms: number(reset_at_ms),
        retry_after: Wait::from_ns(retry_after),
        delay: Wait::from_ns(delay),
        stale_ms,
        details_cut: flags & ANSWER_DETAILS_CUT != 0,
        details: Details { left: detail_count, cursor: fields },
    }))
}

/// Takes the next detail off `cursor`.
fn read_detail<'a>(cursor: &mut Cursor<'a>) -> Option<Detail<'a>> {
    let mut fields = cursor.sized()?;
    let flags = fields.u8()?;
    let reason = fields.u8()?;
    let name_len = fields.u8()?;
    fields.bytes(3)?;
    let limit = fields.u64()?;
    let remaining = fields.u64()?;
    let reset_after = fields.u64()?;
    let retry_after = fields.u64()?;
    let delay = fields.u64()?;
    let limit_name = std::str::from_utf8(fields.bytes(usize::from(name_len))?).ok()?;
    Some(Detail {
        limit_name,
        allowed: flags & ANSWER_ALLOWED != 0,
        reason: Reason::ALL.get(usize::from(reason)).copied(),
        shadow: flags & DETAIL_SHADOW != 0,
        limit: number(limit),
        remaining: number(remaining),
        reset_after: Wait::from_ns(reset_after),
        retry_after: Wait::from_ns(retry_after),
        delay: Wait::from_ns(delay),
    })
}

/// The number that `value` stands for, if it stands for one.
fn number(value: u64) -> Option<u64> {
    (value != NO_NUMBER).then_some(value)
}
