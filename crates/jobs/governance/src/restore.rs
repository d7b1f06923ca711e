//! Bringing managed fields back to what they were.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use machinery::apply::values_equal;
use serde_json::{Map, Value};

use crate::values::{at, normal, segments};

/// The JSON merge patch that brings the managed fields of a live object back to what they were, and
/// touches nothing else; `{}` if they are what they were.
///
/// A field that was absent is removed, and so is what came into a map; a list is replaced. A merge
/// patch cannot set null: a field that was null is removed, which means the same to a server.
/// `before` holds what [`crate::values::managed`] found at the same paths.
pub fn merge_patch(live: &Value, before: &BTreeMap<String, Value>, managed: &[String]) -> Value {
    let before: BTreeMap<String, &Value> = before
        .iter()
        .map(|(path, value)| (normal(path), value))
        .collect();
    // In this order a path comes behind those that it lies below, which decide.
    let mut paths: BTreeSet<String> = managed.iter().map(|path| normal(path)).collect();
    if paths.is_empty() {
        paths.insert("spec".to_owned());
    }
    let mut patch = Map::new();
    for path in paths {
        // What leads into a list is absent; the list cannot hold what was at the path.
        let now = at(live, &path).ok().flatten();
        if let Some(change) = change(now, before.get(&path).copied()) {
            insert(&mut patch, &path, change);
        }
    }
    Value::Object(patch)
}

/// What a merge patch has to say to turn one value into another; nothing if they are the same.
fn change(now: Option<&Value>, then: Option<&Value>) -> Option<Value> {
    let Some(then) = then.filter(|then| !then.is_null()) else {
        return now.map(|_| Value::Null);
    };
    match (now, then) {
        (Some(Value::Object(now)), Value::Object(then)) => {
            let keys: BTreeSet<&String> = now.keys().chain(then.keys()).collect();
            let changes: Map<String, Value> = keys
                .into_iter()
                .filter_map(|key| Some((key.clone(), change(now.get(key), then.get(key))?)))
                .collect();
            (!changes.is_empty()).then_some(Value::Object(changes))
        }
        (Some(now), then) if values_equal(now, then) => None,
        (_, then) => Some(then.clone()),
    }
}

/// Puts a change at its place in a patch, unless a change above it says everything already.
fn insert(patch: &mut Map<String, Value>, path: &str, change: Value) {
    let mut here = patch;
    let mut names = segments(path).peekable();
    while let Some(name) = names.next() {
        if names.peek().is_none() {
            here.insert(name.to_owned(), change);
            return;
        }
        let below = here
            .entry(name)
            .or_insert_with(|| Value::Object(Map::new()));
        let Value::Object(below) = below else {
            return;
        };
        here = below;
    }
}
