//! What needs no precise time: dialling, looking names up, the status.

use std::sync::Arc;

use super::dialer::DIAL_EVERY_NS;
use super::gossip::Gossip;
use super::resolve::{Resolved, resolve};
use super::run::SyncLoop;
use crate::status::Status;

/// How often dialling and the status are looked at.
pub(super) const UPKEEP_EVERY_NS: u64 = DIAL_EVERY_NS / 4;
const STATUS_EVERY_NS: u64 = 200_000_000;
/// How often what is only shown or rarely changes is looked at.
const SLOW_UPKEEP_EVERY_NS: u64 = 1_000_000_000;

/// How soon names are looked up again while a configured peer is missing, and when none is.
pub(super) const RESOLVE_MISSING_NS: u64 = 5_000_000_000;
const RESOLVE_EVERY_NS: u64 = 60_000_000_000;

impl SyncLoop {
    /// What needs no precise time.
    pub(super) fn upkeep(&mut self, now_ns: u64) {
        let linked = &self.linked;
        for address in self.dialer.due(now_ns, |node| linked.contains(node)) {
            if !self.endpoint.dial(address) {
                self.dialer.not_begun(address, now_ns);
            }
        }
        if now_ns >= self.status_at_ns {
            self.refresh_status(now_ns);
        }
        if now_ns >= self.slow_upkeep_at_ns {
            self.slow_upkeep_at_ns = now_ns + SLOW_UPKEEP_EVERY_NS;
            self.read_wall_clock();
            if let Some(gossip) = &self.gossip {
                self.dialer.set_gossiped(&gossip.nodes());
            }
        }
        if self.resolving.is_none() && now_ns >= self.resolve_at_ns {
            self.resolving = Some(tokio::spawn(resolve(self.settings.peers.clone())));
        }
    }

    /// Takes over what the wall clock says: windows begin and end by it, and peers are told.
    pub(super) fn read_wall_clock(&mut self) {
        // Both are read at once: what lies between them would count as a step.
        let (now_ns, unix_ns) = (self.now_ns(), (self.shared.clock.unix_ns)());
        self.shared.limiter.set_wall(now_ns, unix_ns);
        self.machine.set_wall_clock(now_ns, unix_ns / 1_000_000);
    }

    /// Looks for peers at these names from now on. Addresses of names that are gone are dialled no more; who
    /// is linked stays so, and stays a member, until it leaves or is forgotten.
    pub(super) fn set_peers(&mut self, now_ns: u64, peers: Vec<String>) {
        if self.settings.peers == peers {
            return;
        }
        self.settings.peers = peers;
        // What is being looked up are the old names.
        if let Some(lookup) = self.resolving.take() {
            lookup.abort();
        }
        self.found.keep(&self.settings.peers);
        self.dialer.set_configured(&self.found.addresses());
        self.unresolved.retain(|(name, _)| self.settings.peers.contains(name));
        self.resolve_at_ns = now_ns;
        self.upkeep_at_ns = now_ns;
    }

    pub(super) fn handle_resolved(&mut self, mut resolved: Resolved) {
        self.resolving = None;
        self.found.take(&mut resolved);
        self.dialer.set_configured(&self.found.addresses());
        self.unresolved = resolved.failed;
        let linked = &self.linked;
        let is_complete =
            self.unresolved.is_empty() && self.dialer.has_reached_all(|node| linked.contains(node));
        let pause_ns = if is_complete { RESOLVE_EVERY_NS } else { RESOLVE_MISSING_NS };
        self.resolve_at_ns = self.now_ns() + pause_ns;
    }

    pub(super) fn refresh_status(&mut self, now_ns: u64) {
        self.status_at_ns = now_ns + STATUS_EVERY_NS;
        let linked = &self.linked;
        let status = Status {
            cluster: self.machine.status(now_ns),
            listen: self.endpoint.local(),
            certificate_expiry: self.certificate_expiry,
            transport: self.endpoint.counts().snapshot(),
            addresses: self.dialer.status(|node| linked.contains(node)),
            unresolved: self.unresolved.clone(),
            gossip: self.gossip.as_ref().map(Gossip::status).unwrap_or_default(),
            gossip_refused: self.gossip.as_ref().map_or(0, Gossip::refused),
            holds_refused: self.shared.holds_refused(),
        };
        self.shared.set_status(Arc::new(status));
    }
}
