//! What a fleet's records say about each of its limits: the worst window, and what it is put against.
//!
//! Memory is bounded: there are as many buckets in it as [`BUCKETS_MAX`]. Where the files have more,
//! they are read several times, each time for a part of the buckets.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use super::clocks::{Alignment, align};
use super::reader::Damage;
use super::record::LimitRecord;
use super::recorder::Sample;
use super::survey::{Life, Survey, Unjudged};
use super::timeline::{Event, Timeline};
use super::worst::{Measurer, Window, Windows};

/// Most buckets that are looked at in one reading of the files: some 200 MB.
pub const BUCKETS_MAX: usize = 500_000;

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Name of the only limit that is looked at.
    pub limit: Option<String>,
    /// How many of the worst buckets of each limit are kept, at least one.
    pub keys: usize,
}

/// What the files say.
#[derive(Debug)]
pub struct Findings {
    /// What is to be said about each cluster, by name.
    pub clusters: Vec<ClusterFindings>,
    /// What cannot be read.
    pub damages: Vec<(PathBuf, Damage)>,
    /// Files that are another's copy.
    pub copies: Vec<PathBuf>,
}

/// What the files of nodes that share a secret say. A node in no cluster is one of its own, and so is
/// each of its starts, since it begins with full buckets.
#[derive(Debug)]
pub struct ClusterFindings {
    /// Its starts of nodes.
    pub lives: Vec<Life>,
    /// The names of its nodes. Windows tell them by their index.
    pub nodes: Vec<String>,
    /// The starts of nodes that others knew, and that have no records.
    pub unrecorded: Vec<Unrecorded>,
    /// Members that were counted, but neither have records nor were ever met by who has.
    pub unmet: usize,
    /// Most members that a node counted; 1 where there is no cluster.
    pub members: usize,
    /// One key in so many is looked at: the least that any node recorded.
    pub sample: u32,
    /// Their clocks in one.
    pub alignment: Alignment,
    /// When members were missing or may have been, in the common clock.
    pub unsettled: Vec<(i64, i64)>,
    /// Spends that came too late to be put in order.
    pub late: u64,
    /// What is to be said about each limit, by name.
    pub limits: Vec<LimitFindings>,
    /// The limits that are no buckets, for which there is nothing to compare a window with.
    pub unjudged: Vec<Unjudged>,
}

/// A start of a node that others knew, and that has no records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unrecorded {
    /// The node's name.
    pub node: String,
    /// Random number of this start.
    pub life: u64,
    /// When another saw it first, in the common clock.
    pub from_ns: i64,
    /// When another counted it last.
    pub until_ns: i64,
}

/// What the records say about one limit.
#[derive(Clone, Debug)]
pub struct LimitFindings {
    /// Its numbers.
    pub limit: LimitRecord,
    /// They were not the same everywhere; these are the most generous.
    pub differs: bool,
    /// Keys that were recorded.
    pub keys: u64,
    /// Spends by index of the node.
    pub by_node: Vec<Totals>,
    /// The worst windows, one for each key, the worst first.
    pub worst: Vec<(u64, Window)>,
    /// The worst of those in which all members reached each other all the time.
    pub worst_settled: Option<(u64, Window)>,
}

/// Sums of spends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// How many.
    pub spends: u64,
    /// Units of allowed checks.
    pub admitted: u64,
    /// Units of debits.
    pub debited: u64,
    /// Units given back.
    pub refunded: u64,
}

impl Totals {
    fn take(&mut self, event: &Event) {
        self.spends += 1;
        let sum = match event.units {
            ..0 => &mut self.refunded,
            _ if event.is_check => &mut self.admitted,
            _ => &mut self.debited,
        };
        *sum = sum.saturating_add(event.units.unsigned_abs());
    }

    /// With `other` added.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            spends: self.spends.saturating_add(other.spends),
            admitted: self.admitted.saturating_add(other.admitted),
            debited: self.debited.saturating_add(other.debited),
            refunded: self.refunded.saturating_add(other.refunded),
        }
    }
}

/// Reads the files at `paths`.
///
/// # Errors
/// There is too much to be merged, or nothing of the limit that is asked for.
pub fn examine(paths: &[PathBuf], options: &Options) -> Result<Findings, String> {
    examine_within(paths, options, BUCKETS_MAX)
}

/// The same with at most `buckets_max` buckets in memory.
pub(super) fn examine_within(
    paths: &[PathBuf],
    options: &Options,
    buckets_max: usize,
) -> Result<Findings, String> {
    let Survey { lives, limits, differing, damages, copies, .. } = Survey::of(paths)?;
    let is_wanted =
        |limit: &LimitRecord| options.limit.as_ref().is_none_or(|wanted| *wanted == limit.name);
    let others = lives.iter().flat_map(|life| life.unjudged.values());
    let unjudged: BTreeSet<_> = others.map(|limit| limit.name.clone()).collect();
    let is_unjudged = options.limit.as_ref().is_some_and(|wanted| unjudged.contains(wanted));
    let is_known = is_unjudged || limits.values().any(is_wanted);
    if !lives.is_empty() && options.limit.is_some() && !is_known {
        let judged = limits.values().map(|limit| &limit.name);
        let names: Vec<_> = judged.chain(&unjudged).map(|name| format!("`{name}`")).collect();
        let wanted = options.limit.as_deref().unwrap_or_default();
        return Err(format!(
            "no spend of `{wanted}` is recorded; those with any: {}",
            names.join(", ")
        ));
    }
    let limits: BTreeMap<_, _> = limits.into_iter().filter(|(_, it)| is_wanted(it)).collect();
    let mut groups: BTreeMap<_, Vec<Life>> = BTreeMap::new();
    for life in lives {
        let key = (life.begin.cluster.clone(), life.begin.fingerprint);
        groups.entry(key).or_default().push(life);
    }
    let clusters = groups.into_values().map(|lives| {
        let mut findings = ClusterFindings::new(lives, options.limit.as_deref());
        findings.find(&limits, options.keys.max(1), buckets_max.max(1));
        for found in &mut findings.limits {
            found.differs = differing.contains(&found.limit.id);
        }
        findings
    });
    Ok(Findings { clusters: clusters.collect(), damages, copies })
}

impl ClusterFindings {
    fn new(lives: Vec<Life>, wanted: Option<&str>) -> Self {
        let alignment = align(&lives.iter().collect::<Vec<_>>());
        let mut nodes: Vec<_> = lives.iter().map(|life| life.begin.node.clone()).collect();
        nodes.sort();
        nodes.dedup();
        let unrecorded = unrecorded(&lives, &alignment);
        let members = lives.iter().map(|life| usize::from(life.members)).max().unwrap_or(1).max(1);
        let names: HashSet<_> =
            nodes.iter().chain(unrecorded.iter().map(|missing| &missing.node)).collect();
        let unmet = members.saturating_sub(names.len());
        let sample = lives.iter().map(|life| life.begin.sample).max().unwrap_or(1);
        let unsettled = unsettled(&lives, &alignment);
        let (late, limits) = (0, Vec::new());
        let mut unjudged = BTreeMap::<u64, Unjudged>::new();
        for (id, limit) in lives.iter().flat_map(|life| &life.unjudged) {
            let is_wanted = wanted.is_none_or(|wanted| wanted == limit.name);
            match unjudged.get_mut(id) {
                Some(all) => {
                    all.spends = all.spends.saturating_add(limit.spends);
                    all.admitted = all.admitted.saturating_add(limit.admitted);
                }
                None if is_wanted => drop(unjudged.insert(*id, limit.clone())),
                None => {}
            }
        }
        Self {
            lives,
            nodes,
            unrecorded,
            unmet,
            members,
            sample,
            alignment,
            unsettled,
            late,
            limits,
            unjudged: unjudged.into_values().collect(),
        }
    }

    /// Finds the worst windows, part by part.
    fn find(&mut self, limits: &BTreeMap<u64, LimitRecord>, keys: usize, buckets_max: usize) {
        let mut found: BTreeMap<u64, LimitFindings> = BTreeMap::new();
        let mut parts = vec![Part { of: 1, index: 0 }];
        while let Some(part) = parts.pop() {
            let mut reading = PartReading {
                cluster: self,
                limits,
                part,
                buckets_max,
                buckets: HashMap::new(),
                left: Vec::new(),
                totals: HashMap::new(),
            };
            let late = reading.read();
            let PartReading { buckets, left, totals, .. } = reading;
            parts.extend(left);
            let nodes = self.nodes.len();
            for ((id, hash), bucket) in buckets {
                let Some(limit) = limits.get(&id) else { continue };
                let found = found.entry(id).or_insert_with(|| LimitFindings::new(limit, nodes));
                found.take(hash, &bucket, keys);
            }
            for ((id, node), totals) in totals {
                if let Some(found) = found.get_mut(&id) {
                    found.by_node[node] = found.by_node[node].plus(totals);
                }
            }
            self.late = self.late.max(late);
        }
        self.limits = found.into_values().collect();
        self.limits.sort_by(|a, b| a.limit.name.cmp(&b.limit.name));
    }
}

/// The starts of nodes that somebody knew, and that are none of `lives`, by name and time.
fn unrecorded(lives: &[Life], alignment: &Alignment) -> Vec<Unrecorded> {
    let here: HashSet<_> =
        lives.iter().map(|life| (life.begin.node.as_str(), life.begin.life)).collect();
    let mut seen: BTreeMap<_, (i64, i64)> = BTreeMap::new();
    for (index, life) in lives.iter().enumerate() {
        for ((node, peer), (from, until)) in &life.peers {
            if here.contains(&(node.as_str(), *peer)) {
                continue;
            }
            let (from, until) = (alignment.common(index, *from), alignment.common(index, *until));
            let known = seen.entry((node.clone(), *peer)).or_insert((from, until));
            *known = (known.0.min(from), known.1.max(until));
        }
    }
    let missing = seen.into_iter().map(|((node, life), (from_ns, until_ns))| Unrecorded {
        node,
        life,
        from_ns,
        until_ns,
    });
    let mut missing: Vec<_> = missing.collect();
    missing.sort_by(|a, b| (&a.node, a.from_ns, a.life).cmp(&(&b.node, b.from_ns, b.life)));
    missing
}

/// The times in which not everybody reached everybody, in the common clock, in order and apart.
fn unsettled(lives: &[Life], alignment: &Alignment) -> Vec<(i64, i64)> {
    let error_ns = i64::try_from(alignment.between_ns().unwrap_or(0)).unwrap_or(i64::MAX);
    let mut spans = Vec::new();
    for (index, life) in lives.iter().enumerate() {
        spans.extend(life.unsettled.iter().map(|(from, until)| {
            let (from, until) = (alignment.common(index, from), alignment.common(index, until));
            (from.saturating_sub(error_ns), until.saturating_add(error_ns))
        }));
    }
    spans.sort_unstable();
    let mut apart: Vec<(i64, i64)> = Vec::new();
    for (from, until) in spans {
        match apart.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(until),
            _ => apart.push((from, until)),
        }
    }
    apart
}

/// The buckets whose hash is `index` modulo `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    of: u64,
    index: u64,
}

impl Part {
    fn holds(self, hash: u64) -> bool {
        hash % self.of == self.index
    }

    /// Its two halves.
    fn halves(self) -> [Self; 2] {
        let of = self.of.saturating_mul(2);
        [Self { of, index: self.index }, Self { of, index: self.index + self.of }]
    }
}

/// One reading of the files, for a part of the buckets.
struct PartReading<'a> {
    cluster: &'a ClusterFindings,
    limits: &'a BTreeMap<u64, LimitRecord>,
    part: Part,
    buckets_max: usize,
    buckets: HashMap<(u64, u64), Bucket>,
    /// Parts that were left for other readings.
    left: Vec<Part>,
    /// Sums by limit and node.
    totals: HashMap<(u64, usize), Totals>,
}

/// What is known of a bucket.
#[derive(Clone, Debug, Default)]
struct Bucket {
    all: Windows,
    settled: Windows,
    /// How many unsettled times were over when `settled` was last looked at.
    over: usize,
    /// Sums by node; there are few nodes that a key meets.
    totals: Vec<(usize, Totals)>,
}

impl PartReading<'_> {
    /// Reads everything, and gives how many spends came late.
    fn read(&mut self) -> u64 {
        let cluster = self.cluster;
        let lives: Vec<_> = cluster.lives.iter().collect();
        let node_of = |life: &&Life| cluster.nodes.iter().position(|name| *name == life.begin.node);
        let nodes: Vec<_> = lives.iter().map(|life| node_of(life).unwrap_or(0)).collect();
        let measurers: HashMap<_, _> =
            self.limits.iter().map(|(id, limit)| (*id, Measurer::new(limit))).collect();
        let sample = Sample::one_in(cluster.sample);
        let mut timeline = Timeline::new(&lives, &cluster.alignment);
        let mut over = 0;
        for event in timeline.by_ref() {
            let Some(by) = measurers.get(&event.limit) else { continue };
            if !sample.takes(event.hash) || !self.part.holds(event.hash) {
                continue;
            }
            while cluster.unsettled.get(over).is_some_and(|(_, until)| *until < event.at_ns) {
                over += 1;
            }
            let is_settled =
                cluster.unsettled.get(over).is_none_or(|(from, _)| event.at_ns < *from);
            let node = nodes[event.life];
            let bucket = self.buckets.entry((event.limit, event.hash)).or_default();
            bucket.all.take(by, event.at_ns, event.units, event.is_check, node);
            if bucket.over != over {
                bucket.settled.cut();
                bucket.over = over;
            }
            if is_settled {
                bucket.settled.take(by, event.at_ns, event.units, event.is_check, node);
            }
            match bucket.totals.iter_mut().find(|(of, _)| *of == node) {
                Some((_, totals)) => totals.take(&event),
                None => {
                    let mut totals = Totals::default();
                    totals.take(&event);
                    bucket.totals.push((node, totals));
                }
            }
            while self.buckets.len() > self.buckets_max && self.part.of < 1 << 32 {
                let [kept, left] = self.part.halves();
                self.part = kept;
                self.left.push(left);
                self.buckets.retain(|(_, hash), _| kept.holds(*hash));
            }
        }
        for ((id, _), bucket) in &self.buckets {
            for (node, totals) in &bucket.totals {
                let sum = self.totals.entry((*id, *node)).or_default();
                *sum = sum.plus(*totals);
            }
        }
        timeline.late()
    }
}

impl LimitFindings {
    fn new(limit: &LimitRecord, nodes: usize) -> Self {
        Self {
            limit: limit.clone(),
            differs: false,
            keys: 0,
            by_node: vec![Totals::default(); nodes],
            worst: Vec::new(),
            worst_settled: None,
        }
    }

    fn take(&mut self, hash: u64, bucket: &Bucket, keys: usize) {
        self.keys += 1;
        let by = self.measurer();
        if let Some(window) = bucket.settled.worst() {
            let is_worse = |(_, known): &(u64, Window)| by.excess(window) > by.excess(known);
            if self.worst_settled.as_ref().is_none_or(is_worse) {
                self.worst_settled = Some((hash, *window));
            }
        }
        if let Some(window) = bucket.all.worst() {
            let place = self.worst.partition_point(|(other, known)| {
                (by.excess(known), *other) > (by.excess(window), hash)
            });
            if place < keys {
                self.worst.insert(place, (hash, *window));
                self.worst.truncate(keys);
            }
        }
    }

    /// The window that is put against the ceiling: the worst of those for which one is stated.
    pub fn judged(&self, members: usize) -> Option<&(u64, Window)> {
        if members > 1 { self.worst_settled.as_ref() } else { self.worst.first() }
    }

    /// What its buckets are measured by.
    pub fn measurer(&self) -> Measurer {
        Measurer::new(&self.limit)
    }

    /// Sums over all nodes.
    pub fn totals(&self) -> Totals {
        self.by_node.iter().fold(Totals::default(), |sum, totals| sum.plus(*totals))
    }
}
