//! Taking the counts of the others: a snapshot of one peer, and the batches of all from then on.
//!
//! A joiner acknowledges batches and keeps them. Every peer that it is linked to has said, with its
//! heal, where its batches begin for the joiner; the snapshot must contain everything before. What is
//! kept is then applied wherever the snapshot does not contain it.

use std::collections::{BTreeMap, HashMap};

use limiter::{Bucket, Delta, Members, Sum};
use wire::peer::{
    Cursor, Position, SnapshotChunk, SnapshotHead, SnapshotRequest, write_snapshot_request,
};

use crate::config::{MS, SECOND};
use crate::coverage::Coverage;
use crate::greeting::Greeting;
use crate::node::Node;
use crate::operation::{Batch, Credited};
use crate::parts::buckets_of;
use crate::{Cause, Note};

/// Time between two requests.
const REQUEST_NS: u64 = 20 * MS;
/// A peer that sent nothing for so long although it was asked is passed over for the next.
pub(crate) const PATIENCE_NS: u64 = 200 * MS;
/// Members that the peers name are waited for so long, from the first peer on that knows the counts:
/// three attempts to dial. Some of them may be gone.
const GATHER_NS: u64 = 600 * MS;
/// A snapshot without what some peer sent before is taken after so long, when no peer has it: the
/// levels are brought together later.
const COMPLETE_NS: u64 = SECOND;
/// Most bytes of batches kept while the snapshot comes. Above it the node begins anew.
const KEPT_BYTES_MAX: usize = 64 << 20;
/// Most chunks of a snapshot: there is one for each shard of the sender's store at least.
const CHUNKS_MAX: usize = 65_536;

/// A batch that waits for the snapshot.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) index: u8,
    pub(crate) life: u64,
    pub(crate) seq: u64,
    pub(crate) deltas: Vec<Delta>,
    pub(crate) credited: Vec<Credited>,
}

impl Kept {
    fn batch(&self) -> Batch<'_> {
        let Self { index, life, seq, .. } = *self;
        Batch { index, life, seq, credited: &self.credited }
    }
}

/// How far a node is that does not know the counts.
#[derive(Debug)]
pub(crate) struct Join {
    /// The node began, or lost the last peer that knows the counts, at this time.
    pub(crate) since_ns: u64,
    /// The first peer that knows the counts was met at this time.
    gather_ns: Option<u64>,
    /// The peer that is asked, and when it was first asked without an answer.
    server: Option<(u8, u64)>,
    /// The snapshot was first asked for at this time.
    first_asked_ns: Option<u64>,
    asked_ns: Option<u64>,
    coverage: Coverage,
    buckets: u64,
    kept: Vec<Kept>,
    kept_bytes: usize,
    /// What in the snapshot waits for late spends.
    credited: Vec<Credited>,
    /// The node knew the counts before, and keeps what it owes.
    is_rejoin: bool,
    /// Others were cut off with it, whose spends it knows and the rest may not.
    has_company: bool,
    /// What it, and those it was cut off with, spent: the peer's levels may lack it. What it spent itself
    /// is known exactly. Of the others it keeps the whole charge: where one of them was quicker to tell
    /// the peer, this node is charged too much, never too little.
    own: Option<HashMap<Bucket, Vec<Sum>>>,
}

impl Join {
    pub(crate) fn new(now_ns: u64) -> Self {
        Self {
            since_ns: now_ns,
            gather_ns: None,
            server: None,
            first_asked_ns: None,
            asked_ns: None,
            coverage: Coverage::default(),
            buckets: 0,
            kept: Vec::new(),
            kept_bytes: 0,
            credited: Vec::new(),
            is_rejoin: false,
            has_company: false,
            own: None,
        }
    }

    /// The node knew the counts before.
    pub(crate) fn is_rejoin(&self) -> bool {
        self.is_rejoin
    }

    /// Keeps a batch; false: there is no room for it.
    pub(crate) fn keep(&mut self, kept: Kept) -> bool {
        let credits = kept.credited.iter().map(|credited| credited.credits.len()).sum::<usize>();
        self.kept_bytes += size_of::<Kept>()
            + kept.deltas.len() * size_of::<Delta>()
            + credits * size_of::<(Bucket, u64)>();
        self.kept.push(kept);
        self.kept_bytes <= KEPT_BYTES_MAX
    }

    /// Begins the snapshot anew, if it had begun: what was kept stays.
    pub(crate) fn restart(&mut self, now_ns: u64) {
        self.gather_ns.get_or_insert(now_ns);
        self.coverage = Coverage::default();
        self.buckets = 0;
        self.credited.clear();
        self.server = None;
        self.asked_ns = None;
        self.own = None;
    }

    /// Peers were lost.
    pub(crate) fn lost(&mut self, now_ns: u64, gone: Members) {
        if self.server.is_some_and(|(index, _)| gone.contains(index)) {
            self.restart(now_ns);
        }
    }
}

impl Node {
    /// A peer's hello says that it knows more than this node: the peer had forgotten this node, or
    /// knew it before this node began with nothing. Then this node takes the counts anew, and keeps
    /// what it owes.
    pub(crate) fn rejoin_if_given_up(&mut self, now_ns: u64, greeting: &Greeting) {
        if !self.is_synced() || !greeting.synced || self.leaving.is_some() {
            return;
        }
        let is_listed = greeting.members.contains(&self.config.node);
        let index = self.table.index_of(&greeting.node);
        let peer = index.and_then(|index| self.table.peers.get(&index));
        let is_known = peer.is_some_and(|peer| peer.life == greeting.life);
        let is_linked = peer.is_some_and(|peer| peer.link.is_some());
        let was_counted = peer.is_some_and(|peer| peer.counted_life == greeting.life);
        let was_forgotten = was_counted && !is_listed && !is_linked;
        let began_alone = self.began_alone && is_listed && !is_known;
        // A later life of a member, which others told the counts: its earlier one may have spent what
        // only they know.
        let was_replaced =
            !is_known && !greeting.began && peer.is_some_and(|peer| peer.counted_life != 0);
        if was_forgotten || began_alone || was_replaced {
            self.note(Note::Rejoins { peer: greeting.node.clone() });
            self.join_again(now_ns);
        }
    }

    /// The peer at `index` sent batches that this node never gets: it takes the counts anew, and keeps
    /// what it owes.
    pub(crate) fn rejoin(&mut self, now_ns: u64, index: u8) {
        self.note(Note::Rejoins { peer: self.table.name(index) });
        self.join_again(now_ns);
    }

    fn join_again(&mut self, now_ns: u64) {
        self.join_anew(now_ns);
        if let Some(join) = &mut self.join {
            join.is_rejoin = true;
        }
    }

    /// Gives up what was gathered, and every link: peers tell a joiner nothing of what was before.
    pub(crate) fn join_anew(&mut self, now_ns: u64) {
        let is_rejoin = self.join.as_ref().is_some_and(|join| join.is_rejoin);
        let had_company = self.join.as_ref().is_some_and(|join| join.has_company);
        let has_company = had_company || !self.table.counted().is_empty();
        self.lose(now_ns, self.table.linked(), Cause::Rejoined);
        self.coverage = None;
        self.credits.clear();
        self.serving.clear();
        self.counts.joins += 1;
        self.join = Some(Join { is_rejoin, has_company, ..Join::new(now_ns) });
    }

    /// Begins with nothing, or asks for a snapshot, where it is time.
    pub(crate) fn step_join(&mut self, now_ns: u64) {
        let Some(join) = &mut self.join else { return };
        let is_synced = |index| self.table.link(index).is_some_and(|link| link.synced_ns.is_some());
        let synced: Members =
            self.table.linked().iter().filter(|index| is_synced(*index)).collect();
        if synced.is_empty() {
            join.gather_ns = None;
            return self.form_if_due(now_ns);
        }
        join.since_ns = now_ns;
        let gather_ns = *join.gather_ns.get_or_insert(now_ns);
        let healed = self.table.links().all(|(_, link)| link.synced_ns.is_none() || link.heal_in);
        let is_early = now_ns.saturating_sub(gather_ns) < GATHER_NS;
        if !healed || (is_early && !self.has_met_all()) {
            return;
        }
        self.ask(now_ns, synced);
    }

    /// Whether every member that a peer names is linked.
    fn has_met_all(&self) -> bool {
        self.table.links().filter(|(_, link)| link.synced_ns.is_some()).all(|(_, link)| {
            link.greeting.members.iter().all(|name| {
                let index = self.table.index_of(name);
                *name == self.config.node || index.is_some_and(|i| self.table.link(i).is_some())
            })
        })
    }

    /// Asks one of `synced` for a snapshot, unless one is on its way.
    fn ask(&mut self, now_ns: u64, synced: Members) {
        let Some(join) = &mut self.join else { return };
        if join.asked_ns.is_some_and(|asked_ns| now_ns.saturating_sub(asked_ns) < REQUEST_NS) {
            return;
        }
        let is_waiting = |since_ns: u64| now_ns.saturating_sub(since_ns) < PATIENCE_NS;
        let server = match join.server {
            Some((index, since_ns)) if is_waiting(since_ns) => {
                if !join.coverage.is_empty() {
                    return;
                }
                index
            }
            passed => {
                let after = passed.map_or(0, |(index, _)| index);
                let next = synced.iter().find(|index| *index > after).or(synced.iter().next());
                let Some(next) = next else { return };
                join.restart(now_ns);
                join.server = Some((next, now_ns));
                next
            }
        };
        join.asked_ns = Some(now_ns);
        join.first_asked_ns.get_or_insert(now_ns);
        let request = SnapshotRequest { positions: self.positions(now_ns) };
        self.send_to(server, |out| {
            // Every name was read from a frame, where it has the same bounds.
            let written = write_snapshot_request(out, &request);
            debug_assert!(written.is_ok(), "a request is always written");
        });
    }

    /// What a snapshot must contain: of every peer that knows the counts, everything before the link.
    fn positions(&self, now_ns: u64) -> Vec<Position> {
        let Some(join) = &self.join else { return Vec::new() };
        let asked_ns = join.first_asked_ns.unwrap_or(now_ns);
        if now_ns.saturating_sub(asked_ns) >= COMPLETE_NS {
            return Vec::new();
        }
        let links = self.table.links().filter(|(_, link)| link.synced_ns.is_some());
        let position = links.map(|(_, link)| Position {
            name: link.greeting.node.clone(),
            life: link.greeting.life,
            next: link.upto,
        });
        position.collect()
    }

    pub(crate) fn handle_chunk(&mut self, now_ns: u64, index: u8, chunk: SnapshotChunk<'_>) {
        let positions = self.positions(now_ns);
        let (head, standings) = (&chunk.head, chunk.standings());
        let Some(link) = self.table.link_mut(index) else { return };
        let parts = (link.parts.take_standings(head.first), link.parts.take_waiting(head.first));
        let (Ok(timed), Some(credited)) = parts else {
            return self.refuse_torn(now_ns, index);
        };
        let slots = &link.greeting.slots;
        let server = (link.greeting.node.as_str(), link.greeting.life);
        let Some(join) = &mut self.join else { return };
        let is_asked = join.server.is_some_and(|(server, _)| server == index);
        // Of an earlier snapshot, which began before some peer was linked: the right one follows.
        let contains = |position: &Position| holds(head, server, position);
        if !is_asked
            || join.coverage.next_first() != Some(head.first)
            || join.coverage.len() >= CHUNKS_MAX
            || !positions.iter().all(contains)
        {
            self.counts.chunks_ignored += 1;
            return;
        }
        join.server = Some((index, now_ns));
        let len = standings.len() + timed.len();
        let standings: Vec<_> =
            standings.chain(timed).filter_map(|standing| slots.standing(standing)).collect();
        self.counts.unknown_limits += (len - standings.len()) as u64;
        join.buckets += buckets_of(&standings);
        join.credited.extend(credited);
        // Read before the levels are overwritten.
        let own = join.is_rejoin.then(|| {
            join.own.get_or_insert_with(|| {
                let mut sums = Vec::new();
                if join.has_company {
                    self.limiter.charged(now_ns, &mut sums);
                } else {
                    let seq = self.next_seq;
                    self.limiter.heal_sums(now_ns, index, seq, usize::MAX, &mut sums);
                }
                let mut own = HashMap::<Bucket, Vec<Sum>>::new();
                for sum in sums {
                    own.entry(sum.bucket).or_default().push(sum);
                }
                own
            })
        });
        self.limiter.restore(now_ns, &standings);
        if let Some(own) = own {
            let owed = standings.iter().filter_map(|standing| own.remove(&standing.bucket));
            self.limiter.charge_sums(now_ns, &owed.flatten().collect::<Vec<_>>());
        }
        // Before the cursors, which say of every member what the chunk contains: of one that is cut off
        // the joiner knows nothing else.
        self.adopt_members(now_ns, head);
        let cursors = self.cursors_of(head, index);
        if let Some(join) = &mut self.join {
            join.coverage.push(head.last, cursors);
            if join.coverage.next_first().is_none() {
                self.finish_join(now_ns, index, head);
            }
        }
    }

    /// What a chunk of the peer at `server` contains of each member, by this node's indices.
    fn cursors_of(&self, head: &SnapshotHead, server: u8) -> BTreeMap<u8, Cursor> {
        let others = head.cursors.iter().filter_map(|position| {
            let index = self.table.index_of(&position.name)?;
            Some((index, Cursor { life: position.life, next: position.next }))
        });
        let life = self.table.link(server).map_or(0, |link| link.greeting.life);
        others.chain([(server, Cursor { life, next: head.own_next })]).collect()
    }

    /// The snapshot is complete.
    fn finish_join(&mut self, now_ns: u64, server: u8, head: &SnapshotHead) {
        let Some(join) = self.join.take() else { return };
        self.began_alone = self.table.link(server).is_some_and(|link| link.greeting.began);
        let Join { coverage, kept, buckets, credited, .. } = join;
        for (index, peer) in &mut self.table.peers {
            let life = peer.life;
            if life == 0 {
                // Never met: what the snapshot contains of it need not be told again.
                let known = head.cursors.iter().find(|at| peer.name.as_ref() == Some(&at.name));
                if let Some(known) = known {
                    (peer.life, peer.next) = (known.life, coverage.bounds(*index, known.life).0);
                }
            } else {
                peer.next = peer.next.max(coverage.bounds(*index, life).0);
            }
        }
        self.take_credits(now_ns, &credited);
        self.replay(now_ns, kept, Some(&coverage));
        self.coverage = Some(coverage);
        self.counts.buckets_taken += buckets;
        self.note(Note::Joined { from: self.table.name(server), buckets });
        self.become_synced(now_ns);
    }

    /// The counts are known from now on: every linked peer hears what is owed to it, and whether it
    /// is counted.
    pub(crate) fn become_synced(&mut self, now_ns: u64) {
        self.synced_ns = now_ns;
        for index in self.table.linked().iter() {
            self.send_heal(now_ns, index);
        }
        self.count_ready(now_ns);
    }

    /// Applies what was kept by a node that begins with nothing.
    pub(crate) fn apply_kept(&mut self, now_ns: u64, join: Join) {
        self.replay(now_ns, join.kept, None);
    }

    /// Applies the batches `kept`, where the snapshot that `coverage` tells of lacks them.
    fn replay(&mut self, now_ns: u64, kept: Vec<Kept>, coverage: Option<&Coverage>) {
        // What operators gave back comes last: what it is for is kept with it, and is there by then.
        let (given, spent): (Vec<_>, Vec<_>) =
            kept.into_iter().partition(|kept| !kept.credited.is_empty());
        for mut batch in spent.into_iter().chain(given) {
            let is_current = self.is_current(batch.index, batch.life);
            let mut deltas = std::mem::take(&mut batch.deltas);
            deltas.retain(|delta| {
                coverage.map_or(is_current, |coverage| {
                    coverage.lacks(delta, batch.index, batch.life, batch.seq, is_current)
                })
            });
            self.apply(now_ns, batch.batch(), deltas);
        }
    }

    fn is_current(&self, index: u8, life: u64) -> bool {
        self.table.peers.get(&index).is_some_and(|peer| peer.life == life)
    }

    /// Drops from a batch what the last snapshot contains. Late batches are few, and soon there are
    /// none.
    pub(crate) fn drop_covered(&mut self, index: u8, seq: u64, deltas: &mut Vec<Delta>) {
        let Some(coverage) = &self.coverage else { return };
        let Some(peer) = self.table.peers.get(&index) else { return };
        deltas.retain(|delta| coverage.lacks(delta, index, peer.life, seq, true));
        let is_past = |(index, _): (u8, _)| {
            let peer = self.table.peers.get(&index);
            peer.is_some_and(|peer| peer.next >= coverage.bounds(index, peer.life).1)
        };
        if self.table.links().all(is_past) {
            self.coverage = None;
        }
    }

    pub(crate) fn join_due_ns(&self, now_ns: u64) -> Option<u64> {
        let join = self.join.as_ref()?;
        let Some(gather_ns) = join.gather_ns else { return Some(self.form_due_ns(join)) };
        let asked_ns = join.asked_ns.map_or(now_ns, |asked_ns| asked_ns + REQUEST_NS);
        let due_ns =
            if self.has_met_all() { asked_ns } else { asked_ns.max(gather_ns + GATHER_NS) };
        // What is awaited then, a heal or a chunk, may come at any time, or not at all.
        Some(if due_ns > now_ns { due_ns } else { now_ns + REQUEST_NS })
    }
}

/// Whether a chunk with this head, of the peer `server` in its life, contains everything before
/// `position`.
fn holds(head: &SnapshotHead, server: (&str, u64), position: &Position) -> bool {
    if position.name == server.0 {
        return position.life == server.1 && head.own_next >= position.next;
    }
    let mut cursors = head.cursors.iter().filter(|cursor| cursor.name == position.name);
    cursors.any(|cursor| cursor.life == position.life && cursor.next >= position.next)
}
