//! How long a connection may be silent, and how long it may take to finish a frame.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::Sleep;

/// A connection on which no byte moves for this long is closed. Long, because a client that keeps
/// one open for its next burst costs little.
const IDLE_NS_MAX: u64 = 600 * 1_000_000_000;
/// A frame must be complete this long after its first byte. Together with [`PATROL`] it keeps a
/// half frame for at most 30 seconds.
const INCOMPLETE_NS_MAX: u64 = 20 * 1_000_000_000;
/// How often a connection looks whether it has waited too long. One timer per connection, not one
/// per read: setting a timer costs more than a check.
const PATROL: Duration = Duration::from_secs(10);

/// The patience with one connection. Times are those of the daemon's clock, handed in.
#[derive(Debug)]
pub(super) struct Patience {
    patrol: Pin<Box<Sleep>>,
    last_progress_ns: u64,
    incomplete_since_ns: Option<u64>,
}

impl Patience {
    /// Patience that begins at `now_ns`.
    pub(super) fn new(now_ns: u64) -> Self {
        Self {
            patrol: Box::pin(tokio::time::sleep(PATROL)),
            last_progress_ns: now_ns,
            incomplete_since_ns: None,
        }
    }

    /// Bytes moved; `is_incomplete` says that a frame has begun and not ended.
    pub(super) fn note(&mut self, now_ns: u64, is_incomplete: bool) {
        self.last_progress_ns = now_ns;
        self.incomplete_since_ns = match (is_incomplete, self.incomplete_since_ns) {
            (true, Some(since_ns)) => Some(since_ns),
            (true, None) => Some(now_ns),
            (false, _) => None,
        };
    }

    /// A frame ended. If another has begun already, it has its own time.
    pub(super) fn note_frame(&mut self) {
        self.incomplete_since_ns = None;
    }

    /// Waits for the next patrol, after which [`Patience::is_over`] is to be asked.
    pub(super) async fn patrol(&mut self) {
        self.patrol.as_mut().await;
        self.patrol.set(tokio::time::sleep(PATROL));
    }

    /// Whether the connection has waited too long.
    pub(super) fn is_over(&self, now_ns: u64) -> bool {
        let has_passed = |since_ns: u64, max_ns: u64| now_ns.saturating_sub(since_ns) >= max_ns;
        has_passed(self.last_progress_ns, IDLE_NS_MAX)
            || self.incomplete_since_ns.is_some_and(|at_ns| has_passed(at_ns, INCOMPLETE_NS_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[tokio::test]
    async fn a_silent_connection_is_kept_for_ten_minutes() {
        let mut patience = Patience::new(5 * S);
        patience.note(10 * S, false);
        assert!(!patience.is_over(10 * S + IDLE_NS_MAX - 1));
        assert!(patience.is_over(10 * S + IDLE_NS_MAX));
    }

    #[tokio::test]
    async fn bytes_do_not_prolong_a_frame_that_does_not_end() {
        let mut patience = Patience::new(0);
        for second in 1..20 {
            patience.note(second * S, true);
        }
        assert!(!patience.is_over(S + INCOMPLETE_NS_MAX - 1));
        assert!(patience.is_over(S + INCOMPLETE_NS_MAX));
    }

    #[tokio::test]
    async fn a_frame_that_ends_gives_the_next_its_own_time() {
        let mut patience = Patience::new(0);
        patience.note(S, true);
        patience.note_frame();
        patience.note(15 * S, true);
        assert!(!patience.is_over(S + INCOMPLETE_NS_MAX));
        assert!(patience.is_over(15 * S + INCOMPLETE_NS_MAX));
    }

    #[tokio::test]
    async fn a_clock_that_goes_back_closes_nothing() {
        let mut patience = Patience::new(100 * S);
        patience.note(100 * S, true);
        assert!(!patience.is_over(S));
    }
}
