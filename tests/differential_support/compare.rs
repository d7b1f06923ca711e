//! Readable differences between two documents.

use serde_json::Value;

/// Further differences are only counted.
const MAX_DIFFERENCES: usize = 12;
/// Longer values are truncated.
const MAX_VALUE_LENGTH: usize = 400;

/// Lists where two documents differ.
pub(crate) fn documents(expected: &Value, got: &Value) -> Vec<String> {
    // A `Status` instead of an object is one difference, not one per field.
    if expected["kind"] != got["kind"] && (is_status(expected) || is_status(got)) {
        return vec![difference("/", &expected.to_string(), &got.to_string())];
    }
    let mut differences = Vec::new();
    walk("", expected, got, &mut differences);
    let more = differences.len().saturating_sub(MAX_DIFFERENCES);
    if more > 0 {
        differences.truncate(MAX_DIFFERENCES);
        differences.push(format!("and {more} more"));
    }
    differences
}

fn is_status(document: &Value) -> bool {
    document["kind"] == "Status"
}

/// One difference.
pub(crate) fn difference(at: &str, expected: &str, got: &str) -> String {
    format!("{at}: expected {}, got {}", cut(expected), cut(got))
}

fn walk(at: &str, expected: &Value, got: &Value, out: &mut Vec<String>) {
    match (expected, got) {
        (Value::Object(expected), Value::Object(got)) => {
            for (key, value) in expected {
                let at = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                match got.get(key) {
                    Some(got) => walk(&at, value, got, out),
                    None => out.push(difference(&at, &value.to_string(), "nothing")),
                }
            }
            for (key, value) in got {
                if !expected.contains_key(key) {
                    let at = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                    out.push(difference(&at, "nothing", &value.to_string()));
                }
            }
        }
        (Value::Array(expected), Value::Array(got)) => {
            for index in 0..expected.len().max(got.len()) {
                let at = format!("{at}/{index}");
                match (expected.get(index), got.get(index)) {
                    (Some(expected), Some(got)) => walk(&at, expected, got, out),
                    (Some(expected), None) => {
                        out.push(difference(&at, &expected.to_string(), "nothing"));
                    }
                    (None, Some(got)) => out.push(difference(&at, "nothing", &got.to_string())),
                    (None, None) => {}
                }
            }
        }
        (expected, got) if same(expected, got) => {}
        (expected, got) => {
            let at = if at.is_empty() { "/" } else { at };
            out.push(difference(at, &expected.to_string(), &got.to_string()));
        }
    }
}

/// Scalars are equal; a number may be written with or without a fraction of zero.
fn same(expected: &Value, got: &Value) -> bool {
    match (expected, got) {
        (Value::Number(expected), Value::Number(got)) => {
            expected == got
                || (expected.is_f64() || got.is_f64()) && expected.as_f64() == got.as_f64()
        }
        _ => expected == got,
    }
}

fn cut(text: &str) -> String {
    if text.chars().count() <= MAX_VALUE_LENGTH {
        return text.to_owned();
    }
    let start: String = text.chars().take(MAX_VALUE_LENGTH).collect();
    format!("{start}...")
}
