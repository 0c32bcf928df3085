//! What a node says of itself in a handshake, and what it makes of what the other says.

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher24};
use wire::peer::{Hello, LimitNumbers, PEER_VERSION_MAX, PEER_VERSION_MIN, Refusal};

use crate::clock::skew_ms;
use crate::slots::{OwnLimits, SlotMap};
use crate::{Config, Identity};

/// Sets the digest of a hello apart from every other use of the secret.
const DIGEST_DOMAIN: &[u8] = b"rlnode peer 1";

/// Bit of a hello's capabilities: see [`Greeting::began`].
pub(crate) const BEGAN: u64 = 1;

/// What a hello said, as far as it is still needed once the hello was judged.
#[derive(Clone, Debug)]
pub(crate) struct Greeting {
    pub(crate) node: String,
    pub(crate) region: String,
    pub(crate) life: u64,
    pub(crate) synced: bool,
    /// It began with nothing while members were missing, and has met nobody since who knows more.
    pub(crate) began: bool,
    /// Names of the members that it counts.
    pub(crate) members: Vec<String>,
    /// It expects members that it never met: whoever they are, it owes them what it spent.
    pub(crate) expects_more: bool,
    /// Its limits by slot.
    pub(crate) limits: Vec<LimitNumbers>,
    /// What they are here.
    pub(crate) slots: SlotMap,
    /// Its wall clock less this node's, in milliseconds; none where one of them is not known.
    pub(crate) skew_ms: Option<i64>,
}

impl Greeting {
    pub(crate) fn new(hello: Hello, own: &OwnLimits, unix_ms: Option<u64>) -> Self {
        let slots = SlotMap::new(own, &hello.limits);
        let known_ms = unix_ms.filter(|_| hello.unix_ms != 0);
        let skew_ms = known_ms.map(|unix_ms| skew_ms(hello.unix_ms, unix_ms));
        let began = hello.capabilities & BEGAN != 0;
        let Hello { node, region, life, synced, members, size, limits, .. } = hello;
        let expects_more = size as usize > members.len();
        Self { node, region, life, synced, began, members, expects_more, limits, slots, skew_ms }
    }

    /// Finds anew which limits of the peer are which of `own`.
    pub(crate) fn map_slots(&mut self, own: &OwnLimits) {
        self.slots = SlotMap::new(own, &self.limits);
    }
}

/// Proof that a node knows the cluster's secret: SipHash-2-4, 128 bits, keyed with the secret, over
/// length-prefixed parts that name the node and its life, so that no other can use it.
pub(crate) fn digest(config: &Config, node: &str, life: u64) -> [u8; 16] {
    let mut hasher = SipHasher24::new_with_key(&config.secret);
    for part in [DIGEST_DOMAIN, config.cluster.as_bytes(), node.as_bytes(), &life.to_le_bytes()] {
        hasher.write(&(part.len() as u64).to_le_bytes());
        hasher.write(part);
    }
    hasher.finish128().as_bytes()
}

/// Whether a node's name may have `byte`: a letter, a digit, `.`, `_` or `-`. Names are shown to people
/// and in logs.
pub fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-".contains(&byte)
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(is_of_name)
}

/// Whether `hello` may come from a node of this cluster that is not this one, whatever connections
/// there are to it.
///
/// # Errors
/// The first thing that is wrong, for a machine and for a person.
pub(crate) fn judge(
    config: &Config,
    own_life: u64,
    identity: &Identity,
    hello: &Hello,
) -> Result<(), (Refusal, String)> {
    if hello.cluster != config.cluster {
        let (theirs, ours) = (&hello.cluster, &config.cluster);
        return Err((Refusal::Cluster, format!("cluster `{theirs}` is not `{ours}`")));
    }
    if hello.common_protocol().is_none() {
        let text = format!(
            "protocol {} to {} is not {PEER_VERSION_MIN} to {PEER_VERSION_MAX}",
            hello.protocol_min, hello.protocol_max
        );
        return Err((Refusal::Protocol, text));
    }
    if hello.digest != digest(config, &hello.node, hello.life) {
        let text = "the cluster's secret is another one".to_owned();
        return Err((Refusal::Secret, text));
    }
    if let Identity::Named(name) = identity
        && *name != hello.node
    {
        let text = format!("node `{}` has the certificate of `{name}`", hello.node);
        return Err((Refusal::Identity, text));
    }
    if !is_name(&hello.node) || !hello.members.iter().all(|name| is_name(name)) {
        let text = "a name of other than letters, digits, `-`, `_` and `.`".to_owned();
        return Err((Refusal::Malformed, text));
    }
    if hello.life == 0 {
        return Err((Refusal::Malformed, "a life of 0".to_owned()));
    }
    if hello.life == own_life {
        return Err((Refusal::Itself, "the address is this node's own".to_owned()));
    }
    if hello.node == config.node {
        let text = format!("another process is named `{}` too", config.node);
        return Err((Refusal::DuplicateName, text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config {
            node: "edge-1".into(),
            cluster: "edge".into(),
            region: String::new(),
            secret: [7; 16],
            sync_interval_ns: 1,
            expect: 1,
            ready_early: false,
            forget_after_ns: 1,
        }
    }

    #[test]
    fn the_digest_is_frozen_and_depends_on_every_part() {
        let all = [
            digest(&config(), "edge-2", 5),
            digest(&config(), "edge-3", 5),
            digest(&config(), "edge-2", 6),
            digest(&Config { cluster: "other".into(), ..config() }, "edge-2", 5),
            digest(&Config { secret: [8; 16], ..config() }, "edge-2", 5),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(all[at + 1..].iter().all(|other| other != one), "{at}");
        }
    }

    #[test]
    fn the_secret_is_not_printed() {
        assert!(!format!("{:?}", config()).contains('7'));
    }
}
