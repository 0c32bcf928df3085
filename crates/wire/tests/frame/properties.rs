//! Whatever is written is read back, and whatever is read does not panic.

use limiter::{Decision, Freshness, Op, Reason, Request, Verdict, Wait};
use proptest::collection::vec;
use proptest::prelude::*;
use wire::{ReplyWriter, RequestFrame, RequestWriter, Status, frame_length};

use crate::vectors::detail_of;
use crate::{exhaust, parts, reply};

/// A request that owns its bytes.
#[derive(Clone, Debug)]
struct Owned {
    op: Op,
    key: Vec<u8>,
    endpoint: Vec<u8>,
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
    costs: Vec<(Vec<u8>, u64)>,
    details: bool,
    max_wait_us: Option<u32>,
}

impl Owned {
    fn request(&self) -> Request<'_> {
        Request {
            op: self.op,
            endpoint: &self.endpoint,
            key: &self.key,
            attributes: self.attributes.iter().map(|(n, v)| (&n[..], &v[..])).collect(),
            costs: self.costs.iter().map(|(unit, amount)| (&unit[..], *amount)).collect(),
            details: self.details,
            terms: None,
        }
    }
}

fn bytes(len_max: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..=len_max)
}

fn owned() -> impl Strategy<Value = Owned> {
    let op = prop_oneof![Just(Op::Check), Just(Op::Peek), Just(Op::Debit), Just(Op::Refund)];
    let attributes = vec((bytes(80), bytes(300)), 0..=limiter::ATTRIBUTES_MAX);
    let costs = vec((bytes(80), any::<u64>()), 0..=limiter::COSTS_MAX);
    let max_wait_us = proptest::option::of(0..u32::MAX);
    (op, bytes(1_100), bytes(1_100), attributes, costs, any::<bool>(), max_wait_us).prop_map(
        |(op, key, endpoint, attributes, costs, details, max_wait_us)| Owned {
            op,
            key,
            endpoint,
            attributes,
            costs,
            details,
            max_wait_us,
        },
    )
}

/// A number as a verdict has it: all ones is none.
fn number() -> impl Strategy<Value = Option<u64>> {
    proptest::option::of(0..u64::MAX)
}

fn wait() -> impl Strategy<Value = Wait> {
    prop_oneof![Just(Wait::ZERO), Just(Wait::NEVER), any::<u64>().prop_map(Wait::from_ns)]
}

fn verdict() -> impl Strategy<Value = (String, Verdict<'static>)> {
    let reason = proptest::sample::select(Reason::ALL.to_vec());
    let flags = (any::<bool>(), any::<bool>());
    ("[ -~]{0,129}", flags, reason, (number(), number()), (wait(), wait(), wait())).prop_map(
        |(name, (allowed, shadow), reason, (limit, remaining), waits)| {
            let (reset_after, retry_after, delay) = waits;
            let verdict = Verdict {
                limit_name: "",
                allowed,
                reason,
                shadow,
                limit,
                remaining,
                reset_after,
                retry_after,
                delay,
                window: Wait::ZERO,
            };
            (name, verdict)
        },
    )
}

fn named<'a>((name, verdict): &'a (String, Verdict<'static>)) -> Verdict<'a> {
    Verdict { limit_name: name, ..*verdict }
}

proptest! {
    #[test]
    fn requests_are_read_as_they_were_written(id: u64, requests in vec(owned(), 1..=8)) {
        let mut bytes = Vec::new();
        let mut writer = RequestWriter::new(&mut bytes, id);
        for owned in &requests {
            writer.check(&owned.request(), owned.max_wait_us).unwrap();
        }
        writer.finish();

        prop_assert_eq!(frame_length(&bytes), Ok(Some(bytes.len())));
        let frame = RequestFrame::decode(&bytes).unwrap();
        prop_assert_eq!((frame.id, frame.len()), (id, requests.len()));
        for (check, owned) in frame.checks().zip(&requests) {
            let check = check.unwrap();
            let request = owned.request();
            prop_assert_eq!(
                parts(&check.request, check.max_wait_us),
                parts(&request, owned.max_wait_us)
            );
        }
    }

    #[test]
    fn decisions_are_read_as_they_were_written(
        id: u64,
        decided in verdict(),
        details in vec(verdict(), 0..=20),
        freshness in proptest::sample::select(Freshness::ALL.to_vec()),
        stale_ms: u32,
        reset_at_ms in number(),
        status in (1..=u8::MAX).prop_map(|number| Status::from_u8(number).unwrap()),
    ) {
        let verdict = named(&decided);
        let details = details.iter().map(named).collect();
        let decision = Decision { verdict, freshness, stale_ms, details };
        let mut bytes = Vec::new();
        let mut writer = ReplyWriter::new(&mut bytes, id);
        writer.status(status);
        writer.decision(&decision, reset_at_ms);
        writer.finish();

        let (mut here, mut elsewhere) = (b"here".to_vec(), b"there".to_vec());
        let mut writer = ReplyWriter::new(&mut here, id);
        writer.status(status);
        let mut writer = writer.pause().resume(&mut elsewhere);
        writer.decision(&decision, reset_at_ms);
        writer.finish();
        prop_assert_eq!((&here[..], &elsewhere[..5]), (&b"here"[..], &b"there"[..]));
        prop_assert_eq!(&elsewhere[5..], &bytes[..]);

        prop_assert_eq!(frame_length(&bytes), Ok(Some(bytes.len())));
        let reply = reply(&bytes);
        prop_assert_eq!((reply.id, reply.len()), (id, 2));
        let mut answers = reply.answers();
        prop_assert_eq!(answers.next().unwrap().map(|_| ()), Err(status));
        let answer = answers.next().unwrap().unwrap();
        prop_assert_eq!(answer.allowed, verdict.allowed);
        prop_assert_eq!(answer.limit_name, verdict.limit_name);
        prop_assert_eq!(answer.reason, Some(verdict.reason));
        prop_assert_eq!(answer.freshness, Some(freshness));
        prop_assert_eq!((answer.limit, answer.remaining), (verdict.limit, verdict.remaining));
        prop_assert_eq!(answer.reset_after, verdict.reset_after);
        prop_assert_eq!(answer.reset_at_ms, reset_at_ms);
        prop_assert_eq!(answer.retry_after, verdict.retry_after);
        prop_assert_eq!(answer.delay, verdict.delay);
        prop_assert_eq!((answer.stale_ms, answer.details_cut), (stale_ms, false));
        let details: Vec<_> = answer.details.collect();
        prop_assert_eq!(details, decision.details.iter().map(detail_of).collect::<Vec<_>>());
    }

    #[test]
    fn any_bytes_behind_a_sound_header_are_read_without_panic(
        kind in 1u8..=2,
        count in 0u16..=260,
        body in vec(prop_oneof![0u8..20, any::<u8>()], 0..600),
    ) {
        let mut bytes = crate::framed(count, &body);
        bytes[3] = kind;
        exhaust(&bytes);
    }
}
