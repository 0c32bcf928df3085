//! How a node answers a frame: at once, or when the last of its checks is decided.

use std::pin::Pin;
use std::time::Duration;

use futures_util::future::join_all;
use limiter::{Decision, Op, Reason};
use wire::{
    Check, ERROR_BYTES, ErrorCode, FRAME_BYTES_MAX, FrameError, PausedReply, ReplyWriter,
    RequestFrame, Status,
};

use crate::door::{Door, Fault};
use crate::node::{Asked, Caller, Held, Node};

/// Most frames of one connection that wait for an answer; it is not read meanwhile. Their replies are
/// all that a client who does not read them makes the node hold, 64 KiB each.
pub const HELD_FRAMES_MAX: usize = 64;

/// The reply to a frame that comes later. Dropping it gives up the checks that are not decided.
pub type LateReply<'n> = Pin<Box<dyn Future<Output = Vec<u8>> + Send + 'n>>;

impl Node {
    /// Answers one frame, received at `now_ns`, by appending a reply or an error frame to `out`, or
    /// nothing where silence is the answer. Where a check of it is held there is nothing in `out`,
    /// and the reply comes later.
    ///
    /// # Errors
    /// What was wrong with the frame; nothing of it was decided. What there is to answer is in `out`
    /// already. A stream asks [`FrameError::closes_stream`] what to do next.
    pub fn answer_frame(
        &self,
        now_ns: u64,
        frame: &[u8],
        out: &mut Vec<u8>,
        caller: Caller,
    ) -> Result<Option<LateReply<'_>>, FrameError> {
        let is_sampled = self.counters().count_frame(caller.door);
        let request = RequestFrame::decode(frame)
            .inspect_err(|error| self.refuse_frame(*error, frame, out, caller))?;
        if caller.is_forgeable && !request.covers_reply() {
            self.refuse(ErrorCode::ReplyTooLong, Fault::TooShortForReply, frame, out, caller);
            return Ok(None);
        }
        let bytes_max = if caller.is_forgeable { request.bytes_len() } else { FRAME_BYTES_MAX };
        let mut reply = ReplyWriter::bounded(out, request.id, request.len(), bytes_max);
        let mut checks = request.checks();
        while let Some(check) = checks.next() {
            match self.ask_check(now_ns, check, caller) {
                Ok(Asked::Decided(decision)) => self.write(&mut reply, now_ns, &decision),
                Err(status) => reply.status(status),
                Ok(Asked::Held(held)) => {
                    // Those behind it are decided now, each as it would be alone: a frame that waits
                    // for one waits for none of the others longer than for that one.
                    let mut rest = Vec::with_capacity(checks.len() + 1);
                    rest.push(Answer::Held(held));
                    rest.extend(checks.map(|check| self.ask_check(now_ns, check, caller).into()));
                    let started_ns = is_sampled.then_some(now_ns);
                    let late = self.answer_late(reply.pause(), rest, started_ns, caller.door);
                    return Ok(Some(Box::pin(late)));
                }
            }
        }
        reply.finish();
        if is_sampled {
            self.record_duration(caller.door, now_ns);
        }
        Ok(None)
    }

    /// Completes a reply whose next answers are `rest` once all of them are known.
    async fn answer_late<'n>(
        &'n self,
        reply: PausedReply,
        rest: Vec<Answer<'n>>,
        started_ns: Option<u64>,
        door: Door,
    ) -> Vec<u8> {
        let rest = join_all(rest.into_iter().map(Answer::decided)).await;
        let mut out = Vec::new();
        let mut reply = reply.resume(&mut out);
        let now_ns = self.clock().now_ns();
        for answer in rest {
            match answer {
                Ok(decision) => self.write(&mut reply, now_ns, &decision),
                Err(status) => reply.status(status),
            }
        }
        reply.finish();
        if let Some(started_ns) = started_ns {
            self.record_duration(door, started_ns);
        }
        out
    }

    fn write(&self, reply: &mut ReplyWriter<'_>, now_ns: u64, decision: &Decision<'_>) {
        reply.decision(decision, self.clock().unix_ms(now_ns, decision.verdict.reset_after));
    }

    fn record_duration(&self, door: Door, started_ns: u64) {
        let took_ns = self.clock().now_ns().saturating_sub(started_ns);
        self.counters().record_duration(door, took_ns);
    }

    /// Counts a frame that cannot be read and appends the error frame that its sender gets, if any.
    pub fn refuse_frame(&self, error: FrameError, bytes: &[u8], out: &mut Vec<u8>, caller: Caller) {
        let fault = match error {
            FrameError::Version(_) => Fault::Version,
            FrameError::Flags(_) => Fault::UnknownFlags,
            FrameError::TooLarge(_) => Fault::TooLarge,
            FrameError::Count(1..) => Fault::TooManyChecks,
            FrameError::Short
            | FrameError::Magic
            | FrameError::Kind(_)
            | FrameError::Length(_)
            | FrameError::Count(0)
            | FrameError::Record(_) => Fault::Malformed,
        };
        match (error.code(), caller.door) {
            (Some(code), _) => self.refuse(code, fault, bytes, out, caller),
            // A stream is about to be closed: its client is told why.
            (None, Door::Stream) => self.refuse(ErrorCode::Malformed, fault, bytes, out, caller),
            (None, _) => self.counters().count_fault(caller.door, fault),
        }
    }

    fn ask_check(
        &self,
        now_ns: u64,
        check: Result<Check<'_>, Status>,
        caller: Caller,
    ) -> Result<Asked<'_>, Status> {
        let check = check.inspect_err(|_| self.count_undecided(caller.door, Fault::BadCheck))?;
        let request = check.request;
        if caller.is_forgeable && request.op == Op::Refund {
            self.count_undecided(caller.door, Fault::Forbidden);
            return Err(Status::Forbidden);
        }
        let max_wait = check.max_wait_us.map(|us| Duration::from_micros(us.into()));
        if caller.may_hold || max_wait == Some(Duration::ZERO) {
            return self.ask(now_ns, &request, caller.door, max_wait).map_err(Status::from);
        }
        let asked = self.ask(now_ns, &request, caller.door, Some(Duration::ZERO))?;
        let is_check = request.op == Op::Check && !request.is_peek();
        if let Asked::Decided(decision) = &asked
            && is_check
            && decision.verdict.reason == Reason::Share
        {
            self.counters().count_fault(caller.door, Fault::HoldLimit);
        }
        Ok(asked)
    }

    /// Appends an error frame, unless a datagram would get back more than it brought.
    fn refuse(
        &self,
        code: ErrorCode,
        fault: Fault,
        bytes: &[u8],
        out: &mut Vec<u8>,
        caller: Caller,
    ) {
        self.counters().count_fault(caller.door, fault);
        if caller.door != Door::Udp || bytes.len() >= ERROR_BYTES {
            wire::write_error(out, wire::frame_id(bytes), code);
        }
    }
}

/// The answer to one check of a frame.
enum Answer<'n> {
    Known(Result<Decision<'n>, Status>),
    Held(Held<'n>),
}

impl<'n> Answer<'n> {
    async fn decided(self) -> Result<Decision<'n>, Status> {
        match self {
            Self::Known(answer) => answer,
            Self::Held(held) => Ok(held.await),
        }
    }
}

impl<'n> From<Result<Asked<'n>, Status>> for Answer<'n> {
    fn from(asked: Result<Asked<'n>, Status>) -> Self {
        match asked {
            Ok(Asked::Decided(decision)) => Self::Known(Ok(decision)),
            Ok(Asked::Held(held)) => Self::Held(held),
            Err(status) => Self::Known(Err(status)),
        }
    }
}

#[cfg(test)]
mod tests {
    use limiter::Request;
    use wire::{HEADER_BYTES, RequestWriter, ServerFrame, decode_reply};

    use super::*;
    use crate::door::Outcome;
    use crate::scripted::{NOW_NS, Scripted};

    const LOCAL: Caller = Caller::known(Door::Udp);
    const EXPOSED: Caller = Caller { is_forgeable: true, ..LOCAL };
    const CROWDED: Caller = Caller { may_hold: false, ..LOCAL };

    fn frame_of(requests: &[Request<'_>], is_padded: bool) -> Vec<u8> {
        let mut frame = Vec::new();
        let mut writer = RequestWriter::new(&mut frame, 42);
        for request in requests {
            writer.check(request, None).expect("room in the frame");
        }
        if is_padded {
            writer = writer.pad_for_reply();
        }
        writer.finish();
        frame
    }

    fn answer(node: &Node, frame: &[u8], caller: Caller) -> Vec<u8> {
        let mut out = Vec::new();
        let _ = node.answer_frame(NOW_NS, frame, &mut out, caller);
        out
    }

    /// Each answer as allowed and remaining, or as the status it has instead.
    fn outcomes(reply: &[u8]) -> Vec<Result<(bool, Option<u64>), Status>> {
        match decode_reply(reply).expect("a reply") {
            ServerFrame::Reply(reply) => {
                assert_eq!(reply.id, 42);
                let told = |answer: Result<wire::Answer<'_>, Status>| {
                    answer.map(|answer| (answer.allowed, answer.remaining))
                };
                reply.answers().map(told).collect()
            }
            other => panic!("not a reply: {other:?}"),
        }
    }

    fn error_code(reply: &[u8]) -> ErrorCode {
        match decode_reply(reply).expect("a reply") {
            ServerFrame::Error { id: 42, code, .. } => code,
            other => panic!("not an error with the request's id: {other:?}"),
        }
    }

    fn check<'a>() -> Request<'a> {
        Request::check(b"GET /", b"alice")
    }

    #[test]
    fn checks_of_a_frame_are_answered_in_order() {
        let node = Node::with_burst(2);
        let peek = check().with_op(Op::Peek);
        let frame = frame_of(&[check(), peek, check(), check()], false);
        assert_eq!(
            outcomes(&answer(&node, &frame, LOCAL)),
            [Ok((true, Some(1))), Ok((true, Some(1))), Ok((true, Some(0))), Ok((false, Some(0)))]
        );
        let counters = node.counters();
        assert_eq!(counters.frames(Door::Udp), 1);
        assert_eq!(counters.checks(Door::Udp, Outcome::Allowed), 2);
        assert_eq!(counters.checks(Door::Udp, Outcome::Peek), 1);
        assert_eq!(counters.checks(Door::Udp, Outcome::Denied), 1);
    }

    #[test]
    fn a_check_that_cannot_be_decided_stops_no_other() {
        let node = Node::with_burst(2);
        let frame = frame_of(&[Request::check(b"x", b""), check()], false);
        assert_eq!(
            outcomes(&answer(&node, &frame, LOCAL)),
            [Err(Status::KeyEmpty), Ok((true, Some(1)))]
        );
        assert_eq!(node.counters().checks(Door::Udp, Outcome::Error), 1);
        assert_eq!(node.counters().faults(Door::Udp, Fault::BadCheck), 1);
    }

    #[test]
    fn a_forgeable_sender_must_pad_and_a_refused_frame_charges_nothing() {
        let node = Node::with_burst(2);
        let short = frame_of(&[check()], false);
        let refused = answer(&node, &short, EXPOSED);
        assert_eq!(error_code(&refused), ErrorCode::ReplyTooLong);
        assert!(refused.len() <= short.len());
        assert_eq!(node.counters().faults(Door::Udp, Fault::TooShortForReply), 1);

        let padded = frame_of(&[check()], true);
        let answered = answer(&node, &padded, EXPOSED);
        assert_eq!(outcomes(&answered), [Ok((true, Some(1)))]);
        assert!(answered.len() <= padded.len());
    }

    #[test]
    fn details_never_make_an_answer_longer_than_a_forgeable_question() {
        let node = Node::with_burst(2);
        let mut request = check();
        request.details = true;
        let padded = frame_of(&[request], true);
        assert!(answer(&node, &padded, EXPOSED).len() <= padded.len());
    }

    #[test]
    fn a_forgeable_sender_gives_nothing_back() {
        let node = Node::with_burst(2);
        let refund = check().with_op(Op::Refund);
        let frame = frame_of(&[check(), refund.clone(), check()], true);
        assert_eq!(
            outcomes(&answer(&node, &frame, EXPOSED)),
            [Ok((true, Some(1))), Err(Status::Forbidden), Ok((true, Some(0)))]
        );
        assert_eq!(node.counters().faults(Door::Udp, Fault::Forbidden), 1);
        let local = answer(&node, &frame_of(&[refund], false), LOCAL);
        assert_eq!(outcomes(&local), [Ok((true, Some(1)))]);
    }

    #[test]
    fn no_prefix_and_no_flipped_bit_of_a_datagram_is_answered_with_more() {
        let node = Node::with_burst(1_000_000);
        let frame = frame_of(&[check()], false);
        let local_reply_max = wire::reply_bytes_max(wire::CHECKS_MAX);
        for length in 0..frame.len() {
            assert!(answer(&node, &frame[..length], LOCAL).len() <= length);
        }
        for at in 0..frame.len() * 8 {
            let mut flipped = frame.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            assert!(answer(&node, &flipped, EXPOSED).len() <= flipped.len());
            assert!(answer(&node, &flipped, LOCAL).len() <= local_reply_max);
        }
    }

    #[test]
    fn faults_of_frames_are_counted_by_kind_and_charge_nothing() {
        let node = Node::with_burst(1);
        let frame = frame_of(&[check()], false);
        let broken = |at: usize, byte: u8| {
            let mut broken = frame.clone();
            broken[at] = byte;
            broken
        };
        assert_eq!(error_code(&answer(&node, &broken(2, 9), LOCAL)), ErrorCode::Version);
        assert_eq!(error_code(&answer(&node, &broken(17, 1), LOCAL)), ErrorCode::UnknownFlags);
        assert_eq!(error_code(&answer(&node, &broken(19, 9), LOCAL)), ErrorCode::TooManyChecks);
        assert_eq!(error_code(&answer(&node, &broken(18, 0), LOCAL)), ErrorCode::Malformed);
        // Neither a frame nor anything that wants an answer.
        assert!(answer(&node, &broken(0, 0), LOCAL).is_empty());
        assert!(answer(&node, &broken(3, 2), LOCAL).is_empty());
        let counters = node.counters();
        assert_eq!(counters.faults(Door::Udp, Fault::Version), 1);
        assert_eq!(counters.faults(Door::Udp, Fault::UnknownFlags), 1);
        assert_eq!(counters.faults(Door::Udp, Fault::TooManyChecks), 1);
        assert_eq!(counters.faults(Door::Udp, Fault::Malformed), 3);
        assert_eq!(outcomes(&answer(&node, &frame, LOCAL)), [Ok((true, Some(0)))]);
    }

    #[test]
    fn a_stream_is_told_before_it_is_closed() {
        let node = Node::with_burst(1);
        let mut out = Vec::new();
        let error = wire::frame_length(b"GET / HTTP/1.1\r\n\r\n..").expect_err("not a frame");
        node.refuse_frame(error, b"GET", &mut out, Caller::known(Door::Stream));
        assert!(matches!(
            decode_reply(&out),
            Ok(ServerFrame::Error { id: 0, code: ErrorCode::Malformed, .. })
        ));
    }

    #[test]
    fn answers_are_appended_behind_what_is_there() {
        let node = Node::with_burst(1);
        let mut out = b"before".to_vec();
        let frame = frame_of(&[check()], false);
        node.answer_frame(NOW_NS, &frame, &mut out, LOCAL).expect("a sound frame");
        assert!(out.starts_with(b"before") && out.len() > 6 + HEADER_BYTES);
    }

    #[tokio::test]
    async fn a_frame_is_answered_in_order_when_its_last_check_is_decided() {
        let (node, peer) = Scripted::node(10);
        // Five are this node's share, the next two are held, and a peek behind them is not.
        let mut checks = vec![check(); 7];
        checks.push(Request::check(b"GET /", b"bob").with_op(Op::Peek));
        checks.push(Request::check(b"GET /", b""));
        let mut out = b"before".to_vec();
        let frame = frame_of(&checks, false);
        let late = node.answer_frame(NOW_NS, &frame, &mut out, LOCAL).expect("a sound frame");
        let late = late.expect("it waits for two checks");
        assert_eq!(out, b"before");
        // Another frame is answered meanwhile.
        let other = frame_of(&[Request::check(b"GET /", b"carol")], false);
        assert_eq!(outcomes(&answer(&node, &other, LOCAL)), [Ok((true, Some(9)))]);
        let (reply, ()) = tokio::join!(late, async {
            for _ in 0..3 {
                tokio::task::yield_now().await;
                peer.acknowledge();
            }
        });
        let mut want: Vec<_> = (3..10).rev().map(|left| Ok((true, Some(left)))).collect();
        want.extend([Ok((true, Some(10))), Err(Status::KeyEmpty)]);
        assert_eq!(outcomes(&reply), want);
    }

    #[tokio::test(start_paused = true)]
    async fn checks_of_a_frame_wait_together() {
        let (node, _peer) = Scripted::node(10);
        let frame = frame_of(&vec![check(); 100], false);
        let late = node.answer_frame(NOW_NS, &frame, &mut Vec::new(), LOCAL);
        let late = late.expect("a sound frame").expect("it waits");
        let reply = tokio::time::timeout(2 * crate::node::DEFAULT_MAX_WAIT, late).await;
        let outcomes = outcomes(&reply.expect("one wait, not 95 of them"));
        assert_eq!(outcomes.iter().filter(|it| matches!(it, Ok((true, _)))).count(), 5);
    }

    #[test]
    fn a_check_that_may_not_be_held_is_denied_for_its_share_and_counted() {
        let (node, _peer) = Scripted::node(10);
        let peek = Request::check(b"GET /", b"alice").with_op(Op::Peek);
        let mut checks = vec![check(); 7];
        checks.push(peek);
        let mut out = Vec::new();
        let late = node.answer_frame(NOW_NS, &frame_of(&checks, false), &mut out, CROWDED);
        assert!(late.expect("a sound frame").is_none());
        let denied = outcomes(&out).iter().filter(|it| matches!(it, Ok((false, _)))).count();
        assert_eq!(denied, 3, "two checks, and the peek");
        assert_eq!(node.counters().checks(Door::Udp, Outcome::Denied), 2);
        assert_eq!(node.counters().faults(Door::Udp, Fault::HoldLimit), 2);
        // One that would not wait anyway has lost nothing.
        let mut hasty = Vec::new();
        let mut writer = RequestWriter::new(&mut hasty, 42);
        writer.check(&check(), Some(0)).expect("room");
        writer.finish();
        assert!(matches!(outcomes(&answer(&node, &hasty, CROWDED))[..], [Ok((false, _))]));
        assert_eq!(node.counters().faults(Door::Udp, Fault::HoldLimit), 2);
    }

    #[test]
    fn a_node_that_starts_says_so_of_each_check() {
        let (node, peer) = Scripted::node(10);
        peer.set_ready(false);
        let frame = frame_of(&[check(), check()], false);
        assert_eq!(outcomes(&answer(&node, &frame, LOCAL)), [Err(Status::Starting); 2]);
    }
}
