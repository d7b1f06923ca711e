//! What a YAML scalar means: go-yaml v2's `resolve`, which is YAML 1.1 without base 60.

use base64::Engine as _;
use serde_json::{Number, Value};
use serde_saphyr::granit_parser::{ScalarStyle, Tag};

use super::read::parse_number;
use super::to_string;

/// The value of a scalar.
pub(super) fn resolve(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    let Some(tag) = tag else {
        return match style {
            ScalarStyle::Plain => implicit(text),
            _ => Ok(Value::String(text.to_owned())),
        };
    };
    let wanted = tag.core_suffix();
    let value = match wanted {
        Some("bool" | "int" | "float" | "null" | "timestamp") => implicit(text)?,
        Some("binary") => {
            let raw = base64::engine::general_purpose::STANDARD
                .decode(text.split_whitespace().collect::<String>())
                .map_err(|_| "!!binary value contains invalid base64 data".to_owned())?;
            Value::String(String::from_utf8_lossy(&raw).into_owned())
        }
        _ => Value::String(text.to_owned()),
    };
    let fits = match wanted {
        Some("bool") => value.is_boolean(),
        Some("int") => value.is_i64() || value.is_u64(),
        Some("float") => value.is_number(),
        Some("null") => value.is_null(),
        _ => true,
    };
    if fits {
        Ok(value)
    } else {
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(n) if n.is_f64() => "float",
            Value::Number(_) => "int",
            _ => "str",
        };
        Err(format!(
            "cannot decode !!{found} `{text}` as a !!{}",
            wanted.unwrap_or_default()
        ))
    }
}

/// A scalar used as a key: JSON has text keys only.
pub(super) fn key_text(
    text: &str,
    style: ScalarStyle,
    tag: Option<&Tag>,
) -> Result<String, String> {
    match resolve(text, style, tag)? {
        Value::String(text) => Ok(text),
        Value::Null => Err("unsupported map key of type: nil".to_owned()),
        other => Ok(to_string(&other)),
    }
}

fn implicit(text: &str) -> Result<Value, String> {
    let Some(first) = text.bytes().next() else {
        return Ok(Value::Null);
    };
    Ok(match text {
        "~" | "null" | "Null" | "NULL" => Value::Null,
        // YAML 1.1, the "Norway problem" included: `country: no` is false for kubectl
        // and kube-apiserver, and has to be for us.
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Value::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        // JSON has no way to write these.
        ".nan" | ".NaN" | ".NAN" => return Err("json: unsupported value: NaN".to_owned()),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Err("json: unsupported value: +Inf".to_owned());
        }
        "-.inf" | "-.Inf" | "-.INF" => return Err("json: unsupported value: -Inf".to_owned()),
        _ if first.is_ascii_digit() || matches!(first, b'+' | b'-' | b'.') => {
            number(text).map_or_else(|| Value::String(text.to_owned()), Value::Number)
        }
        _ => Value::String(text.to_owned()),
    })
}

/// Integers in Go's base prefixes, else decimal floats.
fn number(text: &str) -> Option<Number> {
    // Dates start with four digits and a dash; they stay text, and are no numbers anyway.
    let plain: String = text.chars().filter(|c| *c != '_').collect();
    if let Some(integer) = integer(&plain) {
        return Some(integer);
    }
    if is_float(&plain) {
        parse_number(plain.trim_start_matches('+'), false)
    } else {
        None
    }
}

fn integer(text: &str) -> Option<Number> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.get(..2).map(str::to_ascii_lowercase);
    let (radix, digits) = match lower.as_deref() {
        Some("0x") => (16, &digits[2..]),
        Some("0o") => (8, &digits[2..]),
        Some("0b") => (2, &digits[2..]),
        // `defaultMode: 0644` is octal, and this is how most manifests write modes.
        _ if digits.len() > 1 && digits.starts_with('0') => (8, &digits[1..]),
        _ => (10, digits),
    };
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if negative {
        // One more fits below zero than above.
        let value = i128::from(magnitude).checked_neg()?;
        return i64::try_from(value).ok().map(Number::from);
    }
    match i64::try_from(magnitude) {
        Ok(value) => Some(Number::from(value)),
        // Printed in full and read again it no longer is an integer.
        Err(_) => parse_number(&magnitude.to_string(), true),
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (
            mantissa,
            Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent)),
        ),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let mantissa_ok = match mantissa.split_once('.') {
        Some((whole, part)) => {
            digits(whole) && digits(part) && !(whole.is_empty() && part.is_empty())
        }
        None => !mantissa.is_empty() && digits(mantissa),
    };
    mantissa_ok && exponent.is_none_or(|e| !e.is_empty() && digits(e))
}
