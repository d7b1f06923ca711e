//! Replaces values that differ between servers: uids, times, addresses, signatures.
//!
//! The rules are listed in the README of the corpus; expectations are written down normalised.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

/// Normalises a document.
pub(crate) fn value(document: &Value) -> Value {
    under("", document)
}

fn under(key: &str, value: &Value) -> Value {
    match value {
        Value::Object(fields) => object(fields),
        Value::Array(items) => items.iter().map(|item| under("", item)).collect(),
        Value::String(text) => Value::String(string(key, text)),
        Value::Number(number) => {
            let port = matches!(key, "nodePort" | "healthCheckNodePort")
                && number
                    .as_i64()
                    .is_some_and(|n| (30000..=32767).contains(&n));
            if port {
                "<nodePort>".into()
            } else {
                value.clone()
            }
        }
        Value::Null | Value::Bool(_) => value.clone(),
    }
}

fn object(fields: &Map<String, Value>) -> Value {
    let mut out: Map<String, Value> = fields
        .iter()
        .map(|(key, value)| (text(key), under(key, value)))
        .collect();
    let string = |key: &str| fields.get(key).and_then(Value::as_str);
    if let (Some(prefix), Some(name)) = (string("generateName"), string("name"))
        && !prefix.is_empty()
        && name != prefix
        && name.starts_with(prefix)
    {
        out.insert("name".to_owned(), format!("{prefix}<suffix>").into());
    }
    // Entries are sorted by time on the wire, so their order depends on the clock.
    if let Some(Value::Array(entries)) = out.get_mut("managedFields") {
        entries.sort_by_cached_key(|entry| {
            ["operation", "manager", "apiVersion", "subresource"]
                .map(|key| entry[key].as_str().unwrap_or_default().to_owned())
        });
    }
    sort_causes(&mut out);
    // Descriptions of columns are prose.
    if let Some(Value::Array(columns)) = out.get_mut("columnDefinitions") {
        for column in columns.iter_mut().filter_map(Value::as_object_mut) {
            column.remove("description");
        }
    }
    if let Some(Value::Array(cells)) = out.get_mut("cells") {
        for cell in cells {
            if cell.as_str().is_some_and(|text| AGE.is_match(text)) {
                *cell = "<age>".into();
            }
        }
    }
    Value::Object(out)
}

/// The causes of an error come in the order of a hash map: they are sorted, and so is the list in
/// the message if it has the same entries.
fn sort_causes(status: &mut Map<String, Value>) {
    let causes = status
        .get_mut("details")
        .and_then(|details| details.get_mut("causes"))
        .and_then(Value::as_array_mut);
    let Some(causes) = causes else { return };
    let part = |cause: &Value, key: &str| cause[key].as_str().unwrap_or_default().to_owned();
    causes.sort_by_cached_key(|cause| ["field", "reason", "message"].map(|key| part(cause, key)));
    let parts: BTreeSet<String> = causes
        .iter()
        .map(|cause| format!("{}: {}", part(cause, "field"), part(cause, "message")))
        .collect();
    let Some(Value::String(message)) = status.get_mut("message") else {
        return;
    };
    let Some((head, list)) = message
        .strip_suffix(']')
        .and_then(|message| message.split_once(" is invalid: ["))
    else {
        return;
    };
    let joined = parts.iter().cloned().collect::<Vec<_>>().join(", ");
    if joined.len() == list.len() && parts.iter().all(|part| list.contains(part.as_str())) {
        *message = format!("{head} is invalid: [{joined}]");
    }
}

fn string(key: &str, value: &str) -> String {
    match key {
        "resourceVersion" if POSITIVE.is_match(value) => "<rv>".to_owned(),
        "storageVersionHash" if !value.is_empty() => "<hash>".to_owned(),
        "continue" if !value.is_empty() => "<continue>".to_owned(),
        _ => text(value),
    }
}

/// Normalises a string.
pub(crate) fn text(value: &str) -> String {
    let value = UID.replace_all(value, "<uid>");
    let value = TIME.replace_all(&value, |found: &Captures<'_>| {
        if found.get(1).is_some() {
            "<microtime>"
        } else {
            "<time>"
        }
    });
    let value = TOKEN.replace_all(&value, "<token>");
    let value = VERSION_FIELD.replace_all(&value, "$1<rv>");
    let value = VERSION_OLD.replace_all(&value, "$1 (<rv>)");
    let value = VERSION_RECORD.replace_all(&value, "in record (<rv>)");
    let value = VERSION_CURRENT.replace_all(&value, "current: <rv>");
    let value = HASH.replace_all(&value, "hash=<hash>");
    let value = SCHEME.replace_all(&value, "$1<scheme>");
    if ADDRESS.is_match(&value) {
        return "<ip>".to_owned();
    }
    if ISSUER.is_match(&value) {
        return "<issuer>".to_owned();
    }
    value.into_owned()
}

macro_rules! patterns {
    ($($name:ident: $pattern:literal;)*) => {
        $(static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($pattern).expect("the pattern is well-formed"));)*
    };
}

patterns! {
    UID: r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
    // Earlier years are written by the corpus itself.
    TIME: r"20[2-9][0-9]-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})";
    TOKEN: r"eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+";
    // Quotes are escaped in a document inside a message.
    VERSION_FIELD: r#"(resourceVersion\\*":\\*")[0-9]+"#;
    VERSION_OLD: r"(resource version: [0-9]+) \([0-9]+\)";
    VERSION_RECORD: r"in record \([0-9]+\)";
    VERSION_CURRENT: r"current: [0-9]+";
    HASH: r"hash=[0-9A-F]{128}";
    // The file that creates a scheme; how it is named depends on whether Kubernetes is built as a dependency.
    SCHEME: r#"(in scheme \\*")[^"\\]+"#;
    ADDRESS: r"^10\.0\.0\.[0-9]{1,3}$";
    ISSUER: r"^https://(?:127\.0\.0\.1:[0-9]+|kubernetes\.default\.svc(?:\.cluster\.local)?)/?$";
    AGE: r"^(?:[0-9]+[smhdy]){1,2}$";
    POSITIVE: r"^[1-9][0-9]*$";
}
