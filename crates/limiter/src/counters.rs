//! What was decided, counted by limit and outcome.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use crate::rule::Rule;

/// Sets of counters. Threads that decide different keys mostly count in different sets, so that they
/// do not pass one cache line back and forth; a reader adds the sets up.
const STRIPES: usize = 8;

/// What one rule decided since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCounts {
    /// Checks that it and every other limit allowed.
    pub allowed: u64,
    /// Checks that it denied.
    pub denied: u64,
    /// Checks that it would have denied, were it not a shadow.
    pub shadow_denied: u64,
    /// Peeks.
    pub peeks: u64,
    /// Debits.
    pub debits: u64,
    /// Refunds.
    pub refunds: u64,
    /// Units spent by checks and debits.
    pub units: u64,
    /// Denials of checks for want of a share while it had units left.
    pub share_denied: u64,
}

/// What the limiter decided since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// In the order of [`crate::Plan::rules`].
    pub rules: Vec<RuleCounts>,
    /// Requests that no limit matched.
    pub unmatched: u64,
    /// Limits that did not apply, or denied, for want of an attribute of their key.
    pub missing: u64,
    /// Buckets that found no room in the store and were answered by `when_full`.
    pub full: u64,
    /// Entries at rest that made room for a new key.
    pub evicted: u64,
    /// Entries at rest that the sweep dropped.
    pub expired: u64,
    /// Debits cut at the bound of a bucket's debt.
    pub debits_clipped: u64,
    /// Checks and peeks of those who are banned.
    pub banned: u64,
    /// Requests of those who are always allowed.
    pub listed: u64,
}

/// What can happen to one rule in one request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Allowed,
    Denied,
    ShadowDenied,
    Peek,
    Debit,
    Refund,
}

/// What can happen to the limiter as a whole.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Unmatched,
    Missing,
    Full,
    Evicted,
    Expired,
    DebitClipped,
    Banned,
    Listed,
}

/// Outcomes of a rule, then its units and its denials for want of a share.
const RULE_COUNTERS: usize = 8;
const UNITS: usize = RULE_COUNTERS - 2;
const SHARE_DENIED: usize = RULE_COUNTERS - 1;
const EVENTS: usize = 8;

/// What one rule decided. It outlives the plan: the rule of the next one goes on with it.
#[derive(Debug, Default)]
pub(crate) struct Tally([CachePadded<[AtomicU64; RULE_COUNTERS]>; STRIPES]);

impl Tally {
    /// Counts `outcome` and `units` spent. `spread` picks the set.
    pub(crate) fn add(&self, spread: u64, outcome: Outcome, units: u64) {
        let counters = self.stripe(spread);
        counters[outcome as usize].fetch_add(1, Ordering::Relaxed);
        if units > 0 {
            counters[UNITS].fetch_add(units, Ordering::Relaxed);
        }
    }

    /// Counts a check that was denied for want of a share.
    pub(crate) fn share_denied(&self, spread: u64) {
        self.stripe(spread)[SHARE_DENIED].fetch_add(1, Ordering::Relaxed);
    }

    fn stripe(&self, spread: u64) -> &[AtomicU64; RULE_COUNTERS] {
        &self.0[stripe_of(spread)]
    }

    fn read(&self) -> RuleCounts {
        let counter = |at: usize| {
            let of = |stripe: &CachePadded<[AtomicU64; RULE_COUNTERS]>| {
                stripe[at].load(Ordering::Relaxed)
            };
            self.0.iter().map(of).fold(0, u64::wrapping_add)
        };
        RuleCounts {
            allowed: counter(Outcome::Allowed as usize),
            denied: counter(Outcome::Denied as usize),
            shadow_denied: counter(Outcome::ShadowDenied as usize),
            peeks: counter(Outcome::Peek as usize),
            debits: counter(Outcome::Debit as usize),
            refunds: counter(Outcome::Refund as usize),
            units: counter(UNITS),
            share_denied: counter(SHARE_DENIED),
        }
    }
}

/// What happened to the limiter as a whole.
#[derive(Debug, Default)]
pub(crate) struct Counters([CachePadded<[AtomicU64; EVENTS]>; STRIPES]);

impl Counters {
    /// Counts `n` times `event`. `spread` picks the set.
    pub(crate) fn event(&self, spread: u64, event: Event, n: u64) {
        if n > 0 {
            self.0[stripe_of(spread)][event as usize].fetch_add(n, Ordering::Relaxed);
        }
    }

    /// Adds everything up, with what `rules` decided.
    pub(crate) fn read(&self, rules: &[Rule]) -> Counts {
        let event = |event: Event| {
            let of = |stripe: &CachePadded<[AtomicU64; EVENTS]>| {
                stripe[event as usize].load(Ordering::Relaxed)
            };
            self.0.iter().map(of).fold(0, u64::wrapping_add)
        };
        let tally =
            |rule: &Rule| rule.tally.as_deref().map_or_else(RuleCounts::default, Tally::read);
        Counts {
            rules: rules.iter().map(tally).collect(),
            unmatched: event(Event::Unmatched),
            missing: event(Event::Missing),
            full: event(Event::Full),
            evicted: event(Event::Evicted),
            expired: event(Event::Expired),
            debits_clipped: event(Event::DebitClipped),
            banned: event(Event::Banned),
            listed: event(Event::Listed),
        }
    }
}

fn stripe_of(spread: u64) -> usize {
    // The low bits of a hash; those that choose the shard are others.
    usize::try_from(spread % STRIPES as u64).unwrap_or(0)
}
