//! A request frame that can be read, written again, reads the same.
#![no_main]

use limiter::Op;
use rlnode_fuzz::fuzz_target;
use wire::{Check, RequestFrame, RequestWriter, frame_id, frame_length};

fuzz_target!(|bytes: &[u8]| {
    let Ok(frame) = RequestFrame::decode(bytes) else {
        return;
    };
    assert_eq!(frame_length(bytes), Ok(Some(bytes.len())));
    assert_eq!(frame_id(bytes), frame.id);
    assert_eq!(frame.checks().count(), frame.len());

    let checks: Vec<Check<'_>> = frame.checks().flatten().collect();
    let mut written = Vec::new();
    let mut writer = RequestWriter::new(&mut written, frame.id);
    for check in &checks {
        writer.check(&check.request, check.max_wait_us).expect("what was read fits");
    }
    writer.finish();
    if checks.is_empty() {
        assert!(written.is_empty());
        return;
    }
    assert!(written.len() <= bytes.len());
    let again = RequestFrame::decode(&written).expect("what was written is sound");
    assert_eq!(again.id, frame.id);
    assert_eq!(again.len(), checks.len());
    for (check, again) in checks.iter().zip(again.checks()) {
        assert_eq!(fields(check), fields(&again.expect("only sound checks were written")));
    }
});

type Fields<'a, 'c> =
    (Op, &'a [u8], &'a [u8], &'c [(&'a [u8], &'a [u8])], &'c [(&'a [u8], u64)], bool, Option<u32>);

fn fields<'a, 'c>(check: &'c Check<'a>) -> Fields<'a, 'c> {
    let request = &check.request;
    (
        request.op,
        request.key,
        request.endpoint,
        &request.attributes,
        &request.costs,
        request.details,
        check.max_wait_us,
    )
}
