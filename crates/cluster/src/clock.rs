//! How far the wall clocks of peers are from this node's. It is shown and warned of, and nothing is
//! decided by it: windows begin and end by the wall clock of each node alone.

use std::collections::VecDeque;
use std::sync::Arc;

use wire::peer::write_clock;

use crate::Note;
use crate::config::{MS, SECOND};
use crate::node::Node;
use crate::output::Channel;

/// A peer's clock is warned of when it is further from this node's than this, in milliseconds: what is
/// spent at the edge of a window is then counted in another window there for a quarter of a second.
pub const SKEW_MAX_MS: u64 = 250;
/// It is warned of no longer when it is this near: a clock that is at the bound must not be warned of
/// again and again.
const SKEW_NEAR_MS: u64 = 200;
/// Time between two readings that a peer is told.
const TELL_NS: u64 = SECOND;
/// Readings of a peer that are remembered.
const READINGS_MAX: usize = 4;

/// What is known of a peer's wall clock.
///
/// A reading is older when it arrives than when it was made, by as long as it was on its way, which
/// varies. So of the last few the one counts that makes the peer's clock the latest, and half of the
/// usual round trip is added to it.
#[derive(Debug, Default)]
pub(crate) struct Skew {
    /// The peer's clock less this node's, in milliseconds, as each of the last readings says.
    readings: VecDeque<i64>,
    /// The peer's clock is warned of.
    pub(crate) is_off: bool,
}

impl Skew {
    /// What the handshake said.
    pub(crate) fn new(skew_ms: Option<i64>) -> Self {
        Self { readings: skew_ms.into_iter().collect(), is_off: false }
    }

    /// A reading says `theirs_ms`, and this node's clock `ours_ms`.
    pub(crate) fn note(&mut self, theirs_ms: u64, ours_ms: u64) {
        if self.readings.len() >= READINGS_MAX {
            self.readings.pop_front();
        }
        self.readings.push_back(skew_ms(theirs_ms, ours_ms));
    }

    /// The peer's clock less this node's, in milliseconds, with a round trip of `rtt_ns`.
    pub(crate) fn ms(&self, rtt_ns: Option<u64>) -> Option<i64> {
        let latest = self.readings.iter().max()?;
        Some(latest.saturating_add_unsigned(half_ms(rtt_ns)))
    }

    /// Whether the clock is warned of anew, or no longer.
    fn judge(&mut self, rtt_ns: Option<u64>) -> Option<bool> {
        let apart_ms = self.ms(rtt_ns)?.unsigned_abs();
        // Half a round trip is what nobody can know.
        let apart_ms = apart_ms.saturating_sub(half_ms(rtt_ns));
        let bound_ms = if self.is_off { SKEW_NEAR_MS } else { SKEW_MAX_MS };
        let is_off = apart_ms > bound_ms;
        (std::mem::replace(&mut self.is_off, is_off) != is_off).then_some(is_off)
    }
}

fn half_ms(rtt_ns: Option<u64>) -> u64 {
    rtt_ns.unwrap_or(0) / (2 * MS)
}

/// `theirs_ms` less `ours_ms`.
pub(crate) fn skew_ms(theirs_ms: u64, ours_ms: u64) -> i64 {
    let skew = i128::from(theirs_ms) - i128::from(ours_ms);
    i64::try_from(skew).unwrap_or(if skew < 0 { i64::MIN } else { i64::MAX })
}

impl Node {
    /// A peer says what its wall clock reads.
    pub(crate) fn handle_clock(&mut self, now_ns: u64, index: u8, theirs_ms: u64) {
        let Some(ours_ms) = self.unix_ms(now_ns) else { return };
        if let Some(link) = self.table.link_mut(index) {
            link.skew.note(theirs_ms, ours_ms);
        }
    }

    /// Tells every linked peer what the wall clock reads, and says whose clock is far off, where it is
    /// time.
    pub(crate) fn step_clocks(&mut self, now_ns: u64) {
        let Some(ours_ms) = self.unix_ms(now_ns).filter(|_| now_ns >= self.tell_clock_ns) else {
            return;
        };
        self.tell_clock_ns = now_ns.saturating_add(TELL_NS);
        let mut bytes = Vec::new();
        write_clock(&mut bytes, ours_ms);
        let frame: Arc<[u8]> = bytes.into();
        for index in self.table.linked().iter() {
            let Some(link) = self.table.link_mut(index) else { continue };
            let (id, rtt_ns) = (link.id, link.rtt_ns);
            // A handshake may have taken its time: one reading more is awaited.
            let is_known = now_ns.saturating_sub(link.since_ns) >= TELL_NS;
            let turned = if is_known { link.skew.judge(rtt_ns) } else { None };
            let skew_ms = link.skew.ms(rtt_ns).unwrap_or(0);
            self.send(id, Channel::Ordered, Arc::clone(&frame));
            if let Some(is_off) = turned {
                self.counts.clock_alarms += u64::from(is_off);
                let peer = self.table.name(index);
                self.note(Note::Clock { peer, skew_ms, is_off });
            }
        }
    }

    pub(crate) fn clocks_due_ns(&self) -> Option<u64> {
        self.wall.map(|_| self.tell_clock_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of readings one after the other, with a round trip of `rtt_ms`.
    fn judged(rtt_ms: u64, readings: &[i64]) -> Vec<Option<bool>> {
        let mut skew = Skew::default();
        let ours_ms = 1_000_000_u64;
        let judge = |reading: &i64| {
            skew.note(ours_ms.saturating_add_signed(*reading), ours_ms);
            skew.judge(Some(rtt_ms * MS))
        };
        readings.iter().map(judge).collect()
    }

    #[test]
    fn a_clock_is_warned_of_above_250_ms_and_no_longer_from_200_on() {
        assert_eq!(judged(0, &[250, 251, 250, 201]), [None, Some(true), None, None]);
        let back = [251, 200, 200, 200, 200, 250];
        assert_eq!(judged(0, &back), [Some(true), None, None, None, Some(false), None]);
        assert_eq!(judged(0, &[-250, -250, -250, -250]), [None; 4]);
        assert_eq!(judged(0, &[-251]), [Some(true)]);
    }

    #[test]
    fn half_a_round_trip_is_allowed_for() {
        let mut skew = Skew::new(Some(-20));
        assert_eq!(skew.ms(Some(40 * MS)), Some(0));
        assert_eq!(skew.ms(None), Some(-20));
        // 290 ms behind on arrival is 270 ms with a round trip of 40 ms, give or take 20.
        assert_eq!(judged(40, &[-290]), [None]);
        assert_eq!(judged(40, &[-291]), [Some(true)]);
        assert_eq!(judged(40, &[250]), [None]);
        assert_eq!(judged(40, &[251]), [Some(true)]);
        skew.note(0, u64::MAX);
        assert_eq!(skew.ms(None), Some(-20));
    }

    #[test]
    fn one_late_reading_is_not_taken_for_a_clock_that_is_behind() {
        assert_eq!(judged(0, &[0, -900, -800, -700]), [None; 4]);
        // Five of them are.
        assert_eq!(judged(0, &[0, -900, -900, -900, -900]), [None, None, None, None, Some(true)]);
        let mut skew = Skew::default();
        for _ in 0..100 {
            skew.note(1, 0);
        }
        assert_eq!(skew.readings.len(), READINGS_MAX);
    }

    #[test]
    fn readings_of_any_size_are_compared() {
        assert_eq!(skew_ms(u64::MAX, 0), i64::MAX);
        assert_eq!(skew_ms(0, u64::MAX), i64::MIN);
        let mut skew = Skew::new(Some(i64::MAX));
        assert_eq!(skew.ms(Some(u64::MAX)), Some(i64::MAX));
        assert_eq!(skew.judge(Some(0)), Some(true));
        assert_eq!(Skew::new(None).ms(Some(1)), None);
    }
}
