//! The answer: what the limiter says to a request.

/// A wait, in nanoseconds. [`Wait::NEVER`] says that no wait helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wait(u64);

impl Wait {
    /// No wait.
    pub const ZERO: Self = Self(0);
    /// No wait helps: the call can never pass as it is.
    pub const NEVER: Self = Self(u64::MAX);

    /// A wait of `ns` nanoseconds; `u64::MAX` is [`Wait::NEVER`].
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds, `u64::MAX` for never.
    pub fn to_ns(self) -> u64 {
        self.0
    }

    /// Milliseconds, rounded up; none for never.
    pub fn to_ms(self) -> Option<u64> {
        (self != Self::NEVER).then(|| self.0.div_ceil(1_000_000))
    }

    /// Whole seconds, rounded up; none for never. The unit of HTTP and of CL.THROTTLE.
    pub fn to_secs(self) -> Option<u64> {
        (self != Self::NEVER).then(|| self.0.div_ceil(1_000_000_000))
    }
}

/// Why the answer is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// Allowed.
    Ok = 0,
    /// The limit has too few units left.
    Limit = 1,
    /// Units are left in the fleet, but they are not this node's to spend yet.
    Share = 2,
    /// The node is cut off and the limit says `when_isolated = "deny"`.
    Isolated = 3,
    /// The limit says `deny = true`, or `missing = "deny"` and the attribute is missing.
    Deny = 4,
    /// The key is banned.
    Banned = 5,
    /// No limit matched and the file says `unmatched = "deny"`.
    Unmatched = 6,
    /// The memory cap is met and the file says `when_full = "deny"`.
    Full = 7,
}

impl Reason {
    /// Every reason, in the order of its number on the wire.
    pub const ALL: [Self; 8] = [
        Self::Ok,
        Self::Limit,
        Self::Share,
        Self::Isolated,
        Self::Deny,
        Self::Banned,
        Self::Unmatched,
        Self::Full,
    ];

    /// The word used in JSON, logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Limit => "limit",
            Self::Share => "share",
            Self::Isolated => "isolated",
            Self::Deny => "deny",
            Self::Banned => "banned",
            Self::Unmatched => "unmatched",
            Self::Full => "full",
        }
    }
}

/// How well this node knows what the other nodes have let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Freshness {
    /// Every reachable peer was heard within two sync intervals.
    Synced = 0,
    /// A reachable peer was silent for two sync intervals.
    Stale = 1,
    /// Members are missing: the answer is about this group's part of the budget.
    Split = 2,
    /// The node does not know the fleet's counts yet.
    Starting = 3,
    /// There is no cluster.
    Alone = 4,
}

impl Freshness {
    /// Every freshness, in the order of its number on the wire.
    pub const ALL: [Self; 5] =
        [Self::Synced, Self::Stale, Self::Split, Self::Starting, Self::Alone];

    /// The word used in JSON, logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Synced => "synced",
            Self::Stale => "stale",
            Self::Split => "split",
            Self::Starting => "starting",
            Self::Alone => "alone",
        }
    }
}

/// What one limit says to a request. All numbers are that limit's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict<'p> {
    /// `name`, or `name/override`; empty when no limit matched.
    pub limit_name: &'p str,
    /// The request may go on, as far as this limit is concerned.
    pub allowed: bool,
    /// Why.
    pub reason: Reason,
    /// The limit is counted and reported, but decides nothing.
    pub shadow: bool,
    /// Capacity of the bucket, in units; none where there is no number: unlimited or unmatched.
    pub limit: Option<u64>,
    /// Whole units left after this call, at most `limit`; none where `limit` is none.
    pub remaining: Option<u64>,
    /// Time until the bucket is as if untouched.
    pub reset_after: Wait,
    /// Zero when allowed, else the smallest wait after which the same call would pass if nobody
    /// else called.
    pub retry_after: Wait,
    /// How long the caller must wait before it acts, although allowed.
    pub delay: Wait,
    /// Time in which an empty bucket fills: the window that `limit` is counted over. Zero where
    /// `limit` is none.
    pub window: Wait,
}

impl<'p> Verdict<'p> {
    /// The verdict of `limit_name`, for `reason`, where there is nothing to count: allowed if the
    /// reason is [`Reason::Ok`], else denied for ever.
    pub(crate) fn without_numbers(limit_name: &'p str, reason: Reason) -> Self {
        let allowed = reason == Reason::Ok;
        Self {
            limit_name,
            allowed,
            reason,
            shadow: false,
            limit: None,
            remaining: None,
            reset_after: Wait::ZERO,
            retry_after: if allowed { Wait::ZERO } else { Wait::NEVER },
            delay: Wait::ZERO,
            window: Wait::ZERO,
        }
    }

    /// Whether this verdict, rather than `other`, is the one that the answer names: a denial over
    /// none, a longer wait over a shorter, a smaller share left over a larger.
    pub(crate) fn decides_over(&self, other: &Self) -> bool {
        match (self.allowed, other.allowed) {
            (false, false) => self.retry_after > other.retry_after,
            (true, true) => self.has_less_left_than(other),
            (allowed, _) => !allowed,
        }
    }

    fn has_less_left_than(&self, other: &Self) -> bool {
        let share = |verdict: &Self| verdict.remaining.zip(verdict.limit);
        match (share(self), share(other)) {
            (Some((left, limit)), Some((other_left, other_limit))) => {
                u128::from(left) * u128::from(other_limit)
                    < u128::from(other_left) * u128::from(limit)
            }
            (mine, other) => mine.is_some() && other.is_none(),
        }
    }
}

/// The limiter's answer to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision<'p> {
    /// The limit that decided: on a denial, of those that deny, the one with the longest wait; when
    /// allowed, the one with the smallest remaining / limit.
    pub verdict: Verdict<'p>,
    /// How well the node knows the fleet's counts.
    pub freshness: Freshness,
    /// Age of the oldest news from a reachable peer, in milliseconds.
    pub stale_ms: u32,
    /// Every limit that applied, in the order of the file; empty unless asked for.
    pub details: Vec<Verdict<'p>>,
}
