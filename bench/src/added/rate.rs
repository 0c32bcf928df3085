//! The rate of a measurement: the one that is asked for, or the highest from there downwards that
//! leaves enough of the machine idle. What is asked of a busy machine measures its queue and not the
//! check.

use std::str::FromStr;

use serde::Serialize;

use crate::failure::Failure;

/// Where the search begins: the rate that the project demands its figure at, in requests in a second.
pub(crate) const RATE_DEMANDED: u64 = 10_000;
/// Least part of the machine that is idle, in thousandths.
pub(super) const IDLE_PERMILLE_MIN: u64 = 300;
/// Lowest rate that is tried: below it a phase has too few requests for its last hundredth.
const RATE_MIN: u64 = 200;
/// Rates are whole multiples of this.
const STEP: u64 = 100;

/// Requests in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rate {
    /// The highest up to [`RATE_DEMANDED`] that leaves enough of the machine idle.
    Auto,
    /// This.
    Given(u64),
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const RATE_MAX: u64 = 1_000_000;
        let given = |rate: &u64| (RATE_MIN..=RATE_MAX).contains(rate);
        match text {
            "auto" => Ok(Self::Auto),
            digits => digits.parse().ok().filter(given).map(Self::Given).ok_or_else(|| {
                format!("`{text}` is no rate; write `auto`, or {RATE_MIN} to {RATE_MAX}")
            }),
        }
    }
}

/// A rate, and what it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Look {
    /// Requests in a second, all of them checked.
    pub(super) rate: u64,
    /// Part of the machine that was idle, in thousandths.
    pub(super) idle_permille: u64,
}

/// Looks at lower and lower rates until one leaves enough idle; all looks, of which the last is that.
///
/// # Errors
/// If even the lowest does not, or `idle_permille_at`, which measures what a rate leaves idle, fails.
pub(super) fn find(
    mut idle_permille_at: impl FnMut(u64) -> Result<u64, Failure>,
) -> Result<Vec<Look>, Failure> {
    let mut looks = Vec::new();
    let mut rate = RATE_DEMANDED;
    loop {
        let idle_permille = idle_permille_at(rate)?;
        looks.push(Look { rate, idle_permille });
        if idle_permille >= IDLE_PERMILLE_MIN {
            return Ok(looks);
        }
        if rate <= RATE_MIN {
            let percent = idle_permille / 10;
            return Err(Failure::new(format!(
                "at {rate} requests/s only {percent} % of the machine are idle: something else uses \
                 it; stop that, or give a --rate"
            )));
        }
        rate = next(rate, idle_permille);
    }
}

/// The next rate to try: what would use just enough if all use of the machine came from the load, but
/// at least a tenth lower, and no lower than the half.
fn next(rate: u64, idle_permille: u64) -> u64 {
    let used_permille = 1000_u64.saturating_sub(idle_permille).max(1);
    let fitting = rate * (1000 - IDLE_PERMILLE_MIN) / used_permille;
    (fitting.clamp(rate / 2, rate - rate / 10) / STEP * STEP).max(RATE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_or_left_to_the_command() {
        assert_eq!("auto".parse(), Ok(Rate::Auto));
        assert_eq!("200".parse(), Ok(Rate::Given(200)));
        assert_eq!("1000000".parse(), Ok(Rate::Given(1_000_000)));
        for text in ["", "199", "1000001", "-1", "1e4", "Auto"] {
            assert!(text.parse::<Rate>().unwrap_err().contains(&format!("`{text}`")), "{text}");
        }
    }

    #[test]
    fn the_first_rate_that_leaves_enough_idle_is_taken() {
        let looks = find(|_| Ok(300)).unwrap();
        assert_eq!(looks, [Look { rate: RATE_DEMANDED, idle_permille: 300 }]);
        // 80 CPUs of 1,000 for 1,000 requests/s, on a machine that others use a tenth of.
        let looks = find(|rate| Ok(900_u64.saturating_sub(rate * 80 / 1000))).unwrap();
        let rates: Vec<u64> = looks.iter().map(|look| look.rate).collect();
        assert_eq!(rates, [10_000, 7_700, 6_900]);
        assert!(looks.iter().rev().skip(1).all(|look| look.idle_permille < 300));
    }

    #[test]
    fn a_rate_falls_by_a_tenth_at_least_and_by_a_half_at_most() {
        assert_eq!(next(10_000, 299), 9_000);
        assert_eq!(next(10_000, 100), 7_700);
        assert_eq!(next(10_000, 0), 7_000);
        assert_eq!(next(300, 0), 200);
        assert_eq!(next(200, 0), RATE_MIN);
    }

    #[test]
    fn a_machine_that_is_busy_without_a_load_is_told_of() {
        let mut asked = 0;
        let failure = find(|_| {
            asked += 1;
            Ok(120)
        });
        assert!(failure.unwrap_err().to_string().contains("only 12 % of the machine"));
        assert!(asked < 40, "{asked}");
        assert!(find(|_| Err(Failure::new("gone"))).is_err());
    }
}
