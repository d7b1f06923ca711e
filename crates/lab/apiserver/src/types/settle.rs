//! Distinctions that protobuf, the storage format of built-in kinds, does not keep.

#[cfg(test)]
mod tests;

use serde_json::Value;

use super::table::{Shape, TypeId, table};

/// Removes empty lists and maps, as a round trip through storage does. Untyped values (`fieldsV1`,
/// raw extensions) are left alone.
pub(crate) fn settle(id: TypeId, value: &mut Value) {
    match (&table().get(id).shape, value) {
        (Shape::List(item), Value::Array(items)) => {
            for value in items {
                settle(*item, value);
            }
        }
        (Shape::Map(_, item), Value::Object(entries)) => {
            for value in entries.values_mut() {
                settle(*item, value);
            }
        }
        (Shape::Struct(structure), Value::Object(entries)) => {
            for (name, value) in entries {
                let Some(field) = structure.field(name) else {
                    continue;
                };
                let collection =
                    matches!(table().get(field.ty).shape, Shape::List(_) | Shape::Map(..));
                if collection && !field.pointer && is_empty(value) {
                    *value = Value::Null;
                } else {
                    settle(field.ty, value);
                }
            }
        }
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        _ => false,
    }
}
