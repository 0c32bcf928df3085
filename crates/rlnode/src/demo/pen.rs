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

    /// Writes `text`; where there is not room for all of it, it ends in `…`.
    pub(super) fn put(&mut self, text: &str, style: Style) -> &mut Self {
        let room = usize::from(self.end - self.x);
        let is_cut = text.chars().count() > room;
        let shown = if is_cut { room.saturating_sub(1) } else { room };
        (self.x, _) = self.buffer.set_stringn(self.x, self.y, text, shown, style);
        if is_cut && room > 0 {
            self.buffer.set_string(self.x, self.y, "…", style);
            self.x = self.end;
        }
        self
    }
}

/// Writes `text` so that it ends at the right edge of `area`, or as much of its begin as there is room
/// for. Gives back what is before it, but for a column between.
pub(super) fn right(area: Rect, text: &str, style: Style, buffer: &mut Buffer) -> Rect {
    let width = u16::try_from(text.chars().count()).unwrap_or(u16::MAX);
    let x = area.right().saturating_sub(width).max(area.x);
    let room = usize::from(area.right().saturating_sub(x));
    buffer.set_stringn(x, area.y, text, room, style);
    Rect { width: (x - area.x).saturating_sub(1), ..area }
}

/// What matters most.
pub(super) fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD).remove_modifier(Modifier::DIM)
}

/// What matters least.
pub(super) fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(act: impl FnOnce(Rect, &mut Buffer)) -> String {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 8, 1));
        act(buffer.area, &mut buffer);
        (0..8).map(|x| buffer[(x, 0)].symbol()).collect()
    }

    #[test]
    fn what_does_not_fit_ends_in_an_ellipsis() {
        let put = |texts: [&str; 3]| {
            drawn(|area, buffer| {
                let mut pen = Pen::new(area, buffer);
                for text in texts {
                    pen.put(text, bold());
                }
            })
        };
        assert_eq!(put(["abc", "defgh", ""]), "abcdefgh");
        assert_eq!(put(["abc", "defghi", "j"]), "abcdefg…");
        assert_eq!(put(["abcdefgh", "i", "j"]), "abcdefgh", "there is no room for anything");
    }

    #[test]
    fn what_stands_at_the_right_leaves_the_rest() {
        let mut before = Rect::default();
        let text = drawn(|area, buffer| before = right(area, "abc", dim(), buffer));
        assert_eq!((text.as_str(), before.width), ("     abc", 4));
        let text = drawn(|area, buffer| before = right(area, "abcdefghijk", dim(), buffer));
        assert_eq!((text.as_str(), before.width), ("abcdefgh", 0));
    }
}
