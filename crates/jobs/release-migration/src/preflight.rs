//! Checks before a migration that every image of a release exists for the required architectures.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use platform::{Digest, Matcher, Platform};
use serde::Serialize;

/// The operating system of release images.
const OS: &str = "linux";

/// The result of inspecting an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageInspection {
    /// It is an index.
    Index(Vec<Platform>),
    /// It is a single manifest.
    Single(Option<Platform>),
    /// The inspection failed.
    Error(String),
}

/// The verdict about an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict")]
pub enum ImageVerdict {
    /// It exists for all required architectures.
    Ready,
    /// It is an index without some of the architectures.
    Missing {
        /// The missing architectures.
        missing: Vec<String>,
    },
    /// It is a single manifest, where several architectures or another one are required.
    NotAnIndex {
        /// The missing architectures.
        missing: Vec<String>,
    },
    /// The inspection failed.
    Unknown {
        /// The error.
        error: String,
    },
    /// The user excepted it from the check.
    Excepted,
}

impl ImageVerdict {
    /// Whether a migration may start with it.
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Ready | Self::Excepted)
    }

    /// The name of the verdict.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Missing { .. } => "Missing",
            Self::NotAnIndex { .. } => "NotAnIndex",
            Self::Unknown { .. } => "Unknown",
            Self::Excepted => "Excepted",
        }
    }

    /// The missing architectures.
    pub fn missing(&self) -> &[String] {
        match self {
            Self::Missing { missing } | Self::NotAnIndex { missing } => missing,
            _ => &[],
        }
    }
}

/// An image of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckedImage {
    /// Its name in the release.
    pub name: String,
    /// Its pull specification.
    pub image: String,
    /// The resolved digest, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Its platforms.
    pub platforms: Vec<Platform>,
    /// The verdict.
    #[serde(flatten)]
    pub fitness: ImageVerdict,
}

/// The result of a preflight check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Preflight {
    /// The required architectures.
    pub wanted: Vec<String>,
    /// Whether all images pass.
    pub ready: bool,
    /// Every image, by name.
    pub images: Vec<CheckedImage>,
}

impl Preflight {
    /// Combines the verdicts about all images of a release.
    pub fn of(wanted: &[String], mut images: Vec<CheckedImage>) -> Self {
        images.sort_by(|one, other| one.name.cmp(&other.name));
        Self {
            wanted: wanted.to_vec(),
            // A release without images proves nothing.
            ready: !images.is_empty() && images.iter().all(|it| it.fitness.is_good()),
            images,
        }
    }

    /// The number of images that do not pass.
    pub fn bad(&self) -> usize {
        self.images
            .iter()
            .filter(|it| !it.fitness.is_good())
            .count()
    }

    /// Architectures for which every image exists.
    pub fn common(&self) -> Vec<String> {
        let of = |image: &CheckedImage| -> BTreeSet<String> {
            let platforms = image.platforms.iter().filter(|it| it.os == OS);
            platforms.map(|it| it.architecture.clone()).collect()
        };
        let counted = self
            .images
            .iter()
            .filter(|it| it.fitness != ImageVerdict::Excepted);
        let all = counted.map(of).reduce(|one, other| &one & &other);
        all.unwrap_or_default().into_iter().collect()
    }
}

/// Evaluates one image.
pub fn judge(
    name: &str,
    image: &str,
    wanted: &[String],
    digest: Option<Digest>,
    answer: ImageInspection,
) -> CheckedImage {
    let lacks = |platforms: &[Platform]| -> Vec<String> {
        let lacks = |architecture: &&String| {
            let matcher = Matcher::architecture(OS, architecture);
            !platforms.iter().any(|it| matcher.judge(it).is_ok())
        };
        wanted.iter().filter(lacks).cloned().collect()
    };
    let (platforms, fitness) = match answer {
        ImageInspection::Error(error) => (Vec::new(), ImageVerdict::Unknown { error }),
        ImageInspection::Index(platforms) => {
            let missing = lacks(&platforms);
            let fitness = if missing.is_empty() {
                ImageVerdict::Ready
            } else {
                ImageVerdict::Missing { missing }
            };
            (platforms, fitness)
        }
        // A single manifest is good enough if only its own architecture is required.
        ImageInspection::Single(platform) => {
            let platforms: Vec<Platform> = platform.into_iter().collect();
            let missing = lacks(&platforms);
            let fitness = if missing.is_empty() {
                ImageVerdict::Ready
            } else {
                ImageVerdict::NotAnIndex { missing }
            };
            (platforms, fitness)
        }
    };
    CheckedImage {
        name: name.to_owned(),
        image: image.to_owned(),
        digest,
        platforms,
        fitness,
    }
}
