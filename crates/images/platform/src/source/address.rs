//! Addresses of files on web servers.

use std::fmt;

use super::SourceError;
use crate::excerpt::excerpt;

/// The longest address that servers take for sure.
const LONGEST: usize = 8000;

/// `http://` or `https://`, a host, and a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    text: String,
    /// Where the host starts.
    start: usize,
    /// Where the host, with its port, ends.
    end: usize,
}

impl Address {
    /// Reads an address; none if the text has another scheme.
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
        // What follows `#` is for those who show files.
        let rest = rest.split('#').next().unwrap_or_default();
        let host = rest.split(['/', '?']).next().unwrap_or_default();
        Some(if host.contains('@') {
            Err(malformed(
                "a name or password in an address would be shown to everybody",
            ))
        } else if host.is_empty() || host.starts_with(':') {
            Err(malformed("there is no host"))
        } else if rest.len() > LONGEST {
            Err(malformed("it is too long"))
        } else if rest.contains(|c: char| !c.is_ascii_graphic() || "\"<>\\^`{|}".contains(c)) {
            Err(malformed(
                "it has characters that have to be written with %",
            ))
        } else {
            let start = scheme.len() + "://".len();
            let path = rest.get(host.len()..).unwrap_or_default();
            // The usual port is none: credentials and certificates are found by the host.
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

    /// The whole address.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The host, with its port if it has one.
    pub fn host(&self) -> &str {
        self.text.get(self.start..self.end).unwrap_or_default()
    }

    /// What follows the host, without the query.
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
