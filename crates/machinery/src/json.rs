//! JSON as the API reads and writes it: Go's number and escaping rules, duplicate keys noticed,
//! parse errors in Go's words.

use serde_json::Value;

/// `value` in compact form with Go's number and escaping rules.
pub fn to_string(value: &Value) -> String {
    // Placeholder until the Go formatter lands beside it.
    value.to_string()
}

/// A string as Go's `%q` prints it.
pub fn go_quote(text: &str) -> String {
    format!("{text:?}")
}
