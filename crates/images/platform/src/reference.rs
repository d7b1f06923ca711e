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

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::digest::{Digest, DigestError};
use crate::excerpt::excerpt;

pub use host::Host;
pub use parts::{Repository, Tag};

/// The longest reference there can be is shorter: 253 of host, 6 of port, 255 of repository, 128 of
/// tag, 135 of digest, and what joins them.
const LONGEST: usize = 1024;

/// Why a text is no reference to an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// There is nothing, or nothing before the tag.
    #[error("reading image reference {text}: it names no repository")]
    Empty {
        /// What was read.
        text: String,
    },
    /// It is longer than any reference can be.
    #[error("reading image reference {text}: {part} has {found} characters, {most} are the most")]
    TooLong {
        /// What was read, shortened.
        text: String,
        /// What is too long.
        part: Part,
        /// How long it is.
        found: usize,
        /// How long it may be.
        most: usize,
    },
    /// 64 hexadecimal digits are an image's id, and no name.
    #[error(
        "reading image reference {text}: 64 hexadecimal digits are the id of an image, not its name"
    )]
    Id {
        /// What was read.
        text: String,
    },
    /// A repository has upper-case letters.
    #[error("reading image reference {text}: repository {repository} must be in lower case")]
    UpperCase {
        /// What was read, shortened.
        text: String,
        /// The repository that it names.
        repository: String,
    },
    /// Some part is not made as it has to be.
    #[error("reading image reference {text}: {part} {value} is malformed: {accepted}", accepted = .part.accepted())]
    Malformed {
        /// What was read, shortened.
        text: String,
        /// What is malformed.
        part: Part,
        /// The value of that part, shortened.
        value: String,
    },
    /// What follows `@` is no digest.
    #[error("reading image reference {text}")]
    Digest {
        /// What was read, shortened.
        text: String,
        /// Why it is none.
        #[source]
        source: DigestError,
    },
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
    /// What this part has to look like.
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

/// An image in a registry. There is always a tag or a digest; if there are both, the digest decides
/// and the tag is a remark, as for a kubelet.
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

    /// The tag, if one is named or nothing is.
    pub fn tag(&self) -> Option<&Tag> {
        match &self.version {
            Version::Tag(tag) => Some(tag),
            Version::Digest(tag, _) => tag.as_ref(),
        }
    }

    /// The digest, if one is named.
    pub fn digest(&self) -> Option<&Digest> {
        match &self.version {
            Version::Tag(_) => None,
            Version::Digest(_, digest) => Some(digest),
        }
    }

    /// What a registry is asked for, after `/manifests/`: the digest, or else the tag.
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

    /// The same image in the same repository, by its digest. The tag is dropped.
    #[must_use]
    pub fn with_digest(&self, digest: Digest) -> Self {
        Self::pinned(self.host.clone(), self.repository.clone(), digest)
    }

    /// The same image in another place, such as a mirror. Tag and digest are kept.
    #[must_use]
    pub fn moved(&self, host: Host, repository: Repository) -> Self {
        Self {
            host,
            repository,
            version: self.version.clone(),
        }
    }

    /// The name as people write it: without `docker.io`, without `library/`, tag and digest kept.
    pub fn familiar(&self) -> String {
        let repository = self.repository.as_str();
        let short = if !self.host.is_docker_hub() {
            return self.to_string();
        } else if let Some(name) = repository.strip_prefix(OFFICIAL)
            && !name.contains('/')
        {
            name
        } else {
            repository
        };
        let text = format!("{short}{}", self.version);
        // `localhost/x` of Docker Hub and the like would be read as a name of another registry.
        match text.parse() {
            Ok(again) if *self == again => text,
            _ => self.to_string(),
        }
    }
}

/// Where Docker Hub keeps what has no owner.
const OFFICIAL: &str = "library/";

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        if text.len() > LONGEST {
            return Err(ReferenceError::TooLong {
                text: excerpt(text),
                part: Part::Whole,
                found: text.len(),
                most: LONGEST,
            });
        }
        if text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(ReferenceError::Id {
                text: excerpt(text),
            });
        }
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

/// The host, if what stands before the first slash is one, and the rest.
///
/// The rule of `splitDockerDomain`: a host has a dot, a colon or an upper-case letter, or is
/// `localhost`. Everything else is the first part of a repository of Docker Hub.
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

impl Serialize for Reference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Reference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}
