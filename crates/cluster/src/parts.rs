//! What comes in several frames: the timed sums of a heal and the timed standings of a chunk, kept until
//! the frame comes that they are a part of.
//!
//! They belong to the next heal, and the next chunk, on the same stream. So they are kept by link, and
//! go with it.

use limiter::{Standing, Sum, When};
use wire::peer::{
    HEAL_SUMS_MAX, Refusal, SNAPSHOT_STANDINGS_MAX, TimedStandings, TimedSums,
    write_timed_standings, write_timed_sums,
};

use crate::LinkId;
use crate::node::Node;
use crate::operation::Credited;
use crate::output::Channel;

/// Most timed standings of one chunk: as many as a chunk is cut at, and what the buckets of one hash,
/// which are not cut apart, may have beyond that.
const STANDINGS_MAX: usize = 4 * SNAPSHOT_STANDINGS_MAX;

/// What a peer sent of a heal and of a chunk that have not come.
#[derive(Debug)]
pub(crate) struct Parts {
    sums: Part<Sum, HEAL_SUMS_MAX>,
    standings: Part<Standing, STANDINGS_MAX>,
    /// Of a batch or a heal.
    pub(crate) credited: Vec<Credited>,
    /// Of a chunk.
    pub(crate) waiting: Vec<Credited>,
}

/// Entries of the frame of this number, at most `MAX`.
#[derive(Debug)]
struct Part<T, const MAX: usize> {
    number: u64,
    entries: Vec<T>,
}

/// What came does not belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Torn;

impl<T, const MAX: usize> Part<T, MAX> {
    const fn new() -> Self {
        Self { number: 0, entries: Vec::new() }
    }

    fn add(
        &mut self,
        number: u64,
        entries: impl Iterator<Item = T>,
        len: usize,
    ) -> Result<(), Torn> {
        let is_same = self.entries.is_empty() || self.number == number;
        if !is_same || self.entries.len() + len > MAX {
            return Err(Torn);
        }
        self.number = number;
        self.entries.extend(entries);
        Ok(())
    }

    fn take(&mut self, number: u64) -> Result<Vec<T>, Torn> {
        let entries = std::mem::take(&mut self.entries);
        if entries.is_empty() || self.number == number { Ok(entries) } else { Err(Torn) }
    }
}

impl Parts {
    pub(crate) fn new() -> Self {
        let (credited, waiting) = (Vec::new(), Vec::new());
        Self { sums: Part::new(), standings: Part::new(), credited, waiting }
    }

    /// The timed sums of the heal `seq`, which came.
    pub(crate) fn take_sums(&mut self, seq: u64) -> Result<Vec<Sum>, Torn> {
        self.sums.take(seq)
    }

    /// The timed standings of the chunk that begins with the hash `first`, which came.
    pub(crate) fn take_standings(&mut self, first: u64) -> Result<Vec<Standing>, Torn> {
        self.standings.take(first)
    }
}

impl Node {
    pub(crate) fn handle_timed_sums(&mut self, now_ns: u64, index: u8, timed: TimedSums<'_>) {
        let Some(link) = self.table.link_mut(index) else { return };
        let sums = timed.sums(now_ns);
        if link.parts.sums.add(timed.seq, sums, timed.len()).is_err() {
            self.refuse_torn(now_ns, index);
        }
    }

    pub(crate) fn handle_timed_standings(
        &mut self,
        now_ns: u64,
        index: u8,
        timed: TimedStandings<'_>,
    ) {
        let Some(link) = self.table.link_mut(index) else { return };
        let standings = timed.standings(now_ns);
        if link.parts.standings.add(timed.first, standings, timed.len()).is_err() {
            self.refuse_torn(now_ns, index);
        }
    }

    /// The peer at `index` sent a part and not what it is a part of.
    pub(crate) fn refuse_torn(&mut self, now_ns: u64, index: u8) {
        if let Some(id) = self.table.link(index).map(|link| link.id) {
            let text = "parts of a frame that does not follow".to_owned();
            self.refuse(now_ns, id, Refusal::Malformed, text);
        }
    }

    /// Sends the timed sums of the heal `seq`, which follows.
    pub(crate) fn send_timed_sums(&mut self, now_ns: u64, id: LinkId, seq: u64, sums: &[Sum]) {
        let mut rest = sums;
        while !rest.is_empty() {
            let mut bytes = Vec::new();
            let sent = write_timed_sums(&mut bytes, seq, now_ns, rest).max(1);
            rest = rest.get(sent..).unwrap_or_default();
            self.send(id, Channel::Ordered, bytes.into());
        }
    }

    /// Sends the timed standings of the chunk that begins with the hash `first` and follows.
    pub(crate) fn send_timed_standings(
        &mut self,
        now_ns: u64,
        id: LinkId,
        first: u64,
        standings: &[Standing],
    ) {
        let mut rest = standings;
        while !rest.is_empty() {
            let mut bytes = Vec::new();
            let sent = write_timed_standings(&mut bytes, first, now_ns, rest).max(1);
            rest = rest.get(sent..).unwrap_or_default();
            self.send(id, Channel::Bulk, bytes.into());
        }
    }
}

/// The sums of levels, and those of windows and logs, which follow them.
pub(crate) fn split_sums(sums: &[Sum]) -> (&[Sum], &[Sum]) {
    sums.split_at(sums.partition_point(|sum| sum.when == When::Untimed))
}

/// The standings of buckets that are levels, and of those that are not, each in their order. A bucket is
/// in one of the two with all of its entries.
pub(crate) fn split_standings(standings: &[Standing]) -> (Vec<Standing>, Vec<Standing>) {
    let (mut levels, mut timed) = (Vec::new(), Vec::new());
    for bucket in standings.chunk_by(|one, next| one.bucket == next.bucket) {
        let is_level = bucket.iter().all(|standing| standing.when == When::Untimed);
        if is_level { &mut levels } else { &mut timed }.extend_from_slice(bucket);
    }
    (levels, timed)
}

/// How many buckets there are. The standings of one stand next to each other.
pub(crate) fn buckets_of(standings: &[Standing]) -> u64 {
    standings.chunk_by(|one, next| one.bucket == next.bucket).count() as u64
}

#[cfg(test)]
mod tests {
    use limiter::Bucket;

    use super::*;

    #[test]
    fn parts_are_given_to_the_frame_of_their_number_once() {
        let mut part = Part::<u8, 4>::new();
        assert_eq!(part.take(7), Ok(vec![]));
        part.add(7, [1, 2].into_iter(), 2).unwrap();
        part.add(7, [3].into_iter(), 1).unwrap();
        assert_eq!(part.take(7), Ok(vec![1, 2, 3]));
        assert_eq!(part.take(8), Ok(vec![]));
    }

    #[test]
    fn parts_of_another_number_or_above_the_bound_are_torn() {
        let mut part = Part::<u8, 4>::new();
        part.add(7, [1, 2].into_iter(), 2).unwrap();
        assert_eq!(part.add(8, [3].into_iter(), 1), Err(Torn));
        assert_eq!(part.add(7, [3, 4, 5].into_iter(), 3), Err(Torn));
        part.add(7, [3, 4].into_iter(), 2).unwrap();
        assert_eq!(part.take(8), Err(Torn));
    }

    #[test]
    fn a_bucket_is_told_as_a_whole_in_one_of_two_ways() {
        let standing = |hash: u64, when: When| Standing {
            bucket: Bucket { slot: 0, hash },
            missing: 1,
            charge: 0,
            others: 0,
            shift: 0,
            when,
        };
        let at = |ns: u64| When::At { ns };
        let all = [
            standing(1, When::Untimed),
            standing(2, at(1)),
            standing(2, When::Untimed),
            standing(3, When::Untimed),
            standing(4, at(1)),
        ];
        let (levels, timed) = split_standings(&all);
        assert_eq!(levels, [all[0], all[3]]);
        assert_eq!(timed, [all[1], all[2], all[4]]);
        assert_eq!(buckets_of(&all), 4);
    }
}
