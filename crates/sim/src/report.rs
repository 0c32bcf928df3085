//! What a run shows: excess, utilisation, fairness, waits, and what levels were worth.
#![expect(clippy::float_arithmetic, reason = "figures for people, made when a run is over")]

use crate::clock::{MS, SECOND};
use crate::exact::Exact;
use crate::record::{Outcome, Record};
use crate::scenario::{Algorithm, Scenario};
use crate::world::World;

/// The figures of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Most that was admitted above capacity and refill in any window, in units, of the key for which
    /// it is the largest part of the capacity.
    pub excess_units: f64,
    /// The same in percent of the capacity.
    pub excess_percent: f64,
    /// When, in seconds of the scenario.
    pub excess_at_s: f64,
    /// Most above capacity and refill in any ten seconds, in percent of both; of the first key, if it is
    /// a bucket.
    pub ten_s_percent: f64,
    /// Units admitted, in percent of what the exact central bucket admits.
    pub utilisation_percent: f64,
    /// Jain's index of what the nodes admitted: 1 is even.
    pub jain: f64,
    /// Units that the central bucket admits.
    pub central: u64,
    /// Requests denied.
    pub rejected: u64,
    /// Requests held, in percent.
    pub held_percent: f64,
    /// Median of the waits of held requests, in ms.
    pub wait_p50_ms: f64,
    /// The wait that 99 of 100 held requests do not exceed, in ms.
    pub wait_p99_ms: f64,
    /// Most that left queues in any time above what their rate brings in it and one call, in units: of
    /// leaky buckets that are queues.
    pub departures_units: f64,
    /// Calls that left a node's queue before one that came earlier there.
    pub overtakes: u64,
    /// Longest that a call had to wait its turn, in ms.
    pub delay_max_ms: f64,
    /// Most batches of a node in a second.
    pub batches_max: u64,
    /// Units admitted by each node.
    pub admitted: Vec<u64>,
    /// Units asked of each node.
    pub offered: Vec<u64>,
    /// Lowest of all levels at the probes, less the truth, in units.
    pub level_low: f64,
    /// Highest of all levels at the probes, less the truth, in units.
    pub level_high: f64,
    /// Probes at which a node took no questions.
    pub probes_missed: u64,
}

/// Runs `scenario` and makes its figures.
///
/// # Errors
/// Numbers that the limiter refuses.
pub fn simulate(scenario: &Scenario) -> Result<(Record, Report), String> {
    let record = World::run(scenario.clone())?;
    let report = Report::of(scenario, &record);
    Ok((record, report))
}

impl Report {
    /// The figures of `record`, which `scenario` left.
    pub fn of(scenario: &Scenario, record: &Record) -> Self {
        let mut report = Self::default();
        report.flow(scenario, record);
        report.excess(record);
        report.ten_s_percent = ten_s_percent(scenario, record);
        report.waits(record);
        report.departures(scenario, record);
        report.levels(scenario, record);
        report.batches_max = record.batches.values().max().copied().unwrap_or(0);
        report
    }

    /// Largest difference of a level from the truth, in units; infinite if a node was missing.
    pub fn level_error(&self) -> f64 {
        if self.probes_missed > 0 { f64::INFINITY } else { self.level_high.max(-self.level_low) }
    }

    fn flow(&mut self, scenario: &Scenario, record: &Record) {
        let central = |limit: &usize| scenario.truth[*limit].exact(scenario.unix_ns);
        let mut centrals: Vec<Exact> = scenario.keys.iter().map(central).collect();
        self.admitted = vec![0; scenario.nodes];
        self.offered = vec![0; scenario.nodes];
        for (place, arrival) in scenario.arrivals.iter().enumerate() {
            if centrals[arrival.key].try_spend(arrival.at_ns, arrival.cost) {
                self.central += arrival.cost;
            }
            let node = record.deciders[place];
            self.offered[node] += arrival.cost;
            if record.outcomes[place].allowed {
                self.admitted[node] += arrival.cost;
            } else {
                self.rejected += 1;
            }
        }
        let admitted: u64 = self.admitted.iter().sum();
        self.utilisation_percent = percent(admitted as f64, self.central as f64);
        let active = self.admitted.iter().zip(&self.offered).filter(|(_, offered)| **offered > 0);
        let shares: Vec<f64> = active.map(|(admitted, _)| *admitted as f64).collect();
        let squares: f64 = shares.iter().map(|share| share * share).sum();
        let sum: f64 = shares.iter().sum();
        self.jain = if squares > 0.0 { sum * sum / (shares.len() as f64 * squares) } else { 1.0 };
    }

    fn excess(&mut self, record: &Record) {
        for excess in &record.excess {
            let units = excess.ticks as f64 / excess.per_unit.max(1) as f64;
            let of_burst = percent(units, excess.burst as f64);
            if of_burst > self.excess_percent {
                self.excess_units = units;
                self.excess_percent = of_burst;
                self.excess_at_s = excess.at_ns as f64 / SECOND as f64;
            }
        }
    }

    fn waits(&mut self, record: &Record) {
        let mut waits_ns = record.waits_ns.clone();
        waits_ns.sort_unstable();
        self.held_percent = percent(waits_ns.len() as f64, record.outcomes.len() as f64);
        let at = |share: usize| {
            let place = (waits_ns.len() * share / 100).min(waits_ns.len().saturating_sub(1));
            waits_ns.get(place).map_or(0.0, |wait_ns| *wait_ns as f64 / MS as f64)
        };
        (self.wait_p50_ms, self.wait_p99_ms) = (at(50), at(99));
    }

    /// Of calls that wait their turn: whether they leave evenly, and each node's in the order in which
    /// they came.
    fn departures(&mut self, scenario: &Scenario, record: &Record) {
        for (key, limit) in scenario.keys.iter().enumerate() {
            let allowed = &scenario.truth[*limit];
            if allowed.algorithm != Algorithm::LeakyQueue {
                continue;
            }
            let mut leaving = Vec::new();
            let mut last_ns = vec![0; scenario.nodes];
            let mut passed: Vec<usize> = (0..record.outcomes.len())
                .filter(|place| scenario.arrivals[*place].key == key)
                .filter(|place| record.outcomes[*place].allowed)
                .collect();
            passed.sort_by_key(|place| record.outcomes[*place].at_ns);
            for place in passed {
                let Outcome { at_ns, delay_ns, .. } = record.outcomes[place];
                let leaves_ns = at_ns + delay_ns;
                leaving.push((leaves_ns, scenario.arrivals[place].cost));
                let last_ns = &mut last_ns[record.deciders[place]];
                self.overtakes += u64::from(leaves_ns < *last_ns);
                *last_ns = leaves_ns.max(*last_ns);
                self.delay_max_ms = self.delay_max_ms.max(delay_ns as f64 / MS as f64);
            }
            leaving.sort_unstable();
            let one = leaving.iter().map(|(_, cost)| *cost).max().unwrap_or(1);
            let mut exact = Exact::bucket(one, allowed.rate);
            leaving.iter().for_each(|(at_ns, cost)| exact.charge(*at_ns, *cost));
            let units = exact.debt_max().0 as f64 / exact.per_unit() as f64;
            self.departures_units = self.departures_units.max(units);
        }
    }

    fn levels(&mut self, scenario: &Scenario, record: &Record) {
        let Some(per_unit) = record.excess.first().map(|excess| excess.per_unit) else { return };
        let mut errors = Vec::new();
        for probe in &record.probes {
            self.probes_missed += u64::from(probe.levels.len() < scenario.nodes);
            let error = |level: &i128| (level - probe.truth) as f64 / per_unit as f64;
            errors.extend(probe.levels.iter().map(error));
        }
        if !errors.is_empty() {
            self.level_low = errors.iter().copied().fold(f64::INFINITY, f64::min);
            self.level_high = errors.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        }
    }
}

/// `part` of `whole` in percent; 100 of nothing.
pub fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole * 100.0 } else { 100.0 }
}

/// Most of the first key's admissions in any ten seconds above capacity and refill, in percent of both.
fn ten_s_percent(scenario: &Scenario, record: &Record) -> f64 {
    let mut admitted: Vec<(u64, u64)> = Vec::new();
    for (arrival, outcome) in scenario.arrivals.iter().zip(&record.outcomes) {
        if arrival.key == 0 && outcome.allowed {
            admitted.push((outcome.at_ns, arrival.cost));
        }
    }
    admitted.sort_unstable();
    let Some((first_ns, _)) = admitted.first().copied() else { return 0.0 };
    let allowed = &scenario.truth[scenario.keys[0]];
    if !allowed.algorithm.is_bucket() {
        return 0.0;
    }
    let refill = 10.0 * SECOND as f64 * allowed.rate.count as f64 / allowed.rate.period_ns as f64;
    let most = allowed.burst as f64 + refill;
    let (mut from, mut units, mut worst) = (0, 0, 0.0_f64);
    for (at_ns, cost) in &admitted {
        units += cost;
        while at_ns - admitted[from].0 > 10 * SECOND {
            units -= admitted[from].1;
            from += 1;
        }
        if at_ns - first_ns >= 10 * SECOND {
            worst = worst.max(percent(units as f64 - most, most));
        }
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Outcome;
    use crate::scenario::Allowed;
    use crate::workload::{Load, Spread, Workload};

    /// A scenario of a flow and a record in which every request passed when it was made.
    fn all_passed(per_s: f64, burst: u64, seconds: u64) -> (Scenario, Record) {
        let mut scenario = Scenario::new(2, Allowed::balanced(burst, 100, SECOND), 1);
        let mut workload = Workload::new(1);
        workload.poisson(&Spread::all(2), Load::of(per_s), 0, seconds * SECOND);
        scenario.arrivals = workload.done();
        let mut record = Record::new(&scenario);
        for (place, arrival) in scenario.arrivals.iter().enumerate() {
            let outcome = Outcome { allowed: true, at_ns: arrival.at_ns, ..Outcome::default() };
            record.outcomes[place] = outcome;
            record.deciders[place] = arrival.node;
        }
        (scenario, record)
    }

    #[test]
    fn a_flow_that_fits_has_full_utilisation_and_is_even() {
        let (scenario, record) = all_passed(80.0, 1000, 60);
        let report = Report::of(&scenario, &record);
        assert!((report.utilisation_percent - 100.0).abs() < 1e-9);
        assert!(report.jain > 0.999 && report.rejected == 0);
        assert!(report.ten_s_percent <= 0.0);
    }

    #[test]
    fn a_flow_that_does_not_fit_shows_in_ten_seconds() {
        let (scenario, record) = all_passed(200.0, 100, 60);
        let report = Report::of(&scenario, &record);
        assert!(report.utilisation_percent > 180.0 && report.ten_s_percent > 70.0);
    }

    #[test]
    fn calls_that_wait_their_turn_leave_evenly_and_in_order() {
        let (mut scenario, mut record) = all_passed(300.0, 100, 1);
        let report = Report::of(&scenario, &record);
        assert!(report.departures_units.abs() < 1e-9, "no queue is looked at");
        scenario = scenario.by(Algorithm::LeakyQueue);
        record.deciders.fill(0);
        // One every 10 ms: nothing above the rate.
        for (place, outcome) in record.outcomes.iter_mut().enumerate() {
            outcome.delay_ns = place as u64 * 10 * MS + SECOND - outcome.at_ns;
        }
        let report = Report::of(&scenario, &record);
        assert!(report.departures_units.abs() < 1e-9 && report.overtakes == 0);
        // One leaves half a step early, and so two are within 5 ms.
        record.outcomes[7].delay_ns -= 5 * MS;
        let report = Report::of(&scenario, &record);
        assert!((report.departures_units - 0.5).abs() < 1e-9 && report.overtakes == 0);
        record.outcomes[9].delay_ns -= 25 * MS;
        let report = Report::of(&scenario, &record);
        assert!(report.departures_units > 1.0 && report.overtakes > 0);
    }
}
