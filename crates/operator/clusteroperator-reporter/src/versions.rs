//! Versions and images to report, by name.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use api::openshift::{ClusterOperatorStatus, OperandVersion};

use crate::write::listed;

pub use api::openshift::{OPERATOR, OPERATOR_IMAGE};

/// Environment variable with the version of the release.
pub const RELEASE_VARIABLE: &str = "RELEASE_VERSION";
/// Environment variable with the image of the operator.
pub const OPERATOR_IMAGE_VARIABLE: &str = "OPERATOR_IMAGE";

/// Prefix of image placeholders, which `oc adm release new` replaces.
const IMAGE_PLACEHOLDER: &str = "placeholder.url.oc.will.replace.this.org/";
/// Version placeholder, replaced likewise.
const VERSION_PLACEHOLDER: &str = "0.0.1-snapshot";

/// Versions and images by name: `operator`, `operator-image`, `router`, `router-image`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Versions(BTreeMap<String, String>);

/// Why versions cannot be reported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VersionsError {
    /// The version is not set.
    #[error("{RELEASE_VARIABLE} is not set: it is the version that is reported as {OPERATOR:?}")]
    NoVersion,
    /// The image of an operand is not set.
    #[error("{variable} is not set: it is the image that is reported as \"{operand}-image\"")]
    NoImage {
        /// The environment variable.
        variable: String,
        /// The operand.
        operand: String,
    },
    /// A placeholder is left from an incomplete release build; it would never match the expected version.
    #[error("{name} is {value:?}, which the build of the release should have replaced")]
    Placeholder {
        /// Name of the version.
        name: String,
        /// The placeholder.
        value: String,
    },
    /// An empty name or version.
    #[error("{name:?} is {value:?}, but neither may be empty")]
    Empty {
        /// The name.
        name: String,
        /// The version.
        value: String,
    },
}

impl Versions {
    /// Reads environment variables: `RELEASE_VERSION`, optionally `OPERATOR_IMAGE`, and for every operand an image
    /// (`KUBE_APISERVER_IMAGE` for `kube-apiserver`) and optionally a version (`KUBE_APISERVER_VERSION`).
    pub fn read(
        variable: impl Fn(&str) -> Option<String>,
        operands: &[&str],
    ) -> Result<Self, VersionsError> {
        let value_of = |name: &str| variable(name).filter(|it| !it.is_empty());
        let version = value_of(RELEASE_VARIABLE).ok_or(VersionsError::NoVersion)?;
        let mut versions = Self::default().with(OPERATOR, &version)?;
        if let Some(image) = value_of(OPERATOR_IMAGE_VARIABLE) {
            versions = versions.with(OPERATOR_IMAGE, &image)?;
        }
        for operand in operands {
            let prefix = operand.to_uppercase().replace(['-', '.'], "_");
            let variable = format!("{prefix}_IMAGE");
            let Some(image) = value_of(&variable) else {
                let operand = (*operand).to_owned();
                return Err(VersionsError::NoImage { variable, operand });
            };
            versions = versions.with(&format!("{operand}-image"), &image)?;
            if let Some(version) = value_of(&format!("{prefix}_VERSION")) {
                versions = versions.with(operand, &version)?;
            }
        }
        Ok(versions)
    }

    /// Adds or replaces a version.
    pub fn with(mut self, name: &str, version: &str) -> Result<Self, VersionsError> {
        let (owned, value) = (name.to_owned(), version.to_owned());
        if name.is_empty() || version.is_empty() {
            return Err(VersionsError::Empty { name: owned, value });
        }
        let is_snapshot = version == VERSION_PLACEHOLDER
            || version.starts_with(&format!("{VERSION_PLACEHOLDER}-"));
        if is_snapshot || version.starts_with(IMAGE_PLACEHOLDER) {
            return Err(VersionsError::Placeholder { name: owned, value });
        }
        self.0.insert(owned, value);
        Ok(self)
    }

    /// The version under a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All versions, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, version)| (name.as_str(), version.as_str()))
    }

    /// Whether a status contains these versions. Others in it do not matter; of several under one name the first
    /// counts.
    pub fn are_in(&self, status: &ClusterOperatorStatus) -> bool {
        self.iter().all(|(name, version)| {
            let found = status.versions.iter().find(|it| it.name == name);
            found.is_some_and(|it| it.version == version)
        })
    }

    /// These versions merged over those in the status, sorted by name: versions of other reporters stay.
    pub(crate) fn over(&self, old: &[OperandVersion]) -> Vec<OperandVersion> {
        let theirs = old.iter().filter(|it| !self.0.contains_key(&it.name));
        let ours = self.iter().map(|(name, version)| OperandVersion {
            name: name.to_owned(),
            version: version.to_owned(),
        });
        let mut all: Vec<OperandVersion> = theirs.cloned().chain(ours).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }
}

/// The format of OpenShift's operators: `[{operator 4.18.0} {operator-image quay.io/...}]`.
impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&listed(&self.over(&[])))
    }
}
