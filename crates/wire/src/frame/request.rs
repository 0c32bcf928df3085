//! Reading a request frame. The structure of all records is proved once; iterating is then cheap.

use limiter::{Attributes, Costs, Op, Request};

use super::header::{Header, Kind};
use super::{CHECK_DETAILS, FrameError, MAX_WAIT_OF_NODE, Status, reply_bytes_max};
use crate::cursor::Cursor;

/// A request frame whose structure is sound: every record, attribute and cost lies where the
/// lengths say. It borrows from the bytes that it was read from.
#[derive(Clone, Copy, Debug)]
pub struct RequestFrame<'a> {
    /// Chosen by the client; the reply carries it back.
    pub id: u64,
    count: u16,
    bytes_len: usize,
    records: &'a [u8],
}

impl<'a> RequestFrame<'a> {
    /// Reads `bytes`, which must be one whole frame and nothing else.
    ///
    /// # Errors
    /// Whatever is wrong with the frame as a whole. What is wrong with a single check is told by
    /// [`RequestFrame::checks`], or by the limiter.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FrameError> {
        let header = Header::read(bytes)?;
        // Before the version: a node that answered a reply or an error of another version could be
        // made to talk for ever with one that does the same.
        if header.known_kind()? != Kind::Request {
            return Err(FrameError::Kind(header.kind));
        }
        header.check_version()?;
        let records = header.body(bytes)?;
        header.check_flags()?;
        header.bounded_count()?;
        let mut cursor = Cursor::new(records);
        for index in 0..header.count {
            let record = Record::read(&mut cursor).ok_or(FrameError::Record(index))?;
            record.check_lists().ok_or(FrameError::Record(index))?;
        }
        Ok(Self { id: header.id, count: header.count, bytes_len: bytes.len(), records })
    }

    /// Number of checks: 1 to [`CHECKS_MAX`](super::CHECKS_MAX).
    #[expect(clippy::len_without_is_empty, reason = "a frame has at least one check")]
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Bytes of the frame, padding included.
    pub fn bytes_len(&self) -> usize {
        self.bytes_len
    }

    /// The frame is at least as long as its reply can be before details. A node that listens on UDP
    /// beyond loopback answers any other with [`ErrorCode::ReplyTooLong`](super::ErrorCode).
    pub fn covers_reply(&self) -> bool {
        self.bytes_len >= reply_bytes_max(self.len())
    }

    /// The checks in the order of the frame, each with a status instead where the node cannot know
    /// what is asked. Keys, endpoints, attributes and costs are as long and as odd as the client
    /// made them: the limiter judges those, and [`Status`] takes its errors.
    pub fn checks(&self) -> Checks<'a> {
        Checks { left: self.len(), cursor: Cursor::new(self.records) }
    }
}

/// One check of a frame.
#[derive(Clone, Debug)]
pub struct Check<'a> {
    /// What is asked.
    pub request: Request<'a>,
    /// Longest time that the check may be held, in microseconds; none: the node's default.
    pub max_wait_us: Option<u32>,
}

/// The checks of a frame; see [`RequestFrame::checks`].
#[derive(Clone, Debug)]
pub struct Checks<'a> {
    left: usize,
    cursor: Cursor<'a>,
}

impl<'a> Iterator for Checks<'a> {
    type Item = Result<Check<'a>, Status>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let record = Record::read(&mut self.cursor)?;
        Some(record.to_check())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Checks<'_> {}

/// A record split at its lengths. The lists are not read yet.
struct Record<'a> {
    op: u8,
    flags: u8,
    max_wait_us: u32,
    attribute_count: u8,
    cost_count: u8,
    key: &'a [u8],
    endpoint: &'a [u8],
    /// Attributes, costs, and whatever a later version put behind them.
    lists: Cursor<'a>,
}

impl<'a> Record<'a> {
    /// Takes the next record off `cursor`.
    #[inline]
    fn read(cursor: &mut Cursor<'a>) -> Option<Self> {
        let mut fields = cursor.sized()?;
        let op = fields.u8()?;
        let flags = fields.u8()?;
        let max_wait_us = fields.u32()?;
        let attribute_count = fields.u8()?;
        let cost_count = fields.u8()?;
        let key_len = fields.u16()?;
        let endpoint_len = fields.u16()?;
        let key = fields.bytes(usize::from(key_len))?;
        let endpoint = fields.bytes(usize::from(endpoint_len))?;
        let lists = fields;
        Some(Self { op, flags, max_wait_us, attribute_count, cost_count, key, endpoint, lists })
    }

    /// None if a list has more than a request can hold, or does not fit into the record.
    fn check_lists(&self) -> Option<()> {
        if usize::from(self.attribute_count) > limiter::ATTRIBUTES_MAX
            || usize::from(self.cost_count) > limiter::COSTS_MAX
        {
            return None;
        }
        let mut lists = self.lists;
        for _ in 0..self.attribute_count {
            read_attribute(&mut lists)?;
        }
        for _ in 0..self.cost_count {
            read_cost(&mut lists)?;
        }
        Some(())
    }

    #[inline]
    fn to_check(&self) -> Result<Check<'a>, Status> {
        let op = match self.op {
            1 => Op::Check,
            2 => Op::Peek,
            3 => Op::Debit,
            4 => Op::Refund,
            _ => return Err(Status::UnsupportedOp),
        };
        if self.flags & !CHECK_DETAILS != 0 {
            return Err(Status::UnknownFlags);
        }
        let mut lists = self.lists;
        let mut attributes = Attributes::new();
        for _ in 0..self.attribute_count {
            attributes.extend(read_attribute(&mut lists));
        }
        let mut costs = Costs::new();
        for _ in 0..self.cost_count {
            costs.extend(read_cost(&mut lists));
        }
        let request = Request {
            op,
            endpoint: self.endpoint,
            key: self.key,
            attributes,
            costs,
            details: self.flags & CHECK_DETAILS != 0,
            terms: None,
        };
        let is_told = self.max_wait_us != MAX_WAIT_OF_NODE;
        Ok(Check { request, max_wait_us: is_told.then_some(self.max_wait_us) })
    }
}

#[inline]
fn read_attribute<'a>(lists: &mut Cursor<'a>) -> Option<(&'a [u8], &'a [u8])> {
    let name_len = lists.u8()?;
    let value_len = lists.u16()?;
    Some((lists.bytes(usize::from(name_len))?, lists.bytes(usize::from(value_len))?))
}

#[inline]
fn read_cost<'a>(lists: &mut Cursor<'a>) -> Option<(&'a [u8], u64)> {
    let unit_len = lists.u8()?;
    let amount = lists.u64()?;
    Some((lists.bytes(usize::from(unit_len))?, amount))
}
