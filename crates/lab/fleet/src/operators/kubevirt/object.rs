//! Access to objects whose kind is known only at run time.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::DynamicObject;
use serde_json::{Value, json};

/// A string in an object; empty if it is missing.
pub(super) fn text<'a>(object: &'a DynamicObject, pointer: &str) -> &'a str {
    let found = object.data.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

/// The phase of an instance or a migration.
pub(super) fn phase(object: &DynamicObject) -> &str {
    text(object, "/status/phase")
}

/// Whether an instance or a migration is in a final phase.
pub(super) fn is_final(object: &DynamicObject) -> bool {
    matches!(phase(object), "Succeeded" | "Failed")
}

pub(super) fn is_leaving(object: &DynamicObject) -> bool {
    object.metadata.deletion_timestamp.is_some()
}

/// When a phase began, if it did.
pub(super) fn began<'a>(object: &'a DynamicObject, phase: &str) -> Option<&'a str> {
    let all = object.data.pointer("/status/phaseTransitionTimestamps")?;
    let found = all.as_array()?.iter().find(|it| it["phase"] == phase)?;
    found["phaseTransitionTimestamp"].as_str()
}

/// The status of an object, mutably.
pub(super) fn status(object: &mut DynamicObject) -> &mut Value {
    let status = &mut object.data["status"];
    if !status.is_object() {
        *status = json!({});
    }
    status
}

/// Sets the phase of an object and its transition time.
pub(super) fn enter(object: &mut DynamicObject, phase: &str, now: &Time) {
    let status = status(object);
    status["phase"] = json!(phase);
    let transition = json!({ "phase": phase, "phaseTransitionTimestamp": now });
    match status["phaseTransitionTimestamps"].as_array_mut() {
        Some(all) => all.push(transition),
        None => status["phaseTransitionTimestamps"] = json!([transition]),
    }
}

/// Replaces a condition of an object, or adds it; see [`set_condition_in`].
pub(super) fn update_condition(object: &mut DynamicObject, condition: Value) {
    let status = status(object);
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    if let Some(all) = status["conditions"].as_array_mut() {
        set_condition_in(all, condition);
    }
}

/// Replaces a condition, times included, if its status, reason or message differs; or adds it.
// As `UpdateCondition` in KubeVirt's `pkg/controller/conditions.go`.
pub(super) fn set_condition_in(all: &mut Vec<Value>, condition: Value) {
    let Some(old) = all.iter_mut().find(|one| one["type"] == condition["type"]) else {
        all.push(condition);
        return;
    };
    let text = |one: &Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
    let differs = |field: &&str| text(old, field) != text(&condition, field);
    if ["status", "reason", "message"].iter().any(differs) {
        *old = condition;
    }
}

/// Removes a condition.
pub(super) fn remove_condition(object: &mut DynamicObject, about: &str) {
    if let Some(all) = status(object)["conditions"].as_array_mut() {
        all.retain(|one| one["type"] != about);
    }
}

/// The condition of an object.
pub(super) fn condition<'a>(object: &'a DynamicObject, about: &str) -> Option<&'a Value> {
    let all = object.data.pointer("/status/conditions")?.as_array()?;
    all.iter().find(|one| one["type"] == about)
}
