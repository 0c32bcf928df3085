//! The algorithms as a file names them, with the same numbers for each.

use limiter::{Quota, Rate, Window};

/// One way to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    TokenBucket,
    LeakyBucket,
    LeakyQueue,
    FixedWindow,
    SlidingWindow,
    SlidingLog,
}

impl Algorithm {
    pub(crate) const ALL: [Self; 6] = [
        Self::TokenBucket,
        Self::LeakyBucket,
        Self::LeakyQueue,
        Self::FixedWindow,
        Self::SlidingWindow,
        Self::SlidingLog,
    ];

    /// A name for a limit, a key or an endpoint.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TokenBucket => "token-bucket",
            Self::LeakyBucket => "leaky-bucket",
            Self::LeakyQueue => "leaky-queue",
            Self::FixedWindow => "fixed-window",
            Self::SlidingWindow => "sliding-window",
            Self::SlidingLog => "sliding-log",
        }
    }

    /// The lines of the file for `limit` units in `period`, such as `30d`.
    pub(crate) fn lines(self, limit: u64, period: &str) -> String {
        match self {
            Self::TokenBucket | Self::LeakyBucket => {
                format!("algorithm = \"{}\"\nrate = \"{limit}/{period}\"\n", self.name())
            }
            Self::LeakyQueue => {
                format!("algorithm = \"leaky-bucket\"\nqueue = true\nrate = \"{limit}/{period}\"\n")
            }
            Self::FixedWindow | Self::SlidingWindow | Self::SlidingLog => {
                format!("algorithm = \"{}\"\nlimit = \"{limit} per {period}\"\n", self.name())
            }
        }
    }

    /// The same for the limiter.
    pub(crate) fn quota(self, limit: u64, period_ns: u64) -> Quota {
        let rate = Rate { count: limit, period_ns };
        match self {
            Self::TokenBucket => Quota::TokenBucket { rate, burst: limit },
            Self::LeakyBucket => Quota::LeakyBucket { rate, burst: limit, queue: false },
            Self::LeakyQueue => Quota::LeakyBucket { rate, burst: limit, queue: true },
            Self::FixedWindow => Quota::FixedWindow { limit, window: Window::Period(period_ns) },
            Self::SlidingWindow => Quota::SlidingWindow { limit, period_ns },
            Self::SlidingLog => Quota::SlidingLog { limit, period_ns },
        }
    }

    /// A limit of each, at an endpoint of its name.
    pub(crate) fn limit_of_each(limit: u64, period: &str) -> String {
        let one = |it: &Self| {
            let (name, lines) = (it.name(), it.lines(limit, period));
            format!("[[limit]]\nname = \"{name}\"\nendpoint = \"{name}\"\n{lines}\n")
        };
        Self::ALL.iter().map(one).collect()
    }

    /// One limit of which each algorithm has an override, for the key of its name.
    pub(crate) fn key_of_each(limit: u64, period: &str) -> String {
        let one = |it: &Self| {
            let (name, lines) = (it.name(), it.lines(limit, period));
            format!("[[limit.override]]\nname = \"{name}\"\nkeys = [\"{name}\"]\n{lines}\n")
        };
        let base = format!("[[limit]]\nname = \"per-key\"\nrate = \"{limit}/{period}\"\n\n");
        base + &Self::ALL.iter().map(one).collect::<String>()
    }
}
