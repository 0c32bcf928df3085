//! The trouble that is made on purpose: weather between the nodes, and what happens to single ones.
//! What is planned here is done by the fleet.

use std::fmt;

pub(super) use relay::Weather;

use crate::cli::parse_duration;
use crate::clock::NS_PER_MS;

/// A million parts.
const ALL_PPM: u32 = 1_000_000;

/// What happens to a node for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// Index of the node.
    pub(super) node: usize,
    /// From when on, after the start of the run.
    pub(super) from_ns: u64,
    /// Until when.
    pub(super) to_ns: u64,
}

impl Event {
    /// Name of the node.
    pub(super) fn name(&self) -> String {
        name(self.node)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from_ms, to_ms) = (self.from_ns / NS_PER_MS, self.to_ns / NS_PER_MS);
        write!(f, "{}@{from_ms}ms..{to_ms}ms", self.name())
    }
}

/// Name of the node of this index: `a` for 0.
pub(super) fn name(node: usize) -> String {
    let letter = u32::try_from(node).ok().and_then(|node| char::from_digit(node + 10, 36));
    letter.map_or_else(|| format!("n{node}"), String::from)
}

/// Reads `b@2s..4s`.
pub(super) fn parse_event(text: &str) -> Result<Event, String> {
    let fail = || format!("`{text}` is no node and time; write such as b@2s..4s");
    let (node, time) = text.split_once('@').ok_or_else(fail)?;
    let (from, to) = time.split_once("..").ok_or_else(fail)?;
    let mut letters = node.chars();
    let (Some(letter), None) = (letters.next(), letters.next()) else { return Err(fail()) };
    let number = letter.to_digit(36).and_then(|digit| digit.checked_sub(10)).ok_or_else(fail)?;
    let ns = |text: &str| {
        let time = parse_duration(text).map_err(|_| fail())?;
        u64::try_from(time.as_nanos()).map_err(|_| fail())
    };
    let (from_ns, to_ns) = (ns(from)?, ns(to)?);
    if to_ns <= from_ns {
        return Err(fail());
    }
    Ok(Event { node: usize::try_from(number).map_err(|_| fail())?, from_ns, to_ns })
}

/// Reads `10%` or `0.5%` as parts of a million.
pub(super) fn parse_share(text: &str) -> Result<u32, String> {
    let fail = || format!("`{text}` is no part from 0% to 100%, with four decimals at most");
    let number = text.strip_suffix('%').ok_or_else(fail)?;
    let (whole, parts) = number.split_once('.').unwrap_or((number, ""));
    let is_plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_plain(whole) || !is_plain(parts) || parts.len() > 4 {
        return Err(fail());
    }
    let whole: u32 = whole.parse().map_err(|_| fail())?;
    let parts: u32 = format!("{parts:0<4}").parse().map_err(|_| fail())?;
    let ppm = whole.checked_mul(ALL_PPM / 100).and_then(|ppm| ppm.checked_add(parts));
    ppm.filter(|&ppm| ppm <= ALL_PPM).ok_or_else(fail)
}

/// All trouble of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trouble {
    /// Between all nodes, both ways.
    pub(super) weather: Weather,
    /// Nodes that are killed, and started again.
    pub(super) kill: Vec<Event>,
    /// Nodes that are halted.
    pub(super) pause: Vec<Event>,
    /// Nodes that are cut off from the others.
    pub(super) cut: Vec<Event>,
}

/// What is done to a node at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// SIGKILL.
    Kill,
    /// The same program from the same file.
    Start,
    /// SIGSTOP.
    Halt,
    /// SIGCONT.
    Resume,
    /// Nothing passes between it and the others.
    Cut,
    /// Everything does again.
    Mend,
}

/// A deed, when, and to which node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// When, after the start of the run.
    pub(super) at_ns: u64,
    /// Index of the node.
    pub(super) node: usize,
    /// What is done.
    pub(super) deed: Deed,
}

impl Trouble {
    /// Datagrams between the nodes have to go through a relay.
    pub(super) fn needs_relay(&self) -> bool {
        self.weather != Weather::default() || !self.cut.is_empty()
    }

    /// Nodes may lose each other by it, so that a split says nothing about the machine.
    pub(super) fn may_split(&self) -> bool {
        self.weather.loss_ppm > 0
            || [&self.kill, &self.pause, &self.cut].into_iter().any(|events| !events.is_empty())
    }

    /// What is done, in the order of time.
    pub(super) fn steps(&self) -> Vec<Step> {
        let kinds = [
            (&self.kill, Deed::Kill, Deed::Start),
            (&self.pause, Deed::Halt, Deed::Resume),
            (&self.cut, Deed::Cut, Deed::Mend),
        ];
        let mut steps: Vec<_> = kinds
            .into_iter()
            .flat_map(|(events, first, then)| events.iter().map(move |event| (event, first, then)))
            .flat_map(|(event, first, then)| {
                let step = |at_ns, deed| Step { at_ns, node: event.node, deed };
                [step(event.from_ns, first), step(event.to_ns, then)]
            })
            .collect();
        steps.sort_by_key(|step| step.at_ns);
        steps
    }
}

/// In words, such as `5 ms later, 10 % lost, kill b@2000ms..4000ms`; empty if there is none.
impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Weather { delay, jitter, loss_ppm, duplicate_ppm, reorder_ppm } = self.weather;
        let mut words = Vec::new();
        for (time, what) in [(delay, "later"), (jitter, "of jitter")] {
            if !time.is_zero() {
                words.push(format!("{} ms {what}", time.as_millis()));
            }
        }
        for (ppm, what) in
            [(loss_ppm, "lost"), (duplicate_ppm, "doubled"), (reorder_ppm, "overtaken")]
        {
            if ppm > 0 {
                words.push(format!("{} % {what}", f64::from(ppm) / f64::from(ALL_PPM / 100)));
            }
        }
        for (events, what) in [(&self.kill, "kill"), (&self.pause, "pause"), (&self.cut, "cut")] {
            words.extend(events.iter().map(|event| format!("{what} {event}")));
        }
        f.write_str(&words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::NS_PER_S;

    #[test]
    fn an_event_is_a_node_and_a_stretch_of_time() {
        let event = parse_event("b@2s..4500ms").unwrap();
        assert_eq!(event, Event { node: 1, from_ns: 2 * NS_PER_S, to_ns: 4500 * NS_PER_MS });
        assert_eq!(event.to_string(), "b@2000ms..4500ms");
        assert_eq!(parse_event("C@0s..1s").unwrap().node, 2);
        for text in ["", "b", "b@2s", "b@4s..2s", "b@2s..2s", "bb@1s..2s", "1@1s..2s", "b@1..2"] {
            assert!(parse_event(text).unwrap_err().contains(&format!("`{text}`")), "{text}");
        }
    }

    #[test]
    fn a_share_is_a_percentage() {
        for (text, ppm) in [("0%", 0), ("10%", 100_000), ("0.5%", 5000), ("100%", 1_000_000)] {
            assert_eq!(parse_share(text), Ok(ppm));
        }
        for text in ["", "10", "%", "101%", "100.1%", "-1%", "1.23456%", "x%"] {
            assert!(parse_share(text).unwrap_err().contains(&format!("`{text}`")), "{text}");
        }
    }

    #[test]
    fn every_event_is_two_steps_in_the_order_of_time() {
        let trouble = Trouble {
            kill: vec![parse_event("a@2s..4s").unwrap()],
            cut: vec![parse_event("b@1s..3s").unwrap()],
            ..Trouble::default()
        };
        let deeds: Vec<_> = trouble.steps().iter().map(|step| (step.node, step.deed)).collect();
        assert_eq!(deeds, [(1, Deed::Cut), (0, Deed::Kill), (1, Deed::Mend), (0, Deed::Start)]);
    }

    #[test]
    fn trouble_says_what_it_needs_and_what_it_may_do() {
        let none = Trouble::default();
        assert!(!none.needs_relay() && !none.may_split() && none.to_string().is_empty());
        let slow = Weather { delay: Duration::from_millis(5), ..Weather::default() };
        let slow = Trouble { weather: slow, ..Trouble::default() };
        assert!(slow.needs_relay() && !slow.may_split());
        let pause = vec![parse_event("a@1s..2s").unwrap()];
        let halted = Trouble { pause, ..Trouble::default() };
        assert!(!halted.needs_relay() && halted.may_split());
        let lossy = Weather { loss_ppm: 5000, ..slow.weather };
        let words = Trouble { weather: lossy, ..halted }.to_string();
        assert_eq!(words, "5 ms later, 0.5 % lost, pause a@1000ms..2000ms");
    }
}
