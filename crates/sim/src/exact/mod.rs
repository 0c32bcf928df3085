//! The yardsticks: for every algorithm one central limiter, exact, that is asked the same questions at
//! the same moments. Each is written from what its algorithm means, and shares no line with the limiter
//! that it judges.

mod bucket;
mod log;
mod window;

pub use bucket::ExactBucket;
pub use log::ExactLog;
pub use window::ExactWindow;

use limiter::Rate;

/// A yardstick. It can be asked (then it never goes below empty), or charged with what a cluster
/// admitted (then its debt is the cluster's excess so far). Amounts are ticks: of a window or a log a
/// tick is a unit, or, where windows slide, a unit for a millisecond. Times never go back.
#[derive(Clone, Debug)]
pub enum Exact {
    /// A token bucket, or a leaky one: what is spent comes back evenly.
    Bucket(ExactBucket),
    /// A fixed window, or a sliding one: what is spent belongs to a window of the wall clock.
    Window(ExactWindow),
    /// A sliding log: what is spent counts for a period.
    Log(ExactLog),
}

impl Exact {
    /// A full bucket of `burst` units, refilled at `rate`.
    pub fn bucket(burst: u64, rate: Rate) -> Self {
        Self::Bucket(ExactBucket::new(burst, rate))
    }

    /// At most `limit` units in each window of `period_ns` from the Unix epoch on; at its time 0 it is
    /// `unix_ns` after that.
    pub fn fixed_window(limit: u64, period_ns: u64, unix_ns: u64) -> Self {
        Self::Window(ExactWindow::fixed(limit, period_ns, unix_ns))
    }

    /// The same, where the window before counts by the part of it that lies within one period.
    pub fn sliding_window(limit: u64, period_ns: u64, unix_ns: u64) -> Self {
        Self::Window(ExactWindow::sliding(limit, period_ns, unix_ns))
    }

    /// At most `limit` units in any period of `period_ns`.
    pub fn sliding_log(limit: u64, period_ns: u64) -> Self {
        Self::Log(ExactLog::new(limit, period_ns))
    }

    /// Ticks in a unit.
    pub fn per_unit(&self) -> u64 {
        match self {
            Self::Bucket(bucket) => bucket.numbers().per_unit,
            Self::Window(window) => window.per_unit(),
            Self::Log(_) => 1,
        }
    }

    /// Capacity, in units.
    pub fn capacity(&self) -> u64 {
        match self {
            Self::Bucket(bucket) => bucket.numbers().burst,
            Self::Window(window) => window.limit(),
            Self::Log(log) => log.limit(),
        }
    }

    /// Ticks of `units`.
    pub fn ticks(&self, units: u64) -> i128 {
        i128::from(units) * i128::from(self.per_unit())
    }

    /// Ticks that are left where nothing counts.
    pub fn full(&self) -> i128 {
        self.ticks(self.capacity())
    }

    /// Ticks left at `now_ns`.
    pub fn level_at(&mut self, now_ns: u64) -> i128 {
        self.level_seen(now_ns, 0)
    }

    /// The same by a wall clock that is `ahead_ns` ahead of the true one.
    pub fn level_seen(&mut self, now_ns: u64, ahead_ns: i64) -> i128 {
        match self {
            Self::Bucket(bucket) => bucket.level_at(now_ns),
            Self::Window(window) => window.level_seen(now_ns, ahead_ns),
            Self::Log(log) => log.level_at(now_ns),
        }
    }

    /// When nothing counted last, as far as it was looked at.
    pub fn full_at_ns(&self) -> u64 {
        match self {
            Self::Bucket(bucket) => bucket.full_at_ns(),
            Self::Window(window) => window.full_at_ns(),
            Self::Log(log) => log.full_at_ns(),
        }
    }

    /// Takes `cost` units if they are there.
    pub fn try_spend(&mut self, now_ns: u64, cost: u64) -> bool {
        match self {
            Self::Bucket(bucket) => bucket.try_spend(now_ns, cost),
            Self::Window(window) => window.try_spend(now_ns, cost),
            Self::Log(log) => log.try_spend(now_ns, cost),
        }
    }

    /// Takes `cost` units whether or not they are there.
    pub fn charge(&mut self, now_ns: u64, cost: u64) {
        self.charge_seen(now_ns, 0, cost);
    }

    /// The same in the window of a wall clock that is `ahead_ns` ahead of the true one.
    pub fn charge_seen(&mut self, now_ns: u64, ahead_ns: i64, cost: u64) {
        match self {
            Self::Bucket(bucket) => bucket.charge(now_ns, cost),
            Self::Window(window) => window.charge_seen(now_ns, ahead_ns, cost),
            Self::Log(log) => log.charge(now_ns, cost),
        }
    }

    /// Gives `units` back to a bucket, which is never fuller than full. Windows and logs are given nothing.
    pub fn give_back(&mut self, now_ns: u64, units: u64) {
        if let Self::Bucket(bucket) = self {
            bucket.give_back(now_ns, units);
        }
    }

    /// Ticks that may have come back in the `elapsed_ns` before `now_ns`, by a wall clock that is
    /// `ahead_ns` ahead.
    pub fn came(&self, now_ns: u64, ahead_ns: i64, elapsed_ns: u64) -> i128 {
        match self {
            Self::Bucket(bucket) => bucket.refill(elapsed_ns),
            Self::Window(window) => window.came(now_ns, ahead_ns, elapsed_ns),
            Self::Log(log) => log.came(now_ns, elapsed_ns),
        }
    }

    /// Ticks that may come back in the `elapsed_ns` after `now_ns`, if nothing more is spent.
    pub fn coming(&self, now_ns: u64, ahead_ns: i64, elapsed_ns: u64) -> i128 {
        match self {
            Self::Bucket(bucket) => bucket.refill(elapsed_ns),
            Self::Window(window) => window.coming(now_ns, ahead_ns, elapsed_ns),
            Self::Log(log) => log.coming(now_ns, elapsed_ns),
        }
    }

    /// Ticks that come back in `elapsed_ns` in the long run.
    pub fn on_average(&self, elapsed_ns: u64) -> i128 {
        let per_ns = |period_ns: u64| {
            let ticks = self.full() * i128::from(elapsed_ns);
            (ticks + i128::from(period_ns) - 1) / i128::from(period_ns)
        };
        match self {
            Self::Bucket(bucket) => bucket.refill(elapsed_ns),
            Self::Window(window) => per_ns(window.period_ns()),
            Self::Log(log) => per_ns(log.period_ns()),
        }
    }

    /// After which time a spend counts no more, in ns; none where that depends on what is spent after it.
    pub fn forgets_after_ns(&self) -> Option<u64> {
        match self {
            Self::Bucket(_) => None,
            Self::Window(window) => Some(window.forgets_after_ns()),
            Self::Log(log) => Some(log.period_ns()),
        }
    }

    /// How far the wall clock that is `ahead_ns` ahead is from the nearest edge of a window, in ns; none
    /// where there are no windows.
    pub fn from_edge_ns(&self, now_ns: u64, ahead_ns: i64) -> Option<u64> {
        match self {
            Self::Window(window) => Some(window.from_edge_ns(now_ns, ahead_ns)),
            Self::Bucket(_) | Self::Log(_) => None,
        }
    }

    /// Fewest ticks left so far after what was charged; full if nothing was.
    pub fn least(&self) -> i128 {
        match self {
            Self::Bucket(bucket) => bucket.least(),
            Self::Window(window) => window.worst().least(),
            Self::Log(log) => log.worst().least(),
        }
    }

    /// Deepest debt so far, in ticks, and when. Of a bucket: what was admitted above capacity and refill,
    /// over the worst of all windows. Of windows and logs: what counted above the limit, at worst.
    pub fn debt_max(&self) -> (i128, u64) {
        match self {
            Self::Bucket(bucket) => bucket.debt_max(),
            Self::Window(window) => window.worst().debt_max(),
            Self::Log(log) => log.worst().debt_max(),
        }
    }
}

/// The least that was left after a charge.
#[derive(Clone, Copy, Debug)]
pub struct Worst {
    least: i128,
    at_ns: u64,
}

impl Worst {
    fn new(full: i128) -> Self {
        Self { least: full, at_ns: 0 }
    }

    fn note(&mut self, level: i128, now_ns: u64) {
        if level < self.least {
            (self.least, self.at_ns) = (level, now_ns);
        }
    }

    /// Fewest ticks left.
    pub fn least(&self) -> i128 {
        self.least
    }

    /// Deepest debt, in ticks, and when.
    pub fn debt_max(&self) -> (i128, u64) {
        if self.least < 0 { (-self.least, self.at_ns) } else { (0, 0) }
    }
}
