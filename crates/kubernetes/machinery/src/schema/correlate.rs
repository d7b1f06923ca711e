//! Which old value belongs to a new one, and whether anything changed
//! (`apiserver/pkg/cel/common.CorrelatedObject`).
//!
//! Ratcheting tolerates violations in values an update leaves alone, so it has to find the old value:
//! by name in objects, by keys in lists of type map, and not at all in other lists.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::types::{ListType, Schema, SchemaType};

/// The old items of a list, findable from new ones.
pub(crate) struct OldItems<'a> {
    keys: &'a [String],
    by_key: HashMap<String, &'a Value>,
}

impl<'a> OldItems<'a> {
    /// Indexes `old`; `None` if items of this list do not correlate.
    pub(crate) fn new(schema: &'a Schema, old: &'a Value) -> Option<Self> {
        let items = old.as_array()?;
        if schema.list_type != Some(ListType::Map) {
            return None;
        }
        let keys = schema.list_map_keys.as_slice();
        let mut by_key = HashMap::new();
        if schema.schema_type == Some(SchemaType::Array) && schema.items.is_some() {
            for item in items {
                if let Some(key) = key_of(keys, item) {
                    // Duplicates can only be in objects from before the list was of type map; the first one is
                    // correlated, as upstream does.
                    by_key.entry(key).or_insert(item);
                }
            }
        }
        Some(Self { keys, by_key })
    }

    /// The old item with the keys of `item`.
    pub(crate) fn find(&self, item: &Value) -> Option<&'a Value> {
        self.by_key.get(&key_of(self.keys, item)?).copied()
    }
}

fn key_of(keys: &[String], item: &Value) -> Option<String> {
    let map = item.as_object().filter(|_| !keys.is_empty())?;
    let mut key = String::new();
    for name in keys {
        match map.get(name)? {
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
            scalar => {
                // A byte that no JSON scalar prints, so that `("a", "bc")` and `("ab", "c")` are two keys.
                key.push('\0');
                key.push_str(&scalar.to_string());
            }
        }
    }
    Some(key)
}

/// The schema of a field, declared or not.
pub(crate) fn field_schema<'a>(schema: &'a Schema, name: &str) -> Option<&'a Schema> {
    schema
        .properties
        .get(name)
        .or(schema.additional_properties.as_deref())
}

/// The old value of a field that is in both objects and has a schema.
pub(crate) fn old_field<'a>(schema: &Schema, old: &'a Value, name: &str) -> Option<&'a Value> {
    field_schema(schema, name).and_then(|_| old.as_object()?.get(name))
}

/// Whether `new` is what `old` was, list maps in any order. Undeclared fields count as changed.
pub(crate) fn unchanged(schema: &Schema, new: &Value, old: &Value) -> bool {
    match (new, old) {
        (Value::Array(new_items), Value::Array(old_items)) => {
            if new_items.len() != old_items.len() {
                return false;
            }
            let (Some(index), Some(items)) = (OldItems::new(schema, old), schema.items.as_deref())
            else {
                return schema.list_type != Some(ListType::Map) && new_items == old_items;
            };
            new_items.iter().all(|item| {
                index
                    .find(item)
                    .is_some_and(|was| unchanged(items, item, was))
            })
        }
        (Value::Object(new), Value::Object(old)) => same_fields(schema, new, old),
        _ => new == old,
    }
}

fn same_fields(schema: &Schema, new: &Map<String, Value>, old: &Map<String, Value>) -> bool {
    new.len() == old.len()
        && new.iter().all(
            |(name, value)| match (field_schema(schema, name), old.get(name)) {
                (Some(schema), Some(was)) => unchanged(schema, value, was),
                _ => false,
            },
        )
}
