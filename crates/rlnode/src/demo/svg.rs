//! A picture of the terminal as SVG, for a page. The same picture gives the same bytes.

use std::collections::BTreeMap;
use std::fmt::Write;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

use super::chart::LOWER;
use super::table::LEFT;

/// A cell: an eighth of it is a whole number both ways.
const WIDTH: usize = 8;
const HEIGHT: usize = 16;
/// What letters stand on, from the top of a cell.
const BASELINE: usize = 12;
const MARGIN: usize = 16;
const PAPER: &str = "#14161c";
const INK: &str = "#d7dae0";
const FONT: &str = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";

/// Draws `buffer`; `title` is what it says to who cannot see it.
pub(super) fn svg(buffer: &Buffer, title: &str) -> String {
    let (columns, rows) = (usize::from(buffer.area.width), usize::from(buffer.area.height));
    let (width, height) = (columns * WIDTH + 2 * MARGIN, rows * HEIGHT + 2 * MARGIN);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\">\n<title>{}</title>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"{PAPER}\"/>\n",
        escaped(title)
    );
    for (fill, path) in paths(buffer) {
        line(
            &mut text,
            &format!("<path fill=\"{fill}\" shape-rendering=\"crispEdges\" d=\"{path}\"/>"),
        );
    }
    line(&mut text, &format!("<g font-family=\"{FONT}\" font-size=\"13\" xml:space=\"preserve\">"));
    for (row, cells) in buffer.content.chunks(columns.max(1)).enumerate() {
        write_row(&mut text, row, cells);
    }
    text.push_str("</g>\n</svg>\n");
    text
}

fn line(text: &mut String, what: &str) {
    text.push_str(what);
    text.push('\n');
}

/// Everything that is a block and not a letter, by colour.
fn paths(buffer: &Buffer) -> BTreeMap<String, String> {
    let mut paths: BTreeMap<String, String> = BTreeMap::new();
    let columns = usize::from(buffer.area.width).max(1);
    for (place, cell) in buffer.content.iter().enumerate() {
        let (x, y) = (place % columns * WIDTH + MARGIN, place / columns * HEIGHT + MARGIN);
        let mut add = |fill: String, (x, y): (usize, usize), (width, height): (usize, usize)| {
            let path = paths.entry(fill).or_default();
            // Writing to a string does not fail.
            let _ = write!(path, "M{x} {y}h{width}v{height}h-{width}z");
        };
        let (filled, size) = match block(cell) {
            Some(Block::Lower(eighths)) => (eighths * HEIGHT / 8, (WIDTH, eighths * HEIGHT / 8)),
            Some(Block::Left(eighths)) => (HEIGHT, (eighths, HEIGHT)),
            None => continue,
        };
        if filled < HEIGHT && cell.bg != Color::Reset {
            add(hex(cell.bg), (x, y), (WIDTH, HEIGHT - filled));
        }
        let fill =
            if cell.modifier.contains(Modifier::DIM) { "#8b909b".to_owned() } else { hex(cell.fg) };
        add(fill, (x, y + HEIGHT - filled), size);
    }
    paths
}

/// A block that fills a part of its cell.
enum Block {
    Lower(usize),
    Left(usize),
}

fn block(cell: &Cell) -> Option<Block> {
    let eighths = |blocks: &[&str]| blocks.iter().skip(1).position(|it| *it == cell.symbol());
    let lower = eighths(&LOWER).map(|place| Block::Lower(place + 1));
    lower.or_else(|| eighths(&LEFT).map(|place| Block::Left(place + 1)))
}

/// The letters of a row, in pieces of one style.
fn write_row(text: &mut String, row: usize, cells: &[Cell]) {
    let style = |cell: &Cell| (cell.fg, cell.modifier, block(cell).is_some());
    let mut column = 0;
    for piece in cells.chunk_by(|a, b| style(a) == style(b)) {
        let letters: String = piece.iter().map(Cell::symbol).collect();
        let start = column;
        column += piece.len();
        let lead = letters.len() - letters.trim_start().len();
        let letters = letters.trim();
        let Some(first) = piece.first().filter(|cell| !letters.is_empty() && block(cell).is_none())
        else {
            continue;
        };
        let (x, y) = ((start + lead) * WIDTH + MARGIN, row * HEIGHT + BASELINE + MARGIN);
        let length = letters.chars().count() * WIDTH;
        let weight =
            if first.modifier.contains(Modifier::BOLD) { " font-weight=\"bold\"" } else { "" };
        let pale = if first.modifier.contains(Modifier::DIM) { " opacity=\"0.6\"" } else { "" };
        line(
            text,
            &format!(
                "<text x=\"{x}\" y=\"{y}\" fill=\"{}\"{weight}{pale} textLength=\"{length}\">{}</text>",
                hex(first.fg),
                escaped(letters)
            ),
        );
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A colour of the 256 that terminals have; every other is the ink.
fn hex(color: Color) -> String {
    let Color::Indexed(index @ 16..=231) = color else { return INK.to_owned() };
    let place = u32::from(index) - 16;
    let level = |place: u32| if place == 0 { 0 } else { 55 + 40 * place };
    format!("#{:02x}{:02x}{:02x}", level(place / 36), level(place / 6 % 6), level(place % 6))
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn letters_and_blocks_are_drawn_where_they_are() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 6, 2));
        buffer.set_string(1, 0, "a<b", Style::new().add_modifier(Modifier::BOLD));
        let style = Style::new().fg(Color::Indexed(32)).bg(Color::Indexed(214));
        buffer.set_string(0, 1, "▂", style);
        buffer.set_string(1, 1, "▌", Style::new());
        let text = svg(&buffer, "A & B");
        assert!(text.starts_with("<svg xmlns"), "{text}");
        for part in [
            "viewBox=\"0 0 80 64\"",
            "<title>A &amp; B</title>",
            "<path fill=\"#0087d7\" shape-rendering=\"crispEdges\" d=\"M16 44h8v4h-8z\"/>",
            "<path fill=\"#ffaf00\" shape-rendering=\"crispEdges\" d=\"M16 32h8v12h-8z\"/>",
            "d=\"M24 32h4v16h-4z\"",
            "<text x=\"24\" y=\"28\" fill=\"#d7dae0\" font-weight=\"bold\" textLength=\"24\">a&lt;b</text>",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        assert_eq!(text.matches("<text").count(), 1);
        assert_eq!(text.matches("<path").count(), 3);
    }

    #[test]
    fn a_picture_of_nothing_is_one() {
        assert!(svg(&Buffer::empty(Rect::new(0, 0, 0, 0)), "").ends_with("</svg>\n"));
    }
}
