//! The fate of the k-th datagram of a direction: a function of the seed, the direction, k and the
//! weather, and of nothing that happened before.

use std::time::Duration;

use crate::Weather;

/// How much longer than its delay a datagram can be held back, so that reordering works without one.
const HELD_BACK: Duration = Duration::from_millis(1);

/// Draws that each datagram takes, whatever the weather: a change of weather moves no later draw.
const DRAWS: u64 = 5;

/// Source of the draws of one direction: the generator splitmix64 (Steele, Lea, Flood, 2014), read
/// at any place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream(u64);

/// What happens to one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) is_lost: bool,
    pub(crate) is_duplicated: bool,
    /// Time that it takes, as far as it keeps its place in the order.
    pub(crate) takes: Duration,
    /// Time that it takes on top, out of order.
    pub(crate) held_back: Option<Duration>,
}

impl Stream {
    pub(crate) fn new(seed: u64, from: usize, to: usize) -> Self {
        let place = |node: usize| u64::try_from(node).unwrap_or(u64::MAX);
        Self(mix(mix(mix(seed).wrapping_add(place(from))).wrapping_add(place(to))))
    }

    /// What happens to the datagram of this number, from 0, in this weather.
    pub(crate) fn fate(self, number: u64, weather: &Weather) -> Fate {
        let draw = |which: u64| {
            let place = number.wrapping_mul(DRAWS).wrapping_add(which + 1);
            mix(self.0.wrapping_add(place.wrapping_mul(GOLDEN_GAMMA)))
        };
        let longest_hold = weather.delay.saturating_add(HELD_BACK);
        Fate {
            is_lost: happens(draw(0), weather.loss_ppm),
            is_duplicated: happens(draw(1), weather.duplicate_ppm),
            takes: weather.delay.saturating_add(up_to(draw(2), weather.jitter)),
            held_back: happens(draw(3), weather.reorder_ppm).then(|| up_to(draw(4), longest_hold)),
        }
    }
}

/// Whether this draw is among the given share of all draws.
fn happens(draw: u64, share_ppm: u32) -> bool {
    (u128::from(draw) * 1_000_000) >> 64 < u128::from(share_ppm)
}

/// A time from nothing to `most`, each nanosecond as likely.
fn up_to(draw: u64, most: Duration) -> Duration {
    let most_ns = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
    let ns = (u128::from(draw) * (u128::from(most_ns) + 1)) >> 64;
    Duration::from_nanos(u64::try_from(ns).unwrap_or(most_ns))
}

/// The step of splitmix64: 2^64 divided by the golden ratio, made odd.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The mixing function of splitmix64.
fn mix(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn rough() -> Weather {
        Weather {
            delay: 5 * MS,
            jitter: 3 * MS,
            loss_ppm: 100_000,
            duplicate_ppm: 50_000,
            reorder_ppm: 20_000,
        }
    }

    fn fates(seed: u64, from: usize, to: usize) -> Vec<Fate> {
        let stream = Stream::new(seed, from, to);
        (0..1_000).map(|number| stream.fate(number, &rough())).collect()
    }

    #[test]
    fn the_same_seed_and_direction_give_the_same_fates_and_others_do_not() {
        assert_eq!(fates(7, 0, 1), fates(7, 0, 1));
        assert_ne!(fates(7, 0, 1), fates(8, 0, 1));
        assert_ne!(fates(7, 0, 1), fates(7, 1, 0));
        assert_ne!(fates(7, 0, 1), fates(7, 0, 2));
    }

    /// Whoever adds or reorders draws changes what a seed means; then these numbers change.
    #[test]
    fn a_seed_means_what_it_meant() {
        let lost = |seed| {
            let stream = Stream::new(seed, 0, 1);
            let weather = Weather { loss_ppm: 200_000, ..Weather::default() };
            (0..20).filter(|number| stream.fate(*number, &weather).is_lost).collect::<Vec<u64>>()
        };
        assert_eq!((lost(1), lost(2)), (vec![0, 1, 3, 4, 10, 15], vec![5, 7, 8, 14]));
    }

    #[test]
    fn a_change_of_weather_moves_no_later_draw() {
        let stream = Stream::new(7, 0, 1);
        let only_loss = Weather { loss_ppm: rough().loss_ppm, ..Weather::default() };
        for number in 0..1_000 {
            let (one, other) = (stream.fate(number, &rough()), stream.fate(number, &only_loss));
            assert_eq!(one.is_lost, other.is_lost);
        }
    }

    #[test]
    fn each_trouble_meets_about_its_share() {
        const OF: u64 = 100_000;
        let stream = Stream::new(7, 0, 1);
        let share = |is_met: fn(&Fate) -> bool| {
            (0..OF).filter(|number| is_met(&stream.fate(*number, &rough()))).count()
        };
        // Six standard deviations, as a binomial has them.
        assert!((9_430..=10_570).contains(&share(|fate| fate.is_lost)));
        assert!((4_585..=5_415).contains(&share(|fate| fate.is_duplicated)));
        assert!((1_734..=2_266).contains(&share(|fate| fate.held_back.is_some())));
        assert!((0..OF).all(|number| {
            let fate = stream.fate(number, &rough());
            (5 * MS..=8 * MS).contains(&fate.takes)
                && fate.held_back.is_none_or(|held| held <= 6 * MS)
        }));
    }

    #[test]
    fn nothing_happens_in_fair_weather_and_everything_at_a_million() {
        let all = 1_000_000;
        let worst =
            Weather { loss_ppm: all, duplicate_ppm: all, reorder_ppm: all, ..Weather::default() };
        let stream = Stream::new(7, 0, 1);
        for number in 0..10_000 {
            let fate = stream.fate(number, &Weather::default());
            assert!(!fate.is_lost && !fate.is_duplicated && fate.held_back.is_none());
            assert_eq!(fate.takes, Duration::ZERO);
            let fate = stream.fate(number, &worst);
            assert!(fate.is_lost && fate.is_duplicated && fate.held_back.is_some());
        }
        assert!(!happens(u64::MAX, 999_999) && happens(0, 1) && !happens(0, 0));
        assert_eq!((up_to(u64::MAX, MS), up_to(0, MS)), (MS, Duration::ZERO));
        assert_eq!(up_to(u64::MAX, Duration::MAX), Duration::from_nanos(u64::MAX));
    }
}
