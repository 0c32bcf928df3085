//! When each door is asked, and how often: most often at one door, then at the next, and nowhere for a
//! while in the middle. It sends nothing.

use crate::clock::NS_PER_S;
use crate::server::Door;

/// Doors of a node.
pub(super) const DOORS: usize = Door::ALL.len();
/// Parts of a hundred that the doors have in a stretch, moved on by one door with each, so that
/// within a few seconds every door is the one most asked and the one least.
const SHARES: [u64; DOORS] = [46, 27, 15, 8, 4];
/// Length of a stretch: long enough to be seen in a picture of tenths of a second.
const STRETCH_NS: u64 = NS_PER_S / 2;
/// Nothing is asked for this long: a bucket that is small beside its rate is full again.
pub(super) const PAUSE_NS: u64 = 3 * NS_PER_S / 2;

/// A stretch of time in which each door is asked at an even rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    /// Its start, after that of the whole.
    pub(super) from_ns: u64,
    /// Its end.
    pub(super) to_ns: u64,
    /// Checks in a second, by door.
    pub(super) checks_per_s: [u64; DOORS],
}

/// The pause in the middle of `seconds`: its start and its end.
pub(super) fn pause(seconds: u64) -> (u64, u64) {
    let from_ns = (seconds * NS_PER_S).saturating_sub(PAUSE_NS) / 2;
    (from_ns, from_ns + PAUSE_NS)
}

/// Stretches for `seconds` in all, which are more than the pause, with `checks_per_s` over all doors.
pub(super) fn stretches(seconds: u64, checks_per_s: u64) -> Vec<Stretch> {
    let (pause_from_ns, pause_to_ns) = pause(seconds);
    let mut stretches = Vec::new();
    for (part_from_ns, part_to_ns) in [(0, pause_from_ns), (pause_to_ns, seconds * NS_PER_S)] {
        let mut from_ns = part_from_ns;
        while from_ns < part_to_ns {
            let to_ns = (from_ns + STRETCH_NS).min(part_to_ns);
            let checks_per_s = rates(checks_per_s, stretches.len());
            stretches.push(Stretch { from_ns, to_ns, checks_per_s });
            from_ns = to_ns;
        }
    }
    stretches
}

/// `checks_per_s`, which is 100 or more, in uneven parts that add up to it.
fn rates(checks_per_s: u64, stretch: usize) -> [u64; DOORS] {
    let mut rates = SHARES.map(|share| checks_per_s * share / 100);
    rates[0] += checks_per_s - rates.iter().sum::<u64>();
    rates.rotate_right(stretch % DOORS);
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_fill_all_but_the_pause_in_the_middle() {
        for seconds in [2, 3, 8, 60] {
            let stretches = stretches(seconds, 1000);
            let (pause_from_ns, pause_to_ns) = pause(seconds);
            assert_eq!(pause_from_ns, seconds * NS_PER_S - pause_to_ns);
            let mut end_ns = 0;
            for stretch in &stretches {
                if stretch.from_ns != end_ns {
                    assert_eq!((end_ns, stretch.from_ns), (pause_from_ns, pause_to_ns));
                }
                assert!(stretch.to_ns > stretch.from_ns);
                end_ns = stretch.to_ns;
            }
            assert_eq!(end_ns, seconds * NS_PER_S);
        }
    }

    #[test]
    fn shares_are_uneven_and_move_from_door_to_door_but_their_sum_stays() {
        assert_eq!(SHARES.iter().sum::<u64>(), 100);
        for checks_per_s in [100, 101, 999, 1000] {
            let stretches = stretches(8, checks_per_s);
            for stretch in &stretches {
                assert_eq!(stretch.checks_per_s.iter().sum::<u64>(), checks_per_s);
                assert!(stretch.checks_per_s.iter().all(|&rate| rate > 0));
            }
            for door in 0..DOORS {
                let rates = stretches.iter().map(|stretch| stretch.checks_per_s[door]);
                assert!(rates.clone().max() > rates.min().map(|least| 5 * least));
            }
        }
    }
}
