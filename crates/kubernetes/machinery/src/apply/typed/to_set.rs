//! The fields that a configuration mentions.

use std::sync::Arc;

use serde_json::Value;

use super::{Typed, item};
use crate::apply::path::PathElement;
use crate::apply::schema::{Form, ListRelation, ListType, MapType, TypeRef};
use crate::apply::set::FieldSet;

impl Typed<'_> {
    /// Every leaf and every list item in `value`. Non-empty declared fields are not in the set
    /// themselves, only their contents; entries of maps and items of lists are.
    pub fn to_set(&self, value: &Value) -> FieldSet {
        self.set_of(self.root, value).1
    }

    /// Whether the value is a leaf, and the set of its contents.
    fn set_of(&self, reference: &TypeRef, value: &Value) -> (bool, FieldSet) {
        let Some(definition) = self.schema.resolve(reference) else {
            return (false, FieldSet::default());
        };
        match definition.form(definition.forms(Some(value))) {
            Some(
                Form::Scalar(_)
                | Form::List(ListType {
                    relation: ListRelation::Atomic,
                    ..
                })
                | Form::Map(MapType { atomic: true, .. }),
            ) => (true, FieldSet::default()),
            Some(Form::List(list)) => (false, self.set_of_items(list, value)),
            Some(Form::Map(map)) => (false, self.set_of_entries(map, value)),
            None => (false, FieldSet::default()),
        }
    }

    fn set_of_items(&self, list: &ListType, value: &Value) -> FieldSet {
        let mut items: Vec<(PathElement, &Value)> = value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|child| Some((item::element(list, child).ok()?, child)))
            .collect();
        items.sort_by(|a, b| a.0.cmp(&b.0));
        let mut set = FieldSet::default();
        for same in items.chunk_by(|a, b| a.0 == b.0) {
            if let [(element, child)] = same {
                let (_, children) = self.set_of(&list.element, child);
                set.push(element.clone(), true, children);
            } else if let Some((element, _)) = same.first() {
                // Items with the same key are owned as a whole.
                set.push(element.clone(), true, FieldSet::default());
            }
        }
        set
    }

    fn set_of_entries(&self, map: &MapType, value: &Value) -> FieldSet {
        let mut set = FieldSet::default();
        for (name, child) in value.as_object().into_iter().flatten() {
            let (name, reference): (Arc<str>, &TypeRef) = match map.fields.get_key_value(&**name) {
                Some((declared, reference)) => (declared.clone(), reference),
                None => match &map.element {
                    Some(reference) => (name.as_str().into(), reference),
                    None => continue,
                },
            };
            let (leaf, children) = self.set_of(reference, child);
            let empty = match child {
                Value::Null => true,
                Value::Object(entries) => entries.is_empty(),
                _ => false,
            };
            // Entries of free maps are owned themselves, declared fields are not: removing the last label leaves
            // `labels` without an owner, while a struct vanishes only with all its fields (`typed/tofieldset.go`).
            let member = leaf || empty || !map.fields.contains_key(&name);
            set.push(PathElement::Field(name), member, children);
        }
        set
    }
}
