//! What can be made to happen in the demo, and scripts that say when.

use std::fmt;

use super::words::{letter, node_name, seconds};

/// Most steps of a script: more than anybody watches.
pub(super) const STEPS_MAX: usize = 64;
/// Latest time of a step, in milliseconds.
const AT_MS_MAX: u64 = 3_600_000;
/// How long the demo goes on after the last step of a script, in milliseconds: what follows from the
/// step is to be seen.
const AFTER_MS: u64 = 2_500;
/// What is played where nobody says otherwise, with the last node as the one that is cut off and the
/// second as the one that crashes.
const AUTO: &str = "3s lull, 4.5s burst, 7s cut LAST, 12s heal LAST, 14.5s kill b, 19s join b, \
                    21.5s lull, 23s burst";
/// The words of the actions, for messages.
const WORDS: &str = "lull, burst, cut NODE, heal NODE, kill NODE, join NODE and quit";

/// What can be made to happen. Nodes are given by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The callers rest, so that the bucket fills.
    Lull,
    /// Every node that runs is asked for the whole bucket at once.
    Burst,
    /// The network drops whatever goes to or comes from the node.
    Cut(usize),
    /// The network carries it again.
    Heal(usize),
    /// The node ends without a goodbye, as by `kill -9`.
    Kill(usize),
    /// It starts again, knowing nothing.
    Join(usize),
    /// The demo ends.
    Quit,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lull => f.write_str("lull"),
            Self::Burst => f.write_str("burst"),
            Self::Cut(node) => write!(f, "cut {}", letter(*node)),
            Self::Heal(node) => write!(f, "heal {}", letter(*node)),
            Self::Kill(node) => write!(f, "kill {}", letter(*node)),
            Self::Join(node) => write!(f, "join {}", letter(*node)),
            Self::Quit => f.write_str("quit"),
        }
    }
}

/// One line of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    /// Since the calls began, in milliseconds.
    at_ms: u64,
    action: Action,
}

/// Actions in the order of their times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Script {
    steps: Vec<Step>,
    done: usize,
}

/// What is wrong with a script, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// The step, counted from 1.
    number: usize,
    /// It, as it was written.
    step: String,
    fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Fault {
    Empty,
    Time(String),
    TooLate,
    Action(String),
    NoNode(&'static str),
    Node { said: String, members: usize },
    TooMuch(String),
    TooMany,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {} of the script, `{}`: ", self.number, self.step.escape_debug())?;
        match &self.fault {
            Fault::Empty => f.write_str("it is empty; write steps such as `4s cut c`"),
            Fault::Time(said) => {
                write!(
                    f,
                    "`{}` is no time; write one such as `4s`, `4.5s` or `800ms`",
                    said.escape_debug()
                )
            }
            Fault::TooLate => write!(f, "no step may come later than {}", seconds(AT_MS_MAX)),
            Fault::Action(said) => {
                write!(f, "`{}` is nothing that can happen; there are {WORDS}", said.escape_debug())
            }
            Fault::NoNode(word) => write!(f, "say which node, as in `{word} a`"),
            Fault::Node { said, members } => {
                let names: Vec<_> = (0..*members).map(node_name).collect();
                let names = names.join(", ");
                write!(f, "there is no node `{}`; the nodes are {names}", said.escape_debug())
            }
            Fault::TooMuch(said) => {
                write!(f, "`{}` is too much; put a comma between steps", said.escape_debug())
            }
            Fault::TooMany => write!(f, "a script has at most {STEPS_MAX} steps; leave some out"),
        }
    }
}

impl std::error::Error for ScriptError {}

impl Script {
    /// The script that shows everything, for `members` nodes.
    pub(super) fn auto(members: usize) -> Self {
        let last = node_name(members.saturating_sub(1));
        Self::parse(&AUTO.replace("LAST", &last), members).unwrap_or_default()
    }

    /// Reads steps such as `2s burst, 4s cut c`, in any order.
    ///
    /// # Errors
    /// The first step that cannot be played.
    pub(super) fn parse(text: &str, members: usize) -> Result<Self, ScriptError> {
        let mut steps = Vec::new();
        for (number, step) in (1..).zip(text.split(',')) {
            let step = step.trim();
            let error = |fault| ScriptError { number, step: step.to_owned(), fault };
            if number > STEPS_MAX {
                return Err(error(Fault::TooMany));
            }
            steps.push(parse_step(step, members).map_err(error)?);
        }
        // Stable: steps of one time stay in the order in which they were written.
        steps.sort_by_key(|step| step.at_ms);
        Ok(Self { steps, done: 0 })
    }

    /// The next action whose time has come; to be asked again until there is none.
    pub(super) fn due(&mut self, now_ms: u64) -> Option<Action> {
        let step = self.steps.get(self.done).filter(|step| step.at_ms <= now_ms)?;
        self.done += 1;
        Some(step.action)
    }

    /// What comes next, and when.
    pub(super) fn next(&self) -> Option<(u64, Action)> {
        self.steps.get(self.done).map(|step| (step.at_ms, step.action))
    }

    /// Nothing of it is played any more.
    pub(super) fn stop(&mut self) {
        self.steps.truncate(self.done);
    }

    /// When everything in it has happened and was to be seen, in milliseconds.
    pub(super) fn end_ms(&self) -> u64 {
        self.steps.last().map_or(0, |step| step.at_ms) + AFTER_MS
    }
}

fn parse_step(step: &str, members: usize) -> Result<Step, Fault> {
    let mut words = step.split_whitespace();
    let time = words.next().ok_or(Fault::Empty)?;
    let at_ms = parse_ms(time).ok_or_else(|| Fault::Time(time.to_owned()))?;
    if at_ms > AT_MS_MAX {
        return Err(Fault::TooLate);
    }
    let word = words.next().unwrap_or_default();
    let action = match word.to_ascii_lowercase().as_str() {
        "lull" => Action::Lull,
        "burst" => Action::Burst,
        "cut" => Action::Cut(parse_node("cut", words.next(), members)?),
        "heal" => Action::Heal(parse_node("heal", words.next(), members)?),
        "kill" => Action::Kill(parse_node("kill", words.next(), members)?),
        "join" => Action::Join(parse_node("join", words.next(), members)?),
        "quit" => Action::Quit,
        _ => return Err(Fault::Action(word.to_owned())),
    };
    match words.next() {
        None => Ok(Step { at_ms, action }),
        Some(said) => Err(Fault::TooMuch(said.to_owned())),
    }
}

fn parse_node(word: &'static str, said: Option<&str>, members: usize) -> Result<usize, Fault> {
    let said = said.ok_or(Fault::NoNode(word))?;
    (0..members)
        .find(|index| letter(*index).eq_ignore_ascii_case(said))
        .ok_or_else(|| Fault::Node { said: said.to_owned(), members })
}

/// `4s`, `4.5s` or `800ms` in milliseconds.
fn parse_ms(text: &str) -> Option<u64> {
    let whole = |digits: &str| -> Option<u64> {
        let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| digits.parse().ok()).flatten()
    };
    if let Some(ms) = text.strip_suffix("ms") {
        return whole(ms);
    }
    let (s, fraction) = text.strip_suffix('s').map(|s| s.split_once('.').unwrap_or((s, "0")))?;
    if fraction.len() > 3 {
        return None;
    }
    whole(s)?.checked_mul(1_000)?.checked_add(whole(&format!("{fraction:0<3}"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Script::parse(text, 3).expect_err(text).to_string()
    }

    #[test]
    fn steps_are_played_in_the_order_of_their_times() {
        let mut script = Script::parse("10s kill b, 2s burst,4.25s CUT C, 800ms lull, 2s quit", 3)
            .expect("a script");
        assert_eq!((script.due(799), script.next()), (None, Some((800, Action::Lull))));
        assert_eq!([script.due(800), script.due(800)], [Some(Action::Lull), None]);
        let late: Vec<_> = std::iter::from_fn(|| script.due(60_000)).collect();
        assert_eq!(late, [Action::Burst, Action::Quit, Action::Cut(2), Action::Kill(1)]);
        assert_eq!((script.next(), script.end_ms()), (None, 10_000 + AFTER_MS));
    }

    #[test]
    fn a_script_that_is_stopped_plays_no_more() {
        let mut script = Script::auto(3);
        assert!(script.due(5_000).is_some());
        script.stop();
        assert_eq!((script.due(60_000), script.next()), (None, None));
    }

    #[test]
    fn the_script_that_is_shipped_can_be_played_with_any_number_of_nodes() {
        for members in 2..=super::super::MEMBERS_MAX {
            let script = Script::auto(members);
            assert_eq!(script.steps.len(), AUTO.split(',').count(), "{members}");
            assert!(script.steps.iter().any(|step| step.action == Action::Cut(members - 1)));
        }
    }

    #[test]
    fn a_wrong_step_is_named_with_what_to_do() {
        let cases = [
            ("2s burst,, 3s quit", "step 2 of the script, ``: it is empty; write steps such as"),
            ("x burst", "step 1 of the script, `x burst`: `x` is no time; write one such as `4s`"),
            (
                "1s burst, 4.0001s quit",
                "step 2 of the script, `4.0001s quit`: `4.0001s` is no time",
            ),
            ("-1s burst", "`-1s` is no time"),
            ("s burst", "`s` is no time"),
            ("99999999999999999999s quit", "is no time"),
            ("3601s quit", "no step may come later than 3600.0 s"),
            ("4s explode", "`explode` is nothing that can happen; there are lull, burst, cut NODE"),
            ("4s", "`` is nothing that can happen"),
            ("4s cut", "say which node, as in `cut a`"),
            ("4s heal d", "there is no node `d`; the nodes are a, b, c"),
            ("4s cut c 5s heal c", "`5s` is too much; put a comma between steps"),
        ];
        for (text, want) in cases {
            let said = error(text);
            assert!(said.contains(want), "{text}: {said}");
        }
        let longest = vec!["1s burst"; STEPS_MAX].join(",");
        assert!(Script::parse(&longest, 3).is_ok());
        assert!(error(&format!("{longest},1s burst")).contains("at most 64 steps"));
    }
}
