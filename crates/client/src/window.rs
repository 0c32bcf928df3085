//! The frames that wait for an answer, and whose answer an incoming frame is.
//!
//! It holds no socket and no timer: whoever waits forgets its frame when it gives up.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use tokio::sync::oneshot;
use wire::FrameError;

use crate::answer::Silence;
use crate::counts::Counts;
use crate::question::Outcome;

/// Most frames of one client that wait for an answer. It bounds memory and how far one client can
/// get ahead of its node; callers beyond it are better served by batches.
pub const FRAMES_IN_FLIGHT_MAX: usize = 1_024;

/// The ids of one client's frames: consecutive from a random start, so that a reply to another
/// client, or to an earlier life of this one, is known as such. 0 is left out: a node says it when it
/// could not read the id.
#[derive(Debug)]
pub(crate) struct Ids {
    first: u64,
    next: u64,
}

impl Ids {
    pub(crate) fn new() -> Self {
        Self::starting_at(RandomState::new().hash_one(0_u64))
    }

    fn starting_at(first: u64) -> Self {
        Self { first, next: first }
    }

    pub(crate) fn issue(&mut self) -> u64 {
        if self.next == 0 {
            self.next = 1;
        }
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        id
    }

    /// Whether `id` was issued before.
    pub(crate) fn has_issued(&self, id: u64) -> bool {
        id != 0 && id.wrapping_sub(self.first) < self.next.wrapping_sub(self.first)
    }
}

/// The frames of an async client that wait for an answer.
#[derive(Debug)]
pub(crate) struct Window {
    ids: Ids,
    waiting: HashMap<u64, Waiting>,
    counts: Counts,
}

#[derive(Debug)]
struct Waiting {
    outcome: oneshot::Sender<Outcome>,
    /// The frame was handed to a connection, so that the node may have it.
    is_sent: bool,
}

impl Window {
    pub(crate) fn new() -> Self {
        Self { ids: Ids::new(), waiting: HashMap::new(), counts: Counts::default() }
    }

    /// Admits one frame: its id, and where its outcome will arrive. None if too many wait.
    pub(crate) fn admit(&mut self) -> Option<(u64, oneshot::Receiver<Outcome>)> {
        if self.waiting.len() >= FRAMES_IN_FLIGHT_MAX {
            return None;
        }
        let id = self.ids.issue();
        let (outcome, receiver) = oneshot::channel();
        self.waiting.insert(id, Waiting { outcome, is_sent: false });
        Some((id, receiver))
    }

    /// Nobody waits for this frame any more.
    pub(crate) fn forget(&mut self, id: u64) {
        self.waiting.remove(&id);
    }

    /// Notes that the frame is about to be sent. False: nobody waits for it, so it must not be.
    pub(crate) fn mark_sent(&mut self, id: u64) -> bool {
        match self.waiting.get_mut(&id) {
            Some(waiting) => {
                waiting.is_sent = true;
                true
            }
            None => false,
        }
    }

    /// Hands what an incoming message says to whoever waits for it; `id` is where a frame has its id.
    /// True if it answers a frame of this client.
    pub(crate) fn handle_reply(&mut self, id: u64, outcome: Result<Outcome, FrameError>) -> bool {
        let waiting = self.waiting.remove(&id);
        match (outcome, waiting) {
            (Ok(outcome), Some(waiting)) => {
                // It fails if the caller is gone, who then has no use for it.
                let _ = waiting.outcome.send(outcome);
                true
            }
            (Ok(_), None) => self.counts.count_stray(self.ids.has_issued(id)),
            (Err(_), waiting) => {
                self.counts.malformed_replies += 1;
                if let Some(waiting) = waiting {
                    let _ = waiting.outcome.send(Outcome::Silent(Silence::Garbled));
                }
                false
            }
        }
    }

    /// Answers one waiting frame with a silence.
    pub(crate) fn settle(&mut self, id: u64, silence: Silence) {
        if let Some(waiting) = self.waiting.remove(&id) {
            let _ = waiting.outcome.send(Outcome::Silent(silence));
        }
    }

    /// The connection failed: every frame that was handed to it gets `silence`.
    pub(crate) fn handle_failure(&mut self, silence: Silence) {
        self.counts.failed_connections += 1;
        for (_, waiting) in self.waiting.extract_if(|_, waiting| waiting.is_sent) {
            let _ = waiting.outcome.send(Outcome::Silent(silence));
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    #[test]
    fn ids_are_known_as_issued_across_the_wrap_and_zero_is_never_issued() {
        let mut ids = Ids::starting_at(u64::MAX - 1);
        let issued: Vec<_> = (0..4).map(|_| ids.issue()).collect();
        assert_eq!(issued, [u64::MAX - 1, u64::MAX, 1, 2]);
        assert!(issued.iter().all(|id| ids.has_issued(*id)));
        for id in [0, 3, u64::MAX - 2] {
            assert!(!ids.has_issued(id), "{id}");
        }
        assert!(!Ids::starting_at(7).has_issued(7));
    }

    #[test]
    fn window_admits_up_to_its_bound_and_again_when_one_is_forgotten() {
        let mut window = Window::new();
        let mut admitted: Vec<_> = std::iter::from_fn(|| window.admit()).collect();
        assert_eq!(admitted.len(), FRAMES_IN_FLIGHT_MAX);
        let (id, _) = admitted.swap_remove(0);
        window.forget(id);
        assert!(window.admit().is_some());
        assert!(window.admit().is_none());
    }

    #[test]
    fn failed_connection_answers_for_what_was_sent_and_leaves_what_was_not() {
        let mut window = Window::new();
        let (sent, mut sent_outcome) = window.admit().expect("room");
        let (_, mut unsent_outcome) = window.admit().expect("room");
        assert!(window.mark_sent(sent));
        let silence = Silence::Lost(ErrorKind::BrokenPipe);
        window.handle_failure(silence);
        let outcome = sent_outcome.try_recv().expect("an outcome");
        assert!(matches!(outcome, Outcome::Silent(got) if got == silence));
        assert!(unsent_outcome.try_recv().is_err());
        assert_eq!(window.counts().failed_connections, 1);
    }

    #[test]
    fn forgotten_frame_is_not_to_be_sent_and_its_reply_is_late() {
        let mut window = Window::new();
        let (id, _outcome) = window.admit().expect("room");
        window.forget(id);
        assert!(!window.mark_sent(id));
        assert!(window.handle_reply(id, Ok(Outcome::Answered(Vec::new()))));
        assert!(!window.handle_reply(0, Ok(Outcome::Answered(Vec::new()))));
        let counts = window.counts();
        assert_eq!((counts.late_replies, counts.unknown_replies), (1, 1));
    }
}
