//! Output formats, tables, remarks and confirmation prompts.

mod format;

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;

pub(crate) use self::format::{Format, FormatParser, TemplateArguments};

use crate::exit;
use crate::terminal::{Colour, Tone};

/// Machine-readable output formats of commands that have no tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Data {
    Json,
    Yaml,
}

/// Output formats of commands that list objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    Wide,
    Json,
    Yaml,
    Name,
}

/// Output formats of commands where the table itself has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableForm {
    Table,
    Wide,
    Json,
    Yaml,
}

/// Output formats of a command, some of which are for machines.
pub(crate) trait OutputForm: ValueEnum + Copy + Send + Sync + 'static {
    /// The machine-readable format, if it is one.
    fn data(self) -> Option<Data>;
}

impl OutputForm for Data {
    fn data(self) -> Option<Data> {
        Some(self)
    }
}

impl OutputForm for Form {
    fn data(self) -> Option<Data> {
        match self {
            Self::Wide | Self::Name => None,
            Self::Json => Some(Data::Json),
            Self::Yaml => Some(Data::Yaml),
        }
    }
}

impl OutputForm for TableForm {
    fn data(self) -> Option<Data> {
        match self {
            Self::Table | Self::Wide => None,
            Self::Json => Some(Data::Json),
            Self::Yaml => Some(Data::Yaml),
        }
    }
}

impl Data {
    /// Serializes a value in this format.
    pub(crate) fn write(self, value: &impl Serialize) -> anyhow::Result<String> {
        let value = serde_json::to_value(value).context("serializing the result")?;
        match self {
            Self::Json => Ok(format!("{value:#}\n")),
            Self::Yaml => serde_saphyr::to_string(&value).context("writing the result as YAML"),
        }
    }
}

/// The `-o` flag of commands that print text for people or data for scripts.
#[derive(Debug, Args)]
pub(crate) struct OutputArguments {
    /// Output format; also jsonpath=TEMPLATE, jsonpath-file=FILE, jsonpath-as-json=TEMPLATE,
    /// custom-columns=HEADER:PATH,... and custom-columns-file=FILE.
    /// [default: human-readable text]
    #[arg(short, long, value_parser = FormatParser::<Data>::new())]
    output: Option<Format<Data>>,

    #[command(flatten)]
    template: TemplateArguments,
}

impl OutputArguments {
    /// The result in the chosen format.
    pub(crate) fn write(
        &self,
        value: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<String> {
        match self.output.as_ref().and_then(Format::data) {
            Some(data) => data.write(value, &self.template),
            None => Ok(text()),
        }
    }

    /// Whether the output is data for scripts.
    pub(crate) fn is_data(&self) -> bool {
        self.output.is_some()
    }

    /// Prints the result in the chosen format.
    pub(crate) fn print(
        &self,
        value: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        exit::print(&self.write(value, text)?)
    }
}

/// The `-o` flag of commands that list objects, and flags of their tables.
#[derive(Debug, Args)]
pub(crate) struct ListOutputArguments {
    /// Output format; also jsonpath=TEMPLATE, jsonpath-file=FILE, jsonpath-as-json=TEMPLATE,
    /// custom-columns=HEADER:PATH,... and custom-columns-file=FILE.
    /// [default: table]
    #[arg(short, long, value_parser = FormatParser::<Form>::new())]
    output: Option<Format<Form>>,

    /// Print no headers.
    #[arg(long)]
    no_headers: bool,

    #[command(flatten)]
    template: TemplateArguments,
}

impl ListOutputArguments {
    /// The format, if it is not machine-readable; `None` for the table.
    pub(crate) fn form(&self) -> Option<Form> {
        self.output.as_ref().and_then(Format::named)
    }

    /// Whether a machine-readable format is chosen.
    pub(crate) fn is_data(&self) -> bool {
        self.output.as_ref().is_some_and(|it| it.data().is_some())
    }

    /// The value in a machine-readable format; `None` if another is chosen.
    pub(crate) fn data(
        &self,
        value: impl FnOnce() -> serde_json::Value,
    ) -> anyhow::Result<Option<String>> {
        let data = self.output.as_ref().and_then(Format::data);
        let template = self.template.clone().without_headers(self.no_headers);
        data.map(|data| data.write(&value(), &template)).transpose()
    }

    /// A table, with or without its headers.
    pub(crate) fn table<R: Into<Vec<String>>>(
        &self,
        headers: &[&str],
        rows: impl IntoIterator<Item = R>,
    ) -> String {
        let text = table(headers, rows);
        match text.split_once('\n') {
            Some((_, rows)) if self.no_headers => rows.to_owned(),
            _ => text,
        }
    }
}

/// The `--yes` flag of commands that ask before they change anything.
#[derive(Debug, Args)]
pub(crate) struct ConfirmArguments {
    /// Do not ask for confirmation.
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// Rows under headers, aligned as in kubectl. Empty cells read `<none>`.
pub(crate) fn table<R: Into<Vec<String>>>(
    headers: &[&str],
    rows: impl IntoIterator<Item = R>,
) -> String {
    let mut all: Vec<Vec<String>> = vec![headers.iter().map(|&it| it.to_owned()).collect()];
    all.extend(rows.into_iter().map(Into::into));
    for cell in all.iter_mut().flatten().filter(|cell| cell.is_empty()) {
        "<none>".clone_into(cell);
    }
    let mut widths = vec![0; headers.len()];
    for row in &all {
        for (width, cell) in widths.iter_mut().zip(row) {
            // Characters and not bytes, so that names with umlauts do not shift the columns.
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

/// A List of kubectl: `kind: List` with its items.
pub(crate) fn list(items: &impl Serialize) -> serde_json::Value {
    serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

/// Lines under a title; empty if there are none.
pub(crate) fn section(title: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = lines.iter().map(|line| format!("  {line}\n")).collect();
    format!("\n{title}:\n{}", lines.concat())
}

/// A state, its reasons, and the next steps.
pub(crate) fn explanation(state: &str, because: &[String], next: &[String]) -> String {
    let (because, next) = (section("Because", because), section("Next", next));
    format!("{state}\n{because}{next}")
}

/// `s` unless there is exactly one.
pub(crate) fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// The beginning of a digest, as tables show it.
pub(crate) fn short_digest(digest: &str) -> String {
    let hex = digest.strip_prefix("sha256:").unwrap_or(digest);
    hex.chars().take(12).collect()
}

/// A diff, in colours on a terminal unless NO_COLOR is set.
pub(crate) fn diff(text: &str) -> String {
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

impl ConfirmArguments {
    /// Asks for confirmation; an error if it is denied, or if standard input is not a terminal.
    pub(crate) fn ask(&self, question: &str) -> anyhow::Result<()> {
        if self.yes {
            return Ok(());
        }
        let input = std::io::stdin();
        // Reading from a pipe would take its first line for the answer.
        if !input.is_terminal() {
            bail!(
                "cannot ask for confirmation: standard input is not a terminal; use --yes to skip the prompt"
            );
        }
        // The question goes to standard error: standard output may be redirected to a file.
        let mut error = std::io::stderr();
        write!(error, "{question} [y/N] ")
            .and_then(|()| error.flush())
            .context("prompting for confirmation")?;
        let mut answer = String::new();
        let read = input.lock().read_line(&mut answer);
        read.context("reading the answer")?;
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => bail!("canceled: nothing was changed"),
        }
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
            table(&["NAME", "X"], rows),
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
