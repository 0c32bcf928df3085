//! Load beside the runtime: a thread that takes a fixed part of one processor in short slices, as
//! the doors of a busy node do.

use std::thread;
use std::time::Duration;

use rustix::time::ClockId;

use crate::now_ns;

/// What the thread works without a pause, when it is not behind.
const SLICE_NS: u64 = 1_000_000;

/// What it may be behind; the rest is forgiven, so that a stall is not followed by a storm.
const BEHIND_NS_MAX: u64 = 50_000_000;

/// Takes `percent` of one processor until the process ends. More than 100 takes several threads.
pub(crate) fn start(percent: u64) {
    let threads = percent.div_ceil(100);
    for _ in 0..threads {
        thread::spawn(move || burn(percent / threads));
    }
}

fn burn(percent: u64) {
    let mut begun_ns = now_ns();
    let mut used_before_ns = used_ns();
    loop {
        let due_ns = now_ns().saturating_sub(begun_ns) / 100 * percent;
        let behind_ns = due_ns.saturating_sub(used_ns() - used_before_ns);
        if behind_ns > BEHIND_NS_MAX {
            (begun_ns, used_before_ns) = (now_ns(), used_ns());
        } else if behind_ns < SLICE_NS {
            pause(Duration::from_nanos(SLICE_NS));
        } else {
            let until_ns = used_ns() + SLICE_NS;
            while used_ns() < until_ns {
                std::hint::spin_loop();
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the pause is the load's own rhythm")]
fn pause(time: Duration) {
    thread::sleep(time);
}

/// Processor time of this thread.
#[expect(clippy::disallowed_methods, reason = "what the thread used is not the time of day")]
fn used_ns() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, ns) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or(0) * 1_000_000_000 + ns.unwrap_or(0)
}
