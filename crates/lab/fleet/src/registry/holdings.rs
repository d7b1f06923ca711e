//! What the registry holds: the revisions of every image, and which version each of its parts has.
//!
//! They are in the cluster, one line a revision, the newest last:
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
//! Revision 2 has a new disk for arm64. In revision 3 everything was built again from the same disks.
//! Nothing else is remembered: images are made of these lines.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::str::FromStr;

use super::catalog::{Architecture, IMAGES, Image, UnknownArchitecture, image};

/// How many revisions of an image are kept.
pub const KEPT: usize = 16;
/// The longest text about an image that is read.
const LONGEST: usize = 16 << 10;

/// Which disk, and how often it was packed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The disk; 1 is the first.
    pub disk: u32,
    /// How often the same disk was packed before.
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

/// A state of an image.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Revision {
    /// Counts up from 1.
    pub number: u32,
    /// What it is made of.
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

/// What is wrong with what somebody wrote, or wants.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HoldingsError {
    /// A line makes no sense.
    #[error(
        "revisions of {image}: line {line:?} is not of the form `2: amd64=1 arm64=2.1`, with numbers from 1"
    )]
    Line {
        /// Of which image.
        image: String,
        /// The line, as far as it is shown.
        line: String,
    },
    /// An architecture is unknown.
    #[error("revisions of {image}: {source}")]
    Architecture {
        /// Of which image.
        image: String,
        /// Which one.
        source: UnknownArchitecture,
    },
    /// A line has not the architectures of the image.
    #[error(
        "revisions of {image}: revision {number} has {found}, but the image is made for {made}"
    )]
    Parts {
        /// Of which image.
        image: String,
        /// Which revision.
        number: u32,
        /// What it has.
        found: String,
        /// What it should have.
        made: String,
    },
    /// Revisions do not count up.
    #[error("revisions of {image}: revision {number} is not greater than the one before")]
    Order {
        /// Of which image.
        image: String,
        /// Which revision.
        number: u32,
    },
    /// There are too many.
    #[error("revisions of {image}: there are more than {KEPT}, or more than {LONGEST} bytes")]
    TooMany {
        /// Of which image.
        image: String,
    },
    /// There is no such image.
    #[error("there is no image {image:?} in the registry of the demo: {known} are there")]
    Image {
        /// What was asked for.
        image: String,
        /// What there is.
        known: String,
    },
    /// An image is not made for an architecture.
    #[error("image {image} is not made for {architecture}: {made} are accepted")]
    NotMade {
        /// Which image.
        image: &'static str,
        /// What was asked for.
        architecture: Architecture,
        /// What there is.
        made: String,
    },
}

/// What is new about a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publication {
    /// The disks of all architectures.
    All,
    /// The disk of one architecture.
    One(Architecture),
    /// Nothing but the packing: the digests are new, and the disks in it are not.
    Rebuild,
}

/// The revisions of one image, the newest last. There is always one.
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

    /// Reads what [`Revisions::text`] wrote, or somebody else.
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
        if all.len() > KEPT {
            return Err(too_many());
        }
        let Some(newest) = all.pop() else {
            return Ok(Self::first(image));
        };
        Ok(Self { older: all, newest })
    }

    /// The revision that the tag means.
    pub fn newest(&self) -> &Revision {
        &self.newest
    }

    /// All of them, the newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = &Revision> {
        std::iter::once(&self.newest).chain(self.older.iter().rev())
    }

    /// One line for each, the newest last.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for revision in self.older.iter().chain([&self.newest]) {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{revision}");
        }
        text
    }

    /// Adds a revision. The oldest ones are forgotten when there are too many.
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
        let too_many = (self.older.len() + 1).saturating_sub(KEPT);
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

/// What the whole registry holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Holdings(BTreeMap<&'static str, Revisions>);

impl Holdings {
    /// Reads what is in the cluster. What makes no sense is told, and the image is as it was before.
    pub(super) fn read(
        data: &BTreeMap<String, String>,
        before: Option<&Self>,
        mut tell: impl FnMut(HoldingsError),
    ) -> Self {
        let all = IMAGES.iter().map(|image| {
            let text = data.get(image.name).map_or("", String::as_str);
            let revisions = Revisions::read(image, text).unwrap_or_else(|error| {
                tell(error);
                let before = before.and_then(|all| all.0.get(image.name).cloned());
                before.unwrap_or_else(|| Revisions::first(image))
            });
            (image.name, revisions)
        });
        let all = all.collect();
        for name in data.keys() {
            if image(name).is_none() {
                tell(unknown(name));
            }
        }
        Self(all)
    }

    /// The revisions of an image.
    pub(super) fn of(&self, image: &Image) -> Option<&Revisions> {
        self.0.get(image.name)
    }
}

/// Says which images there are.
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
