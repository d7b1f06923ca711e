//! Taking fields out of an object, and keeping nothing but them.

use serde_json::{Map, Value};

use super::{Typed, item};
use crate::apply::schema::{Form, ListRelation, TypeRef};
use crate::apply::set::FieldSet;

impl Typed<'_> {
    /// Removes the fields and items in `set`. Containers that lose all they have stay, empty,
    /// unless they are in the set themselves.
    pub fn remove(&self, value: &mut Value, set: &FieldSet) {
        if !set.is_empty() {
            self.remove_at(self.root, value, set);
        }
    }

    fn remove_at(&self, reference: &TypeRef, value: &mut Value, set: &FieldSet) {
        let Some(definition) = self.schema.resolve(reference) else {
            return;
        };
        match (definition.form(definition.forms(Some(value))), value) {
            (Some(Form::List(list)), Value::Array(items)) => {
                // A path into an atomic list can only come from a set of an older schema;
                // removing part of it is not possible.
                if list.relation == ListRelation::Atomic {
                    items.clear();
                    return;
                }
                items.retain_mut(|child| {
                    let node = item::element(list, child)
                        .ok()
                        .and_then(|element| set.node(&element));
                    let Some(node) = node else { return true };
                    if !node.member {
                        self.remove_at(&list.element, child, &node.children);
                    }
                    !node.member
                });
            }
            (Some(Form::Map(map)), Value::Object(entries)) => {
                if map.atomic {
                    entries.clear();
                    return;
                }
                entries.retain(|name, child| {
                    let Some(node) = set.field_node(name) else {
                        return true;
                    };
                    if !node.member
                        && let Some(reference) = map.entry(name)
                    {
                        self.remove_at(reference, child, &node.children);
                    }
                    !node.member
                });
            }
            _ => {}
        }
    }

    /// The part of an object that is in `set`, with the key fields of the list items on the way;
    /// `None` when there is nothing of it.
    pub fn extract(&self, value: &Value, set: &FieldSet) -> Option<Value> {
        self.extract_at(self.root, value, set)
    }

    fn extract_at(&self, reference: &TypeRef, value: &Value, set: &FieldSet) -> Option<Value> {
        let definition = self.schema.resolve(reference)?;
        match (definition.form(definition.forms(Some(value)))?, value) {
            (Form::List(list), Value::Array(items)) if list.relation != ListRelation::Atomic => {
                let kept: Vec<Value> = items
                    .iter()
                    .filter_map(|child| {
                        let node = set.node(&item::element(list, child).ok()?)?;
                        let mut part = self
                            .extract_at(&list.element, child, &node.children)
                            .unwrap_or_else(|| empty_like(child));
                        if let (ListRelation::Map(keys), Value::Object(part)) =
                            (&list.relation, &mut part)
                        {
                            for key in keys {
                                if let Some(value) = child.get(&*key.name) {
                                    part.insert(key.name.to_string(), value.clone());
                                }
                            }
                        }
                        Some(part)
                    })
                    .collect();
                (!kept.is_empty()).then_some(Value::Array(kept))
            }
            (Form::Map(map), Value::Object(entries)) if !map.atomic => {
                let mut kept = Map::new();
                for (name, child) in entries {
                    let (Some(node), Some(reference)) = (set.field_node(name), map.entry(name))
                    else {
                        continue;
                    };
                    let part = self.extract_at(reference, child, &node.children);
                    if let Some(part) = part.or_else(|| node.member.then(|| empty_like(child))) {
                        kept.insert(name.clone(), part);
                    }
                }
                (!kept.is_empty()).then_some(Value::Object(kept))
            }
            _ => Some(value.clone()),
        }
    }
}

/// The empty form of a container none of whose contents are kept; scalars are kept.
fn empty_like(value: &Value) -> Value {
    match value {
        Value::Object(_) => Value::Object(Map::new()),
        Value::Array(_) => Value::Array(Vec::new()),
        scalar => scalar.clone(),
    }
}
