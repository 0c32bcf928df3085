//! An attack as one line of text, which names it: `N=2 seed=7 mode=balanced burst=100 …`.
//!
//! Words are separated by spaces, numbers of a word by colons; sets of nodes are bits in hexadecimal.

use std::fmt::{self, Display};

use limiter::Accuracy;

use super::plan::{
    Attack, END_US_MAX, FAULTS_MAX, Fault, KEYS_MAX, LINES_MAX, Line, MOVES_MAX, Move,
};
use crate::scenario::everyone;

/// Nodes of a cluster that can be attacked.
const NODES_MAX: usize = 50;
/// Longest delay and jitter, in µs, hold, in ms, and window, in ms: a day.
const DELAY_US_MAX: u64 = 200_000;
const WAIT_MS_MAX: u64 = 1_000;
const WINDOW_MS_MAX: u64 = 86_400_000;
/// Largest burst, and most that one request may cost.
const UNITS_MAX: u64 = 1_000_000;

/// The word of a mode.
pub fn mode_word(accuracy: Accuracy) -> &'static str {
    match accuracy {
        Accuracy::Balanced => "balanced",
        Accuracy::Fast => "fast",
    }
}

/// The mode of a word.
pub fn mode_of(word: &str) -> Option<Accuracy> {
    [Accuracy::Balanced, Accuracy::Fast].into_iter().find(|mode| mode_word(*mode) == word)
}

impl Display for Attack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "N={} seed={} mode={}", self.nodes, self.seed, mode_word(self.accuracy))?;
        write!(f, " burst={} window={} wait={}", self.burst, self.window_ms, self.wait_ms)?;
        write!(f, " delay={} jitter={} loss={}", self.delay_us, self.jitter_us, self.loss_ppm)?;
        for Line { from, to, delay_us } in &self.lines {
            write!(f, " line={from:x}:{to:x}:{delay_us}")?;
        }
        for step in &self.moves {
            let Move { at_us, nodes, key, count, cost, within_us, step_us } = step;
            write!(f, " ask={at_us}:{nodes:x}:{key}:{count}:{cost}:{within_us}:{step_us}")?;
        }
        for fault in &self.faults {
            match fault {
                Fault::Cut { from_us, to_us, nodes, one_way } => {
                    write!(f, " cut={from_us}:{to_us}:{nodes:x}:{}", u8::from(*one_way))?;
                }
                Fault::Crash { from_us, to_us, node } => {
                    write!(f, " crash={from_us}:{to_us}:{node}")?;
                }
                Fault::Pause { from_us, to_us, node } => {
                    write!(f, " pause={from_us}:{to_us}:{node}")?;
                }
                Fault::Restart { from_us, to_us, node } => {
                    write!(f, " restart={from_us}:{to_us}:{node}")?;
                }
            }
        }
        Ok(())
    }
}

impl Attack {
    /// The attack that `text` says.
    ///
    /// # Errors
    /// A word that is none, a number that is out of its bounds, or one that is missing.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut attack = Self {
            nodes: 0,
            seed: 0,
            accuracy: Accuracy::Balanced,
            burst: 0,
            window_ms: 0,
            wait_ms: 0,
            delay_us: 0,
            jitter_us: 0,
            loss_ppm: 0,
            lines: Vec::new(),
            moves: Vec::new(),
            faults: Vec::new(),
        };
        for word in text.split_whitespace() {
            attack.word(word).ok_or_else(|| format!("`{word}` is no part of an attack"))?;
        }
        attack.check()?;
        Ok(attack)
    }

    fn word(&mut self, word: &str) -> Option<()> {
        let (name, value) = word.split_once('=')?;
        let mut numbers = value.split(':');
        let mut next = || numbers.next();
        match name {
            "N" => self.nodes = number(next())?,
            "seed" => self.seed = number(next())?,
            "mode" => self.accuracy = mode_of(next()?)?,
            "burst" => self.burst = number(next())?,
            "window" => self.window_ms = number(next())?,
            "wait" => self.wait_ms = number(next())?,
            "delay" => self.delay_us = number(next())?,
            "jitter" => self.jitter_us = number(next())?,
            "loss" => self.loss_ppm = number(next())?,
            "line" => {
                let (from, to, delay_us) = (set(next())?, set(next())?, number(next())?);
                self.lines.push(Line { from, to, delay_us });
            }
            "ask" => {
                let (at_us, nodes, key) = (number(next())?, set(next())?, number(next())?);
                let (count, cost, within_us) = (number(next())?, number(next())?, number(next())?);
                let step_us = number(next())?;
                self.moves.push(Move { at_us, nodes, key, count, cost, within_us, step_us });
            }
            "cut" => {
                let (from_us, to_us, nodes) = (number(next())?, number(next())?, set(next())?);
                let one_way = number::<u8>(next())? == 1;
                self.faults.push(Fault::Cut { from_us, to_us, nodes, one_way });
            }
            "crash" | "pause" | "restart" => {
                let (from_us, to_us, node) = (number(next())?, number(next())?, number(next())?);
                self.faults.push(match name {
                    "crash" => Fault::Crash { from_us, to_us, node },
                    "pause" => Fault::Pause { from_us, to_us, node },
                    _ => Fault::Restart { from_us, to_us, node },
                });
            }
            _ => return None,
        }
        numbers.next().is_none().then_some(())
    }

    /// Whether every number is within its bounds.
    fn check(&self) -> Result<(), String> {
        let within = |what: &str, number: u64, least: u64, most: u64| {
            let is_within = (least..=most).contains(&number);
            is_within
                .then_some(())
                .ok_or_else(|| format!("{what} of `{number}` is not within {least} to {most}"))
        };
        within("N", self.nodes as u64, 2, NODES_MAX as u64)?;
        within("a burst", self.burst, 1, UNITS_MAX)?;
        within("a window in ms", self.window_ms, 1, WINDOW_MS_MAX)?;
        within("a wait in ms", self.wait_ms, 0, WAIT_MS_MAX)?;
        within("a delay in µs", self.delay_us, 1, DELAY_US_MAX)?;
        within("a jitter in µs", self.jitter_us, 0, DELAY_US_MAX)?;
        within("a loss in ppm", self.loss_ppm, 0, 500_000)?;
        within("a number of lines", self.lines.len() as u64, 0, LINES_MAX as u64)?;
        within("a number of moves", self.moves.len() as u64, 0, MOVES_MAX as u64)?;
        within("a number of faults", self.faults.len() as u64, 0, FAULTS_MAX as u64)?;
        let all = everyone(self.nodes);
        for line in &self.lines {
            within("a set of nodes", line.from | line.to, 1, all)?;
            within("a delay in µs", line.delay_us, 1, DELAY_US_MAX)?;
        }
        for step in &self.moves {
            within("a set of nodes", step.nodes, 1, all)?;
            within("a key", step.key as u64, 0, KEYS_MAX as u64 - 1)?;
            within("a cost", step.cost, 1, UNITS_MAX)?;
            within("a time in µs", step.at_us, 0, END_US_MAX)?;
            within("a time in µs", step.within_us, 0, END_US_MAX)?;
            within("a step in µs", step.step_us.unsigned_abs(), 0, END_US_MAX)?;
        }
        for fault in &self.faults {
            let mut fault = *fault;
            if let Fault::Cut { nodes, .. } = fault {
                within("a set of nodes", nodes, 1, all - 1)?;
            }
            if let Fault::Crash { node, .. }
            | Fault::Pause { node, .. }
            | Fault::Restart { node, .. } = fault
            {
                within("a node", node as u64, 0, self.nodes as u64 - 1)?;
            }
            let (from_us, to_us) = fault.times_mut();
            within("an end in µs", *to_us, *from_us + 1, END_US_MAX)?;
        }
        Ok(())
    }
}

fn number<T: std::str::FromStr>(text: Option<&str>) -> Option<T> {
    text?.parse().ok()
}

/// A set of nodes.
fn set(text: Option<&str>) -> Option<u64> {
    u64::from_str_radix(text?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "N=3 seed=7 mode=fast burst=100 window=1000 wait=5 delay=1000 jitter=0 loss=0 \
                        line=4:3:15000 ask=250:7:0:24:1:2000:-10 cut=9:700000:1:1 crash=5:6:2 \
                        pause=5:7:1 restart=1:2:0";

    #[test]
    fn a_line_of_text_is_an_attack_and_the_other_way_round() {
        let attack = Attack::parse(TEXT).unwrap();
        assert_eq!(attack.to_string(), TEXT);
        assert_eq!((attack.moves[0].nodes, attack.moves[0].step_us), (0b111, -10));
    }

    #[test]
    fn what_is_no_attack_is_refused() {
        let broken = [
            ("N=3", "N=64"),
            ("mode=fast", "mode=exact"),
            ("burst=100", "burst=0"),
            ("line=4:3:15000", "line=4:f:15000"),
            ("ask=250:7:0:24", "ask=250:0:0:24"),
            ("ask=250:7:0:24", "ask=250:7:6:24"),
            ("cut=9:700000:1:1", "cut=9:700000:7:1"),
            ("cut=9:700000:1:1", "cut=9:9:1:1"),
            ("crash=5:6:2", "crash=5:6:3"),
            ("pause=5:7:1", "pause=5:7:1:1"),
            ("seed=7", "seed=x"),
            ("seed=7", "sead=7"),
        ];
        for (good, bad) in broken {
            assert!(Attack::parse(&TEXT.replacen(good, bad, 1)).is_err(), "{bad}");
        }
        assert!(Attack::parse("").is_err());
    }
}
