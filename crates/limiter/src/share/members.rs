//! Sets of members, and the frozen order in which members come for a bucket.

use crate::identity::unkeyed_hash;

/// Most members of a cluster, this node included: a full mesh of more is the wrong shape.
pub const MEMBERS_MAX: usize = 64;

/// A set of members, by their index in this node's own table: 0 to 63.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Members(u64);

impl Members {
    /// Nobody.
    pub const EMPTY: Self = Self(0);

    /// The member at `index` alone. An index that no table has is nobody.
    pub const fn only(index: u8) -> Self {
        if (index as usize) < MEMBERS_MAX { Self(1 << index) } else { Self(0) }
    }

    /// These and the member at `index`.
    #[must_use]
    pub const fn with(self, index: u8) -> Self {
        self.union(Self::only(index))
    }

    /// These but the member at `index`.
    #[must_use]
    pub const fn without(self, index: u8) -> Self {
        self.minus(Self::only(index))
    }

    /// Whether the member at `index` is one of these.
    pub const fn contains(self, index: u8) -> bool {
        self.0 & Self::only(index).0 != 0
    }

    /// These and `others`.
    #[must_use]
    pub const fn union(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// These but `others`.
    #[must_use]
    pub const fn minus(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// How many.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is nobody.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Their indices, in order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..64).filter(move |index| self.contains(*index))
    }
}

impl FromIterator<u8> for Members {
    fn from_iter<I: IntoIterator<Item = u8>>(indices: I) -> Self {
        indices.into_iter().fold(Self::EMPTY, Self::with)
    }
}

/// What stands for the member `name` in the order of members: unkeyed SipHash-1-3 of the name.
/// Frozen: nodes of every version compute the same.
pub fn member_id(name: &str) -> u64 {
    unkeyed_hash(name.as_bytes())
}

/// The place of a member in the order for a bucket: the greater comes first; of two equal ones, the
/// greater [`member_id`]. Frozen: nodes of every version compute the same.
pub fn rendezvous(member_id: u64, bucket_hash: u64) -> u64 {
    // The finalizer of SplitMix64. Both halves of its input are hashes already.
    let mut z = (member_id ^ bucket_hash).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
