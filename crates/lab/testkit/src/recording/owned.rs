//! The part of an object that some field managers own, by its `metadata.managedFields`.

use serde_json::{Map, Value, json};

/// The fields of an object that a manager other than these owns; `None` if there are none.
pub(super) fn owned_by_others(object: &Value, managers: &[String]) -> Option<Value> {
    let entries = object["metadata"]["managedFields"].as_array()?;
    let others = entries.iter().filter(|entry| {
        let manager = entry["manager"].as_str().unwrap_or_default();
        !managers.iter().any(|it| it == manager)
    });
    let mut fields = None;
    for entry in others {
        let more = entry["fieldsV1"].clone();
        fields = Some(match fields {
            None => more,
            Some(fields) => union(fields, more),
        });
    }
    select(object, &fields?)
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

/// The fields of a value that a set in the form of `FieldsV1` names.
fn select(value: &Value, fields: &Value) -> Option<Value> {
    let fields = fields.as_object()?;
    if fields.is_empty() {
        return Some(value.clone());
    }
    match value {
        Value::Object(object) => {
            let mut selected = Map::new();
            for (name, value) in object {
                let below = fields.get(&format!("f:{name}"));
                if let Some(part) = below.and_then(|below| select(value, below)) {
                    selected.insert(name.clone(), part);
                }
            }
            // Alone, `.` is an empty object that is owned.
            (!selected.is_empty() || fields.contains_key(".")).then_some(Value::Object(selected))
        }
        Value::Array(items) => {
            let part = |(index, item): (usize, &Value)| {
                let named = |(field, below): (&String, &Value)| {
                    is_item(field, index, item).then(|| select(item, below))?
                };
                fields.iter().find_map(named)
            };
            let selected: Vec<Value> = items.iter().enumerate().filter_map(part).collect();
            (!selected.is_empty() || fields.contains_key(".")).then_some(Value::Array(selected))
        }
        scalar => Some(scalar.clone()),
    }
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
    fn untouched_object_is_not_recorded() {
        let story = ["me", "them", "others"].map(str::to_owned);
        assert_eq!(owned_by_others(&object(), &story), None);
        assert_eq!(owned_by_others(&json!({ "metadata": {} }), &story), None);
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
