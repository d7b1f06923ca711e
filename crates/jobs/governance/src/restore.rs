//! Restores managed fields to former values.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use machinery::apply::values_equal;
use serde_json::{Map, Value};

use crate::values::{at, normal, segments};

/// The JSON merge patch that restores the managed fields of a live object to their former values, and changes nothing
/// else; `{}` if they have them.
///
/// A field that was absent is removed, and so are keys added to a map; a list is replaced. A merge patch cannot set
/// null: a field that was null is removed, which is equivalent for a server. `before` holds the result of
/// [`crate::values::managed`] for the same paths.
pub(crate) fn merge_patch(
    live: &Value,
    before: &BTreeMap<String, Value>,
    managed: &[String],
) -> Value {
    let before: BTreeMap<String, &Value> = before
        .iter()
        .map(|(path, value)| (normal(path), value))
        .collect();
    // Sorted, so that a path comes after those above it, which take precedence.
    let mut paths: BTreeSet<String> = managed.iter().map(|path| normal(path)).collect();
    if paths.is_empty() {
        paths.insert("spec".to_owned());
    }
    let mut patch = Map::new();
    for path in paths {
        // A path into a list counts as absent; the list cannot hold the former value.
        let now = at(live, &path).ok().flatten();
        if let Some(change) = change(now, before.get(&path).copied()) {
            insert(&mut patch, &path, change);
        }
    }
    Value::Object(patch)
}

/// The merge patch from one value to another; `None` if they are equal.
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

/// Inserts a change into a patch, unless a change above it covers it.
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
        // A path above it is replaced or removed as a whole, which covers this one.
        let Value::Object(below) = below else {
            return;
        };
        here = below;
    }
}
