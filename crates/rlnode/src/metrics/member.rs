//! The metrics of a node that is a member of a cluster; a node alone has none of them.

use cluster::PeerState;
use limiter::{Freshness, Rule};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::{Encoded, counter, counter_family, gauge, gauge_family};
use crate::engine::MemberStatus;
use crate::node::Node;
use crate::proof::Surroundings;

pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    node: &Node,
    status: &MemberStatus,
) -> Encoded {
    encode_members(encoder, &status.cluster)?;
    encode_peers(encoder, &status.cluster)?;
    encode_traffic(encoder, &status.cluster.counts)?;
    encode_shares(encoder, status)?;
    encode_limits(encoder, node, &status.surroundings())?;
    gauge(
        encoder,
        "rlnode_cluster_certificate_end_time_seconds",
        "Unix time at which the certificate of the node ends",
        u64::try_from(status.certificate_ends_s).unwrap_or(0),
    )?;
    counter_family(
        encoder,
        "rlnode_cluster_refused",
        "Connections of peers that this node refused, by reason",
        status.refusals.ours().map(|(reason, count)| ([("reason", reason)], count)),
    )?;
    counter_family(
        encoder,
        "rlnode_cluster_refused_by_peers",
        "Connections by which peers refused this node, by reason",
        status.refusals.by_peers().map(|(reason, count)| ([("reason", reason)], count)),
    )
}

fn encode_members(encoder: &mut DescriptorEncoder<'_>, status: &cluster::Status) -> Encoded {
    let gauges = [
        ("rlnode_cluster_members", "Members, this node included", status.members as u64),
        (
            "rlnode_cluster_reachable",
            "Members that are counted, this node included",
            status.reached as u64,
        ),
        (
            "rlnode_cluster_isolated",
            "1 while the node reaches too few members",
            status.isolated.into(),
        ),
    ];
    for (name, help, value) in gauges {
        gauge(encoder, name, help, value)?;
    }
    gauge_family(
        encoder,
        "rlnode_cluster_freshness",
        "1 for the word that answers carry now",
        Freshness::ALL
            .iter()
            .filter(|word| **word != Freshness::Alone)
            .map(|word| ([("freshness", word.as_str())], u64::from(*word == status.freshness))),
    )?;
    let counters = [
        ("rlnode_cluster_splits", "Steps in which members were lost", status.counts.splits),
        ("rlnode_cluster_heals", "Steps in which members were counted", status.counts.heals),
        (
            "rlnode_cluster_forgotten",
            "Members that left or were forgotten",
            status.counts.forgotten,
        ),
        (
            "rlnode_cluster_joins",
            "Times the counts were given up and taken anew",
            status.counts.joins,
        ),
    ];
    for (name, help, count) in counters {
        counter(encoder, name, help, count)?;
    }
    Ok(())
}

fn encode_peers(encoder: &mut DescriptorEncoder<'_>, status: &cluster::Status) -> Encoded {
    // Those that were never met have no name to tell them apart.
    let named = || status.peers.iter().filter_map(|peer| Some((peer.name.as_deref()?, peer)));
    gauge_family(
        encoder,
        "rlnode_cluster_peer_counted",
        "1 for a member that is reached and counted",
        named().map(|(name, peer)| ([("peer", name)], u64::from(peer.state == PeerState::Counted))),
    )?;
    gauge_family(
        encoder,
        "rlnode_cluster_peer_drift_limits",
        "Limits that have other numbers at a member, or that one of the two does not have",
        named().map(|(name, peer)| {
            let differing = peer.drift.len() + peer.unknown_there.len();
            ([("peer", name)], (differing as u64).saturating_add(peer.unknown_here))
        }),
    )?;
    gauge_family(
        encoder,
        "rlnode_cluster_peer_clock_off",
        "1 for a member whose wall clock is more than 250 ms off",
        named().map(|(name, peer)| ([("peer", name)], u64::from(peer.clock_off))),
    )?;
    counter(
        encoder,
        "rlnode_cluster_clock_alarms",
        "Times the wall clock of a member came to be more than 250 ms off",
        status.counts.clock_alarms,
    )?;
    let us = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1_000);
    seconds_family(
        encoder,
        "rlnode_cluster_peer_clock_skew_seconds",
        "Wall clock of a member less this node's",
        named().filter_map(|(name, peer)| Some((name, peer.skew_ms?.saturating_mul(1_000)))),
    )?;
    seconds_family(
        encoder,
        "rlnode_cluster_peer_lag_seconds",
        "Age of the oldest batch that a member has not acknowledged",
        named().map(|(name, peer)| (name, us(peer.lag_ms))),
    )?;
    seconds_family(
        encoder,
        "rlnode_cluster_peer_round_trip_seconds",
        "Smoothed time from a batch to its acknowledgement",
        named().filter_map(|(name, peer)| Some((name, i64::try_from(peer.rtt_us?).ok()?))),
    )
}

fn encode_traffic(encoder: &mut DescriptorEncoder<'_>, counts: &cluster::Counts) -> Encoded {
    let families = [
        (
            "rlnode_cluster_batches",
            "Batches of spends, by direction",
            counts.batches_sent,
            counts.batches_received,
        ),
        (
            "rlnode_cluster_deltas",
            "Buckets told in batches, by direction",
            counts.deltas_sent,
            counts.deltas_received,
        ),
        (
            "rlnode_cluster_bytes",
            "Bytes exchanged with peers, by direction",
            counts.bytes_sent,
            counts.bytes_received,
        ),
    ];
    for (name, help, sent, received) in families {
        let both = [([("direction", "sent")], sent), ([("direction", "received")], received)];
        counter_family(encoder, name, help, both)?;
    }
    counter(
        encoder,
        "rlnode_cluster_unknown_limits",
        "Buckets told by peers whose limit this node does not have",
        counts.unknown_limits,
    )?;
    counter(
        encoder,
        "rlnode_cluster_acts_dropped",
        "Bans and overrides of keys told by peers for which there was no room",
        counts.acts_dropped,
    )?;
    counter(
        encoder,
        "rlnode_cluster_credits_dropped",
        "Keys whose reset or grant could not wait for spends that arrive late, for want of room",
        counts.credits_dropped,
    )
}

fn encode_shares(encoder: &mut DescriptorEncoder<'_>, status: &MemberStatus) -> Encoded {
    let shares = &status.cluster.shares;
    let gauges = [
        ("rlnode_cluster_holding", "Checks that are held now", status.cluster.held as u64),
        ("rlnode_cluster_motions", "Buckets in motion", shares.motions),
        (
            "rlnode_cluster_charges",
            "Buckets with spends that missing members do not know",
            shares.charges,
        ),
        (
            "rlnode_cluster_credits",
            "Keys whose reset or grant waits for spends that arrive late",
            status.cluster.credits as u64,
        ),
        (
            "rlnode_cluster_rows_max",
            "Most buckets in motion, and most with charges",
            shares.rows_max,
        ),
    ];
    for (name, help, value) in gauges {
        gauge(encoder, name, help, value)?;
    }
    let counters = [
        ("rlnode_cluster_held", "Checks held for an acknowledgement", shares.held),
        (
            "rlnode_cluster_holds_refused",
            "Checks not held because too many were",
            status.holds_refused(),
        ),
        (
            "rlnode_cluster_rows_full",
            "Buckets that found no room to be in motion",
            shares.rows_full,
        ),
        (
            "rlnode_cluster_clipped",
            "Spends received that were cut at the bound of a debt",
            shares.clipped,
        ),
        ("rlnode_cluster_dropped", "Spends received for which there was no room", shares.dropped),
    ];
    for (name, help, count) in counters {
        counter(encoder, name, help, count)?;
    }
    fraction(
        encoder,
        "rlnode_cluster_debt_ratio",
        "Deepest debt seen in any bucket, as a part of its capacity",
        shares.debt_permille,
        1_000,
    )
}

/// What each limit that counts did on either side of what is proven of it.
fn encode_limits(
    encoder: &mut DescriptorEncoder<'_>,
    node: &Node,
    around: &Surroundings,
) -> Encoded {
    let plan = node.limiter().plan();
    let counts = node.limiter().counts().rules;
    let debts = node.limiter().deepest_debts(&plan);
    let ceiling_of = |rule: &Rule| {
        let accuracy = plan.limits().get(rule.at().limit)?.accuracy;
        around.ceiling(accuracy, rule.quota())
    };
    let counted: Vec<_> = plan
        .rules()
        .iter()
        .zip(counts.iter().zip(debts))
        .filter_map(|(rule, (counts, debt))| {
            Some((rule.name(), counts.share_denied, debt, ceiling_of(rule)?))
        })
        .collect();
    counter_family(
        encoder,
        "rlnode_cluster_share_denied",
        "Checks denied by a limit for want of a share while it had units left",
        counted.iter().map(|(name, share_denied, ..)| ([("limit", *name)], *share_denied)),
    )?;
    gauge_family(
        encoder,
        "rlnode_cluster_debt_units",
        "Deepest debt seen in any bucket of a limit since the start",
        counted.iter().map(|(name, _, debt, _)| ([("limit", *name)], *debt)),
    )?;
    gauge_family(
        encoder,
        "rlnode_cluster_ceiling_units",
        "Most units above burst and refill that the cluster lets through, proven while all are reached",
        counted.iter().map(|(name, .., ceiling)| ([("limit", *name)], *ceiling)),
    )
}

#[expect(
    clippy::cast_precision_loss,
    clippy::float_arithmetic,
    reason = "Prometheus counts seconds in floating point; nothing is decided by these"
)]
fn seconds_family<'l>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    members: impl IntoIterator<Item = (&'l str, i64)>,
) -> Encoded {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (peer, us) in members {
        let seconds = us as f64 / 1e6;
        ConstGauge::new(seconds).encode(family.encode_family(&[("peer", peer)])?)?;
    }
    Ok(())
}

#[expect(
    clippy::cast_precision_loss,
    clippy::float_arithmetic,
    reason = "Prometheus has ratios in floating point; nothing is decided by this one"
)]
fn fraction(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    parts: u64,
    whole: u64,
) -> Encoded {
    let ratio = parts as f64 / whole as f64;
    ConstGauge::new(ratio).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
}
