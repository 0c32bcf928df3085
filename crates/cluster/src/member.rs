//! The members as this node knows them: who counts in N, who is linked, who is reached.

use std::collections::{BTreeMap, VecDeque};

use limiter::{MEMBERS_MAX, Members, View, ViewMember, member_id};
use wire::peer::{Cursor, LimitNumbers};

use crate::LinkId;
use crate::clock::Skew;
use crate::greeting::Greeting;
use crate::parts::Parts;

/// Index of this node in its own table.
pub(crate) const ME: u8 = 0;

/// A member other than this node.
#[derive(Debug)]
pub(crate) struct Peer {
    /// None: expected, and never met.
    pub(crate) name: Option<String>,
    /// The life that `next` counts in; 0: nothing was ever received.
    pub(crate) life: u64,
    /// Number of the batch or heal that is expected next: all below were received.
    pub(crate) next: u64,
    /// The last life in which it was counted; 0: none.
    pub(crate) counted_life: u64,
    /// It was last linked, or first expected, at this time.
    pub(crate) missing_since_ns: u64,
    /// Something may be owed to it that it has not confirmed.
    pub(crate) owed: bool,
    /// Times at which it was lost soon after it was linked, the latest last.
    pub(crate) flaps_ns: Vec<u64>,
    pub(crate) link: Option<Link>,
}

/// A connection whose handshake is done.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) id: LinkId,
    /// Who is there, and what its slots mean.
    pub(crate) greeting: Greeting,
    pub(crate) since_ns: u64,
    /// Bytes arrived at this time.
    pub(crate) heard_ns: u64,
    /// The peer acknowledged every own batch below.
    pub(crate) acked: u64,
    /// Something arrived that is not acknowledged yet.
    pub(crate) ack_due: bool,
    /// Its counts are known here and ours there: it counts in n.
    pub(crate) counted: bool,
    /// The peer knows the fleet's counts, as this node learned at this time.
    pub(crate) synced_ns: Option<u64>,
    /// The peer's last heal has come: what it owed is known here.
    pub(crate) heal_in: bool,
    /// The peer confirmed this node's last heal.
    pub(crate) heal_out: bool,
    /// Number of this node's last heal on the link, once it is sent.
    pub(crate) heal_seq: Option<u64>,
    /// Number after the peer's last batch when it healed: where a joiner begins to read it.
    pub(crate) upto: u64,
    /// Not counted before this time: the peer comes and goes too often.
    pub(crate) quiet_until_ns: u64,
    /// The peer's last heal, confirmed when the quiet is over: so that it does not count this node
    /// either before.
    pub(crate) confirm_later: Option<u64>,
    /// Smoothed time from a batch to its acknowledgement.
    pub(crate) rtt_ns: Option<u64>,
    /// How far its wall clock is off.
    pub(crate) skew: Skew,
    /// Parts of a heal and of a chunk that have not come.
    pub(crate) parts: Parts,
    /// The change up to which the peer was told what operators did.
    pub(crate) acts_told: u64,
    /// Parts of the peer's new limits that came.
    pub(crate) limits_coming: Vec<LimitNumbers>,
}

/// A name has no place in the table: [`MEMBERS_MAX`] members are known already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableFull;

/// This node and its peers, by index.
#[derive(Debug)]
pub(crate) struct Table {
    me: String,
    pub(crate) peers: BTreeMap<u8, Peer>,
    /// Grows with each change of who is a member.
    pub(crate) version: u64,
    /// How many members were taken out.
    pub(crate) removed: u64,
    /// What was received of members that were taken out, by name, the latest last. One that comes
    /// back in the same life is told, so that it does not tell that again.
    gone: VecDeque<(String, Cursor)>,
}

impl Table {
    /// A table of this node and `expect - 1` members that were never met.
    pub(crate) fn new(me: &str, expect: usize, now_ns: u64) -> Self {
        let mut table = Self {
            me: me.to_owned(),
            peers: BTreeMap::new(),
            version: 1,
            removed: 0,
            gone: VecDeque::new(),
        };
        table.resize(expect, now_ns);
        table
    }

    /// Whether this node has that name.
    pub(crate) fn is_me(&self, name: &str) -> bool {
        self.me == name
    }

    /// Members, this node included: N.
    pub(crate) fn size(&self) -> usize {
        self.peers.len() + 1
    }

    /// Members reached, this node included: n.
    pub(crate) fn reached(&self) -> usize {
        self.counted().len() + 1
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.reached() == self.size()
    }

    pub(crate) fn index_of(&self, name: &str) -> Option<u8> {
        let found = self.peers.iter().find(|(_, peer)| peer.name.as_deref() == Some(name));
        found.map(|(index, _)| *index)
    }

    pub(crate) fn name(&self, index: u8) -> String {
        self.peers.get(&index).and_then(|peer| peer.name.clone()).unwrap_or_default()
    }

    pub(crate) fn names_of(&self, members: Members) -> Vec<String> {
        members.iter().map(|index| self.name(index)).collect()
    }

    /// Names of the members that are known by name, this node's among them.
    pub(crate) fn names(&self) -> Vec<String> {
        let peers = self.peers.values().filter_map(|peer| peer.name.clone());
        std::iter::once(self.me.clone()).chain(peers).collect()
    }

    pub(crate) fn link(&self, index: u8) -> Option<&Link> {
        self.peers.get(&index)?.link.as_ref()
    }

    pub(crate) fn link_mut(&mut self, index: u8) -> Option<&mut Link> {
        self.peers.get_mut(&index)?.link.as_mut()
    }

    /// Every link, by the peer's index.
    pub(crate) fn links(&self) -> impl Iterator<Item = (u8, &Link)> {
        self.peers.iter().filter_map(|(index, peer)| Some((*index, peer.link.as_ref()?)))
    }

    fn those(&self, is_one: impl Fn(&Peer) -> bool) -> Members {
        self.peers.iter().filter(|(_, peer)| is_one(peer)).map(|(index, _)| *index).collect()
    }

    /// Peers whose link is open.
    pub(crate) fn linked(&self) -> Members {
        self.those(|peer| peer.link.is_some())
    }

    /// Members that are not linked: what they miss is owed to them.
    pub(crate) fn unlinked(&self) -> Members {
        self.those(|peer| peer.link.is_none())
    }

    /// Peers that count in n.
    pub(crate) fn counted(&self) -> Members {
        self.those(|peer| peer.link.as_ref().is_some_and(|link| link.counted))
    }

    /// Members that were expected and never met.
    fn unmet(&self) -> Members {
        self.those(|peer| peer.name.is_none())
    }

    /// Whether `name` was a member and is none any more, as far as this node remembers.
    pub(crate) fn was_member(&self, name: &str) -> bool {
        self.gone.iter().any(|(gone, _)| gone == name)
    }

    /// Some member that was expected and never met.
    pub(crate) fn some_unmet(&self) -> Option<u8> {
        self.unmet().iter().next()
    }

    /// The index of `name`, which is a member from now on, and whether it was none, or not by name.
    /// It takes over from a member that was never met, and what is owed to it, if there is one.
    pub(crate) fn admit(&mut self, name: &str, now_ns: u64) -> Result<(u8, bool), TableFull> {
        if let Some(index) = self.index_of(name) {
            return Ok((index, false));
        }
        let index = self.some_unmet().or_else(|| self.free_index()).ok_or(TableFull)?;
        let peer = self.peers.entry(index).or_insert_with(|| Peer::unmet(now_ns));
        peer.name = Some(name.to_owned());
        if let Some(at) = self.gone.iter().position(|(gone, _)| gone == name)
            && let Some((_, cursor)) = self.gone.remove(at)
        {
            (peer.life, peer.next) = (cursor.life, cursor.next);
        }
        self.version += 1;
        Ok((index, true))
    }

    /// What was received of the node `name`, member or not.
    pub(crate) fn cursor_for(&self, name: &str) -> Cursor {
        let peer = self.index_of(name).and_then(|index| self.peers.get(&index));
        let gone = || self.gone.iter().find(|(gone, _)| gone == name).map(|(_, cursor)| *cursor);
        peer.map(|peer| Cursor { life: peer.life, next: peer.next })
            .or_else(gone)
            .unwrap_or_default()
    }

    /// Whether [`Table::admit`] would find a place for `name`.
    pub(crate) fn has_room(&self, name: &str) -> bool {
        self.index_of(name).is_some() || self.some_unmet().is_some() || self.free_index().is_some()
    }

    pub(crate) fn remove(&mut self, index: u8) -> Option<Peer> {
        self.version += 1;
        self.removed += 1;
        let peer = self.peers.remove(&index)?;
        if let Some(name) = &peer.name {
            if self.gone.len() >= MEMBERS_MAX {
                // It will tell a little again: too much is charged, never too little.
                self.gone.pop_front();
            }
            self.gone.push_back((name.clone(), Cursor { life: peer.life, next: peer.next }));
        }
        Some(peer)
    }

    /// Adds and drops members that were never met until there are `size` members, or all that are
    /// left are known by name. Gives those dropped.
    pub(crate) fn resize(&mut self, size: usize, now_ns: u64) -> Members {
        let size = size.clamp(1, MEMBERS_MAX);
        let mut dropped = Members::EMPTY;
        while self.size() > size
            && let Some(index) = self.some_unmet()
        {
            self.remove(index);
            dropped = dropped.with(index);
        }
        while self.size() < size
            && let Some(index) = self.free_index()
        {
            self.peers.insert(index, Peer::unmet(now_ns));
            self.version += 1;
        }
        dropped
    }

    fn free_index(&self) -> Option<u8> {
        let indices = (0u8..).take(MEMBERS_MAX);
        indices.into_iter().find(|index| *index != ME && !self.peers.contains_key(index))
    }

    /// The members as the limiter wants to know them.
    pub(crate) fn view(&self) -> View {
        let me = ViewMember { index: ME, id: Some(member_id(&self.me)) };
        let peers = self.peers.iter().map(|(index, peer)| ViewMember {
            index: *index,
            id: peer.name.as_deref().map(member_id),
        });
        View {
            members: std::iter::once(me).chain(peers).collect(),
            me: ME,
            reachable: self.counted().with(ME),
            isolated: self.is_isolated(),
        }
    }

    /// Less than half of the members are reached, or exactly half without the first of them by name.
    /// A member that was never met may be the first.
    pub(crate) fn is_isolated(&self) -> bool {
        let (reached, size) = (self.reached() * 2, self.size());
        if reached != size {
            return reached < size;
        }
        let missing = self.peers.values().filter(|peer| !peer.is_counted());
        let mut first_missing = missing.map(|peer| peer.name.as_deref());
        let counted = self.peers.values().filter(|peer| peer.is_counted());
        let ours = counted.filter_map(|peer| peer.name.as_deref()).chain([self.me.as_str()]).min();
        first_missing.any(|name| name < ours)
    }
}

impl Peer {
    fn unmet(now_ns: u64) -> Self {
        Self {
            name: None,
            life: 0,
            next: 0,
            counted_life: 0,
            missing_since_ns: now_ns,
            owed: false,
            flaps_ns: Vec::new(),
            link: None,
        }
    }

    fn is_counted(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_name_takes_over_from_a_member_never_met() {
        let mut table = Table::new("b", 3, 0);
        assert_eq!((table.size(), table.names()), (3, vec!["b".to_owned()]));
        assert_eq!(table.admit("c", 0), Ok((1, true)));
        assert_eq!(table.admit("c", 0), Ok((1, false)));
        assert_eq!(table.admit("a", 0), Ok((2, true)));
        assert_eq!(table.size(), 3);
        assert_eq!(table.admit("d", 0), Ok((3, true)));
        assert_eq!(table.size(), 4);
    }

    #[test]
    fn a_table_is_bounded() {
        let mut table = Table::new("me", 1_000, 0);
        assert_eq!(table.size(), MEMBERS_MAX);
        for peer in 1..MEMBERS_MAX {
            table.admit(&format!("peer-{peer}"), 0).unwrap();
        }
        assert_eq!(table.admit("one-more", 0), Err(TableFull));
        assert!(table.has_room("peer-1") && !table.has_room("one-more"));
    }

    #[test]
    fn what_was_received_of_a_member_outlives_its_membership() {
        let mut table = Table::new("me", 1, 0);
        let (index, _) = table.admit("a", 0).unwrap();
        let peer = table.peers.get_mut(&index).unwrap();
        (peer.life, peer.next) = (7, 30);
        assert_eq!(table.cursor_for("a"), Cursor { life: 7, next: 30 });
        table.remove(index);
        assert_eq!(table.cursor_for("a"), Cursor { life: 7, next: 30 });
        for other in 0..MEMBERS_MAX - 1 {
            let (index, _) = table.admit(&format!("peer-{other}"), 0).unwrap();
            table.remove(index);
        }
        let (index, _) = table.admit("a", 0).unwrap();
        assert_eq!((table.peers[&index].life, table.peers[&index].next), (7, 30));
        table.remove(index);
        assert_eq!(table.gone.len(), MEMBERS_MAX);
        let (index, _) = table.admit("one-more", 0).unwrap();
        table.remove(index);
        assert_eq!(table.gone.len(), MEMBERS_MAX, "the oldest goes");
    }

    #[test]
    fn half_without_the_first_by_name_is_isolated() {
        let mut first = Table::new("a", 2, 0);
        // Whoever was never met may be the first.
        assert!(first.is_isolated());
        first.admit("b", 0).unwrap();
        assert!(!first.is_isolated());
        let mut second = Table::new("b", 2, 0);
        second.admit("a", 0).unwrap();
        assert!(second.is_isolated());
        second.resize(3, 0);
        assert!(second.is_isolated());
        second.remove(1);
        second.resize(1, 0);
        assert!(!second.is_isolated() && second.is_whole());
    }
}
