//! Writing a reply frame.

use limiter::{Decision, Verdict};

use super::header::{FrameWriter, Kind};
use super::{
    ANSWER_ALLOWED, ANSWER_DETAILS_CUT, CHECKS_MAX, DETAIL_BYTES, DETAIL_SHADOW, DETAILS_MAX,
    FRAME_BYTES_MAX, LIMIT_NAME_BYTES_MAX, NO_NUMBER, REPLY_RECORD_BYTES, REPLY_RECORD_BYTES_MAX,
    Status,
};

/// A reply frame being appended to a buffer: one call of [`ReplyWriter::decision`] or
/// [`ReplyWriter::status`] for each check, in their order. Until [`ReplyWriter::finish`] the
/// buffer's tail is no frame.
#[derive(Debug)]
#[must_use = "the frame is not complete before `finish`"]
pub struct ReplyWriter<'b> {
    frame: FrameWriter<'b>,
    checks: usize,
    bytes_max: usize,
}

impl<'b> ReplyWriter<'b> {
    /// Begins a frame for up to [`CHECKS_MAX`] answers behind whatever `out` holds.
    ///
    /// Details get the room that this many answers would leave, 16,079 bytes at least.
    pub fn new(out: &'b mut Vec<u8>, id: u64) -> Self {
        Self::bounded(out, id, CHECKS_MAX, FRAME_BYTES_MAX)
    }

    /// Begins a frame for `checks` answers behind whatever `out` holds, with details only as far as
    /// the frame stays within `bytes_max` bytes.
    ///
    /// `bytes_max` is the request's length on UDP beyond loopback, and [`FRAME_BYTES_MAX`]
    /// elsewhere, which is also its upper bound. Answers without details are written even where it
    /// is below [`reply_bytes_max`](super::reply_bytes_max) of `checks`; whoever must not exceed it
    /// refuses such a request before deciding it.
    pub fn bounded(out: &'b mut Vec<u8>, id: u64, checks: usize, bytes_max: usize) -> Self {
        let bytes_max = bytes_max.min(FRAME_BYTES_MAX);
        Self { frame: FrameWriter::new(out, Kind::Reply, id), checks, bytes_max }
    }

    /// Adds the answer to the next check. `reset_at_ms` is the date of the decision's `reset_after`
    /// in milliseconds of Unix time; none for never.
    pub fn decision(&mut self, decision: &Decision<'_>, reset_at_ms: Option<u64>) {
        let verdict = &decision.verdict;
        let name = bounded_name(verdict.limit_name);
        let mut record = [0; REPLY_RECORD_BYTES];
        record[3] = if verdict.allowed { ANSWER_ALLOWED } else { 0 };
        record[4] = verdict.reason as u8;
        record[5] = decision.freshness as u8;
        record[6] = byte(name.len());
        put(&mut record, 8, verdict.limit.unwrap_or(NO_NUMBER));
        put(&mut record, 16, verdict.remaining.unwrap_or(NO_NUMBER));
        put(&mut record, 24, verdict.reset_after.to_ns());
        put(&mut record, 32, reset_at_ms.unwrap_or(NO_NUMBER));
        put(&mut record, 40, verdict.retry_after.to_ns());
        put(&mut record, 48, verdict.delay.to_ns());
        record[56..60].copy_from_slice(&decision.stale_ms.to_le_bytes());

        let details_end = self.details_end();
        let out = self.frame.out();
        let start = out.len();
        out.extend_from_slice(&record);
        out.extend_from_slice(name.as_bytes());
        let written = append_details(out, &decision.details, details_end);
        if written < decision.details.len() {
            out[start + 3] |= ANSWER_DETAILS_CUT;
        }
        out[start + 7] = byte(written);
        // `DETAILS_MAX` details of the longest names fit: asserted beside the constants.
        let length = u16::try_from(out.len() - start).unwrap_or(u16::MAX);
        out[start..start + 2].copy_from_slice(&length.to_le_bytes());
        self.frame.count_record();
    }

    /// Says of the next check that it was not decided, and why.
    pub fn status(&mut self, status: Status) {
        let mut record = [0; REPLY_RECORD_BYTES];
        record[0] = byte(REPLY_RECORD_BYTES);
        record[2] = status.to_u8();
        self.frame.out().extend_from_slice(&record);
        self.frame.count_record();
    }

    /// Takes what is written so far out of the buffer, for a node that does not know the next answer
    /// yet. The buffer is as it was before the frame.
    pub fn pause(self) -> PausedReply {
        PausedReply { frame: self.frame.pause(), checks: self.checks, bytes_max: self.bytes_max }
    }

    /// Completes the frame. One without answers is taken back from the buffer.
    pub fn finish(self) {
        self.frame.finish();
    }

    /// Where in the buffer the next record's details must end, so that each answer after it still
    /// fits without details.
    fn details_end(&mut self) -> usize {
        let answers_after = self.checks.saturating_sub(self.frame.count() + 1);
        let room = self.bytes_max.saturating_sub(answers_after * REPLY_RECORD_BYTES_MAX);
        let frame_start = self.frame.out().len() - self.frame.len();
        frame_start + room
    }
}

/// A reply frame whose next answer is not known yet.
#[derive(Debug)]
#[must_use = "the frame is not complete before it is resumed and finished"]
pub struct PausedReply {
    frame: (Vec<u8>, u16),
    checks: usize,
    bytes_max: usize,
}

impl PausedReply {
    /// Goes on behind whatever `out` holds.
    pub fn resume(self, out: &mut Vec<u8>) -> ReplyWriter<'_> {
        let Self { frame, checks, bytes_max } = self;
        ReplyWriter { frame: FrameWriter::resume(out, frame), checks, bytes_max }
    }
}

/// Appends as many of `details` as fit before `end`, and gives their number.
fn append_details(out: &mut Vec<u8>, details: &[Verdict<'_>], end: usize) -> usize {
    for (index, verdict) in details.iter().enumerate() {
        let name = bounded_name(verdict.limit_name);
        let length = DETAIL_BYTES + name.len();
        if index == DETAILS_MAX || out.len() + length > end {
            return index;
        }
        let mut detail = [0; DETAIL_BYTES];
        detail[0] = byte(length);
        detail[2] = if verdict.allowed { ANSWER_ALLOWED } else { 0 }
            | if verdict.shadow { DETAIL_SHADOW } else { 0 };
        detail[3] = verdict.reason as u8;
        detail[4] = byte(name.len());
        put(&mut detail, 8, verdict.limit.unwrap_or(NO_NUMBER));
        put(&mut detail, 16, verdict.remaining.unwrap_or(NO_NUMBER));
        put(&mut detail, 24, verdict.reset_after.to_ns());
        put(&mut detail, 32, verdict.retry_after.to_ns());
        put(&mut detail, 40, verdict.delay.to_ns());
        out.extend_from_slice(&detail);
        out.extend_from_slice(name.as_bytes());
    }
    details.len()
}

/// `name`, cut at [`LIMIT_NAME_BYTES_MAX`]. The names of a compiled plan are never longer.
fn bounded_name(name: &str) -> &str {
    &name[..name.floor_char_boundary(LIMIT_NAME_BYTES_MAX)]
}

/// `value`, which a bound of the format keeps within a byte.
fn byte(value: usize) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}

fn put(record: &mut [u8], at: usize, value: u64) {
    record[at..at + 8].copy_from_slice(&value.to_le_bytes());
}
