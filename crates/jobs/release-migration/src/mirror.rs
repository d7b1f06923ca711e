//! Rewrites a release for images in another registry.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use machinery::json::go_quote;
use platform::{Host, Reference, ReferenceError, Repository};

use crate::build::pretty;
use crate::payload::{Files, REFERENCES, ReferencesError, read_references};
use crate::replace::ExactMap;

/// The new location of images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// All in one repository.
    Repository(Host, Repository),
    /// The same repositories in another registry, or below a prefix of it.
    Registry(Host, Option<Repository>),
}

impl Destination {
    /// One repository: `mirror.example/ocp/release`.
    pub fn repository(text: &str) -> Result<Self, ReferenceError> {
        let reference: Reference = text.parse()?;
        let (host, repository) = (reference.host().clone(), reference.repository().clone());
        Ok(Self::Repository(host, repository))
    }

    /// A registry, or a prefix in it: `mirror.example:5000`, `mirror.example/ocp`.
    pub fn registry(text: &str) -> Result<Self, ReferenceError> {
        let (host, prefix) = text.split_once('/').unwrap_or((text, ""));
        // Any name is valid in place of the repository.
        let prefix = if prefix.is_empty() { "x" } else { prefix };
        let reference: Reference = format!("{host}/{prefix}").parse()?;
        let under = text.contains('/').then(|| reference.repository().clone());
        Ok(Self::Registry(reference.host().clone(), under))
    }

    fn of(&self, image: &Reference) -> Result<Reference, ReferenceError> {
        match self {
            Self::Repository(host, repository) => Ok(image.moved(host.clone(), repository.clone())),
            Self::Registry(host, None) => Ok(image.moved(host.clone(), image.repository().clone())),
            Self::Registry(host, Some(under)) => {
                let moved: Reference = format!("{host}/{under}/{}", image.repository()).parse()?;
                Ok(image.moved(host.clone(), moved.repository().clone()))
            }
        }
    }
}

/// Why a release cannot be rewritten.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MirrorError {
    /// There is no `image-references`.
    #[error("rewriting a release: there is no file {REFERENCES}")]
    NoReferences,
    /// `image-references` is invalid.
    #[error("rewriting a release: {0}")]
    References(#[from] ReferencesError),
    /// The old or new name of an image cannot be parsed.
    #[error("rewriting image {} of the release: {source}", go_quote(.tag))]
    Image {
        /// Its name in the release.
        tag: String,
        /// The cause.
        source: ReferenceError,
    },
    /// An image is referenced by tag, which may be another image elsewhere.
    #[error("image reference tag {} in payload does not point to an image digest - unable to rewrite payload", go_quote(.tag))]
    NoDigest {
        /// Its name in the release.
        tag: String,
    },
}

/// A rewritten release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirroredRelease {
    /// All of its files.
    pub files: Files,
    /// The images with their new location.
    pub moved: ExactMap,
    /// The number of changed files besides `image-references`.
    pub changed: usize,
}

/// Rewrites all files of a release, so that the manifest of a ClusterOperator and the flag of the operator stay
/// consistent.
pub fn mirror(files: &Files, to: &Destination) -> Result<MirroredRelease, MirrorError> {
    let text = files.get(REFERENCES).ok_or(MirrorError::NoReferences)?;
    let mut stream = read_references(text)?;
    let mut moved = BTreeMap::new();
    for tag in &mut stream.spec.tags {
        let Some(image) = tag.image().map(str::to_owned) else {
            continue;
        };
        let unread = |source| MirrorError::Image {
            tag: tag.name.clone(),
            source,
        };
        let reference: Reference = image.parse().map_err(unread)?;
        // Also with both: the text replacement is exact, and manifests name images by digest alone.
        if reference.tag().is_some() || reference.digest().is_none() {
            let tag = tag.name.clone();
            return Err(MirrorError::NoDigest { tag });
        }
        let new = to.of(&reference).map_err(unread)?.to_string();
        if let Some(from) = &mut tag.from {
            from.name.clone_from(&new);
        }
        moved.insert(image, new);
    }
    let moved = ExactMap::new(moved);
    let mut changed = 0;
    let mut all: Files = files
        .iter()
        .map(|(name, text)| {
            let new = moved.replace(text);
            changed += usize::from(name != REFERENCES && new != *text);
            (name.clone(), new)
        })
        .collect();
    all.insert(REFERENCES.to_owned(), pretty(&stream));
    Ok(MirroredRelease {
        files: all,
        moved,
        changed,
    })
}
