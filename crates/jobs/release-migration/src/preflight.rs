//! Whether every image of a release is there for the architectures that are wanted, before anything
//! starts.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use platform::{Digest, Matcher, Platform};
use serde::Serialize;

/// What runs releases.
const OS: &str = "linux";

/// What a registry said of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is an index.
    Index(Vec<Platform>),
    /// It is one image.
    Single(Option<Platform>),
    /// Nothing, or nothing that makes sense.
    Error(String),
}

/// What is to be said of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict")]
pub enum Fitness {
    /// It is there for all that is wanted.
    Ready,
    /// It is an index, but lacks something.
    Missing {
        /// What it lacks.
        missing: Vec<String>,
    },
    /// It is one image for one architecture, where several are wanted or another one is.
    NotAnIndex {
        /// What it lacks.
        missing: Vec<String>,
    },
    /// Nobody knows.
    Unknown {
        /// Why.
        error: String,
    },
    /// Somebody said that it does not matter.
    Excepted,
}

impl Fitness {
    /// Whether a migration may start with it.
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Ready | Self::Excepted)
    }

    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Missing { .. } => "Missing",
            Self::NotAnIndex { .. } => "NotAnIndex",
            Self::Unknown { .. } => "Unknown",
            Self::Excepted => "Excepted",
        }
    }

    /// What it lacks.
    pub fn missing(&self) -> &[String] {
        match self {
            Self::Missing { missing } | Self::NotAnIndex { missing } => missing,
            _ => &[],
        }
    }
}

/// An image of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// What it is called in the release.
    pub name: String,
    /// Its pull specification.
    pub image: String,
    /// What it resolved to, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// What it is there for.
    pub platforms: Vec<Platform>,
    /// What that means.
    #[serde(flatten)]
    pub fitness: Fitness,
}

/// What is asked, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Preflight {
    /// Architectures that are wanted.
    pub wanted: Vec<String>,
    /// Whether everything is there.
    pub ready: bool,
    /// Every image, by name.
    pub images: Vec<Checked>,
}

impl Preflight {
    /// Of all images of a release, as a registry answered.
    pub fn of(wanted: &[String], mut images: Vec<Checked>) -> Self {
        images.sort_by(|one, other| one.name.cmp(&other.name));
        Self {
            wanted: wanted.to_vec(),
            // A release without images proves nothing.
            ready: !images.is_empty() && images.iter().all(|it| it.fitness.is_good()),
            images,
        }
    }

    /// How many images are not good.
    pub fn bad(&self) -> usize {
        self.images
            .iter()
            .filter(|it| !it.fitness.is_good())
            .count()
    }

    /// Architectures for which every image is there, of those that any image is there for.
    pub fn common(&self) -> Vec<String> {
        let of = |image: &Checked| -> BTreeSet<String> {
            let platforms = image.platforms.iter().filter(|it| it.os == OS);
            platforms.map(|it| it.architecture.clone()).collect()
        };
        let counted = self
            .images
            .iter()
            .filter(|it| it.fitness != Fitness::Excepted);
        let all = counted.map(of).reduce(|one, other| &one & &other);
        all.unwrap_or_default().into_iter().collect()
    }
}

/// Judges one image.
pub fn judge(
    name: &str,
    image: &str,
    wanted: &[String],
    digest: Option<Digest>,
    answer: Answer,
) -> Checked {
    let lacks = |platforms: &[Platform]| -> Vec<String> {
        let lacks = |architecture: &&String| {
            let matcher = Matcher::architecture(OS, architecture);
            !platforms.iter().any(|it| matcher.judge(it).is_ok())
        };
        wanted.iter().filter(lacks).cloned().collect()
    };
    let (platforms, fitness) = match answer {
        Answer::Error(error) => (Vec::new(), Fitness::Unknown { error }),
        Answer::Index(platforms) => {
            let missing = lacks(&platforms);
            let fitness = if missing.is_empty() {
                Fitness::Ready
            } else {
                Fitness::Missing { missing }
            };
            (platforms, fitness)
        }
        Answer::Single(platform) => {
            let platforms: Vec<Platform> = platform.into_iter().collect();
            let missing = lacks(&platforms);
            let fitness = if missing.is_empty() {
                Fitness::Ready
            } else {
                Fitness::NotAnIndex { missing }
            };
            (platforms, fitness)
        }
    };
    Checked {
        name: name.to_owned(),
        image: image.to_owned(),
        digest,
        platforms,
        fitness,
    }
}
