//! The one place of this crate that reads a clock, and where a thread without a runtime waits.

use std::time::{Duration, SystemTime};

/// Nanoseconds since the host started, time suspended included: the clock that the node itself uses.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the client's one reading of the host's clock"
)]
pub(crate) fn now_ns() -> u64 {
    let reading = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let since_start = Duration::try_from(reading).unwrap_or_default();
    u64::try_from(since_start.as_nanos()).unwrap_or(u64::MAX)
}

/// The wall clock, to say when a wait of the local limit ends. Decides nothing.
#[expect(clippy::disallowed_methods, reason = "this is the client's one reading of the wall clock")]
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}

/// The runtime's clock, which tests can stop: what its timers are set against.
#[expect(clippy::disallowed_methods, reason = "this is the client's one reading of tokio's clock")]
pub(crate) fn timer_now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// Holds up the calling thread for `ns` nanoseconds or a little longer.
#[expect(
    clippy::disallowed_methods,
    reason = "a blocking pacer's caller asked to be held up, and nothing can end that earlier"
)]
pub(crate) fn sleep(ns: u64) {
    std::thread::sleep(Duration::from_nanos(ns));
}
