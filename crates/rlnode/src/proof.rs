//! What is proven of the limits of this cluster: what the proof takes for granted of it, and the ceiling
//! that follows. The proof itself is the limiter's, its words are in docs/accuracy.md.

use std::time::Duration;

use limiter::bound::{Circumstances, ceiling};
use limiter::{Accuracy, Quota};

use crate::node::{DEFAULT_MAX_WAIT, MAX_WAIT_MAX};

/// Least time within which every member is taken to acknowledge, in microseconds: far above what a
/// data centre takes, so that a moment's load does not void what is said.
const ACKNOWLEDGED_WITHIN_US_MIN: u64 = 20_000;
/// Smoothed round trips within which every member is taken to acknowledge.
const ROUND_TRIPS: u64 = 4;

/// A cluster as far as the ceiling of its limits depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// Members, this node included; at least 1.
    pub members: usize,
    /// Time between two exchanges, in nanoseconds.
    pub sync_interval_ns: u64,
    /// The slowest smoothed round trip to a member, in microseconds; none: none was measured.
    pub round_trip_us: Option<u64>,
}

impl Surroundings {
    /// Time within which every member is taken to acknowledge a batch, in milliseconds: 20, or four of
    /// the slowest round trips where that is more.
    pub fn acknowledged_within_ms(&self) -> u64 {
        let by_round_trip = self.round_trip_us.unwrap_or(0).saturating_mul(ROUND_TRIPS);
        by_round_trip.max(ACKNOWLEDGED_WITHIN_US_MIN).div_ceil(1_000)
    }

    /// Units above `burst + rate x t` that the cluster lets through at most in any window of length t,
    /// while every member reaches all others and acknowledges in that time, and no check waits longer
    /// than [`DEFAULT_MAX_WAIT`]. None where nothing is counted.
    pub fn ceiling(&self, accuracy: Accuracy, quota: &Quota) -> Option<u64> {
        let (Quota::TokenBucket { rate, burst } | Quota::LeakyBucket { rate, burst, .. }) = *quota
        else {
            return None;
        };
        Some(ceiling(&Circumstances {
            members: self.members,
            accuracy,
            rate,
            burst,
            sync_interval_ns: self.sync_interval_ns,
            acknowledged_within_ns: self.acknowledged_within_ms().saturating_mul(1_000_000),
            held_ns: u64::try_from(DEFAULT_MAX_WAIT.as_nanos()).unwrap_or(u64::MAX),
        }))
    }
}

/// The slowest of `round_trips`, in microseconds, and whose it is.
pub fn slowest<'p>(
    round_trips: impl Iterator<Item = (&'p str, Option<u64>)>,
) -> Option<(&'p str, u64)> {
    round_trips.filter_map(|(peer, us)| Some((peer, us?))).max_by_key(|(_, us)| *us)
}

/// What an operator should know of a member that is too far away for checks to wait for it; none where
/// it is near enough. A check waits for a flush, the round trip and some more: two and a half of it.
pub fn warning_of_distance(slowest: Option<(&str, u64)>) -> Option<String> {
    let (peer, round_trip_us) = slowest?;
    let needed = Duration::from_micros(round_trip_us.saturating_mul(5) / 2);
    if needed <= DEFAULT_MAX_WAIT {
        return None;
    }
    let wanted = (needed + DEFAULT_MAX_WAIT).min(MAX_WAIT_MAX).as_micros().div_ceil(1_000);
    Some(format!(
        "the round trip to `{peer}` takes {} ms, and a check that must wait for its acknowledgement \
         waits {} ms unless it says otherwise: it is denied for the reason `share` too early; let \
         requests wait {wanted} ms (`max_wait`), or write `accuracy = \"fast\"`, which never waits",
        round_trip_us.div_ceil(1_000),
        DEFAULT_MAX_WAIT.as_millis(),
    ))
}

#[cfg(test)]
mod tests {
    use limiter::Rate;

    use super::*;

    const HUNDRED_PER_HOUR: Quota =
        Quota::TokenBucket { rate: Rate { count: 100, period_ns: 3_600_000_000_000 }, burst: 100 };

    fn of(members: usize, round_trip_us: Option<u64>) -> Surroundings {
        Surroundings { members, sync_interval_ns: 200_000_000, round_trip_us }
    }

    #[test]
    fn an_acknowledgement_is_given_twenty_milliseconds_or_four_round_trips() {
        for (round_trip_us, ms) in
            [(None, 20), (Some(400), 20), (Some(5_000), 20), (Some(5_001), 21), (Some(90_000), 360)]
        {
            assert_eq!(of(3, round_trip_us).acknowledged_within_ms(), ms, "{round_trip_us:?}");
        }
        assert!(of(3, Some(u64::MAX)).acknowledged_within_ms() > 1 << 50);
    }

    #[test]
    fn the_ceiling_is_that_of_the_limiter() {
        let (rate, burst) = (Rate { count: 100, period_ns: 3_600_000_000_000 }, 100);
        let circumstances = Circumstances {
            members: 3,
            accuracy: Accuracy::Balanced,
            rate,
            burst,
            sync_interval_ns: 200_000_000,
            acknowledged_within_ns: 80_000_000,
            held_ns: 5_000_000,
        };
        let told = of(3, Some(20_000)).ceiling(Accuracy::Balanced, &HUNDRED_PER_HOUR);
        assert_eq!(told, Some(ceiling(&circumstances)));
        assert_eq!(of(1, None).ceiling(Accuracy::Balanced, &HUNDRED_PER_HOUR), Some(0));
        assert_eq!(of(3, None).ceiling(Accuracy::Fast, &Quota::Unlimited), None);
    }

    #[test]
    fn a_member_that_is_far_away_is_warned_of_with_what_to_do() {
        let near = [("a", Some(400)), ("b", None), ("c", Some(2_000))];
        assert_eq!(slowest(near.into_iter()), Some(("c", 2_000)));
        assert_eq!(warning_of_distance(slowest(near.into_iter())), None);
        assert_eq!(warning_of_distance(None), None);
        let words = warning_of_distance(Some(("b", 8_000))).expect("it is far");
        assert_eq!(
            words,
            "the round trip to `b` takes 8 ms, and a check that must wait for its acknowledgement \
             waits 5 ms unless it says otherwise: it is denied for the reason `share` too early; \
             let requests wait 25 ms (`max_wait`), or write `accuracy = \"fast\"`, which never waits"
        );
        let farthest = warning_of_distance(Some(("b", 3_000_000))).expect("it is far");
        assert!(farthest.contains("let requests wait 1000 ms"), "{farthest}");
    }
}
