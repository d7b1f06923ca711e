//! Conditions and generations in the status of other operators' objects.

use kube_core::DynamicObject;
use serde_json::Value;

/// A condition by type.
pub(super) fn condition<'a>(object: &'a DynamicObject, kind: &str) -> Option<&'a Value> {
    object
        .data
        .pointer("/status/conditions")?
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind)
}

/// Whether a condition is true.
pub(super) fn is_true(condition: &Value) -> bool {
    condition["status"] == "True"
}

/// Whether the object has a condition of this type that is true.
pub(super) fn holds(object: &DynamicObject, kind: &str) -> bool {
    condition(object, kind).is_some_and(is_true)
}

/// Reason and message of a condition, to append to a sentence.
pub(super) fn describe_condition(condition: &Value) -> String {
    let mut text = String::new();
    for field in ["reason", "message"] {
        match condition[field].as_str() {
            None | Some("") => {}
            Some(value) => {
                text.push_str(": ");
                text.push_str(value);
            }
        }
    }
    text
}

/// The generation of an object, if its operator has only observed an earlier one.
pub(super) fn unobserved(object: &DynamicObject) -> Option<i64> {
    let observed = object
        .data
        .pointer("/status/observedGeneration")
        .and_then(Value::as_i64)?;
    object
        .metadata
        .generation
        .filter(|generation| observed < *generation)
}
