//! A stranger's client: bytes laid out by hand from `docs/protocol.md`, without our own codec.

use std::collections::HashMap;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;

use crate::support::time::PATIENCE;
use crate::support::{Caller, Config, Node, Surface, process};

const MANUAL: &str = include_str!("../../docs/protocol.md");

/// The limit of the manual's example.
fn node_of_the_manual() -> Node {
    Node::start(&Config::new("[[limit]]\nname = \"per-key\"\nrate = \"10/s\"\nburst = 100\n"))
}

/// The fenced blocks of the manual that begin with `language`.
fn blocks(language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    MANUAL
        .split(&fence)
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap_or_default().to_owned())
        .collect()
}

/// The bytes of a block of hexadecimal digits with remarks.
fn bytes_of(block: &str) -> Vec<u8> {
    block
        .lines()
        .filter_map(|line| line.split('#').next())
        .flat_map(str::split_whitespace)
        .map(|digits| u8::from_str_radix(digits, 16).expect("two digits"))
        .collect()
}

/// One record of a request, by the table.
#[derive(Clone)]
struct Record {
    op: u8,
    flags: u8,
    key: &'static [u8],
    endpoint: &'static [u8],
    attributes: Vec<(&'static [u8], &'static [u8])>,
    costs: Vec<(&'static [u8], u64)>,
    trailing: &'static [u8],
}

impl Record {
    fn check(key: &'static [u8]) -> Self {
        Self {
            op: 1,
            flags: 0,
            key,
            endpoint: b"GET /",
            attributes: Vec::new(),
            costs: Vec::new(),
            trailing: b"",
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut fields = vec![self.op, self.flags];
        fields.extend_from_slice(&[0xff; 4]);
        fields.extend(number::<1>(self.attributes.len()));
        fields.extend(number::<1>(self.costs.len()));
        fields.extend(number::<2>(self.key.len()));
        fields.extend(number::<2>(self.endpoint.len()));
        fields.extend_from_slice(self.key);
        fields.extend_from_slice(self.endpoint);
        for (name, value) in &self.attributes {
            fields.extend(number::<1>(name.len()));
            fields.extend(number::<2>(value.len()));
            fields.extend_from_slice(name);
            fields.extend_from_slice(value);
        }
        for (unit, amount) in &self.costs {
            fields.extend(number::<1>(unit.len()));
            fields.extend_from_slice(&amount.to_le_bytes());
            fields.extend_from_slice(unit);
        }
        fields.extend_from_slice(self.trailing);
        let mut record = number::<2>(2 + fields.len()).to_vec();
        record.extend_from_slice(&fields);
        record
    }
}

/// A number as every field has it: unsigned, little-endian, in `N` bytes.
#[track_caller]
fn number<const N: usize>(value: usize) -> [u8; N] {
    let bytes = value.to_le_bytes();
    let (field, rest) = bytes.split_first_chunk().expect("fields are shorter than a usize");
    assert!(rest.iter().all(|byte| *byte == 0), "{value} does not fit");
    *field
}

/// A whole frame, by the table.
fn frame(version: u8, kind: u8, flags: u16, count: usize, id: u64, body: &[u8]) -> Vec<u8> {
    let mut frame = b"RL".to_vec();
    frame.extend_from_slice(&[version, kind]);
    frame.extend(number::<4>(20 + body.len()));
    frame.extend_from_slice(&id.to_le_bytes());
    frame.extend_from_slice(&flags.to_le_bytes());
    frame.extend(number::<2>(count));
    frame.extend_from_slice(body);
    frame
}

fn request(id: u64, records: &[Record]) -> Vec<u8> {
    let body: Vec<u8> = records.iter().flat_map(Record::bytes).collect();
    frame(1, 1, 0, records.len(), id, &body)
}

/// The error frame with this code, by the table.
fn error(code: u16, id: u64) -> Vec<u8> {
    let [low, high] = code.to_le_bytes();
    frame(1, 3, 0, 0, id, &[low, high, 1, 1])
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The records of a reply frame.
#[track_caller]
fn records_of(reply: &[u8]) -> Vec<Vec<u8>> {
    assert_eq!(&reply[..4], b"RL\x01\x02", "not a reply: {reply:02x?}");
    let length = u32::from_le_bytes(reply[4..8].try_into().expect("four bytes"));
    assert_eq!(length as usize, reply.len());
    let mut rest = &reply[20..];
    let mut records = Vec::new();
    for _ in 0..u16_at(reply, 18) {
        let (record, after) = rest.split_at(usize::from(u16_at(rest, 0)));
        records.push(record.to_vec());
        rest = after;
    }
    records
}

fn exchange(caller: &mut Caller, bytes: &[u8]) -> Vec<u8> {
    caller.send(bytes).expect("it is sent");
    caller.receive().expect("an answer")
}

/// The example of the manual, byte by byte, at every door of frames.
#[test]
fn the_example_of_the_manual_is_true_to_the_byte() {
    let examples: Vec<_> =
        blocks("text").into_iter().filter(|block| block.starts_with("52 4c")).collect();
    let [asked, expected] = &examples[..] else { panic!("a request and its reply") };
    let (asked, expected) = (bytes_of(asked), bytes_of(expected));
    for surface in Surface::FRAMES {
        let node = node_of_the_manual();
        let mut reply = exchange(&mut node.caller(surface), &asked);
        // The date is that of another day: 8 bytes at 32 of the record.
        let date = 20 + 32..20 + 40;
        assert!(u64_at(&reply, date.start) > u64_at(&expected, date.start));
        reply[date.clone()].copy_from_slice(&expected[date]);
        assert_eq!(reply, expected, "{surface:?}");
    }
}

/// The client of the manual, run as it stands, but for the port.
#[test]
fn the_client_of_the_manual_works() {
    let source = blocks("python").pop().expect("a client");
    let node = node_of_the_manual();
    let (shipped, own) =
        ("(\"127.0.0.1\", 7400)", format!("(\"127.0.0.1\", {})", node.udp().port()));
    assert_eq!(source.matches(shipped).count(), 1);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("client.py");
    fs::write(&path, source.replace(shipped, &own)).expect("a file in our own folder");
    if Command::new("python3").arg("--version").output().is_err() {
        process::leave_out("the_client_of_the_manual_works: there is no python3");
        return;
    }
    let mut command = Command::new("python3");
    command.arg(&path).args(["GET /", "alice"]);
    let ended = process::finish(command);
    let printed = "True per-key 99 of 100 retry after 0 ns\n";
    assert_eq!(ended.stdout, printed, "{}", ended.stderr);
    assert!(MANUAL.contains(printed.trim_end()), "the manual says what it prints");
}

/// Attributes, named costs, several checks in a frame, and fields that a later version adds.
#[test]
fn every_field_of_a_request_counts() {
    let node = Node::start(&Config::new(
        "[[limit]]\nname = \"calls\"\nrate = \"10/h\"\n\
         [[limit.override]]\nname = \"pro\"\nattributes = { plan = \"pro\" }\nrate = \"1000/h\"\n\
         [[limit]]\nname = \"volume\"\nunit = \"bytes\"\nrate = \"5000/h\"\n",
    ));
    let plain = Record::check(b"alice");
    let pro = Record { attributes: vec![(b"ip", b"::1"), (b"plan", b"pro")], ..plain.clone() };
    let costly = Record { costs: vec![(b"bytes", 4_000), (b"", 3)], ..plain.clone() };
    let too_costly = Record { costs: vec![(b"bytes", 1_001)], ..plain.clone() };
    let later = Record { trailing: b"from a later version", ..plain.clone() };
    for surface in Surface::FRAMES {
        let node = &node;
        let with_key = |record: &Record| {
            let key: &'static [u8] = surface.door().as_bytes();
            Record { key, ..record.clone() }
        };
        let asked = [&plain, &pro, &costly, &too_costly, &later].map(with_key);
        let reply = exchange(&mut node.caller(surface), &request(77, &asked));
        assert_eq!(u64_at(&reply, 8), 77);
        let told: Vec<_> = records_of(&reply)
            .iter()
            .map(|record| {
                let name = &record[64..64 + usize::from(record[6])];
                let name = String::from_utf8(name.to_vec()).expect("text");
                // Status, flags, reason, freshness.
                (record[2..6].to_vec(), name, u64_at(record, 16))
            })
            .collect();
        let expected = [
            ([0, 1, 0, 4], "calls", 9),
            ([0, 1, 0, 4], "calls/pro", 999),
            // 6 of 10 calls are left, and 1,000 of 5,000 bytes: the smaller part decides.
            ([0, 1, 0, 4], "volume", 1_000),
            ([0, 0, 1, 4], "volume", 1_000),
            ([0, 1, 0, 4], "volume", 1_000),
        ]
        .map(|(start, name, remaining)| (start.to_vec(), name.to_owned(), remaining));
        assert_eq!(told, expected, "{surface:?}");
    }
}

/// Details list every limit that applied, in the order of the file.
#[test]
fn details_list_every_limit() {
    let node = Node::start(&Config::new(
        "[[limit]]\nname = \"first\"\nrate = \"10/h\"\n\
         [[limit]]\nname = \"second\"\nkey = \"*\"\nrate = \"5/h\"\nshadow = true\n",
    ));
    let asked = Record { flags: 1, ..Record::check(b"alice") };
    let reply = exchange(&mut node.caller(Surface::Stream), &request(1, &[asked]));
    let record = &records_of(&reply)[0];
    assert_eq!(record[7], 2, "two details");
    let mut rest = &record[64 + usize::from(record[6])..];
    for (name, flags, limit, left) in [("first", 1, 10, 9), ("second", 3, 5, 4)] {
        let (detail, after) = rest.split_at(usize::from(u16_at(rest, 0)));
        assert_eq!(&detail[48..48 + usize::from(detail[4])], name.as_bytes());
        assert_eq!((detail[2], u64_at(detail, 8), u64_at(detail, 16)), (flags, limit, left));
        rest = after;
    }
    assert!(rest.is_empty());
}

/// What is wrong with one check has its status, and the others of its frame are decided.
#[test]
fn faults_of_one_check_have_their_status() {
    const LONG: [u8; 1_025] = [b'x'; 1_025];
    let node = node_of_the_manual();
    let fine = Record::check(b"alice");
    let twice: Vec<(&[u8], &[u8])> = vec![(b"a", b"1"), (b"a", b"2")];
    let faulty = [
        (1, Record { op: 0, ..fine.clone() }),
        (1, Record { op: 5, ..fine.clone() }),
        (1, Record { op: 255, ..fine.clone() }),
        (2, Record { flags: 2, ..fine.clone() }),
        (3, Record { key: b"", ..fine.clone() }),
        (4, Record { key: &LONG, ..fine.clone() }),
        (5, Record { endpoint: &LONG, ..fine.clone() }),
        (6, Record { attributes: twice, ..fine.clone() }),
        (6, Record { attributes: vec![(b"", b"1")], ..fine.clone() }),
        (6, Record { attributes: vec![(b"a", &LONG[..257])], ..fine.clone() }),
        (7, Record { costs: vec![(b"a", 1), (b"a", 1)], ..fine.clone() }),
        (7, Record { costs: vec![(b"", 1), (b"requests", 1)], ..fine.clone() }),
        (7, Record { costs: vec![(&LONG[..65], 1)], ..fine.clone() }),
    ];
    let mut asked: Vec<Record> = faulty.iter().map(|(_, record)| record.clone()).collect();
    asked.push(fine);
    for (surface, left) in Surface::FRAMES.into_iter().zip((0..100).rev()) {
        let reply = exchange(&mut node.caller(surface), &request(1, &asked));
        let records = records_of(&reply);
        let statuses: Vec<u8> = records.iter().map(|record| record[2]).collect();
        let expected: Vec<u8> = faulty.iter().map(|(status, _)| *status).chain([0]).collect();
        assert_eq!(statuses, expected, "{surface:?}");
        for record in &records[..faulty.len()] {
            assert!(record[3..].iter().all(|byte| *byte == 0), "{record:02x?}");
        }
        let told = u64_at(&records[faulty.len()], 16);
        assert!((left..=99).contains(&told), "{surface:?}: {told}");
    }
}

/// The table of faults of the manual: which error a datagram or message gets, and which gets none.
#[test]
fn faults_of_a_message_are_answered_as_the_manual_says() {
    let node = node_of_the_manual();
    let record = Record::check(b"alice").bytes();
    let mut short = frame(1, 1, 0, 1, 9, &record);
    short[4] += 1;
    let mut long = frame(1, 1, 0, 1, 9, &record);
    long[4..8].copy_from_slice(&70_000_u32.to_le_bytes());
    let cases: [(&str, Vec<u8>, Option<u16>); 13] = [
        ("no header", b"RL\x01".to_vec(), None),
        ("no RL", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), None),
        ("a reply", frame(1, 2, 0, 1, 9, &record), None),
        ("an error", error(1, 9), None),
        ("a reply of another version", frame(2, 2, 0, 1, 9, &record), None),
        ("an unknown kind", frame(1, 4, 0, 1, 9, &record), None),
        ("another version", frame(2, 1, 0, 1, 9, &record), Some(2)),
        ("a length that is not that of the message", short, Some(1)),
        ("a length above the bound", long, Some(4)),
        ("frame flags", frame(1, 1, 0x8000, 1, 9, &record), Some(3)),
        ("no check", frame(1, 1, 0, 0, 9, &record), Some(1)),
        ("257 checks", frame(1, 1, 0, 257, 9, &record.repeat(257)), Some(5)),
        ("a record that is not there", frame(1, 1, 0, 2, 9, &record), Some(1)),
    ];
    for surface in [Surface::Udp, Surface::Seqpacket] {
        let mut caller = node.caller(surface);
        for (what, bytes, code) in &cases {
            caller.send(bytes).expect("it is sent");
            if let Some(code) = code {
                let answer = caller.receive().expect("an answer");
                assert_eq!(answer, error(*code, 9), "{surface:?}: {what}");
            }
            // Whatever came before, the next is answered, and by its own answer.
            let reply = exchange(&mut caller, &request(10, &[Record::check(b"bob")]));
            assert_eq!(u64_at(&reply, 8), 10, "{surface:?} after {what}");
        }
    }
}

/// The same on a stream, where some faults leave no next frame to find.
#[test]
fn faults_on_a_stream_close_it_or_not_as_the_manual_says() {
    let node = node_of_the_manual();
    let record = Record::check(b"alice").bytes();
    let mut short = frame(1, 1, 0, 1, 9, &record);
    short[4..8].copy_from_slice(&19_u32.to_le_bytes());
    let mut long = frame(1, 1, 0, 1, 9, &record);
    long[4..8].copy_from_slice(&65_508_u32.to_le_bytes());
    let goes_on = [
        ("frame flags", frame(1, 1, 1, 1, 9, &record), error(3, 9)),
        ("no check", frame(1, 1, 0, 0, 9, &record), error(1, 9)),
        ("257 checks", frame(1, 1, 0, 257, 9, &record.repeat(257)), error(5, 9)),
        ("a record that is not there", frame(1, 1, 0, 2, 9, &record), error(1, 9)),
    ];
    for (what, bytes, expected) in goes_on {
        let mut caller = node.caller(Surface::Stream);
        assert_eq!(exchange(&mut caller, &bytes), expected, "{what}");
        let reply = exchange(&mut caller, &request(10, &[Record::check(b"bob")]));
        assert_eq!(u64_at(&reply, 8), 10, "after {what}");
    }
    let closes = [
        ("no RL", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), error(1, 0)),
        ("a reply", frame(1, 2, 0, 1, 9, &record), error(1, 9)),
        ("another version", frame(2, 1, 0, 1, 9, &record), error(2, 9)),
        ("a length below the bound", short, error(1, 9)),
        ("a length above the bound", long, error(4, 9)),
    ];
    for (what, bytes, expected) in closes {
        let mut stream = UnixStream::connect(node.stream_path()).expect("the node listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        stream.write_all(&bytes).expect("it is sent");
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Ok(_) => {}
            // The node closes before it has read the rest of what makes no sense.
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{what}"),
        }
        assert_eq!(answer, expected, "{what}");
    }
}

/// Padding is ignored, whatever it is.
#[test]
fn padding_is_ignored() {
    let node = node_of_the_manual();
    for surface in Surface::FRAMES {
        let mut padded = request(3, &[Record::check(b"padded")]);
        padded.resize(213, 0xee);
        padded[4..8].copy_from_slice(&213_u32.to_le_bytes());
        let reply = exchange(&mut node.caller(surface), &padded);
        assert_eq!(records_of(&reply)[0][2..4], [0, 1], "{surface:?}");
    }
}

/// Every door counts every fault.
#[test]
fn every_fault_is_counted_at_its_door() {
    let node = node_of_the_manual();
    let record = Record::check(b"alice").bytes();
    let kinds = HashMap::from([
        ("version", frame(2, 1, 0, 1, 9, &record)),
        ("unknown_flags", frame(1, 1, 1, 1, 9, &record)),
        ("too_many_checks", frame(1, 1, 0, 257, 9, &record.repeat(257))),
        ("malformed", frame(1, 1, 0, 2, 9, &record)),
    ]);
    for surface in Surface::FRAMES {
        for (kind, bytes) in &kinds {
            exchange(&mut node.caller(surface), bytes);
            assert_eq!(node.metrics().errors(surface.door(), kind), 1, "{surface:?}");
        }
    }
}
