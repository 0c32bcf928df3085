//! The order in which the daemon stops, as seen by everything that has to stop.

use std::time::Duration;

use tokio::sync::watch;

/// How long the node still takes new work after it said that it is not ready: time for load
/// balancers and clients to notice.
pub const DRAIN: Duration = Duration::from_secs(1);
/// How long connections may take to finish after the drain. Drain and finish together stay below
/// the five seconds that a stop may take.
pub const FINISH: Duration = Duration::from_secs(2);

/// How long a socket is looked at once more after the drain, for what arrived but was not read yet.
pub const LAST_LOOK: Duration = Duration::from_millis(20);

/// How far a stop has come. Phases only move forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// No stop was asked for.
    #[default]
    Running,
    /// Not ready any more, but everything is answered and connections are accepted.
    Draining,
    /// Answer what was received, then close.
    Closing,
}

/// Moves the phase forward; the server's end.
#[derive(Debug)]
pub struct Stop(watch::Sender<Phase>);

impl Stop {
    /// A stop that nobody has asked for, and the end that others listen at.
    pub fn new() -> (Self, Shutdown) {
        let (sender, receiver) = watch::channel(Phase::Running);
        (Self(sender), Shutdown(receiver))
    }

    /// Moves to `phase`, unless it was passed already.
    pub fn advance(&self, phase: Phase) {
        self.0.send_if_modified(|current| {
            let is_later = phase > *current;
            *current = phase.max(*current);
            is_later
        });
    }
}

/// Tells when to stop; each task has its own.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<Phase>);

impl Shutdown {
    /// How far the stop has come.
    pub fn phase(&self) -> Phase {
        *self.0.borrow()
    }

    /// Waits until the phase is `phase` or later. An owner that is gone counts as the last phase.
    pub async fn reached(&mut self, phase: Phase) {
        // The error says that the sender is gone, and with it all reason to go on.
        let _ = self.0.wait_for(|current| *current >= phase).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_later_phase_satisfies_who_waits_for_an_earlier_one() {
        let (stop, mut shutdown) = Stop::new();
        stop.advance(Phase::Closing);
        shutdown.reached(Phase::Draining).await;
        assert_eq!(shutdown.phase(), Phase::Closing);
    }

    #[test]
    fn phases_only_move_forward() {
        let (stop, shutdown) = Stop::new();
        stop.advance(Phase::Closing);
        stop.advance(Phase::Draining);
        assert_eq!(shutdown.phase(), Phase::Closing);
    }

    #[tokio::test]
    async fn an_owner_that_is_gone_ends_the_wait() {
        let (stop, mut shutdown) = Stop::new();
        drop(stop);
        shutdown.reached(Phase::Closing).await;
    }
}
