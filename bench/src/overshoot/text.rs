//! The report of `rlbench overshoot` for people: a row for each contender, the worst of its runs.

use std::fmt;

use sim::Algorithm;

use super::fleet::Exchange;
use super::measure::{Figures, OfNode};
use super::report::{Method, Overshoot, Run, Side};
use crate::report::{Table, decimals};

impl fmt::Display for Overshoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> =
            self.contenders.iter().map(|side| format!("{} {}", side.name, side.version)).collect();
        writeln!(f, "{} on {}", names.join(", "), self.machine)?;
        writeln!(f, "{}", self.method)?;
        for skipped in &self.skipped {
            writeln!(f, "SKIPPED {}: {}", skipped.name, skipped.why)?;
        }
        let parts = [
            ("more than may pass", self.excess()),
            ("less than might pass", self.usage()),
            ("time", self.waits()),
            ("as sent", self.sending()),
        ];
        for (heading, table) in parts {
            write!(f, "\n{heading}\n{table}")?;
        }
        if let Some(side) = self.contenders.first() {
            write!(f, "\nnodes of {}, all runs\n{}", side.name, nodes(side))?;
        }
        self.write_remarks(f)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.workload.as_str();
        writeln!(f, "{name}: {}", self.workload.help().replace('\n', " "))?;
        write!(
            f,
            "{} nodes, one limit of {}/s with a burst of {}",
            self.members, self.limit.per_s, self.limit.burst
        )?;
        if self.algorithm != Algorithm::TokenBucket.as_str() {
            write!(f, ", counted as a {}", self.algorithm)?;
        }
        if let Some(load) = self.load {
            write!(f, ", load {load} x the rate")?;
        }
        if let Some(interval_ms) = self.interval_ms {
            write!(f, ", exchange every {interval_ms} ms")?;
        }
        write!(f, "; {} run(s) of {} s from seed {}", self.runs, self.seconds, self.seed)?;
        if !self.trouble.is_empty() {
            write!(f, "\ntrouble, for rlnode only: {}", self.trouble)?;
        }
        Ok(())
    }
}

impl Overshoot {
    fn rows(&self, headings: &[&str], cells: impl Fn(&Side) -> Vec<String>) -> Table {
        let mut table = Table::new(1, headings);
        for side in &self.contenders {
            table.row(std::iter::once(side.name.to_owned()).chain(cells(side)).collect());
        }
        table
    }

    fn excess(&self) -> Table {
        let seconds: Vec<u64> =
            self.contenders.first().and_then(|side| side.runs.first()).map_or(Vec::new(), |run| {
                run.figures.excess.fixed.iter().map(|fixed| fixed.seconds).collect()
            });
        let fixed: Vec<_> = seconds.iter().map(|s| format!("any {s} s, %")).collect();
        let mut headings =
            vec!["", "excess, units", "% of burst", "in s", "by receipt, units", "% of burst"];
        headings.extend(fixed.iter().map(String::as_str));
        self.rows(&headings, |side| {
            let runs = || side.runs.iter().map(|run| &run.figures.excess);
            let certain =
                runs().filter_map(|e| e.certain).max_by(|a, b| a.units.total_cmp(&b.units));
            let receipt =
                runs().filter_map(|e| e.by_receipt).max_by(|a, b| a.units.total_cmp(&b.units));
            let mut cells = match (certain, receipt) {
                (Some(certain), Some(receipt)) => vec![
                    format!("{:.2}", certain.units),
                    format!("{:.2}", certain.percent_of_burst),
                    format!("{:.3}", certain.window_s),
                    format!("{:.2}", receipt.units),
                    format!("{:.2}", receipt.percent_of_burst),
                ],
                _ => vec!["nothing passed".to_owned()],
            };
            for seconds in &seconds {
                let of_length = runs().flat_map(|e| &e.fixed).filter(|f| f.seconds == *seconds);
                cells.push(worst(of_length.map(|fixed| fixed.percent), "%+"));
            }
            cells
        })
    }

    fn usage(&self) -> Table {
        let has_quiet = self
            .contenders
            .iter()
            .flat_map(|s| &s.runs)
            .any(|r| r.figures.usage.quiet_percent.is_some());
        let mut headings = vec![
            "",
            "allowed",
            "denied",
            "central allows",
            "use %",
            "1st s %",
            "false denials",
            "for share",
            "Jain",
            "starved ms",
        ];
        headings.extend(has_quiet.then_some("quiet %"));
        self.rows(&headings, |side| {
            let runs = || side.runs.iter().map(|run| &run.figures.usage);
            let mut cells = vec![
                runs().map(|u| u.allowed).sum::<u64>().to_string(),
                runs().map(|u| u.denied).sum::<u64>().to_string(),
                runs().map(|u| u.central_allowed).sum::<u64>().to_string(),
                least(runs().map(|u| u.percent), 2),
                least(runs().map(|u| u.first_second_percent), 2),
                runs().map(|u| u.false_denials).sum::<u64>().to_string(),
                runs().map(|u| u.share_denied).sum::<u64>().to_string(),
                least(runs().filter_map(|u| u.jain), 3),
                worst(runs().map(|u| u.starved_ms), ""),
            ];
            if has_quiet {
                cells.push(least(runs().filter_map(|u| u.quiet_percent), 2));
            }
            cells
        })
    }

    fn waits(&self) -> Table {
        let headings = [
            "",
            "allowed p50 ms",
            "p99 ms",
            "longest ms",
            "> 1 ms",
            "p50 ms",
            "p99 ms",
            "held",
            "batches/s",
            "kB/s",
            "relayed/s",
            "relayed kB/s",
        ];
        self.rows(&headings, |side| {
            let runs = || side.runs.iter().map(|run| &run.figures.waits);
            let mut cells = vec![
                worst(runs().map(|w| w.p50_ms), ""),
                worst(runs().map(|w| w.p99_ms), ""),
                worst(runs().map(|w| w.max_ms), ""),
                runs().map(|w| w.waited).sum::<u64>().to_string(),
                worst(runs().map(|w| w.waited_p50_ms), ""),
                worst(runs().map(|w| w.waited_p99_ms), ""),
            ];
            let seconds = (self.method.seconds * self.method.runs) as f64;
            cells.extend(exchange_cells(side, seconds));
            cells
        })
    }

    fn sending(&self) -> Table {
        let headings = [
            "",
            "asked",
            "in time",
            "unsent",
            "unanswered",
            "errors",
            "late p50 ms",
            "p99 ms",
            "longest ms",
            "bursts sent in ms",
            "decided in ms",
        ];
        self.rows(&headings, |side| {
            let runs = || side.runs.iter().map(|run| &run.figures.sending);
            let bursts = || side.runs.iter().flat_map(|run| &run.figures.bursts);
            vec![
                runs().map(|s| s.asked).sum::<u64>().to_string(),
                runs().map(|s| s.in_time).sum::<u64>().to_string(),
                runs().map(|s| s.unsent).sum::<u64>().to_string(),
                runs().map(|s| s.unanswered).sum::<u64>().to_string(),
                runs().map(|s| s.failed).sum::<u64>().to_string(),
                worst(runs().map(|s| s.late_p50_ms), ""),
                worst(runs().map(|s| s.late_p99_ms), ""),
                worst(runs().map(|s| s.late_max_ms), ""),
                worst(bursts().map(|spread| spread.sent_ms), ""),
                worst(bursts().map(|spread| spread.decided_ms), ""),
            ]
        })
    }

    fn write_remarks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nOf several runs the worst is shown, or the sum of what is counted. Excess is that of the \
             fullest\nof all windows over burst + rate x length (of another algorithm, over what that \
             allows), where a\ndecision counts only in windows that it was in for certain, from sending to \
             receipt; `any N s`: of\nwindows of that length, in % of what may pass."
        )?;
        for side in &self.contenders {
            for Run { seed, remarks, .. } in &side.runs {
                for remark in remarks {
                    writeln!(f, "{}, seed {seed}: {remark}", side.name)?;
                }
            }
        }
        match self.counts() {
            true if self.method.interval_ms.is_some() => {
                write!(f, "no node lost another unplanned, and all answered: the figures count")
            }
            true => write!(f, "all answered, and none while it missed others: the figures count"),
            false => write!(f, "the figures DO NOT COUNT"),
        }
    }
}

fn exchange_cells(side: &Side, seconds: f64) -> Vec<String> {
    let all = || side.runs.iter().filter_map(|run| run.exchange);
    let sum = |count: fn(Exchange) -> u64| all().map(count).sum::<u64>();
    let maybe = |count: fn(Exchange) -> Option<u64>, per: f64| {
        let sum = all().filter_map(count).fold(None, |sum, n| Some(sum.unwrap_or(0) + n));
        sum.map_or_else(|| "-".to_owned(), |sum| decimals(sum as f64 / seconds / per))
    };
    if all().next().is_none() {
        return vec!["-".to_owned(); 5];
    }
    vec![
        sum(|exchange| exchange.held).to_string(),
        decimals(sum(|exchange| exchange.batches) as f64 / seconds),
        decimals(sum(|exchange| exchange.bytes) as f64 / seconds / 1e3),
        maybe(|exchange| exchange.datagrams, 1.0),
        maybe(|exchange| exchange.datagram_bytes, 1e3),
    ]
}

fn nodes(side: &Side) -> Table {
    let mut table =
        Table::new(1, &["node", "asked", "allowed", "denied", "central allows", "allowed %"]);
    let figures = || side.runs.iter().map(|run| &run.figures);
    let count = figures().next().map_or(0, |figures: &Figures| figures.nodes.len());
    for node in 0..count {
        let sum = |part: fn(&OfNode) -> u64| {
            figures().filter_map(|f| f.nodes.get(node)).map(part).sum::<u64>()
        };
        let (allowed, denied) = (sum(|node| node.allowed), sum(|node| node.denied));
        let percent = allowed as f64 * 100.0 / (allowed + denied).max(1) as f64;
        table.row(vec![
            super::trouble::name(node),
            sum(|node| node.asked).to_string(),
            allowed.to_string(),
            denied.to_string(),
            sum(|node| node.central_allowed).to_string(),
            format!("{percent:.1}"),
        ]);
    }
    table
}

/// The greatest of all, with a sign if it is `%+`; `-` of none.
fn worst(numbers: impl Iterator<Item = f64>, style: &str) -> String {
    match numbers.reduce(f64::max) {
        Some(number) if style == "%+" => format!("{number:+.2}"),
        Some(number) => decimals(number),
        None => "-".to_owned(),
    }
}

/// The least of all; `-` of none.
fn least(numbers: impl Iterator<Item = f64>, digits: usize) -> String {
    numbers.reduce(f64::min).map_or_else(|| "-".to_owned(), |number| format!("{number:.digits$}"))
}
