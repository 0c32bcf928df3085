//! The answer to a request, put together from what each limit says, and the counting of it.

use crate::counters::Outcome;
use crate::hit::Hit;
use crate::question::Question;
use crate::share::Fleet;
use crate::{Decision, Freshness, Limiter, Op, Plan, Reason, Unmatched, Verdict, Wait};

impl Limiter {
    /// The answer, from what each limit says.
    #[inline]
    pub(crate) fn decision<'h, 'p: 'h>(
        &self,
        question: &Question,
        plan: &Plan,
        hits: impl Iterator<Item = &'h Hit<'p>> + Clone,
    ) -> Decision<'_> {
        let mut deciding: Option<&Hit<'p>> = None;
        for hit in hits.clone().filter(|hit| !hit.rule.shadow) {
            let verdict = |hit: &Hit<'_>| hit.verdict(self.names());
            if deciding.is_none_or(|other| verdict(hit).decides_over(&verdict(other))) {
                deciding = Some(hit);
            }
        }
        let verdict = deciding.map_or_else(
            || {
                let denies = plan.unmatched() == Unmatched::Deny;
                let denied = denies && matches!(question.op, Op::Check | Op::Peek);
                Verdict::without_numbers("", if denied { Reason::Unmatched } else { Reason::Ok })
            },
            |hit| hit.verdict(self.names()),
        );
        let details = match question.details {
            true => hits.clone().map(|hit| hit.verdict(self.names())).collect(),
            false => Vec::new(),
        };
        let (freshness, stale_ms) = self.fleet().map_or((Freshness::Alone, 0), Fleet::freshness);
        let mut decision = Decision { verdict, freshness, stale_ms, details };
        if decision.verdict.allowed && hits.clone().any(|hit| hit.rule.has_times) {
            // Who must wait its turn in several queues waits in all of them at once.
            let delays = hits.filter(|hit| !hit.rule.shadow).map(Hit::delay);
            decision.verdict.delay = delays.max().unwrap_or(Wait::ZERO);
        }
        decision
    }

    pub(crate) fn tally(&self, question: &Question, hit: &Hit<'_>, refused: bool) {
        let outcome = match question.op {
            _ if question.is_peek => Outcome::Peek,
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
        if let Some(tally) = &hit.rule.tally {
            tally.add(hit.hash().unwrap_or(0), outcome, units);
        }
    }
}
