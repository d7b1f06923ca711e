//! Hashes: of the targets of a plan, of what was applied to one, and of a plan.
//!
//! All are SHA-256 over JSON as Go writes it, with sorted keys, and begin with `sha256:`. The form
//! without that prefix is understood as well.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::advisor::{Item, Operation, TargetRef, names};
use machinery::json;
use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::values::{self, PathError};

const PREFIX: &str = "sha256:";

/// The hash of the managed fields of some targets, each with the paths that are managed and the
/// object if there is one.
///
/// The text that is hashed maps `group/version/Kind/namespace/name` to the values by path; a target
/// that is missing to `{"__state":"NOT_FOUND"}`. A target that is named twice counts with the paths
/// of both, so that none is left unguarded.
pub fn snapshot_hash<'a>(
    entries: impl IntoIterator<Item = (&'a TargetRef, &'a [String], Option<&'a Value>)>,
) -> Result<String, PathError> {
    let mut targets: BTreeMap<String, BTreeMap<String, Value>> = BTreeMap::new();
    for (target, paths, object) in entries {
        let fields = match object {
            Some(object) => values::managed(object, paths)?,
            None => not_found(),
        };
        targets.entry(key(target)).or_default().extend(fields);
    }
    Ok(digest(&targets))
}

/// Whether two hashes are the same, with or without the prefix.
pub fn same_hash(a: &str, b: &str) -> bool {
    a.strip_prefix(PREFIX).unwrap_or(a) == b.strip_prefix(PREFIX).unwrap_or(b)
}

/// The hash of what was applied to a target: its managed fields.
pub fn applied_hash(values: &BTreeMap<String, Value>) -> String {
    digest(values)
}

/// What a plan is: the same items in the same order, made from the same state, have the same digest.
///
/// What is only told about an item does not count: impact, message, state, times, the diff, and who
/// owns the fields. Neither does the annotation that holds the hash of what was applied.
pub fn plan_digest(items: &[Item]) -> String {
    let content: Vec<Content<'_>> = items.iter().map(Content::of).collect();
    digest(&content)
}

/// The part of an item that is digested.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Content<'a> {
    name: &'a str,
    target_ref: &'a TargetRef,
    operation: Operation,
    desired_state: Option<Value>,
    managed_fields: &'a [String],
    depends_on: &'a [String],
    base: BTreeMap<String, Value>,
}

impl<'a> Content<'a> {
    fn of(item: &'a Item) -> Self {
        Self {
            name: &item.name,
            target_ref: &item.target_ref,
            operation: item.operation,
            desired_state: item.desired_state.as_ref().map(without_hash),
            managed_fields: &item.managed_fields,
            depends_on: &item.depends_on,
            base: item.base.clone().unwrap_or_else(not_found),
        }
    }
}

/// An object without the annotation that holds a hash, nor what is left empty by its absence.
fn without_hash(object: &Value) -> Value {
    let mut object = object.clone();
    remove_annotation(&mut object, names::APPLIED_PROFILE_HASH);
    object
}

/// Removes an annotation, and the annotations if they are empty then.
pub(crate) fn remove_annotation(object: &mut Value, name: &str) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(annotations) = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove(name);
    }
    if metadata
        .get("annotations")
        .and_then(Value::as_object)
        .is_some_and(Map::is_empty)
    {
        metadata.remove("annotations");
    }
}

fn not_found() -> BTreeMap<String, Value> {
    BTreeMap::from([("__state".to_owned(), json!("NOT_FOUND"))])
}

/// `group/version/Kind/namespace/name`; the core group is empty, a missing namespace is left out.
fn key(target: &TargetRef) -> String {
    let slash = if target.api_version.contains('/') {
        ""
    } else {
        "/"
    };
    let mut key = format!("{slash}{}/{}", target.api_version, target.kind);
    if let Some(namespace) = target.namespace.as_deref().filter(|name| !name.is_empty()) {
        key.push('/');
        key.push_str(namespace);
    }
    key.push('/');
    key.push_str(&target.name);
    key
}

fn digest<T: Serialize>(content: &T) -> String {
    use std::fmt::Write as _;
    let mut text = PREFIX.to_owned();
    for byte in Sha256::digest(json::to_vec(content)) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
