//! The redis protocol, version 2, as far as the bench speaks it: commands, and replies that are
//! plain values or one list of them.

use std::io::Write;

/// Longest line of a reply; an error message is the longest there is.
const LINE_BYTES_MAX: usize = 1024;
/// Longest text of a reply.
const TEXT_BYTES_MAX: usize = 4096;
/// Most elements of a list.
const LIST_MAX: usize = 16;

/// A reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply<'a> {
    /// `+OK`, or a text of known length.
    Text(&'a [u8]),
    /// What redis refuses, in its words.
    Error(&'a [u8]),
    /// A number.
    Integer(i64),
    /// Nothing.
    Nil,
    /// A list of plain values, of which the first counts here.
    List {
        /// Its first element, if that is a number.
        first: Option<i64>,
        /// Number of its elements.
        len: usize,
    },
}

/// Appends the command of these words.
pub(crate) fn write_command(out: &mut Vec<u8>, words: &[&[u8]]) {
    let head = write!(out, "*{}\r\n", words.len());
    debug_assert!(head.is_ok(), "a vector takes every write");
    for word in words {
        write_word(out, word);
    }
}

/// Appends one word of a command.
pub(crate) fn write_word(out: &mut Vec<u8>, word: &[u8]) {
    let head = write!(out, "${}\r\n", word.len());
    debug_assert!(head.is_ok(), "a vector takes every write");
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

/// Reads a reply from the front of `bytes`, and how many bytes it takes; none if it is not complete.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn read_reply(bytes: &[u8]) -> Result<Option<(Reply<'_>, usize)>, &'static str> {
    let Some(b'*') = bytes.first() else { return read_value(bytes) };
    let Some((line, mut end)) = read_line(bytes)? else { return Ok(None) };
    let len = match number(line)? {
        -1 => return Ok(Some((Reply::Nil, end))),
        len => usize::try_from(len).ok().filter(|&len| len <= LIST_MAX),
    };
    let len = len.ok_or("a list has too many elements")?;
    let mut first = None;
    for index in 0..len {
        let Some((value, taken)) = read_value(&bytes[end..])? else { return Ok(None) };
        end += taken;
        if let (0, Reply::Integer(number)) = (index, value) {
            first = Some(number);
        }
    }
    Ok(Some((Reply::List { first, len }, end)))
}

/// Reads a value that is no list.
fn read_value(bytes: &[u8]) -> Result<Option<(Reply<'_>, usize)>, &'static str> {
    let Some(kind) = bytes.first() else { return Ok(None) };
    let Some((line, end)) = read_line(bytes)? else { return Ok(None) };
    let reply = match kind {
        b'+' => Reply::Text(line),
        b'-' => Reply::Error(line),
        b':' => Reply::Integer(number(line)?),
        b'$' => return read_text(bytes, line, end),
        b'*' => return Err("a list is in a list"),
        _ => return Err("it begins with no known letter"),
    };
    Ok(Some((reply, end)))
}

/// Reads the text whose length is in `line`, and which begins at `start`.
fn read_text<'a>(
    bytes: &'a [u8],
    line: &[u8],
    start: usize,
) -> Result<Option<(Reply<'a>, usize)>, &'static str> {
    let len = match number(line)? {
        -1 => return Ok(Some((Reply::Nil, start))),
        len => usize::try_from(len).ok().filter(|&len| len <= TEXT_BYTES_MAX),
    };
    let text_end = start + len.ok_or("a text is too long")?;
    let Some(text) = bytes.get(start..text_end + 2) else { return Ok(None) };
    match text.strip_suffix(b"\r\n") {
        Some(text) => Ok(Some((Reply::Text(text), text_end + 2))),
        None => Err("a text does not end where it says"),
    }
}

/// The line that begins after the first byte, and where the next begins.
fn read_line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, &'static str> {
    match bytes.iter().position(|&byte| byte == b'\r') {
        Some(at) if at + 1 == bytes.len() => Ok(None),
        Some(at) if bytes[at + 1] == b'\n' && at > 0 => Ok(Some((&bytes[1..at], at + 2))),
        Some(_) => Err("a line does not end as lines do"),
        None if bytes.len() > LINE_BYTES_MAX => Err("a line is too long"),
        None => Ok(None),
    }
}

fn number(line: &[u8]) -> Result<i64, &'static str> {
    let text = std::str::from_utf8(line).ok();
    text.and_then(|text| text.parse().ok()).ok_or("a number is none")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_a_list_of_words() {
        let mut out = Vec::new();
        write_command(&mut out, &[b"GET", b"a\r\nb", b""]);
        assert_eq!(out, b"*3\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n$0\r\n\r\n");
    }

    #[test]
    fn reads_every_kind_of_reply() {
        for (bytes, reply) in [
            (b"+OK\r\n".as_slice(), Reply::Text(b"OK")),
            (b"-ERR no such thing\r\n", Reply::Error(b"ERR no such thing")),
            (b":-12\r\n", Reply::Integer(-12)),
            (b"$4\r\na\r\nb\r\n", Reply::Text(b"a\r\nb")),
            (b"$-1\r\n", Reply::Nil),
            (b"*-1\r\n", Reply::Nil),
            (b"*0\r\n", Reply::List { first: None, len: 0 }),
            (b"*3\r\n:1\r\n:99\r\n$1\r\nx\r\n", Reply::List { first: Some(1), len: 3 }),
            (b"*2\r\n$1\r\n7\r\n:5\r\n", Reply::List { first: None, len: 2 }),
        ] {
            assert_eq!(read_reply(bytes), Ok(Some((reply, bytes.len()))));
            for end in 0..bytes.len() {
                assert_eq!(read_reply(&bytes[..end]), Ok(None), "{:?}", &bytes[..end]);
            }
            let more = [bytes, b"+OK\r\n"].concat();
            assert_eq!(read_reply(&more), Ok(Some((reply, bytes.len()))));
        }
    }

    #[test]
    fn refuses_what_is_no_reply() {
        for bytes in [
            b"HTTP/1.1 400\r\n".as_slice(),
            b":1x\r\n",
            b"$5\r\nabcdefg\r\n",
            b"$4097\r\n",
            b"$-2\r\n",
            b"*17\r\n",
            b"*1\r\n*1\r\n:1\r\n",
            b"+a\rb",
            &[b'+'; LINE_BYTES_MAX + 1],
        ] {
            assert!(read_reply(bytes).is_err(), "{bytes:?}");
        }
    }
}
