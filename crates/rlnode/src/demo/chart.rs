//! The chart: what was let through in each stretch of time, stacked by node, under the limit as a line.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use super::MEMBERS_MAX;

/// Colours that people with any kind of colour vision can tell apart, after Okabe and Ito, from the
/// 256 that terminals have.
const COLOURS: [Color; MEMBERS_MAX] = [
    Color::Indexed(32),
    Color::Indexed(214),
    Color::Indexed(36),
    Color::Indexed(175),
    Color::Indexed(227),
];
/// How the nodes are told apart where there is no colour.
const SHADES: [&str; MEMBERS_MAX] = ["█", "▒", "░", "▓", "▚"];
/// Blocks that fill a cell from below by eighths.
pub(super) const LOWER: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
const EIGHTHS: u64 = 8;

/// What the picture may be drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    /// Everything.
    Colour,
    /// Bold and dim alone.
    Plain,
}

impl Ink {
    /// How the node `index` is drawn.
    pub(super) fn node(self, index: usize) -> Style {
        match self {
            Self::Colour => Style::new().fg(COLOURS[index % MEMBERS_MAX]),
            Self::Plain => Style::new(),
        }
    }

    /// A full cell of the node `index`.
    pub(super) fn block(self, index: usize) -> &'static str {
        match self {
            Self::Colour => LOWER[8],
            Self::Plain => SHADES[index % MEMBERS_MAX],
        }
    }

    /// How the limit is drawn.
    pub(super) fn limit(self) -> Style {
        match self {
            Self::Colour => Style::new().fg(Color::Indexed(203)),
            Self::Plain => Style::new(),
        }
    }

    /// How what is well is drawn.
    pub(super) fn well(self) -> Style {
        match self {
            Self::Colour => Style::new().fg(Color::Indexed(36)),
            Self::Plain => Style::new(),
        }
    }

    /// How what is not well is drawn.
    pub(super) fn alarming(self) -> Style {
        match self {
            Self::Colour => Style::new().fg(Color::Indexed(203)).add_modifier(Modifier::BOLD),
            Self::Plain => Style::new().add_modifier(Modifier::BOLD),
        }
    }
}

/// A chart of stacked columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chart<'a> {
    /// What each node let through, by column; the latest last. As many as fit are drawn.
    pub(super) columns: &'a [[u64; MEMBERS_MAX]],
    /// What the limit lets through in a column.
    pub(super) limit: u64,
    /// What it is drawn with.
    pub(super) ink: Ink,
}

/// Rows of `height` below the line of the limit: half of them.
pub(super) fn rows_below_limit(height: u16) -> u16 {
    height.div_ceil(2)
}

impl Chart<'_> {
    /// Draws it with the latest column at the right edge.
    pub(super) fn draw(&self, area: Rect, buffer: &mut Buffer) {
        if area.is_empty() {
            return;
        }
        let line = rows_below_limit(area.height);
        if line < area.height {
            let y = area.bottom() - 1 - line;
            for x in area.left()..area.right() {
                buffer.set_string(x, y, LOWER[1], self.ink.limit());
            }
        }
        let width = usize::from(area.width);
        let columns = &self.columns[self.columns.len().saturating_sub(width)..];
        // Labels last: columns beside a high one shall not write over them.
        for (x, column) in (area.left()..area.right()).rev().zip(columns.iter().rev()) {
            self.draw_column(area, x, column, buffer);
        }
        let mut free = area.right();
        for (x, column) in (area.left()..area.right()).rev().zip(columns.iter().rev()) {
            let total: u64 = column.iter().sum();
            if self.eighths(total, area.height) > u64::from(area.height) * EIGHTHS {
                free = draw_label(area, x, free, total, buffer);
            }
        }
    }

    /// `units` as eighths of rows, rounded to the nearest; something is never drawn as nothing.
    fn eighths(&self, units: u64, height: u16) -> u64 {
        let limit = self.limit.max(1);
        let scaled = units.saturating_mul(EIGHTHS * u64::from(rows_below_limit(height)));
        (scaled.saturating_add(limit / 2) / limit).max(u64::from(units > 0))
    }

    fn draw_column(&self, area: Rect, x: u16, column: &[u64; MEMBERS_MAX], buffer: &mut Buffer) {
        let mut tops = [0; MEMBERS_MAX];
        let mut sum = 0;
        for (top, units) in tops.iter_mut().zip(column) {
            sum += units;
            *top = self.eighths(sum, area.height);
        }
        for row in 0..area.height {
            let floor = u64::from(row) * EIGHTHS;
            let Some(cell) = Cell::of(&tops, floor) else { break };
            let (symbol, style) = cell.look(self.ink);
            buffer.set_string(x, area.bottom() - 1 - row, symbol, style);
        }
    }
}

/// What of a stack lies in one cell.
#[derive(Debug, PartialEq, Eq)]
struct Cell {
    /// Eighths that are filled.
    filled: u64,
    /// The node below, and where it ends.
    lower: (usize, u64),
    /// The node above it that has most of the rest, if there is one.
    upper: Option<usize>,
}

impl Cell {
    /// The cell from `floor` on, of nodes that end at `tops`; none if nothing reaches into it.
    fn of(tops: &[u64; MEMBERS_MAX], floor: u64) -> Option<Self> {
        let inside = |top: u64| top.clamp(floor, floor + EIGHTHS) - floor;
        let mut parts = [(0, 0); MEMBERS_MAX];
        let mut below = 0;
        for (node, (part, top)) in parts.iter_mut().zip(tops).enumerate() {
            *part = (node, inside(*top).saturating_sub(below));
            below = below.max(inside(*top));
        }
        // Two colours are what a cell can show: those of the nodes with most of it. The lower one is
        // shown up to where it ends, without what of a third lies between.
        let mut largest = parts;
        largest.sort_by_key(|(node, size)| (std::cmp::Reverse(*size), *node));
        let (first, second) = (largest[0], largest[1]);
        if first.1 == 0 {
            return None;
        }
        let is_mixed = second.1 > 0;
        let lower = if is_mixed && second.0 < first.0 { second } else { first };
        let upper = is_mixed.then_some(if lower.0 == first.0 { second.0 } else { first.0 });
        Some(Self { filled: below, lower, upper })
    }

    fn look(&self, ink: Ink) -> (&'static str, Style) {
        let (lower, size) = self.lower;
        let block = |eighths: u64| LOWER[usize::try_from(eighths).unwrap_or(8).min(8)];
        match (ink, self.upper) {
            // A shade fills a cell or leaves it.
            (Ink::Plain, upper) => {
                let node = upper.filter(|_| size * 2 < self.filled).unwrap_or(lower);
                let symbol = if self.filled * 2 >= EIGHTHS { ink.block(node) } else { LOWER[1] };
                (symbol, ink.node(node))
            }
            (Ink::Colour, None) => (block(self.filled), ink.node(lower)),
            (Ink::Colour, Some(upper)) if self.filled == EIGHTHS => {
                let background = COLOURS[upper % MEMBERS_MAX];
                (block(size), ink.node(lower).bg(background))
            }
            // The air above needs the other colour: the larger of the two is shown.
            (Ink::Colour, Some(upper)) => {
                let node = if size * 2 < self.filled { upper } else { lower };
                (block(self.filled), ink.node(node))
            }
        }
    }
}

/// Writes how much a column holds that is higher than the chart, to its right, or where there is no
/// room before `free`, to its left. Gives back what is free now.
fn draw_label(area: Rect, x: u16, free: u16, total: u64, buffer: &mut Buffer) -> u16 {
    let text = total.to_string();
    let width = u16::try_from(text.len()).unwrap_or(u16::MAX);
    let style = Style::new().add_modifier(Modifier::BOLD);
    let right = x.saturating_add(1);
    if right.saturating_add(width) <= free {
        buffer.set_string(right, area.top(), text, style);
        return x;
    }
    if let Some(left) = x.checked_sub(width).filter(|left| *left >= area.left() && x < free) {
        buffer.set_string(left, area.top(), text, style);
        return left;
    }
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(columns: &[[u64; MEMBERS_MAX]], width: u16, height: u16, ink: Ink) -> Buffer {
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
        Chart { columns, limit: 20, ink }.draw(buffer.area, &mut buffer);
        buffer
    }

    fn lines(buffer: &Buffer) -> Vec<String> {
        let row = |y: u16| (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect();
        (0..buffer.area.height).map(row).collect()
    }

    #[test]
    fn a_column_at_the_limit_touches_the_line() {
        let buffer =
            drawn(&[[20, 0, 0, 0, 0], [10, 0, 0, 0, 0], [1, 0, 0, 0, 0]], 4, 4, Ink::Colour);
        assert_eq!(lines(&buffer), ["    ", "▁▁▁▁", " █  ", " ██▁"]);
    }

    #[test]
    fn the_latest_columns_stand_at_the_right_edge() {
        let columns: Vec<_> = (1..=9).map(|units| [units * 2, 0, 0, 0, 0]).collect();
        let buffer = drawn(&columns, 3, 2, Ink::Colour);
        assert_eq!(lines(&buffer), ["▁▁▁", "▆▆▇"]);
    }

    #[test]
    fn two_nodes_share_a_cell_by_eighths() {
        let buffer = drawn(&[[5, 15, 0, 0, 0]], 1, 2, Ink::Colour);
        let cell = &buffer[(0, 1)];
        assert_eq!(cell.symbol(), "▂");
        assert_eq!((cell.fg, cell.bg), (COLOURS[0], COLOURS[1]));
    }

    #[test]
    fn of_three_nodes_in_a_cell_the_smallest_is_not_shown() {
        let buffer = drawn(&[[10, 2, 8, 0, 0]], 1, 2, Ink::Colour);
        let cell = &buffer[(0, 1)];
        assert_eq!((cell.symbol(), cell.fg, cell.bg), ("▄", COLOURS[0], COLOURS[2]));
        let buffer = drawn(&[[2, 10, 8, 0, 0]], 1, 2, Ink::Colour);
        let cell = &buffer[(0, 1)];
        assert_eq!((cell.symbol(), cell.fg, cell.bg), ("▄", COLOURS[1], COLOURS[2]));
    }

    #[test]
    fn the_top_of_a_stack_has_the_colour_of_its_larger_part() {
        let buffer = drawn(&[[2, 8, 0, 0, 0]], 1, 2, Ink::Colour);
        let cell = &buffer[(0, 1)];
        assert_eq!((cell.symbol(), cell.fg, cell.bg), ("▄", COLOURS[1], Color::Reset));
    }

    #[test]
    fn a_column_above_the_chart_says_how_high_it_is() {
        let columns = [[100, 50, 0, 0, 0], [0; 5], [0; 5], [0; 5], [0; 5], [0, 200, 0, 0, 0]];
        let buffer = drawn(&columns, 6, 2, Ink::Colour);
        assert_eq!(lines(&buffer)[0], "█▁200█", "the later one has the room");
        let buffer = drawn(&columns[5..], 1, 2, Ink::Colour);
        assert_eq!(lines(&buffer), ["█", "█"], "no room for a word");
    }

    #[test]
    fn without_colour_the_nodes_differ_by_shade() {
        let buffer = drawn(&[[20, 20, 20, 0, 0]], 1, 6, Ink::Plain);
        assert_eq!(lines(&buffer), ["▒", "▒", "▒", "█", "█", "█"]);
        assert_eq!(buffer[(0, 0)].fg, Color::Reset);
    }

    #[test]
    fn nothing_is_drawn_into_no_room() {
        for (width, height) in [(0, 0), (0, 3), (3, 0), (1, 1)] {
            drawn(&[[500; 5], [3; 5]], width, height, Ink::Colour);
        }
    }
}
