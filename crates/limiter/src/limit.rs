//! What an operator wrote, checked for meaning but not yet compiled: limits and their overrides.

use crate::Calendar;

/// Most limits and overrides together; each has a 16-bit slot.
pub const RULES_MAX: usize = 65_535;
/// Longest name of a limit or override, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// A limit: which requests it applies to, what it counts, and how much it lets through.
#[derive(Clone, Debug)]
pub struct Limit {
    /// Name: 1 to [`NAME_BYTES_MAX`] printable ASCII characters without `"`, `\` and `/`.
    pub name: String,
    /// The requests that the limit applies to.
    pub selector: Selector,
    /// What has a bucket of its own, as written: `{key}`, `{ip}`, `{tenant}:{endpoint}`, `*`.
    pub key: String,
    /// The unit it counts.
    pub unit: String,
    /// How much it lets through.
    pub quota: Quota,
    /// What happens to a request that lacks an attribute of the key.
    pub missing: Missing,
    /// Bits of an IPv6 address that make the key where the key is an address: 1 to 128.
    pub ipv6_prefix: u8,
    /// Counted and reported, decides nothing.
    pub shadow: bool,
    /// How the nodes of a cluster share it.
    pub accuracy: Accuracy,
    /// What happens on a node that reaches too few of the members.
    pub when_isolated: WhenIsolated,
    /// Exceptions. The most specific one that matches decides instead of the limit.
    pub overrides: Vec<Override>,
}

impl Limit {
    /// A limit of `quota` on every request, one bucket per key.
    pub fn new(name: impl Into<String>, quota: Quota) -> Self {
        Self {
            name: name.into(),
            selector: Selector::default(),
            key: "{key}".into(),
            unit: crate::DEFAULT_UNIT.into(),
            quota,
            missing: Missing::Skip,
            ipv6_prefix: 64,
            shadow: false,
            accuracy: Accuracy::Balanced,
            when_isolated: WhenIsolated::Split,
            overrides: Vec::new(),
        }
    }
}

/// An exception to a limit, with buckets of its own.
#[derive(Clone, Debug)]
pub struct Override {
    /// Name, by the rules of [`Limit::name`]; derived from the selector when left out.
    pub name: Option<String>,
    /// The requests, among those of the limit, that it applies to. Must select something.
    pub selector: Selector,
    /// How much it lets through.
    pub quota: Quota,
}

/// Which requests a limit or override applies to. Every part that is given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// Exact (`POST /search`), template (`/users/{id}`) or prefix (`/static/*`); method optional.
    pub endpoint: Option<String>,
    /// Attribute names and the values they must have.
    pub attributes: Vec<(String, String)>,
    /// Values of the bucket's key. Only where the key is a single `{name}`.
    pub keys: Vec<Vec<u8>>,
}

/// How much a limit or override lets through, and by which algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Quota {
    /// Nothing.
    Deny,
    /// Everything.
    Unlimited,
    /// A token bucket that holds `burst` units and refills at `rate`.
    TokenBucket {
        /// Refill.
        rate: Rate,
        /// Capacity, in units; at least 1.
        burst: u64,
    },
    /// A leaky bucket that drains at `rate`.
    LeakyBucket {
        /// The rate at which it drains.
        rate: Rate,
        /// Capacity, in units; at least 1.
        burst: u64,
        /// What it holds waits its turn ([`Verdict::delay`](crate::Verdict::delay)), so that calls
        /// leave at `rate`; else it is a meter, and calls that fit leave at once.
        queue: bool,
    },
    /// At most `limit` units in each window.
    FixedWindow {
        /// Units; at least 1.
        limit: u64,
        /// The windows.
        window: Window,
    },
    /// At most `limit` units in this window and, by the part of it that still lies within one period,
    /// the window before.
    SlidingWindow {
        /// Units; at least 1.
        limit: u64,
        /// Length of a window, in nanoseconds: whole milliseconds, at least one.
        period_ns: u64,
    },
    /// At most `limit` units in any period, exactly: the time of each is kept.
    SlidingLog {
        /// Units: 1 to [`LOG_MAX`].
        limit: u64,
        /// Length of the period, in nanoseconds.
        period_ns: u64,
    },
    /// A token bucket with the numbers that each call carries: only the carried limit
    /// ([`crate::CARRIED`]) has it.
    Carried,
}

/// Most units that a sliding log may allow in a period: each takes eight bytes while it counts.
pub const LOG_MAX: u64 = 10_000;

/// How time is cut into fixed windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Window {
    /// Windows of so many nanoseconds (whole milliseconds, at least one), counted from the Unix epoch.
    Period(u64),
    /// Days, weeks, months or years of a time zone.
    Calendar(Calendar),
}

impl Quota {
    /// The name of the algorithm, as the file writes it; none where nothing is counted.
    pub fn algorithm(&self) -> Option<&'static str> {
        match self {
            Self::Deny | Self::Unlimited => None,
            Self::TokenBucket { .. } => Some("token-bucket"),
            Self::LeakyBucket { .. } => Some("leaky-bucket"),
            Self::FixedWindow { .. } => Some("fixed-window"),
            Self::SlidingWindow { .. } => Some("sliding-window"),
            Self::SlidingLog { .. } => Some("sliding-log"),
            Self::Carried => Some("carried"),
        }
    }
}

/// A rate: `count` units per `period_ns` nanoseconds, both at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rate {
    /// Units.
    pub count: u64,
    /// Nanoseconds.
    pub period_ns: u64,
}

/// How the nodes of a cluster share a limit: what a node may have in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accuracy {
    /// Its share of the level, and a check may be held until peers know of the demand.
    Balanced,
    /// The same and up to eight units more on every node; a check never waits.
    Fast,
}

/// What a limit does on a node whose group is isolated: it has less than half of the members, or
/// exactly half without the first of them by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenIsolated {
    /// The group lives on its part of the limit, as any group does.
    Split,
    /// Everything passes. It is counted, into bounded debt.
    Allow,
    /// Nothing passes.
    Deny,
}

/// What happens to a request that lacks an attribute of the limit's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The limit does not apply. Counted.
    Skip,
    /// The request is denied, with reason `deny`. Counted.
    Deny,
}

/// What happens to a request that no limit matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmatched {
    /// Allowed. Counted.
    Allow,
    /// Denied, with reason `unmatched`. Counted.
    Deny,
}

/// What happens to a new key when the memory cap is met and no entry is at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// All such keys share one bucket per limit.
    Overflow,
    /// Allowed without being counted in that limit.
    Allow,
    /// Denied, with reason `full`.
    Deny,
}
