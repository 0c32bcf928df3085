//! The report of a load for people.

use std::fmt;

use super::{CellReport, Figures, Ratios, Report, Table, decimals};
use crate::load::{Claim, FloorResult, Role};

const BYTES_PER_MIB: f64 = 1024.0 * 1024.0;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_method(f)?;
        let of_role = |is_figure| {
            self.cells.iter().filter(move |cell| (cell.cell.role == Role::Figure) == is_figure)
        };
        let figures: Vec<_> = of_role(true).collect();
        if !figures.is_empty() {
            write!(f, "\n{}", self.table(&figures))?;
        }
        let of_floors: Vec<_> = of_role(false).collect();
        if !of_floors.is_empty() {
            write!(f, "\nfor the floors\n{}", self.table(&of_floors))?;
        }
        if self.subjects.iter().any(|subject| subject.memory.is_some()) {
            write!(f, "\n{}", self.memory())?;
        }
        if !self.floors.is_empty() {
            write!(f, "\n{}", floors(&self.floors))?;
        }
        Ok(())
    }
}

impl Report {
    fn write_method(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (method, machine) = (&self.method, &self.machine);
        let subjects: Vec<String> =
            self.subjects.iter().map(|s| format!("{} {}", s.name, s.version)).collect();
        writeln!(f, "{} on {machine}", subjects.join(" and "))?;
        let order = match method.zipf {
            Some(exponent) => format!("by Zipf's law with exponent {exponent}"),
            None => "uniformly chosen".into(),
        };
        writeln!(f, "{} keys of {} bytes, {order}", method.keys, method.key_bytes)?;
        let pace = match method.checks_per_s {
            Some(rate) => format!("open loop, {rate} checks/s, latency from when each was due"),
            None => "closed loop".into(),
        };
        writeln!(
            f,
            "{pace}; medians of {} runs of {} s in turn, each after {} s of warm-up",
            method.runs, method.seconds, method.warmup_seconds
        )?;
        match &method.pins {
            Some(pins) => writeln!(
                f,
                "servers on cpu {}, generator on cpu {} with {} thread(s)",
                pins.server, pins.client, method.threads
            ),
            None => writeln!(
                f,
                "not pinned: round trips depend on where the system puts both sides; \
                 generator with {} thread(s)",
                method.threads
            ),
        }
    }

    fn table(&self, cells: &[&CellReport]) -> Table {
        let is_open = self.method.checks_per_s.is_some();
        let mut headings = vec![
            "server",
            "door",
            "batch",
            "conns",
            "window",
            "checks/s",
            "p50 us",
            "p90 us",
            "p99 us",
            "p99.9 us",
            "max us",
            "server cpu us",
            "client cpu us",
            "denied",
            "errors",
        ];
        if is_open {
            headings.extend(["late p99 us", "unsent"]);
        }
        let mut table = Table::new(2, &headings);
        for report in cells {
            for (index, (subject, figures)) in self.subjects.iter().zip(&report.medians).enumerate()
            {
                let door = report.cell.door;
                let door = if index == 0 { door.as_str() } else { door.as_str_of_redis() };
                let mut row = vec![subject.name.to_owned(), door.to_owned()];
                row.extend(shape_cells(report));
                row.extend(figure_cells(figures, is_open));
                table.row(row);
            }
            if let Some(ratios) = report.node_to_redis {
                table.row(ratio_cells(&ratios));
            }
        }
        table
    }

    fn memory(&self) -> Table {
        let headings =
            ["server", "keys", "RSS before MiB", "RSS after MiB", "bytes/key", "at worst"];
        let mut table = Table::new(1, &headings);
        for subject in &self.subjects {
            if let Some(memory) = subject.memory {
                let mib = |bytes: u64| format!("{:.1}", bytes as f64 / BYTES_PER_MIB);
                table.row(vec![
                    subject.name.to_owned(),
                    memory.keys.to_string(),
                    mib(memory.rss_before_bytes),
                    mib(memory.rss_after_bytes),
                    decimals(memory.bytes_per_key),
                    decimals(memory.worst_bytes_per_key),
                ]);
            }
        }
        if let [Some(node), Some(redis)] =
            self.subjects.iter().map(|subject| subject.memory).collect::<Vec<_>>()[..]
        {
            let mut row = vec!["node / redis".to_owned()];
            row.extend(std::iter::repeat_n(String::new(), 3));
            row.push(decimals(node.bytes_per_key / redis.bytes_per_key));
            table.row(row);
        }
        table
    }
}

fn shape_cells(report: &CellReport) -> [String; 3] {
    let cell = &report.cell;
    [cell.batch.to_string(), cell.connections.to_string(), cell.window.to_string()]
}

fn figure_cells(figures: &Figures, is_open: bool) -> Vec<String> {
    let whole = |number: f64| format!("{number:.0}");
    let mut cells = vec![whole(figures.checks_per_s)];
    let times = [figures.p50_us, figures.p90_us, figures.p99_us, figures.p999_us, figures.max_us];
    cells.extend(times.map(decimals));
    cells.push(figures.server_cpu_us.map_or_else(|| "unknown".into(), decimals));
    cells.push(decimals(figures.client_cpu_us));
    cells.extend([figures.denied, figures.errors].map(whole));
    if is_open {
        cells.push(decimals(figures.late_p99_us));
        cells.push(whole(figures.unsent));
    }
    cells
}

/// A row that puts each ratio below the figures that it is of.
fn ratio_cells(ratios: &Ratios) -> Vec<String> {
    let times = |ratio: f64| format!("x {}", decimals(ratio));
    let none = String::new;
    vec![
        "node / redis".into(),
        none(),
        none(),
        none(),
        none(),
        times(ratios.checks_per_s),
        times(ratios.p50),
        none(),
        times(ratios.p99),
        none(),
        none(),
        ratios.server_cpu.map_or_else(none, times),
    ]
}

fn floors(floors: &[FloorResult]) -> Table {
    let mut table = Table::new(2, &["floor", "what", "target", "measured", "holds"]);
    for floor in floors {
        let target = match floor.claim {
            Claim::AtMost(bound) => format!("<= {}", decimals(bound)),
            Claim::AtLeast(bound) => format!(">= {}", decimals(bound)),
        };
        table.row(vec![
            floor.name.to_owned(),
            floor.what.to_owned(),
            target,
            floor.measured.map_or_else(|| "unknown".into(), decimals),
            if floor.holds { "yes" } else { "NO" }.to_owned(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_stands_below_the_figures_that_it_is_of() {
        let ratios = Ratios { checks_per_s: 3.0, p50: 0.5, p99: 0.6, server_cpu: Some(0.25) };
        let row = ratio_cells(&ratios);
        let shape_and_names = 5;
        let of_figures = figure_cells(&Figures::default(), false);
        assert_eq!(row[shape_and_names], "x 3.00");
        assert_eq!(row[shape_and_names + 1], "x 0.500");
        assert_eq!(row[shape_and_names + 3], "x 0.600");
        assert_eq!(row[shape_and_names + 6], "x 0.250");
        assert!(row.len() <= shape_and_names + of_figures.len());
        assert_eq!(of_figures[6], "unknown");
    }

    #[test]
    fn a_floor_says_whether_it_holds() {
        let floor = FloorResult {
            name: "G5",
            what: "p50",
            claim: Claim::AtMost(0.7),
            measured: Some(0.53),
            holds: true,
        };
        let lost = FloorResult { measured: None, holds: false, ..floor.clone() };
        let text = floors(&[floor, lost]).to_string();
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["G5", "p50", "<=", "0.700", "0.530", "yes"]);
        assert_eq!(lines[2], ["G5", "p50", "<=", "0.700", "unknown", "NO"]);
    }
}
