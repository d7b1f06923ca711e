//! The patterns behind the validators, matched by hand: labels are checked on every write.

/// One or more bytes, all accepted.
pub(super) fn each(value: &str, accept: impl Fn(u8) -> bool) -> bool {
    !value.is_empty() && value.bytes().all(accept)
}

fn lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
pub(super) fn dns1123_label(value: &str) -> bool {
    each(value, |b| lower(b) || b == b'-') && !value.starts_with('-') && !value.ends_with('-')
}

/// Labels joined by dots.
pub(super) fn dns1123_subdomain(value: &str) -> bool {
    value.split('.').all(dns1123_label)
}

/// `[a-z]([-a-z0-9]*[a-z0-9])?`
pub(super) fn dns1035_label(value: &str) -> bool {
    dns1123_label(value) && !value.starts_with(|c: char| c.is_ascii_digit())
}

/// `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`
pub(super) fn label_text(value: &str) -> bool {
    let edge = ['-', '_', '.'];
    each(value, |b| {
        b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')
    }) && !value.starts_with(edge)
        && !value.ends_with(edge)
}
