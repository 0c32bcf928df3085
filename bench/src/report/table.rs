//! Columns of text, aligned: the first ones to the left, numbers to the right.

use std::fmt;

/// Gap between columns.
const GAP: &str = "  ";

/// A table being filled row by row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// Columns that hold words; they come first.
    words: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings, of which the first `words` are above words.
    pub(crate) fn new(words: usize, headings: &[&str]) -> Self {
        Self { words, rows: vec![headings.iter().map(|&heading| heading.to_owned()).collect()] }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                let gap = if column > 0 { GAP } else { "" };
                line += gap;
                line += &if column < self.words {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// `number` with as many decimals as make three digits: `0.123`, `1.23`, `12.3`, `123`.
pub(crate) fn decimals(number: f64) -> String {
    let size = number.abs();
    let decimals = match size {
        _ if size < 0.9995 => 3,
        _ if size < 9.995 => 2,
        _ if size < 99.95 => 1,
        _ => 0,
    };
    format!("{number:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_left_and_numbers_right() {
        let mut table = Table::new(1, &["door", "us"]);
        table.row(vec!["seqpacket".into(), "7.5".into()]);
        table.row(vec!["udp".into(), "10.1".into()]);
        assert_eq!(table.to_string(), "door         us\nseqpacket   7.5\nudp        10.1\n");
    }

    #[test]
    fn numbers_have_three_digits() {
        for (number, text) in [
            (0.0, "0.000"),
            (0.1234, "0.123"),
            (0.9999, "1.00"),
            (1.234, "1.23"),
            (9.999, "10.0"),
            (99.99, "100"),
            (12345.6, "12346"),
        ] {
            assert_eq!(decimals(number), text);
        }
    }
}
