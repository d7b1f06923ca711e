//! Values as Go's `%v` prints them, for the messages that quote a whole map.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// `value` as Go's `fmt.Sprintf("%v", value)` prints decoded JSON: `map[image:i9 ports:[80 443]]`.
pub fn go_print(value: &Value) -> String {
    let mut out = String::new();
    print(&mut out, value);
    out
}

fn print(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::String(text) => out.push_str(text),
        Value::Number(number) => out.push_str(&print_number(number)),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                print(out, item);
            }
            out.push(']');
        }
        // `fmt` sorts the keys of a map, and so does our map type.
        Value::Object(map) => {
            out.push_str("map[");
            for (index, (key, item)) in map.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                print(out, item);
            }
            out.push(']');
        }
    }
}

/// Integers in full; floats in the shortest form, with an exponent from 1e21 on and below 1e-4.
fn print_number(number: &Number) -> String {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else {
        return number.to_string();
    };
    let scientific = format!("{float:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if float != 0.0 && !(-4..21).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        let mut out = mantissa.to_owned();
        // Go writes at least two digits of exponent; writing to a string cannot fail.
        let _ = write!(out, "e{sign}{:02}", exponent.unsigned_abs());
        return out;
    }
    format!("{float}")
}
