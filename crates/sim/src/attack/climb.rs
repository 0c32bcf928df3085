//! From attacks drawn from chance to worse ones, by small changes: a few of the worst are kept, and
//! varied again and again. A climb is named by its aim, its seed and its effort, and replays from them.

use super::breed::{draw, vary};
use super::{Aim, Attack, Damage, Family};
use crate::dice::Dice;

/// Attacks that are kept of a climb.
const KEPT: usize = 6;

/// How long a climb is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Attacks drawn from chance.
    pub draws: u64,
    /// Changes that are tried after them.
    pub steps: u64,
}

/// Where a climb came to.
#[derive(Clone, Debug)]
pub struct Best {
    /// The worst attack; none if no drawn attack was one of its family.
    pub attack: Option<(Attack, Damage)>,
    /// Attacks that were run.
    pub runs: u64,
    /// Attacks in which an invariant did not hold: the attack, what.
    pub broken: Vec<(String, String)>,
}

/// Climbs from attacks drawn from `seed`, and from `known` ones.
///
/// # Errors
/// Numbers that the limiter refuses.
pub fn climb(aim: &Aim, seed: u64, effort: Effort, known: &[Attack]) -> Result<Best, String> {
    let cell = [aim.nodes as u64, aim.accuracy as u64, aim.family as u64, aim.scale as u64];
    let part = cell.into_iter().fold(0, |part, number| part * 64 + number);
    let mut dice = Dice::new(seed).part(part);
    let mut climb = Climb { aim: *aim, kept: Vec::new(), runs: 0, broken: Vec::new() };
    for attack in known {
        climb.meet(attack.clone())?;
    }
    for _ in 0..effort.draws {
        climb.meet(draw(aim, &mut dice))?;
    }
    for _ in 0..effort.steps {
        if climb.kept.is_empty() {
            break;
        }
        // The worst is varied most.
        let place = dice.place(climb.kept.len()).min(dice.place(climb.kept.len()));
        climb.meet(vary(&climb.kept[place].0, aim, &mut dice))?;
    }
    climb.simplify()?;
    let attack = climb.kept.into_iter().next();
    Ok(Best { attack, runs: climb.runs, broken: climb.broken })
}

struct Climb {
    aim: Aim,
    /// The worst attacks so far, worst first.
    kept: Vec<(Attack, Damage)>,
    runs: u64,
    broken: Vec<(String, String)>,
}

impl Climb {
    /// Takes from the worst attack what it does as well without, for as long as there is something.
    fn simplify(&mut self) -> Result<(), String> {
        if self.kept.first().is_none_or(|(_, damage)| damage.figure(self.aim.scale) == 0) {
            return Ok(());
        }
        let (mut attack, damage) = self.kept.swap_remove(0);
        self.kept = vec![(attack.clone(), damage.clone())];
        let scale = self.aim.scale;
        let mut place = 0;
        while let Some(simpler) = simpler(&attack, place) {
            let kept = std::mem::take(&mut self.kept);
            self.meet(simpler.clone())?;
            match self.kept.pop() {
                Some((_, less)) if less.figure(scale) >= damage.figure(scale) => {
                    self.kept = vec![(simpler.clone(), less)];
                    attack = simpler;
                }
                _ => {
                    self.kept = kept;
                    place += 1;
                }
            }
        }
        Ok(())
    }

    /// Runs an attack, and keeps it if it is among the worst.
    fn meet(&mut self, attack: Attack) -> Result<(), String> {
        let damage = attack.run()?;
        self.runs += 1;
        if let Some(what) = damage.broken.first() {
            self.broken.push((attack.to_string(), what.clone()));
        }
        if self.aim.family == Family::Undisturbed && damage.changes > 0 {
            return Ok(());
        }
        // Of two that are as bad the newer is kept: it may lead on. None is kept twice.
        if let Some(same) = self.kept.iter_mut().find(|(_, kept)| kept.score == damage.score) {
            *same = (attack, damage);
            return Ok(());
        }
        let place = self.kept.partition_point(|(_, kept)| kept.score > damage.score);
        self.kept.insert(place, (attack, damage));
        self.kept.truncate(KEPT);
        Ok(())
    }
}

/// `attack` without the part at `place` of those that it may be without: a move, a line, a fault that is
/// not the only one, jitter, loss. None when there is no such part.
fn simpler(attack: &Attack, place: usize) -> Option<Attack> {
    let mut simpler = attack.clone();
    let moves = if attack.moves.len() > 1 { attack.moves.len() } else { 0 };
    let faults = if attack.faults.len() > 1 { attack.faults.len() } else { 0 };
    let after_lines = moves + attack.lines.len();
    let numbers = [&mut simpler.jitter_us, &mut simpler.loss_ppm];
    if place < moves {
        simpler.moves.remove(place);
    } else if place < after_lines {
        simpler.lines.remove(place - moves);
    } else if place < after_lines + faults {
        simpler.faults.remove(place - after_lines);
    } else {
        let number =
            numbers.into_iter().filter(|number| **number > 0).nth(place - after_lines - faults)?;
        *number = 0;
    }
    Some(simpler)
}
