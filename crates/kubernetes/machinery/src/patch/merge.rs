//! Merge patch (RFC 7396), with the habits of the library kube-apiserver uses for it.

use serde_json::{Map, Value};

use super::PatchError;
use crate::json::{self, Decoded};

/// Decodes a merge patch.
///
/// `checked` tells whether duplicates are detected (`fieldValidation` is `Warn` or `Strict`): only then
/// the patch is decoded as an object first, which gives the more detailed errors.
pub fn decode_merge_patch(bytes: &[u8], checked: bool) -> Result<Decoded, PatchError> {
    let decoded = json::decode(bytes).map_err(|error| {
        PatchError::Malformed(if checked {
            format!("error decoding patch: {error}")
        } else {
            INVALID.to_owned()
        })
    })?;
    match &decoded.value {
        Value::Object(_) => Ok(decoded),
        other if checked && !other.is_null() => {
            let found = json::go_type(other);
            Err(PatchError::Malformed(format!(
                "error decoding patch: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
            )))
        }
        // Unchecked, a list takes the place of the object; what follows will not like it.
        Value::Array(_) => Ok(decoded),
        _ => Err(PatchError::Malformed(INVALID.to_owned())),
    }
}

const INVALID: &str = "Invalid JSON Patch";

/// Applies a merge patch: null removes, objects merge, everything else replaces.
pub fn merge_patch(doc: &mut Value, patch: &Value) -> Result<(), PatchError> {
    match (&mut *doc, patch) {
        (Value::Object(doc), Value::Object(patch)) => merge_objects(doc, patch),
        (_, Value::Object(_) | Value::Array(_)) => *doc = without_nulls(patch),
        _ => return Err(PatchError::Malformed(INVALID.to_owned())),
    }
    Ok(())
}

fn merge_objects(doc: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        match (doc.get_mut(key), value) {
            (_, Value::Null) => {
                doc.remove(key);
            }
            (Some(Value::Object(current)), Value::Object(changes)) => {
                merge_objects(current, changes);
            }
            // A list that takes the place of an object keeps its nulls; in every other case the
            // new value loses those in objects, also inside lists (RFC 7396 would keep them there).
            (Some(current @ Value::Object(_)), other) => *current = other.clone(),
            (Some(current), other) => *current = without_nulls(other),
            (None, other) => {
                doc.insert(key.clone(), without_nulls(other));
            }
        }
    }
}

/// `value` without object members that are null, at any depth.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(_, member)| !member.is_null())
                .map(|(key, member)| (key.clone(), without_nulls(member)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        scalar => scalar.clone(),
    }
}

/// What has to be patched to make one value of another. A field that is null and one that is not
/// there are the same to a merge patch.
pub fn merge_difference(from: &Value, to: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (from, to) else {
        return to.clone();
    };
    let gone = old
        .keys()
        .filter(|key| !new.contains_key(*key))
        .map(|key| (key.clone(), Value::Null));
    let changed = new.iter().filter_map(|(key, value)| match old.get(key) {
        Some(before) if before == value => None,
        Some(before) => Some((key.clone(), merge_difference(before, value))),
        None => Some((key.clone(), value.clone())),
    });
    Value::Object(gone.chain(changed).collect())
}
