//! What an operator can see of a node and its peers.

use limiter::{Freshness, ShareCounts};
use wire::peer::Refusal;

use crate::config::MS;
use crate::member::Peer;
use crate::node::Node;

/// Whether a node may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It does not know the counts yet: a check gets the error `starting`.
    Starting,
    /// It answers.
    Ready,
    /// It tells what is left to tell and is asked nothing more.
    Leaving,
    /// It is a member no more.
    Left,
}

impl Readiness {
    /// The word used in JSON, logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Leaving => "leaving",
            Self::Left => "left",
        }
    }
}

/// What a peer is to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// Expected, and never met.
    Unmet,
    /// A member without a link.
    Missing,
    /// Linked, not counted yet.
    Linked,
    /// Linked and counted: it has heard everything, and so has this node of it.
    Counted,
}

impl PeerState {
    /// The word used in JSON, logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unmet => "unmet",
            Self::Missing => "missing",
            Self::Linked => "linked",
            Self::Counted => "counted",
        }
    }
}

/// One peer as a node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// Its name; none for one that was never met.
    pub name: Option<String>,
    /// Its region, while it is linked.
    pub region: String,
    /// What it is to this node.
    pub state: PeerState,
    /// Its life, as this node knows it; 0: never met.
    pub life: u64,
    /// It has the fleet's counts, while it is linked.
    pub synced: bool,
    /// Time since its last byte, in milliseconds, while it is linked.
    pub heard_ms: Option<u64>,
    /// Time for which it has been missing, in milliseconds, while it is.
    pub missing_ms: Option<u64>,
    /// Own batches that it has not acknowledged.
    pub unacknowledged: u64,
    /// Age of the oldest of them in milliseconds: how far behind it is. 0: not at all.
    pub lag_ms: u64,
    /// Smoothed time from a batch to its acknowledgement, in microseconds.
    pub rtt_us: Option<u64>,
    /// Its wall clock less this node's, in milliseconds, as of a few seconds ago at most, half a round trip
    /// allowed for; while it is linked.
    pub skew_ms: Option<i64>,
    /// The same as it was said when the two were linked, late by the time that this took to arrive.
    pub linked_skew_ms: Option<i64>,
    /// Its wall clock is so far off that it is warned of: see [`crate::SKEW_MAX_MS`].
    pub clock_off: bool,
    /// Names of limits whose numbers differ there.
    pub drift: Vec<String>,
    /// Names of this node's limits that it does not have.
    pub unknown_there: Vec<String>,
    /// How many of its limits this node does not have.
    pub unknown_here: u64,
    /// Something that it missed may still have to be told to it.
    pub owed: bool,
    /// It comes and goes, and is not counted before it stays.
    pub flapping: bool,
}

/// A node as it sees itself and its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its name.
    pub node: String,
    /// The cluster's name.
    pub cluster: String,
    /// Its region.
    pub region: String,
    /// Random number of this start of the process.
    pub life: u64,
    /// Members, this node included: N.
    pub members: usize,
    /// Members that are counted, this node included: n.
    pub reached: usize,
    /// The group has less than half of the members, or exactly half without the first by name.
    pub isolated: bool,
    /// Whether it may be asked.
    pub readiness: Readiness,
    /// How well it knows the fleet's counts.
    pub freshness: Freshness,
    /// Time since a counted peer was last heard, in milliseconds, where that matters.
    pub stale_ms: u64,
    /// The peers, by name; those never met come last.
    pub peers: Vec<PeerStatus>,
    /// Checks that wait for an acknowledgement.
    pub held: usize,
    /// Own batches that some linked peer has not acknowledged.
    pub log_batches: u64,
    /// Bytes of the logs of batches sent and received.
    pub log_bytes: u64,
    /// Handshakes in progress.
    pub handshakes: usize,
    /// Buckets of which an operator gave back what waits here for spends that have not arrived.
    pub credits: usize,
    /// What was counted since the start.
    pub counts: Counts,
    /// What the shares did since the start.
    pub shares: ShareCounts,
}

/// How many connections were refused, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals([u64; Refusal::ALL.len() + 1]);

impl Refusals {
    pub(crate) fn count(&mut self, refusal: Refusal) {
        let known = Refusal::ALL.iter().position(|other| *other == refusal);
        if let Some(count) = self.0.get_mut(known.unwrap_or(Refusal::ALL.len())) {
            *count += 1;
        }
    }

    /// How many for `refusal`; every reason that this version does not know counts as one.
    pub fn of(&self, refusal: Refusal) -> u64 {
        let known = Refusal::ALL.iter().position(|other| *other == refusal);
        self.0.get(known.unwrap_or(Refusal::ALL.len())).copied().unwrap_or(0)
    }

    /// How many in all.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// What a node counted since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Handshakes that led to a link.
    pub links: u64,
    /// Steps in which counted peers were lost.
    pub splits: u64,
    /// Peers lost.
    pub peers_lost: u64,
    /// Steps in which peers were counted.
    pub heals: u64,
    /// Members forgotten.
    pub forgotten: u64,
    /// Batches sent; one that goes to several peers counts once.
    pub batches_sent: u64,
    /// Of them, those sent before an acknowledgement because a peer claimed a share.
    pub forced: u64,
    /// Deltas in batches sent.
    pub deltas_sent: u64,
    /// Batches received.
    pub batches_received: u64,
    /// Deltas in batches received.
    pub deltas_received: u64,
    /// Batches received again, and not applied.
    pub duplicates: u64,
    /// Heals sent.
    pub heals_sent: u64,
    /// Sums in heals sent.
    pub sums_sent: u64,
    /// Heals received.
    pub heals_received: u64,
    /// Sums in heals received.
    pub sums_received: u64,
    /// Bans and overrides of keys sent.
    pub acts_sent: u64,
    /// Bans and overrides of keys received.
    pub acts_received: u64,
    /// Bans and overrides of keys received for which there was no room.
    pub acts_dropped: u64,
    /// Bytes of frames sent, to all peers.
    pub bytes_sent: u64,
    /// Bytes of frames received.
    pub bytes_received: u64,
    /// Frames received of types that this version skips.
    pub frames_skipped: u64,
    /// Sections of batches received that this version skips.
    pub sections_skipped: u64,
    /// Deltas, sums and standings received for limits that this node does not have.
    pub unknown_limits: u64,
    /// Connections that this node refused.
    pub refused: Refusals,
    /// Connections by which this node was refused.
    pub refused_by_peers: Refusals,
    /// Times that the log of batches was above its bound.
    pub log_overflows: u64,
    /// Checks not held because too many were.
    pub holds_refused: u64,
    /// Times that this node gave up its counts to take them anew.
    pub joins: u64,
    /// Of them, those for want of room for the batches that came meanwhile.
    pub join_overflows: u64,
    /// Buckets taken from a snapshot.
    pub buckets_taken: u64,
    /// Chunks received of snapshots that were given up.
    pub chunks_ignored: u64,
    /// Times that the wall clock of a peer came to be far off.
    pub clock_alarms: u64,
    /// Snapshots begun for a peer.
    pub snapshots_served: u64,
    /// Requests for a snapshot that a peer had to repeat.
    pub snapshots_deferred: u64,
    /// Buckets given in snapshots.
    pub buckets_given: u64,
    /// Buckets of which an operator gave something back that found no room to wait for late spends.
    pub credits_dropped: u64,
}

impl Node {
    pub(crate) fn readiness(&self) -> Readiness {
        if self.has_left {
            Readiness::Left
        } else if self.leaving.is_some() {
            Readiness::Leaving
        } else if self.is_ready {
            Readiness::Ready
        } else {
            Readiness::Starting
        }
    }

    pub(crate) fn status(&self, now_ns: u64, held: usize) -> Status {
        let mut peers: Vec<_> =
            self.table.peers.values().map(|peer| self.peer_status(now_ns, peer)).collect();
        peers.sort_by(|a, b| (a.name.is_none(), &a.name).cmp(&(b.name.is_none(), &b.name)));
        Status {
            node: self.config.node.clone(),
            cluster: self.config.cluster.clone(),
            region: self.config.region.clone(),
            life: self.life,
            members: self.table.size(),
            reached: self.table.reached(),
            isolated: self.table.is_isolated(),
            readiness: self.readiness(),
            freshness: self.freshness.0,
            stale_ms: self.freshness.1,
            peers,
            held,
            log_batches: self.log.unacknowledged(0).0 as u64,
            log_bytes: (self.log.bytes() + self.received.bytes()) as u64,
            handshakes: self.attempts.len(),
            credits: self.credits.waiting().count(),
            counts: Counts { credits_dropped: self.credits.dropped, ..self.counts },
            shares: self.limiter.share_counts(),
        }
    }

    fn peer_status(&self, now_ns: u64, peer: &Peer) -> PeerStatus {
        let link = peer.link.as_ref();
        let since_ms = |at_ns: u64| now_ns.saturating_sub(at_ns) / MS;
        let (unacknowledged, oldest_ns) =
            link.map_or((0, None), |link| self.log.unacknowledged(link.acked));
        PeerStatus {
            name: peer.name.clone(),
            region: link.map(|link| link.greeting.region.clone()).unwrap_or_default(),
            state: match link {
                Some(link) if link.counted => PeerState::Counted,
                Some(_) => PeerState::Linked,
                None if peer.name.is_some() => PeerState::Missing,
                None => PeerState::Unmet,
            },
            life: peer.life,
            synced: link.is_some_and(|link| link.synced_ns.is_some()),
            heard_ms: link.map(|link| since_ms(link.heard_ns)),
            missing_ms: link.is_none().then(|| since_ms(peer.missing_since_ns)),
            unacknowledged: unacknowledged as u64,
            lag_ms: oldest_ns.map_or(0, since_ms),
            rtt_us: link.and_then(|link| link.rtt_ns).map(|rtt_ns| rtt_ns / 1_000),
            skew_ms: link.and_then(|link| link.skew.ms(link.rtt_ns)),
            linked_skew_ms: link.and_then(|link| link.greeting.skew_ms),
            clock_off: link.is_some_and(|link| link.skew.is_off),
            drift: link.map(|link| link.greeting.slots.drift.clone()).unwrap_or_default(),
            unknown_there: link
                .map(|link| link.greeting.slots.unknown_there.clone())
                .unwrap_or_default(),
            unknown_here: link.map_or(0, |link| link.greeting.slots.unknown_here as u64),
            owed: peer.owed,
            flapping: link.is_some_and(|link| link.quiet_until_ns > now_ns),
        }
    }
}
