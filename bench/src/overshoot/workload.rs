//! The workloads: what each is for, and what it is asked with where the command line says nothing.

use clap::ValueEnum;
use serde::Serialize;

/// A way of asking the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Workload {
    /// Every node is asked equally often
    Steady,
    /// The first node is asked most, the k-th a k-th of that
    Skewed,
    /// One client, which moves on to the next node every 250 ms
    Rotating,
    /// Nodes are idle, and then one of them gets all of the load: is the first second used?
    FirstSecond,
    /// The whole burst on every node at the same moment, in frames of 64; again when it refilled
    Burst,
    /// Eight calls at once on one of the idle nodes, each time with another key: do they pass?
    PageLoad,
    /// The last node is asked 20 times the rate, each other half of its even part: do those get it?
    Flooder,
    /// Every node spends just less than what it would tell at once, and then comes a burst
    NearTheta,
    /// As steady, under a limit of 20 at 20 in a second
    Small,
    /// The whole burst on every node just before an edge of windows, and again just after it
    WindowEdge,
    /// What the picture shows: a burst, uneven load, 3 times the rate moving between nodes, a pause,
    /// and both again
    Showcase,
}

/// What a workload is asked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Defaults {
    /// Units in a second.
    pub(crate) rate: u64,
    /// Units at once.
    pub(crate) burst: u64,
    /// Checks in a second by thousandths of the rate.
    pub(crate) load_permille: u64,
    /// Length.
    pub(crate) seconds: u64,
}

impl Workload {
    /// Its word on the command line.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Skewed => "skewed",
            Self::Rotating => "rotating",
            Self::FirstSecond => "first-second",
            Self::Burst => "burst",
            Self::PageLoad => "page-load",
            Self::Flooder => "flooder",
            Self::NearTheta => "near-theta",
            Self::Small => "small",
            Self::WindowEdge => "window-edge",
            Self::Showcase => "showcase",
        }
    }

    /// What it is, as its help says it.
    pub(crate) fn help(self) -> String {
        let value = self.to_possible_value();
        let help = value.as_ref().and_then(|value| value.get_help().map(ToString::to_string));
        help.unwrap_or_default()
    }

    /// What it is asked with unless the command line says otherwise.
    pub(crate) fn defaults(self) -> Defaults {
        let usual = Defaults { rate: 1000, burst: 1000, load_permille: 1500, seconds: 10 };
        match self {
            Self::Steady | Self::Skewed | Self::Rotating => usual,
            Self::FirstSecond => Defaults { load_permille: 2000, seconds: 4, ..usual },
            Self::Burst | Self::NearTheta | Self::WindowEdge => Defaults { seconds: 8, ..usual },
            // A page of 8 every 20 ms.
            Self::PageLoad => Defaults { rate: 1, burst: 20, load_permille: 400_000, ..usual },
            Self::Flooder => Defaults { load_permille: 20_000, ..usual },
            Self::Small => Defaults { rate: 20, burst: 20, ..usual },
            Self::Showcase => Defaults { rate: 200, burst: 100, load_permille: 3000, seconds: 12 },
        }
    }

    /// Whether it has phases of its own, so that `--load` says nothing to it.
    pub(crate) fn has_own_load(self) -> bool {
        matches!(self, Self::Burst | Self::NearTheta | Self::WindowEdge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_has_a_name_and_a_line_of_help() {
        for &workload in Workload::value_variants() {
            let value = workload.to_possible_value().unwrap();
            assert_eq!(value.get_name(), workload.as_str());
            assert_eq!(serde_json::to_value(workload).unwrap(), workload.as_str());
            assert!(workload.help().len() > 20, "{workload:?}");
        }
    }
}
