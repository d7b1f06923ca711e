//! Values as Go's `fmt.Print` shows them.

use serde_json::Value;

use crate::json::{go_float, to_string};

/// A value in a cell of a table; lists and objects as JSON.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) => to_string(value),
        Value::Null => "<no value>".to_owned(),
        scalar => printed(scalar),
    }
}

/// A value as `fmt.Sprint` shows it: `map[a:1 b:[x y]]`, `<nil>`.
pub(super) fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => go_float(float, 21),
            _ => number.to_string(),
        },
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(printed).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let mut fields: Vec<(&String, &Value)> = map.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            let fields = fields.into_iter();
            let fields: Vec<String> = fields
                .map(|(name, value)| format!("{name}:{}", printed(value)))
                .collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}
