//! `ShouldRateLimit` of Envoy's rate limit service over HTTP/2, one call for each question, written by hand
//! as far as a client of one call at a time needs it: it acknowledges nothing, and reads of an answer its
//! overall code.

use super::Answered;
use crate::keys::{KEY_BYTES, Keys};

/// What a connection begins with: the preface, settings that say nothing, and a window that no load fills.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
    \x00\x00\x00\x04\x00\x00\x00\x00\x00\
    \x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\xff\x00\x00";
const PATH: &[u8] = b"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// Name of the one entry of a descriptor; its value is the key.
const ENTRY: &[u8] = b"user";

const FRAME_HEAD_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// Bytes of a message before itself: a flag and its length.
const MESSAGE_HEAD_BYTES: usize = 5;
/// The first field of an answer, a number.
const OVERALL_CODE: u8 = 0x08;
const OK: u8 = 1;
const OVER_LIMIT: u8 = 2;

/// Appends the call with this number, 1 for the first of a connection, about the next key.
pub(super) fn ask(out: &mut Vec<u8>, id: u64, keys: &mut Keys) {
    if id == 1 {
        out.extend_from_slice(PREFACE);
    }
    call(out, id, &message(&keys.next_key()));
}

/// Appends a call with this message, whatever it is.
pub(crate) fn call(out: &mut Vec<u8>, id: u64, message: &[u8]) {
    let stream = u32::try_from(id * 2 - 1).unwrap_or(u32::MAX >> 1);
    // Of the static table: POST and http; then literals that are not remembered.
    let mut headers = vec![0x83, 0x86, 0x04];
    text(&mut headers, PATH);
    headers.push(0x01);
    text(&mut headers, b"rlnode");
    headers.extend_from_slice(&[0x0f, 0x10]);
    text(&mut headers, b"application/grpc");
    headers.push(0x00);
    text(&mut headers, b"te");
    text(&mut headers, b"trailers");
    frame(out, HEADERS, END_HEADERS, stream, &headers);
    let mut data = vec![0, 0, 0, 0, u8::try_from(message.len()).unwrap_or(u8::MAX)];
    data.extend_from_slice(message);
    frame(out, DATA, END_STREAM, stream, &data);
}

/// A request with one descriptor of one entry.
fn message(key: &[u8; KEY_BYTES]) -> Vec<u8> {
    let field = |tag: u8, bytes: &[u8]| {
        let mut field = vec![tag];
        text(&mut field, bytes);
        field
    };
    let entry = [field(0x0a, ENTRY), field(0x12, key)].concat();
    [field(0x0a, b"bench"), field(0x12, &field(0x0a, &entry))].concat()
}

/// Appends a text of fewer than 127 bytes behind its length.
fn text(out: &mut Vec<u8>, text: &[u8]) {
    out.push(u8::try_from(text.len()).unwrap_or(0));
    out.extend_from_slice(text);
}

/// Appends a frame.
pub(crate) fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).unwrap_or(0).to_be_bytes();
    out.extend_from_slice(&length[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// Reads up to the end of the first call that has ended.
pub(super) fn read(bytes: &[u8]) -> Result<Option<Answered>, &'static str> {
    let mut answered = Answered::default();
    let mut code = 0;
    let mut at = 0;
    while let Some(head) = bytes.get(at..at + FRAME_HEAD_BYTES) {
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let (kind, flags) = (head[3], head[4]);
        let stream = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
        at += FRAME_HEAD_BYTES;
        let Some(payload) = bytes.get(at..at + length) else { return Ok(None) };
        at += length;
        match kind {
            DATA => {
                if let Some(&[OVERALL_CODE, overall]) =
                    payload.get(MESSAGE_HEAD_BYTES..MESSAGE_HEAD_BYTES + 2)
                {
                    code = overall;
                }
            }
            GOAWAY => return Err("the node says goodbye"),
            _ => {}
        }
        let has_ended = kind == RST_STREAM || (kind <= HEADERS && flags & END_STREAM != 0);
        if has_ended {
            let count = match code {
                OK => &mut answered.allowed,
                OVER_LIMIT => &mut answered.denied,
                _ => &mut answered.failed,
            };
            *count = 1;
            answered.bytes = at;
            answered.id = Some(u64::from(stream).div_ceil(2));
            return Ok(Some(answered));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(stream: u32, code: u8) -> Vec<u8> {
        let mut bytes = Vec::new();
        frame(&mut bytes, HEADERS, END_HEADERS, stream, &[0x88]);
        frame(&mut bytes, DATA, 0, stream, &[0, 0, 0, 0, 2, OVERALL_CODE, code]);
        frame(&mut bytes, HEADERS, END_HEADERS | END_STREAM, stream, b"x");
        bytes
    }

    #[test]
    fn only_the_first_call_has_the_preface_before_it() {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let mut keys = Keys::sequence(0, 9);
        ask(&mut first, 1, &mut keys);
        ask(&mut second, 2, &mut keys);
        assert!(first.starts_with(PREFACE) && !second.starts_with(PREFACE));
        assert_eq!(first.len(), PREFACE.len() + second.len());
        assert_eq!(second[5..9], 3_u32.to_be_bytes());
        assert!(second.ends_with(b"\x12\x14key:0000000000000001"), "{second:?}");
    }

    #[test]
    fn an_answer_is_complete_with_its_trailers() {
        let mut bytes = Vec::new();
        frame(&mut bytes, 4, 0, 0, b"");
        bytes.extend_from_slice(&answer(5, OVER_LIMIT));
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end]), Ok(None));
        }
        let answered = read(&bytes).unwrap().unwrap();
        assert_eq!((answered.bytes, answered.id, answered.denied), (bytes.len(), Some(3), 1));
        assert_eq!(read(&answer(1, OK)).unwrap().unwrap().allowed, 1);
    }

    #[test]
    fn an_answer_without_a_code_failed_and_a_goodbye_ends_all() {
        let mut bytes = Vec::new();
        frame(&mut bytes, HEADERS, END_HEADERS | END_STREAM, 1, &[0x88]);
        assert_eq!(read(&bytes).unwrap().unwrap().failed, 1);
        let mut bytes = Vec::new();
        frame(&mut bytes, RST_STREAM, 0, 1, &[0, 0, 0, 8]);
        assert_eq!(read(&bytes).unwrap().unwrap().failed, 1);
        let mut bytes = Vec::new();
        frame(&mut bytes, GOAWAY, 0, 0, &[0; 8]);
        assert!(read(&bytes).is_err());
    }
}
