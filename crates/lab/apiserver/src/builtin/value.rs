//! Access to objects whose types have been checked.
//!
//! Paths are dotted (`spec.template.spec`); keys that contain dots, such as labels, are looked up
//! with [`Read::entry`]. Missing fields read as Go's zero value, which the implemented rules were
//! written against.

use machinery::field::Path;
use serde_json::{Map, Value};

static NULL: Value = Value::Null;

/// Reads below a value; missing fields read as null, empty or zero.
pub(crate) trait Read {
    /// The value at a path, `Null` when absent.
    fn at(&self, path: &str) -> &Value;
    /// A string, empty when absent.
    fn text(&self, path: &str) -> &str;
    /// A string that may be absent; an empty one counts.
    fn maybe_text(&self, path: &str) -> Option<&str>;
    /// An integer, if there is one.
    fn int(&self, path: &str) -> Option<i64>;
    /// An integer, zero when absent.
    fn number(&self, path: &str) -> i64;
    /// Whether a boolean is there and true.
    fn is_true(&self, path: &str) -> bool;
    /// A list, empty when absent.
    fn items(&self, path: &str) -> &[Value];
    /// The items of a list at `field`, each with its path below `path`.
    fn each(&self, path: &Path, field: &str) -> impl Iterator<Item = (Path, &Value)>;
    /// The strings of a list.
    fn texts(&self, path: &str) -> Vec<&str>;
    /// The same, owned.
    fn strings(&self, path: &str) -> Vec<String>;
    /// A map, if there is one.
    fn map(&self, path: &str) -> Option<&Map<String, Value>>;
    /// The entries of a map, in key order.
    fn entries(&self, path: &str) -> Vec<(&str, &Value)>;
    /// One entry of a map, with any key.
    fn entry(&self, path: &str, key: &str) -> Option<&Value>;
    /// Whether the field is present and not null.
    fn has(&self, path: &str) -> bool;
    /// Number of items or entries.
    fn count(&self, path: &str) -> usize;
    /// An annotation.
    fn annotation(&self, key: &str) -> Option<&str>;
    /// The object's name.
    fn name(&self) -> &str;
}

impl Read for Value {
    fn at(&self, path: &str) -> &Value {
        let mut here = self;
        for key in path.split('.').filter(|key| !key.is_empty()) {
            match here.get(key) {
                Some(next) => here = next,
                None => return &NULL,
            }
        }
        here
    }

    fn text(&self, path: &str) -> &str {
        self.at(path).as_str().unwrap_or_default()
    }

    fn maybe_text(&self, path: &str) -> Option<&str> {
        self.at(path).as_str()
    }

    fn int(&self, path: &str) -> Option<i64> {
        self.at(path).as_i64()
    }

    fn number(&self, path: &str) -> i64 {
        self.int(path).unwrap_or_default()
    }

    fn is_true(&self, path: &str) -> bool {
        self.at(path).as_bool().unwrap_or_default()
    }

    fn items(&self, path: &str) -> &[Value] {
        self.at(path)
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    fn each(&self, path: &Path, field: &str) -> impl Iterator<Item = (Path, &Self)> {
        indexed(&path.child(field), self.items(field))
    }

    fn texts(&self, path: &str) -> Vec<&str> {
        self.items(path).iter().filter_map(Self::as_str).collect()
    }

    fn strings(&self, path: &str) -> Vec<String> {
        self.texts(path).into_iter().map(str::to_owned).collect()
    }

    fn map(&self, path: &str) -> Option<&Map<String, Value>> {
        self.at(path).as_object()
    }

    fn entries(&self, path: &str) -> Vec<(&str, &Value)> {
        self.map(path)
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.as_str(), value))
            .collect()
    }

    fn entry(&self, path: &str, key: &str) -> Option<&Value> {
        self.at(path).get(key)
    }

    fn has(&self, path: &str) -> bool {
        !self.at(path).is_null()
    }

    fn count(&self, path: &str) -> usize {
        match self.at(path) {
            Self::Array(items) => items.len(),
            Self::Object(entries) => entries.len(),
            _ => 0,
        }
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.entry("metadata.annotations", key)
            .and_then(Self::as_str)
    }

    fn name(&self) -> &str {
        self.text("metadata.name")
    }
}

/// The items of a list, each with its path.
pub(crate) fn indexed<'a, T>(
    path: &Path,
    items: &'a [T],
) -> impl Iterator<Item = (Path, &'a T)> + use<'a, T> {
    let path = path.clone();
    let items = items.iter().enumerate();
    items.map(move |(i, item)| (path.index(i), item))
}

/// The value at a path, if it is present.
pub(crate) fn existing<'a>(value: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    let mut here = value;
    for key in path.split('.') {
        here = here.get_mut(key)?;
    }
    (!here.is_null()).then_some(here)
}

/// The object at a path, created when absent; `None` when a value of another type is in the way.
pub(crate) fn object_at<'a>(
    value: &'a mut Value,
    path: &str,
) -> Option<&'a mut Map<String, Value>> {
    let mut here = value;
    for key in path.split('.').filter(|key| !key.is_empty()) {
        here = here.as_object_mut()?.entry(key).or_insert(Value::Null);
        if here.is_null() {
            *here = Value::Object(Map::new());
        }
    }
    here.as_object_mut()
}

/// The items of a list, mutably; empty when there is no list.
pub(crate) fn items_mut<'a>(value: &'a mut Value, path: &str) -> &'a mut [Value] {
    existing(value, path)
        .and_then(Value::as_array_mut)
        .map(Vec::as_mut_slice)
        .unwrap_or_default()
}

/// Puts a value at a path.
pub(crate) fn set(value: &mut Value, path: &str, new: impl Into<Value>) {
    let (parent, key) = split(path);
    if let Some(object) = object_at(value, parent) {
        object.insert(key.to_owned(), new.into());
    }
}

/// Removes the value at a path.
pub(crate) fn remove(value: &mut Value, path: &str) {
    let (parent, key) = split(path);
    let parent = if parent.is_empty() {
        Some(value)
    } else {
        existing(value, parent)
    };
    if let Some(object) = parent.and_then(Value::as_object_mut) {
        object.remove(key);
    }
}

/// Sets a field that is absent. For fields that are pointers in Go, where an explicit zero stays.
pub(crate) fn fill(value: &mut Value, path: &str, default: impl Into<Value>) {
    if !value.has(path) {
        set(value, path, default);
    }
}

/// Sets a field that is absent, empty or zero. For fields that are plain values in Go.
pub(crate) fn fill_empty(value: &mut Value, path: &str, default: impl Into<Value>) {
    if is_zero(value.at(path)) {
        set(value, path, default);
    }
}

/// Copies a field from another object; removes it if it is absent there.
pub(crate) fn keep(value: &mut Value, old: &Value, path: &str) {
    match old.at(path) {
        Value::Null => remove(value, path),
        kept => set(value, path, kept.clone()),
    }
}

/// Whether this is the zero value of its Go type.
pub(crate) fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
    }
}

/// Whether two values are semantically equal: absent, null and empty collections are equal
/// (`apiequality.Semantic.DeepEqual`).
pub(crate) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            left.iter()
                .all(|(key, value)| same(value, right.get(key).unwrap_or(&NULL)))
                && right
                    .iter()
                    .all(|(key, value)| left.contains_key(key) || is_nothing(value))
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(left, right)| same(left, right))
        }
        (left, right) => left == right || (is_nothing(left) && is_nothing(right)),
    }
}

/// Null and empty lists. Empty objects count too: an empty struct is serialized either way.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.values().all(is_nothing),
        _ => false,
    }
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('.').unwrap_or(("", path))
}
