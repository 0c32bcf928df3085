//! Who is who: the identity of a limit across nodes, and the hash that is a bucket's identity.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::Request;
use crate::template::{KeyBytes, KeyTemplate, MissingAttribute, push};

/// What a limit's identity is made of. Rate, burst, period and mode are not in it: spent units mean
/// the same under any of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity<'a> {
    pub(crate) name: &'a str,
    /// Given or derived; empty for the limit itself.
    pub(crate) override_name: &'a str,
    pub(crate) key_template: &'a str,
    pub(crate) unit: &'a str,
    /// As written in the file.
    pub(crate) algorithm: &'a str,
    pub(crate) exact: bool,
}

impl Identity<'_> {
    /// The 64-bit identity: unkeyed SipHash-1-3 over the parts, each with its length before it as a
    /// little-endian u64, then one byte for `exact`. Frozen: nodes of every version compute the same.
    pub(crate) fn id(&self) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(0, 0);
        for part in [self.name, self.override_name, self.key_template, self.unit, self.algorithm] {
            hasher.write(&(part.len() as u64).to_le_bytes());
            hasher.write(part.as_bytes());
        }
        hasher.write(&[u8::from(self.exact)]);
        hasher.finish()
    }
}

/// Unkeyed SipHash-1-3 of `bytes`: for names that every node must give alike.
pub(crate) fn unkeyed_hash(bytes: &[u8]) -> u64 {
    SipHasher13::new_with_keys(0, 0).hash(bytes)
}

/// Hashes buckets to their identities: SipHash-1-3 keyed with the cluster's secret over the limit's
/// identity, as a little-endian u64, and the key.
#[derive(Debug)]
pub(crate) struct BucketHasher {
    keyed: SipHasher13,
}

impl BucketHasher {
    pub(crate) fn new(secret: &[u8; 16]) -> Self {
        Self { keyed: SipHasher13::new_with_key(secret) }
    }

    /// The identity of the bucket that `template` gives `request` under the limit `id`.
    pub(crate) fn hash(
        &self,
        id: u64,
        template: &KeyTemplate,
        request: &Request<'_>,
    ) -> Result<u64, MissingAttribute> {
        let mut bytes = KeyBytes::new();
        push(&mut bytes, &id.to_le_bytes());
        template.write(request, &mut bytes)?;
        Ok(self.keyed.hash(&bytes))
    }

    /// A number that names the secret. Keyed like every hash, over what no bucket has: a bucket's bytes
    /// begin with a length of 8.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.keyed.hash(b"rlnode secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PER_KEY: Identity<'static> = Identity {
        name: "per-key",
        override_name: "",
        key_template: "{key}",
        unit: "requests",
        algorithm: "token-bucket",
        exact: false,
    };

    #[test]
    fn the_identity_of_a_limit_is_frozen() {
        let over = Identity { override_name: "POST /search", ..PER_KEY };
        let exact = Identity { exact: true, ..PER_KEY };
        assert_eq!(PER_KEY.id(), 0x9312_ade9_8f14_dfe2);
        assert_eq!(over.id(), 0x2449_67ed_d004_5211);
        assert_eq!(exact.id(), 0x5b85_f7d1_113e_91ec);
    }

    #[test]
    fn the_identity_of_a_bucket_is_frozen() {
        let hasher = BucketHasher::new(&[7; 16]);
        let template = KeyTemplate::parse("{key}", 64).unwrap();
        let request = Request::check(b"GET /", b"alice");
        assert_eq!(hasher.hash(PER_KEY.id(), &template, &request), Ok(0x55f7_c450_4aa8_b2e9));
    }

    #[test]
    fn the_fingerprint_of_a_secret_is_frozen() {
        assert_eq!(BucketHasher::new(&[7; 16]).fingerprint(), 0x95bf_2951_bb23_7379);
        assert_ne!(BucketHasher::new(&[8; 16]).fingerprint(), 0x95bf_2951_bb23_7379);
    }

    #[test]
    fn moving_a_byte_between_parts_is_another_limit() {
        let a = Identity { name: "ab", override_name: "c", ..PER_KEY };
        let b = Identity { name: "a", override_name: "bc", ..PER_KEY };
        assert_ne!(a.id(), b.id());
    }
}
