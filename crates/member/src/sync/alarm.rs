//! Waiting for less than a millisecond.
//!
//! The runtime's timers count whole milliseconds and round up. An early flush is due half a
//! millisecond after a check asked for it, and that check waits: rounded, it would wait three times
//! as long.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use tokio::time::sleep;

/// Longer waits are the runtime's, which costs no system call.
const SHORT: Duration = Duration::from_millis(3);

/// A timer of the kernel's. It must be made and used on one runtime.
#[derive(Debug)]
pub(super) struct Alarm(AsyncFd<OwnedFd>);

impl Alarm {
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[expect(deprecated, reason = "sound for a descriptor that is owned and never given away")]
        AsyncFd::new(timer).map(Self)
    }

    /// Waits for `pause`. Dropping the future forgets it.
    pub(super) async fn wait(&self, pause: Duration) {
        // A timer that cannot be set is replaced by one that is late.
        if pause >= SHORT || self.set(pause).is_err() || self.ring().await.is_err() {
            sleep(pause).await;
        }
    }

    fn set(&self, pause: Duration) -> io::Result<()> {
        // Zero would stop the timer.
        let pause = pause.max(Duration::from_nanos(1));
        let value = Timespec { tv_sec: 0, tv_nsec: pause.subsec_nanos().into() };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }

    async fn ring(&self) -> io::Result<()> {
        loop {
            let mut ready = self.0.readable().await?;
            let mut rings = [0; 8];
            let read = ready.try_io(|timer| {
                rustix::io::read(timer.get_ref(), &mut rings).map_err(io::Error::from)
            });
            // An earlier wait may have left word of a ring that setting the timer anew took back.
            if let Ok(read) = read {
                return read.map(drop);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const LONG: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn rings_after_any_pause() {
        let alarm = Alarm::new().unwrap();
        for pause in [Duration::ZERO, Duration::from_micros(300), SHORT] {
            timeout(LONG, alarm.wait(pause)).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_wait_that_was_given_up_does_not_end_the_next() {
        let alarm = Alarm::new().unwrap();
        tokio::select! {
            biased;
            () = alarm.wait(Duration::from_millis(2)) => {}
            () = std::future::ready(()) => {}
        }
        timeout(LONG, alarm.wait(Duration::from_micros(100))).await.unwrap();
    }
}
