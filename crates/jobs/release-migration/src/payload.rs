//! A release as files: the content of `/release-manifests` in its image.
//!
//! ```text
//! release-metadata    version, architecture, what it can be updated from    -> Metadata
//! image-references    images by name                                        -> ImageStream
//! 0000_NN_component_* objects, applied in the order of the names            -> Manifest
//! ```

mod hash;
mod manifest;
mod metadata;
mod order;
mod select;
mod stored;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::openshift::{ClusterOperator, ImageStream};
use machinery::json::decode_yaml;
use serde::Serialize;

pub use manifest::{Manifest, ManifestError, is_manifest};
pub use metadata::{Architecture, Metadata, MetadataError};
pub use order::{ApplyStage, FileName, Part, steps};
pub use select::{Excluded, Selection};
pub use stored::{files_of, image_of, is_stored};

/// Files of a directory, by name.
pub type Files = BTreeMap<String, String>;

/// The file with the version.
pub const METADATA: &str = "release-metadata";
/// The file with the images.
pub const REFERENCES: &str = "image-references";

/// A parsed release.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Payload {
    /// Its metadata.
    pub metadata: Metadata,
    /// Its images.
    pub images: ImageStream,
    /// Its objects, in the order of application.
    pub manifests: Vec<Manifest>,
    /// Problems that are no errors.
    pub warnings: Vec<String>,
}

/// Why files are not a valid release: all problems, not only the first.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Error loading manifests from {folder}: {}", aggregated(.problems))]
pub struct PayloadError {
    /// The directory.
    pub folder: String,
    /// The problems.
    pub problems: Vec<Problem>,
}

impl PayloadError {
    /// The condition reason.
    pub const REASON: &'static str = "UpdatePayloadIntegrity";
}

/// Formats errors as `utilerrors.NewAggregate` of Kubernetes does.
fn aggregated(problems: &[Problem]) -> String {
    let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [one] => one.clone(),
        _ => format!("[{}]", texts.join(", ")),
    }
}

/// A problem of a payload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A required file is missing.
    #[error("there is no file {0}")]
    NoFile(&'static str),
    /// `release-metadata` is invalid.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// `image-references` is invalid.
    #[error(transparent)]
    References(#[from] ReferencesError),
    /// The two files are of different releases.
    #[error(
        "version from image-references ({references}) differs from release-metadata ({metadata})"
    )]
    Versions {
        /// The name of the image stream.
        references: String,
        /// The version of the metadata.
        metadata: String,
    },
    /// A manifest is invalid.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

/// Why `image-references` is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferencesError {
    /// It cannot be parsed.
    #[error("unable to load release image-references: {0}")]
    Syntax(String),
    /// It has another kind.
    #[error("unrecognized image-references in release payload")]
    Kind,
}

/// An operator of a release, with the ClusterOperator that it has to report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Operator {
    /// Its name.
    pub name: String,
    /// The index of its manifest among all.
    #[serde(skip)]
    pub place: usize,
    /// Its manifest.
    #[serde(skip)]
    pub expected: ClusterOperator,
}

impl Payload {
    /// Parses files. `folder` is their name in errors.
    pub fn read(folder: &str, files: &Files) -> Result<Self, PayloadError> {
        let mut problems = Vec::new();
        let mut payload = Self::default();
        match files.get(METADATA) {
            None => problems.push(Problem::NoFile(METADATA)),
            Some(text) => match Metadata::read(text) {
                Ok((metadata, warnings)) => {
                    payload.metadata = metadata;
                    payload.warnings = warnings;
                }
                Err(error) => problems.push(error.into()),
            },
        }
        match files.get(REFERENCES) {
            None => problems.push(Problem::NoFile(REFERENCES)),
            Some(text) => match read_references(text) {
                Ok(images) => payload.images = images,
                Err(error) => problems.push(error.into()),
            },
        }
        let references = payload.images.metadata.name.clone().unwrap_or_default();
        // Only if both were read: otherwise a missing file would be reported as a difference as well.
        if problems.is_empty() && references != payload.metadata.version {
            problems.push(Problem::Versions {
                references,
                metadata: payload.metadata.version.clone(),
            });
        }
        for (name, text) in files.iter().filter(|(name, _)| is_manifest(name)) {
            match Manifest::read(name, text) {
                Ok(manifests) => payload.manifests.extend(manifests),
                Err(error) => problems.push(error.into()),
            }
        }
        if problems.is_empty() {
            return Ok(payload);
        }
        let folder = folder.to_owned();
        Err(PayloadError { folder, problems })
    }

    /// The manifests selected for a cluster.
    #[must_use]
    pub fn selected(&self, selection: &Selection) -> Self {
        let mut payload = self.clone();
        payload
            .manifests
            .retain(|manifest| selection.check(manifest).is_ok());
        payload
    }

    /// The same, with a warning if no operator is selected: the release then does not use cluster profiles, and all
    /// manifests count.
    #[must_use]
    pub fn for_cluster(&self, selection: &Selection) -> (Self, Option<String>) {
        let selected = self.selected(selection);
        // A release of another vendor may have no cluster profiles; waiting for no operator would complete it at once.
        if selected.operators().is_empty() && !self.operators().is_empty() {
            let warning = format!(
                "no operator of the release is for clusters of profile {}; all of them are waited for",
                selection.profile
            );
            return (self.clone(), Some(warning));
        }
        (selected, None)
    }

    /// The operators, in the order in which they are waited for.
    pub fn operators(&self) -> Vec<Operator> {
        let manifests = self.manifests.iter().enumerate();
        manifests
            .filter_map(|(place, manifest)| {
                let expected = manifest.cluster_operator()?;
                Some(Operator {
                    name: manifest.name().to_owned(),
                    place,
                    expected,
                })
            })
            .collect()
    }
}

/// Parses the `image-references` of a release or of an operator.
pub fn read_references(text: &str) -> Result<ImageStream, ReferencesError> {
    let syntax = |error: &dyn std::fmt::Display| ReferencesError::Syntax(error.to_string());
    let decoded = decode_yaml(text.as_bytes()).map_err(|error| syntax(&error.message()))?;
    let stream: ImageStream =
        serde_json::from_value(decoded.value).map_err(|error| syntax(&error))?;
    if stream.kind == ImageStream::KIND && stream.api_version == ImageStream::API_VERSION {
        Ok(stream)
    } else {
        Err(ReferencesError::Kind)
    }
}
