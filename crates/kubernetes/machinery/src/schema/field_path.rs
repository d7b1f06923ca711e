//! Simple paths to declared fields, as `selectableFields` and the `fieldPath` of rules use them
//! (`apiserver/schema/cel.ValidFieldPath`).

use super::types::Schema;
use crate::field::Path;
use crate::jsonpath::unquote;

/// A path that leads to a declared field.
pub(super) struct Resolved<'a> {
    /// The path as errors print it.
    pub(super) path: Path,
    /// Its first field; empty for the path to nothing.
    pub(super) first: String,
    /// The schema of the field.
    pub(super) schema: &'a Schema,
}

/// Follows `.a.b['c']` from `schema`.
pub(super) fn resolve<'a>(
    text: &str,
    schema: &'a Schema,
    brackets: bool,
) -> Result<Resolved<'a>, String> {
    let mut found = Resolved {
        path: Path::root(),
        first: String::new(),
        schema,
    };
    let mut tokens = tokens(text).into_iter();
    let end = || "unexpected end of JSON path".to_owned();
    while let Some(token) = tokens.next() {
        match token {
            "[" if !brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = tokens.next().ok_or_else(end)?;
                let name = quoted
                    .strip_prefix('\'')
                    .and_then(|q| q.strip_suffix('\''))
                    .ok_or_else(|| format!("expected single quoted string but got {quoted}"))?;
                found.enter(&unquote(name, '\'').ok_or("invalid string literal")?)?;
                match tokens.next().ok_or_else(end)? {
                    "]" => {}
                    other => return Err(format!("expected ] but got {other}")),
                }
            }
            "." => found.enter(tokens.next().ok_or_else(end)?)?,
            other => return Err(format!("expected [ or . but got: {other}")),
        }
    }
    Ok(found)
}

impl Resolved<'_> {
    fn enter(&mut self, name: &str) -> Result<(), String> {
        let (path, schema) = if self.schema.properties.is_empty() {
            (
                self.path.key(name),
                self.schema.additional_properties.as_deref(),
            )
        } else {
            (self.path.child(name), self.schema.properties.get(name))
        };
        self.schema = schema.ok_or("does not refer to a valid field")?;
        if self.path.is_root() {
            name.clone_into(&mut self.first);
        }
        self.path = path;
        Ok(())
    }
}

/// The path `text` spells if it leads to something `schema` declares.
pub fn valid_field_path<'s>(text: &str, schema: &'s Schema) -> Result<(Path, &'s Schema), String> {
    resolve(text, schema, true).map(|found| (found.path, found.schema))
}

/// Splits at `.`, `[` and `]`, which are tokens themselves, but not inside of quotes.
fn tokens(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '.' | '[' | ']' => 1,
            '\'' => {
                let bytes = rest.as_bytes();
                let close = (1..bytes.len())
                    .find(|i| bytes.get(*i) == Some(&b'\'') && bytes.get(i - 1) != Some(&b'\\'));
                close.map_or(rest.len(), |close| close + 1)
            }
            _ => rest.find(['.', '[', ']']).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(end);
        out.push(token);
        rest = after;
    }
    out
}
