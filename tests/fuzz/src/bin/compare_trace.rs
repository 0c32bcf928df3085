//! Any bytes as a trace for `rlnode compare`: they are read to their end, and what comes out of them is in
//! order and within the limiter's bounds.
#![no_main]

use limiter::{ENDPOINT_BYTES_MAX, KEY_BYTES_MAX};
use rlnode::compare::trace::Trace;
use rlnode_fuzz::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut trace = Trace::new(bytes, None);
    let (mut calls, mut last_ns) = (0, 0);
    // Compressed bytes alone are refused as a whole.
    while let Ok(Some(call)) = trace.next_call() {
        assert!(call.unix_ns >= last_ns);
        assert!((1..=KEY_BYTES_MAX).contains(&call.key.len()));
        assert!(call.endpoint.len() <= ENDPOINT_BYTES_MAX);
        (calls, last_ns) = (calls + 1, call.unix_ns);
    }
    let counts = trace.counts();
    assert_eq!(counts.calls, calls);
    assert!(calls + counts.unreadable <= counts.lines);
});
