//! What `rlnode audit` says, as its JSON has it: the findings, judged.

use std::collections::BTreeMap;

use limiter::bound::{Circumstances, ceiling};
use limiter::{Accuracy, Rate};
use serde::Serialize;

use crate::audit::examine::{ClusterFindings, Findings, LimitFindings, Totals, Unrecorded};
use crate::audit::survey::{Life, Unjudged};
use crate::audit::worst::{Measurer, Window};
use crate::node::MAX_WAIT_MAX;

/// Time within which a reachable member acknowledges: one that does not is lost.
const ACKNOWLEDGED_WITHIN_NS: u64 = 500_000_000;
const NS_PER_MS: u64 = 1_000_000;

/// The whole answer.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// No limit is above its ceiling.
    pub(super) within: bool,
    /// Each cluster whose records were read; each start of a node that was in none.
    pub(super) clusters: Vec<ClusterReport>,
    /// Files that could not be read, or not to their end.
    pub(super) damaged: Vec<DamageReport>,
    /// Files that were left out because another is the same.
    pub(super) copies: Vec<String>,
}

/// A file that could not be read to its end.
#[derive(Debug, Serialize)]
pub(super) struct DamageReport {
    pub(super) file: String,
    /// Where what cannot be read begins.
    pub(super) at_byte: u64,
    pub(super) what: String,
}

/// What the records of one cluster say.
#[derive(Debug, Serialize)]
pub(super) struct ClusterReport {
    /// Its name; empty: the node was in none.
    pub(super) cluster: String,
    /// Most members that a node counted.
    pub(super) members: usize,
    /// Starts of nodes that others knew, and that have no records here.
    pub(super) unrecorded: Vec<UnrecordedReport>,
    /// Members that were counted, but neither have records here nor were met by a node that has.
    pub(super) unmet: usize,
    /// Spends that were looked at: of the limits that were asked for, of keys that all nodes recorded.
    pub(super) spends: u64,
    /// One key in so many is recorded.
    pub(super) sample: u32,
    /// Unix time of the first and the last record in milliseconds.
    pub(super) from_unix_ms: i64,
    pub(super) until_unix_ms: i64,
    /// By how much the time between two spends on different nodes may be wrong, in microseconds; none:
    /// somebody's clock was measured by nobody, and the wall clocks are taken for right.
    pub(super) clock_error_us: Option<u64>,
    /// By how much two measures of one difference contradict each other at most, in microseconds.
    pub(super) clock_disagreement_us: u64,
    /// Times at which members were missing or may have been, and their sum in milliseconds.
    pub(super) splits: usize,
    pub(super) split_ms: u64,
    /// Spends that came too late to be put in order.
    pub(super) late: u64,
    pub(super) nodes: Vec<LifeReport>,
    pub(super) limits: Vec<LimitReport>,
    /// Limits that count by windows or a log, which are not judged.
    pub(super) unjudged: Vec<UnjudgedReport>,
}

/// A limit that is not judged.
#[derive(Debug, Serialize)]
pub(super) struct UnjudgedReport {
    pub(super) limit: String,
    /// How it counts, as the configuration file says.
    pub(super) algorithm: String,
    pub(super) spends: u64,
    /// Units of allowed checks.
    pub(super) admitted: u64,
}

/// A start of a node that has no records here.
#[derive(Debug, Serialize)]
pub(super) struct UnrecordedReport {
    pub(super) node: String,
    pub(super) life: String,
    /// When others saw it first and counted it last, as Unix time in milliseconds.
    pub(super) from_unix_ms: i64,
    pub(super) until_unix_ms: i64,
}

/// One start of a node.
#[derive(Debug, Serialize)]
pub(super) struct LifeReport {
    pub(super) node: String,
    pub(super) life: String,
    pub(super) version: String,
    pub(super) files: usize,
    pub(super) spends: u64,
    pub(super) from_unix_ms: i64,
    pub(super) until_unix_ms: i64,
    /// Time that is covered.
    pub(super) covered_ms: u64,
    /// Spends that the node says are missing.
    pub(super) missing_spends: u64,
    /// Files that it removed to keep within its bound.
    pub(super) removed_files: u64,
    /// Numbers between the first and the last file that are not here.
    pub(super) missing_files: u64,
    /// It stopped in order: nothing is missing at the end.
    pub(super) ended: bool,
    /// Its clock is known to be right to this, in microseconds.
    pub(super) clock_error_us: Option<u64>,
}

/// How a limit did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Judgement {
    /// The worst window for which there is a ceiling is within it.
    Within,
    /// It is above it.
    Above,
    /// It is above it, but debits or refunds are among the spends, and the ceiling is of checks alone.
    NotStated,
    /// No check was allowed while all members reached each other: there is nothing to judge.
    Nothing,
}

/// What the records say about one limit.
#[derive(Debug, Serialize)]
pub(super) struct LimitReport {
    pub(super) limit: String,
    pub(super) rate_count: u64,
    pub(super) rate_period_ns: u64,
    pub(super) burst: u64,
    pub(super) accuracy: &'static str,
    pub(super) shadow: bool,
    /// Nodes, or starts, had other numbers; these are the most generous.
    pub(super) numbers_differ: bool,
    pub(super) keys: u64,
    #[serde(flatten)]
    pub(super) totals: TotalsReport,
    pub(super) by_node: BTreeMap<String, TotalsReport>,
    /// Units above `burst + rate * t` that are proven to be the most while all members reach each other.
    pub(super) ceiling: u64,
    pub(super) judgement: Judgement,
    /// The window that was judged.
    pub(super) judged: Option<WindowReport>,
    /// The worst windows whatever the cluster was like, one for each key.
    pub(super) worst: Vec<WindowReport>,
}

/// Sums of spends.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct TotalsReport {
    pub(super) spends: u64,
    /// Units of allowed checks.
    pub(super) admitted: u64,
    pub(super) debited: u64,
    pub(super) refunded: u64,
}

/// A window.
#[derive(Clone, Debug, Serialize)]
pub(super) struct WindowReport {
    /// The hash of the bucket.
    pub(super) key: String,
    pub(super) from_unix_ns: i64,
    pub(super) length_ns: u64,
    /// Units in it, less those given back.
    pub(super) units: i64,
    pub(super) debited: i64,
    pub(super) nodes: Vec<String>,
    /// Thousandths of a unit above `burst + rate * length`; negative: so much was left.
    pub(super) excess_milliunits: i64,
    /// Whole units that it is at least and at most, whatever the clocks; none: their error is not known.
    pub(super) excess_least: Option<i64>,
    pub(super) excess_most: Option<i64>,
}

impl Report {
    pub(super) fn new(findings: &Findings) -> Self {
        let clusters: Vec<_> = findings.clusters.iter().map(ClusterReport::new).collect();
        let is_above = |limit: &LimitReport| limit.judgement == Judgement::Above;
        let damaged = findings.damages.iter().map(|(path, damage)| DamageReport {
            file: path.display().to_string(),
            at_byte: damage.at_byte,
            what: damage.what.to_string(),
        });
        Self {
            within: !clusters.iter().flat_map(|cluster| &cluster.limits).any(is_above),
            damaged: damaged.collect(),
            copies: findings.copies.iter().map(|path| path.display().to_string()).collect(),
            clusters,
        }
    }
}

impl ClusterReport {
    fn new(found: &ClusterFindings) -> Self {
        let lives = found.lives.iter().enumerate();
        let nodes: Vec<_> =
            lives.map(|(index, life)| LifeReport::new(found, index, life)).collect();
        let split_ns: u64 = found.unsettled.iter().map(|(from, until)| until.abs_diff(*from)).sum();
        let unix_ms = |at_ns| found.alignment.wall_ns(at_ns).div_euclid(1_000_000);
        let unrecorded = |missing: &Unrecorded| UnrecordedReport {
            node: missing.node.clone(),
            life: format!("{:016x}", missing.life),
            from_unix_ms: unix_ms(missing.from_ns),
            until_unix_ms: unix_ms(missing.until_ns),
        };
        let cluster = found.lives.first().map(|life| life.begin.cluster.clone());
        Self {
            cluster: cluster.unwrap_or_default(),
            members: found.members,
            unrecorded: found.unrecorded.iter().map(unrecorded).collect(),
            unmet: found.unmet,
            spends: found.limits.iter().map(|limit| limit.totals().spends).sum(),
            sample: found.sample,
            from_unix_ms: nodes.iter().map(|node| node.from_unix_ms).min().unwrap_or(0),
            until_unix_ms: nodes.iter().map(|node| node.until_unix_ms).max().unwrap_or(0),
            clock_error_us: found.alignment.between_ns().map(|ns| ns.div_ceil(1_000)),
            clock_disagreement_us: found.alignment.disagreement_ns.div_ceil(1_000),
            splits: found.unsettled.len(),
            split_ms: split_ns / NS_PER_MS,
            late: found.late,
            nodes,
            limits: found.limits.iter().map(|limit| LimitReport::new(found, limit)).collect(),
            unjudged: found.unjudged.iter().cloned().map(UnjudgedReport::from).collect(),
        }
    }
}

impl LifeReport {
    fn new(found: &ClusterFindings, index: usize, life: &Life) -> Self {
        let (from_ns, until_ns) = life.covered.ends().unwrap_or((0, 0));
        let unix_ms = |at_ns| {
            let common_ns = found.alignment.common(index, at_ns);
            found.alignment.wall_ns(common_ns).div_euclid(1_000_000)
        };
        let numbers = life.files.iter().map(|file| file.number);
        let last = numbers.max().unwrap_or(0);
        let here = life.files.len() as u64;
        Self {
            node: life.begin.node.clone(),
            life: format!("{:016x}", life.begin.life),
            version: life.begin.version.clone(),
            files: life.files.len(),
            spends: life.spends,
            from_unix_ms: unix_ms(from_ns),
            until_unix_ms: unix_ms(until_ns),
            covered_ms: life.covered.total_ns() / NS_PER_MS,
            missing_spends: life.gaps.iter().map(|gap| gap.spends).sum(),
            removed_files: life.removed,
            missing_files: last.saturating_sub(here),
            ended: life.has_end,
            clock_error_us: found.alignment.shifts[index].error_ns.map(|ns| ns.div_ceil(1_000)),
        }
    }
}

impl LimitReport {
    fn new(found: &ClusterFindings, limit: &LimitFindings) -> Self {
        let numbers = &limit.limit;
        let accuracy = if numbers.fast { Accuracy::Fast } else { Accuracy::Balanced };
        let intervals = found.lives.iter().map(|life| life.begin.sync_interval_ns);
        let ceiling = ceiling(&Circumstances {
            members: found.members,
            accuracy,
            rate: Rate { count: numbers.count, period_ns: numbers.period_ns },
            burst: numbers.burst,
            sync_interval_ns: intervals.max().unwrap_or(0),
            acknowledged_within_ns: ACKNOWLEDGED_WITHIN_NS,
            held_ns: u64::try_from(MAX_WAIT_MAX.as_nanos()).unwrap_or(u64::MAX),
        });
        let totals = limit.totals();
        let by = limit.measurer();
        let judged = limit.judged(found.members);
        let has_only_checks = totals.debited == 0 && totals.refunded == 0;
        let judgement = match judged {
            None => Judgement::Nothing,
            Some((_, window)) if by.excess(window) <= by.ticks(ceiling) => Judgement::Within,
            Some(_) if has_only_checks => Judgement::Above,
            Some(_) => Judgement::NotStated,
        };
        let show = |(hash, window): &(u64, Window)| WindowReport::new(found, &by, *hash, window);
        let by_node = found.nodes.iter().zip(&limit.by_node);
        Self {
            limit: numbers.name.clone(),
            rate_count: numbers.count,
            rate_period_ns: numbers.period_ns,
            burst: numbers.burst,
            accuracy: if numbers.fast { "fast" } else { "balanced" },
            shadow: numbers.shadow,
            numbers_differ: limit.differs,
            keys: limit.keys,
            totals: totals.into(),
            by_node: by_node.map(|(name, totals)| (name.clone(), (*totals).into())).collect(),
            ceiling,
            judgement,
            judged: judged.map(show),
            worst: limit.worst.iter().map(show).collect(),
        }
    }
}

impl From<Unjudged> for UnjudgedReport {
    fn from(limit: Unjudged) -> Self {
        let Unjudged { name, algorithm, spends, admitted } = limit;
        Self { limit: name, algorithm, spends, admitted }
    }
}

impl From<Totals> for TotalsReport {
    fn from(totals: Totals) -> Self {
        let Totals { spends, admitted, debited, refunded } = totals;
        Self { spends, admitted, debited, refunded }
    }
}

impl WindowReport {
    fn new(found: &ClusterFindings, by: &Measurer, hash: u64, window: &Window) -> Self {
        let excess = by.excess(window);
        let narrow = |units: i128| {
            i64::try_from(units).unwrap_or(if units < 0 { i64::MIN } else { i64::MAX })
        };
        let named = |(index, name): (usize, &String)| {
            (window.nodes >> index.min(63) & 1 == 1).then(|| name.clone())
        };
        let error = found.alignment.between_ns().map(|ns| by.refill(ns));
        // The spends of one node are as far apart as it says.
        let is_of_one = window.nodes.count_ones() == 1;
        let least = |error: i128| if is_of_one { excess } else { excess.saturating_sub(error) };
        Self {
            key: format!("{hash:016x}"),
            from_unix_ns: found.alignment.wall_ns(window.from_ns),
            length_ns: window.length_ns(),
            units: window.units,
            debited: window.debited,
            nodes: found.nodes.iter().enumerate().filter_map(named).collect(),
            excess_milliunits: narrow(by.milliunits(excess)),
            excess_least: error.map(|error| narrow(by.units(least(error), false))),
            excess_most: error.map(|error| narrow(by.units(excess.saturating_add(error), true))),
        }
    }
}
