//! The local frame through the public interface: byte vectors, bounds, faults, properties.

mod bounds;
mod faults;
mod properties;
mod vectors;

use limiter::{Decision, Freshness, Reason, Verdict, Wait};
use wire::{Reply, RequestFrame, RequestWriter, ServerFrame};

/// A check's fields in a shape that can be compared.
type CheckParts<'a> = (limiter::Op, &'a [u8], &'a [u8], Pairs<'a>, Costs<'a>, bool, Option<u32>);
type Pairs<'a> = Vec<(&'a [u8], &'a [u8])>;
type Costs<'a> = Vec<(&'a [u8], u64)>;

fn parts<'a>(request: &limiter::Request<'a>, max_wait_us: Option<u32>) -> CheckParts<'a> {
    (
        request.op,
        request.key,
        request.endpoint,
        request.attributes.to_vec(),
        request.costs.to_vec(),
        request.details,
        max_wait_us,
    )
}

/// A request frame of `id` with these requests, each at the node's default wait.
fn request_frame(id: u64, requests: &[limiter::Request<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = RequestWriter::new(&mut bytes, id);
    for request in requests {
        writer.check(request, None).expect("the request fits");
    }
    writer.finish();
    bytes
}

fn reply(bytes: &[u8]) -> Reply<'_> {
    match wire::decode_reply(bytes) {
        Ok(ServerFrame::Reply(reply)) => reply,
        other => panic!("no reply: {other:?}"),
    }
}

/// A verdict of the limit `name` that allows, with numbers that differ from each other.
fn verdict(name: &str) -> Verdict<'_> {
    Verdict {
        limit_name: name,
        allowed: true,
        reason: Reason::Ok,
        shadow: false,
        limit: Some(100),
        remaining: Some(99),
        reset_after: Wait::from_ns(100_000_000),
        retry_after: Wait::ZERO,
        delay: Wait::ZERO,
        window: Wait::from_ns(10_000_000_000),
    }
}

fn decision<'p>(name: &'p str, details: Vec<Verdict<'p>>) -> Decision<'p> {
    Decision { verdict: verdict(name), freshness: Freshness::Alone, stale_ms: 0, details }
}

/// Bytes after the header of a request frame, as a frame of `count` records with a right length.
fn framed(count: u16, records: &[u8]) -> Vec<u8> {
    let mut bytes = b"RL\x01\x01".to_vec();
    let length = u32::try_from(wire::HEADER_BYTES + records.len()).expect("a small frame");
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&77u64.to_le_bytes());
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes.extend_from_slice(records);
    bytes
}

/// Decodes and reads everything that there is to read.
fn exhaust(bytes: &[u8]) {
    if let Ok(frame) = RequestFrame::decode(bytes) {
        assert_eq!(frame.checks().count(), frame.len());
    }
    if let Ok(ServerFrame::Reply(reply)) = wire::decode_reply(bytes) {
        assert_eq!(reply.answers().count(), reply.len());
        for answer in reply.answers().flatten() {
            assert_eq!(answer.details.len(), answer.details.count());
        }
    }
}
