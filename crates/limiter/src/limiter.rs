//! The limiter: resolves a request to its buckets, tests all of them, and spends in all or in none.

use smallvec::SmallVec;

use crate::counters::{Counters, Counts, Event, Outcome};
use crate::hit::{Hit, State};
use crate::identity::BucketHasher;
use crate::matching::Slot;
use crate::plan::{Allowance, Plan};
use crate::store::{Locked, Place, Store};
use crate::template::MissingAttribute;
use crate::{
    Decision, Freshness, Missing, Op, Reason, Request, RequestError, Unmatched, Verdict, WhenFull,
};

/// Bounds and secret of the store.
#[derive(Clone, Copy, Debug)]
pub struct StoreConfig {
    /// Memory that full tables may take, in bytes, with what the allocator adds to them. Less than a
    /// single table of eight entries counts as that.
    pub memory_bytes: u64,
    /// Most entries; none: as many as the memory holds.
    pub entries_max: Option<u64>,
    /// What a new key gets when the cap is met and nothing is at rest.
    pub when_full: WhenFull,
    /// Keys the hash that is a bucket's identity, so that nobody outside can choose keys that share
    /// a bucket. The nodes of a cluster have the same.
    pub secret: [u8; 16],
}

/// What the store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Entries held. A bucket that is as if untouched needs none.
    pub entries: u64,
    /// Most entries.
    pub entries_max: u64,
    /// Bytes of the tables.
    pub table_bytes: u64,
}

/// A rate limiter on one node. Shared by reference between threads.
#[derive(Debug)]
pub struct Limiter {
    plan: Plan,
    hasher: BucketHasher,
    store: Store,
    when_full: WhenFull,
    counters: Counters,
}

impl Limiter {
    /// A limiter with every bucket full.
    pub fn new(plan: Plan, config: StoreConfig) -> Self {
        Self {
            hasher: BucketHasher::new(&config.secret),
            store: Store::new(config.memory_bytes, config.entries_max, &plan),
            when_full: config.when_full,
            counters: Counters::new(plan.rules().len()),
            plan,
        }
    }

    /// The limits in force.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Decides `request` at `now_ns`, nanoseconds of one monotonic clock; a reading older than the
    /// last counts as no time passed.
    ///
    /// # Errors
    /// A request outside the bounds; nothing is changed.
    pub fn decide(&self, now_ns: u64, request: &Request<'_>) -> Result<Decision<'_>, RequestError> {
        request.validate()?;
        let matched = self.plan.matched(request);
        if let [slot] = matched.as_slice() {
            // Nearly every request meets one limit, and is spared the lists.
            let mut hit = self.hit(*slot, request);
            return Ok(self.decide_hits(now_ns, request, hit.as_mut_slice()));
        }
        let hits = matched.iter().filter_map(|slot| self.hit(*slot, request));
        Ok(self.decide_hits(now_ns, request, &mut hits.collect::<SmallVec<[_; 4]>>()))
    }

    /// Visits up to `buckets` buckets of the store, from where the last call stopped, and drops the
    /// entries at rest. See [`Limiter::sweep_round`].
    pub fn sweep(&self, now_ns: u64, buckets: usize) {
        let expired = self.store.sweep(now_ns, buckets, &self.plan);
        self.counters.event(now_ns, Event::Expired, expired);
    }

    /// Buckets that make a whole round of the store: a caller that wants one in ten seconds sweeps a
    /// five-hundredth of this every 20 ms.
    pub fn sweep_round(&self) -> usize {
        self.store.sweep_round()
    }

    /// What the store holds. Visits every shard: for metrics, not for every request.
    pub fn usage(&self) -> Usage {
        let (entries, table_bytes) = self.store.usage();
        Usage { entries, entries_max: self.store.entries_max(), table_bytes }
    }

    /// What was decided since the start.
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// The rule at `slot` as it applies to `request`, not yet looked up; none where the request lacks
    /// an attribute of the key.
    fn hit<'p>(&'p self, slot: Slot, request: &Request<'_>) -> Option<Hit<'p>> {
        let rule = self.plan.rule(slot);
        let state = match &rule.allowance {
            Allowance::Unlimited => State::Unlimited,
            Allowance::Deny => State::Deny,
            Allowance::TokenBucket(bucket) => {
                match self.hasher.hash(rule.id(), &rule.template, request) {
                    Ok(hash) => State::unseated(bucket, hash),
                    Err(MissingAttribute) => {
                        self.counters.event(u64::from(slot), Event::Missing, 1);
                        match rule.missing {
                            Missing::Skip => return None,
                            Missing::Deny => State::Deny,
                        }
                    }
                }
            }
        };
        Some(Hit { slot, rule, cost: request.cost_in(&rule.unit), state, denial: None })
    }

    /// Tests all of `hits`, spends in all or none, and puts the answer together.
    #[inline]
    fn decide_hits<'p>(
        &'p self,
        now_ns: u64,
        request: &Request<'_>,
        hits: &mut [Hit<'p>],
    ) -> Decision<'p> {
        let is_unmatched = hits.iter().all(|hit| hit.rule.shadow);
        let mut locked = self.store.lock(hits.iter().filter_map(Hit::hash), now_ns, &self.plan);
        let mut refused = is_unmatched && self.plan.unmatched() == Unmatched::Deny;
        for hit in hits.iter_mut() {
            self.seat(hit, &mut locked);
            hit.test(request.op);
            refused |= hit.denial.is_some() && !hit.rule.shadow;
        }
        refused &= request.op == Op::Check;
        for hit in hits.iter_mut() {
            if !refused {
                self.apply(request.op, hit, &mut locked);
            }
            self.count(request, hit, refused);
        }
        let evicted = locked.evicted();
        drop(locked);
        self.counters.event(now_ns, Event::Evicted, evicted);
        self.counters.event(now_ns, Event::Unmatched, u64::from(is_unmatched));
        self.decision(request, hits)
    }

    /// Looks the bucket of `hit` up, or finds that there is no room for it.
    fn seat(&self, hit: &mut Hit<'_>, locked: &mut Locked<'_>) {
        let State::Bucket { hash, .. } = &hit.state else { return };
        let (mut place, mut full_at) = locked.find(*hash);
        if place == Place::None {
            self.counters.event(*hash, Event::Full, 1);
            match self.when_full {
                WhenFull::Overflow => (place, full_at) = locked.find_overflow(hit.slot),
                WhenFull::Allow => return hit.state = State::Uncounted,
                WhenFull::Deny => return hit.state = State::Full,
            }
        }
        hit.sit(place, full_at, locked.now_ns());
    }

    /// Changes the bucket of `hit` as `op` says.
    fn apply(&self, op: Op, hit: &mut Hit<'_>, locked: &mut Locked<'_>) {
        if hit.denial.is_some() {
            return;
        }
        let State::Bucket { bucket, hash, seat } = &mut hit.state else { return };
        let after = match op {
            Op::Peek => return,
            Op::Check => bucket.spend(seat.missing, hit.cost),
            Op::Debit => {
                let (after, clipped) = bucket.debit(seat.missing, hit.cost);
                self.counters.event(*hash, Event::DebitClipped, u64::from(clipped));
                after
            }
            Op::Refund => bucket.refund(seat.missing, hit.cost),
            Op::Reset => {
                locked.remove(seat.place, *hash, hit.slot);
                seat.missing = 0;
                return;
            }
        };
        if after != seat.missing {
            locked.write(seat.place, *hash, hit.slot, seat.tick.wrapping_add(after));
            seat.missing = after;
        }
    }

    /// The answer, from what each limit says.
    fn decision<'p>(&self, request: &Request<'_>, hits: &[Hit<'p>]) -> Decision<'p> {
        let mut deciding: Option<&Hit<'p>> = None;
        for hit in hits.iter().filter(|hit| !hit.rule.shadow) {
            if deciding.is_none_or(|other| hit.verdict().decides_over(&other.verdict())) {
                deciding = Some(hit);
            }
        }
        let verdict = deciding.map_or_else(
            || {
                let denies = self.plan.unmatched() == Unmatched::Deny;
                let denied = denies && matches!(request.op, Op::Check | Op::Peek);
                Verdict::without_numbers("", if denied { Reason::Unmatched } else { Reason::Ok })
            },
            Hit::verdict,
        );
        let details =
            if request.details { hits.iter().map(Hit::verdict).collect() } else { Vec::new() };
        Decision { verdict, freshness: Freshness::Alone, stale_ms: 0, details }
    }

    fn count(&self, request: &Request<'_>, hit: &Hit<'_>, refused: bool) {
        let outcome = match request.op {
            _ if request.is_peek() => Outcome::Peek,
            Op::Debit => Outcome::Debit,
            Op::Refund => Outcome::Refund,
            Op::Reset | Op::Peek => return,
            Op::Check if hit.denial.is_some() && hit.rule.shadow => Outcome::ShadowDenied,
            Op::Check if hit.denial.is_some() => Outcome::Denied,
            // It would have passed, but another limit refused the request.
            Op::Check if refused => return,
            Op::Check => Outcome::Allowed,
        };
        let spends = matches!(outcome, Outcome::Allowed | Outcome::Debit) && hit.takes_units();
        let units = if spends { hit.cost } else { 0 };
        self.counters.add(hit.hash().unwrap_or(0), hit.slot, outcome, units);
    }
}
