//! The picture of a limit being held, as SVG written by hand: what was answered in each tenth of a
//! second, and all that passed so far below the most that may. The same answers give the same bytes.

use super::plan::DOORS;
use crate::clock::NS_PER_S;
use crate::driver::Answer;
use crate::picture::{
    BAR_NS, INK, PALE_INK, Panel, Text, draw_card, draw_legend, grouped, push, step_of, steps,
};
use crate::window::{Bucket, Window};

const WIDTH: u32 = 860;
const HEIGHT: u32 = 360;
/// By door, as `Door::ALL`: what it is called, and its colour, told apart also by brightness.
const DOOR_STYLES: [(&str, &str); DOORS] = [
    ("UDP", "#1d4e79"),
    ("unix stream", "#2f8f9d"),
    ("unix seqpacket", "#8cb369"),
    ("HTTP over TCP", "#e9b44c"),
    ("HTTP over unix", "#c8553d"),
];
const DENIED_COLOR: &str = "#e4e8ed";
/// Time between two points of the curve.
const POINT_NS: u64 = NS_PER_S / 50;

/// What is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Picture<'a> {
    /// The limit.
    pub(super) limit: Bucket,
    /// Length of the whole; at least 1.
    pub(super) seconds: u64,
    /// Questions in a second, over all doors.
    pub(super) checks_per_s: u64,
    /// When nothing was asked: from and to.
    pub(super) pause_ns: (u64, u64),
    /// By door, with times from the start of the whole.
    pub(super) answers: [&'a [Answer]; DOORS],
    /// The window in which most passed for certain.
    pub(super) fullest: Option<Window>,
    /// No more passed than may.
    pub(super) holds: bool,
}

/// What was answered in the time of one bar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bar {
    allowed: [u64; DOORS],
    denied: u64,
}

impl Bar {
    fn answered(&self) -> u64 {
        self.allowed.iter().sum::<u64>() + self.denied
    }
}

const LEFT_PANEL: (f64, f64) = (50.0, 540.0);
const RIGHT_PANEL: (f64, f64) = (606.0, 832.0);
const TOP: f64 = 122.0;
const BOTTOM: f64 = 322.0;

impl Picture<'_> {
    /// The picture.
    pub(super) fn to_svg(self) -> String {
        let mut svg = String::new();
        self.draw_frame(&mut svg);
        self.draw_bars(&mut svg);
        self.draw_curve(&mut svg);
        svg.push_str("</svg>\n");
        svg
    }

    fn draw_frame(&self, svg: &mut String) {
        let (title, subtitle) = (self.title(), self.subtitle());
        draw_card(svg, WIDTH, HEIGHT, &title);
        let heading = Text { size: 17, weight: 600, ..Text::at(20.0, 34.0) };
        heading.push(svg, &title);
        Text { fill: PALE_INK, ..Text::at(20.0, 55.0) }.push(svg, &subtitle);
        let denied = ("denied", DENIED_COLOR);
        draw_legend(svg, 20.0, 73.0, DOOR_STYLES.into_iter().chain([denied]));
    }

    fn title(&self) -> String {
        let answers = || self.answers.iter().copied().flatten();
        let allowed: u64 = answers().map(|answer| answer.allowed).sum();
        let denied: u64 = answers().map(|answer| answer.denied).sum();
        let end = if self.holds { "never too many" } else { "too many" };
        format!(
            "One limit, five doors: {} asked, {} passed, {end}",
            grouped(allowed + denied),
            grouped(allowed)
        )
    }

    fn subtitle(&self) -> String {
        let Bucket { per_s, burst } = self.limit;
        let mut text = format!(
            "Limit {}/s, burst {}; one key asked {} times a second.",
            grouped(per_s),
            grouped(burst),
            grouped(self.checks_per_s)
        );
        if let Some(window) = &self.fullest {
            let seconds = window.len_ns() as f64 / NS_PER_S as f64;
            let may_pass = burst as f64 + per_s as f64 * seconds;
            let part = format!(
                " Fullest of all windows: {} passed in {seconds:.2} s, where {may_pass:.2} may.",
                grouped(window.passed)
            );
            text.push_str(&part);
        }
        text
    }

    fn draw_bars(&self, svg: &mut String) {
        let bars = self.bars();
        let tallest = bars.iter().map(Bar::answered).max().unwrap_or(0);
        let (left, right) = LEFT_PANEL;
        let panel = self.panel(left, right, tallest.max(1) as f64);
        Text { weight: 600, ..Text::at(left - 30.0, 110.0) }.push(svg, "Answers in each 100 ms");
        panel.draw_axes(svg);
        let mut bottoms = vec![0; bars.len()];
        for (door, (_, color)) in DOOR_STYLES.iter().enumerate() {
            let counts = bars.iter().map(|bar| bar.allowed[door]);
            panel.draw_layer(svg, color, &mut bottoms, counts);
        }
        panel.draw_layer(svg, DENIED_COLOR, &mut bottoms, bars.iter().map(|bar| bar.denied));

        let per_bar = self.limit.per_s as f64 * BAR_NS as f64 / NS_PER_S as f64;
        let y = panel.y(per_bar.min(panel.most));
        push(
            svg,
            format_args!(
                "<path d=\"M{left:.1} {y:.1}H{right:.1}\" stroke=\"{INK}\" stroke-width=\"1.2\" \
                 stroke-dasharray=\"5 3\"/>\n"
            ),
        );
        let (from_ns, to_ns) = self.pause_ns;
        let middle = (panel.x_at(from_ns) + panel.x_at(to_ns)) / 2.0;
        let label = Text { anchor: "middle", ..Text::at(middle, y - 6.0) };
        label.push(svg, &format!("{}/s", grouped(self.limit.per_s)));
        let label = Text { y: y + 16.0, fill: PALE_INK, ..label };
        label.push(svg, "not asked");
    }

    fn draw_curve(&self, svg: &mut String) {
        let (left, right) = RIGHT_PANEL;
        let Bucket { per_s, burst } = self.limit;
        let points = self.passed_by();
        let may_pass = burst as f64 + per_s as f64 * self.seconds as f64;
        let passed = points.last().copied().unwrap_or(0) as f64;
        let panel = self.panel(left, right, may_pass.max(passed));
        Text { weight: 600, ..Text::at(left - 40.0, 110.0) }.push(svg, "Passed since the start");
        panel.draw_axes(svg);

        let mut line = format!("M{left:.1} {:.1}", panel.bottom);
        for (number, &passed) in (1..).zip(&points) {
            let (x, y) = (panel.x_at(number * POINT_NS), panel.y(passed as f64));
            push(&mut line, format_args!("L{x:.1} {y:.1}"));
        }
        let (color, bottom) = (DOOR_STYLES[0].1, panel.bottom);
        push(
            svg,
            format_args!(
                "<path d=\"{line}V{bottom:.1}H{left:.1}Z\" fill=\"{color}\" fill-opacity=\".12\"/>\n\
                 <path d=\"{line}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>\n\
                 <path d=\"M{left:.1} {:.1}L{right:.1} {:.1}\" stroke=\"{INK}\" stroke-width=\"1.2\" \
                 stroke-dasharray=\"5 3\"/>\n",
                panel.y(burst as f64),
                panel.y(may_pass)
            ),
        );
        let most = format!("at most {} + {}/s × time", grouped(burst), grouped(per_s));
        Text::at(left + 10.0, TOP + 18.0).push(svg, &most);
        let end = Text { anchor: "end", fill: color, ..Text::at(right - 8.0, bottom - 12.0) };
        end.push(svg, &format!("{} passed", grouped(points.last().copied().unwrap_or(0))));
    }

    fn panel(&self, left: f64, right: f64, most: f64) -> Panel {
        Panel { left, right, top: TOP, bottom: BOTTOM, seconds: self.seconds as f64, most }
    }

    /// By tenth of a second. What was received later counts in the last.
    fn bars(&self) -> Vec<Bar> {
        let mut bars = vec![Bar::default(); steps(self.seconds, BAR_NS)];
        for (door, answers) in self.answers.iter().enumerate() {
            for answer in *answers {
                let bar = step_of(&mut bars, answer.received_ns / BAR_NS);
                bar.allowed[door] += answer.allowed;
                bar.denied += answer.denied;
            }
        }
        bars
    }

    /// What had passed by the end of each step of [`POINT_NS`].
    fn passed_by(&self) -> Vec<u64> {
        let mut passed = vec![0; steps(self.seconds, POINT_NS)];
        for answer in self.answers.iter().copied().flatten() {
            *step_of(&mut passed, answer.received_ns / POINT_NS) += answer.allowed;
        }
        let mut sum = 0;
        for count in &mut passed {
            sum += *count;
            *count = sum;
        }
        passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = NS_PER_S / 1000;

    fn answer(received_ms: u64, is_allowed: bool) -> Answer {
        Answer {
            sent_ns: received_ms * MS,
            received_ns: received_ms * MS,
            allowed: u64::from(is_allowed),
            denied: u64::from(!is_allowed),
        }
    }

    fn picture<'a>(answers: [&'a [Answer]; DOORS]) -> Picture<'a> {
        Picture {
            limit: Bucket { per_s: 20, burst: 4 },
            seconds: 4,
            checks_per_s: 100,
            pause_ns: (NS_PER_S, 2 * NS_PER_S),
            answers,
            fullest: Some(Window { from_ns: 0, to_ns: NS_PER_S, passed: 24 }),
            holds: true,
        }
    }

    /// The numbers behind every `x="` or `y="`, and in every path its corners.
    fn corners(svg: &str) -> Vec<(f64, f64)> {
        let number = |text: &str| text.parse::<f64>().unwrap();
        let attribute = |line: &str, name: &str| {
            let (_, rest) = line.split_once(&format!(" {name}=\""))?;
            rest.split_once('"').map(|(value, _)| number(value))
        };
        let mut corners = Vec::new();
        for line in svg.lines() {
            if let (Some(x), Some(y)) = (attribute(line, "x"), attribute(line, "y")) {
                corners.push((x, y));
            }
            let Some((_, path)) = line.split_once(" d=\"") else { continue };
            let (path, _) = path.split_once('"').unwrap();
            let (mut x, mut y) = (0.0, 0.0);
            let mut rest = path;
            while let Some(command) = rest.chars().next() {
                let end = rest[1..].find(char::is_alphabetic).map_or(rest.len(), |at| at + 1);
                let numbers: Vec<f64> = rest[1..end].split_whitespace().map(number).collect();
                match (command, numbers.as_slice()) {
                    ('M' | 'L', &[to_x, to_y]) => (x, y) = (to_x, to_y),
                    ('H', &[to_x]) => x = to_x,
                    ('V', &[to_y]) => y = to_y,
                    ('h', &[by]) => x += by,
                    ('z' | 'Z', &[]) => {}
                    other => panic!("{other:?}"),
                }
                corners.push((x, y));
                rest = &rest[end..];
            }
        }
        corners
    }

    #[test]
    fn a_bar_holds_what_was_received_in_its_tenth_of_a_second() {
        let udp = [answer(0, true), answer(99, false), answer(100, true), answer(9999, true)];
        let unix = [answer(50, true), answer(199, true)];
        let bars = picture([&udp, &unix, &[], &[], &[]]).bars();
        assert_eq!(bars.len(), 40);
        assert_eq!(bars[0], Bar { allowed: [1, 1, 0, 0, 0], denied: 1 });
        assert_eq!(bars[1], Bar { allowed: [1, 1, 0, 0, 0], denied: 0 });
        // Received after the end.
        assert_eq!(bars[39], Bar { allowed: [1, 0, 0, 0, 0], denied: 0 });
    }

    #[test]
    fn the_curve_is_what_passed_until_then_over_all_doors() {
        let udp = [answer(10, true), answer(30, false), answer(30, true)];
        let http = [answer(39, true), answer(3999, true)];
        let passed = picture([&udp, &[], &[], &http, &[]]).passed_by();
        assert_eq!(passed.len(), 200);
        assert_eq!(passed[..3], [1, 3, 3]);
        assert_eq!(passed[198..], [3, 4]);
    }

    #[test]
    fn everything_is_drawn_within_the_frame_whatever_was_answered() {
        let many: Vec<Answer> = (0..5000).map(|number| answer(number, number % 3 > 0)).collect();
        let few = [&[], &many[..1], &[], &[], &many[..7]];
        for answers in [[many.as_slice(); DOORS], [[].as_slice(); DOORS], few] {
            let svg = picture(answers).to_svg();
            for (x, y) in corners(&svg) {
                assert!((0.0..=f64::from(WIDTH)).contains(&x), "{x} {y}");
                assert!((0.0..=f64::from(HEIGHT)).contains(&y), "{x} {y}");
            }
            assert!(!svg.contains("NaN") && !svg.contains("inf"));
        }
    }

    #[test]
    fn the_same_answers_give_the_same_picture_which_says_what_passed() {
        let udp = [answer(10, true), answer(30, false)];
        let draw = || picture([&udp, &[], &[], &[], &udp]).to_svg();
        assert_eq!(draw(), draw());
        assert!(draw().contains("4 asked, 2 passed, never too many</text>"));
        assert!(draw().contains("24 passed in 1.00 s, where 24.00 may"));
        let broken = Picture { holds: false, ..picture([&udp, &[], &[], &[], &[]]) };
        assert!(broken.to_svg().contains("1 passed, too many</text>"));
    }
}
