//! Bytes that are not what they should be: the frame is refused, and said to be why.

use wire::peer::{
    BatchFrame, PeerDecoded, PeerFrame, PeerFrameError, Refusal, decode_peer, peer_frame_length,
};

use crate::vectors::{self, WRITTEN, bytes};
use crate::{NOW_NS, exhaust, fault, frame, framed, hello, mended, rewritten};

#[test]
fn every_prefix_of_a_frame_is_refused() {
    for vector in WRITTEN {
        let whole = bytes(vector);
        for cut in 0..whole.len() {
            let expected = if cut < 8 {
                PeerFrameError::Short
            } else {
                PeerFrameError::Length(u32::try_from(whole.len()).unwrap())
            };
            assert_eq!(fault(&whole[..cut]), expected, "{vector} cut at {cut}");
        }
    }
}

#[test]
fn every_prefix_with_a_mended_length_is_malformed() {
    for vector in WRITTEN {
        let whole = bytes(vector);
        for cut in 8..whole.len() {
            let prefix = mended(whole[..cut].to_vec());
            // What is left of a batch cut before a section is a batch of the sections before.
            let deltas = match (vector, cut) {
                (vectors::BATCH | vectors::BATCH_TIMED, 16) => Some(0),
                (vectors::BATCH_TIMED, 34) => Some(1),
                (vectors::BATCH_TIMED, 85) => Some(3),
                _ => None,
            };
            if let Some(deltas) = deltas {
                let PeerFrame::Batch(batch) = frame(&prefix) else { panic!("no batch") };
                assert_eq!(batch.deltas(NOW_NS).len(), deltas);
            } else {
                assert_eq!(
                    fault(&prefix),
                    PeerFrameError::Malformed(whole[0]),
                    "{vector} at {cut}"
                );
            }
        }
    }
}

#[test]
fn every_value_of_every_byte_is_read_without_panic() {
    for vector in WRITTEN.into_iter().chain([vectors::BATCH_OF_LATER_VERSION]) {
        let whole = bytes(vector);
        for at in 0..whole.len() {
            for value in 0..=u8::MAX {
                let mut bytes = whole.clone();
                bytes[at] = value;
                exhaust(&bytes);
                // What can be read can be written, and reads the same.
                if let Ok(PeerDecoded::Frame(read)) = decode_peer(&bytes) {
                    let again = rewritten(&read);
                    assert_eq!(rewritten(&frame(&again)), again);
                }
            }
        }
    }
}

#[test]
fn each_header_fault_is_told_apart() {
    let whole = bytes(vectors::ACK);
    let with = |at: usize, value: u8| {
        let mut bytes = whole.clone();
        bytes[at] = value;
        let error = fault(&bytes);
        let by_header = peer_frame_length(bytes.first_chunk().unwrap());
        assert!(by_header == Err(error) || by_header.is_ok_and(|length| length != bytes.len()));
        error
    };
    assert_eq!(with(0, 0x8c), PeerFrameError::Type(0x8c));
    assert_eq!(with(0, 0xff), PeerFrameError::Type(0xff));
    assert_eq!(with(1, 1), PeerFrameError::Flags(1));
    assert_eq!(with(2, 1), PeerFrameError::Reserved(1));
    assert_eq!(with(3, 0x80), PeerFrameError::Reserved(0x8000));
    assert_eq!(with(4, 7), PeerFrameError::Length(7));
    assert_eq!(with(4, 15), PeerFrameError::Length(15));
    assert_eq!(with(4, 17), PeerFrameError::Length(17));
    let too_large = PeerFrameError::TooLarge { frame_type: 0x85, length: 0x0001_0010 };
    assert_eq!(with(6, 1), too_large);
}

#[test]
fn an_unknown_type_is_skipped_below_the_mark_and_refused_above_it() {
    for frame_type in 0..=u8::MAX {
        let bytes = framed(frame_type, b"whatever it says");
        match frame_type {
            0x01..=0x08 | 0x80..=0x8b => {
                assert!(!matches!(decode_peer(&bytes), Ok(PeerDecoded::Skipped(_))));
            }
            0x80.. => assert_eq!(fault(&bytes), PeerFrameError::Type(frame_type)),
            _ => {
                let read = decode_peer(&bytes);
                assert!(matches!(read, Ok(PeerDecoded::Skipped(skipped)) if skipped == frame_type));
            }
        }
    }
}

#[test]
fn bytes_behind_a_control_message_are_skipped_and_behind_any_other_refused() {
    for vector in WRITTEN {
        let whole = bytes(vector);
        let longer = mended([&whole[..], b"\0new"].concat());
        match whole[0] {
            0x80..=0x83 | 0x88 | 0x8b => assert_eq!(rewritten(&frame(&longer)), whole),
            _ => assert_eq!(fault(&longer), PeerFrameError::Malformed(whole[0])),
        }
    }
}

#[test]
fn bytes_behind_the_head_of_a_chunk_are_skipped() {
    let whole = bytes(vectors::SNAPSHOT_CHUNK);
    let (before, standings) = whole.split_at(8 + 4 + 38);
    let mut longer = mended([before, b"new", standings].concat());
    longer[8] += 3;
    assert_eq!(rewritten(&frame(&longer)), whole);
}

#[test]
fn a_count_above_the_bytes_that_follow_is_malformed_before_memory_is_taken() {
    // Lists of up to 64 and 65,535 entries, in control messages.
    let mut members = bytes(vectors::HELLO);
    members[36] = 64;
    members.truncate(37 + 63);
    assert_eq!(fault(&mended(members)), PeerFrameError::Malformed(0x80));
    let mut limits = bytes(vectors::HELLO)[..8 + 53].to_vec();
    limits.extend_from_slice(&[0xfb, 0xff, 0xff]);
    limits.resize(limits.len() + 4 * 65_535 - 1, 0);
    assert_eq!(fault(&mended(limits)), PeerFrameError::Malformed(0x80));
    let positions = framed(0x88, &[64, 0, 0]);
    assert_eq!(fault(&positions), PeerFrameError::Malformed(0x88));

    // Lists of frames that are laid out by hand.
    let count = [0xff, 0xff, 3];
    let batch = [&[0; 8][..], &[1, 4, 0, 0, 0], &count, &[0]].concat();
    assert_eq!(fault(&framed(0x84, &batch)), PeerFrameError::Malformed(0x84));
    let heal = [&[0; 16][..], &[1], &count].concat();
    assert_eq!(fault(&framed(0x86, &heal)), PeerFrameError::Malformed(0x86));
    let chunk = [&[7, 0, 0, 0], &[0; 7][..], &count].concat();
    assert_eq!(fault(&framed(0x89, &chunk)), PeerFrameError::Malformed(0x89));
    // Each section has a least of its own: 12, 14 and 13 bytes.
    for (section, bytes_min) in [(1, 12), (2, 14), (3, 13)] {
        let length = u8::try_from(1 + 2 * bytes_min - 1).unwrap();
        let deltas = vec![0; 2 * bytes_min - 1];
        let body = [&[0; 8][..], &[section, length, 0, 0, 0, 2], &deltas].concat();
        assert_eq!(fault(&framed(0x84, &body)), PeerFrameError::Malformed(0x84));
    }
    for frame_type in [0x02, 0x03] {
        let timed = [&[0; 8][..], &[0xff, 0x5f], &[0; 3]].concat();
        assert_eq!(fault(&framed(frame_type, &timed)), PeerFrameError::Malformed(frame_type));
    }
}

#[test]
fn a_value_that_its_field_cannot_have_is_malformed() {
    let with = |vector: &str, at: usize, value: u8| {
        let mut bytes = bytes(vector);
        bytes[at] = value;
        fault(&bytes)
    };
    let hello = PeerFrameError::Malformed(0x80);
    assert_eq!(with(vectors::HELLO, 8, 2), hello, "the lowest protocol is above the highest");
    assert_eq!(with(vectors::HELLO, 12, 0xff), hello, "a cluster that is no text");
    assert_eq!(with(vectors::HELLO, 35, 2), hello, "neither synced nor not");
    assert_eq!(with(vectors::HELLO, 50, b'1'), hello, "a member twice");
    assert_eq!(with(vectors::HELLO, 50, b'0'), hello, "members that do not ascend");
    assert_eq!(with(vectors::HELLO, 107, 65), hello, "more members than there can be");
    let mut no_life = bytes(vectors::ANSWER);
    no_life.splice(34..37, [0]);
    assert_eq!(fault(&mended(no_life)), PeerFrameError::Malformed(0x81), "a life of 0");

    let batch = PeerFrameError::Malformed(0x84);
    assert_eq!(with(vectors::BATCH, 32, 0x0c), batch, "a flag of a delta");
    assert_eq!(with(vectors::BATCH, 69, 0x1f), batch, "a demand of more than 32 bits");
    assert_eq!(with(vectors::BATCH, 70, 49), batch, "a shift above 48");
    assert_eq!(with(vectors::BATCH, 17, 0x34), batch, "a section past the end");
    assert_eq!(with(vectors::BATCH, 21, 2), batch, "a section longer than its deltas");
    assert_eq!(with(vectors::HEAL, 24, 3), PeerFrameError::Malformed(0x86), "a flag of a heal");
    let timed = PeerFrameError::Malformed(0x84);
    assert_eq!(with(vectors::BATCH_TIMED, 50, 0x0c), timed, "a flag of a delta of a window");
    let sums = PeerFrameError::Malformed(0x02);
    assert_eq!(with(vectors::TIMED_SUMS, 17, 3), sums, "in a window and at a time");
    assert_eq!(with(vectors::TIMED_SUMS, 17, 5), sums, "of the same bucket as none");
    assert_eq!(with(vectors::TIMED_SUMS, 17, 9), sums, "a sum with a demand");
    assert_eq!(with(vectors::TIMED_SUMS, 16, 2), sums, "more sums than were counted");
    let standings = PeerFrameError::Malformed(0x03);
    assert_eq!(with(vectors::TIMED_STANDINGS, 17, 0x19), standings, "an unknown flag");
    assert_eq!(with(vectors::TIMED_STANDINGS, 17, 0x0b), standings, "in a window and at a time");
    assert_eq!(with(vectors::TIMED_STANDINGS, 17, 0x0d), standings, "the same bucket as none");
    assert_eq!(with(vectors::TIMED_STANDINGS, 41, 49), standings, "a shift above 48");
    let chunk = PeerFrameError::Malformed(0x89);
    assert_eq!(with(vectors::SNAPSHOT_CHUNK, 12, 0xff), chunk, "no integer");
    assert_eq!(with(vectors::SNAPSHOT_CHUNK, 84, 49), chunk, "a shift above 48");
    let mut backwards = bytes(vectors::SNAPSHOT_CHUNK);
    backwards[12] = 1;
    backwards.splice(13..22, [0]);
    backwards[8] = 30;
    assert_eq!(fault(&mended(backwards)), chunk, "a range that ends before it begins");
}

#[test]
fn a_batch_without_sections_or_deltas_is_a_batch() {
    let without_sections = framed(0x84, &9u64.to_le_bytes());
    let without_deltas = framed(0x84, &[&9u64.to_le_bytes()[..], &[1, 1, 0, 0, 0], &[0]].concat());
    for bytes in [without_sections, without_deltas] {
        let PeerFrame::Batch(BatchFrame { seq: 9, skipped: 0, .. }) = frame(&bytes) else {
            panic!("no batch")
        };
    }
}

#[test]
fn a_demand_of_0_that_is_written_reads_as_none() {
    let mut bytes = bytes(vectors::BATCH);
    // The first delta's demand of 512 becomes 0 in two bytes, and its shift 7.
    bytes.splice(34..37, [0x80, 0, 7]);
    let PeerFrame::Batch(batch) = frame(&bytes) else { panic!("no batch") };
    let first = batch.deltas(NOW_NS).next().unwrap();
    assert_eq!(first, crate::delta(0, crate::HASH, 3));
}

#[test]
fn refusals_go_there_and_back_and_each_has_a_word() {
    for number in 0..=u8::MAX {
        let refusal = Refusal::from_u8(number);
        assert_eq!(refusal.to_u8(), number);
        assert_eq!(matches!(refusal, Refusal::Unknown(_)), !(1..=10).contains(&number));
        assert_eq!(refusal.as_str() == "unknown", matches!(refusal, Refusal::Unknown(_)));
    }
    let words: std::collections::BTreeSet<_> = Refusal::ALL.map(Refusal::as_str).into();
    assert_eq!(words.len(), Refusal::ALL.len());
}

#[test]
fn the_highest_protocol_that_both_speak_is_spoken() {
    let speaking = |protocol_min, protocol_max| {
        let hello = wire::peer::Hello { protocol_min, protocol_max, ..hello() };
        hello.common_protocol()
    };
    assert_eq!(speaking(1, 1), Some(1));
    assert_eq!(speaking(0, 9), Some(1));
    assert_eq!(speaking(2, 9), None);
    assert_eq!(speaking(0, 0), None);
}
