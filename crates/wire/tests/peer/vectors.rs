//! Frozen bytes of every frame. A change of one of these is a change of the protocol.

use limiter::{About, Act, Bucket, Delta, Given, Holds, Rate, Standing, Subject, Sum, Terms, When};
use wire::peer::{
    Answer, BatchFrame, BatchWriter, CreditsOf, Cursor, Done, Hello, LimitNumbers, PeerFrame,
    Position, Refusal, SnapshotRequest, peer_frame_length, write_ack, write_acts, write_answer,
    write_clock, write_credits, write_done, write_forget, write_heal, write_heal_ack, write_hello,
    write_leave, write_limits, write_ping, write_refused, write_snapshot_chunk,
    write_snapshot_request, write_terms, write_timed_standings, write_timed_sums,
};

use crate::{
    HASH, LIFE, MINUTE, MINUTE_BEFORE, NOW_NS, ago, delta, frame, head, hello, names, position,
    rewritten, standing, sum,
};

pub(crate) const HELLO: &str = include_str!("vectors/hello.hex");
pub(crate) const ANSWER: &str = include_str!("vectors/answer.hex");
pub(crate) const DONE: &str = include_str!("vectors/done.hex");
pub(crate) const REFUSED: &str = include_str!("vectors/refused.hex");
pub(crate) const BATCH: &str = include_str!("vectors/batch.hex");
pub(crate) const BATCH_OF_LATER_VERSION: &str = include_str!("vectors/batch_of_later_version.hex");
pub(crate) const BATCH_TIMED: &str = include_str!("vectors/batch_timed.hex");
pub(crate) const ACK: &str = include_str!("vectors/ack.hex");
pub(crate) const HEAL: &str = include_str!("vectors/heal.hex");
pub(crate) const HEAL_ACK: &str = include_str!("vectors/heal_ack.hex");
pub(crate) const SNAPSHOT_REQUEST: &str = include_str!("vectors/snapshot_request.hex");
pub(crate) const SNAPSHOT_CHUNK: &str = include_str!("vectors/snapshot_chunk.hex");
pub(crate) const LEAVE: &str = include_str!("vectors/leave.hex");
pub(crate) const FORGET: &str = include_str!("vectors/forget.hex");
pub(crate) const PING: &str = include_str!("vectors/ping.hex");
pub(crate) const TIMED_SUMS: &str = include_str!("vectors/timed_sums.hex");
pub(crate) const TIMED_STANDINGS: &str = include_str!("vectors/timed_standings.hex");
pub(crate) const CREDITS: &str = include_str!("vectors/credits.hex");
pub(crate) const LIMITS: &str = include_str!("vectors/limits.hex");
pub(crate) const TERMS: &str = include_str!("vectors/terms.hex");
pub(crate) const ACTS: &str = include_str!("vectors/acts.hex");
pub(crate) const CLOCK: &str = include_str!("vectors/clock.hex");

/// One of each type at least, as this version writes them.
pub(crate) const WRITTEN: [&str; 21] = [
    HELLO,
    ANSWER,
    DONE,
    REFUSED,
    BATCH,
    BATCH_TIMED,
    ACK,
    HEAL,
    HEAL_ACK,
    SNAPSHOT_REQUEST,
    SNAPSHOT_CHUNK,
    LEAVE,
    FORGET,
    PING,
    TIMED_SUMS,
    TIMED_STANDINGS,
    CLOCK,
    ACTS,
    LIMITS,
    TERMS,
    CREDITS,
];

/// The bytes of a vector: hexadecimal, `#` begins a comment.
pub(crate) fn bytes(vector: &str) -> Vec<u8> {
    vector
        .lines()
        .flat_map(|line| line.split('#').next().unwrap_or("").split_whitespace())
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}

/// What `write` appends.
fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

/// The answer of the vector.
pub(crate) fn answer() -> Answer {
    let hello = Hello {
        protocol_min: 1,
        protocol_max: 2,
        capabilities: 3,
        cluster: "edge".to_owned(),
        region: String::new(),
        node: "edge-2".to_owned(),
        life: 1_000,
        synced: false,
        members: Vec::new(),
        members_version: 0,
        limits: Vec::new(),
        digest: [0xff; 16],
        unix_ms: 0,
        size: 3,
    };
    Answer { hello, cursor: Cursor { life: LIFE, next: 42 } }
}

/// The deltas of the vector of a batch.
fn deltas() -> [Delta; 3] {
    [
        Delta { demand: 512, ..delta(0, HASH, 3) },
        Delta { reserved: true, level: Some(-70), ..delta(258, 1, -1) },
        Delta { demand: u32::MAX, shift: 40, level: Some(0), ..delta(65_534, u64::MAX, 1_000_000) },
    ]
}

#[test]
fn a_hello_has_the_bytes_of_its_vector() {
    let vector = bytes(HELLO);
    assert_eq!(written(|out| write_hello(out, &hello()).unwrap()), vector);
    let PeerFrame::Hello(read) = frame(&vector) else { panic!("no hello") };
    assert_eq!(read, hello());
}

#[test]
fn an_answer_has_the_bytes_of_its_vector() {
    let vector = bytes(ANSWER);
    assert_eq!(written(|out| write_answer(out, &answer()).unwrap()), vector);
    let PeerFrame::Answer(read) = frame(&vector) else { panic!("no answer") };
    assert_eq!(read, answer());
}

#[test]
fn the_end_of_a_handshake_has_the_bytes_of_its_vector() {
    let vector = bytes(DONE);
    let done = Done { cursor: Cursor { life: 1_000, next: 5_000_000_000 } };
    assert_eq!(written(|out| write_done(out, done)), vector);
    let PeerFrame::Done(read) = frame(&vector) else { panic!("no done") };
    assert_eq!(read, done);
}

#[test]
fn a_refusal_has_the_bytes_of_its_vector() {
    let vector = bytes(REFUSED);
    assert_eq!(written(|out| write_refused(out, Refusal::Secret, "another secret")), vector);
    let PeerFrame::Refused(read) = frame(&vector) else { panic!("no refusal") };
    assert_eq!((read.refusal, read.text.as_str()), (Refusal::Secret, "another secret"));
}

#[test]
fn a_batch_has_the_bytes_of_its_vector() {
    let vector = bytes(BATCH);
    let batch = written(|out| {
        let mut writer = BatchWriter::new(out, 41, NOW_NS);
        assert_eq!(writer.spends(&deltas()), 3);
        writer.finish();
    });
    assert_eq!(batch, vector);
    let PeerFrame::Batch(read) = frame(&vector) else { panic!("no batch") };
    assert_eq!((read.seq, read.skipped, read.deltas(NOW_NS).len()), (41, 0, 3));
    assert_eq!(read.deltas(NOW_NS).collect::<Vec<_>>(), deltas());
}

#[test]
fn sections_of_a_later_version_are_skipped_and_counted() {
    let vector = bytes(BATCH_OF_LATER_VERSION);
    let PeerFrame::Batch(read) = frame(&vector) else { panic!("no batch") };
    let BatchFrame { seq, skipped, .. } = read;
    assert_eq!((seq, skipped), (44, 2));
    let expected = [delta(1, 2, 2), Delta { reserved: true, ..delta(3, 4, 5) }];
    assert_eq!(read.deltas(NOW_NS).len(), 2);
    assert_eq!(read.deltas(NOW_NS).collect::<Vec<_>>(), expected);
}

#[test]
fn a_batch_of_windows_and_logs_has_the_bytes_of_its_vector() {
    let vector = bytes(BATCH_TIMED);
    let timed = |when: When, delta: Delta| Delta { when, ..delta };
    let later = When::Window { start_ms: 1_700_000_100_000, length_ms: 60_000 };
    // In any order: the deltas of one kind keep theirs.
    let [level, old, new, log_old, log_new] = [
        delta(0, HASH, 2),
        timed(MINUTE, Delta { demand: 256, ..delta(1, 2, 3) }),
        timed(later, delta(1, 2, 1)),
        timed(ago(1_500), delta(2, 3, 5)),
        timed(ago(0), delta(2, 3, 1)),
    ];
    let batch = written(|out| {
        let mut writer = BatchWriter::new(out, 45, NOW_NS);
        assert_eq!(writer.spends(&[log_old, old, level, log_new, new]), 5);
        writer.finish();
    });
    assert_eq!(batch, vector);
    let PeerFrame::Batch(read) = frame(&vector) else { panic!("no batch") };
    assert_eq!((read.seq, read.skipped, read.deltas(NOW_NS).len()), (45, 0, 5));
    let expected = [level, old, new, log_old, log_new];
    assert_eq!(read.deltas(NOW_NS).collect::<Vec<_>>(), expected);
}

#[test]
fn a_time_is_told_as_whole_milliseconds_of_age_and_read_by_the_readers_clock() {
    let written_at = |ns: u64| {
        written(|out| {
            let mut writer = BatchWriter::new(out, 1, NOW_NS);
            assert_eq!(writer.spends(&[Delta { when: When::At { ns }, ..delta(1, 2, 3) }]), 1);
            writer.finish();
        })
    };
    let read_at = |bytes: &[u8], now_ns: u64| {
        let PeerFrame::Batch(read) = frame(bytes) else { panic!("no batch") };
        read.deltas(now_ns).next().unwrap().when
    };
    // Rather too young than too old: 2,999,999 ns are 2 ms.
    let aged = written_at(NOW_NS - 2_999_999);
    assert_eq!(read_at(&aged, 7_000_000), When::At { ns: 5_000_000 });
    assert_eq!(read_at(&aged, 2_000_001), When::At { ns: 1 });
    assert_eq!(read_at(&aged, 1_000_000), When::At { ns: 0 }, "older than the reader's clock");
    // A time ahead of the clock is now.
    assert_eq!(read_at(&written_at(NOW_NS + 1), 7), When::At { ns: 7 });
    let oldest = written_at(0);
    assert_eq!(read_at(&oldest, NOW_NS), When::At { ns: 0 });
}

#[test]
fn timed_sums_have_the_bytes_of_their_vector() {
    let vector = bytes(TIMED_SUMS);
    let timed = |when: When, sum: Sum| Sum { when, ..sum };
    let sums = [
        timed(MINUTE, sum(1, 2, 7)),
        timed(MINUTE_BEFORE, sum(1, 2, 300)),
        timed(ago(31_250), sum(2, 3, 4)),
    ];
    assert_eq!(written(|out| assert_eq!(write_timed_sums(out, 43, NOW_NS, &sums), 3)), vector);
    let PeerFrame::TimedSums(read) = frame(&vector) else { panic!("no timed sums") };
    assert_eq!((read.seq, read.len()), (43, 3));
    assert_eq!(read.sums(NOW_NS).collect::<Vec<_>>(), sums);
}

#[test]
fn timed_standings_have_the_bytes_of_their_vector() {
    let vector = bytes(TIMED_STANDINGS);
    let timed = |when: When, standing: Standing| Standing { when, ..standing };
    let standings = [
        timed(MINUTE, Standing { others: 512, shift: 3, ..standing(1, 2, 40, -2) }),
        timed(MINUTE_BEFORE, standing(1, 2, 100, 0)),
        timed(ago(899_000), standing(2, 3, 1, 0)),
        timed(ago(20), standing(2, 3, 4, 1)),
    ];
    let bytes = written(|out| assert_eq!(write_timed_standings(out, 0, NOW_NS, &standings), 4));
    assert_eq!(bytes, vector);
    let PeerFrame::TimedStandings(read) = frame(&vector) else { panic!("no timed standings") };
    assert_eq!((read.first, read.len()), (0, 4));
    assert_eq!(read.standings(NOW_NS).collect::<Vec<_>>(), standings);
}

#[test]
fn a_clock_has_the_bytes_of_its_vector() {
    assert_eq!(written(|out| write_clock(out, 1_700_000_000_000)), bytes(CLOCK));
    assert!(matches!(frame(&bytes(CLOCK)), PeerFrame::Clock { unix_ms: 1_700_000_000_000 }));
}

#[test]
fn acknowledgements_have_the_bytes_of_their_vectors() {
    assert_eq!(written(|out| write_ack(out, 42)), bytes(ACK));
    assert!(matches!(frame(&bytes(ACK)), PeerFrame::Ack { next: 42 }));
    assert_eq!(written(|out| write_heal_ack(out, 43)), bytes(HEAL_ACK));
    assert!(matches!(frame(&bytes(HEAL_ACK)), PeerFrame::HealAck { seq: 43 }));
}

#[test]
fn a_heal_has_the_bytes_of_its_vector() {
    let vector = bytes(HEAL);
    let sums = [sum(0, HASH, 300_000_000), sum(1, 2, -5)];
    assert_eq!(written(|out| assert_eq!(write_heal(out, (43, 42), true, &sums), 2)), vector);
    let PeerFrame::Heal(read) = frame(&vector) else { panic!("no heal") };
    assert_eq!((read.seq, read.upto, read.last, read.sums().len()), (43, 42, true, 2));
    assert_eq!(read.sums().collect::<Vec<_>>(), sums);
}

#[test]
fn a_snapshot_request_has_the_bytes_of_its_vector() {
    let vector = bytes(SNAPSHOT_REQUEST);
    let positions = vec![position("edge-2", 1_000, 7), position("edge-3", 1 << 32, 0)];
    let request = SnapshotRequest { positions };
    assert_eq!(written(|out| write_snapshot_request(out, &request).unwrap()), vector);
    let PeerFrame::SnapshotRequest(read) = frame(&vector) else { panic!("no request") };
    assert_eq!(read, request);
}

#[test]
fn a_chunk_of_a_snapshot_has_the_bytes_of_its_vector() {
    let vector = bytes(SNAPSHOT_CHUNK);
    let mut standings = [standing(0, HASH, 300_000_000, 0), standing(1, 3, -1, 150)];
    standings[0].others = 512;
    standings[1].shift = 3;
    let chunk = written(|out| write_snapshot_chunk(out, &head(), &standings).unwrap());
    assert_eq!(chunk, vector);
    let PeerFrame::SnapshotChunk(read) = frame(&vector) else { panic!("no chunk") };
    assert_eq!(read.head, head());
    assert_eq!(read.standings().len(), 2);
    assert_eq!(read.standings().collect::<Vec<_>>(), standings);
}

#[test]
fn the_end_of_a_membership_has_the_bytes_of_its_vectors() {
    assert_eq!(written(write_leave), bytes(LEAVE));
    assert!(matches!(frame(&bytes(LEAVE)), PeerFrame::Leave));
    assert_eq!(written(|out| write_forget(out, "edge-3").unwrap()), bytes(FORGET));
    assert!(matches!(frame(&bytes(FORGET)), PeerFrame::Forget { name: "edge-3" }));
}

#[test]
fn a_ping_has_the_bytes_of_its_vector() {
    assert_eq!(written(write_ping), bytes(PING));
    assert!(matches!(frame(&bytes(PING)), PeerFrame::Ping));
}

#[test]
fn every_vector_says_its_length_and_is_written_again_as_it_was_read() {
    for vector in WRITTEN {
        let vector = bytes(vector);
        assert_eq!(peer_frame_length(vector.first_chunk().unwrap()), Ok(vector.len()));
        assert_eq!(rewritten(&frame(&vector)), vector);
    }
}

#[test]
fn a_frame_is_written_behind_what_the_buffer_holds() {
    for vector in WRITTEN {
        let vector = bytes(vector);
        let mut out = rewritten(&frame(&vector));
        let first = out.len();
        out.extend(rewritten(&frame(&vector)));
        assert_eq!(out[first..], vector);
    }
    let mut out = b"before".to_vec();
    BatchWriter::new(&mut out, 41, NOW_NS).finish();
    write_ping(&mut out);
    assert_eq!(out[..6], *b"before");
    assert_eq!(peer_frame_length(out[6..14].try_into().unwrap()), Ok(16));
    assert_eq!(out[22..], bytes(PING));
}

#[test]
fn a_set_of_members_has_one_list_however_it_was_kept() {
    let shuffled = names(&["edge-3", "edge-1", "edge-2", "edge-3"]);
    let hello = Hello { members: shuffled, ..hello() };
    assert_eq!(written(|out| write_hello(out, &hello).unwrap()), bytes(HELLO));
}

#[test]
fn the_protocol_document_explains_every_byte_of_the_vectors_that_it_shows() {
    let document = include_str!("../../../../docs/peer-protocol.md");
    for vector in
        [HELLO, BATCH, HEAL, BATCH_TIMED, TIMED_SUMS, TIMED_STANDINGS, ACTS, LIMITS, TERMS, CREDITS]
    {
        let rows = vector.lines().skip(1).collect::<Vec<_>>().join("\n");
        assert!(document.contains(&rows), "docs/peer-protocol.md lacks:\n{rows}");
    }
}

#[test]
fn the_protocol_document_lists_every_type_with_its_bound_and_every_refusal() {
    let document = include_str!("../../../../docs/peer-protocol.md");
    for vector in WRITTEN {
        let frame_type = bytes(vector)[0];
        let is_taken = |kib: u32| {
            let [a, b, c, d] = (kib << 10).to_le_bytes();
            peer_frame_length(&[frame_type, 0, 0, 0, a, b, c, d]).is_ok()
        };
        let kib = [4 << 10, 256, 64, 1].into_iter().find(|kib| is_taken(*kib)).unwrap();
        let bound = if kib == 4 << 10 { "4 MiB".to_owned() } else { format!("{kib} KiB") };
        let row = |line: &&str| line.starts_with(&format!("| `{frame_type:02x}` |"));
        let row = document.lines().find(row).unwrap();
        assert!(row.ends_with(&format!("| {bound} |")), "{row}");
    }
    for refusal in Refusal::ALL {
        let row = format!("| {} | `{}` |", refusal.to_u8(), refusal.as_str());
        assert!(document.contains(&row), "{row}");
    }
}

#[test]
fn acts_are_written_and_read() {
    let of = |about, version, holds| Act { about, version, holds };
    let ban = |subject| About::Ban(subject);
    let acts = [
        of(
            ban(Subject::Key(b"alice".to_vec())),
            1 << 16,
            Some(Holds { for_ns: Some(1_000_000_000), given: None }),
        ),
        of(ban(Subject::Network("10.0.0.0/8".parse().unwrap())), (1 << 16) + 1, None),
        of(
            About::Override { rule: 1, hash: 2 },
            (1 << 16) + 2,
            Some(Holds {
                for_ns: None,
                given: Some((
                    b"bob".to_vec(),
                    Given::Level { count: 5, period_ns: 1_000, burst: 10 },
                )),
            }),
        ),
    ];
    assert_eq!(written(|out| assert_eq!(write_acts(out, &acts), 3)), bytes(ACTS));
    let PeerFrame::Acts(read) = frame(&bytes(ACTS)) else { panic!("other than acts") };
    assert_eq!(read, acts);
    // A kind of a later version is skipped, and so is what a later version appends to a known one.
    let mut later = bytes(ACTS);
    later.extend([3, 0, 9]);
    later[8] = 4;
    later[10] += 1;
    later.insert(10 + 18, 7);
    let frame_of = crate::mended(later);
    let PeerFrame::Acts(read) = frame(&frame_of) else { panic!("other than acts") };
    assert_eq!(read, acts);
}

#[test]
fn changed_limits_and_terms_are_written_and_read() {
    let limit = LimitNumbers { id: 42, burst: 10, per_ns: 1, per_unit: 1_000_000_000 };
    assert_eq!(written(|out| write_limits(out, 4_097, true, &[limit])), bytes(LIMITS));
    let PeerFrame::Limits(read) = frame(&bytes(LIMITS)) else { panic!("other than limits") };
    assert_eq!((read.first, read.is_last, &read.limits[..]), (4_097, true, &[limit][..]));
    let terms = Terms { rate: Rate { count: 30, period_ns: 60_000_000_000 }, burst: 15 };
    assert_eq!(written(|out| assert_eq!(write_terms(out, &[(17, terms)]), 1)), bytes(TERMS));
    let PeerFrame::Terms(read) = frame(&bytes(TERMS)) else { panic!("other than terms") };
    assert_eq!(read.terms, [(17, terms)]);
}

#[test]
fn credits_are_written_and_read() {
    let positions = [Position { name: "edge-2".to_owned(), life: 5, next: 7 }];
    let credits = [(Bucket { slot: 3, hash: 17 }, 0)];
    let of = CreditsOf::Spends(9);
    let vector = bytes(CREDITS);
    let write = |out: &mut Vec<u8>| assert_eq!(write_credits(out, of, &positions, &credits), 1);
    assert_eq!(written(write), vector);
    let PeerFrame::Credits(read) = frame(&vector) else { panic!("other than credits") };
    assert_eq!((read.of, &read.positions[..]), (of, &positions[..]));
    assert_eq!(read.credits().collect::<Vec<_>>(), credits);
}
