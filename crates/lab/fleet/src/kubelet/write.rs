//! The status patch a kubelet writes for a pod.

use k8s_openapi::api::core::v1::PodStatus;
use serde_json::{Map, Value, json};

use super::conditions::OWN;

/// The status fields the kubelet owns.
const FIELDS: [&str; 11] = [
    "phase",
    "reason",
    "message",
    "startTime",
    "hostIP",
    "hostIPs",
    "podIP",
    "podIPs",
    "containerStatuses",
    "initContainerStatuses",
    "observedGeneration",
];

/// The patch that turns the stored status into the desired one; `None` if they are equal.
pub(super) fn difference(there: &PodStatus, wanted: &PodStatus) -> Option<Value> {
    let there = serde_json::to_value(there).unwrap_or_default();
    let wanted = serde_json::to_value(wanted).unwrap_or_default();
    let mut changed = Map::new();
    for field in FIELDS {
        // Only changed fields: conditions of other writers, and fields that this version does not
        // know, stay.
        if let Some(value) = wanted.get(field)
            && there.get(field) != Some(value)
        {
            changed.insert(field.to_owned(), value.clone());
        }
    }
    let list = |status: &Value| -> Vec<Value> {
        let conditions = status.get("conditions").and_then(Value::as_array);
        conditions.cloned().unwrap_or_default()
    };
    let known = list(&there);
    let conditions: Vec<Value> = list(&wanted)
        .into_iter()
        .filter(|condition| {
            OWN.contains(&condition["type"].as_str().unwrap_or_default())
                && !known.contains(condition)
        })
        .map(|mut condition| {
            // A reason that no longer applies is removed explicitly: a merge patch would keep it.
            for field in ["reason", "message"] {
                if condition.get(field).is_none() {
                    condition[field] = Value::Null;
                }
            }
            condition
        })
        .collect();
    if !conditions.is_empty() {
        changed.insert("conditions".into(), json!(conditions));
    }
    (!changed.is_empty()).then_some(Value::Object(changed))
}
