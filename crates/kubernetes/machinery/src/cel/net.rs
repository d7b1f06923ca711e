//! Addresses and networks as Go's `net/netip` reads them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::json::go_quote;
use crate::names::network;

/// An address with a prefix length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cidr {
    /// The address as written, host bits included.
    pub(crate) address: IpAddr,
    /// Length of the prefix in bits.
    pub(crate) prefix: u8,
}

/// An address without a zone that is not an IPv4 address in IPv6 form.
pub(crate) fn parse_ip(text: &str) -> Result<IpAddr, String> {
    let shown = go_quote(text);
    if let Some((address, zone)) = text.split_once('%')
        && !zone.is_empty()
        && address.parse::<Ipv6Addr>().is_ok()
    {
        return Err(format!("IP address {shown} with zone value is not allowed"));
    }
    let parsed: IpAddr = text.parse().map_err(|_| {
        format!(
            "IP Address {shown} parse error during conversion from string: ParseAddr({shown}): \
             {}",
            reason(text)
        )
    })?;
    match parsed {
        // `parseIPAddr` of `apiserver/pkg/cel/library/ip.go`: an address with two spellings would not equal itself.
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {shown} is not allowed"))
        }
        other => Ok(other),
    }
}

/// Why an address does not parse, in Go's words for the common cases.
fn reason(text: &str) -> String {
    if text.contains(':') {
        return "each colon-separated field must have at least one digit".to_owned();
    }
    if !text.contains('.') {
        return "unable to parse IP".to_owned();
    }
    let fields: Vec<&str> = text.split('.').collect();
    if fields.iter().any(|f| f.is_empty()) {
        return "IPv4 field must have at least one digit".to_owned();
    }
    if fields
        .iter()
        .any(|f| !f.bytes().all(|b| b.is_ascii_digit()))
    {
        return "unexpected character".to_owned();
    }
    if fields.iter().any(|f| f.len() > 1 && f.starts_with('0')) {
        return "IPv4 field has octet with leading zero".to_owned();
    }
    if fields.iter().any(|f| f.parse::<u8>().is_err()) {
        return "IPv4 field has value >255".to_owned();
    }
    if fields.len() < 4 {
        "IPv4 address too short"
    } else {
        "IPv4 address too long"
    }
    .to_owned()
}

/// `ff02::/16` and `224.0.0.0/24`
pub(crate) fn is_link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    }
}

/// `fe80::/10` and `169.254.0.0/16`
pub(crate) fn is_link_local_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    }
}

/// Everything that is none of the special kinds; private networks count.
pub(crate) fn is_global_unicast(ip: IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(v4) if v4 == Ipv4Addr::BROADCAST);
    !ip.is_unspecified()
        && !ip.is_loopback()
        && !ip.is_multicast()
        && !is_link_local_unicast(ip)
        && !broadcast
}

impl Cidr {
    /// `10.0.0.0/8`
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let shown = go_quote(text);
        let fail = |why: &str| {
            format!(
                "network address parse error during conversion from string: \
                 netip.ParsePrefix({shown}): {why}"
            )
        };
        let (address, bits) = text.rsplit_once('/').ok_or_else(|| fail("no '/'"))?;
        if address.contains('%') {
            return Err(fail("IPv6 zones cannot be present in a prefix"));
        }
        let parsed: IpAddr = address.parse().map_err(|_| {
            fail(&format!(
                "ParseAddr({}): {}",
                go_quote(address),
                reason(address)
            ))
        })?;
        let valid = !bits.is_empty()
            && bits.bytes().all(|b| b.is_ascii_digit())
            && (bits == "0" || !bits.starts_with('0'));
        if !valid {
            return Err(fail(&format!("bad bits after slash: {}", go_quote(bits))));
        }
        let max = if parsed.is_ipv4() { 32 } else { 128 };
        let prefix = bits
            .parse::<u8>()
            .ok()
            .filter(|p| *p <= max)
            .ok_or_else(|| fail("prefix length out of range"))?;
        if matches!(parsed, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some()) {
            return Err(format!("IPv4-mapped IPv6 address {shown} is not allowed"));
        }
        Ok(Self {
            address: parsed,
            prefix,
        })
    }

    /// With the host bits zero.
    pub(crate) fn masked(self) -> Self {
        Self {
            address: network(self.address, self.prefix),
            prefix: self.prefix,
        }
    }

    /// Whether the network has this address.
    pub(crate) fn contains(self, ip: IpAddr) -> bool {
        self.address.is_ipv4() == ip.is_ipv4()
            && network(ip, self.prefix) == network(self.address, self.prefix)
    }

    /// Whether the whole of another network is part of this one.
    pub(crate) fn includes(self, other: Self) -> bool {
        self.prefix <= other.prefix && self.contains(other.address)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}
