//! The ways in which the members become fewer: leaving, and being forgotten.

use std::fmt;

use limiter::{MEMBERS_MAX, Members};
use wire::peer::{SnapshotHead, write_forget, write_leave};

use crate::Note;
use crate::batch::settle_charges;
use crate::config::{MS, SECOND};
use crate::node::Node;
use crate::output::Effect;

/// A node that leaves tells what is left to tell for so long at most.
const LEAVE_NS: u64 = SECOND;
/// It looks so often whether anything is left.
const LEAVE_STEP_NS: u64 = 10 * MS;

/// A node that leaves.
#[derive(Debug)]
pub(crate) struct Leaving {
    since_ns: u64,
}

/// Why a member is not forgotten; nothing is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForgetError {
    /// It is this node: make it leave instead.
    Itself,
    /// There is no member of that name, and none that was never met.
    Unknown,
    /// It is linked: make it leave instead.
    Linked,
}

impl fmt::Display for ForgetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Itself => "this is the node itself; stop it instead",
            Self::Unknown => "no member has this name",
            Self::Linked => "the member is connected; stop it instead",
        })
    }
}

impl std::error::Error for ForgetError {}

impl Node {
    pub(crate) fn forget_by_name(&mut self, now_ns: u64, name: &str) -> Result<(), ForgetError> {
        if name == self.config.node {
            return Err(ForgetError::Itself);
        }
        let index = self.missing_by_name(name);
        let index = index.ok_or(ForgetError::Unknown)?;
        if self.table.link(index).is_some() {
            return Err(ForgetError::Linked);
        }
        self.forget(now_ns, Members::only(index), false);
        for index in self.table.linked().iter() {
            let mut bytes = Vec::new();
            if write_forget(&mut bytes, name).is_ok() {
                self.send_to(index, |out| out.append(&mut bytes));
            }
        }
        Ok(())
    }

    /// The member `name`; or, where nobody of that name was ever met, some member that never was.
    fn missing_by_name(&self, name: &str) -> Option<u8> {
        let unmet = || (!self.table.was_member(name)).then(|| self.table.some_unmet()).flatten();
        self.table.index_of(name).or_else(unmet)
    }

    /// A peer's operator said that `name` is gone for good. Whoever is linked to it knows better.
    pub(crate) fn handle_forget(&mut self, now_ns: u64, name: &str) {
        if name == self.config.node {
            return;
        }
        let index = self.missing_by_name(name);
        if let Some(index) = index.filter(|index| self.table.link(*index).is_none()) {
            self.forget(now_ns, Members::only(index), false);
        }
    }

    /// A peer said that it leaves.
    pub(crate) fn handle_leave(&mut self, now_ns: u64, index: u8) {
        self.forget(now_ns, Members::only(index), true);
    }

    /// A group that is not isolated forgets who was missing for long.
    pub(crate) fn forget_missing(&mut self, now_ns: u64) {
        if self.forget_due_ns().is_some_and(|due_ns| now_ns >= due_ns) {
            let after_ns = self.config.forget_after_ns;
            let missing = self.table.peers.iter().filter(|(_, peer)| {
                peer.link.is_none() && now_ns.saturating_sub(peer.missing_since_ns) >= after_ns
            });
            let gone = missing.map(|(index, _)| *index).collect();
            self.forget(now_ns, gone, false);
        }
    }

    pub(crate) fn forget_due_ns(&self) -> Option<u64> {
        if !self.is_synced() || self.table.is_isolated() {
            return None;
        }
        let missing = self.table.peers.values().filter(|peer| peer.link.is_none());
        let since_ns = missing.map(|peer| peer.missing_since_ns).min()?;
        Some(since_ns.saturating_add(self.config.forget_after_ns))
    }

    /// The members `gone` are members no more: N is smaller, and nothing is owed to them.
    fn forget(&mut self, now_ns: u64, gone: Members, left: bool) {
        let mut names = Vec::new();
        for index in gone.iter() {
            let Some(peer) = self.table.remove(index) else { continue };
            names.push(peer.name);
            if let Some(link) = peer.link {
                self.links.remove(&link.id);
                self.effects.push_back(Effect::Close { link: link.id, refusal: None });
            }
        }
        if names.is_empty() {
            return;
        }
        self.forgotten(now_ns, gone);
        let members = self.table.size();
        for peer in names {
            self.counts.forgotten += u64::from(!left);
            self.note(Note::Forgotten { peer, left, members });
        }
        self.count_ready(now_ns);
    }

    /// The members `gone` were taken out of the table.
    fn forgotten(&mut self, now_ns: u64, gone: Members) {
        self.changed_ns = now_ns;
        self.serving.retain(|serving| !gone.contains(serving.index));
        if let Some(join) = &mut self.join {
            join.lost(now_ns, gone);
        }
        self.credits.forget(gone);
        self.limiter.forget(now_ns, &self.table.view(), gone);
        if self.table.is_whole() {
            settle_charges(&mut self.log, &mut self.received);
        }
        self.settle(now_ns);
    }

    /// A joiner takes over who is a member from the peer that gave it the snapshot.
    pub(crate) fn adopt_members(&mut self, now_ns: u64, head: &SnapshotHead) {
        let version = self.table.version;
        let stale = self.table.peers.iter().filter(|(_, peer)| {
            let is_listed = peer.name.as_ref().is_none_or(|name| head.members.contains(name));
            !is_listed && peer.link.is_none()
        });
        let mut gone: Members = stale.map(|(index, _)| *index).collect();
        for index in gone.iter() {
            self.table.remove(index);
        }
        for name in head.members.iter().filter(|name| **name != self.config.node) {
            // A table that is full leaves members out that this node will be refused by.
            let _is_admitted = self.table.admit(name, now_ns).is_ok();
        }
        let size = usize::try_from(head.size).unwrap_or(MEMBERS_MAX);
        gone = gone.union(self.table.resize(size, now_ns));
        if !gone.is_empty() {
            self.forgotten(now_ns, gone);
        } else if self.table.version != version {
            self.changed_ns = now_ns;
            self.limiter.grow(now_ns, &self.table.view());
        }
    }

    pub(crate) fn begin_leaving(&mut self, now_ns: u64) {
        if self.leaving.is_none() {
            self.leaving = Some(Leaving { since_ns: now_ns });
            if self.is_synced() {
                self.flush_all(now_ns);
            }
            self.step_leaving(now_ns);
        }
    }

    /// Tells what is left to tell, and leaves when everybody has it, or it takes too long.
    pub(crate) fn step_leaving(&mut self, now_ns: u64) {
        let Some(leaving) = &self.leaving else { return };
        let is_late = now_ns.saturating_sub(leaving.since_ns) >= LEAVE_NS;
        let has_more = self.is_synced() && (!self.log.is_empty() || self.flush_all(now_ns));
        if has_more && !is_late && !self.log.is_empty() {
            return;
        }
        for index in self.table.linked().iter() {
            self.send_to(index, write_leave);
        }
        self.has_left = true;
        self.effects.push_back(Effect::Left);
    }

    pub(crate) fn leaving_due_ns(&self, now_ns: u64) -> Option<u64> {
        self.leaving.as_ref().map(|_| now_ns + LEAVE_STEP_NS)
    }
}
