//! A peer's frame that can be read, written again, reads the same.
//!
//! The input is tried as it is, and as the type of a frame with its payload behind it: a right
//! length is hard to guess.
#![no_main]

use limiter::{Delta, Standing, Sum, When};
use rlnode_fuzz::fuzz_target;
use wire::peer::{
    BatchWriter, PeerDecoded, PeerFrame, decode_peer, peer_frame_length, write_ack, write_acts,
    write_answer, write_clock, write_credits, write_done, write_forget, write_heal, write_heal_ack,
    write_hello, write_leave, write_limits, write_ping, write_refused, write_snapshot_chunk,
    write_snapshot_request, write_terms, write_timed_standings, write_timed_sums,
};

/// When frames are written and read: in whole milliseconds, so that an age above it is one, too.
const NOW_NS: u64 = 1_000_000_000_000_000_000;

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    if let [frame_type, payload @ ..] = bytes {
        let length = u32::try_from(8 + payload.len()).expect("an input is short");
        let header = [&[*frame_type, 0, 0, 0], &length.to_le_bytes()[..]].concat();
        check(&[&header, payload].concat());
    }
});

fn check(bytes: &[u8]) {
    let Ok(PeerDecoded::Frame(frame)) = decode_peer(bytes) else {
        return;
    };
    let header = bytes.first_chunk().expect("a frame has a header");
    assert_eq!(peer_frame_length(header), Ok(bytes.len()));
    let written = rewritten(&frame);
    assert!(written.len() <= bytes.len());
    let again = match decode_peer(&written) {
        Ok(PeerDecoded::Frame(again)) => again,
        other => panic!("what was written reads as {other:?}"),
    };
    assert_eq!(told(&frame), told(&again));
    assert_eq!(rewritten(&again), written);
}

/// The frame as this version writes it.
fn rewritten(frame: &PeerFrame<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut written = Ok(());
    match frame {
        PeerFrame::Hello(hello) => written = write_hello(&mut out, hello),
        PeerFrame::Answer(answer) => written = write_answer(&mut out, answer),
        PeerFrame::Done(done) => write_done(&mut out, *done),
        PeerFrame::Refused(refused) => write_refused(&mut out, refused.refusal, &refused.text),
        PeerFrame::Batch(batch) => {
            let deltas: Vec<Delta> = batch.deltas(NOW_NS).collect();
            let mut writer = BatchWriter::new(&mut out, batch.seq, NOW_NS);
            assert_eq!(writer.spends(&deltas), deltas.len());
            writer.finish();
        }
        PeerFrame::Ack { next } => write_ack(&mut out, *next),
        PeerFrame::Heal(heal) => {
            let sums: Vec<Sum> = heal.sums().collect();
            let count = write_heal(&mut out, (heal.seq, heal.upto), heal.last, &sums);
            assert_eq!(count, sums.len());
        }
        PeerFrame::HealAck { seq } => write_heal_ack(&mut out, *seq),
        PeerFrame::SnapshotRequest(request) => written = write_snapshot_request(&mut out, request),
        PeerFrame::SnapshotChunk(chunk) => {
            let standings: Vec<Standing> = chunk.standings().collect();
            written = write_snapshot_chunk(&mut out, &chunk.head, &standings);
        }
        PeerFrame::Leave => write_leave(&mut out),
        PeerFrame::Forget { name } => written = write_forget(&mut out, name),
        PeerFrame::Ping => write_ping(&mut out),
        PeerFrame::TimedSums(timed) => {
            let sums: Vec<Sum> = timed.sums(NOW_NS).collect();
            assert_eq!(write_timed_sums(&mut out, timed.seq, NOW_NS, &sums), sums.len());
        }
        PeerFrame::TimedStandings(timed) => {
            let standings: Vec<Standing> = timed.standings(NOW_NS).collect();
            let count = write_timed_standings(&mut out, timed.first, NOW_NS, &standings);
            assert_eq!(count, standings.len());
        }
        PeerFrame::Limits(it) => write_limits(&mut out, it.first, it.is_last, &it.limits),
        PeerFrame::Terms(it) => assert_eq!(write_terms(&mut out, &it.terms), it.terms.len()),
        PeerFrame::Acts(acts) => assert_eq!(write_acts(&mut out, acts), acts.len()),
        PeerFrame::Credits(credits) => {
            let list: Vec<_> = credits.credits().collect();
            assert_eq!(write_credits(&mut out, credits.of, &credits.positions, &list), list.len());
        }
        PeerFrame::Clock { unix_ms } => write_clock(&mut out, *unix_ms),
    }
    written.expect("what was read is within its bounds");
    out
}

/// Everything that the frame says but how many sections of a batch were skipped. What a batch says of
/// one kind keeps its order, and the kinds are told one after the other.
fn told(frame: &PeerFrame<'_>) -> String {
    match frame {
        PeerFrame::Batch(batch) => {
            let mut deltas: Vec<Delta> = batch.deltas(NOW_NS).collect();
            assert_eq!(deltas.len(), batch.deltas(NOW_NS).len());
            deltas.sort_by_key(|delta| match delta.when {
                When::Untimed => 0,
                When::Window { .. } => 1,
                When::At { .. } => 2,
            });
            format!("batch {} {deltas:?}", batch.seq)
        }
        PeerFrame::Heal(heal) => {
            let sums: Vec<Sum> = heal.sums().collect();
            assert_eq!(sums.len(), heal.sums().len());
            format!("heal {} {} {} {sums:?}", heal.seq, heal.upto, heal.last)
        }
        PeerFrame::TimedSums(timed) => {
            let sums: Vec<Sum> = timed.sums(NOW_NS).collect();
            assert_eq!(sums.len(), timed.len());
            format!("timed sums {} {sums:?}", timed.seq)
        }
        PeerFrame::TimedStandings(timed) => {
            let standings: Vec<Standing> = timed.standings(NOW_NS).collect();
            assert_eq!(standings.len(), timed.len());
            format!("timed standings {} {standings:?}", timed.first)
        }
        PeerFrame::SnapshotChunk(chunk) => {
            let standings: Vec<Standing> = chunk.standings().collect();
            assert_eq!(standings.len(), chunk.standings().len());
            format!("chunk {:?} {standings:?}", chunk.head)
        }
        PeerFrame::Credits(it) => {
            let credits: Vec<_> = it.credits().collect();
            assert_eq!(credits.len(), it.len());
            format!("credits {:?} {:?} {credits:?}", it.of, it.positions)
        }
        other => format!("{other:?}"),
    }
}
