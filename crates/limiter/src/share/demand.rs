//! Demand in fixed point: how it fades, and what share of a level it earns.
//!
//! Demand is counted in 1/256 of 2^shift units; the shift depends on a rule's rate alone, so that the
//! greatest demand of one node takes 16 bits of units, whatever the limit counts.

/// One, in the fixed point of demand.
pub(crate) const ONE: u64 = 256;
/// Demand below which a bucket counts as not asked for elsewhere: a half.
pub(crate) const IDLE: u32 = 128;
/// Steps of the fading in a second.
pub(super) const STEPS_PER_SECOND: u64 = 64;
/// Whole seconds after which nothing is left of the greatest demand.
const GONE_SECONDS: u32 = 24;
/// e^(-1/64) in 2^-64.
const STEP: u64 = 18_160_753_814_917_686_419;
/// e^(-k/64) in 2^-64, k from 1: by repeated multiplication, rounded down.
const STEPS: [u64; 64] = {
    let mut steps = [STEP; 64];
    let mut k = 1;
    while k < 64 {
        steps[k] = ((steps[k - 1] as u128 * STEP as u128) >> 64) as u64;
        k += 1;
    }
    steps
};

/// The step of the fading at `now_ns`, modulo 2^32: it wraps in two years.
pub(crate) fn step_at(now_ns: u64) -> u32 {
    let steps = u128::from(now_ns) * u128::from(STEPS_PER_SECOND) / 1_000_000_000;
    u32::try_from(steps & u128::from(u32::MAX)).unwrap_or(0)
}

/// How much of a demand is left after `steps` steps, as a fraction of 2^64; all of it after none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fading(Option<u64>);

impl Fading {
    pub(crate) fn of(steps: u32) -> Self {
        if steps == 0 {
            return Self(None);
        }
        let (seconds, rest) = (steps / 64, steps % 64);
        if seconds >= GONE_SECONDS {
            return Self(Some(0));
        }
        let mut left = if rest == 0 { u64::MAX } else { STEPS[rest as usize - 1] };
        for _ in 0..seconds {
            left = mul(left, STEPS[63]);
        }
        Self(Some(left))
    }

    /// `demand` after the fading, rounded down.
    pub(crate) fn apply(self, demand: u32) -> u32 {
        match self.0 {
            None => demand,
            Some(left) => u32::try_from(mul(left, u64::from(demand))).unwrap_or(demand),
        }
    }
}

fn mul(a: u64, b: u64) -> u64 {
    u64::try_from((u128::from(a) * u128::from(b)) >> 64).unwrap_or(u64::MAX)
}

/// A rule's rate as demand is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    /// Units that refill in a second, times 256.
    rate: u64,
    /// Demand is counted in 2^shift units.
    pub(crate) shift: u8,
}

impl Scale {
    /// The scale of a rule whose bucket has `per_ns` ticks in a nanosecond and `per_unit` in a unit.
    pub(crate) fn new(per_ns: u64, per_unit: u64) -> Self {
        let rate = u128::from(per_ns) * 1_000_000_000 * u128::from(ONE) / u128::from(per_unit);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        let units = rate / ONE + 4;
        let bits = u64::BITS - units.leading_zeros();
        Self { rate, shift: u8::try_from(bits.saturating_sub(16)).unwrap_or(0) }
    }

    /// The most demand that one of `n` nodes may claim: a second of its part of the rate, and 4 units.
    pub(crate) fn fair(self, n: usize) -> u32 {
        let fair = (self.rate / n as u64).saturating_add(4 * ONE) >> self.shift;
        u32::try_from(fair).unwrap_or(u32::MAX)
    }

    /// `units` as demand, rounded up.
    pub(crate) fn demand(self, units: u64) -> u32 {
        let scaled = (u128::from(units) * u128::from(ONE)).div_ceil(1 << self.shift);
        u32::try_from(scaled).unwrap_or(u32::MAX)
    }

    /// Whole units of `demand`, rounded to the nearest.
    pub(crate) fn units(self, demand: u32) -> u64 {
        ((u64::from(demand) << self.shift) + ONE / 2) / ONE
    }

    /// `demand` that was counted in 2^shift units, as it is counted here.
    pub(crate) fn convert(self, demand: u32, shift: u8) -> u32 {
        let wide = u128::from(demand) << shift.min(64);
        u32::try_from(wide >> self.shift).unwrap_or(u32::MAX)
    }
}

/// A node's share of a level: phi/n + (1 - phi) (own + 1/n) / (own + others + 1) with phi = 1/5, as
/// the exact fraction that it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    part: u64,
    of: u64,
}

impl Share {
    pub(crate) fn new(n: usize, own: u32, others: u32) -> Self {
        if n <= 1 {
            return Self { part: 1, of: 1 };
        }
        let (n, own) = (n as u64, u64::from(own));
        let all = own + u64::from(others) + ONE;
        Self { part: all + 4 * (n * own + ONE), of: 5 * n * all }
    }

    /// The share of `ticks`, which are not negative, rounded down.
    pub(crate) fn of(self, ticks: i128) -> i128 {
        ticks * i128::from(self.part) / i128::from(self.of)
    }
}
