//! From replies to bytes.

/// Which version of the protocol a client understands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RespVersion {
    /// RESP2, as every client begins.
    #[default]
    V2,
    /// RESP3.
    V3,
}

/// Appends replies to a buffer.
#[derive(Debug)]
pub struct RespWriter<'o> {
    out: &'o mut Vec<u8>,
    version: RespVersion,
}

impl<'o> RespWriter<'o> {
    /// A writer that appends to `out` what a client of `version` understands.
    pub fn new(out: &'o mut Vec<u8>, version: RespVersion) -> Self {
        Self { out, version }
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.push(kind);
        // A line cannot hold its own end: what a client sent may come back in it.
        self.out.extend(text.iter().map(|byte| if b"\r\n".contains(byte) { b' ' } else { *byte }));
        self.out.extend_from_slice(b"\r\n");
    }

    fn number_line(&mut self, kind: u8, number: i64) {
        self.line(kind, number.to_string().as_bytes());
    }

    /// A short word, such as `OK`.
    pub fn word(&mut self, word: &str) {
        self.line(b'+', word.as_bytes());
    }

    /// An error: its kind in capitals, a space, and what to do.
    pub fn error(&mut self, text: &str) {
        self.line(b'-', text.as_bytes());
    }

    /// A whole number.
    pub fn integer(&mut self, number: i64) {
        self.number_line(b':', number);
    }

    /// A whole number, cut to what the protocol holds.
    pub fn unsigned(&mut self, number: u64) {
        self.integer(i64::try_from(number).unwrap_or(i64::MAX));
    }

    /// Bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.number_line(b'$', i64::try_from(bytes.len()).unwrap_or(i64::MAX));
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Nothing.
    pub fn null(&mut self) {
        match self.version {
            RespVersion::V2 => self.out.extend_from_slice(b"$-1\r\n"),
            RespVersion::V3 => self.out.extend_from_slice(b"_\r\n"),
        }
    }

    /// Yes or no; in RESP2 1 or 0.
    pub fn boolean(&mut self, is: bool) {
        match self.version {
            RespVersion::V2 => self.integer(i64::from(is)),
            RespVersion::V3 => self.line(b'#', if is { b"t" } else { b"f" }),
        }
    }

    /// The beginning of a list of `count`.
    pub fn array(&mut self, count: usize) {
        self.number_line(b'*', i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// The beginning of a map of `count` pairs; in RESP2 a list of names and values.
    pub fn map(&mut self, count: usize) {
        let (kind, count) = match self.version {
            RespVersion::V2 => (b'*', count.saturating_mul(2)),
            RespVersion::V3 => (b'%', count),
        };
        self.number_line(kind, i64::try_from(count).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(version: RespVersion) -> String {
        let mut out = Vec::new();
        let mut writer = RespWriter::new(&mut out, version);
        writer.word("OK");
        writer.error("ERR a\r\nb");
        writer.integer(-1);
        writer.unsigned(u64::MAX);
        writer.bulk(b"a\r\n");
        writer.null();
        writer.boolean(true);
        writer.array(2);
        writer.map(2);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn each_version_has_its_forms() {
        let both = "+OK\r\n-ERR a  b\r\n:-1\r\n:9223372036854775807\r\n$3\r\na\r\n\r\n";
        assert_eq!(written(RespVersion::V2), format!("{both}$-1\r\n:1\r\n*2\r\n*4\r\n"));
        assert_eq!(written(RespVersion::V3), format!("{both}_\r\n#t\r\n*2\r\n%2\r\n"));
    }
}
