//! Reading and changing metadata in place.

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::time::format_time;

/// The `metadata` of an object.
pub fn metadata(object: &Value) -> Option<&Map<String, Value>> {
    object.get("metadata")?.as_object()
}

/// The `metadata` of an object, made if there is none. `None` when the object is not a JSON object.
pub fn metadata_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    let slot = object
        .as_object_mut()?
        .entry("metadata")
        .or_insert(Value::Null);
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    slot.as_object_mut()
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    metadata(object)
        .and_then(|m| m.get(field))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn map<'a>(object: &'a Value, field: &str) -> Option<&'a Map<String, Value>> {
    metadata(object)?.get(field)?.as_object()
}

fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    let value = metadata(object)
        .and_then(|m| m.get(field))
        .and_then(Value::as_array);
    value.map_or(&[], Vec::as_slice)
}

/// `apiVersion`, empty when unset.
pub fn api_version(object: &Value) -> &str {
    object
        .get("apiVersion")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// `kind`, empty when unset.
pub fn kind(object: &Value) -> &str {
    object
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// `metadata.name`, empty when unset.
pub fn name(object: &Value) -> &str {
    text(object, "name")
}

/// `metadata.generateName`, empty when unset.
pub fn generate_name_base(object: &Value) -> &str {
    text(object, "generateName")
}

/// `metadata.namespace`, empty when unset.
pub fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

/// `metadata.uid`, empty when unset.
pub fn uid(object: &Value) -> &str {
    text(object, "uid")
}

/// `metadata.resourceVersion`, empty when unset.
pub fn resource_version(object: &Value) -> &str {
    text(object, "resourceVersion")
}

/// `metadata.generation`, 0 when unset.
pub fn generation(object: &Value) -> i64 {
    metadata(object)
        .and_then(|m| m.get("generation"))
        .and_then(Value::as_i64)
        .unwrap_or(0)
}

/// `metadata.creationTimestamp`.
pub fn creation_timestamp(object: &Value) -> Option<&str> {
    Some(text(object, "creationTimestamp")).filter(|t| !t.is_empty())
}

/// `metadata.deletionTimestamp`.
pub fn deletion_timestamp(object: &Value) -> Option<&str> {
    Some(text(object, "deletionTimestamp")).filter(|t| !t.is_empty())
}

/// `metadata.deletionGracePeriodSeconds`.
pub fn deletion_grace_period_seconds(object: &Value) -> Option<i64> {
    metadata(object)?
        .get("deletionGracePeriodSeconds")?
        .as_i64()
}

/// Whether deletion was asked for and finalizers hold it up.
pub fn is_deleting(object: &Value) -> bool {
    deletion_timestamp(object).is_some()
}

/// `metadata.labels`.
pub fn labels(object: &Value) -> Option<&Map<String, Value>> {
    map(object, "labels")
}

/// One label.
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    labels(object)?.get(key)?.as_str()
}

/// `metadata.annotations`.
pub fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    map(object, "annotations")
}

/// One annotation.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    annotations(object)?.get(key)?.as_str()
}

/// `metadata.finalizers`.
pub fn finalizers(object: &Value) -> Vec<&str> {
    list(object, "finalizers")
        .iter()
        .filter_map(Value::as_str)
        .collect()
}

/// `metadata.managedFields`.
pub fn managed_fields(object: &Value) -> &[Value] {
    list(object, "managedFields")
}

/// Sets one field of metadata. The other setters take it away again when given nothing, because
/// the API leaves empty fields out.
pub fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    if let Some(metadata) = metadata_mut(object) {
        metadata.insert(field.to_owned(), value.into());
    }
}

/// Takes one field of metadata away.
pub fn remove(object: &mut Value, field: &str) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove(field)
}

fn set_text(object: &mut Value, field: &str, value: &str) {
    if value.is_empty() {
        remove(object, field);
    } else {
        set(object, field, value);
    }
}

/// Sets `metadata.name`.
pub fn set_name(object: &mut Value, value: &str) {
    set_text(object, "name", value);
}

/// Sets `metadata.namespace`.
pub fn set_namespace(object: &mut Value, value: &str) {
    set_text(object, "namespace", value);
}

/// Sets `metadata.uid`.
pub fn set_uid(object: &mut Value, value: &str) {
    set_text(object, "uid", value);
}

/// Sets `metadata.resourceVersion`.
pub fn set_resource_version(object: &mut Value, value: &str) {
    set_text(object, "resourceVersion", value);
}

/// Sets `metadata.generation`; 0 takes it away.
pub fn set_generation(object: &mut Value, value: i64) {
    if value == 0 {
        remove(object, "generation");
    } else {
        set(object, "generation", value);
    }
}

/// Sets `metadata.creationTimestamp`.
pub fn set_creation_timestamp(object: &mut Value, time: Timestamp) {
    set(object, "creationTimestamp", format_time(time));
}

/// Sets `metadata.deletionTimestamp` and the grace period that goes with it.
pub fn set_deletion_timestamp(object: &mut Value, time: Timestamp, grace_seconds: i64) {
    set(object, "deletionTimestamp", format_time(time));
    set(object, "deletionGracePeriodSeconds", grace_seconds);
}

/// Sets `metadata.finalizers`.
pub fn set_finalizers<S: Into<String>>(
    object: &mut Value,
    finalizers: impl IntoIterator<Item = S>,
) {
    let finalizers: Vec<String> = finalizers.into_iter().map(Into::into).collect();
    if finalizers.is_empty() {
        remove(object, "finalizers");
    } else {
        set(object, "finalizers", finalizers);
    }
}

/// Sets `metadata.managedFields`.
pub fn set_managed_fields(object: &mut Value, entries: Vec<Value>) {
    if entries.is_empty() {
        remove(object, "managedFields");
    } else {
        set(object, "managedFields", entries);
    }
}

/// Sets one label, or takes it away.
pub fn set_label(object: &mut Value, key: &str, value: Option<&str>) {
    set_entry(object, "labels", key, value);
}

/// Sets one annotation, or takes it away.
pub fn set_annotation(object: &mut Value, key: &str, value: Option<&str>) {
    set_entry(object, "annotations", key, value);
}

fn set_entry(object: &mut Value, field: &str, key: &str, value: Option<&str>) {
    let Some(metadata) = metadata_mut(object) else {
        return;
    };
    let slot = metadata.entry(field).or_insert(Value::Null);
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    let Some(entries) = slot.as_object_mut() else {
        return;
    };
    match value {
        Some(value) => {
            entries.insert(key.to_owned(), Value::from(value));
        }
        None => {
            entries.remove(key);
        }
    }
    if entries.is_empty() {
        // `labels: {}` would differ from no labels: an empty map is a field with an owner in `managedFields`.
        metadata.remove(field);
    }
}
