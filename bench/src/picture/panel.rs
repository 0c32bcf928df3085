//! Axes of a picture: where a time and a count are, and bars upon each other.

use super::{PALE_INK, Text, grouped, push};
use crate::clock::NS_PER_S;

/// Time that a bar stands for.
pub(crate) const BAR_NS: u64 = NS_PER_S / 10;
/// Most steps of an axis.
const STEPS_MAX: f64 = 6.0;

/// Where numbers are on the picture: x by time, y by count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Panel {
    /// Left edge, on the picture.
    pub(crate) left: f64,
    /// Right edge.
    pub(crate) right: f64,
    /// Top edge.
    pub(crate) top: f64,
    /// Bottom edge, where counts begin.
    pub(crate) bottom: f64,
    /// Time from the left edge to the right.
    pub(crate) seconds: f64,
    /// Count at the top; above 0.
    pub(crate) most: f64,
}

/// Steps of `step_ns` in as many seconds; at least one.
pub(crate) fn steps(seconds: u64, step_ns: u64) -> usize {
    usize::try_from((seconds * NS_PER_S).div_ceil(step_ns)).unwrap_or(usize::MAX).max(1)
}

/// The step of this number, or else the last of them, of which there is one.
pub(crate) fn step_of<T>(steps: &mut [T], number: u64) -> &mut T {
    let last = steps.len() - 1;
    &mut steps[usize::try_from(number).unwrap_or(last).min(last)]
}

impl Panel {
    /// Where this time is, in seconds.
    pub(crate) fn x(&self, seconds: f64) -> f64 {
        self.left + (self.right - self.left) * seconds / self.seconds
    }

    /// Where this time is, in nanoseconds.
    pub(crate) fn x_at(&self, ns: u64) -> f64 {
        self.x(ns as f64 / NS_PER_S as f64)
    }

    /// Where this count is.
    pub(crate) fn y(&self, count: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * count / self.most
    }

    /// Lines across with their counts, and seconds below.
    pub(crate) fn draw_axes(&self, svg: &mut String) {
        let (left, right, bottom) = (self.left, self.right, self.bottom);
        let mut lines = String::new();
        let counts = Text { anchor: "end", size: 11, fill: PALE_INK, ..Text::at(left - 6.0, 0.0) };
        for count in marks(self.most) {
            let y = self.y(count);
            push(&mut lines, format_args!("M{left:.1} {y:.1}H{right:.1}"));
            Text { y: y + 4.0, ..counts }.push(svg, &grouped_whole(count));
        }
        push(svg, format_args!("<path d=\"{lines}\" stroke=\"#eef0f3\"/>\n"));
        push(
            svg,
            format_args!("<path d=\"M{left:.1} {bottom:.1}H{right:.1}\" stroke=\"#afb8c1\"/>\n"),
        );
        let seconds =
            Text { anchor: "middle", size: 11, fill: PALE_INK, ..Text::at(0.0, bottom + 17.0) };
        for second in marks(self.seconds) {
            let unit = if second > 0.0 { " s" } else { "" };
            let label = format!("{}{unit}", grouped_whole(second));
            Text { x: self.x(second), ..seconds }.push(svg, &label);
        }
    }

    /// Bars of these counts upon `bottoms`, which they raise.
    pub(crate) fn draw_layer(
        &self,
        svg: &mut String,
        color: &str,
        bottoms: &mut [u64],
        counts: impl Iterator<Item = u64>,
    ) {
        const GAP: f64 = 1.0;
        let width = (self.right - self.left) / bottoms.len() as f64 - GAP;
        let mut bars = String::new();
        for (number, (bottom, count)) in (0..).zip(bottoms.iter_mut().zip(counts)) {
            if count > 0 {
                let (x, y) = (self.x_at(number * BAR_NS) + GAP / 2.0, self.y(*bottom as f64));
                let top = self.y((*bottom + count) as f64);
                push(&mut bars, format_args!("M{x:.1} {y:.1}V{top:.1}h{width:.1}V{y:.1}z"));
                *bottom += count;
            }
        }
        push(svg, format_args!("<path d=\"{bars}\" fill=\"{color}\"/>\n"));
    }
}

/// Round numbers from 0 to `most`: steps of 1, 2 or 5 with as many noughts as needed.
fn marks(most: f64) -> Vec<f64> {
    let mut step = 1.0;
    for factor in [2.0, 2.5, 2.0].into_iter().cycle() {
        if most <= step * STEPS_MAX {
            break;
        }
        step *= factor;
    }
    let mut marks = vec![0.0];
    let mut next = step;
    while next <= most {
        marks.push(next);
        next += step;
    }
    marks
}

fn grouped_whole(number: f64) -> String {
    let digits = format!("{number:.0}");
    digits.parse().map_or(digits, grouped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stand_upon_each_other_at_their_time() {
        let panel =
            Panel { left: 100.0, right: 120.0, top: 0.0, bottom: 50.0, seconds: 0.2, most: 10.0 };
        let mut svg = String::new();
        let mut bottoms = vec![0, 4];
        panel.draw_layer(&mut svg, "red", &mut bottoms, [0, 2].into_iter());
        assert_eq!(svg, "<path d=\"M110.5 30.0V20.0h9.0V30.0z\" fill=\"red\"/>\n");
        assert_eq!(bottoms, [0, 6]);
    }

    #[test]
    fn an_axis_has_few_marks_at_round_numbers() {
        assert_eq!(marks(3.0), [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(marks(105.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(marks(1800.0), [0.0, 500.0, 1000.0, 1500.0]);
        assert_eq!(marks(1e6).len(), 6);
    }
}
