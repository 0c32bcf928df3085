//! Writing text into a picture, from the left or up to the right, and never beyond an edge.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

/// Writes one piece of text after the other, and stops at the edge.
pub(super) struct Pen<'b> {
    x: u16,
    y: u16,
    end: u16,
    buffer: &'b mut Buffer,
}

impl<'b> Pen<'b> {
    /// At the left of the first row of `area`, which is not empty.
    pub(super) fn new(area: Rect, buffer: &'b mut Buffer) -> Self {
        Self { x: area.x, y: area.y, end: area.right(), buffer }
    }

    /// Goes on so many columns to the right.
    pub(super) fn skip(&mut self, columns: u16) -> &mut Self {
        self.x = self.x.saturating_add(columns).min(self.end);
        self
    }

    /// Writes `text`.
    pub(super) fn put(&mut self, text: &str, style: Style) -> &mut Self {
        let room = usize::from(self.end - self.x);
        (self.x, _) = self.buffer.set_stringn(self.x, self.y, text, room, style);
        self
    }
}

/// Writes `text` so that it ends at the right edge of `area`; what there is no room for at its left is
/// not written.
pub(super) fn right(area: Rect, text: &str, style: Style, buffer: &mut Buffer) {
    let width = u16::try_from(text.chars().count()).unwrap_or(u16::MAX);
    let x = area.right().saturating_sub(width).max(area.x);
    let room = usize::from(area.right().saturating_sub(x));
    buffer.set_stringn(x, area.y, text, room, style);
}

/// What matters most.
pub(super) fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD).remove_modifier(Modifier::DIM)
}

/// What matters least.
pub(super) fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}
