//! The picture at the terminal: the chart, a line for each node, the sums, what happened, the keys.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::MEMBERS_MAX;
use super::chart::{Chart, Ink, rows_below_limit};
use super::pen::{Pen, bold, dim, right};
use super::script::Action;
use super::story::Story;
use super::table::Table;
use super::tally::{Figures, SLOT_NS, SLOTS_PER_S};
use super::view::World;
use super::words::{grouped, letter, seconds, tenths};

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
/// As many as a terminal of the usual 24 rows has for them.
const ROWS_LEFT_SMALL: u16 = 11;
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
    pub(super) figures: &'a Figures,
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
    /// The node that keys are for; none where there are no keys.
    pub(super) selected: Option<usize>,
}

impl Picture<'_> {
    /// Draws everything that there is room for.
    pub(super) fn draw(&self, look: Look, area: Rect, buffer: &mut Buffer) {
        let nodes = u16::try_from(self.world.nodes.len()).unwrap_or(u16::MAX);
        let fixed = ROWS_FIXED.saturating_add(nodes);
        let left = area.height.saturating_sub(fixed);
        if area.width < WIDTH_MIN || left < ROWS_LEFT_MIN {
            if !area.is_empty() {
                let least = format!("{WIDTH_MIN} x {} is the least", fixed + ROWS_LEFT_MIN);
                Pen::new(area, buffer).put(&least, Style::new());
            }
            return;
        }
        // Where there is room for a line that says nothing, it is well spent here.
        let gap = u16::from(left > ROWS_LEFT_SMALL);
        // An even number of rows, so that the top of the chart is twice the limit.
        let chart = (left - left / 3 - gap) / 2 * 2;
        let events = left - chart - gap;
        let heights = [1, 1, chart, 1, gap, nodes + 2, 1, 2, 1, events, 1];
        let mut top = area.top();
        let rows = heights.map(|height| {
            let row = Rect { y: top, height, ..area };
            top += height;
            row
        });
        let [title, legend, chart, marks, _, table, _, sums, _, events, keys] = rows;
        self.draw_title(title, buffer);
        self.draw_legend(look.ink, legend, buffer);
        self.draw_chart(look.ink, chart, buffer);
        self.draw_marks(marks, buffer);
        Table { picture: self, look }.draw(table, buffer);
        self.draw_sums(look.ink, sums, buffer);
        self.draw_events(events, buffer);
        if look.selected.is_some() {
            draw_keys(keys, buffer);
        }
    }

    fn draw_title(&self, area: Rect, buffer: &mut Buffer) {
        let offer = self.figures.offer();
        let nodes = self.world.nodes.len();
        let what = format!(
            "{nodes} nodes in this process hold one limit: {}/s, burst {}",
            offer.per_s, offer.burst
        );
        let time = if self.has_begun {
            seconds(self.figures.elapsed_ms(self.now_ns))
        } else {
            "they find each other ...".to_owned()
        };
        let before = right(inner(area), &time, bold(), buffer);
        let mut pen = Pen::new(before, buffer);
        pen.skip(1).put("rlnode demo", bold()).skip(3).put(&what, Style::new());
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
            right(inner(area), &format!("next: {} {action}", seconds(at_ms)), dim(), buffer);
        }
    }

    fn draw_chart(&self, ink: Ink, area: Rect, buffer: &mut Buffer) {
        let per_s = self.figures.offer().per_s;
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
        let over = self.figures.number(self.now_ns) / slots;
        let from = over.saturating_sub(u64::from(width));
        let column = |column: u64| {
            let mut sum = [0; MEMBERS_MAX];
            for number in column * slots..(column + 1) * slots {
                let admitted = self.figures.slot_at(number).admitted;
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
        let over = self.figures.number(self.now_ns) / slots;
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
            // Half a word says less than none.
            let text = if width <= free.saturating_sub(x) { text.as_str() } else { "▴" };
            if x < free {
                buffer.set_string(x, area.y, text, bold());
                free = x;
            }
        }
    }

    fn draw_sums(&self, ink: Ink, area: Rect, buffer: &mut Buffer) {
        let offer = self.figures.offer();
        let totals = self.figures.totals();
        let allowance = self.figures.allowance(self.now_ns);
        let worst = self.figures.worst_excess_milli();
        let mut pen = Pen::new(Rect { height: 1, ..area }, buffer);
        let style = if totals.admitted > allowance { ink.alarming() } else { ink.well() };
        pen.skip(1).put(&grouped(totals.admitted), style.add_modifier(Modifier::BOLD));
        let of = format!(
            " admitted, of {} = {} + {}/s x {}; a central limiter {}",
            grouped(allowance),
            offer.burst,
            offer.per_s,
            seconds(self.figures.elapsed_ms(self.now_ns)),
            grouped(self.figures.central_admitted())
        );
        pen.put(&of, Style::new());
        let mut pen = Pen::new(Rect { y: area.y + 1, height: 1, ..area }, buffer);
        let style = if worst > 0 { ink.limit() } else { ink.well() };
        pen.skip(1).put(&tenths(worst), style.add_modifier(Modifier::BOLD));
        let rest = format!(
            " above the limit in the worst window; {} denied ({} share), {} held",
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

fn draw_keys(area: Rect, buffer: &mut Buffer) {
    let mut pen = Pen::new(area, buffer);
    pen.skip(1);
    for (key, word) in KEYS {
        pen.put(key, bold()).skip(1).put(word, dim()).skip(2);
    }
}

/// Without the last column, beside which terminals have their edge.
fn inner(area: Rect) -> Rect {
    Rect { width: area.width.saturating_sub(1), ..area }
}

fn chart_area(area: Rect) -> Rect {
    Rect { x: area.x + GUTTER, width: area.width - GUTTER - 1, ..area }
}

/// Slots in a column of the chart, by the width of the whole screen.
fn slots_per_column(screen: Rect) -> u64 {
    if screen.width >= WIDE { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use limiter::Reason;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::OFFER;
    use super::super::tally::{Kind, Tally};
    use super::super::view::NodeView;
    use super::super::view::tests::{up, whole};
    use super::*;

    const BEGAN_NS: u64 = 5_000_000_000;
    const AFTER_NS: u64 = 4_000_000_000;
    const CUT: [bool; 3] = [false, false, true];
    const LOOK: Look = Look { ink: Ink::Colour, selected: Some(2) };

    /// Four seconds: 30, 60 and 120 calls a second at the three nodes, every call let through but
    /// for one; in the second second, 90 calls at once.
    fn tally() -> Tally {
        let mut tally = Tally::new(OFFER, BEGAN_NS).expect("a limit");
        let mut calls: Vec<(u64, usize)> = Vec::new();
        for (node, per_s) in [30, 60, 120].into_iter().enumerate() {
            calls.extend((0..per_s * 4).map(|call| (call * 1_000_000_000 / per_s, node)));
        }
        calls.extend((0..90).map(|_| (1_500_000_000, 1)));
        calls.sort_unstable();
        for (at_ns, node) in calls {
            tally.asked(BEGAN_NS + at_ns, node, Kind::Steady);
            tally.answered(BEGAN_NS + at_ns, node, Kind::Steady, Reason::Ok, false);
        }
        tally.answered(BEGAN_NS + AFTER_NS, 0, Kind::Steady, Reason::Share, true);
        tally
    }

    fn story() -> Story {
        let mut story = Story::default();
        story.tell(0, "too early to be seen".to_owned());
        story.begin(1_500, Action::Burst, "burst".to_owned());
        story.begin(2_400, Action::Cut(2), "cut C off".to_owned());
        story
    }

    /// What `act` does with the picture of these nodes after four seconds.
    fn with_picture<T>(nodes: &[NodeView], begun: bool, act: impl FnOnce(&Picture<'_>) -> T) -> T {
        let (tally, story) = (tally(), story());
        act(&Picture {
            now_ns: BEGAN_NS + AFTER_NS,
            figures: tally.figures(),
            world: World { nodes, cut: &CUT },
            story: &story,
            next: Some((5_000, Action::Heal(2))),
            has_begun: begun,
        })
    }

    fn lines(picture: &Picture<'_>, width: u16, height: u16, look: Look) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        let draw = |frame: &mut ratatui::Frame<'_>| {
            picture.draw(look, frame.area(), frame.buffer_mut());
        };
        terminal.draw(draw).expect("it is drawn");
        let buffer = terminal.backend().buffer();
        let row = |y: u16| -> String { (0..width).map(|x| buffer[(x, y)].symbol()).collect() };
        (0..height).map(|y| row(y).trim_end().to_owned()).collect()
    }

    fn drawn(height: u16, look: Look, nodes: &[NodeView], begun: bool) -> Vec<String> {
        with_picture(nodes, begun, |picture| lines(picture, 80, height, look))
    }

    fn split() -> [NodeView; 3] {
        [up(3, &[1]), up(3, &[0]), up(3, &[])]
    }

    #[test]
    fn the_picture_of_a_small_terminal() {
        let want = "
 rlnode demo   3 nodes in this process hold one limit: 200/s, burst 200   4.0 s
 admitted per 200 ms  █ A  █ B  █ C  ▁ limit                 next: 5.0 s heal C
 400/s                                                            █132
 200/s ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁█▁▁▁▁▁▁▁▁▁▁▁▁
                                                           ████████████████████
     0                                                     ▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂
       ───────────────────────────────────────────────────────────▴────▴cut C──
   node asked/s  admitted of 200/s           level  counts   reaches      heard
   █ A       30        30 █▊            15 %    13  split    A B · 2/3    40 ms
   █ B       60        60 ███▌          30 %    13  split    A B · 2/3    40 ms
 ▸ █ C      120       120 ███████▏      60 %    13  split    · · C 1/3        -
   all      210       210 ████████████ 105 %

 930 admitted, of 1,000 = 200 + 200/s x 4.0 s; a central limiter 930
 0 above the limit in the worst window; 1 denied (1 share), 1 held

  0.0 s  too early to be seen
  1.5 s  burst
  2.4 s  cut C off
 b burst  l lull  c cut  h heal  k kill  j join  Tab node  q quit";
        let lines = drawn(20, LOOK, &split(), true);
        assert_eq!(format!("\n{}", lines.join("\n")), want);
    }

    #[test]
    fn no_size_of_a_terminal_and_no_number_of_nodes_is_too_much() {
        let nodes =
            [up(5, &[1, 2, 3, 4]), NodeView::dead(), NodeView::default(), up(5, &[]), up(5, &[])];
        for members in 2..=MEMBERS_MAX {
            with_picture(&nodes[..members], true, |picture| {
                for width in (0..130).step_by(7) {
                    for height in (0..44).step_by(3) {
                        lines(picture, width, height, LOOK);
                    }
                }
            });
        }
        let told = with_picture(&whole(), true, |picture| lines(picture, 43, 30, LOOK));
        assert_eq!(told[0], "44 x 17 is the least");
    }

    #[test]
    fn before_the_calls_begin_it_says_what_is_waited_for() {
        let lines = drawn(20, LOOK, &[NodeView::default(); 3], false);
        assert!(lines[0].ends_with("they find each other ..."), "{lines:#?}");
        assert!(lines[9].contains("starting"), "{lines:#?}");
    }

    #[test]
    fn without_colours_the_nodes_differ_by_shade() {
        let lines = drawn(26, Look { ink: Ink::Plain, ..LOOK }, &whole(), true);
        assert!(lines[1].contains("█ A  ▒ B  ░ C"), "{lines:#?}");
        let chart = lines[2..10].concat();
        assert!(["█", "▒", "░"].iter().all(|shade| chart.contains(shade)), "{lines:#?}");
    }
}
