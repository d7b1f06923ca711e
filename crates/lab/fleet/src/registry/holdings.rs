//! The registry's content: the revisions of every image, and the version of each of its
//! architectures.
//!
//! They are in the cluster, one line per revision, the newest last:
//!
//! ```yaml
//! kind: ConfigMap
//! metadata: {name: medley-registry, namespace: kube-system}
//! data:
//!   fedora: |
//!     1: amd64=1 arm64=1 s390x=1
//!     2: amd64=1 arm64=2 s390x=1
//!     3: amd64=1.1 arm64=2.1 s390x=1.1
//! ```
//!
//! Revision 2 has a new disk for arm64. Revision 3 rebuilds all images from the same disks. No
//! other state is stored: images are generated from these lines.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::str::FromStr;

use super::catalog::{Architecture, IMAGES, Image, UnknownArchitecture, image};

/// Number of revisions kept for an image.
// Enough for rollbacks in a demonstration; each one is a generated image that clients may request
// at any time.
pub const MAX_REVISIONS: usize = 16;
/// Maximum length of the stored revisions of an image that is parsed.
const LONGEST: usize = 16 << 10;

/// Number of a disk, and of the build of an image with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The disk, counted from 1.
    pub disk: u32,
    /// How often an image was built from the same disk before.
    pub build: u32,
}

impl Version {
    const FIRST: Self = Self { disk: 1, build: 0 };

    fn changed(self) -> Self {
        Self {
            disk: self.disk.saturating_add(1),
            build: 0,
        }
    }

    fn rebuilt(self) -> Self {
        Self {
            build: self.build.saturating_add(1),
            ..self
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.build {
            0 => write!(f, "{}", self.disk),
            build => write!(f, "{}.{build}", self.disk),
        }
    }
}

/// A revision of an image.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Revision {
    /// Counts up from 1.
    pub number: u32,
    /// Its version per architecture.
    pub versions: BTreeMap<Architecture, Version>,
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.number)?;
        for (architecture, version) in &self.versions {
            write!(f, " {architecture}={version}")?;
        }
        Ok(())
    }
}

/// Errors in stored revisions or in a request to publish.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HoldingsError {
    /// A line does not parse.
    #[error(
        "revisions of {image}: line {line:?} is not of the form `2: amd64=1 arm64=2.1`, with numbers from 1"
    )]
    Line {
        /// The image.
        image: String,
        /// The line, truncated.
        line: String,
    },
    /// An architecture is unknown.
    #[error("revisions of {image}: {source}")]
    Architecture {
        /// The image.
        image: String,
        /// The architecture.
        source: UnknownArchitecture,
    },
    /// A line does not have the architectures of the image.
    #[error(
        "revisions of {image}: revision {number} has {found}, but the image is made for {made}"
    )]
    Parts {
        /// The image.
        image: String,
        /// The revision.
        number: u32,
        /// Its architectures.
        found: String,
        /// The expected architectures.
        made: String,
    },
    /// Revision numbers are not ascending.
    #[error("revisions of {image}: revision {number} is not greater than the one before")]
    Order {
        /// The image.
        image: String,
        /// The revision.
        number: u32,
    },
    /// There are too many revisions.
    #[error(
        "revisions of {image}: there are more than {MAX_REVISIONS}, or more than {LONGEST} bytes"
    )]
    TooMany {
        /// The image.
        image: String,
    },
    /// There is no such image.
    #[error("image {image:?} not found in the demo registry: available are {known}")]
    Image {
        /// The requested image.
        image: String,
        /// The existing images.
        known: String,
    },
    /// The image is not built for this architecture.
    #[error("image {image} is not made for {architecture}: {made} are accepted")]
    NotMade {
        /// The image.
        image: &'static str,
        /// The requested architecture.
        architecture: Architecture,
        /// The architectures of the image.
        made: String,
    },
}

/// What changes with a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publication {
    /// The disks of all architectures.
    All,
    /// The disk of one architecture.
    One(Architecture),
    /// Only the build: digests are new, disks are the same.
    Rebuild,
}

/// The revisions of one image, the newest last; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revisions {
    older: Vec<Revision>,
    newest: Revision,
}

impl Revisions {
    /// The first revision of an image.
    pub fn first(image: &Image) -> Self {
        let parts = image.architectures.iter();
        Self {
            older: Vec::new(),
            newest: Revision {
                number: 1,
                versions: parts.map(|part| (*part, Version::FIRST)).collect(),
            },
        }
    }

    /// Parses the format of [`Revisions::text`].
    pub fn read(image: &Image, text: &str) -> Result<Self, HoldingsError> {
        let too_many = || HoldingsError::TooMany {
            image: image.name.to_owned(),
        };
        if text.len() > LONGEST {
            return Err(too_many());
        }
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let mut all: Vec<Revision> = Vec::new();
        for line in lines {
            let revision = read_line(image, line)?;
            if all
                .last()
                .is_some_and(|last| last.number >= revision.number)
            {
                return Err(HoldingsError::Order {
                    image: image.name.to_owned(),
                    number: revision.number,
                });
            }
            all.push(revision);
        }
        if all.len() > MAX_REVISIONS {
            return Err(too_many());
        }
        let Some(newest) = all.pop() else {
            return Ok(Self::first(image));
        };
        Ok(Self { older: all, newest })
    }

    /// The revision the tag points to.
    pub fn newest(&self) -> &Revision {
        &self.newest
    }

    /// All revisions, the newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = &Revision> {
        std::iter::once(&self.newest).chain(self.older.iter().rev())
    }

    /// One line per revision, the newest last.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for revision in self.older.iter().chain([&self.newest]) {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{revision}");
        }
        text
    }

    /// Adds a revision and drops the oldest beyond [`MAX_REVISIONS`].
    pub fn publish(&mut self, image: &Image, what: Publication) -> Result<(), HoldingsError> {
        if let Publication::One(architecture) = what
            && !image.architectures.contains(&architecture)
        {
            return Err(HoldingsError::NotMade {
                image: image.name,
                architecture,
                made: listed(image.architectures),
            });
        }
        let mut next = self.newest.clone();
        next.number = next.number.saturating_add(1);
        for (architecture, version) in &mut next.versions {
            *version = match what {
                Publication::All => version.changed(),
                Publication::One(one) if one == *architecture => version.changed(),
                Publication::One(_) => *version,
                Publication::Rebuild => version.rebuilt(),
            };
        }
        self.older.push(std::mem::replace(&mut self.newest, next));
        let too_many = (self.older.len() + 1).saturating_sub(MAX_REVISIONS);
        self.older.drain(..too_many);
        Ok(())
    }
}

fn read_line(image: &Image, line: &str) -> Result<Revision, HoldingsError> {
    let wrong = || HoldingsError::Line {
        image: image.name.to_owned(),
        line: line.chars().take(80).collect(),
    };
    let (number, parts) = line.split_once(':').ok_or_else(wrong)?;
    let positive = |text: &str| text.parse::<u32>().ok().filter(|number| *number > 0);
    let number = positive(number).ok_or_else(wrong)?;
    let mut versions = BTreeMap::new();
    for part in parts.split_whitespace() {
        let (architecture, version) = part.split_once('=').ok_or_else(wrong)?;
        let architecture =
            Architecture::from_str(architecture).map_err(|source| HoldingsError::Architecture {
                image: image.name.to_owned(),
                source,
            })?;
        let (disk, build) = match version.split_once('.') {
            Some((disk, build)) => (disk, positive(build).ok_or_else(wrong)?),
            None => (version, 0),
        };
        let disk = positive(disk).ok_or_else(wrong)?;
        versions.insert(architecture, Version { disk, build });
    }
    let made = image.architectures;
    if versions.len() != made.len() || !made.iter().all(|it| versions.contains_key(it)) {
        let found: Vec<Architecture> = versions.into_keys().collect();
        return Err(HoldingsError::Parts {
            image: image.name.to_owned(),
            number,
            found: listed(&found),
            made: listed(made),
        });
    }
    Ok(Revision { number, versions })
}

/// The content of the whole registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Holdings(BTreeMap<&'static str, Revisions>);

impl Holdings {
    /// Reads the ConfigMap. Invalid revisions are logged, and that image keeps its previous
    /// content.
    pub(super) fn read(
        data: &BTreeMap<String, String>,
        before: Option<&Self>,
        mut report_error: impl FnMut(HoldingsError),
    ) -> Self {
        let all = IMAGES.iter().map(|image| {
            let text = data.get(image.name).map_or("", String::as_str);
            let revisions = Revisions::read(image, text).unwrap_or_else(|error| {
                // A typo in one image must not take the others, or its own last good content, out
                // of the registry.
                report_error(error);
                let before = before.and_then(|all| all.0.get(image.name).cloned());
                before.unwrap_or_else(|| Revisions::first(image))
            });
            (image.name, revisions)
        });
        let all = all.collect();
        for name in data.keys() {
            if image(name).is_none() {
                report_error(unknown(name));
            }
        }
        Self(all)
    }

    /// The revisions of an image.
    pub(super) fn of(&self, image: &Image) -> Option<&Revisions> {
        self.0.get(image.name)
    }
}

/// The error for an unknown image, with the known ones.
pub(super) fn unknown(name: &str) -> HoldingsError {
    let known: Vec<&str> = IMAGES.iter().map(|image| image.name).collect();
    HoldingsError::Image {
        image: name.chars().take(80).collect(),
        known: known.join(", "),
    }
}

fn listed(architectures: &[Architecture]) -> String {
    if architectures.is_empty() {
        return "none".to_owned();
    }
    let names: Vec<&str> = architectures.iter().map(|it| it.name()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests;
