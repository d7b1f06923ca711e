//! Dropping what a schema does not declare (`apiserver/schema/pruning`).

use std::fmt::Write as _;

use serde_json::Value;

use super::types::Schema;

/// How deep undeclared nested lists are followed; deeper ones are emptied.
// No schema bounds the nesting here. Go's stack grows on demand, so upstream needs no such limit.
const MAX_UNDECLARED_DEPTH: usize = 200;

/// Removes every field the schema does not declare and returns their paths (`spec.list[0].x`) in order.
///
/// With `is_root` the value is a whole object: its `apiVersion`, `kind` and `metadata` stay, as they do
/// in every embedded resource. At the top of a value that is not a whole object these three are dropped
/// without being reported.
pub fn prune(value: &mut Value, schema: &Schema, is_root: bool) -> Vec<String> {
    let mut pruner = Pruner {
        path: String::new(),
        dropped: Vec::new(),
    };
    if schema.preserve_unknown_fields {
        pruner.keep(value, schema, is_root);
    } else {
        pruner.prune(value, schema, is_root);
    }
    // Each path becomes a `Warning` header or part of an error, which clients compare;
    // upstream sorts because Go's maps have no order.
    pruner.dropped.sort();
    pruner.dropped
}

struct Pruner {
    path: String,
    dropped: Vec<String>,
}

fn is_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

fn has_additional(schema: &Schema) -> bool {
    schema.additional_properties.is_some() || schema.additional_properties_bool.is_some()
}

impl Pruner {
    fn enter(&mut self, name: &str) -> usize {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        length
    }

    fn enter_index(&mut self, index: usize) -> usize {
        let length = self.path.len();
        let _ = write!(self.path, "[{index}]");
        length
    }

    fn record(&mut self, name: &str) {
        let length = self.enter(name);
        self.dropped.push(self.path.clone());
        self.path.truncate(length);
    }

    fn below(&mut self, value: &mut Value, schema: Option<&Schema>) {
        match schema {
            None => self.undeclared(value, MAX_UNDECLARED_DEPTH),
            Some(schema) if schema.preserve_unknown_fields => self.keep(value, schema, false),
            Some(schema) => self.prune(value, schema, false),
        }
    }

    fn prune(&mut self, value: &mut Value, schema: &Schema, is_root: bool) {
        let resource = schema.embedded_resource || is_root;
        match value {
            Value::Object(map) => map.retain(|name, value| {
                if resource && is_meta(name) {
                    return true;
                }
                let known = schema.properties.get(name);
                if known.is_none() && !has_additional(schema) {
                    if !is_meta(name) || !self.path.is_empty() {
                        self.record(name);
                    }
                    return false;
                }
                let length = self.enter(name);
                self.below(value, known.or(schema.additional_properties.as_deref()));
                self.path.truncate(length);
                true
            }),
            Value::Array(items) => {
                for (i, item) in items.iter_mut().enumerate() {
                    let length = self.enter_index(i);
                    self.below(item, schema.items.as_deref());
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }

    /// Where unknown fields are preserved, only declared fields are visited.
    fn keep(&mut self, value: &mut Value, schema: &Schema, is_root: bool) {
        let resource = schema.embedded_resource || is_root;
        match value {
            Value::Object(map) => {
                for (name, value) in map.iter_mut() {
                    if resource && is_meta(name) {
                        continue;
                    }
                    let known = schema.properties.get(name);
                    if known.is_some() || has_additional(schema) {
                        let length = self.enter(name);
                        self.below(value, known.or(schema.additional_properties.as_deref()));
                        self.path.truncate(length);
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = schema.items.as_deref() else {
                    return;
                };
                for (i, item) in items.iter_mut().enumerate() {
                    let length = self.enter_index(i);
                    // Items of a preserved list are preserved whatever their own schema says, declared properties are
                    // not: upstream's `skipPrune`.
                    self.keep(item, schema, false);
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn undeclared(&mut self, value: &mut Value, depth: usize) {
        match value {
            Value::Object(map) => {
                for name in map.keys() {
                    self.record(name);
                }
                map.clear();
            }
            Value::Array(items) if depth == 0 => items.clear(),
            Value::Array(items) => {
                for (i, item) in items.iter_mut().enumerate() {
                    let length = self.enter_index(i);
                    self.undeclared(item, depth - 1);
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }
}
