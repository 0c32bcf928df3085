//! A first start: nodes that meet only starting nodes begin together, with nothing.

use crate::Note;
use crate::config::SECOND;
use crate::join::Join;
use crate::node::Node;

/// A node that met some starting peers waits so long for the others.
const SOME_NS: u64 = SECOND;
/// A node that met nobody waits so long for anybody, and for so long after it was turned away: whoever
/// is refused by a cluster must not hold a part of its limits beside it.
const NOBODY_NS: u64 = 3 * SECOND;

impl Node {
    /// Begins with nothing, where it is time and no peer knows the counts.
    pub(crate) fn form_if_due(&mut self, now_ns: u64) {
        let is_due = self.join.as_ref().is_some_and(|join| now_ns >= self.form_due_ns(join));
        if !is_due {
            return;
        }
        let Some(join) = self.join.take() else { return };
        let linked = self.table.linked().len();
        self.began_alone = linked + 1 < self.config.expect && !join.is_rejoin();
        self.apply_kept(now_ns, join);
        self.note(Note::Formed { linked });
        self.become_synced(now_ns);
    }

    /// When to begin with nothing, if no peer that knows the counts is met before.
    pub(crate) fn form_due_ns(&self, join: &Join) -> u64 {
        let linked = self.table.linked().len();
        let is_all = linked + 1 >= self.config.expect && !join.is_rejoin();
        match linked {
            _ if is_all => join.since_ns,
            0 => join.since_ns.max(self.turned_away_ns.unwrap_or(0)) + NOBODY_NS,
            _ => join.since_ns + SOME_NS,
        }
    }
}
