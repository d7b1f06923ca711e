//! What an operator has to report: versions and images by name.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use api::openshift::{ClusterOperatorStatus, OperandVersion};

use crate::write::listed;

pub use api::openshift::{OPERATOR, OPERATOR_IMAGE};

/// The variable with the version.
pub const RELEASE_VARIABLE: &str = "RELEASE_VERSION";
/// The variable with the image of the operator.
pub const OPERATOR_IMAGE_VARIABLE: &str = "OPERATOR_IMAGE";

/// What stands for an image until a release is built.
const IMAGE_PLACEHOLDER: &str = "placeholder.url.oc.will.replace.this.org/";
/// What stands for a version until a release is built.
const VERSION_PLACEHOLDER: &str = "0.0.1-snapshot";

/// Versions and images by name: `operator`, `operator-image`, `router`, `router-image`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Versions(BTreeMap<String, String>);

/// Why there is nothing to report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VersionsError {
    /// Nobody says which version it is.
    #[error("{RELEASE_VARIABLE} is not set: it is the version that is reported as {OPERATOR:?}")]
    NoVersion,
    /// An operand without an image.
    #[error("{variable} is not set: it is the image that is reported as \"{operand}-image\"")]
    NoImage {
        /// The variable.
        variable: String,
        /// The operand.
        operand: String,
    },
    /// The release was not built properly: what is reported would never be what is expected.
    #[error("{name} is {value:?}, which the build of the release should have replaced")]
    Placeholder {
        /// What was to be reported.
        name: String,
        /// The placeholder.
        value: String,
    },
    /// There is nothing behind a name, or no name.
    #[error("{name:?} is {value:?}, but neither may be empty")]
    Empty {
        /// What was to be reported.
        name: String,
        /// Its version.
        value: String,
    },
}

impl Versions {
    /// Reads them from variables: `RELEASE_VERSION`, `OPERATOR_IMAGE` if there is one, and for every
    /// operand an image (`KUBE_APISERVER_IMAGE` for `kube-apiserver`) and, if there is one, a version
    /// (`KUBE_APISERVER_VERSION`).
    pub fn read(
        variable: impl Fn(&str) -> Option<String>,
        operands: &[&str],
    ) -> Result<Self, VersionsError> {
        let said = |name: &str| variable(name).filter(|it| !it.is_empty());
        let version = said(RELEASE_VARIABLE).ok_or(VersionsError::NoVersion)?;
        let mut versions = Self::default().with(OPERATOR, &version)?;
        if let Some(image) = said(OPERATOR_IMAGE_VARIABLE) {
            versions = versions.with(OPERATOR_IMAGE, &image)?;
        }
        for operand in operands {
            let prefix = operand.to_uppercase().replace(['-', '.'], "_");
            let variable = format!("{prefix}_IMAGE");
            let Some(image) = said(&variable) else {
                let operand = (*operand).to_owned();
                return Err(VersionsError::NoImage { variable, operand });
            };
            versions = versions.with(&format!("{operand}-image"), &image)?;
            if let Some(version) = said(&format!("{prefix}_VERSION")) {
                versions = versions.with(operand, &version)?;
            }
        }
        Ok(versions)
    }

    /// The same with one more, or with another version under a name.
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

    /// All, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, version)| (name.as_str(), version.as_str()))
    }

    /// Whether a status says all of this. What it says besides does not matter; of several under one
    /// name the first counts.
    pub fn are_in(&self, status: &ClusterOperatorStatus) -> bool {
        self.iter().all(|(name, version)| {
            let found = status.versions.iter().find(|it| it.name == name);
            found.is_some_and(|it| it.version == version)
        })
    }

    /// What is reported once these are: those that somebody else reports stay, and all are in the order
    /// of their names.
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

/// As operators tell it: `[{operator 4.18.0} {operator-image quay.io/...}]`.
impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&listed(&self.over(&[])))
    }
}
