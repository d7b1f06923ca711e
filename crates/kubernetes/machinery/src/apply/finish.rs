//! Telling writes that change nothing.

use serde_json::{Map, Value};

use super::managed::{managed_fields, take_managed_fields};
use super::path::values_equal;

/// Ends a write: restores the old `managedFields` if only their times changed, and returns whether the
/// object is unchanged except for `metadata.resourceVersion`. If so there is nothing to store: no new
/// version, no event, and the response is the live object.
///
/// To be called for updates and applies alike, as the last step before storing: after defaulting,
/// admission, validation and the server's own fields (generation).
pub fn finish(live: &Value, object: &mut Value) -> bool {
    if !same_object(live, object, &["managedFields", "resourceVersion"]) {
        return false;
    }
    let (old, new) = (managed_fields(live), managed_fields(object));
    if old == new {
        return true;
    }
    let (Some(Value::Array(old_entries)), Some(Value::Array(new_entries))) = (old, new) else {
        return false;
    };
    // Entry by entry, in order: a new order is a change, as it is upstream.
    let only_times = old_entries.len() == new_entries.len()
        && old_entries
            .iter()
            .zip(new_entries)
            .all(|(old, new)| same_but_time(old, new));
    // The old entries are put back, times included: otherwise every no-op apply of a controller would write to
    // storage once a second and wake every watch.
    if only_times {
        take_managed_fields(object);
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.insert(
                "managedFields".to_owned(),
                Value::Array(old_entries.clone()),
            );
        }
    }
    only_times
}

fn same_but_time(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => same_fields(old, new, &["time"]),
        _ => old == new,
    }
}

/// Whether two objects are the same but for these fields of their metadata.
pub(super) fn same_object(a: &Value, b: &Value, ignored: &[&str]) -> bool {
    let (Value::Object(a), Value::Object(b)) = (a, b) else {
        return values_equal(a, b);
    };
    let same_metadata = match (a.get("metadata"), b.get("metadata")) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => same_fields(a, b, ignored),
        (Some(a), Some(b)) => values_equal(a, b),
        (None, None) => true,
        _ => false,
    };
    same_metadata && same_fields(a, b, &["metadata"])
}

fn same_fields(a: &Map<String, Value>, b: &Map<String, Value>, ignored: &[&str]) -> bool {
    let mut left = a
        .iter()
        .filter(|(name, _)| !ignored.contains(&name.as_str()));
    let mut right = b
        .iter()
        .filter(|(name, _)| !ignored.contains(&name.as_str()));
    loop {
        match (left.next(), right.next()) {
            (None, None) => return true,
            (Some((name_a, value_a)), Some((name_b, value_b)))
                if name_a == name_b && values_equal(value_a, value_b) => {}
            _ => return false,
        }
    }
}
