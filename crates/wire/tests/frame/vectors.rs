//! Every byte of some frames, written by hand. They may be added to, never changed: clients in
//! other languages are tested against them.

use limiter::{Decision, Freshness, Op, Reason, Request, Verdict, Wait};
use wire::{
    Detail, ErrorCode, ReplyWriter, RequestFrame, RequestWriter, ServerFrame, Status, frame_length,
    write_error,
};

use crate::{decision, parts, reply, request_frame, verdict};

/// The bytes of a vector: hexadecimal, `#` begins a comment.
pub(crate) fn bytes(text: &str) -> Vec<u8> {
    text.lines()
        .flat_map(|line| line.split('#').next().unwrap_or_default().split_whitespace())
        .map(|byte| u8::from_str_radix(byte, 16).expect("two hexadecimal digits"))
        .collect()
}

pub(crate) const REQUEST_CHECK: &str = include_str!("vectors/request_check.hex");
pub(crate) const REQUEST_FULL: &str = include_str!("vectors/request_full.hex");
pub(crate) const REQUEST_PADDED: &str = include_str!("vectors/request_padded.hex");
pub(crate) const REPLY_ALLOWED: &str = include_str!("vectors/reply_allowed.hex");
pub(crate) const REPLY_DENIED_NEVER: &str = include_str!("vectors/reply_denied_never.hex");
pub(crate) const ERROR_VERSION: &str = include_str!("vectors/error_version.hex");

/// All of them.
pub(crate) const ALL: [&str; 6] =
    [REQUEST_CHECK, REQUEST_FULL, REQUEST_PADDED, REPLY_ALLOWED, REPLY_DENIED_NEVER, ERROR_VERSION];

#[test]
fn a_plain_check_has_the_bytes_of_its_vector() {
    let request = Request::check(b"GET /", b"alice");
    let vector = bytes(REQUEST_CHECK);
    assert_eq!(request_frame(7, std::slice::from_ref(&request)), vector);

    let frame = RequestFrame::decode(&vector).unwrap();
    assert_eq!((frame.id, frame.len(), frame.bytes_len()), (7, 1, 44));
    let check = frame.checks().next().unwrap().unwrap();
    assert_eq!(parts(&check.request, check.max_wait_us), parts(&request, None));
}

#[test]
fn a_request_with_everything_has_the_bytes_of_its_vector() {
    let debit = Request {
        op: Op::Debit,
        endpoint: b"POST /search",
        key: b"\x00\xff",
        attributes: [(&b"plan"[..], &b"pro"[..]), (b"ip", b"")].into_iter().collect(),
        costs: [(&b""[..], 3), (b"bytes", 1 << 40)].into_iter().collect(),
        details: true,
        terms: None,
    };
    let refund = Request::check(b"", b"b").with_op(Op::Refund);
    let vector = bytes(REQUEST_FULL);

    let mut written = Vec::new();
    let mut writer = RequestWriter::new(&mut written, 0x0102_0304_0506_0708);
    writer.check(&debit, Some(5_000)).unwrap();
    writer.check(&refund, Some(0)).unwrap();
    writer.finish();
    assert_eq!(written, vector);

    let frame = RequestFrame::decode(&vector).unwrap();
    assert_eq!(frame.id, 0x0102_0304_0506_0708);
    let checks: Vec<_> = frame.checks().map(Result::unwrap).collect();
    assert_eq!(parts(&checks[0].request, checks[0].max_wait_us), parts(&debit, Some(5_000)));
    assert_eq!(parts(&checks[1].request, checks[1].max_wait_us), parts(&refund, Some(0)));
    assert_eq!(checks.len(), 2);
}

#[test]
fn fields_of_a_later_version_and_padding_are_skipped() {
    let vector = bytes(REQUEST_PADDED);
    let frame = RequestFrame::decode(&vector).unwrap();
    let checks: Vec<_> = frame.checks().map(Result::unwrap).collect();
    assert_eq!(checks.len(), 2);
    let peek = Request::check(b"", b"a").with_op(Op::Peek);
    assert_eq!(parts(&checks[0].request, checks[0].max_wait_us), parts(&peek, None));
    assert_eq!(checks[1].request.key, b"b");
}

#[test]
fn an_allowing_answer_has_the_bytes_of_its_vector() {
    let vector = bytes(REPLY_ALLOWED);
    let mut written = Vec::new();
    let mut writer = ReplyWriter::new(&mut written, 7);
    writer.decision(&decision("per-key", Vec::new()), Some(1_700_000_000_100));
    writer.finish();
    assert_eq!(written, vector);

    let reply = reply(&vector);
    assert_eq!((reply.id, reply.len()), (7, 1));
    let answer = reply.answers().next().unwrap().unwrap();
    assert!(answer.allowed);
    assert_eq!(answer.limit_name, "per-key");
    assert_eq!(answer.reason, Some(Reason::Ok));
    assert_eq!(answer.freshness, Some(Freshness::Alone));
    assert_eq!((answer.limit, answer.remaining), (Some(100), Some(99)));
    assert_eq!(answer.reset_after, Wait::from_ns(100_000_000));
    assert_eq!(answer.reset_at_ms, Some(1_700_000_000_100));
    assert_eq!((answer.retry_after, answer.delay), (Wait::ZERO, Wait::ZERO));
    assert_eq!((answer.stale_ms, answer.details_cut, answer.details.len()), (0, false, 0));
}

#[test]
fn a_denial_for_ever_with_details_has_the_bytes_of_its_vector() {
    let per_key = Verdict {
        remaining: Some(40),
        reset_after: Wait::from_ns(6_000_000_000),
        ..verdict("per-key")
    };
    let login = Verdict {
        allowed: false,
        reason: Reason::Limit,
        limit: Some(5),
        remaining: Some(5),
        reset_after: Wait::ZERO,
        retry_after: Wait::NEVER,
        ..verdict("login/pro")
    };
    let whole_api = Verdict {
        allowed: false,
        reason: Reason::Limit,
        shadow: true,
        limit: Some(3_000),
        remaining: Some(2),
        reset_after: Wait::from_ns(999_333_334),
        retry_after: Wait::from_ns(1_333_334),
        ..verdict("whole-api")
    };
    let decision = Decision {
        verdict: login,
        freshness: Freshness::Stale,
        stale_ms: 250,
        details: vec![per_key, login, whole_api],
    };
    let vector = bytes(REPLY_DENIED_NEVER);
    let mut written = Vec::new();
    let mut writer = ReplyWriter::new(&mut written, 9);
    writer.decision(&decision, Some(1_700_000_000_000));
    writer.status(Status::KeyTooLong);
    writer.finish();
    assert_eq!(written, vector);

    let reply = reply(&vector);
    let mut answers = reply.answers();
    let answer = answers.next().unwrap().unwrap();
    assert!(!answer.allowed);
    assert_eq!(answer.reason, Some(Reason::Limit));
    assert_eq!((answer.freshness, answer.stale_ms), (Some(Freshness::Stale), 250));
    assert_eq!(answer.retry_after, Wait::NEVER);
    let details: Vec<_> = answer.details.collect();
    assert_eq!(details, decision.details.iter().map(detail_of).collect::<Vec<_>>());
    assert_eq!(answers.next().unwrap().unwrap_err(), Status::KeyTooLong);
    assert!(answers.next().is_none());
}

#[test]
fn an_error_frame_has_the_bytes_of_its_vector_in_every_version() {
    let mut vector = bytes(ERROR_VERSION);
    let mut written = Vec::new();
    write_error(&mut written, 7, ErrorCode::Version);
    assert_eq!(written, vector);
    assert_eq!(written.len(), wire::ERROR_BYTES);

    for version in [1, 2, 255] {
        vector[2] = version;
        assert_eq!(frame_length(&vector), Ok(Some(24)));
        let frame = wire::decode_reply(&vector).unwrap();
        let ServerFrame::Error { id, code, versions } = frame else { panic!("{frame:?}") };
        assert_eq!((id, code, versions), (7, ErrorCode::Version, (1, 1)));
    }
}

#[test]
fn the_protocol_document_explains_every_byte_of_the_vectors_that_it_shows() {
    let document = include_str!("../../../../docs/protocol.md");
    for vector in [REQUEST_CHECK, REPLY_ALLOWED] {
        let rows = vector.lines().skip(1).collect::<Vec<_>>().join("\n");
        assert!(document.contains(&rows), "docs/protocol.md lacks:\n{rows}");
    }
}

/// What a detail of `verdict` reads as.
pub(crate) fn detail_of<'a>(verdict: &Verdict<'a>) -> Detail<'a> {
    Detail {
        limit_name: verdict.limit_name,
        allowed: verdict.allowed,
        reason: Some(verdict.reason),
        shadow: verdict.shadow,
        limit: verdict.limit,
        remaining: verdict.remaining,
        reset_after: verdict.reset_after,
        retry_after: verdict.retry_after,
        delay: verdict.delay,
    }
}
