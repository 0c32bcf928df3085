//! The proven ceiling: the most that a whole cluster can let through above one exact bucket. The
//! derivation is in docs/accuracy.md; the constants are those by which shares are counted.
//!
//! Whole numbers throughout, each rounded so that the ceiling errs upwards.

use super::demand::{IDLE, STEPS_PER_SECOND};
use super::motion::CLAIMS_PART;
use super::stand::extra_units;
use crate::{Accuracy, Rate};

/// What a ceiling takes for granted of a cluster and a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Circumstances {
    /// Members, all of which reach each other.
    pub members: usize,
    /// How they hold the limit together.
    pub accuracy: Accuracy,
    /// Its refill.
    pub rate: Rate,
    /// Its capacity, in units.
    pub burst: u64,
    /// Time between two exchanges, in nanoseconds.
    pub sync_interval_ns: u64,
    /// Every member acknowledges a batch within this time, in nanoseconds.
    pub acknowledged_within_ns: u64,
    /// Longest time for which a check is held, in nanoseconds.
    pub held_ns: u64,
}

/// One, in the fixed point of this file.
const ONE: u128 = 1_000_000_000;
/// The most of one demand that a node no longer knows of what others reported: what it dropped with the
/// bucket at rest, once a second at most, so that all of it weighs 1.6 times as much as the last; and what
/// rounding took, less than 1/256 in each of the steps of the fading, of which 64.5 weigh as one whole
/// second, and the step that clocks differ by.
const UNREMEMBERED: u128 = ONE * IDLE as u128 / 256 * 8 / 5 + ONE * 26 / 100;
/// Time over which demand fades to 1/e, in nanoseconds.
const FADING_NS: u128 = 1_000_000_000;
/// Beyond so many times the fading nothing is left that could bound a share.
const FADED: u128 = 20 * ONE;

/// Units above `burst + rate * t` that the cluster lets through at most in any window of length t, as
/// long as all its members reach each other and have room for every key, the limit is the same on
/// all, and nothing but checks is asked. 0 for a cluster of one.
///
/// # Examples
///
/// ```
/// use limiter::bound::{Circumstances, ceiling};
/// use limiter::{Accuracy, Rate};
///
/// const MS: u64 = 1_000_000;
/// let three = Circumstances {
///     members: 3,
///     accuracy: Accuracy::Balanced,
///     rate: Rate { count: 100, period_ns: 3_600_000 * MS },
///     burst: 100,
///     sync_interval_ns: 200 * MS,
///     acknowledged_within_ns: 20 * MS,
///     held_ns: 5 * MS,
/// };
/// let ten = Circumstances { members: 10, ..three };
/// assert_eq!((ceiling(&three), ceiling(&ten)), (175, 354));
/// assert_eq!(ceiling(&Circumstances { members: 1, ..three }), 0);
/// ```
pub fn ceiling(circumstances: &Circumstances) -> u64 {
    let Circumstances { members, accuracy, rate, burst, .. } = *circumstances;
    if members < 2 {
        return 0;
    }
    let interval = u128::from(circumstances.sync_interval_ns);
    let acknowledged = u128::from(circumstances.acknowledged_within_ns);
    let peers = members as u128 - 1;
    let extra = u128::from(extra_units(accuracy, burst));
    let by_each = peers * largest_share(members, burst).max(extra);
    // What a peer spent last and this node does not know is at most so old.
    let unknown_ns = interval + 2 * acknowledged;
    // A reservation counts where it is made, and passes or is given back up to so much later.
    let reserved_ns = match accuracy {
        Accuracy::Balanced => u128::from(circumstances.held_ns) + unknown_ns,
        Accuracy::Fast => 0,
    };
    let by_shares = sum_of_shares(members, unknown_ns, acknowledged).map(|shares| {
        let level = refill(rate, 2 * unknown_ns + reserved_ns).saturating_add(burst.into());
        (level.saturating_mul(shares)).div_ceil(ONE) + peers * extra
    });
    let unknown = by_shares.map_or(by_each, |by_shares| by_shares.min(by_each));
    let reserved = refill(rate, reserved_ns);
    u64::try_from(unknown.saturating_add(reserved)).unwrap_or(u64::MAX)
}

/// The most of `burst` that one of `members` may have in flight: all demand is its own.
fn largest_share(members: usize, burst: u64) -> u128 {
    let members = members as u128;
    (u128::from(burst) * (4 * members + 1)).div_ceil(5 * members)
}

/// What the shares of all peers, each read when the peer spent last, sum to at most, in [`ONE`]; none
/// where demand fades so much in `unknown_ns` that nothing can be said.
fn sum_of_shares(members: usize, unknown_ns: u128, acknowledged_ns: u128) -> Option<u128> {
    // Each node counts the steps of the fading on its own clock, one step at either end; and a claim of
    // which only a part was acknowledged has not faded since it was sent.
    let steps_ns = (2 * FADING_NS).div_ceil(u128::from(STEPS_PER_SECOND));
    let kept = fading(steps_ns + acknowledged_ns)?;
    // Most where all demand is what is no longer known of it.
    let left = fading(unknown_ns)?.checked_sub(UNREMEMBERED / 5).filter(|left| *left > 0)?;
    let demand = ((ONE + UNREMEMBERED) * 4 / 5 + 1) * ONE / left + 1;
    let claims = u128::from(CLAIMS_PART);
    let by_demand = (demand * ONE * claims).div_ceil(kept * (claims - 1));
    let peers = members as u128 - 1;
    let equal = (ONE * peers).div_ceil(5 * members as u128);
    Some(by_demand + equal)
}

/// What is left of a demand after `ns`, in [`ONE`], rounded down.
fn fading(ns: u128) -> Option<u128> {
    let exponent = ns * ONE / FADING_NS + 1;
    if exponent > FADED {
        return None;
    }
    // The series of e^x, every term rounded up. At 20 the terms fall by a third each from the 60th on.
    let (mut sum, mut term) = (ONE, ONE);
    for k in 1..=100 {
        term = (term * exponent).div_ceil(k * ONE);
        sum += term;
    }
    Some(ONE * ONE / (sum + term))
}

/// Units that refill in `ns`, rounded up.
fn refill(rate: Rate, ns: u128) -> u128 {
    (u128::from(rate.count).saturating_mul(ns)).div_ceil(rate.period_ns.max(1).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn whole(members: usize, burst: u64, per_s: u64) -> Circumstances {
        Circumstances {
            members,
            accuracy: Accuracy::Balanced,
            rate: Rate { count: per_s, period_ns: 1_000 * MS },
            burst,
            sync_interval_ns: 200 * MS,
            acknowledged_within_ns: 20 * MS,
            held_ns: 5 * MS,
        }
    }

    #[test]
    fn two_nodes_may_have_one_share_too_many() {
        // Nine tenths of the burst, and a quarter of a second of refill for reservations.
        assert_eq!(ceiling(&whole(2, 1_000, 1_000)), 900 + 245);
        let fast = Circumstances { accuracy: Accuracy::Fast, ..whole(2, 1_000, 1_000) };
        assert_eq!(ceiling(&fast), 900);
    }

    #[test]
    fn what_many_nodes_may_have_hardly_grows_with_their_number() {
        let of = |members| ceiling(&whole(members, 1_000_000, 1));
        let (five, fifty) = (of(5), of(50));
        assert!(fifty < five + five / 20, "{five} and {fifty}");
        assert!((3_300_000..3_500_000).contains(&fifty), "{fifty}");
    }

    #[test]
    fn small_buckets_are_bounded_by_what_each_may_have_in_flight() {
        // Each of nine peers at most 41 of 50, and a quarter of a second of refill.
        assert_eq!(ceiling(&whole(10, 50, 1_000)), 9 * 41 + 245);
        assert_eq!(ceiling(&whole(10, 1, 0)), 9);
    }

    #[test]
    fn fast_may_have_eight_units_on_every_node() {
        let fast = |burst| Circumstances { accuracy: Accuracy::Fast, ..whole(10, burst, 1) };
        // Of five at most two each, and 21 for their shares.
        assert_eq!(ceiling(&fast(5)), 9 * 2 + 21);
        let balanced = Circumstances { accuracy: Accuracy::Balanced, ..fast(10_000) };
        let more = ceiling(&fast(10_000)) - (ceiling(&balanced) - 1);
        assert_eq!(more, 9 * 7);
    }

    #[test]
    fn a_slow_exchange_leaves_only_the_plain_ceiling() {
        let slow = Circumstances { sync_interval_ns: 10_000 * MS, ..whole(5, 1_000, 1) };
        assert_eq!(ceiling(&slow), 4 * 840 + 11);
        let hour = Circumstances { acknowledged_within_ns: 3_600_000 * MS, ..whole(5, 1_000, 1) };
        assert!(ceiling(&hour) >= 4 * 840);
    }

    #[test]
    fn nothing_overflows() {
        let most = Circumstances {
            members: 64,
            accuracy: Accuracy::Fast,
            rate: Rate { count: u64::MAX, period_ns: 1 },
            burst: u64::MAX,
            sync_interval_ns: u64::MAX,
            acknowledged_within_ns: u64::MAX,
            held_ns: u64::MAX,
        };
        assert_eq!(ceiling(&most), u64::MAX);
        assert_eq!(
            ceiling(&Circumstances { rate: Rate { count: 1, period_ns: 0 }, ..most }),
            u64::MAX
        );
    }

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "the model is in floats")]
    fn fading_is_never_above_the_exponential() {
        for ns in [0, 1, 31_250_000, 271_250_000, 1_000_000_000, 7_777_777_777, 20_000_000_000] {
            let Some(left) = fading(ns) else { continue };
            let exact = (-(ns as f64) / 1e9).exp() * 1e9;
            assert!(left as f64 <= exact && left as f64 > exact * 0.999_999 - 2.0, "{ns}: {left}");
        }
        assert_eq!(fading(FADED * 2), None);
    }
}
