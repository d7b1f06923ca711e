//! IP addresses and ranges as fields check them (`apimachinery/pkg/util/validation/ip.go`), with the
//! strict rules that are on by default since 1.36.

use std::net::{IpAddr, Ipv4Addr};

use machinery::field::{FieldError, Path};

use crate::errors::Errors;

/// Parses an address as old releases did: octets may have leading zeros.
pub(crate) fn parse_sloppy(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let octets: Vec<&str> = text.split('.').collect();
    if octets.len() != 4
        || octets
            .iter()
            .any(|octet| octet.is_empty() || octet.len() > 9)
    {
        return None;
    }
    let mut bytes = [0_u8; 4];
    for (byte, octet) in bytes.iter_mut().zip(octets) {
        if !octet.bytes().all(|c| c.is_ascii_digit()) {
            return None;
        }
        *byte = octet
            .parse::<u32>()
            .ok()
            .and_then(|n| u8::try_from(n).ok())?;
    }
    Some(IpAddr::V4(Ipv4Addr::from(bytes)))
}

/// Whether the text is an IPv6 address; an IPv4-mapped one is not.
pub(crate) fn is_v6(text: &str) -> bool {
    matches!(
        parse_sloppy(text).map(|ip| ip.to_canonical()),
        Some(IpAddr::V6(_))
    )
}

/// Errors in an address; addresses of the old object are accepted.
pub(crate) fn check(path: &Path, text: &str, existing: &[&str]) -> Errors {
    if existing.contains(&text) {
        return Errors::new();
    }
    if parse_sloppy(text).is_none() {
        let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        return FieldError::invalid(path, text, detail).into();
    }
    match text.parse::<IpAddr>() {
        Err(_) => FieldError::invalid(path, text, "must not have leading 0s").into(),
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            FieldError::invalid(path, text, "must not be an IPv4-mapped IPv6 address").into()
        }
        Ok(_) => Errors::new(),
    }
}

/// Errors in an address of a new API, which has to be in its one canonical form.
pub(crate) fn check_canonical(path: &Path, text: &str) -> Errors {
    let mut errors = check(path, text, &[]);
    if let (true, Some(address)) = (errors.is_empty(), parse_sloppy(text)) {
        let canonical = address.to_string();
        if canonical != text {
            let detail = format!("must be in canonical form (\"{canonical}\")");
            errors.invalid(path, text, detail);
        }
    }
    errors
}

/// Errors for addresses that cannot be an endpoint.
pub(crate) fn check_endpoint(path: &Path, text: &str) -> Errors {
    let Some(address) = parse_sloppy(text) else {
        return FieldError::invalid(path, text, "must be a valid IP address").into();
    };
    let mut details = Vec::new();
    if address.is_unspecified() {
        details.push(format!("may not be unspecified ({text})"));
    }
    if address.is_loopback() {
        details.push("may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned());
    }
    let (link_local, link_local_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (
            v6.segments()[0] & 0xffc0 == 0xfe80,
            v6.segments()[0] & 0xff0f == 0xff02,
        ),
    };
    if link_local {
        details.push("may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned());
    }
    if link_local_multicast {
        let range = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
        details.push(range.to_owned());
    }
    details
        .into_iter()
        .map(|detail| FieldError::invalid(path, text, detail))
        .collect()
}

/// A range: the address as written and the prefix length.
pub(crate) fn parse_cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    if length.is_empty() || length.len() > 9 || !length.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let address = parse_sloppy(address)?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let length = length
        .parse::<u32>()
        .ok()
        .filter(|length| *length <= most)?;
    Some((address, u8::try_from(length).ok()?))
}

/// The bits of an address, left-aligned, for comparing prefixes.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)) << 96,
        IpAddr::V6(v6) => u128::from(v6),
    }
}

fn masked(address: IpAddr, length: u8) -> u128 {
    let mask = u128::MAX
        .checked_shl(128 - u32::from(length))
        .unwrap_or_default();
    bits(address) & mask
}

/// Whether `inner` lies in `outer` and is smaller.
pub(crate) fn is_strict_subset(inner: (IpAddr, u8), outer: (IpAddr, u8)) -> bool {
    inner.0.is_ipv4() == outer.0.is_ipv4()
        && inner.1 > outer.1
        && masked(inner.0, outer.1) == masked(outer.0, outer.1)
}

/// Errors in a range; ranges of the old object are accepted.
pub(crate) fn check_cidr(path: &Path, text: &str, existing: &[&str]) -> Errors {
    if existing.contains(&text) {
        return Errors::new();
    }
    let Some((address, length)) = parse_cidr(text) else {
        let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        return FieldError::invalid(path, text, detail).into();
    };
    let (strict, written) = text
        .split_once('/')
        .map(|(address, length)| (address.parse::<IpAddr>().ok(), length))
        .unwrap_or_default();
    let detail = match strict {
        _ if written != length.to_string() => "must not have leading 0s in IP or prefix length",
        None => "must not have leading 0s in IP or prefix length",
        Some(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => {
            "must not have an IPv4-mapped IPv6 address"
        }
        Some(_) if masked(address, length) != bits(address) => {
            "must not have bits set beyond the prefix length"
        }
        Some(_) => return Errors::new(),
    };
    FieldError::invalid(path, text, detail).into()
}
