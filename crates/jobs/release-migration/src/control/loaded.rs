//! The files of a release, ready to hold a cluster against; or why there are none.

use crate::adoption::Adoption;
use crate::conditions::Step;
use crate::evaluate::Plan;
use crate::payload::{Payload, Selection};

/// A release that was read.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// Its image.
    pub image: String,
    /// What of it the cluster gets.
    pub payload: Payload,
    /// What there is to do for it.
    pub plan: Plan,
    /// Who has to report images.
    pub adoption: Adoption,
    /// A short word for all of it.
    pub hash: String,
    /// What is odd about it.
    pub warnings: Vec<String>,
}

impl Loaded {
    /// What of a release a cluster gets.
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

/// Why the files of a release are not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Trouble {
    /// What is wrong.
    pub kind: TroubleKind,
    /// In a sentence.
    pub message: String,
}

/// What can be wrong with the files of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TroubleKind {
    /// Nobody says where they are, or they are not there.
    Missing,
    /// They cannot be fetched.
    Unreadable,
    /// They are no release.
    Broken,
    /// They are of another release.
    Mismatch,
}

impl TroubleKind {
    /// The word for conditions.
    pub fn word(self) -> &'static str {
        match self {
            Self::Missing => "PayloadMissing",
            Self::Unreadable => "PayloadUnreadable",
            Self::Broken => "PayloadBroken",
            Self::Mismatch => "PayloadMismatch",
        }
    }

    /// What went wrong in the words of the cluster version operator.
    pub fn step(self) -> Step {
        match self {
            Self::Missing | Self::Unreadable => Step::Retrieve,
            Self::Broken => Step::Load,
            Self::Mismatch => Step::Verify,
        }
    }
}
