//! Helpers for the tests of several layers.

use serde_json::Value;

/// Parses an example in YAML.
pub(crate) fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

/// Whether an object has everything that an example prints; lists must have the same length.
pub(crate) fn contains(object: &Value, printed: &Value) -> bool {
    match (object, printed) {
        (Value::Object(object), Value::Object(printed)) => printed
            .iter()
            .all(|(name, value)| object.get(name).is_some_and(|found| contains(found, value))),
        (Value::Array(object), Value::Array(printed)) => {
            object.len() == printed.len()
                && object
                    .iter()
                    .zip(printed)
                    .all(|(object, printed)| contains(object, printed))
        }
        (object, printed) => object == printed,
    }
}
