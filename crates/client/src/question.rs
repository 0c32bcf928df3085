//! One frame's worth of a call: which requests it asks, and what their answers are.
//!
//! It writes and reads bytes; it sends nothing and waits for nothing.

use std::borrow::Cow;

use limiter::{Op, Request};
use wire::{ErrorCode, FrameError, RequestWriter, ServerFrame, Status, WriteError};

use crate::answer::{Answer, Silence};
use crate::error::Error;
use crate::fallback::Fallback;

/// How frames are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// Longest wait of each check, in microseconds; none: the node's default.
    pub(crate) max_wait_us: Option<u32>,
    /// Pad the frame to the length that its reply can have.
    pub(crate) is_padded: bool,
}

/// The requests that one frame took from the front of a call's.
#[derive(Debug)]
pub(crate) struct Question {
    /// For each request that was taken, in order: whether the frame asks it, or why not.
    taken: Vec<Result<(), Error>>,
}

impl Question {
    /// Writes as many of `requests` as one frame takes behind what `out` holds. Those that break a
    /// bound are taken too, but not asked; if there are no others, nothing is written.
    pub(crate) fn write(
        out: &mut Vec<u8>,
        id: u64,
        requests: &[Request<'_>],
        style: Style,
    ) -> Self {
        let mut frame = RequestWriter::new(out, id);
        let mut taken = Vec::with_capacity(requests.len().min(wire::CHECKS_MAX));
        for request in requests {
            let written = match request.validate() {
                Ok(()) => frame.check(request, style.max_wait_us),
                Err(error) => {
                    taken.push(Err(error.into()));
                    continue;
                }
            };
            match written {
                Ok(()) => taken.push(Ok(())),
                Err(WriteError::Full) => break,
                Err(error) => taken.push(Err(Error::Unwritable(error))),
            }
        }
        let frame = if style.is_padded { frame.pad_for_reply() } else { frame };
        frame.finish();
        Self { taken }
    }

    /// Whether the frame asks anything.
    pub(crate) fn is_asked(&self) -> bool {
        self.taken.iter().any(Result::is_ok)
    }

    /// Appends the answers to the requests that were taken, which are the first of `requests`, to
    /// `answers`. Gives the silence, if the whole frame met one.
    pub(crate) fn answer(
        self,
        requests: &[Request<'_>],
        outcome: Outcome,
        fallback: &Fallback,
        answers: &mut Vec<Result<Answer, Error>>,
    ) -> Option<Silence> {
        let asked = self.taken.iter().filter(|taken| taken.is_ok()).count();
        let outcome = match outcome {
            Outcome::Answered(list) if list.len() != asked => Outcome::Silent(Silence::Garbled),
            other => other,
        };
        let silence = if let Outcome::Silent(silence) = outcome { Some(silence) } else { None };
        let mut answered = match outcome {
            Outcome::Answered(list) => Ok(list.into_iter()),
            Outcome::Silent(silence) => Err(Ok(silence)),
            Outcome::Failed(error) => Err(Err(error)),
        };
        for (taken, request) in self.taken.into_iter().zip(requests) {
            answers.push(taken.and_then(|()| match &mut answered {
                Ok(list) => match list.next() {
                    Some(Ok(answer)) => Ok(answer),
                    Some(Err(Status::Starting)) => fallback.answer(request, Silence::Starting),
                    Some(Err(status)) => Err(Error::Refused(status)),
                    None => fallback.answer(request, Silence::Garbled),
                },
                Err(Ok(silence)) => fallback.answer(request, *silence),
                Err(Err(error)) => Err(*error),
            }));
        }
        silence
    }
}

/// Answers the rest of a batch whose earlier frame met a silence.
pub(crate) fn answer_unasked(
    requests: &[Request<'_>],
    fallback: &Fallback,
    answers: &mut Vec<Result<Answer, Error>>,
) {
    answers.extend(requests.iter().map(|request| {
        request.validate()?;
        fallback.answer(request, Silence::NotAsked)
    }));
}

/// The request with another operation, copied only if it is another.
pub(crate) fn request_as<'r, 'a>(op: Op, request: &'r Request<'a>) -> Cow<'r, Request<'a>> {
    if request.op == op { Cow::Borrowed(request) } else { Cow::Owned(request.clone().with_op(op)) }
}

/// What became of one frame.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The node replied: one answer, or the reason for none, for each check.
    Answered(Vec<Result<Answer, Status>>),
    /// The node did not reply, or not with a decision.
    Silent(Silence),
    /// Nobody decided, and nobody should in the node's place.
    Failed(Error),
}

impl Outcome {
    /// Reads a frame from the node. [`wire::frame_id`] says which frame it answers.
    ///
    /// # Errors
    /// If it is no such frame.
    pub(crate) fn read(frame: &[u8]) -> Result<Self, FrameError> {
        Ok(match wire::decode_reply(frame)? {
            ServerFrame::Reply(reply) => {
                let answers = reply.answers().map(|answer| answer.map(Answer::from_wire));
                Self::Answered(answers.collect())
            }
            ServerFrame::Error { code: ErrorCode::Busy, .. } => Self::Silent(Silence::Overloaded),
            ServerFrame::Error { code, versions, .. } => {
                Self::Failed(Error::Rejected { code, versions })
            }
        })
    }

    /// The node decided nothing because the frame is shorter than its reply can be.
    pub(crate) fn asks_for_padding(&self) -> bool {
        matches!(self, Self::Failed(Error::Rejected { code: ErrorCode::ReplyTooLong, .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use limiter::{
        ATTRIBUTE_VALUE_BYTES_MAX, ATTRIBUTES_MAX, COSTS_MAX, ENDPOINT_BYTES_MAX, KEY_BYTES_MAX,
        Op, RequestError,
    };
    use std::time::Duration;
    use wire::RequestFrame;

    const STYLE: Style = Style { max_wait_us: Some(2_500), is_padded: false };

    fn taken(requests: &[Request<'_>]) -> Vec<Result<(), Error>> {
        Question::write(&mut Vec::new(), 1, requests, STYLE).taken
    }

    #[test]
    fn frame_says_what_the_request_says_and_how_long_it_may_be_held() {
        let mut bytes = Vec::new();
        let request = Request::check(b"POST /search", b"alice")
            .with_op(Op::Debit)
            .with_attribute(b"plan", b"pro")
            .with_unit_cost(b"bytes", 77);
        let question = Question::write(&mut bytes, 9, std::slice::from_ref(&request), STYLE);
        assert!(question.is_asked());
        let frame = RequestFrame::decode(&bytes).expect("a sound frame");
        assert_eq!(frame.id, 9);
        let check = frame.checks().next().expect("one check").expect("a sound one");
        assert_eq!(check.max_wait_us, Some(2_500));
        assert_eq!(format!("{:?}", check.request), format!("{request:?}"));
    }

    #[test]
    fn longest_request_fits_an_empty_frame_also_when_padded() {
        let names: Vec<_> = (0..ATTRIBUTES_MAX).map(|n| format!("{n:064}")).collect();
        let units: Vec<_> = (0..COSTS_MAX).map(|n| format!("{n:064}")).collect();
        let value = [b'v'; ATTRIBUTE_VALUE_BYTES_MAX];
        let mut request = Request::check(&[b'e'; ENDPOINT_BYTES_MAX], &[b'k'; KEY_BYTES_MAX]);
        for name in &names {
            request = request.with_attribute(name.as_bytes(), &value);
        }
        for unit in &units {
            request = request.with_unit_cost(unit.as_bytes(), u64::MAX);
        }
        let mut bytes = Vec::new();
        let style = Style { is_padded: true, ..STYLE };
        let question = Question::write(&mut bytes, 1, &[request], style);
        assert_eq!(question.taken, [Ok(())]);
        assert!(RequestFrame::decode(&bytes).is_ok());
    }

    #[test]
    fn every_bound_that_a_node_checks_is_checked_before_sending() {
        let long = [b'x'; 1_025];
        let request = Request::check(b"", b"k");
        let faulty = [
            (Request::check(b"", b""), RequestError::KeyEmpty),
            (Request::check(b"", &long), RequestError::KeyTooLong),
            (Request::check(&long, b"k"), RequestError::EndpointTooLong),
            (request.clone().with_attribute(b"", b""), RequestError::Attribute),
            (request.clone().with_attribute(&long[..65], b""), RequestError::Attribute),
            (request.clone().with_attribute(b"a", &long[..257]), RequestError::Attribute),
            (
                request.clone().with_attribute(b"a", b"1").with_attribute(b"a", b"2"),
                RequestError::Attribute,
            ),
            (request.clone().with_unit_cost(&long[..65], 1), RequestError::Cost),
            (request.clone().with_unit_cost(b"", 1).with_cost(1), RequestError::Cost),
        ];
        for (request, error) in faulty {
            assert_eq!(taken(&[request]), [Err(Error::Request(error))]);
        }
        let longest = request
            .with_attribute(&long[..64], &long[..256])
            .with_unit_cost(&long[..64], 1)
            .with_cost(0);
        assert_eq!(taken(&[longest]), [Ok(())]);
    }

    #[test]
    fn frame_of_faulty_requests_alone_is_not_written() {
        let mut bytes = Vec::new();
        let faulty = [Request::check(b"", b""), Request::check(b"", b"k").with_op(Op::Reset)];
        let question = Question::write(&mut bytes, 1, &faulty, STYLE);
        assert!(!question.is_asked() && bytes.is_empty());
        assert_eq!(question.taken[1], Err(Error::Unwritable(WriteError::Op)));
    }

    #[test]
    fn one_silence_answers_every_request_that_was_asked_and_no_other() {
        let requests = [Request::check(b"", b"k"), Request::check(b"", b"")];
        let question = Question::write(&mut Vec::new(), 1, &requests, STYLE);
        let fallback = Fallback::new(crate::OnSilence::Open, Duration::ZERO);
        let mut answers = Vec::new();
        let outcome = Outcome::Silent(Silence::TimedOut);
        let silence = question.answer(&requests, outcome, &fallback, &mut answers);
        assert_eq!(silence, Some(Silence::TimedOut));
        assert!(answers[0].as_ref().is_ok_and(|answer| answer.allowed));
        assert_eq!(answers[1], Err(Error::Request(RequestError::KeyEmpty)));
        assert_eq!(fallback.answers(), 1);
    }
}
