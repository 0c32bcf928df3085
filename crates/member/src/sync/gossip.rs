//! Gossip over datagrams: who is a member, and where, as the nodes tell each other (SWIM, by `foca`).
//!
//! It finds nodes that no list names, and shows an operator what the others see. It never decides
//! who is reachable, which the links say, nor how many members are counted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};

use bytes::Bytes;
use foca::{AccumulatingRuntime, Foca, Identity, NoCustomBroadcast, PostcardCodec, State, Timer};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde::{Deserialize, Serialize};

use crate::status::GossipStatus;

/// Longest message: what a datagram carries before the path's MTU is known.
const MESSAGE_LEN_MAX: NonZeroUsize = NonZeroUsize::new(1_100).expect("it is not 0");

/// Members that the pace of gossip is made for. Only how often news is repeated depends on it.
const CLUSTER_SIZE: NonZeroU32 = NonZeroU32::new(16).expect("it is not 0");

/// Most nodes that are kept, alive or not. Messages are not read while there are more; foca drops
/// those that are down after a while.
const NODES_MAX: usize = 256;

/// A node as gossip names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Node {
    name: String,
    address: SocketAddr,
    /// Unix time of its start, in milliseconds: of two processes of one name the later counts.
    born_ms: u64,
    life: u64,
}

impl Identity for Node {
    type Addr = String;

    /// Who is held for dead says that it was born anew.
    fn renew(&self) -> Option<Self> {
        Some(Self { born_ms: self.born_ms.saturating_add(1), ..self.clone() })
    }

    fn addr(&self) -> String {
        self.name.clone()
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        (self.born_ms, self.life) > (adversary.born_ms, adversary.life)
    }
}

/// A timer of foca's, ordered by when it is due and then as foca orders its own.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at_ns: u64,
    timer: Timer<Node>,
}

/// One node's part in the gossip.
pub(super) struct Gossip {
    foca: Foca<Node, PostcardCodec, SmallRng, NoCustomBroadcast>,
    runtime: AccumulatingRuntime<Node>,
    timers: BinaryHeap<Reverse<Due>>,
    refused: u64,
}

impl std::fmt::Debug for Gossip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gossip").field("refused", &self.refused).finish_non_exhaustive()
    }
}

impl Gossip {
    /// A node that can be dialled at `address`.
    pub(super) fn new(name: String, address: SocketAddr, born_ms: u64, life: u64) -> Self {
        let mut config = foca::Config::new_lan(CLUSTER_SIZE);
        config.max_packet_size = MESSAGE_LEN_MAX;
        let node = Node { name, address, born_ms, life };
        let rng = SmallRng::seed_from_u64(life);
        Self {
            foca: Foca::new(node, config, rng, PostcardCodec),
            runtime: AccumulatingRuntime::new(),
            timers: BinaryHeap::new(),
            refused: 0,
        }
    }

    /// A link to the node `name` stands: tells it of this node, and asks whom it knows.
    pub(super) fn greet(&mut self, now_ns: u64, name: &str, address: SocketAddr) {
        let node = Node { name: name.to_owned(), address, born_ms: 0, life: 0 };
        // Only a message that does not fit can fail, and names are bounded.
        let _ = self.foca.announce(node, &mut self.runtime);
        self.schedule(now_ns);
    }

    /// A message came.
    pub(super) fn handle_message(&mut self, now_ns: u64, bytes: &[u8]) {
        let has_room = self.foca.iter_membership_state().len() < NODES_MAX;
        if !has_room || self.foca.handle_data(bytes, &mut self.runtime).is_err() {
            self.refused += 1;
        }
        self.schedule(now_ns);
    }

    /// Does what is due.
    pub(super) fn handle_timers(&mut self, now_ns: u64) {
        while self.next_ns() <= now_ns
            && let Some(Reverse(due)) = self.timers.pop()
        {
            // A timer of a state that has passed is an error to foca, and none to us.
            let _ = self.foca.handle_timer(due.timer, &mut self.runtime);
            self.schedule(now_ns);
        }
    }

    fn schedule(&mut self, now_ns: u64) {
        while let Some((after, timer)) = self.runtime.to_schedule() {
            let after_ns = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
            self.timers.push(Reverse(Due { at_ns: now_ns.saturating_add(after_ns), timer }));
        }
        // The links say who is there; gossip's own view is read when it is shown.
        while self.runtime.to_notify().is_some() {}
    }

    /// When [`Gossip::handle_timers`] is next due.
    pub(super) fn next_ns(&self) -> u64 {
        self.timers.peek().map_or(u64::MAX, |due| due.0.at_ns)
    }

    /// The next message to send, and the node that it is for.
    pub(super) fn poll_message(&mut self) -> Option<(String, Bytes)> {
        self.runtime.to_send().map(|(node, bytes)| (node.name, bytes))
    }

    /// The nodes that answer, and where they can be dialled.
    pub(super) fn nodes(&self) -> Vec<(String, SocketAddr)> {
        self.foca
            .iter_members()
            .map(|member| (member.id().name.clone(), member.id().address))
            .collect()
    }

    /// Everything that is known.
    pub(super) fn status(&self) -> Vec<GossipStatus> {
        let mut nodes: Vec<_> = self
            .foca
            .iter_membership_state()
            .map(|member| GossipStatus {
                node: member.id().name.clone(),
                address: member.id().address,
                alive: member.state() == State::Alive,
            })
            .collect();
        nodes.sort_by(|a, b| a.node.cmp(&b.node));
        nodes
    }

    /// Messages that could not be read, or found no room.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn gossip(name: &str, port: u16, born_ms: u64) -> Gossip {
        Gossip::new(name.to_owned(), address(port), born_ms, u64::from(port))
    }

    /// Carries messages until nobody has one; those for nobody here are lost.
    fn carry(now_ns: u64, nodes: &mut [(&str, Gossip)]) {
        loop {
            let next = nodes.iter_mut().find_map(|(_, gossip)| gossip.poll_message());
            let Some((to, bytes)) = next else { break };
            if let Some((_, gossip)) = nodes.iter_mut().find(|(name, _)| *name == to) {
                gossip.handle_message(now_ns, &bytes);
            }
        }
    }

    fn run(from_ns: u64, seconds: u64, nodes: &mut [(&str, Gossip)]) {
        for step in 0..seconds * 100 {
            let now_ns = from_ns + step * S / 100;
            for (_, gossip) in nodes.iter_mut() {
                gossip.handle_timers(now_ns);
            }
            carry(now_ns, nodes);
        }
    }

    #[test]
    fn a_node_learns_of_those_whom_its_neighbour_knows() {
        let mut nodes =
            [("a", gossip("a", 1, 5)), ("b", gossip("b", 2, 5)), ("c", gossip("c", 3, 5))];
        nodes[0].1.greet(S, "b", address(2));
        carry(S, &mut nodes);
        nodes[2].1.greet(S, "b", address(2));
        carry(S, &mut nodes);
        run(S, 3, &mut nodes);
        let mut known = nodes[2].1.nodes();
        known.sort();
        assert_eq!(known, [("a".to_owned(), address(1)), ("b".to_owned(), address(2))]);
    }

    #[test]
    fn a_node_that_starts_again_replaces_its_former_life() {
        let mut nodes = [("a", gossip("a", 1, 5)), ("b", gossip("b", 2, 5))];
        nodes[0].1.greet(S, "b", address(2));
        carry(S, &mut nodes);
        nodes[1].1 = gossip("b", 9, 6);
        nodes[1].1.greet(2 * S, "a", address(1));
        carry(2 * S, &mut nodes);
        assert_eq!(nodes[0].1.nodes(), [("b".to_owned(), address(9))]);
    }

    #[test]
    fn a_silent_node_is_shown_as_such_and_found_again() {
        let mut nodes = [("a", gossip("a", 1, 5)), ("b", gossip("b", 2, 5))];
        nodes[0].1.greet(S, "b", address(2));
        carry(S, &mut nodes);
        run(S, 30, &mut nodes[..1]);
        assert!(!nodes[0].1.status()[0].alive);
        nodes[1].1.greet(40 * S, "a", address(1));
        run(40 * S, 5, &mut nodes);
        assert!(nodes[0].1.status()[0].alive);
    }

    #[test]
    fn garbage_is_counted_and_harmless() {
        let mut gossip = gossip("a", 1, 5);
        for length in 0..2_000 {
            gossip.handle_message(S, &vec![0xa5; length]);
        }
        assert_eq!(gossip.refused(), 2_000);
        assert_eq!(gossip.nodes(), []);
    }

    #[test]
    fn keeps_no_more_nodes_than_there_may_be() {
        let mut own = gossip("own", 1, 5);
        for number in 0..2 * NODES_MAX {
            let name = format!("node-{number}");
            let mut other = gossip(&name, 2, 5);
            other.greet(S, "own", address(1));
            while let Some((_, bytes)) = other.poll_message() {
                own.handle_message(S, &bytes);
            }
            while own.poll_message().is_some() {}
        }
        assert_eq!(own.nodes().len(), NODES_MAX);
        assert!(own.refused() > 0);
    }
}
