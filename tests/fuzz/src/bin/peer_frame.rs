//! A peer's frame that can be read, written again, reads the same.
//!
//! The input is tried as it is, and as the type of a frame with its payload behind it: a right
//! length is hard to guess.
#![no_main]

use limiter::{Delta, Standing, Sum};
use rlnode_fuzz::fuzz_target;
use wire::peer::{
    BatchWriter, PeerDecoded, PeerFrame, decode_peer, peer_frame_length, write_ack, write_answer,
    write_done, write_forget, write_heal, write_heal_ack, write_hello, write_leave, write_ping,
    write_refused, write_snapshot_chunk, write_snapshot_request,
};

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
            let deltas: Vec<Delta> = batch.deltas().collect();
            let mut writer = BatchWriter::new(&mut out, batch.seq);
            assert_eq!(writer.spends(&deltas), deltas.len());
            writer.finish();
        }
        PeerFrame::Ack { next } => write_ack(&mut out, *next),
        PeerFrame::Heal(heal) => {
            let sums: Vec<Sum> = heal.sums().collect();
            assert_eq!(write_heal(&mut out, heal.seq, heal.upto, &sums), sums.len());
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
    }
    written.expect("what was read is within its bounds");
    out
}

/// Everything that the frame says but whether a heal is the last, which follows from what is left to
/// be sent, and how many sections of a batch were skipped.
fn told(frame: &PeerFrame<'_>) -> String {
    match frame {
        PeerFrame::Batch(batch) => {
            let deltas: Vec<Delta> = batch.deltas().collect();
            assert_eq!(deltas.len(), batch.deltas().len());
            format!("batch {} {deltas:?}", batch.seq)
        }
        PeerFrame::Heal(heal) => {
            let sums: Vec<Sum> = heal.sums().collect();
            assert_eq!(sums.len(), heal.sums().len());
            format!("heal {} {} {sums:?}", heal.seq, heal.upto)
        }
        PeerFrame::SnapshotChunk(chunk) => {
            let standings: Vec<Standing> = chunk.standings().collect();
            assert_eq!(standings.len(), chunk.standings().len());
            format!("chunk {:?} {standings:?}", chunk.head)
        }
        other => format!("{other:?}"),
    }
}
