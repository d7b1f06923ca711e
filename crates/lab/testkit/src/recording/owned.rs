//! The part of an object that some field managers own, by its `metadata.managedFields`.

use serde_json::{Map, Value, json};

/// The fields of an object that a manager other than these owns; `None` if there are none.
pub(super) fn owned_by_others(object: &Value, managers: &[String]) -> Option<Value> {
    let entries = object["metadata"]["managedFields"].as_array()?;
    let (theirs, others): (Vec<&Value>, Vec<&Value>) = entries.iter().partition(|entry| {
        let manager = entry["manager"].as_str().unwrap_or_default();
        managers.iter().any(|it| it == manager)
    });
    let fields = |entries: Vec<&Value>| {
        let sets = entries.into_iter().map(|entry| entry["fieldsV1"].clone());
        sets.reduce(union)
    };
    select(
        object,
        &fields(others)?,
        &fields(theirs).unwrap_or_default(),
    )
}

/// The union of two sets in the form of `FieldsV1`. A field without children is owned as a whole.
fn union(one: Value, other: Value) -> Value {
    match (one, other) {
        (Value::Object(mut one), Value::Object(other)) if !one.is_empty() && !other.is_empty() => {
            for (field, more) in other {
                let merged = match one.remove(&field) {
                    None => more,
                    Some(before) => union(before, more),
                };
                one.insert(field, merged);
            }
            Value::Object(one)
        }
        _ => json!({}),
    }
}

/// The fields of a value that a set in the form of `FieldsV1` names, and not those of others below a field that was
/// written empty.
fn select(value: &Value, fields: &Value, others: &Value) -> Option<Value> {
    let fields = fields.as_object()?;
    if fields.is_empty() {
        let is_shared = others.as_object().is_some_and(|others| !others.is_empty());
        return Some(match value {
            Value::Object(_) if is_shared => json!({}),
            Value::Array(_) if is_shared => json!([]),
            whole => whole.clone(),
        });
    }
    match value {
        Value::Object(object) => {
            let mut selected = Map::new();
            for (name, value) in object {
                let field = format!("f:{name}");
                let below = fields.get(&field);
                let others = &others[&field];
                if let Some(part) = below.and_then(|below| select(value, below, others)) {
                    selected.insert(name.clone(), part);
                }
            }
            // Alone, `.` is an empty object that is owned.
            (!selected.is_empty() || fields.contains_key(".")).then_some(Value::Object(selected))
        }
        Value::Array(items) => {
            let part = |(index, item): (usize, &Value)| {
                let named = |(field, below): (&String, &Value)| {
                    is_item(field, index, item).then(|| select(item, below, &others[field]))?
                };
                fields.iter().find_map(named)
            };
            let selected: Vec<Value> = items.iter().enumerate().filter_map(part).collect();
            (!selected.is_empty() || fields.contains_key(".")).then_some(Value::Array(selected))
        }
        scalar => Some(scalar.clone()),
    }
}

/// A value without all but these fields.
pub(super) fn parts(value: &Value, pointers: &[String]) -> Value {
    let mut parts = json!({});
    for pointer in pointers {
        let Some(part) = value.pointer(pointer) else {
            continue;
        };
        let mut place = &mut parts;
        for name in pointer.split('/').skip(1) {
            place = &mut place[name.replace("~1", "/").replace("~0", "~")];
        }
        *place = part.clone();
    }
    parts
}

/// Whether an element such as `k:{"type":"Ready"}`, `v:"a"` or `i:0` names this item of a list.
fn is_item(element: &str, index: usize, item: &Value) -> bool {
    let Some((kind, text)) = element.split_once(':') else {
        return false;
    };
    let parsed = || serde_json::from_str::<Value>(text).unwrap_or_default();
    match kind {
        "k" => match parsed() {
            Value::Object(keys) => keys.iter().all(|(key, value)| item[key] == *value),
            _ => false,
        },
        "v" => parsed() == *item,
        "i" => text.parse() == Ok(index),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object() -> Value {
        json!({
            "metadata": {
                "name": "a", "labels": { "theirs": "1", "mine": "2" }, "finalizers": ["x", "y"],
                "managedFields": [
                    { "manager": "me", "fieldsV1": {
                        "f:metadata": { "f:labels": { "f:mine": {} }, "f:finalizers": { "v:\"x\"": {} } },
                        "f:spec": { "f:size": {} } } },
                    { "manager": "them", "fieldsV1": {
                        "f:metadata": { "f:labels": { "f:theirs": {} }, "f:finalizers": { ".": {}, "v:\"y\"": {} } } } },
                    { "manager": "others", "subresource": "status", "fieldsV1": { "f:status": {
                        ".": {}, "f:none": { ".": {} }, "f:conditions": {
                            ".": {}, "k:{\"type\":\"Ready\"}": { ".": {}, "f:status": {}, "f:type": {} } } } } },
                ],
            },
            "spec": { "size": 1 },
            "status": { "phase": "Unowned", "none": {}, "conditions": [
                { "type": "Ready", "status": "True", "message": "unowned" },
                { "type": "Unowned", "status": "True" },
            ] },
        })
    }

    #[test]
    fn fields_of_the_story_are_left_out() {
        let owned = owned_by_others(&object(), &["me".to_owned()]);
        assert_eq!(
            owned,
            Some(json!({
                "metadata": { "labels": { "theirs": "1" }, "finalizers": ["y"] },
                "status": { "none": {}, "conditions": [{ "type": "Ready", "status": "True" }] },
            }))
        );
    }

    #[test]
    fn fields_of_others_below_an_empty_one_are_left_out() {
        let object = json!({
            "metadata": { "managedFields": [
                { "manager": "me", "fieldsV1": { "f:spec": { "f:size": {} } } },
                { "manager": "them", "fieldsV1": { "f:spec": {} } },
            ] },
            "spec": { "size": 1 },
        });
        let owned = owned_by_others(&object, &["me".to_owned()]);
        assert_eq!(owned, Some(json!({ "spec": {} })));
    }

    #[test]
    fn untouched_object_is_not_recorded() {
        let story = ["me", "them", "others"].map(str::to_owned);
        assert_eq!(owned_by_others(&object(), &story), None);
        assert_eq!(owned_by_others(&json!({ "metadata": {} }), &story), None);
    }

    #[test]
    fn parts_keep_their_place() {
        let value = json!({ "a": { "b/c": 1, "d": 2 }, "e": 3 });
        let pointers = ["/a/b~1c", "/f"].map(str::to_owned);
        assert_eq!(parts(&value, &pointers), json!({ "a": { "b/c": 1 } }));
        assert_eq!(parts(&value, &[]), json!({}));
    }

    #[test]
    fn field_owned_as_a_whole_by_one_manager_is_whole() {
        let whole = union(
            json!({ "f:a": { "f:b": {} } }),
            json!({ "f:a": {}, "f:c": {} }),
        );
        assert_eq!(whole, json!({ "f:a": {}, "f:c": {} }));
    }
}
