//! Registries: a name or an address, and perhaps a port.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use super::{Part, ReferenceError};
use crate::excerpt::excerpt;

/// The longest name that DNS knows.
const LONGEST: usize = 253;

/// How references name Docker Hub.
const DOCKER_HUB: &str = "docker.io";

/// Docker Hub under its old name.
const LEGACY_HUB: &str = "index.docker.io";

/// Where Docker Hub really answers.
const HUB_ENDPOINT: &str = "registry-1.docker.io";

/// A registry, as references name it: `quay.io`, `localhost:5000`, `[::1]:5000`.
///
/// The grammar is that of `distribution/reference`; beyond it, addresses in brackets and ports have to
/// be real ones, and names are no longer than DNS allows. What looks like a host and is none
/// (`under_score.com/x`) is refused, where Docker finds a reference without any host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Host {
    text: String,
    port: Option<u16>,
}

impl Host {
    /// Docker Hub, where names without a host belong.
    pub fn docker_hub() -> Self {
        Self {
            text: DOCKER_HUB.to_owned(),
            port: None,
        }
    }

    /// Says whether this is Docker Hub.
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

    /// The port, if one is named.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Who is to be connected to: Docker Hub answers elsewhere, everybody else where they are named.
    pub fn endpoint(&self) -> &str {
        if self.is_docker_hub() {
            HUB_ENDPOINT
        } else {
            &self.text
        }
    }

    /// Reads the host of a reference, which the error names.
    pub(super) fn read(host: &str, whole: &str) -> Result<Self, ReferenceError> {
        let malformed = |part, value| ReferenceError::Malformed {
            text: excerpt(whole),
            part,
            value: excerpt(value),
        };
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
        if name.len() > LONGEST {
            return Err(ReferenceError::TooLong {
                text: excerpt(whole),
                part: Part::Host,
                found: name.len(),
                most: LONGEST,
            });
        }
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

/// A word of a name: letters, digits, and dashes within.
fn is_label(label: &str) -> bool {
    !label.is_empty()
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// Digits alone (`parse` would take a sign as well), with a value that ports have.
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
