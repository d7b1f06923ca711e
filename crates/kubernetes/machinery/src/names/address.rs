//! IP addresses and CIDR blocks as the API reads them (`k8s.io/utils/net`, `ParseIPSloppy`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address with all bits beyond the prefix zero.
pub(crate) fn network(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            Ipv4Addr::from_bits(ip.to_bits() & mask).into()
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            Ipv6Addr::from_bits(ip.to_bits() & mask).into()
        }
    }
}

/// Like Go before 1.17, which ignored leading zeros in octets.
pub(crate) fn parse_ip(value: &str) -> Option<IpAddr> {
    if let Ok(address) = value.parse() {
        return Some(address);
    }
    // The dotted part may follow an IPv6 prefix (`::ffff:010.0.0.1`).
    let (head, quad) = match value.rfind(':') {
        Some(colon) => value.split_at(colon + 1),
        None => ("", value),
    };
    let mut plain = String::from(head);
    for (i, octet) in quad.split('.').enumerate() {
        if octet.is_empty() || !octet.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        if i > 0 {
            plain.push('.');
        }
        let stripped = octet.trim_start_matches('0');
        plain.push_str(if stripped.is_empty() { "0" } else { stripped });
    }
    plain.parse().ok()
}

/// An address and the length of its prefix.
pub(crate) fn parse_cidr(value: &str) -> Option<(IpAddr, u8)> {
    let (ip, length) = value.split_once('/')?;
    let ip = parse_ip(ip)?;
    if length.is_empty() || !length.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let length: u8 = length.parse().ok()?;
    let max = if ip.is_ipv4() { 32 } else { 128 };
    (length <= max).then_some((ip, length))
}
