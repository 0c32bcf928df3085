//! Every bound, met and passed.

use limiter::{Delta, MEMBERS_MAX, Standing, Sum, When};
use wire::peer::{
    BATCH_BYTES_MAX, BatchWriter, HEAL_SUMS_MAX, Hello, LIMITS_MAX, LimitNumbers,
    PEER_FRAME_BYTES_MAX, PEER_NAME_BYTES_MAX, PeerFrame, PeerFrameError, PeerWriteError, Position,
    REFUSED_TEXT_BYTES_MAX, Refusal, SHIFT_MAX, SMALL_FRAME_BYTES_MAX, SNAPSHOT_REQUEST_BYTES_MAX,
    SNAPSHOT_STANDINGS_MAX, SnapshotHead, SnapshotRequest, decode_peer, peer_frame_length,
    write_forget, write_heal, write_hello, write_refused, write_snapshot_chunk,
    write_snapshot_request, write_timed_standings, write_timed_sums,
};

use crate::{
    MINUTE, NOW_NS, ago, bucket, delta, fault, frame, framed, head, hello, mended, position,
    standing, sum,
};

/// The longest name, ending in `index`.
fn longest_name(index: usize) -> String {
    format!("{index:0>PEER_NAME_BYTES_MAX$}")
}

fn longest_names(count: usize) -> Vec<String> {
    (0..count).map(longest_name).collect()
}

fn longest_positions(count: usize) -> Vec<Position> {
    (0..count).map(|index| position(&longest_name(index), u64::MAX, u64::MAX)).collect()
}

/// A delta of as many bytes as one can have.
fn longest_delta() -> Delta {
    Delta {
        demand: u32::MAX,
        shift: SHIFT_MAX,
        reserved: true,
        level: Some(i64::MIN),
        ..delta(u16::MAX, u64::MAX, i64::MIN)
    }
}

/// A string as control messages have it, of 256 bytes.
fn too_long_text() -> Vec<u8> {
    [&[0xfb, 0, 1][..], &[b'a'; 256]].concat()
}

#[test]
fn a_frame_has_at_most_the_length_of_its_type() {
    let bounds = [
        (0x80, PEER_FRAME_BYTES_MAX),
        (0x81, PEER_FRAME_BYTES_MAX),
        (0x89, PEER_FRAME_BYTES_MAX),
        (0x84, BATCH_BYTES_MAX),
        (0x86, BATCH_BYTES_MAX),
        (0x88, SNAPSHOT_REQUEST_BYTES_MAX),
        (0x02, BATCH_BYTES_MAX),
        (0x03, BATCH_BYTES_MAX),
        (0x01, SMALL_FRAME_BYTES_MAX),
        (0x04, SMALL_FRAME_BYTES_MAX),
        (0x82, SMALL_FRAME_BYTES_MAX),
        (0x83, SMALL_FRAME_BYTES_MAX),
        (0x85, SMALL_FRAME_BYTES_MAX),
        (0x87, SMALL_FRAME_BYTES_MAX),
        (0x8a, SMALL_FRAME_BYTES_MAX),
        (0x8b, SMALL_FRAME_BYTES_MAX),
        // A type of a later version, which may be skipped.
        (0x7f, BATCH_BYTES_MAX),
    ];
    for (frame_type, bytes_max) in bounds {
        let header = |length: usize| {
            let length = u32::try_from(length).unwrap();
            let [a, b, c, d] = length.to_le_bytes();
            (peer_frame_length(&[frame_type, 0, 0, 0, a, b, c, d]), length)
        };
        assert_eq!(header(8).0, Ok(8));
        assert_eq!(header(bytes_max).0, Ok(bytes_max));
        for length in [bytes_max + 1, 0xffff_ffff] {
            let (refused, length) = header(length);
            assert_eq!(refused, Err(PeerFrameError::TooLarge { frame_type, length }));
        }
        assert_eq!(header(7).0, Err(PeerFrameError::Length(7)));
    }
}

#[test]
fn the_longest_hello_fits() {
    let limits =
        vec![
            LimitNumbers { id: u64::MAX, burst: 1 << 62, per_ns: 1 << 61, per_unit: 1 << 60 };
            LIMITS_MAX
        ];
    let longest = Hello {
        cluster: longest_name(1),
        region: longest_name(2),
        node: longest_name(3),
        members: longest_names(MEMBERS_MAX),
        limits,
        size: 64,
        ..hello()
    };
    let mut out = Vec::new();
    write_hello(&mut out, &longest).unwrap();
    let PeerFrame::Hello(read) = frame(&out) else { panic!("no hello") };
    assert_eq!(read, longest);
}

#[test]
fn what_is_above_a_bound_of_a_hello_is_not_written() {
    let long = longest_name(0) + "a";
    let refused = [
        (Hello { cluster: long.clone(), ..hello() }, PeerWriteError::Name),
        (Hello { region: long.clone(), ..hello() }, PeerWriteError::Name),
        (Hello { node: long.clone(), ..hello() }, PeerWriteError::Name),
        (Hello { node: String::new(), ..hello() }, PeerWriteError::Name),
        (Hello { members: vec![long], ..hello() }, PeerWriteError::Name),
        (Hello { members: vec![String::new()], ..hello() }, PeerWriteError::Name),
        (Hello { members: longest_names(65), ..hello() }, PeerWriteError::TooMany),
        (
            Hello { limits: vec![LimitNumbers::default(); LIMITS_MAX + 1], ..hello() },
            PeerWriteError::TooMany,
        ),
        (Hello { life: 0, ..hello() }, PeerWriteError::Number),
        (Hello { size: 65, ..hello() }, PeerWriteError::Number),
        (Hello { protocol_min: 2, ..hello() }, PeerWriteError::Number),
    ];
    for (hello, error) in refused {
        let mut out = b"before".to_vec();
        assert_eq!(write_hello(&mut out, &hello), Err(error));
        assert_eq!(out, b"before");
    }
}

#[test]
fn what_is_above_a_bound_of_a_control_message_is_not_read() {
    let text = too_long_text();
    let hello = PeerFrameError::Bound(0x80);
    for names_before in 0..3 {
        let mut bytes = vec![1, 1, 0];
        bytes.resize(3 + names_before, 0);
        bytes.extend_from_slice(&text);
        bytes.resize(bytes.len() + 40, 1);
        let mut whole = framed(0x80, &bytes);
        // Whatever is behind the name, the fields that follow it must be sound.
        whole.truncate(8 + 3 + names_before + text.len());
        for _ in names_before..2 {
            whole.extend_from_slice(&[1, b'a']);
        }
        whole.extend_from_slice(&[1, 1, 0, 0, 0]);
        whole.extend_from_slice(&[0; 16]);
        whole.extend_from_slice(&[0, 0]);
        assert_eq!(fault(&mended(whole)), hello, "{names_before} names before");
    }

    let members = [&[1, 1, 0, 0, 0, 1, b'a', 1, 1, 65][..], &[0; 200]].concat();
    assert_eq!(fault(&framed(0x80, &members)), hello);
    let limits = [&[1, 1, 0, 0, 0, 1, b'a', 1, 1, 0, 0][..], &[0xfc, 0, 0, 1, 0], &[0; 300_000]];
    assert_eq!(fault(&framed(0x80, &limits.concat())), hello);
    let text_of_refusal = [&[1, 0xfb, 1, 1][..], &[b'a'; 257]].concat();
    assert_eq!(fault(&framed(0x83, &text_of_refusal)), PeerFrameError::Bound(0x83));
    assert_eq!(fault(&framed(0x8b, &text)), PeerFrameError::Bound(0x8b));
    assert_eq!(fault(&framed(0x8b, &[0])), PeerFrameError::Bound(0x8b));
    let positions = [&[65][..], &[0; 200]].concat();
    assert_eq!(fault(&framed(0x88, &positions)), PeerFrameError::Bound(0x88));
    let name_of_position = [&[1][..], &text, &[1, 1]].concat();
    assert_eq!(fault(&framed(0x88, &name_of_position)), PeerFrameError::Bound(0x88));
    let claim = [1, 0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    assert!(decode_peer(&framed(0x83, &claim)).is_err());
}

#[test]
fn the_text_of_a_refusal_is_cut_at_its_bound_and_not_within_a_character() {
    let cases = [
        ("a".repeat(256), 256),
        ("a".repeat(300), 256),
        ("a".to_owned() + &"\u{e9}".repeat(200), 255),
    ];
    for (text, kept) in cases {
        let mut out = Vec::new();
        write_refused(&mut out, Refusal::Busy, &text);
        let PeerFrame::Refused(read) = frame(&out) else { panic!("no refusal") };
        assert_eq!(read.text, text[..kept]);
        assert!(kept <= REFUSED_TEXT_BYTES_MAX);
    }
}

#[test]
fn a_name_of_a_member_that_is_gone_has_its_bounds() {
    let mut out = Vec::new();
    write_forget(&mut out, &longest_name(0)).unwrap();
    assert!(matches!(frame(&out), PeerFrame::Forget { name } if name == longest_name(0)));
    out.clear();
    for name in [String::new(), longest_name(0) + "a"] {
        assert_eq!(write_forget(&mut out, &name), Err(PeerWriteError::Name));
    }
    assert_eq!(out, b"");
}

/// The deltas of a batch as they go into frames, and the length of each frame.
fn batches(deltas: &[Delta]) -> Vec<(usize, usize)> {
    let mut frames = Vec::new();
    let mut rest = deltas;
    while !rest.is_empty() {
        let mut out = Vec::new();
        let mut writer = BatchWriter::new(&mut out, 1, NOW_NS);
        let taken = writer.spends(rest);
        assert_eq!(writer.spends(&rest[taken..]), 0, "what did not fit does not fit now");
        writer.finish();
        let PeerFrame::Batch(read) = frame(&out) else { panic!("no batch") };
        assert!(read.deltas(NOW_NS).eq(rest[..taken].iter().copied()));
        frames.push((taken, out.len()));
        rest = &rest[taken..];
    }
    frames
}

#[test]
fn a_batch_takes_as_many_deltas_as_fit_and_the_next_the_others() {
    // 37 bytes each; 24 for header, number, section and a count of two or three bytes.
    let most = (BATCH_BYTES_MAX - 24) / 37;
    let frames = batches(&vec![longest_delta(); 2 * most + 5]);
    let taken: Vec<_> = frames.iter().map(|(taken, _)| *taken).collect();
    assert_eq!(taken, [most, most, 5]);
    for (_, bytes) in &frames[..2] {
        assert!((BATCH_BYTES_MAX - 37 - 1..=BATCH_BYTES_MAX).contains(bytes), "{bytes}");
    }

    let shortest = batches(&vec![delta(1, 2, 3); 50_000]);
    assert_eq!(shortest[0].0, (BATCH_BYTES_MAX - 24) / 12);
    assert_eq!(shortest.iter().map(|(taken, _)| taken).sum::<usize>(), 50_000);
}

/// The window whose start and length take as many bytes as they can.
const LONGEST_WINDOW: When = When::Window { start_ms: u64::MAX, length_ms: u64::MAX };

#[test]
fn a_batch_of_every_kind_takes_as_many_deltas_as_fit_and_no_delta_is_left_out() {
    let kinds = [When::Untimed, LONGEST_WINDOW, ago(1 << 39), MINUTE, ago(0)];
    let deltas: Vec<Delta> = (0..20_000u64)
        .map(|hash| {
            let when = kinds[usize::try_from(hash % 5).unwrap()];
            Delta { bucket: bucket(7, hash), when, ..longest_delta() }
        })
        .collect();
    let mut rest = &deltas[..];
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let mut out = Vec::new();
        let mut writer = BatchWriter::new(&mut out, 1, NOW_NS);
        let taken = writer.spends(rest);
        writer.finish();
        let PeerFrame::Batch(read) = frame(&out) else { panic!("no batch") };
        let mut told: Vec<_> = read.deltas(NOW_NS).collect();
        told.sort_by_key(|delta| delta.bucket);
        assert!(told.iter().eq(&rest[..taken]), "the first are taken");
        frames.push(out.len());
        rest = &rest[taken..];
    }
    let (last, full) = frames.split_last().unwrap();
    // 57 bytes are the longest delta; three sections reserve 8 bytes each.
    assert!(full.iter().all(|bytes| (BATCH_BYTES_MAX - 57 - 6..=BATCH_BYTES_MAX).contains(bytes)));
    assert!(full.len() > 2 && *last <= BATCH_BYTES_MAX, "{frames:?}");
}

#[test]
fn timed_sums_take_as_many_frames_as_they_need() {
    let longest = |hash: u64| Sum { when: LONGEST_WINDOW, ..sum(u16::MAX, hash, i64::MIN) };
    let sums: Vec<Sum> = (0..20_000).map(longest).collect();
    let mut rest = &sums[..];
    let mut taken = Vec::new();
    while !rest.is_empty() {
        let mut out = Vec::new();
        let fit = write_timed_sums(&mut out, 9, NOW_NS, rest);
        assert!(out.len() <= BATCH_BYTES_MAX);
        let PeerFrame::TimedSums(read) = frame(&out) else { panic!("no timed sums") };
        assert!(read.sums(NOW_NS).eq(rest[..fit].iter().copied()));
        taken.push(fit);
        rest = &rest[fit..];
    }
    // 41 bytes each, behind 19 of header, number and count.
    let most = (BATCH_BYTES_MAX - 19) / 41;
    assert_eq!(taken, [most, most, most, 20_000 - 3 * most]);

    let short = vec![Sum { when: ago(0), ..sum(1, 2, 3) }; HEAL_SUMS_MAX + 1];
    assert_eq!(write_timed_sums(&mut Vec::new(), 9, NOW_NS, &short), HEAL_SUMS_MAX);
    let count = [0x81, 0x60];
    let payload = [&[0; 8][..], &count, &[0; 12 * 12_289]].concat();
    assert_eq!(fault(&framed(0x02, &payload)), PeerFrameError::Bound(0x02));
}

#[test]
fn timed_standings_take_as_many_frames_as_they_need() {
    let longest = |hash: u64| Standing {
        others: u32::MAX,
        shift: SHIFT_MAX,
        when: LONGEST_WINDOW,
        ..standing(u16::MAX, hash, i64::MIN, i64::MIN)
    };
    let standings: Vec<Standing> = (0..5_000).map(longest).collect();
    let mut out = Vec::new();
    let taken = write_timed_standings(&mut out, 9, NOW_NS, &standings);
    // 57 bytes each, behind 19 of header, number and count.
    assert_eq!(taken, (BATCH_BYTES_MAX - 19) / 57);
    assert!(out.len() <= BATCH_BYTES_MAX);
    let PeerFrame::TimedStandings(read) = frame(&out) else { panic!("no timed standings") };
    assert!(read.standings(NOW_NS).eq(standings[..taken].iter().copied()));

    // The entries of a log leave slot and hash out: the longest log goes in one frame.
    let log: Vec<Standing> = (0..limiter::LOG_MAX)
        .map(|age| Standing { when: ago(900_000 - age), ..standing(1, 2, 1, 0) })
        .collect();
    out.clear();
    assert_eq!(write_timed_standings(&mut out, 9, NOW_NS, &log), log.len());
    assert!(out.len() < 64 << 10, "{}", out.len());

    let short = vec![standing(1, 2, 0, 0); SNAPSHOT_STANDINGS_MAX + 1];
    out.clear();
    assert_eq!(write_timed_standings(&mut out, 9, NOW_NS, &short), SNAPSHOT_STANDINGS_MAX);
    let payload = [&[0; 8][..], &[0x81, 0x80, 4], &[0; 3 * 65_537]].concat();
    assert_eq!(fault(&framed(0x03, &payload)), PeerFrameError::Bound(0x03));

    for none in [
        write_timed_standings(&mut out, 9, NOW_NS, &[]),
        write_timed_sums(&mut out, 9, NOW_NS, &[]),
    ] {
        assert_eq!(none, 0);
    }
}

#[test]
fn a_heal_is_the_last_only_where_it_is_said_to_be() {
    let mut out = Vec::new();
    assert_eq!(write_heal(&mut out, (1, 2), false, &[sum(1, 2, 3)]), 1);
    let PeerFrame::Heal(read) = frame(&out) else { panic!("no heal") };
    assert!(!read.last);
}

#[test]
fn a_batch_may_take_deltas_in_several_calls() {
    let mut out = Vec::new();
    let mut writer = BatchWriter::new(&mut out, 5, NOW_NS);
    assert_eq!(writer.spends(&[]), 0);
    assert_eq!(writer.spends(&[delta(1, 2, 3)]), 1);
    assert_eq!(writer.spends(&[delta(4, 5, 6), longest_delta()]), 2);
    writer.finish();
    let PeerFrame::Batch(read) = frame(&out) else { panic!("no batch") };
    let expected = [delta(1, 2, 3), delta(4, 5, 6), longest_delta()];
    assert_eq!(read.deltas(NOW_NS).len(), 3);
    assert!(read.deltas(NOW_NS).eq(expected));
}

#[test]
fn what_is_owed_takes_as_many_heals_as_it_needs_and_only_the_last_says_so() {
    let sums: Vec<Sum> = (0..30_000).map(|hash| sum(7, hash, i64::MIN)).collect();
    let mut rest = &sums[..];
    let mut lasts = Vec::new();
    loop {
        let mut out = Vec::new();
        let taken = write_heal(&mut out, (1, 2), true, rest);
        let PeerFrame::Heal(read) = frame(&out) else { panic!("no heal") };
        assert!(read.sums().eq(rest[..taken].iter().copied()));
        lasts.push(read.last);
        rest = &rest[taken..];
        if rest.is_empty() {
            break;
        }
        assert_eq!(taken, HEAL_SUMS_MAX);
        assert!(out.len() <= BATCH_BYTES_MAX, "{}", out.len());
    }
    assert_eq!(lasts, [false, false, true]);

    let mut nothing = Vec::new();
    assert_eq!(write_heal(&mut nothing, (1, 2), true, &[]), 0);
    let PeerFrame::Heal(read) = frame(&nothing) else { panic!("no heal") };
    assert_eq!((read.last, read.sums().len()), (true, 0));
}

#[test]
fn the_longest_chunk_of_a_snapshot_fits_and_a_longer_one_is_refused() {
    let longest = Standing {
        bucket: bucket(u16::MAX, u64::MAX),
        others: u32::MAX,
        shift: SHIFT_MAX,
        ..standing(0, 0, i64::MIN, i64::MIN)
    };
    let head = SnapshotHead {
        first: u64::MAX,
        own_next: u64::MAX,
        cursors: longest_positions(MEMBERS_MAX),
        size: 64,
        members: longest_names(MEMBERS_MAX),
        ..head()
    };
    let mut standings = vec![longest; SNAPSHOT_STANDINGS_MAX];
    let mut out = Vec::new();
    write_snapshot_chunk(&mut out, &head, &standings).unwrap();
    let PeerFrame::SnapshotChunk(read) = frame(&out) else { panic!("no chunk") };
    assert_eq!(read.head, head);
    assert!(read.standings().eq(standings.iter().copied()));

    standings.push(longest);
    out.clear();
    let refused = write_snapshot_chunk(&mut out, &head, &standings);
    assert_eq!((refused, out.len()), (Err(PeerWriteError::TooMany), 0));
    let count = [0x81, 0x80, 4];
    let payload = [&[7, 0, 0, 0], &[0; 7][..], &count, &[0; 14 * 65_537]].concat();
    assert_eq!(fault(&framed(0x89, &payload)), PeerFrameError::Bound(0x89));
}

#[test]
fn what_is_above_a_bound_of_a_snapshot_is_not_written() {
    let refused = [
        (SnapshotHead { first: 2, last: 1, ..head() }, PeerWriteError::Number),
        (SnapshotHead { size: 65, ..head() }, PeerWriteError::Number),
        (SnapshotHead { cursors: longest_positions(65), ..head() }, PeerWriteError::TooMany),
        (SnapshotHead { members: longest_names(65), ..head() }, PeerWriteError::TooMany),
        (SnapshotHead { cursors: vec![position("", 1, 1)], ..head() }, PeerWriteError::Name),
    ];
    for (head, error) in refused {
        let mut out = b"before".to_vec();
        assert_eq!(write_snapshot_chunk(&mut out, &head, &[]), Err(error));
        assert_eq!(out, b"before");
    }
}

#[test]
fn a_snapshot_request_has_a_position_for_each_member_and_no_more() {
    let mut out = Vec::new();
    let longest = SnapshotRequest { positions: longest_positions(MEMBERS_MAX) };
    write_snapshot_request(&mut out, &longest).unwrap();
    let PeerFrame::SnapshotRequest(read) = frame(&out) else { panic!("no request") };
    assert_eq!(read, longest);

    out.clear();
    let more = SnapshotRequest { positions: longest_positions(MEMBERS_MAX + 1) };
    assert_eq!(write_snapshot_request(&mut out, &more), Err(PeerWriteError::TooMany));
    let nameless = SnapshotRequest { positions: vec![position("", 1, 1)] };
    assert_eq!(write_snapshot_request(&mut out, &nameless), Err(PeerWriteError::Name));
    assert_eq!(out, b"");
}
