//! Parts that the schemas of several kinds have.

use serde_json::{Value, json};

/// A list of `metav1.Condition`.
pub(crate) fn conditions() -> Value {
    json!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": { "type": "string", "maxLength": 316 },
                "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
                "reason": { "type": "string", "minLength": 1, "maxLength": 1024 },
                "message": { "type": "string", "maxLength": 32768 },
                "lastTransitionTime": { "type": "string", "format": "date-time" },
                "observedGeneration": { "type": "integer", "format": "int64", "minimum": 0 },
            },
        },
    })
}

/// Properties of a schema that nothing in a filled-in object stands for, and fields of the object
/// that the schema does not know; for tests.
#[cfg(test)]
pub(crate) fn unfilled(schema: &Value, object: &Value) -> Vec<String> {
    fn walk(schema: &Value, value: &Value, at: &str, missing: &mut Vec<String>) {
        if let Some(properties) = schema["properties"].as_object() {
            for (name, property) in properties {
                let at = format!("{at}.{name}");
                match value.get(name) {
                    Some(value) => walk(property, value, &at, missing),
                    None => missing.push(at),
                }
            }
            for name in value.as_object().into_iter().flat_map(|value| value.keys()) {
                if !properties.contains_key(name) {
                    missing.push(format!("{at}.{name} is not in the schema"));
                }
            }
        }
        if let Some(items) = schema.get("items")
            && let Some(first) = value.get(0)
        {
            walk(items, first, &format!("{at}[]"), missing);
        }
    }
    let mut missing = Vec::new();
    walk(schema, object, "", &mut missing);
    // Metadata is the server's own.
    missing.retain(|path| !path.starts_with(".metadata"));
    missing
}
