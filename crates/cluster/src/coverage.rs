//! Which part of a snapshot holds what: a joiner applies a batch only where the snapshot does not
//! contain it already.

use std::collections::BTreeMap;

use limiter::Delta;
use wire::peer::Cursor;

/// A range of hashes, and what its chunk contains.
#[derive(Debug)]
struct Part {
    /// Last hash of the range, rotated; it begins after that of the part before.
    last: u64,
    /// What the chunk contains of each member, by index.
    cursors: BTreeMap<u8, Cursor>,
}

/// The chunks of a snapshot, from the lowest hash on.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    parts: Vec<Part>,
}

impl Coverage {
    /// The hash that the next chunk begins with; none when all is there.
    pub(crate) fn next_first(&self) -> Option<u64> {
        self.parts.last().map_or(Some(0), |part| part.last.checked_add(1))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Chunks that are there.
    pub(crate) fn len(&self) -> usize {
        self.parts.len()
    }

    /// Adds the chunk that ends at `last` and contains what is below `cursors`.
    pub(crate) fn push(&mut self, last: u64, cursors: BTreeMap<u8, Cursor>) {
        self.parts.push(Part { last, cursors });
    }

    /// Whether the snapshot lacks `delta` of the batch `seq` of the member at `index` in the life
    /// `life`. `is_current`: the member is linked in that life now.
    pub(crate) fn lacks(
        &self,
        delta: &Delta,
        index: u8,
        life: u64,
        seq: u64,
        is_current: bool,
    ) -> bool {
        let rotated = delta.bucket.hash.rotate_left(32);
        let at = self.parts.partition_point(|part| part.last < rotated);
        match self.parts.get(at).and_then(|part| part.cursors.get(&index)) {
            Some(cursor) if cursor.life == life => seq >= cursor.next,
            // The snapshot knows another life of the member, or none: of a life that is over it has
            // whatever its sender was told, of the present one nothing.
            _ => is_current,
        }
    }

    /// Everything below is in every chunk, for the member at `index` in the life `life`; and nothing
    /// from the second number on is in any.
    pub(crate) fn bounds(&self, index: u8, life: u64) -> (u64, u64) {
        let nexts = self.parts.iter().map(|part| match part.cursors.get(&index) {
            Some(cursor) if cursor.life == life => cursor.next,
            _ => 0,
        });
        let (least, most) =
            nexts.fold((u64::MAX, 0), |(least, most), next| (least.min(next), most.max(next)));
        (if least == u64::MAX { 0 } else { least }, most)
    }
}

#[cfg(test)]
mod tests {
    use limiter::Bucket;

    use super::*;

    fn delta(rotated: u64) -> Delta {
        let bucket = Bucket { slot: 0, hash: rotated.rotate_right(32) };
        Delta {
            bucket,
            spent: 1,
            demand: 0,
            shift: 0,
            reserved: false,
            level: None,
            when: limiter::When::Untimed,
        }
    }

    fn coverage() -> Coverage {
        let mut coverage = Coverage::default();
        coverage.push(99, [(1, Cursor { life: 7, next: 5 })].into());
        coverage.push(u64::MAX, [(1, Cursor { life: 7, next: 8 })].into());
        coverage
    }

    #[test]
    fn each_range_has_its_own_cursor() {
        let coverage = coverage();
        let lacks = |rotated, seq| coverage.lacks(&delta(rotated), 1, 7, seq, true);
        assert!(!lacks(99, 4) && lacks(99, 5));
        assert!(!lacks(100, 7) && lacks(100, 8) && lacks(u64::MAX, 8));
        assert_eq!(coverage.bounds(1, 7), (5, 8));
        assert_eq!(coverage.bounds(1, 8), (0, 0));
    }

    #[test]
    fn of_another_life_only_the_present_one_is_lacking() {
        let coverage = coverage();
        assert!(coverage.lacks(&delta(0), 1, 9, 0, true));
        assert!(!coverage.lacks(&delta(0), 1, 9, 0, false));
        assert!(coverage.lacks(&delta(0), 2, 9, 0, true));
    }

    #[test]
    fn chunks_come_in_order() {
        let mut coverage = Coverage::default();
        assert!(coverage.is_empty());
        assert_eq!(coverage.next_first(), Some(0));
        coverage.push(9, BTreeMap::new());
        assert_eq!(coverage.next_first(), Some(10));
        coverage.push(u64::MAX, BTreeMap::new());
        assert_eq!(coverage.next_first(), None);
    }
}
