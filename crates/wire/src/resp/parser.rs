//! From bytes to commands.

use std::fmt;

use arrayvec::ArrayVec;

/// Most arguments of a command, its name included.
pub const ARGUMENTS_MAX: usize = 64;
/// Longest argument, in bytes.
pub const ARGUMENT_BYTES_MAX: usize = 4_096;
/// Longest command, in bytes: a reader that has so many and no whole command is refused.
pub const COMMAND_BYTES_MAX: usize = 64 * 1024;

/// Longest line that gives a number, in bytes, its end included: a kind, twenty digits, two bytes.
const NUMBER_LINE_BYTES_MAX: usize = 32;

/// A command: its name and what follows it.
pub type Arguments<'a> = ArrayVec<&'a [u8], ARGUMENTS_MAX>;

/// What the first bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "it lives on the stack of one call, and a box is slower"
)]
pub enum Parsed<'a> {
    /// The beginning of a command.
    Incomplete,
    /// A command, and how many bytes it took. Without arguments it asks nothing and gets no reply.
    Command(Arguments<'a>, usize),
}

/// What no command begins with. The connection cannot go on: nobody knows where the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RespError {
    /// The number of arguments is none, or above [`ARGUMENTS_MAX`].
    Count,
    /// An argument does not begin with `$`.
    Kind(u8),
    /// The length of an argument is none, or above [`ARGUMENT_BYTES_MAX`].
    Length,
    /// An argument is longer than it says.
    End,
    /// The command is longer than [`COMMAND_BYTES_MAX`].
    TooLong,
}

impl fmt::Display for RespError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count => write!(f, "invalid multibulk length (at most {ARGUMENTS_MAX})"),
            Self::Kind(byte) => write!(f, "expected '$', got '{}'", byte.escape_ascii()),
            Self::Length => write!(f, "invalid bulk length (at most {ARGUMENT_BYTES_MAX})"),
            Self::End => f.write_str("an argument does not end where it should"),
            Self::TooLong => write!(f, "the command is longer than {COMMAND_BYTES_MAX} bytes"),
        }
    }
}

impl std::error::Error for RespError {}

/// Reads the command that `bytes` begin with: an array of bulk strings, or a line of words.
///
/// # Errors
/// See [`RespError`].
pub fn parse(bytes: &[u8]) -> Result<Parsed<'_>, RespError> {
    let parsed = match bytes.first() {
        None => return Ok(Parsed::Incomplete),
        Some(b'*') => array(bytes)?,
        Some(_) => inline(bytes)?,
    };
    let is_too_long = match &parsed {
        Parsed::Incomplete => bytes.len() >= COMMAND_BYTES_MAX,
        Parsed::Command(_, length) => *length > COMMAND_BYTES_MAX,
    };
    if is_too_long { Err(RespError::TooLong) } else { Ok(parsed) }
}

fn array(bytes: &[u8]) -> Result<Parsed<'_>, RespError> {
    let (mut arguments, mut at) = (Arguments::new(), 1);
    let Some(count) = number(bytes, &mut at, RespError::Count)? else {
        return Ok(Parsed::Incomplete);
    };
    // An empty array and the array that is none ask nothing.
    let count = usize::try_from(count.max(0)).map_err(|_| RespError::Count)?;
    if count > ARGUMENTS_MAX {
        return Err(RespError::Count);
    }
    for _ in 0..count {
        match bytes.get(at) {
            None => return Ok(Parsed::Incomplete),
            Some(b'$') => at += 1,
            Some(other) => return Err(RespError::Kind(*other)),
        }
        let Some(length) = number(bytes, &mut at, RespError::Length)? else {
            return Ok(Parsed::Incomplete);
        };
        let length = usize::try_from(length).map_err(|_| RespError::Length)?;
        if length > ARGUMENT_BYTES_MAX {
            return Err(RespError::Length);
        }
        let end = at + length;
        match bytes.get(end..end + 2) {
            None => return Ok(Parsed::Incomplete),
            Some(b"\r\n") => arguments.push(bytes.get(at..end).unwrap_or_default()),
            Some(_) => return Err(RespError::End),
        }
        at = end + 2;
    }
    Ok(Parsed::Command(arguments, at))
}

/// The whole number up to the end of the line, which `at` is moved past; none: the line has no end yet.
fn number(bytes: &[u8], at: &mut usize, error: RespError) -> Result<Option<i64>, RespError> {
    let rest = bytes.get(*at..).unwrap_or_default();
    let Some(end) = rest.iter().take(NUMBER_LINE_BYTES_MAX).position(|byte| *byte == b'\n') else {
        return if rest.len() >= NUMBER_LINE_BYTES_MAX { Err(error) } else { Ok(None) };
    };
    let line = rest.get(..end).unwrap_or_default();
    let digits = line.strip_suffix(b"\r").ok_or(error)?;
    let is_plain = digits.first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-');
    let text = std::str::from_utf8(digits).ok().filter(|_| is_plain);
    let number = text.and_then(|text| text.parse().ok()).ok_or(error)?;
    *at += end + 1;
    Ok(Some(number))
}

fn inline(bytes: &[u8]) -> Result<Parsed<'_>, RespError> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
        return Ok(Parsed::Incomplete);
    };
    let line = bytes.get(..end).unwrap_or_default();
    let mut arguments = Arguments::new();
    for word in line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()) {
        if word.len() > ARGUMENT_BYTES_MAX {
            return Err(RespError::Length);
        }
        arguments.try_push(word).map_err(|_| RespError::Count)?;
    }
    Ok(Parsed::Command(arguments, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command<'a>(arguments: &[&'a [u8]], length: usize) -> Parsed<'a> {
        Parsed::Command(arguments.iter().copied().collect(), length)
    }

    #[test]
    fn an_array_is_read_whatever_is_in_it() {
        let bytes = b"*3\r\n$4\r\nPING\r\n$0\r\n\r\n$3\r\n\r\n\0\r\n*1";
        assert_eq!(parse(bytes), Ok(command(&[b"PING", b"", b"\r\n\0"], 29)));
        for length in 0..29 {
            assert_eq!(parse(&bytes[..length]), Ok(Parsed::Incomplete), "{length}");
        }
    }

    #[test]
    fn a_line_of_words_is_a_command() {
        assert_eq!(parse(b"PING  a\tb\r\nX"), Ok(command(&[b"PING", b"a", b"b"], 11)));
        assert_eq!(parse(b"PING\n"), Ok(command(&[b"PING"], 5)));
        assert_eq!(parse(b"\r\n"), Ok(command(&[], 2)));
        assert_eq!(parse(b"PING"), Ok(Parsed::Incomplete));
    }

    #[test]
    fn an_empty_array_asks_nothing() {
        assert_eq!(parse(b"*0\r\n"), Ok(command(&[], 4)));
        assert_eq!(parse(b"*-1\r\n"), Ok(command(&[], 5)));
    }

    #[test]
    fn lengths_that_lie_are_refused_before_they_are_believed() {
        for (bytes, error) in [
            (&b"*65\r\n"[..], RespError::Count),
            (b"*9223372036854775808\r\n", RespError::Count),
            (b"*x\r\n", RespError::Count),
            (b"*\r\n", RespError::Count),
            (b"*+1\r\n", RespError::Count),
            (b"*1\n$4\r\nPING\r\n", RespError::Count),
            (b"*1\r\n:4\r\n", RespError::Kind(b':')),
            (b"*1\r\n$-1\r\n", RespError::Length),
            (b"*1\r\n$4097\r\n", RespError::Length),
            (b"*1\r\n$1x\r\n", RespError::Length),
            (b"*1\r\n$1\r\nab\r\n", RespError::End),
            (b"*00000000000000000000000000000000000", RespError::Count),
        ] {
            assert_eq!(parse(bytes), Err(error), "{}", bytes.escape_ascii());
        }
        assert_eq!(parse(&[b'x'; COMMAND_BYTES_MAX]), Err(RespError::TooLong));
        assert_eq!(parse(&[b'x'; COMMAND_BYTES_MAX - 1]), Ok(Parsed::Incomplete));
        let many = [&b"*64\r\n"[..], &b"$4096\r\n"[..]].concat();
        assert_eq!(parse(&many), Ok(Parsed::Incomplete));
        let words = b"x ".repeat(65);
        assert_eq!(parse(&[&words[..], b"\r\n"].concat()), Err(RespError::Count));
    }
}
