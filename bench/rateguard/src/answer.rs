//! From a frame to a frame: every check of it is put to `rateguard`, and answered in rlnode's words.

use std::borrow::Cow;

use limiter::{DEFAULT_UNIT, Freshness, Op, Reason, Request, Verdict, Wait};
use rateguard::Guard;
use wire::{Check, ERROR_BYTES, ReplyWriter, RequestFrame, Status};

/// Answers frames out of one node.
#[derive(Debug)]
pub(crate) struct Answerer {
    guard: Guard,
    /// Name of the limit in every answer.
    name: String,
    /// Nodes that the cluster has when it is whole.
    members: usize,
}

impl Answerer {
    /// Answers out of `guard`, a node of a cluster of `members`, in the name of the limit `name`.
    pub(crate) fn new(guard: Guard, name: String, members: usize) -> Self {
        Self { guard, name, members }
    }

    /// Appends the reply to `frame` to `out`: one answer for each check, in their order. A frame that
    /// cannot be read decides nothing; it gets the error frame that rlnode gives, or silence.
    pub(crate) fn answer(&self, frame: &[u8], out: &mut Vec<u8>) {
        let request = match RequestFrame::decode(frame) {
            Ok(request) => request,
            Err(error) => {
                // Nobody is sent more than was spent, as at rlnode's door.
                if let Some(code) = error.code().filter(|_| frame.len() >= ERROR_BYTES) {
                    wire::write_error(out, wire::frame_id(frame), code);
                }
                return;
            }
        };
        let mut reply = ReplyWriter::new(out, request.id);
        for check in request.checks() {
            match check.and_then(|check| self.decide(&check)) {
                Ok(decision) => reply.decision(&decision, None),
                Err(status) => reply.status(status),
            }
        }
        reply.finish();
    }

    /// Puts one check to the node. It counts requests of a key, one at a time, and nothing else:
    /// there is no looking, charging afterwards or giving back, and a check has no weight.
    fn decide(&self, check: &Check<'_>) -> Result<limiter::Decision<'_>, Status> {
        let request = &check.request;
        request.validate()?;
        if request.op != Op::Check || cost(request) != 1 {
            return Err(Status::UnsupportedOp);
        }
        let retry_after = match self.guard.check(&key_text(request.key)) {
            rateguard::Decision::Allow => None,
            rateguard::Decision::Deny { retry_after } => {
                Some(u64::try_from(retry_after.as_nanos()).unwrap_or(u64::MAX))
            }
        };
        Ok(limiter::Decision {
            verdict: self.verdict(retry_after),
            freshness: self.freshness(),
            stale_ms: 0,
            details: Vec::new(),
        })
    }

    /// The node tells no more than whether and, if not, when. Capacity, remainder and time of reset
    /// are all ones: no number.
    fn verdict(&self, retry_after_ns: Option<u64>) -> Verdict<'_> {
        let allowed = retry_after_ns.is_none();
        Verdict {
            limit_name: &self.name,
            allowed,
            reason: if allowed { Reason::Ok } else { Reason::Limit },
            shadow: false,
            limit: None,
            remaining: None,
            reset_after: Wait::NEVER,
            retry_after: Wait::from_ns(retry_after_ns.unwrap_or(0)),
            delay: Wait::ZERO,
            window: Wait::ZERO,
        }
    }

    fn freshness(&self) -> Freshness {
        if self.members == 1 {
            Freshness::Alone
        } else if self.guard.cluster_size() < self.members {
            Freshness::Split
        } else {
            Freshness::Synced
        }
    }
}

/// What the request costs in the only unit that is counted. Another unit costs nothing here, as it
/// costs nothing to a limit of rlnode that does not count it.
fn cost(request: &Request<'_>) -> u64 {
    let is_counted = |unit: &[u8]| unit.is_empty() || unit == DEFAULT_UNIT.as_bytes();
    request.costs.iter().find(|(unit, _)| is_counted(unit)).map_or(1, |(_, amount)| *amount)
}

/// The key as text, which `rateguard` wants: each byte is the character of that number. Text in ASCII
/// is itself, and no two keys become one.
fn key_text(key: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(key) {
        Ok(text) if text.is_ascii() => Cow::Borrowed(text),
        _ => Cow::Owned(key.iter().copied().map(char::from).collect()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rateguard::Limit;
    use wire::{ErrorCode, RequestWriter, ServerFrame, decode_reply};

    use super::*;

    const BURST: u32 = 40;

    /// A node alone, whose limit gives nothing back while a test runs.
    fn answerer() -> Answerer {
        let limit = Limit::per_hour(1).burst(BURST);
        let guard = Guard::builder().bind("127.0.0.1:0").default_limit(limit).spawn().unwrap();
        Answerer::new(guard, "test".into(), 1)
    }

    fn frame_of(requests: &[Request<'_>]) -> Vec<u8> {
        let mut frame = Vec::new();
        let mut writer = RequestWriter::new(&mut frame, 42);
        for request in requests {
            writer.check(request, None).unwrap();
        }
        writer.finish();
        frame
    }

    /// Whether each check was allowed, or its status.
    fn answers(answerer: &Answerer, frame: &[u8]) -> Vec<Result<bool, Status>> {
        let mut out = Vec::new();
        answerer.answer(frame, &mut out);
        let ServerFrame::Reply(reply) = decode_reply(&out).unwrap() else {
            panic!("no reply: {out:?}");
        };
        assert_eq!(reply.id, 42);
        reply.answers().map(|answer| answer.map(|answer| answer.allowed)).collect()
    }

    #[tokio::test]
    async fn a_frame_of_64_checks_gets_64_answers_of_which_the_burst_is_allowed() {
        let answerer = answerer();
        let frame = frame_of(&vec![Request::check(b"GET /", b"alice"); 64]);
        let allowed = answers(&answerer, &frame);
        let expected: Vec<_> = (0..64).map(|index| Ok(index < BURST)).collect();
        assert_eq!(allowed, expected);
    }

    #[tokio::test]
    async fn an_answer_says_what_the_node_knows_and_no_more() {
        let answerer = answerer();
        let mut out = Vec::new();
        answerer.answer(&frame_of(&vec![Request::check(b"", b"k"); 41]), &mut out);
        let Ok(ServerFrame::Reply(reply)) = decode_reply(&out) else { panic!("no reply") };
        let answers: Vec<_> = reply.answers().map(Result::unwrap).collect();
        let (first, last) = (&answers[0], &answers[40]);
        assert_eq!((first.reason, first.retry_after), (Some(Reason::Ok), Wait::ZERO));
        assert_eq!((last.allowed, last.reason), (false, Some(Reason::Limit)));
        assert!(last.retry_after > Wait::ZERO && last.retry_after != Wait::NEVER);
        assert_eq!((last.limit_name, last.limit, last.remaining), ("test", None, None));
        assert_eq!(last.freshness, Some(Freshness::Alone));
    }

    #[tokio::test]
    async fn what_rateguard_cannot_do_is_refused_for_that_check_alone() {
        let check = Request::check(b"", b"k");
        let frame = frame_of(&[
            check.clone().with_op(Op::Peek),
            check.clone().with_op(Op::Debit),
            check.clone().with_op(Op::Refund),
            check.clone().with_cost(2),
            check.clone().with_cost(0),
            check.clone().with_unit_cost(b"", 3),
            check.clone().with_cost(1),
            check.with_unit_cost(b"bytes", 5),
        ]);
        let unsupported = Err(Status::UnsupportedOp);
        let mut expected = vec![unsupported; 6];
        expected.extend([Ok(true); 2]);
        assert_eq!(answers(&answerer(), &frame), expected);
    }

    #[tokio::test]
    async fn a_check_that_breaks_a_bound_gets_the_status_that_rlnode_gives_it() {
        let long = [b'k'; limiter::KEY_BYTES_MAX + 1];
        let mut frame = frame_of(&[Request::check(b"", b"kk"), Request::check(b"", b"k")]);
        // The first record says that its key has no bytes; those behind are skipped.
        frame[wire::HEADER_BYTES + 10] = 0;
        assert_eq!(answers(&answerer(), &frame), [Err(Status::KeyEmpty), Ok(true)]);
        assert_eq!(
            Request::check(b"", &long).validate().map_err(Status::from),
            Err(Status::KeyTooLong)
        );
    }

    #[tokio::test]
    async fn bad_frames_decide_nothing_and_are_dropped_or_told_so() {
        let answerer = answerer();
        let good = frame_of(&vec![Request::check(b"", b"k"); 2]);
        let with = |at: usize, byte: u8| {
            let mut frame = good.clone();
            frame[at] = byte;
            frame
        };
        let dropped = [vec![], b"RL".to_vec(), with(0, b'x'), with(3, 2), good[..23].to_vec()];
        for frame in dropped {
            let mut out = Vec::new();
            answerer.answer(&frame, &mut out);
            assert_eq!(out, [], "{frame:?}");
        }
        for (frame, code) in [
            (with(2, 9), ErrorCode::Version),
            (with(4, 21), ErrorCode::Malformed),
            (with(16, 1), ErrorCode::UnknownFlags),
            (with(18, 0), ErrorCode::Malformed),
            (with(19, 2), ErrorCode::TooManyChecks),
            (with(20, 200), ErrorCode::Malformed),
        ] {
            let mut out = Vec::new();
            answerer.answer(&frame, &mut out);
            let told =
                matches!(decode_reply(&out), Ok(ServerFrame::Error { code: c, .. }) if c == code);
            assert!(told, "{code:?} for {frame:?}: {out:?}");
        }
        let spent = answers(&answerer, &frame_of(&vec![Request::check(b"", b"k"); 64]));
        let allowed = spent.iter().filter(|answer| **answer == Ok(true)).count();
        assert_eq!(allowed, BURST as usize, "a bad frame spent something");
    }

    #[test]
    fn no_two_keys_become_one() {
        let keys: [&[u8]; 6] = [b"alice", b"\xe9", "é".as_bytes(), b"\xff", "ÿ".as_bytes(), b"e"];
        let texts: HashSet<_> = keys.into_iter().map(key_text).collect();
        assert_eq!(texts.len(), keys.len());
        assert_eq!(key_text(b"api:tenant-42"), "api:tenant-42");
    }
}
