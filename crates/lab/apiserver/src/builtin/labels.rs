//! Labels and label selectors in object form.

use machinery::field::{FieldError, Path};
use machinery::selector::LabelSelector;
use serde_json::Value;

use crate::builtin::check;
use crate::builtin::entry::Errors;
use crate::builtin::value::Read;

/// Operators of a label selector requirement.
const OPERATORS: [&str; 4] = ["In", "NotIn", "Exists", "DoesNotExist"];

/// Errors in a map of labels.
pub(crate) fn check(path: &Path, map: &Value) -> Errors {
    let mut errors = Errors::new();
    for (key, value) in map.entries("") {
        errors += check::qualified(path, key);
        errors += check::label_value(path, value.as_str().unwrap_or_default());
    }
    errors
}

/// Errors in a label selector; an absent one has none.
pub(crate) fn check_selector(path: &Path, selector: &Value) -> Errors {
    let mut errors = check(&path.child("matchLabels"), selector.at("matchLabels"));
    for (path, expression) in selector.each(path, "matchExpressions") {
        if !OPERATORS.contains(&expression.text("operator")) {
            errors.invalid(
                &path.child("operator"),
                expression.text("operator"),
                "not a valid selector operator",
            );
        }
        errors += check_requirement(&path, expression);
    }
    errors
}

/// Errors in one requirement of a label selector, its operator aside.
pub(crate) fn check_requirement(path: &Path, requirement: &Value) -> Errors {
    let mut errors = check_values(path, requirement);
    let key = requirement.text("key");
    errors += check::qualified(&path.child("key"), key);
    for (i, value) in requirement.texts("values").iter().enumerate() {
        errors += check::label_value(&path.child("values").index(i), value);
    }
    errors
}

/// Some operators need values, others have none.
pub(crate) fn check_values(path: &Path, requirement: &Value) -> Errors {
    let path = path.child("values");
    let none = requirement.count("values") == 0;
    match requirement.text("operator") {
        "In" | "NotIn" if none => FieldError::required(
            &path,
            "must be specified when `operator` is 'In' or 'NotIn'",
        )
        .into(),
        "Exists" | "DoesNotExist" if !none => FieldError::forbidden(
            &path,
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )
        .into(),
        _ => Errors::new(),
    }
}

/// Whether the selector has neither labels nor expressions.
pub(crate) fn is_empty(selector: &Value) -> bool {
    selector.count("matchLabels") + selector.count("matchExpressions") == 0
}

/// The parsed selector; an absent one matches nothing, an empty one everything.
fn readable(selector: &Value) -> Option<LabelSelector> {
    if selector.is_null() {
        return Some(LabelSelector::nothing());
    }
    LabelSelector::from_label_selector_object(selector).ok()
}

/// Whether a selector parses (`LabelSelectorAsSelector`).
pub(crate) fn is_readable(selector: &Value) -> bool {
    readable(selector).is_some()
}

/// Whether a selector matches these labels.
pub(crate) fn matches(selector: &Value, labels: &Value) -> bool {
    let value_of = |key: &str| labels.get(key).and_then(Value::as_str);
    readable(selector).is_some_and(|selector| selector.matches(value_of))
}

/// The string form of a selector, requirements in key order; `None` when it does not parse.
pub(crate) fn format(selector: &Value) -> Option<String> {
    readable(selector).map(|selector| selector.to_string())
}
