//! Whose limit is whose: a peer's slots and numbers, in terms of this node's.

use std::collections::BTreeMap;

use limiter::{Bucket, Delta, Numbers, Plan, Standing, Sum};
use wire::peer::LimitNumbers;

/// A slot that no limit has: one that had it was taken out while the node ran. No limit counts without units.
const VACANT: LimitNumbers = LimitNumbers { id: 0, burst: 0, per_ns: 0, per_unit: 0 };

/// The carried limit: peers are told the numbers of each bucket before what counts by them, so that a tick is a
/// tick.
const CARRIED: LimitNumbers = LimitNumbers { id: 0, burst: 0, per_ns: 0, per_unit: 1 };

/// This node's limits as a hello carries them, and where each stands.
#[derive(Clone, Debug)]
pub(crate) struct OwnLimits {
    pub(crate) numbers: Vec<LimitNumbers>,
    names: Vec<String>,
    by_id: BTreeMap<u64, u16>,
}

impl OwnLimits {
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut own = Self { numbers: Vec::new(), names: Vec::new(), by_id: BTreeMap::new() };
        for rule in plan.rules() {
            let slot = usize::from(rule.slot());
            if own.numbers.len() <= slot {
                own.numbers.resize(slot + 1, VACANT);
                own.names.resize(slot + 1, String::new());
            }
            let id = rule.id();
            let Numbers { burst, per_ns, per_unit } = rule.numbers().unwrap_or_default();
            own.numbers[slot] = match rule.is_carried() {
                true => LimitNumbers { id, ..CARRIED },
                false => LimitNumbers { id, burst, per_ns, per_unit },
            };
            own.names[slot] = rule.name().to_owned();
            own.by_id.insert(rule.id(), rule.slot());
        }
        own
    }

    fn name(&self, slot: u16) -> String {
        self.names.get(usize::from(slot)).cloned().unwrap_or_default()
    }
}

/// One slot of a peer.
#[derive(Clone, Copy, Debug)]
struct Mapped {
    /// This node's slot for the same limit.
    slot: u16,
    /// Ticks of a unit on the peer and here, where any number differs.
    differs: Option<(u64, u64)>,
}

/// The slots of a peer.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlotMap {
    slots: Vec<Option<Mapped>>,
    /// Names of this node's limits whose numbers differ on the peer.
    pub(crate) drift: Vec<String>,
    /// Names of this node's limits that the peer does not have.
    pub(crate) unknown_there: Vec<String>,
    /// How many limits of the peer this node does not have.
    pub(crate) unknown_here: usize,
}

impl SlotMap {
    /// The slots of a peer that has `theirs`.
    pub(crate) fn new(own: &OwnLimits, theirs: &[LimitNumbers]) -> Self {
        let mut map = Self::default();
        let mut met = vec![false; own.numbers.len()];
        for numbers in theirs {
            if *numbers == VACANT {
                map.slots.push(None);
                continue;
            }
            let slot = own.by_id.get(&numbers.id).copied();
            let mapped = slot.and_then(|slot| {
                let ours = own.numbers.get(usize::from(slot))?;
                if let Some(met) = met.get_mut(usize::from(slot)) {
                    *met = true;
                }
                if ours != numbers {
                    map.drift.push(own.name(slot));
                }
                // What counts nothing on one side has no ticks to convert.
                let counts = ours.per_unit != 0 && numbers.per_unit != 0;
                let differs = (ours != numbers).then_some((numbers.per_unit, ours.per_unit));
                counts.then_some(Mapped { slot, differs })
            });
            map.unknown_here += usize::from(slot.is_none());
            map.slots.push(mapped);
        }
        let is_vacant = |slot: u16| own.numbers.get(usize::from(slot)) == Some(&VACANT);
        let missing = (0..).zip(met).filter(|(slot, met)| !met && !is_vacant(*slot));
        map.unknown_there = missing.map(|(slot, _)| own.name(slot)).collect();
        map
    }

    fn mapped(&self, slot: u16) -> Option<Mapped> {
        self.slots.get(usize::from(slot)).copied().flatten()
    }

    /// A bucket of the peer in this node's terms; none for a limit that counts nothing here.
    pub(crate) fn bucket(&self, bucket: Bucket) -> Option<Bucket> {
        Some(Bucket { slot: self.mapped(bucket.slot)?.slot, ..bucket })
    }

    /// A delta of the peer in this node's terms; none for a limit that counts nothing here.
    ///
    /// Units mean the same under any rate. Levels do not: where numbers differ none is compared.
    pub(crate) fn delta(&self, delta: Delta) -> Option<Delta> {
        let mapped = self.mapped(delta.bucket.slot)?;
        let level = if mapped.differs.is_some() { None } else { delta.level };
        Some(Delta { bucket: Bucket { slot: mapped.slot, ..delta.bucket }, level, ..delta })
    }

    /// A sum of the peer in this node's terms; none for a limit that counts nothing here.
    pub(crate) fn sum(&self, sum: Sum) -> Option<Sum> {
        let mapped = self.mapped(sum.bucket.slot)?;
        let bucket = Bucket { slot: mapped.slot, ..sum.bucket };
        Some(Sum { bucket, ticks: mapped.ticks(sum.ticks), when: sum.when })
    }

    /// A standing of the peer in this node's terms; none for a limit that counts nothing here.
    pub(crate) fn standing(&self, standing: Standing) -> Option<Standing> {
        let mapped = self.mapped(standing.bucket.slot)?;
        Some(Standing {
            bucket: Bucket { slot: mapped.slot, ..standing.bucket },
            missing: mapped.ticks(standing.missing),
            charge: mapped.ticks(standing.charge),
            ..standing
        })
    }
}

impl Mapped {
    /// The peer's ticks in this node's, rounded up: rather too much is spent than too little.
    fn ticks(&self, ticks: i64) -> i64 {
        let Some((theirs, ours)) = self.differs else { return ticks };
        let (theirs, ours) = (i128::from(theirs.max(1)), i128::from(ours));
        let scaled = i128::from(ticks).saturating_mul(ours);
        let rounded_up = -(-scaled).div_euclid(theirs);
        i64::try_from(rounded_up).unwrap_or(if ticks < 0 { i64::MIN } else { i64::MAX })
    }
}

#[cfg(test)]
mod tests {
    use limiter::{Limit, Quota, Rate, Unmatched, When};

    use super::*;

    fn plan(limits: &[(&str, u64)]) -> OwnLimits {
        let limits = limits.iter().map(|(name, count)| {
            let rate = Rate { count: *count, period_ns: 60_000_000_000 };
            Limit::new(*name, Quota::TokenBucket { rate, burst: 10 })
        });
        OwnLimits::of(&Plan::compile(limits.collect(), Unmatched::Allow).unwrap())
    }

    fn sum(slot: u16, ticks: i64) -> Sum {
        Sum { bucket: Bucket { slot, hash: 5 }, ticks, when: When::Untimed }
    }

    #[test]
    fn the_same_limit_is_found_at_another_slot() {
        let (own, theirs) =
            (plan(&[("a", 60), ("b", 60)]), plan(&[("b", 60), ("a", 60), ("c", 60)]));
        let map = SlotMap::new(&own, &theirs.numbers);
        assert_eq!(map.sum(sum(0, 9)), Some(sum(1, 9)));
        assert_eq!(map.sum(sum(1, 9)), Some(sum(0, 9)));
        assert_eq!(map.sum(sum(2, 9)), None);
        assert_eq!(map.sum(sum(3, 9)), None);
        assert_eq!((map.unknown_here, map.drift.len(), map.unknown_there.len()), (1, 0, 0));
    }

    #[test]
    fn ticks_of_other_numbers_are_converted_and_rounded_up() {
        // 60 in a minute: a unit is 1e9 ticks. 7 in a minute: a unit is 60e9 ticks.
        let (own, theirs) = (plan(&[("a", 7)]), plan(&[("a", 60)]));
        let map = SlotMap::new(&own, &theirs.numbers);
        assert_eq!(map.drift, ["a"]);
        assert_eq!(map.sum(sum(0, 2_000_000_000)), Some(sum(0, 120_000_000_000)));
        let back = SlotMap::new(&theirs, &own.numbers);
        assert_eq!(back.sum(sum(0, 61)), Some(sum(0, 2)));
        assert_eq!(back.sum(sum(0, -61)), Some(sum(0, -1)));
        let level = Some(7);
        let bucket = Bucket { slot: 0, hash: 1 };
        let delta = Delta {
            bucket,
            spent: 3,
            demand: 4,
            shift: 0,
            reserved: false,
            level,
            when: When::Untimed,
        };
        assert_eq!(map.delta(delta), Some(Delta { level: None, ..delta }));
    }

    #[test]
    fn a_limit_that_only_this_node_has_is_named() {
        let map = SlotMap::new(&plan(&[("a", 1), ("b", 1)]), &plan(&[("b", 1)]).numbers);
        assert_eq!(map.unknown_there, ["a"]);
    }
}
