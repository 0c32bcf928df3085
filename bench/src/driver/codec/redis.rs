//! A token bucket in redis: one `EVALSHA` for each check.

use std::io::Write;

use super::Answered;
use super::resp::{self, Reply};
use crate::keys::Keys;

/// The script in redis and its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    /// `EVALSHA`, the script's digest, and one key.
    before_key: Vec<u8>,
    /// Period, burst and cost.
    after_key: Vec<u8>,
}

impl Bucket {
    /// A bucket of `burst` units that gains one in `period_ms`, by the script of this digest.
    pub(crate) fn new(digest: &str, period_ms: u64, burst: u64) -> Self {
        let mut before_key = b"*8\r\n".to_vec();
        for word in [b"EVALSHA".as_slice(), digest.as_bytes(), b"1"] {
            resp::write_word(&mut before_key, word);
        }
        let mut after_key = Vec::new();
        for number in [period_ms, burst, 1] {
            resp::write_word(&mut after_key, number.to_string().as_bytes());
        }
        Self { before_key, after_key }
    }

    /// A bucket of `burst` units that gains `per_s` in a second. Its times are in microseconds: the
    /// script divides them by each other only, but keeps an idle bucket a thousand times as long.
    pub(crate) fn per_second(digest: &str, per_s: u64, burst: u64) -> Self {
        let mut bucket = Self::new(digest, 0, burst);
        bucket.after_key.clear();
        let period_us = format!("{:.9}", 1e6 / per_s as f64);
        for word in [period_us, burst.to_string(), 1.to_string()] {
            resp::write_word(&mut bucket.after_key, word.as_bytes());
        }
        bucket
    }

    pub(super) fn ask(&self, out: &mut Vec<u8>, keys: &mut Keys, checks: usize, now_ms: u64) {
        for _ in 0..checks {
            self.ask_for(out, &keys.next_key(), now_ms);
        }
    }

    /// Appends a check of `key` at a time in the unit of the bucket's.
    pub(crate) fn ask_for(&self, out: &mut Vec<u8>, key: &[u8], now: u64) {
        // Digits of a 64-bit number at most.
        let mut digits = [0; 20];
        let mut rest = digits.as_mut_slice();
        let written = write!(rest, "{now}");
        debug_assert!(written.is_ok(), "a 64-bit number has at most 20 digits");
        let left = rest.len();
        let now = &digits[..digits.len() - left];
        out.extend_from_slice(&self.before_key);
        resp::write_word(out, key);
        out.extend_from_slice(&self.after_key);
        resp::write_word(out, now);
    }
}

pub(super) fn read(bytes: &[u8], checks: usize) -> Result<Option<Answered>, &'static str> {
    let mut answered = Answered::default();
    for _ in 0..checks {
        let Some((reply, taken)) = resp::read_reply(&bytes[answered.bytes..])? else {
            return Ok(None);
        };
        answered.bytes += taken;
        match reply {
            Reply::List { first: Some(1), .. } => answered.allowed += 1,
            Reply::List { first: Some(0), .. } => answered.denied += 1,
            Reply::Error(_) => answered.failed += 1,
            _ => return Err("it is not what the script returns"),
        }
    }
    Ok(Some(answered))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_is_a_command() {
        let bucket = Bucket::new("abc", 3_600_000, 100);
        let mut out = Vec::new();
        bucket.ask(&mut out, &mut Keys::sequence(0, 10), 2, 1234);
        let mut expected = Vec::new();
        for key in [b"key:0000000000000000", b"key:0000000000000001"] {
            let words: [&[u8]; 8] =
                [b"EVALSHA", b"abc", b"1", key, b"3600000", b"100", b"1", b"1234"];
            resp::write_command(&mut expected, &words);
        }
        assert_eq!(out, expected);
    }

    #[test]
    fn a_rate_that_no_millisecond_divides_is_told_in_microseconds() {
        let mut out = Vec::new();
        Bucket::per_second("abc", 3000, 100).ask_for(&mut out, b"k", 1_234_567);
        let mut expected = Vec::new();
        let words: [&[u8]; 8] =
            [b"EVALSHA", b"abc", b"1", b"k", b"333.333333333", b"100", b"1", b"1234567"];
        resp::write_command(&mut expected, &words);
        assert_eq!(out, expected);
    }

    #[test]
    fn the_answer_is_complete_with_the_last_reply() {
        let bytes = b"*3\r\n:1\r\n:9\r\n:0\r\n*3\r\n:0\r\n:0\r\n:5\r\n-ERR x\r\n".as_slice();
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end], 3), Ok(None));
        }
        let answered = read(bytes, 3).unwrap().unwrap();
        assert_eq!(answered.bytes, bytes.len());
        assert_eq!((answered.allowed, answered.denied, answered.failed), (1, 1, 1));
    }

    #[test]
    fn a_reply_that_the_script_does_not_give_is_refused() {
        assert!(read(b"+OK\r\n", 1).is_err());
        assert!(read(b"*1\r\n:2\r\n", 1).is_err());
    }
}
