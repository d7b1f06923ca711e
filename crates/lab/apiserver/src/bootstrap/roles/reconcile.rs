//! Reconciliation of an existing default role or binding.

use machinery::meta;
use serde_json::{Map, Value};

use crate::auth::{Rule, uncovered};

/// Annotation that disables reconciliation when it is `false`.
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// The action on an object.
#[derive(Debug, PartialEq)]
pub(super) enum Action {
    /// It is up to date, or reconciliation is disabled.
    Nothing,
    /// Update it to this.
    Update(Value),
    /// It binds another role; role references are immutable.
    Recreate,
}

/// Compares an object with its default. Additions are kept.
pub(super) fn reconcile(existing: &Value, expected: &Value) -> Action {
    if meta::annotation(existing, AUTO_UPDATE) == Some("false") {
        return Action::Nothing;
    }
    let mut object = existing.clone();
    for field in ["labels", "annotations"] {
        let wanted = expected["metadata"][field]
            .as_object()
            .into_iter()
            .flatten();
        for (key, value) in wanted {
            // A label that a user has changed stays, as upstream.
            if existing["metadata"][field].get(key).is_none() {
                object["metadata"][field][key] = value.clone();
            }
        }
    }
    if meta::kind(expected).ends_with("Binding") {
        if existing["roleRef"] != expected["roleRef"] {
            return Action::Recreate;
        }
        let missing = missing(&existing["subjects"], &expected["subjects"]);
        append(&mut object, "subjects", missing);
    } else {
        let lacking = uncovered(&Rule::read_all(existing), &Rule::read_all(expected));
        append(
            &mut object,
            "rules",
            lacking.iter().map(Rule::write).collect(),
        );
        reconcile_aggregation(existing, expected, &mut object);
    }
    if object == *existing {
        Action::Nothing
    } else {
        Action::Update(object)
    }
}

/// Restores or removes the aggregation rule.
fn reconcile_aggregation(existing: &Value, expected: &Value, object: &mut Value) {
    let selectors = |role: &Value| role["aggregationRule"]["clusterRoleSelectors"].clone();
    if expected.get("aggregationRule").is_none() {
        if let Some(fields) = object.as_object_mut() {
            fields.remove("aggregationRule");
        }
        return;
    }
    let missing = missing(&selectors(existing), &selectors(expected));
    if missing.is_empty() {
        return;
    }
    if !object["aggregationRule"].is_object() {
        object["aggregationRule"] = Value::Object(Map::new());
    }
    append(
        &mut object["aggregationRule"],
        "clusterRoleSelectors",
        missing,
    );
}

/// The items of `wanted` that are not in `present`.
fn missing(present: &Value, wanted: &Value) -> Vec<Value> {
    let present = present.as_array().map(Vec::as_slice).unwrap_or_default();
    let wanted = wanted.as_array().into_iter().flatten();
    wanted
        .filter(|item| !present.contains(item))
        .cloned()
        .collect()
}

/// Appends to a list, which may be missing.
fn append(object: &mut Value, field: &str, items: Vec<Value>) {
    if items.is_empty() {
        return;
    }
    match object[field].as_array_mut() {
        Some(list) => list.extend(items),
        None => object[field] = Value::Array(items),
    }
}
