//! The result table.

use std::io::Write;

use anyhow::Context as _;

/// Results by row and column.
#[derive(Debug, Default)]
pub(crate) struct Report {
    columns: Vec<&'static str>,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    name: String,
    unit: &'static str,
    more_is_better: bool,
    /// Upper bound of the value.
    budget: Option<f64>,
    values: Vec<f64>,
}

impl Report {
    /// Starts the results of another server.
    pub(crate) fn column(&mut self, name: &'static str) {
        self.columns.push(name);
    }

    pub(crate) fn more_is_better(&mut self, name: &str, unit: &'static str, value: f64) {
        self.add(name, unit, true, None, value);
    }

    pub(crate) fn less_is_better(&mut self, name: &str, unit: &'static str, value: f64) {
        self.add(name, unit, false, None, value);
    }

    /// Adds a value for which less is better, with its budget.
    pub(crate) fn at_most(&mut self, budget: f64, name: &str, unit: &'static str, value: f64) {
        self.add(name, unit, false, Some(budget), value);
    }

    fn add(
        &mut self,
        name: &str,
        unit: &'static str,
        more_is_better: bool,
        budget: Option<f64>,
        value: f64,
    ) {
        if let Some(row) = self.rows.iter_mut().find(|row| row.name == name) {
            row.values.push(value);
            return;
        }
        self.rows.push(Row {
            name: name.to_owned(),
            unit,
            more_is_better,
            budget,
            values: vec![value],
        });
    }

    /// Prints the table; the ratio is the factor by which the first server is better.
    pub(crate) fn print(&self) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        self.write(&mut out).context("writing the table")
    }

    fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        write!(out, "{:<28}", "")?;
        for column in &self.columns {
            write!(out, "{column:>26}")?;
        }
        if self.columns.len() > 1 {
            write!(out, "{:>12}", "better by")?;
        }
        if self.rows.iter().any(|row| row.budget.is_some()) {
            write!(out, "{:>26}", "budget")?;
        }
        writeln!(out)?;
        for row in &self.rows {
            write!(out, "{:<28}", row.name)?;
            for value in &row.values {
                write!(out, "{:>26}", format!("{value:.1} {}", row.unit))?;
            }
            if let [first, second] = row.values[..] {
                let ratio = if row.more_is_better {
                    first / second
                } else {
                    second / first
                };
                write!(out, "{:>12}", format!("{ratio:.1}x"))?;
            }
            if let Some(budget) = row.budget {
                // Only the first column has a budget; the others are references.
                let kept = row.values.first().is_some_and(|value| *value <= budget);
                let verdict = if kept { "kept" } else { "EXCEEDED" };
                let text = format!("{budget:.1} {}: {verdict}", row.unit);
                write!(out, "{text:>26}")?;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}
