//! URLs of files on web servers.

use std::fmt;

use super::SourceError;
use crate::excerpt::excerpt;

/// Upper bound of the URL: the length RFC 9110 recommends servers to support.
const MAX_LENGTH: usize = 8000;

/// An `http://` or `https://` URL with host and path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    text: String,
    /// The start of the host.
    start: usize,
    /// The end of host and port.
    end: usize,
}

impl Address {
    /// Parses a URL; `None` if the text has another scheme.
    pub(super) fn read(text: &str) -> Option<Result<Self, SourceError>> {
        let (scheme, rest) = text.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        if !matches!(scheme.as_str(), "http" | "https") {
            return None;
        }
        let malformed = |why| SourceError::Address {
            text: excerpt(text),
            why,
        };
        // Fragments are not sent to servers.
        let rest = rest.split('#').next().unwrap_or_default();
        let host = rest.split(['/', '?']).next().unwrap_or_default();
        Some(if host.contains('@') {
            Err(malformed(
                "a name or password in an address would be shown to everybody",
            ))
        } else if host.is_empty() || host.starts_with(':') {
            Err(malformed("there is no host"))
        } else if rest.len() > MAX_LENGTH {
            Err(malformed("it is too long"))
        } else if rest.contains(|c: char| !c.is_ascii_graphic() || "\"<>\\^`{|}".contains(c)) {
            Err(malformed(
                "it has characters that have to be written with %",
            ))
        } else {
            let start = scheme.len() + "://".len();
            let path = rest.get(host.len()..).unwrap_or_default();
            // The default port is removed, as credentials and certificates are configured by host.
            let usual = if scheme == "https" { ":443" } else { ":80" };
            let host = host.strip_suffix(usual).unwrap_or(host);
            let host = host.to_ascii_lowercase();
            let path = if path.starts_with('/') {
                path.to_owned()
            } else {
                format!("/{path}")
            };
            Ok(Self {
                end: start + host.len(),
                text: format!("{scheme}://{host}{path}"),
                start,
            })
        })
    }

    /// The whole URL.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The host, with its port if it has one.
    pub fn host(&self) -> &str {
        self.text.get(self.start..self.end).unwrap_or_default()
    }

    /// The path, without the query.
    pub fn path(&self) -> &str {
        let rest = self.text.get(self.end..).unwrap_or_default();
        rest.split('?').next().unwrap_or_default()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
