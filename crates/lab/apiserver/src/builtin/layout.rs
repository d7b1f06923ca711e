//! Objects in the form of the internal types.
//!
//! Some messages of kube-apiserver print a value in its internal Go representation: Go names,
//! declaration order, zero values included. Clients compare these texts, so they are reproduced
//! here.

mod tables;

use machinery::field::{ErrorKind, FieldError, Path};
use machinery::json;
use serde_json::Value;

use crate::builtin::diff;
use crate::builtin::value::Read;

/// JSON that keeps the order of its fields.
enum Ordered {
    Leaf(String),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

/// An `Invalid` error that shows the value as the internal type.
pub(crate) fn invalid(path: &Path, kind: &str, value: &Value, detail: &str) -> FieldError {
    let shown = compact(&of_type(kind, value, &Value::Null));
    FieldError::without_value(ErrorKind::Invalid, path, format!("{shown}: {detail}"))
}

/// A value as JSON of the internal type.
pub(crate) fn text(kind: &str, value: &Value) -> String {
    compact(&of_type(kind, value, &Value::Null))
}

/// A `Duplicate` error that shows the value as the internal type.
pub(crate) fn duplicate(path: &Path, kind: &str, value: &Value) -> FieldError {
    let shown = compact(&of_type(kind, value, &Value::Null));
    FieldError::without_value(ErrorKind::Duplicate, path, shown)
}

/// A `NotSupported` error that shows the value as the internal type.
pub(crate) fn not_supported(
    path: &Path,
    kind: &str,
    value: &Value,
    accepted: &[&str],
) -> FieldError {
    let shown = compact(&of_type(kind, value, &Value::Null));
    let mut error = FieldError::not_supported(path, "", accepted);
    error.value = None;
    error.detail = format!("{shown}: {}", error.detail);
    error
}

/// A unified diff of two values as the internal type prints them.
pub(crate) fn difference(kind: &str, old: &Value, new: &Value) -> String {
    let print = |value: &Value| {
        let mut text = String::new();
        pretty(&of_type(kind, value, &Value::Null), 0, &mut text);
        text
    };
    diff::unified(&print(old), &print(new))
}

fn fields_of(kind: &str) -> Option<&'static str> {
    let at = tables::TYPES
        .binary_search_by(|(name, _)| (*name).cmp(kind))
        .ok()?;
    Some(tables::TYPES[at].1)
}

fn of_type(kind: &str, value: &Value, outer: &Value) -> Ordered {
    let Some(fields) = fields_of(kind) else {
        return leaf(value);
    };
    let mut object = Vec::new();
    for field in fields.split_whitespace() {
        let Some((name, shape)) = field.split_once(':') else {
            continue;
        };
        let (go, served) = match name.split_once('=') {
            Some((go, served)) => (go.to_owned(), served.to_owned()),
            None => (name.to_owned(), lower_first(name)),
        };
        let inner = match served.strip_prefix('^') {
            Some(served) => outer.at(served),
            None => value.at(&served),
        };
        if shape == "M" {
            metadata(inner, &mut object);
        } else {
            object.push((go, of_shape(shape, inner, value)));
        }
    }
    Ordered::Object(object)
}

fn of_shape(shape: &str, value: &Value, owner: &Value) -> Ordered {
    let or = |zero: &str| {
        if value.is_null() {
            Ordered::Leaf(zero.to_owned())
        } else {
            leaf(value)
        }
    };
    match shape {
        "s" => or("\"\""),
        "i" | "n" => or("0"),
        "b" => or("false"),
        "q" => or("\"0\""),
        "p" => leaf(value),
        "L" => selector(value),
        _ => {
            if let Some(kind) = shape.strip_prefix('[') {
                match value.as_array() {
                    Some(items) => Ordered::List(
                        items
                            .iter()
                            .map(|item| of_type(kind, item, owner))
                            .collect(),
                    ),
                    None => leaf(&Value::Null),
                }
            } else if let Some(kind) = shape.strip_prefix('*') {
                if value.is_null() {
                    leaf(value)
                } else {
                    of_type(kind, value, owner)
                }
            } else {
                of_type(shape, value, owner)
            }
        }
    }
}

/// Label selectors keep their served names and omit empty fields.
fn selector(value: &Value) -> Ordered {
    if value.is_null() {
        return leaf(value);
    }
    let mut object = Vec::new();
    if value.count("matchLabels") > 0 {
        object.push(("matchLabels".to_owned(), leaf(value.at("matchLabels"))));
    }
    let expressions = value.items("matchExpressions");
    if !expressions.is_empty() {
        let list = expressions.iter().map(|expression| {
            let mut fields = vec![
                ("key".to_owned(), leaf(&expression.text("key").into())),
                (
                    "operator".to_owned(),
                    leaf(&expression.text("operator").into()),
                ),
            ];
            if expression.count("values") > 0 {
                fields.push(("values".to_owned(), leaf(expression.at("values"))));
            }
            Ordered::Object(fields)
        });
        object.push(("matchExpressions".to_owned(), Ordered::List(list.collect())));
    }
    Ordered::Object(object)
}

/// Metadata is embedded: its fields stand beside the others, under their served names.
fn metadata(value: &Value, object: &mut Vec<(String, Ordered)>) {
    const FIELDS: &[&str] = &["name", "generateName", "namespace", "labels", "annotations"];
    for field in FIELDS {
        if value.has(field) {
            object.push(((*field).to_owned(), leaf(value.at(field))));
        }
    }
}

fn leaf(value: &Value) -> Ordered {
    match value {
        Value::Array(items) => Ordered::List(items.iter().map(leaf).collect()),
        Value::Object(entries) => Ordered::Object(
            entries
                .iter()
                .map(|(key, value)| (key.clone(), leaf(value)))
                .collect(),
        ),
        other => Ordered::Leaf(json::to_string(other)),
    }
}

fn lower_first(name: &str) -> String {
    let mut letters = name.chars();
    letters
        .next()
        .into_iter()
        .flat_map(char::to_lowercase)
        .chain(letters)
        .collect()
}

fn compact(value: &Ordered) -> String {
    match value {
        Ordered::Leaf(text) => text.clone(),
        Ordered::List(items) => {
            format!(
                "[{}]",
                items.iter().map(compact).collect::<Vec<_>>().join(",")
            )
        }
        Ordered::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(key, value)| format!("{}:{}", quoted(key), compact(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
    }
}

fn quoted(key: &str) -> String {
    json::to_string(&Value::String(key.to_owned()))
}

/// `json.MarshalIndent` with one space.
fn pretty(value: &Ordered, depth: usize, out: &mut String) {
    let indent = |out: &mut String, depth: usize| {
        out.push('\n');
        out.push_str(&" ".repeat(depth));
    };
    match value {
        Ordered::Leaf(text) => out.push_str(text),
        Ordered::List(items) if items.is_empty() => out.push_str("[]"),
        Ordered::Object(fields) if fields.is_empty() => out.push_str("{}"),
        Ordered::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { "," });
                indent(out, depth + 1);
                pretty(item, depth + 1, out);
            }
            indent(out, depth);
            out.push(']');
        }
        Ordered::Object(fields) => {
            out.push('{');
            for (i, (key, value)) in fields.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { "," });
                indent(out, depth + 1);
                out.push_str(&quoted(key));
                out.push_str(": ");
                pretty(value, depth + 1, out);
            }
            indent(out, depth);
            out.push('}');
        }
    }
}
