//! Putting an applied configuration onto a live object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{Typed, item};
use crate::apply::path::PathElement;
use crate::apply::schema::{Form, ListRelation, ListType, MapType, TypeRef};

impl Typed<'_> {
    /// `live` merged with `config`: the configuration wins at leaves, maps are merged by key,
    /// associative lists by item. Nothing is removed.
    pub fn merge(&self, live: &Value, config: &Value) -> Value {
        self.merge_at(self.root, live, config)
    }

    fn merge_at(&self, reference: &TypeRef, live: &Value, config: &Value) -> Value {
        let Some(definition) = self.schema.resolve(reference) else {
            return config.clone();
        };
        // When the forms differ, that of the configuration decides.
        match definition.form(definition.forms(Some(config))) {
            Some(Form::List(list)) => match (live.as_array(), config.as_array()) {
                _ if list.relation == ListRelation::Atomic => config.clone(),
                (Some(live), None) if !live.is_empty() => Value::Array(live.clone()),
                (Some(live), Some(config)) if !live.is_empty() => {
                    Value::Array(self.merge_items(list, live, config))
                }
                _ => config.clone(),
            },
            Some(Form::Map(map)) => match (live.as_object(), config.as_object()) {
                _ if map.atomic => config.clone(),
                (Some(live), None) if !live.is_empty() => {
                    Value::Object(self.merge_entries(map, live, &Map::new()))
                }
                (Some(live), Some(config)) if !live.is_empty() => {
                    Value::Object(self.merge_entries(map, live, config))
                }
                _ => config.clone(),
            },
            Some(Form::Scalar(_)) | None => config.clone(),
        }
    }

    fn merge_entries(
        &self,
        map: &MapType,
        live: &Map<String, Value>,
        config: &Map<String, Value>,
    ) -> Map<String, Value> {
        let mut out = Map::new();
        let keep = |name: &str| {
            !map.entry(name)
                .and_then(|reference| self.schema.resolve(reference))
                .is_some_and(|definition| definition.opaque)
        };
        for (name, value) in live {
            if !keep(name) {
                continue;
            }
            let merged = match (config.get(name), map.entry(name)) {
                (Some(applied), Some(reference)) => self.merge_at(reference, value, applied),
                (Some(applied), None) => applied.clone(),
                (None, _) => value.clone(),
            };
            out.insert(name.clone(), merged);
        }
        for (name, applied) in config {
            if !live.contains_key(name) && keep(name) {
                out.insert(name.clone(), applied.clone());
            }
        }
        out
    }

    /// Upstream's order (`mergingWalker.visitListItems`): items that both have follow the applied
    /// order, items that only one has stay where they are relative to them.
    fn merge_items(&self, list: &ListType, live: &[Value], config: &[Value]) -> Vec<Value> {
        let elements = |items: &[Value]| -> Option<Vec<PathElement>> {
            items
                .iter()
                .map(|child| item::element(list, child).ok())
                .collect()
        };
        let (Some(live_elements), Some(config_elements)) = (elements(live), elements(config))
        else {
            return config.to_vec();
        };
        let mut live_at: BTreeMap<&PathElement, Option<&Value>> = BTreeMap::new();
        for (element, value) in live_elements.iter().zip(live) {
            // Items with the same key are replaced, not merged.
            live_at
                .entry(element)
                // Only stored objects can have duplicates, from before the list became associative. Merging into one
                // of them would be arbitrary, so an applied item replaces all of its key.
                .and_modify(|there| *there = None)
                .or_insert(Some(value));
        }
        let config_at: BTreeSet<&PathElement> = config_elements.iter().collect();
        let merge_one = |element: &PathElement, applied: &Value| match live_at.get(element) {
            Some(Some(value)) => self.merge_at(&list.element, value, applied),
            _ => applied.clone(),
        };

        let mut shared = config_elements
            .iter()
            .filter(|element| live_at.contains_key(element))
            .peekable();
        let mut merged: BTreeSet<&PathElement> = BTreeSet::new();
        let mut out = Vec::with_capacity(live.len().max(config.len()));
        let mut left = live_elements.iter().zip(live).peekable();
        let mut right = config_elements.iter().zip(config).peekable();
        loop {
            if let (Some(&(mine, _)), Some(&(theirs, applied))) = (left.peek(), right.peek()) {
                if mine == theirs {
                    out.push(merge_one(theirs, applied));
                    merged.insert(theirs);
                    left.next();
                    right.next();
                    shared.next();
                    continue;
                }
                // Both have it, but another one is due first.
                if config_at.contains(mine) && shared.peek().is_some_and(|due| *due != mine) {
                    left.next();
                    continue;
                }
            }
            if let Some(&(mine, value)) = left.peek() {
                if !config_at.contains(mine) {
                    out.push(value.clone());
                    left.next();
                    continue;
                }
                if merged.contains(mine) {
                    left.next();
                }
            }
            let Some((theirs, applied)) = right.next() else {
                if left.peek().is_none() {
                    return out;
                }
                continue;
            };
            out.push(merge_one(theirs, applied));
            merged.insert(theirs);
            shared.next_if(|due| *due == theirs);
        }
    }
}
