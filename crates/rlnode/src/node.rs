//! What every door shares: the limiter, the clock and the counts, and how a question is answered.
//!
//! It owns no socket. Deciding and writing the answer are kept apart, so that a check whose decision
//! comes later can be answered later.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU8, Ordering};

use limiter::{Decision, Freshness, Limiter, Op, Request, RequestError, Wait};
use wire::{
    Check, ERROR_BYTES, ErrorCode, FRAME_BYTES_MAX, FrameError, ReplyWriter, RequestFrame, Status,
};

use crate::clock::Clock;
use crate::counters::Counters;
use crate::door::{Door, DoorAddress, Fault, Outcome};
use crate::log::ShownKey;

/// Whether the node wants to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Readiness {
    /// Not every door is open yet.
    Starting = 0,
    /// Ask.
    Ready = 1,
    /// The node is about to stop; it still answers.
    Stopping = 2,
}

impl Readiness {
    /// The word used by `/readyz` and status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Stopping => "stopping",
        }
    }
}

/// Who asks, as far as that changes the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The door.
    pub door: Door,
    /// Anybody on a network could have sent it under anybody's address, so that an answer must not
    /// be longer than its question, and nothing may be given back.
    pub is_forgeable: bool,
}

impl Caller {
    /// A caller on this host, or one that a connection has proved to be where it says.
    pub fn known(door: Door) -> Self {
        Self { door, is_forgeable: false }
    }
}

/// One node.
#[derive(Debug)]
pub struct Node {
    name: String,
    addresses: Vec<DoorAddress>,
    limiter: Limiter,
    clock: Clock,
    counters: Counters,
    started_ns: u64,
    readiness: AtomicU8,
    show_keys: bool,
    /// Hashes the keys that logs mention. Its secret is made at the start and never leaves.
    key_hasher: RandomState,
}

impl Node {
    /// A node of this name that is starting and will listen at `addresses`. `show_keys` lets logs
    /// show keys instead of hashes.
    pub fn new(
        name: String,
        addresses: Vec<DoorAddress>,
        limiter: Limiter,
        show_keys: bool,
    ) -> Self {
        let clock = Clock::new();
        Self {
            name,
            addresses,
            limiter,
            started_ns: clock.now_ns(),
            clock,
            counters: Counters::new(),
            readiness: AtomicU8::new(Readiness::Starting as u8),
            show_keys,
            key_hasher: RandomState::new(),
        }
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[DoorAddress] {
        &self.addresses
    }

    /// The limiter.
    pub fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The counts of all doors.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Nanoseconds since the node was made.
    pub fn uptime_ns(&self) -> u64 {
        self.clock.now_ns().saturating_sub(self.started_ns)
    }

    /// Unix time in seconds at which the node was made, rounded up, by today's wall clock.
    pub fn started_unix_s(&self) -> u64 {
        self.clock.unix_ms(self.started_ns, Wait::ZERO).map_or(0, |ms| ms.div_ceil(1_000))
    }

    /// How well it knows the fleet's counts. There is no fleet.
    pub fn freshness(&self) -> Freshness {
        Freshness::Alone
    }

    /// Whether it wants to be asked.
    pub fn readiness(&self) -> Readiness {
        match self.readiness.load(Ordering::Acquire) {
            0 => Readiness::Starting,
            1 => Readiness::Ready,
            _ => Readiness::Stopping,
        }
    }

    /// Says whether it wants to be asked.
    pub fn set_readiness(&self, readiness: Readiness) {
        self.readiness.store(readiness as u8, Ordering::Release);
    }

    /// Answers one frame, received at `now_ns`, by appending a reply or an error frame to `out`, or
    /// nothing where silence is the answer.
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
    ) -> Result<(), FrameError> {
        let is_sampled = self.counters.count_frame(caller.door);
        let request = RequestFrame::decode(frame)
            .inspect_err(|error| self.refuse_frame(*error, frame, out, caller))?;
        if caller.is_forgeable && !request.covers_reply() {
            self.refuse(ErrorCode::ReplyTooLong, Fault::TooShortForReply, frame, out, caller);
            return Ok(());
        }
        let bytes_max = if caller.is_forgeable { request.bytes_len() } else { FRAME_BYTES_MAX };
        let mut reply = ReplyWriter::bounded(out, request.id, request.len(), bytes_max);
        for check in request.checks() {
            match self.decide_check(now_ns, check, caller) {
                Ok(decision) => {
                    let reset_at_ms = self.clock.unix_ms(now_ns, decision.verdict.reset_after);
                    reply.decision(&decision, reset_at_ms);
                }
                Err(status) => reply.status(status),
            }
        }
        reply.finish();
        if is_sampled {
            self.counters.record_duration(caller.door, self.clock.now_ns().saturating_sub(now_ns));
        }
        Ok(())
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
            (None, _) => self.counters.count_fault(caller.door, fault),
        }
    }

    /// Decides one request, received at `now_ns`, and counts it.
    ///
    /// # Errors
    /// The request cannot be decided; nothing was changed.
    pub fn decide(
        &self,
        now_ns: u64,
        request: &Request<'_>,
        door: Door,
    ) -> Result<Decision<'_>, RequestError> {
        let decision = self.limiter.decide(now_ns, request).inspect_err(|_| {
            self.count_undecided(door, Fault::BadCheck);
        })?;
        let outcome = match request.op {
            _ if request.is_peek() => Outcome::Peek,
            Op::Check if decision.verdict.allowed => Outcome::Allowed,
            Op::Check | Op::Peek => Outcome::Denied,
            Op::Debit => Outcome::Debit,
            // No door carries a reset; like a refund, it gives units back.
            Op::Refund | Op::Reset => Outcome::Refund,
        };
        self.counters.count_check(door, outcome);
        if outcome == Outcome::Denied {
            tracing::debug!(
                door = door.as_str(),
                limit = decision.verdict.limit_name,
                reason = decision.verdict.reason.as_str(),
                key = %self.shown_key(request.key),
                "denied"
            );
        }
        Ok(decision)
    }

    fn decide_check(
        &self,
        now_ns: u64,
        check: Result<Check<'_>, Status>,
        caller: Caller,
    ) -> Result<Decision<'_>, Status> {
        let request = match check {
            Ok(check) => check.request,
            Err(status) => {
                self.count_undecided(caller.door, Fault::BadCheck);
                return Err(status);
            }
        };
        if caller.is_forgeable && request.op == Op::Refund {
            self.count_undecided(caller.door, Fault::Forbidden);
            return Err(Status::Forbidden);
        }
        self.decide(now_ns, &request, caller.door).map_err(Status::from)
    }

    fn count_undecided(&self, door: Door, fault: Fault) {
        self.counters.count_check(door, Outcome::Error);
        self.counters.count_fault(door, fault);
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
        self.counters.count_fault(caller.door, fault);
        if caller.door != Door::Udp || bytes.len() >= ERROR_BYTES {
            wire::write_error(out, wire::frame_id(bytes), code);
        }
    }

    /// `key` as logs may show it.
    fn shown_key<'k>(&self, key: &'k [u8]) -> ShownKey<'k> {
        if self.show_keys {
            ShownKey::Text(key)
        } else {
            ShownKey::Hash(self.key_hasher.hash_one(key))
        }
    }
}

#[cfg(test)]
impl Node {
    /// A node with one limit, `per-key`: `burst` units and one more each hour.
    pub(crate) fn with_burst(burst: u64) -> std::sync::Arc<Self> {
        let rate = limiter::Rate { count: 1, period_ns: 3_600 * 1_000_000_000 };
        let limit = limiter::Limit::new("per-key", limiter::Quota::TokenBucket { rate, burst });
        let plan = limiter::Plan::compile(vec![limit], limiter::Unmatched::Allow);
        let store = limiter::StoreConfig {
            memory_bytes: 1 << 20,
            entries_max: None,
            when_full: limiter::WhenFull::Overflow,
            secret: [7; 16],
        };
        let limiter = Limiter::new(plan.expect("a sound limit"), store);
        std::sync::Arc::new(Self::new("test".to_owned(), Vec::new(), limiter, false))
    }
}

#[cfg(test)]
mod tests {
    use limiter::Reason;
    use wire::{HEADER_BYTES, RequestWriter, ServerFrame, decode_reply};

    use super::*;

    const NOW_NS: u64 = 1_000_000_000_000;
    const LOCAL: Caller = Caller { door: Door::Udp, is_forgeable: false };
    const EXPOSED: Caller = Caller { door: Door::Udp, is_forgeable: true };

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

    #[test]
    fn a_denial_says_why_and_when() {
        let node = Node::with_burst(1);
        node.decide(NOW_NS, &check(), Door::Http).expect("a sound request");
        let denied = node.decide(NOW_NS, &check(), Door::Http).expect("a sound request");
        assert_eq!(denied.verdict.reason, Reason::Limit);
        assert_eq!(denied.verdict.retry_after.to_secs(), Some(3_600));
    }

    #[test]
    fn logs_show_a_key_only_if_they_may() {
        let node = Node::with_burst(1);
        let shown = node.shown_key(b"alice").to_string();
        assert!(shown.starts_with('#') && !shown.contains("alice"), "{shown}");
        assert_eq!(shown, node.shown_key(b"alice").to_string());
        assert_ne!(shown, node.shown_key(b"bob").to_string());
    }
}
