//! Cells that many tables share (`pkg/printers/internalversion`).

use std::borrow::Borrow;

use jiff::Timestamp;
use machinery::time;
use serde_json::Value;

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

/// A text, or a placeholder for an empty one.
pub(crate) fn or(text: &str, otherwise: &str) -> Value {
    if text.is_empty() {
        otherwise.into()
    } else {
        text.into()
    }
}

/// A text field of each item of a list.
pub(crate) fn joined(items: &[Value], field: &str) -> Value {
    let texts: Vec<&str> = items.iter().map(|item| item.text(field)).collect();
    texts.join(",").into()
}

/// The name, marked if one of the annotations makes the class the default one.
pub(crate) fn marked_default(class: &Value, annotations: &[&str]) -> Value {
    let marks = |key: &&str| class.annotation(key) == Some("true");
    let mark = if annotations.iter().any(marks) {
        " (default)"
    } else {
        ""
    };
    format!("{}{mark}", class.name()).into()
}

/// Addresses of a load balancer, sorted.
pub(crate) fn load_balancer(object: &Value) -> Vec<&str> {
    let ingress = object.items("status.loadBalancer.ingress").iter();
    let addresses = ingress.map(|ingress| match ingress.text("ip") {
        "" => ingress.text("hostname"),
        address => address,
    });
    let mut addresses: Vec<&str> = addresses.filter(|address| !address.is_empty()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
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
pub(crate) fn some_of(list: &[impl Borrow<str>], max: usize, empty: &str) -> Value {
    let shown = list[..list.len().min(max)].join(",");
    if list.len() > max {
        format!("{shown} + {} more...", list.len() - max).into()
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
