//! `CL.THROTTLE` of rlnode's Redis door: one command for each check, pipelined.

use super::Answered;
use super::resp::{self, Reply};
use crate::keys::Keys;

/// The limit that the command brings: a burst that no load uses up, and a unit that comes back in an hour.
const BURST: &[u8] = b"1000000";
const COUNT: &[u8] = b"1";
const PERIOD_S: &[u8] = b"3600";

pub(super) fn ask(out: &mut Vec<u8>, keys: &mut Keys, checks: usize) {
    for _ in 0..checks {
        let key = keys.next_key();
        resp::write_command(out, &[b"CL.THROTTLE", &key, BURST, COUNT, PERIOD_S]);
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
            Reply::List { first: Some(0), len: 5 } => answered.allowed += 1,
            Reply::List { first: Some(1), len: 5 } => answered.denied += 1,
            Reply::Error(_) => answered.failed += 1,
            _ => return Err("it is no answer to CL.THROTTLE"),
        }
    }
    Ok(Some(answered))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_is_a_command() {
        let (mut out, mut expected) = (Vec::new(), Vec::new());
        ask(&mut out, &mut Keys::sequence(0, 9), 1);
        let words: [&[u8]; 5] =
            [b"CL.THROTTLE", b"key:0000000000000000", b"1000000", b"1", b"3600"];
        resp::write_command(&mut expected, &words);
        assert_eq!(out, expected);
    }

    #[test]
    fn the_first_number_is_one_where_it_was_denied() {
        let bytes =
            b"*5\r\n:0\r\n:9\r\n:8\r\n:-1\r\n:2\r\n*5\r\n:1\r\n:9\r\n:0\r\n:4\r\n:2\r\n-ERR x\r\n";
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end], 3), Ok(None));
        }
        let answered = read(bytes, 3).unwrap().unwrap();
        assert_eq!((answered.allowed, answered.denied, answered.failed), (1, 1, 1));
        assert!(read(b"+OK\r\n", 1).is_err() && read(b"*1\r\n:0\r\n", 1).is_err());
    }
}
