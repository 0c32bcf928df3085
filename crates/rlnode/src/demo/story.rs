//! What happened and what came of it, as it was seen.

use std::collections::VecDeque;

use super::script::Action;
use super::tally::Burst;
use super::view::World;
use super::words::{duration, grouped, seconds};

/// Events that are kept; older ones are dropped.
const EVENTS_MAX: usize = 100;
/// How long a burst may take to be answered, in milliseconds.
const BURST_MS_MAX: u64 = 2_000;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// Number of the event, from 0.
    pub(super) number: u64,
    /// When, in milliseconds since the calls began.
    pub(super) at_ms: u64,
    /// What, in words.
    pub(super) what: String,
    /// What, in a word, for the edge of the chart; none for what changed nothing.
    pub(super) mark: Option<String>,
    /// What came of it; none as long as nothing did.
    pub(super) outcome: Option<Outcome>,
}

/// What came of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// So long after the event, in milliseconds.
    pub(super) after_ms: u64,
    /// What, in words.
    pub(super) what: String,
}

impl Event {
    /// `7.0 s  cut C off`.
    pub(super) fn line(&self) -> String {
        format!("{:>7}  {}", seconds(self.at_ms), self.what)
    }

    /// `7.5 s  0.6 s after cut C: A and B hold 2/3, C 1/3`; none as long as nothing came of it.
    pub(super) fn outcome_line(&self) -> Option<String> {
        let outcome = self.outcome.as_ref()?;
        let at = seconds(self.at_ms + outcome.after_ms);
        let mark = self.mark.as_deref().unwrap_or_default();
        Some(format!("{at:>7}  {} after {mark}: {}", duration(outcome.after_ms), outcome.what))
    }

    /// Event and outcome in one line.
    pub(super) fn whole_line(&self) -> String {
        match &self.outcome {
            Some(outcome) => {
                format!("{}; {} later {}", self.line(), duration(outcome.after_ms), outcome.what)
            }
            None => self.line(),
        }
    }
}

/// What happened so far.
#[derive(Debug, Default)]
pub(super) struct Story {
    events: VecDeque<Event>,
    /// Events that ever were.
    count: u64,
    /// The number of the event after which the nodes have not found their places yet.
    unsettled: Option<u64>,
    /// The number of the burst that is not answered yet.
    burst: Option<u64>,
}

impl Story {
    /// Something is to be said that changed nothing.
    pub(super) fn tell(&mut self, at_ms: u64, what: String) {
        self.add(at_ms, what, None);
    }

    /// `action` was done; what came of it will be [observed](Self::observe).
    pub(super) fn begin(&mut self, at_ms: u64, action: Action, what: String) {
        let number = self.add(at_ms, what, Some(action.to_string()));
        match action {
            Action::Lull | Action::Quit => {}
            Action::Burst => self.burst = Some(number),
            Action::Cut(_) | Action::Heal(_) | Action::Kill(_) | Action::Join(_) => {
                if let Some(earlier) = self.unsettled.replace(number) {
                    self.settle(earlier, at_ms, "the next event had come".to_owned());
                }
            }
        }
    }

    fn add(&mut self, at_ms: u64, what: String, mark: Option<String>) -> u64 {
        let number = self.count;
        self.count += 1;
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(Event { number, at_ms, what, mark, outcome: None });
        number
    }

    /// Looks whether something came of what was begun.
    pub(super) fn observe(&mut self, now_ms: u64, world: &World<'_>, burst: Burst) {
        if let Some(number) = self.unsettled.filter(|_| world.is_settled()) {
            self.unsettled = None;
            self.settle(number, now_ms, world.parts());
        }
        let began_ms = self.burst.and_then(|number| self.event(number)).map_or(0, |it| it.at_ms);
        let is_over =
            burst.answered >= burst.calls || now_ms.saturating_sub(began_ms) > BURST_MS_MAX;
        if let Some(number) = self.burst.filter(|_| is_over) {
            self.burst = None;
            let (admitted, central) = (grouped(burst.admitted), grouped(burst.central));
            let what = format!("{admitted} had passed (central: {central})");
            self.settle(number, now_ms, what);
        }
    }

    /// A burst is not answered yet.
    pub(super) fn is_in_burst(&self) -> bool {
        self.burst.is_some()
    }

    /// Something is yet to come of what happened.
    pub(super) fn is_open(&self) -> bool {
        self.burst.is_some() || self.unsettled.is_some()
    }

    /// All events that are kept, the latest last.
    pub(super) fn events(&self) -> impl DoubleEndedIterator<Item = &Event> {
        self.events.iter()
    }

    fn event(&self, number: u64) -> Option<&Event> {
        self.events.iter().find(|event| event.number == number)
    }

    fn settle(&mut self, number: u64, now_ms: u64, what: String) {
        if let Some(event) = self.events.iter_mut().find(|event| event.number == number) {
            let after_ms = now_ms.saturating_sub(event.at_ms);
            event.outcome = Some(Outcome { after_ms, what });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::NodeView;
    use super::super::view::tests::{up, whole};
    use super::*;

    const NO_CUT: [bool; 3] = [false; 3];
    const C_CUT: [bool; 3] = [false, false, true];

    fn lines(story: &Story) -> Vec<String> {
        story.events().map(Event::whole_line).collect()
    }

    #[test]
    fn a_cut_is_told_with_who_holds_what_and_when() {
        let mut story = Story::default();
        story.begin(7_000, Action::Cut(2), "cut C off".to_owned());
        story.observe(7_100, &World { nodes: &whole(), cut: &C_CUT }, Burst::default());
        assert!(story.is_open());
        assert_eq!(lines(&story), ["  7.0 s  cut C off"]);
        let nodes = [up(3, &[1]), up(3, &[0]), up(3, &[])];
        story.observe(7_515, &World { nodes: &nodes, cut: &C_CUT }, Burst::default());
        assert!(!story.is_open());
        assert_eq!(lines(&story), ["  7.0 s  cut C off; 0.6 s later A and B hold 2/3, C 1/3"]);
        let event = story.events().next().expect("it is told");
        let want = "  7.5 s  0.6 s after cut C: A and B hold 2/3, C 1/3";
        assert_eq!(event.outcome_line().as_deref(), Some(want));
    }

    #[test]
    fn what_comes_too_soon_after_another_overtakes_it() {
        let mut story = Story::default();
        story.begin(1_000, Action::Kill(1), "kill B".to_owned());
        story.begin(1_200, Action::Join(1), "start B".to_owned());
        story.observe(
            1_300,
            &World { nodes: &[NodeView::dead(); 3], cut: &NO_CUT },
            Burst::default(),
        );
        let want = [
            "  1.0 s  kill B; 0.2 s later the next event had come",
            "  1.2 s  start B; 0.1 s later nobody is left",
        ];
        assert_eq!(lines(&story), want);
    }

    #[test]
    fn a_burst_is_told_when_all_is_answered_or_too_late() {
        let mut story = Story::default();
        let nodes = whole();
        let world = World { nodes: &nodes, cut: &NO_CUT };
        let mut burst = Burst { calls: 600, answered: 599, admitted: 187, central: 188 };
        story.begin(4_500, Action::Burst, "burst".to_owned());
        story.observe(4_600, &world, burst);
        assert!(story.is_in_burst());
        burst.answered = 600;
        story.observe(4_610, &world, burst);
        let want = "  4.5 s  burst; 0.2 s later 187 had passed (central: 188)";
        assert_eq!(lines(&story), [want]);
        story.begin(9_000, Action::Burst, "burst".to_owned());
        burst.answered = 400;
        story.observe(11_000, &world, burst);
        assert!(story.is_in_burst());
        story.observe(11_001, &world, burst);
        assert!(!story.is_in_burst());
    }

    #[test]
    fn old_events_are_dropped_and_their_outcome_with_them() {
        let mut story = Story::default();
        story.begin(1, Action::Kill(0), "kill A".to_owned());
        for _ in 0..EVENTS_MAX {
            story.tell(2, "nothing".to_owned());
        }
        story.observe(3, &World { nodes: &whole(), cut: &NO_CUT }, Burst::default());
        assert_eq!(story.events().count(), EVENTS_MAX);
        assert!(story.events().all(|event| event.outcome.is_none() && event.mark.is_none()));
        assert!(!story.is_open());
    }
}
