//! The local frame, through the project's own codec.

use limiter::Request;
use wire::{FrameError, RequestWriter, ServerFrame, decode_reply, frame_length};

use super::{Answered, ENDPOINT};
use crate::keys::Keys;

pub(super) fn ask(out: &mut Vec<u8>, id: u64, keys: &mut Keys, checks: usize, is_padded: bool) {
    let mut frame = RequestWriter::new(out, id);
    for _ in 0..checks {
        let key = keys.next_key();
        let written = frame.check(&Request::check(ENDPOINT.as_bytes(), &key), None);
        debug_assert!(written.is_ok(), "the command line bounds the checks of a frame");
    }
    let frame = if is_padded { frame.pad_for_reply() } else { frame };
    frame.finish();
}

pub(super) fn read(bytes: &[u8], checks: usize) -> Result<Option<Answered>, FrameError> {
    let length = match frame_length(bytes)? {
        Some(length) if length <= bytes.len() => length,
        _ => return Ok(None),
    };
    let mut answered = Answered { bytes: length, ..Answered::default() };
    match decode_reply(&bytes[..length])? {
        ServerFrame::Reply(reply) => {
            answered.id = Some(reply.id);
            for answer in reply.answers() {
                match answer {
                    Ok(answer) if answer.allowed => answered.allowed += 1,
                    Ok(_) => answered.denied += 1,
                    Err(_) => answered.failed += 1,
                }
            }
        }
        ServerFrame::Error { id, .. } => {
            answered.id = Some(id);
            answered.failed = checks as u64;
        }
    }
    Ok(Some(answered))
}

#[cfg(test)]
mod tests {
    use wire::{ErrorCode, ReplyWriter, RequestFrame, Status, write_error};

    use super::*;
    use crate::keys::key_text;

    #[test]
    fn a_question_is_a_frame_with_a_check_for_each_key() {
        let mut out = Vec::new();
        ask(&mut out, 7, &mut Keys::sequence(0, 10), 3, false);
        let frame = RequestFrame::decode(&out).unwrap();
        assert_eq!((frame.id, frame.len()), (7, 3));
        for (number, check) in (0..).zip(frame.checks()) {
            let request = check.unwrap().request;
            assert_eq!(request.key, key_text(number));
            assert_eq!(request.endpoint, ENDPOINT.as_bytes());
        }
        assert!(!frame.covers_reply());
    }

    #[test]
    fn a_padded_question_covers_its_reply() {
        let mut out = Vec::new();
        ask(&mut out, 7, &mut Keys::sequence(0, 10), 1, true);
        assert!(RequestFrame::decode(&out).unwrap().covers_reply());
    }

    #[test]
    fn an_answer_that_is_not_complete_is_waited_for() {
        let mut bytes = Vec::new();
        let mut reply = ReplyWriter::new(&mut bytes, 9);
        reply.status(Status::KeyEmpty);
        reply.finish();
        let whole = Answered { bytes: bytes.len(), id: Some(9), failed: 1, ..Answered::default() };
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end], 1), Ok(None));
        }
        bytes.push(b'R');
        assert_eq!(read(&bytes, 1), Ok(Some(whole)));
    }

    #[test]
    fn an_error_frame_fails_every_check_of_its_question() {
        let mut bytes = Vec::new();
        write_error(&mut bytes, 4, ErrorCode::Busy);
        let answered = read(&bytes, 16).unwrap().unwrap();
        assert_eq!((answered.id, answered.failed, answered.allowed), (Some(4), 16, 0));
    }

    #[test]
    fn bytes_that_are_no_frame_are_refused() {
        assert_eq!(read(b"HTTP/1.1 200 OK\r\n", 1), Err(FrameError::Magic));
    }
}
