//! Whatever is written is read back, and whatever is read does not panic.

use limiter::{Bucket, Delta, MEMBERS_MAX, Standing, Sum, When};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use wire::peer::{
    Answer, BatchWriter, Cursor, Done, Hello, LimitNumbers, PeerFrame, Position, Refusal,
    SnapshotHead, SnapshotRequest, peer_frame_length, write_ack, write_answer, write_done,
    write_forget, write_heal, write_heal_ack, write_hello, write_refused, write_snapshot_chunk,
    write_snapshot_request, write_timed_standings, write_timed_sums,
};

use crate::{NOW_NS, ago, exhaust, frame, framed};

/// Numbers of every length, not only the long ones.
fn number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0u32..64).prop_map(|(number, shift)| number >> shift)
}

fn signed() -> impl Strategy<Value = i64> {
    (any::<i64>(), 0u32..64).prop_map(|(number, shift)| number >> shift)
}

/// A node's name; a character may take four bytes.
fn name() -> impl Strategy<Value = String> {
    "\\PC{1,63}"
}

fn text() -> impl Strategy<Value = String> {
    "\\PC{0,63}"
}

fn bucket() -> impl Strategy<Value = Bucket> {
    (any::<u16>(), any::<u64>()).prop_map(|(slot, hash)| Bucket { slot, hash })
}

fn demand() -> impl Strategy<Value = (u32, u8)> {
    (any::<u32>(), 0u32..32, 0u8..=wire::peer::SHIFT_MAX)
        .prop_map(|(demand, less, shift)| (demand >> less, shift))
}

fn delta() -> impl Strategy<Value = Delta> {
    (bucket(), signed(), demand(), any::<bool>(), proptest::option::of(signed())).prop_map(
        |(bucket, spent, (demand, shift), reserved, level)| {
            let shift = if demand == 0 { 0 } else { shift };
            Delta { bucket, spent, demand, shift, reserved, level, when: When::Untimed }
        },
    )
}

fn sum() -> impl Strategy<Value = Sum> {
    (bucket(), signed()).prop_map(|(bucket, ticks)| Sum { bucket, ticks, when: When::Untimed })
}

fn standing() -> impl Strategy<Value = Standing> {
    (bucket(), signed(), signed(), demand()).prop_map(
        |(bucket, missing, charge, (others, shift))| Standing {
            bucket,
            missing,
            charge,
            others,
            shift,
            when: When::Untimed,
        },
    )
}

/// Any time, in whole milliseconds before now.
fn when() -> impl Strategy<Value = When> {
    let window =
        (number(), number()).prop_map(|(start_ms, length_ms)| When::Window { start_ms, length_ms });
    prop_oneof![Just(When::Untimed), window, (0..NOW_NS / 1_000_000).prop_map(ago)]
}

/// Few buckets, so that some stand next to each other.
fn one_of_few() -> impl Strategy<Value = Bucket> {
    (0u16..2, 0u64..2).prop_map(|(slot, hash)| Bucket { slot, hash })
}

fn position() -> impl Strategy<Value = Position> {
    (name(), number(), number()).prop_map(|(name, life, next)| Position { name, life, next })
}

fn members() -> impl Strategy<Value = Vec<String>> {
    btree_set(name(), 0..6).prop_map(|names| names.into_iter().collect())
}

fn size() -> impl Strategy<Value = u32> {
    0..=u32::try_from(MEMBERS_MAX).unwrap()
}

fn cursor() -> impl Strategy<Value = Cursor> {
    (number(), number()).prop_map(|(life, next)| Cursor { life, next })
}

fn limit() -> impl Strategy<Value = LimitNumbers> {
    (number(), number(), number(), number())
        .prop_map(|(id, burst, per_ns, per_unit)| LimitNumbers { id, burst, per_ns, per_unit })
}

fn hello() -> impl Strategy<Value = Hello> {
    let who = (text(), text(), name(), 1..=u64::MAX);
    let what = (any::<bool>(), members(), number(), vec(limit(), 0..20), any::<[u8; 16]>());
    ((any::<u16>(), any::<u16>()), number(), who, what, number(), size()).prop_map(
        |((one, other), capabilities, who, what, unix_ms, size)| {
            let (cluster, region, node, life) = who;
            let (synced, members, members_version, limits, digest) = what;
            Hello {
                protocol_min: one.min(other),
                protocol_max: one.max(other),
                capabilities,
                cluster,
                region,
                node,
                life,
                synced,
                members,
                members_version,
                limits,
                digest,
                unix_ms,
                size,
            }
        },
    )
}

fn head() -> impl Strategy<Value = SnapshotHead> {
    let range = (any::<u64>(), any::<u64>(), any::<bool>());
    (range, number(), vec(position(), 0..6), size(), members()).prop_map(
        |((one, other, end), own_next, cursors, size, members)| SnapshotHead {
            first: one.min(other),
            last: one.max(other),
            end,
            own_next,
            cursors,
            size,
            members,
        },
    )
}

/// What `write` appends, whose header must say how long it is.
fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    assert_eq!(peer_frame_length(out.first_chunk().unwrap()), Ok(out.len()));
    out
}

proptest! {
    #[test]
    fn hellos_are_read_as_they_were_written(hello in hello()) {
        let bytes = written(|out| write_hello(out, &hello).unwrap());
        let PeerFrame::Hello(read) = frame(&bytes) else { panic!("no hello") };
        prop_assert_eq!(read, hello);
    }

    #[test]
    fn answers_are_read_as_they_were_written(hello in hello(), cursor in cursor()) {
        let answer = Answer { hello, cursor };
        let bytes = written(|out| write_answer(out, &answer).unwrap());
        let PeerFrame::Answer(read) = frame(&bytes) else { panic!("no answer") };
        prop_assert_eq!(read, answer);
    }

    #[test]
    fn ends_of_handshakes_are_read_as_they_were_written(cursor in cursor()) {
        let bytes = written(|out| write_done(out, Done { cursor }));
        let PeerFrame::Done(read) = frame(&bytes) else { panic!("no done") };
        prop_assert_eq!(read.cursor, cursor);
    }

    #[test]
    fn refusals_are_read_as_they_were_written(number: u8, text in text()) {
        let bytes = written(|out| write_refused(out, Refusal::from_u8(number), &text));
        let PeerFrame::Refused(read) = frame(&bytes) else { panic!("no refusal") };
        prop_assert_eq!((read.refusal.to_u8(), read.text), (number, text));
    }

    #[test]
    fn batches_are_read_as_they_were_written(seq: u64, deltas in vec(delta(), 0..300)) {
        let bytes = written(|out| {
            let mut writer = BatchWriter::new(out, seq, NOW_NS);
            assert_eq!(writer.spends(&deltas), deltas.len());
            writer.finish();
        });
        let PeerFrame::Batch(read) = frame(&bytes) else { panic!("no batch") };
        prop_assert_eq!((read.seq, read.skipped, read.deltas(NOW_NS).len()), (seq, 0, deltas.len()));
        prop_assert_eq!(read.deltas(NOW_NS).collect::<Vec<_>>(), deltas);
    }

    #[test]
    fn batches_of_every_kind_keep_the_order_of_each(
        seq: u64,
        deltas in vec((delta(), when()).prop_map(|(delta, when)| Delta { when, ..delta }), 0..300),
    ) {
        let bytes = written(|out| {
            let mut writer = BatchWriter::new(out, seq, NOW_NS);
            assert_eq!(writer.spends(&deltas), deltas.len());
            writer.finish();
        });
        let PeerFrame::Batch(read) = frame(&bytes) else { panic!("no batch") };
        let of = |kind: u8| move |delta: &Delta| match delta.when {
            When::Untimed => kind == 0,
            When::Window { .. } => kind == 1,
            When::At { .. } => kind == 2,
        };
        let mut expected = Vec::new();
        for kind in 0..3 {
            expected.extend(deltas.iter().copied().filter(of(kind)));
        }
        prop_assert_eq!((read.seq, read.skipped, read.deltas(NOW_NS).len()), (seq, 0, deltas.len()));
        prop_assert_eq!(read.deltas(NOW_NS).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn timed_frames_are_read_as_they_were_written(
        number: u64,
        sums in vec((one_of_few(), signed(), when()), 0..300),
        standings in vec((one_of_few(), standing(), when()), 0..300),
    ) {
        let sums: Vec<_> =
            sums.into_iter().map(|(bucket, ticks, when)| Sum { bucket, ticks, when }).collect();
        let bytes = written(|out| {
            assert_eq!(write_timed_sums(out, number, NOW_NS, &sums), sums.len());
        });
        let PeerFrame::TimedSums(read) = frame(&bytes) else { panic!("no timed sums") };
        prop_assert_eq!((read.seq, read.len()), (number, sums.len()));
        prop_assert_eq!(read.sums(NOW_NS).collect::<Vec<_>>(), sums);

        let standings: Vec<_> = standings
            .into_iter()
            .map(|(bucket, standing, when)| Standing { bucket, when, ..standing })
            .collect();
        let bytes = written(|out| {
            assert_eq!(write_timed_standings(out, number, NOW_NS, &standings), standings.len());
        });
        let PeerFrame::TimedStandings(read) = frame(&bytes) else { panic!("no standings") };
        prop_assert_eq!((read.first, read.len()), (number, standings.len()));
        prop_assert_eq!(read.standings(NOW_NS).collect::<Vec<_>>(), standings);
    }

    #[test]
    fn heals_are_read_as_they_were_written(seq: u64, upto: u64, sums in vec(sum(), 0..300)) {
        let bytes = written(|out| assert_eq!(write_heal(out, (seq, upto), true, &sums), sums.len()));
        let PeerFrame::Heal(read) = frame(&bytes) else { panic!("no heal") };
        prop_assert_eq!((read.seq, read.upto, read.last), (seq, upto, true));
        prop_assert_eq!(read.sums().collect::<Vec<_>>(), sums);
    }

    #[test]
    fn acknowledgements_are_read_as_they_were_written(next: u64, seq: u64) {
        let bytes = written(|out| write_ack(out, next));
        let PeerFrame::Ack { next: read } = frame(&bytes) else { panic!("no acknowledgement") };
        prop_assert_eq!(read, next);
        let bytes = written(|out| write_heal_ack(out, seq));
        let PeerFrame::HealAck { seq: read } = frame(&bytes) else { panic!("no acknowledgement") };
        prop_assert_eq!(read, seq);
    }

    #[test]
    fn snapshots_are_read_as_they_were_written(
        positions in vec(position(), 0..6),
        head in head(),
        standings in vec(standing(), 0..300),
    ) {
        let request = SnapshotRequest { positions };
        let bytes = written(|out| write_snapshot_request(out, &request).unwrap());
        let PeerFrame::SnapshotRequest(read) = frame(&bytes) else { panic!("no request") };
        prop_assert_eq!(read, request);

        let bytes = written(|out| write_snapshot_chunk(out, &head, &standings).unwrap());
        let PeerFrame::SnapshotChunk(read) = frame(&bytes) else { panic!("no chunk") };
        prop_assert_eq!(&read.head, &head);
        prop_assert_eq!(read.standings().len(), standings.len());
        prop_assert_eq!(read.standings().collect::<Vec<_>>(), standings);
    }

    #[test]
    fn names_of_members_that_are_gone_are_read_as_they_were_written(name in name()) {
        let bytes = written(|out| write_forget(out, &name).unwrap());
        let PeerFrame::Forget { name: read } = frame(&bytes) else { panic!("no name") };
        prop_assert_eq!(read, name);
    }

    #[test]
    fn any_payload_behind_a_sound_header_is_read_without_panic(
        frame_type in prop_oneof![1u8..=4, 0x80u8..=0x8b],
        payload in vec(prop_oneof![0u8..20, 0xf8u8..=0xff, any::<u8>()], 0..600),
    ) {
        exhaust(&framed(frame_type, &payload));
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in vec(any::<u8>(), 0..40)) {
        exhaust(&bytes);
        if let Some(header) = bytes.first_chunk() {
            prop_assert!(peer_frame_length(header).unwrap_or(8) >= 8);
        }
    }
}
