//! Which network addresses a controller may connect to.
//!
//! Tenants name registries and web servers; the operator, the webhook and importer pods connect to them from
//! where they run. From there loopback, link-local and metadata addresses answer with what the tenant must not
//! see: an unauthenticated port of the same pod, the credentials of the node. [`AddressPolicy`] refuses them
//! unless the administrator allows a range. Private networks stay allowed: that is where a cluster's own
//! registries are.
//!
//! The policy decides about addresses, never about names: the connector in `egress` resolves a name, asks the
//! policy, and connects to an address that passed. With a proxy it asks about literal addresses in URLs, and
//! trusts the proxy, which an administrator configures, with names.

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use crate::excerpt::excerpt;

/// The option of `medley run`, `webhook`, `importer`, `cri` and `console` that allows a range.
pub const OPTION: &str = "--allow-address";

/// Metadata services of clouds that are not on link-local addresses. All of `fd00:ec2::/32` is AWS's own:
/// metadata, pod identity, DNS and time.
const METADATA: [(IpAddr, u8); 7] = [
    // Alibaba Cloud.
    (IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)), 32),
    // Azure's WireServer, which hands out certificates of the VM.
    (IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)), 32),
    // Oracle Cloud.
    (IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)), 32),
    (
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe)),
        128,
    ),
    // AWS.
    (
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0)),
        32,
    ),
    // Google Cloud.
    (
        IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
        128,
    ),
    // Scaleway.
    (
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42)),
        128,
    ),
];

/// What an address is for, as far as it matters to a caller that connects on behalf of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressClass {
    /// The host or pod itself.
    Loopback,
    /// The same link, which includes most metadata services (169.254.169.254).
    LinkLocal,
    /// A cloud's metadata service outside link-local ranges.
    Metadata,
    /// `0.0.0.0/8` and `::`, which Linux connects to loopback.
    Unspecified,
    /// A group of receivers.
    Multicast,
    /// Broadcast, and `240.0.0.0/4`, which no host has.
    Reserved,
    /// A private network: RFC 1918, RFC 6598, unique local IPv6.
    Private,
    /// Anything else.
    Public,
}

impl AddressClass {
    /// The class of an address. One that carries an IPv4 address (mapped, NAT64, 6to4) has the class of that
    /// address: a translator on the way delivers the packets there.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => Self::of_v6(address),
        }
    }

    /// Whether controllers refuse it unless the administrator allows it.
    pub fn is_restricted(self) -> bool {
        !matches!(self, Self::Private | Self::Public)
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        let [first, second, ..] = address.octets();
        if is_metadata(address.into()) {
            Self::Metadata
        } else if address.is_loopback() {
            Self::Loopback
        } else if address.is_link_local() {
            Self::LinkLocal
        } else if first == 0 {
            Self::Unspecified
        } else if address.is_multicast() {
            Self::Multicast
        } else if first >= 240 {
            Self::Reserved
        // RFC 6598 counts as private: managed clusters use 100.64.0.0/10 for pods and
        // services, and so for registries inside them.
        } else if address.is_private() || (first == 100 && (64..128).contains(&second)) {
            Self::Private
        } else {
            Self::Public
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        // Before carried addresses: `::` and `::1` look as if they carried one.
        let own = if address.is_unspecified() {
            Self::Unspecified
        } else if address.is_loopback() {
            Self::Loopback
        } else if is_metadata(address.into()) {
            Self::Metadata
        } else if address.is_unicast_link_local() {
            Self::LinkLocal
        } else if address.is_multicast() {
            Self::Multicast
        } else if address.is_unique_local() || address.segments()[0] & 0xffc0 == 0xfec0 {
            // Site-local, deprecated by RFC 3879, is still routed within sites.
            Self::Private
        } else {
            Self::Public
        };
        if own != Self::Public {
            return own;
        }
        let classes = carried(address).into_iter().flatten().map(Self::of_v4);
        // The worst of the two readings: a NAT64 gateway decides which one applies,
        // and the policy does not know its prefix.
        classes.max_by_key(|it| it.is_restricted()).unwrap_or(own)
    }
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "loopback",
            Self::LinkLocal => "link-local",
            Self::Metadata => "cloud metadata",
            Self::Unspecified => "unspecified",
            Self::Multicast => "multicast",
            Self::Reserved => "reserved",
            Self::Private => "private",
            Self::Public => "public",
        })
    }
}

fn is_metadata(address: IpAddr) -> bool {
    METADATA
        .iter()
        .any(|(network, bits)| starts_with(address, *network, *bits))
}

/// The IPv4 addresses that an IPv6 address may stand for: two where the length of a NAT64 prefix is unknown.
fn carried(address: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    let joined = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    // A prefix of 48 bits (RFC 6052): bits 64 to 71 are skipped.
    let at_48 = |third: u16, fourth: u16, fifth: u16| {
        let ([_, c], [d, _]) = (fourth.to_be_bytes(), fifth.to_be_bytes());
        joined(third, u16::from_be_bytes([c, d]))
    };
    match address.segments() {
        // IPv4-compatible, IPv4-mapped, IPv4-translated (RFC 2765); NAT64 and 6to4 (RFC 3056).
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => [Some(joined(high, low)), None],
        // The local NAT64 prefix (RFC 8215) is used with 48 bits and with 96.
        [0x64, 0xff9b, 1, third, fourth, fifth, 0, 0] => [Some(at_48(third, fourth, fifth)), None],
        [0x64, 0xff9b, 1, third, fourth, fifth, high, low] => {
            // With 96 bits, what stands here is part of the prefix and mostly zeros, which is no reason to
            // refuse; what an attacker would put there is.
            let other = at_48(third, fourth, fifth);
            let is_aimed = matches!(
                AddressClass::of_v4(other),
                AddressClass::Loopback | AddressClass::LinkLocal | AddressClass::Metadata
            );
            [Some(joined(high, low)), is_aimed.then_some(other)]
        }
        _ => [None, None],
    }
}

/// Whether the first bits of two addresses are the same. Addresses of different families have none in common.
fn starts_with(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let differ = address.to_bits() ^ network.to_bits();
            differ.leading_zeros() >= u32::from(bits)
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let differ = address.to_bits() ^ network.to_bits();
            differ.leading_zeros() >= u32::from(bits)
        }
        _ => false,
    }
}

/// Why a text is not an address range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text} is not an address range: {why}; 192.0.2.0/24, 2001:db8::/32, 192.0.2.7 and 192.0.2.7:5000 are accepted"
)]
pub struct RangeError {
    text: String,
    why: &'static str,
}

/// Addresses configured by an administrator: a CIDR, one address, or one port of one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AddressRange {
    network: IpAddr,
    bits: u8,
    port: Option<u16>,
}

impl AddressRange {
    /// Loopback of both families.
    pub const LOOPBACK: [Self; 2] = [
        Self {
            network: IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)),
            bits: 8,
            port: None,
        },
        Self {
            network: IpAddr::V6(Ipv6Addr::LOCALHOST),
            bits: 128,
            port: None,
        },
    ];

    /// Whether a connection to this address and port is in the range. An IPv4-mapped address is the IPv4
    /// address, as it is to the kernel.
    pub fn contains(&self, address: SocketAddr) -> bool {
        self.port.is_none_or(|port| port == address.port())
            && starts_with(address.ip().to_canonical(), self.network, self.bits)
    }
}

impl From<SocketAddr> for AddressRange {
    fn from(address: SocketAddr) -> Self {
        let network = address.ip().to_canonical();
        Self {
            network,
            bits: width(network),
            port: Some(address.port()),
        }
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl FromStr for AddressRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let wrong = |why| RangeError {
            text: excerpt(text),
            why,
        };
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(address.into());
        }
        let Some((network, bits)) = text.split_once('/') else {
            let address: IpAddr = text.parse().map_err(|_| wrong("expected an IP address"))?;
            let network = address.to_canonical();
            return Ok(Self {
                network,
                bits: width(network),
                port: None,
            });
        };
        let network: IpAddr = network
            .parse()
            .map_err(|_| wrong("expected an IP address before /"))?;
        let most = width(network);
        let is_number = !bits.is_empty() && bits.bytes().all(|it| it.is_ascii_digit());
        let bits: u8 = Some(bits)
            .filter(|_| is_number)
            .and_then(|it| it.parse().ok())
            .filter(|bits| *bits <= most)
            .ok_or_else(|| wrong("expected a prefix length after /, up to 32 or 128"))?;
        // A typing error in a permission must not allow more than intended.
        let trailing = match network {
            IpAddr::V4(network) => network.to_bits().trailing_zeros(),
            IpAddr::V6(network) => network.to_bits().trailing_zeros(),
        };
        if trailing < u32::from(most - bits) {
            return Err(wrong("bits are set beyond the prefix length"));
        }
        Ok(Self {
            network,
            bits,
            port: None,
        })
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}", SocketAddr::new(self.network, port)),
            None if self.bits == width(self.network) => write!(f, "{}", self.network),
            None => write!(f, "{}/{}", self.network, self.bits),
        }
    }
}

/// An address the policy forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{} is a {class} address, which only an administrator can allow ({OPTION} {})", .address.ip(), AddressRange::from(*.address))]
pub struct ForbiddenAddress {
    /// The target of the connection.
    pub address: SocketAddr,
    /// Its class, which is forbidden.
    pub class: AddressClass,
}

/// Which addresses may be connected to. The default refuses every restricted class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressPolicy {
    rule: Rule,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    Any,
    Restricted(Vec<AddressRange>),
}

impl Default for AddressPolicy {
    fn default() -> Self {
        Self::allowing([])
    }
}

impl AddressPolicy {
    /// Every address: for programs that a user runs, with no more access than the user has.
    pub fn unrestricted() -> Self {
        Self { rule: Rule::Any }
    }

    /// Restricted, except for these ranges.
    pub fn allowing(ranges: impl IntoIterator<Item = AddressRange>) -> Self {
        Self {
            rule: Rule::Restricted(ranges.into_iter().collect()),
        }
    }

    /// The ranges the administrator allows, to be passed on to importer pods.
    pub fn allowed(&self) -> &[AddressRange] {
        match &self.rule {
            Rule::Any => &[],
            Rule::Restricted(ranges) => ranges,
        }
    }

    /// Checks one connection.
    pub fn check(&self, address: SocketAddr) -> Result<(), ForbiddenAddress> {
        let Rule::Restricted(ranges) = &self.rule else {
            return Ok(());
        };
        let class = AddressClass::of(address.ip());
        if !class.is_restricted() || ranges.iter().any(|it| it.contains(address)) {
            return Ok(());
        }
        Err(ForbiddenAddress { address, class })
    }

    /// The allowed addresses of a name, in order. Others are skipped, so that a name with one allowed
    /// address works; if none is left, the error is that of the first.
    pub fn filter(
        &self,
        addresses: impl IntoIterator<Item = SocketAddr>,
    ) -> Result<Vec<SocketAddr>, ForbiddenAddress> {
        let mut allowed = Vec::new();
        let mut refused = None;
        for address in addresses {
            match self.check(address) {
                Ok(()) => allowed.push(address),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        match refused {
            // A name without any address gives an empty list, not an error: resolving failed
            // before, or the resolver returned nothing.
            Some(error) if allowed.is_empty() => Err(error),
            _ => Ok(allowed),
        }
    }
}
