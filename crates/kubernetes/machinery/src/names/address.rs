//! IP addresses and CIDR blocks (`apimachinery/pkg/util/validation/ip.go`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::json::go_quote;

/// An IP address in canonical form, as new fields ask for.
pub fn is_valid_ip(value: &str) -> Vec<String> {
    let Some(parsed) = parse_ip(value) else {
        return vec![not_an_ip()];
    };
    let mut errors = parsed.strict_errors();
    if errors.is_empty() {
        errors.extend(not_canonical(value, &print_ip(parsed.address)));
    }
    errors
}

/// An IP address as fields accept that predate the canonical form: any spelling of it, but since
/// 1.36 neither leading zeros nor mapped addresses.
pub fn is_valid_legacy_ip(value: &str) -> Vec<String> {
    parse_ip(value).map_or_else(|| vec![not_an_ip()], |ip| ip.strict_errors())
}

/// A CIDR block in canonical form, as new fields ask for.
pub fn is_valid_cidr(value: &str) -> Vec<String> {
    let Some(block) = parse_cidr(value) else {
        return vec![not_a_cidr()];
    };
    let mut errors = block.strict_errors();
    if errors.is_empty() {
        let canonical = format!("{}/{}", print_ip(block.network()), block.length);
        errors.extend(not_canonical(value, &canonical));
    }
    errors
}

/// A CIDR block as fields accept that predate the canonical form.
pub fn is_valid_legacy_cidr(value: &str) -> Vec<String> {
    parse_cidr(value).map_or_else(|| vec![not_a_cidr()], |block| block.strict_errors())
}

fn not_an_ip() -> String {
    "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()
}

fn not_a_cidr() -> String {
    "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)".to_owned()
}

fn not_canonical(value: &str, canonical: &str) -> Option<String> {
    (value != canonical).then(|| format!("must be in canonical form ({})", go_quote(canonical)))
}

struct Ip {
    address: IpAddr,
    leading_zeros: bool,
}

impl Ip {
    fn mapped(&self) -> bool {
        matches!(self.address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
    }

    fn strict_errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        if self.leading_zeros {
            errors.push("must not have leading 0s".to_owned());
        }
        if self.mapped() {
            errors.push("must not be an IPv4-mapped IPv6 address".to_owned());
        }
        errors
    }
}

struct Cidr {
    ip: Ip,
    length: u8,
    leading_zeros: bool,
}

impl Cidr {
    fn strict_errors(&self) -> Vec<String> {
        let problem = if self.ip.leading_zeros || self.leading_zeros {
            "must not have leading 0s in IP or prefix length"
        } else if self.ip.mapped() {
            "must not have an IPv4-mapped IPv6 address"
        } else if self.network() != self.ip.address {
            "must not have bits set beyond the prefix length"
        } else {
            return Vec::new();
        };
        vec![problem.to_owned()]
    }

    fn network(&self) -> IpAddr {
        match self.ip.address {
            IpAddr::V4(ip) => {
                let mask = u32::MAX
                    .checked_shl(32 - u32::from(self.length))
                    .unwrap_or(0);
                Ipv4Addr::from_bits(ip.to_bits() & mask).into()
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX
                    .checked_shl(128 - u32::from(self.length))
                    .unwrap_or(0);
                Ipv6Addr::from_bits(ip.to_bits() & mask).into()
            }
        }
    }
}

/// Like Go before 1.17, which ignored leading zeros in octets.
fn parse_ip(value: &str) -> Option<Ip> {
    if let Ok(address) = value.parse() {
        return Some(Ip {
            address,
            leading_zeros: false,
        });
    }
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
    Some(Ip {
        address: plain.parse().ok()?,
        leading_zeros: true,
    })
}

fn parse_cidr(value: &str) -> Option<Cidr> {
    let (ip, length) = value.split_once('/')?;
    let ip = parse_ip(ip)?;
    if length.is_empty() || !length.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let leading_zeros = length.len() > 1 && length.starts_with('0');
    let length: u8 = length.parse().ok()?;
    let max = if ip.address.is_ipv4() { 32 } else { 128 };
    (length <= max).then_some(Cidr {
        ip,
        length,
        leading_zeros,
    })
}

/// Go prints mapped addresses in their IPv4 form.
fn print_ip(address: IpAddr) -> String {
    address.to_canonical().to_string()
}
