//! Attacks: schedules that try to let through more than a limit allows, and a search that makes them
//! worse. An attack is one line of text; whoever has the line can run it again.

mod breed;
mod climb;
pub mod finds;
mod plan;
mod session;
mod text;

pub use climb::{Best, Effort, climb};
pub use plan::{Attack, Fault, Line, Move};
pub use session::Session;
pub use text::{mode_of, mode_word};

use limiter::Accuracy;

use crate::record::{Excess, Record};
use crate::scenario::Scenario;
use crate::world::World;

/// Whether nodes may lose each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// All nodes reach each other all the time, on lines of whatever delay.
    Undisturbed,
    /// Cuts, crashes, pauses and restarts.
    Disturbed,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Undisturbed, Self::Disturbed];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Undisturbed => "undisturbed",
            Self::Disturbed => "disturbed",
        }
    }

    /// The family of that word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.as_str() == word)
    }
}

/// Bursts that are measured alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scale {
    /// 100 units and more: excess is counted in parts of the burst.
    Large,
    /// Less: it is counted in whole units.
    Small,
}

/// The smallest burst that is large.
const LARGE_UNITS: u64 = 100;
/// The largest burst that is drawn.
const LARGE_UNITS_MAX: u64 = 3_000;

impl Scale {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Large, Self::Small];

    /// The scale of a burst.
    pub fn of(burst: u64) -> Self {
        if burst < LARGE_UNITS { Self::Small } else { Self::Large }
    }

    /// The nearest burst to `burst` that is of this scale.
    fn fit(self, burst: u64) -> u64 {
        match self {
            Self::Large => burst.clamp(LARGE_UNITS, LARGE_UNITS_MAX),
            Self::Small => burst.clamp(1, LARGE_UNITS - 1),
        }
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Large => "large",
            Self::Small => "small",
        }
    }

    /// The scale of that word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scale| scale.as_str() == word)
    }
}

/// What an attack is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aim {
    /// Nodes.
    pub nodes: usize,
    /// Whether a limit is balanced or fast.
    pub accuracy: Accuracy,
    /// Whether nodes may lose each other.
    pub family: Family,
    /// How large its burst is.
    pub scale: Scale,
}

/// What an attack came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Excess in thousandths of the burst, rounded up.
    pub permille: u64,
    /// Excess in units, rounded up: requests of one unit that should not have passed.
    pub units: u64,
    /// The most that was let through above what was there, in millionths of the burst, for a small
    /// burst of a unit; below 0 what was left at least.
    pub score: i64,
    /// Times that nodes lost each other, or counted each other again.
    pub changes: u64,
    /// Invariants that did not hold.
    pub broken: Vec<String>,
}

impl Damage {
    /// The damage that `record`, which `scenario` left, shows to the first limit.
    pub fn of(scenario: &Scenario, record: &Record) -> Self {
        let of_first = record.excess.iter().zip(&scenario.keys).filter(|(_, limit)| **limit == 0);
        let excess = of_first.map(|(excess, _)| *excess).max_by_key(score).unwrap_or_default();
        let broken = record.broken.iter().map(|(at_ns, what)| format!("{at_ns} ns: {what}"));
        Self {
            permille: excess.permille(),
            units: excess.units(),
            score: score(&excess),
            changes: record.changes,
            broken: broken.collect(),
        }
    }

    /// The figure that counts for a burst of `scale`.
    pub fn figure(&self, scale: Scale) -> u64 {
        match scale {
            Scale::Large => self.permille,
            Scale::Small => self.units,
        }
    }
}

fn score(excess: &Excess) -> i64 {
    let per_unit = i128::from(excess.per_unit.max(1));
    let whole = match Scale::of(excess.burst) {
        Scale::Large => per_unit * i128::from(excess.burst),
        Scale::Small => per_unit,
    };
    i64::try_from(-excess.least * 1_000_000 / whole).unwrap_or(i64::MIN)
}

impl Attack {
    /// Runs it.
    ///
    /// # Errors
    /// Numbers that the limiter refuses.
    pub fn run(&self) -> Result<Damage, String> {
        let scenario = self.scenario();
        World::run(scenario.clone()).map(|record| Damage::of(&scenario, &record))
    }

    /// What it is made for.
    pub fn aim(&self) -> Aim {
        let family = if self.faults.is_empty() { Family::Undisturbed } else { Family::Disturbed };
        let (nodes, accuracy) = (self.nodes, self.accuracy);
        Aim { nodes, accuracy, family, scale: Scale::of(self.burst) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_families_and_scales() {
        for family in Family::ALL {
            assert_eq!(Family::from_word(family.as_str()), Some(family));
        }
        for scale in Scale::ALL {
            assert_eq!(Scale::from_word(scale.as_str()), Some(scale));
        }
    }

    #[test]
    fn a_score_grows_with_what_is_let_through_and_knows_how_near_it_was() {
        let excess = |least| Excess { ticks: 0, least, per_unit: 10, burst: 100, at_ns: 0 };
        assert_eq!([score(&excess(500)), score(&excess(-20))], [-500_000, 20_000]);
        let small = Excess { burst: 10, ..excess(-20) };
        assert_eq!(score(&small), 2_000_000);
    }
}
