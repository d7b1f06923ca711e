//! What tests of several layers need.

use serde_json::Value;

/// An object as it is printed in a text.
pub(crate) fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

/// Whether everything that is printed is there, in lists at the same place.
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
