//! Merging lists: of scalars as sets, of objects by their merge key.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::merge::{DIRECTIVE, merge_objects, no_merge_key, unknown_directive};
use super::order::{Order, normalize, partition};
use super::{PatchStrategy, StrategicField, StrategicType, list_field};
use crate::json::go_dynamic_type;
use crate::patch::{PatchError, go_print};

/// Whether the items of a list are objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Items {
    Objects,
    Scalars,
}

/// Merges a list below the field `name` of `parent`; `deletion` takes items away instead.
pub(super) fn merge_lists(
    original: Vec<Value>,
    patch: Vec<Value>,
    name: &str,
    parent: &dyn StrategicType,
    deletion: bool,
) -> Result<Value, PatchError> {
    let field = list_field(parent, name)?;
    merge_field_lists(original, patch, &field, deletion).map(Value::Array)
}

/// The same with the field at hand.
pub(super) fn merge_field_lists(
    original: Vec<Value>,
    patch: Vec<Value>,
    field: &StrategicField<'_>,
    deletion: bool,
) -> Result<Vec<Value>, PatchError> {
    // Deletions work on every list of scalars, whatever its strategy.
    if field.strategy != PatchStrategy::Merge && !deletion {
        return Ok(patch);
    }
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let merge_key = field.merge_key.unwrap_or_default();
    let items = items_of(&original, &patch)?;
    let (original, patch) = match items {
        Items::Scalars if deletion => {
            let gone: HashSet<&Value> = patch.iter().collect();
            return Ok(original
                .into_iter()
                .filter(|item| !gone.contains(item))
                .collect());
        }
        Items::Scalars => (original, patch),
        Items::Objects if merge_key.is_empty() => {
            return Err(PatchError::Internal(format!(
                "cannot merge lists without merge key for {}",
                field.ty.kind().name()
            )));
        }
        Items::Objects => apply_item_directives(original, patch, merge_key)?,
    };
    let server_order = Order::new(&original, merge_key, items);
    let patch_order = Order::new(&patch, merge_key, items);
    let merged = match items {
        Items::Scalars => unique(original, &patch),
        Items::Objects => merge_items(original, patch.clone(), merge_key, &*field.ty)?,
    };
    let (listed, rest) = partition(merged, &patch, merge_key)?;
    normalize(listed, rest, &patch_order, &server_order)
}

/// What the items of both lists are (`sliceElementType`): they have to be of one type.
pub(super) fn items_of(original: &[Value], patch: &[Value]) -> Result<Items, PatchError> {
    let mut items = original.iter().chain(patch);
    let Some(first) = items.next() else {
        return Err(PatchError::Internal(
            "no elements in any of the given slices".to_owned(),
        ));
    };
    match first {
        Value::Array(_) => {
            return Err(PatchError::Unprocessable(
                "lists of lists are not supported".to_owned(),
            ));
        }
        // A genuine server dies here; refusing is as much as can be kept of that.
        Value::Null => {
            return Err(PatchError::Internal(
                "null items in a merging list".to_owned(),
            ));
        }
        _ => {}
    }
    if items.any(|item| go_dynamic_type(item) != go_dynamic_type(first)) {
        let lists = Value::Array(vec![original.into(), patch.into()]);
        return Err(PatchError::Internal(format!(
            "list element types are not identical: {}",
            go_print(&lists)
        )));
    }
    Ok(if first.is_object() {
        Items::Objects
    } else {
        Items::Scalars
    })
}

/// Removes the items with `$patch` from the patch and applies their directives.
fn apply_item_directives(
    original: Vec<Value>,
    patch: Vec<Value>,
    merge_key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut doomed: HashSet<Value> = HashSet::new();
    let mut replace = false;
    for item in patch {
        let Some(object) = item.as_object() else {
            continue;
        };
        let Some(directive) = object.get(DIRECTIVE) else {
            plain.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let key = object
                    .get(merge_key)
                    .ok_or_else(|| no_merge_key(object, merge_key))?;
                doomed.insert(key.clone());
            }
            // The rest of the list still decides what it is replaced by.
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(PatchError::Internal(
                    "merging lists cannot yet be specified in the patch".to_owned(),
                ));
            }
            _ => return Err(unknown_directive(object)),
        }
    }
    if replace {
        return Ok((plain, Vec::new()));
    }
    let kept = original
        .into_iter()
        .filter(|item| !item.get(merge_key).is_some_and(|key| doomed.contains(key)))
        .collect();
    Ok((kept, plain))
}

/// Merges items with the same key; the others are appended as they are.
fn merge_items(
    mut merged: Vec<Value>,
    patch: Vec<Value>,
    merge_key: &str,
    ty: &dyn StrategicType,
) -> Result<Vec<Value>, PatchError> {
    let mut places: HashMap<Value, usize> = HashMap::new();
    for (place, item) in merged.iter().enumerate() {
        if let Some(key) = item.get(merge_key) {
            // The first of several items with one key: `findMapInSliceBasedOnKeyValue` upstream stops there.
            places.entry(key.clone()).or_insert(place);
        }
    }
    for item in patch {
        let Value::Object(item) = item else { continue };
        let key = item
            .get(merge_key)
            .ok_or_else(|| no_merge_key(&item, merge_key))?
            .clone();
        if let Some(slot) = places.get(&key).and_then(|place| merged.get_mut(*place)) {
            if let Value::Object(old) = slot.take() {
                *slot = Value::Object(merge_objects(old, item, ty)?);
            }
        } else {
            places.insert(key, merged.len());
            merged.push(Value::Object(item));
        }
    }
    Ok(merged)
}

/// Both lists of scalars, each value once.
fn unique(original: Vec<Value>, patch: &[Value]) -> Vec<Value> {
    let mut seen = HashSet::new();
    original
        .into_iter()
        .chain(patch.iter().cloned())
        .filter(|item| seen.insert(item.clone()))
        .collect()
}
