//! Uniqueness in lists of type set and map (`apiserver/schema/listtype`).

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::correlate::field_schema;
use super::types::{ListType, Schema};
use crate::field::{ErrorList, FieldError, Path};

/// Items that occur twice in sets and keys that occur twice in maps.
pub fn check_lists(value: &Value, schema: &Schema, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    below(value, schema, path, &mut errors);
    errors
}

/// [`check_lists`] for an update: an object that violated the rule before may continue to.
pub fn check_lists_update(
    new: &Value,
    old: &Value,
    schema: &Schema,
    path: &Path,
) -> Vec<FieldError> {
    let errors = check_lists(new, schema, path);
    // All or nothing, unlike the ratcheting of values: upstream compares only
    // whether the old object had any such error.
    if errors.is_empty() || check_lists(old, schema, path).is_empty() {
        errors
    } else {
        Vec::new()
    }
}

fn below(value: &Value, schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                // Paths cost; most values hold no list at all.
                if !matches!(value, Value::Array(_) | Value::Object(_)) {
                    continue;
                }
                if let Some(declared) = schema.properties.get(name) {
                    below(value, declared, &path.child(name), errors);
                } else if let Some(extra) = field_schema(schema, name) {
                    below(value, extra, &path.key(name), errors);
                }
            }
        }
        Value::Array(items) => {
            match schema.list_type {
                Some(ListType::Set) => {
                    for i in repeated(items) {
                        errors.push(FieldError::duplicate(&path.index(i), item(items, i)));
                    }
                }
                Some(ListType::Map) => list_map(items, schema, path, errors),
                Some(ListType::Atomic) | None => {}
            }
            if let Some(item_schema) = schema.items.as_deref() {
                for (i, item) in items.iter().enumerate() {
                    if matches!(item, Value::Array(_) | Value::Object(_)) {
                        below(item, item_schema, &path.index(i), errors);
                    }
                }
            }
        }
        _ => {}
    }
}

fn item(items: &[Value], index: usize) -> Value {
    items.get(index).cloned().unwrap_or_default()
}

/// Where a value is met for the second time; further repetitions are not reported.
fn repeated(items: &[Value]) -> Vec<usize> {
    let mut seen: HashMap<String, usize> = HashMap::with_capacity(items.len());
    let mut found = Vec::new();
    if items.len() > 1 {
        for (i, item) in items.iter().enumerate() {
            // Printed text as the key makes this linear; comparing items pairwise would be quadratic, which is why
            // `uniqueItems` is forbidden in CRDs.
            let times = seen.entry(item.to_string()).or_default();
            *times += 1;
            if *times == 2 {
                found.push(i);
            }
        }
    }
    found
}

fn list_map(items: &[Value], schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    for (i, item) in items.iter().enumerate() {
        if !matches!(item, Value::Object(_) | Value::Null) {
            let detail = "must be an object for an array of list-type map";
            errors.invalid(&path.index(i), item.clone(), detail);
            return;
        }
    }
    let keys: Vec<Value> = items
        .iter()
        .map(|item| {
            let given = |name: &String| Some((name.clone(), item.get(name)?.clone()));
            Value::Object(
                schema
                    .list_map_keys
                    .iter()
                    .filter_map(given)
                    .collect::<Map<_, _>>(),
            )
        })
        .collect();
    for i in repeated(&keys) {
        errors.push(FieldError::duplicate(&path.index(i), item(&keys, i)));
    }
}
