//! The values at the managed paths of an item, and the differences between two states of them.
//!
//! A path is dotted (`spec.evictionLimits.total`). Empty segments are ignored, so leading and trailing dots are
//! harmless. Keys that contain a dot and list items cannot be addressed.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use machinery::apply::values_equal;
use serde_json::{Map, Value};

/// Maximum length of a value in a message.
const MAX_SHOWN_CHARS: usize = 80;

/// A path that leads into a list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "path {path:?} leads into the list at {list:?}: items of lists cannot be managed one by one, only the list as a whole"
)]
pub struct PathError {
    /// The requested path.
    pub path: String,
    /// The path of the list.
    pub list: String,
}

/// A field that differs from its desired value.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The field.
    pub path: String,
    /// The desired value.
    pub wanted: Option<Value>,
    /// The live value; absent if there is no such field.
    pub live: Option<Value>,
}

/// A field that changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The field.
    pub path: String,
    /// The former value; absent if there was no such field.
    pub from: Option<Value>,
    /// The current value; absent if the field was removed.
    pub to: Option<Value>,
}

/// The segments of a path.
pub(crate) fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').filter(|segment| !segment.is_empty())
}

/// A path without superfluous dots.
pub(crate) fn normal(path: &str) -> String {
    segments(path).collect::<Vec<_>>().join(".")
}

/// The value at a path, if there is one. A scalar has no fields below it.
pub fn at<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, PathError> {
    let mut here = object;
    for (depth, segment) in segments(path).enumerate() {
        here = match here {
            Value::Object(map) => match map.get(segment) {
                Some(below) => below,
                None => return Ok(None),
            },
            Value::Array(_) => {
                return Err(PathError {
                    path: path.to_owned(),
                    list: segments(path).take(depth).collect::<Vec<_>>().join("."),
                });
            }
            _ => return Ok(None),
        };
    }
    Ok(Some(here))
}

/// The values at the managed paths, without absent ones; the whole spec if no paths are given.
pub fn managed(object: &Value, paths: &[String]) -> Result<BTreeMap<String, Value>, PathError> {
    let whole = ["spec".to_owned()];
    let paths = if paths.is_empty() { &whole } else { paths };
    let mut values = BTreeMap::new();
    for path in paths {
        if let Some(value) = at(object, path)? {
            values.insert(path.clone(), value.clone());
        }
    }
    Ok(values)
}

/// The differences between desired and live values at the managed paths.
///
/// Keys that other managers add to a map are ignored: only desired keys count. Lists and scalars are compared as a
/// whole. A desired null matches an absent field.
pub fn differences(wanted: &BTreeMap<String, Value>, live: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    for (path, value) in wanted {
        // A path into a list counts as absent.
        let there = at(live, path).ok().flatten();
        compare(&normal(path), value, there, &mut found);
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found.dedup();
    found
}

fn compare(path: &str, wanted: &Value, live: Option<&Value>, found: &mut Vec<Difference>) {
    match (wanted, live) {
        // The API server drops nulls of fields that are not nullable, so a desired null would be drift for ever.
        (Value::Null, None) => {}
        (Value::Object(map), Some(Value::Object(there))) => {
            for (key, value) in map {
                compare(&below(path, key), value, there.get(key), found);
            }
        }
        (Value::Object(map), None) if !map.is_empty() => {
            for (key, value) in map {
                compare(&below(path, key), value, None, found);
            }
        }
        (_, Some(there)) if values_equal(wanted, there) => {}
        _ => found.push(Difference {
            path: path.to_owned(),
            wanted: Some(wanted.clone()),
            live: live.cloned(),
        }),
    }
}

/// The changes of managed values since they were recorded: modifications, additions and removals.
pub fn changes(
    base: &BTreeMap<String, Value>,
    live_managed: &BTreeMap<String, Value>,
) -> Vec<Change> {
    let paths: BTreeSet<&String> = base.keys().chain(live_managed.keys()).collect();
    let mut found = Vec::new();
    for path in paths {
        collect(
            &normal(path),
            base.get(path),
            live_managed.get(path),
            &mut found,
        );
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found.dedup();
    found
}

fn collect(path: &str, from: Option<&Value>, to: Option<&Value>, found: &mut Vec<Change>) {
    let empty = Map::new();
    let maps = match (from, to) {
        (Some(Value::Object(from)), Some(Value::Object(to))) => Some((from, to)),
        // An added or removed map is reported field by field, unless it is empty.
        (Some(Value::Object(from)), None) if !from.is_empty() => Some((from, &empty)),
        (None, Some(Value::Object(to))) if !to.is_empty() => Some((&empty, to)),
        _ => None,
    };
    if let Some((from, to)) = maps {
        let keys: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
        for key in keys {
            collect(&below(path, key), from.get(key), to.get(key), found);
        }
        return;
    }
    let same = match (from, to) {
        (Some(from), Some(to)) => values_equal(from, to),
        (from, to) => from.is_none() && to.is_none(),
    };
    if !same {
        found.push(Change {
            path: path.to_owned(),
            from: from.cloned(),
            to: to.cloned(),
        });
    }
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// A value for a message: compact JSON, truncated if long; `<none>` if absent.
pub fn short(value: Option<&Value>) -> String {
    let Some(value) = value else {
        return "<none>".to_owned();
    };
    let text = value.to_string();
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
