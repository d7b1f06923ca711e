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

use std::cmp::Ordering;

use serde_json::{Number, Value};

pub(crate) use quote::go_float;
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

/// Go's `%T` of decoded JSON.
pub(crate) fn go_dynamic_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// How an integer compares with a float, exactly: an order that rounds is no order, and sorting relies
/// on it. `None` for NaN.
pub(crate) fn compare_with_float(int: i128, float: f64) -> Option<Ordering> {
    // Far outside of what an integer of 64 bits reaches, the sign decides.
    if float.abs() >= 1e20 {
        return 0.0.partial_cmp(&float);
    }
    #[expect(clippy::cast_possible_truncation, reason = "exact below 1e20")]
    let whole = float.trunc() as i128;
    let fraction = 0.0.partial_cmp(&float.fract())?;
    Some(int.cmp(&whole).then(fraction))
}

/// Whether `value` nests lists and objects more than `levels` deep.
pub(crate) fn is_deeper_than(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|v| is_deeper_than(v, levels - 1)),
        Value::Object(map) => levels == 0 || map.values().any(|v| is_deeper_than(v, levels - 1)),
        _ => false,
    }
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
