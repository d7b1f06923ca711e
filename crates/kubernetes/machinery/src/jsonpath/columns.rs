//! `-o custom-columns` of kubectl (`kubectl/pkg/cmd/get/customcolumn.go`).

use std::fmt::Write as _;

use serde_json::Value;

use super::print::printed;
use super::{MissingFields, Template, TemplateError};

/// The least width of a column, with the space after it, and that space. The values of kubectl's tabwriter.
const MIN_WIDTH: usize = 6;
const PADDING: usize = 3;

/// Columns with a header and a path each.
#[derive(Debug, Clone, PartialEq)]
pub struct CustomColumns {
    columns: Vec<(String, Template)>,
}

/// Why columns cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ColumnsError {
    /// There are none.
    #[error("custom-columns format specified but no custom columns given")]
    Empty,
    /// A column without a header.
    #[error("unexpected custom-columns spec: {0}, expected <header>:<json-path-expr>")]
    Spec(String),
    /// A path that is none.
    #[error(
        "unexpected path string {0}, expected a 'name1.name2' or '.name1.name2' or '{{name1.name2}}' or '{{.name1.name2}}'"
    )]
    Path(String),
    /// A path that cannot be parsed.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// A file without the two lines.
    #[error(
        "custom-columns file: expected a line of headers and a line of as many paths, found {headers} headers and {paths} paths"
    )]
    Lines {
        /// The number of headers.
        headers: usize,
        /// The number of paths.
        paths: usize,
    },
}

impl CustomColumns {
    /// Reads `NAME:.metadata.name,NODE:.spec.nodeName`.
    pub fn parse(text: &str) -> Result<Self, ColumnsError> {
        if text.is_empty() {
            return Err(ColumnsError::Empty);
        }
        let columns = text.split(',').map(|spec| {
            let wrong = || ColumnsError::Spec(spec.to_owned());
            let (header, path) = spec.split_once(':').ok_or_else(wrong)?;
            Ok((header.to_owned(), relaxed(path)?))
        });
        Ok(Self {
            columns: columns.collect::<Result<_, ColumnsError>>()?,
        })
    }

    /// Reads a file: a line with headers, and a line with paths.
    pub fn parse_file(text: &str) -> Result<Self, ColumnsError> {
        let mut lines = text.lines();
        let mut words = || -> Vec<&str> {
            let line = lines.next().unwrap_or_default();
            line.split_whitespace().collect()
        };
        let (headers, paths) = (words(), words());
        if headers.is_empty() || headers.len() != paths.len() {
            return Err(ColumnsError::Lines {
                headers: headers.len(),
                paths: paths.len(),
            });
        }
        let columns = headers.into_iter().zip(paths);
        let columns = columns.map(|(header, path)| Ok((header.to_owned(), relaxed(path)?)));
        Ok(Self {
            columns: columns.collect::<Result<_, ColumnsError>>()?,
        })
    }

    /// The headers.
    pub fn headers(&self) -> Vec<String> {
        self.columns.iter().map(|it| it.0.clone()).collect()
    }

    /// The cells of an object.
    pub fn row(&self, object: &Value) -> Result<Vec<String>, TemplateError> {
        let columns = self.columns.iter();
        columns.map(|(_, path)| cell(path, object)).collect()
    }
}

/// A path with or without braces and the first dot.
fn relaxed(text: &str) -> Result<Template, ColumnsError> {
    let wrong = || ColumnsError::Path(text.to_owned());
    let inside = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}').ok_or_else(wrong)?,
        None => text,
    };
    let inside = inside.strip_prefix('.').unwrap_or(inside);
    if text.is_empty() {
        return Ok(Template::parse("")?);
    }
    if inside.is_empty() || inside.contains(['{', '}']) {
        return Err(wrong());
    }
    Ok(Template::parse(&format!("{{.{inside}}}"))?)
}

fn cell(path: &Template, object: &Value) -> Result<String, TemplateError> {
    let found = path.find(object, MissingFields::Ignore)?;
    let values: Vec<String> = found.into_iter().flatten().map(printed).collect();
    Ok(if values.is_empty() {
        "<none>".to_owned()
    } else {
        values.join(",")
    })
}

/// Rows as kubectl's tabwriter aligns them. The last cell of a row is not padded.
pub fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter(|row| row.len() > column + 1);
        let cells = cells.filter_map(|row| row.get(column));
        let widest = cells.map(|it| it.chars().count()).max().unwrap_or_default();
        (widest + PADDING).max(MIN_WIDTH)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let width = if at + 1 == row.len() { 0 } else { *width };
            // Writing to a string cannot fail.
            let _ = write!(text, "{cell:<width$}");
        }
        text.push('\n');
    }
    text
}
