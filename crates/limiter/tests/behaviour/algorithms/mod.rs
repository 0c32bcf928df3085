//! All five algorithms through the limiter's public face, on one node.

mod agreement;
mod full;
mod model;
mod rooms;
mod values;
mod walls;

use limiter::{Calendar, CalendarSpan, LOG_MAX, Limiter, Quota, Rate, Window};

use crate::support::SECOND;

/// 2026-12-01T12:00:00Z.
pub(crate) const NOON: u64 = 1_796_126_400 * SECOND;

/// A leaky bucket as a meter that holds `burst` units and drains `count` per `period_ns`.
pub(crate) fn meter(burst: u64, count: u64, period_ns: u64) -> Quota {
    Quota::LeakyBucket { rate: Rate { count, period_ns }, burst, queue: false }
}

/// The same as a queue.
pub(crate) fn queue(burst: u64, count: u64, period_ns: u64) -> Quota {
    Quota::LeakyBucket { rate: Rate { count, period_ns }, burst, queue: true }
}

/// `limit` units in each window of `period_ns`.
pub(crate) fn fixed(limit: u64, period_ns: u64) -> Quota {
    Quota::FixedWindow { limit, window: Window::Period(period_ns) }
}

/// `limit` units in each window of a calendar.
pub(crate) fn calendar(limit: u64, span: CalendarSpan, zone: &str) -> Quota {
    let calendar = Calendar::new(span, zone).unwrap();
    Quota::FixedWindow { limit, window: Window::Calendar(calendar) }
}

/// A sliding window counter of `limit` units per `period_ns`.
pub(crate) fn sliding(limit: u64, period_ns: u64) -> Quota {
    Quota::SlidingWindow { limit, period_ns }
}

/// A sliding log of `limit` units per `period_ns`.
pub(crate) fn log(limit: u64, period_ns: u64) -> Quota {
    Quota::SlidingLog { limit, period_ns }
}

/// `limit` units per `period_ns` by each algorithm, with its name; the buckets hold as many.
pub(crate) fn each(limit: u64, period_ns: u64) -> Vec<(&'static str, Quota)> {
    let rate = Rate { count: limit, period_ns };
    let mut all = vec![
        ("token-bucket", Quota::TokenBucket { rate, burst: limit }),
        ("leaky-bucket", meter(limit, limit, period_ns)),
        ("queue", queue(limit, limit, period_ns)),
        ("fixed-window", fixed(limit, period_ns)),
        ("sliding-window", sliding(limit, period_ns)),
    ];
    if limit <= LOG_MAX {
        all.push(("sliding-log", log(limit, period_ns)));
    }
    all
}

/// At `now_ns` it is so long after noon by the wall clock.
pub(crate) fn set_wall(limiter: &Limiter, now_ns: u64, after_noon_ns: u64) {
    limiter.set_wall(now_ns, NOON + after_noon_ns);
}
