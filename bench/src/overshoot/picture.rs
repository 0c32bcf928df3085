//! The picture of limits being held or not, as SVG written by hand: beneath each other the contenders,
//! each with what passed at every node in each tenth of a second, and all that passed so far beside
//! what an exact central limiter lets through. The same answers give the same bytes.

use super::measure::central;
use super::report::{Run, Side};
use super::schedule::{Ask, Brief};
use crate::clock::NS_PER_S;
use crate::picture::{
    BAR_NS, INK, PALE_INK, Panel, Text, draw_card, draw_legend, grouped, push, step_of, steps,
};
use crate::window::Bucket;

const WIDTH: u32 = 860;
/// Height of title, subtitle and legend.
const HEAD: u32 = 106;
/// Height of a contender.
const ROW: u32 = 178;
const FOOT: u32 = 14;
/// Of the nodes in turn, told apart also by brightness.
const NODE_COLORS: [&str; 6] = ["#1d4e79", "#2f8f9d", "#8cb369", "#e9b44c", "#c8553d", "#7d5ba6"];
const OVER_COLOR: &str = "#b3261e";
const LEFT_PANEL: (f64, f64) = (50.0, 540.0);
const RIGHT_PANEL: (f64, f64) = (606.0, 832.0);
/// Time between two points of the curve.
const POINT_NS: u64 = NS_PER_S / 50;
/// Excess below this, in units, is none to speak of in a picture.
const SMALL_EXCESS: f64 = 0.5;

/// What is drawn: the first run of each contender.
#[derive(Clone, Copy, Debug)]
pub(super) struct Picture<'p> {
    /// What was asked.
    pub(super) brief: &'p Brief,
    /// The schedule of the first run.
    pub(super) asks: &'p [Ask],
    /// The contenders.
    pub(super) sides: &'p [Side],
}

/// What passed in the time of one bar, by node.
type Bar = Vec<u64>;

impl Picture<'_> {
    /// The picture.
    pub(super) fn to_svg(self) -> String {
        let rows: Vec<_> =
            self.sides.iter().filter_map(|side| Some((side, side.runs.first()?))).collect();
        let height = HEAD + ROW * u32::try_from(rows.len()).unwrap_or(1) + FOOT;
        let mut svg = String::new();
        self.draw_head(&mut svg, height);
        // One scale for all, so that bars can be compared.
        let bars: Vec<_> = rows.iter().map(|(_, run)| self.bars(run)).collect();
        let tallest = bars.iter().flatten().map(|bar| bar.iter().sum::<u64>()).max().unwrap_or(0);
        let curves: Vec<_> = rows.iter().map(|(_, run)| self.curves(run)).collect();
        let most = curves.iter().flatten().filter_map(|curve| curve.last()).max();
        let most = most.copied().unwrap_or(0).max(1) as f64;
        for (place, ((side, run), (bars, curves))) in
            (0..).zip(rows.iter().zip(bars.iter().zip(&curves)))
        {
            let top = f64::from(HEAD + ROW * place);
            draw_row_head(&mut svg, side, run, top);
            self.draw_bars(&mut svg, bars, tallest.max(1) as f64, top);
            self.draw_curves(&mut svg, curves, most, top);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn draw_head(&self, svg: &mut String, height: u32) {
        let Bucket { per_s, burst } = self.brief.limit;
        let members = self.brief.members;
        let title = format!("One limit on {members} nodes: what passed in each 100 ms, by node");
        draw_card(svg, WIDTH, height, &title);
        let heading = Text { size: 17, weight: 600, ..Text::at(20.0, 34.0) };
        heading.push(svg, &title);
        let checks: u64 = self.asks.iter().map(|ask| ask.checks).sum();
        let subtitle = format!(
            "Limit {}/s, burst {}; workload {}: {} checks in {} s, the same for all. Dashed: the limit.",
            grouped(per_s),
            grouped(burst),
            self.brief.workload.as_str(),
            grouped(checks),
            self.brief.seconds
        );
        Text { fill: PALE_INK, ..Text::at(20.0, 55.0) }.push(svg, &subtitle);
        let names: Vec<_> = (0..members).map(super::trouble::name).collect();
        let styles = names.iter().enumerate().map(|(node, name)| (name.as_str(), color(node)));
        draw_legend(svg, 20.0, 70.0, styles);
    }

    fn draw_bars(&self, svg: &mut String, bars: &[Bar], most: f64, top: f64) {
        let (left, right) = LEFT_PANEL;
        let panel = self.panel(left, right, most, top);
        panel.draw_axes(svg);
        let mut bottoms = vec![0; bars.len()];
        for node in 0..self.brief.members {
            panel.draw_layer(svg, color(node), &mut bottoms, bars.iter().map(|bar| bar[node]));
        }
        let per_bar = self.brief.limit.per_s as f64 * BAR_NS as f64 / NS_PER_S as f64;
        let y = panel.y(per_bar.min(most));
        push(
            svg,
            format_args!(
                "<path d=\"M{left:.1} {y:.1}H{right:.1}\" stroke=\"{INK}\" stroke-width=\"1.2\" \
                 stroke-dasharray=\"5 3\"/>\n"
            ),
        );
        let label = Text { anchor: "end", size: 11, ..Text::at(right, y - 4.0) };
        label.push(svg, &format!("{}/s", grouped(self.brief.limit.per_s)));
    }

    /// All that passed, filled, and what the central limiter lets through, dashed.
    fn draw_curves(&self, svg: &mut String, curves: &[Vec<u64>; 2], most: f64, top: f64) {
        let (left, right) = RIGHT_PANEL;
        let panel = self.panel(left, right, most, top);
        panel.draw_axes(svg);
        let [passed, central] = curves.each_ref().map(|points| line(&panel, points));
        let (color, bottom) = (NODE_COLORS[0], panel.bottom);
        push(
            svg,
            format_args!(
                "<path d=\"{passed}V{bottom:.1}H{left:.1}Z\" fill=\"{color}\" fill-opacity=\".12\"/>\n\
                 <path d=\"{passed}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>\n\
                 <path d=\"{central}\" fill=\"none\" stroke=\"{INK}\" stroke-width=\"1.2\" \
                 stroke-dasharray=\"5 3\"/>\n"
            ),
        );
        let last = |points: &[u64]| grouped(points.last().copied().unwrap_or(0));
        let end = Text { anchor: "end", size: 11, ..Text::at(right - 6.0, bottom - 24.0) };
        Text { fill: color, ..end }.push(svg, &format!("{} passed", last(&curves[0])));
        let end = Text { y: bottom - 9.0, ..end };
        end.push(svg, &format!("{} exact, central", last(&curves[1])));
    }

    fn panel(&self, left: f64, right: f64, most: f64, top: f64) -> Panel {
        let seconds = self.brief.seconds as f64;
        Panel { left, right, top: top + 30.0, bottom: top + 148.0, seconds, most }
    }

    /// By tenth of a second. What was received later counts in the last.
    fn bars(&self, run: &Run) -> Vec<Bar> {
        let mut bars = vec![vec![0; self.brief.members]; steps(self.brief.seconds, BAR_NS)];
        for (ask, seen) in self.asks.iter().zip(&run.seen) {
            if let Some(received_ns) = seen.received_ns {
                step_of(&mut bars, received_ns / BAR_NS)[ask.node] += seen.answered.allowed;
            }
        }
        bars
    }

    /// What had passed by the end of each step of [`POINT_NS`], here and at the central limiter.
    fn curves(&self, run: &Run) -> [Vec<u64>; 2] {
        let central = central(self.brief, run.unix_ns, self.asks, &run.seen);
        let mut curves = [(); 2].map(|()| vec![0; steps(self.brief.seconds, POINT_NS)]);
        for (seen, by_central) in run.seen.iter().zip(central) {
            if let (Some(sent_ns), Some(received_ns)) = (seen.sent_ns, seen.received_ns) {
                *step_of(&mut curves[0], received_ns / POINT_NS) += seen.answered.allowed;
                *step_of(&mut curves[1], sent_ns / POINT_NS) += by_central;
            }
        }
        for curve in &mut curves {
            let mut sum = 0;
            for count in curve {
                sum += *count;
                *count = sum;
            }
        }
        curves
    }
}

/// The contender, and its fullest window.
fn draw_row_head(svg: &mut String, side: &Side, run: &Run, top: f64) {
    let y = top + 16.0;
    let name = Text { weight: 600, size: 13, ..Text::at(20.0, y) };
    name.push(svg, &format!("{} {}", side.name, side.version));
    let (words, fill) = match run.figures.excess.certain {
        Some(over) if over.units > SMALL_EXCESS => {
            let percent = over.percent_of_burst;
            (
                format!(
                    "{:.0} too many in the fullest window: {percent:.0} % of the burst",
                    over.units
                ),
                OVER_COLOR,
            )
        }
        Some(_) => ("never too many".to_owned(), INK),
        None => ("nothing passed".to_owned(), INK),
    };
    let use_of = format!(
        "{words}; {:.1} % of what an exact, central limiter lets through",
        run.figures.usage.percent
    );
    Text { fill, anchor: "end", ..Text::at(RIGHT_PANEL.1, y) }.push(svg, &use_of);
}

fn color(node: usize) -> &'static str {
    NODE_COLORS[node % NODE_COLORS.len()]
}

fn line(panel: &Panel, points: &[u64]) -> String {
    let mut line = format!("M{:.1} {:.1}", panel.left, panel.bottom);
    for (number, &point) in (1..).zip(points) {
        let (x, y) = (panel.x_at(number * POINT_NS), panel.y(point as f64));
        push(&mut line, format_args!("L{x:.1} {y:.1}"));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::super::asker::Seen;
    use super::super::line::Answered;
    use super::super::measure::Figures;
    use super::super::report::Taken;
    use super::super::schedule::draw;
    use super::super::workload::Workload;
    use super::*;
    use sim::Algorithm;

    fn brief() -> Brief {
        let limit = Bucket { per_s: 50, burst: 10 };
        let algorithm = Algorithm::TokenBucket;
        Brief {
            workload: Workload::Steady,
            members: 3,
            algorithm,
            limit,
            load_permille: 2000,
            seconds: 2,
        }
    }

    /// Everything passes, or every other.
    fn side(brief: &Brief, asks: &[Ask], passes_all: bool) -> Side {
        let seen: Vec<_> = (0..)
            .zip(asks)
            .map(|(number, ask)| {
                let allowed = u64::from(passes_all || number % 2 == 0) * ask.checks;
                Seen {
                    sent_ns: Some(ask.at_ns),
                    received_ns: Some(ask.at_ns + 1000),
                    answered: Answered {
                        allowed,
                        denied: ask.checks - allowed,
                        ..Answered::default()
                    },
                }
            })
            .collect();
        let run = Run::new(Taken {
            seed: 1,
            unix_ns: 0,
            figures: Figures::of(brief, 0, asks, &seen),
            exchange: None,
            tells_splits: true,
            may_split: false,
            seen,
        });
        Side { name: "rlnode", version: "1".into(), runs: vec![run] }
    }

    #[test]
    fn a_bar_holds_what_passed_at_each_node() {
        let brief = brief();
        let asks = draw(&brief, 1);
        let side = side(&brief, &asks, true);
        let picture = Picture { brief: &brief, asks: &asks, sides: std::slice::from_ref(&side) };
        let bars = picture.bars(&side.runs[0]);
        assert_eq!(bars.len(), 20);
        let checks: u64 = asks.iter().map(|ask| ask.checks).sum();
        assert_eq!(bars.iter().flatten().sum::<u64>(), checks);
        let [passed, central] = picture.curves(&side.runs[0]);
        assert_eq!(passed.last(), Some(&checks));
        assert!(central.last().unwrap() < &checks);
        assert!(passed.is_sorted() && central.is_sorted());
    }

    #[test]
    fn contenders_stand_beneath_each_other_and_who_lets_too_many_pass_is_told() {
        let brief = brief();
        let asks = draw(&brief, 1);
        let sides = [side(&brief, &asks, false), side(&brief, &asks, true)];
        let picture = Picture { brief: &brief, asks: &asks, sides: &sides };
        let svg = picture.to_svg();
        assert_eq!(svg, picture.to_svg());
        assert_eq!(svg.matches("never too many").count(), 1, "{svg}");
        assert_eq!(svg.matches("too many in the fullest window").count(), 1);
        assert!(svg.contains(&format!("height=\"{}\"", HEAD + 2 * ROW + FOOT)));
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(!svg.contains("NaN") && !svg.contains("inf\""));
    }

    #[test]
    fn a_run_in_which_nothing_was_answered_is_drawn_too() {
        let brief = brief();
        let asks = draw(&brief, 1);
        let seen = vec![Seen::default(); asks.len()];
        let figures = Figures::of(&brief, 0, &asks, &seen);
        let mut side = side(&brief, &asks, true);
        side.runs = vec![Run::new(Taken {
            seed: 1,
            unix_ns: 0,
            figures,
            exchange: None,
            tells_splits: false,
            may_split: false,
            seen,
        })];
        let svg = Picture { brief: &brief, asks: &asks, sides: &[side] }.to_svg();
        assert!(svg.contains("nothing passed") && !svg.contains("NaN"));
    }
}
