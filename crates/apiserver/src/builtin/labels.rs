//! Labels and label selectors in object form.

use machinery::field::{FieldError, Path};
use serde_json::Value;

use crate::builtin::check;
use crate::builtin::entry::Errors;
use crate::builtin::value::Read;

/// Errors in a map of labels.
pub(crate) fn check(path: &Path, map: &Value) -> Errors {
    let mut errors = Errors::new();
    for (key, value) in map.entries("") {
        errors.extend(check::qualified(path, key));
        errors.extend(check::label_value(path, value.as_str().unwrap_or_default()));
    }
    errors
}

/// Errors in a label selector; an absent one has none.
pub(crate) fn check_selector(path: &Path, selector: &Value) -> Errors {
    let mut errors = check(&path.child("matchLabels"), selector.at("matchLabels"));
    for (i, expression) in selector.items("matchExpressions").iter().enumerate() {
        let path = path.child("matchExpressions").index(i);
        let values = expression.texts("values");
        match expression.text("operator") {
            "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
                &path.child("values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::forbidden(
                &path.child("values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.push(FieldError::invalid(
                &path.child("operator"),
                other,
                "not a valid selector operator",
            )),
        }
        errors.extend(check::qualified(&path.child("key"), expression.text("key")));
        for (i, value) in values.iter().enumerate() {
            errors.extend(check::label_value(&path.child("values").index(i), value));
        }
    }
    errors
}

/// Whether the selector has neither labels nor expressions.
pub(crate) fn is_empty(selector: &Value) -> bool {
    selector.count("matchLabels") + selector.count("matchExpressions") == 0
}

/// Whether a selector could be read at all (`LabelSelectorAsSelector`).
pub(crate) fn is_readable(selector: &Value) -> bool {
    check_selector(&Path::root(), selector).is_empty()
}

/// Whether a selector selects something with these labels. An absent selector selects nothing, an
/// empty one everything.
pub(crate) fn matches(selector: &Value, labels: &Value) -> bool {
    if selector.is_null() {
        return false;
    }
    let value_of = |key: &str| labels.get(key).and_then(Value::as_str);
    selector.entries("matchLabels").iter().all(|(key, value)| value_of(key) == value.as_str())
        && selector.items("matchExpressions").iter().all(|expression| {
            let value = value_of(expression.text("key"));
            let listed = |value: &str| expression.texts("values").contains(&value);
            match expression.text("operator") {
                "In" => value.is_some_and(listed),
                "NotIn" => !value.is_some_and(listed),
                "Exists" => value.is_some(),
                _ => value.is_none(),
            }
        })
}

/// The string form of a selector, requirements in key order; the error is a selector that cannot be
/// read.
pub(crate) fn format(selector: &Value) -> Result<String, ()> {
    if !is_readable(selector) {
        return Err(());
    }
    let mut parts: Vec<(&str, String)> = selector
        .entries("matchLabels")
        .into_iter()
        .map(|(key, value)| (key, format!("{key}={}", value.as_str().unwrap_or_default())))
        .collect();
    for expression in selector.items("matchExpressions") {
        let key = expression.text("key");
        let mut values = expression.texts("values");
        values.sort_unstable();
        let values = values.join(",");
        parts.push((
            key,
            match expression.text("operator") {
                "In" => format!("{key} in ({values})"),
                "NotIn" => format!("{key} notin ({values})"),
                "Exists" => key.to_owned(),
                _ => format!("!{key}"),
            },
        ));
    }
    parts.sort_by(|a, b| a.0.cmp(b.0));
    Ok(parts.into_iter().map(|(_, part)| part).collect::<Vec<_>>().join(","))
}
