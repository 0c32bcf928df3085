//! The page: pictures and figures for a grid of limits and traffics, all in one file that asks for nothing
//! else. Without its script the first picture is shown.

use std::fmt::Write;

use limiter::Rate;

use super::picture::{escaped, picture};
use super::report::Report;
use super::text::{duration_ms, period};
use crate::config::show_rate;
use crate::demo::words::grouped;

/// The limits of the grid: short, usual and long periods.
pub const GRID: [Rate; 3] = [
    Rate { count: 10, period_ns: 1_000_000_000 },
    Rate { count: 100, period_ns: 60_000_000_000 },
    Rate { count: 1_000, period_ns: 3_600_000_000_000 },
];

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The page of `reports`, of which the first is shown first.
pub fn page(reports: &[Report]) -> String {
    // Writing to a string does not fail.
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'unsafe-inline'; script-src 'unsafe-inline'\">\n<title>rlnode compare</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>The same traffic through every algorithm</h1>\n\
         <form hidden>\n<label>limit <select id=\"limit\"></select></label>\n\
         <label>traffic <select id=\"traffic\"></select></label>\n</form>\n"
    );
    reports.iter().for_each(|report| write_section(&mut html, report));
    let _ = write!(html, "<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
    html
}

fn write_section(html: &mut String, report: &Report) {
    let rate = Rate { count: report.limit, period_ns: report.period_ns };
    let limit = match report.burst == report.limit {
        true => show_rate(rate),
        false => format!("{}, burst {}", show_rate(rate), grouped(report.burst)),
    };
    let _ = writeln!(
        html,
        "<section data-limit=\"{}\" data-traffic=\"{}\">",
        escaped(&limit),
        escaped(&report.traffic)
    );
    html.push_str(&picture(report));
    let _ = writeln!(
        html,
        "<table>\n<tr><th></th><th>passed</th><th>denied</th><th>worst 1&nbsp;s</th>\
         <th>worst 2&nbsp;s</th><th>worst {}</th><th>denied for</th><th>told to wait</th><th>delay</th>\
         <th>bytes/key</th></tr>",
        escaped(&period(report.period_ns))
    );
    for algorithm in &report.algorithms {
        let _ = write!(html, "<tr><th>{}</th>", escaped(algorithm.algorithm));
        match (&algorithm.alone, &algorithm.refused) {
            (Some(figures), _) => {
                let delay = match figures.delayed {
                    0 => "-".to_owned(),
                    _ => format!("up to {}", duration_ms(figures.longest_delay_ms)),
                };
                for cell in [
                    grouped(figures.units),
                    grouped(figures.denied),
                    grouped(figures.worst_second),
                    grouped(figures.worst_two_seconds),
                    grouped(figures.worst_period),
                    duration_ms(figures.longest_denial_ms),
                    duration_ms(figures.longest_wait_ms),
                    delay,
                    grouped(figures.bytes_per_key),
                ] {
                    let _ = write!(html, "<td>{}</td>", escaped(&cell));
                }
            }
            (None, refused) => {
                let why = escaped(refused.as_deref().unwrap_or_default());
                let _ = write!(html, "<td colspan=\"9\" class=\"why\">cannot: {why}</td>");
            }
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</table>\n</section>\n");
}

#[cfg(test)]
mod tests {
    use sim::compare::{Algorithm, Numbers, Setup, Traffic, compare};

    use super::*;

    fn report(rate: Rate, traffic: Traffic) -> Report {
        let numbers = Numbers { rate, burst: rate.count };
        let algorithms = Algorithm::ALL.to_vec();
        let setup = Setup { numbers, traffic, seed: 1, algorithms };
        let found = compare(&setup).expect("traffic");
        Report::new(traffic.name().to_owned(), &numbers, &found)
    }

    #[test]
    fn the_page_of_the_whole_grid_is_small_and_asks_for_nothing() {
        let reports =
            GRID.iter().flat_map(|rate| Traffic::ALL.map(|traffic| report(*rate, traffic)));
        let reports: Vec<_> = reports.collect();
        let html = page(&reports);
        assert_eq!(html.matches("<section ").count(), GRID.len() * Traffic::ALL.len());
        assert_eq!(html.matches("<svg ").count(), reports.len());
        // A name in XML that looks like an address and is none.
        let html = html.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        for word in ["http:", "https:", "src=", "href=", "url(", "@import", "fetch", "import("] {
            assert!(!html.contains(word), "{word}");
        }
        assert!(html.len() < 500_000, "{} bytes", html.len());
    }

    #[test]
    fn without_its_script_the_first_section_is_shown_alone() {
        let html = page(&[report(GRID[1], Traffic::WindowEdge), report(GRID[1], Traffic::Burst)]);
        assert!(html.contains("section { display: none; }"));
        assert!(html.contains("section:first-of-type"));
        assert!(html.contains("<form hidden>"), "what does nothing is not shown");
        let first = html.find("data-traffic=").expect("a section");
        assert!(
            html[first..].starts_with("data-traffic=\"window-edge\""),
            "{}",
            &html[first..first + 40]
        );
    }

    #[test]
    fn text_of_a_trace_cannot_end_its_place() {
        let mut report = report(GRID[0], Traffic::Burst);
        report.traffic = "\"><script>alert(1)</script>".to_owned();
        assert_eq!(page(&[report]).matches("<script>").count(), 1);
    }
}
