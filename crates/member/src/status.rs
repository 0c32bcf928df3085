//! What a member shows of itself.

use std::net::SocketAddr;

use crate::tls::Expiry;
use crate::transport;

/// A member as an operator sees it.
#[derive(Clone, Debug)]
pub struct Status {
    /// The node and its peers as the cluster's state machine sees them.
    pub cluster: cluster::Status,
    /// The address that was bound for peers.
    pub listen: SocketAddr,
    /// When the node's certificate, or one between it and the authority, stops being valid.
    pub certificate_expiry: Expiry,
    /// What the transport refused, dropped and failed at since start. `transport.authority` counts
    /// certificates that were not accepted.
    pub transport: transport::Snapshot,
    /// The addresses at which peers are looked for.
    pub addresses: Vec<AddressStatus>,
    /// Entries of `peers` that could not be resolved when last tried, each with the reason.
    pub unresolved: Vec<(String, String)>,
    /// Who gossip says is a member. It never changes how many members are counted.
    pub gossip: Vec<GossipStatus>,
    /// Gossip datagrams that could not be read or found no room.
    pub gossip_refused: u64,
    /// Checks that were not held because too many already waited to be.
    pub holds_refused: u64,
}

/// An address at which a peer is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressStatus {
    /// The address.
    pub address: SocketAddr,
    /// Who was met there last.
    pub node: Option<String>,
    /// It comes from the configuration; otherwise from gossip.
    pub configured: bool,
    /// What came of dialling it.
    pub state: AddressState,
}

/// What came of dialling an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressState {
    /// The peer that is there is linked.
    Linked,
    /// It is being dialled, or will be within a second.
    Dialing,
    /// The address is this node's own.
    Itself,
    /// Whoever is there was refused, or refused this node: the word of the refusal.
    Refused(String),
    /// Nobody was reached: the reason.
    Unreachable(String),
}

/// A node of which gossip tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GossipStatus {
    /// Its name.
    pub node: String,
    /// Where it can be dialled.
    pub address: SocketAddr,
    /// It answered, or somebody it answered says so; otherwise it is suspected or down.
    pub alive: bool,
}
