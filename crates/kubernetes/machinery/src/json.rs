//! JSON as the API reads and writes it: Go's number and escaping rules, duplicate keys noticed,
//! parse errors in Go's words.
//!
//! ```text
//! bytes --decode / decode_yaml--> Decoded { value, duplicates } --to_vec--> bytes
//! ```

mod quote;
mod read;
#[cfg(test)]
mod tests;
mod write;
mod yaml;
mod yaml_scalar;

use serde_json::{Number, Value};

pub use quote::{go_quote, is_print};
pub use read::{DecodeError, Decoded, MAX_DEPTH, decode};
pub use write::{to_string, to_vec, to_vec_pretty, write_into};
pub use yaml::decode_yaml;

/// Turns floats that print as 64-bit integers into integers, in place.
///
/// A genuine server writes `1.0` as `1` and reads it back as an integer, so after one trip through
/// storage only the integer is left. Doing the same before comparing or storing keeps an update
/// from `1` to `1.0` a no-op. The literal as sent stays visible in what [`decode`] returns, because
/// typed integer fields refuse it there.
pub fn settle_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(integer) = integral(number) {
                *value = Value::from(integer);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(settle_numbers),
        Value::Object(map) => map.values_mut().for_each(settle_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// The integer a float prints as, when it is one of 64 bits.
fn integral(number: &Number) -> Option<i64> {
    if !number.is_f64() {
        return None;
    }
    let float = number.as_f64()?;
    // 2^63 is the first float that no longer fits; its negative still does.
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float);
    if !fits || float.fract() != 0.0 {
        return None;
    }
    // The printed digits decide, not the exact value: that is what storage reads back.
    format!("{float}").parse().ok()
}

/// The word Go uses for a JSON value of this type in `cannot unmarshal` errors.
pub fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
