//! The local frame, version 1: many checks in one message, their answers in one message back.
//!
//! One frame is one UDP datagram, one seqpacket message, or a stretch of a stream that
//! [`frame_length`] finds. A node reads with [`RequestFrame`] and writes with [`ReplyWriter`] and
//! [`write_error`]; a client writes with [`RequestWriter`] and reads with [`decode_reply`]. The byte
//! tables stand in `docs/protocol.md`. Nothing here decides, waits or sends.

mod error;
mod header;
mod reply;
mod reply_writer;
mod request;
mod request_writer;

pub use error::{ErrorCode, FrameError, Status, WriteError, write_error};
pub use header::{frame_id, frame_length};
pub use reply::{Answer, Answers, Detail, Details, Reply, ServerFrame, decode_reply};
pub use reply_writer::{PausedReply, ReplyWriter};
pub use request::{Check, Checks, RequestFrame};
pub use request_writer::RequestWriter;

/// The version that this crate reads and writes.
pub const VERSION: u8 = 1;
/// Bytes of the header that every frame begins with.
pub const HEADER_BYTES: usize = 20;
/// Bytes of an error frame.
pub const ERROR_BYTES: usize = HEADER_BYTES + 4;
/// Longest frame: the largest UDP payload over IPv4, so that every frame fits every door.
pub const FRAME_BYTES_MAX: usize = 65_507;
/// Most checks in one frame, so that the reply to any request fits in a frame.
pub const CHECKS_MAX: usize = 256;
/// Longest name of a limit in a reply: `name/override`.
pub const LIMIT_NAME_BYTES_MAX: usize = 2 * limiter::NAME_BYTES_MAX + 1;
/// Longest record of a reply that carries no details.
pub const REPLY_RECORD_BYTES_MAX: usize = REPLY_RECORD_BYTES + LIMIT_NAME_BYTES_MAX;

/// Bytes of a request's record before its key.
const REQUEST_RECORD_BYTES: usize = 14;
/// Bytes of a reply's record before the limit's name.
const REPLY_RECORD_BYTES: usize = 64;
/// Bytes of a detail before the limit's name.
const DETAIL_BYTES: usize = 48;
/// Most details in one record: their count is one byte.
const DETAILS_MAX: usize = u8::MAX as usize;

/// Bit of a request record's flags: the answer shall list every limit that applied.
const CHECK_DETAILS: u8 = 1 << 0;
/// Bit of a reply record's or detail's flags.
const ANSWER_ALLOWED: u8 = 1 << 0;
/// Bit of a reply record's flags: some details were left out, so that the frame fits.
const ANSWER_DETAILS_CUT: u8 = 1 << 1;
/// Bit of a detail's flags: the limit is counted but decides nothing.
const DETAIL_SHADOW: u8 = 1 << 1;

/// Wait of a request record that leaves the choice to the node.
const MAX_WAIT_OF_NODE: u32 = u32::MAX;
/// Value of a reply's field that has no number; for a wait it is [`limiter::Wait::NEVER`].
const NO_NUMBER: u64 = u64::MAX;

const _: () = assert!(reply_bytes_max(CHECKS_MAX) <= FRAME_BYTES_MAX);
const _: () = assert!(LIMIT_NAME_BYTES_MAX <= u8::MAX as usize);
const _: () = assert!(
    REPLY_RECORD_BYTES_MAX + DETAILS_MAX * (DETAIL_BYTES + LIMIT_NAME_BYTES_MAX)
        <= u16::MAX as usize
);

/// Bytes that the reply to `checks` checks can take before details.
///
/// A node that listens on UDP beyond loopback refuses a request that is shorter, so that a forged
/// sender is never sent more than the forger spent. Details fill only what is left.
pub const fn reply_bytes_max(checks: usize) -> usize {
    HEADER_BYTES + checks * REPLY_RECORD_BYTES_MAX
}
