//! Each bound of the frame, met exactly and exceeded by one.

use limiter::{ATTRIBUTES_MAX, COSTS_MAX, Op, Request};
use wire::{
    CHECKS_MAX, ErrorCode, FRAME_BYTES_MAX, FrameError, HEADER_BYTES, LIMIT_NAME_BYTES_MAX,
    REPLY_RECORD_BYTES_MAX, ReplyWriter, RequestFrame, RequestWriter, Status, WriteError,
    frame_length, reply_bytes_max,
};

use crate::{decision, framed, reply, request_frame, verdict};

const RECORD: [u8; 15] = *b"\x0f\x00\x01\x00\xff\xff\xff\xff\x00\x00\x01\x00\x00\x00k";

#[test]
fn a_frame_holds_256_checks_and_not_one_more() {
    let full = framed(256, &RECORD.repeat(256));
    let frame = RequestFrame::decode(&full).unwrap();
    assert_eq!((frame.len(), frame.checks().len()), (CHECKS_MAX, CHECKS_MAX));
    assert!(frame.checks().all(|check| check.is_ok()));

    let over = framed(257, &RECORD.repeat(257));
    assert_eq!(RequestFrame::decode(&over).unwrap_err(), FrameError::Count(257));
    assert_eq!(FrameError::Count(257).code(), Some(ErrorCode::TooManyChecks));
    let empty = framed(0, &[]);
    assert_eq!(RequestFrame::decode(&empty).unwrap_err(), FrameError::Count(0));
    assert_eq!(FrameError::Count(0).code(), Some(ErrorCode::Malformed));
}

#[test]
fn a_writer_takes_256_checks_and_keeps_them_when_it_refuses_another() {
    let request = Request::check(b"", b"k");
    let mut bytes = Vec::new();
    let mut writer = RequestWriter::new(&mut bytes, 77);
    for _ in 0..CHECKS_MAX {
        writer.check(&request, None).unwrap();
    }
    assert_eq!(writer.check(&request, None), Err(WriteError::Full));
    assert_eq!(writer.checks(), CHECKS_MAX);
    writer.finish();
    assert_eq!(bytes, framed(256, &RECORD.repeat(256)));
}

#[test]
fn a_frame_is_65507_bytes_long_and_not_one_more() {
    let mut bytes = framed(1, &RECORD);
    for (length, expected) in [
        (FRAME_BYTES_MAX, Ok(Some(FRAME_BYTES_MAX))),
        (FRAME_BYTES_MAX + 1, Err(FrameError::TooLarge(65_508))),
        (HEADER_BYTES, Ok(Some(HEADER_BYTES))),
        (HEADER_BYTES - 1, Err(FrameError::Length(19))),
        (0, Err(FrameError::Length(0))),
        (u32::MAX as usize, Err(FrameError::TooLarge(u32::MAX))),
    ] {
        bytes[4..8].copy_from_slice(&u32::try_from(length).unwrap().to_le_bytes());
        assert_eq!(frame_length(&bytes), expected, "{length}");
    }

    bytes.resize(FRAME_BYTES_MAX, 0xaa);
    bytes[4..8].copy_from_slice(&65_507u32.to_le_bytes());
    assert_eq!(RequestFrame::decode(&bytes).unwrap().len(), 1);
    bytes.push(0xaa);
    assert_eq!(RequestFrame::decode(&bytes).unwrap_err(), FrameError::Length(65_507));
    bytes[4..8].copy_from_slice(&65_508u32.to_le_bytes());
    assert_eq!(RequestFrame::decode(&bytes).unwrap_err(), FrameError::TooLarge(65_508));
    assert_eq!(FrameError::TooLarge(65_508).code(), Some(ErrorCode::TooLarge));
}

#[test]
fn a_writer_fills_a_frame_to_its_last_byte() {
    // Two records of 32,743 and 32,744 bytes behind the header make 65,507.
    let key = vec![b'k'; 32_744 - 14];
    let mut bytes = Vec::new();
    let mut writer = RequestWriter::new(&mut bytes, 1);
    writer.check(&Request::check(b"", &key), None).unwrap();
    assert_eq!(writer.check(&Request::check(b"", &key), None), Err(WriteError::Full));
    writer.check(&Request::check(b"", &key[1..]), None).unwrap();
    writer.finish();
    assert_eq!(bytes.len(), FRAME_BYTES_MAX);
    assert_eq!(RequestFrame::decode(&bytes).unwrap().len(), 2);
}

#[test]
fn a_request_that_no_frame_can_hold_is_too_long_and_leaves_the_frame_as_it_was() {
    let name = [b'n'; 256];
    let key = vec![b'k'; FRAME_BYTES_MAX - HEADER_BYTES - 14 + 1];
    let fits = Request::check(b"GET /", b"alice");
    let mut bytes = b"before".to_vec();
    let mut writer = RequestWriter::new(&mut bytes, 7);
    for refused in [
        Request::check(b"", &key),
        Request::check(&key, b"k"),
        fits.clone().with_attribute(&name, b""),
        fits.clone().with_attribute(b"n", &key),
        fits.clone().with_unit_cost(&name, 1),
    ] {
        assert_eq!(writer.check(&refused, None), Err(WriteError::TooLong));
    }
    assert_eq!(writer.check(&fits.clone().with_op(Op::Reset), None), Err(WriteError::Op));
    writer.check(&fits, None).unwrap();
    writer.finish();
    assert_eq!(bytes, [b"before".to_vec(), request_frame(7, &[fits])].concat());
}

#[test]
fn names_are_255_bytes_long_and_not_one_more() {
    let name = [b'n'; 255];
    let request =
        Request::check(b"", b"k").with_attribute(&name, b"v").with_unit_cost(&name, u64::MAX);
    let bytes = request_frame(1, &[request]);
    let frame = RequestFrame::decode(&bytes).unwrap();
    let check = frame.checks().next().unwrap().unwrap();
    assert_eq!(check.request.attributes[0], (&name[..], &b"v"[..]));
    assert_eq!(check.request.costs[0], (&name[..], u64::MAX));
}

#[test]
fn a_record_lists_16_attributes_and_4_costs_and_not_one_more() {
    let mut record = RECORD.to_vec();
    record.extend_from_slice(&[0; 17 * 3 + 5 * 9]);
    record[0] = u8::try_from(record.len()).unwrap();
    for (attributes, costs, expected) in
        [(16, 4, Ok(())), (17, 4, Err(FrameError::Record(0))), (16, 5, Err(FrameError::Record(0)))]
    {
        record[8] = attributes;
        record[9] = costs;
        let bytes = framed(1, &record);
        let frame = RequestFrame::decode(&bytes);
        assert_eq!(frame.map(|_| ()), expected);
        if let Ok(frame) = frame {
            let check = frame.checks().next().unwrap().unwrap();
            assert_eq!(check.request.attributes.len(), ATTRIBUTES_MAX);
            assert_eq!(check.request.costs.len(), COSTS_MAX);
        }
    }
}

#[test]
fn the_reply_to_256_checks_fits_with_the_longest_names() {
    let name = "n".repeat(LIMIT_NAME_BYTES_MAX);
    let mut bytes = Vec::new();
    let mut writer = ReplyWriter::new(&mut bytes, 1);
    for _ in 0..CHECKS_MAX {
        writer.decision(&decision(&name, Vec::new()), None);
    }
    writer.finish();
    assert_eq!(bytes.len(), HEADER_BYTES + CHECKS_MAX * REPLY_RECORD_BYTES_MAX);
    assert_eq!(bytes.len(), reply_bytes_max(CHECKS_MAX));
    let reply = reply(&bytes);
    assert_eq!(reply.len(), CHECKS_MAX);
    assert!(reply.answers().all(|answer| answer.unwrap().limit_name == name));
}

#[test]
fn a_name_is_129_bytes_long_and_cut_beyond() {
    let name = format!("{}é", "n".repeat(LIMIT_NAME_BYTES_MAX - 1));
    let mut bytes = Vec::new();
    let mut writer = ReplyWriter::new(&mut bytes, 1);
    writer.decision(&decision(&name, Vec::new()), None);
    writer.finish();
    let reply = reply(&bytes);
    let answer = reply.answers().next().unwrap().unwrap();
    assert_eq!(answer.limit_name, &name[..LIMIT_NAME_BYTES_MAX - 1]);
}

#[test]
fn details_that_leave_no_room_for_later_answers_are_cut_and_said_to_be() {
    let name = "n".repeat(LIMIT_NAME_BYTES_MAX);
    let details = vec![verdict(&name); 100];
    let mut bytes = Vec::new();
    let mut writer = ReplyWriter::new(&mut bytes, 1);
    for _ in 0..CHECKS_MAX {
        writer.decision(&decision(&name, details.clone()), None);
    }
    writer.finish();
    assert!(bytes.len() <= FRAME_BYTES_MAX);
    let reply = reply(&bytes);
    let answers: Vec<_> = reply.answers().map(Result::unwrap).collect();
    assert_eq!(answers.len(), CHECKS_MAX);
    assert!(answers.iter().all(|answer| answer.details_cut));
    // 16,079 bytes hold 90 details of 177.
    assert_eq!(answers.iter().map(|answer| answer.details.len()).sum::<usize>(), 90);
    assert_eq!(answers[0].details.len(), 90);
}

#[test]
fn details_fill_a_bounded_reply_to_the_last_byte() {
    let details = vec![verdict("abcd"); 3];
    let answer_bytes = 64 + 4;
    let detail_bytes = 48 + 4;
    // The second answer's room stays reserved for the longest name.
    let exact = HEADER_BYTES + answer_bytes + 3 * detail_bytes + REPLY_RECORD_BYTES_MAX;
    for (bytes_max, expected) in [(exact, 3), (exact - 1, 2), (reply_bytes_max(2), 2), (0, 0)] {
        let mut bytes = b"before".to_vec();
        let mut writer = ReplyWriter::bounded(&mut bytes, 1, 2, bytes_max);
        writer.decision(&decision("abcd", details.clone()), None);
        writer.status(Status::Starting);
        writer.finish();
        let reply = reply(&bytes[b"before".len()..]);
        let answer = reply.answers().next().unwrap().unwrap();
        assert_eq!(answer.details.len(), expected, "{bytes_max}");
        assert_eq!(answer.details_cut, expected < 3, "{bytes_max}");
    }
}

#[test]
fn an_answer_lists_255_details_and_not_one_more() {
    for (count, is_cut) in [(255, false), (256, true)] {
        let mut bytes = Vec::new();
        let mut writer = ReplyWriter::bounded(&mut bytes, 1, 1, usize::MAX);
        let name = "n".repeat(LIMIT_NAME_BYTES_MAX);
        writer.decision(&decision(&name, vec![verdict(&name); count]), None);
        writer.finish();
        let reply = reply(&bytes);
        let answer = reply.answers().next().unwrap().unwrap();
        assert_eq!((answer.details.len(), answer.details_cut), (255, is_cut));
    }
}

#[test]
fn a_padded_request_covers_its_reply_and_one_byte_less_does_not() {
    let request = Request::check(b"GET /", b"alice");
    for checks in [1, 2, CHECKS_MAX] {
        let mut bytes = Vec::new();
        let mut writer = RequestWriter::new(&mut bytes, 1);
        for _ in 0..checks {
            writer.check(&request, None).unwrap();
        }
        writer.pad_for_reply().finish();
        assert_eq!(bytes.len(), reply_bytes_max(checks));
        let frame = RequestFrame::decode(&bytes).unwrap();
        assert!(frame.covers_reply());
        assert_eq!(frame.checks().filter(Result::is_ok).count(), checks);

        bytes.pop();
        let length = u32::try_from(bytes.len()).unwrap();
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
        assert!(!RequestFrame::decode(&bytes).unwrap().covers_reply());
    }
}

#[test]
fn padding_shortens_no_frame() {
    let key = [b'k'; 1_000];
    let mut bytes = Vec::new();
    let mut writer = RequestWriter::new(&mut bytes, 1);
    writer.check(&Request::check(b"", &key), None).unwrap();
    writer.pad_for_reply().finish();
    assert_eq!(bytes, request_frame(1, &[Request::check(b"", &key)]));
}

#[test]
fn a_frame_without_records_is_taken_back() {
    let mut bytes = b"before".to_vec();
    RequestWriter::new(&mut bytes, 1).finish();
    RequestWriter::new(&mut bytes, 1).pad_for_reply().finish();
    ReplyWriter::new(&mut bytes, 1).finish();
    assert_eq!(bytes, b"before");
}
