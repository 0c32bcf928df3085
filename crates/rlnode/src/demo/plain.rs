//! The demo without a terminal: a line for each second and each event, and the summary at the end.

use std::io::{self, Write};

use super::node::HOLD_MAX;
use super::picture::Picture;
use super::story::{Event, Story};
use super::tally::Figures;
use super::view::NodeView;
use super::words::{grouped, letter, letters, percent, seconds, tenths};

const MS_PER_S: u64 = 1_000;

/// What was written so far.
#[derive(Debug, Default)]
pub(super) struct Plain {
    /// Whole seconds that have a line.
    seconds: u64,
    /// Events that have a line.
    events: u64,
    /// Numbers of events that have a line and no outcome yet.
    open: Vec<u64>,
}

impl Plain {
    /// Writes what is new in `picture`.
    ///
    /// # Errors
    /// As `out`.
    pub(super) fn write(&mut self, picture: &Picture<'_>, out: &mut dyn Write) -> io::Result<()> {
        self.write_events(picture.story, out)?;
        let elapsed = picture.figures.elapsed_ms(picture.now_ns) / MS_PER_S;
        if picture.has_begun && elapsed > self.seconds {
            self.seconds = elapsed;
            writeln!(out, "{}", second_line(picture))?;
        }
        out.flush()
    }

    fn write_events(&mut self, story: &Story, out: &mut dyn Write) -> io::Result<()> {
        for event in story.events() {
            if event.number >= self.events {
                self.events = event.number + 1;
                writeln!(out, "{}", event.line())?;
                self.open.push(event.number);
            }
            if let Some(line) = event.outcome_line()
                && let Some(place) = self.open.iter().position(|number| *number == event.number)
            {
                self.open.remove(place);
                writeln!(out, "{line}")?;
            }
        }
        // Of what is not kept any more nothing will come.
        let kept = story.events().next().map_or(0, |event| event.number);
        self.open.retain(|number| *number >= kept);
        Ok(())
    }
}

/// `4.0 s  asked 301/s, admitted 200/s (A 30, B 90, C 80); in all 998 of 1,000; A, B and C
/// synced 3/3`.
fn second_line(picture: &Picture<'_>) -> String {
    let figures = picture.figures;
    let last_second = figures.last_second(picture.now_ns);
    let nodes = 0..picture.world.nodes.len();
    let admitted: Vec<_> = nodes
        .map(|node| format!("{} {}", letter(node), grouped(last_second.admitted[node])))
        .collect();
    format!(
        "{:>7}  asked {}/s, admitted {}/s ({}); in all {} of {}; {}",
        seconds(figures.elapsed_ms(picture.now_ns)),
        grouped(last_second.asked.iter().sum()),
        grouped(last_second.admitted.iter().sum()),
        admitted.join(", "),
        grouped(figures.totals().admitted),
        grouped(figures.allowance(picture.now_ns)),
        states(picture.world.nodes),
    )
}

/// `A and B split 2/3, C split 1/3`.
fn states(nodes: &[NodeView]) -> String {
    let state = |view: &NodeView| match view.members {
        0 => view.knows().to_owned(),
        members => format!("{} {}/{members}", view.knows(), view.reached),
    };
    // In the order in which each state is first met.
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    for (node, view) in nodes.iter().enumerate() {
        let state = state(view);
        match groups.iter_mut().find(|(other, _)| *other == state) {
            Some((_, members)) => members.push(node),
            None => groups.push((state, vec![node])),
        }
    }
    let texts: Vec<_> =
        groups.iter().map(|(state, nodes)| format!("{} {state}", letters(nodes))).collect();
    texts.join(", ")
}

/// What is said at the end: what was measured, and what came of each event.
pub(super) fn summary(figures: &Figures, story: &Story, now_ns: u64) -> String {
    let offer = figures.offer();
    let totals = figures.totals();
    let allowance = figures.allowance(now_ns);
    let central = figures.central_admitted();
    let worst = figures.worst_excess_milli();
    let elapsed = seconds(figures.elapsed_ms(now_ns));
    let denied = totals.denied_limit + totals.denied_share;
    let mut lines = vec![
        format!(
            "{} of {} calls were admitted; burst {} + {}/s x {elapsed} is {}",
            grouped(totals.admitted),
            grouped(totals.asked),
            offer.burst,
            offer.per_s,
            grouped(allowance),
        ),
        format!(
            "an exact central limiter, asked the same, admits {}; the fleet {} % of that",
            grouped(central),
            percent(totals.admitted, central),
        ),
        if worst == 0 {
            "worst of all windows: none was above burst + rate x its length".to_owned()
        } else {
            format!(
                "worst of all windows: {} above burst + rate x its length ({} % of the burst)",
                tenths(worst),
                tenths((worst * 100).checked_div(offer.burst).unwrap_or(0)),
            )
        },
        format!(
            "{} were denied, {} of them while units were left that others had a share in",
            grouped(denied),
            grouped(totals.denied_share),
        ),
        format!(
            "{} were held until the peers knew of them, {} ms at most",
            grouped(totals.held),
            HOLD_MAX.as_millis()
        ),
    ];
    lines.extend(story.events().map(Event::whole_line));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use limiter::Reason;

    use super::super::OFFER;
    use super::super::script::Action;
    use super::super::tally::{Burst, Kind, Tally};
    use super::super::view::World;
    use super::super::view::tests::{up, whole};
    use super::*;

    const BEGAN_NS: u64 = 5_000_000_000;
    const CUT: [bool; 3] = [false, false, true];

    fn tally(admitted: u64) -> Tally {
        let mut tally = Tally::new(OFFER, BEGAN_NS).expect("a limit");
        for call in 0..admitted {
            let (now_ns, node) = (BEGAN_NS + call * 4_000_000, usize::from(call % 3 == 0));
            tally.asked(now_ns, node, Kind::Steady);
            tally.answered(now_ns, node, Kind::Steady, Reason::Ok, false);
        }
        tally.asked(BEGAN_NS + 1, 2, Kind::Steady);
        tally.answered(BEGAN_NS + 1, 2, Kind::Steady, Reason::Share, true);
        tally
    }

    /// What `plain` writes of the state after `ms`.
    fn written(plain: &mut Plain, tally: &Tally, story: &Story, ms: u64) -> Vec<String> {
        let picture = Picture {
            now_ns: BEGAN_NS + ms * 1_000_000,
            figures: tally.figures(),
            world: World { nodes: &whole(), cut: &CUT },
            story,
            next: None,
            has_begun: true,
        };
        let mut out = Vec::new();
        plain.write(&picture, &mut out).expect("a vector takes everything");
        String::from_utf8(out).expect("text").lines().map(str::to_owned).collect()
    }

    #[test]
    fn there_is_a_line_for_each_second_and_each_event() {
        let (tally, mut story, mut plain) = (tally(240), Story::default(), Plain::default());
        assert_eq!(written(&mut plain, &tally, &story, 0), [""; 0]);
        let line = "  1.0 s  asked 241/s, admitted 240/s (A 160, B 80, C 0); in all 240 of 410; \
                    A, B and C synced 3/3";
        assert_eq!(written(&mut plain, &tally, &story, 1_050), [line]);
        assert_eq!(written(&mut plain, &tally, &story, 1_090), [""; 0], "once");

        story.begin(1_100, Action::Cut(2), "cut C off".to_owned());
        assert_eq!(written(&mut plain, &tally, &story, 1_100), ["  1.1 s  cut C off"]);
        let split = [up(3, &[1]), up(3, &[0]), up(3, &[])];
        story.observe(1_600, &World { nodes: &split, cut: &CUT }, Burst::default());
        let line = "  1.6 s  0.5 s after cut C: A and B hold 2/3, C 1/3";
        assert_eq!(written(&mut plain, &tally, &story, 1_600), [line]);
        assert_eq!(written(&mut plain, &tally, &story, 1_700), [""; 0], "once");
    }

    #[test]
    fn nodes_of_one_state_are_told_together() {
        let nodes = [up(3, &[2]), NodeView::dead(), up(3, &[0])];
        assert_eq!(states(&nodes), "A and C split 2/3, B dead");
    }

    #[test]
    fn the_summary_says_what_was_measured() {
        let mut story = Story::default();
        story.tell(700, "nothing".to_owned());
        let text = summary(tally(240).figures(), &story, BEGAN_NS + 1_000_000_000);
        let want = "240 of 241 calls were admitted; burst 200 + 200/s x 1.0 s is 400\n\
                    an exact central limiter, asked the same, admits 241; the fleet 100 % of \
                    that\n\
                    worst of all windows: none was above burst + rate x its length\n\
                    1 were denied, 1 of them while units were left that others had a share in\n\
                    1 were held until the peers knew of them, 5 ms at most\n  0.7 s  nothing";
        assert_eq!(text, want);
    }

    #[test]
    fn the_summary_says_by_how_much_the_limit_was_broken() {
        let mut tally = Tally::new(OFFER, BEGAN_NS).expect("a limit");
        for _ in 0..203 {
            tally.answered(BEGAN_NS, 0, Kind::Steady, Reason::Ok, false);
        }
        let text = summary(tally.figures(), &Story::default(), BEGAN_NS);
        let want = "worst of all windows: 3 above burst + rate x its length (1.5 % of the burst)";
        assert!(text.contains(want), "{text}");
    }
}
