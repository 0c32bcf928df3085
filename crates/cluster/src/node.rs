//! The state of a node, and which frame goes to which room.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use limiter::{Freshness, Limiter, Members, StorePart};
use wire::peer::{PeerDecoded, PeerFrame, Refusal, decode_peer};

use crate::batch::{Log, ReceiveLog};
use crate::config::{DETECT_NS, MS};
use crate::coverage::Coverage;
use crate::credit::Credits;
use crate::flush::Pace;
use crate::forget::Leaving;
use crate::join::Join;
use crate::link::Attempt;
use crate::member::{ME, Table};
use crate::output::{Channel, Effect};
use crate::serve::Serving;
use crate::slots::OwnLimits;
use crate::{Cause, Config, Counts, LinkId, Note};

/// A reachable peer that was silent for so long, or for two sync intervals if that is longer, makes
/// answers stale. Pings come every 100 ms, and one may be late.
const STALE_NS: u64 = 250 * MS;

/// A node without the checks that wait.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) config: Config,
    pub(crate) limiter: Arc<Limiter>,
    /// Random number of this start of the process.
    pub(crate) life: u64,
    /// Number of the limits in force that peers were told of.
    pub(crate) plan_number: u64,
    pub(crate) limits: OwnLimits,
    pub(crate) table: Table,
    /// Handshakes in progress.
    pub(crate) attempts: BTreeMap<LinkId, Attempt>,
    /// Peers by their connections, for those whose handshake is done.
    pub(crate) links: BTreeMap<LinkId, u8>,
    pub(crate) log: Log,
    pub(crate) received: ReceiveLog,
    /// Number of the next batch or heal.
    pub(crate) next_seq: u64,
    /// Number after the last batch.
    pub(crate) upto: u64,
    pub(crate) pace: Pace,
    /// Where a tick that is under way goes on.
    pub(crate) tick_from: Option<StorePart>,
    /// None once the node knows the counts.
    pub(crate) join: Option<Join>,
    /// The node knows the counts since this time.
    pub(crate) synced_ns: u64,
    /// The node began with nothing while members were missing, and has met nobody since who knows more.
    pub(crate) began_alone: bool,
    /// What the last snapshot contains, while batches that it contains may still arrive.
    pub(crate) coverage: Option<Coverage>,
    /// A peer refused this node for what it is, last at this time.
    pub(crate) turned_away_ns: Option<u64>,
    pub(crate) serving: Vec<Serving>,
    pub(crate) credits: Credits,
    /// Who is reached changed last at this time.
    pub(crate) changed_ns: u64,
    /// The first of the peers that wait to be counted was ready at this time.
    pub(crate) countable_ns: Option<u64>,
    /// The node was ready once.
    pub(crate) is_ready: bool,
    pub(crate) leaving: Option<Leaving>,
    pub(crate) has_left: bool,
    /// The node ran last at this time.
    pub(crate) ran_ns: u64,
    /// A time, and the wall clock at it in milliseconds of Unix time.
    pub(crate) wall: Option<(u64, u64)>,
    /// Peers are told what the wall clock says at this time.
    pub(crate) tell_clock_ns: u64,
    pub(crate) freshness: (Freshness, u64),
    pub(crate) counts: Counts,
    pub(crate) effects: VecDeque<Effect>,
}

impl Node {
    pub(crate) fn new(config: Config, limiter: Arc<Limiter>, life: u64, now_ns: u64) -> Self {
        let mut node = Self {
            plan_number: limiter.plan_number(),
            limits: OwnLimits::of(&limiter.plan()),
            table: Table::new(&config.node, config.expect, now_ns),
            attempts: BTreeMap::new(),
            links: BTreeMap::new(),
            log: Log::new(life),
            received: ReceiveLog::default(),
            next_seq: 0,
            upto: 0,
            tick_from: None,
            pace: Pace::new(config.sync_interval_ns, life, now_ns),
            join: Some(Join::new(now_ns)),
            synced_ns: now_ns,
            began_alone: false,
            coverage: None,
            turned_away_ns: None,
            serving: Vec::new(),
            credits: Credits::default(),
            changed_ns: now_ns,
            countable_ns: None,
            is_ready: false,
            leaving: None,
            has_left: false,
            ran_ns: now_ns,
            wall: None,
            tell_clock_ns: now_ns,
            freshness: (Freshness::Starting, 0),
            counts: Counts::default(),
            effects: VecDeque::new(),
            config,
            limiter,
            life,
        };
        node.limiter.set_freshness(Freshness::Starting, 0);
        node.limiter.set_exchange(node.pace.next_tick_ns());
        node.limiter.set_alive_until(now_ns.saturating_add(DETECT_NS));
        if node.config.ready_early {
            node.become_ready();
        }
        node
    }

    /// Says that the node runs at `now_ns`. Comes first in everything that it does.
    ///
    /// A node that did not run for long does not know what it missed: whoever it has not heard since
    /// is lost before anything else happens.
    pub(crate) fn run(&mut self, now_ns: u64) {
        if self.has_left {
            return;
        }
        let slept_ns = now_ns.saturating_sub(self.ran_ns);
        self.ran_ns = self.ran_ns.max(now_ns);
        self.limiter.set_alive_until(now_ns.saturating_add(DETECT_NS));
        self.renew_limits();
        if slept_ns > DETECT_NS {
            let links = self.table.links();
            let silent = links.filter(|(_, link)| now_ns.saturating_sub(link.heard_ns) > DETECT_NS);
            let silent: Members = silent.map(|(index, _)| index).collect();
            self.lose(now_ns, silent, Cause::Stalled);
        }
    }

    /// Bytes of any kind arrived.
    pub(crate) fn handle_sign(&mut self, now_ns: u64, link: LinkId) {
        if let Some(index) = self.links.get(&link)
            && let Some(link) = self.table.link_mut(*index)
        {
            link.heard_ns = link.heard_ns.max(now_ns);
        }
    }

    pub(crate) fn handle_closed(&mut self, now_ns: u64, link: LinkId) {
        self.attempts.remove(&link);
        if let Some(index) = self.links.get(&link).copied() {
            self.lose(now_ns, Members::only(index), Cause::Closed);
        }
    }

    pub(crate) fn handle_frame(&mut self, now_ns: u64, link: LinkId, bytes: &[u8]) {
        self.counts.bytes_received += bytes.len() as u64;
        self.handle_sign(now_ns, link);
        match decode_peer(bytes) {
            Ok(PeerDecoded::Frame(frame)) => match self.links.get(&link).copied() {
                Some(index) => self.handle_peer(now_ns, index, frame),
                None => self.handle_stranger(now_ns, link, frame),
            },
            Ok(PeerDecoded::Skipped(_)) => self.counts.frames_skipped += 1,
            Err(error) => self.refuse(now_ns, link, Refusal::Malformed, error.to_string()),
        }
    }

    /// A frame of a linked peer.
    fn handle_peer(&mut self, now_ns: u64, index: u8, frame: PeerFrame<'_>) {
        match frame {
            PeerFrame::Ping => {}
            PeerFrame::Batch(batch) => self.handle_batch(now_ns, index, batch),
            PeerFrame::Ack { next } => self.handle_ack(now_ns, index, next),
            PeerFrame::Heal(heal) => self.handle_heal(now_ns, index, heal),
            PeerFrame::HealAck { seq } => self.handle_heal_ack(now_ns, index, seq),
            PeerFrame::SnapshotRequest(request) => self.handle_request(now_ns, index, request),
            PeerFrame::SnapshotChunk(chunk) => self.handle_chunk(now_ns, index, chunk),
            PeerFrame::TimedSums(timed) => self.handle_timed_sums(now_ns, index, timed),
            PeerFrame::TimedStandings(timed) => self.handle_timed_standings(now_ns, index, timed),
            PeerFrame::Limits(limits) => self.handle_limits(now_ns, index, limits),
            PeerFrame::Terms(frame) => self.limiter.take_carried_terms(now_ns, &frame.terms),
            PeerFrame::Acts(acts) => self.handle_acts(now_ns, acts),
            PeerFrame::Credits(credits) => self.handle_credits(now_ns, index, credits),
            PeerFrame::Clock { unix_ms } => self.handle_clock(now_ns, index, unix_ms),
            PeerFrame::Leave => self.handle_leave(now_ns, index),
            PeerFrame::Forget { name } => self.handle_forget(now_ns, name),
            PeerFrame::Refused(refused) => {
                if let Some(id) = self.table.link(index).map(|link| link.id) {
                    self.handle_refused(now_ns, id, refused);
                }
            }
            PeerFrame::Hello(_) | PeerFrame::Answer(_) | PeerFrame::Done(_) => {
                if let Some(id) = self.table.link(index).map(|link| link.id) {
                    let text = "a handshake on a linked connection".to_owned();
                    self.refuse(now_ns, id, Refusal::Malformed, text);
                }
            }
        }
    }

    /// A frame on a connection whose handshake is not done.
    fn handle_stranger(&mut self, now_ns: u64, link: LinkId, frame: PeerFrame<'_>) {
        match frame {
            // A connection that was closed here already.
            _ if !self.attempts.contains_key(&link) => {}
            PeerFrame::Ping => {}
            PeerFrame::Hello(hello) => self.handle_hello(now_ns, link, hello),
            PeerFrame::Answer(answer) => self.handle_answer(now_ns, link, answer),
            PeerFrame::Done(done) => self.handle_done(now_ns, link, done),
            PeerFrame::Refused(refused) => self.handle_refused(now_ns, link, refused),
            _ => {
                let text = "a frame before the handshake".to_owned();
                self.refuse(now_ns, link, Refusal::Malformed, text);
            }
        }
    }

    /// Does what is due, and says when to do so next.
    pub(crate) fn poll(&mut self, now_ns: u64) -> u64 {
        self.expire_attempts(now_ns);
        self.detect(now_ns);
        self.step_join(now_ns);
        self.forget_missing(now_ns);
        self.count_ready(now_ns);
        self.flush_due(now_ns);
        self.step_serving(now_ns);
        self.step_clocks(now_ns);
        self.tell_acts(now_ns);
        self.tidy_credits(now_ns);
        self.step_leaving(now_ns);
        self.update_freshness(now_ns);
        self.acknowledge();
        if self.has_left {
            return u64::MAX;
        }
        let due = [
            self.attempts_due_ns(),
            self.detection_due_ns(),
            self.join_due_ns(now_ns),
            self.forget_due_ns(),
            self.counting_due_ns(now_ns),
            Some(self.flush_due_ns()),
            self.serving_due_ns(),
            self.clocks_due_ns(),
            self.credits.tidy_due_ns(),
            self.leaving_due_ns(now_ns),
        ];
        // Never at once: what is due was done.
        due.into_iter().flatten().min().unwrap_or(u64::MAX).max(now_ns + 1)
    }

    /// The next thing to do; acknowledgements come after everything that was said before.
    pub(crate) fn poll_effect(&mut self) -> Option<Effect> {
        if self.effects.is_empty() {
            self.acknowledge();
        }
        self.effects.pop_front()
    }

    pub(crate) fn become_ready(&mut self) {
        if !self.is_ready {
            self.is_ready = true;
            self.effects.push_back(Effect::Ready);
        }
    }

    /// The counts of the others are known, or there are none.
    pub(crate) fn is_synced(&self) -> bool {
        self.join.is_none()
    }

    /// The reachable set has not changed for so long that levels of two nodes compare.
    pub(crate) fn is_calm(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.changed_ns) > crate::flush::CALM_NS
    }

    pub(crate) fn unix_ms(&self, now_ns: u64) -> Option<u64> {
        let (at_ns, unix_ms) = self.wall?;
        Some(unix_ms.saturating_add(now_ns.saturating_sub(at_ns) / MS))
    }

    /// Tells the limiter how well this node knows the fleet's counts.
    fn update_freshness(&mut self, now_ns: u64) {
        let counted = self.table.links().filter(|(_, link)| link.counted);
        let silent = counted.map(|(_, link)| now_ns.saturating_sub(link.heard_ns)).max();
        let silent_ns = silent.unwrap_or(0);
        let stale_ns = self.config.sync_interval_ns.saturating_mul(2).max(STALE_NS);
        let freshness = if !self.is_synced() {
            (Freshness::Starting, 0)
        } else if !self.table.is_whole() {
            (Freshness::Split, silent_ns / MS)
        } else if silent_ns > stale_ns {
            (Freshness::Stale, silent_ns / MS)
        } else {
            (Freshness::Synced, 0)
        };
        if freshness != self.freshness {
            self.freshness = freshness;
            self.limiter.set_freshness(freshness.0, freshness.1);
        }
    }

    pub(crate) fn note(&mut self, note: Note) {
        self.effects.push_back(Effect::Note(note));
    }

    pub(crate) fn send(&mut self, link: LinkId, channel: Channel, frame: Arc<[u8]>) {
        self.counts.bytes_sent += frame.len() as u64;
        self.effects.push_back(Effect::Send { link, channel, frame });
    }

    /// Sends to the peer at `index`, if it is linked, the frame that `write` appends.
    pub(crate) fn send_to(&mut self, index: u8, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(id) = self.table.link(index).map(|link| link.id) {
            let mut bytes = Vec::new();
            write(&mut bytes);
            self.send(id, Channel::Ordered, bytes.into());
        }
    }

    /// Says one acknowledgement on every link on which something arrived that wants one.
    fn acknowledge(&mut self) {
        for index in self.table.linked().iter() {
            let Some(peer) = self.table.peers.get_mut(&index) else { continue };
            let next = peer.next;
            let is_due = peer.link.as_mut().is_some_and(|link| std::mem::take(&mut link.ack_due));
            if is_due {
                self.send_to(index, |out| wire::peer::write_ack(out, next));
            }
        }
    }

    /// Members that are not linked, this node not among them.
    pub(crate) fn unlinked(&self) -> Members {
        self.table.unlinked().without(ME)
    }
}
