//! Frames of a number, a name or nothing: acknowledgements, the end of a membership, pings, clocks.

use super::codec;
use super::error::{Fault, PeerWriteError};
use super::frame::{FrameType, FrameWriter, ended};
use crate::cursor::Cursor;

/// Appends an acknowledgement to `out`: everything below `next` was received and applied.
pub fn write_ack(out: &mut Vec<u8>, next: u64) {
    write_number(out, FrameType::Ack, next);
}

/// Appends the acknowledgement of the heal `seq` to `out`.
pub fn write_heal_ack(out: &mut Vec<u8>, seq: u64) {
    write_number(out, FrameType::HealAck, seq);
}

/// Appends to `out` that this node stops being a member.
pub fn write_leave(out: &mut Vec<u8>) {
    FrameWriter::new(out, FrameType::Leave).finish();
}

/// Appends a sign of life to `out`.
pub fn write_ping(out: &mut Vec<u8>) {
    FrameWriter::new(out, FrameType::Ping).finish();
}

/// Appends to `out` what this node's wall clock says, in milliseconds of Unix time.
pub fn write_clock(out: &mut Vec<u8>, unix_ms: u64) {
    write_number(out, FrameType::Clock, unix_ms);
}

/// Appends to `out` that the member `name` is gone for good.
///
/// # Errors
/// When the name is empty or too long.
pub fn write_forget(out: &mut Vec<u8>, name: &str) -> Result<(), PeerWriteError> {
    codec::append(out, FrameType::Forget, codec::ForgetBytes::of(name)?)
}

fn write_number(out: &mut Vec<u8>, frame_type: FrameType, number: u64) {
    let mut frame = FrameWriter::new(out, frame_type);
    frame.out().extend_from_slice(&number.to_le_bytes());
    frame.finish();
}

pub(super) fn read_number(payload: &[u8]) -> Result<u64, Fault> {
    let mut cursor = Cursor::new(payload);
    let number = cursor.u64().ok_or(Fault::Malformed)?;
    ended(&cursor)?;
    Ok(number)
}

pub(super) fn read_nothing(payload: &[u8]) -> Result<(), Fault> {
    ended(&Cursor::new(payload))
}
