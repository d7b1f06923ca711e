//! What the objects of other operators say about themselves.

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

/// Whether a condition holds.
pub(super) fn is_true(condition: &Value) -> bool {
    condition["status"] == "True"
}

/// Whether there is a condition that holds.
pub(super) fn holds(object: &DynamicObject, kind: &str) -> bool {
    condition(object, kind).is_some_and(is_true)
}

/// Reason and message of a condition, to put behind a sentence.
pub(super) fn told(condition: &Value) -> String {
    let mut text = String::new();
    for field in ["reason", "message"] {
        match condition[field].as_str() {
            None | Some("") => {}
            Some(said) => {
                text.push_str(": ");
                text.push_str(said);
            }
        }
    }
    text
}

/// The generation of an object, if its operator says that it has only seen an earlier one.
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
