//! Image sources: a registry, an archive, a folder, or a web server.
//!
//! | text | source |
//! |---|---|
//! | `docker://quay.io/x/y:9` | a registry |
//! | `quay.io/x/y:9` | the same |
//! | `oci-archive:///srv/x.tar:9` | an OCI layout in a tar file |
//! | `oci:/srv/x:9` | an OCI layout in a folder |
//! | `https://example.com/x.qcow2.xz` | a disk on a web server |
//!
//! Archives and folders follow `containers/image`: a path follows the scheme's colon, up to the next
//! colon, so `oci-archive://x.tar` is `/x.tar` and `oci-archive:x.tar` is relative.

mod address;
mod pick;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use crate::digest::{Digest, DigestError};
use crate::excerpt::excerpt;
use crate::reference::{Reference, ReferenceError};
use crate::text::serde_as_text;

pub use address::Address;
pub use pick::{PickError, Picked};

/// Upper bound of a path (`PATH_MAX`).
const MAX_PATH: usize = 4096;

/// Upper bound of an image name in a layout.
const MAX_NAME: usize = 255;

/// The accepted schemes.
const SCHEMES: &str = "docker://, oci-archive:, oci:, https:// and http:// are";

/// Why a text is not an image source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The scheme is not supported.
    #[error("reading image source {text}: scheme {scheme} is not supported; {SCHEMES}")]
    Scheme {
        /// The text, shortened.
        text: String,
        /// The scheme given.
        scheme: String,
    },
    /// The part after `docker://` is not a reference.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// The path is empty or invalid.
    #[error(
        "reading image source {text}: expected a path of 1 to {MAX_PATH} bytes without null bytes"
    )]
    Path {
        /// The text, shortened.
        text: String,
    },
    /// The name in the layout is malformed.
    #[error(
        "reading image source {text}: name {name} is malformed: expected up to {MAX_NAME} letters and digits joined by one of - . _ : @ + or --, in parts joined by /"
    )]
    Name {
        /// The text, shortened.
        text: String,
        /// The name in the layout, shortened.
        name: String,
    },
    /// The part after `https://` is not a URL.
    #[error(
        "reading image source {text}: {why}; an address such as https://example.com/disk.qcow2 is accepted"
    )]
    Address {
        /// The text, shortened.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The part after `@` is not a digest.
    #[error("reading image source {text}")]
    Digest {
        /// The text, shortened.
        text: String,
        /// The cause.
        #[source]
        source: DigestError,
    },
}

/// An image source.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// A registry.
    Registry(Reference),
    /// An OCI layout in a tar file.
    Archive(Layout),
    /// An OCI layout in a folder.
    Folder(Layout),
    /// A disk on a web server.
    Web(Address),
}

/// An image in an OCI layout.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Layout {
    path: String,
    pick: Pick,
}

/// Which image of a layout to use.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pick {
    /// The only one.
    Only,
    /// The one with this name (`org.opencontainers.image.ref.name`).
    Name(String),
    /// The one with this digest.
    Digest(Digest),
}

impl Source {
    /// The reference, for a registry.
    pub fn reference(&self) -> Option<&Reference> {
        match self {
            Self::Registry(reference) => Some(reference),
            Self::Archive(_) | Self::Folder(_) | Self::Web(_) => None,
        }
    }

    /// The host, with its port unless it is the default; `None` for files.
    pub fn host(&self) -> Option<String> {
        match self {
            Self::Registry(reference) => Some(reference.host().to_string()),
            Self::Web(address) => Some(address.host().to_owned()),
            Self::Archive(_) | Self::Folder(_) => None,
        }
    }
}

impl Layout {
    /// The path of the tar file or folder. It is not checked whether it exists or where links lead.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Which of its images to use.
    pub fn pick(&self) -> &Pick {
        &self.pick
    }

    /// Parses the part after the scheme.
    fn read(rest: &str, text: &str) -> Result<Self, SourceError> {
        let (path, pick) = match rest.split_once(':') {
            // `path@sha256:...`: only a supported algorithm makes it a digest, as paths may contain
            // `@`.
            Some((before, hash)) => match before.rsplit_once('@') {
                Some((path, name @ ("sha256" | "sha512"))) => {
                    let digest =
                        format!("{name}:{hash}")
                            .parse()
                            .map_err(|source| SourceError::Digest {
                                text: excerpt(text),
                                source,
                            })?;
                    (path, Pick::Digest(digest))
                }
                _ if is_name(hash) => (before, Pick::Name(hash.to_owned())),
                _ => {
                    return Err(SourceError::Name {
                        text: excerpt(text),
                        name: excerpt(hash),
                    });
                }
            },
            None => (rest, Pick::Only),
        };
        // Leading slashes are collapsed.
        let relative = path.trim_start_matches('/');
        let path = if relative.len() < path.len() {
            format!("/{relative}")
        } else {
            relative.to_owned()
        };
        if path.is_empty() || path.len() > MAX_PATH || path.contains('\0') {
            return Err(SourceError::Path {
                text: excerpt(text),
            });
        }
        Ok(Self { path, pick })
    }
}

/// The grammar that the image specification gives for `org.opencontainers.image.ref.name`.
fn is_name(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric();
    name.len() <= MAX_NAME
        && name.split('/').all(|component| {
            let mut separators = component.split(is_word);
            separators.next() == Some("")
                && separators.next_back() == Some("")
                && separators
                    .all(|between| matches!(between, "" | "-" | "." | "_" | ":" | "@" | "+" | "--"))
        })
}

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        if let Some(reference) = text.strip_prefix("docker://") {
            return Ok(Self::Registry(reference.parse()?));
        }
        if let Some(rest) = text.strip_prefix("oci-archive:") {
            return Layout::read(rest, text).map(Self::Archive);
        }
        if let Some(rest) = text.strip_prefix("oci:") {
            return Layout::read(rest, text).map(Self::Folder);
        }
        if let Some(address) = Address::read(text) {
            return address.map(Self::Web);
        }
        if let Some((scheme, _)) = text.split_once("://") {
            return Err(SourceError::Scheme {
                text: excerpt(text),
                scheme: excerpt(scheme),
            });
        }
        Ok(Self::Registry(text.parse()?))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registry(reference) => write!(f, "docker://{reference}"),
            Self::Archive(layout) => write!(f, "oci-archive:{layout}"),
            Self::Folder(layout) => write!(f, "oci:{layout}"),
            Self::Web(address) => write!(f, "{address}"),
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One slash after the scheme would suffice; two more are the common notation.
        if self.path.starts_with('/') {
            f.write_str("//")?;
        }
        f.write_str(&self.path)?;
        match &self.pick {
            Pick::Only => Ok(()),
            Pick::Name(name) => write!(f, ":{name}"),
            Pick::Digest(digest) => write!(f, "@{digest}"),
        }
    }
}

serde_as_text!(Source);
