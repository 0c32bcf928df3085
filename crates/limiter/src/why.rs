//! Why a request is answered as it is: what matched, how its buckets stand, and what the next check would
//! be told. For people who ask; it creates, counts and changes nothing.

use std::sync::Arc;

use crate::hit::{Hit, State};
use crate::matching::{Consideration, Considered, RuleIndex};
use crate::question::Question;
use crate::rule::{Allowance, Rule};
use crate::seat::{find_overflow, hold};
use crate::share::{BucketState, SharedBucket, Stand, look};
use crate::store::{Locked, Place};
use crate::template::MissingAttribute;
use crate::{
    Bucket, Decision, Limiter, Missing, Op, Plan, Request, RequestError, Verdict, WhenFull,
};

/// Why a request is answered as it is.
#[derive(Debug)]
pub struct Why<'p> {
    /// The limits that were in force.
    pub plan: Arc<Plan>,
    /// The limits that apply, and those that name the endpoint or the key and do not, in the order of
    /// the file.
    pub limits: Vec<LimitWhy<'p>>,
    /// How many limits there are beside.
    pub others: usize,
    /// What a check would be answered now that does not wait.
    pub next: Decision<'p>,
    /// Such a check would be denied, and may pass if it waits until peers know of it.
    pub may_wait: bool,
}

/// What a limit does with a request.
#[derive(Debug)]
pub struct LimitWhy<'p> {
    /// Its rules from the most specific to the limit itself, as [`crate::Consideration::rules`].
    pub rules: Vec<Considered>,
    /// Overrides left out of `rules`.
    pub left_out: usize,
    /// The rule that decides, and its bucket; none: the limit does not apply.
    pub applied: Option<Applied<'p>>,
}

/// The rule that decides for a limit.
#[derive(Debug)]
pub struct Applied<'p> {
    /// The rule: its place in [`Plan::rules`].
    pub index: u16,
    /// Cost of the request in its unit.
    pub cost: u64,
    /// What it counts the request in.
    pub counted: Counted,
    /// What it would say to a check; none: it lacks an attribute of its key and is skipped.
    pub verdict: Option<Verdict<'p>>,
}

/// What a rule counts a request in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// A bucket of its own.
    Bucket(Bucket, BucketState),
    /// There is no room for a new bucket: the one that all such keys of the rule share on this node. The
    /// bucket is the one that would have been made.
    Overflow(Bucket),
    /// There is no room for a new bucket, and `when_full` answers.
    NoRoom(Bucket),
    /// Nothing: the rule denies everything or lets everything pass.
    Nothing,
    /// Nothing: the request lacks an attribute of the key.
    MissingAttribute,
}

/// The rule that decides for a limit, and which of the hits is its own; none: it is skipped.
struct Resolved<'p> {
    index: RuleIndex,
    rule: &'p Rule,
    cost: u64,
    counted: Counted,
    at: Option<usize>,
}

impl Limiter {
    /// Why `request` is answered as it is at `now_ns`: what a check of its costs would meet. Nothing is
    /// created, counted or changed. Looks at every rule.
    ///
    /// # Errors
    /// A request outside the bounds.
    pub fn why(&self, now_ns: u64, request: &Request<'_>) -> Result<Why<'_>, RequestError> {
        request.validate()?;
        let force = self.steady();
        let (considerations, others) = match request.terms {
            None => force.consider(request),
            Some(terms) => {
                self.carried_hit(&force, request, terms)?;
                (force.carried_alone(), force.limits().len())
            }
        };
        let mut hits = Vec::new();
        let mut resolve = |index| self.resolve(&force, index, request, &mut hits);
        let mut applied: Vec<_> =
            considerations.iter().map(|it| it.decides().map(&mut resolve)).collect();
        let mut locked = self.store().lock(hits.iter().filter_map(Hit::hash), now_ns, &force);
        for resolved in applied.iter_mut().flatten() {
            if let (Some(hit), Some(locked)) =
                (resolved.at.and_then(|at| hits.get_mut(at)), &mut locked)
            {
                self.look_at(hit, &mut resolved.counted, locked);
                self.test(Op::Peek, hit, locked);
                hit.note_queue(false);
                hit.note_times(locked);
            }
        }
        drop(locked);
        let may_wait = may_wait(&hits, applied.iter().flatten());
        let question = Question {
            op: Op::Peek,
            details: false,
            is_peek: true,
            may_hold: false,
            is_again: false,
        };
        let told = |resolved: Resolved<'_>| Applied {
            index: resolved.index,
            cost: resolved.cost,
            counted: resolved.counted,
            verdict: resolved.at.and_then(|at| hits.get(at)).map(|hit| hit.verdict(self.names())),
        };
        let limits = considerations.into_iter().zip(applied).map(|(consideration, resolved)| {
            let Consideration { rules, left_out } = consideration;
            LimitWhy { rules, left_out, applied: resolved.map(told) }
        });
        let standing = self.standing(now_ns, &force, request);
        let listed = standing.map(|standing| self.said_by_lists(standing));
        Ok(Why {
            plan: Arc::clone(&force.plan),
            limits: limits.collect(),
            others,
            may_wait: may_wait && listed.is_none(),
            next: listed.unwrap_or_else(|| self.decision(&question, &force, hits.iter())),
        })
    }

    /// The rule at `index` as it applies to `request`: a hit more, unless it is skipped.
    fn resolve<'p>(
        &self,
        plan: &'p Plan,
        index: RuleIndex,
        request: &Request<'_>,
        hits: &mut Vec<Hit<'p>>,
    ) -> Resolved<'p> {
        let rule = plan.rule_at(index);
        let slot = rule.slot;
        let (state, counted) = match &rule.allowance {
            Allowance::Unlimited => (Some(State::Unlimited), Counted::Nothing),
            Allowance::Deny => (Some(State::Deny { capacity: 0 }), Counted::Nothing),
            Allowance::Carried => {
                let hash = self.carried_hash(rule, request);
                (Some(State::Carried { hash }), Counted::Nothing)
            }
            Allowance::Counted(shared) => match self.bucket_hash(rule, request) {
                Ok(hash) => (Some(State::unseated(shared, hash)), Counted::Nothing),
                Err(MissingAttribute) => {
                    let denies = rule.missing == Missing::Deny;
                    let state = State::Deny { capacity: shared.capacity() };
                    (denies.then_some(state), Counted::MissingAttribute)
                }
            },
        };
        let cost = request.cost_in(&rule.unit);
        let at = state.map(|state| {
            let terms = request.terms.filter(|_| rule.is_carried());
            hits.push(Hit { slot, rule, cost, terms, state, denial: None });
            hits.len() - 1
        });
        Resolved { index, rule, cost, counted, at }
    }

    /// Finds how the bucket of `hit` stands, as a check would find it, and what the check would be
    /// counted in.
    fn look_at(&self, hit: &mut Hit<'_>, counted: &mut Counted, locked: &mut Locked<'_>) {
        let (now_ns, slot) = (locked.now_ns(), hit.slot);
        if let (State::Carried { hash }, Some(terms)) = (&hit.state, hit.terms) {
            let bucket = Bucket { slot, hash: *hash };
            self.look_by(hit, (bucket.hash, terms), locked);
            if let State::Bucket { shared, .. } = &hit.state
                && let Some(shard) = locked.shard_of(bucket.hash)
            {
                let from = shard.numbered(bucket.hash).map_or(&**shared, |has| has);
                let (_, state) = look(shard, from, bucket.hash, now_ns, self.fleet());
                *counted = Counted::Bucket(bucket, state);
            }
            return;
        }
        if let Some(own) = hit.hash().and_then(|hash| locked.own(hash)) {
            hold(hit, own);
        }
        let State::Bucket { shared, hash, .. } = &hit.state else { return };
        let (shared, bucket) = (shared.clone(), Bucket { slot, hash: *hash });
        let (mut place, mut missing) = locked.look(bucket.hash, &shared);
        let mut stand = None;
        if place != Place::None
            && let Some(shard) = locked.shard_of(bucket.hash)
        {
            let (found, state) = look(shard, &shared, bucket.hash, now_ns, self.fleet());
            let has_row = shard.ledger().is_none_or(|ledger| ledger.has_room_for(bucket.hash));
            (stand, *counted) = (found, Counted::Bucket(bucket, state));
            if stand.is_some() && !has_row {
                (place, stand) = (Place::None, None);
            }
        }
        let mut weight = 1;
        if place == Place::None {
            match self.when_full() {
                WhenFull::Overflow => {
                    let Some(found) = find_overflow(hit, locked) else {
                        return hit.state = State::Full;
                    };
                    (place, missing) = found;
                    weight = locked.members() as u64;
                    *counted = Counted::Overflow(bucket);
                }
                other => {
                    *counted = Counted::NoRoom(bucket);
                    let allows = other == WhenFull::Allow;
                    return hit.state = if allows { State::Uncounted } else { State::Full };
                }
            }
        }
        hit.sit(place, missing);
        if let State::Bucket { seat, .. } = &mut hit.state {
            (seat.weight, seat.stand) = (weight, stand);
        }
    }
}

/// Whether a check that `hits` refuse may pass when peers have heard of it: see [`Limiter::check`].
fn may_wait<'r, 'p: 'r>(hits: &[Hit<'p>], applied: impl Iterator<Item = &'r Resolved<'p>>) -> bool {
    let refusals = || hits.iter().filter(|hit| hit.denial.is_some() && !hit.rule.shadow);
    if refusals().next().is_none() || !refusals().all(Hit::is_short) {
        return false;
    }
    if refusals().all(|hit| hit.stand().is_some_and(Stand::may_hold)) {
        return true;
    }
    // A cost above the share may be reserved, one at a time in a bucket.
    let mut reserving = applied.filter(|resolved| {
        let hit = resolved.at.and_then(|at| hits.get(at));
        hit.is_some_and(|hit| hit.denial.is_some() && !hit.rule.shadow)
    });
    let (Some(only), None) = (reserving.next(), reserving.next()) else { return false };
    let is_free = matches!(only.counted, Counted::Bucket(_, state) if state.reserved == 0);
    let may_wait = only.rule.shared().is_some_and(SharedBucket::may_wait);
    only.cost > 1 && is_free && may_wait
}
