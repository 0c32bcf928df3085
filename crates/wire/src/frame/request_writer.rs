//! Writing a request frame.

use limiter::{Op, Request};

use super::header::{FrameWriter, Kind};
use super::{
    CHECK_DETAILS, CHECKS_MAX, FRAME_BYTES_MAX, HEADER_BYTES, MAX_WAIT_OF_NODE,
    REQUEST_RECORD_BYTES, WriteError, reply_bytes_max,
};

/// A request frame being appended to a buffer. Until [`RequestWriter::finish`] the buffer's tail is
/// no frame.
#[derive(Debug)]
#[must_use = "the frame is not complete before `finish`"]
pub struct RequestWriter<'b> {
    frame: FrameWriter<'b>,
}

impl<'b> RequestWriter<'b> {
    /// Begins a frame behind whatever `out` holds.
    pub fn new(out: &'b mut Vec<u8>, id: u64) -> Self {
        Self { frame: FrameWriter::new(out, Kind::Request, id) }
    }

    /// Checks in the frame so far.
    pub fn checks(&self) -> usize {
        self.frame.count()
    }

    /// Adds a check that may be held for `max_wait_us` microseconds at most; none, like `u32::MAX`,
    /// is the node's default. What the request says is not judged: the node does that.
    ///
    /// # Errors
    /// See [`WriteError`]; the frame is as it was.
    pub fn check(
        &mut self,
        request: &Request<'_>,
        max_wait_us: Option<u32>,
    ) -> Result<(), WriteError> {
        let op = match request.op {
            Op::Check => 1,
            Op::Peek => 2,
            Op::Debit => 3,
            Op::Refund => 4,
            Op::Reset => return Err(WriteError::Op),
        };
        let length = record_bytes(request);
        if length > FRAME_BYTES_MAX - HEADER_BYTES {
            return Err(WriteError::TooLong);
        }
        if self.checks() == CHECKS_MAX || self.frame.len() + length > FRAME_BYTES_MAX {
            return Err(WriteError::Full);
        }
        let mark = self.frame.out().len();
        let written = append_record(self.frame.out(), op, request, length, max_wait_us);
        if written.is_none() {
            self.frame.out().truncate(mark);
            return Err(WriteError::TooLong);
        }
        self.frame.count_record();
        Ok(())
    }

    /// Pads the frame to the length that its reply can have before details, for a node on UDP
    /// beyond loopback. The last call before [`RequestWriter::finish`].
    pub fn pad_for_reply(mut self) -> Self {
        self.frame.pad(reply_bytes_max(self.checks()));
        self
    }

    /// Completes the frame. One without checks is taken back from the buffer.
    pub fn finish(self) {
        self.frame.finish();
    }
}

/// Bytes of the record of `request`.
fn record_bytes(request: &Request<'_>) -> usize {
    let attributes: usize = request.attributes.iter().map(|(n, v)| 3 + n.len() + v.len()).sum();
    let costs: usize = request.costs.iter().map(|(unit, _)| 9 + unit.len()).sum();
    REQUEST_RECORD_BYTES + request.key.len() + request.endpoint.len() + attributes + costs
}

/// Appends a record of `length` bytes; none, with a part of it written, if a name is too long.
fn append_record(
    out: &mut Vec<u8>,
    op: u8,
    request: &Request<'_>,
    length: usize,
    max_wait_us: Option<u32>,
) -> Option<()> {
    let mut record = [0; REQUEST_RECORD_BYTES];
    record[0..2].copy_from_slice(&u16::try_from(length).ok()?.to_le_bytes());
    record[2] = op;
    record[3] = if request.details { CHECK_DETAILS } else { 0 };
    record[4..8].copy_from_slice(&max_wait_us.unwrap_or(MAX_WAIT_OF_NODE).to_le_bytes());
    record[8] = u8::try_from(request.attributes.len()).ok()?;
    record[9] = u8::try_from(request.costs.len()).ok()?;
    record[10..12].copy_from_slice(&u16::try_from(request.key.len()).ok()?.to_le_bytes());
    record[12..14].copy_from_slice(&u16::try_from(request.endpoint.len()).ok()?.to_le_bytes());
    out.extend_from_slice(&record);
    out.extend_from_slice(request.key);
    out.extend_from_slice(request.endpoint);
    for (name, value) in &request.attributes {
        out.push(u8::try_from(name.len()).ok()?);
        out.extend_from_slice(&u16::try_from(value.len()).ok()?.to_le_bytes());
        out.extend_from_slice(name);
        out.extend_from_slice(value);
    }
    for (unit, amount) in &request.costs {
        out.push(u8::try_from(unit.len()).ok()?);
        out.extend_from_slice(&amount.to_le_bytes());
        out.extend_from_slice(unit);
    }
    Some(())
}
