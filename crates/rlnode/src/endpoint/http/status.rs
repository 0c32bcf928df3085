//! `GET /v1/status`: what the node is and what it has done, for people and for `rlnode status`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use limiter::RuleCounts;
use serde::{Deserialize, Serialize};

use super::cluster_status::ClusterStatus;
use crate::audit::Audit;
use crate::door::{Door, Fault, Outcome};
use crate::node::Node;

const NS_PER_MS: u64 = 1_000_000;

/// What the node is and what it has done since it started. Fields may be added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the program.
    pub version: String,
    /// Name of the node.
    pub node: String,
    /// `starting`, `ready` or `stopping`.
    pub readiness: String,
    /// How well it knows the fleet's counts, as in a decision.
    pub freshness: String,
    /// Milliseconds since it started.
    pub uptime_ms: u64,
    /// Entries held, most entries, and bytes of the tables.
    #[serde(flatten)]
    pub store: StoreStatus,
    /// The file that its limits are of.
    #[serde(default)]
    pub file: FileStatus,
    /// Its cluster; none: it is alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterStatus>,
    /// What is recorded of what it lets through; none: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditStatus>,
    /// Each limit and override, in the order of the file.
    pub limits: Vec<LimitStatus>,
    /// Each door.
    pub doors: Vec<DoorStatus>,
}

/// The tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatus {
    /// Entries held.
    pub entries: u64,
    /// Most entries.
    pub entries_max: u64,
    /// Bytes of the tables.
    pub table_bytes: u64,
    /// Entries at rest that made room for a new key.
    pub evicted: u64,
    /// Entries at rest that were dropped in time.
    pub expired: u64,
    /// Requests that no limit matched.
    pub unmatched: u64,
    /// Limits not applied, or denied, for want of an attribute.
    pub missing_attribute: u64,
    /// Requests answered from an overflow bucket, or by `when_full`.
    pub full: u64,
    /// Debits cut at the bound of a bucket's debt.
    pub debits_clipped: u64,
}

/// The file, and what is in force of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStatus {
    /// Names the limits in force: the same on nodes that have the same.
    pub limits_hash: String,
    /// When it was last put in force, in milliseconds of Unix time.
    pub in_force_at_ms: u64,
    /// Times that it was put in force while the node ran.
    pub reloads: u64,
    /// Times that it could not be.
    pub failed_reloads: u64,
    /// Why it is not in force as it is now; null: it is.
    pub error: Option<String>,
    /// Since when it is not, in milliseconds of Unix time; null: it is.
    pub failing_since_ms: Option<u64>,
    /// Settings that differ from those in force and wait for a restart, by the names of the file.
    pub needs_restart: Vec<String>,
}

impl FileStatus {
    fn of(node: &Node, plan: &limiter::Plan) -> Self {
        let (reloads, state) = (node.reloads(), node.reloads().state());
        Self {
            limits_hash: format!("{:016x}", plan.fingerprint()),
            in_force_at_ms: state.in_force_unix_ms,
            reloads: reloads.successes(),
            failed_reloads: reloads.failures(),
            failing_since_ms: state.pending.as_ref().map(|pending| pending.since_unix_ms),
            error: state.pending.map(|pending| pending.error),
            needs_restart: state.needs_restart.into_iter().map(str::to_owned).collect(),
        }
    }
}

/// The record of what the node lets through, since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditStatus {
    /// One key in so many is recorded.
    pub sample: u32,
    /// Spends recorded.
    pub recorded: u64,
    /// Spends not recorded because too many waited for the disk.
    pub dropped: u64,
    /// Spends not recorded because the disk refused them.
    pub unwritten: u64,
    /// Times that a file could not be opened or written.
    pub failures: u64,
    /// Files removed to keep within the bound.
    pub removed_files: u64,
    /// Bytes of the files.
    pub bytes: u64,
}

impl AuditStatus {
    fn new(audit: &Audit) -> Self {
        let counts = audit.counts();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            sample: audit.sample().to_one_in(),
            recorded: read(&counts.recorded),
            dropped: read(&counts.dropped),
            unwritten: read(&counts.unwritten),
            failures: read(&counts.failures),
            removed_files: read(&counts.removed),
            bytes: read(&counts.bytes),
        }
    }
}

/// What one limit or override decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitStatus {
    /// `name` or `name/override`.
    pub name: String,
    /// Checks allowed.
    pub allowed: u64,
    /// Checks denied.
    pub denied: u64,
    /// Checks that it would have denied, were it not a shadow.
    pub shadow_denied: u64,
    /// Peeks.
    pub peeks: u64,
    /// Debits.
    pub debits: u64,
    /// Refunds.
    pub refunds: u64,
    /// Units spent.
    pub units: u64,
    /// Denials of checks for want of a share while it had units left.
    #[serde(default)]
    pub share_denied: u64,
}

impl LimitStatus {
    fn new(name: &str, counts: &RuleCounts) -> Self {
        let RuleCounts { allowed, denied, shadow_denied, peeks, .. } = *counts;
        let RuleCounts { debits, refunds, units, share_denied, .. } = *counts;
        Self {
            name: name.to_owned(),
            allowed,
            denied,
            shadow_denied,
            peeks,
            debits,
            refunds,
            units,
            share_denied,
        }
    }
}

/// What one door did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoorStatus {
    /// The word for the door.
    pub door: String,
    /// Its addresses and paths; none if it is closed.
    pub addresses: Vec<String>,
    /// Frames, or HTTP questions.
    pub frames: u64,
    /// Checks by outcome.
    pub checks: BTreeMap<Cow<'static, str>, u64>,
    /// Errors by kind, without those that did not happen.
    pub errors: BTreeMap<Cow<'static, str>, u64>,
    /// Open connections.
    pub connections: u64,
}

impl Status {
    /// The status of `node` now.
    pub async fn of(node: &Node) -> Self {
        let member = node.engine().member_status().await;
        let limiter = node.limiter();
        let (usage, plan) = (limiter.usage(), limiter.plan());
        let counts = limiter.counts_of(&plan);
        let rules = plan.rules().iter().zip(&counts.rules);
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: node.name().to_owned(),
            readiness: node.readiness().as_str().to_owned(),
            freshness: node.freshness().as_str().to_owned(),
            uptime_ms: node.uptime_ns() / NS_PER_MS,
            store: StoreStatus {
                entries: usage.entries,
                entries_max: usage.entries_max,
                table_bytes: usage.table_bytes,
                evicted: counts.evicted,
                expired: counts.expired,
                unmatched: counts.unmatched,
                missing_attribute: counts.missing,
                full: counts.full,
                debits_clipped: counts.debits_clipped,
            },
            file: FileStatus::of(node, &plan),
            cluster: member.as_ref().map(ClusterStatus::new),
            audit: node.audit().map(AuditStatus::new),
            limits: rules.map(|(rule, counts)| LimitStatus::new(rule.name(), counts)).collect(),
            doors: Door::ALL.map(|door| door_status(node, door)).into(),
        }
    }
}

fn door_status(node: &Node, door: Door) -> DoorStatus {
    let counters = node.counters();
    let addresses = node.addresses().iter().filter(|at| at.door == door);
    let checks = Outcome::ALL
        .map(|outcome| (Cow::Borrowed(outcome.as_str()), counters.checks(door, outcome)));
    let errors = Fault::ALL
        .map(|fault| (Cow::Borrowed(fault.as_str()), counters.faults(door, fault)))
        .into_iter()
        .filter(|(_, count)| *count > 0);
    DoorStatus {
        door: door.as_str().to_owned(),
        addresses: addresses.map(|at| at.address.clone()).collect(),
        frames: counters.frames(door),
        checks: checks.into(),
        errors: errors.collect(),
        connections: counters.connections_open(door),
    }
}
