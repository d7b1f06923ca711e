//! Filling in defaults and clearing nulls (`apiserver/schema/defaulting`).

use serde_json::Value;

use super::correlate::field_schema;
use super::types::Schema;

/// Gives absent fields their defaults, in every object that is there. A null in a field that is not
/// nullable counts as absent.
pub fn default(value: &mut Value, schema: &Schema) {
    // Computed once for the schema: defaulting runs on every write, and most subtrees have no default.
    if !schema.has_defaults {
        return;
    }
    match value {
        Value::Object(map) => {
            for (name, property) in &schema.properties {
                if let Some(default) = &property.default {
                    let absent = map
                        .get(name)
                        .is_none_or(|v| v.is_null() && !property.nullable);
                    if absent {
                        map.insert(name.clone(), default.clone());
                    }
                }
            }
            // After the defaults of this level: a default that is an object may lack
            // fields that have defaults themselves.
            for (name, value) in map.iter_mut() {
                let Some(below) = field_schema(schema, name) else {
                    continue;
                };
                if !schema.properties.contains_key(name) {
                    fill_null(value, below);
                }
                default(value, below);
            }
        }
        Value::Array(items) => {
            let Some(below) = schema.items.as_deref() else {
                return;
            };
            for item in items {
                fill_null(item, below);
                default(item, below);
            }
        }
        _ => {}
    }
}

fn fill_null(value: &mut Value, schema: &Schema) {
    if value.is_null()
        && !schema.nullable
        && let Some(default) = &schema.default
    {
        *value = default.clone();
    }
}

/// Drops nulls from fields that are neither nullable nor defaulted, as a request is decoded: they mean
/// that the field is not there. Nulls in undeclared data and in lists stay.
pub fn prune_nulls(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(map) => map.retain(|name, value| {
            let Some(below) = field_schema(schema, name) else {
                return true;
            };
            if value.is_null() && !below.nullable && below.default.is_none() {
                return false;
            }
            prune_nulls(value, below);
            true
        }),
        Value::Array(items) => {
            let Some(below) = schema.items.as_deref() else {
                return;
            };
            for item in items {
                prune_nulls(item, below);
            }
        }
        _ => {}
    }
}
