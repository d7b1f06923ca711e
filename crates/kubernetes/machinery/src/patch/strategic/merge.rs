//! Merging objects, and the directives that stand in them.

use serde_json::{Map, Value};

use super::lists::merge_lists;
use super::order::merge_ordered_lists;
use super::{PatchStrategy, StrategicType, must_be_object, object_field};
use crate::json::go_dynamic_type;
use crate::patch::{PatchError, go_print};

pub(super) type Object = Map<String, Value>;

/// Marks an object, or an item of a list, as one to `replace` or `delete`.
pub(super) const DIRECTIVE: &str = "$patch";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const RETAIN_KEYS: &str = "$retainKeys";
pub(super) const SET_ORDER: &str = "$setElementOrder";

/// Applies a strategic merge patch to an object of the type `ty`.
pub fn strategic_merge_patch(
    doc: &Value,
    patch: &Value,
    ty: &dyn StrategicType,
) -> Result<Value, PatchError> {
    if patch.is_null() {
        return Ok(doc.clone());
    }
    must_be_object(patch)?;
    let (Value::Object(doc), Value::Object(patch)) = (doc, patch) else {
        return Err(wrong_type("map[string]interface {}", doc));
    };
    merge_objects(doc.clone(), patch.clone(), ty).map(Value::Object)
}

pub(super) fn merge_objects(
    mut original: Object,
    mut patch: Object,
    ty: &dyn StrategicType,
) -> Result<Object, PatchError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Object::new()),
            _ => Err(unknown_directive(&patch)),
        };
    }
    // First the keys, then the ordered lists, then the rest: `mergeMapHandler` upstream works in this order, and each
    // step takes its directives out of the patch.
    retain_keys(&mut original, &mut patch)?;
    merge_ordered_lists(&mut original, &mut patch, ty)?;
    for (key, value) in patch {
        let (key, deletion) = deletion_target(key)?;
        if value.is_null() {
            original.remove(&key);
            continue;
        }
        let merged = match (original.remove(&key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                let field = object_field(ty, &key)?;
                Some(Value::Object(match field.strategy {
                    PatchStrategy::Replace => new,
                    _ => merge_objects(old, new, &*field.ty)?,
                }))
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                Some(merge_lists(old, new, &key, ty, deletion)?)
            }
            // A deletion from a list that does not exist deletes nothing; inserting the
            // patch would create what was to be removed.
            (old, _) if deletion => old,
            (_, mut new) => {
                discard_nulls(&mut new);
                without_directives(new)
            }
        };
        if let Some(merged) = merged {
            original.insert(key, merged);
        }
    }
    Ok(original)
}

/// The list a key names, and whether it names it in order to delete from it.
fn deletion_target(key: String) -> Result<(String, bool), PatchError> {
    if !key.starts_with(DELETE_FROM_LIST) {
        return Ok((key, false));
    }
    match key.split_once('/') {
        Some((DELETE_FROM_LIST, "")) => Ok((key, true)),
        Some((DELETE_FROM_LIST, target)) => Ok((target.to_owned(), true)),
        _ => Err(PatchError::Malformed(
            "invalid patch format of primitive list".to_owned(),
        )),
    }
}

/// Obeys `$retainKeys`: what it does not list goes, and the patch may set nothing else.
fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), PatchError> {
    let malformed = || PatchError::Malformed("invalid patch format of retainKeys".to_owned());
    let Some(keys) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let keys = keys.as_array().ok_or_else(malformed)?;
    let keys: std::collections::HashSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let unlisted = patch.iter().any(|(key, value)| {
        let exempt =
            value.is_null() || key.starts_with(DELETE_FROM_LIST) || key.starts_with(SET_ORDER);
        !exempt && !keys.contains(key.as_str())
    });
    if unlisted {
        return Err(malformed());
    }
    original.retain(|key, _| keys.contains(key.as_str()));
    Ok(())
}

/// Removes null members of objects; there is nothing they could delete.
fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, member| !member.is_null());
            map.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// A new value without the objects that carry `$patch`.
pub(super) fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => Some(Value::Object(
            map.into_iter()
                .filter_map(|(key, member)| without_directives(member).map(|kept| (key, kept)))
                .collect(),
        )),
        Value::Array(items) => Some(Value::Array(
            items.into_iter().filter_map(without_directives).collect(),
        )),
        scalar => Some(scalar),
    }
}

/// `$patch` with a value that means nothing here.
pub(super) fn unknown_directive(patch: &Object) -> PatchError {
    let directive = match patch.get(DIRECTIVE) {
        Some(Value::String(text)) => text.clone(),
        // Go's `%s` of a value that is not a string names the type.
        Some(Value::Null) | None => "%!s(<nil>)".to_owned(),
        Some(other) => format!("%!s({}={})", go_dynamic_type(other), go_print(other)),
    };
    PatchError::Internal(format!(
        "unknown patch type: {directive} in map: {}",
        print_object(patch)
    ))
}

/// An item without the field its list is merged by.
pub(super) fn no_merge_key(item: &Object, merge_key: &str) -> PatchError {
    PatchError::Internal(format!(
        "map: {} does not contain declared merge key: {merge_key}",
        print_object(item)
    ))
}

/// A value of another type than the directive or the field asks for.
pub(super) fn wrong_type(expected: &str, found: &Value) -> PatchError {
    let found = if found.is_null() {
        "%!s(<nil>)"
    } else {
        go_dynamic_type(found)
    };
    PatchError::Internal(format!("expected a {expected}, but received a {found}"))
}

fn print_object(object: &Object) -> String {
    go_print(&Value::Object(object.clone()))
}
