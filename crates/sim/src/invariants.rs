//! What must hold at every moment of every run, whatever goes wrong in it.
//!
//! The inspector keeps the truth of every key: an exact bucket charged with everything that was
//! admitted, at the moment when it was. Nodes are compared with it.

use limiter::Bucket;

use crate::clock::{MS, SECOND, Wall};
use crate::exact::Exact;
use crate::process::Process;
use crate::reading::Reading;
use crate::record::Excess;
use crate::scenario::Scenario;
use crate::world::World;

/// Findings that are kept of a run: the first tell what broke.
const FOUND_MAX: usize = 20;
/// Quiet time after which all nodes know of every spend.
const QUIET_NS: u64 = SECOND;
/// Units that a node may have in flight of a limit that is fast, however small its share is.
const FAST_UNITS: u64 = 8;
/// Longest time for which a key of a quiet node may have an open batch: a lost packet or two.
const OPEN_NS: u64 = 700 * MS;

/// Parts of a period in which a log keeps what its node has not told, and in which it keeps what it owes.
const GRAINS: u64 = 1_024;
const CLASSES: u64 = 16;

/// A shorter cut may be over before anybody is lost.
const UNNOTICED_NS: u64 = 700 * MS;

/// The truth of one key.
#[derive(Clone, Debug)]
struct Key {
    bucket: Bucket,
    /// Charged with everything in the windows of whoever admitted it.
    truth: Exact,
    /// Charged with the same by the true wall clock; none where that is no other.
    by_true: Option<Exact>,
    /// Ticks that crashes may have made the cluster forget since the truth was last full, and of which
    /// nobody can say in which window they are.
    lost: i128,
    /// When that was last added to.
    lost_ns: u64,
    /// When something was last admitted.
    admitted_ns: u64,
    /// When something was last asked for.
    asked_ns: u64,
    /// Costs may be reserved, and given back.
    is_reserved: bool,
    /// Time of trouble in all when the truth and every level were last full, in ns.
    troubled_ns: u64,
    /// Time of overlapping groups in all then, in ns.
    overlapped_ns: u64,
}

impl Key {
    /// Whether it is uncertain which window a node counts in whose wall clock is so far ahead.
    fn is_at_edge(&self, now_ns: u64, ahead_ns: i64, slew_ppm: u64) -> bool {
        let (Some(from_edge_ns), Some(window_ns)) =
            (self.truth.from_edge_ns(now_ns, ahead_ns), self.truth.forgets_after_ns())
        else {
            return false;
        };
        slew_ppm > 0 && from_edge_ns <= (window_ns + 2 * SECOND) / 1_000_000 * slew_ppm
    }

    /// `ticks` may be forgotten.
    fn lose(&mut self, now_ns: u64, ticks: i128) {
        self.lost += ticks;
        self.lost_ns = now_ns;
    }
}

/// Keeps the truth and finds what breaks it.
#[derive(Clone, Debug)]
pub(crate) struct Inspector {
    keys: Vec<Key>,
    found: Vec<(u64, String)>,
    /// Longest time for which a spend that was told may be on its way to a linked peer, in ns.
    way_ns: u64,
    /// Greatest drift between two clocks, in millionths.
    drift_ppm: u64,
    /// The same between a node's own two clocks: a window that has begun ends by one of them, and the
    /// next begins by the other.
    slew_ppm: u64,
    /// Levels are compared: all nodes have the same numbers, and no cut is so long that the drain of
    /// charges errs by more than a unit.
    compares: bool,
    /// When trouble last was.
    trouble_ns: u64,
    /// For how long there was trouble in all.
    troubled_ns: u64,
    /// For how long groups overlapped in all, in ns.
    overlapped_ns: u64,
    inspected_ns: u64,
}

impl Inspector {
    pub(crate) fn new(scenario: &Scenario, buckets: Vec<Bucket>) -> Self {
        let key = |(limit, bucket): (&usize, Bucket)| {
            let allowed = &scenario.truth[*limit];
            let truth = allowed.exact(scenario.unix_ns);
            let is_skewed = scenario.walls.iter().any(|wall| *wall != Wall::default());
            let by_true = (is_skewed && allowed.algorithm.has_windows()).then(|| truth.clone());
            Key {
                bucket,
                truth,
                by_true,
                lost: 0,
                lost_ns: 0,
                admitted_ns: 0,
                asked_ns: 0,
                is_reserved: false,
                troubled_ns: 0,
                overlapped_ns: 0,
            }
        };
        let slowest = scenario.lines.delay_ns.iter().flatten().max().copied().unwrap_or(0);
        let resent = if scenario.lines.loss_ppm > 0 { 3 * (2 * slowest + 25 * MS) } else { 0 };
        let rates = scenario.clocks.iter().map(|clock| i64::from(clock.rate_ppm));
        let (slow, fast) = (rates.clone().min().unwrap_or(0), rates.max().unwrap_or(0));
        let own = scenario.clocks.iter().zip(&scenario.walls);
        let slew_ppm = own.map(|(clock, wall)| clock.rate_ppm.abs_diff(wall.rate_ppm).into()).max();
        Self {
            keys: scenario.keys.iter().zip(buckets).map(key).collect(),
            found: Vec::new(),
            way_ns: slowest + scenario.lines.jitter_ns + resent,
            drift_ppm: (fast - slow).unsigned_abs(),
            slew_ppm: slew_ppm.unwrap_or(0),
            compares: scenario.versions.len() == 1,
            trouble_ns: 0,
            troubled_ns: 0,
            overlapped_ns: 0,
            inspected_ns: 0,
        }
    }

    /// Notes that something does not hold.
    pub(crate) fn broken(&mut self, now_ns: u64, what: String) {
        if self.found.len() < FOUND_MAX {
            self.found.push((now_ns, what));
        }
    }

    /// What does not hold: true ns of the run, what.
    pub(crate) fn found(&self) -> &[(u64, String)] {
        &self.found
    }

    /// Ticks left of `key` after everything that was admitted.
    pub(crate) fn truth(&mut self, key: usize, now_ns: u64) -> i128 {
        self.keys[key].truth.level_at(now_ns)
    }

    /// What `process` believes is left of `key`, in ticks.
    pub(crate) fn level(&self, process: &Process, key: usize, local_ns: u64) -> i128 {
        let Key { bucket, .. } = &self.keys[key];
        Reading::of(process, *bucket, local_ns).level
    }

    /// Something is asked for somewhere, of which peers hear whether it passes or not.
    pub(crate) fn asked(&mut self, now_ns: u64, key: usize, cost: u64) {
        let key = &mut self.keys[key];
        key.asked_ns = now_ns;
        key.is_reserved |= cost > 1;
    }

    /// Something was admitted by a node whose wall clock is so far ahead.
    pub(crate) fn admitted(&mut self, (now_ns, ahead_ns): (u64, i64), key: usize, cost: u64) {
        let slew_ppm = self.slew_ppm;
        let key = &mut self.keys[key];
        key.truth.charge_seen(now_ns, ahead_ns, cost);
        if let Some(by_true) = &mut key.by_true {
            by_true.charge(now_ns, cost);
        }
        if key.is_at_edge(now_ns, ahead_ns, slew_ppm) {
            key.lose(now_ns, key.truth.ticks(cost));
        }
        key.admitted_ns = now_ns;
    }

    /// An operator gave so many units of `key` back.
    pub(crate) fn given(&mut self, now_ns: u64, key: usize, units: u64) {
        let key = &mut self.keys[key];
        key.truth.give_back(now_ns, units);
        // It is on its way as what is admitted is.
        key.admitted_ns = now_ns;
    }

    /// A node starts: it is trouble until it is counted.
    pub(crate) fn booted(&mut self, _node: usize) {}

    /// `process` is killed: what it had not told may be forgotten.
    pub(crate) fn lost(&mut self, process: &Process, now_ns: u64, local_ns: u64) {
        for key in &mut self.keys {
            let reading = Reading::of(process, key.bucket, local_ns);
            let in_flight = u64::try_from(reading.untold).unwrap_or(0);
            key.lose(now_ns, key.truth.ticks(in_flight) + reading.charge.max(0));
        }
        self.trouble_ns = now_ns;
    }

    /// The excess of `key`.
    pub(crate) fn excess(&self, key: usize) -> Excess {
        let Key { truth, by_true, .. } = &self.keys[key];
        let truth = by_true.as_ref().unwrap_or(truth);
        let (ticks, at_ns) = truth.debt_max();
        let (per_unit, burst) = (truth.per_unit(), truth.capacity());
        Excess { ticks, least: truth.least(), per_unit, burst, at_ns }
    }
}

impl World {
    /// Reads every key on every node, and compares.
    pub(crate) fn inspect(&mut self) {
        let is_whole = self.is_whole();
        let now_ns = self.now_ns;
        if !is_whole {
            self.inspector.trouble_ns = now_ns;
            self.inspector.troubled_ns += now_ns - self.inspector.inspected_ns;
            if self.is_overlapped() {
                self.inspector.overlapped_ns += now_ns - self.inspector.inspected_ns;
            }
        }
        self.inspector.inspected_ns = now_ns;
        for key in 0..self.inspector.keys.len() {
            let readings = self.readings(key);
            self.check_debts(key, &readings);
            if self.inspector.compares {
                self.check_levels(key, &readings, is_whole);
            }
        }
    }

    /// What every running node that takes questions knows of `key`.
    fn readings(&self, key: usize) -> Vec<(usize, Reading)> {
        let Key { bucket, .. } = &self.inspector.keys[key];
        let running = self.nodes.iter().enumerate().filter_map(|(node, at)| {
            let process = at.process.as_ref().filter(|process| process.accepting)?;
            let local_ns = self.scenario.clocks[node].local(self.now_ns);
            Some((node, Reading::of(process, *bucket, local_ns)))
        });
        running.collect()
    }

    /// Whether all nodes run and count each other.
    fn is_whole(&self) -> bool {
        // What waits for a short cut to end is longer on its way than a line takes.
        let is_cut = self.scenario.lines.cuts.iter().any(|cut| {
            let is_short = cut.to_ns - cut.from_ns < UNNOTICED_NS;
            is_short && (cut.from_ns..cut.to_ns + UNNOTICED_NS).contains(&self.now_ns)
        });
        !is_cut
            && self.nodes.iter().all(|node| {
                let process = node.process.as_ref();
                node.paused_until_ns <= self.now_ns
                    && process.is_some_and(|process| {
                        process.accepting
                            && process.company() == (self.nodes.len(), self.nodes.len())
                    })
            })
    }

    /// Whether some node is in two groups, as in a partial cut, and for the moments in which some have
    /// counted each other and others not yet: nodes that reach k are then not in groups of k.
    fn is_overlapped(&self) -> bool {
        let processes = self.nodes.iter().filter_map(|node| node.process.as_ref());
        let mut reaching = vec![0; self.nodes.len() + 1];
        processes.for_each(|process| reaching[process.company().1] += 1);
        reaching.iter().enumerate().any(|(reached, nodes)| reached > 0 && nodes % reached != 0)
    }

    /// Debt is bounded: twice what all nodes can have in flight, and ten seconds of refill.
    fn check_debts(&mut self, key: usize, readings: &[(usize, Reading)]) {
        let truth = &self.inspector.keys[key].truth;
        let units = truth.capacity().max(FAST_UNITS) * self.nodes.len() as u64;
        let missing = 2 * truth.ticks(units) + truth.on_average(10 * SECOND);
        // A group may add its charges to a level in debt.
        let least = truth.full() - 2 * missing;
        for (node, reading) in readings {
            if reading.level < least {
                let what = format!(
                    "node {node}: key {key} has {} ticks, below its debt's bound {least}",
                    reading.level
                );
                self.inspector.broken(self.now_ns, what);
            }
        }
    }

    /// Nothing is refilled for free, and nothing is forgotten. Nobody may believe in more than what is
    /// left in truth and what others have not told yet; and when all has been quiet for a second, all
    /// must believe the same.
    fn check_levels(&mut self, key: usize, readings: &[(usize, Reading)], is_whole: bool) {
        let now_ns = self.now_ns;
        let inspector = &mut self.inspector;
        let (way_ns, drift_ppm) = (inspector.way_ns, inspector.drift_ppm);
        let (trouble_ns, all_troubled_ns) = (inspector.trouble_ns, inspector.troubled_ns);
        let all_overlapped_ns = inspector.overlapped_ns;
        let interval_ns = self.scenario.sync_interval_ns;
        let held_ns =
            self.scenario.truth.iter().map(|allowed| allowed.max_wait_ns).max().unwrap_or(0);
        let is_at_edge = |(node, _): &&(usize, Reading)| {
            let ahead_ns = self.scenario.walls[*node].ahead_ns(now_ns);
            inspector.keys[key].is_at_edge(now_ns, ahead_ns, inspector.slew_ppm)
        };
        let readings: Vec<_> = readings.iter().filter(|it| !is_at_edge(it)).copied().collect();
        let Key {
            truth,
            lost,
            lost_ns,
            admitted_ns,
            asked_ns,
            is_reserved,
            troubled_ns,
            overlapped_ns,
            ..
        } = &mut inspector.keys[key];
        let is_full = truth.level_at(now_ns) == truth.full();
        // Spends that were owed count as long as the youngest of their class.
        let forgets_ns = truth.forgets_after_ns().map(|ns| ns + ns / CLASSES);
        if is_full || forgets_ns.is_some_and(|ns| now_ns - *lost_ns > ns) {
            *lost = 0;
        }
        // What was too low is right again when it is full, too high when the truth is.
        let is_rested =
            is_full && readings.iter().all(|(_, reading)| reading.level == truth.full());
        if is_rested || forgets_ns.is_some_and(|ns| now_ns - trouble_ns > ns) {
            *troubled_ns = all_troubled_ns;
            *overlapped_ns = all_overlapped_ns;
        }
        // While members come back, what is on its way to them is in flight to nobody who is counted.
        if !is_whole || (trouble_ns > 0 && now_ns - trouble_ns < QUIET_NS) {
            return;
        }
        let is_crowd = readings.len() > 2;
        // Two clocks refill differently for as long as the bucket is not full.
        let unrested_ns = now_ns - truth.full_at_ns();
        let apart_ns =
            forgets_ns.map_or(unrested_ns, |ns| ns.min(unrested_ns)) / 1_000_000 * drift_ppm;
        let troubled_ns = all_troubled_ns - *troubled_ns;
        // An echo lowers a level also for spends of a third node that only one of the two has heard of.
        let band = truth.ticks(2 + truth.capacity() / 100);
        let echo = if is_crowd { 2 * band + truth.full() / 50 } else { 0 };
        let untold: i64 = readings.iter().map(|(_, reading)| reading.untold).sum();
        // A reservation that is given back is not admitted, and told nevertheless.
        let moved_ns = if *is_reserved { *asked_ns } else { *admitted_ns };
        let quiet_ns = now_ns - trouble_ns.max(*admitted_ns).max(moved_ns);
        let is_quiet = quiet_ns > QUIET_NS + way_ns;
        let lost = *lost;
        // Groups that overlap pay back more than the whole rate together: what a full level refills of a
        // charge meanwhile is not all theirs.
        let overlap = truth.on_average(all_overlapped_ns - *overlapped_ns);
        // A spend that took a full bucket below full took it later where it was heard of later, by the
        // refill of the time between; and while members are missing, a group whose level is full pays
        // only its part of the refill back on what it and the others spend. A log has it at the time at
        // which it was heard of less the age that was told, the youngest of its grain or class.
        let late_ns = match forgets_ns {
            Some(ns) if troubled_ns > 0 => ns / CLASSES,
            Some(ns) => (ns / GRAINS).max(MS),
            None if troubled_ns > 0 => SECOND + troubled_ns,
            None => 2 * interval_ns,
        };
        let reserved: i64 = readings.iter().map(|(_, reading)| reading.reserved).sum();
        let mut found = Vec::new();
        let mut deviations = Vec::new();
        let mut apart = 0;
        for (node, reading) in &readings {
            let ahead_ns = self.scenario.walls[*node].ahead_ns(now_ns);
            let level = truth.level_seen(now_ns, ahead_ns);
            let slack = truth.ticks(1) + truth.coming(now_ns, ahead_ns, way_ns + apart_ns);
            let unknown = i128::from(untold - reading.untold) * truth.ticks(1);
            // Units that were reserved and given back were out of a full bucket's way meanwhile: what
            // the truth had no room for was not lost here.
            // What is given back is told at the next tick at the latest, or when the batch before it is
            // acknowledged.
            let told_ns = held_ns + 2 * interval_ns + 3 * way_ns;
            let held_ns = if *is_reserved { told_ns } else { 0 };
            let most = level + unknown + lost + slack + overlap + truth.on_average(held_ns);
            if reading.level > most {
                found.push(format!(
                    "node {node}: key {key} is at {} ticks, {level} are left and {} may be unknown: \
                     {readings:?}",
                    reading.level,
                    most - level
                ));
            }
            let is_unasked = is_quiet && now_ns - *asked_ns > QUIET_NS + OPEN_NS + way_ns;
            if is_unasked && reading.open_batches > 0 {
                found.push(format!("node {node}: key {key} has an open batch in the quiet"));
            }
            deviations.push((*node, reading.level - level));
            let came = truth.came(now_ns, ahead_ns, late_ns + way_ns);
            apart = apart.max(slack + came + lost + echo + truth.ticks(1) * i128::from(reserved));
        }
        if is_quiet && let Some(what) = unequal(&deviations, apart) {
            found.push(format!("key {key}: {what}: {readings:?}"));
        }
        for what in found {
            inspector.broken(now_ns, what);
        }
    }

    /// Right after a spend: what a node has in flight is within what it may have.
    pub(crate) fn inspect_spend(&mut self, node: usize, key: usize) {
        let Some(process) = self.nodes[node].process.as_ref() else { return };
        let local_ns = self.scenario.clocks[node].local(self.now_ns);
        let reading = Reading::of(process, self.inspector.keys[key].bucket, local_ns);
        if let Some(what) = reading.beyond_allowance() {
            self.inspector.broken(self.now_ns, format!("node {node}: key {key} {what}"));
        }
    }

    /// What is not at rest at the end of a run.
    pub(crate) fn stuck(&self) -> Vec<String> {
        let mut stuck = Vec::new();
        let running = self.nodes.iter().filter(|node| node.process.is_some()).count();
        for (node, at) in self.nodes.iter().enumerate() {
            let Some(process) = at.process.as_ref() else { continue };
            let (members, counted) = process.company();
            if !process.accepting {
                stuck.push(format!("node {node} is not ready"));
            }
            if counted != running || members < counted {
                stuck
                    .push(format!("node {node} counts {counted} of {running} ({members} members)"));
            }
            if !process.held.is_empty() {
                stuck.push(format!("node {node} holds {} checks", process.held.len()));
            }
            for (key, known) in self.inspector.keys.iter().enumerate() {
                let local_ns = self.scenario.clocks[node].local(self.now_ns);
                let reading = Reading::of(process, known.bucket, local_ns);
                if reading.open_batches > 0 || reading.unknown != 0 {
                    stuck.push(format!("node {node} key {key}: {reading:?}"));
                }
            }
        }
        stuck
    }
}

/// Whether levels, which lie so far above the truth, differ by more than `apart` ticks.
fn unequal(deviations: &[(usize, i128)], apart: i128) -> Option<String> {
    let most = deviations.iter().max_by_key(|(_, ticks)| *ticks)?;
    let least = deviations.iter().min_by_key(|(_, ticks)| *ticks)?;
    (most.1 - least.1 > apart).then(|| {
        format!(
            "node {} is {} ticks above the truth and node {} {} after a quiet second, {apart} may differ",
            most.0, most.1, least.0, least.1
        )
    })
}
