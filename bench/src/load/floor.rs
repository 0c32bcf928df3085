//! The floors that the project set itself beside redis, and whether they hold. Each is a ratio within
//! one run, since absolute figures move from machine to machine; one is bytes.

use serde::Serialize;

use super::Role;
use crate::report::{CellReport, Report};

/// What one floor came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct FloorResult {
    /// Its name in the design's list of targets.
    pub(crate) name: &'static str,
    /// What is compared.
    pub(crate) what: &'static str,
    /// Which way, and with what.
    pub(crate) claim: Claim,
    /// What was measured; none if a figure was missing.
    pub(crate) measured: Option<f64>,
    /// The claim is true.
    pub(crate) holds: bool,
}

/// A bound on a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Claim {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
}

impl Claim {
    fn holds(self, measured: f64) -> bool {
        match self {
            Self::AtMost(bound) => measured <= bound,
            Self::AtLeast(bound) => measured >= bound,
        }
    }
}

/// Holds the figures of `report` against every floor.
pub(super) fn evaluate(report: &Report) -> Vec<FloorResult> {
    let ratios = |role| {
        let cell = report.cells.iter().find(|cell| cell.cell.role == role);
        cell.and_then(CellReport::ratios)
    };
    let memory = report.subjects.first().and_then(|node| node.memory);
    vec![
        floor(
            "G5",
            "p50, udp / redis tcp, one connection, both on one cpu",
            Claim::AtMost(0.70),
            ratios(Role::RoundTripUdp).map(|ratios| ratios.p50),
        ),
        floor(
            "G6",
            "p50, seqpacket / redis unix, one connection, both on one cpu",
            Claim::AtMost(0.65),
            ratios(Role::RoundTripUnix).map(|ratios| ratios.p50),
        ),
        floor(
            "G8",
            "checks/s, udp / redis tcp, 50 clients, a cpu each",
            Claim::AtLeast(2.0),
            ratios(Role::ManyClients).map(|ratios| ratios.checks_per_s),
        ),
        floor(
            "G9",
            "server CPU per check, the same load",
            Claim::AtMost(0.45),
            ratios(Role::ManyClients).and_then(|ratios| ratios.server_cpu),
        ),
        floor(
            "G11",
            "bytes per key, with all keys made",
            Claim::AtMost(80.0),
            memory.map(|memory| memory.bytes_per_key),
        ),
        floor(
            "G11",
            "bytes per key, at the worst growth of the tables",
            Claim::AtMost(80.0),
            memory.map(|memory| memory.worst_bytes_per_key),
        ),
    ]
}

fn floor(
    name: &'static str,
    what: &'static str,
    claim: Claim,
    measured: Option<f64>,
) -> FloorResult {
    FloorResult { name, what, claim, measured, holds: measured.is_some_and(|m| claim.holds(m)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_holds_up_to_its_bound() {
        assert!(Claim::AtMost(0.7).holds(0.7) && !Claim::AtMost(0.7).holds(0.71));
        assert!(Claim::AtLeast(2.0).holds(2.0) && !Claim::AtLeast(2.0).holds(1.99));
    }

    #[test]
    fn a_floor_without_a_figure_does_not_hold() {
        assert!(!floor("G5", "p50", Claim::AtMost(0.7), None).holds);
    }
}
