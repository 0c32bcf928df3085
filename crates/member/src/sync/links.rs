//! Connections: who is at the other end, and what comes from there.

use std::net::SocketAddr;

use wire::peer::{PeerDecoded, PeerFrame, Refusal, decode_peer};

use super::dialer::word_of;
use super::gossip::Gossip;
use super::run::SyncLoop;
use crate::status::AddressState;
use crate::tls::Identity;
use crate::transport::{CloseCode, Event, Failure, Link, LinkId};

/// A connection that stands.
pub(super) struct Open {
    pub(super) link: Link,
    /// The state machine knows that something was heard at this time.
    pub(super) told_ns: u64,
    /// Who is at the other end, once it said so.
    pub(super) node: Option<String>,
    pub(super) refusal: Option<Refusal>,
}

impl SyncLoop {
    pub(super) fn handle_event(&mut self, event: Event) {
        let now_ns = self.now_ns();
        match event {
            Event::Connected { link, identity } => self.handle_connected(now_ns, link, identity),
            Event::Frame { link, bytes, .. } => {
                self.shared.advance();
                self.handle_frame(now_ns, link, &bytes);
            }
            Event::Datagram { bytes, .. } => {
                if let Some(gossip) = &mut self.gossip {
                    gossip.handle_message(now_ns, &bytes);
                    self.send_gossip();
                }
            }
            Event::Closed { link, why } => self.handle_closed(now_ns, link, &why),
            Event::NotDialed { address, why } => {
                let state = match &why {
                    Failure::Authority(_) | Failure::Nameless | Failure::Protocol(_) => {
                        self.journal.refused(now_ns, format!("dialled {address}: {why}"));
                        AddressState::Refused(word_of(&why).to_owned())
                    }
                    _ => AddressState::Unreachable(why.to_string()),
                };
                self.dialer.not_dialed(address, now_ns, state);
            }
        }
        self.deliver(now_ns);
    }

    fn handle_connected(&mut self, now_ns: u64, link: Link, identity: Identity) {
        let id = link.id();
        if let Some(address) = link.dialed() {
            self.dialer.connected(address, id);
        }
        self.begin_gossip(&link);
        let is_dialed = link.dialed().is_some();
        self.links.insert(id, Open { link, told_ns: 0, node: None, refusal: None });
        let identity = match identity {
            Identity::Named(name) if self.is_second_address(id, &name) => return,
            Identity::Named(name) => cluster::Identity::Named(name),
            Identity::Fleet => cluster::Identity::Fleet,
        };
        self.machine.connected(now_ns, cluster::LinkId(id.0), is_dialed, identity);
    }

    /// The dial `id` led to `node`, which is linked already: the address is one more of its own. Of
    /// two connections the one that is used stays, or each dial would end the link before it.
    fn is_second_address(&mut self, id: LinkId, node: &str) -> bool {
        let Some(open) = self.links.get(&id) else { return false };
        let is_second = open.link.dialed().is_some() && self.linked.contains(node);
        if is_second {
            open.link.close(CloseCode::DONE);
            self.note_node(id, node);
        }
        is_second
    }

    fn note_node(&mut self, id: LinkId, node: &str) {
        if let Some(open) = self.links.get_mut(&id) {
            open.node = Some(node.to_owned());
            let address = open.link.dialed().unwrap_or_else(|| open.link.remote());
            self.dialer.met(address, node);
        }
    }

    fn handle_frame(&mut self, now_ns: u64, id: LinkId, bytes: &[u8]) {
        if self.links.get(&id).is_some_and(|open| open.node.is_none())
            && let Some(node) = said_name(bytes)
        {
            if self.is_second_address(id, &node) {
                self.machine.closed(now_ns, cluster::LinkId(id.0));
                return;
            }
            self.note_node(id, &node);
        }
        self.machine.received(now_ns, cluster::LinkId(id.0), bytes);
    }

    fn handle_closed(&mut self, now_ns: u64, id: LinkId, why: &Failure) {
        let open = self.links.remove(&id);
        self.machine.closed(now_ns, cluster::LinkId(id.0));
        if let Failure::Authority(_) | Failure::Protocol(_) | Failure::Malformed(_) = why {
            let remote = open.as_ref().map(|open| open.link.remote().to_string());
            let remote = remote.unwrap_or_default();
            self.journal.refused(now_ns, format!("connection to {remote}: {why}"));
        }
        let refusal = open.and_then(|open| open.refusal);
        self.dialer.closed(id, now_ns, refusal, why);
    }

    pub(super) fn open_to(&self, node: &str) -> Option<&Open> {
        self.links.values().find(|open| open.node.as_deref() == Some(node))
    }

    /// Gossip needs an address that others can dial: the one that the settings name, else the one that
    /// this node listens on, or where it listens on all, the one at which the first connection arrived.
    fn begin_gossip(&mut self, link: &Link) {
        let listen = self.endpoint.local();
        let ip = if listen.ip().is_unspecified() { link.local_ip() } else { Some(listen.ip()) };
        let arrived = ip.map(|ip| SocketAddr::new(ip, listen.port()));
        if let (None, Some(address)) = (&self.gossip, self.settings.advertise.or(arrived)) {
            let born_ms = (self.shared.clock.unix_ns)() / 1_000_000;
            self.gossip =
                Some(Gossip::new(self.settings.node.clone(), address, born_ms, self.life));
        }
    }

    pub(super) fn send_gossip(&mut self) {
        let Some(gossip) = &mut self.gossip else { return };
        while let Some((node, bytes)) = gossip.poll_message() {
            let open = self.links.values().find(|open| open.node.as_ref() == Some(&node));
            if let Some(open) = open {
                // A datagram may be lost; gossip repeats what matters.
                open.link.send_datagram(bytes);
            }
        }
    }
}

/// The name that the first frame of a connection says.
fn said_name(bytes: &[u8]) -> Option<String> {
    match decode_peer(bytes) {
        Ok(PeerDecoded::Frame(PeerFrame::Hello(hello))) => Some(hello.node),
        Ok(PeerDecoded::Frame(PeerFrame::Answer(answer))) => Some(answer.hello.node),
        _ => None,
    }
}
