//! Values as Go's `%v` prints them, for the messages that quote a whole map.

use serde_json::Value;

use crate::json::go_float;

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
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => out.push_str(&go_float(float, 21)),
            None => out.push_str(&number.to_string()),
        },
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
