//! The string formats a CRD may name and that are enforced (`kube-openapi/pkg/validation/strfmt`).
//!
//! The accepted strings are the genuine server's, oddities included: objects that it admits have to be
//! admitted here.

use std::sync::LazyLock;

use regex::Regex;

use super::types::SchemaType;
use crate::cel::Url;
use crate::names::{parse_cidr, parse_ip};
use crate::time::{parse_date, parse_openapi_duration};

/// A format name without its dashes, the way the registry compares them.
fn normalize(format: &str) -> String {
    // `date-time` and `datetime` are one format in strfmt's registry (`DefaultNameNormalizer`).
    format.replace('-', "")
}

/// Whether a string format is known to the server.
fn known_string(format: &str) -> bool {
    checker(&normalize(format)).is_some()
}

/// Whether `format` has a meaning on a node of this type; others are ignored with a warning.
pub(super) fn recognized(format: &str, schema_type: Option<SchemaType>) -> bool {
    match schema_type {
        None | Some(SchemaType::String) => known_string(format),
        Some(SchemaType::Integer) => matches!(format, "int32" | "int64"),
        Some(SchemaType::Number) => matches!(format, "float" | "double"),
        Some(SchemaType::Object | SchemaType::Array | SchemaType::Boolean) => false,
    }
}

/// Whether `text` is of the format; `None` if the format is not one of strings.
pub(super) fn matches(format: &str, text: &str) -> Option<bool> {
    checker(&normalize(format)).map(|check| check(text))
}

fn checker(name: &str) -> Option<fn(&str) -> bool> {
    Some(match name {
        "bsonobjectid" => |s| s.len() == 24 && s.bytes().all(|b| b.is_ascii_hexdigit()),
        "uri" => Url::is_request_uri,
        "email" => email,
        "hostname" => hostname,
        "ipv4" => |s| s.contains('.') && parse_ip(s).is_some(),
        "ipv6" => |s| s.contains(':') && parse_ip(s).is_some(),
        "cidr" => |s| parse_cidr(s).is_some(),
        "mac" => mac,
        "uuid" => is_uuid,
        "uuid3" => |s| uuid(s, Some(b'3'), false),
        "uuid4" => |s| uuid(s, Some(b'4'), true),
        "uuid5" => |s| uuid(s, Some(b'5'), true),
        "isbn" => |s| isbn10(s) || isbn13(s),
        "isbn10" => isbn10,
        "isbn13" => isbn13,
        "creditcard" => credit_card,
        "ssn" => |s| s.len() == 11 && matches_static(&SSN, s),
        "hexcolor" => hex_color,
        "rgbcolor" => |s| matches_static(&RGB, s),
        "byte" => base64,
        "password" => |_| true,
        "date" => |s| parse_date(s).is_some(),
        "datetime" => date_time,
        "duration" => |s| parse_openapi_duration(s).is_some(),
        "k8sshortname" => |s| s.len() <= 63 && short_name(s),
        "k8slongname" => |s| s.len() <= 253 && s.split('.').all(short_name),
        _ => return None,
    })
}

static SSN: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$").ok());
static RGB: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let part = r"[\t\n\f\r ]*(?:0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*";
    Regex::new(&format!(r"^rgb\({part},{part},{part}\)$")).ok()
});
static CARD: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}",
        "|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$"
    ))
    .ok()
});
// The dot before the fraction is unescaped, as in strfmt: `12:00:00x5z` is accepted by the genuine server.
static TIME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new("^([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})$").ok()
});
static SYMBOL: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[\p{S}\p{L}]$").ok());
static LETTER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{L}$").ok());

fn matches_static(regex: &LazyLock<Option<Regex>>, text: &str) -> bool {
    regex.as_ref().is_some_and(|r| r.is_match(text))
}

fn single(regex: &LazyLock<Option<Regex>>, c: char) -> bool {
    matches_static(regex, c.encode_utf8(&mut [0; 4]))
}

fn short_name(s: &str) -> bool {
    let bytes = s.as_bytes();
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

/// `net/mail.ParseAddress`, for addresses with and without a display name.
fn email(s: &str) -> bool {
    let s = s.trim_matches([' ', '\t']);
    let address = match (s.find('<'), s.strip_suffix('>')) {
        (Some(open), Some(inner)) => match inner.get(open + 1..) {
            Some(address) => address,
            None => return false,
        },
        (None, None) => s,
        _ => return false,
    };
    let Some((local, domain)) = address.rsplit_once('@') else {
        return false;
    };
    let atom = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| {
                !c.is_ascii() || c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c)
            })
    };
    let dot_atom = |text: &str| text.split('.').all(atom);
    let quoted = local.len() >= 2 && local.starts_with('"') && local.ends_with('"');
    let literal = domain.starts_with('[') && domain.ends_with(']');
    (quoted || dot_atom(local)) && (literal || dot_atom(domain))
}

fn hostname(s: &str) -> bool {
    if s.len() > 255 || s.split('.').any(|label| label.len() > 63) {
        return false;
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || single(&SYMBOL, c);
    let label = |text: &str| {
        let chars: Vec<char> = text.chars().collect();
        match chars.as_slice() {
            [] => false,
            [only] => plain(*only),
            [first, middle @ .., last] => {
                plain(*first) && plain(*last) && middle.iter().all(|c| *c == '-' || plain(*c))
            }
        }
    };
    match s.rsplit_once('.') {
        // A bare name may have one dash, right behind its first character.
        None => {
            let mut chars = s.chars();
            let first = chars.next().is_some_and(plain);
            let rest = chars.as_str();
            first && rest.strip_prefix('-').unwrap_or(rest).chars().all(plain)
        }
        Some((labels, top)) => {
            let letters = top
                .chars()
                .all(|c| c.is_ascii_alphabetic() || single(&LETTER, c));
            letters && top.chars().count() >= 2 && labels.split('.').all(label)
        }
    }
}

fn mac(s: &str) -> bool {
    let bytes = s.as_bytes();
    let (separator, width) = match (bytes.get(2), bytes.get(4)) {
        (Some(b':'), _) => (':', 2),
        (Some(b'-'), _) => ('-', 2),
        (_, Some(b'.')) => ('.', 4),
        _ => return false,
    };
    let groups: Vec<&str> = s.split(separator).collect();
    let octets = groups.len() * width / 2;
    matches!(octets, 6 | 8 | 20)
        && groups
            .iter()
            .all(|g| g.len() == width && g.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// A UUID of any version.
pub(crate) fn is_uuid(s: &str) -> bool {
    uuid(s, None, false)
}

/// 32 hexadecimal digits, dashes optional between the groups.
fn uuid(s: &str, version: Option<u8>, variant: bool) -> bool {
    let mut digits = Vec::with_capacity(32);
    for b in s.bytes() {
        if b == b'-' {
            // At most one dash, and only between the groups.
            if !matches!(digits.len(), 8 | 12 | 16 | 20) || digits.last() == Some(&b'-') {
                return false;
            }
        } else if b.is_ascii_hexdigit() {
            digits.push(b.to_ascii_lowercase());
        } else {
            return false;
        }
    }
    digits.len() == 32
        && !s.contains("--")
        && version.is_none_or(|v| digits.get(12) == Some(&v))
        && (!variant || digits.get(16).is_some_and(|b| b"89ab".contains(b)))
}

fn without_spaces_and_dashes(s: &str) -> Vec<u8> {
    s.bytes().filter(|b| !b"\t\n\x0c\r -".contains(b)).collect()
}

fn isbn10(s: &str) -> bool {
    let digits = without_spaces_and_dashes(s);
    if digits.len() != 10 {
        return false;
    }
    let mut sum = 0_u32;
    for (weight, b) in (1_u32..).zip(&digits) {
        let value = match b {
            b'0'..=b'9' => u32::from(b - b'0'),
            b'X' if weight == 10 => 10,
            _ => return false,
        };
        sum += weight * value;
    }
    sum.is_multiple_of(11)
}

fn isbn13(s: &str) -> bool {
    let digits = without_spaces_and_dashes(s);
    if digits.len() != 13 || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let weighted = digits
        .iter()
        .enumerate()
        .map(|(i, b)| u32::from(b - b'0') * if i % 2 == 0 { 1 } else { 3 });
    weighted.sum::<u32>().is_multiple_of(10)
}

fn credit_card(s: &str) -> bool {
    let digits: String = s.chars().filter(char::is_ascii_digit).collect();
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(i, b)| match (u32::from(b - b'0'), i % 2) {
            (n, 0) => n,
            (n, _) if n < 5 => n * 2,
            (n, _) => n * 2 - 9,
        })
        .sum();
    matches_static(&CARD, &digits) && sum.is_multiple_of(10)
}

fn hex_color(s: &str) -> bool {
    let digits = s.strip_prefix('#').unwrap_or(s);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Standard alphabet, padded, not empty.
fn base64(s: &str) -> bool {
    let body = s.trim_end_matches('=');
    !body.is_empty()
        && s.len().is_multiple_of(4)
        && s.len() - body.len() <= 2
        && body
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/')
}

fn date_time(s: &str) -> bool {
    let lower = s.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(day), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    let in_range = |captures: regex::Captures<'_>| {
        let at_most = |i: usize, max: &str| captures.get(i).is_some_and(|m| m.as_str() <= max);
        at_most(1, "23") && at_most(2, "59") && at_most(3, "59")
    };
    parse_date(day).is_some()
        && TIME
            .as_ref()
            .and_then(|r| r.captures(time))
            .is_some_and(in_range)
}
