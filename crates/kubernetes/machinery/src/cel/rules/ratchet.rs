//! Which value an old value belongs to, and whether anything changed
//! (`apiserver/pkg/cel/common/equality.go`).

use std::collections::BTreeMap;

use serde_json::Value;

use crate::schema::{ListType, Schema};

/// A value and what it was, with their schema.
#[derive(Debug, Clone, Copy)]
struct Pair<'v> {
    new: &'v Value,
    old: &'v Value,
    schema: &'v Schema,
}

/// What an error at a node is held against: its own old value, or that of the nearest ancestor
/// which has one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ratchet<'v> {
    current: Option<Pair<'v>>,
    parent: Option<Pair<'v>>,
}

impl<'v> Ratchet<'v> {
    /// Of the whole object.
    pub(super) fn root(new: &'v Value, old: Option<&'v Value>, schema: &'v Schema) -> Self {
        Self {
            current: old.map(|old| Pair { new, old, schema }),
            parent: None,
        }
    }

    /// For rules within `allOf`, which only consider the ancestor.
    pub(super) fn without_current(&self) -> Self {
        Self {
            current: None,
            parent: self.parent,
        }
    }

    /// Of a property or map value.
    pub(super) fn key(&self, name: &str, new: &'v Value, old: Option<&'v Value>) -> Self {
        let Some(current) = self.current else {
            return *self;
        };
        if self.parent.is_none() && matches!(name, "apiVersion" | "kind") {
            // Both sides were converted to the same version.
            return Self {
                current: None,
                parent: None,
            };
        }
        let schema = child_schema(current.schema, name);
        let pair = old
            .zip(schema)
            .map(|(old, schema)| Pair { new, old, schema });
        Self {
            current: pair,
            parent: Some(current),
        }
    }

    /// Of a list item.
    pub(super) fn item(&self, new: &'v Value, old: Option<&'v Value>, schema: &'v Schema) -> Self {
        let Some(current) = self.current else {
            return *self;
        };
        Self {
            current: old.map(|old| Pair { new, old, schema }),
            parent: Some(current),
        }
    }

    /// Whether an error here was there before.
    pub(super) fn unchanged(&self, equality: &mut Equality) -> bool {
        self.current
            .or(self.parent)
            .is_some_and(|pair| equality.check(pair))
    }
}

fn child_schema<'v>(schema: &'v Schema, name: &str) -> Option<&'v Schema> {
    schema
        .properties
        .get(name)
        .or(schema.additional_properties.as_deref())
}

/// Comparisons made so far, so that many failing items do not compare their list again and again.
#[derive(Debug, Default)]
pub(super) struct Equality {
    known: BTreeMap<(usize, usize), bool>,
}

impl Equality {
    fn check(&mut self, pair: Pair<'_>) -> bool {
        let key = (
            std::ptr::from_ref(pair.new).addr(),
            std::ptr::from_ref(pair.old).addr(),
        );
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let equal = same(pair);
        self.known.insert(key, equal);
        equal
    }
}

/// Deep equality in which items of lists of type map are found by their keys. Fields without a
/// schema count as changed.
fn same(pair: Pair<'_>) -> bool {
    match (pair.new, pair.old) {
        (Value::Array(new), Value::Array(old)) => {
            if new.len() != old.len() {
                return false;
            }
            let Some(items) = pair.schema.items.as_deref() else {
                return new == old;
            };
            if pair.schema.list_type != Some(ListType::Map) {
                return new == old;
            }
            let keyed = KeyedItems::new(pair.schema, old);
            new.iter().all(|item| {
                keyed.find(item).is_some_and(|old| {
                    same(Pair {
                        new: item,
                        old,
                        schema: items,
                    })
                })
            })
        }
        (Value::Object(new), Value::Object(old)) => {
            new.len() == old.len()
                && new.iter().all(|(name, value)| {
                    let schema = child_schema(pair.schema, name);
                    old.get(name).zip(schema).is_some_and(|(old, schema)| {
                        same(Pair {
                            new: value,
                            old,
                            schema,
                        })
                    })
                })
        }
        (new, old) => new == old,
    }
}

/// Items of a list of type map by their keys; empty for all other lists.
pub(super) struct KeyedItems<'v> {
    keys: &'v [String],
    items: BTreeMap<String, &'v Value>,
}

impl<'v> KeyedItems<'v> {
    /// Of the old items of a list.
    pub(super) fn new(schema: &'v Schema, items: &'v [Value]) -> Self {
        let keys: &[String] = if schema.list_type == Some(ListType::Map) {
            &schema.list_map_keys
        } else {
            &[]
        };
        let mut found = BTreeMap::new();
        for item in items {
            if let Some(key) = key_of(item, keys) {
                // The first of several wins.
                found.entry(key).or_insert(item);
            }
        }
        Self { keys, items: found }
    }

    /// The old item with the keys of a new one.
    pub(super) fn find(&self, item: &Value) -> Option<&'v Value> {
        self.items.get(&key_of(item, self.keys)?).copied()
    }
}

/// The keys as one text; `None` without keys, or if one is absent or no scalar.
fn key_of(item: &Value, keys: &[String]) -> Option<String> {
    if keys.is_empty() {
        return None;
    }
    let mut text = String::new();
    for key in keys {
        match item.get(key)? {
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
            scalar => text.push_str(&scalar.to_string()),
        }
        text.push('\u{0}');
    }
    Some(text)
}
