//! The files of a release, ready for evaluation; or why there are none.

use crate::adoption::Adoption;
use crate::conditions::PayloadStep;
use crate::evaluate::Plan;
use crate::payload::{Payload, Selection};

/// A loaded release.
#[derive(Debug, Clone)]
pub struct LoadedRelease {
    /// Its image.
    pub image: String,
    /// The manifests selected for the cluster.
    pub payload: Payload,
    /// The plan to evaluate operators against.
    pub plan: Plan,
    /// The operators that have to report images.
    pub adoption: Adoption,
    /// The hash of all manifests (`status.versionHash`).
    pub hash: String,
    /// Problems that are no errors.
    pub warnings: Vec<String>,
}

impl LoadedRelease {
    /// Selects the manifests of a release for a cluster.
    pub fn new(image: &str, payload: &Payload, selection: &Selection) -> Self {
        let (payload, odd) = payload.for_cluster(selection);
        let plan = Plan::new(&payload);
        let operators = plan.operators().iter();
        let adoption = Adoption::of(operators.map(|it| (it.name.as_str(), &it.expected)));
        let warnings = payload.warnings.iter().cloned().chain(odd).collect();
        Self {
            image: image.to_owned(),
            hash: payload.version_hash(),
            plan,
            adoption,
            warnings,
            payload,
        }
    }
}

/// Why the files of a release are not available.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PayloadFailure {
    /// The kind of problem.
    pub kind: PayloadFailureKind,
    /// The message.
    pub message: String,
}

/// Kinds of problems with the files of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PayloadFailureKind {
    /// Their source is not configured, or they do not exist.
    Missing,
    /// They cannot be fetched.
    Unreadable,
    /// They are not a valid release.
    Broken,
    /// They belong to another release.
    Mismatch,
}

impl PayloadFailureKind {
    /// The condition reason.
    pub fn word(self) -> &'static str {
        match self {
            Self::Missing => "PayloadMissing",
            Self::Unreadable => "PayloadUnreadable",
            Self::Broken => "PayloadBroken",
            Self::Mismatch => "PayloadMismatch",
        }
    }

    /// The step at which the cluster-version operator would report the problem.
    pub fn step(self) -> PayloadStep {
        match self {
            Self::Missing | Self::Unreadable => PayloadStep::Retrieve,
            Self::Broken => PayloadStep::Load,
            Self::Mismatch => PayloadStep::Verify,
        }
    }
}
