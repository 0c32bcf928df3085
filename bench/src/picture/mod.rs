//! What the pictures of the bench have in common: SVG written by hand on a white card, legible on
//! light and dark pages. The same numbers give the same bytes. What a picture shows is its command's.

mod panel;

use std::fmt::Write;

pub(crate) use panel::{BAR_NS, Panel, step_of, steps};

/// Colour of text and of lines that bound.
pub(crate) const INK: &str = "#1f2328";
/// Colour of what explains.
pub(crate) const PALE_INK: &str = "#656d76";
/// Width of a letter of the legend, at most, in 12-pixel type.
const LETTER_WIDTH: f64 = 6.3;

/// Begins a picture of this size with its card. The caller ends it with `</svg>`.
pub(crate) fn draw_card(svg: &mut String, width: u32, height: u32, title: &str) {
    push(
        svg,
        format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" \
             font-family=\"system-ui, -apple-system, 'Segoe UI', sans-serif\" font-size=\"12\">\n\
             <title>{}</title>\n\
             <rect x=\".5\" y=\".5\" width=\"{}\" height=\"{}\" rx=\"10\" fill=\"#fff\" \
             stroke=\"#d0d7de\"/>\n",
            escaped(title),
            width.saturating_sub(1),
            height.saturating_sub(1)
        ),
    );
}

/// Names with their colours, in a line that begins at `x`; `top` is that of the colours.
pub(crate) fn draw_legend<'n>(
    svg: &mut String,
    mut x: f64,
    top: f64,
    styles: impl IntoIterator<Item = (&'n str, &'n str)>,
) {
    for (name, color) in styles {
        push(
            svg,
            format_args!(
                "<rect x=\"{x:.1}\" y=\"{top}\" width=\"11\" height=\"11\" rx=\"2\" fill=\"{color}\"/>\n"
            ),
        );
        Text::at(x + 16.0, top + 10.0).push(svg, name);
        x += 16.0 + LETTER_WIDTH * name.chars().count() as f64 + 16.0;
    }
}

/// A line of text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text {
    /// Where it is anchored.
    pub(crate) x: f64,
    /// Its base line.
    pub(crate) y: f64,
    /// Size of its type.
    pub(crate) size: u32,
    /// 400, or 600 for headings.
    pub(crate) weight: u32,
    /// Its colour.
    pub(crate) fill: &'static str,
    /// `start`, `middle` or `end`: which part of it is at `x`.
    pub(crate) anchor: &'static str,
}

impl Text {
    /// Text of the usual size that begins at this point of its base line.
    pub(crate) fn at(x: f64, y: f64) -> Self {
        Self { x, y, size: 12, weight: 400, fill: INK, anchor: "start" }
    }

    /// Appends it with these words.
    pub(crate) fn push(self, svg: &mut String, text: &str) {
        let Self { x, y, size, weight, fill, anchor } = self;
        push(
            svg,
            format_args!(
                "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" font-weight=\"{weight}\" \
                 fill=\"{fill}\" text-anchor=\"{anchor}\">{}</text>\n",
                escaped(text)
            ),
        );
    }
}

/// Appends what is formatted.
pub(crate) fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    let written = out.write_fmt(text);
    debug_assert!(written.is_ok(), "a string takes every write");
}

/// `text` as it stands between two tags.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// `number` with a comma before every three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        let mut svg = String::new();
        Text::at(0.0, 0.0).push(&mut svg, "a < b && c > d");
        assert!(svg.contains(">a &lt; b &amp;&amp; c &gt; d</text>"), "{svg}");
    }

    #[test]
    fn digits_stand_in_threes() {
        let texts = [0, 999, 1000, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "1,234,567"]);
    }
}
