//! Profiles: named sets of changes. A profile is one file here, and one line in [`Registry::standard`].

use std::sync::Arc;

use api::advisor::{Drift, Impact, ProfileOptions};

use crate::intent::Intents;
use crate::snapshot::{GroupKind, Snapshot};

/// What is told about a profile.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// The name, which is also that of its configuration.
    pub name: &'static str,
    /// What it is for, in a sentence.
    pub description: &'static str,
    /// What it is about (`scheduling`).
    pub category: &'static str,
    /// What it may cost, in a sentence.
    pub impact_summary: &'static str,
    /// What it may cost, before a plan says so exactly.
    pub impact: Impact,
    /// Where it is documented.
    pub documentation_url: &'static str,
    /// Whether a configuration is made for it without being asked for.
    pub advertised: bool,
}

/// Something that has to be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prerequisite {
    /// The kind.
    pub of: GroupKind,
    /// Its version, for the message.
    pub version: &'static str,
    /// What to do if it is missing.
    pub remedy: &'static str,
}

/// A kind that a profile has to do with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uses {
    /// The kind.
    pub of: GroupKind,
    /// Versions that the profile understands, best first.
    pub versions: &'static [&'static str],
    /// What the kind is called in URLs, for the roles of the operator.
    pub plural: &'static str,
    /// What the profile does with it.
    pub access: Access,
}

/// What a profile does with a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads it.
    Read,
    /// Reads, applies, and creates it.
    Apply,
    /// All of that, and deletes what it created.
    ApplyAndDelete,
}

/// Why a profile cannot say what it wants.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The options make no sense.
    #[error("Invalid profile options: {0}")]
    Options(String),
    /// An object that is read is not as it must be.
    #[error("{0}")]
    Unreadable(String),
}

/// A named set of changes.
pub trait Profile: Send + Sync {
    /// What is told about it.
    fn about(&self) -> &About;

    /// The kinds it has to do with. They are watched.
    fn uses(&self) -> &[Uses];

    /// What has to be installed, given the options.
    fn prerequisites(&self, options: &ProfileOptions) -> Vec<Prerequisite>;

    /// What it wants, given the options and what there is.
    ///
    /// Called again after everything has been applied it wants the same: nothing here may depend on
    /// whether an item has been carried out, but for impact and message.
    fn intents(&self, options: &ProfileOptions, snapshot: &Snapshot) -> Result<Intents, Refusal>;

    /// The options that want what somebody has set by hand, if there are any.
    fn adopt(&self, options: &ProfileOptions, drift: &Drift) -> Option<ProfileOptions> {
        let _ = (options, drift);
        None
    }
}

/// The profiles that there are.
#[derive(Clone, Default)]
pub struct Registry {
    profiles: Vec<Arc<dyn Profile>>,
}

impl Registry {
    /// A registry of these profiles.
    pub fn new(profiles: Vec<Arc<dyn Profile>>) -> Self {
        Self { profiles }
    }

    /// A profile by name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Profile>> {
        self.profiles
            .iter()
            .find(|profile| profile.about().name == name)
    }

    /// All profiles.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Profile>> {
        self.profiles.iter()
    }
}
