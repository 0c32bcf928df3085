//! The members as one node sees them, and the whole units of a level that belong to its group.

use smallvec::SmallVec;

use super::members::{MEMBERS_MAX, Members, rendezvous};

/// A member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewMember {
    /// Its index in this node's table.
    pub index: u8,
    /// [`crate::member_id`] of its name; none for a member that is expected and was never met. Such a
    /// member comes before all others for every bucket, so that nobody takes what may be its part.
    pub id: Option<u64>,
}

/// Who the members are and which of them this node reaches. Immutable: a change is another view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// All members, this node among them, reachable or not.
    pub members: Vec<ViewMember>,
    /// Index of this node.
    pub me: u8,
    /// The members whose counts are known here and who know ours, this node among them.
    pub reachable: Members,
    /// The group has less than half of the members, or exactly half without the first by name.
    pub isolated: bool,
}

impl View {
    /// How many members there are: N.
    pub fn size(&self) -> usize {
        self.members.len().max(1)
    }

    /// How many of them are reachable, this node included: n.
    pub fn reach(&self) -> usize {
        self.reachable.len().max(1)
    }

    /// Whether nobody is missing.
    pub fn is_whole(&self) -> bool {
        self.reach() == self.size()
    }

    /// The same members, of whom this node reaches only itself.
    pub(crate) fn alone(&self) -> Self {
        Self { reachable: Members::only(self.me), ..self.clone() }
    }

    /// The whole units, of `units`, that belong to the reachable group for the bucket `hash`. Groups
    /// that share no member and together are all members get parts that sum to `units`: the member at
    /// place k of the bucket's order owns one N-th, rounded down, and one unit more if k is below the
    /// remainder.
    pub fn part(&self, units: u64, hash: u64) -> u64 {
        if self.is_whole() {
            return units;
        }
        let (n, size) = (self.reach() as u64, self.size() as u64);
        let (each, rest) = (units / size, units % size);
        each * n + self.places(hash).filter(|place| *place < rest).count() as u64
    }

    /// The smallest number of units of which the group's part is at least `wanted`.
    pub(crate) fn whole_of(&self, wanted: u64, hash: u64) -> u128 {
        let Some(before) = wanted.checked_sub(1) else { return 0 };
        if self.is_whole() {
            return u128::from(wanted);
        }
        let mut places: SmallVec<[u64; MEMBERS_MAX]> = self.places(hash).collect();
        places.sort_unstable();
        let rounds = before / places.len() as u64;
        let last = usize::try_from(before % places.len() as u64).unwrap_or(0);
        u128::from(rounds) * self.size() as u128 + u128::from(places[last]) + 1
    }

    /// How many of the reachable come before this node for the bucket `hash`.
    pub(crate) fn rank(&self, hash: u64) -> u64 {
        let of = |member: &ViewMember| member.id.map(|id| (rendezvous(id, hash), id));
        let mine = self.members.iter().find(|member| member.index == self.me).and_then(of);
        let before = self.members.iter().filter(|member| {
            self.reachable.contains(member.index) && member.index != self.me && of(member) > mine
        });
        before.count() as u64
    }

    /// The places, among all members, of the reachable ones in the order for the bucket `hash`.
    fn places(&self, hash: u64) -> impl Iterator<Item = u64> {
        // `None`, a member never met, must come first: the key is negated by sorting ascending.
        let place =
            |member: &ViewMember| (member.id.map(|id| (!rendezvous(id, hash), !id)), member.index);
        let mut order: SmallVec<[_; MEMBERS_MAX]> = self.members.iter().map(place).collect();
        order.sort_unstable();
        let reachable = self.reachable;
        let places = order.into_iter().enumerate();
        places.filter(move |(_, (_, i))| reachable.contains(*i)).map(|(place, _)| place as u64)
    }
}
