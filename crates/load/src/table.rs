//! A plain-text table: one header row, columns as wide as they must be.

use std::fmt;

/// Rows of text under a header. The first column is flush left, the others flush right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these columns.
    #[must_use]
    pub fn new<S: Into<String>>(header: impl IntoIterator<Item = S>) -> Self {
        Self {
            header: header.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row. Missing cells stay empty; cells beyond the header are dropped.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) -> &mut Self {
        let mut cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        cells.resize(self.header.len(), String::new());
        self.rows.push(cells);
        self
    }

    fn lines(&self) -> impl Iterator<Item = &Vec<String>> {
        std::iter::once(&self.header).chain(&self.rows)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            self.lines()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or_default()
        };
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        for (number, row) in self.lines().enumerate() {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                if column == 0 {
                    line.push_str(&format!("{cell:<width$}"));
                } else {
                    line.push_str(&format!("  {cell:>width$}"));
                }
            }
            writeln!(f, "{}", line.trim_end())?;
            if number == 0 {
                let rule: usize = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
                writeln!(f, "{}", "-".repeat(rule))?;
            }
        }
        Ok(())
    }
}

/// `1234567` as `1,234,567`.
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Microseconds as a person reads them.
pub(crate) fn human(us: u64) -> String {
    // A figure for people: exact beyond any digit that is shown.
    #[allow(clippy::cast_precision_loss)]
    let us = us as f64;
    match us {
        _ if us < 100_000.0 => format!("{:.2} ms", us / 1e3),
        _ if us < 1_000_000.0 => format!("{:.0} ms", us / 1e3),
        _ => format!("{:.2} s", us / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["phase", "requests", "p50"]);
        table.row(["before", &grouped(1_234_567), &human(430)]);
        table.row(["during", "7"]);
        assert_eq!(
            table.to_string(),
            "phase    requests      p50\n\
             --------------------------\n\
             before  1,234,567  0.43 ms\n\
             during          7\n"
        );
    }

    #[test]
    fn figures_for_people() {
        let cases = [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (100_000, "100,000"),
        ];
        for (n, text) in cases {
            assert_eq!(grouped(n), text);
        }
        assert_eq!(
            [human(1), human(99_999), human(100_000), human(2_500_000)],
            ["0.00 ms", "100.00 ms", "100 ms", "2.50 s"]
        );
    }
}
