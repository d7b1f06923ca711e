//! Validation of names, labels and addresses (`apimachinery/pkg/util/validation`,
//! `apimachinery/pkg/api/validation`).
//!
//! Every validator returns the list of errors, empty when the value is valid. The texts are part of the
//! API: clients and tests compare them.

mod address;
mod pattern;
#[cfg(test)]
mod tests;

pub(crate) use address::{network, parse_cidr, parse_ip};
use pattern::{dns1035_label, dns1123_label, dns1123_subdomain, each, label_text};

/// Longest DNS label.
pub const LABEL_MAX: usize = 63;
/// Longest DNS subdomain.
pub const SUBDOMAIN_MAX: usize = 253;

// The expressions are only text for messages; `pattern.rs` matches without a regular expression.
const DNS1123_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS1123_LABEL_MSG: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const DNS1123_SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS1123_SUBDOMAIN_MSG: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const DNS1035_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const DNS1035_LABEL_MSG: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
const WILDCARD: &str = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const WILDCARD_MSG: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
const LABEL_KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_KEY_MSG: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const LABEL_VALUE_MSG: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const CONFIG_KEY: &str = "[-._a-zA-Z0-9]+";
const CONFIG_KEY_MSG: &str =
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
const HTTP_HEADER: &str = "[-A-Za-z0-9]+";
const HTTP_HEADER_MSG: &str = "a valid HTTP header must consist of alphanumeric characters or '-'";
const PERCENT: &str = "[0-9]+%";
const PERCENT_MSG: &str =
    "a valid percent string must be a numeric string followed by an ending '%'";
const CONDITION_REASON: &str = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?";
const CONDITION_REASON_MSG: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'";

/// A DNS label of RFC 1123: `my-name`.
pub fn is_dns1123_label(value: &str) -> Vec<String> {
    let mut errors = too_long(value, LABEL_MAX);
    if !dns1123_label(value) {
        errors.push(if dns1123_subdomain(value) {
            "must not contain dots".to_owned()
        } else {
            regex_error(DNS1123_LABEL_MSG, DNS1123_LABEL, &["my-name", "123-abc"])
        });
    }
    errors
}

/// A DNS subdomain of RFC 1123: `example.com`.
pub fn is_dns1123_subdomain(value: &str) -> Vec<String> {
    let mut errors = too_long(value, SUBDOMAIN_MAX);
    if !dns1123_subdomain(value) {
        errors.push(regex_error(
            DNS1123_SUBDOMAIN_MSG,
            DNS1123_SUBDOMAIN,
            &["example.com"],
        ));
    }
    errors
}

/// A DNS label of RFC 1035, which starts with a letter: `abc-123`.
pub fn is_dns1035_label(value: &str) -> Vec<String> {
    let mut errors = too_long(value, LABEL_MAX);
    if !dns1035_label(value) {
        errors.push(regex_error(
            DNS1035_LABEL_MSG,
            DNS1035_LABEL,
            &["my-name", "abc-123"],
        ));
    }
    errors
}

/// A wildcard host: `*.example.com`.
pub fn is_wildcard_dns1123_subdomain(value: &str) -> Vec<String> {
    let mut errors = too_long(value, SUBDOMAIN_MAX);
    if !value.strip_prefix("*.").is_some_and(dns1123_subdomain) {
        errors.push(regex_error(WILDCARD_MSG, WILDCARD, &["*.example.com"]));
    }
    errors
}

/// A label or annotation key, a finalizer, a condition type: `example.com/MyName`.
pub fn is_qualified_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let mut parts = value.split('/');
    let (prefix, name) = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => (None, name),
        (Some(prefix), Some(name), None) => (Some(prefix), name),
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                label_key_error()
            )];
        }
    };
    if let Some(prefix) = prefix {
        if prefix.is_empty() {
            errors.push("prefix part must be non-empty".to_owned());
        } else {
            if prefix.len() > SUBDOMAIN_MAX {
                errors.push(format!("prefix part {}", max_bytes_error(SUBDOMAIN_MAX)));
            }
            if !dns1123_subdomain(prefix) {
                let text = regex_error(DNS1123_SUBDOMAIN_MSG, DNS1123_SUBDOMAIN, &["example.com"]);
                errors.push(format!("prefix part {text}"));
            }
        }
    }
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        errors.push(format!("name part {}", max_bytes_error(LABEL_MAX)));
    }
    if !label_text(name) {
        errors.push(format!("name part {}", label_key_error()));
    }
    errors
}

/// A label value: empty or up to 63 characters.
pub fn is_valid_label_value(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > LABEL_MAX {
        errors.push(max_bytes_error(LABEL_MAX));
    }
    if !value.is_empty() && !label_text(value) {
        let examples = ["MyValue", "my_value", "12345"];
        errors.push(regex_error(LABEL_VALUE_MSG, LABEL_VALUE, &examples));
    }
    errors
}

/// A name that can stand in a URL path.
pub fn is_path_segment_name(name: &str) -> Vec<String> {
    if name == "." || name == ".." {
        return vec![format!("may not be '{name}'")];
    }
    is_path_segment_prefix(name)
}

/// The start of a name that can stand in a URL path.
pub fn is_path_segment_prefix(name: &str) -> Vec<String> {
    // A slash would end the path segment and a percent sign would begin an escape: no URL could address the object.
    ["/", "%"]
        .iter()
        .filter(|illegal| name.contains(**illegal))
        .map(|illegal| format!("may not contain '{illegal}'"))
        .collect()
}

/// A key in a ConfigMap or Secret.
pub fn is_config_map_key(value: &str) -> Vec<String> {
    let mut errors = too_long(value, SUBDOMAIN_MAX);
    if !each(value, config_char) {
        let examples = ["key.name", "KEY_NAME", "key-name"];
        errors.push(regex_error(CONFIG_KEY_MSG, CONFIG_KEY, &examples));
    }
    errors.extend(change_dir_prefix(value));
    errors
}

/// An environment variable name as containers may have since 1.34: printable ASCII without `=`.
pub fn is_relaxed_env_var_name(value: &str) -> Vec<String> {
    if value.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    if value
        .bytes()
        .all(|b| (b == b' ' || b.is_ascii_graphic()) && b != b'=')
    {
        return Vec::new();
    }
    vec![
        "a valid environment variable name must consist only of printable ASCII characters other than '='"
            .to_owned(),
    ]
}

/// An HTTP header name.
pub fn is_http_header_name(value: &str) -> Vec<String> {
    if each(value, |b| b.is_ascii_alphanumeric() || b == b'-') {
        return Vec::new();
    }
    vec![regex_error(
        HTTP_HEADER_MSG,
        HTTP_HEADER,
        &["X-Header-Name"],
    )]
}

/// A percentage: `25%`.
pub fn is_valid_percent(value: &str) -> Vec<String> {
    if value
        .strip_suffix('%')
        .is_some_and(|digits| each(digits, |b| b.is_ascii_digit()))
    {
        return Vec::new();
    }
    vec![regex_error(PERCENT_MSG, PERCENT, &["1%", "93%"])]
}

/// The `reason` of a condition.
pub fn is_valid_condition_reason(value: &str) -> Vec<String> {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b',' | b':');
    let fine = each(value, inner)
        && value.starts_with(|c: char| c.is_ascii_alphabetic())
        && !value.ends_with([',', ':']);
    if fine {
        return Vec::new();
    }
    let examples = [
        "my_name",
        "MY_NAME",
        "MyName",
        "ReasonA,ReasonB",
        "ReasonA:ReasonB",
    ];
    vec![regex_error(
        CONDITION_REASON_MSG,
        CONDITION_REASON,
        &examples,
    )]
}

/// A port number.
pub fn is_valid_port_num(port: i64) -> Vec<String> {
    is_in_range(port, 1, 65535)
}

/// A number from `low` to `high`.
pub fn is_in_range(value: i64, low: i64, high: i64) -> Vec<String> {
    if (low..=high).contains(&value) {
        return Vec::new();
    }
    vec![format!("must be between {low} and {high}, inclusive")]
}

/// A port name: an IANA service name.
pub fn is_valid_port_name(port: &str) -> Vec<String> {
    // RFC 6335 limits service names to 15 characters.
    let mut errors = too_long(port, 15);
    if !each(port, |b| {
        b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'
    }) {
        errors.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !port.bytes().any(|b| b.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".to_owned());
    }
    if port.contains("--") {
        errors.push("must not contain consecutive hyphens".to_owned());
    }
    if port.starts_with('-') || port.ends_with('-') {
        errors.push("must not begin or end with a hyphen".to_owned());
    }
    errors
}

/// Object names that are DNS subdomains; `prefix` for a generateName.
pub fn name_is_dns_subdomain(name: &str, prefix: bool) -> Vec<String> {
    is_dns1123_subdomain(&masked(name, prefix))
}

/// Object names that are DNS labels (namespaces); `prefix` for a generateName.
pub fn name_is_dns_label(name: &str, prefix: bool) -> Vec<String> {
    is_dns1123_label(&masked(name, prefix))
}

/// Object names that are DNS labels starting with a letter (services); `prefix` for a generateName.
pub fn name_is_dns1035_label(name: &str, prefix: bool) -> Vec<String> {
    is_dns1035_label(&masked(name, prefix))
}

/// Object names that can stand in a URL path (RBAC); `prefix` for a generateName.
pub fn name_is_path_segment(name: &str, prefix: bool) -> Vec<String> {
    if prefix {
        is_path_segment_prefix(name)
    } else {
        is_path_segment_name(name)
    }
}

/// A trailing dash of a generateName is fine, as something will follow it. Upstream replaces the
/// last *two* characters by one letter, which shows for names that end in `.-`.
fn masked(name: &str, prefix: bool) -> std::borrow::Cow<'_, str> {
    if prefix && name.len() > 1 && name.ends_with('-') {
        let keep = name.len() - 2;
        if let Some(head) = name.get(..keep) {
            return format!("{head}a").into();
        }
    }
    name.into()
}

/// `must be no more than N characters`.
pub fn max_len_error(length: usize) -> String {
    format!("must be no more than {length} characters")
}

/// The complaint about a value that does not match, with examples that do.
pub fn regex_error(message: &str, pattern: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{message} (regex used for validation is '{pattern}')");
    }
    // The result has a comma before `or`. That is the text of `RegexError` in
    // `apimachinery/pkg/util/validation/validation.go`.
    let examples: Vec<String> = examples.iter().map(|e| format!("'{e}', ")).collect();
    let examples = examples.join(" or ");
    format!("{message} (e.g. {examples}regex used for validation is '{pattern}')")
}

fn label_key_error() -> String {
    regex_error(LABEL_KEY_MSG, LABEL_KEY, &["MyName", "my.name", "123-abc"])
}

/// Label keys and values count in bytes, the other names in what upstream calls characters.
fn max_bytes_error(length: usize) -> String {
    format!("must be no more than {length} bytes")
}

fn too_long(value: &str, max: usize) -> Vec<String> {
    if value.len() > max {
        vec![max_len_error(max)]
    } else {
        Vec::new()
    }
}

fn config_char(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}

fn change_dir_prefix(value: &str) -> Option<String> {
    match value {
        // Keys become file names in volumes, where kubelet keeps `..data` and its versions
        // (`pkg/volume/util/atomic_writer.go`).
        "." | ".." => Some(format!("must not be '{value}'")),
        _ if value.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}
