//! One bucket as this node knows it, for whoever shows it or checks the arithmetic.

use super::charge::Charge;
use super::delta::Bucket;
use super::fleet::Fleet;
use super::ledger::Ledger;
use super::ledger::refill;
use super::motion::Motion;
use super::stand::{Burden, SharedBucket, Stand};
use crate::Limiter;
use crate::store::Shard;

/// A bucket at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketState {
    /// Ticks in a unit: of the numbers that the bucket has, which may be its own.
    pub per_unit: u64,
    /// The level that all nodes should agree on, in ticks; negative in debt.
    pub level: i128,
    /// Ticks of it that were spent and that not all members know.
    pub charge: i64,
    /// Units spent here and in no batch yet; negative after a refund.
    pub unpublished: i64,
    /// Units in batches that some reachable peer has not acknowledged.
    pub in_flight: i64,
    /// Units given back in such batches: part of `in_flight`, where they count below 0.
    pub returned: i64,
    /// The part of both that is only reserved.
    pub reserved: u64,
    /// Units spent here that peers may not know, and that are not only reserved: what `allowance` bounds.
    pub flying: i64,
    /// Deltas of the bucket in batches that are not acknowledged by all.
    pub open_batches: u16,
    /// Units that this node may have in flight, reservations aside; rounded down.
    pub allowance: i64,
    /// Units of the capacity that belong to the group of this node: all of them unless members are
    /// missing.
    pub part: u64,
    /// Units that the group may still spend, rounded down.
    pub remaining: u64,
    /// Units of this node's demand of the last second or so that every reachable peer knows.
    pub demand: u64,
    /// The same of the peers, as they reported it.
    pub demand_of_peers: u64,
    /// The store has an entry for it: the level is not full, or was not when it was last looked at.
    pub has_entry: bool,
}

impl Limiter {
    /// How `bucket` stands at `now_ns`; none where there is no such rule, or no cluster.
    pub fn bucket_state(&self, now_ns: u64, bucket: Bucket) -> Option<BucketState> {
        let fleet = self.fleet()?;
        let force = self.steady();
        self.store().with(bucket.hash, now_ns, &force, |shard, now| {
            let shared = shard.held(&force, bucket)?;
            Some(look(shard, &shared, bucket.hash, now, Some(fleet)).1)
        })
    }
}

/// Where the bucket `hash` stands among the members, if it is shared with any, and how. Changes nothing:
/// what fades and is paid back up to `now_ns` does so in a copy.
pub(crate) fn look(
    shard: &Shard,
    shared: &SharedBucket,
    hash: u64,
    now_ns: u64,
    fleet: Option<&Fleet>,
) -> (Option<Stand>, BucketState) {
    let missing = shard.missing(hash, &shared.algorithm, now_ns);
    let common = shared.full() - i128::from(missing);
    let has_entry = shard.has_entry(hash, &shared.algorithm);
    let (Some(ledger), Some(fleet)) = (shard.ledger(), fleet) else {
        return (None, lone(shared, common, has_entry));
    };
    let (charge, motion) = copies(shard, ledger, shared, hash, now_ns);
    let burden = charge.as_ref().map_or_else(Burden::default, |charge| charge.burden());
    let view = (&*ledger.view, fleet.is_alive(now_ns));
    let motion = motion.as_ref();
    let stand = Stand::seen(shared, hash, common, burden, motion, view, fleet.sync_interval_ns);
    let charge = charge.map_or(0, |charge| charge.ticks);
    let state = BucketState {
        per_unit: shared.per_unit(),
        level: common - i128::from(charge),
        charge,
        allowance: stand.allowance_units(shared),
        part: stand.part_units(shared),
        remaining: stand.remaining(shared),
        ..motion.map_or_else(BucketState::default, |motion| moving(shared, motion))
    };
    let is_lone = ledger.view.size() == 1;
    ((!is_lone).then_some(stand), BucketState { has_entry, ..state })
}

/// Where the bucket `hash`, a level that counts by the numbers `from`, would stand by the numbers `to` among the
/// members, if it is shared with any; and the ticks that would be missing in it. Changes nothing.
pub(crate) fn look_as(
    shard: &Shard,
    from: &SharedBucket,
    to: &SharedBucket,
    hash: u64,
    now_ns: u64,
    fleet: Option<&Fleet>,
) -> (Option<Stand>, u64) {
    let members = shard.ledger().map(|ledger| ledger.view.size());
    let missing = shard.missing(hash, &from.algorithm, now_ns);
    let missing = to.missing_of(from, missing, members);
    let (Some(ledger), Some(fleet)) = (shard.ledger(), fleet) else { return (None, missing) };
    if ledger.view.size() == 1 {
        return (None, missing);
    }
    let (mut charge, mut motion) = copies(shard, ledger, from, hash, now_ns);
    if let Some(charge) = &mut charge {
        charge.convert(from, to, shard.now(now_ns));
    }
    if let Some(motion) = &mut motion {
        motion.convert(from, to);
    }
    let common = to.full() - i128::from(missing);
    let burden = charge.as_ref().map_or_else(Burden::default, |charge| charge.burden());
    let view = (&*ledger.view, fleet.is_alive(now_ns));
    let motion = motion.as_ref();
    (Some(Stand::seen(to, hash, common, burden, motion, view, fleet.sync_interval_ns)), missing)
}

/// The charge and the motion of the bucket `hash` as they are at `now_ns`: what fades and is paid back does so in
/// copies.
fn copies(
    shard: &Shard,
    ledger: &Ledger,
    shared: &SharedBucket,
    hash: u64,
    now_ns: u64,
) -> (Option<Charge>, Option<Motion>) {
    let mut charge = ledger.charge_ref(hash).cloned();
    if let Some(charge) = &mut charge {
        match shared.counter() {
            Some(counter) => charge.age(counter, shard.now(now_ns)),
            None => {
                let full_at = shard.find(hash).map(|(_, entry)| entry.full_at());
                let refilled = refill(charge, shared, full_at, now_ns);
                charge.drain(now_ns, refilled, ledger.view.reach(), ledger.view.size());
            }
        }
    }
    let mut motion = ledger.motion_ref(hash).cloned();
    if let Some(motion) = &mut motion {
        motion.fade(now_ns);
    }
    (charge, motion)
}

/// What a motion tells.
fn moving(shared: &SharedBucket, motion: &Motion) -> BucketState {
    BucketState {
        unpublished: motion.unpublished,
        in_flight: motion.in_flight,
        returned: motion.returned,
        flying: motion.flying(),
        reserved: motion.reserved,
        open_batches: motion.opens,
        demand: shared.scale.units(motion.own),
        demand_of_peers: shared.scale.units(motion.others),
        ..BucketState::default()
    }
}

/// A bucket on a node of its own.
fn lone(shared: &SharedBucket, level: i128, has_entry: bool) -> BucketState {
    let stand = Stand::lone(shared, level);
    BucketState {
        per_unit: shared.per_unit(),
        level,
        allowance: stand.allowance_units(shared),
        part: stand.part_units(shared),
        remaining: stand.remaining(shared),
        has_entry,
        ..BucketState::default()
    }
}
