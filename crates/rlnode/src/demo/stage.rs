//! The demo from its begin to its end: the nodes find each other, the callers call, things happen.

use std::io::{self, Write};
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::chart::Ink;
use super::fleet::Fleet;
use super::picture::{Look, Picture};
use super::plain::{self, Plain};
use super::screen::Screen;
use super::script::{Action, Script};
use super::story::Story;
use super::view::{NodeView, World};
use super::words::{grouped, letter};
use super::{DemoError, Interrupt, WHOLE_WITHIN_NS, svg};
use crate::clock;

/// How long the callers rest in a lull: the bucket is full before.
const LULL_NS: u64 = 1_200_000_000;
/// Time between two looks at the nodes, and between two pictures.
const FRAME: Duration = Duration::from_millis(50);
/// How long a demo without an end of its own lasts where nobody can end it, in milliseconds.
const UNATTENDED_MS_MIN: u64 = 5_000;
/// How much longer it waits for what is yet to come of an event, in milliseconds.
const OPEN_MS_MAX: u64 = 10_000;
/// Columns and rows of a picture for a page: so wide that a column of the chart is a tenth of a second.
const PAGE_SIZE: (u16, u16) = (120, 32);

/// How the demo is shown, with what that takes.
pub(super) enum Face<'a> {
    /// A terminal.
    Screen(Box<Screen>),
    /// Lines, and what ends the wait between them.
    Lines { plain: Plain, out: &'a mut dyn Write, interrupt: &'a Interrupt },
}

impl Face<'_> {
    fn show(&mut self, picture: &Picture<'_>) -> io::Result<()> {
        match self {
            Self::Screen(screen) => screen.show(picture),
            Self::Lines { plain, out, .. } => plain.write(picture, out),
        }
    }

    fn wait(&mut self) -> io::Result<Option<Action>> {
        match self {
            Self::Screen(screen) => screen.wait(FRAME),
            Self::Lines { interrupt, .. } => {
                interrupt.wait(FRAME);
                Ok(None)
            }
        }
    }
}

/// The demo while it runs.
pub(super) struct Stage<'a> {
    fleet: Fleet,
    script: Script,
    story: Story,
    face: Face<'a>,
    interrupt: &'a Interrupt,
    /// When it ends, in milliseconds since the calls began.
    end_ms: Option<u64>,
    has_begun: bool,
    has_ended: bool,
}

impl<'a> Stage<'a> {
    /// A demo of `fleet` that is yet to begin.
    pub(super) fn new(
        fleet: Fleet,
        script: Script,
        face: Face<'a>,
        interrupt: &'a Interrupt,
        seconds: Option<u64>,
    ) -> Self {
        let end_ms = seconds.map(|seconds| seconds.saturating_mul(1_000));
        let story = Story::default();
        Self { fleet, script, story, face, interrupt, end_ms, has_begun: false, has_ended: false }
    }

    /// Waits until the nodes have found each other.
    pub(super) fn gather(&mut self) -> Result<(), DemoError> {
        let deadline_ns = clock::boot_ns().saturating_add(WHOLE_WITHIN_NS);
        while !self.has_ended && !self.is_whole() {
            if clock::boot_ns() > deadline_ns {
                return Err(DemoError::NotWhole);
            }
            self.look()?;
            self.has_ended |= self.face.wait().map_err(DemoError::Show)? == Some(Action::Quit);
        }
        Ok(())
    }

    fn is_whole(&self) -> bool {
        let nodes = self.fleet.views();
        let world = World { nodes: &nodes, cut: self.fleet.cut_off() };
        let is_whole = |view: &NodeView| view.reached == nodes.len() && view.members == nodes.len();
        world.is_settled() && nodes.iter().all(is_whole)
    }

    /// Lets the callers call, and everything happen, until the end.
    pub(super) fn play(&mut self) -> Result<(), DemoError> {
        if self.has_ended {
            return Ok(());
        }
        self.fleet.board().open();
        self.has_begun = true;
        while !self.has_ended {
            let now_ms = self.elapsed_ms();
            while let Some(action) = self.script.due(now_ms) {
                self.act(action)?;
            }
            self.look()?;
            if let Some(action) = self.face.wait().map_err(DemoError::Show)? {
                if action != Action::Quit {
                    // Whoever presses a key has the demo from then on.
                    self.script.stop();
                }
                self.act(action)?;
            }
            self.has_ended |= self.is_over();
        }
        self.look()
    }

    fn is_over(&self) -> bool {
        let elapsed_ms = self.elapsed_ms();
        match (self.end_ms, &self.face) {
            (Some(end_ms), _) => elapsed_ms >= end_ms,
            (None, Face::Screen(_)) => false,
            (None, Face::Lines { .. }) => {
                let end_ms = self.script.end_ms().max(UNATTENDED_MS_MIN);
                let is_open = self.story.is_open() && elapsed_ms < end_ms + OPEN_MS_MAX;
                elapsed_ms >= end_ms && !is_open
            }
        }
    }

    /// Looks at the nodes, and shows everything.
    fn look(&mut self) -> Result<(), DemoError> {
        if let Some(index) = self.fleet.failed() {
            return Err(DemoError::Failed(index));
        }
        self.has_ended |= self.interrupt.is_told();
        let nodes = self.fleet.views();
        let world = World { nodes: &nodes, cut: self.fleet.cut_off() };
        let (now_ns, figures) = self.fleet.board().figures();
        self.story.observe(figures.elapsed_ms(now_ns), &world, figures.burst());
        self.face
            .show(&Picture {
                now_ns,
                figures: &figures,
                world,
                story: &self.story,
                next: self.script.next(),
                has_begun: self.has_begun,
            })
            .map_err(DemoError::Show)
    }

    fn elapsed_ms(&self) -> u64 {
        self.fleet.board().elapsed_ms()
    }

    /// Makes something happen, or says why it cannot.
    fn act(&mut self, action: Action) -> Result<(), DemoError> {
        let now_ms = self.elapsed_ms();
        let is_possible = match action {
            Action::Cut(node) => self.fleet.is_running(node) && !self.fleet.cut_off()[node],
            Action::Heal(node) => self.fleet.is_running(node) && self.fleet.cut_off()[node],
            Action::Kill(node) => self.fleet.is_running(node),
            Action::Join(node) => !self.fleet.is_running(node),
            Action::Burst => {
                let runs = |node: usize| self.fleet.is_running(node);
                !self.story.is_in_burst() && (0..self.fleet.cut_off().len()).any(runs)
            }
            Action::Lull | Action::Quit => true,
        };
        if !is_possible {
            self.story.tell(now_ms, format!("{action}: {}", why_not(action)));
            return Ok(());
        }
        let mut calls = 0;
        match action {
            Action::Lull => {
                self.fleet.board().rest(clock::boot_ns().saturating_add(LULL_NS));
            }
            Action::Burst => {
                self.fleet.board().with_tally(|_, tally| tally.begin_burst());
                calls = self.fleet.burst();
                self.fleet.board().with_tally(|_, tally| tally.expect_of_burst(calls));
            }
            Action::Cut(node) => self.fleet.cut(node),
            Action::Heal(node) => self.fleet.heal(node),
            Action::Kill(node) => self.fleet.kill(node),
            Action::Join(node) => self.fleet.join(node)?,
            Action::Quit => self.has_ended = true,
        }
        self.story.begin(now_ms, action, what_happens(action, calls));
        Ok(())
    }

    /// Ends everything, and gives back what was measured in words, and the last picture as SVG;
    /// nothing if the calls never began.
    pub(super) fn end(self) -> Option<(String, String)> {
        if !self.has_begun {
            return None;
        }
        self.fleet.board().close();
        let nodes = self.fleet.views();
        let world = World { nodes: &nodes, cut: self.fleet.cut_off() };
        let (now_ns, figures) = self.fleet.board().figures();
        let (figures, story) = (&figures, &self.story);
        let picture = Picture { now_ns, figures, world, story, next: None, has_begun: true };
        let look = Look { ink: Ink::Colour, selected: None };
        let mut buffer = Buffer::empty(Rect::new(0, 0, PAGE_SIZE.0, PAGE_SIZE.1));
        picture.draw(look, buffer.area, &mut buffer);
        let title = format!("{} nodes hold one limit", nodes.len());
        Some((plain::summary(figures, story, now_ns), svg::svg(&buffer, &title)))
    }
}

/// `action` in words; a burst is of so many `calls`.
fn what_happens(action: Action, calls: u64) -> String {
    match action {
        Action::Lull => "lull: the callers rest, and the bucket fills".to_owned(),
        Action::Burst => format!("burst: {} calls at once", grouped(calls)),
        Action::Cut(node) => format!("cut {} off", letter(node)),
        Action::Heal(node) => format!("heal {}", letter(node)),
        Action::Kill(node) => format!("kill {}", letter(node)),
        Action::Join(node) => format!("start {} again", letter(node)),
        Action::Quit => "quit".to_owned(),
    }
}

fn why_not(action: Action) -> &'static str {
    match action {
        Action::Cut(_) => "it does not run, or is cut off already",
        Action::Heal(_) => "it does not run, or is not cut off",
        Action::Kill(_) => "it does not run",
        Action::Join(_) => "it runs",
        Action::Burst => "nobody runs, or the last one is not answered yet",
        Action::Lull | Action::Quit => "it cannot be",
    }
}
