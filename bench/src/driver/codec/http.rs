//! `POST /v1/check` over HTTP/1.1, read only as far as the count of answers needs: the status, the
//! length, and each `allowed`.

use std::io::Write;

use super::{Answered, ENDPOINT};
use crate::keys::{KEY_BYTES, Keys};

/// Longest head of a response; rlnode's are a tenth of this.
const HEAD_BYTES_MAX: usize = 4096;
/// Longest body of a response: 64 decisions with room to spare.
const BODY_BYTES_MAX: usize = 64 * 1024;

const BATCH_OPEN: &str = r#"{"checks":["#;
const BATCH_CLOSE: &str = "]}";

/// The field of a decision that is counted.
const ALLOWED: &str = r#""allowed":"#;

pub(super) fn ask(out: &mut Vec<u8>, keys: &mut Keys, checks: usize) {
    let open = format!(r#"{{"endpoint":"{ENDPOINT}","key":""#);
    let close = r#""}"#;
    let check_bytes = open.len() + KEY_BYTES + close.len();
    let is_batch = checks > 1;
    let framing = if is_batch { BATCH_OPEN.len() + checks - 1 + BATCH_CLOSE.len() } else { 0 };
    let body_bytes = checks * check_bytes + framing;
    let head = write!(
        out,
        "POST /v1/check HTTP/1.1\r\nHost: rlnode\r\nContent-Type: application/json\r\n\
         Content-Length: {body_bytes}\r\n\r\n"
    );
    debug_assert!(head.is_ok(), "a vector takes every write");
    if is_batch {
        out.extend_from_slice(BATCH_OPEN.as_bytes());
    }
    for index in 0..checks {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(open.as_bytes());
        out.extend_from_slice(&keys.next_key());
        out.extend_from_slice(close.as_bytes());
    }
    if is_batch {
        out.extend_from_slice(BATCH_CLOSE.as_bytes());
    }
}

pub(super) fn read(bytes: &[u8], checks: usize) -> Result<Option<Answered>, &'static str> {
    let Some(response) = read_response(bytes)? else { return Ok(None) };
    let mut answered = Answered { bytes: response.bytes, ..Answered::default() };
    if response.status == 200 {
        let body = std::str::from_utf8(response.body).map_err(|_| "its body is not text")?;
        for (at, field) in body.match_indices(ALLOWED) {
            if body[at + field.len()..].starts_with("true") {
                answered.allowed += 1;
            } else {
                answered.denied += 1;
            }
        }
    }
    let decided = answered.allowed + answered.denied;
    answered.failed =
        (checks as u64).checked_sub(decided).ok_or("it answers more checks than were asked")?;
    Ok(Some(answered))
}

/// A complete response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Response<'b> {
    pub(super) status: u16,
    head: &'b str,
    body: &'b [u8],
    /// Of all of it.
    pub(super) bytes: usize,
}

impl Response<'_> {
    /// Whether it has a header of this name.
    pub(super) fn has_header(&self, name: &str) -> bool {
        header(self.head, name).is_some()
    }
}

/// Reads a response from the front of `bytes`; none if it is not complete.
pub(super) fn read_response(bytes: &[u8]) -> Result<Option<Response<'_>>, &'static str> {
    const HEAD_END: &[u8] = b"\r\n\r\n";
    let Some(head_bytes) = bytes.windows(HEAD_END.len()).position(|end| end == HEAD_END) else {
        return if bytes.len() > HEAD_BYTES_MAX { Err("its head has no end") } else { Ok(None) };
    };
    let head = std::str::from_utf8(&bytes[..head_bytes]).map_err(|_| "its head is not text")?;
    let status = status(head)?;
    let body_at = head_bytes + HEAD_END.len();
    let end = body_at + content_length(head)?;
    let Some(body) = bytes.get(body_at..end) else { return Ok(None) };
    Ok(Some(Response { status, head, body, bytes: end }))
}

fn status(head: &str) -> Result<u16, &'static str> {
    let line = head.lines().next().unwrap_or_default();
    let code = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    code.and_then(|code| code.parse().ok()).ok_or("it has no status line")
}

fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let field = fields.find(|(of_field, _)| of_field.eq_ignore_ascii_case(name));
    field.map(|(_, value)| value.trim())
}

fn content_length(head: &str) -> Result<usize, &'static str> {
    let length = header(head, "content-length").and_then(|value| value.parse().ok());
    length.filter(|&bytes| bytes <= BODY_BYTES_MAX).ok_or("it has no content length within bounds")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: &str, body: &str) -> Vec<u8> {
        let length = body.len();
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\ndate: x\r\n\r\n{body}").into()
    }

    fn body_of(request: &[u8]) -> serde_json::Value {
        let text = std::str::from_utf8(request).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert_eq!(content_length(head), Ok(body.len()));
        serde_json::from_str(body).unwrap()
    }

    #[test]
    fn one_check_is_an_object_and_many_are_a_list() {
        let mut out = Vec::new();
        ask(&mut out, &mut Keys::sequence(0, 10), 1);
        let body = body_of(&out);
        assert_eq!(body["key"], "key:0000000000000000");
        assert_eq!(body["endpoint"], ENDPOINT);

        out.clear();
        ask(&mut out, &mut Keys::sequence(0, 10), 3);
        let body = body_of(&out);
        assert_eq!(body["checks"].as_array().map(Vec::len), Some(3));
        assert_eq!(body["checks"][2]["key"], "key:0000000000000002");
    }

    #[test]
    fn counts_what_was_allowed_and_denied() {
        let body = r#"{"decisions":[{"allowed":true,"limit":1},{"allowed":false}]}"#;
        let bytes = response("200 OK", body);
        let answered = read(&bytes, 2).unwrap().unwrap();
        assert_eq!((answered.allowed, answered.denied, answered.failed), (1, 1, 0));
        assert_eq!((answered.bytes, answered.id), (bytes.len(), None));
    }

    #[test]
    fn checks_without_a_decision_failed() {
        let body = r#"{"decisions":[{"allowed":true},{"error":"the key is empty"}]}"#;
        assert_eq!(read(&response("200 OK", body), 2).unwrap().unwrap().failed, 1);
        let refused = response("400 Bad Request", r#"{"detail":"\"allowed\":true"}"#);
        assert_eq!(read(&refused, 2).unwrap().unwrap().failed, 2);
    }

    #[test]
    fn a_response_that_is_not_complete_is_waited_for() {
        let bytes = response("200 OK", r#"{"allowed":true}"#);
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end], 1), Ok(None));
        }
        let two = [bytes.clone(), bytes.clone()].concat();
        assert_eq!(read(&two, 1).unwrap().unwrap().bytes, bytes.len());
    }

    #[test]
    fn refuses_what_it_cannot_count() {
        assert!(read(b"HTTP/1.1 200 OK\r\n\r\n", 1).is_err());
        assert!(read(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n", 1).is_err());
        assert!(read(b"SSH-2.0-x\r\n\r\n", 1).is_err());
        assert!(read(&[b'x'; HEAD_BYTES_MAX + 1], 1).is_err());
        let twice = response("200 OK", r#"[{"allowed":true},{"allowed":true}]"#);
        assert!(read(&twice, 1).is_err());
    }
}
