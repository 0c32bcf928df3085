//! The one clock of the bench: time passed, and CPU time used.

use rustix::time::{ClockId, Timespec};

/// Nanoseconds in a second.
pub(crate) const NS_PER_S: u64 = 1_000_000_000;
/// Nanoseconds in a millisecond.
pub(crate) const NS_PER_MS: u64 = 1_000_000;

/// Nanoseconds of a clock that never goes back.
pub(crate) fn now_ns() -> u64 {
    read_ns(ClockId::Monotonic)
}

/// CPU time that the calling thread has used, in nanoseconds. A system call, unlike [`now_ns`].
pub(crate) fn thread_cpu_ns() -> u64 {
    read_ns(ClockId::ThreadCPUTime)
}

/// CPU time that all threads of this process have used, in nanoseconds.
pub(crate) fn process_cpu_ns() -> u64 {
    read_ns(ClockId::ProcessCPUTime)
}

/// Milliseconds of Unix time. Nothing is measured by it.
pub(crate) fn unix_ms() -> u64 {
    unix_ns() / NS_PER_MS
}

/// Nanoseconds of Unix time: windows follow it, and members show the difference to their peers'. Nothing is
/// measured by it.
pub(crate) fn unix_ns() -> u64 {
    read_ns(ClockId::Realtime)
}

/// `ns` nanoseconds as the system takes them.
pub(crate) fn timespec(ns: u64) -> Timespec {
    let part = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    Timespec { tv_sec: part(ns / NS_PER_S), tv_nsec: part(ns % NS_PER_S) }
}

#[expect(clippy::disallowed_methods, reason = "the one place of the bench that reads a clock")]
fn read_ns(id: ClockId) -> u64 {
    let time = rustix::time::clock_gettime(id);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let ns = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(NS_PER_S).saturating_add(ns)
}

/// Waits until the clock shows `due_ns`.
#[expect(clippy::disallowed_methods, reason = "what is due at a time waits for nothing else")]
pub(crate) fn wait_until(due_ns: u64) {
    std::thread::sleep(std::time::Duration::from_nanos(due_ns.saturating_sub(now_ns())));
}
