//! Registry hosts: a name or an address, and an optional port.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use super::{Part, ReferenceError};

/// The maximum length of a DNS name.
const MAX_NAME: usize = 253;

/// Docker Hub in references.
const DOCKER_HUB: &str = "docker.io";

/// The old name of Docker Hub.
const LEGACY_HUB: &str = "index.docker.io";

/// The API endpoint of Docker Hub.
const HUB_ENDPOINT: &str = "registry-1.docker.io";

/// A registry host in a reference: `quay.io`, `localhost:5000`, `[::1]:5000`.
///
/// The grammar is that of `distribution/reference`; in addition, addresses in brackets and ports have
/// to be valid, and names must fit DNS. A malformed host (`under_score.com/x`) is rejected, where
/// Docker would parse a reference without host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Host {
    text: String,
    port: Option<u16>,
}

impl Host {
    /// Docker Hub, the host of names without one.
    pub fn docker_hub() -> Self {
        Self {
            text: DOCKER_HUB.to_owned(),
            port: None,
        }
    }

    /// Whether this is Docker Hub.
    pub fn is_docker_hub(&self) -> bool {
        self.text == DOCKER_HUB
    }

    /// Name and port, as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The name or address without its port. Addresses keep their brackets.
    pub fn name(&self) -> &str {
        match (self.port, self.text.rsplit_once(':')) {
            (Some(_), Some((name, _))) => name,
            _ => &self.text,
        }
    }

    /// The port, if given.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The host to connect to: Docker Hub has a separate endpoint.
    pub fn endpoint(&self) -> &str {
        if self.is_docker_hub() {
            HUB_ENDPOINT
        } else {
            &self.text
        }
    }

    /// Parses the host of a reference; `whole` is quoted in errors.
    pub(super) fn read(host: &str, whole: &str) -> Result<Self, ReferenceError> {
        let malformed = |part, value| ReferenceError::malformed(whole, part, value);
        let (name, port) = if let Some(bracketed) = host.strip_prefix('[') {
            let (address, rest) = bracketed
                .split_once(']')
                .ok_or_else(|| malformed(Part::Host, host))?;
            let digits = |b: u8| b.is_ascii_hexdigit() || b == b':';
            // Neither zones (`%eth0`) nor mapped addresses (`::ffff:1.2.3.4`) are in the grammar.
            if !address.bytes().all(digits) || address.parse::<Ipv6Addr>().is_err() {
                return Err(malformed(Part::Host, host));
            }
            match rest.strip_prefix(':') {
                Some(port) => (address, Some(port)),
                None if rest.is_empty() => (address, None),
                None => return Err(malformed(Part::Host, host)),
            }
        } else {
            let (name, port) = match host.split_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (host, None),
            };
            if !name.split('.').all(is_label) {
                return Err(malformed(Part::Host, host));
            }
            (name, port)
        };
        ReferenceError::check_length(whole, Part::Host, name.len(), MAX_NAME)?;
        let port = port
            .map(|port| read_port(port).ok_or_else(|| malformed(Part::Port, port)))
            .transpose()?;
        if host == LEGACY_HUB {
            return Ok(Self::docker_hub());
        }
        Ok(Self {
            text: host.to_owned(),
            port,
        })
    }
}

/// A label: letters, digits, and inner dashes.
fn is_label(label: &str) -> bool {
    !label.is_empty()
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// Digits only (`parse` would accept a sign) in the range of ports.
fn read_port(port: &str) -> Option<u16> {
    if !port.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    port.parse().ok().filter(|port| *port != 0)
}

impl FromStr for Host {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        Self::read(text, text)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
