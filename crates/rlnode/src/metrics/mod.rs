//! The node's counts as Prometheus reads them.
//!
//! Labels are bounded: limits of the file, members of the cluster, doors and the words of `door`;
//! never a key or an endpoint. Everything is there at 0 from the start, so that a rate never begins
//! with a gap.

mod audit;
mod member;

use std::sync::Arc;

use limiter::{Counts, Plan, RuleCounts, Usage};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::EncodeMetric;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, prometheus_text, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::door::{Door, Fault, Outcome};
use crate::engine::MemberStatus;
use crate::histogram::Histogram;
use crate::node::Node;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A text format that Prometheus reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text, version 0.0.4.
    Prometheus,
    /// OpenMetrics text, version 1.0.0.
    OpenMetrics,
}

impl Format {
    /// The format that the header `Accept` asks for; Prometheus text unless it names OpenMetrics.
    pub fn accepted_by(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    /// The value of `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
            Self::OpenMetrics => OPENMETRICS,
        }
    }
}

/// The counts of `node` now, and what it tells of its cluster, if it is in one.
pub fn encode(node: &Arc<Node>, member: Option<MemberStatus>, format: Format) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(NodeCollector(Arc::clone(node), member)));
    let mut out = String::new();
    let encoded = match format {
        Format::Prometheus => prometheus_text::encode(&mut out, &registry),
        Format::OpenMetrics => text::encode(&mut out, &registry),
    };
    debug_assert!(encoded.is_ok(), "writing to a string does not fail");
    out
}

#[derive(Debug)]
struct NodeCollector(Arc<Node>, Option<MemberStatus>);

type Encoded = Result<(), std::fmt::Error>;

impl Collector for NodeCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Encoded {
        let node = &*self.0;
        encode_node(&mut encoder, node)?;
        let plan = node.limiter().plan();
        let counts = node.limiter().counts_of(&plan);
        encode_limits(&mut encoder, &plan, &counts)?;
        encode_store(&mut encoder, &node.limiter().usage(), &counts)?;
        encode_doors(&mut encoder, node)?;
        encode_operations(&mut encoder, node)?;
        encode_reloads(&mut encoder, node)?;
        node.audit().map_or(Ok(()), |audit| audit::encode(&mut encoder, audit.counts()))?;
        self.1.as_ref().map_or(Ok(()), |status| member::encode(&mut encoder, node, status))
    }
}

fn encode_node(encoder: &mut DescriptorEncoder<'_>, node: &Node) -> Encoded {
    let labels = [("version", env!("CARGO_PKG_VERSION")), ("node", node.name())];
    gauge_family(encoder, "rlnode_build_info", "Version and name of the node", [(labels, 1)])?;
    gauge(
        encoder,
        "rlnode_start_time_seconds",
        "Unix time at which the node started",
        node.started_unix_s(),
    )
}

fn encode_limits(encoder: &mut DescriptorEncoder<'_>, plan: &Plan, counts: &Counts) -> Encoded {
    let rules = || plan.rules().iter().zip(&counts.rules);
    counter_family(
        encoder,
        "rlnode_decisions",
        "Decisions by limit and outcome",
        rules().flat_map(|(rule, counts)| {
            outcomes_of(counts)
                .map(|(outcome, count)| ([("limit", rule.name()), ("outcome", outcome)], count))
        }),
    )?;
    counter_family(
        encoder,
        "rlnode_units",
        "Units spent by limit",
        rules().map(|(rule, counts)| ([("limit", rule.name())], counts.units)),
    )
}

fn encode_reloads(encoder: &mut DescriptorEncoder<'_>, node: &Node) -> Encoded {
    let (reloads, state) = (node.reloads(), node.reloads().state());
    let results = [("success", reloads.successes()), ("failure", reloads.failures())];
    counter_family(
        encoder,
        "rlnode_reloads",
        "Times that the file was read again",
        results.map(|(result, count)| ([("result", result)], count)),
    )?;
    let hash = format!("{:016x}", node.limiter().plan().fingerprint());
    gauge_family(
        encoder,
        "rlnode_config_info",
        "The limits in force: the same hash on nodes that have the same",
        [([("hash", hash.as_str())], 1)],
    )?;
    gauge(
        encoder,
        "rlnode_config_in_force",
        "Whether the file is in force as it is now",
        u64::from(state.pending.is_none()),
    )?;
    gauge(
        encoder,
        "rlnode_config_last_success_timestamp_seconds",
        "Unix time at which the file was last put in force",
        state.in_force_unix_ms / 1_000,
    )?;
    gauge(
        encoder,
        "rlnode_config_needs_restart",
        "Settings of the file that wait for a restart",
        state.needs_restart.len() as u64,
    )
}

fn encode_operations(encoder: &mut DescriptorEncoder<'_>, node: &Node) -> Encoded {
    counter_family(
        encoder,
        "rlnode_operations",
        "Acts of operators on keys",
        node.operations().counts().map(|(kind, count)| ([("operation", kind)], count)),
    )
}

fn outcomes_of(counts: &RuleCounts) -> [(&'static str, u64); 6] {
    [
        ("allowed", counts.allowed),
        ("denied", counts.denied),
        ("shadow_denied", counts.shadow_denied),
        ("peek", counts.peeks),
        ("debit", counts.debits),
        ("refund", counts.refunds),
    ]
}

fn encode_store(encoder: &mut DescriptorEncoder<'_>, usage: &Usage, counts: &Counts) -> Encoded {
    let counters = [
        ("rlnode_unmatched", "Requests that no limit matched", counts.unmatched),
        (
            "rlnode_missing_attribute",
            "Limits not applied, or denied, for want of an attribute",
            counts.missing,
        ),
        ("rlnode_full", "Requests answered from an overflow bucket or by when_full", counts.full),
        ("rlnode_evicted", "Entries at rest that made room for a new key", counts.evicted),
        ("rlnode_expired", "Entries at rest dropped by the sweep", counts.expired),
        (
            "rlnode_debits_clipped",
            "Debits cut at the bound of a bucket's debt",
            counts.debits_clipped,
        ),
        ("rlnode_banned", "Checks and peeks of those who are banned", counts.banned),
        ("rlnode_listed", "Requests of those who are always allowed", counts.listed),
    ];
    for (name, help, count) in counters {
        counter(encoder, name, help, count)?;
    }
    gauge(encoder, "rlnode_entries", "Entries held", usage.entries)?;
    gauge(encoder, "rlnode_entries_max", "Most entries", usage.entries_max)?;
    gauge(encoder, "rlnode_table_bytes", "Bytes of the tables", usage.table_bytes)
}

fn encode_doors(encoder: &mut DescriptorEncoder<'_>, node: &Node) -> Encoded {
    let counters = node.counters();
    counter_family(
        encoder,
        "rlnode_frames",
        "Frames, or HTTP questions, by door",
        Door::ALL.map(|door| ([("door", door.as_str())], counters.frames(door))),
    )?;
    counter_family(
        encoder,
        "rlnode_checks",
        "Checks by door and outcome; each has exactly one",
        pairs(Door::ALL, Outcome::ALL).map(|(door, outcome)| {
            let labels = [("door", door.as_str()), ("outcome", outcome.as_str())];
            (labels, counters.checks(door, outcome))
        }),
    )?;
    counter_family(
        encoder,
        "rlnode_errors",
        "Errors by door and kind",
        pairs(Door::ALL, Fault::ALL).map(|(door, fault)| {
            let labels = [("door", door.as_str()), ("kind", fault.as_str())];
            (labels, counters.faults(door, fault))
        }),
    )?;
    gauge_family(
        encoder,
        "rlnode_connections",
        "Open connections by door",
        Door::ALL.map(|door| ([("door", door.as_str())], counters.connections_open(door))),
    )?;
    counter_family(
        encoder,
        "rlnode_connections_accepted",
        "Connections accepted by door",
        Door::ALL.map(|door| ([("door", door.as_str())], counters.connections_total(door))),
    )?;
    let mut family = encoder.encode_descriptor(
        "rlnode_frame_duration_seconds",
        "Time from receipt until the answer is composed, of one frame in 16, by door",
        None,
        MetricType::Histogram,
    )?;
    for door in Door::ALL {
        let labels = [("door", door.as_str())];
        encode_histogram(family.encode_family(&labels)?, counters.durations(door))?;
    }
    Ok(())
}

#[expect(
    clippy::cast_precision_loss,
    clippy::float_arithmetic,
    reason = "Prometheus counts seconds in floating point; nothing is decided by these"
)]
fn encode_histogram(
    mut encoder: prometheus_client::encoding::MetricEncoder<'_>,
    histogram: &Histogram,
) -> Encoded {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let mut buckets: Vec<(f64, u64)> =
        histogram.buckets().map(|(upper_ns, count)| (seconds(upper_ns), count)).collect();
    let in_buckets: u64 = buckets.iter().map(|(_, count)| count).sum();
    // Durations are recorded while this reads, so the total may be older than the buckets.
    let count = histogram.count().max(in_buckets);
    buckets.push((f64::INFINITY, count - in_buckets));
    encoder.encode_histogram::<NoLabelSet>(seconds(histogram.sum_ns()), count, &buckets, None)
}

fn pairs<A: Copy, B: Copy, const N: usize, const M: usize>(
    one: [A; N],
    other: [B; M],
) -> impl Iterator<Item = (A, B)> {
    one.into_iter().flat_map(move |a| other.into_iter().map(move |b| (a, b)))
}

type Labels<'l, const N: usize> = [(&'static str, &'l str); N];

fn counter(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, count: u64) -> Encoded {
    ConstCounter::new(count).encode(encoder.encode_descriptor(
        name,
        help,
        None,
        MetricType::Counter,
    )?)
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> Encoded {
    ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

fn counter_family<'l, const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    members: impl IntoIterator<Item = (Labels<'l, N>, u64)>,
) -> Encoded {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, count) in members {
        ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn gauge_family<'l, const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    members: impl IntoIterator<Item = (Labels<'l, N>, u64)>,
) -> Encoded {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in members {
        ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use limiter::Request;

    use super::*;
    use crate::audit::{Audit, Sample};
    use crate::scripted::{Scripted, sample};

    const MANUAL: &str = include_str!("../../../../docs/operating.md");

    fn lines(node: &Arc<Node>) -> Vec<String> {
        encode(node, None, Format::Prometheus).lines().map(ToOwned::to_owned).collect()
    }

    /// The same of a member that records what it lets through: it has every metric that there is.
    fn lines_of_member() -> Vec<String> {
        let (node, _) = Scripted::node(1);
        let (audit, _) = Audit::new(Sample::one_in(1));
        let node = Arc::into_inner(node).expect("nobody else has it").with_audit(Some(audit));
        let text = encode(&Arc::new(node), Some(sample()), Format::Prometheus);
        text.lines().map(ToOwned::to_owned).collect()
    }

    fn sum_of(lines: &[String], prefix: &str) -> u64 {
        lines
            .iter()
            .filter(|line| line.starts_with(prefix))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum()
    }

    #[test]
    fn everything_is_there_at_zero_from_the_start() {
        let lines = lines(&Node::with_burst(1));
        for expected in [
            "rlnode_build_info{version=\"0.1.0\",node=\"test\"} 1",
            "rlnode_decisions_total{limit=\"per-key\",outcome=\"denied\"} 0",
            "rlnode_units_total{limit=\"per-key\"} 0",
            "rlnode_unmatched_total 0",
            "rlnode_missing_attribute_total 0",
            "rlnode_full_total 0",
            "rlnode_entries 0",
            "rlnode_frames_total{door=\"seqpacket\"} 0",
            "rlnode_checks_total{door=\"udp\",outcome=\"error\"} 0",
            "rlnode_errors_total{door=\"stream\",kind=\"timeout\"} 0",
            "rlnode_connections{door=\"http\"} 0",
            "rlnode_frame_duration_seconds_bucket{door=\"udp\",le=\"+Inf\"} 0",
            "rlnode_frame_duration_seconds_count{door=\"udp\"} 0",
        ] {
            assert!(lines.iter().any(|line| line == expected), "{expected}");
        }
        let series = lines.iter().filter(|line| line.starts_with("rlnode_checks_total")).count();
        assert_eq!(series, Door::ALL.len() * Outcome::ALL.len());
    }

    #[test]
    fn the_outcomes_of_a_door_add_up_to_its_checks_and_no_key_is_a_label() {
        let node = Node::with_burst(2);
        for key in [&b"secret-key"[..], b"secret-key", b"secret-key", b""] {
            let _ = node.decide(1, &Request::check(b"secret-endpoint", key), Door::Http);
        }
        let lines = lines(&node);
        assert_eq!(sum_of(&lines, "rlnode_checks_total{door=\"http\""), 4);
        assert_eq!(sum_of(&lines, "rlnode_checks_total"), 4);
        assert_eq!(sum_of(&lines, "rlnode_units_total{limit=\"per-key\"}"), 2);
        assert!(lines.iter().all(|line| !line.contains("secret")));
    }

    #[test]
    fn buckets_of_durations_are_cumulative_and_end_with_the_count() {
        let node = Node::with_burst(1);
        for ns in [1, 1_025, u64::from(u32::MAX)] {
            node.counters().record_duration(Door::Udp, ns);
        }
        let lines = lines(&node);
        let prefix = "rlnode_frame_duration_seconds_bucket{door=\"udp\",le=";
        for expected in
            ["\"1.024e-06\"} 1", "\"1.536e-06\"} 2", "\"0.134217728\"} 2", "\"+Inf\"} 3"]
        {
            let line = format!("{prefix}{expected}");
            assert!(lines.contains(&line), "{line}");
        }
        assert_eq!(sum_of(&lines, "rlnode_frame_duration_seconds_count{door=\"udp\"}"), 3);
    }

    #[test]
    fn a_node_alone_has_no_metrics_of_a_cluster_and_a_member_has_them_all() {
        let alone = lines(&Node::with_burst(1));
        assert!(alone.iter().all(|line| !line.contains("rlnode_cluster_")));
        let lines = lines_of_member();
        for expected in [
            "rlnode_cluster_members 3",
            "rlnode_cluster_reachable 2",
            "rlnode_cluster_isolated 0",
            "rlnode_cluster_freshness{freshness=\"split\"} 1",
            "rlnode_cluster_freshness{freshness=\"synced\"} 0",
            "rlnode_cluster_splits_total 1",
            "rlnode_cluster_holds_refused_total 7",
            "rlnode_cluster_share_denied_total{limit=\"per-key\"} 0",
            "rlnode_cluster_debt_units{limit=\"per-key\"} 0",
            "rlnode_cluster_peer_counted{peer=\"a\"} 1",
            "rlnode_cluster_peer_counted{peer=\"c\"} 0",
            "rlnode_cluster_peer_lag_seconds{peer=\"a\"} 0.003",
            "rlnode_cluster_peer_round_trip_seconds{peer=\"a\"} 0.0004",
            "rlnode_cluster_peer_drift_limits{peer=\"a\"} 3",
            "rlnode_cluster_refused_total{reason=\"authority\"} 3",
            "rlnode_cluster_refused_total{reason=\"duplicate_name\"} 0",
            "rlnode_cluster_bytes_total{direction=\"sent\"} 0",
        ] {
            assert!(lines.iter().any(|line| line == expected), "{expected} in {lines:#?}");
        }
    }

    #[test]
    fn openmetrics_is_given_to_who_asks_for_it() {
        assert_eq!(Format::accepted_by(""), Format::Prometheus);
        assert_eq!(Format::accepted_by("text/plain;version=0.0.4"), Format::Prometheus);
        let accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.1";
        assert_eq!(Format::accepted_by(accept), Format::OpenMetrics);
        let node = Node::with_burst(1);
        assert!(encode(&node, None, Format::OpenMetrics).ends_with("# EOF\n"));
        assert!(!encode(&node, None, Format::Prometheus).contains("# EOF"));
    }

    /// The names in backticks at the start of the manual's rows under `heading`.
    fn documented(heading: &str) -> BTreeSet<&'static str> {
        let (_, rest) = MANUAL.split_once(&format!("\n{heading}\n")).expect(heading);
        rest.lines()
            .take_while(|line| !line.starts_with('#'))
            .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
            .collect()
    }

    /// The labels of a sample and their values, in quotes.
    fn labels_of(line: &str) -> Vec<(&str, &str)> {
        let labels = line.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
        let labels = labels.map_or("", |(labels, _)| labels).split(',');
        labels.filter_map(|label| label.split_once('=')).collect()
    }

    #[test]
    fn the_manual_names_every_metric_and_no_other() {
        let lines = lines_of_member();
        let types: Vec<(&str, &str)> =
            lines.iter().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
        let names: BTreeSet<&str> = types.iter().map(|(name, _)| *name).collect();
        let mut all = documented("## Metrics");
        all.extend(documented("### Of the audit"));
        all.extend(documented("### Of a cluster"));
        assert_eq!(all, names);
        for (name, kind) in &types {
            assert!(MANUAL.contains(&format!("| `{name}` | {kind}")), "{name} is a {kind}");
        }
        let words = MANUAL.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        for word in words.filter(|word| word.starts_with("rlnode_")) {
            let is_known = names.contains(word.strip_suffix("_bucket").unwrap_or(word));
            assert!(is_known, "there is no metric `{word}`");
        }
    }

    #[test]
    fn the_manual_names_every_label_and_its_values() {
        let faults: BTreeSet<&str> = Fault::ALL.map(Fault::as_str).into();
        assert_eq!(documented("### Errors"), faults);
        let lines = lines_of_member();
        for line in lines.iter().filter(|line| !line.starts_with('#')) {
            let metric = line.split(['{', ' ']).next().unwrap_or_default();
            for (label, value) in labels_of(line) {
                if label == "le" {
                    continue;
                }
                let row = MANUAL.lines().find(|row| {
                    ["", "_bucket", "_sum", "_count"].iter().any(|suffix| {
                        let name = metric.strip_suffix(suffix).unwrap_or("-");
                        row.starts_with(&format!("| `{name}` |"))
                    })
                });
                let row = row.unwrap_or_else(|| panic!("{metric} has no row"));
                assert!(row.contains(&format!("`{label}`")), "{metric} has the label {label}");
                let is_of_the_file = ["limit", "node", "peer", "version", "hash"].contains(&label);
                let word = format!("`{}`", value.trim_matches('"'));
                assert!(is_of_the_file || MANUAL.contains(&word), "{label} may be {word}");
            }
        }
    }
}
