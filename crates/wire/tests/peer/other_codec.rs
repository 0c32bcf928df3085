//! The control messages can be read and written without bincode: by wincode, whose format is meant
//! to be the same. It is what would take bincode's place, and this test says whether it could.

use wincode::config::{Configuration, deserialize, serialize};
use wire::peer::Hello;

use crate::vectors::{self, answer, bytes};
use crate::{head, hello};

/// A hello as its fields follow each other.
type HelloFields = (
    (u16, u16, u64, String, String, String, u64, bool),
    (Vec<String>, u64, Vec<(u64, u64, u64, u64)>, [u8; 16], u64, u32),
);
/// Name, life and next of each position.
type Positions = Vec<(String, u64, u64)>;

fn fields(hello: Hello) -> HelloFields {
    let limits = hello.limits.iter().map(|l| (l.id, l.burst, l.per_ns, l.per_unit)).collect();
    (
        (
            hello.protocol_min,
            hello.protocol_max,
            hello.capabilities,
            hello.cluster,
            hello.region,
            hello.node,
            hello.life,
            hello.synced,
        ),
        (hello.members, hello.members_version, limits, hello.digest, hello.unix_ms, hello.size),
    )
}

/// What wincode makes of `bytes`, of which it must make the same bytes again.
macro_rules! read {
    ($fields:ty, $bytes:expr) => {{
        let bytes: Vec<u8> = $bytes;
        let configuration = Configuration::default().with_varint_encoding();
        let read = deserialize::<$fields, _>(&bytes, configuration).unwrap();
        assert_eq!(serialize(&read, configuration).unwrap(), bytes);
        read
    }};
}

#[test]
fn another_codec_reads_and_writes_every_control_message() {
    let payload = |vector| bytes(vector).split_off(8);
    assert_eq!(read!(HelloFields, payload(vectors::HELLO)), fields(hello()));
    let (cursor, hello) = read!(((u64, u64), HelloFields), payload(vectors::ANSWER));
    assert_eq!(cursor, (answer().cursor.life, answer().cursor.next));
    assert_eq!(hello, fields(answer().hello));
    assert_eq!(read!((u64, u64), payload(vectors::DONE)), (1_000, 5_000_000_000));
    let (refusal, text) = read!((u8, String), payload(vectors::REFUSED));
    assert_eq!((refusal, text.as_str()), (2, "another secret"));
    assert_eq!(read!(String, payload(vectors::FORGET)), "edge-3");

    let positions = read!(Positions, payload(vectors::SNAPSHOT_REQUEST));
    let expected = [("edge-2".to_owned(), 1_000, 7), ("edge-3".to_owned(), 1 << 32, 0)];
    assert_eq!(positions, expected);
    let chunk = payload(vectors::SNAPSHOT_CHUNK);
    type Head = (u64, u64, bool, u64, Positions, u32, Vec<String>);
    let (first, last, end, own_next, cursors, size, members) = read!(Head, chunk[4..42].to_vec());
    assert_eq!((first, last, end, own_next, size), (0, u64::MAX, true, 43, 3));
    assert_eq!(cursors, [("edge-3".to_owned(), 3, 250)]);
    assert_eq!(members, head().members);
}
