//! The worst that was found, as text in `finds.txt`: what the figures of `cluster::found` are made
//! from. A run of the random search is named by its class and seed, an attack is written out.
//!
//! `rlnode-sim attack SEEDS --as-data` makes the text anew, `rlnode-sim found` the code.

use std::fmt::{self, Display, Write as _};

use limiter::Accuracy;

use super::text::mode_word;
use super::{Aim, Attack, Damage, Family, Scale};
use crate::scenario::Scenario;
use crate::search::{self, Class};
use crate::world::World;

/// Sizes of clusters that are attacked.
pub const SIZES: [usize; 6] = [2, 3, 5, 7, 10, 50];

/// The text.
const TEXT: &str = include_str!("finds.txt");

/// How a find is made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An attack that the climb of this seed came to.
    Climb(u64, Attack),
    /// A run of the random search: nodes, class, seed.
    Search(usize, Class, u64),
}

/// One find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Find {
    /// Excess in thousandths of the burst; in units if it is small.
    pub figure: u64,
    /// How it is made again.
    pub origin: Origin,
}

/// What was searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Searched {
    /// Day.
    pub date: String,
    /// Commit of the code that was searched.
    pub commit: String,
    /// Runs.
    pub runs: u64,
}

/// What the text says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finds {
    /// When, on what code, how long.
    pub searched: Searched,
    /// The finds.
    pub finds: Vec<Find>,
}

impl Find {
    /// The run.
    pub fn scenario(&self) -> Scenario {
        match &self.origin {
            Origin::Climb(_, attack) => attack.scenario(),
            Origin::Search(nodes, class, seed) => search::scenario(*nodes, *class, *seed),
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// Numbers that the limiter refuses.
    pub fn run(&self) -> Result<Damage, String> {
        let scenario = self.scenario();
        World::run(scenario.clone()).map(|record| Damage::of(&scenario, &record))
    }

    /// What it is a find for.
    pub fn aim(&self) -> Aim {
        match &self.origin {
            Origin::Climb(_, attack) => attack.aim(),
            Origin::Search(nodes, class, _) => {
                let is_disturbed = *class == Class::Faults;
                let family = if is_disturbed { Family::Disturbed } else { Family::Undisturbed };
                let allowed = self.scenario().truth[0];
                let (accuracy, scale) = (allowed.accuracy, Scale::of(allowed.burst));
                Aim { nodes: *nodes, accuracy, family, scale }
            }
        }
    }

    /// The class by which `rlnode-sim replay` knows it.
    pub fn class(&self) -> &'static str {
        match &self.origin {
            Origin::Climb(_, attack) => attack.aim().family.as_str(),
            Origin::Search(_, class, _) => class.as_str(),
        }
    }

    /// The seed by which `rlnode-sim replay` knows it.
    pub fn seed(&self) -> u64 {
        match &self.origin {
            Origin::Climb(seed, _) | Origin::Search(_, _, seed) => *seed,
        }
    }

    fn parse(line: &str) -> Option<Self> {
        let (kind, rest) = line.split_once(' ')?;
        let (figure, rest) = rest.split_once(' ')?;
        let figure = figure.parse().ok()?;
        let origin = match kind {
            "attack" => {
                let (seed, text) = rest.split_once(' ')?;
                Origin::Climb(seed.parse().ok()?, Attack::parse(text).ok()?)
            }
            "search" => {
                let (nodes, rest) = rest.split_once(' ')?;
                let (class, seed) = rest.split_once(' ')?;
                Origin::Search(nodes.parse().ok()?, Class::from_word(class)?, seed.parse().ok()?)
            }
            _ => return None,
        };
        Some(Self { figure, origin })
    }
}

impl Display for Find {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Climb(seed, attack) => write!(f, "attack {} {seed} {attack}", self.figure),
            Origin::Search(nodes, class, seed) => {
                write!(f, "search {} {nodes} {} {seed}", self.figure, class.as_str())
            }
        }
    }
}

impl Finds {
    /// The finds that are committed.
    ///
    /// # Errors
    /// A line that is none.
    pub fn committed() -> Result<Self, String> {
        Self::parse(TEXT)
    }

    /// The finds that `text` says: one a line, beside comments and what was searched.
    ///
    /// # Errors
    /// A line that is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut all = Self::default();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(rest) = line.strip_prefix("searched ") {
                let words: Vec<&str> = rest.split(' ').collect();
                let [date, commit, runs] = words.as_slice() else {
                    return Err(format!("`{line}` does not say what was searched"));
                };
                let runs = runs.parse().map_err(|_| format!("`{runs}` is no number of runs"))?;
                all.searched = Searched { date: (*date).into(), commit: (*commit).into(), runs };
            } else {
                all.finds.push(Find::parse(line).ok_or_else(|| format!("`{line}` is no find"))?);
            }
        }
        Ok(all)
    }

    /// The attacks among the finds for `aim`.
    pub fn attacks(&self, aim: &Aim) -> Vec<Attack> {
        let attack = |find: &Find| match &find.origin {
            Origin::Climb(_, attack) if attack.aim() == *aim => Some(attack.clone()),
            Origin::Climb(..) | Origin::Search(..) => None,
        };
        self.finds.iter().filter_map(attack).collect()
    }

    /// The worst find for `aim`.
    pub fn worst(&self, aim: &Aim) -> Option<&Find> {
        self.finds.iter().filter(|find| find.aim() == *aim).max_by_key(|find| find.figure)
    }

    /// The find that `rlnode-sim replay` knows by size, class and seed: of two, the first.
    pub fn named(&self, nodes: usize, class: &str, seed: u64) -> Option<&Find> {
        let is_named =
            |find: &&Find| (find.aim().nodes, find.class(), find.seed()) == (nodes, class, seed);
        self.finds.iter().find(is_named)
    }

    /// Runs every find anew, and keeps the worst for each aim, in the order of aims. An attack that is
    /// no longer one of its family is dropped.
    ///
    /// # Errors
    /// Numbers that the limiter refuses.
    pub fn measured(mut self) -> Result<Self, String> {
        let mut finds: Vec<Find> = Vec::new();
        for mut find in std::mem::take(&mut self.finds) {
            let (aim, damage) = (find.aim(), find.run()?);
            if aim.family == Family::Undisturbed && damage.changes > 0 {
                continue;
            }
            find.figure = damage.figure(aim.scale);
            match finds.iter_mut().find(|other| other.aim() == aim) {
                Some(other) if other.figure < find.figure => *other = find,
                Some(_) => {}
                None => finds.push(find),
            }
        }
        finds.sort_by_key(|find| {
            let Aim { nodes, accuracy, family, scale } = find.aim();
            (nodes, accuracy as u8, family, scale)
        });
        Ok(Self { finds, ..self })
    }

    /// The code of `cluster::found`.
    ///
    /// # Errors
    /// A size for which nothing was found.
    pub fn code(&self) -> Result<String, String> {
        let mut rows = String::new();
        for nodes in SIZES {
            let _infallible = writeln!(rows, "    Worst {{\n        members: {nodes},");
            for (prefix, accuracy) in [("", Accuracy::Balanced), ("fast_", Accuracy::Fast)] {
                for family in [Family::Undisturbed, Family::Disturbed] {
                    let (row, family) = (self.row(nodes, accuracy, family)?, family.as_str());
                    let _infallible = writeln!(rows, "        {prefix}{family}: {row},");
                }
            }
            rows.push_str("    },\n");
        }
        let Searched { date, commit, runs } = &self.searched;
        let tail = format!(
            "\n/// How that was searched.\npub const SEARCHED: Searched =\n    Searched {{ date: \
             \"{date}\", commit: \"{commit}\", runs: {} }};\n",
            grouped(*runs)
        );
        Ok(CODE.replace("{rows}", &rows).replace("{searched}", &tail))
    }

    /// The code of one find, of the two scales.
    fn row(&self, nodes: usize, accuracy: Accuracy, family: Family) -> Result<String, String> {
        let find = |scale| {
            let aim = Aim { nodes, accuracy, family, scale };
            let none = || format!("nothing was found for N={nodes} {}", family.as_str());
            self.worst(&aim).ok_or_else(none)
        };
        let (large, small) = (find(Scale::Large)?, find(Scale::Small)?);
        Ok(format!(
            "Find {{\n            permille: {},\n            class: \"{}\",\n            seed: {},\n            \
             units: {},\n            units_class: \"{}\",\n            units_seed: {},\n        }}",
            large.figure,
            large.class(),
            large.seed(),
            small.figure,
            small.class(),
            small.seed()
        ))
    }
}

/// `number` as code has it, in groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let group = |(place, digit): (usize, char)| {
        let is_first_of_group = place > 0 && (digits.len() - place).is_multiple_of(3);
        is_first_of_group.then_some('_').into_iter().chain([digit])
    };
    digits.chars().enumerate().flat_map(group).collect()
}

/// Who was not searched yet says so.
impl Default for Searched {
    fn default() -> Self {
        Self { date: "never".into(), commit: "none".into(), runs: 0 }
    }
}

impl Display for Finds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Searched { date, commit, runs } = &self.searched;
        writeln!(f, "searched {date} {commit} {runs}")?;
        for find in &self.finds {
            let Aim { nodes, accuracy, family, scale } = find.aim();
            let (mode, family, scale) = (mode_word(accuracy), family.as_str(), scale.as_str());
            writeln!(f, "# N={nodes}, {mode}, {family}, a {scale} burst\n{find}")?;
        }
        Ok(())
    }
}

/// The code of `cluster::found`, without its figures.
const CODE: &str = include_str!("found.template");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_finds_can_be_read_and_written() {
        let finds = Finds::committed().unwrap();
        assert_eq!(Finds::parse(&finds.to_string()).as_ref(), Ok(&finds));
        assert_eq!(finds.to_string(), TEXT);
    }

    #[test]
    fn there_is_a_find_for_every_aim() {
        let finds = Finds::committed().unwrap();
        for nodes in SIZES {
            for family in Family::ALL {
                for (accuracy, scale) in [
                    (Accuracy::Balanced, Scale::Large),
                    (Accuracy::Balanced, Scale::Small),
                    (Accuracy::Fast, Scale::Large),
                    (Accuracy::Fast, Scale::Small),
                ] {
                    let aim = Aim { nodes, accuracy, family, scale };
                    let find = finds.worst(&aim).expect("a find");
                    let named = finds.named(nodes, find.class(), find.seed()).unwrap();
                    assert_eq!((named.class(), named.seed()), (find.class(), find.seed()));
                }
            }
        }
    }

    #[test]
    fn what_is_no_find_is_refused() {
        for text in ["attack 1 2 N=99", "search 1 3 faults x", "found 1 2", "searched today x"] {
            assert!(Finds::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn digits_are_grouped() {
        assert_eq!([1, 999, 1_000, 1_234_567].map(grouped), ["1", "999", "1_000", "1_234_567"]);
    }
}
