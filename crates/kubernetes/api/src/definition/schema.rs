//! Structural schemas in the words of OpenAPI, so that a property of a CRD is a line and not a nested object.

use serde::Serialize;
use serde_json::{Value, json};

/// The schema of a value.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub(crate) struct Schema(Value);

/// An object with these properties.
pub(crate) fn object(properties: Value) -> Schema {
    Schema(json!({ "type": "object" })).with("properties", properties)
}

/// An object with any keys and these values.
pub(crate) fn map(values: Schema) -> Schema {
    Schema(json!({ "type": "object" })).with("additionalProperties", values.0)
}

/// A string.
pub(crate) fn text() -> Schema {
    Schema(json!({ "type": "string" }))
}

/// A string of 1 to `max` characters.
pub(crate) fn name(max: u32) -> Schema {
    text().with("minLength", 1).with("maxLength", max)
}

/// A string that is one of these.
pub(crate) fn one_of(values: impl Serialize) -> Schema {
    text().with("enum", json!(values))
}

/// A time.
pub(crate) fn time() -> Schema {
    text().with("format", "date-time")
}

/// A boolean.
pub(crate) fn boolean() -> Schema {
    Schema(json!({ "type": "boolean" }))
}

/// A 32-bit number.
pub(crate) fn int32() -> Schema {
    Schema(json!({ "type": "integer", "format": "int32" }))
}

/// A 64-bit number.
pub(crate) fn int64() -> Schema {
    Schema(json!({ "type": "integer", "format": "int64" }))
}

/// A number or a string, as metav1's IntOrString.
pub(crate) fn int_or_string() -> Schema {
    Schema(json!({
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "x-kubernetes-int-or-string": true,
    }))
}

/// Any value.
pub(crate) fn anything() -> Schema {
    Schema(json!({ "x-kubernetes-preserve-unknown-fields": true }))
}

// Every list states its type. Without one it would be atomic for server-side apply, and CEL could not correlate old
// and new items; whether that was meant would be unclear.
fn list(list_type: &str, items: Schema) -> Schema {
    Schema(json!({ "type": "array", "x-kubernetes-list-type": list_type })).with("items", items.0)
}

/// A list that is written as a whole.
pub(crate) fn atomic_list(items: Schema) -> Schema {
    list("atomic", items)
}

/// A list without duplicates.
pub(crate) fn set(items: Schema) -> Schema {
    list("set", items)
}

/// A list of objects that these fields identify.
pub(crate) fn map_list(keys: &[&str], items: Schema) -> Schema {
    list("map", items).with("x-kubernetes-list-map-keys", json!(keys))
}

impl Schema {
    /// The schema with another keyword.
    pub(crate) fn with(mut self, keyword: &str, value: impl Into<Value>) -> Self {
        self.0[keyword] = value.into();
        self
    }

    /// The description shown by `kubectl explain`.
    pub(crate) fn about(self, description: &str) -> Self {
        self.with("description", description)
    }

    pub(crate) fn default(self, value: impl Into<Value>) -> Self {
        self.with("default", value)
    }

    pub(crate) fn pattern(self, pattern: &str) -> Self {
        self.with("pattern", pattern)
    }

    /// The smallest and the largest number.
    pub(crate) fn range(self, minimum: i32, maximum: i32) -> Self {
        self.with("minimum", minimum).with("maximum", maximum)
    }

    /// The longest list.
    pub(crate) fn max_items(self, max: u32) -> Self {
        self.with("maxItems", max)
    }

    /// The properties that have to be set.
    pub(crate) fn required(self, names: &[&str]) -> Self {
        self.with("required", json!(names))
    }

    /// An object that is written as a whole: its fields have no owners of their own.
    pub(crate) fn atomic(self) -> Self {
        self.with("x-kubernetes-map-type", "atomic")
    }

    /// With defaults and ranges in the descriptions of all properties below: `kubectl explain` shows neither.
    pub(crate) fn spelled_out(mut self) -> Self {
        spell_out(&mut self.0);
        self
    }

    /// Adds a CEL rule, and the message if it is violated.
    pub(crate) fn rule(mut self, rule: &str, message: &str) -> Self {
        let rules = &mut self.0["x-kubernetes-validations"];
        if rules.is_null() {
            *rules = json!([]);
        }
        if let Some(rules) = rules.as_array_mut() {
            rules.push(json!({ "rule": rule, "message": message }));
        }
        self
    }
}

fn spell_out(schema: &mut Value) {
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for property in properties.values_mut() {
        spell_out(property);
        let mut about = property["description"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let mut add = |sentence: String| {
            if !about.is_empty() {
                about.push(' ');
            }
            about.push_str(&sentence);
        };
        match &property["default"] {
            Value::Null => {}
            Value::String(text) => add(format!("Defaults to {text}.")),
            value => add(format!("Defaults to {value}.")),
        }
        if let (Some(minimum), Some(maximum)) =
            (property["minimum"].as_i64(), property["maximum"].as_i64())
        {
            add(format!("From {minimum} to {maximum}."));
        }
        if !about.is_empty() {
            property["description"] = json!(about);
        }
    }
}
