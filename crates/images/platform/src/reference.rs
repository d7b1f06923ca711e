//! References to images in registries, by the grammar and the normalisation of Docker
//! (`distribution/reference`): `fedora` is `docker.io/library/fedora:latest`.
//!
//! ```text
//! quay.io:443/containerdisks/fedora:41@sha256:9f86...
//! `---------' `-------------------' `' `------------'
//!     Host          Repository     Tag     Digest
//! ```

mod host;
mod parts;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use crate::digest::{Digest, DigestError};
use crate::excerpt::excerpt;
use crate::text::serde_as_text;

pub use host::Host;
pub use parts::{Repository, Tag};

/// Upper bound; the longest valid reference is shorter: 253 of host, 6 of port, 255 of repository, 128
/// of tag, 135 of digest, and separators.
const MAX_LENGTH: usize = 1024;

/// Why a text is not an image reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// It is empty, or the name before the tag is.
    #[error("reading image reference {text}: it names no repository")]
    Empty {
        /// The text.
        text: String,
    },
    /// It is longer than any valid reference.
    #[error("reading image reference {text}: {part} has {found} characters, the maximum is {most}")]
    TooLong {
        /// The text, shortened.
        text: String,
        /// The part that is too long.
        part: Part,
        /// Its length.
        found: usize,
        /// The maximum length.
        most: usize,
    },
    /// 64 hexadecimal digits are an image id, not a name.
    #[error(
        "reading image reference {text}: 64 hexadecimal digits are the id of an image, not its name"
    )]
    Id {
        /// The text.
        text: String,
    },
    /// A repository has upper-case letters.
    #[error("reading image reference {text}: repository {repository} must be in lower case")]
    UpperCase {
        /// The text, shortened.
        text: String,
        /// The repository that it names.
        repository: String,
    },
    /// A part is malformed.
    #[error("reading image reference {text}: {part} {value} is malformed: {accepted}", accepted = .part.accepted())]
    Malformed {
        /// The text, shortened.
        text: String,
        /// The malformed part.
        part: Part,
        /// The value of that part, shortened.
        value: String,
    },
    /// The part after `@` is not a digest.
    #[error("reading image reference {text}")]
    Digest {
        /// The text, shortened.
        text: String,
        /// The cause.
        #[source]
        source: DigestError,
    },
}

impl ReferenceError {
    fn malformed(whole: &str, part: Part, value: &str) -> Self {
        Self::Malformed {
            text: excerpt(whole),
            part,
            value: excerpt(value),
        }
    }

    fn check_length(whole: &str, part: Part, found: usize, most: usize) -> Result<(), Self> {
        if found <= most {
            return Ok(());
        }
        Err(Self::TooLong {
            text: excerpt(whole),
            part,
            found,
            most,
        })
    }
}

/// A part of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// The registry's name or address, and port.
    Host,
    /// The port of the registry.
    Port,
    /// The path within the registry.
    Repository,
    /// The tag.
    Tag,
}

impl Part {
    /// The accepted syntax of this part.
    pub fn accepted(self) -> &'static str {
        match self {
            Self::Whole => "expected [host[:port]/]repository[:tag][@digest]",
            Self::Host => {
                "expected words of letters, digits and inner dashes joined by dots, or an IPv6 address in brackets"
            }
            Self::Port => "expected a number from 1 to 65535",
            Self::Repository => {
                "expected words of lower-case letters and digits joined by one of . _ __ or dashes, in parts joined by /"
            }
            Self::Tag => {
                "expected up to 128 letters, digits, underscores, dots and dashes, with neither a dot nor a dash first"
            }
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Whole => "the reference",
            Self::Host => "the host",
            Self::Port => "the port",
            Self::Repository => "the repository",
            Self::Tag => "the tag",
        })
    }
}

/// An image in a registry, with a tag or a digest. If it has both, the digest decides and the tag is
/// ignored, as by the kubelet.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reference {
    host: Host,
    repository: Repository,
    version: Version,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Version {
    Tag(Tag),
    Digest(Option<Tag>, Digest),
}

impl Reference {
    /// A reference by tag.
    pub fn tagged(host: Host, repository: Repository, tag: Tag) -> Self {
        Self {
            host,
            repository,
            version: Version::Tag(tag),
        }
    }

    /// A reference by digest.
    pub fn pinned(host: Host, repository: Repository, digest: Digest) -> Self {
        Self {
            host,
            repository,
            version: Version::Digest(None, digest),
        }
    }

    /// The registry.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The path within the registry.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// The tag, if it is given or neither tag nor digest is.
    pub fn tag(&self) -> Option<&Tag> {
        match &self.version {
            Version::Tag(tag) => Some(tag),
            Version::Digest(tag, _) => tag.as_ref(),
        }
    }

    /// The digest, if given.
    pub fn digest(&self) -> Option<&Digest> {
        match &self.version {
            Version::Tag(_) => None,
            Version::Digest(_, digest) => Some(digest),
        }
    }

    /// The path component after `/manifests/`: the digest, or else the tag.
    pub fn manifest(&self) -> String {
        match &self.version {
            Version::Tag(tag) => tag.to_string(),
            Version::Digest(_, digest) => digest.to_string(),
        }
    }

    /// The name without tag and digest: `docker.io/library/fedora`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.host, self.repository)
    }

    /// The same repository with this digest and without tag.
    #[must_use]
    pub fn with_digest(&self, digest: Digest) -> Self {
        Self::pinned(self.host.clone(), self.repository.clone(), digest)
    }

    /// The same image at another location, such as a mirror. Tag and digest are kept.
    #[must_use]
    pub fn moved(&self, host: Host, repository: Repository) -> Self {
        Self {
            host,
            repository,
            version: self.version.clone(),
        }
    }
}

/// Docker Hub's namespace of official images.
const OFFICIAL: &str = "library/";

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        ReferenceError::check_length(text, Part::Whole, text.len(), MAX_LENGTH)?;
        // `ParseNormalizedNamed` of distribution/reference refuses these as well: a reference that looks like an id
        // would pull from Docker Hub what was meant to be local.
        if text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(ReferenceError::Id {
                text: excerpt(text),
            });
        }
        // The digest first: it contains a colon, which would otherwise be taken for that of a tag.
        let (named, digest) = match text.split_once('@') {
            Some((named, digest)) => {
                let digest = digest.parse().map_err(|source| ReferenceError::Digest {
                    text: excerpt(text),
                    source,
                })?;
                (named, Some(digest))
            }
            None => (text, None),
        };
        let (host, rest) = split_host(named);
        let (path, tag) = match rest.split_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (rest, None),
        };
        if path.is_empty() {
            return Err(ReferenceError::Empty {
                text: excerpt(text),
            });
        }
        let host = match host {
            Some(host) => Host::read(host, text)?,
            None => Host::docker_hub(),
        };
        let repository = if host.is_docker_hub() && !path.contains('/') {
            Repository::read(&format!("{OFFICIAL}{path}"), text)?
        } else {
            Repository::read(path, text)?
        };
        let tag = tag.map(|tag| Tag::read(tag, text)).transpose()?;
        let version = match (tag, digest) {
            (tag, Some(digest)) => Version::Digest(tag, digest),
            (Some(tag), None) => Version::Tag(tag),
            (None, None) => Version::Tag(Tag::latest()),
        };
        Ok(Self {
            host,
            repository,
            version,
        })
    }
}

/// The host before the first slash, if it is one, and the rest.
///
/// The rule of `splitDockerDomain`: a host has a dot, a colon or an upper-case letter, or is
/// `localhost`. Anything else is the first component of a Docker Hub repository.
fn split_host(named: &str) -> (Option<&str>, &str) {
    match named.split_once('/') {
        Some((first, rest))
            if first == "localhost"
                || first.contains(['.', ':'])
                || first.chars().any(char::is_uppercase) =>
        {
            (Some(first), rest)
        }
        _ => (None, named),
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => write!(f, ":{tag}"),
            Self::Digest(None, digest) => write!(f, "@{digest}"),
            Self::Digest(Some(tag), digest) => write!(f, ":{tag}@{digest}"),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}{}", self.host, self.repository, self.version)
    }
}

serde_as_text!(Reference);
