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

/// A check of the form of a text, such as [`label`].
type Form = fn(&Path, &str) -> Errors;

/// A text field that has to be set, in this form.
pub(crate) fn required_as(path: &Path, owner: &Value, field: &str, form: Form) -> Errors {
    match owner.text(field) {
        "" => FieldError::required(&path.child(field), "").into(),
        text => form(&path.child(field), text),
    }
}

/// A text field in this form; an empty one is as good as an absent one.
pub(crate) fn empty_or(path: &Path, owner: &Value, field: &str, form: Form) -> Errors {
    match owner.text(field) {
        "" => Errors::new(),
        text => form(&path.child(field), text),
    }
}

/// A text field in this form; an empty one is not. For fields that are pointers in Go.
pub(crate) fn absent_or(path: &Path, owner: &Value, field: &str, form: Form) -> Errors {
    let text = owner.maybe_text(field);
    text.map(|text| form(&path.child(field), text))
        .unwrap_or_default()
}

/// Checks a field that may be absent.
pub(crate) fn if_set(
    path: &Path,
    owner: &Value,
    field: &str,
    check: impl FnOnce(&Path, &Value) -> Errors,
) -> Errors {
    match owner.at(field) {
        Value::Null => Errors::new(),
        value => check(&path.child(field), value),
    }
}

/// A text that no other of the list has; `seen` collects them.
pub(crate) fn unique<'a>(path: &Path, text: &'a str, seen: &mut Vec<&'a str>) -> Errors {
    let known = seen.contains(&text);
    seen.push(text);
    Errors::when(known, || FieldError::duplicate(path, text))
}

/// Counts that must not be negative; the fields are separated by spaces.
pub(crate) fn counts(path: &Path, owner: &Value, fields: &str) -> Errors {
    let fields = fields.split_whitespace();
    fields
        .flat_map(|field| not_negative(&path.child(field), owner.int(field)))
        .collect()
}

/// A preemption policy.
pub(crate) fn preemption_policy(path: &Path, policy: &str) -> Errors {
    one_of(path, policy, &["PreemptLowerPriority", "Never"])
}

/// A number that must not be negative.
pub(crate) fn not_negative(path: &Path, value: Option<i64>) -> Errors {
    let negative = value.filter(|value| *value < 0);
    negative
        .map(|value| FieldError::invalid(path, value, NOT_NEGATIVE))
        .into_iter()
        .collect()
}

/// An immutable field.
pub(crate) fn immutable(path: &Path, new: &Value, old: &Value) -> Errors {
    Errors::when(!same(new, old), || {
        FieldError::invalid(path, new.clone(), IMMUTABLE)
    })
}

/// Fields of an object that an update must not change, separated by spaces.
pub(crate) fn unchanged(new: &Value, old: &Value, fields: &str) -> Errors {
    let fields = fields.split_whitespace();
    fields
        .flat_map(|field| immutable(&Path::new(field), new.at(field), old.at(field)))
        .collect()
}

/// A value out of a fixed set; an empty one is reported as missing.
pub(crate) fn one_of(path: &Path, value: &str, accepted: &[&str]) -> Errors {
    if value.is_empty() {
        FieldError::required(path, "").into()
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

/// A text field out of a fixed set; an empty one is reported as missing.
pub(crate) fn choice(path: &Path, owner: &Value, field: &str, accepted: &[&str]) -> Errors {
    one_of(&path.child(field), owner.text(field), accepted)
}

/// A text field out of a fixed set, or absent.
pub(crate) fn optional_choice(
    path: &Path,
    owner: &Value,
    field: &str,
    accepted: &[&str],
) -> Errors {
    maybe_one_of(&path.child(field), owner.maybe_text(field), accepted)
}

/// A value out of a fixed set.
pub(crate) fn supported(path: &Path, value: &str, accepted: &[&str]) -> Errors {
    let unknown = !accepted.contains(&value);
    Errors::when(unknown, || FieldError::not_supported(path, value, accepted))
}

/// A text that has to be there.
pub(crate) fn required(path: &Path, value: &str) -> Errors {
    Errors::when(value.is_empty(), || FieldError::required(path, ""))
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
            FieldError::invalid(path, value.clone(), "must not be greater than 100%").into()
        }
        _ => Errors::new(),
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
        errors += invalid_each(path, key, names::is_qualified_name(&key.to_lowercase()));
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > 262_144 {
        errors.too_long(path, 262_144);
    }
    errors
}

/// A path below something else: relative and without steps back.
pub(crate) fn descending_path(path: &Path, value: &str) -> Errors {
    let mut errors = Errors::new();
    if value.starts_with('/') {
        errors.invalid(path, value, "must be a relative path");
    }
    errors += no_backsteps(path, value);
    errors
}

/// A path without steps back.
pub(crate) fn no_backsteps(path: &Path, value: &str) -> Errors {
    let backsteps = value.split('/').any(|part| part == "..");
    Errors::when(backsteps, || {
        FieldError::invalid(path, value, "must not contain '..'")
    })
}

/// A file mode.
pub(crate) fn file_mode(path: &Path, value: Option<i64>) -> Errors {
    match value {
        Some(mode) if !(0..=0o777).contains(&mode) => {
            let detail = "must be a number between 0 and 0777 (octal), both inclusive";
            FieldError::invalid(path, mode, detail).into()
        }
        _ => Errors::new(),
    }
}

/// A path behind a domain, such as `acme.io/foo`.
pub(crate) fn domain_prefixed_path(path: &Path, value: &str) -> Errors {
    if value.is_empty() {
        return FieldError::required(path, "").into();
    }
    let Some((host, rest)) = value
        .split_once('/')
        .filter(|(host, rest)| !host.is_empty() && !rest.is_empty())
    else {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return FieldError::invalid(path, value, detail).into();
    };
    let mut errors = subdomain(path, host);
    let allowed = |c: u8| c.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&c);
    if !rest.bytes().all(allowed) {
        let detail = "Invalid path (regex used for validation is \
                      '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        errors.invalid(path, rest, detail);
    }
    errors
}
