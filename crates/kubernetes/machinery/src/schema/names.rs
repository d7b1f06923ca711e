//! The two name forms a CRD is made of (`apimachinery/pkg/util/validation`).

const LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
    with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or \
    'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
    characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
    'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

fn is_name_char(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'
}

fn segment(s: &str, letter_first: bool) -> bool {
    let bytes = s.as_bytes();
    let first = bytes
        .first()
        .is_some_and(|b| b.is_ascii_lowercase() || (!letter_first && b.is_ascii_digit()));
    first && bytes.last() != Some(&b'-') && bytes.iter().all(|b| is_name_char(*b))
}

/// What keeps `value` from being a DNS-1035 label.
pub(super) fn dns1035_label(value: &str) -> Vec<&'static str> {
    let mut errors = Vec::new();
    if value.len() > 63 {
        errors.push("must be no more than 63 bytes");
    }
    if !segment(value, true) {
        errors.push(LABEL);
    }
    errors
}

/// What keeps `value` from being a lowercase RFC 1123 subdomain.
pub(super) fn dns1123_subdomain(value: &str) -> Vec<&'static str> {
    let mut errors = Vec::new();
    if value.len() > 253 {
        errors.push("must be no more than 253 bytes");
    }
    if !value.split('.').all(|s| segment(s, false)) {
        errors.push(SUBDOMAIN);
    }
    errors
}
