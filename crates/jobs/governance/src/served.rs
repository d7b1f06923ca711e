//! The schema by which an API server decodes the objects of a kind: what it prunes, and what it defaults.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use machinery::apply::values_equal;
use machinery::schema::{Schema, default, prune};
use serde_json::{Map, Value, json};

use crate::snapshot::Kind;
use crate::values::{self, segments};

/// The schema of a kind in the version that is read. A built-in kind, or one whose CRD is not readable, has none:
/// nothing is pruned or defaulted by it.
#[derive(Debug)]
pub struct ServedSchema(Option<Schema>);

impl ServedSchema {
    /// The schema of a kind.
    pub fn of(kind: Option<&Kind>) -> Self {
        Self(kind.and_then(|kind| {
            let versions = &kind.definition.as_ref()?.spec.versions;
            let version = versions
                .iter()
                .find(|version| version.name == kind.version)?;
            let schema = version.schema.as_ref()?.open_api_v3_schema.as_ref()?;
            Schema::parse(&json!(schema)).ok()
        }))
    }

    /// Decodes an object as the API server does: undeclared fields are dropped, and absent ones get their defaults.
    pub fn decode(&self, object: &mut Value) {
        if let Some(schema) = &self.0 {
            prune(object, schema, true);
            default(object, schema);
        }
    }

    /// The paths, of those in which values differ, that are pruned from an object with these values.
    pub fn pruned(&self, values: &BTreeMap<String, Value>) -> BTreeSet<String> {
        let Some(schema) = &self.0 else {
            return BTreeSet::new();
        };
        let mut object = with_values(values);
        prune(&mut object, schema, true);
        let lost = values::differences(values, &object).into_iter();
        lost.map(|difference| difference.path).collect()
    }

    /// Whether the value of a field is the default that the schema gives to it, or to an object that contains it.
    pub fn is_default(&self, object: &Value, path: &str) -> bool {
        let Some(schema) = &self.0 else {
            return false;
        };
        let Ok(Some(value)) = values::at(object, path) else {
            return false;
        };
        let steps: Vec<&str> = segments(path).collect();
        // The default may be that of an object above: leave out the field itself first, then what contains it.
        (1..=steps.len()).rev().any(|depth| {
            let mut without = object.clone();
            remove(&mut without, steps.get(..depth).unwrap_or_default());
            default(&mut without, schema);
            values::at(&without, path)
                .ok()
                .flatten()
                .is_some_and(|given| values_equal(given, value))
        })
    }
}

/// An object that has these values at their paths, and nothing else.
fn with_values(values: &BTreeMap<String, Value>) -> Value {
    let mut object = json!({});
    for (path, value) in values {
        put(&mut object, path, value.clone());
    }
    object
}

/// Sets the value at a dotted path; what is in the way and no object is replaced.
pub(crate) fn put(object: &mut Value, path: &str, value: Value) {
    let mut place = object;
    for segment in segments(path) {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[segment];
    }
    *place = value;
}

/// Removes the field at a path.
pub(crate) fn remove(object: &mut Value, steps: &[&str]) {
    let Some((last, above)) = steps.split_last() else {
        return;
    };
    let mut place = object;
    for step in above {
        match place.get_mut(*step) {
            Some(below) => place = below,
            None => return,
        }
    }
    if let Some(fields) = place.as_object_mut() {
        fields.remove(*last);
    }
}
