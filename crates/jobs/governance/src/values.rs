//! What stands at the paths that an item manages, and where two states of them differ.
//!
//! A path is a dotted one (`spec.evictionLimits.total`). Empty segments are ignored, so leading and
//! trailing dots do no harm. Keys that hold a dot and items of lists cannot be named.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use machinery::apply::values_equal;
use serde_json::{Map, Value};

/// How long a value may be in a message.
const SHORT: usize = 80;

/// A path that leads into a list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "path {path:?} leads into the list at {list:?}: items of lists cannot be managed one by one, only the list as a whole"
)]
pub struct PathError {
    /// The path that was asked for.
    pub path: String,
    /// Where the list is.
    pub list: String,
}

/// A field that is not what it should be.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The field.
    pub path: String,
    /// What it should be.
    pub wanted: Option<Value>,
    /// What it is; absent if there is no such field.
    pub live: Option<Value>,
}

/// A field that is not what it was.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The field.
    pub path: String,
    /// What it was; absent if there was no such field.
    pub from: Option<Value>,
    /// What it is; absent if there is no such field any more.
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

/// The value at a path, if there is one. Nothing is below a scalar.
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

/// The values at the managed paths, without those that are absent; the whole specification if
/// nothing is said to be managed.
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

/// Where a live object is not what is wanted at the managed paths.
///
/// What others add to a map is none of our business, so only the keys that are wanted count. Lists
/// and scalars are compared as a whole. A wanted null is satisfied by an absent field.
pub fn differences(wanted: &BTreeMap<String, Value>, live: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    for (path, value) in wanted {
        // What leads into a list is not at the path that is wanted.
        let there = at(live, path).ok().flatten();
        compare(&normal(path), value, there, &mut found);
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found.dedup();
    found
}

fn compare(path: &str, wanted: &Value, live: Option<&Value>, found: &mut Vec<Difference>) {
    match (wanted, live) {
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

/// What happened to the managed values since they were recorded: every change, addition and removal.
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
        // A map that came or went is told field by field, unless there are none to tell.
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

/// A value in a message: compact JSON, cut if it is long; `<none>` if there is none.
pub fn short(value: Option<&Value>) -> String {
    let Some(value) = value else {
        return "<none>".to_owned();
    };
    let text = value.to_string();
    match text.char_indices().nth(SHORT) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
