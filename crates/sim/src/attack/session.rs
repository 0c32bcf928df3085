//! A search for attacks: climbs for every aim, one after another, and what they came to as text.

use limiter::Accuracy;

use super::climb::{Effort, climb};
use super::finds::{Find, Finds, Origin};
use super::text::mode_word;
use super::{Aim, Family, Scale};

/// What is searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Sizes of clusters.
    pub sizes: Vec<usize>,
    /// Families.
    pub families: Vec<Family>,
    /// Accuracies of limits.
    pub accuracies: Vec<Accuracy>,
    /// Scales of bursts.
    pub scales: Vec<Scale>,
    /// First seed, and how many.
    pub seeds: (u64, u64),
    /// How long a climb is.
    pub effort: Effort,
    /// Climbs begin at the finds that are committed, too.
    pub is_from_known: bool,
}

impl Aim {
    /// What the climb of `seed` aims at. Four seeds that follow each other are one for each accuracy and
    /// scale, so that size, family and seed name a climb.
    pub fn of_seed(nodes: usize, family: Family, seed: u64) -> Self {
        let accuracy = if seed & 2 == 0 { Accuracy::Balanced } else { Accuracy::Fast };
        let scale = if seed & 1 == 0 { Scale::Large } else { Scale::Small };
        Self { nodes, accuracy, family, scale }
    }
}

impl Session {
    /// Climbs from every seed, adds what was worse than what is in `finds`, and hands lines about it to
    /// `say`. Returns how often an invariant did not hold.
    ///
    /// # Errors
    /// Numbers that the limiter refuses.
    pub fn run(&self, finds: &mut Finds, mut say: impl FnMut(&str)) -> Result<u64, String> {
        let mut broken = 0;
        let (first, seeds) = self.seeds;
        for nodes in &self.sizes {
            for family in &self.families {
                for seed in first..first + seeds {
                    let aim = Aim::of_seed(*nodes, *family, seed);
                    if self.accuracies.contains(&aim.accuracy) && self.scales.contains(&aim.scale) {
                        broken += self.climb(&aim, seed, finds, &mut say)?;
                    }
                }
            }
        }
        Ok(broken)
    }

    fn climb(
        &self,
        aim: &Aim,
        seed: u64,
        finds: &mut Finds,
        say: &mut impl FnMut(&str),
    ) -> Result<u64, String> {
        let known = if self.is_from_known { finds.attacks(aim) } else { Vec::new() };
        let best = climb(aim, seed, self.effort, &known)?;
        finds.searched.runs += best.runs;
        let Aim { nodes, accuracy, family, scale } = *aim;
        let (mode, family) = (mode_word(accuracy), family.as_str());
        let what = format!("N={nodes} {family} {seed} ({mode}, {} burst)", scale.as_str());
        if let Some((attack, fault)) = best.broken.first() {
            let more = best.broken.len() - 1;
            say(&format!("# BROKEN, and {more} more: {what}: {fault}\n# {attack}"));
        }
        let Some((attack, damage)) = best.attack else {
            say(&format!("# {what}: no attack without a lost node"));
            return Ok(best.broken.len() as u64);
        };
        let find = Find { figure: damage.figure(scale), origin: Origin::Climb(seed, attack) };
        say(&format!("# {what}: score {}\n{find}", damage.score));
        if finds.worst(aim).is_none_or(|worst| worst.figure < find.figure) {
            finds.finds.push(find);
        }
        Ok(best.broken.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_seeds_are_one_for_each_accuracy_and_scale() {
        let aims: Vec<Aim> = (4..8).map(|seed| Aim::of_seed(3, Family::Disturbed, seed)).collect();
        let kinds: std::collections::BTreeSet<_> =
            aims.iter().map(|aim| (aim.accuracy as u8, aim.scale)).collect();
        assert_eq!(kinds.len(), 4);
    }

    #[test]
    fn a_climb_replays_from_its_seed() {
        let session = Session {
            sizes: vec![2],
            families: vec![Family::Undisturbed],
            accuracies: vec![Accuracy::Balanced],
            scales: vec![Scale::Small],
            seeds: (0, 4),
            effort: Effort { draws: 8, steps: 8 },
            is_from_known: false,
        };
        let run = || {
            let mut finds = Finds::default();
            let mut lines = Vec::new();
            let broken = session.run(&mut finds, |line| lines.push(line.to_owned())).unwrap();
            (finds, lines, broken)
        };
        let (finds, lines, broken) = run();
        assert_eq!(run(), (finds.clone(), lines, broken));
        assert_eq!((finds.searched.runs, finds.finds.len(), broken), (16, 1, 0));
        // What was found can be said, and does the same again.
        assert_eq!(Finds::parse(&finds.to_string()).as_ref(), Ok(&finds));
        assert_eq!(finds.clone().measured().unwrap().finds, finds.finds);
    }
}
