//! Cells that many tables share (`pkg/printers/internalversion`).

use jiff::Timestamp;
use machinery::time;
use serde_json::{Value, json};

use crate::builtin::labels;
use crate::builtin::value::Read;

/// Time since a timestamp, or `<unknown>` without one.
pub(crate) fn since(timestamp: &Value, now: Timestamp) -> String {
    time::age(timestamp.as_str(), now)
}

/// Time between two timestamps.
pub(crate) fn between(from: &Value, to: &Value) -> Option<String> {
    let from = time::parse_time(from.as_str()?).ok()?;
    let to = time::parse_time(to.as_str()?).ok()?;
    Some(time::human_duration(to.duration_since(from)))
}

/// Time since creation.
pub(crate) fn age(object: &Value, now: Timestamp) -> Value {
    since(object.at("metadata.creationTimestamp"), now).into()
}

/// The cells of kinds without a table of their own.
pub(crate) fn name_and_creation(object: &Value, _: Timestamp) -> Vec<Value> {
    vec![
        object.name().into(),
        object.text("metadata.creationTimestamp").into(),
    ]
}

/// Name and age.
pub(crate) fn name_and_age(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![object.name().into(), age(object, now)]
}

/// A text, or a placeholder for an empty one.
pub(crate) fn or(text: &str, otherwise: &str) -> Value {
    if text.is_empty() {
        otherwise.into()
    } else {
        text.into()
    }
}

/// An optional text, or a placeholder.
pub(crate) fn maybe(text: Option<&str>, otherwise: &str) -> Value {
    text.unwrap_or(otherwise).into()
}

/// Names and images of containers.
pub(crate) fn containers(containers: &[Value]) -> [Value; 2] {
    let join = |field: &str| -> Value {
        containers
            .iter()
            .map(|c| c.text(field))
            .collect::<Vec<_>>()
            .join(",")
            .into()
    };
    [join("name"), join("image")]
}

/// A label selector, or `<none>`.
pub(crate) fn selector(selector: &Value) -> Value {
    match labels::format(selector) {
        Some(text) => or(&text, "<none>"),
        None => "<error>".into(),
    }
}

/// Labels, or `<none>`.
pub(crate) fn label_set(map: &Value) -> Value {
    let pairs: Vec<String> = map
        .entries("")
        .iter()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    or(&pairs.join(","), "<none>")
}

/// A list truncated to `max` entries, with the number of further ones.
pub(crate) fn some_of(list: &[String], count: usize, max: usize, empty: &str) -> Value {
    let shown = list.iter().take(max).cloned().collect::<Vec<_>>().join(",");
    if count > max {
        format!("{shown} + {} more...", count - max).into()
    } else {
        or(&shown, empty)
    }
}

/// A boolean as text.
pub(crate) fn flag(value: &Value) -> Value {
    match value.as_bool() {
        Some(true) => "True".into(),
        Some(false) => "False".into(),
        None => "<unset>".into(),
    }
}

/// A number or a percentage as text.
pub(crate) fn count_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Whether a condition is true.
pub(crate) fn condition_is_true(conditions: &[Value], kind: &str) -> bool {
    conditions
        .iter()
        .any(|c| c.text("type") == kind && c.text("status") == "True")
}

/// A number, zero when absent.
pub(crate) fn number(object: &Value, path: &str) -> Value {
    json!(object.number(path))
}
