//! What operators gave back and still waits for late spends, and what of it peers have to be told.
//!
//! A reset gives back what the node where the operator acted knew as used. Where it arrives before some of those
//! spends, what finds nothing to fill is kept here as a credit, which says of each member up to which of its batches
//! it is for. Those that come are taken off it first; later ones count. When all of them are there, it goes.

use std::collections::BTreeMap;
use std::sync::Arc;

use limiter::{Bucket, Members};
use wire::peer::Position;

use crate::batch::Source;
use crate::config::SECOND;
use crate::member::{ME, Table};

/// Buckets, each with units.
pub(crate) type Buckets = Vec<(Bucket, u64)>;

/// Most buckets with a credit, and most that peers have to be told of.
pub(crate) const ROWS_MAX: usize = 10_000;
/// A credit whose spends never come is forgotten after a day: longer than nearly every cut, and than most limits
/// take to fill.
const KEEP_NS: u64 = 86_400 * SECOND;
/// For so long after a reset its levels on two nodes do not compare: who is cut off from the node where it was made
/// lies lower, and is right to.
const CALM_NS: u64 = 60 * SECOND;
/// A reset that every member was told is remembered for so long: who left it unacknowledged is lost before.
const TOLD_NS: u64 = 5 * SECOND;
/// Time between two looks for what is settled.
const TIDY_NS: u64 = SECOND;

/// Spends of one member that were known where an operator acted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    index: u8,
    life: u64,
    /// Those in batches below.
    next: u64,
}

impl Known {
    /// Whether the batch `of` was known. Where the member had begun its next life, what came before is over
    /// (`is_over`), told by nobody any more, and taken as known.
    pub(crate) fn has(self, of: Source, is_over: bool) -> bool {
        self.index == of.index && if self.life == of.life { of.seq < self.next } else { is_over }
    }
}

/// One bucket's credit.
#[derive(Debug)]
struct Credit {
    units: u64,
    /// What of it has not arrived here.
    late: Vec<Known>,
    /// What was known, of every member, where it was given last.
    known: Arc<[Known]>,
    /// It was given, last, at this time.
    at_ns: u64,
}

/// Something that this node gave back.
#[derive(Debug)]
struct Given {
    /// What of each member, this node included, was known then.
    positions: Arc<[Position]>,
    known: Arc<[Known]>,
    at_ns: u64,
    /// A batch carried it.
    is_told: bool,
}

/// All credits of a node.
#[derive(Debug, Default)]
pub(crate) struct Credits {
    rows: BTreeMap<Bucket, Credit>,
    given: BTreeMap<Bucket, Given>,
    tidied_ns: u64,
    /// Credits for which there was no room.
    pub(crate) dropped: u64,
}

impl Credits {
    /// Whether nothing needs to be looked up.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// How many rows there are.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.rows.len()
    }

    /// Forgets what waits: the counts are taken anew.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
    }

    /// This node gave something of `buckets` back when it knew what `positions` say.
    pub(crate) fn note_given(
        &mut self,
        now_ns: u64,
        buckets: &[Bucket],
        positions: Vec<Position>,
        known: Arc<[Known]>,
    ) {
        let positions: Arc<[Position]> = positions.into();
        for bucket in buckets {
            if self.given.len() >= ROWS_MAX && !self.given.contains_key(bucket) {
                self.dropped += 1;
                continue;
            }
            let (positions, known) = (Arc::clone(&positions), Arc::clone(&known));
            self.given.insert(*bucket, Given { positions, known, at_ns: now_ns, is_told: false });
        }
    }

    /// Those of `buckets` that this node gave something back of, and that a batch (`is_heal`: a heal) has to say
    /// so of, with what was known then.
    pub(crate) fn to_tell(
        &self,
        buckets: impl Iterator<Item = Bucket>,
        is_heal: bool,
    ) -> Vec<(Arc<[Position]>, Buckets)> {
        let mut groups: Vec<(Arc<[Position]>, Buckets)> = Vec::new();
        if self.given.is_empty() {
            return groups;
        }
        for bucket in buckets {
            let Some(given) = self.given.get(&bucket).filter(|it| is_heal || !it.is_told) else {
                continue;
            };
            let same = groups.iter_mut().find(|(it, _)| Arc::ptr_eq(it, &given.positions));
            match same {
                Some((_, list)) if list.last().is_some_and(|(last, _)| *last == bucket) => {}
                Some((_, list)) => list.push((bucket, 0)),
                None => groups.push((Arc::clone(&given.positions), vec![(bucket, 0)])),
            }
        }
        groups
    }

    /// A batch carried what was given back of `buckets`.
    pub(crate) fn told(&mut self, buckets: impl Iterator<Item = Bucket>) {
        if self.given.is_empty() {
            return;
        }
        for bucket in buckets {
            if let Some(given) = self.given.get_mut(&bucket) {
                given.is_told = true;
            }
        }
    }

    /// A peer gave `bucket` back more than there was to fill: `units`, for those spends of the `known` ones that are
    /// `late`.
    pub(crate) fn add(
        &mut self,
        now_ns: u64,
        bucket: Bucket,
        units: u64,
        known: &Arc<[Known]>,
        late: &[Known],
    ) {
        let units = if late.is_empty() { 0 } else { units };
        if self.rows.len() >= ROWS_MAX && !self.rows.contains_key(&bucket) {
            self.dropped += u64::from(units > 0);
            return;
        }
        let row = self.rows.entry(bucket);
        let credit = row.or_insert_with(|| Credit {
            units: 0,
            late: Vec::new(),
            known: Arc::clone(known),
            at_ns: now_ns,
        });
        credit.units = credit.units.saturating_add(units);
        (credit.known, credit.at_ns) = (Arc::clone(known), now_ns);
        if units == 0 {
            return;
        }
        for late in late {
            let is_same = |it: &&mut Known| it.index == late.index && it.life == late.life;
            match credit.late.iter_mut().find(is_same) {
                Some(known) => known.next = known.next.max(late.next),
                None => credit.late.push(*late),
            }
        }
    }

    /// The credit of `bucket` for what the member at `index` spent in the life `life` in the batch `seq`, or, at a
    /// heal, at any time.
    pub(crate) fn credit_for(
        &mut self,
        bucket: Bucket,
        (index, life): (u8, u64),
        seq: Option<u64>,
    ) -> Option<&mut u64> {
        let credit = self.rows.get_mut(&bucket).filter(|credit| credit.units > 0)?;
        let is_late = |late: &Known| {
            late.index == index && late.life == life && seq.is_none_or(|seq| seq < late.next)
        };
        credit.late.iter().any(is_late).then_some(&mut credit.units)
    }

    /// Whether what the batch `of` spent of `bucket` was known to an operator's node when that gave something of it
    /// back: it is in the common level no longer. `is_over`: the life that sent it is.
    pub(crate) fn was_given(&self, bucket: Bucket, of: Source, is_over: bool) -> bool {
        let is_known = |known: &[Known]| known.iter().any(|known| known.has(of, is_over));
        self.rows.get(&bucket).is_some_and(|credit| is_known(&credit.known))
            || self.given.get(&bucket).is_some_and(|given| is_known(&given.known))
    }

    /// Whether the level of `bucket` compares with a peer's.
    pub(crate) fn compares(&self, now_ns: u64, bucket: Bucket) -> bool {
        let is_calm = |at_ns: u64| now_ns.saturating_sub(at_ns) >= CALM_NS;
        self.rows.get(&bucket).is_none_or(|credit| is_calm(credit.at_ns))
    }

    /// Every credit that waits for something, by bucket.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (Bucket, u64, &[Known])> {
        let waiting = self.rows.iter().filter(|(_, credit)| credit.units > 0);
        waiting.map(|(bucket, credit)| (*bucket, credit.units, credit.late.as_slice()))
    }

    /// Forgets what is settled, or too old.
    pub(crate) fn tidy(&mut self, now_ns: u64, table: &Table, is_acknowledged: bool) {
        if now_ns.saturating_sub(self.tidied_ns) < TIDY_NS
            || (self.rows.is_empty() && self.given.is_empty())
        {
            return;
        }
        self.tidied_ns = now_ns;
        let age_ns = |at_ns: u64| now_ns.saturating_sub(at_ns);
        self.rows.retain(|_, credit| {
            credit.late.retain(|late| table.is_late(*late));
            if credit.late.is_empty() {
                credit.units = 0;
            }
            let waits = credit.units > 0;
            age_ns(credit.at_ns) < if waits { KEEP_NS } else { CALM_NS }
        });
        let is_known = table.is_whole() && is_acknowledged;
        self.given.retain(|_, given| {
            age_ns(given.at_ns) < if given.is_told && is_known { TOLD_NS } else { KEEP_NS }
        });
    }

    /// When [`Credits::tidy`] is due.
    pub(crate) fn tidy_due_ns(&self) -> Option<u64> {
        let has_any = !self.rows.is_empty() || !self.given.is_empty();
        has_any.then_some(self.tidied_ns.saturating_add(TIDY_NS))
    }

    /// The members `gone` are members no more.
    pub(crate) fn forget(&mut self, gone: Members) {
        for credit in self.rows.values_mut() {
            credit.late.retain(|late| !gone.contains(late.index));
        }
    }
}

impl Table {
    /// Those of `known` that have not arrived here.
    pub(crate) fn late(&self, known: &[Known]) -> Vec<Known> {
        known.iter().copied().filter(|known| self.is_late(*known)).collect()
    }

    /// What `positions` say of members, this node in its life `life` among them, that are known here.
    pub(crate) fn named(&self, positions: &[Position], life: u64) -> Arc<[Known]> {
        let known = positions.iter().filter_map(|position| {
            let index = match self.index_of(&position.name) {
                None if self.is_me(&position.name) && position.life == life => ME,
                index => index?,
            };
            Some(Known { index, life: position.life, next: position.next })
        });
        known.collect()
    }

    /// Whether the life that sent the batch `of` is over, as far as this node knows.
    pub(crate) fn is_over(&self, of: Source) -> bool {
        of.index != ME && self.peers.get(&of.index).is_none_or(|peer| peer.life != of.life)
    }

    /// Whether there are spends that `late` is for and that have not arrived here, and may yet.
    fn is_late(&self, late: Known) -> bool {
        let Some(peer) = self.peers.get(&late.index) else { return false };
        match &peer.link {
            _ if peer.life == late.life => peer.next < late.next,
            // A life that is over says nothing more; one that is not known here may begin.
            link => link.is_none(),
        }
    }

    /// What this node knows of every member.
    pub(crate) fn positions(&self) -> Vec<Position> {
        let known = self.peers.values().filter(|peer| peer.life != 0);
        let position = |peer: &crate::member::Peer| {
            let name = peer.name.clone()?;
            Some(Position { name, life: peer.life, next: peer.next })
        };
        known.filter_map(position).collect()
    }

    /// The same as [`Table::positions`] of what a credit waits for.
    pub(crate) fn positions_of(&self, late: &[Known]) -> Vec<Position> {
        let position = |late: &Known| Position {
            name: self.name(late.index),
            life: late.life,
            next: late.next,
        };
        late.iter().map(position).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Bucket = Bucket { slot: 0, hash: 1 };

    fn table() -> Table {
        let mut table = Table::new("me", 1, 0);
        for name in ["b", "c"] {
            let (index, _) = table.admit(name, 0).unwrap();
            let peer = table.peers.get_mut(&index).unwrap();
            (peer.life, peer.next) = (7, 10);
        }
        table
    }

    fn known() -> Arc<[Known]> {
        Arc::from([])
    }

    fn position(name: &str, life: u64, next: u64) -> Position {
        Position { name: name.into(), life, next }
    }

    #[test]
    fn a_credit_is_for_what_was_known_there_and_is_not_here() {
        let mut table = table();
        let positions =
            [position("b", 7, 10), position("c", 7, 11), position("me", 1, 9), position("x", 1, 1)];
        let known = table.named(&positions, 1);
        assert_eq!(known.iter().map(|known| known.index).collect::<Vec<_>>(), [1, 2, ME]);
        let late = table.late(&known);
        assert_eq!(late, [Known { index: 2, life: 7, next: 11 }]);
        let mut credits = Credits::default();
        credits.add(0, A, 5, &known, &late);
        let was_given = |(index, life, seq)| {
            let of = Source { index, life, seq };
            credits.was_given(A, of, table.is_over(of))
        };
        let told = [(1, 7, 9), (1, 7, 10), (2, 7, 10), (ME, 1, 8), (3, 7, 0)];
        assert_eq!(told.map(was_given), [true, false, true, true, false]);
        // A life before the one that was known there, and one after it.
        assert!(was_given((1, 6, 50)));
        table.peers.get_mut(&1).unwrap().life = 8;
        let was_given = |life| {
            let of = Source { index: 1, life, seq: 0 };
            credits.was_given(A, of, table.is_over(of))
        };
        assert_eq!([7, 8].map(was_given), [true, false]);
        assert_eq!(credits.credit_for(A, (1, 7), Some(10)), None, "of another member");
        assert_eq!(credits.credit_for(A, (2, 7), Some(11)), None, "a later batch");
        assert_eq!(credits.credit_for(A, (2, 8), Some(10)), None, "of another life");
        *credits.credit_for(A, (2, 7), Some(10)).unwrap() -= 5;
        assert_eq!(credits.credit_for(A, (2, 7), None), None, "nothing is left");
    }

    #[test]
    fn what_waits_for_nobody_is_not_kept() {
        let mut credits = Credits::default();
        credits.add(0, A, 5, &known(), &[]);
        assert_eq!(credits.waiting().count(), 0);
        assert!(!credits.compares(CALM_NS - 1, A) && credits.compares(CALM_NS, A));
        credits.tidy(CALM_NS - 1, &table(), true);
        assert_eq!(credits.len(), 1);
        credits.tidy(CALM_NS + TIDY_NS, &table(), true);
        assert_eq!(credits.len(), 0);
    }

    #[test]
    fn a_credit_goes_when_all_is_there_and_after_a_day() {
        let mut table = table();
        let mut credits = Credits::default();
        let late = table.late(&table.named(&[position("c", 7, 11), position("b", 8, 3)], 1));
        assert_eq!(late.len(), 2, "a life of `b` that is not known yet may begin");
        credits.add(0, A, 5, &known(), &late);
        credits.tidy(KEEP_NS - 1, &table, true);
        assert_eq!(credits.waiting().count(), 1);
        table.peers.get_mut(&2).unwrap().next = 11;
        credits.forget(Members::only(1));
        credits.tidy(KEEP_NS - 1 + TIDY_NS, &table, true);
        assert_eq!(credits.len(), 0);
        credits.add(0, A, 5, &known(), &late);
        credits.tidy(2 * KEEP_NS, &table, true);
        assert_eq!(credits.len(), 0);
    }

    #[test]
    fn credits_are_bounded() {
        let mut credits = Credits::default();
        let late = [Known { index: 1, life: 1, next: 1 }];
        for hash in 0..ROWS_MAX as u64 + 3 {
            credits.add(0, Bucket { slot: 0, hash }, 1, &known(), &late);
        }
        assert_eq!((credits.len(), credits.dropped), (ROWS_MAX, 3));
        credits.add(0, Bucket { slot: 0, hash: 5 }, 1, &known(), &late);
        assert_eq!((credits.len(), credits.dropped), (ROWS_MAX, 3));
        let all: Vec<_> = (0..ROWS_MAX as u64 + 2).map(|hash| Bucket { slot: 0, hash }).collect();
        credits.note_given(0, &all, Vec::new(), known());
        assert_eq!((credits.given.len(), credits.dropped), (ROWS_MAX, 5));
    }

    #[test]
    fn a_batch_tells_once_what_was_given_and_a_heal_each_time() {
        let mut credits = Credits::default();
        credits.note_given(0, &[A], vec![position("b", 7, 3)], known());
        let told = credits.to_tell([A, A].into_iter(), false);
        assert_eq!(told.len(), 1);
        assert_eq!((&*told[0].0, &*told[0].1), (&[position("b", 7, 3)][..], &[(A, 0)][..]));
        credits.told([A].into_iter());
        assert!(credits.to_tell([A].into_iter(), false).is_empty());
        assert_eq!(credits.to_tell([A].into_iter(), true).len(), 1);
        let table = table();
        credits.tidy(TOLD_NS, &table, true);
        assert_eq!(credits.given.len(), 1, "somebody is missing");
        credits.tidy(KEEP_NS, &table, true);
        assert!(credits.given.is_empty());
    }
}
