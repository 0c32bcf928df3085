//! When a cost fits into a bucket that counts, on a member of a cluster.

use super::ledger::Ledger;
use super::stand::SharedBucket;
use crate::Wait;
use crate::algorithm::{Count, Counter, Now};

/// Time until `cost` units of the bucket `hash`, in whose common level `count` counts, fit if nobody else
/// spends; none if they cannot while the members that are missing stay away.
pub(crate) fn fits_after(
    shared: &SharedBucket,
    hash: u64,
    cost: u64,
    (counter, count, now): (&Counter, Option<&Count>, Now),
    ledger: &Ledger,
) -> Option<Wait> {
    let view = &ledger.view;
    if view.is_whole() {
        return counter.most_missing(cost).map(|most| counter.until(count, now, most));
    }
    let (cost, full) = (shared.ticks(cost), shared.full());
    if cost > shared.part(full, view, hash) {
        return None;
    }
    let row = ledger.charge_ref(hash);
    let charged = row.and_then(|row| row.count());
    let fits = |after_ns: u64| {
        let at = Now { ns: now.ns + after_ns, unix_ns: now.unix_ns + after_ns };
        let level = full - i128::from(counter.missing(count, at));
        let charge = i128::from(counter.missing(charged, at));
        let burden = charge - row.map_or(0, |row| row.relief_when(charge));
        shared.part(level, view, hash) - burden >= cost
    };
    // Both age, and nothing is added: what fits once goes on to fit, at the latest when both are empty.
    let (mut no, mut yes) = (0, end(counter, count, now).max(end(counter, charged, now)));
    while yes - no > 1 {
        let middle = no + (yes - no) / 2;
        if fits(middle) { yes = middle } else { no = middle }
    }
    Some(Wait::from_ns(yes))
}

fn end(counter: &Counter, count: Option<&Count>, now: Now) -> u64 {
    counter.until(count, now, 0).to_ns().min(u64::MAX - now.ns.max(now.unix_ns) - 1)
}
