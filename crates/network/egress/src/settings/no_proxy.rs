//! `NO_PROXY`: hosts that are reached directly.

use std::net::IpAddr;

use ipnet::IpNet;
use url::Host;

use super::{bare, literal};

/// The exceptions of a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NoProxy {
    /// As it was configured.
    text: String,
    rules: Vec<Rule>,
    /// Whether `localhost` and loopback addresses are reached directly: always, unless a proxy is named for one cluster.
    spares_loopback: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    All,
    Network(IpNet),
    Address(IpAddr, Option<u16>),
    Domain {
        /// With a leading dot.
        suffix: String,
        port: Option<u16>,
        /// Whether the domain itself is excluded, too.
        itself: bool,
    },
    /// A port that no URL has: such an entry excludes nothing, and is no reason to fail.
    Nothing,
}

impl Default for NoProxy {
    fn default() -> Self {
        Self::parse("")
    }
}

impl NoProxy {
    /// No exceptions at all.
    pub(super) fn nothing() -> Self {
        Self {
            text: String::new(),
            rules: Vec::new(),
            spares_loopback: false,
        }
    }

    /// The entries of a list, separated by commas. Invalid ones exclude nothing.
    pub(super) fn parse(text: &str) -> Self {
        let entries = text.split(',').map(|entry| entry.trim().to_lowercase());
        let entries = entries.filter(|entry| !entry.is_empty());
        Self {
            text: text.to_owned(),
            rules: entries.map(|entry| Rule::parse(&entry)).collect(),
            spares_loopback: true,
        }
    }

    /// The value of the variable.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether a host, in lower case and without brackets, is reached directly.
    pub(super) fn excludes(&self, host: &str, port: u16) -> bool {
        let address = literal(host);
        if self.spares_loopback
            && (host == "localhost" || address.is_some_and(|it| it.to_canonical().is_loopback()))
        {
            return true;
        }
        self.rules
            .iter()
            .any(|rule| rule.matches(host, address, port))
    }
}

impl Rule {
    fn parse(entry: &str) -> Self {
        if entry == "*" {
            return Self::All;
        }
        if let Ok(network) = entry.parse::<IpNet>() {
            return Self::Network(network);
        }
        let (host, port) = match split_port(entry) {
            Some((host, port)) => match port.parse() {
                Ok(port) => (host, Some(port)),
                // `host:` excludes every port, as in Go.
                Err(_) if port.is_empty() => (host, None),
                Err(_) => return Self::Nothing,
            },
            None => (entry, None),
        };
        if let Some(address) = literal(host) {
            return Self::Address(address.to_canonical(), port);
        }
        let host = host
            .strip_prefix('*')
            .filter(|it| it.starts_with('.'))
            .unwrap_or(host);
        let name = host.strip_prefix('.').unwrap_or(host);
        if name.is_empty() {
            return Self::Nothing;
        }
        // URLs have international names in their ASCII form.
        let name = match Host::parse(name) {
            Ok(Host::Domain(ascii)) if !name.is_ascii() => ascii,
            _ => name.to_owned(),
        };
        Self::Domain {
            suffix: format!(".{name}"),
            port,
            itself: !host.starts_with('.'),
        }
    }

    fn matches(&self, host: &str, address: Option<IpAddr>, target: u16) -> bool {
        let fits = |port: &Option<u16>| port.is_none_or(|port| port == target);
        match self {
            Self::All => true,
            Self::Nothing => false,
            Self::Network(network) => {
                address.is_some_and(|address| network.contains(&address.to_canonical()))
            }
            Self::Address(excluded, port) => {
                address.is_some_and(|address| address.to_canonical() == *excluded) && fits(port)
            }
            Self::Domain {
                suffix,
                port,
                itself,
            } => {
                let named = host.ends_with(suffix.as_str())
                    || (*itself && Some(host) == suffix.strip_prefix('.'));
                address.is_none() && named && fits(port)
            }
        }
    }
}

/// The host and port of an entry. An IPv6 address has a port only if it is in brackets.
fn split_port(entry: &str) -> Option<(&str, &str)> {
    let (host, port) = entry.rsplit_once(':')?;
    if host.starts_with('[') {
        return host.ends_with(']').then(|| (bare(host), port));
    }
    (!host.contains(':')).then_some((host, port))
}
