//! The loop of the sync thread.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cluster::{Note, Output};
use limiter::Limiter;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use wire::peer::Refusal;

use super::alarm::Alarm;
use super::asking::{Hold, Order, Shared};
use super::dialer::Dialer;
use super::gossip::Gossip;
use super::journal::Journal;
use super::links::Open;
use super::resolve::{Found, Resolved};
use super::upkeep::{RESOLVE_MISSING_NS, UPKEEP_EVERY_NS};
use super::{Asked, Machine};
use crate::settings::{Clock, Settings};
use crate::status::Status;
use crate::tls::Expiry;
use crate::transport::{Channel, CloseCode, Endpoint, Event, LinkId};

/// Most things that are taken from the queues before the state machine looks at the time again.
const TAKEN_MAX: usize = 256;

/// How long what was said last may take to arrive before the port is closed.
const GOODBYE_MAX: Duration = Duration::from_millis(300);

/// Codes of a close that follows a refusal are the refusal's number above this.
const REFUSAL_CODES: u32 = 0x100;

/// What the loop is made of.
pub(super) struct Parts {
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    pub(super) certificate_expiry: Expiry,
    pub(super) limiter: Arc<Limiter>,
    pub(super) machine: Machine,
    pub(super) life: u64,
    pub(super) endpoint: Endpoint,
    pub(super) events: mpsc::Receiver<Event>,
    pub(super) asked: Asked,
    pub(super) resolved: Resolved,
    pub(super) alarm: Alarm,
}

/// The owner of state machine and connections.
pub(super) struct SyncLoop {
    pub(super) shared: Arc<Shared>,
    pub(super) settings: Settings,
    pub(super) certificate_expiry: Expiry,
    pub(super) machine: Machine,
    pub(super) life: u64,
    pub(super) endpoint: Endpoint,
    pub(super) events: mpsc::Receiver<Event>,
    pub(super) asked: Asked,
    pub(super) links: HashMap<LinkId, Open>,
    /// Nodes that are linked, as the state machine says.
    pub(super) linked: HashSet<String>,
    pub(super) dialer: Dialer,
    pub(super) gossip: Option<Gossip>,
    pub(super) journal: Journal,
    pub(super) alarm: Alarm,
    pub(super) resolving: Option<JoinHandle<Resolved>>,
    pub(super) resolve_at_ns: u64,
    pub(super) found: Found,
    pub(super) unresolved: Vec<(String, String)>,
    pub(super) upkeep_at_ns: u64,
    pub(super) slow_upkeep_at_ns: u64,
    pub(super) status_at_ns: u64,
    /// Who waits for this node to have left.
    pub(super) leavers: Vec<oneshot::Sender<()>>,
    pub(super) has_left: bool,
}

/// Why the loop was woken.
enum Woken {
    Order(Option<Order>),
    Hold(Option<Hold>),
    Event(Option<Event>),
    Resolved(Resolved),
    Time,
}

impl SyncLoop {
    pub(super) fn new(mut parts: Parts) -> Self {
        let mut found = Found::default();
        found.take(&mut parts.resolved);
        let Parts { settings, clock, certificate_expiry, limiter, machine, .. } = parts;
        let now_ns = (clock.now_ns)();
        let listen = parts.endpoint.local();
        let mut dialer = Dialer::default();
        dialer.set_configured(&found.addresses());
        let status = Status {
            cluster: machine.status(now_ns),
            listen,
            certificate_expiry,
            transport: parts.endpoint.counts().snapshot(),
            addresses: Vec::new(),
            unresolved: parts.resolved.failed.clone(),
            gossip: Vec::new(),
            gossip_refused: 0,
            holds_refused: 0,
        };
        Self {
            shared: Arc::new(Shared::new(limiter, clock, status)),
            settings,
            certificate_expiry,
            machine,
            life: parts.life,
            endpoint: parts.endpoint,
            events: parts.events,
            asked: parts.asked,
            links: HashMap::new(),
            linked: HashSet::new(),
            dialer,
            gossip: None,
            journal: Journal::default(),
            alarm: parts.alarm,
            resolving: None,
            resolve_at_ns: now_ns + RESOLVE_MISSING_NS,
            found,
            unresolved: parts.resolved.failed,
            upkeep_at_ns: now_ns,
            slow_upkeep_at_ns: now_ns,
            status_at_ns: now_ns,
            leavers: Vec::new(),
            has_left: false,
        }
    }

    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    pub(super) fn now_ns(&self) -> u64 {
        (self.shared.clock.now_ns)()
    }

    /// Runs until this node has left, or nobody is left who could ask. Gives back those who are to be
    /// told when the port is free again.
    pub(super) async fn run(mut self) -> Vec<oneshot::Sender<()>> {
        while !self.has_left {
            let next_ns = self.step();
            if self.has_left {
                break;
            }
            let woken = self.wait(next_ns).await;
            if !self.handle(woken) {
                break;
            }
            self.take_waiting();
        }
        self.finish().await
    }

    /// Tells the state machine what was heard and what time it is, and does what is due.
    fn step(&mut self) -> u64 {
        for (id, open) in &mut self.links {
            let heard_ns = open.link.heard_ns();
            if heard_ns > open.told_ns {
                open.told_ns = heard_ns;
                self.machine.heard(heard_ns, cluster::LinkId(id.0));
            }
        }
        let now_ns = self.now_ns();
        let mut next_ns = self.machine.poll(now_ns);
        self.deliver(now_ns);
        self.shared.set_readiness(self.machine.readiness());
        if now_ns >= self.upkeep_at_ns {
            self.upkeep_at_ns = now_ns + UPKEEP_EVERY_NS;
            self.upkeep(now_ns);
        }
        next_ns = next_ns.min(self.upkeep_at_ns);
        if let Some(gossip) = &mut self.gossip {
            gossip.handle_timers(now_ns);
            next_ns = next_ns.min(gossip.next_ns());
            self.send_gossip();
        }
        next_ns
    }

    /// Waits for whatever comes first.
    async fn wait(&mut self, next_ns: u64) -> Woken {
        let pause = Duration::from_nanos(next_ns.saturating_sub(self.now_ns()));
        let resolved = async {
            match &mut self.resolving {
                Some(lookup) => lookup.await.unwrap_or_default(),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            hold = self.asked.holds.recv() => Woken::Hold(hold),
            order = self.asked.orders.recv() => Woken::Order(order),
            event = self.events.recv() => Woken::Event(event),
            () = self.shared.flush.notified() => Woken::Time,
            resolved = resolved => Woken::Resolved(resolved),
            () = self.alarm.wait(pause) => Woken::Time,
        }
    }

    /// False when there is nobody left to run for.
    fn handle(&mut self, woken: Woken) -> bool {
        match woken {
            Woken::Hold(Some(hold)) => self.handle_hold(hold),
            Woken::Order(Some(order)) => self.handle_order(order),
            Woken::Event(Some(event)) => self.handle_event(event),
            Woken::Resolved(resolved) => self.handle_resolved(resolved),
            Woken::Time => {}
            // Every handle of this member is dropped.
            Woken::Hold(None) | Woken::Order(None) => return false,
            Woken::Event(None) => {
                tracing::error!("the peer port is gone: this node goes on alone, on its part");
                return false;
            }
        }
        true
    }

    /// Takes what else is waiting. Holds first: what they wait for may be the next event.
    fn take_waiting(&mut self) {
        for _ in 0..TAKEN_MAX {
            if let Ok(hold) = self.asked.holds.try_recv() {
                self.handle_hold(hold);
            } else if let Ok(event) = self.events.try_recv() {
                self.handle_event(event);
            } else {
                break;
            }
        }
    }

    fn handle_hold(&mut self, hold: Hold) {
        let Hold { bucket, seen, waker } = hold;
        if seen == self.shared.progress() {
            // Whoever finds no room is told by the waker, which is dropped: the check is denied.
            let _ = self.machine.hold(bucket, waker);
        } else {
            // What it waits for may have come before it did. Whoever has gone needs no waking.
            let _ = waker.send(());
        }
    }

    fn handle_order(&mut self, order: Order) {
        let now_ns = self.now_ns();
        // Whoever asked and has gone needs no answer.
        match order {
            Order::Forget { node, answer } => {
                let result = self.machine.forget(now_ns, &node);
                self.deliver(now_ns);
                let _ = answer.send(result);
            }
            Order::SetPeers { peers, answer } => {
                self.set_peers(now_ns, peers);
                let _ = answer.send(());
            }
            Order::Give { giving, answer } => {
                let result = self.machine.operate(now_ns, &giving.to_operation());
                self.deliver(now_ns);
                let _ = answer.send(result);
            }
            Order::Leave { answer } => {
                self.leavers.push(answer);
                self.machine.leave(now_ns);
                self.deliver(now_ns);
            }
            Order::Status { answer } => {
                self.refresh_status(now_ns);
                let _ = answer.send(self.shared.status());
            }
        }
    }

    /// Does what the state machine wants done.
    pub(super) fn deliver(&mut self, now_ns: u64) {
        while let Some(output) = self.machine.output() {
            match output {
                Output::Send { link, channel, frame } => {
                    if let Some(open) = self.links.get(&LinkId(link.0)) {
                        let channel = match channel {
                            cluster::Channel::Ordered => Channel::Ordered,
                            cluster::Channel::Bulk => Channel::Bulk,
                        };
                        // A link that takes no more is closed, which is told in its turn.
                        let _ = open.link.send(channel, Bytes::from_owner(frame));
                    }
                }
                Output::Close { link, refusal } => {
                    if let Some(open) = self.links.get_mut(&LinkId(link.0)) {
                        open.refusal = open.refusal.or(refusal);
                        open.link.close(close_code(refusal));
                    }
                }
                // Whoever has gone needs no waking.
                Output::Wake(waker) => drop(waker.send(())),
                Output::Ready => {}
                Output::Left => self.has_left = true,
                Output::Note(note) => self.handle_note(now_ns, &note),
            }
        }
    }

    fn handle_note(&mut self, now_ns: u64, note: &Note) {
        self.journal.write(now_ns, note);
        // Whoever is lost or counted changes what a hold waits for, with no frame to say so.
        self.shared.advance();
        match note {
            Note::Linked { peer } => {
                self.linked.insert(peer.clone());
                let remote = self.open_to(peer).map(|open| open.link.remote());
                if let (Some(gossip), Some(remote)) = (&mut self.gossip, remote) {
                    gossip.greet(now_ns, peer, remote);
                    self.send_gossip();
                }
            }
            Note::Lost { peers, .. } => {
                for peer in peers {
                    self.linked.remove(peer);
                }
            }
            Note::Forgotten { peer: Some(peer), .. } => {
                self.linked.remove(peer);
            }
            _ => {}
        }
    }

    /// Lets what was said last arrive, and ends the connections.
    async fn finish(mut self) -> Vec<oneshot::Sender<()>> {
        if self.has_left {
            for open in self.links.values() {
                open.link.close(CloseCode::DONE);
            }
            let _ = timeout(GOODBYE_MAX, async {
                while !self.links.is_empty() {
                    match self.events.recv().await {
                        Some(Event::Closed { link, .. }) => drop(self.links.remove(&link)),
                        Some(_) => {}
                        None => break,
                    }
                }
            })
            .await;
        }
        let now_ns = self.now_ns();
        self.refresh_status(now_ns);
        self.shared.set_readiness(self.machine.readiness());
        // Nobody takes events any more: whoever waits to tell one must not be waited for.
        drop(self.events);
        let _ = timeout(GOODBYE_MAX, self.endpoint.close()).await;
        self.leavers
    }
}

fn close_code(refusal: Option<Refusal>) -> CloseCode {
    refusal.map_or(CloseCode::DONE, |refusal| CloseCode {
        number: REFUSAL_CODES + u32::from(refusal.to_u8()),
        word: refusal.as_str(),
    })
}
