//! Output formats and confirmation prompts.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use serde_json::Value;

use crate::terminal::{Colour, Tone};

/// Machine-readable output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Data {
    Json,
    Yaml,
}

/// Output formats of commands that print tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    Table,
    Wide,
    Json,
    Yaml,
}

impl Form {
    /// The machine-readable format, if it is one.
    pub(super) fn data(self) -> Option<Data> {
        match self {
            Self::Table | Self::Wide => None,
            Self::Json => Some(Data::Json),
            Self::Yaml => Some(Data::Yaml),
        }
    }
}

impl Data {
    /// Serializes a value in this format.
    pub(crate) fn write(self, value: &Value) -> anyhow::Result<String> {
        match self {
            Self::Json => Ok(format!("{value:#}\n")),
            Self::Yaml => serde_saphyr::to_string(value).context("writing the result as YAML"),
        }
    }
}

/// Rows under headers, aligned as kubectl does it. Empty cells read `<none>`.
pub(crate) fn table<const N: usize>(headers: [&str; N], rows: Vec<[String; N]>) -> String {
    table_of(&headers, rows.into_iter().map(Vec::from).collect())
}

/// The same for any number of columns; every row has as many cells as there are headers.
pub(crate) fn table_of(headers: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut all = vec![headers.iter().map(|&header| header.to_owned()).collect()];
    all.extend(rows.into_iter().map(|row| {
        let cells = row.into_iter().map(|cell| {
            if cell.is_empty() {
                "<none>".to_owned()
            } else {
                cell
            }
        });
        cells.collect::<Vec<String>>()
    }));
    let mut widths = vec![0; headers.len()];
    for row in &all {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in all {
        let cells = row.iter().zip(&widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        text.push_str(cells.join("   ").trim_end());
        text.push('\n');
    }
    text
}

/// The beginning of a digest, as tables show it.
pub(crate) fn short_digest(digest: &str) -> String {
    let hex = digest.strip_prefix("sha256:").unwrap_or(digest);
    hex.chars().take(12).collect()
}

/// A diff, in colours on a terminal unless NO_COLOR is set.
pub(super) fn diff(text: &str) -> String {
    if Colour::Auto.is_on() {
        coloured(text)
    } else {
        text.to_owned()
    }
}

fn coloured(text: &str) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let (body, end) = line
            .strip_suffix('\n')
            .map_or((line, ""), |body| (body, "\n"));
        let tone = match body {
            _ if body.starts_with("---") || body.starts_with("+++") => Tone::Heading,
            _ if body.starts_with("@@") => Tone::Position,
            _ if body.starts_with('+') => Tone::Added,
            _ if body.starts_with('-') => Tone::Removed,
            _ => {
                out.push_str(line);
                continue;
            }
        };
        out.push_str(&tone.paint(body, true));
        out.push_str(end);
    }
    out
}

/// Prints a remark to standard error.
pub(crate) fn remark(text: &str) {
    // A closed standard error does not stop the command.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Asks for confirmation; an error if it is denied, or if standard input is not a terminal.
pub(super) fn confirm(question: &str, yes: bool) -> anyhow::Result<()> {
    if yes {
        return Ok(());
    }
    let input = std::io::stdin();
    if !input.is_terminal() {
        bail!(
            "cannot ask for confirmation: standard input is not a terminal; use --yes to skip the prompt"
        );
    }
    let mut error = std::io::stderr();
    write!(error, "{question} [y/N] ")
        .and_then(|()| error.flush())
        .context("asking")?;
    let mut answer = String::new();
    input
        .lock()
        .read_line(&mut answer)
        .context("reading the answer")?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => bail!("nothing was changed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_empty_cells_read_none() {
        let rows = vec![
            ["a".to_owned(), "1".to_owned()],
            ["longer".to_owned(), String::new()],
        ];
        assert_eq!(
            table(["NAME", "X"], rows),
            "NAME     X\na        1\nlonger   <none>\n"
        );
    }

    #[test]
    fn lines_of_a_diff_have_colours() {
        let text = "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n z\n";
        assert_eq!(
            coloured(text),
            "\u{1b}[1m--- a\u{1b}[0m\n\u{1b}[1m+++ b\u{1b}[0m\n\u{1b}[36m@@ -1 +1 @@\u{1b}[0m\n\u{1b}[31m-x\u{1b}[0m\n\u{1b}[32m+y\u{1b}[0m\n z\n"
        );
    }
}
