//! The frames of peers through the public interface: byte vectors, bounds, faults, properties.

#![expect(clippy::unwrap_used, reason = "a test fails where it unwraps nothing")]

mod bounds;
mod faults;
mod other_codec;
mod properties;
mod vectors;

use limiter::{Bucket, Delta, Standing, Sum, When};
use wire::peer::{
    BatchWriter, Hello, LimitNumbers, PeerDecoded, PeerFrame, PeerFrameError, Position,
    SnapshotHead, decode_peer, write_ack, write_acts, write_answer, write_clock, write_credits,
    write_done, write_forget, write_heal, write_heal_ack, write_hello, write_leave, write_limits,
    write_ping, write_refused, write_snapshot_chunk, write_snapshot_request, write_terms,
    write_timed_standings, write_timed_sums,
};

/// When frames are written and read: in whole milliseconds, so that an age above it is one, too.
const NOW_NS: u64 = 1_000_000_000_000_000_000;

/// The frame that `bytes` are.
#[track_caller]
fn frame(bytes: &[u8]) -> PeerFrame<'_> {
    match decode_peer(bytes) {
        Ok(PeerDecoded::Frame(frame)) => frame,
        other => panic!("no frame: {other:?}"),
    }
}

/// The fault of bytes that are no frame.
#[track_caller]
fn fault(bytes: &[u8]) -> PeerFrameError {
    match decode_peer(bytes) {
        Err(error) => error,
        Ok(read) => panic!("no fault: {read:?}"),
    }
}

/// The frame as this version writes it.
fn rewritten(frame: &PeerFrame<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    match frame {
        PeerFrame::Hello(hello) => write_hello(&mut out, hello).unwrap(),
        PeerFrame::Answer(answer) => write_answer(&mut out, answer).unwrap(),
        PeerFrame::Done(done) => write_done(&mut out, *done),
        PeerFrame::Refused(refused) => write_refused(&mut out, refused.refusal, &refused.text),
        PeerFrame::Batch(batch) => {
            let deltas: Vec<_> = batch.deltas(NOW_NS).collect();
            let mut writer = BatchWriter::new(&mut out, batch.seq, NOW_NS);
            assert_eq!(writer.spends(&deltas), deltas.len());
            writer.finish();
        }
        PeerFrame::Ack { next } => write_ack(&mut out, *next),
        PeerFrame::Heal(heal) => {
            let sums: Vec<_> = heal.sums().collect();
            let written = write_heal(&mut out, (heal.seq, heal.upto), heal.last, &sums);
            assert_eq!(written, sums.len());
        }
        PeerFrame::HealAck { seq } => write_heal_ack(&mut out, *seq),
        PeerFrame::SnapshotRequest(request) => write_snapshot_request(&mut out, request).unwrap(),
        PeerFrame::SnapshotChunk(chunk) => {
            let standings: Vec<_> = chunk.standings().collect();
            write_snapshot_chunk(&mut out, &chunk.head, &standings).unwrap();
        }
        PeerFrame::Leave => write_leave(&mut out),
        PeerFrame::Forget { name } => write_forget(&mut out, name).unwrap(),
        PeerFrame::Ping => write_ping(&mut out),
        PeerFrame::TimedSums(timed) => {
            let sums: Vec<_> = timed.sums(NOW_NS).collect();
            assert_eq!(write_timed_sums(&mut out, timed.seq, NOW_NS, &sums), sums.len());
        }
        PeerFrame::TimedStandings(timed) => {
            let standings: Vec<_> = timed.standings(NOW_NS).collect();
            let written = write_timed_standings(&mut out, timed.first, NOW_NS, &standings);
            assert_eq!(written, standings.len());
        }
        PeerFrame::Limits(it) => write_limits(&mut out, it.first, it.is_last, &it.limits),
        PeerFrame::Terms(frame) => {
            assert_eq!(write_terms(&mut out, &frame.terms), frame.terms.len());
        }
        PeerFrame::Acts(acts) => assert_eq!(write_acts(&mut out, acts), acts.len()),
        PeerFrame::Credits(credits) => {
            let list: Vec<_> = credits.credits().collect();
            write_credits(&mut out, credits.of, &credits.positions, &list);
        }
        PeerFrame::Clock { unix_ms } => write_clock(&mut out, *unix_ms),
    }
    out
}

/// Decodes and reads everything that there is to read.
fn exhaust(bytes: &[u8]) {
    match decode_peer(bytes) {
        Ok(PeerDecoded::Frame(PeerFrame::Batch(batch))) => {
            assert_eq!(batch.deltas(NOW_NS).count(), batch.deltas(NOW_NS).len());
        }
        Ok(PeerDecoded::Frame(PeerFrame::Heal(heal))) => {
            assert_eq!(heal.sums().count(), heal.sums().len());
        }
        Ok(PeerDecoded::Frame(PeerFrame::SnapshotChunk(chunk))) => {
            assert_eq!(chunk.standings().count(), chunk.standings().len());
        }
        Ok(PeerDecoded::Frame(PeerFrame::TimedSums(timed))) => {
            assert_eq!(timed.sums(NOW_NS).count(), timed.len());
        }
        Ok(PeerDecoded::Frame(PeerFrame::TimedStandings(timed))) => {
            assert_eq!(timed.standings(NOW_NS).count(), timed.len());
        }
        Ok(_) | Err(_) => {}
    }
}

/// A payload behind a sound header of `frame_type`.
fn framed(frame_type: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(8 + payload.len()).unwrap().to_le_bytes();
    [&[frame_type, 0, 0, 0], &length[..], payload].concat()
}

/// `bytes` with a length in the header that is theirs.
fn mended(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap().to_le_bytes();
    bytes[4..8].copy_from_slice(&length);
    bytes
}

/// The start of the window of the vectors, in milliseconds of Unix time, and its length.
const MINUTE: When = When::Window { start_ms: 1_700_000_040_000, length_ms: 60_000 };
/// The window before it.
const MINUTE_BEFORE: When = When::Window { start_ms: 1_699_999_980_000, length_ms: 60_000 };

/// The time `ms` before now.
fn ago(ms: u64) -> When {
    When::At { ns: NOW_NS - ms * 1_000_000 }
}

const HASH: u64 = 0x1122_3344_5566_7788;
const LIFE: u64 = 0x0102_0304_0506_0708;

fn bucket(slot: u16, hash: u64) -> Bucket {
    Bucket { slot, hash }
}

/// A delta without demand and level.
fn delta(slot: u16, hash: u64, spent: i64) -> Delta {
    let bucket = bucket(slot, hash);
    Delta { bucket, spent, demand: 0, shift: 0, reserved: false, level: None, when: When::Untimed }
}

fn sum(slot: u16, hash: u64, ticks: i64) -> Sum {
    Sum { bucket: bucket(slot, hash), ticks, when: When::Untimed }
}

fn standing(slot: u16, hash: u64, missing: i64, charge: i64) -> Standing {
    Standing {
        bucket: bucket(slot, hash),
        missing,
        charge,
        others: 0,
        shift: 0,
        when: When::Untimed,
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn position(name: &str, life: u64, next: u64) -> Position {
    Position { name: name.to_owned(), life, next }
}

/// The hello of the vector.
fn hello() -> Hello {
    Hello {
        protocol_min: 1,
        protocol_max: 1,
        capabilities: 0,
        cluster: "edge".to_owned(),
        region: "eu".to_owned(),
        node: "edge-1".to_owned(),
        life: LIFE,
        synced: true,
        members: names(&["edge-1", "edge-2", "edge-3"]),
        members_version: 300,
        limits: vec![
            LimitNumbers { id: HASH, burst: 100, per_ns: 1, per_unit: 100_000_000 },
            LimitNumbers { id: 153, ..LimitNumbers::default() },
        ],
        digest: std::array::from_fn(|index| u8::try_from(index).unwrap()),
        unix_ms: 1_700_000_000_000,
        size: 3,
    }
}

/// The head of the vector of a chunk.
fn head() -> SnapshotHead {
    SnapshotHead {
        first: 0,
        last: u64::MAX,
        end: true,
        own_next: 43,
        cursors: vec![position("edge-3", 3, 250)],
        size: 3,
        members: names(&["edge-2", "edge-3"]),
    }
}
