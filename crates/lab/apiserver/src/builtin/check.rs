//! Checks shared by many kinds, with the error texts of `apimachinery/pkg/util/validation` and
//! `pkg/apis/core/validation`.

use machinery::field::{FieldError, Path};
use machinery::names;
use serde_json::Value;

use crate::builtin::entry::Errors;
use crate::builtin::value::{Read, same};

/// Message of immutable fields.
pub(crate) const IMMUTABLE: &str = "field is immutable";
/// Message of counts that must not be negative.
pub(crate) const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// Protocols of ports, in the order messages list them.
pub(crate) const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

/// A path of several fields.
pub(crate) fn path(fields: &str) -> Path {
    fields
        .split('.')
        .fold(Path::root(), |path, field| path.child(field))
}

/// One error for each message about a value.
pub(crate) fn invalid_each(
    path: &Path,
    value: &str,
    messages: impl IntoIterator<Item = String>,
) -> Errors {
    messages
        .into_iter()
        .map(|message| FieldError::invalid(path, value, message))
        .collect()
}

/// Accepts any name; the kind validates it elsewhere or not at all.
pub(crate) fn any_name(_: &str, _: bool) -> Vec<String> {
    Vec::new()
}

/// A DNS label at a path.
pub(crate) fn label(path: &Path, value: &str) -> Errors {
    invalid_each(path, value, names::is_dns1123_label(value))
}

/// A DNS subdomain at a path.
pub(crate) fn subdomain(path: &Path, value: &str) -> Errors {
    invalid_each(path, value, names::is_dns1123_subdomain(value))
}

/// A qualified name at a path.
pub(crate) fn qualified(path: &Path, value: &str) -> Errors {
    invalid_each(path, value, names::is_qualified_name(value))
}

/// A label value at a path.
pub(crate) fn label_value(path: &Path, value: &str) -> Errors {
    invalid_each(path, value, names::is_valid_label_value(value))
}

/// A path segment at a path.
pub(crate) fn segment(path: &Path, value: &str) -> Errors {
    invalid_each(path, value, names::is_path_segment_name(value))
}

/// A number that must not be negative.
pub(crate) fn not_negative(path: &Path, value: Option<i64>) -> Errors {
    match value {
        Some(value) if value < 0 => vec![FieldError::invalid(path, value, NOT_NEGATIVE)],
        _ => Vec::new(),
    }
}

/// An immutable field.
pub(crate) fn immutable(path: &Path, new: &Value, old: &Value) -> Errors {
    if same(new, old) {
        Vec::new()
    } else {
        vec![FieldError::invalid(path, new.clone(), IMMUTABLE)]
    }
}

/// A value out of a fixed set; an empty one is reported as missing.
pub(crate) fn one_of(path: &Path, value: &str, accepted: &[&str]) -> Errors {
    if value.is_empty() {
        vec![FieldError::required(path, "")]
    } else {
        supported(path, value, accepted)
    }
}

/// A value out of a fixed set, or absent.
pub(crate) fn maybe_one_of(path: &Path, value: Option<&str>, accepted: &[&str]) -> Errors {
    value
        .map(|value| supported(path, value, accepted))
        .unwrap_or_default()
}

/// A value out of a fixed set.
pub(crate) fn supported(path: &Path, value: &str, accepted: &[&str]) -> Errors {
    if accepted.contains(&value) {
        Vec::new()
    } else {
        vec![FieldError::not_supported(path, value, accepted)]
    }
}

/// A text that has to be there.
pub(crate) fn required(path: &Path, value: &str) -> Errors {
    if value.is_empty() {
        vec![FieldError::required(path, "")]
    } else {
        Vec::new()
    }
}

/// A number within bounds.
pub(crate) fn in_range(path: &Path, value: i64, low: i64, high: i64) -> Errors {
    names::is_in_range(value, low, high)
        .into_iter()
        .map(|message| FieldError::invalid(path, value, message))
        .collect()
}

/// A port number.
pub(crate) fn port_number(path: &Path, value: i64) -> Errors {
    in_range(path, value, 1, 65535)
}

/// A user or group id.
pub(crate) fn id(path: &Path, value: Option<i64>) -> Errors {
    value
        .map(|value| in_range(path, value, 0, i64::from(i32::MAX)))
        .unwrap_or_default()
}

/// A port by number or name.
pub(crate) fn port(path: &Path, value: &Value) -> Errors {
    match value {
        Value::String(name) => port_name(path, name),
        other => port_number(path, other.as_i64().unwrap_or_default()),
    }
}

/// A port by name.
pub(crate) fn port_name(path: &Path, name: &str) -> Errors {
    invalid_each(path, name, names::is_valid_port_name(name))
}

/// A key of a config map or secret.
pub(crate) fn config_key(path: &Path, key: &str) -> Errors {
    invalid_each(path, key, names::is_config_map_key(key))
}

/// The name of an environment variable.
pub(crate) fn env_name(path: &Path, name: &str) -> Errors {
    invalid_each(path, name, names::is_relaxed_env_var_name(name))
}

/// The name of an HTTP header.
pub(crate) fn header_name(path: &Path, name: &str) -> Errors {
    invalid_each(path, name, names::is_http_header_name(name))
}

/// The number of a percentage, when the text is one.
fn percent(text: &str) -> Option<i64> {
    let digits = text
        .strip_suffix('%')
        .filter(|_| names::is_valid_percent(text).is_empty())?;
    Some(digits.parse().unwrap_or(i64::MAX))
}

/// A count or a percentage, not negative.
pub(crate) fn count_or_percent(path: &Path, value: &Value) -> Errors {
    match value {
        Value::String(text) => names::is_valid_percent(text)
            .into_iter()
            .map(|message| FieldError::invalid(path, value.clone(), message))
            .collect(),
        other => not_negative(path, other.as_i64()),
    }
}

/// A percentage of at most 100.
pub(crate) fn at_most_all(path: &Path, value: &Value) -> Errors {
    match value.as_str().and_then(percent) {
        Some(percent) if percent > 100 => {
            vec![FieldError::invalid(
                path,
                value.clone(),
                "must not be greater than 100%",
            )]
        }
        _ => Vec::new(),
    }
}

/// The number of a count or percentage, zero when it is neither.
pub(crate) fn count_or_percent_value(value: &Value) -> i64 {
    match value {
        Value::String(text) => percent(text)
            .or_else(|| text.parse().ok())
            .unwrap_or_default(),
        other => other.as_i64().unwrap_or_default(),
    }
}

/// Annotations of a template: keys are qualified names, whatever their case.
pub(crate) fn annotations(path: &Path, map: &Value) -> Errors {
    let mut errors = Errors::new();
    let mut size = 0;
    for (key, value) in map.entries("") {
        errors.extend(invalid_each(
            path,
            key,
            names::is_qualified_name(&key.to_lowercase()),
        ));
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > 262_144 {
        errors.push(FieldError::too_long(path, 262_144));
    }
    errors
}

/// A path below something else: relative and without steps back.
pub(crate) fn descending_path(path: &Path, value: &str) -> Errors {
    let mut errors = Errors::new();
    if value.starts_with('/') {
        errors.push(FieldError::invalid(path, value, "must be a relative path"));
    }
    errors.extend(no_backsteps(path, value));
    errors
}

/// A path without steps back.
pub(crate) fn no_backsteps(path: &Path, value: &str) -> Errors {
    if value.split('/').any(|part| part == "..") {
        vec![FieldError::invalid(path, value, "must not contain '..'")]
    } else {
        Vec::new()
    }
}

/// A file mode.
pub(crate) fn file_mode(path: &Path, value: Option<i64>) -> Errors {
    match value {
        Some(mode) if !(0..=0o777).contains(&mode) => {
            let detail = "must be a number between 0 and 0777 (octal), both inclusive";
            vec![FieldError::invalid(path, mode, detail)]
        }
        _ => Vec::new(),
    }
}

/// A path behind a domain, such as `acme.io/foo`.
pub(crate) fn domain_prefixed_path(path: &Path, value: &str) -> Errors {
    if value.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let Some((host, rest)) = value
        .split_once('/')
        .filter(|(host, rest)| !host.is_empty() && !rest.is_empty())
    else {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return vec![FieldError::invalid(path, value, detail)];
    };
    let mut errors = subdomain(path, host);
    let allowed = |c: u8| c.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&c);
    if !rest.bytes().all(allowed) {
        let detail = "Invalid path (regex used for validation is \
                      '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        errors.push(FieldError::invalid(path, rest, detail));
    }
    errors
}
