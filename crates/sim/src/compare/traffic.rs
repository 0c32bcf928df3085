//! The traffics that are made: each is written down for a limit, so that it meets what is particular to
//! an algorithm whatever the numbers are.

use super::numbers::Numbers;
use crate::clock::{MS, SECOND};
use crate::dice::Dice;
use crate::workload::Arrival;

/// Largest limit and burst for which traffic is made: it is made call by call.
pub const LIMIT_MAX: u64 = 50_000;

/// Chance for the node that a call comes to is apart from that for its time.
const NODES_PART: u64 = 0x40de;

/// A kind of traffic, of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Even, at one and a half times the limit, for five periods.
    Steady,
    /// Twice the limit at once, three times, with one and a half periods between.
    Burst,
    /// The limit just before a period begins, and again just after.
    WindowEdge,
    /// Pages that make a tenth of the limit in calls within some milliseconds, at 1.2 times the limit.
    PageLoad,
    /// Independent calls, at 1.2 times the limit, for five periods.
    Poisson,
}

impl Traffic {
    /// Every traffic.
    pub const ALL: [Self; 5] =
        [Self::Steady, Self::Burst, Self::WindowEdge, Self::PageLoad, Self::Poisson];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Burst => "burst",
            Self::WindowEdge => "window-edge",
            Self::PageLoad => "page-load",
            Self::Poisson => "poisson",
        }
    }

    /// The one of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|traffic| traffic.name() == name)
    }

    /// What it is, in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Steady => "even calls at one and a half times the limit",
            Self::Burst => "twice the limit at once, three times, one and a half periods apart",
            Self::WindowEdge => "the limit just before a period begins, and again just after",
            Self::PageLoad => "pages of a tenth of the limit each, at 1.2 times the limit",
            Self::Poisson => "independent calls at 1.2 times the limit",
        }
    }

    /// Time from its begin to its end, in nanoseconds.
    pub fn duration_ns(self, numbers: &Numbers) -> u64 {
        let periods = if self == Self::WindowEdge { 2 } else { 5 };
        numbers.rate.period_ns.saturating_mul(periods)
    }

    /// The calls for a limit of these numbers, in the order of time, spread over `nodes` nodes by `seed`.
    ///
    /// # Errors
    /// Numbers for which it cannot be made, and what to do.
    pub fn arrivals(
        self,
        numbers: &Numbers,
        seed: u64,
        nodes: usize,
    ) -> Result<Vec<Arrival>, String> {
        let (limit, period_ns) = (numbers.rate.count, numbers.rate.period_ns);
        if limit == 0 || limit > LIMIT_MAX {
            return Err(format!(
                "traffic is made call by call for limits of 1 to {LIMIT_MAX}, not of {limit}; write one of \
                 the same shape, such as a tenth of it per tenth of the time"
            ));
        }
        if !(MS..=u64::MAX / 16).contains(&period_ns) {
            return Err("traffic is made for periods of 1 ms to 36 years; write another".into());
        }
        let mut dice = Dice::new(seed).part(0x7ea0);
        let mut times = match self {
            Self::Steady => even(0, 5 * period_ns, limit * 15 / 2),
            Self::Burst => bursts(limit, period_ns, &mut dice),
            Self::WindowEdge => window_edge(limit, period_ns),
            Self::PageLoad => page_loads(limit, period_ns, &mut dice),
            Self::Poisson => poisson(limit, period_ns, &mut dice),
        };
        times.sort_unstable();
        let mut dice = Dice::new(seed).part(NODES_PART);
        let arrival = |at_ns| Arrival { at_ns, node: dice.place(nodes.max(1)), key: 0, cost: 1 };
        Ok(times.into_iter().map(arrival).collect())
    }
}

/// `count` calls from `from_ns` to before `to_ns`, as even as they can be.
fn even(from_ns: u64, to_ns: u64, count: u64) -> Vec<u64> {
    let length_ns = u128::from(to_ns - from_ns);
    let at_ns = |call: u64| {
        let since_ns = length_ns * u128::from(call) / u128::from(count.max(1));
        from_ns + u64::try_from(since_ns).unwrap_or(0)
    };
    (0..count).map(at_ns).collect()
}

/// The last second of the first period and the first of the second, or a quarter of each if the period is
/// short: the limit in each, so that all calls lie within two seconds.
fn window_edge(limit: u64, period_ns: u64) -> Vec<u64> {
    let within_ns = SECOND.min(period_ns / 4);
    let mut times = even(period_ns - within_ns, period_ns, limit);
    times.extend(even(period_ns, period_ns + within_ns, limit));
    times
}

/// Within a hundredth of the period, at most 100 ms.
fn bursts(limit: u64, period_ns: u64, dice: &mut Dice) -> Vec<u64> {
    let within_ns = (period_ns / 100).clamp(1, 100 * MS);
    let mut times = Vec::new();
    for burst in 0..3 {
        let from_ns = period_ns / 2 + burst * (period_ns + period_ns / 2);
        times.extend((0..2 * limit).map(|_| from_ns + dice.below(within_ns)));
    }
    times
}

/// Each page begins at a random time of its turn, and makes its calls within 5 ms, or a thousandth of a
/// short period.
fn page_loads(limit: u64, period_ns: u64, dice: &mut Dice) -> Vec<u64> {
    let size = limit.div_ceil(10);
    let pages = (limit * 6).div_ceil(size);
    let turn_ns = 5 * period_ns / pages.max(1);
    let within_ns = (period_ns / 1_000).clamp(1, 5 * MS);
    let mut times = Vec::new();
    for page in 0..pages {
        let from_ns = page * turn_ns + dice.below(turn_ns.max(1));
        times.extend((0..size).map(|_| from_ns + dice.below(within_ns)));
    }
    times
}

/// Independent calls of which the number is given are evenly distributed over the time.
fn poisson(limit: u64, period_ns: u64, dice: &mut Dice) -> Vec<u64> {
    (0..limit * 6).map(|_| dice.below(5 * period_ns)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use limiter::Rate;

    fn numbers(count: u64, period_ns: u64) -> Numbers {
        Numbers { rate: Rate { count, period_ns }, burst: count }
    }

    fn times(traffic: Traffic, limit: u64, period_ns: u64) -> Vec<u64> {
        let arrivals = traffic.arrivals(&numbers(limit, period_ns), 1, 1).unwrap();
        arrivals.into_iter().map(|arrival| arrival.at_ns).collect()
    }

    const MINUTE: u64 = 60 * SECOND;

    #[test]
    fn the_edge_is_met_from_both_sides_within_two_seconds() {
        let times = times(Traffic::WindowEdge, 100, MINUTE);
        assert_eq!(times.len(), 200);
        assert_eq!((times[0], times[99]), (59 * SECOND, 59 * SECOND + 990 * MS));
        assert_eq!((times[100], times[199]), (60 * SECOND, 60 * SECOND + 990 * MS));
    }

    #[test]
    fn each_traffic_has_its_number_of_calls_in_order_and_within_its_time() {
        for (traffic, calls) in [
            (Traffic::Steady, 750),
            (Traffic::Burst, 600),
            (Traffic::WindowEdge, 200),
            (Traffic::PageLoad, 600),
            (Traffic::Poisson, 600),
        ] {
            let times = times(traffic, 100, MINUTE);
            assert_eq!(times.len(), calls, "{}", traffic.name());
            assert!(times.is_sorted());
            let end_ns = traffic.duration_ns(&numbers(100, MINUTE));
            assert!(times.iter().all(|at_ns| *at_ns < end_ns), "{}", traffic.name());
        }
    }

    #[test]
    fn any_limit_and_period_that_is_not_refused_makes_traffic() {
        for traffic in Traffic::ALL {
            assert_eq!(Traffic::from_name(traffic.name()), Some(traffic));
            for (limit, period_ns) in [(1, MS), (7, u64::MAX / 16), (LIMIT_MAX, SECOND)] {
                assert!(!times(traffic, limit, period_ns).is_empty());
            }
            for (limit, period_ns) in [(0, SECOND), (LIMIT_MAX + 1, SECOND), (1, MS - 1)] {
                assert!(traffic.arrivals(&numbers(limit, period_ns), 1, 1).is_err());
            }
        }
    }

    #[test]
    fn the_seed_decides_the_times_and_the_nodes() {
        let draw =
            |seed, nodes| Traffic::Poisson.arrivals(&numbers(100, SECOND), seed, nodes).unwrap();
        assert_eq!(draw(7, 3), draw(7, 3));
        assert_ne!(draw(7, 1), draw(8, 1));
        // More nodes are asked the same at the same times.
        let times = |nodes| draw(7, nodes).into_iter().map(|it| it.at_ns).collect::<Vec<_>>();
        assert_eq!(times(1), times(3));
        assert!((0..3).all(|node| draw(7, 3).iter().any(|it| it.node == node)));
    }
}
