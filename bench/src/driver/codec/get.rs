//! `GET` of a page from a gateway that asks rlnode about the key in a header. Whether rlnode was asked
//! is seen by the header that its answer leaves in the response.

use super::Answered;
use super::http::{self, Response};
use crate::keys::Keys;

/// Who calls: the header that a gateway takes the key from.
const KEY_HEADER: &str = "X-Api-Key";
/// In every response about which rlnode was asked.
const CHECKED_HEADER: &str = "x-ratelimit-limit";

/// A page, and whether its gateway asks rlnode about it.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// Request line and headers up to the key.
    before_key: Vec<u8>,
    is_checked: bool,
}

impl Page {
    /// The page at `path`. Of one that `is_checked`, a response that passed without an answer of
    /// rlnode counts as failed.
    pub(crate) fn new(path: &str, is_checked: bool) -> Self {
        let text = format!("GET {path} HTTP/1.1\r\nHost: bench\r\n{KEY_HEADER}: ");
        Self { before_key: text.into_bytes(), is_checked }
    }

    pub(super) fn ask(&self, out: &mut Vec<u8>, keys: &mut Keys, checks: usize) {
        for _ in 0..checks {
            out.extend_from_slice(&self.before_key);
            out.extend_from_slice(&keys.next_key());
            out.extend_from_slice(b"\r\n\r\n");
        }
    }

    pub(super) fn read(
        &self,
        bytes: &[u8],
        checks: usize,
    ) -> Result<Option<Answered>, &'static str> {
        let mut answered = Answered::default();
        for _ in 0..checks {
            let Some(response) = http::read_response(&bytes[answered.bytes..])? else {
                return Ok(None);
            };
            answered.bytes += response.bytes;
            *self.count_of(&response, &mut answered) += 1;
        }
        Ok(Some(answered))
    }

    fn count_of<'a>(&self, response: &Response<'_>, answered: &'a mut Answered) -> &'a mut u64 {
        let is_whole = response.has_header(CHECKED_HEADER) == self.is_checked;
        match response.status {
            200 if is_whole => &mut answered.allowed,
            429 if is_whole => &mut answered.denied,
            _ => &mut answered.failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: &str, headers: &str) -> String {
        format!("HTTP/1.1 {status}\r\nServer: nginx\r\n{headers}Content-Length: 3\r\n\r\nok\n")
    }

    #[test]
    fn each_check_is_a_request_with_its_key() {
        let mut out = Vec::new();
        Page::new("/page", true).ask(&mut out, &mut Keys::sequence(0, 9), 2);
        let request = |key: &str| {
            format!(
                "GET /page HTTP/1.1\r\nHost: bench\r\nX-Api-Key: key:000000000000000{key}\r\n\r\n"
            )
        };
        assert_eq!(String::from_utf8(out).unwrap(), request("0") + &request("1"));
    }

    #[test]
    fn a_page_passes_is_denied_or_fails() {
        let checked = "X-RateLimit-Limit: 5\r\n";
        let bytes = [
            response("200 OK", checked),
            response("429 Too Many Requests", checked),
            // It passed because rlnode was silent.
            response("200 OK", ""),
            response("500 Internal Server Error", checked),
        ]
        .concat();
        let page = Page::new("/", true);
        for end in 0..bytes.len() {
            assert_eq!(page.read(&bytes.as_bytes()[..end], 4), Ok(None));
        }
        let answered = page.read(bytes.as_bytes(), 4).unwrap().unwrap();
        assert_eq!((answered.allowed, answered.denied, answered.failed), (1, 1, 2));
        assert_eq!((answered.bytes, answered.id), (bytes.len(), None));
    }

    #[test]
    fn a_page_that_is_not_to_be_checked_fails_where_it_is() {
        let page = Page::new("/", false);
        let read = |bytes: &str| page.read(bytes.as_bytes(), 1).unwrap().unwrap();
        assert_eq!(read(&response("200 OK", "")).allowed, 1);
        assert_eq!(read(&response("200 OK", "x-ratelimit-limit: 5\r\n")).failed, 1);
    }

    #[test]
    fn what_is_no_response_is_refused() {
        assert!(Page::new("/", false).read(b"SSH-2.0-x\r\n\r\n", 1).is_err());
        assert!(Page::new("/", false).read(b"HTTP/1.1 200 OK\r\n\r\n", 1).is_err());
    }
}
