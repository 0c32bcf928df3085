//! The terminal: drawing on it, reading its keys, and giving it back as it was.

use std::io;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{BeginSynchronizedUpdate, EndSynchronizedUpdate};

use super::chart::Ink;
use super::picture::{Look, Picture};
use super::script::Action;

/// A terminal that shows the demo. Dropping it gives the terminal back; a panic does too.
#[derive(Debug)]
pub(super) struct Screen {
    terminal: DefaultTerminal,
    ink: Ink,
    /// The node that keys are for.
    selected: usize,
    members: usize,
}

impl Screen {
    /// Takes the terminal of standard output.
    ///
    /// # Errors
    /// The terminal does not do what terminals do; it is as it was.
    pub(super) fn open(ink: Ink, members: usize) -> io::Result<Self> {
        let terminal = ratatui::try_init().inspect_err(|_| {
            // The first error is the one that matters.
            let _ = ratatui::try_restore();
        })?;
        Ok(Self { terminal, ink, selected: members.saturating_sub(1), members })
    }

    /// Shows `picture`.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn show(&mut self, picture: &Picture<'_>) -> io::Result<()> {
        let look = Look { ink: self.ink, selected: Some(self.selected) };
        // Terminals that know of it show what lies between the two at once, without tearing.
        execute!(io::stdout(), BeginSynchronizedUpdate)?;
        self.terminal.draw(|frame| {
            let area = frame.area();
            picture.draw(look, area, frame.buffer_mut());
        })?;
        execute!(io::stdout(), EndSynchronizedUpdate)
    }

    /// Waits for `patience` at most; gives back what a key asks for.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn wait(&mut self, patience: Duration) -> io::Result<Option<Action>> {
        if !event::poll(patience)? {
            return Ok(None);
        }
        let Event::Key(key) = event::read()? else { return Ok(None) };
        if key.kind == KeyEventKind::Release {
            return Ok(None);
        }
        Ok(match meaning(key, self.selected, self.members) {
            Some(Meaning::Act(action)) => Some(action),
            Some(Meaning::Select(node)) => {
                self.selected = node;
                None
            }
            None => None,
        })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing back.
        let _ = ratatui::try_restore();
    }
}

/// What a key means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// Something is to happen.
    Act(Action),
    /// The next keys are for this node.
    Select(usize),
}

fn meaning(key: KeyEvent, selected: usize, members: usize) -> Option<Meaning> {
    let next = (selected + 1) % members.max(1);
    let previous = (selected + members.saturating_sub(1)) % members.max(1);
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        // The terminal sends no signals while the demo has it.
        let ends = matches!(key.code, KeyCode::Char('c' | 'd' | '\\'));
        return ends.then_some(Meaning::Act(Action::Quit));
    }
    let meaning = match key.code {
        KeyCode::Char('b') => Meaning::Act(Action::Burst),
        KeyCode::Char('l') => Meaning::Act(Action::Lull),
        KeyCode::Char('c') => Meaning::Act(Action::Cut(selected)),
        KeyCode::Char('h') => Meaning::Act(Action::Heal(selected)),
        KeyCode::Char('k') => Meaning::Act(Action::Kill(selected)),
        KeyCode::Char('j') => Meaning::Act(Action::Join(selected)),
        KeyCode::Char('q') | KeyCode::Esc => Meaning::Act(Action::Quit),
        KeyCode::Tab | KeyCode::Down => Meaning::Select(next),
        KeyCode::BackTab | KeyCode::Up => Meaning::Select(previous),
        KeyCode::Char(digit) => {
            let number = usize::try_from(digit.to_digit(10)?).ok()?;
            Meaning::Select(number.checked_sub(1).filter(|node| *node < members)?)
        }
        _ => return None,
    };
    Some(meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn means(code: KeyCode) -> Option<Meaning> {
        meaning(KeyEvent::new(code, KeyModifiers::NONE), 2, 3)
    }

    #[test]
    fn keys_act_on_the_selected_node() {
        let act = |action| Some(Meaning::Act(action));
        assert_eq!(means(KeyCode::Char('c')), act(Action::Cut(2)));
        assert_eq!(means(KeyCode::Char('j')), act(Action::Join(2)));
        assert_eq!(means(KeyCode::Char('b')), act(Action::Burst));
        assert_eq!(means(KeyCode::Esc), act(Action::Quit));
        assert_eq!(means(KeyCode::Char('x')), None);
        assert_eq!(means(KeyCode::Enter), None);
    }

    #[test]
    fn nodes_are_selected_by_number_or_one_after_the_other() {
        assert_eq!(means(KeyCode::Tab), Some(Meaning::Select(0)));
        assert_eq!(means(KeyCode::Up), Some(Meaning::Select(1)));
        assert_eq!(means(KeyCode::Char('1')), Some(Meaning::Select(0)));
        assert_eq!([means(KeyCode::Char('0')), means(KeyCode::Char('4'))], [None, None]);
        let first = KeyEvent::new(KeyCode::BackTab, KeyModifiers::SHIFT);
        assert_eq!(meaning(first, 0, 3), Some(Meaning::Select(2)));
    }

    #[test]
    fn control_and_c_ends_it_and_cuts_nobody_off() {
        let control = |code| meaning(KeyEvent::new(code, KeyModifiers::CONTROL), 2, 3);
        assert_eq!(control(KeyCode::Char('c')), Some(Meaning::Act(Action::Quit)));
        assert_eq!(control(KeyCode::Char('k')), None);
    }
}
