//! Bytes that are not what they should be: the whole frame refused, or one check of it.

use limiter::RequestError;
use wire::{
    ErrorCode, FrameError, RequestFrame, ServerFrame, Status, decode_reply, frame_id, frame_length,
    write_error,
};

use crate::vectors::{self, bytes};
use crate::{exhaust, framed, reply};

fn record(op: u8, flags: u8, key: &[u8]) -> Vec<u8> {
    let mut record = vec![0, 0, op, flags, 0xff, 0xff, 0xff, 0xff, 0, 0];
    record.extend_from_slice(&u16::try_from(key.len()).expect("a short key").to_le_bytes());
    record.extend_from_slice(&[0, 0]);
    record.extend_from_slice(key);
    let length = u16::try_from(record.len()).expect("a short record").to_le_bytes();
    record[..2].copy_from_slice(&length);
    record
}

#[test]
fn every_prefix_of_a_frame_is_incomplete_on_a_stream_and_refused_as_a_message() {
    for vector in vectors::ALL {
        let whole = bytes(vector);
        for cut in 0..whole.len() {
            let prefix = &whole[..cut];
            let expected = (cut >= wire::HEADER_BYTES).then_some(whole.len());
            assert_eq!(frame_length(prefix), Ok(expected), "{vector} cut at {cut}");
            assert!(RequestFrame::decode(prefix).is_err(), "{vector} cut at {cut}");
            assert!(decode_reply(prefix).is_err(), "{vector} cut at {cut}");
        }
        assert_eq!(frame_length(&whole), Ok(Some(whole.len())));
    }
}

#[test]
fn a_prefix_with_a_mended_length_is_refused_or_loses_only_padding() {
    for vector in vectors::ALL {
        let whole = bytes(vector);
        for cut in wire::HEADER_BYTES..whole.len() {
            let mut prefix = whole[..cut].to_vec();
            prefix[4..8].copy_from_slice(&u32::try_from(cut).unwrap().to_le_bytes());
            exhaust(&prefix);
            let is_padding_lost = vector == vectors::REQUEST_PADDED && cut >= whole.len() - 3;
            assert_eq!(RequestFrame::decode(&prefix).is_ok(), is_padding_lost, "{vector} at {cut}");
            assert!(decode_reply(&prefix).is_err(), "{vector} cut at {cut}");
        }
    }
}

#[test]
fn every_value_of_every_byte_is_read_without_panic() {
    for vector in vectors::ALL {
        let whole = bytes(vector);
        for at in 0..whole.len() {
            for value in 0..=u8::MAX {
                let mut bytes = whole.clone();
                bytes[at] = value;
                exhaust(&bytes);
                // A stream that a flipped byte desynchronises ends here; it must not panic either.
                let _ = frame_length(&bytes);
            }
        }
    }
}

#[test]
fn each_header_fault_is_told_apart() {
    let whole = bytes(vectors::REQUEST_CHECK);
    let with = |at: usize, value: u8| {
        let mut bytes = whole.clone();
        bytes[at] = value;
        RequestFrame::decode(&bytes).unwrap_err()
    };
    assert_eq!(RequestFrame::decode(&whole[..19]).unwrap_err(), FrameError::Short);
    assert_eq!(with(0, b'X'), FrameError::Magic);
    assert_eq!(with(1, b'X'), FrameError::Magic);
    assert_eq!(with(2, 2), FrameError::Version(2));
    assert_eq!(with(3, 2), FrameError::Kind(2));
    assert_eq!(with(3, 9), FrameError::Kind(9));
    assert_eq!(with(4, 43), FrameError::Length(43));
    assert_eq!(with(7, 1), FrameError::TooLarge(0x0100_002c));
    assert_eq!(with(16, 1), FrameError::Flags(1));
    assert_eq!(with(17, 0x80), FrameError::Flags(0x8000));
    assert_eq!(with(18, 2), FrameError::Record(1));
}

#[test]
fn a_reply_or_error_of_any_version_is_never_answered() {
    for vector in [vectors::REPLY_ALLOWED, vectors::ERROR_VERSION] {
        for version in [0, 1, 2, 255] {
            let mut bytes = bytes(vector);
            bytes[2] = version;
            let error = RequestFrame::decode(&bytes).unwrap_err();
            assert_eq!(error.code(), None, "version {version}");
        }
    }
}

#[test]
fn a_stream_goes_on_only_where_the_next_frame_can_be_found() {
    use FrameError::{Count, Flags, Kind, Length, Magic, Record, Short, TooLarge, Version};
    let closing = [Short, Magic, Kind(9), Version(2), Length(3), TooLarge(70_000)];
    let lasting = [Flags(1), Count(0), Count(257), Record(0)];
    assert!(closing.into_iter().all(FrameError::closes_stream));
    assert!(!lasting.into_iter().any(FrameError::closes_stream));
}

#[test]
fn a_stream_that_does_not_begin_as_a_frame_is_refused_at_its_first_wrong_byte() {
    assert_eq!(frame_length(b""), Ok(None));
    assert_eq!(frame_length(b"R"), Ok(None));
    assert_eq!(frame_length(b"G"), Err(FrameError::Magic));
    assert_eq!(frame_length(b"RX"), Err(FrameError::Magic));
    assert_eq!(frame_length(b"GET / HTTP/1.1\r\nHost: x\r\n"), Err(FrameError::Magic));
    assert_eq!(frame_length(b"RL\x01\x09----------------"), Err(FrameError::Kind(9)));
    assert_eq!(frame_length(b"RL\x02\x01----------------"), Err(FrameError::Version(2)));
}

#[test]
fn the_id_of_an_error_frame_is_that_of_the_frame_or_0() {
    let mut whole = bytes(vectors::REQUEST_CHECK);
    assert_eq!(frame_id(&whole), 7);
    assert_eq!(frame_id(&whole[..20]), 7);
    assert_eq!(frame_id(&whole[..19]), 0);
    whole[2] = 9;
    assert_eq!(frame_id(&whole), 7);
    whole[0] = b'X';
    assert_eq!(frame_id(&whole), 0);
}

#[test]
fn a_record_that_does_not_add_up_refuses_the_whole_frame_by_its_index() {
    let sound = record(1, 0, b"k");
    let with = |at: usize, value: u8| {
        let mut faulty = sound.clone();
        faulty[at] = value;
        let records = [sound.clone(), faulty].concat();
        RequestFrame::decode(&framed(2, &records)).map(|_| ())
    };
    assert_eq!(with(0, 15), Ok(()));
    for (at, value) in [(0, 0), (0, 1), (0, 13), (0, 14), (0, 16), (1, 1), (8, 1), (9, 1), (10, 2)]
    {
        assert_eq!(with(at, value), Err(FrameError::Record(1)), "byte {at} = {value}");
    }
}

#[test]
fn a_check_that_the_node_cannot_know_gets_a_status_and_its_neighbours_are_read() {
    let cases = [
        (record(0, 0, b"k"), Status::UnsupportedOp),
        (record(5, 0, b"k"), Status::UnsupportedOp),
        (record(6, 0, b"k"), Status::UnsupportedOp),
        (record(7, 0, b"k"), Status::UnsupportedOp),
        (record(255, 0, b"k"), Status::UnsupportedOp),
        (record(1, 2, b"k"), Status::UnknownFlags),
        (record(1, 0x81, b"k"), Status::UnknownFlags),
    ];
    for (faulty, status) in cases {
        let bytes = framed(3, &[record(1, 0, b"a"), faulty, record(1, 0, b"b")].concat());
        let frame = RequestFrame::decode(&bytes).unwrap();
        let keys: Vec<_> = frame.checks().map(|check| check.map(|c| c.request.key)).collect();
        assert_eq!(keys, [Ok(&b"a"[..]), Err(status), Ok(&b"b"[..])]);
    }
}

#[test]
fn a_check_that_breaks_a_bound_of_the_limiter_is_read_as_it_is() {
    let key = vec![b'k'; limiter::KEY_BYTES_MAX + 1];
    let bytes = framed(2, &[record(1, 0, b""), record(1, 0, &key)].concat());
    let frame = RequestFrame::decode(&bytes).unwrap();
    let lengths: Vec<_> = frame.checks().map(|check| check.unwrap().request.key.len()).collect();
    assert_eq!(lengths, [0, limiter::KEY_BYTES_MAX + 1]);
}

#[test]
fn every_error_of_the_limiter_has_a_status_of_its_own() {
    let errors = [
        (RequestError::KeyEmpty, 3),
        (RequestError::KeyTooLong, 4),
        (RequestError::EndpointTooLong, 5),
        (RequestError::Attribute, 6),
        (RequestError::Cost, 7),
    ];
    for (error, number) in errors {
        assert_eq!(Status::from(error).to_u8(), number);
    }
}

#[test]
fn numbers_of_statuses_and_codes_go_there_and_back() {
    assert_eq!(Status::from_u8(0), None);
    for number in 1..=u8::MAX {
        let status = Status::from_u8(number).unwrap();
        assert_eq!(status.to_u8(), number);
        assert_eq!(matches!(status, Status::Unknown(_)), number > 9);
    }
    for number in 0..=u16::MAX {
        let code = ErrorCode::from_u16(number);
        assert_eq!(code.to_u16(), number);
        assert_eq!(matches!(code, ErrorCode::Unknown(_)), !(1..=7).contains(&number));
    }
}

#[test]
fn a_reason_freshness_or_status_newer_than_the_reader_is_not_a_fault_of_the_frame() {
    let mut whole = bytes(vectors::REPLY_ALLOWED);
    whole[24] = 8;
    whole[25] = 5;
    let answer = reply(&whole).answers().next().unwrap().unwrap();
    assert!(answer.allowed);
    assert_eq!((answer.reason, answer.freshness), (None, None));
    whole[22] = 10;
    assert_eq!(reply(&whole).answers().next().unwrap().unwrap_err(), Status::Unknown(10));
}

#[test]
fn fields_that_a_later_node_appends_to_a_reply_are_skipped() {
    let whole = bytes(vectors::REPLY_DENIED_NEVER);
    let (header, records) = whole.split_at(20);
    let (first, second) = records.split_at(242);
    let (fixed, details) = first.split_at(73);
    let (detail, other_details) = details.split_at(55);
    let mut longer = [header, fixed, detail, b"new", other_details, b"newer", second].concat();
    longer[4..8].copy_from_slice(&(326u32 + 8).to_le_bytes());
    longer[20..22].copy_from_slice(&(242u16 + 8).to_le_bytes());
    longer[93..95].copy_from_slice(&(55u16 + 3).to_le_bytes());
    longer.extend_from_slice(b"padding");
    longer[4..8].copy_from_slice(&(326u32 + 8 + 7).to_le_bytes());

    let told = |bytes: &[u8]| {
        let answers = reply(bytes).answers();
        format!(
            "{:?}",
            answers.map(|a| a.map(|a| a.details.collect::<Vec<_>>())).collect::<Vec<_>>()
        )
    };
    assert_eq!(told(&longer), told(&whole));
}

#[test]
fn a_reply_whose_parts_do_not_fit_is_refused_by_the_record() {
    let whole = bytes(vectors::REPLY_DENIED_NEVER);
    let with = |at: usize, value: u8| {
        let mut bytes = whole.clone();
        bytes[at] = value;
        decode_reply(&bytes).map(|_| ()).unwrap_err()
    };
    assert_eq!(with(26, 222), FrameError::Record(0), "name past the record");
    assert_eq!(with(27, 4), FrameError::Record(0), "more details than there are");
    assert_eq!(with(84, 0xff), FrameError::Record(0), "a name that is no text");
    assert_eq!(with(93, 47), FrameError::Record(0), "a detail below its fixed part");
    assert_eq!(with(97, 8), FrameError::Record(0), "a detail's name past the detail");
    assert_eq!(with(262, 63), FrameError::Record(1), "a record below its fixed part");
    assert_eq!(with(3, 1), FrameError::Kind(1));
    assert_eq!(with(2, 2), FrameError::Version(2));
    assert_eq!(with(16, 1), FrameError::Flags(1));
    assert_eq!(with(19, 2), FrameError::Count(0x0202));
}

#[test]
fn an_error_frame_too_short_for_its_code_is_refused() {
    let mut bytes = bytes(vectors::ERROR_VERSION);
    bytes.pop();
    bytes[4] = 23;
    assert_eq!(decode_reply(&bytes).map(|_| ()).unwrap_err(), FrameError::Length(23));
}

#[test]
fn an_error_frame_carries_any_code_and_id() {
    for number in [0, 1, 6, 7, 8, u16::MAX] {
        let mut bytes = Vec::new();
        write_error(&mut bytes, u64::MAX, ErrorCode::from_u16(number));
        let frame = decode_reply(&bytes).unwrap();
        let ServerFrame::Error { id, code, versions } = frame else { panic!("{frame:?}") };
        assert_eq!((id, code.to_u16(), versions), (u64::MAX, number, (1, 1)));
    }
}
