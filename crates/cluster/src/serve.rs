//! Giving a snapshot to a peer that joins.

use limiter::{Standing, StorePart};
use wire::peer::{
    Position, SNAPSHOT_STANDINGS_MAX, SnapshotHead, SnapshotRequest, write_snapshot_chunk,
};

use crate::config::MS;
use crate::join::PATIENCE_NS;
use crate::member::ME;
use crate::node::Node;
use crate::output::Channel;
use crate::parts::{buckets_of, split_standings};

/// Most joiners served at once: others ask again, or ask another. Each takes a share of the link and
/// holds the locks of the store for a while.
const SERVING_MAX: usize = 2;
/// Time between two chunks of a snapshot, so that batches find their way in between.
const CHUNK_NS: u64 = MS;
/// Standings after which a chunk is closed: about 200 kB, which a link carries in milliseconds.
const CHUNK_STANDINGS: usize = 8_192;

/// A snapshot on its way to a peer.
#[derive(Debug)]
pub(crate) struct Serving {
    /// The peer.
    pub(crate) index: u8,
    /// Where the next chunk begins; none: all are sent.
    from: Option<StorePart>,
    /// The next chunk is due at this time.
    due_ns: u64,
    /// What the peer asked to be contained.
    positions: Vec<Position>,
}

impl Node {
    /// A peer asks for a snapshot. It is given one when this node has received what it must contain;
    /// until then the peer asks again.
    pub(crate) fn handle_request(&mut self, now_ns: u64, index: u8, request: SnapshotRequest) {
        let SnapshotRequest { positions } = request;
        // What was just sent may not have arrived when it was asked for again.
        self.serving
            .retain(|old| old.from.is_some() || now_ns.saturating_sub(old.due_ns) < PATIENCE_NS);
        let is_served = |serving: &&Serving| serving.index == index;
        if self.serving.iter().find(is_served).is_some_and(|old| old.positions == positions) {
            return;
        }
        // Asked with other positions, it has been linked to somebody since, and begins anew.
        self.serving.retain(|serving| serving.index != index);
        let can = self.is_synced() && positions.iter().all(|position| self.has_reached(position));
        if can && self.snapshots_open() < SERVING_MAX {
            self.counts.snapshots_served += 1;
            let from = Some(StorePart::default());
            self.serving.push(Serving { index, from, due_ns: now_ns, positions });
        } else {
            self.counts.snapshots_deferred += 1;
        }
    }

    /// Whether everything before `position` is in this node's counts.
    fn has_reached(&self, position: &Position) -> bool {
        if position.name == self.config.node {
            return position.life == self.life && position.next <= self.next_seq;
        }
        let index = self.table.index_of(&position.name);
        let peer = index.and_then(|index| self.table.peers.get(&index));
        peer.is_some_and(|peer| peer.life == position.life && peer.next >= position.next)
    }

    /// Snapshots that are not sent whole.
    fn snapshots_open(&self) -> usize {
        self.serving.iter().filter(|serving| serving.from.is_some()).count()
    }

    pub(crate) fn serving_due_ns(&self) -> Option<u64> {
        let open = self.serving.iter().filter(|serving| serving.from.is_some());
        open.map(|serving| serving.due_ns).min()
    }

    /// Sends the next chunk of every snapshot that is on its way.
    pub(crate) fn step_serving(&mut self, now_ns: u64) {
        let mut serving = std::mem::take(&mut self.serving);
        for snapshot in &mut serving {
            let Some(from) = snapshot.from.filter(|_| now_ns >= snapshot.due_ns) else { continue };
            let mut standings = Vec::new();
            let next = self.limiter.snapshot(now_ns, from, CHUNK_STANDINGS, &mut standings);
            let range = self.limiter.snapshot_range(from, next);
            self.counts.buckets_given += buckets_of(&standings);
            self.send_range(now_ns, snapshot.index, range, standings);
            (snapshot.from, snapshot.due_ns) = (next, now_ns + CHUNK_NS);
        }
        self.serving = serving;
    }

    /// Sends the standings of a range of rotated hashes, in as many chunks as they need.
    fn send_range(
        &mut self,
        now_ns: u64,
        index: u8,
        range: (u64, u64),
        mut standings: Vec<Standing>,
    ) {
        let (mut first, last) = range;
        if standings.len() > SNAPSHOT_STANDINGS_MAX {
            // Stable: the entries of a bucket stay next to each other, and in their order.
            standings.sort_by_key(|standing| (rotated(standing), standing.bucket.slot));
        }
        while standings.len() > SNAPSHOT_STANDINGS_MAX {
            // Buckets of one hash, of different limits, stay together.
            let cut = standings.get(SNAPSHOT_STANDINGS_MAX).map_or(last, rotated);
            let below = standings.partition_point(|standing| rotated(standing) < cut);
            // A hash of which there is more than a chunk's worth goes alone.
            let fit = match below {
                0 => standings.partition_point(|standing| rotated(standing) <= cut),
                below => below,
            };
            let Some(next_first) = standings.get(fit).map(rotated) else { break };
            let rest = standings.split_off(fit);
            self.send_chunk(now_ns, index, (first, next_first - 1), &standings);
            (first, standings) = (next_first, rest);
        }
        self.send_chunk(now_ns, index, (first, last), &standings);
    }

    fn send_chunk(
        &mut self,
        now_ns: u64,
        index: u8,
        (first, last): (u64, u64),
        standings: &[Standing],
    ) {
        let Some(id) = self.table.link(index).map(|link| link.id) else { return };
        let known = self.table.peers.iter().filter(|(at, peer)| **at != ME && peer.life != 0);
        let cursors = known.filter_map(|(_, peer)| {
            let name = peer.name.clone()?;
            Some(Position { name, life: peer.life, next: peer.next })
        });
        let head = SnapshotHead {
            first,
            last,
            end: last == u64::MAX,
            own_next: self.next_seq,
            cursors: cursors.collect(),
            size: u32::try_from(self.table.size()).unwrap_or(u32::MAX),
            members: self.table.names(),
        };
        let (levels, timed) = split_standings(standings);
        let terms = self.terms_of(now_ns, levels.iter().map(|standing| standing.bucket));
        self.send_terms(id, Channel::Bulk, &terms);
        self.send_credits_waiting(index, (first, last));
        self.send_timed_standings(now_ns, id, first, &timed);
        let mut bytes = Vec::new();
        if write_snapshot_chunk(&mut bytes, &head, &levels).is_ok() {
            self.send(id, Channel::Bulk, bytes.into());
        } else {
            debug_assert!(false, "a chunk is always written");
        }
    }
}

fn rotated(standing: &Standing) -> u64 {
    standing.bucket.hash.rotate_left(32)
}
