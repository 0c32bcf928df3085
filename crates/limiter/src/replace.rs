//! Other limits for a limiter that runs: what was used is kept.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::force::{Change, InForce};
use crate::matching::Slot;
use crate::rule::{Allowance, Rule};
use crate::{Limiter, Plan, RULES_MAX};

/// What a change of the limits did, in limits and overrides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// As they were.
    pub kept: usize,
    /// With other numbers, or otherwise than before in what they match or do, and with what was used.
    pub changed: usize,
    /// New, with nothing used.
    pub added: usize,
    /// Gone, with all that they counted.
    pub removed: usize,
}

/// Why limits cannot be changed while the limiter runs. The old ones are in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplaceError {
    /// More names of limits were in force since the start than are kept: a restart forgets them.
    Names,
    /// Those that go and those that come are together more than there are slots.
    Slots,
}

impl std::fmt::Display for ReplaceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Names => f.write_str(
                "too many names of limits were in force since the node started; restart it",
            ),
            Self::Slots => write!(
                f,
                "the limits and overrides that go and those that come are together more than \
                 {RULES_MAX}; take the old ones out first, and then bring the new ones"
            ),
        }
    }
}

impl std::error::Error for ReplaceError {}

impl Limiter {
    /// Puts `plan` in force at `now_ns`. Each request is decided by one plan as a whole. A limit or override
    /// of the same identity ([`Rule::id`]) keeps its slot and what its buckets used, in units, whatever
    /// its numbers are now; one that is gone takes its counts with it, also if it comes again later.
    ///
    /// # Errors
    /// See [`ReplaceError`]; the old plan is in force.
    pub fn replace(&self, now_ns: u64, mut plan: Plan) -> Result<Replaced, ReplaceError> {
        let mut replaced = Replaced::default();
        self.put_in_force(
            |before| {
                let names: Option<Vec<_>> =
                    plan.rules().iter().map(|rule| self.names().place(rule.name())).collect();
                let names = names.ok_or(ReplaceError::Names)?;
                let changes = settle_in(before, &mut plan, &mut replaced)?;
                for (rule, name_at) in plan.rules_mut().iter_mut().zip(names) {
                    rule.name_at = name_at;
                }
                let space = self.space_for(&plan);
                Ok(InForce::new(plan, before.number + 1, space, changes))
            },
            now_ns,
        )?;
        self.renew_acts(now_ns);
        Ok(replaced)
    }
}

/// Gives the rules of `plan` the slots and tallies that they had in `before`, and free ones to those that are
/// new; tells what becomes of the buckets that there are.
fn settle_in(
    before: &Plan,
    plan: &mut Plan,
    replaced: &mut Replaced,
) -> Result<HashMap<Slot, Change>, ReplaceError> {
    let old = before.rules().iter().zip(before.said());
    let old: HashMap<u64, (&Rule, u64)> =
        old.map(|(rule, said)| (rule.id(), (rule, said))).collect();
    let said = plan.said();
    let mut changes = HashMap::new();
    let mut met = hashbrown::HashSet::new();
    // Slots that go now are not given away now: a shard that has not dropped their buckets yet could not
    // tell them from those of the new rule.
    let is_taken = |slot: &Slot| before.rule(*slot).is_some();
    let mut free = (0..=Slot::MAX).filter(|slot| !is_taken(slot));
    let mut slots = Vec::with_capacity(plan.rules().len());
    for (rule, said) in plan.rules_mut().iter_mut().zip(said) {
        let Some((was, was_said)) = old.get(&rule.id()) else {
            replaced.added += 1;
            rule.tally = Some(Arc::default());
            slots.push(free.next().ok_or(ReplaceError::Slots)?);
            continue;
        };
        met.insert(rule.id());
        slots.push(was.slot);
        rule.tally.clone_from(&was.tally);
        let is_kept = said == *was_said;
        *(if is_kept { &mut replaced.kept } else { &mut replaced.changed }) += 1;
        if rule.quota == was.quota && rule.accuracy == was.accuracy {
            continue;
        }
        if let Allowance::Counted(numbers) = &was.allowance {
            let change = match rule.allowance {
                Allowance::Counted(_) => Change::Renumbered(numbers.clone()),
                Allowance::Deny | Allowance::Unlimited | Allowance::Carried => Change::Removed,
            };
            changes.insert(was.slot, change);
        }
    }
    for rule in before.rules().iter().filter(|rule| !met.contains(&rule.id())) {
        replaced.removed += 1;
        changes.insert(rule.slot, Change::Removed);
    }
    plan.number(&slots);
    Ok(changes)
}
