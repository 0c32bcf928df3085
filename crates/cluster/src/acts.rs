//! What operators did to keys, told to every peer: all of it when a link begins, and what changes since.

use limiter::Act;
use wire::peer::write_acts;

use crate::node::Node;

/// Acts in one frame, so that what is urgent need not wait long behind it.
const ACTS_MAX: usize = 256;

impl Node {
    /// Tells every linked peer the acts that it may not know.
    pub(crate) fn tell_acts(&mut self, now_ns: u64) {
        let changes = self.limiter.act_changes();
        let behind = self.table.links().filter(|(_, link)| link.acts_told < changes);
        let behind: Vec<u8> = behind.map(|(index, _)| index).collect();
        for index in behind {
            let mut since = self.table.link(index).map_or(changes, |link| link.acts_told);
            while since < changes {
                let (acts, told) = self.limiter.acts_since(now_ns, since, ACTS_MAX);
                self.send_acts(index, &acts);
                since = told;
            }
            if let Some(link) = self.table.link_mut(index) {
                link.acts_told = since;
            }
        }
    }

    fn send_acts(&mut self, index: u8, mut acts: &[Act]) {
        while !acts.is_empty() {
            let mut written = 0;
            self.send_to(index, |out| written = write_acts(out, acts));
            acts = &acts[written.clamp(1, acts.len())..];
            self.counts.acts_sent += written as u64;
        }
    }

    /// A peer tells what operators did.
    pub(crate) fn handle_acts(&mut self, now_ns: u64, acts: Vec<Act>) {
        self.counts.acts_received += acts.len() as u64;
        self.counts.acts_dropped += self.limiter.take_acts(now_ns, acts) as u64;
    }
}
