//! The limiter: resolves a request to its buckets, tests all of them, and spends in all or in none.

use std::ops::Deref;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use hashbrown::HashMap;
use parking_lot::{RecursiveRwLock, RecursiveRwLockReadGuard};
use smallvec::SmallVec;

use crate::acts::Acts;
use crate::counters::{Counters, Counts, Event};
use crate::force::InForce;
use crate::hit::{Hit, State};
use crate::identity::BucketHasher;
use crate::matching::RuleIndex;
use crate::names::Names;
use crate::plan::Plan;
use crate::question::Question;
use crate::rule::{Allowance, Rule};
use crate::share::{Fleet, View};
use crate::store::{Space, Store};
use crate::template::MissingAttribute;
use crate::ticket::{Answer, Ticket};
use crate::{
    Decision, Missing, Op, ReplaceError, Request, RequestError, Spend, Terms, Unmatched, WhenFull,
    Witness,
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

/// What a member of a cluster knows when it starts.
#[derive(Clone, Debug)]
pub struct ShareConfig {
    /// Time between two exchanges with peers, in ns; at least 1.
    pub sync_interval_ns: u64,
    /// Who the members are.
    pub view: View,
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
    current: ArcSwap<InForce>,
    /// Held while what exchanges with peers reads or changes buckets, and, alone, while limits are replaced.
    gate: RecursiveRwLock<()>,
    names: Names,
    hasher: BucketHasher,
    store: Store,
    when_full: WhenFull,
    counters: Counters,
    acts: Acts,
    /// None where there is no cluster.
    fleet: Option<Fleet>,
    /// None where nobody keeps a record.
    witness: Option<Arc<dyn Witness>>,
}

impl Limiter {
    /// A limiter with every bucket full, on a node of its own.
    pub fn new(plan: Plan, config: StoreConfig) -> Self {
        Self::build(plan, config, None)
    }

    /// A limiter with every bucket full, on a member of a cluster. Whoever exchanges with the peers
    /// drives it by the calls of the sync side; until then it is alone with its part.
    pub fn new_member(plan: Plan, config: StoreConfig, share: ShareConfig) -> Self {
        Self::build(plan, config, Some(share))
    }

    fn build(plan: Plan, config: StoreConfig, share: Option<ShareConfig>) -> Self {
        let fleet = share.as_ref().map(|share| Fleet::new(share.sync_interval_ns.max(1)));
        let view = share.map(|share| share.view);
        let me = view.as_ref().and_then(|view| view.members.iter().find(|it| it.index == view.me));
        let acts = Acts::new(me.and_then(|member| member.id));
        let (mut plan, names) = (plan, Names::default());
        for rule in plan.rules_mut() {
            rule.name_at = names.place(&rule.name).unwrap_or(usize::MAX);
            rule.tally = Some(Arc::default());
        }
        let store = Store::new(config.memory_bytes, config.entries_max, &plan, view);
        let space = store.space_for(&plan);
        Self {
            current: ArcSwap::from_pointee(InForce::new(plan, 0, space, HashMap::new())),
            gate: RecursiveRwLock::new(()),
            names,
            hasher: BucketHasher::new(&config.secret),
            store,
            when_full: config.when_full,
            counters: Counters::default(),
            acts,
            fleet,
            witness: None,
        }
    }

    /// The same limiter, which tells `witness` of every spend.
    #[must_use]
    pub fn with_witness(mut self, witness: Arc<dyn Witness>) -> Self {
        self.witness = Some(witness);
        self
    }

    /// Names the secret: limiters that say the same give the same hash to the same bucket of the same
    /// limit. It tells nothing else about the secret.
    pub fn fingerprint(&self) -> u64 {
        self.hasher.fingerprint()
    }

    pub(crate) fn acts(&self) -> &Acts {
        &self.acts
    }

    pub(crate) fn fleet(&self) -> Option<&Fleet> {
        self.fleet.as_ref()
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Takes over what the wall clock says: at `now_ns` it is `unix_ns` nanoseconds after the Unix epoch.
    /// Windows follow it, and nothing else; a window that has begun ends when it would have. Until it is
    /// called the two clocks are one.
    pub fn set_wall(&self, now_ns: u64, unix_ns: u64) {
        self.store.set_wall(now_ns, unix_ns);
    }

    /// The limits in force. They may be others at the next call.
    pub fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.current.load().plan)
    }

    /// Number of the limits in force: it grows with each change.
    pub fn plan_number(&self) -> u64 {
        self.current.load().number
    }

    /// What is in force at this moment: a later plan may take its place at any time.
    pub(crate) fn in_force(&self) -> Guard<Arc<InForce>> {
        self.current.load()
    }

    /// What is in force, and stays so until this is dropped.
    pub(crate) fn steady(&self) -> Steady<'_> {
        // Calls of the sync side call each other: a writer that waits must not come between.
        let gate = self.gate.read();
        Steady { force: self.current.load(), _gate: gate }
    }

    /// Puts `force` in force, and brings every shard to it. Nobody else does so at the same time.
    pub(crate) fn put_in_force(
        &self,
        make: impl FnOnce(&InForce) -> Result<InForce, ReplaceError>,
        now_ns: u64,
    ) -> Result<(), ReplaceError> {
        let _gate = self.gate.write();
        let force = Arc::new(make(&self.current.load())?);
        self.current.store(Arc::clone(&force));
        self.store.for_each(now_ns, &force, |_, _| {});
        self.store.adopt_overflow(now_ns, &force);
        if let Some(fleet) = &self.fleet {
            fleet.forget_debts(force.removed());
        }
        Ok(())
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// What a shard may hold where `plan` is in force.
    pub(crate) fn space_for(&self, plan: &Plan) -> Space {
        self.store.space_for(plan)
    }

    /// Decides `request` at `now_ns`, nanoseconds of one monotonic clock; a reading older than the
    /// last counts as no time passed. Never waits: what could be held is denied, for the reason
    /// [`Reason::Share`](crate::Reason::Share).
    ///
    /// # Errors
    /// A request outside the bounds; nothing is changed.
    #[inline]
    pub fn decide(&self, now_ns: u64, request: &Request<'_>) -> Result<Decision<'_>, RequestError> {
        self.ask(now_ns, request, false, &mut None)
    }

    /// The same, but a check that is refused only because peers do not yet know of this node's demand
    /// is held if `may_hold`.
    ///
    /// # Errors
    /// As [`Limiter::decide`].
    pub fn check(
        &self,
        now_ns: u64,
        request: &Request<'_>,
        may_hold: bool,
    ) -> Result<Answer<'_>, RequestError> {
        let mut held = None;
        let decision = self.ask(now_ns, request, may_hold, &mut held)?;
        Ok(held.map_or(Answer::Decided(decision), Answer::Held))
    }

    fn ask(
        &self,
        now_ns: u64,
        request: &Request<'_>,
        may_hold: bool,
        held: &mut Option<Ticket>,
    ) -> Result<Decision<'_>, RequestError> {
        request.validate()?;
        let question = Question::of(request, may_hold);
        if let Some(terms) = request.terms {
            return self.ask_carried(now_ns, request, terms, &question, held);
        }
        loop {
            // A plan that takes the place of this one before the shards are locked is met there: then the
            // request is matched anew, so that one plan decides it as a whole.
            let force = self.in_force();
            if let Some(standing) = self.standing(now_ns, &force, request)
                && let Some(decision) = self.listed(now_ns, &question, standing)
            {
                return Ok(decision);
            }
            let matched = force.matched(request);
            if let [index] = matched.as_slice() {
                // Nearly every request meets one limit, and is spared the lists.
                let mut hit = self.hit(&force, *index, request);
                let hits = hit.as_mut_slice();
                if self.decide_hits(now_ns, &question, &force, hits, held) {
                    return Ok(self.decision(&question, &force, hits.iter()));
                }
                continue;
            }
            let hits = matched.iter().filter_map(|index| self.hit(&force, *index, request));
            let mut hits = hits.collect::<SmallVec<[_; 4]>>();
            if self.decide_hits(now_ns, &question, &force, &mut hits, held) {
                return Ok(self.decision(&question, &force, hits.iter()));
            }
        }
    }

    /// Decides a request that carries `terms`: the carried limit does, and no other.
    fn ask_carried(
        &self,
        now_ns: u64,
        request: &Request<'_>,
        terms: Terms,
        question: &Question,
        held: &mut Option<Ticket>,
    ) -> Result<Decision<'_>, RequestError> {
        loop {
            let force = self.in_force();
            let mut hit = self.carried_hit(&force, request, terms)?;
            if let Some(standing) = self.standing(now_ns, &force, request)
                && let Some(decision) = self.listed(now_ns, question, standing)
            {
                return Ok(decision);
            }
            let hits = std::slice::from_mut(&mut hit);
            if self.decide_hits(now_ns, question, &force, hits, held) {
                return Ok(self.decision(question, &force, hits.iter()));
            }
        }
    }

    /// Visits up to `buckets` buckets of the store, from where the last call stopped, and drops the
    /// entries at rest, and ends bans and overrides that are due. See [`Limiter::sweep_round`].
    pub fn sweep(&self, now_ns: u64, buckets: usize) {
        self.end_acts(now_ns);
        let expired = self.store.sweep(now_ns, buckets, &self.steady());
        self.counters.event(now_ns, Event::Expired, expired);
    }

    /// Buckets that make a whole round of the store: a caller that wants one in ten seconds sweeps a
    /// five-hundredth of this every 20 ms.
    pub fn sweep_round(&self) -> usize {
        self.store.sweep_round(&self.in_force())
    }

    /// What the store holds. Visits every shard: for metrics, not for every request.
    pub fn usage(&self) -> Usage {
        let (entries, table_bytes) = self.store.usage();
        Usage { entries, entries_max: self.store.entries_max(&self.in_force()), table_bytes }
    }

    /// What was decided since the start, by the limits in force.
    pub fn counts(&self) -> Counts {
        self.counts_of(&self.in_force())
    }

    /// What was decided since the start, by the limits of `plan`, which is or was in force here.
    pub fn counts_of(&self, plan: &Plan) -> Counts {
        self.counters.read(plan.rules())
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What a new key gets when there is no room for it.
    pub(crate) fn when_full(&self) -> WhenFull {
        self.when_full
    }

    /// The identity of the bucket that `rule` counts `request` in.
    pub(crate) fn bucket_hash(
        &self,
        rule: &Rule,
        request: &Request<'_>,
    ) -> Result<u64, MissingAttribute> {
        self.hasher.hash(rule.id(), &rule.template, request)
    }

    /// The rule at `index` as it applies to `request`, not yet looked up; none where the request lacks
    /// an attribute of the key.
    pub(crate) fn hit<'p>(
        &self,
        plan: &'p Plan,
        index: RuleIndex,
        request: &Request<'_>,
    ) -> Option<Hit<'p>> {
        let rule = plan.rule_at(index);
        let slot = rule.slot;
        let state = match &rule.allowance {
            Allowance::Unlimited => State::Unlimited,
            Allowance::Deny | Allowance::Carried => State::Deny { capacity: 0 },
            Allowance::Counted(shared) => {
                match self.hasher.hash(rule.id(), &rule.template, request) {
                    Ok(hash) => State::unseated(shared, hash),
                    Err(MissingAttribute) => {
                        self.counters.event(u64::from(slot), Event::Missing, 1);
                        match rule.missing {
                            Missing::Skip => return None,
                            Missing::Deny => State::Deny { capacity: shared.capacity() },
                        }
                    }
                }
            }
        };
        let cost = request.cost_in(&rule.unit);
        Some(Hit { slot, rule, cost, terms: None, state, denial: None })
    }

    /// Tests all of `hits` and spends in all or none; [`Limiter::decision`] puts the answer together. If the
    /// check is held instead, `held` says so; the answer is then what it would be if it were not. False: the
    /// limits are no longer those of `force`, and nothing was changed.
    #[inline]
    pub(crate) fn decide_hits(
        &self,
        now_ns: u64,
        question: &Question,
        force: &InForce,
        hits: &mut [Hit<'_>],
        held: &mut Option<Ticket>,
    ) -> bool {
        let hashes = hits.iter().filter_map(Hit::hash);
        let Some(mut locked) = self.store.lock(hashes, now_ns, force) else { return false };
        let is_unmatched = hits.iter().all(|hit| hit.rule.shadow);
        let mut refused = is_unmatched && force.unmatched() == Unmatched::Deny;
        for hit in hits.iter_mut() {
            self.seat(question, hit, &mut locked);
            self.test(question.op, hit, &locked);
            refused |= hit.denial.is_some() && !hit.rule.shadow;
        }
        refused &= question.op == Op::Check;
        if self.fleet.is_some() && question.op == Op::Check {
            self.claim(question, hits, &mut locked);
            if refused {
                *held = self.hold(question, hits, &mut locked);
                if held.is_some() {
                    hits.iter_mut().for_each(|hit| hit.note_times(&locked));
                    return true;
                }
                self.count_share_denied(hits);
            }
        }
        let has_times = hits.iter().any(|hit| hit.rule.has_times);
        // What is charged afterwards has acted already, and what is given back never does.
        if has_times && matches!(question.op, Op::Check | Op::Peek) {
            hits.iter_mut().for_each(|hit| hit.note_queue(false));
        }
        for hit in hits.iter_mut() {
            if !refused {
                self.apply(question.op, hit, &mut locked);
            }
            self.tally(question, hit, refused);
        }
        if has_times {
            hits.iter_mut().for_each(|hit| hit.note_times(&locked));
        }
        let (evicted, at_ns) = (locked.evicted(), locked.now_ns());
        drop(locked);
        self.testify(question.op, refused, at_ns, hits);
        self.counters.event(now_ns, Event::Evicted, evicted);
        self.counters.event(now_ns, Event::Unmatched, u64::from(is_unmatched));
        true
    }

    /// Tells the witness, if there is one, what `op` did to the buckets of `hits` unless it was
    /// `refused`. No lock is held.
    #[inline]
    pub(crate) fn testify(&self, op: Op, refused: bool, at_ns: u64, hits: &[Hit<'_>]) {
        if let Some(witness) = &self.witness {
            tell(&**witness, op, refused, at_ns, hits);
        }
    }

    /// Tells the witness, if there is one, of `spend`. No lock is held.
    pub(crate) fn tell_witness(&self, spend: Spend) {
        if let Some(witness) = &self.witness {
            witness.handle_spend(spend);
        }
    }

    /// Counts `n` times `event`.
    pub(crate) fn event(&self, spread: u64, event: Event, n: u64) {
        self.counters.event(spread, event, n);
    }

    /// Counts a debit that was cut at the bound of the debt of `hit`.
    pub(crate) fn note_clipped(&self, hit: &Hit<'_>) {
        self.counters.event(hit.hash().unwrap_or(0), Event::DebitClipped, 1);
    }

    /// Counts a check that `hit` denied although units were left.
    pub(crate) fn note_share_denied(&self, hit: &Hit<'_>) {
        if let Some(tally) = &hit.rule.tally {
            tally.share_denied(hit.hash().unwrap_or(0));
        }
    }
}

/// The limits in force, which nobody replaces meanwhile.
pub(crate) struct Steady<'l> {
    force: Guard<Arc<InForce>>,
    _gate: RecursiveRwLockReadGuard<'l, ()>,
}

impl Deref for Steady<'_> {
    type Target = InForce;

    fn deref(&self) -> &InForce {
        &self.force
    }
}

/// Kept out of line: most nodes have no witness, and their checks should not pay for it.
#[cold]
fn tell(witness: &dyn Witness, op: Op, refused: bool, at_ns: u64, hits: &[Hit<'_>]) {
    for spend in hits.iter().filter(|_| !refused).filter_map(|hit| hit.spend(op, at_ns)) {
        witness.handle_spend(spend);
    }
}
