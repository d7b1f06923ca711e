//! Templates of `-o jsonpath`: text with paths in braces, and `{range}` to `{end}`.

use serde_json::Value;

use super::eval::{self, MAX_RESULTS};
use super::parse::{self, Part};
use super::print::printed;
use super::{EvalError, MissingFields, ParseError};
use crate::json::to_string;

/// A compiled template.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    parts: Vec<Part>,
}

/// Why a template cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It cannot be parsed.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// It cannot be followed in this object.
    #[error(transparent)]
    Eval(#[from] EvalError),
    /// `{end}` without `{range}`.
    #[error("not in range, nothing to end")]
    End,
}

/// Progress through the parts, as upstream keeps it (`FindResults` in `client-go/util/jsonpath`).
#[derive(Default)]
struct Progress {
    /// The number of ranges that are open.
    ranges: usize,
    /// The `{end}` that was reached last.
    end: Option<usize>,
    /// The number of results so far.
    results: usize,
}

impl Template {
    /// Compiles a template.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        Ok(Self {
            parts: parse::template(text)?,
        })
    }

    /// The text of the template for an object.
    pub fn render(&self, data: &Value, missing: MissingFields) -> Result<String, TemplateError> {
        let mut text = String::new();
        for results in self.find(data, missing)? {
            let results: Vec<String> = results.into_iter().map(shown).collect();
            text.push_str(&results.join(" "));
        }
        Ok(text)
    }

    /// The results as JSON arrays, one for each part, as `-o jsonpath-as-json` prints them.
    pub fn render_json(
        &self,
        data: &Value,
        missing: MissingFields,
    ) -> Result<String, TemplateError> {
        let mut text = String::new();
        for results in self.find(data, missing)? {
            let results: Value = results.into_iter().cloned().collect();
            indented(&results, 0, &mut text);
            text.push('\n');
        }
        Ok(text)
    }

    /// The results of each part.
    pub(super) fn find<'a>(
        &'a self,
        data: &'a Value,
        missing: MissingFields,
    ) -> Result<Vec<Vec<&'a Value>>, TemplateError> {
        let mut found = Vec::new();
        let mut progress = Progress::default();
        self.follow(0, data, missing, &mut progress, &mut found)?;
        Ok(found)
    }

    fn follow<'a>(
        &'a self,
        start: usize,
        data: &'a Value,
        missing: MissingFields,
        progress: &mut Progress,
        found: &mut Vec<Vec<&'a Value>>,
    ) -> Result<(), TemplateError> {
        let mut at = start;
        while let Some(part) = self.parts.get(at) {
            at += 1;
            match part {
                Part::Text(text) => found.push(vec![text]),
                Part::Path(nodes) => {
                    let results = eval::list(vec![data], nodes, missing)?;
                    progress.results += results.len();
                    if progress.results > MAX_RESULTS {
                        return Err(EvalError::TooManyResults.into());
                    }
                    found.push(results);
                }
                Part::End if progress.ranges == 0 => return Err(TemplateError::End),
                Part::End => {
                    progress.end = Some(at);
                    return Ok(());
                }
                Part::Range(nodes) => {
                    let values = eval::list(vec![data], nodes, missing)?;
                    progress.ranges += 1;
                    // Without values the parts are followed nevertheless, to find the end; what they print is dropped.
                    if values.is_empty() {
                        let dropped = &mut Vec::new();
                        self.follow(at, &Value::Null, missing, progress, dropped)?;
                    }
                    for value in values {
                        self.follow(at, value, missing, progress, found)?;
                    }
                    progress.ranges -= 1;
                    // A range without an end is followed again with the outer object, as upstream does.
                    at = progress.end.filter(|end| *end > at).unwrap_or(at);
                }
            }
        }
        Ok(())
    }
}

/// A result in the text: lists and objects as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) => to_string(value),
        Value::Null => "null".to_owned(),
        scalar => printed(scalar),
    }
}

/// JSON with four spaces for each level, as `json.MarshalIndent` prints it.
fn indented(value: &Value, level: usize, out: &mut String) {
    let space = "    ".repeat(level + 1);
    let mut first = true;
    let mut next = |out: &mut String| {
        out.push_str(if first { "\n" } else { ",\n" });
        out.push_str(&space);
        first = false;
    };
    let close = match value {
        Value::Array(items) if !items.is_empty() => {
            out.push('[');
            for item in items {
                next(out);
                indented(item, level + 1, out);
            }
            ']'
        }
        Value::Object(map) if !map.is_empty() => {
            out.push('{');
            let mut fields: Vec<(&String, &Value)> = map.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            for (name, field) in fields {
                next(out);
                out.push_str(&to_string(&Value::from(name.as_str())));
                out.push_str(": ");
                indented(field, level + 1, out);
            }
            '}'
        }
        other => return out.push_str(&to_string(other)),
    };
    out.push('\n');
    out.push_str(&"    ".repeat(level));
    out.push(close);
}
