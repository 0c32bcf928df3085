//! The one place of these tests that reads a clock and sleeps. It measures no rate limit.

use std::time::{Duration, Instant, SystemTime};

/// How long an answer, a start or a stop may take. Generous: it only ends a test that has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(9);

/// How often a condition that tells nobody when it changes is looked at.
const POLL: Duration = Duration::from_millis(5);

/// Time since it was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "the one place of the tests that reads a clock")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    pub(crate) fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.elapsed().as_millis()).expect("a test ends within 64 bits of time")
    }
}

/// Lets time pass where the passing of time is what is tested.
#[expect(clippy::disallowed_methods, reason = "the one place of the tests that sleeps")]
pub(crate) fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// Waits for a condition of another process, which cannot tell when it comes true.
#[track_caller]
pub(crate) fn wait_until(what: &str, at_most: Duration, mut is_true: impl FnMut() -> bool) {
    let stopwatch = Stopwatch::start();
    while !is_true() {
        assert!(stopwatch.elapsed() < at_most, "after {at_most:?} there is still not: {what}");
        pause(POLL);
    }
}

/// Unix time in milliseconds, as the machine's wall clock has it.
#[expect(clippy::disallowed_methods, reason = "the one place of the tests that reads a clock")]
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is after 1970");
    u64::try_from(since.as_millis()).expect("it is before the year 500 million")
}
