//! Looking up the names in `peers`, and how many members they promise.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long one round of look-ups may take. A name that needs longer is looked up again.
const LOOKUP_MAX: Duration = Duration::from_secs(3);

/// Most addresses that are kept of one name: as many as there can be members, twice, since a host
/// may have one of each family.
const NAME_ADDRESSES_MAX: usize = 2 * limiter::MEMBERS_MAX;

/// What the names in `peers` stand for.
#[derive(Clone, Debug, Default)]
pub(super) struct Resolved {
    /// What was found of each name.
    found: BTreeMap<String, BTreeSet<SocketAddr>>,
    /// Names that could not be looked up, each with the reason.
    pub(super) failed: Vec<(String, String)>,
    /// Members that the names promise, this node included if it is among them.
    hosts: usize,
}

impl Resolved {
    /// Members at a first start of a node that peers reach at `listen`.
    pub(super) fn members(&self, listen: SocketAddr) -> usize {
        let mut addresses = self.found.values().flatten();
        let is_listed = addresses.any(|address| is_own(*address, listen));
        self.hosts + usize::from(!is_listed)
    }
}

/// What each name in `peers` stood for when it was last found.
#[derive(Debug, Default)]
pub(super) struct Found(BTreeMap<String, BTreeSet<SocketAddr>>);

impl Found {
    /// Takes over what was found. A name that could not be looked up keeps the addresses that it had: DNS
    /// that fails is no reason to let go of a peer.
    pub(super) fn take(&mut self, resolved: &mut Resolved) {
        self.0.append(&mut resolved.found);
    }

    /// Forgets all names but `names`.
    pub(super) fn keep(&mut self, names: &[String]) {
        self.0.retain(|name, _| names.contains(name));
    }

    /// All addresses.
    pub(super) fn addresses(&self) -> BTreeSet<SocketAddr> {
        self.0.values().flatten().copied().collect()
    }
}

/// Looks up every name once. At most [`limiter::MEMBERS_MAX`] are looked at.
pub(super) async fn resolve(names: Vec<String>) -> Resolved {
    let mut lookups = JoinSet::new();
    for name in names.into_iter().take(limiter::MEMBERS_MAX) {
        lookups.spawn(async move {
            let found = match timeout(LOOKUP_MAX, lookup_host(&name)).await {
                Ok(Ok(found)) => Ok(found.take(NAME_ADDRESSES_MAX).collect::<BTreeSet<_>>()),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err(format!("no answer within {} s", LOOKUP_MAX.as_secs())),
            };
            (name, found)
        });
    }
    let mut resolved = Resolved::default();
    while let Some(looked_up) = lookups.join_next().await {
        match looked_up {
            Ok((name, Ok(found))) => {
                resolved.hosts += hosts(&found);
                resolved.found.insert(name, found);
            }
            Ok((name, Err(reason))) => {
                resolved.hosts += 1;
                resolved.failed.push((name, reason));
            }
            Err(_) => {}
        }
    }
    resolved.failed.sort();
    resolved
}

/// How many hosts the addresses of one name stand for. A host that has both families is not two.
fn hosts(addresses: &BTreeSet<SocketAddr>) -> usize {
    let of_ipv4 = addresses.iter().filter(|address| address.is_ipv4()).count();
    of_ipv4.max(addresses.len() - of_ipv4).max(1)
}

/// The address is this node's own: its port, and an address of this machine.
fn is_own(address: SocketAddr, listen: SocketAddr) -> bool {
    if address == listen {
        return true;
    }
    // Only an address of this machine can be bound; the port, which may be taken, is left open.
    address.port() == listen.port()
        && listen.ip().is_unspecified()
        && UdpSocket::bind((address.ip(), 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(addresses: &[&str]) -> BTreeSet<SocketAddr> {
        addresses.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_host_with_two_families_is_one() {
        assert_eq!(hosts(&set(&["192.0.2.1:1", "[2001:db8::1]:1"])), 1);
        assert_eq!(hosts(&set(&["192.0.2.1:1", "192.0.2.2:1", "[2001:db8::1]:1"])), 2);
        assert_eq!(hosts(&set(&[])), 1);
    }

    #[test]
    fn a_node_that_is_not_listed_counts_too() {
        let found = ["127.0.0.1:7401", "127.0.0.1:7402"];
        let found = found.map(|at| (at.to_owned(), set(&[at]))).into();
        let resolved = Resolved { found, hosts: 2, ..Resolved::default() };
        assert_eq!(resolved.members("127.0.0.1:7401".parse().unwrap()), 2);
        assert_eq!(resolved.members("127.0.0.1:7403".parse().unwrap()), 3);
        assert_eq!(resolved.members("0.0.0.0:7402".parse().unwrap()), 2);
        assert_eq!(resolved.members("0.0.0.0:7403".parse().unwrap()), 3);
    }

    #[tokio::test]
    async fn what_cannot_be_looked_up_is_named_and_counts_as_a_host() {
        let names = ["127.0.0.1:7401", "localhost:7402", "nobody.invalid:7403", "no port"];
        let mut resolved = resolve(names.map(str::to_owned).to_vec()).await;
        let mut found = Found::default();
        found.take(&mut resolved);
        assert!(found.addresses().contains(&"127.0.0.1:7401".parse().unwrap()));
        assert!(found.addresses().iter().any(|address| address.port() == 7402));
        let failed: Vec<_> = resolved.failed.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(failed, ["no port", "nobody.invalid:7403"]);
        assert_eq!(resolved.hosts, 4);
    }

    #[test]
    fn a_name_that_is_not_found_keeps_its_addresses_until_nobody_names_it() {
        let resolved = |name: &str, addresses: &[&str]| Resolved {
            found: [(name.to_owned(), set(addresses))].into(),
            ..Resolved::default()
        };
        let mut found = Found::default();
        found.take(&mut resolved("a:1", &["192.0.2.1:1", "192.0.2.2:1"]));
        found.take(&mut resolved("b:1", &["192.0.2.3:1"]));
        found.take(&mut resolved("a:1", &["192.0.2.2:1"]));
        assert_eq!(found.addresses(), set(&["192.0.2.2:1", "192.0.2.3:1"]));
        found.keep(&["a:1".to_owned(), "c:1".to_owned()]);
        assert_eq!(found.addresses(), set(&["192.0.2.2:1"]));
    }

    #[test]
    fn an_address_of_another_machine_is_not_own() {
        let listen = "0.0.0.0:7401".parse().unwrap();
        assert!(!is_own("192.0.2.1:7401".parse().unwrap(), listen));
        assert!(is_own("127.0.0.1:7401".parse().unwrap(), listen));
    }
}
