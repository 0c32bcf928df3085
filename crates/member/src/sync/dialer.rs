//! Whom to dial, and when: every address at which no peer is linked, one attempt at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use wire::peer::Refusal;

use crate::status::{AddressState, AddressStatus};
use crate::transport::{Failure, LinkId};

/// How often an address is dialled at which nobody was refused.
pub(super) const DIAL_EVERY_NS: u64 = 200_000_000;

/// How long to wait after somebody was refused by name: an operator has to mend it.
const REFUSED_NS: u64 = 1_000_000_000;

/// How long to believe that an address is this node's own. Addresses move to other hosts.
const ITSELF_NS: u64 = 60_000_000_000;

/// Most addresses that are kept: those of as many members as there can be, in both families, and as
/// many that gossip adds. More are not dialled; whoever is there dials this node.
const ADDRESSES_MAX: usize = 256;

/// What is known of an address.
#[derive(Debug)]
struct Target {
    configured: bool,
    gossiped: bool,
    /// Who was met there last.
    node: Option<String>,
    /// A dial is on its way, or the connection that came of it stands.
    open: Option<Open>,
    /// Not before this time is it dialled again.
    from_ns: u64,
    /// What came of the last dial.
    state: AddressState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Dial,
    Link(LinkId),
}

/// All addresses at which peers are looked for.
#[derive(Debug, Default)]
pub(super) struct Dialer {
    targets: BTreeMap<SocketAddr, Target>,
}

impl Dialer {
    /// The names in `peers` stand for these addresses, as far as is known.
    pub(super) fn set_configured(&mut self, addresses: &BTreeSet<SocketAddr>) {
        for target in self.targets.values_mut() {
            target.configured = false;
        }
        for address in addresses {
            if let Some(target) = self.target(*address) {
                target.configured = true;
            }
        }
        self.drop_unwanted();
    }

    /// Gossip knows these nodes, at these addresses.
    pub(super) fn set_gossiped(&mut self, nodes: &[(String, SocketAddr)]) {
        for target in self.targets.values_mut() {
            target.gossiped = false;
        }
        for (node, address) in nodes {
            if let Some(target) = self.target(*address) {
                target.gossiped = true;
                target.node.get_or_insert_with(|| node.clone());
            }
        }
        self.drop_unwanted();
    }

    fn target(&mut self, address: SocketAddr) -> Option<&mut Target> {
        if self.targets.len() >= ADDRESSES_MAX && !self.targets.contains_key(&address) {
            return None;
        }
        Some(self.targets.entry(address).or_insert(Target {
            configured: false,
            gossiped: false,
            node: None,
            open: None,
            from_ns: 0,
            state: AddressState::Dialing,
        }))
    }

    fn drop_unwanted(&mut self) {
        self.targets
            .retain(|_, target| target.configured || target.gossiped || target.open.is_some());
    }

    /// The addresses to dial at `now_ns`. They count as being dialled from now on. `is_linked` says
    /// which nodes are linked, at whatever address.
    pub(super) fn due(&mut self, now_ns: u64, is_linked: impl Fn(&str) -> bool) -> Vec<SocketAddr> {
        let mut due = Vec::new();
        for (address, target) in &mut self.targets {
            let is_there = target.node.as_deref().is_some_and(&is_linked);
            if target.open.is_none() && !is_there && now_ns >= target.from_ns {
                target.open = Some(Open::Dial);
                due.push(*address);
            }
        }
        due
    }

    /// The dial found no room in the transport's queue: nothing will come of it.
    pub(super) fn not_begun(&mut self, address: SocketAddr, now_ns: u64) {
        self.ended(address, now_ns + DIAL_EVERY_NS, None);
    }

    /// Nobody was reached.
    pub(super) fn not_dialed(&mut self, address: SocketAddr, now_ns: u64, state: AddressState) {
        let pause_ns = match &state {
            AddressState::Refused(_) => REFUSED_NS,
            _ => DIAL_EVERY_NS,
        };
        self.ended(address, now_ns + pause_ns, Some(state));
    }

    fn ended(&mut self, address: SocketAddr, from_ns: u64, state: Option<AddressState>) {
        if let Some(target) = self.targets.get_mut(&address) {
            target.open = None;
            target.from_ns = from_ns;
            if let Some(state) = state {
                target.state = state;
            }
        }
        self.drop_unwanted();
    }

    /// Somebody was reached at `address`, which was dialled.
    pub(super) fn connected(&mut self, address: SocketAddr, link: LinkId) {
        if let Some(target) = self.targets.get_mut(&address) {
            target.open = Some(Open::Link(link));
        }
    }

    /// The node at the other end of `link`, which is at `address` and may not have been dialled.
    pub(super) fn met(&mut self, address: SocketAddr, node: &str) {
        if let Some(target) = self.targets.get_mut(&address) {
            target.node = Some(node.to_owned());
        }
    }

    /// A link that was dialled is over. `refusal` says so if either side refused the other.
    pub(super) fn closed(
        &mut self,
        link: LinkId,
        now_ns: u64,
        refusal: Option<Refusal>,
        why: &Failure,
    ) {
        let ended = |target: &&mut Target| target.open == Some(Open::Link(link));
        if let Some(target) = self.targets.values_mut().find(ended) {
            let (pause_ns, state) = after(refusal, why);
            target.open = None;
            target.from_ns = now_ns + pause_ns;
            target.state = state;
        }
        self.drop_unwanted();
    }

    /// Every configured address is this node's own, or leads to a node that is linked.
    pub(super) fn has_reached_all(&self, is_linked: impl Fn(&str) -> bool) -> bool {
        self.targets.values().filter(|target| target.configured).all(|target| {
            target.state == AddressState::Itself || target.node.as_deref().is_some_and(&is_linked)
        })
    }

    /// All addresses as an operator sees them.
    pub(super) fn status(&self, is_linked: impl Fn(&str) -> bool) -> Vec<AddressStatus> {
        let status = |(address, target): (&SocketAddr, &Target)| AddressStatus {
            address: *address,
            node: target.node.clone(),
            configured: target.configured,
            state: if target.node.as_deref().is_some_and(&is_linked) {
                AddressState::Linked
            } else {
                target.state.clone()
            },
        };
        self.targets.iter().map(status).collect()
    }
}

/// How long to wait after a link that was dialled, and what to show meanwhile.
fn after(refusal: Option<Refusal>, why: &Failure) -> (u64, AddressState) {
    match (refusal, why) {
        (Some(Refusal::Itself), _) => (ITSELF_NS, AddressState::Itself),
        // It is linked, or about to be, by the connection that stays.
        (Some(Refusal::Busy), _) => (DIAL_EVERY_NS, AddressState::Dialing),
        // These pass by themselves: the former process is noticed to be gone, the leaving one ends.
        (Some(refusal @ (Refusal::DuplicateName | Refusal::Leaving)), _) => {
            (DIAL_EVERY_NS, AddressState::Refused(refusal.as_str().to_owned()))
        }
        (Some(refusal), _) => (REFUSED_NS, AddressState::Refused(refusal.as_str().to_owned())),
        (None, Failure::Authority(_) | Failure::Protocol(_) | Failure::Malformed(_)) => {
            (REFUSED_NS, AddressState::Refused(word_of(why).to_owned()))
        }
        (None, _) => (DIAL_EVERY_NS, AddressState::Dialing),
    }
}

/// The word for a failure that an operator has to mend.
pub(super) fn word_of(why: &Failure) -> &'static str {
    match why {
        Failure::Authority(_) => "authority",
        Failure::Nameless => "identity",
        Failure::Protocol(_) => "protocol",
        Failure::Malformed(_) => "malformed",
        _ => "closed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn dialer(ports: &[u16]) -> Dialer {
        let mut dialer = Dialer::default();
        dialer.set_configured(&ports.iter().map(|port| address(*port)).collect());
        dialer
    }

    fn nobody(_: &str) -> bool {
        false
    }

    #[test]
    fn dials_an_address_once_at_a_time_and_again_after_a_fifth_of_a_second() {
        let mut dialer = dialer(&[1]);
        assert_eq!(dialer.due(S, nobody), [address(1)]);
        assert_eq!(dialer.due(2 * S, nobody), []);
        dialer.not_dialed(address(1), 2 * S, AddressState::Unreachable(String::new()));
        assert_eq!(dialer.due(2 * S + DIAL_EVERY_NS - 1, nobody), []);
        assert_eq!(dialer.due(2 * S + DIAL_EVERY_NS, nobody), [address(1)]);
    }

    #[test]
    fn waits_a_second_after_a_refusal_and_a_minute_at_its_own_address() {
        let cases = [(Refusal::Cluster, S), (Refusal::Busy, S / 5), (Refusal::Itself, 60 * S)];
        for (refusal, pause_ns) in cases {
            let mut dialer = dialer(&[1]);
            dialer.due(S, nobody);
            dialer.connected(address(1), LinkId(7));
            dialer.closed(LinkId(7), S, Some(refusal), &Failure::ByUs);
            assert_eq!(dialer.due(S + pause_ns - 1, nobody), []);
            assert_eq!(dialer.due(S + pause_ns, nobody), [address(1)]);
        }
    }

    #[test]
    fn does_not_dial_a_second_address_of_a_node_that_is_linked() {
        let mut dialer = dialer(&[1, 2]);
        dialer.met(address(1), "a");
        dialer.met(address(2), "a");
        assert_eq!(dialer.due(S, |node| node == "a"), []);
        assert_eq!(dialer.due(S, nobody), [address(1), address(2)]);
    }

    #[test]
    fn drops_what_nobody_names_any_more_when_it_is_over() {
        let mut dialer = dialer(&[1, 2]);
        dialer.due(S, nobody);
        dialer.connected(address(1), LinkId(7));
        dialer.set_configured(&BTreeSet::new());
        assert_eq!(dialer.status(nobody).len(), 2, "both are still open");
        dialer.closed(LinkId(7), S, None, &Failure::ByUs);
        dialer.not_begun(address(2), S);
        assert_eq!(dialer.status(nobody), []);
    }

    #[test]
    fn keeps_no_more_addresses_than_there_may_be() {
        let ports: Vec<u16> = (1..400).collect();
        let mut dialer = dialer(&ports);
        assert_eq!(dialer.due(S, nobody).len(), ADDRESSES_MAX);
        dialer.set_gossiped(&[("x".to_owned(), address(500))]);
        assert_eq!(dialer.status(nobody).len(), ADDRESSES_MAX);
    }
}
