//! The table below the chart: a line for each node, and one for all.

use limiter::Freshness;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::MEMBERS_MAX;
use super::chart::Ink;
use super::pen::{Pen, bold, dim, right};
use super::picture::{Look, Picture};
use super::tally::Slot;
use super::view::{Life, NodeView};
use super::words::{grouped, letter, percent};

/// Where the columns before the bars end.
const NODE_END: u16 = 7;
const ASKED_END: u16 = 15;
const ADMITTED_END: u16 = 25;
/// Where the bars begin.
const BARS_AT: u16 = 26;
/// Widest bar: more shows no more.
const BAR_WIDTH_MAX: u16 = 40;
/// Widths of the columns after the bars, but for the one that says whom a node reaches.
const SHARE: u16 = 6;
const LEVEL: u16 = 6;
const COUNTS: u16 = 10;
const HEARD: u16 = 8;
/// Blocks that fill a cell from the left by eighths.
pub(super) const LEFT: [&str; 9] = [" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];
const EIGHTHS: u64 = 8;

/// The table of a picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table<'a> {
    /// What is shown.
    pub(super) picture: &'a Picture<'a>,
    /// How.
    pub(super) look: Look,
}

/// Where everything of a line is. What there is no room for is empty.
#[derive(Clone, Copy, Debug)]
struct Columns {
    node: Rect,
    asked: Rect,
    admitted: Rect,
    bar: Rect,
    share: Rect,
    level: Rect,
    counts: Rect,
    reaches: Rect,
    heard: Rect,
}

impl Columns {
    /// Those of the line `area`, in a table of so many `nodes`.
    fn new(area: Rect, nodes: usize) -> Self {
        let up_to = |end: u16| Rect { width: end.min(area.width), ..area };
        // `A B C 3/3`.
        let reach = u16::try_from(2 * nodes + 5).unwrap_or(u16::MAX);
        let after = SHARE + LEVEL + COUNTS + reach + HEARD + 1;
        let width = area.width.saturating_sub(BARS_AT.saturating_add(after)).min(BAR_WIDTH_MAX);
        let mut x = area.x + BARS_AT.min(area.width);
        let mut next = |width: u16| {
            let fits = x.saturating_add(width) <= area.right();
            let column = Rect { x, width: if fits { width } else { 0 }, ..area };
            x = x.saturating_add(width);
            column
        };
        Self {
            node: up_to(NODE_END),
            asked: up_to(ASKED_END),
            admitted: up_to(ADMITTED_END),
            bar: next(width),
            share: next(SHARE),
            level: next(LEVEL),
            counts: next(COUNTS),
            reaches: next(reach),
            heard: next(HEARD),
        }
    }
}

impl Table<'_> {
    /// Draws it: a head, the nodes, and their sum.
    pub(super) fn draw(&self, area: Rect, buffer: &mut Buffer) {
        let Picture { now_ns, figures, world, .. } = *self.picture;
        let last_second = figures.last_second(now_ns);
        let mut y = area.y;
        let mut next = || {
            let line = Rect { y, height: 1, ..area };
            y += 1;
            Columns::new(line, world.nodes.len())
        };
        self.draw_head(&next(), buffer);
        for (node, view) in world.nodes.iter().enumerate() {
            self.draw_node(&next(), node, view, &last_second, buffer);
        }
        let columns = next();
        Pen::new(columns.node, buffer).skip(3).put("all", bold());
        let sum = |counts: [u64; MEMBERS_MAX]| counts.iter().sum::<u64>();
        let (asked, admitted) = (sum(last_second.asked), sum(last_second.admitted));
        self.draw_rates(&columns, asked, admitted, bold(), buffer);
        self.draw_bar(columns.bar, admitted, "█", dim(), buffer);
    }

    fn draw_head(&self, columns: &Columns, buffer: &mut Buffer) {
        Pen::new(columns.node, buffer).skip(3).put("node", dim());
        right(columns.asked, "asked/s", dim(), buffer);
        right(columns.admitted, "admitted", dim(), buffer);
        let of = format!("of {}/s", self.picture.figures.offer().per_s);
        Pen::new(columns.bar, buffer).put(&of, dim());
        right(columns.level, "level", dim(), buffer);
        Pen::new(columns.counts, buffer).skip(2).put("counts", dim());
        Pen::new(columns.reaches, buffer).skip(1).put("reaches", dim());
        right(columns.heard, "heard", dim(), buffer);
    }

    fn draw_node(
        &self,
        columns: &Columns,
        node: usize,
        view: &NodeView,
        last_second: &Slot,
        buffer: &mut Buffer,
    ) {
        let ink = self.look.ink;
        let is_selected = self.look.selected == Some(node);
        let (mark, style) = if is_selected { ("▸", bold()) } else { (" ", Style::new()) };
        let mut pen = Pen::new(columns.node, buffer);
        pen.skip(1).put(mark, style).skip(1).put(ink.block(node), ink.node(node));
        pen.skip(1).put(letter(node), style);

        let (asked, admitted) = (last_second.asked[node], last_second.admitted[node]);
        self.draw_rates(columns, asked, admitted, Style::new(), buffer);
        self.draw_bar(columns.bar, admitted, ink.block(node), ink.node(node), buffer);

        let is_up = view.life == Life::Up;
        let level = view.level.filter(|_| is_up).map_or("-".to_owned(), grouped);
        right(columns.level, &level, Style::new(), buffer);
        let is_well = is_up && view.freshness == Freshness::Synced;
        let style = if is_well { ink.well() } else { ink.alarming() };
        Pen::new(columns.counts, buffer).skip(2).put(view.knows(), style);
        let reach = self.picture.world.reach(node);
        let reach = if view.members > 0 {
            format!("{reach} {}/{}", view.reached, view.members)
        } else {
            reach
        };
        Pen::new(columns.reaches, buffer).skip(1).put(&reach, Style::new());
        let heard = view.heard_ms.map_or("-".to_owned(), |ms| format!("{} ms", grouped(ms)));
        right(columns.heard, &heard, Style::new(), buffer);
    }

    fn draw_rates(
        &self,
        columns: &Columns,
        asked: u64,
        admitted: u64,
        style: Style,
        buffer: &mut Buffer,
    ) {
        right(columns.asked, &grouped(asked), style, buffer);
        right(columns.admitted, &grouped(admitted), style, buffer);
        let share = percent(admitted, self.picture.figures.offer().per_s);
        right(columns.share, &format!("{share} %"), style, buffer);
    }

    /// A bar of `admitted` in a second, of what the limit lets through.
    fn draw_bar(
        &self,
        area: Rect,
        admitted: u64,
        block: &'static str,
        style: Style,
        buffer: &mut Buffer,
    ) {
        let per_s = self.picture.figures.offer().per_s.max(1);
        let eighths = admitted.saturating_mul(EIGHTHS * u64::from(area.width)) / per_s;
        for (place, x) in (0..).zip(area.left()..area.right()) {
            let filled = eighths.saturating_sub(EIGHTHS * place).min(EIGHTHS);
            let symbol = match (self.look.ink, filled) {
                (_, EIGHTHS) => block,
                (Ink::Plain, 4..) => block,
                (Ink::Plain, _) => " ",
                (Ink::Colour, _) => LEFT[usize::try_from(filled).unwrap_or(0)],
            };
            buffer.set_string(x, area.y, symbol, style);
        }
    }
}
