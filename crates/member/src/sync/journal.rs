//! The log of what happens among peers: one line each, and never a flood.

use std::collections::HashMap;

use cluster::Note;
use tracing::{debug, info, warn};
use wire::peer::Refusal;

/// The same refusal, and the same of a clock, is logged once in so long.
const AGAIN_NS: u64 = 60_000_000_000;

/// Most lines that are remembered so that they are not repeated; above that all are forgotten.
const REMEMBERED_MAX: usize = 256;

/// Writes the log.
#[derive(Debug, Default)]
pub(super) struct Journal {
    /// When a line, or one like it, was last written.
    said: HashMap<String, u64>,
}

impl Journal {
    /// Something that a person may want to know happened.
    pub(super) fn write(&mut self, now_ns: u64, note: &Note) {
        match note {
            // Every start meets these: the node's own address, and two that dial each other.
            Note::Refused { refusal: Refusal::Itself | Refusal::Busy, .. } => debug!("{note}"),
            Note::Refused { .. } => self.refused(now_ns, note.to_string()),
            Note::Lost { .. } | Note::Drift { .. } | Note::Rejoins { .. } => warn!("{note}"),
            Note::Clock { peer, is_off, .. } => {
                // Its milliseconds differ each time, and a peer that comes and goes says them again.
                let state = if *is_off { "off" } else { "near" };
                if self.is_new(now_ns, &format!("clock of `{peer}` {state}")) {
                    warn!("{note}");
                }
            }
            Note::Linked { .. }
            | Note::Counted { .. }
            | Note::Forgotten { .. }
            | Note::Formed { .. }
            | Note::Joined { .. } => info!("{note}"),
        }
    }

    /// Somebody was refused, in these words. A peer that is refused tries again every second.
    pub(super) fn refused(&mut self, now_ns: u64, line: String) {
        if self.is_new(now_ns, &line) {
            warn!("{line}");
        }
    }

    fn is_new(&mut self, now_ns: u64, line: &str) -> bool {
        if self.said.get(line).is_some_and(|at| now_ns.saturating_sub(*at) < AGAIN_NS) {
            return false;
        }
        if self.said.len() >= REMEMBERED_MAX {
            self.said.clear();
        }
        self.said.insert(line.to_owned(), now_ns);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_the_same_refusal_once_a_minute() {
        let mut journal = Journal::default();
        assert!(journal.is_new(0, "a"));
        assert!(!journal.is_new(AGAIN_NS - 1, "a"));
        assert!(journal.is_new(1, "b"));
        assert!(journal.is_new(AGAIN_NS, "a"));
    }

    #[test]
    fn remembers_no_more_than_it_may() {
        let mut journal = Journal::default();
        for number in 0..10 * REMEMBERED_MAX {
            journal.is_new(0, &number.to_string());
        }
        assert!(journal.said.len() <= REMEMBERED_MAX);
    }
}
