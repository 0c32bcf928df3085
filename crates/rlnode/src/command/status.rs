//! `rlnode status`: what the node is and what it has done.

use std::fmt::Write;
use std::time::Duration;

use clap::Args;

use super::cluster_words::cluster_in_words;
use super::exchange::fetch_json;
use super::{Output, words};
use crate::clock;
use crate::endpoint::http::status::{DoorStatus, FileStatus, LimitStatus, Status as NodeStatus};
use crate::exit::Exit;

/// Show what the node is and what it has done; exit 2 if it does not answer
#[derive(Debug, Args)]
pub struct Status {
    /// Node: HOST:PORT of its HTTP, or the path of its socket [default: $RLNODE_ADDR, else the
    /// default sockets]
    #[arg(long, value_name = "ADDRESS")]
    addr: Option<String>,
    /// Print the JSON object that the node gives
    #[arg(long)]
    json: bool,
}

impl Status {
    /// Asks and prints the answer.
    pub fn run(self, output: &mut Output<'_>) -> Exit {
        let shown = fetch(self.addr.as_deref()).and_then(|status| {
            if self.json {
                serde_json::to_string_pretty(&status).map_err(|error| error.to_string())
            } else {
                Ok(in_words(&status))
            }
        });
        output.tell(shown)
    }
}

/// The status of the node at `address`, by default the one of this environment.
///
/// # Errors
/// If there is no such node, or its answer cannot be read.
pub(super) fn fetch(address: Option<&str>) -> Result<NodeStatus, String> {
    fetch_json(address, "/v1/status")
}

fn in_words(status: &NodeStatus) -> String {
    let store = &status.store;
    let mut text = format!(
        "node {} (rlnode {}): {}, {}, up {}\n",
        status.node,
        status.version,
        status.readiness,
        status.freshness,
        words::wait(Some(Duration::from_millis(status.uptime_ms)))
    );
    if let Some(cluster) = &status.cluster {
        text.push_str(&cluster_in_words(cluster, clock::unix_s()));
    }
    text.push_str(&file_in_words(&status.file));
    let _ = writeln!(
        text,
        "entries {} of {}, tables {}; {} evicted, {} expired, {} from overflow",
        store.entries,
        store.entries_max,
        words::bytes(store.table_bytes),
        store.evicted,
        store.expired,
        store.full
    );
    let _ = writeln!(
        text,
        "no limit matched {} checks; {} lacked an attribute",
        store.unmatched, store.missing_attribute
    );
    if let Some(audit) = &status.audit {
        let missing = audit.dropped.saturating_add(audit.unwritten);
        let _ = writeln!(
            text,
            "audit of 1 key in {}: {} spends recorded, {missing} missing, {}",
            audit.sample,
            audit.recorded,
            words::bytes(audit.bytes)
        );
    }
    for limit in &status.limits {
        let _ = writeln!(text, "limit {}", limit_in_words(limit));
    }
    for door in status.doors.iter().filter(|door| !door.addresses.is_empty()) {
        let _ = writeln!(text, "door {}", door_in_words(door));
    }
    text
}

/// Whether the file is in force, and what waits for a restart; nothing where all is well.
fn file_in_words(file: &FileStatus) -> String {
    let mut text = String::new();
    if let Some(error) = &file.error {
        let since_ms = file.failing_since_ms.unwrap_or(0);
        let age = Duration::from_millis(clock::unix_ms().saturating_sub(since_ms));
        let age = words::wait(Some(age));
        let _ = writeln!(
            text,
            "** the file has not been in force for {age}, and the limits before still are: {error}"
        );
    }
    if !file.needs_restart.is_empty() {
        let settings = file.needs_restart.join(", ");
        let _ = writeln!(text, "** settings of the file that wait for a restart: {settings}");
    }
    text
}

/// `per-key: 12 allowed, 3 denied, 12 units spent`, with what else happened.
pub(super) fn limit_in_words(limit: &LimitStatus) -> String {
    let mut text = format!("{}: {} allowed, {} denied", limit.name, limit.allowed, limit.denied);
    let others = [
        (limit.share_denied, "of them with units left"),
        (limit.shadow_denied, "denied in shadow"),
        (limit.peeks, "peeks"),
        (limit.debits, "debits"),
        (limit.refunds, "refunds"),
    ];
    for (count, what) in others.iter().filter(|(count, _)| *count > 0) {
        let _ = write!(text, ", {count} {what}");
    }
    let _ = write!(text, ", {} units spent", limit.units);
    text
}

fn door_in_words(door: &DoorStatus) -> String {
    let checks: u64 = door.checks.values().sum();
    let mut text = format!(
        "{} at {}: {} frames, {checks} checks, {} connections",
        door.door,
        door.addresses.join(", "),
        door.frames,
        door.connections
    );
    for (kind, count) in &door.errors {
        let _ = write!(text, ", {count} {kind}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_tells_only_what_happened() {
        let limit = LimitStatus {
            name: "per-key".to_owned(),
            allowed: 12,
            denied: 3,
            shadow_denied: 0,
            peeks: 2,
            debits: 0,
            refunds: 0,
            units: 12,
            share_denied: 1,
        };
        assert_eq!(
            limit_in_words(&limit),
            "per-key: 12 allowed, 3 denied, 1 of them with units left, 2 peeks, 12 units spent"
        );
    }
}
