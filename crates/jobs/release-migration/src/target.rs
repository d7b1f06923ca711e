//! Determines the release that a ClusterVersion requests.

#[cfg(test)]
mod tests;

use api::openshift::{ClusterVersion, DesiredUpdate, Release};
use serde::Serialize;

use crate::payload::Architecture;

/// The condition reason for an invalid request.
pub const INVALID: &str = "InvalidClusterVersion";

/// The result of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// No change is requested.
    Stay,
    /// Update to this release.
    Go(Release),
    /// The requested release is not known to exist: it is waited for, which upstream does silently.
    Unknown(UnknownRelease),
}

/// Why it is unknown whether the requested release exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
pub enum UnknownRelease {
    /// The available updates do not include the current version for several architectures.
    #[error(
        "there is no available update to {version} for several architectures; the request does nothing until RetrievedUpdates is True and has one"
    )]
    NoMultiRelease {
        /// The version.
        version: String,
    },
}

/// Why a request is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUpdate {
    /// Architecture selects an image, so both cannot be set.
    #[error("cannot set both Architecture and Image")]
    ArchitectureAndImage,
    /// An architecture alone names no release.
    #[error("Version must be set if Architecture is set")]
    ArchitectureWithoutVersion,
    /// The request is empty.
    #[error("must specify architecture, version, or image")]
    Empty,
    /// The version is not an available update.
    #[error("when image is empty the update must be an available update")]
    NotAvailable,
    /// The version matches several available updates.
    #[error("there are multiple possible payloads for this version, specify the exact image")]
    Ambiguous,
}

impl InvalidUpdate {
    /// The invalid field.
    pub fn field(self) -> &'static str {
        match self {
            Self::ArchitectureAndImage | Self::ArchitectureWithoutVersion | Self::Empty => {
                "spec.desiredUpdate"
            }
            Self::NotAvailable | Self::Ambiguous => "spec.desiredUpdate.version",
        }
    }
}

/// Determines the release that a cluster is to run. `current` is the architecture of its current release.
///
/// An image always wins. A version without one is looked up in the available updates. `Multi` has an effect only if the
/// cluster is not multi already, and then only for the current version.
pub fn target(version: &ClusterVersion, current: &Architecture) -> Result<Target, InvalidUpdate> {
    let Some(request) = &version.spec.desired_update else {
        return Ok(Target::Stay);
    };
    check(request)?;
    let desired = version
        .status
        .as_ref()
        .map(|it| it.desired.clone())
        .unwrap_or_default();
    if !request.image.is_empty() {
        if request.image == desired.image {
            return Ok(Target::Stay);
        }
        return Ok(Target::Go(Release {
            version: request.version.clone(),
            image: request.image.clone(),
            ..Release::default()
        }));
    }
    let available = version
        .status
        .as_ref()
        .and_then(|it| it.available_updates.as_deref())
        .unwrap_or_default();
    // On a cluster that is multi already the field has no effect, and the version alone decides.
    let wants_multi = request.architecture == "Multi" && *current != Architecture::Multi;
    if !wants_multi && request.version == desired.version {
        return Ok(Target::Stay);
    }
    let wanted = if wants_multi {
        &desired.version
    } else {
        &request.version
    };
    let mut found = available.iter().filter(|it| it.version == *wanted);
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(Target::Go(one.clone())),
        // Duplicates of one image are not ambiguous.
        (Some(one), Some(other)) if one.image == other.image => Ok(Target::Go(one.clone())),
        (Some(_), Some(_)) => Err(InvalidUpdate::Ambiguous),
        (None, _) if wants_multi => Ok(Target::Unknown(UnknownRelease::NoMultiRelease {
            version: wanted.clone(),
        })),
        (None, _) => Err(InvalidUpdate::NotAvailable),
    }
}

/// The validation rules of the API, which older servers do not enforce.
fn check(request: &DesiredUpdate) -> Result<(), InvalidUpdate> {
    let has = |text: &str| !text.is_empty();
    match (
        has(&request.architecture),
        has(&request.version),
        has(&request.image),
    ) {
        (true, _, true) => Err(InvalidUpdate::ArchitectureAndImage),
        (true, false, false) => Err(InvalidUpdate::ArchitectureWithoutVersion),
        (false, false, false) => Err(InvalidUpdate::Empty),
        _ => Ok(()),
    }
}
