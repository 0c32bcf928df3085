//! The picture at the terminal: the chart, a line for each node, the sums, what happened, the keys.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::MEMBERS_MAX;
use super::chart::{Chart, Ink, rows_below_limit};
use super::script::Action;
use super::story::Story;
use super::tally::{SLOT_NS, SLOTS_PER_S, Slot, Tally};
use super::view::{Life, NodeView, World};
use super::words::{grouped, letter, percent, seconds, tenths};

/// From this width on a column of the chart is one slot of 100 ms, else two.
const WIDE: u16 = 100;
/// Narrower than this the lines say nothing.
const WIDTH_MIN: u16 = 44;
/// Columns before the chart, for what is written beside it.
const GUTTER: u16 = 7;
/// Rows that are neither chart nor nodes nor events: title, legend, marks, head and sum of the table,
/// two of sums, two empty ones, keys.
const ROWS_FIXED: u16 = 10;
/// Fewest rows of chart and events together.
const ROWS_LEFT_MIN: u16 = 4;
/// Widths of the columns after the bars: per cent, level, knows, reaches, heard.
const AFTER_BARS: [u16; 5] = [6, 7, 10, 13, 9];
/// Where the bars begin.
const BARS_AT: u16 = 26;
const BAR_WIDTH_MAX: u16 = 40;
/// Blocks that fill a cell from the left by eighths.
const LEFT: [&str; 9] = [" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];
const KEYS: [(&str, &str); 8] = [
    ("b", "burst"),
    ("l", "lull"),
    ("c", "cut"),
    ("h", "heal"),
    ("k", "kill"),
    ("j", "join"),
    ("Tab", "node"),
    ("q", "quit"),
];

/// Everything that is shown at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Picture<'a> {
    /// The moment.
    pub(super) now_ns: u64,
    /// What the callers saw.
    pub(super) tally: &'a Tally,
    /// What the nodes say of themselves.
    pub(super) world: World<'a>,
    /// What happened.
    pub(super) story: &'a Story,
    /// What the script does next.
    pub(super) next: Option<(u64, Action)>,
    /// The calls have begun.
    pub(super) has_begun: bool,
}

/// How a picture is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// With what.
    pub(super) ink: Ink,
    /// The node that keys are for.
    pub(super) selected: usize,
}

impl Picture<'_> {
    /// Draws everything that there is room for.
    pub(super) fn draw(&self, look: Look, area: Rect, buffer: &mut Buffer) {
        let nodes = u16::try_from(self.world.nodes.len()).unwrap_or(u16::MAX);
        let fixed = ROWS_FIXED.saturating_add(nodes);
        let left = area.height.saturating_sub(fixed);
        if area.width < WIDTH_MIN || left < ROWS_LEFT_MIN {
            let least = format!("{WIDTH_MIN} x {} is the least", fixed + ROWS_LEFT_MIN);
            buffer.set_stringn(area.x, area.y, least, usize::from(area.width), Style::new());
            return;
        }
        let events = left.div_ceil(3);
        let heights = [1, 1, left - events, 1, nodes + 2, 1, 2, 1, events, 1];
        let mut top = area.top();
        let rows = heights.map(|height| {
            let row = Rect { y: top, height, ..area };
            top += height;
            row
        });
        let [title, legend, chart, marks, table, _, sums, _, events, keys] = rows;
        self.draw_title(title, buffer);
        self.draw_legend(look.ink, legend, buffer);
        self.draw_chart(look.ink, chart, buffer);
        self.draw_marks(marks, buffer);
        self.draw_table(look, table, buffer);
        self.draw_sums(look.ink, sums, buffer);
        self.draw_events(events, buffer);
        draw_keys(keys, buffer);
    }

    fn draw_title(&self, area: Rect, buffer: &mut Buffer) {
        let offer = self.tally.offer();
        let nodes = self.world.nodes.len();
        let what = format!(
            "{nodes} nodes in this process hold one limit: {}/s, burst {}",
            offer.per_s, offer.burst
        );
        let mut pen = Pen::new(area, buffer);
        pen.skip(1).put("rlnode demo", bold()).skip(3).put(&what, Style::new());
        let time = if self.has_begun {
            seconds(self.tally.elapsed_ms(self.now_ns))
        } else {
            "they find each other ...".to_owned()
        };
        right(area, &time, bold(), buffer);
    }

    fn draw_legend(&self, ink: Ink, area: Rect, buffer: &mut Buffer) {
        let ms = slots_per_column(area) * SLOT_NS / 1_000_000;
        let mut pen = Pen::new(area, buffer);
        pen.skip(1).put(&format!("admitted per {ms} ms"), dim()).skip(2);
        for node in 0..self.world.nodes.len() {
            pen.put(ink.block(node), ink.node(node))
                .skip(1)
                .put(letter(node), Style::new())
                .skip(2);
        }
        pen.put("▁", ink.limit()).skip(1).put("limit", Style::new());
        if let Some((at_ms, action)) = self.next {
            right(area, &format!("next: {} {action}", seconds(at_ms)), dim(), buffer);
        }
    }

    fn draw_chart(&self, ink: Ink, area: Rect, buffer: &mut Buffer) {
        let per_s = self.tally.offer().per_s;
        let line = rows_below_limit(area.height);
        let top = per_s * u64::from(area.height) / u64::from(line);
        for (row, value) in [(0, 0), (line, per_s), (area.height - 1, top)] {
            let text = if value == 0 { "0".to_owned() } else { format!("{value}/s") };
            let style = if row == line { ink.limit() } else { dim() };
            let y = area.bottom() - 1 - row;
            right(Rect { y, height: 1, width: GUTTER - 1, ..area }, &text, style, buffer);
        }
        let slots = slots_per_column(area);
        let area = chart_area(area);
        let columns = self.columns(slots, area.width);
        Chart { columns: &columns, limit: per_s * slots / SLOTS_PER_S, ink }.draw(area, buffer);
    }

    /// What each node let through in each column of so many `slots` that is over; the latest last.
    fn columns(&self, slots: u64, width: u16) -> Vec<[u64; MEMBERS_MAX]> {
        let over = self.tally.number(self.now_ns) / slots;
        let from = over.saturating_sub(u64::from(width));
        let column = |column: u64| {
            let mut sum = [0; MEMBERS_MAX];
            for number in column * slots..(column + 1) * slots {
                let admitted = self.tally.slot_at(number).admitted;
                sum.iter_mut().zip(admitted).for_each(|(sum, units)| *sum += units);
            }
            sum
        };
        if self.has_begun { (from..over).map(column).collect() } else { Vec::new() }
    }

    /// What happened, under the columns of the time when it did.
    fn draw_marks(&self, area: Rect, buffer: &mut Buffer) {
        let slots = slots_per_column(area);
        let area = chart_area(area);
        for x in area.left()..area.right() {
            buffer.set_string(x, area.y, "─", dim());
        }
        let over = self.tally.number(self.now_ns) / slots;
        let mut free = area.right();
        for event in self.story.events().rev() {
            let Some(mark) = &event.mark else { continue };
            let column = event.at_ms * 1_000_000 / (SLOT_NS * slots);
            let age = over.saturating_sub(column);
            let Some(x) = u16::try_from(age).ok().and_then(|age| area.right().checked_sub(age))
            else {
                break;
            };
            // The column of what happened just now is not over.
            let x = x.min(area.right() - 1);
            if x < area.left() {
                break;
            }
            let text = format!("▴{mark}");
            let width = u16::try_from(text.chars().count()).unwrap_or(u16::MAX);
            let room = free.saturating_sub(x).min(width);
            if room > 0 {
                buffer.set_stringn(x, area.y, &text, usize::from(room), bold());
                free = x;
            }
        }
    }

    fn draw_table(&self, look: Look, area: Rect, buffer: &mut Buffer) {
        let last_second = self.tally.last_second(self.now_ns);
        let line = |row: u16| Rect { y: area.y + row, height: 1, ..area };
        draw_head(line(0), buffer);
        for (node, view) in self.world.nodes.iter().enumerate() {
            let row = u16::try_from(node).unwrap_or(u16::MAX).saturating_add(1);
            self.draw_node(look, line(row), node, view, &last_second, buffer);
        }
        let sum = |counts: [u64; MEMBERS_MAX]| counts.iter().sum::<u64>();
        let (asked, admitted) = (sum(last_second.asked), sum(last_second.admitted));
        let last = line(area.height - 1);
        let mut pen = Pen::new(last, buffer);
        pen.skip(3).put("all", bold());
        draw_rates(last, asked, admitted, bold(), buffer);
        let per_s = self.tally.offer().per_s;
        let [share, ..] = after_bars(last);
        right(share, &format!("{} %", percent(admitted, per_s)), bold(), buffer);
    }

    fn draw_node(
        &self,
        look: Look,
        area: Rect,
        node: usize,
        view: &NodeView,
        last_second: &Slot,
        buffer: &mut Buffer,
    ) {
        let ink = look.ink;
        let (asked, admitted) = (last_second.asked[node], last_second.admitted[node]);
        let per_s = self.tally.offer().per_s;
        let is_selected = look.selected == node;
        let mut pen = Pen::new(area, buffer);
        pen.skip(1)
            .put(if is_selected { "▸" } else { " " }, bold())
            .skip(1)
            .put(ink.block(node), ink.node(node))
            .skip(1)
            .put(letter(node), if is_selected { bold() } else { Style::new() });
        draw_rates(area, asked, admitted, Style::new(), buffer);
        draw_bar(bar_area(area), admitted, per_s, ink, node, buffer);
        let [share, level, knows, reaches, heard] = after_bars(area);
        right(share, &format!("{} %", percent(admitted, per_s)), Style::new(), buffer);
        let units = view.level.filter(|_| view.life == Life::Up).map_or("-".to_owned(), grouped);
        right(level, &units, Style::new(), buffer);
        let is_well = view.life == Life::Up && view.freshness == limiter::Freshness::Synced;
        let style = if is_well { ink.well() } else { ink.alarming() };
        Pen::new(knows, buffer).skip(2).put(view.knows(), style);
        let reach = format!("{} {}/{}", self.world.reach(node), view.reached, view.members);
        let reach = if view.life == Life::Dead { self.world.reach(node) } else { reach };
        Pen::new(reaches, buffer).skip(1).put(&reach, Style::new());
        let heard_ms = view.heard_ms.map_or("-".to_owned(), |ms| format!("{ms} ms"));
        right(heard, &heard_ms, Style::new(), buffer);
    }

    fn draw_sums(&self, ink: Ink, area: Rect, buffer: &mut Buffer) {
        let offer = self.tally.offer();
        let totals = self.tally.totals();
        let allowance = self.tally.allowance(self.now_ns);
        let worst = self.tally.worst_excess_milli();
        let mut pen = Pen::new(Rect { height: 1, ..area }, buffer);
        let style = if totals.admitted > allowance { ink.alarming() } else { ink.well() };
        pen.skip(1).put(&grouped(totals.admitted), style.add_modifier(Modifier::BOLD));
        let of = format!(
            " admitted, of {} = {} + {}/s x {}; a central limiter {}",
            grouped(allowance),
            offer.burst,
            offer.per_s,
            seconds(self.tally.elapsed_ms(self.now_ns)),
            grouped(self.tally.central_admitted())
        );
        pen.put(&of, Style::new());
        let mut pen = Pen::new(Rect { y: area.y + 1, height: 1, ..area }, buffer);
        let style = if worst > 0 { ink.limit() } else { ink.well() };
        pen.skip(1).put(&tenths(worst), style.add_modifier(Modifier::BOLD));
        let rest = format!(
            " over in the worst window; {} denied ({} for share), {} held",
            grouped(totals.denied_limit + totals.denied_share),
            grouped(totals.denied_share),
            grouped(totals.held)
        );
        pen.put(&rest, Style::new());
    }

    fn draw_events(&self, area: Rect, buffer: &mut Buffer) {
        let count = usize::from(area.height);
        let mut latest: Vec<_> = self.story.events().rev().take(count).collect();
        latest.reverse();
        let rows = area.top()..area.bottom();
        let last = latest.len().saturating_sub(1);
        for (place, (y, event)) in rows.zip(latest).enumerate() {
            let style = if place == last { Style::new() } else { dim() };
            Pen::new(Rect { y, height: 1, ..area }, buffer).put(&event.whole_line(), style);
        }
    }
}

/// Writes one piece of text after the other, and stops at the edge.
struct Pen<'b> {
    x: u16,
    y: u16,
    end: u16,
    buffer: &'b mut Buffer,
}

impl<'b> Pen<'b> {
    fn new(area: Rect, buffer: &'b mut Buffer) -> Self {
        Self { x: area.x, y: area.y, end: area.right(), buffer }
    }

    fn skip(&mut self, columns: u16) -> &mut Self {
        self.x = self.x.saturating_add(columns).min(self.end);
        self
    }

    fn put(&mut self, text: &str, style: Style) -> &mut Self {
        let room = usize::from(self.end - self.x);
        (self.x, _) = self.buffer.set_stringn(self.x, self.y, text, room, style);
        self
    }
}

/// Writes `text` so that it ends at the right edge of `area`; what there is no room for at its left is
/// not written.
fn right(area: Rect, text: &str, style: Style, buffer: &mut Buffer) {
    let width = u16::try_from(text.chars().count()).unwrap_or(u16::MAX);
    let x = area.right().saturating_sub(width).max(area.x);
    let room = usize::from(area.right().saturating_sub(x));
    buffer.set_stringn(x, area.y, text, room, style);
}

fn draw_head(area: Rect, buffer: &mut Buffer) {
    Pen::new(area, buffer).skip(3).put("node", dim());
    right(Rect { width: 15, ..area }, "asked/s", dim(), buffer);
    right(Rect { width: BARS_AT - 1, ..area }, "admitted", dim(), buffer);
    Pen::new(bar_area(area), buffer).put("of the limit", dim());
    let [_, level, knows, reaches, heard] = after_bars(area);
    right(level, "level", dim(), buffer);
    Pen::new(knows, buffer).skip(2).put("counts", dim());
    Pen::new(reaches, buffer).skip(1).put("reaches", dim());
    right(heard, "heard", dim(), buffer);
}

fn draw_rates(area: Rect, asked: u64, admitted: u64, style: Style, buffer: &mut Buffer) {
    right(Rect { width: 15, ..area }, &grouped(asked), style, buffer);
    right(Rect { width: BARS_AT - 1, ..area }, &grouped(admitted), style, buffer);
}

/// A bar of `part` of `whole`.
fn draw_bar(area: Rect, part: u64, whole: u64, ink: Ink, node: usize, buffer: &mut Buffer) {
    let eighths = (part.saturating_mul(8 * u64::from(area.width)) / whole.max(1))
        .min(8 * u64::from(area.width));
    for (place, x) in (0..).zip(area.left()..area.right()) {
        let filled = eighths.saturating_sub(8 * place).min(8);
        let symbol = match (ink, filled) {
            (Ink::Plain, 4..) => ink.block(node),
            (Ink::Plain, _) => " ",
            (Ink::Colour, _) => LEFT[usize::try_from(filled).unwrap_or(0)],
        };
        buffer.set_string(x, area.y, symbol, ink.node(node));
    }
}

fn draw_keys(area: Rect, buffer: &mut Buffer) {
    let mut pen = Pen::new(area, buffer);
    pen.skip(1);
    for (key, word) in KEYS {
        pen.put(key, bold()).skip(1).put(word, dim()).skip(2);
    }
}

fn chart_area(area: Rect) -> Rect {
    Rect { x: area.x + GUTTER, width: area.width - GUTTER - 1, ..area }
}

fn bar_area(area: Rect) -> Rect {
    let after: u16 = AFTER_BARS.iter().sum();
    let width = area.width.saturating_sub(BARS_AT + after + 1).min(BAR_WIDTH_MAX);
    Rect { x: area.x + BARS_AT.min(area.width), width, ..area }
}

/// Where the columns after the bars are. Those that there is no room for are empty.
fn after_bars(area: Rect) -> [Rect; 5] {
    let mut x = bar_area(area).right();
    AFTER_BARS.map(|width| {
        let width = if x + width <= area.right() { width } else { 0 };
        let column = Rect { x, width, ..area };
        x += width;
        column
    })
}

/// Slots in a column of the chart, by the width of the whole screen.
fn slots_per_column(screen: Rect) -> u64 {
    if screen.width >= WIDE { 1 } else { 2 }
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}
