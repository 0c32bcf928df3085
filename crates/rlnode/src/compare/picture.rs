//! What each algorithm let through over time, as SVG: a row for each, what was asked for in grey. The same
//! figures give the same bytes.
//!
//! Lengths are tenths of a pixel, so that all of it is integer arithmetic.

use std::fmt::Write;

use super::report::{Figures, Report};
use super::text::{duration_ms, duration_ns};
use crate::config::show_rate;
use crate::demo::words::grouped;

const WIDTH: u64 = 9_600;
const LEFT: u64 = 1_700;
const RIGHT: u64 = 9_400;
const TOP: u64 = 700;
const ROW: u64 = 900;
/// Height of a row's chart, of which the rest is space.
const CHART: u64 = 680;
const BOTTOM: u64 = 420;
const INK: &str = "#1f2328";
const PALE_INK: &str = "#656d76";
const ASKED: &str = "#d0d7de";
const COLORS: [&str; 6] = ["#0969da", "#1a7f37", "#4d8f9e", "#cf222e", "#bc7a00", "#8250df"];
/// Least height of what is not nothing.
const HEIGHT_MIN: u64 = 12;
/// Most lines for begins of periods.
const PERIODS_MAX: u64 = 40;

/// The picture of `report`, to stand by itself or in a page.
pub fn picture(report: &Report) -> String {
    let rows = report.algorithms.len() as u64;
    let height = TOP + rows * ROW + BOTTOM;
    let title = format!("{} through {} algorithms", report.traffic, rows);
    // Writing to a string does not fail.
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {WIDTH} \
         {height}\" role=\"img\" font-family=\"system-ui, -apple-system, 'Segoe UI', sans-serif\" \
         font-size=\"120\">\n<title>{}</title>\n<rect x=\"5\" y=\"5\" width=\"{}\" height=\"{}\" \
         rx=\"100\" fill=\"#fff\" stroke=\"#d0d7de\" stroke-width=\"10\"/>\n",
        WIDTH / 10,
        height / 10,
        escaped(&title),
        WIDTH - 10,
        height - 10
    );
    let scale = Scale::of(report);
    draw_head(&mut svg, report, &scale);
    draw_periods(&mut svg, report, &scale, TOP + rows * ROW);
    for (place, algorithm) in (0..).zip(&report.algorithms) {
        let base = TOP + place * ROW + CHART;
        text(&mut svg, 160, base - CHART / 2, 130, INK, algorithm.algorithm);
        match &algorithm.alone {
            Some(figures) => {
                let color = COLORS[usize::try_from(place).unwrap_or(0) % COLORS.len()];
                draw_row(&mut svg, figures, &scale, base, color);
                let under = format!(
                    "{} passed, {} denied",
                    grouped(figures.units),
                    grouped(figures.denied)
                );
                text(&mut svg, 160, base - CHART / 2 + 160, 105, PALE_INK, &under);
                let worst = format!("worst 2 s: {}", grouped(figures.worst_two_seconds));
                text(&mut svg, 160, base - CHART / 2 + 310, 105, PALE_INK, &worst);
            }
            None => {
                text(&mut svg, LEFT, base - CHART / 2, 110, PALE_INK, "cannot have these numbers");
            }
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// Where times and counts are.
struct Scale {
    slots: u64,
    slot_ns: u64,
    /// Count at the top of a chart; above 0.
    most: u64,
}

impl Scale {
    fn of(report: &Report) -> Self {
        let figures = || report.algorithms.iter().filter_map(|algorithm| algorithm.alone.as_ref());
        let slot_ns = figures().map(|it| it.slot_ns).max().unwrap_or(1).max(1);
        let lengths = figures().flat_map(|it| [it.asked.len(), it.passed.len()]);
        // What nobody asked for at the end is shown too.
        let by_time = (report.duration_ms.saturating_mul(1_000_000)).div_ceil(slot_ns);
        let slots = lengths.map(|len| len as u64).max().unwrap_or(0);
        let slots = slots.max(by_time.min(sim::compare::SLOTS_MAX as u64)).max(1);
        let counts = figures().flat_map(|it| it.asked.iter().chain(&it.passed));
        Self { slots, slot_ns, most: counts.copied().max().unwrap_or(0).max(1) }
    }

    fn x(&self, slot: u64) -> u64 {
        LEFT + (RIGHT - LEFT) * slot.min(self.slots) / self.slots
    }

    fn height(&self, count: u64) -> u64 {
        let height = u128::from(CHART) * u128::from(count) / u128::from(self.most);
        let height = u64::try_from(height).unwrap_or(CHART).min(CHART);
        if count > 0 { height.max(HEIGHT_MIN) } else { 0 }
    }

    /// The outline of `counts` above the line at `base`.
    fn outline(&self, counts: &[u64], base: u64) -> String {
        let mut path = format!("M{LEFT} {base}");
        let mut before = 0;
        for (slot, count) in (0..).zip(counts) {
            let height = self.height(*count);
            if height != before {
                let _ = write!(path, "H{}V{}", self.x(slot), base - height);
                before = height;
            }
        }
        let _ = write!(path, "H{}V{base}z", self.x(counts.len() as u64));
        path
    }
}

fn draw_head(svg: &mut String, report: &Report, scale: &Scale) {
    let rate = limiter::Rate { count: report.limit, period_ns: report.period_ns };
    let head = format!(
        "{}: {} calls under {}, burst {}",
        report.traffic,
        grouped(report.calls),
        show_rate(rate),
        grouped(report.burst)
    );
    text(svg, 160, 290, 160, INK, &head);
    let legend = format!(
        "units in each {}, {} at the top; asked for in grey, let through in colour",
        duration_ns(scale.slot_ns),
        grouped(scale.most)
    );
    text(svg, 160, 500, 110, PALE_INK, &legend);
}

/// Where periods of the limit begin, with the time since the begin of the traffic.
fn draw_periods(svg: &mut String, report: &Report, scale: &Scale, bottom: u64) {
    let (length_ns, period_ns) =
        (u128::from(scale.slots) * u128::from(scale.slot_ns), u128::from(report.period_ns.max(1)));
    let periods = u64::try_from(length_ns / period_ns).unwrap_or(u64::MAX);
    if periods > PERIODS_MAX || report.trace.is_some() {
        text(svg, LEFT, bottom + 150, 110, PALE_INK, "0");
        let end = duration_ms(u64::try_from(length_ns / 1_000_000).unwrap_or(u64::MAX));
        anchored(svg, RIGHT, bottom + 150, "end", &end);
        return;
    }
    let mut lines = String::new();
    for period in 0..=periods {
        let at_ns = u128::from(period) * period_ns;
        let x = u128::from(RIGHT - LEFT) * at_ns / length_ns;
        let x = LEFT + u64::try_from(x).unwrap_or(0);
        let _ = write!(lines, "M{x} {TOP}V{bottom}");
        let at_ms = u64::try_from(at_ns / 1_000_000).unwrap_or(u64::MAX);
        anchored(svg, x, bottom + 150, "middle", &mark(at_ms));
    }
    let _ = writeln!(svg, "<path d=\"{lines}\" stroke=\"#eaeef2\" stroke-width=\"10\"/>");
}

/// A time on the axis, in the largest unit of which it is a whole number.
fn mark(at_ms: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")];
    match UNITS.into_iter().find(|(unit_ms, _)| at_ms.is_multiple_of(*unit_ms)) {
        _ if at_ms == 0 => "0".to_owned(),
        Some((unit_ms, unit)) => format!("{} {unit}", at_ms / unit_ms),
        None => format!("{at_ms} ms"),
    }
}

fn draw_row(svg: &mut String, figures: &Figures, scale: &Scale, base: u64, color: &str) {
    let asked = scale.outline(&figures.asked, base);
    let _ = writeln!(svg, "<path d=\"{asked}\" fill=\"{ASKED}\"/>");
    let passed = scale.outline(&figures.passed, base);
    let _ = writeln!(svg, "<path d=\"{passed}\" fill=\"{color}\"/>");
    let _ = writeln!(
        svg,
        "<path d=\"M{LEFT} {base}H{RIGHT}\" stroke=\"#afb8c1\" stroke-width=\"10\"/>"
    );
}

fn text(svg: &mut String, x: u64, y: u64, size: u64, fill: &str, words: &str) {
    let words = escaped(words);
    let _ = writeln!(
        svg,
        "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" fill=\"{fill}\">{words}</text>"
    );
}

fn anchored(svg: &mut String, x: u64, y: u64, anchor: &str, words: &str) {
    let words = escaped(words);
    let _ = writeln!(
        svg,
        "<text x=\"{x}\" y=\"{y}\" font-size=\"110\" fill=\"{PALE_INK}\" \
         text-anchor=\"{anchor}\">{words}</text>"
    );
}

/// `text` as it stands between two tags or two quotes.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outline_goes_up_and_down_and_comes_back() {
        let scale = Scale { slots: 7, slot_ns: 1, most: 10 };
        let path = scale.outline(&[0, 10, 10, 5, 0, 1], 1_000);
        // Seven slots of 1,100 tenths; 680 tenths are ten.
        let want = "M1700 1000H2800V320H5000V660H6100V1000H7200V932H8300V1000z";
        assert_eq!(path, want);
        assert_eq!(scale.height(1), 68);
        assert_eq!(Scale { most: 10_000, ..scale }.height(1), HEIGHT_MIN, "little is not nothing");
    }

    #[test]
    fn marks_are_whole_numbers() {
        let marks = [0, 1_500, 60_000, 90_000, 7_200_000].map(mark);
        assert_eq!(marks, ["0", "1500 ms", "1 min", "90 s", "2 h"]);
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(escaped("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;");
    }
}
