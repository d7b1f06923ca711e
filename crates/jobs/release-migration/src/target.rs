//! Which release a cluster is to run, by what is asked of it.

#[cfg(test)]
mod tests;

use api::openshift::{ClusterVersion, DesiredUpdate, Release};
use serde::Serialize;

use crate::payload::Architecture;

/// The word for conditions where what is asked makes no sense.
pub const INVALID: &str = "InvalidClusterVersion";

/// What comes of what is asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// Nothing else is asked than there is.
    Stay,
    /// This release.
    Go(Release),
    /// What is asked is not known to be there: it is waited for, and nothing says so upstream.
    Unknown(Unknown),
}

/// Why it is not known whether there is what is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
pub enum Unknown {
    /// The updates that there are do not have the current version for several architectures.
    #[error(
        "there is no available update to {version} for several architectures; the request does nothing until RetrievedUpdates is True and has one"
    )]
    NoMultiRelease {
        /// The version.
        version: String,
    },
}

/// Why what is asked makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// One chooses the image, and the other is it.
    #[error("cannot set both Architecture and Image")]
    ArchitectureAndImage,
    /// An architecture alone names no release.
    #[error("Version must be set if Architecture is set")]
    ArchitectureWithoutVersion,
    /// Nothing is asked.
    #[error("must specify architecture, version, or image")]
    Empty,
    /// A version that there is no update to.
    #[error("when image is empty the update must be an available update")]
    NotAvailable,
    /// A version that there are several updates to.
    #[error("there are multiple possible payloads for this version, specify the exact image")]
    Ambiguous,
}

impl Invalid {
    /// The field that is wrong.
    pub fn field(self) -> &'static str {
        match self {
            Self::ArchitectureAndImage | Self::ArchitectureWithoutVersion | Self::Empty => {
                "spec.desiredUpdate"
            }
            Self::NotAvailable | Self::Ambiguous => "spec.desiredUpdate.version",
        }
    }
}

/// Decides which release a cluster is to run. `current` is for what machines the one is that it runs.
///
/// An image always wins. A version without one is looked for among the available updates. `Multi` is
/// a wish only where the cluster is not that already, and then only the current version can be had.
pub fn target(version: &ClusterVersion, current: &Architecture) -> Result<Target, Invalid> {
    let Some(asked) = &version.spec.desired_update else {
        return Ok(Target::Stay);
    };
    check(asked)?;
    let desired = version
        .status
        .as_ref()
        .map(|it| it.desired.clone())
        .unwrap_or_default();
    if !asked.image.is_empty() {
        if asked.image == desired.image {
            return Ok(Target::Stay);
        }
        return Ok(Target::Go(Release {
            version: asked.version.clone(),
            image: asked.image.clone(),
            ..Release::default()
        }));
    }
    let available = version
        .status
        .as_ref()
        .and_then(|it| it.available_updates.as_deref())
        .unwrap_or_default();
    let wants_multi = asked.architecture == "Multi" && *current != Architecture::Multi;
    if !wants_multi && asked.version == desired.version {
        return Ok(Target::Stay);
    }
    let wanted = if wants_multi {
        &desired.version
    } else {
        &asked.version
    };
    let mut found = available.iter().filter(|it| it.version == *wanted);
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(Target::Go(one.clone())),
        (Some(one), Some(other)) if one.image == other.image => Ok(Target::Go(one.clone())),
        (Some(_), Some(_)) => Err(Invalid::Ambiguous),
        (None, _) if wants_multi => Ok(Target::Unknown(Unknown::NoMultiRelease {
            version: wanted.clone(),
        })),
        (None, _) => Err(Invalid::NotAvailable),
    }
}

/// The rules of the API, which older servers do not check.
fn check(asked: &DesiredUpdate) -> Result<(), Invalid> {
    let has = |text: &str| !text.is_empty();
    match (
        has(&asked.architecture),
        has(&asked.version),
        has(&asked.image),
    ) {
        (true, _, true) => Err(Invalid::ArchitectureAndImage),
        (true, false, false) => Err(Invalid::ArchitectureWithoutVersion),
        (false, false, false) => Err(Invalid::Empty),
        _ => Ok(()),
    }
}
