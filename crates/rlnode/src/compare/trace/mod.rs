//! Traces: files of calls that were made, read call by call in bounded memory.
//!
//! A line that cannot be read is counted and never fatal: logs are cut, rotated and mixed. Nothing here
//! opens a file or decides anything.

mod access;
mod csv;
mod json;
mod moment;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, BufRead, Read};

use limiter::{ATTRIBUTE_VALUE_BYTES_MAX, ENDPOINT_BYTES_MAX, KEY_BYTES_MAX};

use csv::Columns;

/// Longest line that is read, in bytes; a longer one is counted among those that cannot be.
pub const LINE_BYTES_MAX: usize = 64 << 10;
/// Calls that are held to be put in order: servers write a line when a request ends, with the time when it
/// began.
pub const HELD_MAX: usize = 10_000;
/// Lines that cannot be read of which it is told why.
pub const TOLD_MAX: usize = 5;
/// Most characters of such a line that are shown.
const SHOWN_CHARS_MAX: usize = 80;

/// How a compressed file begins.
const COMPRESSED: [&[u8]; 4] =
    [&[0x1f, 0x8b], &[0x28, 0xb5, 0x2f, 0xfd], b"BZh", &[0xfd, b'7', b'z']];

/// A call that was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// When, as Unix time in nanoseconds.
    pub unix_ns: u64,
    /// Who called: 1 to [`KEY_BYTES_MAX`] bytes.
    pub key: Vec<u8>,
    /// What was called, such as `GET /search`; at most [`ENDPOINT_BYTES_MAX`] bytes, empty if it is not
    /// known.
    pub endpoint: Vec<u8>,
    /// What it costs, in units.
    pub cost: u64,
    /// The address of the client, at most [`ATTRIBUTE_VALUE_BYTES_MAX`] bytes; empty if it is not known.
    pub address: Vec<u8>,
}

/// How the lines of a trace are written.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Format {
    /// `time,key,endpoint,cost`.
    Csv(Columns),
    /// Columns of which none is said to be the key, and what to do: no line of them can be read.
    Keyless(String),
    /// Common or combined log of nginx, Apache and others.
    Access,
    /// A JSON object in each line.
    Json,
}

/// What was read of a trace so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines, empty ones and a header among them.
    pub lines: u64,
    /// Calls.
    pub calls: u64,
    /// Lines that could not be read.
    pub unreadable: u64,
    /// The first of them: the number of the line from 1, and why.
    pub told: Vec<(u64, String)>,
    /// Calls that came in another order than that of their time, and were put in order.
    pub reordered: u64,
    /// Calls that came too late for that, and count at the time of the call before.
    pub late: u64,
}

/// A trace being read.
pub struct Trace<R> {
    reader: R,
    /// Which field is the key; none: the usual one.
    key: Option<String>,
    format: Option<Format>,
    line: Vec<u8>,
    held: BinaryHeap<Reverse<(u64, u64, Call)>>,
    newest_ns: u64,
    given_ns: u64,
    is_over: bool,
    counts: Counts,
}

impl<R: BufRead> Trace<R> {
    /// A trace in the bytes of `reader`, in which the field `key` says who calls. How lines are written is
    /// found in the first of them.
    pub fn new(reader: R, key: Option<String>) -> Self {
        Self {
            reader,
            key,
            format: None,
            line: Vec::new(),
            held: BinaryHeap::new(),
            newest_ns: 0,
            given_ns: 0,
            is_over: false,
            counts: Counts::default(),
        }
    }

    /// What was read so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The next call in the order of time; none at the end.
    ///
    /// # Errors
    /// The bytes cannot be read, or are compressed.
    pub fn next_call(&mut self) -> io::Result<Option<Call>> {
        while !self.is_over && self.held.len() < HELD_MAX {
            self.read_line()?;
        }
        let Some(Reverse((unix_ns, _, mut call))) = self.held.pop() else { return Ok(None) };
        if unix_ns < self.given_ns {
            self.counts.late += 1;
            call.unix_ns = self.given_ns;
        }
        self.given_ns = call.unix_ns;
        Ok(Some(call))
    }

    fn read_line(&mut self) -> io::Result<()> {
        self.line.clear();
        let bound = LINE_BYTES_MAX as u64 + 1;
        let read = self.reader.by_ref().take(bound).read_until(b'\n', &mut self.line)?;
        if read == 0 {
            self.is_over = true;
            return Ok(());
        }
        self.counts.lines += 1;
        if self.counts.lines == 1 && COMPRESSED.iter().any(|magic| self.line.starts_with(magic)) {
            let what = "it is compressed; uncompress it into a pipe, as in `zcat FILE | rlnode compare \
                        --trace -`";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        if self.line.len() > LINE_BYTES_MAX {
            self.skip_line()?;
            self.cannot_read(&format!("it is longer than {LINE_BYTES_MAX} bytes"));
            return Ok(());
        }
        let text = String::from_utf8_lossy(&self.line).into_owned();
        let text = text.trim_end_matches(['\n', '\r']).trim_start_matches('\u{feff}');
        if text.trim().is_empty() {
            return Ok(());
        }
        match self.parse(text) {
            Ok(Some(call)) => self.hold(call),
            Ok(None) => {}
            Err(why) => self.cannot_read(&format!("{why}: `{}`", shown(text))),
        }
        Ok(())
    }

    /// Reads on to the end of a line that is too long, and keeps nothing of it.
    fn skip_line(&mut self) -> io::Result<()> {
        while self.line.last() != Some(&b'\n') {
            self.line.clear();
            let bound = LINE_BYTES_MAX as u64;
            if self.reader.by_ref().take(bound).read_until(b'\n', &mut self.line)? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// The call in a line; none in a header.
    fn parse(&mut self, text: &str) -> Result<Option<Call>, String> {
        let key = self.key.as_deref();
        let mut call = match &self.format {
            Some(Format::Csv(columns)) => columns.call(text)?,
            Some(Format::Keyless(why)) => return Err(why.clone()),
            Some(Format::Access) => access::call(text, key)?,
            Some(Format::Json) => json::call(text, key)?,
            None => {
                let (format, call) = begin(text, key)?;
                match (self.format.insert(format), call) {
                    (Format::Keyless(why), _) => return Err(why.clone()),
                    (_, None) => return Ok(None),
                    (_, Some(call)) => call,
                }
            }
        };
        if call.key.is_empty() || call.key.len() > KEY_BYTES_MAX {
            return Err(format!("its key has not 1 to {KEY_BYTES_MAX} bytes"));
        }
        if call.endpoint.len() > ENDPOINT_BYTES_MAX {
            return Err(format!("its endpoint is longer than {ENDPOINT_BYTES_MAX} bytes"));
        }
        // Nobody's address is so long; calls are held, and so every part of one is bounded.
        if call.address.len() > ATTRIBUTE_VALUE_BYTES_MAX {
            call.address = Vec::new();
        }
        Ok(Some(call))
    }

    fn hold(&mut self, call: Call) {
        self.counts.calls += 1;
        self.counts.reordered += u64::from(call.unix_ns < self.newest_ns);
        self.newest_ns = self.newest_ns.max(call.unix_ns);
        // Calls of one time stay in the order of the file.
        self.held.push(Reverse((call.unix_ns, self.counts.calls, call)));
    }

    fn cannot_read(&mut self, why: &str) {
        self.counts.unreadable += 1;
        if self.counts.told.len() < TOLD_MAX {
            self.counts.told.push((self.counts.lines, why.to_owned()));
        }
    }
}

/// How a trace is written that begins with the line `text`, and the call in it.
fn begin(text: &str, key: Option<&str>) -> Result<(Format, Option<Call>), String> {
    if text.trim_start().starts_with('{') {
        return Ok((Format::Json, Some(json::call(text, key)?)));
    }
    match access::call(text, key) {
        Ok(call) => return Ok((Format::Access, Some(call))),
        Err(why) if why != access::NOT_ONE => return Err(why),
        Err(_) => {}
    }
    match Columns::of_header(text, key) {
        Some(Ok(columns)) => return Ok((Format::Csv(columns), None)),
        Some(Err(why)) => return Ok((Format::Keyless(why), None)),
        None => {}
    }
    let columns = Columns::usual(key)?;
    match columns.call(text) {
        Ok(call) => Ok((Format::Csv(columns), Some(call))),
        Err(_) => {
            Err("it is neither a line of an access log, nor JSON, nor `time,key,endpoint,cost`"
                .into())
        }
    }
}

/// `text` for a terminal: short, and without what moves its cursor.
pub(super) fn shown(text: &str) -> String {
    let is_cut = text.chars().count() > SHOWN_CHARS_MAX;
    let printable = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut shown: String = text.chars().take(SHOWN_CHARS_MAX).map(printable).collect();
    if is_cut {
        shown.push('…');
    }
    shown
}

/// What is called, without its query: `GET /search` of the request line `GET /search?q=x HTTP/1.1`.
fn endpoint_of(request: &str) -> String {
    let mut words = request.split(' ').filter(|word| !word.is_empty());
    let (Some(method), Some(target)) = (words.next(), words.next()) else { return String::new() };
    if !method.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return String::new();
    }
    format!("{method} {}", path_of(target))
}

/// The path of a request's target: without query, fragment, scheme and host.
fn path_of(target: &str) -> &str {
    let path = target.split(['?', '#']).next().unwrap_or(target);
    match path.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |slash| &rest[slash..]),
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str, key: Option<&str>) -> (Vec<Call>, Counts) {
        read_bytes(text.as_bytes(), key)
    }

    fn read_bytes(bytes: &[u8], key: Option<&str>) -> (Vec<Call>, Counts) {
        let mut trace = Trace::new(bytes, key.map(ToOwned::to_owned));
        let mut calls = Vec::new();
        while let Some(call) = trace.next_call().expect("bytes can be read") {
            calls.push(call);
        }
        (calls, trace.counts().clone())
    }

    fn seconds(calls: &[Call]) -> Vec<u64> {
        calls.iter().map(|call| call.unix_ns / 1_000_000_000).collect()
    }

    #[test]
    fn the_three_ways_of_writing_are_told_apart_by_the_first_line() {
        let csv = "1,alice,GET /a,3\n2,bob\n";
        let access = "192.0.2.1 - - [01/Dec/2026:00:00:00 +0000] \"GET /a?b HTTP/1.1\" 200 5\n";
        let json = "{\"time\":\"2026-12-01T00:00:00Z\",\"remote_addr\":\"192.0.2.1\",\
                    \"request\":\"GET /a?b HTTP/1.1\"}\n";
        let (calls, counts) = read(csv, None);
        assert_eq!((calls.len(), counts.unreadable), (2, 0));
        assert_eq!((calls[0].endpoint.as_slice(), calls[0].cost), (&b"GET /a"[..], 3));
        for text in [access, json] {
            let (calls, counts) = read(text, None);
            assert_eq!(counts.unreadable, 0, "{text}: {counts:?}");
            let want = Call {
                unix_ns: 1_796_083_200_000_000_000,
                key: b"192.0.2.1".to_vec(),
                endpoint: b"GET /a".to_vec(),
                cost: 1,
                address: b"192.0.2.1".to_vec(),
            };
            assert_eq!(calls, [want]);
        }
    }

    #[test]
    fn lines_that_cannot_be_read_are_counted_and_the_first_are_told() {
        let mut text = String::from("1,a\n\nrubbish\n2,\n3,a,/x,many\n");
        text.push_str(&"x\n".repeat(10));
        text.push_str("4,b\n");
        let (calls, counts) = read(&text, None);
        assert_eq!(seconds(&calls), [1, 4]);
        assert_eq!((counts.lines, counts.calls, counts.unreadable), (16, 2, 13));
        assert_eq!(counts.told.len(), TOLD_MAX);
        let (line, why) = &counts.told[0];
        assert_eq!((*line, why.contains("`rubbish`")), (3, true), "{why}");
        assert!(counts.told[1].1.contains("key"), "{counts:?}");
        assert!(counts.told[2].1.contains("cost"), "{counts:?}");
    }

    #[test]
    fn calls_are_put_in_order_and_those_of_one_time_stay_in_theirs() {
        let (calls, counts) = read("5,a\n3,b\n3,c\n4,d\n", None);
        let keys: Vec<_> = calls.iter().map(|call| call.key.as_slice()).collect();
        assert_eq!(
            (keys, counts.reordered, counts.late),
            (vec![&b"b"[..], b"c", b"d", b"a"], 3, 0)
        );
    }

    #[test]
    fn a_call_beyond_what_is_held_counts_at_the_time_of_the_one_before() {
        let mut text: String = (0..=HELD_MAX).map(|call| format!("{},a\n", 1_000 + call)).collect();
        text.push_str("7,late\n");
        let (calls, counts) = read(&text, None);
        assert_eq!((counts.reordered, counts.late, calls.len()), (1, 1, HELD_MAX + 2));
        let late = calls.iter().find(|call| call.key == b"late").expect("it counts");
        assert_eq!(late.unix_ns, 1_001_000_000_000);
        assert!(calls.is_sorted_by_key(|call| call.unix_ns));
    }

    #[test]
    fn a_line_without_an_end_takes_no_memory_and_the_next_is_read() {
        let mut bytes = b"1,a\n".to_vec();
        bytes.extend(vec![b'x'; 5 * LINE_BYTES_MAX]);
        bytes.extend(b"\n2,b\n");
        let (calls, counts) = read_bytes(&bytes, None);
        assert_eq!((seconds(&calls), counts.unreadable, counts.lines), (vec![1, 2], 1, 3));
        let exact = [b"3,".to_vec(), vec![b'k'; LINE_BYTES_MAX - 3], b"\n4,b\n".to_vec()].concat();
        let (calls, counts) = read_bytes(&exact, None);
        assert_eq!((seconds(&calls), counts.lines), (vec![4], 2), "a key is shorter");
    }

    /// Columns in an order that is not the usual one would be taken for each other.
    #[test]
    fn nothing_is_read_below_a_header_without_the_key() {
        for key in [None, Some("user")] {
            let (calls, counts) = read("time,cost,client\n1,5,alice\n2,5,bob\n", key);
            assert_eq!((calls.len(), counts.unreadable, counts.lines), (0, 3, 3), "{calls:?}");
            assert!(counts.told[0].1.contains("`--key NAME`"), "{counts:?}");
        }
    }

    #[test]
    fn a_log_whose_first_lines_lack_the_key_is_one() {
        let line = |user| {
            format!("192.0.2.1 - {user} [01/Dec/2026:00:00:00 +0000] \"GET / HTTP/1.1\" 200 5\n")
        };
        let text = [line("-"), line("alice")].concat();
        let (calls, counts) = read(&text, Some("user"));
        assert_eq!((calls.len(), calls[0].key.as_slice()), (1, &b"alice"[..]));
        assert!(counts.told[0].1.starts_with("it has no user: "), "{counts:?}");
        let (_, counts) = read(&text, Some("cookie"));
        assert!(counts.told[0].1.contains("an access log has no field `cookie`"), "{counts:?}");
    }

    #[test]
    fn every_part_of_a_call_that_is_held_is_bounded() {
        let long = "x".repeat(ATTRIBUTE_VALUE_BYTES_MAX + 1);
        let access =
            format!("{long} - alice [01/Dec/2026:00:00:00 +0000] \"GET / HTTP/1.1\" 200 5\n");
        let json = format!("{{\"time\":5,\"user\":\"alice\",\"remote_addr\":\"{long}\"}}\n");
        for text in [access, json] {
            let (calls, counts) = read(&text, Some("user"));
            assert_eq!((calls.len(), counts.unreadable), (1, 0), "{counts:?}");
            assert_eq!((calls[0].key.as_slice(), calls[0].address.len()), (&b"alice"[..], 0));
        }
    }

    #[test]
    fn a_compressed_file_is_refused_with_what_to_do() {
        let mut trace = Trace::new(&[0x1f, 0x8b, 8, 0][..], None);
        let error = trace.next_call().expect_err("no text");
        assert!(error.to_string().contains("zcat"), "{error}");
    }

    #[test]
    fn endpoints_have_no_query_and_no_host() {
        for (request, endpoint) in [
            ("GET /a/b?c=d#e HTTP/1.1", "GET /a/b"),
            ("GET http://x.example/a?b HTTP/1.1", "GET /a"),
            ("GET http://x.example HTTP/1.1", "GET /"),
            ("OPTIONS * HTTP/1.0", "OPTIONS *"),
            ("\\x16\\x03\\x01", ""),
            ("-", ""),
            ("", ""),
        ] {
            assert_eq!(endpoint_of(request), endpoint, "{request}");
        }
    }

    proptest! {
        #[test]
        fn any_lines_are_read_to_their_end_and_come_out_in_order(
            first in 0_usize..3,
            lines in proptest::collection::vec("[0-9a-zA-Z\\[\\]{}\":,.+/ -]{0,60}", 0..20),
        ) {
            let begins = [
                "5,a",
                "::1 - - [01/Dec/2026:00:00:00 +0000] \"GET / HTTP/1.1\" 200 5",
                "{\"time\":5,\"key\":\"a\"}",
            ];
            let (calls, counts) = read(&format!("{}\n{}\n", begins[first], lines.join("\n")), None);
            prop_assert!(calls.is_sorted_by_key(|call| call.unix_ns));
            prop_assert_eq!(counts.calls, calls.len() as u64);
            prop_assert!(counts.calls >= 1 && counts.calls + counts.unreadable <= counts.lines);
        }
    }
}
